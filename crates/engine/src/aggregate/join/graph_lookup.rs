//! `$graphLookup`: an array of the documents of another collection that are reached from a document, step by step.

use super::{Foreign, encoded, for_each_value};
use crate::aggregate::pipeline::Pipeline;
use crate::aggregate::stage::Stage;
use crate::aggregate::unwind::set_at;
use crate::error::{Error, Result};
use crate::expression::value::{corrupt, field_name};
use crate::expression::{Expression, FieldSet, VariableScope, Variables, parse_field_path};
use crate::operation::memory::Reservation;
use crate::query::{Filter, ParseContext};
use crate::sorter::STAGE_BYTES_MAX;
use crate::types::type_name;
use bson::raw::{RawArrayBuf, RawBsonRef, RawDocument, RawDocumentBuf};
use bson::rawdoc;
use meridian_value::Collation;
use meridian_value::number::Number;
use meridian_value::path::Path;
use std::collections::HashSet;

/// A parsed `$graphLookup`.
#[derive(Debug, Clone)]
pub struct GraphLookup {
    collection: String,
    start: Expression,
    /// What leads from a document to others.
    connect_from: Path,
    /// What others are found by.
    connect_to: String,
    array: Box<[Box<str>]>,
    depth_max: Option<u64>,
    depth_field: Option<Box<[Box<str>]>>,
    restriction: Option<Filter>,
}

impl GraphLookup {
    /// Parses the operand.
    ///
    /// # Errors
    /// `FailedToParse` and 40100 to 40105, those of field paths and of the filter.
    pub fn parse(raw: RawBsonRef<'_>, scope: &VariableScope) -> Result<Self> {
        let RawBsonRef::Document(options) = raw else {
            return Err(Error::failed_to_parse(format!(
                "the $graphLookup stage specification must be an object, but found {}",
                type_name(raw.element_type())
            )));
        };
        let collection = match options.get("from").map_err(corrupt)? {
            None => {
                return Err(Error::failed_to_parse(format!(
                    "missing 'from' option to $graphLookup stage specification: {}",
                    crate::text::document_text(options)
                )));
            }
            Some(RawBsonRef::String(name)) => name.to_owned(),
            Some(other) => {
                return Err(Error::failed_to_parse(format!(
                    "$graphLookup 'from' field must be a string, but found {}",
                    type_name(other.element_type())
                )));
            }
        };
        let mut parts = Parts::default();
        for entry in options.iter() {
            let (name, value) = entry.map_err(corrupt)?;
            parts.take(name.as_str(), value, scope)?;
        }
        let missing = || {
            Error::location(
                40105,
                "$graphLookup requires 'from', 'as', 'startWith', 'connectFromField', and 'connectToField' to be \
                 specified.",
            )
        };
        let connect_from = parts.connect_from.ok_or_else(missing)?;
        let connect_to = parts.connect_to.ok_or_else(missing)?;
        Ok(Self {
            collection,
            start: parts.start.ok_or_else(missing)?,
            connect_from: Path::parse(&connect_from),
            connect_to,
            array: parse_field_path(&parts.array.ok_or_else(missing)?)?,
            depth_max: parts.depth_max,
            depth_field: parts
                .depth_field
                .map(|path| parse_field_path(&path))
                .transpose()?,
            restriction: parts.restriction,
        })
    }

    /// The other collection.
    pub fn collection(&self) -> &str {
        &self.collection
    }

    /// The fields of the input that are read.
    pub fn needs(&self) -> FieldSet {
        self.start.dependencies()
    }

    /// The document with what is reached from it.
    ///
    /// # Errors
    /// 40271 for a document without `_id`, 40099 when too much is reached; those of the storage.
    pub fn apply(
        &self,
        document: &RawDocument,
        foreign: &dyn Foreign,
        variables: &Variables,
    ) -> Result<RawDocumentBuf> {
        let mut search = Search::new(variables.collation().clone());
        let start = self.start.evaluate_raw(document, variables)?;
        match start.as_ref().map(bson::RawBson::as_raw_bson_ref) {
            Some(RawBsonRef::Array(items)) => {
                for item in items {
                    search.go_to(item.map_err(corrupt)?);
                }
            }
            Some(value) => search.go_to(value),
            None => {}
        }
        let mut depth = 0;
        while search.has_frontier() && self.depth_max.is_none_or(|most| depth <= most) {
            self.step(&mut search, depth, foreign, variables)?;
            depth += 1;
        }
        set_at(
            document,
            &self.array,
            Some(RawBsonRef::Array(&search.reached)),
        )
    }

    fn step(
        &self,
        search: &mut Search,
        depth: u64,
        foreign: &dyn Foreign,
        variables: &Variables,
    ) -> Result<()> {
        let frontier = std::mem::take(&mut search.frontier);
        // A null leads to what is null, not to what is not there.
        let condition = rawdoc! { "$in": frontier, "$exists": true };
        let mut filter = RawDocumentBuf::new();
        filter.append(field_name(&self.connect_to)?, condition);
        let filter = Filter::parse_by(&filter, variables.collation())?;
        let mut conditions = vec![Stage::Match(filter)];
        conditions.extend(self.restriction.clone().map(Stage::Match));
        let pipeline = Pipeline {
            stages: conditions,
            ..Pipeline::default()
        };
        for found in foreign.run(Some(&self.collection), pipeline, variables)? {
            let found = found?;
            let Some(id) = found.get("_id").map_err(corrupt)? else {
                return Err(Error::location(
                    40271,
                    format!(
                        "Documents in the '{}' namespace must contain an _id for de-duplication in $graphLookup",
                        self.collection
                    ),
                ));
            };
            if !search.ids.insert(encoded(id, &search.collation)) {
                continue;
            }
            let mut go_to = |value: RawBsonRef<'_>| search.go_to(value);
            for_each_value(&found, self.connect_from.parts(), &mut go_to);
            search.add(&self.with_depth(found, depth)?)?;
        }
        Ok(())
    }

    fn with_depth(&self, found: RawDocumentBuf, depth: u64) -> Result<RawDocumentBuf> {
        match &self.depth_field {
            None => Ok(found),
            Some(path) => {
                let depth = RawBsonRef::Int64(i64::try_from(depth).unwrap_or(i64::MAX));
                set_at(&found, path, Some(depth))
            }
        }
    }
}

/// What was reached from one document, and where to go from there.
struct Search {
    collation: Collation,
    /// Values to look for next.
    frontier: RawArrayBuf,
    frontier_count: usize,
    /// Values that were looked for, or will be.
    known: HashSet<Vec<u8>>,
    /// Documents that were reached.
    ids: HashSet<Vec<u8>>,
    reached: RawArrayBuf,
    memory: Reservation,
}

impl Search {
    fn new(collation: Collation) -> Self {
        Self {
            collation,
            frontier: RawArrayBuf::new(),
            frontier_count: 0,
            known: HashSet::new(),
            ids: HashSet::new(),
            reached: RawArrayBuf::new(),
            memory: Reservation::default(),
        }
    }

    fn go_to(&mut self, value: RawBsonRef<'_>) {
        if self.known.insert(encoded(value, &self.collation)) {
            self.frontier.push(value);
            self.frontier_count += 1;
        }
    }

    fn has_frontier(&mut self) -> bool {
        std::mem::take(&mut self.frontier_count) > 0
    }

    fn add(&mut self, document: &RawDocument) -> Result<()> {
        self.reached.push(document);
        let bytes = self.reached.as_bytes().len();
        if bytes > STAGE_BYTES_MAX {
            return Err(Error::location(
                40099,
                "$graphLookup reached maximum memory consumption",
            ));
        }
        self.memory.grow(2 * bytes)
    }
}

/// The operand's fields.
#[derive(Default)]
struct Parts {
    start: Option<Expression>,
    connect_from: Option<String>,
    connect_to: Option<String>,
    array: Option<String>,
    depth_max: Option<u64>,
    depth_field: Option<String>,
    restriction: Option<Filter>,
}

impl Parts {
    fn take(&mut self, name: &str, value: RawBsonRef<'_>, scope: &VariableScope) -> Result<()> {
        let place = match name {
            "from" => return Ok(()),
            "startWith" => {
                self.start = Some(Expression::parse(value, scope)?);
                return Ok(());
            }
            "maxDepth" => {
                self.depth_max = Some(depth_max(value)?);
                return Ok(());
            }
            "restrictSearchWithMatch" => {
                let RawBsonRef::Document(filter) = value else {
                    let found = type_name(value.element_type());
                    let message =
                        format!("restrictSearchWithMatch must be an object, found {found}");
                    return Err(Error::location(40185, message));
                };
                let context = ParseContext {
                    scope: scope.clone(),
                    variables: Some(scope.variables(bson::DateTime::now())),
                    allows_near: false,
                    allows_where: false,
                    allows_text: false,
                };
                let filter = Filter::parse_with(filter, &context).map_err(|error| {
                    error.within("Failed to parse 'restrictSearchWithMatch' option to $graphLookup")
                })?;
                self.restriction = Some(filter);
                return Ok(());
            }
            "connectFromField" => &mut self.connect_from,
            "connectToField" => &mut self.connect_to,
            "as" => &mut self.array,
            "depthField" => &mut self.depth_field,
            unknown => {
                return Err(Error::location(
                    40104,
                    format!("Unknown argument to $graphLookup: {unknown}"),
                ));
            }
        };
        let RawBsonRef::String(text) = value else {
            let found = type_name(value.element_type());
            let message = format!("expected string as argument for {name}, found: {found}");
            return Err(Error::location(40103, message));
        };
        parse_field_path(text)?;
        *place = Some(text.to_owned());
        Ok(())
    }
}

fn depth_max(value: RawBsonRef<'_>) -> Result<u64> {
    let Some(number) = Number::from_raw(value) else {
        let found = type_name(value.element_type());
        let message = format!("maxDepth must be numeric, found type: {found}");
        return Err(Error::location(40100, message));
    };
    let Some(whole) = number.to_i64_exact() else {
        let shown = number.to_i64_truncated().unwrap_or(i64::MAX);
        let message = format!("maxDepth could not be represented as a long long: {shown}");
        return Err(Error::location(40102, message));
    };
    u64::try_from(whole).map_err(|_| {
        let message = format!("maxDepth requires a nonnegative argument, found: {whole}");
        Error::location(40101, message)
    })
}
