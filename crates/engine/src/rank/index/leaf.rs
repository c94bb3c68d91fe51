//! A leaf: consecutive buckets with their numbers of entries, packed in about 12 bytes a bucket.
//!
//! What all first keys of a leaf have in common is stored once.

use super::numbers::PackedNumbers;
use super::{head, last_where_near, shared_bytes};
use crate::rank::range_cache::CachedRange;
use smallvec::SmallVec;
use std::any::TypeId;
use std::cmp::Ordering;
use std::ops::Range;
use std::sync::Arc;

/// Heads of a leaf's first key and of the next leaf's that are closer than this tell too little.
const HEADS_APART_MIN: u128 = 1 << 16;

/// The first key of a bucket.
pub(super) type BucketStart = SmallVec<[u8; 48]>;

/// What is cached of a bucket until it changes: by two kinds of readers at most, since no tree has more.
type BucketCache = [Option<Arc<CachedRange>>; 2];

/// Ranges side by side: each begins at its own first key and ends where the next begins.
#[derive(Debug, Clone, Default)]
pub(super) struct Leaf {
    /// What the first keys of all buckets begin with.
    prefix: Vec<u8>,
    /// What follows in each, one behind the other.
    rests: Vec<u8>,
    /// Where each ends in `rests`.
    ends: PackedNumbers,
    counts: PackedNumbers,
    /// Empty, or one a bucket.
    cached: Vec<BucketCache>,
    /// The rank index's number of changes when this leaf changed last.
    pub changed_at: u64,
}

impl Leaf {
    pub fn buckets(&self) -> usize {
        self.counts.len()
    }

    /// First key of a bucket.
    pub fn start(&self, bucket: usize) -> BucketStart {
        let mut start = BucketStart::from_slice(&self.prefix);
        start.extend_from_slice(self.rest(bucket));
        start
    }

    /// How the first key of a bucket compares with a key.
    pub fn compare_start(&self, bucket: usize, key: &[u8]) -> Ordering {
        let (head, rest) = key.split_at(self.prefix.len().min(key.len()));
        let by_prefix = self.prefix.as_slice().cmp(head);
        by_prefix.then_with(|| self.rest(bucket).cmp(rest))
    }

    /// What follows the prefix in the first key of a bucket.
    fn rest(&self, bucket: usize) -> &[u8] {
        &self.rests[self.rest_offset(bucket)..self.ends.get(bucket) as usize]
    }

    pub fn count(&self, bucket: usize) -> u32 {
        self.counts.get(bucket)
    }

    /// Changes the number of entries of a bucket.
    pub fn set_count(&mut self, bucket: usize, count: u32) {
        self.forget(bucket);
        self.counts.set(bucket, count);
    }

    /// Drops what is cached of a bucket.
    pub fn forget(&mut self, bucket: usize) {
        if let Some(cached) = self.cached.get_mut(bucket) {
            *cached = BucketCache::default();
        }
    }

    /// What is cached of a bucket for readers of a kind.
    pub fn cached(&self, bucket: usize, kind: TypeId) -> Option<&CachedRange> {
        let mut cached = self.cached.get(bucket)?.iter().flatten();
        cached.find(|range| range.kind() == kind).map(Arc::as_ref)
    }

    pub fn set_cached(&mut self, bucket: usize, range: Arc<CachedRange>) {
        let buckets = self.counts.len();
        self.cached.resize_with(buckets, BucketCache::default);
        let kind = range.kind();
        let is_for_it = |slot: &Option<Arc<CachedRange>>| {
            slot.as_ref().is_none_or(|cached| cached.kind() == kind)
        };
        let slots = &mut self.cached[bucket];
        let slot = slots.iter().position(is_for_it).unwrap_or(0);
        slots[slot] = Some(range);
    }

    /// Drops what is cached: the buckets are about to become others.
    fn forget_all(&mut self) {
        self.cached = Vec::new();
    }

    /// Entries of several buckets together.
    pub fn sum(&self, buckets: Range<usize>) -> u64 {
        self.counts.sum(buckets)
    }

    /// The last bucket from `from` on that begins at or before `key`; `from` itself must. `heads` are those of
    /// the leaf's first key and of the first behind it.
    pub fn find(&self, from: usize, key: &[u8], heads: [u128; 2]) -> usize {
        let last = self.buckets() - 1;
        let Some(rest) = key.strip_prefix(self.prefix.as_slice()) else {
            // All of them are on one side of it.
            let are_before = self.prefix.as_slice() < key;
            return if are_before { last } else { from };
        };
        // Heads nearly always tell where among the buckets a key is, without a look at the first and the last
        // of them: each look elsewhere is a cache miss.
        let near = if heads[1].saturating_sub(heads[0]) >= HEADS_APART_MIN {
            guess(heads, head(key), self.buckets()).max(from)
        } else {
            let words = [self.rest(from), self.rest(last)].map(|rest| word(rest).into());
            from + guess(words, word(rest).into(), last - from)
        };
        self.find_near(near, from..self.buckets(), rest)
    }

    /// The same among some buckets, by what follows the prefix, looked for from a guess on.
    fn find_near(&self, guess: usize, buckets: Range<usize>, key: &[u8]) -> usize {
        // Nearly always tells which of two keys is the lesser.
        let own = word(key);
        let begins_before = |bucket: usize| {
            let rest = self.rest(bucket);
            match word(rest).cmp(&own) {
                Ordering::Equal => rest <= key,
                order => order == Ordering::Less,
            }
        };
        last_where_near(guess, buckets.start, buckets.end, begins_before)
    }

    /// Cuts the bucket before `at` in two. What is cached of the others stays.
    pub fn insert(&mut self, at: usize, start: &[u8], count: u32) {
        if !self.cached.is_empty() {
            self.forget(at.saturating_sub(1));
            self.cached.insert(at, BucketCache::default());
        }
        if self.buckets() == 0 {
            self.prefix = start.to_vec();
        }
        self.shorten_prefix(shared_bytes(&self.prefix, start));
        let rest = &start[self.prefix.len()..];
        self.reserve(rest.len());
        let offset = self.rest_offset(at);
        self.rests.splice(offset..offset, rest.iter().copied());
        self.ends.insert(at, length(offset));
        self.counts.insert(at, count);
        let added = length(rest.len());
        self.ends.change_from(at, |end| end + added);
    }

    /// Joins a bucket with the one before it.
    pub fn join_with_previous(&mut self, bucket: usize) {
        self.forget_all();
        let joined = self.counts.get(bucket - 1) + self.counts.get(bucket);
        self.counts.set(bucket - 1, joined);
        let (from, to) = (self.rest_offset(bucket), self.ends.get(bucket) as usize);
        self.rests.drain(from..to);
        self.ends.remove(bucket);
        self.counts.remove(bucket);
        let removed = length(to - from);
        self.ends.change_from(bucket, |end| end - removed);
    }

    /// Takes the buckets from `at` on away into a leaf of their own.
    pub fn split_off(&mut self, at: usize) -> Self {
        let cached = match self.cached.is_empty() {
            true => Vec::new(),
            false => self.cached.split_off(at),
        };
        let offset = self.rest_offset(at);
        let mut ends = self.ends.split_off(at);
        ends.change_from(0, |end| end - length(offset));
        let mut other = Self {
            prefix: self.prefix.clone(),
            rests: self.rests.split_off(offset),
            ends,
            counts: self.counts.split_off(at),
            cached,
            changed_at: self.changed_at,
        };
        self.ends.shrink_to_fit();
        self.counts.shrink_to_fit();
        self.lengthen_prefix();
        other.lengthen_prefix();
        other
    }

    /// Adds the buckets of the leaf behind this one.
    pub fn append(&mut self, other: &Self) {
        self.forget_all();
        self.changed_at = self.changed_at.max(other.changed_at);
        for bucket in 0..other.buckets() {
            self.insert(self.buckets(), &other.start(bucket), other.count(bucket));
        }
    }

    /// Cuts what all first keys are known to begin with down to so many bytes.
    fn shorten_prefix(&mut self, length: usize) {
        if length < self.prefix.len() {
            let tail = self.prefix.split_off(length);
            self.change_rests(|rest, out| {
                out.extend_from_slice(&tail);
                out.extend_from_slice(rest);
            });
        }
    }

    /// Caches all that the first keys have in common once; also gives back what is not used of the memory.
    fn lengthen_prefix(&mut self) {
        // They are in order: what the first and the last share all do.
        let (first, last) = (self.rest(0), self.rest(self.buckets() - 1));
        let shared = shared_bytes(first, last);
        let more = first[..shared].to_vec();
        self.prefix.extend_from_slice(&more);
        self.prefix.shrink_to_fit();
        self.change_rests(|rest, out| out.extend_from_slice(&rest[shared..]));
        self.rests.shrink_to_fit();
    }

    /// Puts what `change` writes in the place of each rest.
    fn change_rests(&mut self, change: impl Fn(&[u8], &mut Vec<u8>)) {
        let mut rests = Vec::with_capacity(self.rests.len());
        let mut start = 0;
        for bucket in 0..self.buckets() {
            let end = self.ends.get(bucket) as usize;
            change(&self.rests[start..end], &mut rests);
            self.ends.set(bucket, length(rests.len()));
            start = end;
        }
        self.rests = rests;
    }

    /// Bytes of memory, about.
    pub fn bytes(&self) -> usize {
        size_of::<Self>()
            + self.prefix.capacity()
            + self.rests.capacity()
            + self.ends.bytes()
            + self.counts.bytes()
    }

    /// Makes room for one more bucket and few others: vectors that double would waste a third of the memory.
    fn reserve(&mut self, rest_bytes: usize) {
        const RANGES: usize = 8;
        if self.rests.capacity() - self.rests.len() < rest_bytes {
            self.rests.reserve_exact(RANGES * rest_bytes);
        }
        self.ends.reserve(RANGES);
        self.counts.reserve(RANGES);
    }

    fn rest_offset(&self, bucket: usize) -> usize {
        match bucket {
            0 => 0,
            _ => self.ends.get(bucket - 1) as usize,
        }
    }
}

/// The first 8 bytes of a key as a number: of two keys the lesser never has the greater one. Cheaper than
/// comparing keys, of which it tells nearly all apart.
pub(super) fn word(key: &[u8]) -> u64 {
    if let Some(first) = key.first_chunk() {
        return u64::from_be_bytes(*first);
    }
    // Most of what follows a leaf's prefix is this short. Two reads that overlap take in 4 to 7 bytes, three
    // take in 1 to 3, without a loop.
    let length = key.len();
    if let (Some(first), Some(last)) = (key.first_chunk(), key.last_chunk()) {
        let (first, last) = (u32::from_be_bytes(*first), u32::from_be_bytes(*last));
        let behind = (u64::from(last) << (8 * (8 - length))) & u64::from(u32::MAX);
        return u64::from(first) << 32 | behind;
    }
    let byte = |at: usize| u64::from(key[at]) << (56 - 8 * at);
    match length {
        0 => 0,
        _ => byte(0) | byte(length / 2) | byte(length - 1),
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
    u32::try_from(bytes).expect("a leaf holds few keys, none longer than a document")
}

#[cfg(test)]
mod tests {
    use super::word;

    #[test]
    fn a_word_is_a_keys_first_bytes_with_zeros_behind() {
        let bytes = [0xf1, 2, 0xf3, 4, 0xf5, 6, 0xf7, 8, 0xf9];
        for length in 0..=bytes.len() {
            let mut first = [0; 8];
            let taken = length.min(8);
            first[..taken].copy_from_slice(&bytes[..taken]);
            assert_eq!(
                word(&bytes[..length]),
                u64::from_be_bytes(first),
                "{length}"
            );
        }
    }
}
