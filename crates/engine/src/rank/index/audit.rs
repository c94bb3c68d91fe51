//! Whether a summary says what its tree holds.

use super::{Place, Summary};
use std::ops::Range;

/// One block of a summary, to be compared with the keys between its ends.
pub struct AuditedBlock {
    /// A summary of this block alone.
    pub part: Summary,
    /// The first key that may lie in it.
    pub start: Vec<u8>,
    /// The first key behind it; `None` at the end of the tree.
    pub end: Option<Vec<u8>>,
}

/// Counts the keys of each range anew, see [`Summary::audit`].
pub struct Audit<'s> {
    summary: &'s Summary,
    place: Place,
    seen: u32,
    wrong: u64,
}

impl Audit<'_> {
    /// Sees the next key of the tree.
    pub fn see(&mut self, key: &[u8]) {
        while self.summary.ends_by(self.place, key) {
            self.end_range();
            self.place = self.summary.next(self.place);
        }
        self.seen += 1;
    }

    /// How many ranges do not have the number of entries that the summary says; `None` when it does not
    /// know them all.
    pub fn finish(mut self) -> Option<u64> {
        while !self.summary.is_last(self.place) {
            self.end_range();
            self.place = self.summary.next(self.place);
        }
        self.end_range();
        self.summary.is_complete().then_some(self.wrong)
    }

    fn end_range(&mut self) {
        self.wrong += u64::from(self.summary.count_at(self.place) != self.seen);
        self.seen = 0;
    }
}

impl Summary {
    /// The block that holds `key`; `None` while part of the tree is not known yet.
    pub fn audited_block(&self, key: &[u8]) -> Option<AuditedBlock> {
        if !self.is_complete() {
            return None;
        }
        let block = self.find(Place::FIRST, key).block;
        let start_of = |block: usize| self.start(Place { block, range: 0 }).to_vec();
        let only: Range<usize> = block..block + 1;
        Some(AuditedBlock {
            part: self.of_blocks(only),
            start: start_of(block),
            end: (block + 1 < self.blocks.len()).then(|| start_of(block + 1)),
        })
    }

    /// Compares the summary with its tree: to be shown all keys in order.
    pub fn audit(&self) -> Audit<'_> {
        Audit {
            summary: self,
            place: Place::FIRST,
            seen: 0,
            wrong: 0,
        }
    }
}
