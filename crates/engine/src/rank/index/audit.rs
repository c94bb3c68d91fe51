//! Whether a rank index says what its tree holds.

use super::{BucketPosition, RankIndex};
use std::ops::Range;

/// One leaf of a rank index, to be compared with the keys between its ends.
pub struct AuditedLeaf {
    /// A rank index of this leaf alone.
    pub part: RankIndex,
    /// The first key that may lie in it.
    pub start: Vec<u8>,
    /// The first key behind it; `None` at the end of the tree.
    pub end: Option<Vec<u8>>,
}

/// Counts the keys of each bucket anew, see [`RankIndex::audit`].
pub struct Audit<'s> {
    ranks: &'s RankIndex,
    place: BucketPosition,
    seen: u32,
    wrong: u64,
}

impl Audit<'_> {
    /// Sees the next key of the tree.
    pub fn see(&mut self, key: &[u8]) {
        while self.ranks.ends_by(self.place, key) {
            self.end_range();
            self.place = self.ranks.next(self.place);
        }
        self.seen += 1;
    }

    /// How many buckets do not have the number of entries that the rank index says; `None` when it does not
    /// know them all.
    pub fn finish(mut self) -> Option<u64> {
        while !self.ranks.is_last(self.place) {
            self.end_range();
            self.place = self.ranks.next(self.place);
        }
        self.end_range();
        self.ranks.is_complete().then_some(self.wrong)
    }

    fn end_range(&mut self) {
        self.wrong += u64::from(self.ranks.count_at(self.place) != self.seen);
        self.seen = 0;
    }
}

impl RankIndex {
    /// The leaf that holds `key`; `None` while part of the tree is not built yet.
    pub fn audited_leaf(&self, key: &[u8]) -> Option<AuditedLeaf> {
        if !self.is_complete() {
            return None;
        }
        let leaf = self.find(BucketPosition::FIRST, key).leaf;
        let start_of = |leaf: usize| self.start(BucketPosition { leaf, bucket: 0 }).to_vec();
        let only: Range<usize> = leaf..leaf + 1;
        Some(AuditedLeaf {
            part: self.of_leaves(only),
            start: start_of(leaf),
            end: (leaf + 1 < self.leaves.len()).then(|| start_of(leaf + 1)),
        })
    }

    /// Compares the rank index with its tree: to be shown all keys in order.
    pub fn audit(&self) -> Audit<'_> {
        Audit {
            ranks: self,
            place: BucketPosition::FIRST,
            seen: 0,
            wrong: 0,
        }
    }
}
