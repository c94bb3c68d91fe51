//! What a rank index is asked: how many entries lie between two keys, and where the one of a rank is.

use super::leaf::{BucketStart, word};
use super::{BucketPosition, RankIndex, shared_bytes};
use std::ops::Range;

/// Where the last bucket was, see [`RankIndex::count_from`].
#[derive(Debug, Clone, Copy)]
pub struct SearchHint {
    place: BucketPosition,
    /// A bucket before which the number of entries is known, and that number.
    ranked: (BucketPosition, u64),
}

impl Default for SearchHint {
    fn default() -> Self {
        Self {
            place: BucketPosition::FIRST,
            ranked: (BucketPosition::FIRST, 0),
        }
    }
}

/// Whole buckets side by side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RankInterval {
    /// Rank of the first entry in its tree.
    pub first_rank: u64,
    /// Number of entries.
    pub entries: u64,
}

/// One bucket.
#[derive(Debug, Clone, Copy)]
pub struct BucketRef<'a> {
    pub(super) ranks: &'a RankIndex,
    pub(super) place: BucketPosition,
}

impl<'a> BucketRef<'a> {
    /// Which bucket it is, as long as the rank index does not change.
    pub fn place(&self) -> BucketPosition {
        self.place
    }

    /// Its first key.
    pub fn start(&self) -> BucketStart {
        self.ranks.start(self.place)
    }

    /// The first key behind it; `None` at the end of the tree.
    pub fn end(&self) -> Option<BucketStart> {
        self.ranks.end(self.place)
    }

    /// The number of its entries.
    pub fn entries(&self) -> u32 {
        self.ranks.count_at(self.place)
    }
}

/// A partial bucket of a bucket: the entries from `start` up to `end` (`None`: the end of the tree) have to be
/// scanned to be counted.
#[derive(Debug, Clone, Copy)]
pub struct PartialBucket<'a> {
    /// The first key asked for.
    pub start: &'a [u8],
    /// The first key not asked for.
    pub end: Option<&'a [u8]>,
    /// The whole bucket.
    pub bucket: BucketRef<'a>,
}

impl PartialBucket<'_> {
    /// About how many entries it has, if they lie evenly in their bucket.
    pub fn estimate(&self) -> f64 {
        f64::from(self.bucket.entries()) * self.share().unwrap_or(0.5)
    }

    /// Which part of its bucket the partial bucket is, told from the eight bytes behind those that the bucket's ends
    /// have in common.
    fn share(&self) -> Option<f64> {
        let (low, high) = (self.bucket.start(), self.bucket.end()?);
        let shared = shared_bytes(&low, &high);
        let behind = |key: &[u8]| word(key.get(shared..).unwrap_or_default());
        let (first, last) = (behind(&low), behind(&high));
        if first == last {
            return None;
        }
        #[allow(clippy::cast_precision_loss)]
        let between = |from: u64, to: u64| to.saturating_sub(from) as f64;
        let share = between(behind(self.start), behind(self.end?)) / between(first, last);
        Some(share.clamp(0.0, 1.0))
    }
}

/// Where the entry of some rank is: that many entries behind the first of a bucket.
#[derive(Debug, Clone, Copy)]
pub struct SelectedEntry<'a> {
    /// The bucket.
    pub bucket: BucketRef<'a>,
    /// Entries of the bucket before it.
    pub offset: u32,
}

impl RankIndex {
    /// The number of entries in `[start, end)` (`None`: to the end of the tree) as far as whole buckets
    /// go; what is left, at most two partial buckets, is handed to `partial bucket`. `None` when part of it is not built yet.
    pub fn count(
        &self,
        start: &[u8],
        end: Option<&[u8]>,
        partial: &mut dyn FnMut(PartialBucket<'_>),
    ) -> Option<u64> {
        self.count_from(&mut SearchHint::default(), start, end, partial)
    }

    /// [`Self::count`] where buckets are asked for in ascending order: each is looked for from where
    /// the last one began.
    pub fn count_from(
        &self,
        hint: &mut SearchHint,
        start: &[u8],
        end: Option<&[u8]>,
        partial: &mut dyn FnMut(PartialBucket<'_>),
    ) -> Option<u64> {
        let (from, to) = self.whole_buckets(hint, start, end, partial)?;
        Some(self.sum(from, to))
    }

    /// As [`Self::count_from`], with the rank of the first entry that is in a whole bucket. Ranks are
    /// added up from the last one that was asked for.
    pub fn interval_from(
        &self,
        hint: &mut SearchHint,
        start: &[u8],
        end: Option<&[u8]>,
        partial: &mut dyn FnMut(PartialBucket<'_>),
    ) -> Option<RankInterval> {
        let (from, to) = self.whole_buckets(hint, start, end, partial)?;
        if from < hint.ranked.0 {
            hint.ranked = SearchHint::default().ranked;
        }
        let (last, before) = hint.ranked;
        let first_rank = before + self.sum(last, Some(from));
        hint.ranked = (from, first_rank);
        Some(RankInterval {
            first_rank,
            entries: self.sum(from, to),
        })
    }

    /// Hands out the buckets that hold entries and of which `[start, end)` takes some or all. `None` when part
    /// of it is unknown.
    pub fn buckets_from(
        &self,
        hint: &mut SearchHint,
        start: &[u8],
        end: &[u8],
        bucket: &mut dyn FnMut(BucketRef<'_>),
    ) -> Option<()> {
        if self.is_unbuilt_before(Some(end)) {
            return None;
        }
        let mut place = self.find(hint.place, start);
        hint.place = place;
        // One that begins at the end holds nothing of it, but hardly any does.
        let last = self.find_from(place, end);
        while place <= last {
            if self.count_at(place) > 0 {
                bucket(self.bucket_at(place));
            }
            place = self.next(place);
        }
        Some(())
    }

    /// About how many entries lie in `[start, end)`: half of what is in the buckets, or leaves, at its ends, and
    /// all between. `None` when part of it is not built yet. What lies in two buckets at most counts as nothing.
    pub fn about_from(&self, hint: &mut SearchHint, start: &[u8], end: &[u8]) -> Option<u64> {
        if self.is_unbuilt_before(Some(end)) {
            return None;
        }
        let from = if self.begins_by(hint.place, start) {
            hint.place
        } else {
            BucketPosition::FIRST
        };
        let leaf = self.leaf_from(from.leaf, start);
        let last_leaf = self.leaf_from(leaf, end);
        if leaf + 1 < last_leaf {
            hint.place = from.max(BucketPosition { leaf, bucket: 0 });
            let between: u64 = self.totals[leaf + 1..last_leaf].iter().sum();
            return Some(between + (self.totals[leaf] + self.totals[last_leaf]) / 2);
        }
        let first = self.find_in(leaf, from, start);
        let last = self.find_in(last_leaf, first, end);
        hint.place = first;
        if last <= self.next(first) {
            return Some(0);
        }
        let ends = self.count_at(first) + self.count_at(last);
        Some(self.sum(self.next(first), Some(last)) + u64::from(ends / 2))
    }

    pub(super) fn bucket_at(&self, place: BucketPosition) -> BucketRef<'_> {
        let ranks = self;
        BucketRef { ranks, place }
    }

    /// The buckets wholly in `[start, end)`, from one up to but not including another; the partial buckets of
    /// those that are not are handed out.
    fn whole_buckets(
        &self,
        hint: &mut SearchHint,
        start: &[u8],
        end: Option<&[u8]>,
        partial: &mut dyn FnMut(PartialBucket<'_>),
    ) -> Option<(BucketPosition, Option<BucketPosition>)> {
        if end.is_some_and(|end| end <= start) {
            return Some((BucketPosition::FIRST, Some(BucketPosition::FIRST)));
        }
        if self.is_unbuilt_before(end) {
            return None;
        }
        let first = self.find(hint.place, start);
        hint.place = first;
        let last = end.map(|end| self.find(first, end));
        if last == Some(first) {
            self.edge(first, start, end, partial);
            return Some((first, Some(first)));
        }
        let mut from = first;
        if *self.start(first) < *start {
            self.edge(first, start, self.end(first).as_deref(), partial);
            from = self.next(first);
        }
        if let (Some(last), Some(end)) = (last, end)
            && *self.start(last) < *end
        {
            self.edge(last, &self.start(last), Some(end), partial);
        }
        Some((from, last))
    }

    /// Hands a partial bucket of a bucket on, unless the bucket is empty.
    pub(super) fn edge(
        &self,
        place: BucketPosition,
        start: &[u8],
        end: Option<&[u8]>,
        partial: &mut dyn FnMut(PartialBucket<'_>),
    ) {
        let bucket = self.bucket_at(place);
        if bucket.entries() > 0 {
            partial(PartialBucket { start, end, bucket });
        }
    }

    /// Where the entries of these ranks (0 is the first of the tree) are, in the order given, which
    /// must be ascending; ranks beyond the last entry are left out.
    pub fn select(&self, ranks: &[u64], found: &mut dyn FnMut(SelectedEntry<'_>)) {
        let (mut place, mut before) = (BucketPosition::FIRST, 0);
        for rank in ranks {
            (place, before) = self.step_to_rank(place, before, *rank);
            if place.leaf == self.leaves.len() {
                return;
            }
            let offset = u32::try_from(rank - before);
            found(SelectedEntry {
                bucket: self.bucket_at(place),
                offset: offset.expect("a bucket holds fewer than 2^32 entries"),
            });
        }
    }

    /// The bucket that holds `rank`, from `place` on, before which there are `before` entries.
    fn step_to_rank(
        &self,
        mut place: BucketPosition,
        mut before: u64,
        rank: u64,
    ) -> (BucketPosition, u64) {
        while place.leaf < self.leaves.len() {
            let total = self.totals[place.leaf];
            if place.bucket == 0 && before + total <= rank {
                before += total;
                place.leaf += 1;
                continue;
            }
            let count = u64::from(self.count_at(place));
            if before + count > rank {
                break;
            }
            before += count;
            place = self.next(place);
        }
        (place, before)
    }

    /// Entries of the buckets from `from` up to but not including `to` (`None`: to the last).
    pub(super) fn sum(&self, from: BucketPosition, to: Option<BucketPosition>) -> u64 {
        let end = BucketPosition {
            leaf: self.leaves.len(),
            bucket: 0,
        };
        let to = to.unwrap_or(end);
        if from >= to {
            return 0;
        }
        let within = |leaf: usize, buckets: Range<usize>| self.leaves[leaf].sum(buckets);
        if from.leaf == to.leaf {
            return within(from.leaf, from.bucket..to.bucket);
        }
        let first = within(from.leaf, from.bucket..self.leaves[from.leaf].buckets());
        let between: u64 = self.totals[from.leaf + 1..to.leaf].iter().sum();
        let last = if to.leaf < self.leaves.len() {
            within(to.leaf, 0..to.bucket)
        } else {
            0
        };
        first + between + last
    }
}
