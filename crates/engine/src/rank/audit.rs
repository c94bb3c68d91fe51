//! Compares counts with what their trees hold, in the background and for ever, so that no wrong count lives
//! on, whatever its cause.
//!
//! One block of one tree at a time (a few thousand entries): its counts and a snapshot are taken together,
//! then the entries are walked without a lock. Counts that differ are logged, counted for `serverStatus`, and
//! forgotten: the tree is counted anew, and meanwhile counts walk entries.

use super::Writer;
use crate::catalog::{Collection, Tree};
use crate::error::Result;
use crate::index::summary::AuditedBlock;
use crate::storage::{Family, Order, Snapshot};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// How far the audit is, and what it has found since the start.
#[derive(Debug, Default)]
pub struct AuditState {
    /// The tree and the key in it with which to go on; `None` before the first tree.
    next: Mutex<Option<(Tree, Vec<u8>)>>,
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
    /// Blocks whose counts were wrong.
    pub disagreements: u64,
}

/// A block to be compared, with the entries that it counts.
struct Target {
    collection: Arc<Collection>,
    family: Family,
    tree: Tree,
    block: AuditedBlock,
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

impl Writer {
    /// What the audit has done since the start.
    pub fn audit_figures(&self) -> AuditFigures {
        self.audit.figures()
    }

    /// Compares the next block with its tree.
    ///
    /// # Errors
    /// Storage failures.
    pub fn audit_next(&self) -> Result<()> {
        let Some(target) = self.next_target() else {
            return Ok(());
        };
        let (entries, wrong) = compare(&target)?;
        self.audit.entries.fetch_add(entries, Ordering::Relaxed);
        if wrong > 0 {
            self.repair(&target, wrong);
        }
        Ok(())
    }

    /// The block at which the audit is; the audit then stands behind it. Trees that are not known as a whole
    /// are passed over. Trees are gone through in the order of their numbers, which never changes.
    fn next_target(&self) -> Option<Target> {
        let mut next = self.audit.next.lock();
        let (at, from) = next.take().unwrap_or((Tree(0), Vec::new()));
        let mut trees: Vec<_> = self
            .catalog
            .all()
            .into_iter()
            .flat_map(|collection| {
                let of = |(family, tree)| (tree, family, collection.clone());
                collection
                    .counted_trees()
                    .into_iter()
                    .map(of)
                    .collect::<Vec<_>>()
            })
            .filter(|(tree, ..)| *tree >= at)
            .collect();
        trees.sort_by_key(|(tree, ..)| *tree);
        for (tree, family, collection) in trees {
            let from = if tree == at { from.as_slice() } else { b"" };
            let moment = collection.state.counted().moment(&self.store);
            let block = moment
                .summary(tree)
                .and_then(|summary| summary.audited_block(from));
            let snapshot = moment.snapshot.clone();
            drop(moment);
            let Some(block) = block else {
                continue;
            };
            *next = Some(match &block.end {
                Some(end) => (tree, end.clone()),
                None => (Tree(tree.0.saturating_add(1)), Vec::new()),
            });
            return Some(Target {
                collection,
                family,
                tree,
                block,
                snapshot,
            });
        }
        self.audit.rounds.fetch_add(1, Ordering::Relaxed);
        None
    }

    fn repair(&self, target: &Target, wrong: u64) {
        let (collection, tree) = (&target.collection, target.tree);
        let indexes = &mut collection.indexes.iter();
        let index = indexes.find(|index| index.tree == tree);
        tracing::error!(
            namespace = %collection.namespace,
            index = index.map_or("_id_", |index| index.spec.name.as_str()),
            ranges = wrong,
            "counts disagreed with what is stored; the index is counted anew. Please report this"
        );
        self.audit.disagreements.fetch_add(1, Ordering::Relaxed);
        collection.state.counted().forget(tree);
        self.queue.push(&collection.state);
    }
}

/// How many entries the tree has in the block, and how many of the block's ranges count other numbers.
fn compare(target: &Target) -> Result<(u64, u64)> {
    let Target { tree, block, .. } = target;
    let end = match &block.end {
        Some(end) => tree.key(end),
        None => tree.range().1.to_vec(),
    };
    let start = tree.key(&block.start);
    let mut scan = target
        .snapshot
        .scan(target.family, &start, &end, Order::Forward);
    let (mut audit, mut entries) = (block.part.audit(), 0);
    while scan.advance()? {
        audit.see(&scan.entry().0[4..]);
        entries += 1;
    }
    Ok((entries, audit.finish().unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::Catalog;
    use crate::namespace::Namespace;
    use crate::storage::Store;
    use crate::write::{InsertOptions, encode_id};
    use bson::rawdoc;

    fn writer() -> (Writer, Namespace) {
        let store = Store::in_memory();
        let catalog = Arc::new(Catalog::load(store.clone()).unwrap());
        let writer = Writer::new(store, catalog, 1 << 20);
        let namespace = Namespace::new("db", "c").unwrap();
        let documents: Vec<_> = (0..20_000).map(|id| rawdoc! { "_id": id }).collect();
        let documents: Vec<_> = documents.iter().map(|document| document.as_ref()).collect();
        let inserted = writer.insert(&namespace, &documents, &InsertOptions::default());
        assert_eq!(inserted.unwrap().inserted, documents.len());
        (writer, namespace)
    }

    /// Goes once through all trees.
    fn audit_all(writer: &Writer) -> AuditFigures {
        let before = writer.audit_figures().rounds;
        while writer.audit_figures().rounds == before {
            writer.audit_next().unwrap();
        }
        writer.audit_figures()
    }

    #[test]
    fn right_counts_are_left_alone_and_wrong_ones_are_found_wherever_they_are() {
        let (writer, namespace) = writer();
        let collection = writer.catalog.get(&namespace).unwrap();
        let (tree, counted) = (collection.documents, collection.state.counted());
        let entries = || {
            counted.peek(tree, |summary| {
                summary.is_complete().then(|| summary.entries())
            })
        };
        let figures = audit_all(&writer);
        assert_eq!((figures.entries, figures.disagreements), (20_000, 0));
        for (number, id) in [0, 7, 9_999, 19_999].into_iter().enumerate() {
            // A key that nobody stored, as a lost or repeated change leaves it.
            let mut phantom = Vec::new();
            encode_id(&rawdoc! { "_id": id }, &mut phantom).unwrap();
            phantom.push(b'x');
            counted.end_commit(|summaries| summaries.add(tree, [&phantom[..]]));
            assert_eq!(entries(), Some(20_001));
            let figures = audit_all(&writer);
            assert_eq!(figures.disagreements, number as u64 + 1);
            assert_eq!(entries(), None, "a wrong count is not given");
            writer.learn_all(&collection.state).unwrap();
            assert_eq!(entries(), Some(20_000));
        }
        assert_eq!(audit_all(&writer).disagreements, 4);
    }

    #[test]
    fn trees_that_come_and_go_are_no_disagreement() {
        let (writer, namespace) = writer();
        writer.audit_next().unwrap();
        writer.drop_collection(&namespace).unwrap();
        assert_eq!(audit_all(&writer).disagreements, 0);
        let document = rawdoc! { "_id": 1 };
        writer
            .insert(&namespace, &[&document], &InsertOptions::default())
            .unwrap();
        let before = writer.audit_figures().entries;
        assert_eq!(audit_all(&writer).entries, before + 1);
    }
}
