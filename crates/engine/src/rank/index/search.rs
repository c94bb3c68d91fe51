//! What a summary is asked: how many entries lie between two keys, and where the one of a rank is.

use super::block::{Start, word};
use super::{Place, Points, Summary, shared_bytes};
use crate::index::pages::{PageContents, PageKind};
use std::ops::Range;
use std::sync::Arc;

/// Where the last range was, see [`Summary::count_from`].
#[derive(Debug, Clone, Copy)]
pub struct Hint {
    place: Place,
    /// A range before which the number of entries is known, and that number.
    ranked: (Place, u64),
}

impl Default for Hint {
    fn default() -> Self {
        Self {
            place: Place::FIRST,
            ranked: (Place::FIRST, 0),
        }
    }
}

/// Whole ranges side by side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Run {
    /// Rank of the first entry in its tree.
    pub first_rank: u64,
    /// Number of entries.
    pub entries: u64,
}

/// One range.
#[derive(Debug, Clone, Copy)]
pub struct RangeAt<'a> {
    summary: &'a Summary,
    place: Place,
}

impl<'a> RangeAt<'a> {
    /// Which range it is, as long as the summary does not change.
    pub fn place(&self) -> Place {
        self.place
    }

    /// Its first key.
    pub fn start(&self) -> Start {
        self.summary.start(self.place)
    }

    /// The first key behind it; `None` at the end of the tree.
    pub fn end(&self) -> Option<Start> {
        self.summary.end(self.place)
    }

    /// The number of its entries.
    pub fn entries(&self) -> u32 {
        self.summary.count_at(self.place)
    }

    /// The points of its entries, if they are remembered.
    pub fn points(&self) -> Option<&'a Points> {
        self.summary.blocks[self.place.block].points(self.place.range)
    }

    /// Its entries, if they are kept.
    pub fn contents(&self, kind: PageKind) -> Option<Arc<PageContents>> {
        self.summary.contents_now(self.place, kind)
    }
}

/// A piece of a range: the entries from `start` up to `end` (`None`: the end of the tree) have to be
/// walked to be counted.
#[derive(Debug, Clone, Copy)]
pub struct Piece<'a> {
    /// The first key asked for.
    pub start: &'a [u8],
    /// The first key not asked for.
    pub end: Option<&'a [u8]>,
    /// The whole range.
    pub range: RangeAt<'a>,
}

impl Piece<'_> {
    /// About how many entries it has, if they lie evenly in their range.
    pub fn estimate(&self) -> f64 {
        f64::from(self.range.entries()) * self.share().unwrap_or(0.5)
    }

    /// Which part of its range the piece is, told from the eight bytes behind those that the range's ends
    /// have in common.
    fn share(&self) -> Option<f64> {
        let (low, high) = (self.range.start(), self.range.end()?);
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

/// Where the entry of some rank is: that many entries behind the first of a range.
#[derive(Debug, Clone, Copy)]
pub struct Selected<'a> {
    /// The range.
    pub range: RangeAt<'a>,
    /// Entries of the range before it.
    pub offset: u32,
}

impl Summary {
    /// The number of entries in `[start, end)` (`None`: to the end of the tree) as far as whole ranges
    /// go; what is left, at most two pieces, is handed to `piece`. `None` when part of it is unknown.
    pub fn count(
        &self,
        start: &[u8],
        end: Option<&[u8]>,
        piece: &mut dyn FnMut(Piece<'_>),
    ) -> Option<u64> {
        self.count_from(&mut Hint::default(), start, end, piece)
    }

    /// [`Self::count`] where ranges are asked for in ascending order: each is looked for from where
    /// the last one began.
    pub fn count_from(
        &self,
        hint: &mut Hint,
        start: &[u8],
        end: Option<&[u8]>,
        piece: &mut dyn FnMut(Piece<'_>),
    ) -> Option<u64> {
        let (from, to) = self.whole_ranges(hint, start, end, piece)?;
        Some(self.sum(from, to))
    }

    /// As [`Self::count_from`], with the rank of the first entry that is in a whole range. Ranks are
    /// added up from the last one that was asked for.
    pub fn run_from(
        &self,
        hint: &mut Hint,
        start: &[u8],
        end: Option<&[u8]>,
        piece: &mut dyn FnMut(Piece<'_>),
    ) -> Option<Run> {
        let (from, to) = self.whole_ranges(hint, start, end, piece)?;
        if from < hint.ranked.0 {
            hint.ranked = Hint::default().ranked;
        }
        let (last, before) = hint.ranked;
        let first_rank = before + self.sum(last, Some(from));
        hint.ranked = (from, first_rank);
        Some(Run {
            first_rank,
            entries: self.sum(from, to),
        })
    }

    /// Hands out the ranges that hold entries and of which `[start, end)` takes some or all. `None` when part
    /// of it is unknown.
    pub fn ranges_from(
        &self,
        hint: &mut Hint,
        start: &[u8],
        end: &[u8],
        range: &mut dyn FnMut(RangeAt<'_>),
    ) -> Option<()> {
        if self.is_unknown_before(Some(end)) {
            return None;
        }
        let mut place = self.find(hint.place, start);
        hint.place = place;
        // One that begins at the end holds nothing of it, but hardly any does.
        let last = self.find_from(place, end);
        while place <= last {
            if self.count_at(place) > 0 {
                range(self.range_at(place));
            }
            place = self.next(place);
        }
        Some(())
    }

    /// About how many entries lie in `[start, end)`: half of what is in the ranges, or blocks, at its ends, and
    /// all between. `None` when part of it is unknown. What lies in two ranges at most counts as nothing.
    pub fn about_from(&self, hint: &mut Hint, start: &[u8], end: &[u8]) -> Option<u64> {
        if self.is_unknown_before(Some(end)) {
            return None;
        }
        let from = if self.begins_by(hint.place, start) {
            hint.place
        } else {
            Place::FIRST
        };
        let block = self.block_from(from.block, start);
        let last_block = self.block_from(block, end);
        if block + 1 < last_block {
            hint.place = from.max(Place { block, range: 0 });
            let between: u64 = self.totals[block + 1..last_block].iter().sum();
            return Some(between + (self.totals[block] + self.totals[last_block]) / 2);
        }
        let first = self.find_in(block, from, start);
        let last = self.find_in(last_block, first, end);
        hint.place = first;
        if last <= self.next(first) {
            return Some(0);
        }
        let ends = self.count_at(first) + self.count_at(last);
        Some(self.sum(self.next(first), Some(last)) + u64::from(ends / 2))
    }

    fn range_at(&self, place: Place) -> RangeAt<'_> {
        let summary = self;
        RangeAt { summary, place }
    }

    /// The ranges wholly in `[start, end)`, from one up to but not including another; the pieces of
    /// those that are not are handed out.
    fn whole_ranges(
        &self,
        hint: &mut Hint,
        start: &[u8],
        end: Option<&[u8]>,
        piece: &mut dyn FnMut(Piece<'_>),
    ) -> Option<(Place, Option<Place>)> {
        if end.is_some_and(|end| end <= start) {
            return Some((Place::FIRST, Some(Place::FIRST)));
        }
        if self.is_unknown_before(end) {
            return None;
        }
        let first = self.find(hint.place, start);
        hint.place = first;
        let last = end.map(|end| self.find(first, end));
        if last == Some(first) {
            self.edge(first, start, end, piece);
            return Some((first, Some(first)));
        }
        let mut from = first;
        if *self.start(first) < *start {
            self.edge(first, start, self.end(first).as_deref(), piece);
            from = self.next(first);
        }
        if let (Some(last), Some(end)) = (last, end)
            && *self.start(last) < *end
        {
            self.edge(last, &self.start(last), Some(end), piece);
        }
        Some((from, last))
    }

    /// Hands a piece of a range on, unless the range is empty.
    pub(super) fn edge(
        &self,
        place: Place,
        start: &[u8],
        end: Option<&[u8]>,
        piece: &mut dyn FnMut(Piece<'_>),
    ) {
        let range = self.range_at(place);
        if range.entries() > 0 {
            piece(Piece { start, end, range });
        }
    }

    /// Where the entries of these ranks (0 is the first of the tree) are, in the order given, which
    /// must be ascending; ranks beyond the last entry are left out.
    pub fn select(&self, ranks: &[u64], found: &mut dyn FnMut(Selected<'_>)) {
        let (mut place, mut before) = (Place::FIRST, 0);
        for rank in ranks {
            (place, before) = self.walk_to_rank(place, before, *rank);
            if place.block == self.blocks.len() {
                return;
            }
            let offset = u32::try_from(rank - before);
            found(Selected {
                range: self.range_at(place),
                offset: offset.expect("a range holds fewer than 2^32 entries"),
            });
        }
    }

    /// The range that holds `rank`, from `place` on, before which there are `before` entries.
    fn walk_to_rank(&self, mut place: Place, mut before: u64, rank: u64) -> (Place, u64) {
        while place.block < self.blocks.len() {
            let total = self.totals[place.block];
            if place.range == 0 && before + total <= rank {
                before += total;
                place.block += 1;
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

    /// Entries of the ranges from `from` up to but not including `to` (`None`: to the last).
    pub(super) fn sum(&self, from: Place, to: Option<Place>) -> u64 {
        let end = Place {
            block: self.blocks.len(),
            range: 0,
        };
        let to = to.unwrap_or(end);
        if from >= to {
            return 0;
        }
        let within = |block: usize, ranges: Range<usize>| self.blocks[block].sum(ranges);
        if from.block == to.block {
            return within(from.block, from.range..to.range);
        }
        let first = within(from.block, from.range..self.blocks[from.block].ranges());
        let between: u64 = self.totals[from.block + 1..to.block].iter().sum();
        let last = if to.block < self.blocks.len() {
            within(to.block, 0..to.range)
        } else {
            0
        };
        first + between + last
    }
}
