//! `distinct`: the values at a path, each once.

use super::Engine;
use super::read::query_spec;
use super::requests::{DistinctRequest, FindRequest};
use crate::aggregate::FieldSet;
use crate::error::{Code, Error, Result};
use crate::namespace::Namespace;
use crate::plan::QuerySpec;
use bson::raw::{RawArrayBuf, RawBsonRef, RawDocument};
use meridian_value::field::find;
use meridian_value::key::{Direction, TypeBits, encode};
use meridian_value::path::{Path, elements};
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
        let spec = distinct_spec(request)?;
        let mut array = RawArrayBuf::new();
        let Some(prepared) = self.prepare(namespace, spec)? else {
            return Ok(array);
        };
        let mut rows = prepared.rows()?;
        let path = Path::parse(request.key);
        let mut values: BTreeMap<Vec<u8>, bson::RawBson> = BTreeMap::new();
        let mut bytes = 0;
        let within = |error: Error| error.within("Executor error during distinct command");
        while rows.advance().map_err(within)? {
            values_at(
                rows.row().document,
                path.parts(),
                path.positions(),
                &mut |value| {
                    let mut key = Vec::new();
                    encode(value, Direction::Ascending, &mut key, &mut TypeBits::new());
                    values.entry(key).or_insert_with_key(|key| {
                        bytes += key.len();
                        value.into()
                    });
                },
            );
            if bytes > DISTINCT_BYTES_MAX {
                return Err(Error::location(17217, "distinct too big, 16mb cap"));
            }
        }
        for value in values.into_values() {
            array.push(value);
        }
        Ok(array)
    }
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
        hint: request.hint,
        ..FindRequest::new(request.filter)
    })?;
    spec.needs = FieldSet::none();
    spec.needs.add(request.key);
    Ok(spec)
}
