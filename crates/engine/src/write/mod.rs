//! Changes documents and their index entries together, in one atomic commit.
//!
//! Work that needs no lock comes first: identifiers, validation, index keys. Then the collection's
//! write lock is taken for the commit critical section: what was prepared is checked against the
//! newest state (duplicates, a changed document, a changed collection), one batch is written, the
//! totals are set. The fsync of `j: true` happens after the lock is released and is shared.
//!
//! Deliberately absent: choosing which documents to change (see `database`), cursors.

mod build;
mod entries;
mod insert;
mod modify;
mod prepare;
mod unique;

pub use build::BuildProgress;
pub use insert::{InsertOptions, InsertOutcome};
pub use modify::{Applied, Change, Decision, Target};
pub use prepare::{DOCUMENT_BYTES_MAX, encode_id};

use crate::catalog::{Catalog, Collection, WriteState, statistics_entry};
use crate::error::{Error, Result};
use crate::storage::{Batch, Family, Store};
use entries::EntrySet;
use std::sync::Arc;

/// When a write counts as done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Durability {
    /// Survives the process being killed; at most 100 ms are at risk in a power loss.
    #[default]
    Buffered,
    /// Survives a power loss: acknowledged after a group fsync (`j: true`, `w: "majority"`).
    Synced,
}

/// One document's failure in a batch of writes.
#[derive(Debug, Clone)]
pub struct WriteError {
    /// Position of the document in the request.
    pub index: usize,
    /// What was wrong with it.
    pub error: Error,
}

/// Commits changes to collections of one store.
#[derive(Clone)]
pub struct Writer {
    store: Store,
    catalog: Arc<Catalog>,
}

impl Writer {
    /// A writer for the store and its catalogue.
    pub fn new(store: Store, catalog: Arc<Catalog>) -> Self {
        Self { store, catalog }
    }

    /// Waits until what was written is as durable as asked for.
    ///
    /// # Errors
    /// A failed fsync; writes are stopped from then on.
    pub fn settle(&self, durability: Durability) -> Result<()> {
        match durability {
            Durability::Buffered => Ok(()),
            Durability::Synced => Ok(self.store.sync()?),
        }
    }

    /// Whether `collection` is still the version that writers must prepare for. Only under its lock.
    fn is_current(&self, collection: &Arc<Collection>, writing: &WriteState) -> bool {
        !writing.dropped
            && self
                .catalog
                .get(&collection.namespace)
                .is_some_and(|now| Arc::ptr_eq(&now, collection))
    }

    /// Writes the batch with the collection's new totals. The caller holds the write lock.
    fn commit(
        &self,
        collection: &Collection,
        mut batch: Batch,
        documents_added: i64,
        bytes_added: i64,
    ) -> Result<()> {
        let documents = collection.state.documents() + documents_added;
        let bytes = collection.state.bytes() + bytes_added;
        let (key, value) = statistics_entry(collection.documents, documents, bytes);
        batch.put(Family::Catalog, &key, &value);
        self.store.write(batch)?;
        collection.state.set_totals(documents, bytes);
        Ok(())
    }

    /// Remembers, in the same commit, which indexes this batch makes multikey.
    fn note_multikey(&self, collection: &Collection, entries: &EntrySet, batch: &mut Batch) {
        let mut changed = false;
        for (position, index) in collection.indexes.iter().enumerate() {
            // Set before the commit: a query planned in between only gives up a shortcut.
            changed |= index.note_multikey(entries.multikey(position));
        }
        if changed {
            self.catalog.put_entry(batch, collection);
        }
    }
}
