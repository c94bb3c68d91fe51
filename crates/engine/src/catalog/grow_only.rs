//! What plans take for granted of all documents, where documents can only widen it: whether some give an index several
//! entries, for how long the longest bucket lasts. It is known before the commit that makes it so, and stored with it.

use std::sync::atomic::{AtomicU64, Ordering};

/// A value that only grows. Where the commit that was to store it fails, it is stored with the next one.
#[derive(Debug, Default)]
pub struct GrowOnly {
    known: AtomicU64,
    /// What the store has. Read and written by the holder of the write lock.
    stored: AtomicU64,
}

impl GrowOnly {
    /// As the store has it.
    pub fn stored_as(value: u64) -> Self {
        Self {
            known: value.into(),
            stored: value.into(),
        }
    }

    /// The value.
    pub fn get(&self) -> u64 {
        self.known.load(Ordering::Acquire)
    }

    /// Adds what a document that is about to be committed shows, bit by bit.
    pub fn add_bits(&self, bits: u64) {
        self.known.fetch_or(bits, Ordering::AcqRel);
    }

    /// The same of a number.
    pub fn raise_to(&self, least: u64) {
        self.known.fetch_max(least, Ordering::AcqRel);
    }

    /// Whether the store has it as it is.
    pub fn is_stored(&self) -> bool {
        self.stored.load(Ordering::Acquire) == self.get()
    }

    /// Notes that the store has it as it is.
    pub fn note_stored(&self) {
        self.stored.store(self.get(), Ordering::Release);
    }
}
