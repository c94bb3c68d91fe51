//! Counts without scanning: how many entries of a tree lie between two keys, and which entry is the k-th.
//!
//! Each tree (a collection's documents, an index) has a *rank index* (`index`): an exact equi-depth histogram that
//! follows every commit. In: the keys that a commit adds and removes ([`CollectionRanks`]). Out: a [`ReadView`], whose
//! counts agree with its snapshot; where a rank index is not built yet it says that it cannot tell, and the
//! caller scans.
//!
//! | module | holds |
//! |---|---|
//! | `index` | the histogram of one tree: buckets in leaves, search, changes, rebuilding |
//! | `buffered` | a delta buffer in front of it, so that commits need not search |
//! | `collection` | those of one collection, kept in step with its commits |
//! | `view` | what a statement reads: a snapshot and the counts that agree with it |
//! | `build` | the background work: scanning trees, splitting buckets |
//! | `persist` | saving, loading, catching up from the log |
//! | `audit` | comparing counts with trees, for ever |
//! | `range_cache` | what statements made of the entries of buckets, cached with them |
//!
//! Deliberately absent: which indexes there are (`catalog`), what a count is for (`exec`).

mod audit;
mod buffered;
mod build;
mod collection;
mod index;
mod persist;
mod range_cache;
mod view;

pub use audit::{AuditFigures, Disagreement};
pub use collection::{CollectionRanks, RankFigures, RankIndexes};
pub use index::{
    BucketBounds, BucketPosition, BucketRef, PartialBucket, RankIndex, RankInterval, SearchHint,
    SelectedEntry,
};
pub use persist::{RanksAtStart, forget_saved, load_saved};
pub use range_cache::{CACHED_BYTES_MAX, CACHED_ENTRIES_MAX, Cacheable, RangeCache};

pub use view::{FixedView, ReadView, VersionStamp};

use crate::error::Result;
use crate::storage::{Batch, Family, Store, TreeKey};
use parking_lot::Mutex;
use std::sync::Arc;

/// Caches the rank indexes of a store built, saved and right.
pub struct Maintenance {
    store: Store,
    queue: Arc<build::BuildQueue>,
    audit: audit::AuditState,
    /// Held while they are saved.
    saving: Mutex<()>,
}

impl Maintenance {
    /// Of the rank indexes of this store.
    pub fn new(store: Store) -> Self {
        Self {
            store,
            queue: Arc::default(),
            audit: audit::AuditState::default(),
            saving: Mutex::default(),
        }
    }

    /// Saves those that have changed, so that a start need not scan their trees. Called now and then, and at the end.
    ///
    /// # Errors
    /// Storage failures.
    pub fn save(&self, all: impl Iterator<Item = Arc<CollectionRanks>>) -> Result<()> {
        let _saving = self.saving.lock();
        persist::save(&self.store, all)
    }
}

/// Deletes what is saved of a tree's rank index.
pub fn delete_saved(batch: &mut Batch, tree: TreeKey) {
    let (start, end) = persist::saved_range(tree);
    batch.delete_range(Family::Catalog, &start, &end);
}
