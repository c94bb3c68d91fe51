//! The rank index of one tree: how many entries lie between two keys, and which entry is the k-th.
//!
//! It is an exact equi-depth histogram. The tree's keys are divided into buckets of about thirty entries, each with its
//! first key and its exact number of entries; buckets lie in leaves of up to 128. A count of `[a, b)` is the sum of
//! the buckets wholly inside and of what a short scan finds in the partial buckets at both ends (`search`). The k-th
//! entry is found by adding up buckets and a short scan in one of them. Each commit adds and removes its keys.
//!
//! A bucket that becomes oversized is split by scanning it (`rebuild`); under heavy writes that is deferred. A
//! tree without a rank index is built in the same way, part by part; until then nothing is known of the keys from
//! `unbuilt_from` on. Where keys are appended, new buckets begin at them without a scan.
//!
//! Memory: about 12 bytes a bucket, at most a byte an entry. Keys are those of the tree without its
//! prefix. Deliberately absent: reading the tree, locks, snapshots (see `rank::collection`).

mod audit;
mod cached;
mod codec;
mod delta;
mod leaf;
mod numbers;
mod rebuild;
mod search;
#[cfg(test)]
mod tests;

pub use audit::AuditedLeaf;
pub use cached::BucketBounds;
pub use delta::DeltaBuffer;
pub use rebuild::{ScannedSpan, UnbuiltSpan};
pub use search::{BucketRef, PartialBucket, RankInterval, SearchHint, SelectedEntry};

use leaf::{BucketStart, Leaf};
use rebuild::Rebuild;
use std::cmp::Ordering;
use std::sync::Arc;

/// A bucket with more entries than this is split.
const ENTRIES_MAX: u32 = 64;
/// The same while writes are heavy: a scan looks into every file of level 0, whatever it finds there, and
/// so costs little more for several times as many entries.
const ENTRIES_MAX_BUSY: u32 = 512;
/// Entries of a bucket that was just made; growing from here to [`ENTRIES_MAX`] pays for the scan.
const ENTRIES_FRESH: u32 = 16;
/// The same where the store is idle: such buckets will hardly grow.
const ENTRIES_SETTLED: u32 = 32;
/// Neighbours that are to be split are scanned together up to so many entries, when much was left to be split.
const ENTRIES_SPLIT_TOGETHER: u32 = 2_048;
/// Where keys are appended a bucket is closed with this many, since it will hardly grow.
const ENTRIES_APPENDED: u32 = 16;
/// Neighbours are joined up to this many entries.
const ENTRIES_JOINED: u32 = 16;
/// A leaf with fewer entries a bucket than this is compacted.
const ENTRIES_SPARSE: u64 = 4;
/// Ranges of a leaf: a cut moves at most this many.
const LEAF_BUCKETS_MAX: usize = 128;

/// The counted buckets of one tree.
#[derive(Debug, Clone)]
pub struct RankIndex {
    /// Never empty; the first bucket begins at the empty key.
    /// Shared with copies until one of them changes.
    leaves: Vec<Arc<Leaf>>,
    /// Entries of each leaf.
    totals: Vec<u64>,
    /// The beginning of the first key of each leaf, see [`head`]: nearly always it tells on which side a
    /// key is, without the cache misses of looking at the leaf.
    heads: Vec<u128>,
    /// No entry is greater.
    greatest: Vec<u8>,
    /// What lies from this key on has not been built yet.
    unbuilt_from: Option<Vec<u8>>,
    /// First keys of buckets to be split.
    oversized: Vec<Vec<u8>>,
    /// From this key on there may be more of them, to be looked for when the store is idle.
    unsplit_from: Option<Vec<u8>>,
    /// Whether writes are heavy: buckets may grow larger then.
    busy: bool,
    rebuild: Option<Rebuild>,
    /// Changes to buckets so far.
    changes: u64,
}

/// A bucket: which leaf, and which in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct BucketPosition {
    leaf: usize,
    bucket: usize,
}

impl BucketPosition {
    const FIRST: Self = Self { leaf: 0, bucket: 0 };
}

impl RankIndex {
    /// The rank index of a tree without entries.
    pub fn empty() -> Self {
        let mut leaf = Leaf::default();
        leaf.insert(0, b"", 0);
        Self {
            leaves: vec![Arc::new(leaf)],
            totals: vec![0],
            heads: vec![head(b"")],
            greatest: Vec::new(),
            unbuilt_from: None,
            oversized: Vec::new(),
            unsplit_from: None,
            busy: false,
            rebuild: None,
            changes: 0,
        }
    }

    /// The rank index of a tree that is to be built.
    pub fn unbuilt() -> Self {
        Self {
            unbuilt_from: Some(Vec::new()),
            ..Self::empty()
        }
    }

    fn of_leaves(&self, leaves: std::ops::Range<usize>) -> Self {
        Self {
            leaves: self.leaves[leaves.clone()].to_vec(),
            totals: self.totals[leaves.clone()].to_vec(),
            heads: self.heads[leaves].to_vec(),
            ..Self::empty()
        }
    }

    /// Whether the whole tree is known, so that every count is answered.
    pub fn is_complete(&self) -> bool {
        self.unbuilt_from.is_none()
    }

    /// Whether there is something to build or to split now.
    pub fn wants_rebuild(&self) -> bool {
        let wants_sweep = !self.busy && self.unsplit_from.is_some();
        let wants = self.unbuilt_from.is_some() || !self.oversized.is_empty() || wants_sweep;
        wants && self.rebuild.is_none()
    }

    /// Whether writes are heavy: buckets are then cut later, and the rest of it is made up for after it.
    pub fn set_busy(&mut self, busy: bool) {
        self.busy = busy;
    }

    /// Entries that are known.
    pub fn entries(&self) -> u64 {
        self.totals.iter().sum()
    }

    /// Bytes of memory, about.
    pub fn bytes(&self) -> usize {
        let keys = self.oversized.iter().map(Vec::len).sum::<usize>() + self.greatest.len();
        let leaves: usize = self.leaves.iter().map(|leaf| leaf.bytes()).sum();
        let each = 8 * self.totals.capacity() + 16 * self.heads.capacity();
        size_of::<Self>() + leaves + each + keys
    }

    /// Notes keys that came, each of them new; ascending ones are merged fastest.
    pub fn add<'k>(&mut self, keys: impl IntoIterator<Item = &'k [u8]>) {
        let (mut place, mut previous) = (BucketPosition::FIRST, &b""[..]);
        for key in keys {
            if let Some(rebuild) = &mut self.rebuild {
                rebuild.note(key, true);
            }
            if self.is_unbuilt(key) {
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
            self.note_oversized(place);
        }
    }

    /// Notes a bucket that has grown by one entry, if it is to be split for that.
    fn note_oversized(&mut self, place: BucketPosition) {
        const FIRST: u32 = ENTRIES_MAX + 1;
        const FIRST_BUSY: u32 = ENTRIES_MAX_BUSY + 1;
        match self.count_at(place) {
            FIRST if self.busy => self.unsplit_from = Some(Vec::new()),
            FIRST | FIRST_BUSY => self.oversized.push(self.start(place).to_vec()),
            _ => {}
        }
    }

    /// A bucket with more entries than this is to be split now.
    fn entries_max(&self) -> u32 {
        match self.busy {
            true => ENTRIES_MAX_BUSY,
            false => ENTRIES_MAX,
        }
    }

    /// Notes a key that is greater than all others: what a tree is filled with in order.
    pub fn append(&mut self, key: &[u8]) {
        let leaf = self.leaves.len() - 1;
        let bucket = self.leaves[leaf].buckets() - 1;
        let place = self.append_key(BucketPosition { leaf, bucket }, key);
        self.change(place, 1);
    }

    /// Notes keys that went, each of which was there. False when that cannot be: the rank index then
    /// forgets everything and is to be built anew.
    pub fn remove<'k>(&mut self, keys: impl IntoIterator<Item = &'k [u8]>) -> bool {
        let mut place = BucketPosition::FIRST;
        for key in keys {
            if let Some(rebuild) = &mut self.rebuild {
                rebuild.note(key, false);
            }
            if self.is_unbuilt(key) {
                continue;
            }
            place = self.find(place, key);
            if self.count_at(place) == 0 {
                self.forget();
                return false;
            }
            self.change(place, -1);
            if self.is_sparse(place.leaf) {
                self.compact(place.leaf);
                place = BucketPosition::FIRST;
            }
        }
        true
    }

    /// Notes keys whose values have changed: what is cached of their buckets' entries is cached no longer.
    pub fn touch<'k>(&mut self, keys: impl IntoIterator<Item = &'k [u8]>) {
        for key in keys {
            if !self.is_unbuilt(key) {
                let place = self.find(BucketPosition::FIRST, key);
                self.note_change(place.leaf).forget(place.bucket);
            }
        }
    }

    fn is_unbuilt(&self, key: &[u8]) -> bool {
        self.unbuilt_from
            .as_ref()
            .is_some_and(|from| from.as_slice() <= key)
    }

    /// Whether some of what lies before `end` (`None`: the end of the tree) is not built yet.
    pub fn is_unbuilt_before(&self, end: Option<&[u8]>) -> bool {
        self.unbuilt_from
            .as_ref()
            .is_some_and(|from| end.is_none_or(|end| end > from.as_slice()))
    }

    /// Forgets everything: to be built anew.
    pub fn forget(&mut self) {
        *self = Self {
            changes: self.changes,
            busy: self.busy,
            ..Self::unbuilt()
        };
        self.note_change(0);
    }

    /// Notes that buckets of a leaf have changed; the leaf.
    fn note_change(&mut self, leaf: usize) -> &mut Leaf {
        self.changes += 1;
        let changes = self.changes;
        let leaf = self.leaf_mut(leaf);
        leaf.changed_at = changes;
        leaf
    }

    /// The bucket that holds `key`, looked for from `from` on when it is not before that.
    fn find(&self, from: BucketPosition, key: &[u8]) -> BucketPosition {
        if from.leaf < self.leaves.len() && self.begins_by(from, key) {
            self.find_from(from, key)
        } else {
            self.find_from(BucketPosition::FIRST, key)
        }
    }

    /// The bucket that holds `key`, which is not before `from`.
    fn find_from(&self, from: BucketPosition, key: &[u8]) -> BucketPosition {
        self.find_in(self.leaf_from(from.leaf, key), from, key)
    }

    /// The same where the leaf that holds `key` is known.
    fn find_in(&self, leaf: usize, from: BucketPosition, key: &[u8]) -> BucketPosition {
        let first = if leaf == from.leaf { from.bucket } else { 0 };
        let heads = [self.heads[leaf], self.next_head(leaf)];
        BucketPosition {
            leaf,
            bucket: self.leaves[leaf].find(first, key, heads),
        }
    }

    /// The leaf that holds `key`, which is not before the leaf `from`.
    fn leaf_from(&self, from: usize, key: &[u8]) -> usize {
        let own = head(key);
        let begins_before = |leaf: usize| match self.heads[leaf].cmp(&own) {
            Ordering::Less => true,
            Ordering::Equal => self.begins_by(BucketPosition { leaf, bucket: 0 }, key),
            Ordering::Greater => false,
        };
        last_where(from, self.leaves.len(), begins_before)
    }

    /// The head of the first key behind a leaf; behind the last one its own.
    fn next_head(&self, leaf: usize) -> u128 {
        let next = self.heads.get(leaf + 1);
        next.copied().unwrap_or(self.heads[leaf])
    }

    fn next(&self, place: BucketPosition) -> BucketPosition {
        if place.bucket + 1 < self.leaves[place.leaf].buckets() {
            return BucketPosition {
                bucket: place.bucket + 1,
                ..place
            };
        }
        BucketPosition {
            leaf: place.leaf + 1,
            bucket: 0,
        }
    }

    fn start(&self, place: BucketPosition) -> BucketStart {
        self.leaves[place.leaf].start(place.bucket)
    }

    /// Whether a bucket begins at a key or before it.
    fn begins_by(&self, place: BucketPosition, key: &[u8]) -> bool {
        let order = self.leaves[place.leaf].compare_start(place.bucket, key);
        order != Ordering::Greater
    }

    /// Whether a bucket ends at a key or before it.
    fn ends_by(&self, place: BucketPosition, key: &[u8]) -> bool {
        !self.is_last(place) && self.begins_by(self.next(place), key)
    }

    fn is_last(&self, place: BucketPosition) -> bool {
        self.next(place).leaf == self.leaves.len()
    }

    /// The first key behind a bucket; `None` for the last.
    fn end(&self, place: BucketPosition) -> Option<BucketStart> {
        (!self.is_last(place)).then(|| self.start(self.next(place)))
    }

    fn leaf_mut(&mut self, leaf: usize) -> &mut Leaf {
        Arc::make_mut(&mut self.leaves[leaf])
    }

    fn count_at(&self, place: BucketPosition) -> u32 {
        self.leaves[place.leaf].count(place.bucket)
    }

    fn change(&mut self, place: BucketPosition, by: i64) {
        let changed = i64::from(self.count_at(place)) + by;
        let count = u32::try_from(changed).expect("a bucket holds between 0 and 2^32 entries");
        self.note_change(place.leaf).set_count(place.bucket, count);
        let total = &mut self.totals[place.leaf];
        *total = total
            .checked_add_signed(by)
            .expect("a leaf's total is that of its buckets");
    }

    /// Caches the greatest key so far; begins a bucket at it when the last one is long enough.
    fn append_key(&mut self, place: BucketPosition, key: &[u8]) -> BucketPosition {
        let is_long = self.is_last(place) && self.count_at(place) >= ENTRIES_APPENDED;
        let mut place = place;
        if is_long && self.rebuild.is_none() {
            let start = separator(&self.greatest, key).to_vec();
            self.append_bucket(&start, 0);
            place = self.find_from(place, key);
        }
        self.greatest.clear();
        self.greatest.extend_from_slice(key);
        place
    }

    fn append_bucket(&mut self, start: &[u8], count: u32) {
        if self
            .leaves
            .last()
            .is_some_and(|last| last.buckets() >= LEAF_BUCKETS_MAX)
        {
            self.leaves.push(Arc::default());
            self.totals.push(0);
            self.heads.push(head(start));
        }
        let last = self.leaves.len() - 1;
        let buckets = self.leaves[last].buckets();
        self.note_change(last).insert(buckets, start, count);
        *self.totals.last_mut().expect("there is a total a leaf") += u64::from(count);
    }

    /// Puts buckets behind `place`, all before the bucket that follows it.
    fn insert_buckets(&mut self, place: BucketPosition, buckets: &[(Vec<u8>, u32)]) {
        let mut place = place;
        for (start, count) in buckets {
            if self.leaves[place.leaf].buckets() >= LEAF_BUCKETS_MAX {
                self.split_leaf(place.leaf);
                place = self.find(BucketPosition::FIRST, start);
            }
            self.leaf_mut(place.leaf)
                .insert(place.bucket + 1, start, *count);
            self.totals[place.leaf] += u64::from(*count);
            place.bucket += 1;
        }
    }

    fn split_leaf(&mut self, leaf: usize) {
        let middle = self.leaves[leaf].buckets() / 2;
        let other = self.leaf_mut(leaf).split_off(middle);
        let moved = other.sum(0..other.buckets());
        self.heads.insert(leaf + 1, head(&other.start(0)));
        self.leaves.insert(leaf + 1, Arc::new(other));
        self.totals[leaf] -= moved;
        self.totals.insert(leaf + 1, moved);
    }

    fn is_sparse(&self, leaf: usize) -> bool {
        let buckets = self.leaves[leaf].buckets();
        let is_lonely = buckets == 1 && self.leaves.len() == 1;
        self.rebuild.is_none() && !is_lonely && self.totals[leaf] < ENTRIES_SPARSE * buckets as u64
    }

    /// Joins neighbouring buckets of a leaf that hold few entries, and the leaf with a short neighbour.
    fn compact(&mut self, leaf: usize) {
        let buckets = self.leaf_mut(leaf);
        let mut at = 1;
        while at < buckets.buckets() {
            if buckets.count(at - 1) + buckets.count(at) <= ENTRIES_JOINED {
                buckets.join_with_previous(at);
            } else {
                at += 1;
            }
        }
        let fits = |first: usize| {
            self.leaves.get(first + 1).is_some_and(|second| {
                self.leaves[first].buckets() + second.buckets() <= LEAF_BUCKETS_MAX / 2
            })
        };
        let first = match leaf.checked_sub(1) {
            Some(before) if fits(before) => before,
            _ if fits(leaf) => leaf,
            _ => return,
        };
        let second = self.leaves.remove(first + 1);
        self.leaf_mut(first).append(&second);
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
