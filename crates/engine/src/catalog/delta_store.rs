//! The delta store of a time series: rows that were inserted and wait for their buckets.
//!
//! ```text
//! tree ++ partition (u8) ++ number of the chunk (u64, big endian)  -> documents, one behind the other
//! ```
//!
//! All rows of a series are in one partition, in the order in which they came.

use crate::storage::TreeKey;
use std::hash::{BuildHasher, RandomState};
use std::time::Instant;

/// Partitions of a delta store: so much of it at a time becomes buckets.
pub const PARTITIONS: usize = 64;
/// A partition becomes buckets once it has this many rows for each of its series, ...
const ROWS_PER_SERIES: usize = 16;
/// ... and this many at least, ...
const ROWS_MIN: usize = 64;
/// ... or this many, ...
const ROWS_MAX: usize = 4_096;
/// ... or this many bytes of them.
const BYTES_MAX: usize = 2 * 1024 * 1024;

/// What is known in memory of the rows that are stored. As long as it knows of no row, there is none.
#[derive(Debug)]
pub struct DeltaStore {
    partitions: [DeltaPartition; PARTITIONS],
    series: RandomState,
    /// When a row came last.
    pub appended: Instant,
}

#[derive(Debug, Clone, Copy, Default)]
struct DeltaPartition {
    next_chunk: u64,
    rows: usize,
    bytes: usize,
}

impl Default for DeltaStore {
    fn default() -> Self {
        Self {
            partitions: [DeltaPartition::default(); PARTITIONS],
            series: RandomState::new(),
            appended: Instant::now(),
        }
    }
}

impl DeltaStore {
    /// In which partition the rows of a series wait.
    pub fn partition_of(&self, series: &[u8]) -> usize {
        usize::try_from(self.series.hash_one(series) % PARTITIONS as u64).unwrap_or(0)
    }

    /// The key of the next chunk of a partition.
    pub fn next_chunk(&self, tree: TreeKey, partition: usize) -> Vec<u8> {
        let mut key = vec![partition_byte(partition)];
        key.extend(self.partitions[partition].next_chunk.to_be_bytes());
        tree.key(&key)
    }

    /// Notes that the next chunk of a partition is stored.
    pub fn note_appended(&mut self, partition: usize, rows: usize, bytes: usize) {
        let own = &mut self.partitions[partition];
        own.next_chunk += 1;
        own.rows += rows;
        own.bytes += bytes;
        self.appended = Instant::now();
    }

    /// Notes that all rows of a partition are in buckets.
    pub fn note_flushed(&mut self, partition: usize) {
        let own = &mut self.partitions[partition];
        (own.rows, own.bytes) = (0, 0);
    }

    /// Whether any row waits.
    pub fn has_rows(&self) -> bool {
        self.partitions.iter().any(|own| own.rows > 0)
    }

    /// The partitions with rows.
    pub fn waiting(&self) -> Vec<usize> {
        let all = 0..PARTITIONS;
        all.filter(|number| self.partitions[*number].rows > 0)
            .collect()
    }

    /// The fullest partition of those that are to become buckets; `None` where none is full. So many series are open
    /// in all.
    pub fn fullest(&self, series: usize) -> Option<usize> {
        let rows_max = (ROWS_PER_SERIES * series / PARTITIONS).clamp(ROWS_MIN, ROWS_MAX);
        let fullest = (0..PARTITIONS).max_by_key(|number| self.partitions[*number].bytes)?;
        let own = &self.partitions[fullest];
        (own.rows >= rows_max || own.bytes >= BYTES_MAX).then_some(fullest)
    }
}

/// The first key of a partition, and that behind its last.
pub fn partition_range(tree: TreeKey, partition: usize) -> (Vec<u8>, Vec<u8>) {
    let byte = partition_byte(partition);
    (tree.key(&[byte]), tree.key(&[byte + 1]))
}

fn partition_byte(partition: usize) -> u8 {
    u8::try_from(partition).expect("there are fewer partitions")
}
