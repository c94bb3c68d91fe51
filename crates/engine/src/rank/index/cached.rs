//! The cached ranges of buckets, for searches and samples on a snapshot.
//!
//! A cached range holds what its bucket held at some version of the rank index, and is dropped when the bucket changes.
//! So it is what a snapshot sees when the snapshot is not older than the cached range, or when nothing
//! in the leaf has changed since the snapshot.

use super::{BucketPosition, RankIndex};
use crate::rank::range_cache::{CachedEntries, CachedKind, CachedRange};
use std::sync::Arc;

/// A bucket that a part of a tree runs through.
#[derive(Debug)]
pub struct CachedBucket<'a> {
    /// Its first key.
    pub start: &'a [u8],
    /// The first key behind it; `None` at the end of the tree.
    pub end: Option<&'a [u8]>,
    /// The number of its entries.
    pub entries: u32,
    /// Its entries, if they are cached.
    pub contents: Option<Arc<CachedEntries>>,
}

/// A bucket that was read, and is to be cached.
#[derive(Debug)]
pub struct ReadBucket {
    /// Its first key.
    pub start: Vec<u8>,
    /// The first key behind it; `None` at the end of the tree.
    pub end: Option<Vec<u8>>,
    /// The number of its entries.
    pub entries: usize,
    /// What is cached.
    pub page: Arc<CachedRange>,
}

impl RankIndex {
    /// About how many entries lie in `[start, end)`, infinitely many if there are more than `most`;
    /// otherwise the buckets that hold them are handed out, with their cached ranges as a snapshot of the rank index's
    /// state `changes` sees them. `None` when part of it is not built yet.
    pub fn cached_buckets(
        &self,
        start: &[u8],
        end: &[u8],
        changes: u64,
        most: f64,
        bucket: &mut dyn FnMut(CachedBucket<'_>),
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
                self.edge(place, start.max(&first_key), Some(to), &mut |piece| {
                    about += piece.estimate();
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
            // One that is empty now may have held something then.
            if self.count_at(place) > 0 || self.leaves[place.leaf].changed_at > changes {
                bucket(CachedBucket {
                    start: &self.start(place),
                    end: self.end(place).as_deref(),
                    entries: self.count_at(place),
                    contents: self.contents(place, CachedKind::Points, changes),
                });
            }
            place = self.next(place);
        }
        Some(about)
    }

    /// Caches what was read; buckets that have changed since `changes` are left out.
    pub fn keep(&mut self, read: Vec<ReadBucket>, changes: u64) {
        for bucket in read {
            let place = self.find(BucketPosition::FIRST, &bucket.start);
            let end = bucket.end.as_deref();
            if self.is_as_read(place, &bucket.start, end, bucket.entries, changes) {
                self.leaf_mut(place.leaf)
                    .set_cached(place.bucket, bucket.page);
            }
        }
    }

    /// The number of entries from the bucket that holds one key to the bucket that holds another, which is not
    /// before it; `None` when part of it is not built yet.
    pub fn entries_around(&self, first: &[u8], last: &[u8]) -> Option<u64> {
        let from = self.find(BucketPosition::FIRST, first);
        let to = self.find_from(from, last);
        let is_known = !self.is_unbuilt_before(self.end(to).as_deref());
        is_known.then(|| self.sum(from, Some(self.next(to))))
    }

    /// Hands out the buckets that hold these ascending keys, with how many of them each holds, and its cached range as
    /// a snapshot of the rank index's state `changes` sees it.
    pub fn buckets_of<'k>(
        &self,
        keys: impl Iterator<Item = &'k [u8]>,
        kind: CachedKind,
        changes: u64,
        found: &mut dyn FnMut(CachedBucket<'_>, usize),
    ) {
        let mut keys = keys.peekable();
        let mut place = BucketPosition::FIRST;
        while let Some(key) = keys.next() {
            place = self.find_from(place, key);
            let (start, end) = (self.start(place), self.end(place));
            let end = end.as_deref();
            let mut held = 1;
            while keys
                .next_if(|key| end.is_none_or(|end| *key < end))
                .is_some()
            {
                held += 1;
            }
            let bucket = CachedBucket {
                start: &start,
                end,
                entries: self.count_at(place),
                contents: self.contents(place, kind, changes),
            };
            found(bucket, held);
        }
    }

    /// The entries of a bucket as they are now, if they are cached.
    pub(super) fn cached_now(
        &self,
        place: BucketPosition,
        kind: CachedKind,
    ) -> Option<Arc<CachedEntries>> {
        self.contents(place, kind, self.changes)
    }

    /// The entries of a bucket at an earlier state, if they are cached and have not changed in between.
    fn contents(
        &self,
        place: BucketPosition,
        kind: CachedKind,
        changes: u64,
    ) -> Option<Arc<CachedEntries>> {
        let leaf = &self.leaves[place.leaf];
        let contents = leaf.page(place.bucket)?.contents()?;
        if contents.kind() != kind {
            return None;
        }
        let is_as_then = contents.changes() <= changes || leaf.changed_at <= changes;
        is_as_then.then_some(contents)
    }
}
