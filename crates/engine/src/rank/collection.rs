//! The rank indexes of a collection's trees, kept in step with its commits.
//!
//! A commit calls [`CollectionRanks::begin_commit`] before it writes its batch and [`CollectionRanks::end_commit`] after it. In
//! between readers are given the snapshot from before the write, so that the rank indexes and the snapshot of a
//! [`ReadView`] always agree: a count is exact at a point in time, and no reader waits for a write to the storage.

use super::buffered::BufferedRankIndex;
use super::index::{BucketBounds, RankIndex, ScannedSpan, UnbuiltSpan};
use super::range_cache::{Cacheable, RangeCache};
use super::view::VersionStamp;
use crate::storage::{Family, Snapshot, Store, TreeKey};
use parking_lot::{ArcRwLockReadGuard, Mutex, RawRwLock, RwLock};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The rank indexes of one collection.
pub struct CollectionRanks {
    state: Arc<RwLock<RankIndexes>>,
    /// That of all collections.
    range_cache: Arc<RangeCache>,
    /// Whether the collection waits for its rank indexes to be worked on.
    queued: AtomicBool,
    /// Whether something has changed since the rank indexes were saved.
    changed: AtomicBool,
}

/// The rank indexes, and the snapshot to read with while a commit is under way.
#[derive(Default)]
pub struct RankIndexes {
    /// Set while the rank indexes are only read: a commit begins beside pinned views, and waits for them to end.
    before: Mutex<Option<Snapshot>>,
    trees: Vec<TreeRanks>,
    /// Whether writes are heavy.
    busy: bool,
    /// Whether keys wait for [`CollectionRanks::merge_full`].
    has_full: bool,
    /// Rank indexes that were inserted so far.
    inserted: u64,
}

struct TreeRanks {
    family: Family,
    tree: TreeKey,
    ranks: Arc<BufferedRankIndex>,
    /// Tells it from another that the tree had before.
    number: u64,
}

impl TreeRanks {
    /// Whether it is the rank index of this version, or one that came of it by changes.
    fn is_of(&self, tree: TreeKey, stamp: VersionStamp) -> bool {
        self.tree == tree && self.number == stamp.number
    }
}

/// A part of a tree to be scanned on a snapshot, see [`CollectionRanks::begin_scan`].
pub struct BuildScan {
    /// The family of the tree.
    pub family: Family,
    /// The tree.
    pub tree: TreeKey,
    /// Which part.
    pub span: UnbuiltSpan,
    /// What to scan it on.
    pub snapshot: Snapshot,
}

/// What is known about the rank indexes of a collection.
#[derive(Debug, Clone, Copy, Default)]
pub struct RankFigures {
    /// Trees with a rank index.
    pub trees: u64,
    /// Of these, trees that are still being built: counts walk entries meanwhile.
    pub incomplete: u64,
    /// Entries that are counted.
    pub entries: u64,
    /// Bytes of memory, about.
    pub bytes: u64,
}

impl CollectionRanks {
    /// No rank indexes yet; what is read of their buckets is cached there.
    pub fn new(range_cache: Arc<RangeCache>) -> Self {
        Self {
            state: Arc::default(),
            range_cache,
            queued: AtomicBool::new(false),
            changed: AtomicBool::new(false),
        }
    }

    /// The rank indexes as they are now: no commit ends while they are held.
    pub(super) fn read(&self) -> ArcRwLockReadGuard<RawRwLock, RankIndexes> {
        self.state.read_arc_recursive()
    }

    /// Asks the rank index of a tree as it is now; `None` when there is none. For amounts that only guide:
    /// they need not agree with any snapshot. (Recursive reads: this thread may hold a pinned view.)
    pub fn peek<T>(&self, tree: TreeKey, ask: impl FnOnce(&RankIndex) -> Option<T>) -> Option<T> {
        let state = self.state.read_recursive();
        let found = state.trees.iter().find(|one| one.tree == tree)?;
        ask(&found.ranks.read())
    }

    /// As [`Self::peek`], if it is still the rank index of this version, or one that came of it by changes.
    pub fn peek_marked<T>(
        &self,
        tree: TreeKey,
        stamp: VersionStamp,
        ask: impl FnOnce(&RankIndex) -> Option<T>,
    ) -> Option<T> {
        let state = self.state.read_recursive();
        let mut trees = state.trees.iter();
        ask(&trees.find(|one| one.is_of(tree, stamp))?.ranks.read())
    }

    /// To be called, under the collection's write lock, before a batch is written.
    pub fn begin_commit(&self, store: &Store) {
        let snapshot = store.snapshot();
        let (state, is_busy) = (self.state.read_recursive(), !store.is_idle());
        let mut before = state.before.lock();
        // With the snapshot: a copy holds either what has changed, or not, and then it is noted.
        self.note_changed();
        *before = Some(snapshot);
        drop(before);
        if state.busy != is_busy {
            drop(state);
            self.state.write().set_busy(is_busy);
        }
    }

    /// To be called when the batch is written, or could not be, with what it changes.
    pub fn end_commit(&self, change: impl FnOnce(&mut RankIndexes)) {
        let mut state = self.state.write();
        change(&mut state);
        // Released after the lock: giving a snapshot back takes a lock of the storage.
        let before = state.before.get_mut().take();
        drop(state);
        drop(before);
    }

    /// Adds the rank index of a tree; it replaces one the tree had.
    pub fn insert(&self, family: Family, tree: TreeKey, mut ranks: RankIndex) {
        let mut state = self.state.write();
        ranks.set_busy(state.busy);
        self.note_changed();
        state.trees.retain(|one| one.tree != tree);
        state.inserted += 1;
        let number = state.inserted;
        state.trees.push(TreeRanks {
            family,
            tree,
            ranks: Arc::new(BufferedRankIndex::new(ranks)),
            number,
        });
    }

    /// Caches what was read of whole buckets at a version of the rank index, as far as they have not changed since.
    pub fn cache<T: Cacheable>(
        &self,
        tree: TreeKey,
        stamp: VersionStamp,
        read: Vec<(BucketBounds, Arc<T>)>,
    ) {
        let add = |(bounds, contents)| {
            let range = self.range_cache.add(contents, stamp.changes)?;
            Some((bounds, range))
        };
        let added: Vec<_> = read.into_iter().filter_map(add).collect();
        if added.is_empty() {
            return;
        }
        let state = self.state.read_recursive();
        let mut trees = state.trees.iter();
        if let Some(one) = trees.find(|one| one.is_of(tree, stamp)) {
            one.ranks.change().cache(added, stamp.changes);
        }
    }

    /// The cache of ranges.
    pub fn range_cache(&self) -> &RangeCache {
        &self.range_cache
    }

    /// Forgets what the rank index of a tree says, if the tree has one: it is to be built anew.
    pub fn forget(&self, tree: TreeKey) {
        let state = self.state.read_recursive();
        if let Some(one) = state.trees.iter().find(|one| one.tree == tree) {
            one.ranks.change().forget();
            self.note_changed();
        }
    }

    /// Takes the rank index of a tree away.
    pub fn remove(&self, tree: TreeKey) {
        self.state.write().trees.retain(|one| one.tree != tree);
    }

    /// The next part of a tree to scan, if there is one. The caller scans it and calls
    /// [`Self::end_scan`].
    pub fn begin_scan(&self, store: &Store) -> Option<BuildScan> {
        let mut state = self.state.write();
        state.set_busy(!store.is_idle());
        let snapshot = state.present(store);
        let begin = |one: &TreeRanks| {
            // What is in the delta buffer is merged only for a scan: that the snapshot has it.
            let wants = one.ranks.merged().wants_rebuild();
            let span = wants.then(|| one.ranks.change().begin_rebuild());
            span.flatten().map(|span| (one.family, one.tree, span))
        };
        let (family, tree, span) = state.trees.iter().find_map(begin)?;
        Some(BuildScan {
            family,
            tree,
            span,
            snapshot,
        })
    }

    /// Installs what a scan found; `None` gives the scan up.
    pub fn end_scan(&self, tree: TreeKey, walked: Option<ScannedSpan>) {
        let state = self.state.write();
        let Some(one) = state.trees.iter().find(|one| one.tree == tree) else {
            return;
        };
        match walked {
            None => one.ranks.as_merged().abandon_rebuild(),
            Some(walked) => {
                self.note_changed();
                if !one.ranks.as_merged().finish_rebuild(walked) {
                    report_disagreement(tree);
                }
            }
        }
    }

    /// Whether some rank index has something to build or to split now.
    pub fn wants_scan(&self, store: &Store) -> bool {
        let mut state = self.state.write();
        state.set_busy(!store.is_idle());
        // What is in the delta buffer is merged in all of them.
        let mut wants = false;
        for one in &state.trees {
            wants |= one.ranks.read().wants_rebuild();
        }
        wants
    }

    /// Merges full delta buffers. Commits go on meanwhile.
    pub fn merge_full(&self) {
        let mut state = self.state.write();
        if !std::mem::take(&mut state.has_full) {
            return;
        }
        let ranks: Vec<_> = state.trees.iter().map(|one| one.ranks.clone()).collect();
        drop(state);
        for ranks in ranks {
            while ranks.merge_full() {}
        }
    }

    /// Notes that the collection is queued; true when it was not.
    pub fn queue(&self) -> bool {
        !self.queued.swap(true, Ordering::AcqRel)
    }

    /// Notes that the collection is queued no longer.
    pub fn unqueue(&self) {
        self.queued.store(false, Ordering::Release);
    }

    /// Notes that the rank indexes are to be saved again.
    pub fn note_changed(&self) {
        self.changed.store(true, Ordering::Release);
    }

    /// Whether something has changed since this was asked last.
    pub fn take_changed(&self) -> bool {
        self.changed.swap(false, Ordering::AcqRel)
    }

    /// All trees that have a rank index.
    pub fn trees(&self) -> Vec<(Family, TreeKey)> {
        self.state.read().trees()
    }

    /// Copies of all rank indexes, and the sequence number up to which they hold all commits. They count as changed
    /// again while a commit is under way.
    pub fn copies(&self, store: &Store) -> (u64, Vec<(TreeKey, Arc<RankIndex>)>) {
        let state = self.state.read();
        let sequence = match &*state.before.lock() {
            Some(before) => {
                self.note_changed();
                before.sequence()
            }
            None => store.latest_sequence(),
        };
        let copy = |one: &TreeRanks| (one.tree, one.ranks.read());
        (sequence, state.trees.iter().map(copy).collect())
    }

    /// What is known about the rank indexes.
    pub fn figures(&self) -> RankFigures {
        let mut figures = RankFigures::default();
        for one in &self.state.read().trees {
            figures.trees += 1;
            let ranks = one.ranks.read();
            figures.incomplete += u64::from(!ranks.is_complete());
            figures.entries += ranks.entries();
            figures.bytes += ranks.bytes() as u64;
        }
        figures
    }
}

impl RankIndexes {
    /// All trees that have a rank index.
    pub(super) fn trees(&self) -> Vec<(Family, TreeKey)> {
        let trees = self.trees.iter();
        trees.map(|one| (one.family, one.tree)).collect()
    }

    /// The rank index of a tree with its version.
    pub(super) fn capture(&self, tree: TreeKey) -> Option<(Arc<RankIndex>, VersionStamp)> {
        let one = self.trees.iter().find(|one| one.tree == tree)?;
        let (index, number) = (one.ranks.read(), one.number);
        let changes = index.changes();
        Some((index, VersionStamp { number, changes }))
    }

    /// Keys of a tree that came, each of them new; with or without the tree's prefix they would sort
    /// alike, they are given without it.
    pub fn add<'k>(&mut self, tree: TreeKey, keys: impl IntoIterator<Item = &'k [u8]>) {
        if let Some(one) = self.trees.iter().find(|one| one.tree == tree) {
            self.has_full |= one.ranks.add(keys);
        }
    }

    /// Keys of a tree that went, each of which was there.
    pub fn remove<'k>(&mut self, tree: TreeKey, keys: impl IntoIterator<Item = &'k [u8]>) {
        if let Some(one) = self.trees.iter().find(|one| one.tree == tree)
            && !one.ranks.change().remove(keys)
        {
            report_disagreement(tree);
        }
    }

    /// Keys of a tree that stayed, with other values.
    pub fn touch<'k>(&mut self, tree: TreeKey, keys: impl IntoIterator<Item = &'k [u8]>) {
        if let Some(one) = self.trees.iter().find(|one| one.tree == tree) {
            // Keys that are in the delta buffer are in no range yet, and nothing is cached of them.
            one.ranks.as_merged().touch(keys);
        }
    }

    /// Whether some rank index has keys to be merged, or something to build or to split now.
    pub fn wants_work(&self) -> bool {
        self.has_full || self.trees.iter().any(|one| one.ranks.wants_rebuild())
    }

    fn set_busy(&mut self, busy: bool) {
        if std::mem::replace(&mut self.busy, busy) != busy {
            for one in &self.trees {
                one.ranks.as_merged().set_busy(busy);
            }
        }
    }

    /// What the rank indexes count: the snapshot from before a commit that is under way.
    pub(super) fn present(&self, store: &Store) -> Snapshot {
        match &*self.before.lock() {
            Some(before) => before.clone(),
            None => store.snapshot(),
        }
    }
}

fn report_disagreement(tree: TreeKey) {
    tracing::error!(
        tree = tree.0,
        "a rank index disagreed with its tree and is built anew; please report this"
    );
}
