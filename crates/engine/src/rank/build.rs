//! Builds rank indexes in the background: merges the delta buffers of many commits, scans what is not built yet, and splits
//! oversized buckets.
//!
//! A commit that leaves work queues its collection. A background thread takes it from the queue and scans part
//! after part, each for about a millisecond, while everybody else reads and writes. Buckets that were left
//! oversized under heavy writes are split when the store is idle.

use super::Maintenance;
use super::collection::{BuildScan, CollectionRanks};
use super::index::ScannedSpan;
use crate::error::Result;
use crate::storage::{Order, TreeKey};
use parking_lot::{Condvar, Mutex};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

/// Entries scanned in one part: about a millisecond.
const PART_ENTRIES_MAX: usize = 8_192;
/// Parts scanned for one collection before the next in the queue has its turn.
const PARTS_IN_A_ROW: usize = 64;

/// Collections whose rank indexes want work.
#[derive(Default)]
pub struct BuildQueue {
    waiting: Mutex<VecDeque<Arc<CollectionRanks>>>,
    has_work: Condvar,
}

impl BuildQueue {
    /// Returns when a collection waits, or after `timeout`.
    pub fn wait(&self, timeout: Duration) {
        let mut waiting = self.waiting.lock();
        if waiting.is_empty() {
            self.has_work.wait_for(&mut waiting, timeout);
        }
    }
}

impl Maintenance {
    /// Queues a collection unless it is queued already.
    pub fn queue(&self, ranks: &Arc<CollectionRanks>) {
        if ranks.queue() {
            self.queue.waiting.lock().push_back(ranks.clone());
            self.queue.has_work.notify_one();
        }
    }

    /// Queues those whose rank indexes want work: at start, and when the store becomes idle.
    pub fn queue_unbuilt(&self, all: impl Iterator<Item = Arc<CollectionRanks>>) {
        for ranks in all {
            if ranks.wants_scan(&self.store) {
                self.queue(&ranks);
            }
        }
    }

    /// Where collections wait, for a thread that must not keep the store open meanwhile.
    pub fn build_queue(&self) -> Arc<BuildQueue> {
        self.queue.clone()
    }

    /// Works for a while on the rank indexes of the collection that has waited longest, if one does.
    ///
    /// # Errors
    /// Storage failures; the collection is queued again by its next commit.
    pub fn build_queued(&self) -> Result<()> {
        let Some(ranks) = self.queue.waiting.lock().pop_front() else {
            return Ok(());
        };
        ranks.unqueue();
        for _ in 0..PARTS_IN_A_ROW {
            ranks.merge_full();
            if !self.build_part(&ranks)? {
                return Ok(());
            }
        }
        self.queue(&ranks);
        Ok(())
    }

    /// Works on the rank indexes of a collection until nothing is left to do.
    ///
    /// # Errors
    /// Storage failures.
    pub fn build_all(&self, ranks: &CollectionRanks) -> Result<()> {
        while self.build_part(ranks)? {}
        Ok(())
    }

    /// Scans one part; false when there was none.
    fn build_part(&self, ranks: &CollectionRanks) -> Result<bool> {
        let Some(scan) = ranks.begin_scan(&self.store) else {
            return Ok(false);
        };
        let (found, result) = match scan_part(&scan) {
            Ok(scanned) => (Some(scanned), Ok(true)),
            Err(error) => (None, Err(error)),
        };
        ranks.end_scan(scan.tree, found);
        result
    }
}

fn scan_part(part: &BuildScan) -> Result<ScannedSpan> {
    let start = part.tree.key(&part.span.start);
    let end = match &part.span.end {
        Some(end) => part.tree.key(end),
        None => part.tree.range().1.to_vec(),
    };
    let mut scan = part
        .snapshot
        .scan(part.family, &start, &end, Order::Forward);
    let mut scanned = ScannedSpan::new(&part.span);
    while scan.advance()? {
        let key = TreeKey::strip(scan.entry().0);
        if scanned.entries() == PART_ENTRIES_MAX {
            scanned.stop_before(key);
            break;
        }
        scanned.push(key);
    }
    Ok(scanned)
}
