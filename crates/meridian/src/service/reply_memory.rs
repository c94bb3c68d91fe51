//! Memory for replies that are being made or sent, shared by all connections.
//!
//! A client that asks for large batches and reads slowly, or not at all, makes the server keep them. Every
//! reply may have a little; what it needs beyond is taken from what all have together, and a batch may be
//! as large as a quarter of what is left. So batches become smaller when many large ones are under way, and a
//! cursor takes more of them; nobody is refused or waits.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The documents of one batch are at most this many bytes, save that one always fits.
pub const BATCH_BYTES_MAX: usize = 16 * 1024 * 1024;
/// What all replies may have together beyond [`FREE_BYTES`] each.
const ALL_BYTES_MAX: usize = 96 * 1024 * 1024;
/// What a reply has without asking.
const FREE_BYTES: usize = 64 * 1024;
/// Memory is taken in steps.
const STEP_BYTES: usize = 256 * 1024;
/// A batch may be this part of what is left.
const LEFT_SHARE: usize = 4;

/// What replies have taken.
#[derive(Debug, Default)]
pub struct ReplyMemory(AtomicUsize);

/// What one connection's reply has taken.
#[derive(Debug)]
pub struct Share {
    memory: Arc<ReplyMemory>,
    bytes: Cell<usize>,
}

impl Share {
    /// Nothing yet.
    pub fn of(memory: &Arc<ReplyMemory>) -> Self {
        Self {
            memory: Arc::clone(memory),
            bytes: Cell::new(0),
        }
    }

    /// Whether a batch may be this large, for which memory is taken.
    pub fn fits(&self, batch_bytes: usize) -> bool {
        if batch_bytes > BATCH_BYTES_MAX {
            return false;
        }
        let Some(missing) = self.missing(batch_bytes) else {
            return true;
        };
        let take = |taken: usize| {
            let left = ALL_BYTES_MAX.checked_sub(taken)?;
            (batch_bytes <= left / LEFT_SHARE).then_some(taken + missing)
        };
        let taken = &self.memory.0;
        let is_taken = taken
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, take)
            .is_ok();
        if is_taken {
            self.bytes.set(self.bytes.get() + missing);
        }
        is_taken
    }

    /// Takes memory for a reply that cannot be made smaller.
    pub fn take(&self, reply_bytes: usize) {
        if let Some(missing) = self.missing(reply_bytes) {
            self.memory.0.fetch_add(missing, Ordering::Relaxed);
            self.bytes.set(self.bytes.get() + missing);
        }
    }

    /// Gives everything back: the reply has been sent.
    pub fn give_back(&self) {
        let bytes = self.bytes.take();
        if bytes > 0 {
            self.memory.0.fetch_sub(bytes, Ordering::Relaxed);
        }
    }

    /// What has to be taken for so many bytes; none when there is enough.
    fn missing(&self, bytes: usize) -> Option<usize> {
        let missing = bytes.saturating_sub(FREE_BYTES + self.bytes.get());
        (missing > 0).then(|| missing.next_multiple_of(STEP_BYTES))
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.give_back();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The largest batch, made of documents of this size.
    fn fill(share: &Share, document_bytes: usize) -> usize {
        let mut bytes = 0;
        while share.fits(bytes + document_bytes) {
            bytes += document_bytes;
        }
        bytes
    }

    #[test]
    fn batches_shrink_when_many_are_under_way_and_grow_again() {
        let memory = Arc::default();
        let first = Share::of(&memory);
        assert_eq!(fill(&first, 1024), BATCH_BYTES_MAX);
        let others: Vec<Share> = (0..1000).map(|_| Share::of(&memory)).collect();
        let sizes: Vec<usize> = others.iter().map(|share| fill(share, 1024)).collect();
        assert_eq!(sizes[0], BATCH_BYTES_MAX);
        assert!(sizes.is_sorted_by(|a, b| a >= b));
        assert_eq!(sizes[999], FREE_BYTES);
        assert!(memory.0.load(Ordering::Relaxed) <= ALL_BYTES_MAX);
        drop(others);
        first.give_back();
        assert_eq!(memory.0.load(Ordering::Relaxed), 0);
        assert_eq!(fill(&first, 1024), BATCH_BYTES_MAX);
    }

    #[test]
    fn what_cannot_be_smaller_is_counted() {
        let memory = Arc::default();
        let (large, other) = (Share::of(&memory), Share::of(&memory));
        large.take(2 * ALL_BYTES_MAX);
        assert!(!other.fits(FREE_BYTES + 1) && other.fits(FREE_BYTES));
    }
}
