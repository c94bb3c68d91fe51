//! The least rows by a key, held within a limit of memory and then lent in order.
//!
//! In: rows with their keys, in any order. Out: all of them, or the first few, ascending by key. What to
//! say when they outgrow their memory is the caller's.

use super::Row;
use bson::raw::RawDocument;
use std::cmp::Ordering;
use std::collections::BinaryHeap;

/// Rows that are being collected.
pub(super) struct TopRows<K> {
    heap: BinaryHeap<Held<K>>,
    /// How many are wanted, if not all.
    keep: Option<usize>,
    bytes: usize,
}

/// Rows in the order of their keys.
pub(super) struct SortedRows<K> {
    sorted: std::vec::IntoIter<Held<K>>,
    current: Option<Held<K>>,
}

struct Held<K> {
    key: K,
    id: Vec<u8>,
    document: Vec<u8>,
    bytes: usize,
}

impl<K: Ord> PartialEq for Held<K> {
    fn eq(&self, other: &Self) -> bool {
        self.key == other.key
    }
}

impl<K: Ord> Eq for Held<K> {}

impl<K: Ord> PartialOrd for Held<K> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<K: Ord> Ord for Held<K> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.key.cmp(&other.key)
    }
}

impl<K: Ord> TopRows<K> {
    /// None yet; only the first `keep` are wanted when given.
    pub fn new(keep: Option<usize>) -> Self {
        Self {
            heap: BinaryHeap::new(),
            keep,
            bytes: 0,
        }
    }

    /// Holds a row, whose key has `key_bytes` beside its own size, unless enough lesser ones are held.
    pub fn push(&mut self, key: K, key_bytes: usize, row: Row<'_>) {
        let is_full = self.keep.is_some_and(|keep| self.heap.len() >= keep);
        if is_full && self.heap.peek().is_none_or(|worst| worst.key <= key) {
            return;
        }
        let document = row.document.as_bytes();
        let bytes = key_bytes + row.id.len() + document.len() + size_of::<Held<K>>();
        self.bytes += bytes;
        self.heap.push(Held {
            key,
            id: row.id.to_vec(),
            document: document.to_vec(),
            bytes,
        });
        if is_full && let Some(worst) = self.heap.pop() {
            self.bytes -= worst.bytes;
        }
    }

    /// Bytes that are held.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The rows in order.
    pub fn sorted(self) -> SortedRows<K> {
        SortedRows {
            sorted: self.heap.into_sorted_vec().into_iter(),
            current: None,
        }
    }
}

impl<K> Default for SortedRows<K> {
    fn default() -> Self {
        Self {
            sorted: Vec::new().into_iter(),
            current: None,
        }
    }
}

impl<K> SortedRows<K> {
    /// Moves to the next row; false at the end.
    pub fn advance(&mut self) -> bool {
        self.current = self.sorted.next();
        self.current.is_some()
    }

    /// The next row and its key.
    pub fn next_with_key(&mut self) -> Option<(&K, Row<'_>)> {
        self.advance();
        self.current.as_ref()?;
        self.current
            .as_ref()
            .map(|held| &held.key)
            .zip(Some(self.row()))
    }

    /// The current row; only after [`Self::advance`] returned true.
    pub fn row(&self) -> Row<'_> {
        let held = self
            .current
            .as_ref()
            .expect("row is read after advance returned true");
        let document =
            RawDocument::from_bytes(&held.document).expect("a held document was read as one");
        Row {
            id: &held.id,
            document,
        }
    }
}
