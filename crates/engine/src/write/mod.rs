//! Changes documents and their index entries together, in one atomic commit.
//!
//! Work that needs no lock comes first: identifiers, validation, index keys. Then the collection's
//! write lock is taken for the commit critical section: what was prepared is checked against the
//! newest state (duplicates, a changed document, a changed collection), one batch is written, the
//! totals are set. The fsync of `j: true` is the caller's, after the lock is released, and is shared.
//!
//! Collections and indexes come, change and go by commits of definitions (`definition`).
//!
//! Deliberately absent: choosing which documents to change (see `database`), cursors.

mod build;
mod capped;
mod changes;
mod commit;
mod convert;
mod definition;
mod delta;
mod entries;
mod insert;
mod modify;
mod prepare;
mod timeseries;
mod unique;
mod validate;
mod views;

pub use build::{BuildPhase, BuildProgress};
pub use insert::{InsertOptions, InsertOutcome};
pub use modify::{AppliedChange, Change, Decision, Target};
pub use prepare::{DOCUMENT_BYTES_MAX, encode_id};

use crate::catalog::{Catalog, Collection, WriteState};
use crate::error::{Error, Result};
use crate::operation;
use crate::rank::Maintenance;
use crate::storage::Store;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// One document's failure in a batch of writes.
#[derive(Debug, Clone)]
pub struct WriteError {
    /// Position of the document in the request.
    pub index: usize,
    /// What was wrong with it.
    pub error: Error,
}

/// Bounds what the errors of a batch of writes take together: past `ERROR_BYTES_MAX` they keep nothing but their
/// codes, as in MongoDB's replies.
#[derive(Debug, Clone, Default)]
pub struct ErrorBytes(usize);

/// Bytes of messages and further fields of one batch.
const ERROR_BYTES_MAX: usize = 1024 * 1024;
/// Bytes of one message.
const MESSAGE_BYTES_MAX: usize = 16 * 1024;
/// How long a writer waits at most for flushes and merges of large values, ...
const BEHIND_WAIT_MAX: Duration = Duration::from_secs(5);
/// ... and how often it looks.
const BEHIND_WAIT_STEP: Duration = Duration::from_millis(10);

impl ErrorBytes {
    /// The error as it is kept.
    pub fn bound(&mut self, mut error: Error) -> Error {
        if self.0 >= ERROR_BYTES_MAX {
            error.message = String::new();
            error.fields = None;
        }
        if error.message.len() > MESSAGE_BYTES_MAX {
            error.message = shortened(&error.message);
        }
        let fields = error
            .fields
            .as_ref()
            .map_or(0, |fields| fields.as_bytes().len());
        self.0 += error.message.len() + fields;
        error
    }
}

fn shortened(message: &str) -> String {
    format!(
        "{}...",
        &message[..message.floor_char_boundary(MESSAGE_BYTES_MAX)]
    )
}

/// Commits changes to collections of one store.
#[derive(Clone)]
pub struct Writer {
    store: Store,
    catalog: Arc<Catalog>,
    ranks: Arc<Maintenance>,
    conflicts: Arc<AtomicU64>,
    /// Serialises changes of definitions; never taken while a collection's write lock is held.
    defining: Arc<Mutex<()>>,
    /// Bytes of memory in which an index build sorts.
    sort_bytes: usize,
}

impl Writer {
    /// A writer for the store and its catalogue; index builds sort in `sort_bytes` of memory.
    pub fn new(store: Store, catalog: Arc<Catalog>, sort_bytes: usize) -> Self {
        Self {
            ranks: Arc::new(Maintenance::new(store.clone())),
            store,
            catalog,
            conflicts: Arc::default(),
            defining: Arc::default(),
            sort_bytes,
        }
    }

    /// What keeps the rank indexes built, saved and right.
    pub fn ranks(&self) -> &Arc<Maintenance> {
        &self.ranks
    }

    /// Documents that others had changed between being found and being written.
    pub fn conflicts(&self) -> u64 {
        self.conflicts.load(Ordering::Relaxed)
    }

    /// Waits until there is room for more changes. The caller holds no lock.
    fn wait_for_room(&self, collection: &Collection) -> Result<()> {
        collection.state.change_capture().wait_for_room()?;
        if let Some(wait) = self.store.wait_for_merges() {
            operation::check()?;
            operation::release_ticket();
            std::thread::sleep(wait);
        }
        let begun = Instant::now();
        while self.store.is_behind() && begun.elapsed() < BEHIND_WAIT_MAX {
            operation::check()?;
            operation::release_ticket();
            std::thread::sleep(BEHIND_WAIT_STEP);
        }
        Ok(())
    }

    /// Whether `collection` is still the version that writers must prepare for. Only under its lock.
    fn is_current(&self, collection: &Arc<Collection>, writing: &WriteState) -> bool {
        !writing.dropped
            && self
                .catalog
                .get(&collection.namespace)
                .is_some_and(|now| Arc::ptr_eq(&now, collection))
    }
}
