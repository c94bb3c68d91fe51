//! Picks the cheapest candidate.
//!
//! One selective candidate is taken as it is. Several are compared by the number of their entries, by their rank
//! indexes: first by whole buckets, without reading anything, which mostly settles it, and else exactly. Where a rank index
//! is not built yet, entries are counted up to a bound that grows until one candidate is seen to be smaller. No estimates
//! of selectivity, no trial runs, no plan cache.

use super::access::Access;
use super::candidate::{Candidate, candidates, conditions, for_index, primary_order};
use super::scans::{check_scan, needs_index};
use super::union::with_unions;
use super::wildcard;
use super::{Hint, Method, Plan, QuerySpec, RowSource, near, text};
use crate::catalog::{Collection, Index, UnbuiltIndex};
use crate::error::{Code, Error, Result};
use crate::query::{Filter, Sort};
use crate::storage::{Order, TreeKey};
use crate::text::document_text;
use meridian_value::key::Direction;
use std::sync::Arc;

/// What the planner may ask about amounts.
pub trait Sizes {
    /// Documents in the collection.
    fn documents(&self) -> u64;

    /// Entries of an access path by its index's rank index; `None` when that cannot tell.
    ///
    /// # Errors
    /// Storage failures.
    fn known(&self, access: &Access) -> Result<Option<u64>>;

    /// At least and at most how many entries an access path has, by its index's rank index and without
    /// reading any; `None` when that cannot tell.
    fn between(&self, access: &Access) -> Option<(u64, u64)>;

    /// Entries of an access path, counted up to `at_most`.
    ///
    /// # Errors
    /// Storage failures.
    fn counted(&self, access: &Access, at_most: u64) -> Result<u64>;

    /// Whether the rank index of a tree knows all keys before `end` (`None`: all there are).
    fn is_built(&self, tree: TreeKey, end: Option<&[u8]>) -> bool;
}

/// Entries counted of every candidate in the first, second, ... round.
const ROUNDS: [u64; 2] = [128, 8_192];
/// Reading a document after its entry costs as much as this many entries of a scan.
pub(super) const FETCH_COST: f64 = 8.0;
/// Rebuilding a row from its entry costs as much as this many entries of a scan.
const COVERED_COST: f64 = 0.5;
/// In batches of thousands, sorted and on two cores, it costs only as much as this many steps of a walk
/// over documents, each tested (measured on the weather evaluation's cached ranges).
const FETCH_IN_BATCHES_COST: f64 = 2.5;
/// Fewer rows than this come at once whatever the plan: asking for amounts would cost more.
const SCAN_ROWS_MIN: f64 = 500.0;
/// Holding and sorting a row costs as much as this many entries.
pub(super) const SORT_COST: f64 = 4.0;

/// The plan for reading the rows of a query on a collection.
///
/// # Errors
/// `BadValue` for a hint that names no usable index; storage failures while sizes are asked for.
pub(super) fn find(collection: &Collection, query: QuerySpec, sizes: &dyn Sizes) -> Result<Plan> {
    let query = with_hint(collection, query)?;
    if query.tailable {
        if collection.options.capped.is_none() {
            let message = "tailable cursor requested on non capped collection";
            return Err(Error::bad_value(message));
        }
        let why = "Running with 'notablescan', so tailable cursors (which always do a table scan) are not allowed";
        check_scan(collection, &query, why)?;
        let order = match query.hint {
            Some(Hint::Natural(order)) => order,
            _ => Order::Forward,
        };
        let candidate = collection_scan(&query, order);
        return Ok(finish(candidate, query, Vec::new()));
    }
    if let Some(bounds) = &query.key_bounds {
        let candidate = bounds.candidate(collection, &query)?;
        return Ok(finish(candidate, query, Vec::new()));
    }
    if matches!(*query.filter, Filter::Never) {
        return Ok(finish(
            Candidate {
                access: Access::Nothing,
                residual: None,
                is_selective: true,
            },
            query,
            Vec::new(),
        ));
    }
    if let Some(nearest) = query.nearest.clone() {
        let (candidate, rejected) = near::plan(collection, &query, &nearest, sizes)?;
        return Ok(finish(candidate, query, rejected));
    }
    if is_natural(&query) {
        let why = "hint $natural is not allowed, because 'notablescan' is enabled";
        check_scan(collection, &query, why)?;
    }
    if let Some(hint) = &query.hint {
        check_natural(&query, hint)?;
        let candidate = hinted(collection, &query, hint, sizes)?;
        return Ok(finish(candidate, query, Vec::new()));
    }
    if let Some(direction) = query.sort.as_deref().and_then(Sort::natural) {
        let candidate = collection_scan(&query, natural_order(direction));
        return Ok(finish(candidate, query, Vec::new()));
    }
    let mut found = with_unions(collection, &query, sizes)?;
    let chosen = match choose(&found, &query, sizes)? {
        None => {
            text::refuse_scan(&query)?;
            if primary_order(&query).is_none() {
                let why = "No indexed plans available, and running with 'notablescan'";
                check_scan(collection, &query, why)?;
            }
            collection_scan(&query, scan_order(&query))
        }
        Some(best) if query.filter.text().is_some() => found.swap_remove(best),
        Some(best) if needs_index(collection, &query) => found.swap_remove(best),
        Some(best) if !scan_is_cheaper(&found[best], &query, sizes)? => found.swap_remove(best),
        _ => collection_scan(&query, scan_order(&query)),
    };
    let rejected = found
        .into_iter()
        .map(|candidate| candidate.access)
        .collect();
    Ok(finish(chosen, query, rejected))
}

/// Refuses a hint beside `{$natural: ...}` as the order, but for the same.
fn check_natural(query: &QuerySpec, hint: &Hint) -> Result<()> {
    let Some(direction) = query.sort.as_deref().and_then(Sort::natural) else {
        return Ok(());
    };
    match hint {
        Hint::Natural(order) if *order == natural_order(direction) => Ok(()),
        Hint::Natural(_) => Err(Error::bad_value(
            "$natural hint must be in the same direction as $natural sort order",
        )),
        Hint::Name(_) | Hint::Key(_) => Err(Error::bad_value(
            "index hint not allowed with $natural sort order",
        )),
    }
}

/// The query with a hint that its collection can do something with.
fn with_hint(collection: &Collection, query: QuerySpec) -> Result<QuerySpec> {
    let hint = own_hint(collection, query.hint.clone())?;
    check_hint(collection, hint.as_ref())?;
    Ok(QuerySpec { hint, ..query })
}

/// A hint by the name of a cluster key, as one by the key: `_id_` is another name there.
fn own_hint(collection: &Collection, hint: Option<Hint>) -> Result<Option<Hint>> {
    match (collection.cluster_name(), hint) {
        (Some(own), Some(Hint::Name(name))) if name == own => {
            Ok(Some(Hint::Key(bson::rawdoc! { "_id": 1 })))
        }
        (Some(_), Some(Hint::Name(name))) if name == "_id_" => Err(unknown_hint()),
        (_, hint) => Ok(hint),
    }
}

fn unknown_hint() -> Error {
    Error::bad_value(
        "error processing query: planner returned error :: caused by :: hint provided does not correspond to an existing index",
    )
}

/// Refuses a hint that names an index that is listed and not built.
fn check_hint(collection: &Collection, hint: Option<&Hint>) -> Result<()> {
    let is_hinted = |index: &&UnbuiltIndex| match hint {
        Some(Hint::Name(name)) => index.name == *name,
        Some(Hint::Key(key)) => index.has_key(key),
        Some(Hint::Natural(_)) | None => false,
    };
    let built = |key: &Hint| matches!(key, Hint::Key(key) if collection.ready_indexes().any(|index| meridian_value::compare_documents(index.spec.key_pattern(), key).is_eq()));
    match collection.unbuilt.iter().find(is_hinted) {
        Some(index) if !hint.is_some_and(built) => Err(Error::bad_value(format!(
            "error processing query: planner returned error :: caused by :: the index '{}' of the hint is \
             listed but not built",
            index.name
        ))),
        _ => Ok(()),
    }
}

/// Whether the client wants the documents as they lie.
fn is_natural(query: &QuerySpec) -> bool {
    let by_sort = query.sort.as_deref().and_then(Sort::natural).is_some();
    by_sort || matches!(query.hint, Some(Hint::Natural(_)))
}

fn natural_order(direction: Direction) -> Order {
    match direction {
        Direction::Ascending => Order::Forward,
        Direction::Descending => Order::Backward,
    }
}

fn scan_order(query: &QuerySpec) -> Order {
    primary_order(query).unwrap_or(Order::Forward)
}

fn collection_scan(query: &QuerySpec, order: Order) -> Candidate {
    let everything = matches!(*query.filter, Filter::Always);
    Candidate {
        access: Access::Collection(order),
        residual: (!everything).then(|| query.filter.clone()),
        is_selective: false,
    }
}

fn finish(candidate: Candidate, query: QuerySpec, rejected: Vec<Access>) -> Plan {
    let sorted = candidate.access.sorts(&query);
    let sort = query
        .sort
        .clone()
        .filter(|sort| !sorted && !sort.is_empty());
    Plan {
        access: candidate.access,
        residual: candidate.residual,
        sort,
        query,
        rejected,
        method: Method::Rows,
        waits_for_rank_index: false,
    }
}

fn hinted(
    collection: &Collection,
    query: &QuerySpec,
    hint: &Hint,
    sizes: &dyn Sizes,
) -> Result<Candidate> {
    if let Hint::Natural(order) = hint {
        return Ok(collection_scan(query, *order));
    }
    let Some(index) = hinted_index(collection, hint)? else {
        let own = |candidate: &Candidate| matches!(candidate.access, Access::Primary(_));
        let found = candidates(collection, query).into_iter().find(own);
        return Ok(found.unwrap_or_else(|| collection_scan(query, scan_order(query))));
    };
    if index.spec.wildcard.is_some() {
        return wildcard::hinted(collection, index, query, sizes);
    }
    let found = for_index(index, query, &conditions(&query.filter));
    Ok(found.unwrap_or_else(|| super::candidate::whole_index(index, query)))
}

/// The index that a hint names; `None` for `_id` where documents lie in its order.
pub(super) fn hinted_index<'c>(
    collection: &'c Collection,
    hint: &Hint,
) -> Result<Option<&'c Arc<Index>>> {
    match hint {
        Hint::Natural(_) => Ok(None),
        hint if hint.is_id() => Ok(collection.id_index()),
        Hint::Name(name) => {
            let index = collection.index(name);
            let index = index.filter(|index| index.ready && !index.spec.hidden);
            index.map(Some).ok_or_else(unknown_hint)
        }
        Hint::Key(key) => {
            let mut matching = collection.ready_indexes().filter(|index| {
                let own = index.spec.key_pattern();
                !index.spec.hidden && meridian_value::compare_documents(own, key).is_eq()
            });
            let first = matching.next().ok_or_else(unknown_hint)?;
            match matching.next() {
                Some(second) => Err(ambiguous(first, second)),
                None => Ok(Some(first)),
            }
        }
    }
}

/// The refusal of a key pattern that two indexes have: with different collations, say.
fn ambiguous(first: &Index, second: &Index) -> Error {
    let shown = |index: &Index| {
        let (spec, unique) = (&index.spec, if index.spec.unique { " unique" } else { "" });
        format!(
            "kp: {}{unique} name: '({}, )' io: {}",
            document_text(spec.key_pattern()),
            spec.name,
            spec.conflict_text()
        )
    };
    Error::new(
        Code::IndexNotFound,
        format!(
            "error processing query: planner returned error :: caused by :: Hint matched multiple indexes, must hint \
             by index name. Matched: {} and {}",
            shown(first),
            shown(second)
        ),
    )
}

/// The position of the best candidate; `None` for the collection scan.
pub(super) fn choose(
    found: &[Candidate],
    query: &QuerySpec,
    sizes: &dyn Sizes,
) -> Result<Option<usize>> {
    let selective: Vec<usize> = (0..found.len())
        .filter(|at| found[*at].is_selective)
        .collect();
    if found.is_empty() {
        return Ok(None);
    }
    // One document at most, whatever else is asked of it: nothing can be cheaper.
    if let Some(identifier) = found.iter().position(Candidate::is_identifier) {
        return Ok(Some(identifier));
    }
    if selective.is_empty() {
        return Ok(Some(cheapest_order(found)));
    }
    let ordered = found
        .iter()
        .position(|candidate| candidate.access.sorts(query));
    if let [only] = selective.as_slice()
        && (query.sort.is_none() || ordered.is_none() || ordered == Some(*only))
    {
        return Ok(Some(*only));
    }
    if let Some(clear) = clearly_cheapest(found, query, sizes) {
        return Ok(Some(clear));
    }
    let counts = entries(found, &selective, sizes)?;
    let cost = |at: &usize| cost(&found[*at], counts[*at], query);
    let order = |a: &usize, b: &usize| {
        cost(a)
            .total_cmp(&cost(b))
            .then_with(|| proven(&found[*b]).cmp(&proven(&found[*a])))
    };
    Ok((0..found.len()).min_by(order))
}

/// The candidate that is cheaper than all others whatever the exact numbers of entries are, which take a
/// search in the index each.
fn clearly_cheapest(found: &[Candidate], query: &QuerySpec, sizes: &dyn Sizes) -> Option<usize> {
    let documents = sizes.documents();
    let costs = |candidate: &Candidate| {
        let (least, most) = match candidate.is_selective {
            true => sizes.between(&candidate.access)?,
            false => (documents, documents),
        };
        Some((cost(candidate, least, query), cost(candidate, most, query)))
    };
    let costs: Vec<(f64, f64)> = found.iter().map(costs).collect::<Option<_>>()?;
    let best = (0..costs.len()).min_by(|a, b| costs[*a].1.total_cmp(&costs[*b].1))?;
    let is_cheaper = |other: usize| other == best || costs[best].1 < costs[other].0;
    (0..costs.len()).all(is_cheaper).then_some(best)
}

/// The candidate that costs least if all have as many entries as they may have at most by what is known
/// without reading any.
pub(super) fn cheapest_roughly(
    found: &[Candidate],
    query: &QuerySpec,
    sizes: &dyn Sizes,
) -> Option<usize> {
    let at_most = |candidate: &Candidate| {
        let between = sizes.between(&candidate.access);
        let (_, most) = between.unwrap_or_else(|| (0, sizes.documents()));
        cost(candidate, most, query)
    };
    let costs: Vec<f64> = found.iter().map(at_most).collect();
    (0..costs.len()).min_by(|a, b| costs[*a].total_cmp(&costs[*b]))
}

/// The number of entries of the selective candidates; of the others, that of all documents.
fn entries(found: &[Candidate], selective: &[usize], sizes: &dyn Sizes) -> Result<Vec<u64>> {
    let mut counts = vec![sizes.documents(); found.len()];
    let mut unknown = Vec::new();
    for at in selective {
        match sizes.known(&found[*at].access)? {
            Some(known) => counts[*at] = known,
            None => unknown.push(*at),
        }
    }
    let smallest_known = selective
        .iter()
        .filter(|at| !unknown.contains(at))
        .map(|at| counts[*at])
        .min();
    for (round, at_most) in ROUNDS.into_iter().enumerate() {
        let mut settled = round + 1 == ROUNDS.len() || smallest_known.is_some_and(|n| n < at_most);
        for at in &unknown {
            counts[*at] = sizes.counted(&found[*at].access, at_most)?;
            settled |= counts[*at] < at_most;
        }
        if settled {
            break;
        }
    }
    Ok(counts)
}

/// Whether the first rows come sooner from a walk over all documents: where few do not match, reading one
/// after the other beats fetching each by its identifier. All that do not match may come first, as in time order
/// what happened before a date does.
#[allow(clippy::cast_precision_loss)]
fn scan_is_cheaper(best: &Candidate, query: &QuerySpec, sizes: &dyn Sizes) -> Result<bool> {
    let (Some(limit), None) = (query.limit, &query.sort) else {
        return Ok(false);
    };
    let fetches = best.access.reading() == Some(RowSource::Documents);
    let wanted = limit.saturating_add(query.skip) as f64;
    if !fetches || wanted < SCAN_ROWS_MIN {
        return Ok(false);
    }
    Ok(sizes.known(&best.access)?.is_some_and(|entries| {
        let others = sizes.documents().saturating_sub(entries) as f64;
        let rows = wanted.min(entries as f64);
        rows + others < rows * FETCH_IN_BATCHES_COST
    }))
}

/// Among walks over whole indexes that give the order: `_id` when it is one, else the first that needs
/// no documents, else the first.
fn cheapest_order(found: &[Candidate]) -> usize {
    let rank = |at: &usize| match (&found[*at].access, found[*at].access.reading()) {
        (Access::Primary(_), _) => 0,
        (_, Some(RowSource::Covered | RowSource::Clustering)) => 1,
        _ => 2,
    };
    (0..found.len()).min_by_key(rank).unwrap_or(0)
}

/// How much of the filter the entries prove: fewer conjuncts left is better.
fn proven(candidate: &Candidate) -> usize {
    usize::MAX
        - candidate
            .residual
            .as_ref()
            .map_or(0, |filter| filter.conjuncts().len())
}

#[allow(clippy::cast_precision_loss)]
fn cost(candidate: &Candidate, entries: u64, query: &QuerySpec) -> f64 {
    let fetch = fetch_cost(&candidate.access);
    let mut rows = entries as f64;
    if candidate.access.sorts(query) {
        if let (Some(limit), true) = (query.limit, candidate.is_exact()) {
            rows = rows.min(limit.saturating_add(query.skip) as f64);
        }
        rows * (1.0 + fetch)
    } else {
        rows * (1.0 + fetch + SORT_COST)
    }
}

/// What a row costs beside its entry; of a union, that of its dearest branch.
fn fetch_cost(access: &Access) -> f64 {
    match (access, access.reading()) {
        (Access::Union(union), _) => union
            .branches
            .iter()
            .map(|branch| fetch_cost(&branch.access))
            .fold(0.0, f64::max),
        (Access::Primary(_) | Access::Collection(_), _) | (_, Some(RowSource::Clustering)) => 1.0,
        (_, Some(RowSource::Covered)) => COVERED_COST,
        _ => FETCH_COST,
    }
}
