//! From a plan to the nodes that run it.

use super::cached::CachedTree;
use super::counted::{Total, as_planned};
use super::origin::Origin;
use super::project::{index_keys, projected, with_record_ids};
use super::scored::ScoredEntries;
use super::{
    CollectionRows, Context, CoveredRows, Entries, FetchRows, FilterEntries, FilterRows,
    GeoEntries, IdRows, IndexEntries, LimitRows, MergedRows, NearEntries, RankedRows, Row, Rows,
    SortRows, TailRows, UnionRows,
};
use super::{counted_area, parallel};
use crate::catalog::Collection;
use crate::error::Result;
use crate::index::bounds::{End, FieldBounds};
use crate::plan::{
    Access, Branch, CountBy, Countable, EntryUse, GeoAccess, NearAccess, Plan, PrimaryAccess,
    QuerySpec, TreeRanges,
};
use crate::query::{Filter, Projection};
use crate::rank::ReadView;
use crate::storage::{Family, Order, Snapshot};
use meridian_value::Collation;
use meridian_value::key::Direction;
use std::sync::Arc;

/// The rows of a plan.
///
/// # Errors
/// None today: errors come when the rows are pulled.
pub fn rows(
    plan: &Plan,
    collection: &Collection,
    view: &ReadView,
    context: &Context,
) -> Result<Box<dyn Rows>> {
    let cached = searched_tree(plan, collection, view);
    view.end_counts();
    let snapshot = view.snapshot();
    let query = &plan.query;
    let shape = query
        .projection
        .as_ref()
        .filter(|projection| !query.return_key && entries_have_shape(plan, projection));
    let builder = Builder {
        collection,
        snapshot,
        context,
        cached,
        shape,
        residual: scanned_residual(plan),
    };
    let window = query.limit.map(|limit| limit.saturating_add(query.skip));
    let wanted = window.filter(|_| plan.sort.is_none() && plan.residual.is_none());
    let mut rows = builder.access(&plan.access, wanted);
    rows = filtered(rows, plan.residual.as_ref());
    if let Some(sort) = &plan.sort {
        rows = Box::new(SortRows::new(rows, sort.clone(), window, context));
    }
    Ok(shaped(
        limited(rows, query),
        plan,
        shape.is_some(),
        collection,
    ))
}

/// The rows of a plan for a tailable cursor.
pub fn rows_of_tail(plan: &Plan, collection: &Collection, documents: TailRows) -> Box<dyn Rows> {
    let rows = filtered(Box::new(documents), plan.residual.as_ref());
    shaped(limited(rows, &plan.query), plan, false, collection)
}

/// Rows as the query wants them; `is_projected` tells that they have the fields of the projection alone.
fn shaped(
    mut rows: Box<dyn Rows>,
    plan: &Plan,
    is_projected: bool,
    collection: &Collection,
) -> Box<dyn Rows> {
    let (query, origin) = (&plan.query, || Origin::new(plan, collection));
    if query.return_key {
        return index_keys(rows, origin());
    }
    if let (Some(projection), false) = (&query.projection, is_projected) {
        rows = projected(rows, projection.clone(), origin);
    }
    match query.show_record_id {
        true => with_record_ids(rows, origin()),
        false => rows,
    }
}

fn limited(rows: Box<dyn Rows>, query: &QuerySpec) -> Box<dyn Rows> {
    match query.skip > 0 || query.limit.is_some() {
        true => Box::new(LimitRows::new(rows, query.skip, query.limit)),
        false => rows,
    }
}

/// The index of a plan that searches for the nearest, with what is cached of it.
fn searched_tree(plan: &Plan, collection: &Collection, view: &ReadView) -> Option<CachedTree> {
    let Access::Near(access) = &plan.access else {
        return None;
    };
    CachedTree::of(Family::Indexes, access.index.tree, view, &collection.state)
}

/// What is left of the filter where the plan is nothing but a scan of documents.
fn scanned_residual(plan: &Plan) -> Option<&Filter> {
    let is_scan = matches!(plan.access, Access::Collection(_) | Access::Primary(_));
    plan.residual.as_deref().filter(|_| is_scan)
}

/// Whether rows of entries need no projection: they hold just the fields that it keeps, and whatever
/// stands behind them reads no others.
fn entries_have_shape(plan: &Plan, projection: &Projection) -> bool {
    let entries = match &plan.access {
        Access::Index(access) => &access.entries,
        Access::Geo(access) => &access.entries,
        _ => return false,
    };
    match (&entries.rows, projection.kept_fields()) {
        (Some(coverage), Some(kept)) => plan.residual.is_none() && coverage.holds_just(&kept),
        _ => false,
    }
}

/// The number of documents a plan finds, counted as it says. Skip, limit and projection play no part.
///
/// # Errors
/// Storage failures, evaluation errors, time limits.
pub fn count(
    plan: &Plan,
    by: &CountBy,
    collection: &Collection,
    view: &ReadView,
    context: &Context,
) -> Result<u64> {
    let total = match by {
        CountBy::Metadata => return Ok(collection.state.documents().max(0).unsigned_abs()),
        CountBy::RankIndex(countable) => Some(Total::take(countable, collection, view)),
        CountBy::Entries | CountBy::Rows => None,
    };
    let cached = searched_tree(plan, collection, view);
    view.end_counts();
    let snapshot = view.snapshot();
    if let Some(total) = total {
        return as_planned(total)?.count(snapshot, context);
    }
    let builder = Builder {
        collection,
        snapshot,
        context,
        cached,
        shape: None,
        residual: scanned_residual(plan),
    };
    match (by, &plan.access) {
        (CountBy::Entries, Access::Nothing) => return Ok(0),
        (CountBy::Entries, Access::Index(access)) => {
            return IndexEntries::new(snapshot, access, context.clone()).count();
        }
        (CountBy::Entries, Access::Geo(access)) => return builder.count_geo(access),
        (CountBy::Entries, Access::Near(access)) => return builder.near(access, None).count(),
        _ => {}
    }
    let rows = filtered(builder.access(&plan.access, None), plan.residual.as_ref());
    count_rows(rows)
}

/// Reads rows to their end, many of them on two cores.
fn count_rows(mut rows: Box<dyn Rows>) -> Result<u64> {
    fn to_end(mut rows: Box<dyn Rows>) -> Result<u64> {
        let mut found = 0;
        while rows.advance()? {
            found += 1;
        }
        Ok(found)
    }
    match rows.split_off() {
        None => to_end(rows),
        Some(other) => {
            let (found, more) = parallel::join_long(|| to_end(rows), || to_end(other));
            Ok(found? + more?)
        }
    }
}

/// The number of entries of an access path, counted up to `at_most`.
///
/// # Errors
/// Storage failures.
pub fn entries_up_to(
    access: &Access,
    collection: &Collection,
    view: &ReadView,
    at_most: u64,
) -> Result<u64> {
    let context = Context::default();
    let snapshot = view.snapshot();
    let builder = Builder {
        collection,
        snapshot,
        context: &context,
        cached: None,
        shape: None,
        residual: None,
    };
    let mut found = 0;
    match access {
        Access::Index(access) => {
            let mut entries = IndexEntries::new(snapshot, access, context.clone());
            while found < at_most && entries.advance()? {
                found += 1;
            }
        }
        Access::Geo(access) => {
            let mut entries = builder.geo(access);
            while found < at_most && entries.advance()? {
                found += 1;
            }
        }
        Access::Union(union) => {
            for branch in &union.branches {
                let left = at_most - found;
                found += entries_up_to(&branch.access, collection, view, left)?;
            }
        }
        other => {
            let mut rows = builder.access(other, None);
            while found < at_most && rows.advance()? {
                found += 1;
            }
        }
    }
    Ok(found)
}

/// The number of entries that an access path walks, by its index's rank index: exact, but for an area
/// about as many as lie in it. `None` when the rank index cannot tell.
///
/// # Errors
/// Storage failures.
pub fn entries_by_rank(
    access: &Access,
    collection: &Collection,
    view: &ReadView,
) -> Result<Option<u64>> {
    match access {
        Access::Nothing => Ok(Some(0)),
        Access::Geo(access) => Ok(counted_area::estimate(access, view)),
        Access::Index(access) => TreeRanges::walked(access).count(view, &Context::default()),
        // Every branch is walked, whatever the others have found.
        Access::Union(union) => {
            let mut entries = 0;
            for branch in &union.branches {
                match entries_by_rank(&branch.access, collection, view)? {
                    Some(more) => entries += more,
                    None => return Ok(None),
                }
            }
            Ok(Some(entries))
        }
        Access::Collection(_) | Access::Primary(_) | Access::Near(_) | Access::Ranked(_) => {
            let countable = Countable::of(access, collection);
            let take = |countable: &Countable| Total::take(countable, collection, view);
            let Some(total) = countable.as_ref().and_then(take) else {
                return Ok(None);
            };
            view.unpin();
            let counted = total.count(view.snapshot(), &Context::default());
            counted.map(Some)
        }
    }
}

/// At least and at most how many entries an access path walks, without reading any; `None` when the rank indexes
/// cannot tell.
pub fn entries_between(
    access: &Access,
    collection: &Collection,
    view: &ReadView,
) -> Option<(u64, u64)> {
    match access {
        Access::Index(access) => TreeRanges::walked(access).between(view),
        Access::Primary(_) => TreeRanges::of(access, collection)?.between(view),
        Access::Union(union) => {
            let mut branches = union.branches.iter();
            branches.try_fold((0, 0), |(least, most), branch| {
                let (own_least, own_most) = entries_between(&branch.access, collection, view)?;
                Some((least + own_least, most + own_most))
            })
        }
        _ => None,
    }
}

/// Rows of a collection that does not exist.
pub fn nothing() -> Box<dyn Rows> {
    Box::new(NoRows)
}

struct NoRows;

impl Rows for NoRows {
    fn advance(&mut self) -> Result<bool> {
        Ok(false)
    }

    fn row(&self) -> Row<'_> {
        unreachable!("row is read only after advance returned true")
    }
}

fn filtered(rows: Box<dyn Rows>, filter: Option<&Arc<Filter>>) -> Box<dyn Rows> {
    match filter {
        Some(filter) => Box::new(FilterRows::new(rows, filter.clone())),
        None => rows,
    }
}

struct Builder<'a> {
    collection: &'a Collection,
    snapshot: &'a Snapshot,
    context: &'a Context,
    /// The index of a search for the nearest.
    cached: Option<CachedTree>,
    /// The projection, where rows of entries are as it makes them.
    shape: Option<&'a Arc<Projection>>,
    /// What documents that are scanned will be tested for.
    residual: Option<&'a Filter>,
}

impl Builder<'_> {
    /// By what the `_id`s are compared.
    fn ids(&self) -> Option<&Collation> {
        self.collection.id_order()
    }

    fn access(&self, access: &Access, wanted: Option<u64>) -> Box<dyn Rows> {
        match access {
            Access::Nothing => nothing(),
            Access::Collection(order) => {
                let (collection, context) = (self.collection, self.context.clone());
                let rows = CollectionRows::all(collection, self.snapshot, *order, context);
                Box::new(rows.prefiltered(self.residual, self.ids()))
            }
            Access::Primary(access) => self.primary(access),
            Access::Index(access) if access.sums_scores() => {
                let context = self.context.clone();
                let entries = IndexEntries::repeated(self.snapshot, access, context);
                let entries = ScoredEntries::new(entries, access, wanted);
                self.rows_of_entries(Box::new(entries), &access.entries, None, wanted)
            }
            Access::Index(access) => {
                let entries = IndexEntries::new(self.snapshot, access, self.context.clone());
                self.rows_of_entries(Box::new(entries), &access.entries, None, wanted)
            }
            Access::Geo(access) => self.rows_of_entries(
                Box::new(self.geo(access)),
                &access.entries,
                Some(&access.condition),
                wanted,
            ),
            Access::Near(access) => {
                let entries = Box::new(self.near(access, wanted));
                self.rows_of_entries(entries, &access.entries, None, wanted)
            }
            Access::Ranked(access) => {
                let branch = &access.branch;
                let rows = self.access(&branch.access, None);
                Box::new(RankedRows::new(
                    filtered(rows, branch.residual.as_ref()),
                    access.nearest.clone(),
                    wanted,
                ))
            }
            Access::Union(union) => {
                let rows = |branch: &Branch| {
                    filtered(self.access(&branch.access, None), branch.residual.as_ref())
                };
                let inputs = union.branches.iter().map(rows).collect();
                match &union.merged_by {
                    Some(sort) => Box::new(MergedRows::new(inputs, sort.clone())),
                    None => Box::new(UnionRows::new(inputs)),
                }
            }
        }
    }

    /// The rows of entries: tested, and then taken from the entries or from their documents. `condition`
    /// is what the entries themselves stand for, where not every entry proves it.
    fn rows_of_entries(
        &self,
        mut entries: Box<dyn Entries>,
        usage: &EntryUse,
        condition: Option<&Arc<Filter>>,
        wanted: Option<u64>,
    ) -> Box<dyn Rows> {
        let mut recheck: Vec<Filter> = condition
            .map(|filter| (**filter).clone())
            .into_iter()
            .collect();
        if let Some(tested) = &usage.filter {
            recheck.extend(tested.filter.conjuncts().iter().cloned());
            entries = Box::new(FilterEntries::new(entries, tested.clone(), self.ids()));
        }
        let recheck = (!recheck.is_empty()).then(|| Arc::new(Filter::And(recheck)));
        let Some(coverage) = &usage.rows else {
            return self.fetch(entries, recheck, wanted);
        };
        let rows = CoveredRows::new(
            entries,
            coverage.clone(),
            self.snapshot.clone(),
            self.collection.documents,
            recheck,
            self.context.clone(),
        );
        Box::new(rows.shaped(self.shape.cloned()))
    }

    fn fetch(
        &self,
        entries: Box<dyn Entries>,
        recheck: Option<Arc<Filter>>,
        wanted: Option<u64>,
    ) -> Box<dyn Rows> {
        Box::new(FetchRows::new(
            entries,
            self.snapshot.clone(),
            self.collection.documents,
            recheck,
            wanted,
            self.collection.state.mean_document_bytes(),
            self.context.clone(),
        ))
    }

    fn geo(&self, access: &GeoAccess) -> GeoEntries {
        GeoEntries::new(self.snapshot, access, self.context.clone())
    }

    fn near(&self, access: &NearAccess, wanted: Option<u64>) -> NearEntries {
        let (cached, context) = (self.cached.clone(), self.context.clone());
        NearEntries::new(
            access,
            self.collection,
            self.snapshot,
            cached,
            wanted,
            context,
        )
    }

    /// Points are counted by their entries; the documents of lines and polygons are tested.
    fn count_geo(&self, access: &GeoAccess) -> Result<u64> {
        let mut entries = self.geo(access);
        let mut uncertain = Vec::new();
        let mut found = 0;
        while entries.advance()? {
            if entries.is_certain() {
                found += 1;
            } else {
                uncertain.push(entries.entry().id()?.to_vec());
            }
        }
        let rows = IdRows::new(
            self.snapshot.clone(),
            self.collection.documents,
            uncertain,
            self.context.clone(),
        );
        let confirmed = count_rows(filtered(Box::new(rows), Some(&access.condition)))?;
        Ok(found + confirmed)
    }

    /// Single identifiers are looked up, ranges are scanned.
    fn primary(&self, access: &PrimaryAccess) -> Box<dyn Rows> {
        let tree = self.collection.documents;
        if let Some(mut ids) = point_keys(&access.bounds) {
            if access.order == Order::Backward {
                ids.reverse();
            }
            return Box::new(IdRows::new(
                self.snapshot.clone(),
                tree,
                ids,
                self.context.clone(),
            ));
        }
        let ranges = access
            .bounds
            .ranges(Direction::Ascending)
            .into_iter()
            .map(|range| (tree.key(&range.start), tree.key(&range.end)))
            .collect();
        let context = self.context.clone();
        let rows = CollectionRows::new(self.snapshot, ranges, access.order, context)
            .splitting(self.collection);
        Box::new(rows.prefiltered(self.residual, self.ids()))
    }
}

/// The encoded values of bounds that are single points.
fn point_keys(bounds: &FieldBounds) -> Option<Vec<Vec<u8>>> {
    let encode_point = |value: &&End| value.key(Direction::Ascending);
    Some(bounds.points()?.iter().map(encode_point).collect())
}
