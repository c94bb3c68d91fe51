//! Ordered trees of bytes: the only module that names the storage library.
//!
//! In come batches of puts and deletes on three families of trees (documents, indexes,
//! catalogue), or many entries in key order past the log ([`Store::load`]); out go consistent
//! snapshots, point reads, reads of many keys at once and ordered scans. A tree is a 4-byte prefix inside
//! its family ([`TreeKey`]), so that ten thousand collections cost no more memory than one; the
//! prefix tells how the tree is compressed. A scan, a range and the keys of one
//! [`Snapshot::multi_get`] lie in one tree.
//!
//! Two stores answer alike: RocksDB on disk, and an ordered map in memory that serves the tests.
//! Deliberately absent: BSON, index definitions, locks on documents.

mod budget;
mod compression;
mod families;
mod group_sync;
mod idle;
mod load;
mod memory;
mod rocks;
mod row_cache;
mod scratch;
mod throttle;
mod tree_key;
mod warm;

use crate::error::{Code, Error};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

pub use budget::{CacheBudget, CacheReservation};
pub use compression::{Algorithm, Compression, TREE_NUMBER_BITS, ZSTD_LEVEL_DEFAULT, ZSTD_LEVELS};
pub use memory::{Operation, Recording};
pub use rocks::StoreOptions;
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
            _ => Code::InternalError,
        };
        Error::new(code, error.to_string())
    }
}

/// An open store; cheap to clone.
#[derive(Clone)]
pub struct Store(Backend);

#[derive(Clone)]
enum Backend {
    Rocks(Arc<rocks::RocksStore>),
    Memory(Arc<memory::MemoryStore>),
}

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
        Ok(Store(Backend::Rocks(store)))
    }

    /// Cuts a damaged write-ahead log off where it is damaged, so that the directory can be opened again; it and
    /// all later logs are kept aside. What was lost so, in words, a line a log; none where no log is damaged.
    /// No process may have the directory open.
    ///
    /// # Errors
    /// [`StoreError::Failed`] on I/O failure.
    pub fn truncate_log(directory: &Path) -> Result<Vec<String>, StoreError> {
        rocks::RocksStore::truncate_log(directory)
    }

    /// A store in memory, for tests.
    pub fn in_memory() -> Self {
        Store(Backend::Memory(Arc::default()))
    }

    /// A store in memory that keeps what is written to it, for golden scripts.
    pub fn in_memory_recorded() -> (Self, Recording) {
        let recording = Recording::default();
        let store = memory::MemoryStore::recorded(recording.clone());
        (Store(Backend::Memory(Arc::new(store))), recording)
    }

    /// An empty batch for this store.
    pub fn batch(&self) -> Batch {
        Batch(match &self.0 {
            Backend::Rocks(store) => BatchBackend::Rocks(rocks::RocksBatch::new(store.clone())),
            Backend::Memory(_) => BatchBackend::Memory(Vec::new()),
        })
    }

    /// Commits the batch atomically. What this returned `Ok` for survives the process being killed.
    ///
    /// # Errors
    /// [`StoreError::Failed`] when the log could not be written; nothing of the batch is then visible.
    pub fn write(&self, batch: Batch) -> Result<(), StoreError> {
        match (&self.0, batch.0) {
            (Backend::Rocks(store), BatchBackend::Rocks(batch)) => store.write(batch),
            (Backend::Memory(store), BatchBackend::Memory(operations)) => {
                store.write(operations);
                Ok(())
            }
            _ => Err(StoreError::Failed(
                "a batch was made for another store".into(),
            )),
        }
    }

    /// Whether little has been written for some seconds.
    pub fn is_idle(&self) -> bool {
        match &self.0 {
            Backend::Rocks(store) => store.is_idle(),
            Backend::Memory(_) => true,
        }
    }

    /// Prepares the family for trees that are compressed so; to be called before the first key of such a
    /// tree is written. Cheap when it was called before.
    ///
    /// # Errors
    /// [`StoreError::Failed`] on I/O failure.
    pub fn add_compression(
        &self,
        family: Family,
        compression: Compression,
    ) -> Result<(), StoreError> {
        match &self.0 {
            Backend::Rocks(store) => store.add_compression(family, compression),
            Backend::Memory(_) => Ok(()),
        }
    }

    /// Adds the entries that `fill` gives, in ascending order of keys, to the function it is lent: all
    /// together (those that are compressed alike) when it has returned `Ok`, and past log and memtables, in files in their final form. It
    /// is for trees that hold nothing yet and that nobody else writes to meanwhile. That these trees are
    /// taken must be durable before ([`Self::sync`]), since the entries are durable at once. Snapshots
    /// taken earlier may see them.
    ///
    /// # Errors
    /// What `fill` returns, nothing is added then; [`StoreError::Failed`] on I/O failure, and for keys
    /// that do not ascend. Of trees with different compression some may have been added then.
    pub fn load<E: From<StoreError>>(
        &self,
        family: Family,
        fill: impl FnOnce(&mut AddEntry<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        match &self.0 {
            Backend::Rocks(store) => {
                let mut files = load::Files::new(store, family, self.scratch()?);
                fill(&mut |key, value| files.add(key, value))?;
                Ok(store.take_over(files.finish()?)?)
            }
            Backend::Memory(store) => {
                let mut operations = Vec::new();
                fill(&mut |key, value| memory::load(&mut operations, family, key, value))?;
                store.write(operations);
                Ok(())
            }
        }
    }

    /// A directory for files that are needed for a while.
    ///
    /// # Errors
    /// [`StoreError::Failed`] when it cannot be made.
    pub fn scratch(&self) -> Result<Scratch, StoreError> {
        match &self.0 {
            Backend::Rocks(store) => Scratch::create(store.directory()),
            Backend::Memory(_) => Scratch::create(&std::env::temp_dir()),
        }
    }

    /// Returns once everything written before the call survives a power loss. Callers that come
    /// while an fsync runs share the next one.
    ///
    /// # Errors
    /// [`StoreError::Poisoned`] from the first failed fsync on.
    pub fn sync(&self) -> Result<(), StoreError> {
        match &self.0 {
            Backend::Rocks(store) => store.sync(),
            Backend::Memory(_) => Ok(()),
        }
    }

    /// The number of the newest operation: every operation of every batch has one, ascending.
    pub fn latest_sequence(&self) -> u64 {
        match &self.0 {
            Backend::Rocks(store) => store.latest_sequence(),
            Backend::Memory(_) => 0,
        }
    }

    /// How long a writer that holds no lock should wait before it writes more, so that merges keep up.
    pub fn wait_for_merges(&self) -> Option<Duration> {
        match &self.0 {
            Backend::Rocks(store) => store.wait_for_merges(),
            Backend::Memory(_) => None,
        }
    }

    /// Whether a writer that holds no lock should wait until flushes and merges have come further: large values
    /// take memory in them that the cache does not bound.
    pub fn is_behind(&self) -> bool {
        match &self.0 {
            Backend::Rocks(store) => store.is_behind(),
            Backend::Memory(_) => false,
        }
    }

    /// Bytes of all batches written since the store was opened.
    pub fn written_bytes(&self) -> u64 {
        match &self.0 {
            Backend::Rocks(store) => store.written_bytes(),
            Backend::Memory(_) => 0,
        }
    }

    /// Reads the records of the log that hold changes after `sequence`, oldest first: `visit` gets the number
    /// of a record's first change, how many it has, and the changes. A record holds the batches of all
    /// writers that were written together, so it may begin at `sequence` or before it. False when there is no
    /// log to read; the log may begin later than asked for.
    ///
    /// # Errors
    /// [`StoreError::Failed`] on I/O failure or corruption.
    pub fn replay(
        &self,
        sequence: u64,
        visit: &mut dyn FnMut(u64, u64, &[Logged]),
    ) -> Result<bool, StoreError> {
        match &self.0 {
            Backend::Rocks(store) => store.replay(sequence, visit),
            Backend::Memory(_) => Ok(false),
        }
    }

    /// Gives up old log files that hold nothing after `sequence`; [`Self::replay`] will not be asked
    /// for them.
    pub fn forget_log_before(&self, sequence: u64) {
        if let Backend::Rocks(store) = &self.0 {
            store.forget_log_before(sequence);
        }
    }

    /// A consistent view of everything committed so far.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot(match &self.0 {
            Backend::Rocks(store) => {
                SnapshotBackend::Rocks(rocks::RocksSnapshot::new(store.clone()))
            }
            Backend::Memory(store) => SnapshotBackend::Memory(store.snapshot()),
        })
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
        match &self.0 {
            Backend::Rocks(store) => store.get(family, key, read),
            Backend::Memory(store) => Ok(store.snapshot().get(family, key).map(read)),
        }
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
        match &self.0 {
            Backend::Rocks(store) => store.get_document(key, read),
            Backend::Memory(store) => Ok(store.snapshot().get(Family::Documents, key).map(read)),
        }
    }

    /// Bytes on disk of the keys in `[start, end)`, approximately, without what is still in memory.
    pub fn size_of_range(&self, family: Family, start: &[u8], end: &[u8]) -> u64 {
        match &self.0 {
            Backend::Rocks(store) => store.size_of_range(family, start, end),
            Backend::Memory(store) => store.snapshot().size_of_range(family, start, end),
        }
    }

    /// Writes everything in memory out to files, so that the log is empty and sizes are true.
    ///
    /// # Errors
    /// [`StoreError::Failed`] on I/O failure.
    pub fn flush(&self) -> Result<(), StoreError> {
        match &self.0 {
            Backend::Rocks(store) => store.flush(),
            Backend::Memory(_) => Ok(()),
        }
    }

    /// The part of the cache that is lent to what is kept in memory beside it.
    pub fn cache_budget(&self) -> Arc<CacheBudget> {
        match &self.0 {
            Backend::Rocks(store) => store.room(),
            Backend::Memory(_) => CacheBudget::new(memory::CACHE_BYTES, None),
        }
    }

    /// Figures about memory and background work, by name, for `serverStatus`.
    pub fn statistics(&self) -> Vec<(&'static str, u64)> {
        match &self.0 {
            Backend::Rocks(store) => store.statistics(),
            Backend::Memory(_) => Vec::new(),
        }
    }

    /// Stops background work and makes what was written durable; idempotent.
    ///
    /// # Errors
    /// [`StoreError`] of the last fsync.
    pub fn close(&self) -> Result<(), StoreError> {
        match &self.0 {
            Backend::Rocks(store) => store.close(),
            Backend::Memory(_) => Ok(()),
        }
    }
}

/// Takes the next entry of [`Store::load`]: key and value.
pub type AddEntry<'a> = dyn FnMut(&[u8], &[u8]) -> Result<(), StoreError> + 'a;

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

/// Puts and deletes that are committed together or not at all.
pub struct Batch(BatchBackend);

enum BatchBackend {
    Rocks(rocks::RocksBatch),
    Memory(Vec<memory::Operation>),
}

impl Batch {
    /// Sets `key`, which is not there, to `value`: readers of the log count it as one more.
    pub fn add(&mut self, family: Family, key: &[u8], value: &[u8]) {
        match &mut self.0 {
            BatchBackend::Rocks(batch) => batch.add(family, key, value),
            BatchBackend::Memory(_) => self.put(family, key, value),
        }
    }

    /// Sets `key`, which is there, to another value: readers of the log do not count it.
    pub fn replace(&mut self, family: Family, key: &[u8], value: &[u8]) {
        match &mut self.0 {
            BatchBackend::Rocks(batch) => batch.replace(family, key, value),
            BatchBackend::Memory(_) => self.put(family, key, value),
        }
    }

    /// Sets `key` to `value`, whether it is there or not. For keys that nobody counts: those of the catalogue.
    pub fn put(&mut self, family: Family, key: &[u8], value: &[u8]) {
        match &mut self.0 {
            BatchBackend::Rocks(batch) => batch.put(family, key, value),
            BatchBackend::Memory(operations) => {
                operations.push(memory::Operation::Put(family, key.to_vec(), value.to_vec()));
            }
        }
    }

    /// Removes `key`; one that is not there is no error.
    pub fn delete(&mut self, family: Family, key: &[u8]) {
        match &mut self.0 {
            BatchBackend::Rocks(batch) => batch.delete(family, key),
            BatchBackend::Memory(operations) => {
                operations.push(memory::Operation::Delete(family, key.to_vec()));
            }
        }
    }

    /// Removes every key in `[start, end)`.
    pub fn delete_range(&mut self, family: Family, start: &[u8], end: &[u8]) {
        match &mut self.0 {
            BatchBackend::Rocks(batch) => batch.delete_range(family, start, end),
            BatchBackend::Memory(operations) => {
                operations.push(memory::Operation::DeleteRange(
                    family,
                    start.to_vec(),
                    end.to_vec(),
                ));
            }
        }
    }

    /// Number of operations.
    pub fn len(&self) -> usize {
        match &self.0 {
            BatchBackend::Rocks(batch) => batch.len(),
            BatchBackend::Memory(operations) => operations.len(),
        }
    }

    /// Whether the batch holds no operation.
    pub fn is_empty(&self) -> bool {
        match &self.0 {
            BatchBackend::Rocks(batch) => batch.is_empty(),
            BatchBackend::Memory(operations) => operations.is_empty(),
        }
    }
}

/// A consistent view; cheap to clone, released when the last clone and scan are gone.
#[derive(Clone)]
pub struct Snapshot(SnapshotBackend);

#[derive(Clone)]
enum SnapshotBackend {
    Rocks(rocks::RocksSnapshot),
    Memory(memory::MemorySnapshot),
}

impl Snapshot {
    /// The number of the newest operation that it shows.
    pub fn sequence(&self) -> u64 {
        match &self.0 {
            SnapshotBackend::Rocks(snapshot) => snapshot.sequence(),
            SnapshotBackend::Memory(_) => 0,
        }
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
        match &self.0 {
            SnapshotBackend::Rocks(snapshot) => snapshot.get(family, key, read),
            SnapshotBackend::Memory(snapshot) => Ok(snapshot.get(family, key).map(read)),
        }
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
        match &self.0 {
            SnapshotBackend::Rocks(snapshot) => snapshot.multi_get(family, keys, read),
            SnapshotBackend::Memory(snapshot) => {
                for (position, key) in keys.iter().enumerate() {
                    read(position, snapshot.get(family, key));
                }
                Ok(())
            }
        }
    }

    /// A scan of `[start, end)`, before its first entry in the given order.
    pub fn scan(&self, family: Family, start: &[u8], end: &[u8], order: Order) -> Scan {
        Scan(match &self.0 {
            SnapshotBackend::Rocks(snapshot) => ScanBackend::Rocks(rocks::RocksScan::new(
                snapshot.clone(),
                family,
                start,
                end,
                order,
            )),
            SnapshotBackend::Memory(snapshot) => ScanBackend::Memory(memory::MemoryScan::new(
                snapshot.clone(),
                family,
                start,
                end,
                order,
            )),
        })
    }
}

/// An ordered walk over one range of one snapshot.
pub struct Scan(ScanBackend);

enum ScanBackend {
    Rocks(rocks::RocksScan),
    Memory(memory::MemoryScan),
}

impl Scan {
    /// Moves to the next entry; false at the end of the range.
    ///
    /// # Errors
    /// [`StoreError::Failed`] on I/O failure or corruption.
    #[inline]
    pub fn advance(&mut self) -> Result<bool, StoreError> {
        match &mut self.0 {
            ScanBackend::Rocks(scan) => scan.advance(),
            ScanBackend::Memory(scan) => Ok(scan.advance()),
        }
    }

    /// Moves so that the next [`Self::advance`] yields the first entry at or after `key` (at or
    /// before it when the scan goes backward). Never leaves the range.
    pub fn seek(&mut self, key: &[u8]) {
        match &mut self.0 {
            ScanBackend::Rocks(scan) => scan.seek(key),
            ScanBackend::Memory(scan) => scan.seek(key),
        }
    }

    /// Key and value of the current entry; only after [`Self::advance`] returned true.
    #[inline]
    pub fn entry(&self) -> (&[u8], &[u8]) {
        match &self.0 {
            ScanBackend::Rocks(scan) => scan.entry(),
            ScanBackend::Memory(scan) => scan.entry(),
        }
    }

    /// The key of the current entry; only after [`Self::advance`] returned true.
    #[inline]
    pub fn key(&self) -> &[u8] {
        match &self.0 {
            ScanBackend::Rocks(scan) => scan.key(),
            ScanBackend::Memory(scan) => scan.entry().0,
        }
    }
}
