//! Plans `$text`: by the text index of the collection, and by nothing else, as in MongoDB.
//!
//! In: a query with a `$text`. Out: the search by what the index says of languages, and a candidate whose bounds are the
//! terms. Every field before the texts needs a value.

use super::QuerySpec;
use super::access::{Access, IndexAccess, TextScan};
use super::candidate::{
    Candidate, IndexableCondition, conditions, covers_query, field_bounds, residual,
};
use super::choose::Sizes;
use super::entry_use::{EntryUse, entry_use, joined};
use crate::catalog::{Collection, Index};
use crate::error::{Code, Error, Result};
use crate::index::bounds::{FieldBounds, Interval, Tightness};
use crate::namespace::Namespace;
use crate::query::{Comparison, Filter, Predicate, Sort, TextCondition};
use crate::storage::Order;
use crate::textsearch::{TextQuery, index_key};
use bson::{Bson, RawBson};
use meridian_value::Collation;
use std::sync::Arc;

/// Entries of several terms whose scores are summed up at once: so many take half of the memory that there is.
const SUMMED_ENTRIES_MAX: u64 = 500_000;

/// Resolves the `$text` of a query, if it has one, and refuses what cannot stand beside it.
///
/// # Errors
/// `IndexNotFound` without a text index, `BadValue`, `NoQueryExecutionPlans` where the index is hidden.
pub(super) fn resolve(collection: &Collection, query: &QuerySpec) -> Result<()> {
    if query.filter.text().is_none() {
        return Ok(());
    }
    resolve_text(collection, &query.filter)?;
    query.filter.check_text()?;
    check_place(query)?;
    let is_usable = |index: &Arc<Index>| index.spec.text.is_some() && !index.spec.hidden;
    match collection.ready_indexes().any(is_usable) {
        true => Ok(()),
        false => Err(no_plan("need exactly one text index for $text query")),
    }
}

/// Tells the `$text` of a filter, if it has one, what the collection's text index says of it.
///
/// # Errors
/// `IndexNotFound` without a text index; `BadValue` for a language that there is not.
pub fn resolve_text(collection: &Collection, filter: &Filter) -> Result<()> {
    let Some(condition) = filter.text() else {
        return Ok(());
    };
    let mut indexes = collection.ready_indexes();
    let found = indexes.find_map(|index| index.spec.text.as_ref());
    let missing = || Error::new(Code::IndexNotFound, "text index required for $text query");
    condition.resolve(found.ok_or_else(missing)?).map(|_| ())
}

/// Refuses a `$text` where there is no collection.
///
/// # Errors
/// `IndexNotFound`.
pub fn refuse_without_collection(namespace: &Namespace, filter: &Filter) -> Result<()> {
    match filter.text() {
        None => Ok(()),
        Some(_) => Err(Error::new(
            Code::IndexNotFound,
            format!("text index required for $text query (no such collection '{namespace}')"),
        )),
    }
}

/// What MongoDB refuses beside a `$text`.
fn check_place(query: &QuerySpec) -> Result<()> {
    let refused = [
        (
            query.nearest.is_some(),
            "text and geoNear not allowed in same query",
        ),
        (
            query.sort.as_deref().and_then(Sort::natural).is_some(),
            "text expression not allowed with $natural sort order",
        ),
        (
            query.hint.is_some(),
            "text and hint not allowed in same query",
        ),
        (
            query.tailable,
            "text and tailable cursor not allowed in same query",
        ),
    ];
    match refused.iter().find(|(is_there, _)| *is_there) {
        Some((_, message)) => Err(Error::bad_value(*message)),
        None => Ok(()),
    }
}

/// The one candidate of a query with a `$text` among its conjuncts; the outer none where it has none there.
///
/// # Errors
/// `NoQueryExecutionPlans` where the index cannot be used.
pub(super) fn candidate(
    collection: &Collection,
    query: &QuerySpec,
    sizes: &dyn Sizes,
) -> Result<Option<Candidate>> {
    let conjuncts = query.filter.conjuncts();
    let at = conjuncts
        .iter()
        .position(|part| matches!(part, Filter::Text(_)));
    let Some((at, search)) = at.and_then(|at| Some((at, conjuncts[at].text()?))) else {
        return Ok(None);
    };
    let mut indexes = collection.ready_indexes();
    let usable = |index: &&Arc<Index>| index.spec.text.is_some() && !index.spec.hidden;
    let found = indexes
        .find(usable)
        .and_then(|index| by_terms(index, query, at, search));
    let unusable = || {
        no_plan(
            "failed to use text index to satisfy $text query (if text index is compound, are equality predicates \
             given for all prefix fields?)",
        )
    };
    let candidate = found.ok_or_else(unusable)?;
    best_first(candidate, query, sizes).map(Some)
}

/// The same candidate in the order of the scores, where that is asked for and the entries tell it. The scores of one term
/// are in order; those of several are summed up, for which all of them are held.
fn best_first(mut candidate: Candidate, query: &QuerySpec, sizes: &dyn Sizes) -> Result<Candidate> {
    let is_asked = query.sort.as_ref().is_some_and(|sort| sort.is_by_score());
    if !is_asked || !candidate.is_exact() {
        return Ok(candidate);
    }
    let entries = sizes.known(&candidate.access)?;
    let Access::Index(access) = &mut candidate.access else {
        return Ok(candidate);
    };
    if access.repeats() {
        if entries.is_none_or(|entries| entries > SUMMED_ENTRIES_MAX) {
            return Ok(candidate);
        }
        access.order = Order::Forward;
    }
    access.text = access.text.as_ref().map(|text| {
        Arc::new(TextScan {
            condition: text.condition.clone(),
            best_first: true,
        })
    });
    access.entries.rows = None;
    Ok(candidate)
}

fn by_terms(
    index: &Arc<Index>,
    query: &QuerySpec,
    at: usize,
    condition: &TextCondition,
) -> Option<Candidate> {
    let search = condition.query()?;
    if !covers_query(index, &query.filter) {
        return None;
    }
    let conditions = conditions(&query.filter);
    let mut proven = vec![false; query.filter.conjuncts().len()];
    let mut bounds = field_bounds(index, &conditions, &mut proven);
    let spec = index.spec.text.as_ref()?;
    let mut is_empty = search.index_terms.is_empty();
    for (path, own) in spec.prefix.iter().zip(&bounds) {
        let mut equal = conditions.iter().filter_map(|one| equality(path, one));
        let first = equal.next()?;
        // The index holds no arrays there.
        is_empty |= matches!(first, RawBson::Array(_)) || own.is_empty();
        if !is_empty && !own.is_points() {
            return None;
        }
    }
    if is_empty {
        return Some(Candidate {
            access: Access::Nothing,
            residual: None,
            is_selective: true,
        });
    }
    bounds[spec.prefix.len()] = terms(search);
    proven[at] = !search.needs_document();
    let access = IndexAccess {
        index: index.clone(),
        bounds,
        within: None,
        // The best of a term first, as in MongoDB.
        order: Order::Backward,
        entries: EntryUse::default(),
        first_of: None,
        text: Some(Arc::new(TextScan {
            condition: condition.clone(),
            best_first: false,
        })),
    };
    let residual = residual(&query.filter, &proven).map(of_found);
    let (entries, residual) = entry_use(index, query, residual);
    Some(Candidate {
        access: Access::Index(IndexAccess { entries, ..access }),
        residual,
        is_selective: true,
    })
}

/// What is left to test, of documents that the index has found.
fn of_found(residual: Arc<Filter>) -> Arc<Filter> {
    let found = |part: &Filter| match part {
        Filter::Text(condition) => Filter::Text(Box::new(condition.of_found())),
        other => other.clone(),
    };
    let parts = residual.conjuncts().iter().map(found).collect();
    joined(parts).unwrap_or(residual)
}

/// The value that a condition wants at a path.
fn equality<'f>(path: &str, condition: &IndexableCondition<'f>) -> Option<&'f RawBson> {
    match condition.predicate() {
        Predicate::Compare(Comparison::Eq, operand)
            if condition.path() == path && !condition.is_within() =>
        {
            Some(operand)
        }
        _ => None,
    }
}

/// The bounds of the terms of a search.
fn terms(search: &TextQuery) -> FieldBounds {
    let point = |term: &String| {
        let key = Bson::String(index_key(term).into_owned());
        Interval::point(key, &Collation::SIMPLE)
    };
    let points = search.index_terms.iter().map(point);
    FieldBounds::new(points.collect(), Tightness::Exact)
}

/// Refuses a query with a `$text` for which no candidate was found.
///
/// # Errors
/// `NoQueryExecutionPlans`.
pub(super) fn refuse_scan(query: &QuerySpec) -> Result<()> {
    match query.filter.text() {
        None => Ok(()),
        Some(_) => Err(no_plan(
            "Failed to produce a solution for TEXT under OR - other non-TEXT clauses under OR have to be indexed as \
             well.",
        )),
    }
}

fn no_plan(reason: &str) -> Error {
    let message =
        format!("error processing query: planner returned error :: caused by :: {reason}");
    Error::new(Code::NoQueryExecutionPlans, message)
}
