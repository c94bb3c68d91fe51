//! Builds indexes on existing documents while others read and write.
//!
//! The new index is published first, not ready: its tree is taken, and nobody but its build touches it.
//! At the same moment, under the write lock, a snapshot is taken, and from then on every commit notes the
//! documents it changes. The entries of the snapshot's documents are sorted outside memory and loaded
//! past the log (`load`); then the tree is brought up to date with the documents that were changed
//! meanwhile, in rounds that grow shorter, the last under the write lock, where the index becomes ready
//! (`catch_up`). A failure takes the index away again, as a restart does after a kill.

mod catch_up;
mod load;

use super::Writer;
use crate::catalog::{CapturedIds, Collection, CollectionState, Index};
use crate::error::{Code, Error, Result};
use crate::index::{CollectionKeys, IndexSpec};
use crate::namespace::Namespace;
use crate::operation;
use crate::rank::RankIndex;
use crate::sorter::Sorter;
use crate::storage::{Snapshot, TreeKey};
use std::sync::Arc;
use std::time::{Duration, Instant};

const REPORT_INTERVAL: Duration = Duration::from_secs(2);
/// A sorter for changed documents is small beside the one for entries.
const CHANGED_SHARE: usize = 8;

/// What an index build is at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BuildPhase {
    /// Makes entries from documents and sorts them.
    Reading,
    /// Merges what was sorted and puts it into the tree.
    Loading,
    /// Indexes what was changed since the build began.
    CatchingUp,
}

/// How far an index build is.
#[derive(Debug, Clone, Copy)]
pub struct BuildProgress {
    /// What it is at.
    pub phase: BuildPhase,
    /// Documents that were read, entries that were loaded, or changed documents that were indexed.
    pub done: u64,
    /// How many of them there are.
    pub total: u64,
}

/// Where progress is told.
type Report<'r> = dyn FnMut(BuildProgress) + 'r;

/// Indexes of one collection that are being built together.
struct Build<'w> {
    writer: &'w Writer,
    namespace: Namespace,
    state: Arc<CollectionState>,
    documents: TreeKey,
    /// In the order of their trees.
    indexes: Vec<Arc<Index>>,
    /// Makes the entries of all of them.
    keys: CollectionKeys,
    /// What the trees hold exactly, one a tree.
    ranks: Vec<RankIndex>,
    /// The documents that the trees hold, once they are loaded.
    snapshot: Snapshot,
    /// The documents that were changed since the snapshot ...
    changed: Arc<CapturedIds>,
    /// ... and those of them that were put here already.
    sorter: Sorter,
    reported: Instant,
}

impl Writer {
    /// Creates indexes on a collection that exists, all or none.
    ///
    /// # Errors
    /// A document that an index refuses, `DuplicateKey` for unique ones, storage failures;
    /// `IndexBuildAborted` when the collection or an index is dropped meanwhile.
    pub fn build_indexes(
        &self,
        namespace: &Namespace,
        specs: Vec<IndexSpec>,
        report: &mut dyn FnMut(BuildProgress),
    ) -> Result<()> {
        let Some(mut build) = self.begin_build(namespace, specs)? else {
            return Ok(());
        };
        let built = build.run(report);
        if built.is_err() {
            build.give_up()?;
        }
        built
    }

    /// Publishes the new indexes; `None` when there is nothing to build because no document exists.
    fn begin_build(
        &self,
        namespace: &Namespace,
        specs: Vec<IndexSpec>,
    ) -> Result<Option<Build<'_>>> {
        self.change_collection(namespace, |collection| {
            let empty = collection.state.documents() == 0;
            let mut indexes = Vec::new();
            for spec in specs {
                let mut index = self.new_index(collection, spec)?;
                index.ready = empty;
                indexes.push(Arc::new(index));
            }
            collection.indexes.extend(indexes.iter().cloned());
            if empty {
                let trees = indexes.iter().map(|index| index.tree);
                trees.for_each(|tree| replace_former(&mut collection.indexes, tree));
            }
            // Compression comes before the number, so trees that were made later may come first.
            indexes.sort_by_key(|index| index.tree);
            Ok((!empty).then(|| Build::new(self, collection, indexes)))
        })
    }

    /// Takes indexes away with all their entries, by their trees.
    ///
    /// # Errors
    /// Storage failures.
    pub fn withdraw(&self, namespace: &Namespace, trees: &[TreeKey]) -> Result<()> {
        let withdrawn = self.change_collection(namespace, |collection| {
            let indexes = &mut collection.indexes;
            indexes.retain(|index| !trees.contains(&index.tree));
            Ok(())
        });
        match withdrawn {
            Err(error) if error.code == Code::NamespaceNotFound => Ok(()),
            other => other,
        }
    }
}

impl<'w> Build<'w> {
    /// The caller holds the write lock.
    fn new(writer: &'w Writer, collection: &Collection, indexes: Vec<Arc<Index>>) -> Self {
        let generators = indexes.iter().map(|index| index.keys.clone());
        Self {
            writer,
            namespace: collection.namespace.clone(),
            state: collection.state.clone(),
            documents: collection.documents,
            keys: CollectionKeys::new(generators),
            ranks: vec![RankIndex::empty(); indexes.len()],
            indexes,
            snapshot: writer.store.snapshot(),
            changed: collection.state.change_capture().watch(),
            sorter: changed_sorter(writer),
            reported: Instant::now(),
        }
    }

    fn run(&mut self, report: &mut Report<'_>) -> Result<()> {
        let is_loaded = self.load(report)?;
        self.catch_up(report)?;
        if is_loaded {
            // Files take sequence numbers that the log does not have: it must not be needed from before.
            self.writer.ranks.save(self.writer.catalog.ranks())?;
        }
        Ok(())
    }

    /// Once in a while: puts aside which documents were changed, tells how far the build is, and notices
    /// that it is no longer wanted, or that others go first.
    fn pause(&mut self, report: &mut Report<'_>, progress: BuildProgress) -> Result<()> {
        operation::yield_if_due()?;
        self.collection()?;
        self.put_changed_aside()?;
        report(progress);
        if self.reported.elapsed() >= REPORT_INTERVAL {
            self.reported = Instant::now();
            let names: Vec<&str> = self
                .indexes
                .iter()
                .map(|index| index.spec.name.as_str())
                .collect();
            tracing::info!(namespace = %self.namespace, ?names, ?progress, "building indexes");
        }
        Ok(())
    }

    fn put_changed_aside(&mut self) -> Result<()> {
        for id in self.changed.take() {
            self.sorter.push(0, &[&id], &[])?;
        }
        Ok(())
    }

    /// The collection's current version, which may have another name by now.
    fn collection(&self) -> Result<Arc<Collection>> {
        let catalog = &self.writer.catalog;
        let is_same = |collection: &Arc<Collection>| Arc::ptr_eq(&collection.state, &self.state);
        let found = catalog
            .get(&self.namespace)
            .filter(is_same)
            .or_else(|| catalog.all().into_iter().find(is_same));
        let collection = found.ok_or_else(|| self.aborted("the collection"))?;
        match self.indexes.iter().find(|index| !holds(&collection, index)) {
            Some(dropped) => Err(self.aborted(&format!("the index {}", dropped.spec.name))),
            None => Ok(collection),
        }
    }

    fn aborted(&self, dropped: &str) -> Error {
        let namespace = &self.namespace;
        let message = format!("Index build failed on {namespace}: {dropped} was dropped meanwhile");
        Error::new(Code::IndexBuildAborted, message)
    }

    /// An error that a document or its entry is the cause of, as mongod words it.
    fn refused(&self, collection: &Collection, error: Error) -> Error {
        let uuid = bson::Uuid::from_bytes(collection.uuid);
        let message = format!(
            "Index build failed: {uuid}: Collection {} ( {uuid} ) :: caused by :: {}",
            collection.namespace, error.message
        );
        Error { message, ..error }
    }

    /// Takes the indexes away, and what was put into trees whose collection or index was dropped.
    fn give_up(&self) -> Result<()> {
        let writer = self.writer;
        let all = writer.catalog.all();
        let mut collections = all.iter();
        let collection = collections.find(|each| Arc::ptr_eq(&each.state, &self.state));
        let is_held = |index: &Arc<Index>| collection.is_some_and(|found| holds(found, index));
        let (held, dropped): (Vec<_>, Vec<_>) = self.indexes.iter().cloned().partition(is_held);
        writer.delete_unnamed(dropped.iter().map(|index| index.tree))?;
        let trees: Vec<TreeKey> = held.iter().map(|index| index.tree).collect();
        collection.map_or(Ok(()), |found| writer.withdraw(&found.namespace, &trees))
    }
}

/// An index that is ready takes the place of a ready one of its name, which was built before.
fn replace_former(indexes: &mut Vec<Arc<Index>>, tree: TreeKey) {
    let own = indexes.iter().position(|index| index.tree == tree);
    let own = own.expect("the index is one of them");
    let is_former = |former: &Arc<Index>| {
        former.ready && former.tree != tree && former.spec.name == indexes[own].spec.name
    };
    if let Some(former) = indexes.iter().position(is_former) {
        // It may have been hidden meanwhile, or have got another expiry.
        let spec = indexes[former].spec.clone();
        indexes[former] = Arc::new(indexes[own].with_spec(spec));
        indexes.remove(own);
    }
}

/// Whether the index is still one of the collection's.
fn holds(collection: &Collection, index: &Index) -> bool {
    collection.indexes.iter().any(|own| own.tree == index.tree)
}

fn changed_sorter(writer: &Writer) -> Sorter {
    Sorter::new(&writer.store, 1, writer.sort_bytes / CHANGED_SHARE)
}
