//! How often statements used an index, for `$indexStats`.

use bson::DateTime;
use std::sync::atomic::{AtomicI64, Ordering};

/// The uses of one index. In memory only: as in MongoDB a start begins anew, and so does a `collMod` of the index.
#[derive(Debug)]
pub struct Accesses {
    operations: AtomicI64,
    since: DateTime,
}

impl Default for Accesses {
    fn default() -> Self {
        Self {
            operations: AtomicI64::default(),
            since: DateTime::now(),
        }
    }
}

impl Accesses {
    /// Counts a statement, however many entries it reads.
    pub fn add(&self) {
        self.operations.fetch_add(1, Ordering::Relaxed);
    }

    /// Statements so far.
    pub fn operations(&self) -> i64 {
        self.operations.load(Ordering::Relaxed)
    }

    /// Since when they are counted: the creation of the index, the latest change to it, or the start.
    pub fn since(&self) -> DateTime {
        self.since
    }
}
