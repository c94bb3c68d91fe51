//! Counts ranges of keys by rank indexes: only the partial buckets at their ends are scanned.
//!
//! In: what the plan says can be counted. Out: the exact number, or `None` where the rank index is not built.

use super::area_points::BoundaryPoints;
use super::{Context, STEPS_BEFORE_SEEK, YieldCheck, counted_area, parallel};
use crate::catalog::Collection;
use crate::error::{Error, Result};
use crate::geo::CellRelation;
use crate::plan::{Countable, GeoAccess, TreeRanges};
use crate::rank::{PartialBucket, RankInterval, ReadView, SearchHint};
use crate::storage::{Family, Order, Snapshot, TreeKey};

/// Entries in all partial buckets from which on they are worth a second core.
const ENTRIES_ALONE: u64 = 8_192;
/// Entries that a span is taken to have where nobody knows.
const ENTRIES_OF_A_SPAN: u64 = 8;

impl TreeRanges {
    /// What is in the ranges in a view, to be counted; `None` when the rank index does not know.
    pub fn total(&self, view: &ReadView) -> Option<Total> {
        let (runs, partial) = self.runs(view)?;
        Some(Total {
            whole: runs.iter().map(|run| run.entries).sum(),
            partial: TotalParts::Ranges(partial),
        })
    }

    /// The exact number of entries; `None` when the rank index does not know.
    pub fn count(&self, view: &ReadView, context: &Context) -> Result<Option<u64>> {
        let Some(total) = self.total(view) else {
            return Ok(None);
        };
        view.unpin();
        total.count(view.snapshot(), context).map(Some)
    }

    /// At least and at most how many entries there are, without reading any; `None` when the rank index cannot tell.
    pub fn between(&self, view: &ReadView) -> Option<(u64, u64)> {
        let index = view.ranks(self.tree)?;
        let (mut whole, mut in_partial) = (0, 0);
        let mut hint = SearchHint::default();
        let mut partial =
            |partial: PartialBucket<'_>| in_partial += u64::from(partial.bucket.entries());
        for range in &self.ranges {
            whole += index.count_from(&mut hint, &range.start, Some(&range.end), &mut partial)?;
        }
        Some((whole, whole + in_partial))
    }

    /// The runs of whole buckets, and the partial buckets that are left.
    pub(super) fn runs(&self, view: &ReadView) -> Option<(Vec<RankInterval>, PartialBuckets)> {
        let ranks = view.ranks(self.tree)?;
        let mut partial = PartialBuckets::new(self.family, self.tree);
        let mut runs = Vec::with_capacity(self.ranges.len());
        let mut hint = SearchHint::default();
        for range in &self.ranges {
            let mut push = |bucket: PartialBucket<'_>| partial.push(&bucket, ());
            runs.push(ranks.interval_from(&mut hint, &range.start, Some(&range.end), &mut push)?);
        }
        Some((runs, partial))
    }
}

/// What an access path matches in a view: what its rank index knows, and what must be scanned on the
/// view's snapshot.
pub struct Total {
    whole: u64,
    partial: TotalParts,
}

enum TotalParts {
    Ranges(PartialBuckets),
    Area(PartialBuckets<CellRelation>, GeoAccess),
    Boundary(BoundaryPoints),
}

impl Total {
    /// Takes what can be counted from the rank index; `None` when that is not built.
    pub fn take(countable: &Countable, collection: &Collection, view: &ReadView) -> Option<Self> {
        let access = match countable {
            Countable::Ranges(ranges) => return ranges.total(view),
            Countable::Area(access) => access,
        };
        if access.position == 0 {
            let (whole, boundary) = BoundaryPoints::take(access, collection, view)?;
            let partial = TotalParts::Boundary(boundary);
            return Some(Self { whole, partial });
        }
        let taken = counted_area::take(access, view)?;
        Some(Self {
            whole: taken.runs.iter().map(|run| run.entries).sum(),
            partial: TotalParts::Area(taken.partial, access.clone()),
        })
    }

    /// Entries that the rank index counted, so that nobody reads them.
    pub fn not_scanned(&self) -> u64 {
        self.whole
    }

    /// The exact number.
    ///
    /// # Errors
    /// Storage failures, time limits.
    pub fn count(&self, snapshot: &Snapshot, context: &Context) -> Result<u64> {
        let walked = match &self.partial {
            TotalParts::Ranges(partial) => partial.count(snapshot, context)?,
            TotalParts::Area(partial, access) => {
                partial.count_where(snapshot, context, &counted_area::entry_test(access))?
            }
            TotalParts::Boundary(boundary) => boundary.count(context)?,
        };
        Ok(self.whole + walked)
    }
}

/// What a plan counts by a rank index is in it: the plan has asked the same view.
///
/// # Errors
/// `InternalError` where it is not, which would be a fault of ours.
pub fn as_planned<T>(found: Option<T>) -> Result<T> {
    found.ok_or_else(|| {
        Error::internal("a rank index does not know what the plan wants counted by it")
    })
}

/// Gets every entry that is scanned: the tag of its partial bucket, its key and its value.
pub(super) type Visit<'v, M> = dyn FnMut(M, &[u8], &[u8]) + 'v;

/// Partial buckets that have to be scanned, ascending, each with a tag of the caller's.
pub(super) struct PartialBuckets<M = ()> {
    family: Family,
    tree: TreeKey,
    /// `tree ++ start` and `tree ++ end` of all partial buckets, one behind the other.
    keys: Vec<u8>,
    partial: Vec<CountedRange<M>>,
    entries_max: u64,
}

struct CountedRange<M> {
    start_at: usize,
    end_at: usize,
    stamp: M,
}

impl<M: Copy + Sync> PartialBuckets<M> {
    pub fn new(family: Family, tree: TreeKey) -> Self {
        Self {
            family,
            tree,
            keys: Vec::new(),
            partial: Vec::new(),
            entries_max: 0,
        }
    }

    /// Adds a partial bucket behind the others.
    pub fn push(&mut self, partial: &PartialBucket<'_>, stamp: M) {
        self.push_span(partial.start, partial.end, stamp);
        self.entries_max += u64::from(partial.bucket.entries());
    }

    /// Adds the keys from `start` up to `end` (`None`: to the end of the tree) behind the others.
    pub fn push_span(&mut self, start: &[u8], end: Option<&[u8]>, stamp: M) {
        let start_at = self.keys.len();
        self.keys.extend_from_slice(&self.tree.prefix());
        self.keys.extend_from_slice(start);
        let end_at = self.keys.len();
        match end {
            Some(end) => {
                self.keys.extend_from_slice(&self.tree.prefix());
                self.keys.extend_from_slice(end);
            }
            None => self.keys.extend_from_slice(&self.tree.range().1),
        }
        self.partial.push(CountedRange {
            start_at,
            end_at,
            stamp,
        });
        self.entries_max += ENTRIES_OF_A_SPAN;
    }

    /// The number of entries in all partial buckets.
    pub fn count(&self, snapshot: &Snapshot, context: &Context) -> Result<u64> {
        self.count_where(snapshot, context, &|_, _| true)
    }

    /// The number of entries that pass `test`, which gets a partial bucket's tag and the entry's value; many partial buckets
    /// are scanned as two halves.
    pub fn count_where(
        &self,
        snapshot: &Snapshot,
        context: &Context,
        test: &(dyn Fn(M, &[u8]) -> bool + Sync),
    ) -> Result<u64> {
        let count = |partial: std::ops::Range<usize>| {
            let mut found = 0;
            self.walk(partial, snapshot, context, &mut |stamp, _, value| {
                found += u64::from(test(stamp, value));
            })?;
            Ok(found)
        };
        let all = 0..self.partial.len();
        if self.entries_max < ENTRIES_ALONE || all.len() < 2 {
            return count(all);
        }
        let middle = all.len() / 2;
        let (a, b): (Result<u64>, Result<u64>) =
            parallel::join(|| count(0..middle), || count(middle..all.end));
        Ok(a? + b?)
    }

    /// Hands every entry of all partial buckets to `visit`, in order.
    pub fn each(
        &self,
        snapshot: &Snapshot,
        context: &Context,
        visit: &mut Visit<'_, M>,
    ) -> Result<()> {
        self.walk(0..self.partial.len(), snapshot, context, visit)
    }

    fn walk(
        &self,
        partial: std::ops::Range<usize>,
        snapshot: &Snapshot,
        context: &Context,
        visit: &mut Visit<'_, M>,
    ) -> Result<()> {
        if partial.is_empty() {
            return Ok(());
        }
        let (first, last) = (self.start(partial.start), self.end(partial.end - 1));
        let mut scan = snapshot.scan(self.family, first, last, Order::Forward);
        let mut yield_check = YieldCheck::new(context.clone());
        let mut is_on_entry = false;
        for partial in partial {
            let (start, end, stamp) = (
                self.start(partial),
                self.end(partial),
                self.partial[partial].stamp,
            );
            // A short gap is stepped over; only a longer one is worth a search.
            let mut steps = 0;
            while is_on_entry && steps < STEPS_BEFORE_SEEK && scan.entry().0 < start {
                yield_check.step_key()?;
                steps += 1;
                is_on_entry = scan.advance()?;
            }
            if !is_on_entry || scan.entry().0 < start {
                scan.seek(start);
                is_on_entry = scan.advance()?;
            }
            while is_on_entry {
                let (key, value) = scan.entry();
                if key >= end {
                    break;
                }
                yield_check.step_key()?;
                visit(stamp, key, value);
                is_on_entry = scan.advance()?;
            }
            if !is_on_entry {
                break;
            }
        }
        Ok(())
    }

    fn start(&self, partial: usize) -> &[u8] {
        let bounds = &self.partial[partial];
        &self.keys[bounds.start_at..bounds.end_at]
    }

    fn end(&self, partial: usize) -> &[u8] {
        let next = self.partial.get(partial + 1);
        let end = next.map_or(self.keys.len(), |next| next.start_at);
        &self.keys[self.partial[partial].end_at..end]
    }
}
