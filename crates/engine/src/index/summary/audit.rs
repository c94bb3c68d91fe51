//! Whether a summary says what its tree holds.

use super::{Place, Summary};

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
