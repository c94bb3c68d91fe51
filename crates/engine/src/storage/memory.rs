//! The engine in memory: persistent ordered maps, so that a view is a cheap clone.
//!
//! Serves tests: it must answer exactly as RocksDB does, within limits of its own, and it can be told to lose answers.

use super::engine::{
    Capabilities, Condition, Outcome, ReadValue, ReadValues, StorageEngine, View, WriteBatch,
};
use super::{Family, Order, Page, PageLimit, Scan, StoreError};
use imbl::OrdMap;
use parking_lot::{Mutex, RwLock};
use std::collections::VecDeque;
use std::sync::Arc;

type MemoryTree = OrdMap<Vec<u8>, Vec<u8>>;

/// One operation of a batch that was committed in memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BatchOperation {
    /// Sets a key to a value.
    Put(Family, Vec<u8>, Vec<u8>),
    /// Removes a key.
    Delete(Family, Vec<u8>),
    /// Removes the keys from the first up to, not including, the second.
    DeleteRange(Family, Vec<u8>, Vec<u8>),
}

/// How an engine in memory is to be.
#[derive(Debug, Clone)]
pub struct MemoryOptions {
    /// What it takes.
    pub capabilities: Capabilities,
    /// What the next commits come to.
    pub faults: Faults,
    /// Gets what is committed.
    pub recording: Option<Recording>,
}

impl Default for MemoryOptions {
    fn default() -> Self {
        Self {
            capabilities: Capabilities {
                key_bytes_max: u32::MAX as usize,
                value_bytes_max: u32::MAX as usize,
            },
            faults: Faults::default(),
            recording: None,
        }
    }
}

/// What the next commits come to, in order; commits without a fault take place.
#[derive(Debug, Clone, Default)]
pub struct Faults(Arc<Mutex<VecDeque<CommitFault>>>);

/// What a commit comes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CommitFault {
    /// It takes place.
    None,
    /// It fails.
    Failed,
    /// It takes place, and the answer is lost.
    UnknownCommitted,
    /// It does not take place, and the answer is lost.
    UnknownLost,
}

impl Faults {
    /// What one more commit comes to.
    pub fn push(&self, fault: CommitFault) {
        self.0.lock().push_back(fault);
    }

    fn next(&self) -> CommitFault {
        self.0.lock().pop_front().unwrap_or(CommitFault::None)
    }
}

/// The batches that a store in memory committed, in order: what golden scripts show.
#[derive(Debug, Clone, Default)]
pub struct Recording(Arc<Mutex<Vec<Vec<BatchOperation>>>>);

impl Recording {
    /// The batches since the last call.
    pub fn take(&self) -> Vec<Vec<BatchOperation>> {
        std::mem::take(&mut self.0.lock())
    }
}

#[derive(Default)]
pub(super) struct MemoryEngine {
    trees: RwLock<[MemoryTree; 3]>,
    options: MemoryOptions,
}

impl MemoryEngine {
    pub(super) fn new(options: MemoryOptions) -> Self {
        Self {
            trees: RwLock::default(),
            options,
        }
    }

    fn view(&self) -> MemoryView {
        MemoryView(self.trees.read().clone())
    }

    fn commit(&self, batch: MemoryBatch, conditions: &[Condition]) -> Result<Outcome, StoreError> {
        let mut trees = self.trees.write();
        let holds =
            |one: &Condition| trees[one.family as usize].get(&one.key) == one.value.as_ref();
        if !conditions.iter().all(holds) {
            return Ok(Outcome::Conflict);
        }
        let fault = self.options.faults.next();
        match fault {
            CommitFault::Failed => return Err(StoreError::Failed("a fault was asked for".into())),
            CommitFault::UnknownLost => return Ok(Outcome::Unknown),
            CommitFault::None | CommitFault::UnknownCommitted => {}
        }
        if let Some(recording) = &self.options.recording {
            recording.0.lock().push(batch.operations.clone());
        }
        batch
            .operations
            .into_iter()
            .for_each(|operation| apply(&mut trees, operation));
        match fault {
            CommitFault::UnknownCommitted => Ok(Outcome::Unknown),
            _ => Ok(Outcome::Committed),
        }
    }
}

fn apply(trees: &mut [MemoryTree; 3], operation: BatchOperation) {
    match operation {
        BatchOperation::Put(family, key, value) => {
            trees[family as usize].insert(key, value);
        }
        BatchOperation::Delete(family, key) => {
            trees[family as usize].remove(&key);
        }
        BatchOperation::DeleteRange(family, start, end) => {
            let tree = &mut trees[family as usize];
            let doomed: Vec<_> = tree.range(start..end).map(|(key, _)| key.clone()).collect();
            for key in doomed {
                tree.remove(&key);
            }
        }
    }
}

impl StorageEngine for MemoryEngine {
    fn capabilities(&self) -> Capabilities {
        self.options.capabilities
    }

    fn begin(self: Arc<Self>) -> Arc<dyn View> {
        Arc::new(self.view())
    }

    fn batch(self: Arc<Self>) -> Box<dyn WriteBatch> {
        Box::new(MemoryBatch {
            engine: self,
            operations: Vec::new(),
        })
    }

    fn get(&self, family: Family, key: &[u8], read: &mut ReadValue<'_>) -> Result<(), StoreError> {
        self.view().get(family, key, read)
    }

    fn size_of_range(&self, family: Family, start: &[u8], end: &[u8]) -> u64 {
        let trees = self.trees.read();
        let entries = trees[family as usize].range(start.to_vec()..end.to_vec());
        entries
            .map(|(key, value)| (key.len() + value.len()) as u64)
            .sum()
    }

    fn sync(&self) -> Result<(), StoreError> {
        Ok(())
    }

    fn close(&self) -> Result<(), StoreError> {
        Ok(())
    }
}

struct MemoryBatch {
    engine: Arc<MemoryEngine>,
    operations: Vec<BatchOperation>,
}

impl WriteBatch for MemoryBatch {
    fn put(&mut self, family: Family, key: &[u8], value: &[u8]) {
        let operation = BatchOperation::Put(family, key.to_vec(), value.to_vec());
        self.operations.push(operation);
    }

    fn delete(&mut self, family: Family, key: &[u8]) {
        self.operations
            .push(BatchOperation::Delete(family, key.to_vec()));
    }

    fn delete_range(&mut self, family: Family, start: &[u8], end: &[u8]) {
        let operation = BatchOperation::DeleteRange(family, start.to_vec(), end.to_vec());
        self.operations.push(operation);
    }

    fn len(&self) -> usize {
        self.operations.len()
    }

    fn commit(self: Box<Self>, conditions: &[Condition]) -> Result<Outcome, StoreError> {
        let engine = self.engine.clone();
        engine.commit(*self, conditions)
    }
}

struct MemoryView([MemoryTree; 3]);

impl View for MemoryView {
    fn get(&self, family: Family, key: &[u8], read: &mut ReadValue<'_>) -> Result<(), StoreError> {
        if let Some(value) = self.0[family as usize].get(key) {
            read(value);
        }
        Ok(())
    }

    fn multi_get(
        &self,
        family: Family,
        keys: &[&[u8]],
        read: &mut ReadValues<'_>,
    ) -> Result<(), StoreError> {
        let tree = &self.0[family as usize];
        for (position, key) in keys.iter().enumerate() {
            read(position, tree.get(*key).map(Vec::as_slice));
        }
        Ok(())
    }

    fn scan_page(
        &self,
        family: Family,
        (start, end): (&[u8], &[u8]),
        order: Order,
        limit: PageLimit,
        page: &mut Page,
    ) -> Result<(), StoreError> {
        // Ordered maps panic on a range whose ends cross.
        if start >= end {
            return Ok(());
        }
        let mut entries = self.0[family as usize].range(start.to_vec()..end.to_vec());
        let mut next = || match order {
            Order::Forward => entries.next(),
            Order::Backward => entries.next_back(),
        };
        while page.is_empty() || !page.is_full(limit) {
            let Some((key, value)) = next() else { break };
            page.push(key, value);
        }
        Ok(())
    }

    fn scan(self: Arc<Self>, family: Family, start: &[u8], end: &[u8], order: Order) -> Scan {
        Scan::of_pages(self, family, start, end, order)
    }
}
