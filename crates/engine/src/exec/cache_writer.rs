//! Keeps what a statement read of ranges of a tree from end to end, for those that come there next.

use crate::catalog::{CollectionState, Mark, Moment, Tree};
use crate::index::pages::{PageCache, PageContents};
use crate::index::summary::{ReadRange, Summary};
use std::sync::Arc;

/// A range with more bytes is not kept.
const RANGE_BYTES_MAX: usize = 64 * 1024;
/// So many ranges are kept at once: meanwhile nobody commits.
const KEPT_TOGETHER: usize = 512;

/// A tree, at the moment of a statement, whose ranges are kept.
#[derive(Clone)]
pub(super) struct Keeper {
    cache: Arc<PageCache>,
    state: Arc<CollectionState>,
    tree: Tree,
    /// The state of the tree's summary that agrees with the statement's snapshot.
    mark: Mark,
}

impl Keeper {
    /// For a tree as it is at the moment; `None` when it has no summary.
    pub fn new(
        tree: Tree,
        moment: &Moment<'_>,
        state: &Arc<CollectionState>,
        cache: &Arc<PageCache>,
    ) -> Option<Self> {
        Some(Self {
            cache: cache.clone(),
            state: state.clone(),
            tree,
            mark: moment.mark(tree)?,
        })
    }

    /// The tree.
    pub fn tree(&self) -> Tree {
        self.tree
    }

    /// The summary's number of changes at the moment.
    pub fn changes(&self) -> u64 {
        self.mark.changes()
    }

    /// Whether the statement that asks is to keep ranges of so many bytes together, which costs something.
    pub fn is_to_keep(&self, bytes: u64) -> bool {
        bytes <= self.cache.bytes_max() && self.cache.is_to_keep()
    }

    /// Whether so many bytes more can be kept without others making room.
    pub fn has_room(&self, bytes: u64) -> bool {
        self.cache.has_room(bytes)
    }

    /// Asks the tree's summary as it is now, if it is still the one of the moment.
    pub fn ask<T>(&self, ask: impl FnOnce(&Summary) -> Option<T>) -> Option<T> {
        self.state.counted().peek_marked(self.tree, self.mark, ask)
    }

    /// Begins to keep ranges.
    pub fn begin(&self) -> Keeping<'_> {
        Keeping {
            keeper: self,
            read: Vec::new(),
        }
    }
}

/// Ranges that were read and are kept soon, at the latest when this is dropped.
pub(super) struct Keeping<'k> {
    keeper: &'k Keeper,
    read: Vec<ReadRange>,
}

impl Keeping<'_> {
    /// Keeps the entries of a range from its first key up to another (`None`: to the end of the tree), all
    /// that it had at the moment; unless they are too large or there is no room.
    pub fn keep(&mut self, start: &[u8], end: Option<&[u8]>, contents: Arc<PageContents>) {
        if contents.size() > RANGE_BYTES_MAX {
            return;
        }
        let entries = contents.entries();
        let Some(page) = self.keeper.cache.keep(contents) else {
            return;
        };
        self.read.push(ReadRange {
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
        let (read, keeper) = (std::mem::take(&mut self.read), self.keeper);
        if !read.is_empty() {
            keeper.state.counted().keep(keeper.tree, keeper.mark, read);
        }
    }
}

impl Drop for Keeping<'_> {
    fn drop(&mut self) {
        // What was read on the way to a panic is in doubt, and another panic here would end the process.
        if !std::thread::panicking() {
            self.keep_read();
        }
    }
}
