//! What statements read of whole buckets, from the cache of ranges or into it.
//!
//! In: a tree as a statement sees it ([`CachedTree`]), bounds of buckets, and a [`Decode`] that makes of entries what is
//! cached ([`contents`]). Out: the contents, which whoever comes next finds at the bucket. Documents of a batch, of
//! which some are cached: [`documents`].

mod contents;
mod documents;

pub(super) use contents::{
    LocatedEntries, PackedEntries, Point, Points, ReadDocuments, ReadIdentifiers, ReadLocated,
    ReadPoints,
};
pub(super) use documents::CachedDocuments;

use super::{Context, YieldCheck};
use crate::catalog::CollectionState;
use crate::error::Result;
use crate::rank::{
    BucketBounds, CACHED_BYTES_MAX, Cacheable, RangeCache, RankIndex, ReadView, VersionStamp,
};
use crate::storage::{Family, Order, Scan, Snapshot, TreeKey};
use std::sync::Arc;

/// So many buckets are added to the cache at once: meanwhile nobody commits.
const ADDED_TOGETHER: usize = 512;

/// Makes what is cached of a bucket from its entries.
pub(super) trait Decode {
    /// What it makes.
    type Contents: Cacheable;

    /// Takes the next entry; its key is without the tree's prefix.
    fn push(&mut self, key: &[u8], value: &[u8]) -> Result<()>;

    /// Bytes of what it has made so far; reading ends once they are too many to be cached.
    fn bytes(&self) -> usize;

    /// All of it.
    fn finish(self) -> Self::Contents;
}

/// A tree, as a statement sees it, with what is cached of its buckets.
#[derive(Clone)]
pub(super) struct CachedTree {
    state: Arc<CollectionState>,
    family: Family,
    tree: TreeKey,
    snapshot: Snapshot,
    /// The version of the tree's rank index that agrees with the snapshot.
    stamp: VersionStamp,
}

impl CachedTree {
    /// A tree of a collection in a view; `None` when it has no rank index.
    pub fn of(
        family: Family,
        tree: TreeKey,
        view: &ReadView,
        state: &Arc<CollectionState>,
    ) -> Option<Self> {
        Some(Self {
            state: state.clone(),
            family,
            tree,
            snapshot: view.snapshot().clone(),
            stamp: view.stamp(tree)?,
        })
    }

    /// The number of the rank index's changes in the view.
    pub fn changes(&self) -> u64 {
        self.stamp.changes()
    }

    /// What the statement sees.
    pub fn snapshot(&self) -> &Snapshot {
        &self.snapshot
    }

    /// The cache.
    pub fn cache(&self) -> &RangeCache {
        self.state.ranks().range_cache()
    }

    /// Asks the tree's rank index as it is now, if it is still that of the view.
    pub fn ask<T>(&self, ask: impl FnOnce(&RankIndex) -> Option<T>) -> Option<T> {
        self.state.ranks().peek_marked(self.tree, self.stamp, ask)
    }

    /// Begins to read whole buckets.
    pub fn reader<T: Cacheable>(&self, context: &Context) -> BucketReader<'_, T> {
        BucketReader {
            tree: self,
            scan: None,
            yield_check: YieldCheck::new(context.clone()),
            read: Vec::new(),
        }
    }
}

/// Reads buckets from end to end, best in ascending order. What was read is cached soon, at the latest when this is
/// dropped.
pub(super) struct BucketReader<'t, T: Cacheable> {
    tree: &'t CachedTree,
    /// The scan, and whether it stands on an entry.
    scan: Option<(Scan, bool)>,
    yield_check: YieldCheck,
    read: Vec<(BucketBounds, Arc<T>)>,
}

impl<T: Cacheable> BucketReader<'_, T> {
    /// The contents of a bucket in the statement's view; `None` when they are too large to be cached.
    pub fn read(
        &mut self,
        bounds: &BucketBounds,
        mut decode: impl Decode<Contents = T>,
    ) -> Result<Option<Arc<T>>> {
        let CachedTree { tree, snapshot, .. } = self.tree;
        let start = tree.key(&bounds.start);
        let (scan, is_on_entry) = self.scan.get_or_insert_with(|| {
            let end = tree.range().1;
            let scan = snapshot.scan(self.tree.family, &start, &end, Order::Forward);
            (scan, false)
        });
        // Behind a bucket lies the next one, if that is to be read too.
        if !*is_on_entry || scan.entry().0 < start.as_slice() {
            scan.seek(&start);
            *is_on_entry = scan.advance()?;
        }
        let mut entries = 0;
        while *is_on_entry {
            let (key, value) = scan.entry();
            let key = TreeKey::strip(key);
            if bounds.end.as_ref().is_some_and(|end| key >= end.as_slice()) {
                break;
            }
            self.yield_check.step()?;
            decode.push(key, value)?;
            if decode.bytes() > CACHED_BYTES_MAX {
                return Ok(None);
            }
            entries += 1;
            *is_on_entry = scan.advance()?;
        }
        let contents = Arc::new(decode.finish());
        let bounds = BucketBounds {
            entries,
            ..bounds.clone()
        };
        self.read.push((bounds, contents.clone()));
        if self.read.len() == ADDED_TOGETHER {
            self.add_to_cache();
        }
        Ok(Some(contents))
    }

    fn add_to_cache(&mut self) {
        let (ranks, tree) = (self.tree.state.ranks(), self.tree.tree);
        ranks.cache(tree, self.tree.stamp, std::mem::take(&mut self.read));
    }
}

impl<T: Cacheable> Drop for BucketReader<'_, T> {
    fn drop(&mut self) {
        // What was read on the way to a panic is in doubt, and another panic here would end the process.
        if !std::thread::panicking() {
            self.add_to_cache();
        }
    }
}
