//! What index entries do beside leading to documents: settle conditions, and stand in for documents.
//!
//! In: an index, what a query reads, and the conditions that the bounds leave. Out: the conditions that
//! can be tested on entries, how rows come from entries if nothing else is needed, and the conditions
//! that only documents settle.

use super::QuerySpec;
use crate::catalog::Index;
use crate::expression::FieldSet;
use crate::index::{Coverage, HeldFields};
use crate::query::Filter;
use std::sync::Arc;

/// What is done with the entries of an access path.
#[derive(Debug, Clone, Default)]
pub struct EntryUse {
    /// Conditions tested on each entry before anything is read for it.
    pub filter: Option<EntryFilter>,
    /// How rows come from the entries; without it every row's document is looked up.
    pub rows: Option<Arc<Coverage>>,
}

/// Conditions on fields that entries hold.
#[derive(Debug, Clone)]
pub struct EntryFilter {
    /// The conditions.
    pub filter: Arc<Filter>,
    /// How entries give the fields that they read.
    pub coverage: Arc<Coverage>,
}

/// Whether rows come from documents or from entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RowSource {
    /// Each row's document is looked up.
    Documents,
    /// Rows are rebuilt from the fields in the entries.
    Covered,
    /// Entries carry the documents.
    Clustering,
}

impl EntryUse {
    /// Whether rows come from documents or from entries.
    pub fn reading(&self) -> RowSource {
        match &self.rows {
            None => RowSource::Documents,
            Some(coverage) if coverage.is_whole() => RowSource::Clustering,
            Some(_) => RowSource::Covered,
        }
    }
}

/// What the entries of `index` can do for a query whose bounds leave `residual`, and what they leave.
pub(super) fn entry_use(
    index: &Index,
    query: &QuerySpec,
    residual: Option<Arc<Filter>>,
) -> (EntryUse, Option<Arc<Filter>>) {
    let held = HeldFields::new(
        &index.spec,
        &index.layout,
        index.multikey(),
        query.ids.as_ref(),
    );
    let coverage = |needed: &FieldSet| held.coverage(needed).map(Arc::new);
    let (on_entries, rest) = split(residual, |part| held.hold(&part.needs()));
    let filter = on_entries.map(|filter| EntryFilter {
        coverage: coverage(&filter.needs()).expect("each condition's fields are held"),
        filter,
    });
    let rows = match rest {
        None => coverage(&needed(query)).filter(|rows| !rows.reorders()),
        Some(_) => None,
    };
    (EntryUse { filter, rows }, rest)
}

/// The conjuncts that `belongs` is true of, and the others; as they are where all are alike.
fn split(
    filter: Option<Arc<Filter>>,
    belongs: impl Fn(&Filter) -> bool,
) -> (Option<Arc<Filter>>, Option<Arc<Filter>>) {
    let Some(filter) = filter else {
        return (None, None);
    };
    let (inside, outside): (Vec<&Filter>, Vec<&Filter>) =
        filter.conjuncts().iter().partition(|part| belongs(part));
    match (inside.is_empty(), outside.is_empty()) {
        (true, true) => return (None, None),
        (false, true) => return (Some(filter), None),
        (true, false) => return (None, Some(filter)),
        (false, false) => {}
    }
    let owned = |parts: Vec<&Filter>| joined(parts.into_iter().cloned().collect());
    (owned(inside), owned(outside))
}

/// What is read of the rows behind the filter.
fn needed(query: &QuerySpec) -> FieldSet {
    let mut needed = query.needs.clone();
    for field in query.sort.iter().flat_map(|sort| sort.fields()) {
        needed.add(field.path.as_str());
    }
    needed
}

/// All of these conditions as one; `None` for none.
pub(super) fn joined(mut parts: Vec<Filter>) -> Option<Arc<Filter>> {
    match parts.len() {
        0 => None,
        1 => parts.pop().map(Arc::new),
        _ => Some(Arc::new(Filter::And(parts))),
    }
}
