//! Keeps summaries fine: places the keys of many commits, walks what is not known yet and cuts ranges that
//! have grown crowded.
//!
//! Writers queue a collection whose summaries want work; a background thread takes it from the queue
//! and walks part after part, each for about a millisecond, while everybody else reads and writes. Ranges
//! that were left crowded while much was written are cut when writes rest.

use super::Writer;
use crate::catalog::{CollectionState, Walk};
use crate::error::Result;
use crate::index::summary::Walked;
use crate::storage::Order;
use parking_lot::{Condvar, Mutex};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

/// Entries walked in one part: about a millisecond.
const PART_ENTRIES_MAX: usize = 8_192;
/// Parts walked for one collection before the next in the queue has its turn.
const PARTS_IN_A_ROW: usize = 64;

/// Collections whose summaries want work.
#[derive(Default)]
pub struct SummaryQueue {
    waiting: Mutex<VecDeque<Arc<CollectionState>>>,
    arrived: Condvar,
}

impl SummaryQueue {
    /// Queues a collection unless it is queued already.
    pub fn push(&self, state: &Arc<CollectionState>) {
        if state.counted().queue() {
            self.waiting.lock().push_back(state.clone());
            self.arrived.notify_one();
        }
    }

    /// Returns when a collection waits, or after `timeout`.
    pub fn wait(&self, timeout: Duration) {
        let mut waiting = self.waiting.lock();
        if waiting.is_empty() {
            self.arrived.wait_for(&mut waiting, timeout);
        }
    }
}

impl Writer {
    /// Where collections wait for [`Self::learn_queued`].
    pub fn summary_queue(&self) -> Arc<SummaryQueue> {
        self.queue.clone()
    }

    /// Works for a while on the summaries of the collection that has waited longest, if one does.
    ///
    /// # Errors
    /// Storage failures; the collection is queued again by its next commit.
    pub fn learn_queued(&self) -> Result<()> {
        let Some(state) = self.queue.waiting.lock().pop_front() else {
            return Ok(());
        };
        state.counted().unqueue();
        for _ in 0..PARTS_IN_A_ROW {
            state.counted().place_full();
            if !self.learn_part(&state)? {
                return Ok(());
            }
        }
        self.queue.push(&state);
        Ok(())
    }

    /// Works on the summaries of a collection until nothing is left to do.
    ///
    /// # Errors
    /// Storage failures.
    pub fn learn_all(&self, state: &CollectionState) -> Result<()> {
        while self.learn_part(state)? {}
        Ok(())
    }

    /// Queues every collection whose summaries want work: at start, and when writes begin to rest.
    pub fn queue_unlearnt(&self) {
        for collection in self.catalog.all() {
            if collection.state.counted().wants_walk(&self.store) {
                self.queue.push(&collection.state);
            }
        }
    }

    /// Walks one part; false when there was none.
    fn learn_part(&self, state: &CollectionState) -> Result<bool> {
        let Some(walk) = state.counted().begin_walk(&self.store) else {
            return Ok(false);
        };
        let walked = walk_part(&walk);
        let (found, result) = match walked {
            Ok(walked) => (Some(walked), Ok(true)),
            Err(error) => (None, Err(error)),
        };
        state.counted().end_walk(walk.tree, found);
        result
    }
}

fn walk_part(walk: &Walk) -> Result<Walked> {
    let start = walk.tree.key(&walk.span.start);
    let end = match &walk.span.end {
        Some(end) => walk.tree.key(end),
        None => walk.tree.range().1.to_vec(),
    };
    let mut scan = walk
        .snapshot
        .scan(walk.family, &start, &end, Order::Forward);
    let mut walked = Walked::new(&walk.span);
    while scan.advance()? {
        let key = &scan.entry().0[4..];
        if walked.entries() == PART_ENTRIES_MAX {
            walked.stop_before(key);
            break;
        }
        walked.push(key);
    }
    Ok(walked)
}
