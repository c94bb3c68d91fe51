//! What a wildcard index reads of documents: everything, everything below a path, or what a projection says.
//!
//! In: the key pattern and `wildcardProjection`. Out: a [`WildcardScope`], which tells for a path whether it is indexed.
//! Errors are those of MongoDB's projections without computed fields.

use super::cannot_create;
use crate::expression::parse_field_path;
use crate::types::type_name;
use crate::{Code, Error, Result};
use bson::raw::{RawBsonRef, RawDocument};
use meridian_value::number::Number;
use std::collections::BTreeMap;

/// The name of a key pattern that stands for all fields.
pub const ALL_FIELDS: &str = "$**";

/// Which parts of a document are indexed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WildcardScope {
    /// Whether what is named is left out, or all else is.
    excludes: bool,
    named: PathTree,
    /// Whether `_id` is indexed.
    has_id: bool,
}

/// Paths that are named, as a tree of their parts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PathTree(BTreeMap<Box<str>, Option<PathTree>>);

/// What the scope says of a field.
#[derive(Debug, Clone, Copy)]
pub enum InScope<'s> {
    /// All of it is indexed.
    Whole,
    /// Nothing of it is.
    Nothing,
    /// What the tree says of the fields within.
    Within(&'s PathTree),
}

/// Whether a field of a key pattern stands for many: `$**`, or `path.$**`.
pub fn is_wildcard(path: &str) -> bool {
    path == ALL_FIELDS || path.ends_with(".$**")
}

impl WildcardScope {
    /// The scope of a key pattern's field, and of the projection beside it.
    ///
    /// # Errors
    /// `FailedToParse`, `TypeMismatch`, and the codes of projections.
    pub(super) fn parse(pattern: &str, projection: Option<RawBsonRef<'_>>) -> Result<Self> {
        let below = pattern.strip_suffix(".$**");
        let Some(value) = projection else {
            return Ok(match below {
                Some(path) => Self::below(path),
                None => Self::all(),
            });
        };
        let RawBsonRef::Document(document) = value else {
            let found = type_name(value.element_type());
            return Err(Error::type_mismatch(format!(
                "The field 'wildcardProjection' must be a non-empty object, but got {found}"
            )));
        };
        if below.is_some() {
            return Err(Error::failed_to_parse(
                "The field 'wildcardProjection' is only allowed when 'key' is {\"$**\": ±1}",
            ));
        }
        if document.is_empty() {
            return Err(Error::failed_to_parse(
                "The 'wildcardProjection' field can't be an empty object",
            ));
        }
        let parsed = ScopeParser::default().parse(document);
        parsed.map_err(|error| error.within("Failed to parse: wildcardProjection"))
    }

    fn all() -> Self {
        Self {
            excludes: true,
            named: PathTree::default(),
            has_id: false,
        }
    }

    fn below(path: &str) -> Self {
        let mut named = PathTree::default();
        let parts: Vec<&str> = path.split('.').collect();
        named.insert(&parts);
        Self {
            excludes: false,
            has_id: parts[0] == "_id",
            named,
        }
    }

    /// The only top-level field that is read, if it is one.
    pub fn only_field(&self) -> Option<&str> {
        let mut names = self.named.0.keys();
        let first = names.next().map(|name| &**name);
        let is_only =
            !self.excludes && names.next().is_none() && (!self.has_id || first == Some("_id"));
        first.filter(|_| is_only)
    }

    /// What is indexed of a top-level field.
    pub fn field(&self, name: &str) -> InScope<'_> {
        if name == "_id" && !self.named.0.contains_key("_id") {
            return if self.has_id {
                InScope::Whole
            } else {
                InScope::Nothing
            };
        }
        if name == "_id" && !self.has_id {
            return InScope::Nothing;
        }
        self.within(&self.named, name)
    }

    /// What is indexed of a field within another, of which the tree says more.
    pub fn within<'s>(&'s self, tree: &'s PathTree, name: &str) -> InScope<'s> {
        match (tree.0.get(name), self.excludes) {
            (Some(Some(below)), _) => InScope::Within(below),
            (Some(None), true) | (None, false) => InScope::Nothing,
            (Some(None), false) | (None, true) => InScope::Whole,
        }
    }

    /// Whether values that are no documents are kept where more is said of what lies within.
    pub fn keeps_scalars(&self) -> bool {
        self.excludes
    }

    /// Whether all of what lies at a path is indexed.
    pub fn holds(&self, path: &str) -> bool {
        let mut parts = path.split('.');
        let mut found = self.field(parts.next().unwrap_or_default());
        for part in parts {
            match found {
                InScope::Within(tree) => found = self.within(tree, part),
                found => return matches!(found, InScope::Whole),
            }
        }
        // Of a document of which only parts are left out the path itself is indexed.
        matches!(found, InScope::Whole) || (self.excludes && matches!(found, InScope::Within(_)))
    }
}

impl PathTree {
    /// Adds a path; false where it, or one that it begins with, is there.
    fn insert(&mut self, parts: &[&str]) -> bool {
        let (first, rest) = (parts[0], &parts[1..]);
        match (self.0.get_mut(first), rest.is_empty()) {
            (None, true) => {
                self.0.insert(first.into(), None);
                true
            }
            (None, false) => {
                let mut below = PathTree::default();
                below.insert(rest);
                self.0.insert(first.into(), Some(below));
                true
            }
            (Some(Some(below)), false) => below.insert(rest),
            _ => false,
        }
    }
}

/// Reads `{a: 1, "b.c": 1, d: {e: 1}}`.
#[derive(Default)]
struct ScopeParser {
    excludes: Option<bool>,
    named: PathTree,
    id: Option<bool>,
}

impl ScopeParser {
    fn parse(mut self, document: &RawDocument) -> Result<WildcardScope> {
        self.fields(document, &mut Vec::new())?;
        let id = self.id;
        // `_id` alone says what is done with all.
        let excludes = self.excludes.unwrap_or(id == Some(false));
        let names_id = self.named.0.contains_key("_id");
        let has_id = match (id, names_id) {
            (Some(id), _) => id,
            (None, true) => !excludes,
            (None, false) => false,
        };
        Ok(WildcardScope {
            excludes,
            named: self.named,
            has_id,
        })
    }

    fn fields(&mut self, document: &RawDocument, prefix: &mut Vec<String>) -> Result<()> {
        for field in document.iter() {
            let (name, value) = field.map_err(crate::error::malformed)?;
            let name = name.as_str();
            if name.split('.').any(|part| part == "$") {
                return Err(Error::location(
                    31324,
                    "Cannot use positional projection in aggregation projection",
                ));
            }
            parse_field_path(name)?;
            prefix.push(name.to_owned());
            self.value(value, prefix)?;
            prefix.pop();
        }
        Ok(())
    }

    fn value(&mut self, value: RawBsonRef<'_>, path: &mut Vec<String>) -> Result<()> {
        let includes = match value {
            RawBsonRef::Boolean(value) => value,
            RawBsonRef::Document(document) => return self.document(document, path),
            value => match Number::from_raw(value) {
                Some(number) => !number.is_zero(),
                None => {
                    return Err(Error::location(
                        51271,
                        "Bad projection specification, cannot use computed fields when parsing a spec in \
                         kBanComputedFields mode",
                    ));
                }
            },
        };
        let name = path.last().map_or("", String::as_str).to_owned();
        self.add(&path.join("."), &name, includes)
    }

    fn document(&mut self, document: &RawDocument, path: &mut Vec<String>) -> Result<()> {
        let Some(Ok((first, _))) = document.iter().next() else {
            return Err(Error::location(
                51270,
                "An empty sub-projection is not a valid value. Found empty object at path",
            ));
        };
        match first.as_str() {
            "$elemMatch" => Err(Error::new(
                Code::InvalidPipelineOperator,
                "Cannot use $elemMatch in this context",
            )),
            name if name.starts_with('$') && !crate::expression::is_operator(name) => {
                let message = format!("Unknown expression {name}");
                Err(Error::location(31325, message))
            }
            name if name.starts_with('$') => Err(Error::location(
                51271,
                "Bad projection specification, cannot use computed fields when parsing a spec in kBanComputedFields \
                 mode",
            )),
            _ => self.fields(document, path),
        }
    }

    fn add(&mut self, path: &str, name: &str, includes: bool) -> Result<()> {
        if path == "_id" {
            self.id = Some(includes);
            return Ok(());
        }
        let parts: Vec<&str> = path.split('.').collect();
        if !self.named.insert(&parts) {
            return Err(collision(&self.named, name, &parts));
        }
        match self.excludes {
            Some(false) if !includes => {
                let message =
                    format!("Cannot do exclusion on field {name} in inclusion projection");
                return Err(Error::location(31254, message));
            }
            Some(true) if includes => {
                let message =
                    format!("Cannot do inclusion on field {name} in exclusion projection");
                return Err(Error::location(31253, message));
            }
            _ => self.excludes = Some(!includes),
        }
        Ok(())
    }
}

fn collision(named: &PathTree, name: &str, parts: &[&str]) -> Error {
    let mut tree = named;
    for (number, part) in parts.iter().enumerate() {
        match tree.0.get(*part) {
            Some(Some(below)) => tree = below,
            _ if number + 1 < parts.len() => {
                // MongoDB leaves out the first name, wherever the two paths part.
                let (_, rest) = name.split_once('.').unwrap_or_default();
                let message = format!("Path collision at {name} remaining portion {rest}");
                return Error::location(31249, message);
            }
            _ => break,
        }
    }
    Error::location(31250, format!("Path collision at {name}"))
}

/// The error of a number that the field of a wildcard index may not have.
pub(super) fn negative() -> Error {
    cannot_create("A numeric value in a $** index key pattern must be positive.")
}
