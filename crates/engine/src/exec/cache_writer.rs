//! Keeps what a statement read of ranges of a tree from end to end, for those that come there next.

use crate::catalog::CollectionState;
use crate::rank::{CachedEntries, RangeCache, ReadView, VersionStamp};
use crate::rank::{RankIndex, ReadBucket};
use crate::storage::TreeKey;
use std::sync::Arc;

/// A range with more bytes is not kept.
const RANGE_BYTES_MAX: usize = 64 * 1024;
/// So many ranges are cached at once: meanwhile nobody commits.
const KEPT_TOGETHER: usize = 512;

/// A tree, as a statement sees it, whose ranges are cached.
#[derive(Clone)]
pub(super) struct CacheWriter {
    cache: Arc<RangeCache>,
    state: Arc<CollectionState>,
    tree: TreeKey,
    /// The state of the tree's rank index that agrees with the statement's snapshot.
    stamp: VersionStamp,
}

impl CacheWriter {
    /// For a tree as it is in the view; `None` when it has no rank index.
    pub fn new(
        tree: TreeKey,
        view: &ReadView,
        state: &Arc<CollectionState>,
        cache: &Arc<RangeCache>,
    ) -> Option<Self> {
        Some(Self {
            cache: cache.clone(),
            state: state.clone(),
            tree,
            stamp: view.stamp(tree)?,
        })
    }

    /// The tree.
    pub fn tree(&self) -> TreeKey {
        self.tree
    }

    /// The rank index's number of changes then.
    pub fn changes(&self) -> u64 {
        self.stamp.changes()
    }

    /// Whether the statement that asks is to keep ranges of so many bytes together, which costs something.
    pub fn is_to_keep(&self, bytes: u64) -> bool {
        bytes <= self.cache.bytes_max() && self.cache.is_to_keep()
    }

    /// Whether so many bytes more can be kept without others making room.
    pub fn has_room(&self, bytes: u64) -> bool {
        self.cache.has_room(bytes)
    }

    /// Asks the tree's rank index as it is now, if it is still that of the view.
    pub fn ask<T>(&self, ask: impl FnOnce(&RankIndex) -> Option<T>) -> Option<T> {
        self.state.ranks().peek_marked(self.tree, self.stamp, ask)
    }

    /// Begins to keep ranges.
    pub fn begin(&self) -> CacheBatch<'_> {
        CacheBatch {
            cache_writer: self,
            read: Vec::new(),
        }
    }
}

/// Ranges that were read and are cached soon, at the latest when this is dropped.
pub(super) struct CacheBatch<'k> {
    cache_writer: &'k CacheWriter,
    read: Vec<ReadBucket>,
}

impl CacheBatch<'_> {
    /// Keeps the entries of a range from its first key up to another (`None`: to the end of the tree), all
    /// that it had in the view; unless they are too large or there is no room.
    pub fn keep(&mut self, start: &[u8], end: Option<&[u8]>, contents: Arc<CachedEntries>) {
        if contents.size() > RANGE_BYTES_MAX {
            return;
        }
        let entries = contents.entries();
        let Some(page) = self.cache_writer.cache.keep(contents) else {
            return;
        };
        self.read.push(ReadBucket {
            start: start.to_vec(),
            end: end.map(<[u8]>::to_vec),
            entries,
            page,
        });
        if self.read.len() == KEPT_TOGETHER {
            self.keep_read();
        }
    }

    fn keep_read(&mut self) {
        let (read, cache_writer) = (std::mem::take(&mut self.read), self.cache_writer);
        if !read.is_empty() {
            cache_writer
                .state
                .ranks()
                .keep(cache_writer.tree, cache_writer.stamp, read);
        }
    }
}

impl Drop for CacheBatch<'_> {
    fn drop(&mut self) {
        // What was read on the way to a panic is in doubt, and another panic here would end the process.
        if !std::thread::panicking() {
            self.keep_read();
        }
    }
}
