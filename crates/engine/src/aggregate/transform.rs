//! What makes a document out of a document: `$project`, `$set`, `$unset`.
//!
//! In: a specification, which becomes a tree of fields to keep, to drop or to compute. Out: the new document, as
//! [projections](crate::query::Projection) make it. Order is MongoDB's: kept fields where they stood, new ones at
//! the end, in the order of the specification.

use crate::error::{Code, Error, Result};
use crate::expression::value::corrupt;
use crate::expression::{
    AskedMetadata, Expression, FieldSet, UNAVAILABLE, VariableScope, Variables,
};
use crate::query::projection::{FieldAction, FieldTree, Rest, parse_stage};
use crate::types::type_name;
use bson::{RawBsonRef, RawDocument, RawDocumentBuf};

/// A `$project`, `$set` (`$addFields`) or `$unset`.
#[derive(Debug, Clone)]
pub struct Transform {
    tree: FieldTree,
    rest: Rest,
    specification: RawDocumentBuf,
}

impl Transform {
    /// Whether it asks by what documents were sorted.
    pub fn asks_sort_key(&self) -> bool {
        AskedMetadata::by(&self.specification).sort_key
    }

    /// Parses the operand of `$project`.
    ///
    /// # Errors
    /// MongoDB's, with `Invalid $project :: caused by :: ` before them.
    pub fn project(raw: RawBsonRef<'_>, scope: &VariableScope) -> Result<Self> {
        let RawBsonRef::Document(document) = raw else {
            return Err(Error::location(
                15969,
                "$project specification must be an object",
            ));
        };
        let (tree, rest) =
            parse_stage(document, scope).map_err(|error| invalid("$project", error))?;
        Ok(Self {
            tree,
            rest,
            specification: document.to_owned(),
        })
    }

    /// Parses the operand of `$set` and `$addFields`.
    ///
    /// # Errors
    /// MongoDB's, with `Invalid $set :: caused by :: ` before them.
    pub fn set(name: &str, raw: RawBsonRef<'_>, scope: &VariableScope) -> Result<Self> {
        let RawBsonRef::Document(document) = raw else {
            return Err(Error::location(
                40272,
                format!(
                    "{name} specification stage must be an object, got {}",
                    type_name(raw.element_type())
                ),
            ));
        };
        let mut tree = FieldTree::default();
        parse_set(document, scope, &mut tree).map_err(|error| invalid(name, error))?;
        Ok(Self {
            tree,
            rest: Rest::Keep,
            specification: document.to_owned(),
        })
    }

    /// Parses the operand of `$unset`.
    ///
    /// # Errors
    /// 31002, 31119, 31120, and those of field paths.
    pub fn unset(raw: RawBsonRef<'_>) -> Result<Self> {
        let mut names = Vec::new();
        match raw {
            RawBsonRef::String(name) => names.push(name),
            RawBsonRef::Array(array) => {
                for item in array {
                    match item.map_err(corrupt)? {
                        RawBsonRef::String(name) => names.push(name),
                        _ => {
                            return Err(Error::location(
                                31120,
                                "$unset specification must be a string or an array containing only \
                                 string values",
                            ));
                        }
                    }
                }
                if names.is_empty() {
                    return Err(Error::location(
                        31119,
                        "$unset specification must be a string or an array with at least one field",
                    ));
                }
            }
            _ => {
                return Err(Error::location(
                    31002,
                    "$unset specification must be a string or an array",
                ));
            }
        }
        let mut tree = FieldTree::default();
        let mut specification = RawDocumentBuf::new();
        for name in names {
            let path = crate::expression::parse_field_path(name)
                .map_err(|error| invalid("$unset", error))?;
            tree.insert(&path, FieldAction::Drop)
                .map_err(|error| invalid("$unset", error))?;
            specification.append(crate::expression::value::field_name(name)?, false);
        }
        Ok(Self {
            tree,
            rest: Rest::Keep,
            specification,
        })
    }

    /// The specification as a document (`$unset` as exclusions).
    pub fn specification(&self) -> &RawDocument {
        &self.specification
    }

    /// The new document.
    ///
    /// # Errors
    /// Those of the expressions.
    pub fn apply(&self, document: &RawDocument, variables: &Variables) -> Result<RawDocumentBuf> {
        self.tree.apply(self.rest, document, variables)
    }

    /// The fields read to compute others.
    pub fn reads(&self) -> FieldSet {
        let mut set = FieldSet::none();
        self.tree.add_dependencies("", &mut set);
        set
    }

    /// The fields of the document that are computed or dropped.
    pub fn made_fields(&self) -> Vec<String> {
        self.tree.made_fields()
    }

    /// The fields read to make the new document.
    pub fn dependencies(&self) -> FieldSet {
        let mut set = FieldSet::none();
        match self.rest {
            Rest::Keep => set.add_all(),
            Rest::Drop => self.tree.add_dependencies("", &mut set),
        }
        set
    }

    /// Whether fields that are not named are dropped.
    pub fn is_inclusion(&self) -> bool {
        self.rest == Rest::Drop
    }
}

/// Puts the stage's name before an error of parsing; those of computing constants have
/// their own prefix.
fn invalid(stage: &str, mut error: Error) -> Error {
    let own = error.message.starts_with(crate::expression::FOLDING_PREFIX)
        || matches!(
            error.code,
            Code::NotImplemented | Code::Location(UNAVAILABLE)
        );
    if !own {
        error
            .message
            .insert_str(0, &format!("Invalid {stage} :: caused by :: "));
    }
    error
}

fn parse_set(document: &RawDocument, scope: &VariableScope, tree: &mut FieldTree) -> Result<()> {
    for entry in document.iter() {
        let (key, raw) = entry.map_err(corrupt)?;
        let path = crate::expression::parse_field_path(key.as_str())?;
        let action = set_action(key.as_str(), raw, scope)?;
        let collision = |error: Error| match error.code {
            Code::Location(31249 | 31250) => conflict(document, key.as_str()),
            _ => error,
        };
        tree.insert(&path, action).map_err(collision)?;
    }
    Ok(())
}

/// The words of `$set` for two paths of which one lies below the other.
fn conflict(document: &RawDocument, path: &str) -> Error {
    let other = document
        .iter()
        .flatten()
        .map(|(key, _)| key.as_str())
        .find(|other| {
            let (short, long) = if other.len() < path.len() {
                (*other, path)
            } else {
                (path, *other)
            };
            *other != path
                && long
                    .strip_prefix(short)
                    .is_some_and(|rest| rest.starts_with('.'))
        });
    Error::location(
        40176,
        format!(
            "specification contains two conflicting paths. Cannot specify both '{path}' and '{}': {}",
            other.unwrap_or(path),
            crate::text::document_text(document)
        ),
    )
}

fn set_action(path: &str, raw: RawBsonRef<'_>, scope: &VariableScope) -> Result<FieldAction> {
    let RawBsonRef::Document(document) = raw else {
        return computed(raw, scope);
    };
    let Some((first, _)) = document.iter().flatten().next() else {
        return Err(Error::location(
            40180,
            format!("an empty object is not a valid value. Found empty object at path {path}"),
        ));
    };
    let count = document.iter().count();
    let operator = document
        .iter()
        .flatten()
        .any(|(key, _)| key.as_str().starts_with('$'));
    if operator && count > 1 {
        return Err(Error::location(
            40181,
            format!(
                "an expression specification must contain exactly one field, the name of the \
                 expression. Found {count} fields in {}, while parsing object {{ {} }}",
                crate::text::document_text(document),
                crate::text::element(path, raw)
            ),
        ));
    }
    if first.as_str().starts_with('$') {
        return computed(raw, scope);
    }
    let mut below = FieldTree::default();
    for entry in document.iter() {
        let (key, value) = entry.map_err(corrupt)?;
        let key = key.as_str();
        if key.contains('.') {
            return Err(Error::location(
                40183,
                format!(
                    "cannot use dotted field name '{key}' in a sub object: {{ {} }}",
                    crate::text::element(path, raw)
                ),
            ));
        }
        let name = crate::expression::parse_field_path(key)?;
        below.insert(&name, set_action(&format!("{path}.{key}"), value, scope)?)?;
    }
    Ok(FieldAction::Below(below))
}

fn computed(raw: RawBsonRef<'_>, scope: &VariableScope) -> Result<FieldAction> {
    let expression = Expression::parse(raw, scope)?;
    Ok(FieldAction::Compute(Box::new(expression)))
}
