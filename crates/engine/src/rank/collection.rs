//! The summaries of a collection's trees, kept in step with what is committed.
//!
//! A writer tells [`Counted`] before it writes a batch and, after it, what came and went. In between a
//! reader is given the snapshot from before, so that the summaries and the snapshot of a [`Moment`]
//! always agree: a count is exact at a point in time. Nobody waits for a write to the storage.

use super::Tree;
use super::deferred::Deferred;
use crate::index::summary::{ReadRange, Span, Summary, Walked, WalkedRange};
use crate::operation::Unpaced;
use crate::storage::{Family, Snapshot, Store};
use parking_lot::{RwLock, RwLockReadGuard};
use smallvec::SmallVec;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The summaries of one collection.
#[derive(Default)]
pub struct Counted {
    state: RwLock<Summaries>,
    /// Whether the collection waits for its summaries to be worked on.
    queued: AtomicBool,
    /// Whether something has changed since the summaries were saved.
    changed: AtomicBool,
}

/// The summaries, and the snapshot to read with while a commit is under way.
#[derive(Default)]
pub struct Summaries {
    before: Option<Snapshot>,
    trees: Vec<TreeSummary>,
    /// Whether much is written.
    busy: bool,
    /// Whether keys wait for [`Counted::place_full`].
    has_full: bool,
    /// Summaries that were put in so far.
    inserted: u64,
}

struct TreeSummary {
    family: Family,
    tree: Tree,
    summary: Arc<Deferred>,
    /// Tells it from another that the tree had before.
    number: u64,
}

/// A state of a summary, see [`Counted::remember`].
#[derive(Debug, Clone, Copy)]
pub struct Mark {
    number: u64,
    changes: u64,
}

/// The states of a collection's summaries at one moment.
#[derive(Debug, Clone, Default)]
pub struct Marks(SmallVec<[(Tree, Mark); 4]>);

impl Marks {
    /// The state of a tree's summary; `None` if it had none.
    pub fn of(&self, tree: Tree) -> Option<Mark> {
        let mut all = self.0.iter();
        all.find(|(own, _)| *own == tree).map(|(_, mark)| *mark)
    }
}

impl TreeSummary {
    fn mark(&self) -> Mark {
        Mark {
            number: self.number,
            changes: self.summary.read().changes(),
        }
    }

    /// Whether it is the summary that a tree had when it was marked.
    fn is_marked(&self, tree: Tree, mark: Mark) -> bool {
        self.tree == tree && self.number == mark.number
    }
}

/// A point in time: a snapshot, and summaries that count exactly what is in it. Writers cannot finish
/// a commit while it is held: let go of it before anything long.
pub struct Moment<'c> {
    /// What is committed.
    pub snapshot: Snapshot,
    summaries: RwLockReadGuard<'c, Summaries>,
    _unpaced: Unpaced,
}

impl Mark {
    /// The summary's number of changes then.
    pub fn changes(&self) -> u64 {
        self.changes
    }
}

impl Moment<'_> {
    /// The summary of a tree; `None` for a tree that has none yet, or is gone.
    pub fn summary(&self, tree: Tree) -> Option<RwLockReadGuard<'_, Summary>> {
        self.of_tree(tree).map(|one| one.summary.read())
    }

    /// The present state of a tree's summary.
    pub fn mark(&self, tree: Tree) -> Option<Mark> {
        self.of_tree(tree).map(TreeSummary::mark)
    }

    /// The present states of all summaries.
    pub fn marks(&self) -> Marks {
        let of = |one: &TreeSummary| (one.tree, one.mark());
        Marks(self.summaries.trees.iter().map(of).collect())
    }

    fn of_tree(&self, tree: Tree) -> Option<&TreeSummary> {
        self.summaries.trees.iter().find(|one| one.tree == tree)
    }
}

/// A part of a tree to be walked on a snapshot, see [`Counted::begin_walk`].
pub struct Walk {
    /// The family of the tree.
    pub family: Family,
    /// The tree.
    pub tree: Tree,
    /// Which part.
    pub span: Span,
    /// What to walk it on.
    pub snapshot: Snapshot,
}

/// What is known about the summaries of a collection.
#[derive(Debug, Clone, Copy, Default)]
pub struct SummaryFigures {
    /// Trees with a summary.
    pub trees: u64,
    /// Of these, trees that are still being learnt: counts walk entries meanwhile.
    pub incomplete: u64,
    /// Entries that are counted.
    pub entries: u64,
    /// Bytes of memory, about.
    pub bytes: u64,
    /// Bytes of points that are remembered beside, about.
    pub points_bytes: u64,
}

impl Counted {
    /// The present.
    pub fn moment(&self, store: &Store) -> Moment<'_> {
        let summaries = self.state.read();
        Moment {
            snapshot: summaries.present(store),
            summaries,
            _unpaced: Unpaced::begin(),
        }
    }

    /// Asks the summary of a tree as it is now; `None` when there is none. For amounts that only guide:
    /// they need not agree with any snapshot.
    pub fn peek<T>(&self, tree: Tree, ask: impl FnOnce(&Summary) -> Option<T>) -> Option<T> {
        let state = self.state.read();
        let found = state.trees.iter().find(|one| one.tree == tree)?;
        ask(&found.summary.read())
    }

    /// As [`Self::peek`], if it is still the summary that was marked.
    pub fn peek_marked<T>(
        &self,
        tree: Tree,
        mark: Mark,
        ask: impl FnOnce(&Summary) -> Option<T>,
    ) -> Option<T> {
        let state = self.state.read();
        let mut trees = state.trees.iter();
        ask(&trees.find(|one| one.is_marked(tree, mark))?.summary.read())
    }

    /// To be called, under the collection's write lock, before a batch is written.
    pub fn begin_commit(&self, store: &Store) {
        let before = store.snapshot();
        // Before the write: who sees its sequence number must see that something has changed.
        self.note_changed();
        let mut state = self.state.write();
        state.before = Some(before);
        state.set_busy(!store.rests());
    }

    /// To be called when the batch is written, or could not be, with what it changes.
    pub fn end_commit(&self, change: impl FnOnce(&mut Summaries)) {
        let mut state = self.state.write();
        change(&mut state);
        // Released after the lock: giving a snapshot back takes a lock of the storage.
        let before = state.before.take();
        drop(state);
        drop(before);
    }

    /// Adds the summary of a tree; it replaces one the tree had.
    pub fn insert(&self, family: Family, tree: Tree, mut summary: Summary) {
        let mut state = self.state.write();
        summary.set_busy(state.busy);
        self.note_changed();
        state.trees.retain(|one| one.tree != tree);
        state.inserted += 1;
        let number = state.inserted;
        state.trees.push(TreeSummary {
            family,
            tree,
            summary: Arc::new(Deferred::new(summary)),
            number,
        });
    }

    /// Remembers the points of ranges that were walked at the moment when the summary's state was
    /// marked, as far as they have not changed since.
    pub fn remember(&self, tree: Tree, mark: Mark, walked: Vec<WalkedRange>) {
        let state = self.state.read();
        let mut trees = state.trees.iter();
        if let Some(one) = trees.find(|one| one.is_marked(tree, mark)) {
            one.summary.change().remember(walked, mark.changes);
        }
    }

    /// Keeps the entries of ranges that were read at the moment when the summary's state was marked, as
    /// far as they have not changed since.
    pub fn keep(&self, tree: Tree, mark: Mark, read: Vec<ReadRange>) {
        let state = self.state.read();
        let mut trees = state.trees.iter();
        if let Some(one) = trees.find(|one| one.is_marked(tree, mark)) {
            one.summary.change().keep(read, mark.changes);
        }
    }

    /// Forgets what the summary of a tree says, if the tree has one: it is to be learnt anew.
    pub fn forget(&self, tree: Tree) {
        let state = self.state.read();
        if let Some(one) = state.trees.iter().find(|one| one.tree == tree) {
            one.summary.change().forget();
            self.note_changed();
        }
    }

    /// Takes the summary of a tree away.
    pub fn remove(&self, tree: Tree) {
        self.state.write().trees.retain(|one| one.tree != tree);
    }

    /// The next part of a tree to walk, if there is one. The caller walks it and calls
    /// [`Self::end_walk`].
    pub fn begin_walk(&self, store: &Store) -> Option<Walk> {
        let mut state = self.state.write();
        state.set_busy(!store.rests());
        let snapshot = state.present(store);
        let begin = |one: &TreeSummary| {
            // What is put aside is placed only for a walk: that the snapshot has it.
            let wants = one.summary.as_placed().wants_recount();
            let span = wants.then(|| one.summary.change().begin_recount());
            span.flatten().map(|span| (one.family, one.tree, span))
        };
        let (family, tree, span) = state.trees.iter().find_map(begin)?;
        Some(Walk {
            family,
            tree,
            span,
            snapshot,
        })
    }

    /// Installs what a walk found; `None` gives the walk up.
    pub fn end_walk(&self, tree: Tree, walked: Option<Walked>) {
        let state = self.state.write();
        let Some(one) = state.trees.iter().find(|one| one.tree == tree) else {
            return;
        };
        match walked {
            None => one.summary.as_placed().abandon_recount(),
            Some(walked) => {
                self.note_changed();
                if !one.summary.as_placed().finish_recount(walked) {
                    report_disagreement(tree);
                }
            }
        }
    }

    /// Whether some summary has something to learn or to cut now.
    pub fn wants_walk(&self, store: &Store) -> bool {
        let mut state = self.state.write();
        state.set_busy(!store.rests());
        // What is put aside is placed in all of them.
        let mut wants = false;
        for one in &state.trees {
            wants |= one.summary.change().wants_recount();
        }
        wants
    }

    /// Places the keys that were put aside in great numbers. Writers go on meanwhile.
    pub fn place_full(&self) {
        let mut state = self.state.write();
        if !std::mem::take(&mut state.has_full) {
            return;
        }
        let summaries: Vec<_> = state.trees.iter().map(|one| one.summary.clone()).collect();
        drop(state);
        for summary in summaries {
            while summary.place_full() {}
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

    /// Notes that the summaries are to be saved again.
    pub fn note_changed(&self) {
        self.changed.store(true, Ordering::Release);
    }

    /// Whether something has changed since this was asked last.
    pub fn take_changed(&self) -> bool {
        self.changed.swap(false, Ordering::AcqRel)
    }

    /// All summaries as they are now, for saving.
    pub fn copies(&self) -> Vec<(Tree, Summary)> {
        let state = self.state.read();
        let copy = |one: &TreeSummary| (one.tree, one.summary.read().clone());
        state.trees.iter().map(copy).collect()
    }

    /// What is known about the summaries.
    pub fn figures(&self) -> SummaryFigures {
        let mut figures = SummaryFigures::default();
        for one in &self.state.read().trees {
            figures.trees += 1;
            let summary = one.summary.read();
            figures.incomplete += u64::from(!summary.is_complete());
            figures.entries += summary.entries();
            figures.bytes += summary.bytes() as u64;
            figures.points_bytes += summary.points_bytes() as u64;
        }
        figures
    }
}

impl Summaries {
    /// Keys of a tree that came, each of them new; with or without the tree's prefix they would sort
    /// alike, they are given without it.
    pub fn add<'k>(&mut self, tree: Tree, keys: impl IntoIterator<Item = &'k [u8]>) {
        if let Some(one) = self.trees.iter().find(|one| one.tree == tree) {
            self.has_full |= one.summary.add(keys);
        }
    }

    /// Keys of a tree that went, each of which was there.
    pub fn remove<'k>(&mut self, tree: Tree, keys: impl IntoIterator<Item = &'k [u8]>) {
        if let Some(one) = self.trees.iter().find(|one| one.tree == tree)
            && !one.summary.change().remove(keys)
        {
            report_disagreement(tree);
        }
    }

    /// Keys of a tree that stayed, with other values.
    pub fn touch<'k>(&mut self, tree: Tree, keys: impl IntoIterator<Item = &'k [u8]>) {
        if let Some(one) = self.trees.iter().find(|one| one.tree == tree) {
            // Keys that are put aside are in no range yet, and nothing is kept of them.
            one.summary.as_placed().touch(keys);
        }
    }

    /// Whether some summary has keys to be placed, or something to learn or to cut now.
    pub fn wants_work(&self) -> bool {
        self.has_full || self.trees.iter().any(|one| one.summary.wants_recount())
    }

    fn set_busy(&mut self, busy: bool) {
        if std::mem::replace(&mut self.busy, busy) != busy {
            for one in &self.trees {
                one.summary.as_placed().set_busy(busy);
            }
        }
    }

    fn present(&self, store: &Store) -> Snapshot {
        match &self.before {
            Some(before) => before.clone(),
            None => store.snapshot(),
        }
    }
}

fn report_disagreement(tree: Tree) {
    tracing::error!(
        tree = tree.0,
        "a summary disagreed with its tree and is learnt anew; please report this"
    );
}
