//! The fields of a stage's operand, as MongoDB's parser of commands reads them.
//!
//! In: the operand. Out: the values of the fields that the stage knows, or MongoDB's error for what is wrong with them.

use crate::error::{Error, Result};
use crate::expression::value::corrupt;
use crate::types::type_name;
use bson::{RawArray, RawBsonRef, RawDocument};
use std::collections::HashSet;

/// The fields of a stage's operand, in the words of MongoDB's parser of commands.
pub(super) struct StageOptions<'n> {
    pub stage: &'n str,
    /// Each with the types that it may have; any where there is none.
    pub names: &'n [(&'n str, &'n [&'n str])],
    pub required: &'n [&'n str],
}

impl StageOptions<'_> {
    /// The values of the names; none for one that is absent, or null unless it may be anything.
    ///
    /// # Errors
    /// `FailedToParse` for what is no object, 40415 for other fields, 40413 for one twice, `TypeMismatch`, and 40414
    /// where one is required.
    pub fn parse<'a>(&self, raw: RawBsonRef<'a>) -> Result<Vec<Option<RawBsonRef<'a>>>> {
        let RawBsonRef::Document(document) = raw else {
            // So MongoDB writes it.
            let article = if self.stage == "$setWindowFields" {
                "the"
            } else {
                "The"
            };
            return Err(Error::failed_to_parse(format!(
                "{article} {} stage specification must be an object, found {}",
                self.stage,
                type_name(raw.element_type())
            )));
        };
        self.parse_document(document)
    }

    /// As [`Self::parse`], of a document.
    ///
    /// # Errors
    /// As [`Self::parse`].
    pub fn parse_document<'a>(
        &self,
        document: &'a RawDocument,
    ) -> Result<Vec<Option<RawBsonRef<'a>>>> {
        let stage = self.stage;
        let mut values = vec![None; self.names.len()];
        for entry in document.iter() {
            let (key, raw) = entry.map_err(corrupt)?;
            let key = key.as_str();
            let Some(place) = self.names.iter().position(|(name, _)| *name == key) else {
                return Err(Error::location(
                    40415,
                    format!("BSON field '{stage}.{key}' is an unknown field."),
                ));
            };
            if values[place].is_some() {
                return Err(Error::location(
                    40413,
                    format!("BSON field '{stage}.{key}' is a duplicate field"),
                ));
            }
            let types = self.names[place].1;
            if types.contains(&"array") && raw == RawBsonRef::Null {
                let message = format!("invalid parameter: expected an object ({key})");
                return Err(Error::location(10065, message));
            }
            if !types.is_empty() && matches!(raw, RawBsonRef::Null | RawBsonRef::Undefined) {
                continue;
            }
            let found = type_name(raw.element_type());
            if !types.is_empty() && !types.contains(&found) {
                let expected = match types {
                    [only] => format!("type '{only}'"),
                    several => format!("types '[{}']", several.join(", ")),
                };
                return Err(Error::type_mismatch(format!(
                    "BSON field '{stage}.{key}' is the wrong type '{found}', expected {expected}"
                )));
            }
            values[place] = Some(raw);
        }
        for (value, (name, _)) in values.iter().zip(self.names) {
            if value.is_none() && self.required.contains(name) {
                return Err(Error::location(
                    40414,
                    format!("BSON field '{stage}.{name}' is missing but a required field"),
                ));
            }
        }
        Ok(values)
    }

    /// The texts of a field that is a list of them.
    ///
    /// # Errors
    /// `TypeMismatch` for any other item.
    pub fn texts<'a>(&self, name: &str, array: &'a RawArray) -> Result<Vec<&'a str>> {
        let items = array.into_iter().enumerate();
        let texts = items.map(|(place, item)| match item.map_err(corrupt)? {
            RawBsonRef::String(text) => Ok(text),
            other => Err(Error::type_mismatch(format!(
                "BSON field '{}.{name}.{place}' is the wrong type '{}', expected type 'string'",
                self.stage,
                type_name(other.element_type())
            ))),
        });
        texts.collect()
    }
}

/// Stages that name collections, databases or users: what a field says that is given twice must not depend on who reads it.
const READ_BY_OTHERS: [&str; 7] = [
    "$lookup",
    "$graphLookup",
    "$unionWith",
    "$merge",
    "$out",
    "$collStats",
    "$geoNear",
];

/// Refuses a field given twice in the options of a stage whose privileges are asked for by its fields.
///
/// # Errors
/// 40413.
pub(super) fn refuse_doubled(stage: &str, options: RawBsonRef<'_>) -> Result<()> {
    let RawBsonRef::Document(options) = options else {
        return Ok(());
    };
    if !READ_BY_OTHERS.contains(&stage) {
        return Ok(());
    }
    refuse_doubled_fields(stage, options)?;
    match options.get("into") {
        Ok(Some(RawBsonRef::Document(into))) => refuse_doubled_fields("$merge.into", into),
        _ => Ok(()),
    }
}

/// Refuses a field given twice in a document.
///
/// # Errors
/// 40413.
pub fn refuse_doubled_fields(scope: &str, options: &RawDocument) -> Result<()> {
    let mut seen = HashSet::new();
    for (name, _) in options.iter().flatten() {
        if !seen.insert(name.as_str()) {
            let message = format!("BSON field '{scope}.{name}' is a duplicate field");
            return Err(Error::location(40413, message));
        }
    }
    Ok(())
}
