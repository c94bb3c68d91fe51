//! The cache of ranges: what statements made of the entries of whole buckets, ready to use.
//!
//! What that is, its readers know ([`Cacheable`]): points for counts of areas, entries for searches for the nearest,
//! identifiers and documents for samples. A cached range belongs to a bucket of a rank index, which drops it with
//! the first change. Memory comes from the block cache's budget; when it is used up, a clock (second-chance
//! eviction) frees ranges that were not used since it passed them last.
//!
//! Admission: what a statement reads of whole buckets anyway is cached. Reading a whole bucket where less would do is
//! left to one statement in [`ADMITTED_SHARE`], so that what is asked for once costs little.
//!
//! Deliberately absent: reading the tree; deciding whether a cached range is what a snapshot sees (`index/cached`).

use crate::storage::{CacheBudget, CacheReservation};
use parking_lot::{MappedRwLockReadGuard, Mutex, RwLock, RwLockReadGuard};
use std::any::{Any, TypeId};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Weak};

/// One statement in so many reads whole buckets only to cache them.
const ADMITTED_SHARE: u32 = 4;
/// A bucket with more entries is not cached: it waits to be split.
pub const CACHED_ENTRIES_MAX: u32 = 1_024;
/// Nor is one of which more bytes would be.
pub const CACHED_BYTES_MAX: usize = 64 * 1024;
/// Cached ranges that are looked at to make room for one.
const LOOKED_AT_MAX: usize = 64;

/// What can be cached of a bucket's entries.
pub trait Cacheable: Any + Send + Sync {
    /// Bytes of memory, about.
    fn bytes(&self) -> usize;
}

/// What is cached of a bucket's entries, for as long as its memory is not wanted for others.
pub struct CachedRange {
    kind: TypeId,
    /// The rank index's number of changes at the state that is cached.
    changes: u64,
    held: RwLock<Option<(Arc<dyn Any + Send + Sync>, CacheReservation)>>,
    /// Whether it was used since the clock came by.
    is_used: AtomicBool,
}

impl CachedRange {
    /// Which type of contents it has.
    pub(super) fn kind(&self) -> TypeId {
        self.kind
    }

    /// The rank index's number of changes at the state that is cached.
    pub(super) fn changes(&self) -> u64 {
        self.changes
    }

    /// The contents, unless their memory was wanted for others.
    pub(super) fn contents<T: Cacheable>(&self) -> Option<Arc<T>> {
        let held = self.held.read().as_ref().map(|(held, _)| held.clone());
        self.note_use();
        held?.downcast().ok()
    }

    /// The contents for a short time: they are not evicted meanwhile.
    pub(super) fn borrow<T: Cacheable>(&self) -> Option<MappedRwLockReadGuard<'_, T>> {
        self.note_use();
        RwLockReadGuard::try_map(self.held.read(), |held| held.as_ref()?.0.downcast_ref()).ok()
    }

    fn note_use(&self) {
        if !self.is_used.load(Ordering::Relaxed) {
            self.is_used.store(true, Ordering::Relaxed);
        }
    }
}

impl std::fmt::Debug for CachedRange {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("CachedRange").finish_non_exhaustive()
    }
}

/// All cached ranges of all trees together.
pub struct RangeCache {
    budget: Arc<CacheBudget>,
    /// What the budget had reserved to others before, who keep it.
    reserved_before: usize,
    clock: Mutex<EvictionClock>,
    asked: AtomicU32,
}

/// The cached ranges in the order in which they are looked at to make room.
#[derive(Default)]
struct EvictionClock {
    ranges: VecDeque<Weak<CachedRange>>,
    /// Once there are so many, those whose bucket has changed are taken out.
    swept_at: usize,
}

impl EvictionClock {
    fn add(&mut self, range: &Arc<CachedRange>) {
        if self.ranges.len() >= self.swept_at {
            self.ranges.retain(|range| range.strong_count() > 0);
            self.swept_at = 2 * self.ranges.len() + LOOKED_AT_MAX;
        }
        self.ranges.push_back(Arc::downgrade(range));
    }
}

impl RangeCache {
    /// An empty one that takes its memory from here.
    pub fn new(budget: Arc<CacheBudget>) -> Self {
        Self {
            reserved_before: budget.reserved(),
            budget,
            clock: Mutex::default(),
            asked: AtomicU32::new(0),
        }
    }

    /// Whether the statement that asks is to read whole buckets, of so many bytes in all, only to cache them.
    pub fn admits(&self, bytes: u64) -> bool {
        let fits = bytes <= self.bytes_max();
        fits && self
            .asked
            .fetch_add(1, Ordering::Relaxed)
            .is_multiple_of(ADMITTED_SHARE)
    }

    /// Whether so many bytes more fit without others making room.
    pub fn has_room(&self, bytes: u64) -> bool {
        self.bytes() as u64 + bytes <= self.bytes_max()
    }

    /// A cached range of these contents, as they are after so many changes of their rank index; `None` when there is no
    /// room for it.
    pub(super) fn add<T: Cacheable>(
        &self,
        contents: Arc<T>,
        changes: u64,
    ) -> Option<Arc<CachedRange>> {
        let bytes = contents.bytes();
        if bytes > CACHED_BYTES_MAX {
            return None;
        }
        let mut clock = self.clock.lock();
        let reservation = self.reserve(bytes + size_of::<CachedRange>(), &mut clock)?;
        let range = Arc::new(CachedRange {
            kind: TypeId::of::<T>(),
            changes,
            held: RwLock::new(Some((contents, reservation))),
            is_used: AtomicBool::new(false),
        });
        clock.add(&range);
        Some(range)
    }

    /// Bytes of memory of all cached ranges.
    pub fn bytes(&self) -> usize {
        self.budget.reserved().saturating_sub(self.reserved_before)
    }

    /// They never take more.
    fn bytes_max(&self) -> u64 {
        self.budget
            .reserved_max()
            .saturating_sub(self.reserved_before) as u64
    }

    fn reserve(&self, bytes: usize, clock: &mut EvictionClock) -> Option<CacheReservation> {
        for _ in 0..LOOKED_AT_MAX {
            if let Some(reservation) = self.budget.reserve(bytes) {
                return Some(reservation);
            }
            let Some(range) = clock.ranges.pop_front()?.upgrade() else {
                continue;
            };
            let was_used = range.is_used.swap(false, Ordering::Relaxed);
            match range.held.try_write().filter(|_| !was_used) {
                // Given back outside of the cached range's lock.
                Some(mut held) => {
                    let gone = held.take();
                    drop(held);
                    drop(gone);
                }
                None => clock.ranges.push_back(Arc::downgrade(&range)),
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::Store;

    struct Bytes(usize);

    impl Cacheable for Bytes {
        fn bytes(&self) -> usize {
            self.0
        }
    }

    fn cache() -> RangeCache {
        RangeCache::new(Store::in_memory().cache_budget())
    }

    fn add(cache: &RangeCache, bytes: usize) -> Arc<CachedRange> {
        let added = cache.add(Arc::new(Bytes(bytes)), 0);
        added.expect("others make room")
    }

    #[test]
    fn what_is_used_stays_and_the_rest_makes_room() {
        let cache = cache();
        let (used, borrowed) = (add(&cache, 1_000), add(&cache, 1_001));
        let reserved = borrowed.borrow::<Bytes>();
        let is_cached = |range: &CachedRange| range.held.read().is_some();
        let mut others = Vec::new();
        while others.first().is_none_or(|first: &Arc<_>| is_cached(first)) {
            assert!(used.contents::<Bytes>().is_some());
            others.push(add(&cache, CACHED_BYTES_MAX));
            assert!(others.len() < 1_000_000, "the memory has no end");
        }
        assert!(used.contents::<Bytes>().is_some() && is_cached(&borrowed));
        assert_eq!(reserved.map(|reserved| reserved.0), Some(1_001));
        let cached = others.iter().filter(|range| is_cached(range));
        assert!(cached.count() > others.len() / 2);
        let bytes = cache.bytes();
        drop(others);
        assert!(cache.bytes() < bytes);
        drop((used, borrowed));
        assert_eq!(cache.bytes(), 0);
    }

    #[test]
    fn what_is_large_or_of_another_type_is_not_found() {
        let cache = cache();
        assert!(
            cache
                .add(Arc::new(Bytes(CACHED_BYTES_MAX + 1)), 0)
                .is_none()
        );
        struct Other;
        impl Cacheable for Other {
            fn bytes(&self) -> usize {
                0
            }
        }
        let range = add(&cache, CACHED_BYTES_MAX);
        assert!(range.contents::<Other>().is_none() && range.borrow::<Other>().is_none());
        assert!(range.contents::<Bytes>().is_some() && range.borrow::<Bytes>().is_some());
    }

    #[test]
    fn ranges_whose_buckets_have_changed_do_not_gather() {
        let cache = cache();
        for _ in 0..10_000 {
            drop(add(&cache, 1));
        }
        assert!(cache.clock.lock().ranges.len() <= 2 * LOOKED_AT_MAX);
        assert_eq!(cache.bytes(), 0);
    }
}
