//! What is cached of buckets, for statements on a snapshot.
//!
//! A cached range holds what its bucket held at some version of the rank index, and is dropped when the bucket changes.
//! So it is what a snapshot sees when the snapshot is not older than the cached range, or when nothing
//! in the leaf has changed since the snapshot.

use super::search::BucketRef;
use super::{BucketPosition, RankIndex};
use crate::rank::range_cache::{Cacheable, CachedRange};
use parking_lot::MappedRwLockReadGuard;
use std::any::TypeId;
use std::sync::Arc;

/// A bucket that was read, or is to be.
#[derive(Debug, Clone)]
pub struct BucketBounds {
    /// Its first key, without the tree's prefix.
    pub start: Vec<u8>,
    /// The first key behind it; `None` at the end of the tree.
    pub end: Option<Vec<u8>>,
    /// The number of its entries.
    pub entries: u32,
}

impl<'a> BucketRef<'a> {
    /// What is cached of its entries, as a snapshot of the rank index's state `changes` sees them.
    pub fn cached_at<T: Cacheable>(&self, changes: u64) -> Option<Arc<T>> {
        self.cached_range::<T>(changes)?.contents()
    }

    /// The same as they are in this version of the rank index.
    pub fn cached<T: Cacheable>(&self) -> Option<Arc<T>> {
        self.cached_at(self.ranks.changes)
    }

    /// The same for a short time, without sharing it.
    pub fn borrow_cached<T: Cacheable>(&self) -> Option<MappedRwLockReadGuard<'a, T>> {
        self.cached_range::<T>(self.ranks.changes)?.borrow()
    }

    fn cached_range<T: Cacheable>(&self, changes: u64) -> Option<&'a CachedRange> {
        let leaf = &self.ranks.leaves[self.place.leaf];
        let range = leaf.cached(self.place.bucket, TypeId::of::<T>())?;
        let is_as_then = range.changes() <= changes || leaf.changed_at <= changes;
        is_as_then.then_some(range)
    }

    /// Where it begins and ends.
    pub fn bounds(&self) -> BucketBounds {
        BucketBounds {
            start: self.start().to_vec(),
            end: self.end().map(|end| end.to_vec()),
            entries: self.entries(),
        }
    }
}

impl RankIndex {
    /// About how many entries lie in `[start, end)`, infinitely many if there are more than `most`;
    /// otherwise the buckets that hold them are handed out, also those that held some for a snapshot of the rank
    /// index's state `changes`. `None` when part of it is not built yet.
    pub fn few_buckets(
        &self,
        start: &[u8],
        end: &[u8],
        changes: u64,
        most: f64,
        bucket: &mut dyn FnMut(BucketRef<'_>),
    ) -> Option<f64> {
        if self.is_unbuilt_before(Some(end)) {
            return None;
        }
        let first = self.find(BucketPosition::FIRST, start);
        let (mut place, mut about) = (first, 0.0);
        while place.leaf < self.leaves.len() && (place == first || *self.start(place) < *end) {
            let behind = self.end(place);
            let to = behind.as_deref().map_or(end, |behind| behind.min(end));
            if place != first && behind.as_deref() == Some(to) {
                about += f64::from(self.count_at(place));
            } else {
                let first_key = self.start(place);
                self.edge(place, start.max(&first_key), Some(to), &mut |partial| {
                    about += partial.estimate();
                });
            }
            if about > most {
                return Some(f64::INFINITY);
            }
            place = self.next(place);
        }
        let behind = place;
        place = first;
        while place != behind {
            if self.count_at(place) > 0 || self.leaves[place.leaf].changed_at > changes {
                bucket(self.bucket_at(place));
            }
            place = self.next(place);
        }
        Some(about)
    }

    /// How often the rank index has changed.
    pub fn changes(&self) -> u64 {
        self.changes
    }

    /// Caches what was read; buckets that have changed since `changes` are left out.
    pub fn cache(&mut self, read: Vec<(BucketBounds, Arc<CachedRange>)>, changes: u64) {
        for (bucket, range) in read {
            let place = self.find(BucketPosition::FIRST, &bucket.start);
            if self.is_as_read(place, &bucket, changes) {
                self.leaf_mut(place.leaf).set_cached(place.bucket, range);
            }
        }
    }

    /// Whether a bucket is still the one that was read at the state `changes`, with all its entries.
    fn is_as_read(&self, place: BucketPosition, read: &BucketBounds, changes: u64) -> bool {
        *self.start(place) == *read.start
            && self.end(place).as_deref() == read.end.as_deref()
            && self.count_at(place) == read.entries
            && self.leaves[place.leaf].changed_at <= changes
    }

    /// The number of entries from the bucket that holds one key to the bucket that holds another, which is not
    /// before it; `None` when part of it is not built yet.
    pub fn entries_around(&self, first: &[u8], last: &[u8]) -> Option<u64> {
        let from = self.find(BucketPosition::FIRST, first);
        let to = self.find_from(from, last);
        let is_known = !self.is_unbuilt_before(self.end(to).as_deref());
        is_known.then(|| self.sum(from, Some(self.next(to))))
    }

    /// Hands out the buckets that hold these ascending keys, with how many of them each holds.
    pub fn buckets_of<'k>(
        &self,
        keys: impl Iterator<Item = &'k [u8]>,
        found: &mut dyn FnMut(BucketRef<'_>, usize),
    ) {
        let mut keys = keys.peekable();
        let mut place = BucketPosition::FIRST;
        while let Some(key) = keys.next() {
            place = self.find_from(place, key);
            let end = self.end(place);
            let is_inside = |key: &&[u8]| end.as_deref().is_none_or(|end| *key < end);
            let mut held = 1;
            while keys.next_if(is_inside).is_some() {
                held += 1;
            }
            found(self.bucket_at(place), held);
        }
    }
}
