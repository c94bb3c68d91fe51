//! Which parts of a document a `find` returns.
//!
//! In: a projection document, parsed once, and where it is positional (`a.$`) the filter's array
//! position for each document. Out: the projected document, built in one pass: what is kept is
//! copied as it stands, computed fields follow at the end in the order of the projection.
//! `$meta` is told what a `$near` measures.

mod apply;
mod parse;

use super::filter::{Filter, Nearest, Predicate};
use crate::error::Result;
use crate::expression::{Expression, FieldSet, Variables};
use bson::raw::RawDocument;
use meridian_value::ByName;
use meridian_value::path::Path;
use std::sync::Arc;

pub(super) use parse::check_field_path;

/// A parsed projection.
#[derive(Debug, Clone)]
pub struct Projection {
    tree: Tree,
    rest: Rest,
    positional: Option<Path>,
    /// The filter, its conditions as written: for each document, the position of `positional`.
    locator: Option<Arc<Filter>>,
    variables: Variables,
    /// What `$meta` is measured by.
    nearest: Option<Nearest>,
}

/// What becomes of fields that the projection does not name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rest {
    Keep,
    Drop,
}

/// Fields by name, in the order of the projection.
#[derive(Debug, Clone, Default)]
struct Tree {
    fields: ByName<Box<str>, Action>,
}

/// What becomes of one field.
#[derive(Debug, Clone)]
enum Action {
    Keep,
    Drop,
    Slice(Slice),
    /// The first element that satisfies the predicate, as an array of one.
    FirstMatch(Box<Predicate>),
    Compute(Box<Expression>),
    Below(Tree),
}

/// `$slice: n` and `$slice: [skip, limit]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Slice {
    /// From the end when negative.
    skip: i64,
    limit: u64,
}

impl Projection {
    /// The projection with the filter that it was asked for with, which `a.$` depends on.
    #[must_use]
    pub fn located_by(mut self, filter: &Filter) -> Self {
        if self.is_positional() {
            self.locator = Some(Arc::new(filter.clone()));
        }
        self
    }

    /// The position that `a.$` takes in a document.
    ///
    /// # Errors
    /// As [`Filter::matches`].
    pub fn array_position(&self, document: &RawDocument) -> Result<Option<usize>> {
        match &self.locator {
            Some(filter) => filter.array_position_as_written(document),
            None => Ok(None),
        }
    }

    /// Whether the projection needs the filter's array position (`a.$`).
    pub fn is_positional(&self) -> bool {
        self.positional.is_some()
    }

    /// The same projection, told by a `$near` what its `$meta`s are.
    #[must_use]
    pub fn measured_by(mut self, nearest: Option<Nearest>) -> Self {
        self.nearest = nearest;
        self
    }

    /// Whether fields that are not named are dropped.
    pub fn is_inclusion(&self) -> bool {
        self.rest == Rest::Drop
    }

    /// The names of the fields that are kept, when nothing else is done and all are fields of the
    /// document itself.
    pub fn kept_fields(&self) -> Option<Vec<&str>> {
        if !self.is_inclusion() || self.is_positional() || self.nearest.is_some() {
            return None;
        }
        let mut kept = Vec::new();
        for (name, action) in self.tree.fields.entries() {
            match action {
                Action::Keep => kept.push(&**name),
                Action::Drop => {}
                _ => return None,
            }
        }
        Some(kept)
    }

    /// The fields the projection reads: what an index has to hold to cover it. A position in an array
    /// is found by the filter, so a positional projection reads the document.
    pub fn needs(&self) -> FieldSet {
        let mut needed = FieldSet::none();
        if let Some(nearest) = &self.nearest {
            needed.add(nearest.path.as_str());
        }
        match self.rest {
            Rest::Drop if !self.is_positional() => self.tree.add_needs("", &mut needed),
            _ => needed.add_all(),
        }
        needed
    }
}

impl Tree {
    fn add_needs(&self, prefix: &str, needed: &mut FieldSet) {
        for (name, action) in self.fields.entries() {
            let path = if prefix.is_empty() {
                name.to_string()
            } else {
                format!("{prefix}.{name}")
            };
            match action {
                Action::Keep | Action::Slice(_) | Action::FirstMatch(_) => needed.add(path),
                Action::Drop => {}
                Action::Compute(expression) => {
                    needed.merge(expression.dependencies());
                    // What is computed below an array goes into each of its elements.
                    if !prefix.is_empty() {
                        needed.add(prefix);
                    }
                }
                Action::Below(below) => below.add_needs(&path, needed),
            }
        }
    }

    fn has_computed(&self) -> bool {
        self.fields
            .entries()
            .iter()
            .any(|(_, action)| match action {
                Action::Compute(_) => true,
                Action::Below(below) => below.has_computed(),
                _ => false,
            })
    }
}
