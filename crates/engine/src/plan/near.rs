//! Plans nearest-first queries.
//!
//! In: a query with `$near`. Out: a search of a geo index, nearest first, or another index whose few
//! documents are sorted by their distance. As in MongoDB, a geo index that fits must exist.

use super::access::{Access, Branch, IndexAccess, NearAccess, RankedAccess};
use super::candidate::{Candidate, conditions, covers_query, field_bounds, prefixes, residual};
use super::choose::{FETCH_COST, SORT_COST, Sizes};
use super::entry_use::{EntryUse, RowSource, entry_use};
use super::union::with_unions;
use super::{Hint, QuerySpec};
use crate::catalog::{Collection, Index};
use crate::error::{Code, Error, Result};
use crate::geo::Metric;
use crate::index::IndexField;
use crate::index::bounds::FieldBounds;
use crate::query::{Filter, Nearest, Predicate, Sort};
use crate::storage::Order;
use std::sync::Arc;

/// Entries counted of a candidate whose rank index cannot tell.
const COUNTED_MAX: u64 = 4_096;

/// The plan for a query whose rows come nearest first, and what else was considered.
pub(super) fn plan(
    collection: &Collection,
    query: &QuerySpec,
    nearest: &Nearest,
    sizes: &dyn Sizes,
) -> Result<(Candidate, Vec<Access>)> {
    if query.sort.as_deref().and_then(Sort::natural).is_some() {
        return Err(Error::bad_value(
            "geoNear expression not allowed with $natural sort order",
        ));
    }
    if matches!(query.hint, Some(Hint::Natural(_))) {
        return Err(Error::bad_value(
            "geoNear expression not allowed with $natural hint",
        ));
    }
    let rest = without_near(query, nearest);
    let wanted = |index: &&Arc<Index>| is_hinted(index, query.hint.as_ref());
    let mut found: Vec<Candidate> = collection
        .ready_indexes()
        .filter(wanted)
        .filter_map(|index| through(index, query, &rest, nearest))
        .collect();
    if found.is_empty() {
        return Err(no_index());
    }
    found.sort_by_key(|candidate| std::cmp::Reverse(merit(candidate)));
    if query.hint.is_none() && !matches!(*rest.filter, Filter::Always) {
        let others = with_unions(collection, &rest, sizes)?;
        let others = others.into_iter().filter(|other| other.is_selective);
        found.extend(others.map(|other| ranked(other, nearest)));
    }
    let best = cheapest(&found, query, sizes)?;
    let chosen = found.swap_remove(best);
    let rejected = found.into_iter().map(|other| other.access).collect();
    Ok((chosen, rejected))
}

/// What MongoDB answers where no index fits.
fn no_index() -> Error {
    Error::new(
        Code::NoQueryExecutionPlans,
        "error processing query: planner returned error :: caused by :: unable to find index for $geoNear query",
    )
}

fn is_hinted(index: &Index, hint: Option<&Hint>) -> bool {
    match hint {
        None => true,
        Some(Hint::Natural(_)) => false,
        Some(Hint::Name(name)) => index.spec.name == *name,
        Some(Hint::Key(key)) => {
            meridian_value::compare_documents(index.spec.key_pattern(), key).is_eq()
        }
    }
}

/// The query without its `$near`, which an access path by distance answers; the location is read all
/// the same, to tell the distance.
fn without_near(query: &QuerySpec, nearest: &Nearest) -> QuerySpec {
    let proven: Vec<bool> = query.filter.conjuncts().iter().map(is_near).collect();
    let filter = residual(&query.filter, &proven).unwrap_or_else(|| Arc::new(Filter::Always));
    let mut needs = query.needs.clone();
    needs.add(nearest.path.as_str());
    for field in query.sort.iter().flat_map(|sort| sort.fields()) {
        needs.add(field.path.as_str());
    }
    QuerySpec {
        filter,
        nearest: None,
        sort: None,
        skip: 0,
        limit: None,
        hint: None,
        needs,
        ..query.clone()
    }
}

fn is_near(part: &Filter) -> bool {
    matches!(
        part,
        Filter::Field {
            predicate: Predicate::Near(_),
            ..
        }
    )
}

/// How an index finds what is near; `None` when it cannot.
fn through(
    index: &Arc<Index>,
    query: &QuerySpec,
    rest: &QuerySpec,
    nearest: &Nearest,
) -> Option<Candidate> {
    if index.spec.hidden || !covers_query(index, &query.filter) {
        return None;
    }
    // An entry tells where the first of its locations is.
    let position = index
        .spec
        .key
        .iter()
        .position(|(_, field)| field.is_located())?;
    let (path, kind) = &index.spec.key[position];
    let measures = match kind {
        IndexField::Plane2d => !nearest.near.is_geojson(),
        IndexField::SphereBucket => false,
        _ => nearest.near.metric() == Metric::Sphere,
    };
    let fits = path == nearest.path.as_str() && measures;
    if !fits {
        return None;
    }
    let filter = &rest.filter;
    let mut proven = vec![false; filter.conjuncts().len()];
    let mut bounds = field_bounds(index, &conditions(filter), &mut proven);
    let leading: Vec<FieldBounds> = bounds.drain(..position).collect();
    let Some(prefixes) = prefixes(index, &leading) else {
        return leading.first().filter(|first| !first.is_all()).map(|_| {
            let all = std::iter::repeat_n(FieldBounds::all(), bounds.len());
            let bounds = leading.iter().cloned().chain(all).collect();
            ranked(within(index, rest, bounds), nearest)
        });
    };
    // Only the conditions on leading fields are bounds of the search.
    for (number, part) in filter.conjuncts().iter().enumerate() {
        let leads = matches!(part, Filter::Field { path, .. }
            if index.spec.key[..position].iter().any(|(own, _)| own == path.as_str()));
        proven[number] &= leads;
    }
    let own = QuerySpec {
        needs: query.needs.clone(),
        sort: query.sort.clone(),
        ..rest.clone()
    };
    let (entries, residual) = entry_use(index, &own, residual(filter, &proven));
    let access = NearAccess {
        index: index.clone(),
        nearest: nearest.clone(),
        position,
        prefixes,
        bounds: leading,
        entries,
    };
    Some(Candidate {
        access: Access::Near(access),
        residual,
        is_selective: true,
    })
}

/// A walk over the entries of a geo index within bounds of the fields before its location.
fn within(index: &Arc<Index>, rest: &QuerySpec, bounds: Vec<FieldBounds>) -> Candidate {
    let proven = vec![false; rest.filter.conjuncts().len()];
    let (entries, residual) = entry_use(index, rest, residual(&rest.filter, &proven));
    Candidate {
        access: Access::Index(IndexAccess {
            index: index.clone(),
            bounds,
            within: None,
            order: Order::Forward,
            entries,
            text: None,
            first_of: None,
        }),
        residual,
        is_selective: true,
    }
}

/// The documents of a candidate, sorted by distance.
fn ranked(candidate: Candidate, nearest: &Nearest) -> Candidate {
    let branch = Branch {
        access: candidate.access,
        residual: candidate.residual,
    };
    Candidate {
        access: Access::Ranked(RankedAccess {
            nearest: nearest.clone(),
            branch: Box::new(branch),
        }),
        residual: None,
        is_selective: true,
    }
}

/// Which of several searches is better: the one with more in its prefix, then with more conditions
/// settled on entries, then without reading documents.
fn merit(candidate: &Candidate) -> (bool, usize, usize, bool) {
    match &candidate.access {
        Access::Near(access) => {
            let on_entries = access.entries.filter.as_ref();
            let settled = on_entries.map_or(0, |tested| tested.filter.conjuncts().len());
            let covered = access.entries.reading() != RowSource::Documents;
            (true, access.position, settled, covered)
        }
        _ => (false, 0, 0, false),
    }
}

/// The position of the cheapest candidate, the first of which is the best search.
#[allow(clippy::cast_precision_loss)]
fn cheapest(found: &[Candidate], query: &QuerySpec, sizes: &dyn Sizes) -> Result<usize> {
    let others: Vec<usize> = (1..found.len())
        .filter(|at| matches!(found[*at].access, Access::Ranked(_)))
        .collect();
    let (Access::Near(search), false) = (&found[0].access, others.is_empty()) else {
        return Ok(0);
    };
    let documents = sizes.documents() as f64;
    let mut least: Option<(usize, f64)> = None;
    for at in others {
        let Access::Ranked(access) = &found[at].access else {
            continue;
        };
        let entries = match sizes.known(&access.branch.access)? {
            Some(known) => known,
            None => sizes.counted(&access.branch.access, COUNTED_MAX)?,
        } as f64;
        if least.is_none_or(|(_, fewest)| entries < fewest) {
            least = Some((at, entries));
        }
    }
    let Some((at, entries)) = least else {
        return Ok(0);
    };
    let share = (entries / documents.max(1.0)).clamp(1e-9, 1.0);
    let wanted = query.limit.map_or(documents, |limit| {
        (limit.saturating_add(query.skip) as f64 / share).min(documents)
    });
    let fetches = if found[0].residual.is_some() {
        wanted
    } else {
        wanted * share
    };
    let searching = wanted + fetches * fetch_cost(&search.entries);
    let ranking = entries * (1.0 + FETCH_COST + SORT_COST);
    Ok(if ranking < searching { at } else { 0 })
}

fn fetch_cost(entries: &EntryUse) -> f64 {
    match entries.reading() {
        RowSource::Documents => FETCH_COST,
        RowSource::Covered | RowSource::Clustering => 1.0,
    }
}
