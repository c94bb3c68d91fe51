//! The in-memory twin: persistent ordered maps, so that a snapshot is a cheap clone.
//!
//! Serves tests; it must answer exactly as the RocksDB store does.

use super::{Family, Order, StoreError};
use imbl::OrdMap;
use parking_lot::{Mutex, RwLock};
use std::ops::Bound;
use std::sync::Arc;

/// The cache that it would have on disk.
pub(super) const CACHE_BYTES: usize = 64 << 20;

type Tree = OrdMap<Vec<u8>, Vec<u8>>;

#[derive(Default)]
pub(super) struct MemoryStore {
    trees: RwLock<[Tree; 3]>,
    recording: Option<Recording>,
}

/// One operation of a batch that was committed in memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Operation {
    /// Sets a key to a value.
    Put(Family, Vec<u8>, Vec<u8>),
    /// Removes a key.
    Delete(Family, Vec<u8>),
    /// Removes the keys from the first up to, not including, the second.
    DeleteRange(Family, Vec<u8>, Vec<u8>),
    /// Sets a key to a value, by [`super::Store::load`].
    Load(Family, Vec<u8>, Vec<u8>),
}

/// The batches that a store in memory committed, in order: what golden scripts show.
#[derive(Debug, Clone, Default)]
pub struct Recording(Arc<Mutex<Vec<Vec<Operation>>>>);

impl Recording {
    /// The batches since the last call.
    pub fn take(&self) -> Vec<Vec<Operation>> {
        std::mem::take(&mut self.0.lock())
    }
}

/// Notes an entry of [`super::Store::load`], whose key must be greater than that before.
pub(super) fn load(
    operations: &mut Vec<Operation>,
    family: Family,
    key: &[u8],
    value: &[u8],
) -> Result<(), StoreError> {
    if let Some(Operation::Load(_, last, _)) = operations.last()
        && last.as_slice() >= key
    {
        return Err(StoreError::Failed("keys are loaded out of order".into()));
    }
    operations.push(Operation::Load(family, key.to_vec(), value.to_vec()));
    Ok(())
}

impl MemoryStore {
    pub(super) fn recorded(recording: Recording) -> Self {
        Self {
            recording: Some(recording),
            ..Self::default()
        }
    }

    pub(super) fn write(&self, operations: Vec<Operation>) {
        if let Some(recording) = &self.recording {
            recording.0.lock().push(operations.clone());
        }
        let mut trees = self.trees.write();
        for operation in operations {
            match operation {
                Operation::Put(family, key, value) | Operation::Load(family, key, value) => {
                    trees[family as usize].insert(key, value);
                }
                Operation::Delete(family, key) => {
                    trees[family as usize].remove(&key);
                }
                Operation::DeleteRange(family, start, end) => {
                    let tree = &mut trees[family as usize];
                    let doomed: Vec<_> =
                        tree.range(start..end).map(|(key, _)| key.clone()).collect();
                    for key in doomed {
                        tree.remove(&key);
                    }
                }
            }
        }
    }

    pub(super) fn snapshot(&self) -> MemorySnapshot {
        MemorySnapshot {
            trees: self.trees.read().clone(),
        }
    }
}

#[derive(Clone)]
pub(super) struct MemorySnapshot {
    trees: [Tree; 3],
}

impl MemorySnapshot {
    pub(super) fn get(&self, family: Family, key: &[u8]) -> Option<&[u8]> {
        self.trees[family as usize].get(key).map(Vec::as_slice)
    }

    pub(super) fn size_of_range(&self, family: Family, start: &[u8], end: &[u8]) -> u64 {
        let range = (
            Bound::Included(start.to_vec()),
            Bound::Excluded(end.to_vec()),
        );
        let entries = self.trees[family as usize].range(range);
        entries
            .map(|(key, value)| (key.len() + value.len()) as u64)
            .sum()
    }
}

pub(super) struct MemoryScan {
    snapshot: MemorySnapshot,
    family: Family,
    order: Order,
    low: Bound<Vec<u8>>,
    high: Bound<Vec<u8>>,
    current: Option<(Vec<u8>, Vec<u8>)>,
}

impl MemoryScan {
    pub(super) fn new(
        snapshot: MemorySnapshot,
        family: Family,
        start: &[u8],
        end: &[u8],
        order: Order,
    ) -> Self {
        let (low, high) = (
            Bound::Included(start.to_vec()),
            Bound::Excluded(end.to_vec()),
        );
        Self {
            snapshot,
            family,
            order,
            low,
            high,
            current: None,
        }
    }

    pub(super) fn seek(&mut self, key: &[u8]) {
        match self.order {
            Order::Forward => self.low = Bound::Included(key.to_vec()),
            Order::Backward => self.high = Bound::Included(key.to_vec()),
        }
    }

    pub(super) fn advance(&mut self) -> bool {
        if is_empty(&self.low, &self.high) {
            self.current = None;
            return false;
        }
        let mut range =
            self.snapshot.trees[self.family as usize].range((self.low.clone(), self.high.clone()));
        let entry = match self.order {
            Order::Forward => range.next(),
            Order::Backward => range.next_back(),
        };
        self.current = entry.map(|(key, value)| (key.clone(), value.clone()));
        if let Some((key, _)) = &self.current {
            match self.order {
                Order::Forward => self.low = Bound::Excluded(key.clone()),
                Order::Backward => self.high = Bound::Excluded(key.clone()),
            }
        }
        self.current.is_some()
    }

    pub(super) fn entry(&self) -> (&[u8], &[u8]) {
        let (key, value) = self
            .current
            .as_ref()
            .expect("entry is read after advance returned true");
        (key, value)
    }
}

/// Ordered maps panic on a range whose ends cross or exclude the same key; such a range is empty.
fn is_empty(low: &Bound<Vec<u8>>, high: &Bound<Vec<u8>>) -> bool {
    match (low, high) {
        (Bound::Included(low), Bound::Included(high)) => low > high,
        (
            Bound::Included(low) | Bound::Excluded(low),
            Bound::Excluded(high) | Bound::Included(high),
        ) => low >= high,
        _ => false,
    }
}
