//! The order of `$sort`, `$top` and `$bottom`: paths and directions, and the bytes that
//! sort documents by them.
//!
//! In: `{a: 1, "b.c": -1}`. Out: a key a document, comparable with `memcmp`. An array sorts
//! by its least element where the order ascends and by its greatest where it descends; an
//! empty array sorts before null. (`find` has its own reading of `sort`, with its own
//! errors, in `query`.)

use super::value::corrupt;
use crate::error::{Error, Result};
use bson::{RawBsonRef, RawDocument, RawDocumentBuf};
use meridian_value::key::{self, Direction, TypeBits};
use meridian_value::number::Number;
use meridian_value::path::{self, LeafArrays, Path};
use std::ops::ControlFlow;

/// A sort order.
#[derive(Debug, Clone)]
pub struct SortOrder {
    fields: Vec<(Path, Direction)>,
}

impl SortOrder {
    /// Parses the operand of `$sort`.
    ///
    /// # Errors
    /// 15974 to 15976 for what is no order, and the errors of field paths.
    pub fn parse(order: &RawDocument) -> Result<Self> {
        let mut fields = Vec::new();
        for entry in order.iter() {
            let (key, raw) = entry.map_err(corrupt)?;
            let key = key.as_str();
            if let RawBsonRef::Document(document) = raw {
                let meta = document.get_str("$meta").unwrap_or("");
                return Err(Error::not_implemented(format!(
                    "$sort by {{$meta: \"{meta}\"}}"
                )));
            }
            let Some(direction) = Number::from_raw(raw) else {
                return Err(Error::location(
                    15974,
                    format!(
                        "Illegal key in $sort specification: {}",
                        crate::query::text::element(key, raw)
                    ),
                ));
            };
            let direction = match direction.to_i64_truncated() {
                Some(1) => Direction::Ascending,
                Some(-1) => Direction::Descending,
                _ => {
                    return Err(Error::location(
                        15975,
                        "$sort key ordering must be 1 (for ascending) or -1 (for descending)",
                    ));
                }
            };
            super::expression::parse_field_path(key)?;
            fields.push((Path::parse(key), direction));
        }
        if fields.is_empty() {
            return Err(Error::location(
                15976,
                "$sort stage must have at least one sort key",
            ));
        }
        Ok(Self { fields })
    }

    /// The paths and directions.
    pub fn fields(&self) -> &[(Path, Direction)] {
        &self.fields
    }

    /// The order as a document, for `explain` and for planning.
    pub fn to_document(&self) -> RawDocumentBuf {
        let mut document = RawDocumentBuf::new();
        for (path, direction) in &self.fields {
            let sign = if *direction == Direction::Ascending {
                1
            } else {
                -1
            };
            if let Ok(key) = super::value::field_name(path.as_str()) {
                document.append(key, sign);
            }
        }
        document
    }

    /// The bytes a document sorts by.
    ///
    /// # Errors
    /// `BadValue` where two paths lead through different arrays.
    pub fn key(&self, document: &RawDocument) -> Result<Vec<u8>> {
        let mut out = Vec::with_capacity(16 * self.fields.len());
        let mut types = TypeBits::new();
        if self.fields.len() > 1 {
            check_parallel_arrays(document, &self.fields)?;
        }
        for (path, direction) in &self.fields {
            let value = key_value(document, path, *direction);
            key::encode(value, *direction, &mut out, &mut types);
        }
        Ok(out)
    }
}

/// Refuses a document in which two paths of an order meet different arrays.
fn check_parallel_arrays(document: &RawDocument, fields: &[(Path, Direction)]) -> Result<()> {
    let mut found: Option<&[Box<str>]> = None;
    for (path, _) in fields {
        let Some(array) = first_array(document, path.parts()) else {
            continue;
        };
        if found.is_some_and(|found| found != array) {
            return Err(Error::bad_value(
                "cannot sort with keys that are parallel arrays",
            ));
        }
        found = Some(array);
    }
    Ok(())
}

/// The part of a path that leads to the first array on it.
fn first_array<'p>(document: &RawDocument, parts: &'p [Box<str>]) -> Option<&'p [Box<str>]> {
    let mut document = document;
    for (depth, part) in parts.iter().enumerate() {
        match meridian_value::field::find(document, part.as_bytes())?.value()? {
            RawBsonRef::Array(_) => return Some(&parts[..=depth]),
            RawBsonRef::Document(below) => document = below,
            _ => return None,
        }
    }
    None
}

/// What a document sorts by at a path.
fn key_value<'a>(document: &'a RawDocument, path: &Path, direction: Direction) -> RawBsonRef<'a> {
    let mut best: Option<RawBsonRef<'a>> = None;
    let mut consider = |value: RawBsonRef<'a>| {
        let better = best.is_none_or(|best| {
            let order = meridian_value::compare(value, best);
            if direction == Direction::Ascending {
                order.is_lt()
            } else {
                order.is_gt()
            }
        });
        if better {
            best = Some(value);
        }
    };
    let _ = path::visit(document, path, LeafArrays::Keep, &mut |visited| {
        match visited.value {
            None => consider(RawBsonRef::Null),
            Some(RawBsonRef::Array(array)) => {
                let mut empty = true;
                for item in array.into_iter().flatten() {
                    empty = false;
                    consider(item);
                }
                if empty {
                    consider(RawBsonRef::Undefined);
                }
            }
            Some(value) => consider(value),
        }
        ControlFlow::Continue(())
    });
    best.unwrap_or(RawBsonRef::Null)
}
