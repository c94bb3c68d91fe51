//! Ordered trees of bytes: the only module that names the storage library.
//!
//! In come batches of puts and deletes on three families of trees (documents, indexes,
//! catalogue), with conditions ([`Store::commit`]); out go consistent
//! snapshots, point reads, reads of many keys at once and ordered scans. A tree is a 4-byte prefix inside
//! its family ([`TreeKey`]), so that ten thousand collections cost no more memory than one; the
//! prefix tells how the tree is compressed. A scan, a range and the keys of one
//! [`Snapshot::multi_get`] lie in one tree.
//!
//! [`Store`] is what the rest of the house holds; what an engine must do is in `engine`, what only a library on this
//! machine does in `local`.
//! Deliberately absent: BSON, index definitions, locks on documents.

mod budget;
mod chunks;
mod compression;
mod encryption;
mod engine;
mod local;
mod memory;
mod rocks;
mod scan;
mod scratch;
#[cfg(test)]
mod tests;
mod tree_key;

use crate::error::{Code, Error};
use engine::{StorageEngine, View, WriteBatch};
use std::path::Path;
use std::sync::Arc;

pub use budget::{CacheBudget, CacheReservation};
pub use compression::{Algorithm, Compression, TREE_NUMBER_BITS, ZSTD_LEVEL_DEFAULT, ZSTD_LEVELS};
pub use encryption::{MasterKey, StorageFile};
pub use engine::{Capabilities, Condition, Outcome};
pub use local::AddEntry;
pub use memory::{BatchOperation, CommitFault, Faults, MemoryOptions, Recording};
pub use rocks::{BLOB_BYTES_MIN, StoreOptions};
pub use scan::{Page, PageLimit, Scan, behind};
pub use scratch::Scratch;
pub use tree_key::TreeKey;

/// Which family of trees a key belongs to; each has settings of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Family {
    /// Collections and indexes by name: small, read at start.
    Catalog,
    /// Documents under their encoded `_id`.
    Documents,
    /// Index entries.
    Indexes,
}

/// The way a scan goes through its range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// From the first key to the last.
    Forward,
    /// From the last key to the first.
    Backward,
}

impl Order {
    /// What is left of a range `[start, end)` that is scanned in this order and has come to `current`: all behind
    /// that key, and that key too if it shall come `again`.
    pub fn rest_of(
        self,
        (start, end): (Vec<u8>, Vec<u8>),
        current: &[u8],
        again: bool,
    ) -> (Vec<u8>, Vec<u8>) {
        let (at, behind) = (current.to_vec(), behind(current.to_vec()));
        match self {
            Self::Forward => (if again { at } else { behind }, end),
            Self::Backward => (start, if again { behind } else { at }),
        }
    }
}

/// A failure of the storage: it belongs to the operator.
#[derive(Debug, Clone, thiserror::Error)]
pub enum StoreError {
    /// Another process holds the directory.
    #[error(
        "the data directory {0} is in use by another process; stop it first, or choose another --data directory"
    )]
    Locked(String),
    /// The write-ahead log was changed after it was written: what follows cannot be replayed.
    #[error(
        "the write-ahead log {log} is damaged at byte {at}: the {bytes} bytes from there on hold writes that cannot be replayed; restore a backup, or give them up with: meridian repair --truncate-log {directory}"
    )]
    LogDamaged {
        /// The log file.
        log: String,
        /// Where it is damaged.
        at: u64,
        /// How much of it lies behind.
        bytes: u64,
        /// The data directory.
        directory: String,
    },
    /// The storage library failed: I/O, corruption, no space.
    #[error("storage failure: {0}")]
    Failed(String),
    /// The disk is full: writes are refused until there is room again.
    #[error("storage failure: {0}")]
    OutOfSpace(String),
    /// A key is longer than the engine takes.
    #[error("a key of {bytes} bytes is longer than the storage takes, which is {max} bytes")]
    KeyTooLong {
        /// Its length.
        bytes: usize,
        /// The longest.
        max: usize,
    },
    /// A value is longer than the engine takes.
    #[error("a value of {bytes} bytes is longer than the storage takes, which is {max} bytes")]
    ValueTooLong {
        /// Its length.
        bytes: usize,
        /// The longest.
        max: usize,
    },
    /// The answer to a commit was lost.
    #[error(
        "whether a write took place is unknown: the storage did not answer; read before you write it again"
    )]
    OutcomeUnknown,
    /// An fsync failed earlier: nothing is accepted until a restart has read back what is on disk.
    #[error(
        "writes are stopped because an earlier fsync failed: {0}; check the disk, then restart the server"
    )]
    Poisoned(String),
}

impl From<StoreError> for Error {
    fn from(error: StoreError) -> Self {
        let code = match &error {
            StoreError::OutOfSpace(_) => Code::OutOfDiskSpace,
            StoreError::KeyTooLong { .. } => Code::Location(17280),
            _ => Code::InternalError,
        };
        Error::new(code, error.to_string())
    }
}

/// An open store; cheap to clone.
#[derive(Clone)]
pub struct Store(Arc<dyn StorageEngine>);

/// Blocks of files that this thread has read, because no cache had them, of all stores since it began.
pub fn blocks_read() -> u64 {
    rocks::blocks_read()
}

impl Store {
    /// Opens or creates the store in `directory`.
    ///
    /// # Errors
    /// [`StoreError::Locked`] when another process has it open; [`StoreError::Failed`] otherwise.
    pub fn open(directory: &Path, options: &StoreOptions) -> Result<Self, StoreError> {
        let store = Arc::new(rocks::RocksStore::open(directory, options)?);
        store.sync_in_background();
        store.warm_in_background();
        Ok(Store(store))
    }

    /// Cuts a damaged write-ahead log off where it is damaged, so that the directory can be opened again; it and
    /// all later logs are kept aside. What was lost so, in words, a line a log; none where no log is damaged.
    /// No process may have the directory open.
    ///
    /// # Errors
    /// [`StoreError::Failed`] on I/O failure.
    pub fn truncate_log(
        directory: &Path,
        master: Option<&MasterKey>,
    ) -> Result<Vec<String>, StoreError> {
        rocks::RocksStore::truncate_log(directory, master)
    }

    /// Encrypts a directory that is not, in place, a file at a time; `progress` is told how many bytes are done, and
    /// of how many. What was cut short goes on when it is called again. No process may have the directory open.
    ///
    /// # Errors
    /// [`StoreError::Locked`]; [`StoreError::Failed`] for a directory that is encrypted, or on I/O failure.
    pub fn encrypt(
        directory: &Path,
        master: &MasterKey,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<(), StoreError> {
        rocks::RocksStore::encrypt(directory, master, progress)
    }

    /// Turns the master key of an encrypted directory over. No process may have it open.
    ///
    /// # Errors
    /// [`StoreError::Locked`]; [`StoreError::Failed`] for a directory that is not encrypted, or a wrong master key.
    pub fn rekey(directory: &Path, old: &MasterKey, new: &MasterKey) -> Result<(), StoreError> {
        rocks::RocksStore::rekey(directory, old, new)
    }

    /// A store in memory, for tests.
    pub fn in_memory() -> Self {
        Self::in_memory_with(MemoryOptions::default())
    }

    /// A store in memory with limits, faults or a recording, for tests.
    pub fn in_memory_with(options: MemoryOptions) -> Self {
        let unlimited = MemoryOptions::default().capabilities.value_bytes_max;
        let takes_all = options.capabilities.value_bytes_max >= unlimited;
        let engine = Arc::new(memory::MemoryEngine::new(options));
        match takes_all {
            true => Store(engine),
            false => Store(Arc::new(chunks::ChunkingEngine::over(engine))),
        }
    }

    /// What the store takes.
    pub fn capabilities(&self) -> Capabilities {
        self.0.capabilities()
    }

    /// An empty batch for this store.
    pub fn batch(&self) -> Batch {
        Batch {
            writes: self.0.clone().batch(),
            limits: self.0.capabilities(),
            refused: None,
        }
    }

    /// Commits the batch atomically. What this returned `Ok` for survives the process being killed.
    ///
    /// # Errors
    /// [`StoreError::OutcomeUnknown`]; otherwise nothing of the batch is visible: [`StoreError::Failed`] when the log could
    /// not be written, [`StoreError::KeyTooLong`] and [`StoreError::ValueTooLong`].
    pub fn write(&self, batch: Batch) -> Result<(), StoreError> {
        match self.commit(batch, &[])? {
            Outcome::Committed => Ok(()),
            Outcome::Unknown => Err(StoreError::OutcomeUnknown),
            Outcome::Conflict => Err(StoreError::Failed(
                "a commit without conditions met one".into(),
            )),
        }
    }

    /// Commits the batch atomically, if all conditions hold.
    ///
    /// # Errors
    /// As [`Self::write`]; nothing of the batch is visible then.
    pub fn commit(&self, batch: Batch, conditions: &[Condition]) -> Result<Outcome, StoreError> {
        match batch.refused {
            Some(refused) => Err(refused),
            None => batch.writes.commit(conditions),
        }
    }

    /// Returns once everything written before the call survives a power loss. Callers that come
    /// while an fsync runs share the next one.
    ///
    /// # Errors
    /// [`StoreError::Poisoned`] from the first failed fsync on.
    pub fn sync(&self) -> Result<(), StoreError> {
        self.0.sync()
    }

    /// A consistent view of everything committed so far.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot(self.0.clone().begin())
    }

    /// The newest value of `key`, handed to `read` without a copy.
    ///
    /// # Errors
    /// [`StoreError::Failed`] on I/O failure or corruption.
    pub fn get<T>(
        &self,
        family: Family,
        key: &[u8],
        read: impl FnOnce(&[u8]) -> T,
    ) -> Result<Option<T>, StoreError> {
        read_once(read, |read| self.0.get(family, key, read))
    }

    /// The newest value of a key of the documents, as [`Self::get`] has it, sooner where it is asked for often.
    ///
    /// # Errors
    /// [`StoreError::Failed`] on I/O failure or corruption.
    pub fn get_document<T>(
        &self,
        key: &[u8],
        read: impl FnOnce(&[u8]) -> T,
    ) -> Result<Option<T>, StoreError> {
        read_once(read, |read| self.0.get_document(key, read))
    }

    /// Bytes on disk of the keys in `[start, end)`, approximately, without what is still in memory.
    pub fn size_of_range(&self, family: Family, start: &[u8], end: &[u8]) -> u64 {
        self.0.size_of_range(family, start, end)
    }

    /// Writes the files of `[start, end)` anew without what is deleted or replaced.
    pub fn compact(&self, family: Family, start: &[u8], end: &[u8]) {
        self.0.compact(family, start, end);
    }

    /// Figures about memory and background work, by name, for `serverStatus`.
    pub fn statistics(&self) -> Vec<(&'static str, u64)> {
        self.0.statistics()
    }

    /// Stops background work and makes what was written durable; idempotent.
    ///
    /// # Errors
    /// [`StoreError`] of the last fsync.
    pub fn close(&self) -> Result<(), StoreError> {
        self.0.close()
    }
}

/// What `read` makes of the value that `get` hands on, if it does.
fn read_once<T>(
    read: impl FnOnce(&[u8]) -> T,
    get: impl FnOnce(&mut engine::ReadValue<'_>) -> Result<(), StoreError>,
) -> Result<Option<T>, StoreError> {
    let (mut read, mut found) = (Some(read), None);
    get(&mut |value| found = read.take().map(|read| read(value)))?;
    Ok(found)
}

/// A change as the log has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Logged {
    /// Its number: every change of every batch has one, ascending.
    pub sequence: u64,
    /// Which family the key belongs to.
    pub family: Family,
    /// The key, or the first of a removed range.
    pub key: Vec<u8>,
    /// What became of it.
    pub change: LoggedChange,
}

/// What a change does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LoggedChange {
    /// Sets a key that was not there, by [`Batch::add`]; or by [`Batch::put`], where nobody asks.
    Added,
    /// Sets a key that was there, by [`Batch::replace`].
    Replaced,
    /// Removes a key.
    Removed,
    /// Removes the keys up to, not including, this one.
    RangeRemoved(Vec<u8>),
}

/// Gets a record of the log: the number of its first change, how many it has, and the changes.
pub type VisitLogged<'a> = dyn FnMut(u64, u64, &[Logged]) + 'a;

/// Puts and deletes that are committed together or not at all.
pub struct Batch {
    writes: Box<dyn WriteBatch>,
    limits: Capabilities,
    /// Why it cannot be committed.
    refused: Option<StoreError>,
}

impl Batch {
    /// Sets `key`, which is not there, to `value`: readers of the log count it as one more.
    pub fn add(&mut self, family: Family, key: &[u8], value: &[u8]) {
        self.check(key, value);
        self.writes.add(family, key, value);
    }

    /// Sets `key`, which is there, to another value: readers of the log do not count it.
    pub fn replace(&mut self, family: Family, key: &[u8], value: &[u8]) {
        self.check(key, value);
        self.writes.replace(family, key, value);
    }

    /// Sets `key` to `value`, whether it is there or not. For keys that nobody counts: those of the catalogue.
    pub fn put(&mut self, family: Family, key: &[u8], value: &[u8]) {
        self.check(key, value);
        self.writes.put(family, key, value);
    }

    fn check(&mut self, key: &[u8], value: &[u8]) {
        let Capabilities {
            key_bytes_max,
            value_bytes_max,
        } = self.limits;
        if key.len() > key_bytes_max {
            self.refused = Some(StoreError::KeyTooLong {
                bytes: key.len(),
                max: key_bytes_max,
            });
        } else if value.len() > value_bytes_max {
            self.refused = Some(StoreError::ValueTooLong {
                bytes: value.len(),
                max: value_bytes_max,
            });
        }
    }

    /// Removes `key`; one that is not there is no error.
    pub fn delete(&mut self, family: Family, key: &[u8]) {
        self.writes.delete(family, key);
    }

    /// Removes every key in `[start, end)`.
    pub fn delete_range(&mut self, family: Family, start: &[u8], end: &[u8]) {
        self.writes.delete_range(family, start, end);
    }

    /// Number of operations.
    pub fn len(&self) -> usize {
        self.writes.len()
    }

    /// Whether the batch holds no operation.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// A consistent view; cheap to clone, released when the last clone and scan are gone.
#[derive(Clone)]
pub struct Snapshot(Arc<dyn View>);

impl Snapshot {
    /// The number of the newest operation that it shows; 0 where the engine is not local.
    pub fn sequence(&self) -> u64 {
        self.0.sequence()
    }

    /// The value of `key` in this view, handed to `read` without a copy.
    ///
    /// # Errors
    /// [`StoreError::Failed`] on I/O failure or corruption.
    pub fn get<T>(
        &self,
        family: Family,
        key: &[u8],
        read: impl FnOnce(&[u8]) -> T,
    ) -> Result<Option<T>, StoreError> {
        read_once(read, |read| self.0.get(family, key, read))
    }

    /// The values of many keys of one tree, which must be sorted; `read` gets each key's position and value.
    ///
    /// # Errors
    /// [`StoreError::Failed`] on I/O failure or corruption.
    pub fn multi_get(
        &self,
        family: Family,
        keys: &[&[u8]],
        read: &mut dyn FnMut(usize, Option<&[u8]>),
    ) -> Result<(), StoreError> {
        self.0.multi_get(family, keys, read)
    }

    /// A scan of `[start, end)`, before its first entry in the given order.
    pub fn scan(&self, family: Family, start: &[u8], end: &[u8], order: Order) -> Scan {
        self.0.clone().scan(family, start, end, order)
    }
}
