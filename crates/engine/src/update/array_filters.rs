//! `arrayFilters`: which elements `$[identifier]` stands for.
//!
//! In: the filters of the command. Out: a filter by identifier. Each filter names one field at
//! its top level, its identifier, which stands for the element.

use super::operators::refuse_contextual;
use super::raw::{Field, as_document, write_document, write_element};
use crate::error::malformed;
use crate::error::{Code, Error, Result};
use crate::query::Filter;
use bson::raw::{RawBsonRef, RawDocument};
use meridian_value::Collation;
use std::collections::BTreeSet;

/// The filters of one update, by identifier.
#[derive(Debug, Default)]
pub(super) struct ArrayFilters(Vec<(Box<str>, Filter)>);

impl ArrayFilters {
    /// Parses the filters.
    ///
    /// # Errors
    /// `FailedToParse` when two share an identifier or one has none; whatever a filter is
    /// refused with.
    pub fn parse(documents: &[&RawDocument], collation: &Collation) -> Result<Self> {
        let mut filters = Self::default();
        for document in documents {
            let (identifier, filter) = parse_filter(document, collation)?;
            if filters.get(&identifier).is_some() {
                return Err(Error::failed_to_parse(format!(
                    "Found multiple array filters with the same top-level field name {identifier}"
                )));
            }
            filters.0.push((identifier, filter));
        }
        Ok(filters)
    }

    fn get(&self, identifier: &str) -> Option<&Filter> {
        self.0
            .iter()
            .find(|(name, _)| **name == *identifier)
            .map(|(_, filter)| filter)
    }

    /// Whether an identifier has a filter.
    pub fn contains(&self, identifier: &str) -> bool {
        self.get(identifier).is_some()
    }

    /// The first identifier that is not in `used`.
    pub fn first_unused(&self, used: &BTreeSet<Box<str>>) -> Option<&str> {
        self.0
            .iter()
            .map(|(name, _)| &**name)
            .find(|name| !used.contains(*name))
    }

    /// Whether `$[identifier]` stands for this element; `$[]`, the empty one, for every element.
    pub fn matches(
        &self,
        identifier: &str,
        element: &Field<'_>,
        scratch: &mut Vec<u8>,
    ) -> Result<bool> {
        if identifier.is_empty() {
            return Ok(true);
        }
        let filter = self
            .get(identifier)
            .expect("parsing found a filter for every identifier");
        scratch.clear();
        write_document(scratch, |out| {
            write_element(out, identifier, element.kind(), element.payload());
        });
        filter.matches(as_document(scratch)?)
    }
}

fn parse_filter(document: &RawDocument, collation: &Collation) -> Result<(Box<str>, Filter)> {
    let filter = refuse_contextual(document)
        .and_then(|()| Filter::parse_by(document, collation))
        .map_err(|error| explained(error.code, &error.message))?;
    let mut identifier = None;
    find_identifier(document, &mut identifier)?;
    let identifier = identifier.ok_or_else(|| {
        Error::failed_to_parse(
            "Cannot use an expression without a top-level field name in arrayFilters",
        )
    })?;
    let mut letters = identifier.chars();
    let is_valid = letters
        .next()
        .is_some_and(|first| first.is_ascii_lowercase())
        && letters.all(|letter| letter.is_ascii_alphanumeric());
    if !is_valid {
        return Err(explained(
            Code::BadValue,
            &format!(
                "The top-level field name must be an alphanumeric string beginning with a lowercase letter, found '{identifier}'"
            ),
        ));
    }
    Ok((identifier.into(), filter))
}

/// Finds the one name that every top-level field path begins with.
fn find_identifier<'a>(document: &'a RawDocument, found: &mut Option<&'a str>) -> Result<()> {
    for element in document.iter() {
        let (name, value) = element.map_err(malformed)?;
        let name = name.as_str();
        match value {
            RawBsonRef::Array(branches) if matches!(name, "$and" | "$or" | "$nor") => {
                for branch in branches.into_iter().flatten() {
                    if let RawBsonRef::Document(branch) = branch {
                        find_identifier(branch, found)?;
                    }
                }
            }
            _ if name.starts_with('$') => (),
            _ => {
                let first = name.split('.').next().unwrap_or_default();
                match found {
                    Some(other) if *other != first => {
                        return Err(explained(
                            Code::FailedToParse,
                            &format!(
                                "Expected a single top-level field name, found '{other}' and '{first}'"
                            ),
                        ));
                    }
                    _ => *found = Some(first),
                }
            }
        }
    }
    Ok(())
}

fn explained(code: Code, message: &str) -> Error {
    Error::new(
        code,
        format!("Error parsing array filter :: caused by :: {message}"),
    )
}
