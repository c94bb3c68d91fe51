//! How often statements named each operator and stage since the process began.

use ahash::RandomState;
use std::collections::HashMap;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// A count for each of the names that there are.
pub struct NameCounts {
    names: fn() -> Vec<&'static str>,
    counts: OnceLock<HashMap<&'static str, AtomicU64, RandomState>>,
}

impl NameCounts {
    /// Of these names.
    pub const fn of(names: fn() -> Vec<&'static str>) -> Self {
        Self {
            names,
            counts: OnceLock::new(),
        }
    }

    fn counts(&self) -> &HashMap<&'static str, AtomicU64, RandomState> {
        let zeros = || {
            (self.names)()
                .into_iter()
                .map(|name| (name, AtomicU64::new(0)))
        };
        self.counts.get_or_init(|| zeros().collect())
    }

    /// Counts a name, if it is one of them.
    pub fn add(&self, name: &str) {
        if let Some(count) = self.counts().get(name) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Whether a name is one of them.
    pub fn has(&self, name: &str) -> bool {
        self.counts().contains_key(name)
    }

    /// All names with their counts, sorted.
    pub fn all(&self) -> Vec<(&'static str, u64)> {
        let counts = self.counts().iter();
        let mut all: Vec<_> = counts
            .map(|(name, count)| (*name, count.load(Ordering::Relaxed)))
            .collect();
        all.sort_unstable();
        all
    }
}
