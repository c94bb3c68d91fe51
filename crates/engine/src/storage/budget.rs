//! Memory of the block cache that is reserved for what is cached beside it.
//!
//! Entries that are kept in memory ready to use take the place of blocks: the cache shrinks by what is
//! reserved, so that `cache_bytes` bounds both together.

use parking_lot::Mutex;
use rocksdb::Cache;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Part of the cache that is reserved at most: this share of it.
const RESERVED_SHARE: usize = 4;
/// The cache is told when what is reserved has changed by about so much.
const STEP_BYTES: usize = 1 << 20;

/// What the cache lends.
pub struct CacheBudget {
    total: usize,
    reserved: AtomicUsize,
    /// The cache that shrinks, if there is one.
    cache: Option<Mutex<Cache>>,
}

/// Bytes that were reserved; dropping it gives them back.
pub struct CacheReservation {
    room: Arc<CacheBudget>,
    bytes: usize,
}

impl CacheBudget {
    pub(super) fn new(total: usize, cache: Option<Cache>) -> Arc<Self> {
        Arc::new(Self {
            total,
            reserved: AtomicUsize::new(0),
            cache: cache.map(Mutex::new),
        })
    }

    /// Reserves so many bytes; `None` when too many are reserved already.
    pub fn reserve(self: &Arc<Self>, bytes: usize) -> Option<CacheReservation> {
        let add = |reserved: usize| {
            let reserved = reserved.checked_add(bytes)?;
            (reserved <= self.reserved_max()).then_some(reserved)
        };
        let order = Ordering::Relaxed;
        let before = self.reserved.fetch_update(order, order, add).ok()?;
        self.adjust(before, before + bytes);
        Some(CacheReservation {
            room: self.clone(),
            bytes,
        })
    }

    /// Bytes that are reserved at most.
    pub fn reserved_max(&self) -> usize {
        self.total / RESERVED_SHARE
    }

    /// Bytes that are reserved.
    pub fn reserved(&self) -> usize {
        self.reserved.load(Ordering::Relaxed)
    }

    fn adjust(&self, before: usize, after: usize) {
        if let (Some(cache), true) = (&self.cache, before / STEP_BYTES != after / STEP_BYTES) {
            let mut cache = cache.lock();
            // Whoever comes last sets what is true then.
            cache.set_capacity(self.total - self.reserved());
        }
    }
}

impl Drop for CacheReservation {
    fn drop(&mut self) {
        let before = self.room.reserved.fetch_sub(self.bytes, Ordering::Relaxed);
        self.room.adjust(before, before - self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::{Family, Order, Store, StoreOptions};
    use rand::{RngCore, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    #[test]
    fn a_quarter_is_lent_and_comes_back() {
        let room = CacheBudget::new(400, None);
        let first = room.reserve(60).expect("there is room");
        assert!(room.reserve(41).is_none());
        let second = room.reserve(40).expect("exactly so much is left");
        assert_eq!(room.reserved(), 100);
        drop(first);
        assert_eq!(room.reserved(), 40);
        drop(second);
        assert!(room.reserve(usize::MAX).is_none());
        assert!(room.reserve(100).is_some());
    }

    /// What a store has in its cache once everything was read from it.
    fn bytes_used(store: &Store) -> u64 {
        let snapshot = store.snapshot();
        let (start, end) = ([0, 0, 0, 1], [0, 0, 0, 2]);
        let mut scan = snapshot.scan(Family::Documents, &start, &end, Order::Forward);
        while scan.advance().expect("the files can be read") {}
        let figures = store.statistics();
        let used = figures.iter().find(|(name, _)| *name == "cacheBytesUsed");
        used.expect("the store tells it").1
    }

    #[test]
    fn the_cache_shrinks_by_what_is_lent() {
        const MEBIBYTE: u64 = 1 << 20;
        let directory = tempfile::tempdir().expect("a directory");
        let options = StoreOptions {
            master_key: None,
            cache_bytes: 64 * MEBIBYTE,
            journal: false,
        };
        let store = Store::open(directory.path(), &options).expect("a new store");
        let mut random = ChaCha8Rng::seed_from_u64(1);
        for part in 0..100_u32 {
            let mut batch = store.batch();
            for number in 0..100 {
                let mut value = [0; 8 * 1024];
                random.fill_bytes(&mut value);
                let key = [1, 100 * part + number].map(u32::to_be_bytes).concat();
                batch.put(Family::Documents, &key, &value);
            }
            store.write(batch).expect("there is room on the disk");
        }
        store.flush().expect("there is room on the disk");
        assert!(bytes_used(&store) > 56 * MEBIBYTE);
        // Of the quarter, rows have an eighth.
        let reservation = store.cache_budget().reserve(14 << 20).expect("a quarter");
        assert!(bytes_used(&store) < 52 * MEBIBYTE);
        drop(reservation);
        assert!(bytes_used(&store) > 56 * MEBIBYTE);
    }
}
