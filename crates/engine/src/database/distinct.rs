//! `distinct`: the values at a path, each once. From an index that has them in order they come straight,
//! else every row is looked at.

use super::Engine;
use super::read::{PreparedPlan, query_spec};
use super::requests::{DistinctRequest, FindRequest};
use crate::error::{Code, Error, Result};
use crate::expression::{FieldSet, check_path_length};
use crate::namespace::Namespace;
use crate::plan::{Goal, Method, QuerySpec, refuse_without_collection};
use bson::raw::{RawArrayBuf, RawBsonRef, RawDocument, RawDocumentBuf, cstr};
use meridian_value::field::find;
use meridian_value::key::{Direction, TypeBits};
use meridian_value::path::{Path, elements};
use meridian_value::{Collation, with_raw};
use std::collections::BTreeMap;

/// Bytes that the values of a `distinct` may have: MongoDB's limit, the size of a reply.
const DISTINCT_BYTES_MAX: usize = 16 * 1024 * 1024;

impl Engine {
    /// The distinct values at a path, ascending.
    ///
    /// # Errors
    /// As [`Self::find`]; 17217 when the values exceed 16 MiB.
    pub fn distinct(
        &self,
        namespace: &Namespace,
        request: &DistinctRequest<'_>,
    ) -> Result<RawArrayBuf> {
        if self.catalog.view(namespace).is_some() {
            refuse_without_collection(namespace, &distinct_spec(request)?.filter)?;
            return self.distinct_on_view(namespace, request);
        }
        check_path_length(request.key.split('.').count())?;
        let collation = self.collation_of(namespace, request.collation.as_ref());
        let request = &DistinctRequest {
            collation: Some(collation.clone()),
            ..request.clone()
        };
        let (spec, goal) = (
            distinct_spec(request)?,
            Goal::Distinct(request.key.to_owned()),
        );
        let mut values = DistinctValues::new(collation);
        if let Some(prepared) = self.start(namespace, spec, &goal)? {
            match &prepared.plan.method {
                Method::SkipScan(field) => {
                    let mut add = |value: &bson::Bson| with_raw(value, |raw| values.add(raw));
                    prepared.distinct_values(field, &mut add)?;
                }
                _ => distinct_by_rows(&prepared, request.key, &mut values)?,
            }
        }
        Ok(values.into_array())
    }
}

/// Looks at every row.
fn distinct_by_rows(prepared: &PreparedPlan, key: &str, values: &mut DistinctValues) -> Result<()> {
    let mut rows = prepared.rows()?;
    let path = Path::parse(key);
    let within = |error: Error| error.within("Executor error during distinct command");
    while rows.advance().map_err(within)? {
        values_of(rows.row().document, &path, values)?;
    }
    Ok(())
}

/// Adds the values of one document.
pub(super) fn values_of(
    document: &RawDocument,
    path: &Path,
    values: &mut DistinctValues,
) -> Result<()> {
    let mut added = Ok(());
    values_at(document, path.parts(), path.positions(), &mut |value| {
        if added.is_ok() {
            added = values.add(value);
        }
    });
    added
}

/// The values found, each once, in order.
pub(super) struct DistinctValues {
    collation: Collation,
    found: BTreeMap<Vec<u8>, bson::RawBson>,
    bytes: usize,
}

impl DistinctValues {
    /// None yet; of values that the collation finds equal the first is kept.
    pub fn new(collation: Collation) -> Self {
        Self {
            collation,
            found: BTreeMap::new(),
            bytes: 0,
        }
    }

    pub fn into_array(self) -> RawArrayBuf {
        let mut array = RawArrayBuf::new();
        for value in self.found.into_values() {
            array.push(value);
        }
        array
    }

    /// Adds a value unless one that equals it is there.
    fn add(&mut self, value: RawBsonRef<'_>) -> Result<()> {
        let mut key = Vec::new();
        self.collation
            .encode(value, Direction::Ascending, &mut key, &mut TypeBits::new());
        let count = self.found.len();
        self.found.entry(key).or_insert_with(|| {
            self.bytes += element_bytes(count, value);
            value.into()
        });
        if self.bytes > DISTINCT_BYTES_MAX {
            return Err(Error::location(17217, "distinct too big, 16mb cap"));
        }
        Ok(())
    }
}

/// What a value takes as this element of an array.
fn element_bytes(index: usize, value: RawBsonRef<'_>) -> usize {
    // A document of one field without a name: five bytes around its type, an empty name and the value.
    let mut alone = RawDocumentBuf::new();
    alone.append(cstr!(""), value);
    let digits = index.checked_ilog10().map_or(1, |tens| tens as usize + 1);
    alone.as_bytes().len() - 5 + digits
}

/// Calls `add` with each value at a path. Not as a filter looks: a number behind an array is a position
/// and never also a name inside its documents. Source: `extractAllElementsAlongPath` of MongoDB 6.0.
fn values_at<'a>(
    document: &'a RawDocument,
    parts: &[Box<str>],
    positions: &[Option<usize>],
    add: &mut dyn FnMut(RawBsonRef<'a>),
) {
    let [name, rest @ ..] = parts else { return };
    let Some(value) = find(document, name.as_bytes()).and_then(|field| field.value()) else {
        return;
    };
    values_below(value, rest, &positions[1..], add);
}

fn values_below<'a>(
    value: RawBsonRef<'a>,
    parts: &[Box<str>],
    positions: &[Option<usize>],
    add: &mut dyn FnMut(RawBsonRef<'a>),
) {
    match value {
        RawBsonRef::Array(array) if parts.is_empty() => {
            elements(array).for_each(|(_, element)| add(element));
        }
        _ if parts.is_empty() => add(value),
        RawBsonRef::Document(inner) => values_at(inner, parts, positions, add),
        RawBsonRef::Array(array) => {
            for (index, element) in elements(array) {
                match (positions[0], element) {
                    (Some(wanted), _) if wanted == index => {
                        values_below(element, &parts[1..], &positions[1..], add);
                    }
                    (None, RawBsonRef::Document(inner)) => values_at(inner, parts, positions, add),
                    _ => {}
                }
            }
        }
        _ => {}
    }
}

pub(crate) fn distinct_spec(request: &DistinctRequest<'_>) -> Result<QuerySpec> {
    if request.key.contains('\0') {
        return Err(Error::new(
            Code::BadValue,
            "Key field cannot contain an embedded null byte",
        ));
    }
    let mut spec = query_spec(&FindRequest {
        collation: request.collation.clone(),
        hint: request.hint,
        ..FindRequest::new(request.filter)
    })?;
    spec.needs = FieldSet::none();
    spec.needs.add(request.key);
    spec.distinct = Some(request.key.to_owned());
    Ok(spec)
}
