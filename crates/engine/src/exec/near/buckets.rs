//! Buckets of a 2dsphere index whose entries are cached, for a search.
//!
//! In: a range of cells. Out: the buckets that hold all its entries, as the search's snapshot sees them. Where
//! some are not cached, one search in a few reads those buckets whole and caches them for the next.

use super::keys;
use crate::catalog::Index;
use crate::error::Result;
use crate::exec::Context;
use crate::exec::cached::{CachedTree, LocatedEntries, ReadLocated};
use crate::rank::{BucketBounds, BucketRef, CACHED_ENTRIES_MAX, Cacheable};
use smallvec::SmallVec;
use std::sync::Arc;

/// A range of cells with about as many entries or fewer is taken from its buckets at once.
const TAKEN_MAX: f64 = 128.0;
/// A search that has used so many buckets goes on without: it holds on to them to its end.
const USED_MAX: usize = 256;
/// The same by their bytes.
const USED_BYTES_MAX: usize = 16 << 20;

/// The entries of a few buckets side by side.
pub(super) type Buckets = SmallVec<[Arc<LocatedEntries>; 4]>;

/// What is known of a range of cells.
pub(super) enum Look {
    /// These buckets hold all its entries.
    Taken(Buckets),
    /// It has too many entries, or not all are cached; about how many it has, if that is known.
    Apart(Option<f64>),
}

/// The index's cached buckets as a search uses them.
pub(super) struct CachedBuckets {
    index: Arc<Index>,
    tree: CachedTree,
    /// Whether this search reads what is missing.
    reads_missing: bool,
    used: Vec<Arc<LocatedEntries>>,
    used_bytes: usize,
    context: Context,
}

impl CachedBuckets {
    pub(super) fn new(index: &Arc<Index>, tree: CachedTree, context: &Context) -> Self {
        Self {
            index: index.clone(),
            reads_missing: tree.cache().admits(0),
            tree,
            used: Vec::new(),
            used_bytes: 0,
            context: context.clone(),
        }
    }

    /// What is known of cells `first` to `last`.
    pub(super) fn look(&mut self, first: u64, last: u64) -> Result<Look> {
        if self.used.len() >= USED_MAX || self.used_bytes >= USED_BYTES_MAX {
            return Ok(Look::Apart(None));
        }
        let (start, end) = keys(&[], first, last);
        let mut found: SmallVec<[Option<Arc<LocatedEntries>>; 4]> = SmallVec::new();
        let mut missing: Vec<(usize, BucketBounds)> = Vec::new();
        let changes = self.tree.changes();
        let mut add = |bucket: BucketRef<'_>| {
            let cached = bucket.cached_at(changes);
            if cached.is_none() && self.reads_missing && bucket.entries() <= CACHED_ENTRIES_MAX {
                missing.push((found.len(), bucket.bounds()));
            }
            found.push(cached);
        };
        let about = self
            .tree
            .ask(|ranks| ranks.few_buckets(&start, &end, changes, TAKEN_MAX, &mut add));
        if about.is_none_or(f64::is_infinite) {
            return Ok(Look::Apart(about));
        }
        if !missing.is_empty() {
            let mut reader = self.tree.reader(&self.context);
            for (place, bounds) in missing {
                found[place] = reader.read(&bounds, ReadLocated::new(&self.index.layout))?;
            }
        }
        let taken: Option<Buckets> = found.into_iter().collect();
        Ok(taken.map_or(Look::Apart(about), Look::Taken))
    }

    /// The number of the bucket that comes into use next.
    pub(super) fn next_number(&self) -> u32 {
        u32::try_from(self.used.len()).expect("a search uses fewer buckets than that")
    }

    /// Notes that the search goes on using a bucket.
    pub(super) fn use_bucket(&mut self, bucket: Arc<LocatedEntries>) {
        self.used_bytes += bucket.bytes();
        self.used.push(bucket);
    }

    /// Bytes of the buckets in use.
    pub(super) fn used_bytes(&self) -> usize {
        self.used_bytes
    }

    /// Key and value of an entry of a bucket in use.
    pub(super) fn entry(&self, bucket: u32, entry: u32) -> (&[u8], &[u8]) {
        self.used[bucket as usize].entry(entry as usize)
    }
}
