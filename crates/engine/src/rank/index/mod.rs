//! How many entries lie in any range of keys of one tree, and which one is the k-th.
//!
//! A tree is cut into ranges of about thirty entries, and the exact number in each is kept. A count
//! of `[a, b)` is the sum of the ranges wholly inside and of what a short walk finds in the two ranges
//! at the ends; the k-th entry is found by adding up ranges and a short walk in one. Writers tell every
//! key that comes or goes. A range that grows crowded is cut again by walking it (see `recount`), later
//! while much is written; and so is learnt a tree that was there before: until then what lies behind
//! `unknown_from` is not known.
//! Where keys are appended, new ranges begin at them without a walk.
//!
//! Memory: about 12 bytes a range, at most a byte an entry. Keys are those of the tree without its
//! prefix. Deliberately absent: reading the tree, locks, snapshots (see `catalog::counted`).

mod arrived;
mod asked;
mod audit;
mod block;
mod codec;
mod numbers;
mod paged;
mod points;
mod recount;
#[cfg(test)]
mod tests;

pub use arrived::Arrived;
pub use asked::{Hint, Piece, RangeAt, Run, Selected};
pub use audit::{Audit, AuditedBlock};
pub use paged::{PagedRange, ReadRange};
pub use points::{Point, Points, WalkedRange};
pub use recount::{Span, Walked};

use block::{Block, Start};
use recount::Recount;
use std::cmp::Ordering;
use std::sync::Arc;

/// A range with more entries than this is cut.
const ENTRIES_MAX: u32 = 64;
/// The same while much is written: a walk looks into every file of level 0, whatever it finds there, and
/// so costs little more for several times as many entries.
const ENTRIES_MAX_BUSY: u32 = 512;
/// Entries of a range that was just made; growing from here to [`ENTRIES_MAX`] pays for the walk.
const ENTRIES_FRESH: u32 = 16;
/// The same where little is written: such ranges will hardly grow.
const ENTRIES_SETTLED: u32 = 32;
/// Neighbours that are to be cut are walked together up to so many entries, when much was left to be cut.
const ENTRIES_SWEPT: u32 = 2_048;
/// Where keys are appended a range is closed with this many, since it will hardly grow.
const ENTRIES_APPENDED: u32 = 16;
/// Neighbours are joined up to this many entries.
const ENTRIES_JOINED: u32 = 16;
/// A block with fewer entries a range than this is compacted.
const ENTRIES_SPARSE: u64 = 4;
/// Ranges of a block: a cut moves at most this many.
const BLOCK_RANGES_MAX: usize = 128;

/// The counted ranges of one tree.
#[derive(Debug, Clone)]
pub struct Summary {
    /// Never empty; the first range begins at the empty key.
    /// Shared with copies until one of them changes.
    blocks: Vec<Arc<Block>>,
    /// Entries of each block.
    totals: Vec<u64>,
    /// The beginning of the first key of each block, see [`head`]: nearly always it tells on which side a
    /// key is, without the cache misses of looking at the block.
    heads: Vec<u128>,
    /// No entry is greater.
    greatest: Vec<u8>,
    /// What lies from this key on has not been learnt yet.
    unknown_from: Option<Vec<u8>>,
    /// First keys of ranges to be cut.
    crowded: Vec<Vec<u8>>,
    /// From this key on there may be more of them, to be looked for when little is written.
    unswept_from: Option<Vec<u8>>,
    /// Whether much is written: ranges may grow larger then.
    busy: bool,
    recount: Option<Recount>,
    /// Changes to ranges so far.
    changes: u64,
}

/// A range: which block, and which in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    block: usize,
    range: usize,
}

impl Place {
    const FIRST: Self = Self { block: 0, range: 0 };
}

impl Summary {
    /// The summary of a tree without entries.
    pub fn empty() -> Self {
        let mut block = Block::default();
        block.insert(0, b"", 0);
        Self {
            blocks: vec![Arc::new(block)],
            totals: vec![0],
            heads: vec![head(b"")],
            greatest: Vec::new(),
            unknown_from: None,
            crowded: Vec::new(),
            unswept_from: None,
            busy: false,
            recount: None,
            changes: 0,
        }
    }

    /// The summary of a tree that has to be learnt.
    pub fn unknown() -> Self {
        Self {
            unknown_from: Some(Vec::new()),
            ..Self::empty()
        }
    }

    /// A copy of what is known of the keys from `start` up to `end` (`None`: to the end of the tree), to be
    /// asked about no others. `None` when part of it is unknown.
    pub fn part(&self, start: &[u8], end: Option<&[u8]>) -> Option<Self> {
        if end.is_some_and(|end| end <= start) {
            return Some(Self::empty());
        }
        if let Some(unknown) = &self.unknown_from
            && end.is_none_or(|end| end > unknown.as_slice())
        {
            return None;
        }
        let first = self.find(Place::FIRST, start);
        let last = end.map_or(self.blocks.len() - 1, |end| self.find(first, end).block);
        Some(self.of_blocks(first.block..last.max(first.block) + 1))
    }

    fn of_blocks(&self, blocks: std::ops::Range<usize>) -> Self {
        Self {
            blocks: self.blocks[blocks.clone()].to_vec(),
            totals: self.totals[blocks.clone()].to_vec(),
            heads: self.heads[blocks].to_vec(),
            ..Self::empty()
        }
    }

    /// Whether the whole tree is known, so that every count is answered.
    pub fn is_complete(&self) -> bool {
        self.unknown_from.is_none()
    }

    /// Whether there is something to learn or to cut now.
    pub fn wants_recount(&self) -> bool {
        let wants_sweep = !self.busy && self.unswept_from.is_some();
        let wants = self.unknown_from.is_some() || !self.crowded.is_empty() || wants_sweep;
        wants && self.recount.is_none()
    }

    /// Whether much is written: ranges are then cut later, and the rest of it is made up for after it.
    pub fn set_busy(&mut self, busy: bool) {
        self.busy = busy;
    }

    /// Entries that are known.
    pub fn entries(&self) -> u64 {
        self.totals.iter().sum()
    }

    /// Bytes of memory, about.
    pub fn bytes(&self) -> usize {
        let keys = self.crowded.iter().map(Vec::len).sum::<usize>() + self.greatest.len();
        let blocks: usize = self.blocks.iter().map(|block| block.bytes()).sum();
        let each = 8 * self.totals.capacity() + 16 * self.heads.capacity();
        size_of::<Self>() + blocks + each + keys
    }

    /// Notes keys that came, each of them new; ascending ones are placed fastest.
    pub fn add<'k>(&mut self, keys: impl IntoIterator<Item = &'k [u8]>) {
        let (mut place, mut previous) = (Place::FIRST, &b""[..]);
        for key in keys {
            if let Some(recount) = &mut self.recount {
                recount.note(key, true);
            }
            if self.is_unknown(key) {
                continue;
            }
            place = if key < previous {
                self.find(place, key)
            } else {
                self.find_from(place, key)
            };
            previous = key;
            if key > self.greatest.as_slice() {
                place = self.append_key(place, key);
            }
            self.change(place, 1);
            self.note_crowded(place);
        }
    }

    /// Notes a range that has grown by one entry, if it is to be cut for that.
    fn note_crowded(&mut self, place: Place) {
        const FIRST: u32 = ENTRIES_MAX + 1;
        const FIRST_BUSY: u32 = ENTRIES_MAX_BUSY + 1;
        match self.count_at(place) {
            FIRST if self.busy => self.unswept_from = Some(Vec::new()),
            FIRST | FIRST_BUSY => self.crowded.push(self.start(place).to_vec()),
            _ => {}
        }
    }

    /// A range with more entries than this is to be cut now.
    fn entries_max(&self) -> u32 {
        match self.busy {
            true => ENTRIES_MAX_BUSY,
            false => ENTRIES_MAX,
        }
    }

    /// Notes a key that is greater than all others: what a tree is filled with in order.
    pub fn append(&mut self, key: &[u8]) {
        let block = self.blocks.len() - 1;
        let range = self.blocks[block].ranges() - 1;
        let place = self.append_key(Place { block, range }, key);
        self.change(place, 1);
    }

    /// Notes keys that went, each of which was there. False when that cannot be: the summary then
    /// forgets everything and is to be learnt anew.
    pub fn remove<'k>(&mut self, keys: impl IntoIterator<Item = &'k [u8]>) -> bool {
        let mut place = Place::FIRST;
        for key in keys {
            if let Some(recount) = &mut self.recount {
                recount.note(key, false);
            }
            if self.is_unknown(key) {
                continue;
            }
            place = self.find(place, key);
            if self.count_at(place) == 0 {
                self.forget();
                return false;
            }
            self.change(place, -1);
            if self.is_sparse(place.block) {
                self.compact(place.block);
                place = Place::FIRST;
            }
        }
        true
    }

    /// Notes keys whose values have changed: what is kept of their ranges' entries is kept no longer.
    pub fn touch<'k>(&mut self, keys: impl IntoIterator<Item = &'k [u8]>) {
        for key in keys {
            if !self.is_unknown(key) {
                let place = self.find(Place::FIRST, key);
                self.note_change(place.block).forget(place.range);
            }
        }
    }

    fn is_unknown(&self, key: &[u8]) -> bool {
        self.unknown_from
            .as_ref()
            .is_some_and(|from| from.as_slice() <= key)
    }

    /// Whether some of what lies before `end` is not known.
    fn is_unknown_before(&self, end: Option<&[u8]>) -> bool {
        self.unknown_from
            .as_ref()
            .is_some_and(|from| end.is_none_or(|end| end > from.as_slice()))
    }

    /// Forgets everything: to be learnt anew.
    pub fn forget(&mut self) {
        *self = Self {
            changes: self.changes,
            busy: self.busy,
            ..Self::unknown()
        };
        self.note_change(0);
    }

    /// Notes that ranges of a block have changed; the block.
    fn note_change(&mut self, block: usize) -> &mut Block {
        self.changes += 1;
        let changes = self.changes;
        let block = self.block_mut(block);
        block.changed_at = changes;
        block
    }

    /// The range that holds `key`, looked for from `from` on when it is not before that.
    fn find(&self, from: Place, key: &[u8]) -> Place {
        if from.block < self.blocks.len() && self.begins_by(from, key) {
            self.find_from(from, key)
        } else {
            self.find_from(Place::FIRST, key)
        }
    }

    /// The range that holds `key`, which is not before `from`.
    fn find_from(&self, from: Place, key: &[u8]) -> Place {
        self.find_in(self.block_from(from.block, key), from, key)
    }

    /// The same where the block that holds `key` is known.
    fn find_in(&self, block: usize, from: Place, key: &[u8]) -> Place {
        let first = if block == from.block { from.range } else { 0 };
        let heads = [self.heads[block], self.next_head(block)];
        Place {
            block,
            range: self.blocks[block].find(first, key, heads),
        }
    }

    /// The block that holds `key`, which is not before the block `from`.
    fn block_from(&self, from: usize, key: &[u8]) -> usize {
        let own = head(key);
        let begins_before = |block: usize| match self.heads[block].cmp(&own) {
            Ordering::Less => true,
            Ordering::Equal => self.begins_by(Place { block, range: 0 }, key),
            Ordering::Greater => false,
        };
        last_where(from, self.blocks.len(), begins_before)
    }

    /// The head of the first key behind a block; behind the last one its own.
    fn next_head(&self, block: usize) -> u128 {
        let next = self.heads.get(block + 1);
        next.copied().unwrap_or(self.heads[block])
    }

    fn next(&self, place: Place) -> Place {
        if place.range + 1 < self.blocks[place.block].ranges() {
            return Place {
                range: place.range + 1,
                ..place
            };
        }
        Place {
            block: place.block + 1,
            range: 0,
        }
    }

    fn start(&self, place: Place) -> Start {
        self.blocks[place.block].start(place.range)
    }

    /// Whether a range begins at a key or before it.
    fn begins_by(&self, place: Place, key: &[u8]) -> bool {
        let order = self.blocks[place.block].compare_start(place.range, key);
        order != Ordering::Greater
    }

    /// Whether a range ends at a key or before it.
    fn ends_by(&self, place: Place, key: &[u8]) -> bool {
        !self.is_last(place) && self.begins_by(self.next(place), key)
    }

    fn is_last(&self, place: Place) -> bool {
        self.next(place).block == self.blocks.len()
    }

    /// The first key behind a range; `None` for the last.
    fn end(&self, place: Place) -> Option<Start> {
        (!self.is_last(place)).then(|| self.start(self.next(place)))
    }

    /// Whether a range is still the one that was read at the state `changes`, with all its entries.
    fn is_as_read(
        &self,
        place: Place,
        start: &[u8],
        end: Option<&[u8]>,
        entries: usize,
        changes: u64,
    ) -> bool {
        *self.start(place) == *start
            && self.end(place).as_deref() == end
            && self.count_at(place) as usize == entries
            && self.blocks[place.block].changed_at <= changes
    }

    fn block_mut(&mut self, block: usize) -> &mut Block {
        Arc::make_mut(&mut self.blocks[block])
    }

    fn count_at(&self, place: Place) -> u32 {
        self.blocks[place.block].count(place.range)
    }

    fn change(&mut self, place: Place, by: i64) {
        let changed = i64::from(self.count_at(place)) + by;
        let count = u32::try_from(changed).expect("a range holds between 0 and 2^32 entries");
        self.note_change(place.block).set_count(place.range, count);
        let total = &mut self.totals[place.block];
        *total = total
            .checked_add_signed(by)
            .expect("a block's total is that of its ranges");
    }

    /// Remembers the greatest key so far; begins a range at it when the last one is long enough.
    fn append_key(&mut self, place: Place, key: &[u8]) -> Place {
        let is_long = self.is_last(place) && self.count_at(place) >= ENTRIES_APPENDED;
        let mut place = place;
        if is_long && self.recount.is_none() {
            let start = separator(&self.greatest, key).to_vec();
            self.append_range(&start, 0);
            place = self.find_from(place, key);
        }
        self.greatest.clear();
        self.greatest.extend_from_slice(key);
        place
    }

    fn append_range(&mut self, start: &[u8], count: u32) {
        if self
            .blocks
            .last()
            .is_some_and(|last| last.ranges() >= BLOCK_RANGES_MAX)
        {
            self.blocks.push(Arc::default());
            self.totals.push(0);
            self.heads.push(head(start));
        }
        let last = self.blocks.len() - 1;
        let ranges = self.blocks[last].ranges();
        self.note_change(last).insert(ranges, start, count);
        *self.totals.last_mut().expect("there is a total a block") += u64::from(count);
    }

    /// Puts ranges behind `place`, all before the range that follows it.
    fn insert_ranges(&mut self, place: Place, ranges: &[(Vec<u8>, u32)]) {
        let mut place = place;
        for (start, count) in ranges {
            if self.blocks[place.block].ranges() >= BLOCK_RANGES_MAX {
                self.split_block(place.block);
                place = self.find(Place::FIRST, start);
            }
            self.block_mut(place.block)
                .insert(place.range + 1, start, *count);
            self.totals[place.block] += u64::from(*count);
            place.range += 1;
        }
    }

    fn split_block(&mut self, block: usize) {
        let middle = self.blocks[block].ranges() / 2;
        let other = self.block_mut(block).split_off(middle);
        let moved = other.sum(0..other.ranges());
        self.heads.insert(block + 1, head(&other.start(0)));
        self.blocks.insert(block + 1, Arc::new(other));
        self.totals[block] -= moved;
        self.totals.insert(block + 1, moved);
    }

    fn is_sparse(&self, block: usize) -> bool {
        let ranges = self.blocks[block].ranges();
        let is_lonely = ranges == 1 && self.blocks.len() == 1;
        self.recount.is_none() && !is_lonely && self.totals[block] < ENTRIES_SPARSE * ranges as u64
    }

    /// Joins neighbouring ranges of a block that hold few entries, and the block with a short neighbour.
    fn compact(&mut self, block: usize) {
        let ranges = self.block_mut(block);
        let mut at = 1;
        while at < ranges.ranges() {
            if ranges.count(at - 1) + ranges.count(at) <= ENTRIES_JOINED {
                ranges.join_with_previous(at);
            } else {
                at += 1;
            }
        }
        let fits = |first: usize| {
            self.blocks.get(first + 1).is_some_and(|second| {
                self.blocks[first].ranges() + second.ranges() <= BLOCK_RANGES_MAX / 2
            })
        };
        let first = match block.checked_sub(1) {
            Some(before) if fits(before) => before,
            _ if fits(block) => block,
            _ => return,
        };
        let second = self.blocks.remove(first + 1);
        self.block_mut(first).append(&second);
        self.heads.remove(first + 1);
        let total = self.totals.remove(first + 1);
        self.totals[first] += total;
    }
}

/// The first 16 bytes of a key as a number: of two keys the lesser never has the greater one.
fn head(key: &[u8]) -> u128 {
    if let Some(first) = key.first_chunk() {
        return u128::from_be_bytes(*first);
    }
    let mut bytes = [0; 16];
    let length = key.len().min(16);
    bytes[..length].copy_from_slice(&key[..length]);
    u128::from_be_bytes(bytes)
}

/// The last number of `from..end` for which `holds` is true, as it is for `from` and then for none behind
/// the first for which it is not. What is near `from` is found in few steps.
fn last_where(from: usize, end: usize, holds: impl Fn(usize) -> bool) -> usize {
    let (mut low, mut step) = (from, 1);
    let high = loop {
        let next = low + step;
        if next >= end {
            break end;
        }
        if !holds(next) {
            break next;
        }
        low = next;
        step *= 2;
    };
    last_where_between(low, high, holds)
}

/// As [`last_where`], looked for from a guess on to either side.
fn last_where_near(guess: usize, from: usize, end: usize, holds: impl Fn(usize) -> bool) -> usize {
    if guess < end && (guess == from || holds(guess)) {
        return last_where(guess, end, holds);
    }
    let (mut high, mut step) = (guess, 1);
    let low = loop {
        let before = high.saturating_sub(step).max(from);
        if before == from || holds(before) {
            break before;
        }
        high = before;
        step *= 2;
    };
    last_where_between(low, high, holds)
}

/// The same between one for which it holds and one for which it does not.
fn last_where_between(mut low: usize, mut high: usize, holds: impl Fn(usize) -> bool) -> usize {
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        if holds(middle) {
            low = middle;
        } else {
            high = middle;
        }
    }
    low
}

/// How many bytes two keys begin with in common.
fn shared_bytes(a: &[u8], b: &[u8]) -> usize {
    let mut shared = 0;
    while let (Some(one), Some(other)) = (a[shared..].first_chunk::<8>(), b[shared..].first_chunk())
    {
        let differ = u64::from_le_bytes(*one) ^ u64::from_le_bytes(*other);
        if differ != 0 {
            return shared + differ.trailing_zeros() as usize / 8;
        }
        shared += 8;
    }
    let rest = a[shared..].iter().zip(&b[shared..]);
    shared + rest.take_while(|(a, b)| a == b).count()
}

/// The shortest key that is greater than `before` and not greater than `key`, which is greater.
fn separator<'k>(before: &[u8], key: &'k [u8]) -> &'k [u8] {
    &key[..(shared_bytes(before, key) + 1).min(key.len())]
}
