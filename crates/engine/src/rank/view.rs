//! What a statement reads: one point in time of one collection.

use super::collection::{CollectionRanks, RankIndexes};
use super::index::RankIndex;
use crate::operation::NoYield;
use crate::storage::{Snapshot, Store, TreeKey};
use parking_lot::{ArcRwLockReadGuard, RawRwLock};
use smallvec::SmallVec;
use std::cell::RefCell;
use std::sync::Arc;

/// A version of a rank index: which one it was, and the number of its changes.
#[derive(Debug, Clone, Copy)]
pub struct VersionStamp {
    pub(super) number: u64,
    pub(super) changes: u64,
}

impl VersionStamp {
    /// The number of changes at this version.
    pub fn changes(&self) -> u64 {
        self.changes
    }
}

/// A snapshot of a collection, and rank indexes that count exactly what is in it. Made once a statement; a
/// transaction will put its own writes over the snapshot.
///
/// A view is made *pinned*: no commit of the collection ends until [`Self::unpin`], which comes before anything that
/// reads the storage. After that the rank indexes that were asked for while it was pinned still answer, as of the
/// snapshot. Of all others they say that they cannot tell.
pub struct ReadView {
    snapshot: Snapshot,
    ranks: RefCell<Counts>,
}

/// What a statement saw of a collection, to be seen again: a snapshot, and all rank indexes as of it.
pub struct FixedView {
    snapshot: Snapshot,
    captured: SmallVec<[Captured; 2]>,
}

#[derive(Default)]
struct Counts {
    pinned: Option<Pin>,
    /// Those that were asked for.
    captured: SmallVec<[Captured; 2]>,
}

struct Pin {
    ranks: ArcRwLockReadGuard<RawRwLock, RankIndexes>,
    /// Whoever waits for a ticket meanwhile would hold up commits.
    _no_yield: NoYield,
}

#[derive(Clone)]
struct Captured {
    tree: TreeKey,
    /// `None` for a tree that had none.
    index: Option<(Arc<RankIndex>, VersionStamp)>,
}

impl ReadView {
    /// The present, pinned.
    pub fn open(ranks: &CollectionRanks, store: &Store) -> Self {
        let _no_yield = NoYield::begin();
        let ranks = ranks.read();
        Self {
            snapshot: ranks.present(store),
            ranks: RefCell::new(Counts {
                pinned: Some(Pin { ranks, _no_yield }),
                captured: SmallVec::new(),
            }),
        }
    }

    /// What is committed.
    pub fn snapshot(&self) -> &Snapshot {
        &self.snapshot
    }

    /// The rank index of a tree as of the snapshot; `None` for a tree that has none yet or is gone, and for one that
    /// was not asked for before [`Self::unpin`].
    pub fn ranks(&self, tree: TreeKey) -> Option<Arc<RankIndex>> {
        self.captured(tree).map(|(index, _)| index)
    }

    /// The version of a tree's rank index that agrees with the snapshot.
    pub fn stamp(&self, tree: TreeKey) -> Option<VersionStamp> {
        self.captured(tree).map(|(_, stamp)| stamp)
    }

    fn captured(&self, tree: TreeKey) -> Option<(Arc<RankIndex>, VersionStamp)> {
        let counts = &mut *self.ranks.borrow_mut();
        if let Some(known) = counts.captured.iter().find(|known| known.tree == tree) {
            return known.index.clone();
        }
        let index = counts.pinned.as_ref()?.ranks.capture(tree);
        let known = index.clone();
        counts.captured.push(Captured { tree, index });
        known
    }

    /// From now on commits of the collection go on.
    pub fn unpin(&self) {
        self.ranks.borrow_mut().pinned = None;
    }

    /// As [`Self::unpin`]; all trees may be asked about further on, whether or not they were before.
    pub fn unpin_with_all(&self) {
        let pinned = self
            .ranks
            .borrow()
            .pinned
            .as_ref()
            .map(|pin| pin.ranks.trees());
        for (_, tree) in pinned.into_iter().flatten() {
            self.captured(tree);
        }
        self.unpin();
    }

    /// This view, to be opened again.
    pub fn fixed(&self) -> FixedView {
        self.unpin_with_all();
        FixedView {
            snapshot: self.snapshot.clone(),
            captured: self.ranks.borrow().captured.clone(),
        }
    }

    /// The view of an earlier moment.
    pub fn again(fixed: &FixedView) -> Self {
        Self {
            snapshot: fixed.snapshot.clone(),
            ranks: RefCell::new(Counts {
                pinned: None,
                captured: fixed.captured.clone(),
            }),
        }
    }

    /// Nothing more is counted: a commit need not copy what this view holds of rank indexes.
    pub fn end_counts(&self) {
        *self.ranks.borrow_mut() = Counts::default();
    }
}
