//! Which parts of a document are returned: what a `find` projects, and `$project`, `$set` and `$unset`.
//!
//! In: a projection document, parsed once into a [`FieldTree`] of fields to keep, to drop or to compute, and where it is
//! positional (`a.$`) the filter's array position for each document. Out: the projected document, built in one
//! pass: what is kept is copied as it stands, computed fields follow at the end in the order of the projection.
//! `$meta` is told what a `$near` measures.

mod apply;
mod parse;
mod slice;
mod tree;

use super::filter::{Filter, Measure};
use crate::error::Result;
use crate::expression::{FieldSet, Variables};
use crate::query::Sort;
use bson::raw::RawDocument;
use meridian_value::path::Path;
use std::sync::Arc;

pub(crate) use parse::parse_stage;
pub(crate) use tree::{FieldAction, FieldTree, Rest};

/// A parsed projection.
#[derive(Debug, Clone)]
pub struct Projection {
    tree: FieldTree,
    rest: Rest,
    positional: Option<Path>,
    /// The filter, its conditions as written: for each document, the position of `positional`.
    locator: Option<Arc<Filter>>,
    variables: Variables,
    /// What `$meta` is measured by.
    measure: Option<Measure>,
    /// By what documents are sorted, where `$meta` asks for it.
    sort: Option<Arc<Sort>>,
    /// Whether `$meta` asks where documents come from.
    asks_origin: bool,
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

    /// The same projection, told what its `$meta`s are.
    #[must_use]
    pub fn measured_by(mut self, measure: Option<Measure>) -> Self {
        self.measure = measure;
        self
    }

    /// The same projection, told by what documents are sorted.
    #[must_use]
    pub fn sorted_by(mut self, sort: Option<Arc<Sort>>) -> Self {
        self.sort = sort;
        self
    }

    /// The same projection, whose `$meta`s ask where documents come from.
    #[must_use]
    pub fn asking_origin(mut self, asks: bool) -> Self {
        self.asks_origin = asks;
        self
    }

    /// Whether it asks where documents come from.
    pub fn asks_origin(&self) -> bool {
        self.asks_origin
    }

    /// Whether fields that are not named are dropped.
    pub fn is_inclusion(&self) -> bool {
        self.rest == Rest::Drop
    }

    /// The names of the fields that are kept, when nothing else is done and all are fields of the
    /// document itself.
    pub fn kept_fields(&self) -> Option<Vec<&str>> {
        let asks = self.measure.is_some() || self.sort.is_some() || self.asks_origin;
        if !self.is_inclusion() || self.is_positional() || asks {
            return None;
        }
        let mut kept = Vec::new();
        for (name, action) in self.tree.fields.entries() {
            match action {
                FieldAction::Keep => kept.push(&**name),
                FieldAction::Drop => {}
                _ => return None,
            }
        }
        Some(kept)
    }

    /// The fields the projection reads: what an index has to hold to cover it. A position in an array
    /// is found by the filter, so a positional projection reads the document.
    pub fn needs(&self) -> FieldSet {
        let mut needed = FieldSet::none();
        if let Some(measure) = &self.measure {
            measure.add_needs(&mut needed);
        }
        for field in self.sort.iter().flat_map(|sort| sort.fields()) {
            needed.add(field.path.as_str());
        }
        match self.rest {
            Rest::Drop if !self.is_positional() => self.tree.add_dependencies("", &mut needed),
            _ => needed.add_all(),
        }
        needed
    }
}
