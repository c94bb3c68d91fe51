//! Counts ranges of keys by rank indexes: only the partial buckets at their ends are scanned.
//!
//! In: an access path whose entries alone prove the match. Out: the exact number, or `None` where the
//! rank index cannot tell (not built yet, or entries must be de-duplicated or tested one by one):
//! then the entries are scanned.

use super::area_points::Border;
use super::index::{settled_ranges, walked_ranges};
use super::{Context, STEPS_BEFORE_SEEK, YieldCheck, counted_area, parallel};
use crate::catalog::{Collection, Index};
use crate::error::Result;
use crate::geo::CellRelation;
use crate::index::bounds::ByteRange;
use crate::plan::{Access, Branch, GeoAccess, IndexAccess};
use crate::rank::{PartialBucket, RankInterval, ReadView, SearchHint};
use crate::storage::{Family, Order, Snapshot, TreeKey};
use meridian_value::key::Direction;
use std::sync::Arc;

/// Entries in all partial buckets from which on they are worth a second core.
const ENTRIES_ALONE: u64 = 8_192;
/// Entries that a span is taken to have where nobody knows.
const ENTRIES_OF_A_SPAN: u64 = 8;

/// Ranges of one tree, ascending and disjoint, whose every entry counts.
pub(super) struct TreeRanges {
    pub family: Family,
    pub tree: TreeKey,
    /// The index that the tree belongs to; `None` for the documents.
    pub index: Option<Arc<Index>>,
    pub ranges: Vec<ByteRange>,
}

impl TreeRanges {
    /// The ranges of an access path; `None` when its entries must be tested or de-duplicated.
    pub fn of(access: &Access, collection: &Collection) -> Option<Self> {
        match access {
            Access::Index(access) => {
                let ranges = settled_ranges(access)?;
                (!access.repeats()).then(|| Self::in_index(access, ranges))
            }
            Access::Primary(access) => {
                let ranges = access.bounds.ranges(Direction::Ascending);
                Some(Self::in_documents(collection, ranges))
            }
            Access::Collection(_) => {
                let ranges = vec![ByteRange::prefixed(Vec::new())];
                Some(Self::in_documents(collection, ranges))
            }
            Access::Union(union) => Self::union(&union.branches, collection),
            Access::Nothing | Access::Geo(_) | Access::Near(_) | Access::Ranked(_) => None,
        }
    }

    /// The ranges that an access path on an index walks, whether or not every entry in them matches.
    pub fn walked(access: &IndexAccess) -> Self {
        Self::in_index(access, walked_ranges(access).ranges)
    }

    fn in_index(access: &IndexAccess, ranges: Vec<ByteRange>) -> Self {
        Self {
            family: Family::Indexes,
            tree: access.index.tree,
            index: Some(access.index.clone()),
            ranges,
        }
    }

    fn in_documents(collection: &Collection, ranges: Vec<ByteRange>) -> Self {
        Self {
            family: Family::Documents,
            tree: collection.documents,
            index: None,
            ranges,
        }
    }

    /// The ranges of all branches together, when they are ranges of the same tree.
    fn union(branches: &[Branch], collection: &Collection) -> Option<Self> {
        let is_proven = branches
            .iter()
            .all(|branch| branch.residual.is_none() && !branch.access.tests_entries());
        let mut parts = branches
            .iter()
            .map(|branch| Self::of(&branch.access, collection));
        let mut all = parts.next().filter(|_| is_proven)??;
        for part in parts {
            let part = part.filter(|part| part.tree == all.tree)?;
            all.ranges.extend(part.ranges);
        }
        all.ranges = merged(all.ranges);
        Some(all)
    }

    /// What is in the ranges in a view, to be counted; `None` when the rank index does not know.
    pub fn total(&self, view: &ReadView) -> Option<Total> {
        let (runs, pieces) = self.runs(view)?;
        Some(Total {
            whole: runs.iter().map(|run| run.entries).sum(),
            pieces: TotalParts::Ranges(pieces),
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
        let mut piece = |piece: PartialBucket<'_>| in_partial += u64::from(piece.bucket.entries());
        for range in &self.ranges {
            whole += index.count_from(&mut hint, &range.start, Some(&range.end), &mut piece)?;
        }
        Some((whole, whole + in_partial))
    }

    /// The runs of whole buckets, and the partial buckets that are left.
    pub fn runs(&self, view: &ReadView) -> Option<(Vec<RankInterval>, PartialBuckets)> {
        let ranks = view.ranks(self.tree)?;
        let mut pieces = PartialBuckets::new(self.family, self.tree);
        let mut runs = Vec::with_capacity(self.ranges.len());
        let mut hint = SearchHint::default();
        for range in &self.ranges {
            let mut piece = |piece: PartialBucket<'_>| pieces.push(&piece, ());
            runs.push(ranks.interval_from(
                &mut hint,
                &range.start,
                Some(&range.end),
                &mut piece,
            )?);
        }
        Some((runs, pieces))
    }
}

/// What an access path matches in a view: what its rank index knows, and what must be scanned on the
/// view's snapshot.
pub struct Total {
    whole: u64,
    pieces: TotalParts,
}

enum TotalParts {
    Ranges(PartialBuckets),
    Area(PartialBuckets<CellRelation>, GeoAccess),
    Border(Border),
}

impl Total {
    /// Takes what an access path matches, whose entries prove the match, from its rank index; `None` when
    /// that cannot tell.
    pub fn take(access: &Access, collection: &Collection, view: &ReadView) -> Option<Self> {
        let Access::Geo(access) = access else {
            return TreeRanges::of(access, collection)?.total(view);
        };
        if access.position == 0 && counted_area::holds_single_points(access) {
            let (whole, border) = Border::take(access, collection, view)?;
            let pieces = TotalParts::Border(border);
            return Some(Self { whole, pieces });
        }
        let taken = counted_area::take(access, view)?;
        Some(Self {
            whole: taken.runs.iter().map(|run| run.entries).sum(),
            pieces: TotalParts::Area(taken.pieces, access.clone()),
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
        let walked = match &self.pieces {
            TotalParts::Ranges(pieces) => pieces.count(snapshot, context)?,
            TotalParts::Area(pieces, access) => {
                pieces.count_where(snapshot, context, &counted_area::entry_test(access))?
            }
            TotalParts::Border(border) => border.count(snapshot, context)?,
        };
        Ok(self.whole + walked)
    }
}

/// Sorted, with overlapping ranges joined.
fn merged(mut ranges: Vec<ByteRange>) -> Vec<ByteRange> {
    ranges.sort_unstable_by(|a, b| a.start.cmp(&b.start));
    let mut joined: Vec<ByteRange> = Vec::with_capacity(ranges.len());
    for range in ranges {
        match joined.last_mut() {
            Some(last) if range.start <= last.end => {
                if range.end > last.end {
                    last.end = range.end;
                }
            }
            _ => joined.push(range),
        }
    }
    joined
}

/// Gets every entry that is scanned: the tag of its partial bucket, its key and its value.
pub(super) type Visit<'v, M> = dyn FnMut(M, &[u8], &[u8]) + 'v;

/// Partial buckets that have to be scanned, ascending, each with a tag of the caller's.
pub(super) struct PartialBuckets<M = ()> {
    family: Family,
    tree: TreeKey,
    /// `tree ++ start` and `tree ++ end` of all partial buckets, one behind the other.
    keys: Vec<u8>,
    pieces: Vec<Bounds<M>>,
    entries_max: u64,
}

struct Bounds<M> {
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
            pieces: Vec::new(),
            entries_max: 0,
        }
    }

    /// Adds a partial bucket behind the others.
    pub fn push(&mut self, piece: &PartialBucket<'_>, stamp: M) {
        self.push_span(piece.start, piece.end, stamp);
        self.entries_max += u64::from(piece.bucket.entries());
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
        self.pieces.push(Bounds {
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
        let count = |pieces: std::ops::Range<usize>| {
            let mut found = 0;
            self.walk(pieces, snapshot, context, &mut |stamp, _, value| {
                found += u64::from(test(stamp, value));
            })?;
            Ok(found)
        };
        let all = 0..self.pieces.len();
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
        self.walk(0..self.pieces.len(), snapshot, context, visit)
    }

    fn walk(
        &self,
        pieces: std::ops::Range<usize>,
        snapshot: &Snapshot,
        context: &Context,
        visit: &mut Visit<'_, M>,
    ) -> Result<()> {
        if pieces.is_empty() {
            return Ok(());
        }
        let (first, last) = (self.start(pieces.start), self.end(pieces.end - 1));
        let mut scan = snapshot.scan(self.family, first, last, Order::Forward);
        let mut pacer = YieldCheck::new(context.clone());
        let mut is_on_entry = false;
        for piece in pieces {
            let (start, end, stamp) =
                (self.start(piece), self.end(piece), self.pieces[piece].stamp);
            // A short gap is stepped over; only a longer one is worth a search.
            let mut steps = 0;
            while is_on_entry && steps < STEPS_BEFORE_SEEK && scan.entry().0 < start {
                pacer.step_key()?;
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
                pacer.step_key()?;
                visit(stamp, key, value);
                is_on_entry = scan.advance()?;
            }
            if !is_on_entry {
                break;
            }
        }
        Ok(())
    }

    fn start(&self, piece: usize) -> &[u8] {
        let bounds = &self.pieces[piece];
        &self.keys[bounds.start_at..bounds.end_at]
    }

    fn end(&self, piece: usize) -> &[u8] {
        let next = self.pieces.get(piece + 1);
        let end = next.map_or(self.keys.len(), |next| next.start_at);
        &self.keys[self.pieces[piece].end_at..end]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overlapping_and_touching_ranges_are_joined() {
        let range = |start: &[u8], end: &[u8]| ByteRange {
            start: start.to_vec(),
            end: end.to_vec(),
        };
        let all = vec![
            range(b"e", b"f"),
            range(b"a", b"c"),
            range(b"b", b"b\xff"),
            range(b"c", b"d"),
        ];
        assert_eq!(merged(all), [range(b"a", b"d"), range(b"e", b"f")]);
    }
}
