//! Consecutive key ranges with their numbers of entries, packed: about 20 bytes a range.

use super::points::Points;
use super::{head, last_where_near, shared_bytes};
use crate::index::pages::Page;
use std::cmp::Ordering;
use std::ops::Range;
use std::sync::Arc;

/// Heads of a block's first key and of the next block's that are closer than this tell too little.
const HEADS_APART_MIN: u128 = 1 << 16;

/// What is kept of a range's entries until the range changes.
#[derive(Debug, Clone, Default)]
struct Kept {
    /// The points, where an area's border ran through.
    points: Option<Points>,
    /// The entries, where searches for the nearest or samples came by.
    page: Option<Arc<Page>>,
}

/// Ranges side by side: each begins at its own first key and ends where the next begins.
#[derive(Debug, Clone, Default)]
pub(super) struct Block {
    /// The first keys of all ranges, one behind the other.
    starts: Vec<u8>,
    /// Where each first key ends in `starts`.
    ends: Vec<u32>,
    counts: Vec<u32>,
    /// Of ranges that were looked into; empty, or one a range.
    kept: Vec<Kept>,
    /// The summary's number of changes when this block changed last.
    pub changed_at: u64,
}

impl Block {
    pub fn ranges(&self) -> usize {
        self.counts.len()
    }

    /// First key of a range.
    pub fn start(&self, range: usize) -> &[u8] {
        let from = self.start_offset(range);
        &self.starts[from..self.ends[range] as usize]
    }

    pub fn count(&self, range: usize) -> u32 {
        self.counts[range]
    }

    /// The number of entries of a range that is about to change.
    pub fn count_mut(&mut self, range: usize) -> &mut u32 {
        self.forget(range);
        &mut self.counts[range]
    }

    /// Drops what is kept of a range.
    pub fn forget(&mut self, range: usize) {
        if let Some(kept) = self.kept.get_mut(range) {
            *kept = Kept::default();
        }
    }

    /// The points of a range, if they are known.
    pub fn points(&self, range: usize) -> Option<&Points> {
        self.kept.get(range)?.points.as_ref()
    }

    /// The page of a range, if there is one.
    pub fn page(&self, range: usize) -> Option<&Arc<Page>> {
        self.kept.get(range)?.page.as_ref()
    }

    pub fn set_points(&mut self, range: usize, points: Points) {
        self.kept_mut(range).points = Some(points);
    }

    pub fn set_page(&mut self, range: usize, page: Arc<Page>) {
        self.kept_mut(range).page = Some(page);
    }

    pub fn forget_points(&mut self) {
        self.kept.iter_mut().for_each(|kept| kept.points = None);
    }

    fn kept_mut(&mut self, range: usize) -> &mut Kept {
        self.kept.resize_with(self.counts.len(), Kept::default);
        &mut self.kept[range]
    }

    /// Drops what is kept: the ranges are about to become others.
    fn forget_all(&mut self) {
        self.kept = Vec::new();
    }

    /// Points that are known of all ranges.
    pub fn points_known(&self) -> usize {
        let points = self.kept.iter().filter_map(|kept| kept.points.as_ref());
        points.map(|points| points.len()).sum()
    }

    /// Entries of several ranges together.
    pub fn sum(&self, ranges: Range<usize>) -> u64 {
        self.counts[ranges]
            .iter()
            .map(|count| u64::from(*count))
            .sum()
    }

    /// The last range from `from` on that begins at or before `key`; `from` itself must. `heads` are those of
    /// the block's first key and of the first behind it.
    pub fn find(&self, from: usize, key: &[u8], heads: [u128; 2]) -> usize {
        // Heads nearly always tell where among the ranges a key is, without a look at the first and the last
        // of them: each look elsewhere is a cache miss.
        if heads[1].saturating_sub(heads[0]) >= HEADS_APART_MIN {
            let near = guess(heads, head(key), self.ranges()).max(from);
            return self.find_near(near, from..self.ranges(), key, head);
        }
        let last = self.ranges() - 1;
        let (low, high) = (self.start(from), self.start(last));
        if high <= key {
            return last;
        }
        // What these two have in common all keys between them have. The bytes behind it tell nearly all
        // of them apart, and about where among them a key is.
        let shared = shared_bytes(low, high);
        let behind = |key: &[u8]| word(&key[shared..]).into();
        let near = from + guess([low, high].map(behind), behind(key), last - from);
        self.find_near(near, from..last, key, behind)
    }

    /// The same among some ranges, looked for from a guess on, with a number that nearly always tells which
    /// of two keys is the lesser.
    fn find_near(
        &self,
        guess: usize,
        ranges: Range<usize>,
        key: &[u8],
        number: impl Fn(&[u8]) -> u128,
    ) -> usize {
        let own = number(key);
        let begins_before = |range: usize| {
            let start = self.start(range);
            match number(start).cmp(&own) {
                Ordering::Equal => start <= key,
                order => order == Ordering::Less,
            }
        };
        last_where_near(guess, ranges.start, ranges.end, begins_before)
    }

    /// Cuts the range before `at` in two. What is kept of the others stays.
    pub fn insert(&mut self, at: usize, start: &[u8], count: u32) {
        if !self.kept.is_empty() {
            self.forget(at.saturating_sub(1));
            self.kept.insert(at, Kept::default());
        }
        self.reserve(start.len());
        let offset = self.start_offset(at);
        self.starts.splice(offset..offset, start.iter().copied());
        self.ends.insert(at, length(offset));
        self.counts.insert(at, count);
        let added = length(start.len());
        self.ends[at..].iter_mut().for_each(|end| *end += added);
    }

    /// Joins a range with the one before it.
    pub fn join_with_previous(&mut self, range: usize) {
        self.forget_all();
        self.counts[range - 1] += self.counts[range];
        let (from, to) = (self.start_offset(range), self.ends[range] as usize);
        self.starts.drain(from..to);
        self.ends.remove(range);
        self.counts.remove(range);
        let removed = length(to - from);
        self.ends[range..]
            .iter_mut()
            .for_each(|end| *end -= removed);
    }

    /// Takes the ranges from `at` on away into a block of their own.
    pub fn split_off(&mut self, at: usize) -> Self {
        let kept = match self.kept.is_empty() {
            true => Vec::new(),
            false => self.kept.split_off(at),
        };
        let offset = self.start_offset(at);
        let mut ends = self.ends.split_off(at);
        ends.iter_mut().for_each(|end| *end -= length(offset));
        let other = Self {
            starts: self.starts.split_off(offset),
            ends,
            counts: self.counts.split_off(at),
            kept,
            changed_at: self.changed_at,
        };
        self.starts.shrink_to_fit();
        self.ends.shrink_to_fit();
        self.counts.shrink_to_fit();
        other
    }

    /// Adds the ranges of the block behind this one.
    pub fn append(&mut self, other: &Self) {
        self.forget_all();
        self.changed_at = self.changed_at.max(other.changed_at);
        let offset = length(self.starts.len());
        self.starts.extend_from_slice(&other.starts);
        self.ends.extend(other.ends.iter().map(|end| end + offset));
        self.counts.extend_from_slice(&other.counts);
    }

    /// Bytes of memory, about.
    pub fn bytes(&self) -> usize {
        size_of::<Self>()
            + self.starts.capacity()
            + 4 * (self.ends.capacity() + self.counts.capacity())
    }

    /// Makes room for one more range and few others: vectors that double would waste a third of the memory.
    fn reserve(&mut self, start_bytes: usize) {
        const RANGES: usize = 8;
        if self.starts.capacity() - self.starts.len() < start_bytes {
            self.starts.reserve_exact(RANGES * start_bytes.max(8));
        }
        if self.ends.len() == self.ends.capacity() {
            self.ends.reserve_exact(RANGES);
            self.counts.reserve_exact(RANGES);
        }
    }

    fn start_offset(&self, range: usize) -> usize {
        match range {
            0 => 0,
            _ => self.ends[range - 1] as usize,
        }
    }
}

/// The first 8 bytes of a key as a number: of two keys the lesser never has the greater one. Cheaper than
/// comparing keys, of which it tells nearly all apart.
pub(super) fn word(key: &[u8]) -> u64 {
    match key.first_chunk() {
        Some(first) => u64::from_be_bytes(*first),
        None => {
            let shifted = key
                .iter()
                .fold(0, |word, byte| word << 8 | u64::from(*byte));
            shifted.unbounded_shl(8 * (8 - key.len() as u32))
        }
    }
}

/// About which of so many steps from the first to the last number leads to one between them.
fn guess([first, last]: [u128; 2], own: u128, steps: usize) -> usize {
    // The leading 32 bits are exact enough, and no large numbers are divided.
    let extent = last - first;
    let shift = (128 - extent.leading_zeros()).saturating_sub(32);
    let leading = |distance: u128| (distance >> shift) as u64;
    let share = leading(own.saturating_sub(first).min(extent)) * steps as u64;
    (share / leading(extent).max(1)) as usize
}

fn length(bytes: usize) -> u32 {
    u32::try_from(bytes).expect("a block holds few keys, none longer than a document")
}
