//! What wildcard indexes can do for a query: for each path that it names they are an index `{$_path: 1, path: 1}`.
//!
//! In: a wildcard index and the query's conditions. Out: a candidate for each path that the index holds. Documents without
//! the path have no entry, and documents and arrays are not values, so conditions that such could fulfil are not answered.

use super::QuerySpec;
use super::access::{Access, IndexAccess, Used};
use super::candidate::{
    Candidate, IndexableCondition, conditions, covers_query, index_order, residual,
};
use super::choose::{Sizes, choose};
use super::entry_use::{EntryUse, entry_use};
use super::union::with_unions;
use crate::catalog::{Collection, Index};
use crate::error::{Code, Error, Result};
use crate::index::bounds::{End, FieldBounds, FieldContext, Interval, Tightness};
use crate::index::{ARRAY_MARK, IndexField};
use crate::query::{Comparison, Filter, Predicate};
use crate::storage::Order;
use bson::spec::ElementType;
use bson::{Bson, RawBsonRef};
use meridian_value::{Collation, canonical_type, with_raw};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Paths of a query that are looked at.
const PATHS_MAX: usize = 64;

/// The candidates of all wildcard indexes.
///
/// # Errors
/// Storage failures while sizes are asked for.
pub(super) fn candidates(
    collection: &Collection,
    query: &QuerySpec,
    sizes: &dyn Sizes,
) -> Result<Vec<Candidate>> {
    let mut found = Vec::new();
    for index in collection.ready_indexes() {
        if index.spec.wildcard.is_some() && !index.spec.hidden {
            found.extend(of_index(index, query, sizes)?);
        }
    }
    Ok(found)
}

/// The candidate of a wildcard index that the client asks for: by it alone, or a union of several scans of it.
///
/// # Errors
/// `NoQueryExecutionPlans` where it cannot answer.
pub(super) fn hinted(
    collection: &Collection,
    index: &Arc<Index>,
    query: &QuerySpec,
    sizes: &dyn Sizes,
) -> Result<Candidate> {
    let mut own = collection.clone();
    own.indexes = vec![index.clone()];
    let mut found = with_unions(&own, query, sizes)?;
    found.retain(|candidate| candidate.access.used().iter().all(is_index));
    if let Some(best) = choose(&found, query, sizes)? {
        return Ok(found.swap_remove(best));
    }
    let reason = match named_paths(index, &query.filter).len() {
        1 => "$hint: refusing to build whole-index solution, because it's a wildcard index",
        _ => "No query solutions",
    };
    let message =
        format!("error processing query: planner returned error :: caused by :: {reason}");
    Err(Error::new(Code::NoQueryExecutionPlans, message))
}

/// The paths that the index holds, in whichever part of a filter they are named.
fn named_paths(index: &Index, filter: &Filter) -> BTreeSet<String> {
    let mut found: BTreeSet<String> = paths(index, &conditions(filter)).into_iter().collect();
    for part in filter.conjuncts() {
        if let Filter::Or(branches) | Filter::Nor(branches) = part {
            found.extend(
                branches
                    .iter()
                    .flat_map(|branch| named_paths(index, branch)),
            );
        }
    }
    found
}

fn is_index(used: &Used<'_>) -> bool {
    matches!(used, Used::Index(_))
}

fn of_index(index: &Arc<Index>, query: &QuerySpec, sizes: &dyn Sizes) -> Result<Vec<Candidate>> {
    if !covers_query(index, &query.filter) {
        return Ok(Vec::new());
    }
    let conditions = conditions(&query.filter);
    let mut found = Vec::new();
    for path in paths(index, &conditions) {
        found.extend(of_path(index, &path, query, &conditions, sizes)?);
    }
    Ok(found)
}

/// The paths of conditions that the index holds, each once.
fn paths(index: &Index, conditions: &[IndexableCondition<'_>]) -> Vec<String> {
    let mut paths: Vec<String> = Vec::new();
    let Some(scope) = &index.spec.wildcard else {
        return paths;
    };
    for condition in conditions {
        let path = condition.path();
        if matches!(
            condition.predicate(),
            Predicate::Size(_) | Predicate::ElemMatchObject(_)
        ) {
            continue;
        }
        if paths.len() < PATHS_MAX && scope.holds(path) && !paths.iter().any(|own| own == path) {
            paths.push(path.to_owned());
        }
    }
    paths
}

fn of_path(
    index: &Arc<Index>,
    path: &str,
    query: &QuerySpec,
    conditions: &[IndexableCondition<'_>],
    sizes: &dyn Sizes,
) -> Result<Option<Candidate>> {
    let arrays = arrays(index, path, sizes)?;
    let multikey = !arrays.is_empty();
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    if multikey && path.split('.').any(is_number) {
        // A number may be a position in an array, which has no part in paths of entries.
        return Ok(None);
    }
    let mut proven = vec![false; query.filter.conjuncts().len()];
    let Some((bounds, is_below)) = bounds(index, path, multikey, conditions, &mut proven) else {
        return Ok(None);
    };
    let own = Arc::new(index.at_path(path, arrays)?);
    let mut access = IndexAccess {
        index: own.clone(),
        bounds: vec![path_bounds(path, is_below), bounds],
        within: None,
        order: Order::Forward,
        entries: EntryUse::default(),
        text: None,
        first_of: None,
    };
    let order = query.sort.as_deref();
    access.order = order
        .and_then(|sort| index_order(&access, sort))
        .unwrap_or(Order::Forward);
    let residual = residual(&query.filter, &proven);
    let (entries, residual) = match is_below {
        // What lies below a path is not its value.
        true => (EntryUse::default(), residual),
        false => entry_use(&own, query, residual),
    };
    access.entries = entries;
    Ok(Some(Candidate {
        access: Access::Index(access),
        residual,
        is_selective: true,
    }))
}

/// Where some document has an array: at the path, and on the way to it.
fn arrays(index: &Arc<Index>, path: &str, sizes: &dyn Sizes) -> Result<Vec<String>> {
    let ends = path.char_indices().filter(|(_, letter)| *letter == '.');
    let prefixes = ends.map(|(at, _)| &path[..at]).chain([path]);
    let own = Arc::new(index.at_path(path, Vec::new())?);
    let mut found = Vec::new();
    for prefix in prefixes {
        let access = Access::Index(IndexAccess {
            index: own.clone(),
            bounds: vec![point(Bson::Int32(ARRAY_MARK)), point(Bson::from(prefix))],
            within: None,
            order: Order::Forward,
            entries: EntryUse::default(),
            text: None,
            first_of: None,
        });
        if sizes.counted(&access, 1)? > 0 {
            found.push(prefix.to_owned());
        }
    }
    Ok(found)
}

fn point(value: Bson) -> FieldBounds {
    FieldBounds::new(
        vec![Interval::point(value, &Collation::SIMPLE)],
        Tightness::Exact,
    )
}

/// The paths of entries: one, or also all that lie below it.
fn path_bounds(path: &str, is_below: bool) -> FieldBounds {
    if !is_below {
        return point(Bson::from(path));
    }
    let end = |last: char, inclusive| {
        End::new(
            Bson::from(format!("{path}{last}")),
            inclusive,
            &Collation::SIMPLE,
        )
    };
    // The slash follows the dot.
    let below = Interval::new(end('.', true), end('/', false));
    point(Bson::from(path)).union(FieldBounds::new(vec![below], Tightness::Exact))
}

/// The bounds of the values at a path, and whether entries below it count too; none where the index does not answer.
fn bounds(
    index: &Index,
    path: &str,
    multikey: bool,
    conditions: &[IndexableCondition<'_>],
    proven: &mut [bool],
) -> Option<(FieldBounds, bool)> {
    let context = FieldContext {
        field: IndexField::Ascending,
        multikey,
        sparse: false,
        collation: &index.spec.collation,
    };
    let mut own: Option<FieldBounds> = None;
    for condition in conditions
        .iter()
        .filter(|condition| condition.path() == path)
    {
        let predicate = condition.predicate();
        let is_first = own.is_none();
        if predicate.matches_value(None, &mut None) || (multikey && !is_first) {
            continue;
        }
        let found = FieldBounds::from_predicate(predicate, context);
        let Some(found) = found.filter(holds_no_documents) else {
            continue;
        };
        let negated = matches!(predicate, Predicate::Not(_));
        let certain = found.is_exact() && !condition.is_within() && !(negated && multikey);
        condition.note_proven(proven, certain);
        own = Some(match own {
            Some(own) => own.intersect(&found),
            None => found,
        });
    }
    if let Some(own) = own {
        return Some((own, false));
    }
    let exists = |condition: &&IndexableCondition<'_>| {
        let predicate = condition.predicate();
        let negated = matches!(predicate, Predicate::Not(_));
        condition.path() == path && asks_for_existence(predicate) && !(multikey && negated)
    };
    let condition = conditions.iter().find(exists)?;
    let certain =
        matches!(condition.predicate(), Predicate::Exists(true)) && !condition.is_within();
    condition.note_proven(proven, certain);
    Some((FieldBounds::all(), true))
}

/// `$exists: true`, `$ne: null`, and what asks for documents or arrays.
fn asks_for_existence(predicate: &Predicate) -> bool {
    match predicate {
        Predicate::Exists(true) => true,
        Predicate::Type(types) => {
            types.contains(ElementType::EmbeddedDocument) || types.contains(ElementType::Array)
        }
        Predicate::ElemMatchValue(parts) => parts
            .iter()
            .all(|part| matches!(part, Predicate::Exists(true))),
        Predicate::Not(inner) => {
            matches!(&**inner, Predicate::Compare(Comparison::Eq, operand) if operand.value() == RawBsonRef::Null)
        }
        _ => false,
    }
}

/// Whether only values lie within that have entries: the fields of documents and the elements of arrays do, they
/// themselves do not, but for those that are empty.
fn holds_no_documents(bounds: &FieldBounds) -> bool {
    let document = canonical_type(RawBsonRef::Document(&bson::rawdoc! {}));
    let array = canonical_type(RawBsonRef::Array(&bson::RawArrayBuf::new()));
    bounds.intervals().iter().all(|interval| {
        let kind = |end: &End| with_raw(end.value(), canonical_type);
        let (low, high) = (kind(interval.low()), kind(interval.high()));
        let is_open = high == document && low < document && !interval.high().is_inclusive();
        let ends_before = high < document || is_open;
        let is_empty = interval.is_point()
            && match interval.low().value() {
                Bson::Document(document) => document.is_empty(),
                Bson::Array(array) => array.is_empty(),
                _ => false,
            };
        ends_before || low > array || is_empty
    })
}
