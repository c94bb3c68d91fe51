//! What only a library on this machine gives: files loaded past the log, the log itself, scratch space, throttling.
//!
//! `rank`, index builds and the sorter use it, through [`Store`]; each function says what a store does whose engine is not
//! local.

use super::{CacheBudget, Compression, Family, Scratch, Store, StoreError, VisitLogged};
use std::sync::Arc;
use std::time::Duration;

/// Bytes that an engine that is not local lends to caches.
const CACHE_BYTES: usize = 64 << 20;

/// A storage library on this machine.
pub trait LocalEngine: Send + Sync {
    /// See [`Store::scratch`].
    ///
    /// # Errors
    /// [`StoreError::Failed`] when it cannot be made.
    fn scratch(&self) -> Result<Scratch, StoreError>;

    /// See [`Store::is_idle`].
    fn is_idle(&self) -> bool;

    /// See [`Store::add_compression`].
    ///
    /// # Errors
    /// [`StoreError::Failed`] on I/O failure.
    fn add_compression(&self, family: Family, compression: Compression) -> Result<(), StoreError>;

    /// Files to be filled and taken over, see [`Store::load`].
    ///
    /// # Errors
    /// [`StoreError::Failed`] on I/O failure.
    fn loader(&self, family: Family) -> Result<Box<dyn Loader + '_>, StoreError>;

    /// See [`Store::latest_sequence`].
    fn latest_sequence(&self) -> u64;

    /// See [`Store::replay`].
    ///
    /// # Errors
    /// [`StoreError::Failed`] on I/O failure or corruption.
    fn replay(&self, sequence: u64, visit: &mut VisitLogged<'_>) -> Result<bool, StoreError>;

    /// See [`Store::forget_log_before`].
    fn forget_log_before(&self, sequence: u64);

    /// See [`Store::wait_for_merges`].
    fn wait_for_merges(&self) -> Option<Duration>;

    /// See [`Store::is_behind`].
    fn is_behind(&self) -> bool;

    /// See [`Store::written_bytes`].
    fn written_bytes(&self) -> u64;

    /// See [`Store::flush`].
    ///
    /// # Errors
    /// [`StoreError::Failed`] on I/O failure.
    fn flush(&self) -> Result<(), StoreError>;

    /// See [`Store::cache_budget`].
    fn cache_budget(&self) -> Arc<CacheBudget>;
}

/// Takes entries whose keys ascend.
pub trait Loader {
    /// Adds an entry.
    ///
    /// # Errors
    /// [`StoreError::Failed`] on I/O failure, and for keys that do not ascend.
    fn add(&mut self, key: &[u8], value: &[u8]) -> Result<(), StoreError>;

    /// Makes all entries part of the store.
    ///
    /// # Errors
    /// [`StoreError::Failed`] on I/O failure.
    fn finish(self: Box<Self>) -> Result<(), StoreError>;
}

/// Takes the next entry of [`Store::load`]: key and value.
pub type AddEntry<'a> = dyn FnMut(&[u8], &[u8]) -> Result<(), StoreError> + 'a;

impl Store {
    /// Whether little has been written for some seconds. Without a local engine: always.
    pub fn is_idle(&self) -> bool {
        self.0.local().is_none_or(LocalEngine::is_idle)
    }

    /// Prepares the family for trees that are compressed so; to be called before the first key of such a
    /// tree is written. Cheap when it was called before. Without a local engine nothing is compressed here.
    ///
    /// # Errors
    /// [`StoreError::Failed`] on I/O failure.
    pub fn add_compression(
        &self,
        family: Family,
        compression: Compression,
    ) -> Result<(), StoreError> {
        match self.0.local() {
            Some(local) => local.add_compression(family, compression),
            None => Ok(()),
        }
    }

    /// Adds the entries that `fill` gives, in ascending order of keys, to the function it is lent: all
    /// together (those that are compressed alike) when it has returned `Ok`, and past log and memtables, in files in their final form. It
    /// is for trees that hold nothing yet and that nobody else writes to meanwhile. That these trees are
    /// taken must be durable before ([`Self::sync`]), since the entries are durable at once. Snapshots
    /// taken earlier may see them. Without a local engine they are one commit.
    ///
    /// # Errors
    /// What `fill` returns, nothing is added then; [`StoreError::Failed`] on I/O failure, and for keys
    /// that do not ascend. Of trees with different compression some may have been added then.
    pub fn load<E: From<StoreError>>(
        &self,
        family: Family,
        fill: impl FnOnce(&mut AddEntry<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut loader = match self.0.local() {
            Some(local) => local.loader(family)?,
            None => Box::new(BatchLoader {
                store: self,
                family,
                batch: self.batch(),
                last: Vec::new(),
            }),
        };
        fill(&mut |key, value| loader.add(key, value))?;
        Ok(loader.finish()?)
    }

    /// A directory for files that are needed for a while: beside the data, or where the system keeps such files.
    ///
    /// # Errors
    /// [`StoreError::Failed`] when it cannot be made.
    pub fn scratch(&self) -> Result<Scratch, StoreError> {
        match self.0.local() {
            Some(local) => local.scratch(),
            None => Scratch::create(&std::env::temp_dir(), None),
        }
    }

    /// The number of the newest operation: every operation of every batch has one, ascending. Without a local engine 0.
    pub fn latest_sequence(&self) -> u64 {
        self.0.local().map_or(0, LocalEngine::latest_sequence)
    }

    /// How long a writer that holds no lock should wait before it writes more, so that merges keep up.
    pub fn wait_for_merges(&self) -> Option<Duration> {
        self.0.local().and_then(LocalEngine::wait_for_merges)
    }

    /// Whether a writer that holds no lock should wait until flushes have come further: large values
    /// take memory in them that the cache does not bound.
    pub fn is_behind(&self) -> bool {
        self.0.local().is_some_and(LocalEngine::is_behind)
    }

    /// Bytes of all batches written since the store was opened. Without a local engine 0.
    pub fn written_bytes(&self) -> u64 {
        self.0.local().map_or(0, LocalEngine::written_bytes)
    }

    /// Reads the records of the log that hold changes after `sequence`, oldest first: `visit` gets the number
    /// of a record's first change, how many it has, and the changes. A record holds the batches of all
    /// writers that were written together, so it may begin at `sequence` or before it. False when there is no
    /// log to read; the log may begin later than asked for.
    ///
    /// # Errors
    /// [`StoreError::Failed`] on I/O failure or corruption.
    pub fn replay(&self, sequence: u64, visit: &mut VisitLogged<'_>) -> Result<bool, StoreError> {
        match self.0.local() {
            Some(local) => local.replay(sequence, visit),
            None => Ok(false),
        }
    }

    /// Gives up old log files that hold nothing after `sequence`; [`Self::replay`] will not be asked
    /// for them.
    pub fn forget_log_before(&self, sequence: u64) {
        if let Some(local) = self.0.local() {
            local.forget_log_before(sequence);
        }
    }

    /// Writes everything in memory out to files, so that the log is empty and sizes are true.
    ///
    /// # Errors
    /// [`StoreError::Failed`] on I/O failure.
    pub fn flush(&self) -> Result<(), StoreError> {
        match self.0.local() {
            Some(local) => local.flush(),
            None => Ok(()),
        }
    }

    /// The part of the cache that is reserved for what is kept in memory beside it.
    pub fn cache_budget(&self) -> Arc<CacheBudget> {
        match self.0.local() {
            Some(local) => local.cache_budget(),
            None => CacheBudget::new(CACHE_BYTES, None),
        }
    }
}

/// One commit of all entries.
struct BatchLoader<'s> {
    store: &'s Store,
    family: Family,
    batch: super::Batch,
    last: Vec<u8>,
}

impl Loader for BatchLoader<'_> {
    fn add(&mut self, key: &[u8], value: &[u8]) -> Result<(), StoreError> {
        if !self.batch.is_empty() && self.last.as_slice() >= key {
            return Err(StoreError::Failed("keys are loaded out of order".into()));
        }
        self.last.clear();
        self.last.extend_from_slice(key);
        self.batch.put(self.family, key, value);
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<(), StoreError> {
        self.store.write(self.batch)
    }
}
