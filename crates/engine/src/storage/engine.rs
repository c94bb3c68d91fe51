//! What a storage engine does: the trait that every one implements, of views, pages and conditional commits.
//!
//! In: batches with conditions; keys and ranges that are asked for in a view. Out: whether a commit took place
//! ([`Outcome`]), values, pages of entries. Keys and values within [`Capabilities`] are taken as they are; larger values are
//! cut by [`super::chunks`]. What only a library on this machine gives is in [`super::local`]. Engines answer alike:
//! RocksDB on disk, and an ordered map in memory that serves the tests.

use super::local::LocalEngine;
use super::{Family, Order, Page, PageLimit, Scan, StoreError};
use std::sync::Arc;

/// An engine that is open.
pub trait StorageEngine: Send + Sync {
    /// What it takes.
    fn capabilities(&self) -> Capabilities;

    /// A consistent view of everything committed so far.
    fn begin(self: Arc<Self>) -> Arc<dyn View>;

    /// An empty batch.
    fn batch(self: Arc<Self>) -> Box<dyn WriteBatch>;

    /// Hands the newest value of `key`, if it has one, to `read`.
    ///
    /// # Errors
    /// [`StoreError::Failed`] on I/O failure or corruption.
    fn get(&self, family: Family, key: &[u8], read: &mut ReadValue<'_>) -> Result<(), StoreError>;

    /// As [`Self::get`] of a document, sooner where it is asked for often.
    ///
    /// # Errors
    /// As [`Self::get`].
    fn get_document(&self, key: &[u8], read: &mut ReadValue<'_>) -> Result<(), StoreError> {
        self.get(Family::Documents, key, read)
    }

    /// Bytes of the keys and values in `[start, end)`, approximately.
    fn size_of_range(&self, family: Family, start: &[u8], end: &[u8]) -> u64;

    /// Writes the files of `[start, end)` anew without what is deleted or replaced; nothing for an engine without files.
    fn compact(&self, _family: Family, _start: &[u8], _end: &[u8]) {}

    /// Returns once everything written before the call survives a power loss.
    ///
    /// # Errors
    /// [`StoreError::Poisoned`] from the first failed fsync on.
    fn sync(&self) -> Result<(), StoreError>;

    /// Stops background work and makes what was written durable; idempotent.
    ///
    /// # Errors
    /// [`StoreError`] of the last fsync.
    fn close(&self) -> Result<(), StoreError>;

    /// Figures about memory and background work, by name.
    fn statistics(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }

    /// What it gives besides as a library on this machine.
    fn local(&self) -> Option<&dyn LocalEngine> {
        None
    }
}

/// Gets a value.
pub type ReadValue<'a> = dyn FnMut(&[u8]) + 'a;

/// Gets a key's position and its value.
pub type ReadValues<'a> = dyn FnMut(usize, Option<&[u8]>) + 'a;

/// What an engine takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capabilities {
    /// Bytes of the longest key, with its tree's prefix; a longer one is refused with [`StoreError::KeyTooLong`].
    pub key_bytes_max: usize,
    /// Bytes of the longest value; a longer one is cut.
    pub value_bytes_max: usize,
}

/// What was committed at an instant, all of it and nothing later.
pub trait View: Send + Sync {
    /// The number of the newest operation that it shows; 0 where the engine is not local.
    fn sequence(&self) -> u64 {
        0
    }

    /// Hands the value of `key`, if it has one, to `read`.
    ///
    /// # Errors
    /// [`StoreError::Failed`] on I/O failure or corruption.
    fn get(&self, family: Family, key: &[u8], read: &mut ReadValue<'_>) -> Result<(), StoreError>;

    /// The values of many keys of one tree, which must be sorted.
    ///
    /// # Errors
    /// As [`Self::get`].
    fn multi_get(
        &self,
        family: Family,
        keys: &[&[u8]],
        read: &mut ReadValues<'_>,
    ) -> Result<(), StoreError>;

    /// Fills the page, which is empty, with the first entries of `[start, end)` in the given order: one at least, unless
    /// there is none, and no more than the limit allows beside it.
    ///
    /// # Errors
    /// As [`Self::get`].
    fn scan_page(
        &self,
        family: Family,
        range: (&[u8], &[u8]),
        order: Order,
        limit: PageLimit,
        page: &mut Page,
    ) -> Result<(), StoreError>;

    /// A scan of `[start, end)`: [`Scan::of_pages`], unless the engine lends its entries without a copy.
    fn scan(self: Arc<Self>, family: Family, start: &[u8], end: &[u8], order: Order) -> Scan;
}

/// Writes that are committed together or not at all. `add` says that the key is not there, `replace` that it is, `put`
/// neither: only who counts keys by the log tells them apart.
pub trait WriteBatch: Send {
    /// Sets a key that is not there.
    fn add(&mut self, family: Family, key: &[u8], value: &[u8]) {
        self.put(family, key, value);
    }

    /// Sets a key that is there.
    fn replace(&mut self, family: Family, key: &[u8], value: &[u8]) {
        self.put(family, key, value);
    }

    /// Sets a key.
    fn put(&mut self, family: Family, key: &[u8], value: &[u8]);

    /// Removes a key.
    fn delete(&mut self, family: Family, key: &[u8]);

    /// Removes every key in `[start, end)`.
    fn delete_range(&mut self, family: Family, start: &[u8], end: &[u8]);

    /// Number of operations.
    fn len(&self) -> usize;

    /// Commits, if all conditions hold at that instant.
    ///
    /// # Errors
    /// [`StoreError`] when it is known that nothing was written.
    fn commit(self: Box<Self>, conditions: &[Condition]) -> Result<Outcome, StoreError>;
}

/// What must be true of a key for a commit to take place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Condition {
    /// Which family the key belongs to.
    pub family: Family,
    /// The key.
    pub key: Vec<u8>,
    /// The value it must have; none when it must not be there.
    pub value: Option<Vec<u8>>,
}

/// What came of a commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Outcome {
    /// Everything is written, and survives the process being killed.
    Committed,
    /// A condition did not hold: nothing is written.
    Conflict,
    /// The answer was lost: all of it is written, or nothing.
    Unknown,
}

impl Condition {
    /// Whether it holds of the newest value.
    ///
    /// # Errors
    /// [`StoreError::Failed`] on I/O failure or corruption.
    pub(super) fn holds(&self, engine: &dyn StorageEngine) -> Result<bool, StoreError> {
        let mut holds = self.value.is_none();
        engine.get(self.family, &self.key, &mut |value| {
            holds = self.value.as_deref() == Some(value);
        })?;
        Ok(holds)
    }
}
