//! Batches of writes, as the library takes them.

use super::row_cache::Changed;
use super::{RocksStore, log};
use crate::storage::engine::{Condition, Outcome, WriteBatch};
use crate::storage::{Family, StoreError};
use std::sync::Arc;

pub(super) struct RocksBatch {
    store: Arc<RocksStore>,
    pub operations: rocksdb::WriteBatch,
    /// Which rows are out of date then.
    pub changed: Changed,
    pub removes_ranges: bool,
    /// Bytes of the largest value.
    pub largest: usize,
}

impl RocksBatch {
    pub(super) fn new(store: Arc<RocksStore>) -> Self {
        Self {
            store,
            operations: rocksdb::WriteBatch::default(),
            changed: Changed::default(),
            removes_ranges: false,
            largest: 0,
        }
    }

    fn note_change(&mut self, family: Family, key: &[u8]) {
        if family == Family::Documents {
            self.store.rows.note_change(key, &mut self.changed);
        }
    }
}

impl WriteBatch for RocksBatch {
    fn add(&mut self, family: Family, key: &[u8], value: &[u8]) {
        self.largest = self.largest.max(value.len());
        self.operations
            .put_cf(&self.store.family(family, key).handle, key, value);
    }

    fn replace(&mut self, family: Family, key: &[u8], value: &[u8]) {
        self.operations.put_log_data(log::REPLACES);
        self.put(family, key, value);
    }

    fn put(&mut self, family: Family, key: &[u8], value: &[u8]) {
        self.note_change(family, key);
        self.add(family, key, value);
    }

    fn delete(&mut self, family: Family, key: &[u8]) {
        self.note_change(family, key);
        self.operations
            .delete_cf(&self.store.family(family, key).handle, key);
    }

    fn delete_range(&mut self, family: Family, start: &[u8], end: &[u8]) {
        self.removes_ranges = true;
        if family == Family::Documents {
            self.changed = Changed::Everything;
        }
        self.operations
            .delete_range_cf(&self.store.family(family, start).handle, start, end);
    }

    fn len(&self) -> usize {
        self.operations.len()
    }

    fn commit(self: Box<Self>, conditions: &[Condition]) -> Result<Outcome, StoreError> {
        let store = self.store.clone();
        store.commit(*self, conditions)
    }
}
