//! What stages put on disk that does not fit into memory.
//!
//! In: values with their keys, in any order. Out: those by key, and those of one key as they came.

use super::external::{PREFIX_BYTES, Sorter, Spilled};
use crate::error::Result;
use crate::operation::memory::Reservation;
use crate::storage::Store;

/// What a stage has spilled: values by key, those of one key in the order of their arrival.
pub(crate) struct SpillSort {
    sorter: Sorter,
    memory: Reservation,
}

/// What a stage had spilled, in order. It holds its memory until it is dropped.
pub(crate) struct SpilledRows {
    rows: Spilled,
    _memory: Reservation,
}

/// Memory in which what is spilled is sorted, if there is so much.
const SPILL_BYTES: usize = 8 * 1024 * 1024;
/// ... and at least.
const SPILL_BYTES_MIN: usize = 1024 * 1024;
const ARRIVAL_BYTES: usize = 8;

/// Where stages put what does not fit into memory: they know no more of the storage.
#[derive(Clone)]
pub struct SpillSpace(Store);

impl SpillSpace {
    /// In a store's directory.
    pub fn of(store: &Store) -> Self {
        Self(store.clone())
    }

    /// For tests.
    #[cfg(test)]
    pub fn in_memory() -> Self {
        Self(Store::in_memory())
    }
}

impl SpillSort {
    /// Nothing yet.
    pub fn new(space: &SpillSpace) -> Self {
        let mut memory = Reservation::none();
        let mut bytes = SPILL_BYTES;
        while bytes > SPILL_BYTES_MIN && !memory.try_grow(bytes) {
            bytes /= 2;
        }
        memory.force(bytes);
        Self {
            sorter: Sorter::for_spill(&space.0, bytes),
            memory,
        }
    }

    /// Adds a value. No key is the beginning of another.
    ///
    /// # Errors
    /// Storage failures.
    pub fn push(&mut self, key: &[u8], arrival: u64, value: &[u8]) -> Result<()> {
        let tree = [0; PREFIX_BYTES];
        self.sorter
            .push(0, &[&tree, key, &arrival.to_be_bytes()], value)
    }

    /// The values by key and arrival.
    ///
    /// # Errors
    /// Storage failures.
    pub fn finish(self) -> Result<SpilledRows> {
        let Self { sorter, mut memory } = self;
        let (before, at_last) = sorter.merge_bytes();
        memory.force(before);
        let rows = sorter.finish_in_files()?;
        memory.shrink(at_last);
        memory.force(at_last);
        Ok(SpilledRows {
            rows,
            _memory: memory,
        })
    }
}

impl SpilledRows {
    /// What `decode` makes of the next key and its value, which are not kept if they are large.
    ///
    /// # Errors
    /// Storage failures, and those of `decode`.
    pub fn next_with<T>(
        &mut self,
        decode: impl FnOnce(&[u8], &[u8]) -> Result<T>,
    ) -> Result<Option<T>> {
        self.rows
            .next_with(|key, value| decode(&key[PREFIX_BYTES..key.len() - ARRIVAL_BYTES], value))
    }

    /// Has the value that came last come again.
    ///
    /// # Errors
    /// Storage failures.
    pub fn unread(&mut self) -> Result<()> {
        self.rows.unread()
    }
}
