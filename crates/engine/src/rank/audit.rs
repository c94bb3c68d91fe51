//! Compares counts with what their trees hold, in the background and for ever, so that no wrong count lives
//! on, whatever its cause.
//!
//! One leaf of one tree at a time (a few thousand entries): its counts and a snapshot are taken together,
//! then the entries are scanned without a lock. Counts that differ are counted for `serverStatus` and forgotten:
//! the rank index is built anew, and meanwhile counts scan entries. The caller logs which index it was.

use super::Maintenance;
use super::collection::CollectionRanks;
use super::index::AuditedLeaf;
use super::view::ReadView;
use crate::error::Result;
use crate::storage::{Family, Order, Snapshot, TreeKey};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// How far the audit is, and what it has found since the start.
#[derive(Debug, Default)]
pub(super) struct AuditState {
    /// The tree and the key in it with which to go on; `None` before the first tree.
    next: Mutex<Option<(TreeKey, Vec<u8>)>>,
    entries: AtomicU64,
    rounds: AtomicU64,
    disagreements: AtomicU64,
}

/// What the audit has done since the start.
#[derive(Debug, Clone, Copy, Default)]
pub struct AuditFigures {
    /// Entries that were compared.
    pub entries: u64,
    /// Times that all trees were gone through.
    pub rounds: u64,
    /// Leaves whose counts were wrong.
    pub disagreements: u64,
}

/// A tree whose counts were wrong; they are forgotten.
#[derive(Debug, Clone, Copy)]
pub struct Disagreement {
    /// The tree.
    pub tree: TreeKey,
    /// Buckets that counted other numbers.
    pub buckets: u64,
}

/// A leaf to be compared, with the entries that it counts.
struct AuditTarget {
    ranks: Arc<CollectionRanks>,
    family: Family,
    tree: TreeKey,
    leaf: AuditedLeaf,
    snapshot: Snapshot,
}

impl AuditState {
    fn figures(&self) -> AuditFigures {
        AuditFigures {
            entries: self.entries.load(Ordering::Relaxed),
            rounds: self.rounds.load(Ordering::Relaxed),
            disagreements: self.disagreements.load(Ordering::Relaxed),
        }
    }
}

impl Maintenance {
    /// What the audit has done since the start.
    pub fn audit_figures(&self) -> AuditFigures {
        self.audit.figures()
    }

    /// Compares the next leaf of all rank indexes with its tree. `is_there` says whether a tree that is empty then is one
    /// still: it may be dropped meanwhile.
    ///
    /// # Errors
    /// Storage failures.
    pub fn audit_next(
        &self,
        all: impl Iterator<Item = Arc<CollectionRanks>>,
        is_there: &dyn Fn(TreeKey) -> bool,
    ) -> Result<Option<Disagreement>> {
        let Some(target) = self.next_target(all) else {
            return Ok(None);
        };
        let (entries, buckets) = compare(&target)?;
        self.audit.entries.fetch_add(entries, Ordering::Relaxed);
        if buckets == 0 {
            return Ok(None);
        }
        let AuditTarget { tree, ranks, .. } = target;
        if !is_there(tree) {
            return Ok(None);
        }
        self.audit.disagreements.fetch_add(1, Ordering::Relaxed);
        ranks.forget(tree);
        self.queue(&ranks);
        Ok(Some(Disagreement { tree, buckets }))
    }

    /// The leaf at which the audit is; the audit then stands behind it. Trees that are not built as a whole
    /// are passed over. Trees are gone through in the order of their numbers, which never changes.
    fn next_target(&self, all: impl Iterator<Item = Arc<CollectionRanks>>) -> Option<AuditTarget> {
        let mut next = self.audit.next.lock();
        let (at, from) = next.take().unwrap_or((TreeKey(0), Vec::new()));
        let of_collection = |ranks: Arc<CollectionRanks>| {
            let trees = ranks.trees().into_iter();
            trees.map(move |(family, tree)| (tree, family, ranks.clone()))
        };
        let trees = all.flat_map(of_collection);
        let mut trees: Vec<_> = trees.filter(|(tree, ..)| *tree >= at).collect();
        trees.sort_by_key(|(tree, ..)| *tree);
        for (tree, family, ranks) in trees {
            let from = if tree == at { from.as_slice() } else { b"" };
            let view = ReadView::open(&ranks, &self.store);
            let index = view.ranks(tree);
            let snapshot = view.snapshot().clone();
            drop(view);
            let leaf = index.and_then(|index| index.audited_leaf(from));
            let Some(leaf) = leaf else {
                continue;
            };
            *next = Some(match &leaf.end {
                Some(end) => (tree, end.clone()),
                None => (TreeKey(tree.0.saturating_add(1)), Vec::new()),
            });
            return Some(AuditTarget {
                ranks,
                family,
                tree,
                leaf,
                snapshot,
            });
        }
        self.audit.rounds.fetch_add(1, Ordering::Relaxed);
        None
    }
}

/// How many entries the tree has in the leaf, and how many of the leaf's buckets count other numbers.
fn compare(target: &AuditTarget) -> Result<(u64, u64)> {
    let AuditTarget { tree, leaf, .. } = target;
    let end = match &leaf.end {
        Some(end) => tree.key(end),
        None => tree.range().1.to_vec(),
    };
    let start = tree.key(&leaf.start);
    let mut scan = target
        .snapshot
        .scan(target.family, &start, &end, Order::Forward);
    let (mut audit, mut entries) = (leaf.part.audit(), 0);
    while scan.advance()? {
        audit.see(TreeKey::strip(scan.entry().0));
        entries += 1;
    }
    Ok((entries, audit.finish().unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rank::{RangeCache, RankIndex};
    use crate::storage::Store;

    const TREE: TreeKey = TreeKey(7);

    /// Commits new keys.
    fn commit(store: &Store, ranks: &CollectionRanks, keys: impl Iterator<Item = u32>) {
        let keys: Vec<[u8; 4]> = keys.map(u32::to_be_bytes).collect();
        let mut batch = store.batch();
        for key in &keys {
            batch.add(Family::Documents, &TREE.key(key), b"");
        }
        ranks.begin_commit(store);
        store.write(batch).unwrap();
        ranks.end_commit(|indexes| indexes.add(TREE, keys.iter().map(|key| &key[..])));
    }

    fn counted(keys: u32) -> (Store, Arc<CollectionRanks>, Maintenance) {
        let store = Store::in_memory();
        let cache = RangeCache::new(store.cache_budget());
        let ranks = Arc::new(CollectionRanks::new(cache.into()));
        ranks.insert(Family::Documents, TREE, RankIndex::empty());
        commit(&store, &ranks, 0..keys);
        (store.clone(), ranks, Maintenance::new(store))
    }

    /// Goes once through all trees.
    fn audit_all(maintenance: &Maintenance, all: &[Arc<CollectionRanks>]) -> AuditFigures {
        let before = maintenance.audit_figures().rounds;
        while maintenance.audit_figures().rounds == before {
            maintenance
                .audit_next(all.iter().cloned(), &|_| true)
                .unwrap();
        }
        maintenance.audit_figures()
    }

    #[test]
    fn right_counts_are_left_alone_and_wrong_ones_are_found_wherever_they_are() {
        let (_, ranks, maintenance) = counted(20_000);
        let all = [ranks.clone()];
        let entries = || ranks.peek(TREE, |index| index.is_complete().then(|| index.entries()));
        let figures = audit_all(&maintenance, &all);
        assert_eq!((figures.entries, figures.disagreements), (20_000, 0));
        for (number, key) in [0_u32, 7, 9_999, 19_999].into_iter().enumerate() {
            // A key that nobody stored, as a lost or repeated change leaves it.
            let phantom = [&key.to_be_bytes()[..], b"x"].concat();
            ranks.end_commit(|indexes| indexes.add(TREE, [&phantom[..]]));
            assert_eq!(entries(), Some(20_001));
            let figures = audit_all(&maintenance, &all);
            assert_eq!(figures.disagreements, number as u64 + 1);
            assert_eq!(entries(), None, "a wrong count is not given");
            maintenance.build_all(&ranks).unwrap();
            assert_eq!(entries(), Some(20_000));
        }
        assert_eq!(audit_all(&maintenance, &all).disagreements, 4);
    }

    #[test]
    fn trees_that_come_and_go_are_no_disagreement() {
        let (store, ranks, maintenance) = counted(20_000);
        maintenance
            .audit_next([ranks].into_iter(), &|_| true)
            .unwrap();
        assert_eq!(audit_all(&maintenance, &[]).disagreements, 0);
        let (_, other, _) = counted(0);
        let before = maintenance.audit_figures().entries;
        drop(store);
        let (store, ranks) = (maintenance.store.clone(), other);
        let mut batch = store.batch();
        let (start, end) = TREE.range();
        batch.delete_range(Family::Documents, &start, &end);
        store.write(batch).unwrap();
        commit(&store, &ranks, 0..1);
        let figures = audit_all(&maintenance, &[ranks]);
        assert_eq!((figures.entries, figures.disagreements), (before + 1, 0));
    }
}
