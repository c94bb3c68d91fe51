//! `min` and `max` of a find: bounds of whole keys of the index that its hint names.
//!
//! They play no part for the filter, which is tested on what lies within. Keys are compared as they lie in the index, from one
//! field to the next, so the bounds are a range of bytes.

use super::candidate::{Candidate, ids_within, keys_within};
use super::choose::hinted_index;
use super::{Hint, QuerySpec};
use crate::catalog::Collection;
use crate::error::{Code, Error, Result};
use crate::index::bounds::{ByteRange, End, FieldBounds, Interval, Tightness};
use bson::Bson;
use bson::raw::{RawDocument, RawDocumentBuf};
use meridian_value::Collation;
use meridian_value::key::{Direction, TypeBits};

/// The first key, and the first one behind those that are wanted; empty for none.
#[derive(Debug, Clone)]
pub struct KeyBounds {
    min: RawDocumentBuf,
    max: RawDocumentBuf,
}

impl KeyBounds {
    /// Reads both; `None` where there is neither.
    ///
    /// # Errors
    /// 51176 where they have other fields.
    pub fn parse(min: Option<&RawDocument>, max: Option<&RawDocument>) -> Result<Option<Self>> {
        let own = |bound: Option<&RawDocument>| bound.map(ToOwned::to_owned).unwrap_or_default();
        let bounds = Self {
            min: own(min),
            max: own(max),
        };
        let names = |bound: &RawDocument| -> Vec<String> {
            let fields = bound.iter().flatten();
            fields.map(|(name, _)| name.to_string()).collect()
        };
        match (bounds.min.is_empty(), bounds.max.is_empty()) {
            (true, true) => Ok(None),
            (false, false) if names(&bounds.min) != names(&bounds.max) => Err(Error::location(
                51176,
                "min and max must have the same field names",
            )),
            _ => Ok(Some(bounds)),
        }
    }

    /// The access path.
    ///
    /// # Errors
    /// 51173 without a hint, 291 for `$natural`, 51174 for an index with other fields or another collation, 51175 where
    /// `max` is not behind `min`.
    pub(super) fn candidate(
        &self,
        collection: &Collection,
        query: &QuerySpec,
    ) -> Result<Candidate> {
        let hint = match &query.hint {
            None => {
                let message =
                    "When using min()/max() a hint of which index to use must be provided";
                return Err(refused(Code::Location(51173), message));
            }
            Some(Hint::Natural(_)) => {
                let message = "min and max are incompatible with $natural";
                return Err(refused(Code::NoQueryExecutionPlans, message));
            }
            Some(hint) => hint,
        };
        if query.nearest.is_some() {
            return Err(Error::not_implemented("min or max beside $near"));
        }
        let Some(index) = hinted_index(collection, hint)? else {
            let ids = &collection.options.collation;
            self.check(&["_id"], ids, query)?;
            self.range(&[Direction::Ascending], ids)?;
            return Ok(ids_within(query, self.id_bounds(ids)));
        };
        if index.spec.wildcard.is_some() {
            let message = "The index chosen is not compatible with min/max";
            return Err(refused(Code::Location(51174), message));
        }
        if index.spec.key.iter().any(|(_, field)| field.is_located()) {
            return Err(Error::not_implemented(
                "min or max of an index of locations",
            ));
        }
        let names: Vec<&str> = index
            .spec
            .key
            .iter()
            .map(|(path, _)| path.as_str())
            .collect();
        let directions: Vec<Direction> = index.layout.directions().collect();
        self.check(&names, &index.spec.collation, query)?;
        let range = self.range(&directions, &index.spec.collation)?;
        Ok(keys_within(index, query, range))
    }

    /// Checks that the index has the fields of the bounds, and compares texts as the query does.
    fn check(&self, names: &[&str], collation: &Collation, query: &QuerySpec) -> Result<()> {
        let given = || {
            [&self.min, &self.max]
                .into_iter()
                .filter(|own| !own.is_empty())
        };
        let has_names = given().all(|bound| {
            let own = bound.iter().flatten().map(|(name, _)| name);
            own.eq(names.iter().copied())
        });
        let mut values = given().flat_map(|bound| bound.iter().flatten());
        let may_hold_texts = |value| {
            matches!(
                value,
                bson::RawBsonRef::String(_)
                    | bson::RawBsonRef::Symbol(_)
                    | bson::RawBsonRef::Document(_)
                    | bson::RawBsonRef::Array(_)
            )
        };
        let has_texts = values.any(|(_, value)| may_hold_texts(value));
        match has_names && (!has_texts || *collation == query.collation) {
            true => Ok(()),
            false => Err(refused(
                Code::Location(51174),
                "The index chosen is not compatible with min/max",
            )),
        }
    }

    /// The bounds as bytes of keys.
    fn range(&self, directions: &[Direction], collation: &Collation) -> Result<ByteRange> {
        let encode = |bound: &RawDocument| {
            let mut key = Vec::new();
            for ((_, value), direction) in bound.iter().flatten().zip(directions) {
                collation.encode(value, *direction, &mut key, &mut TypeBits::new());
            }
            key
        };
        // As in MongoDB the last value of all lies behind an end that nobody gives.
        let mut last = Vec::new();
        for direction in directions {
            let value = match direction {
                Direction::Ascending => bson::RawBsonRef::MaxKey,
                Direction::Descending => bson::RawBsonRef::MinKey,
            };
            collation.encode(value, *direction, &mut last, &mut TypeBits::new());
        }
        let range = ByteRange {
            start: encode(&self.min),
            end: match self.max.is_empty() {
                true => last,
                false => encode(&self.max),
            },
        };
        match range.start < range.end {
            true => Ok(range),
            false => Err(refused(
                Code::Location(51175),
                "The value provided for min() does not come before the value provided for max() in the hinted index",
            )),
        }
    }

    /// The bounds of the only field, `_id`.
    fn id_bounds(&self, ids: &Collation) -> FieldBounds {
        let end = |bound: &RawDocument, otherwise: Bson, inclusive: bool| {
            let value = bound.iter().flatten().next().map(|(_, value)| value);
            match value.and_then(|value| Bson::try_from(value).ok()) {
                Some(value) => End::new(value, inclusive, ids),
                None => End::new(otherwise, inclusive, ids),
            }
        };
        let interval = Interval::new(
            end(&self.min, Bson::MinKey, true),
            end(&self.max, Bson::MaxKey, false),
        );
        FieldBounds::new(vec![interval], Tightness::Exact)
    }
}

fn refused(code: Code, message: &str) -> Error {
    let message =
        format!("error processing query: planner returned error :: caused by :: {message}");
    Error::new(code, message)
}
