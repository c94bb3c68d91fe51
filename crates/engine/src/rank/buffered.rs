//! A rank index with a delta buffer for new keys.
//!
//! Merging a key costs cache misses on the way to its bucket, and neighbours share that way. So a commit appends its keys
//! to the delta buffer. They are merged in order when there are many, by the background thread, or before the
//! rank index is read: a reader sees all of them.

use super::index::{DeltaBuffer, RankIndex};
use parking_lot::{Mutex, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::collections::VecDeque;

/// Keys are merged when there are so many, about two milliseconds' work: many fall into one range then, or
/// next to one another.
const KEYS_MAX: usize = 16_384;
/// ... or so many bytes of them.
const BYTES_MAX: usize = 2 * 1024 * 1024;
/// A writer merges its keys itself when so many times as many wait to be merged.
const FULL_MAX: usize = 4;

/// A rank index, and keys that are still to be merged in it.
pub(super) struct BufferedRankIndex {
    /// Locked before what waits.
    ranks: RwLock<RankIndex>,
    /// Writers add to it while nobody looks.
    waiting: Mutex<PendingKeys>,
}

/// Keys that are to be merged. Who takes some away holds the rank index to change it: who holds the rank index
/// finds every key either here or in it.
#[derive(Default)]
struct PendingKeys {
    arrived: DeltaBuffer,
    /// Enough each time to be merged together.
    full: VecDeque<DeltaBuffer>,
    /// Placed keys, for their memory.
    placed: Option<DeltaBuffer>,
}

impl PendingKeys {
    fn is_empty(&self) -> bool {
        self.arrived.keys() == 0 && self.full.is_empty()
    }

    fn merge_all(&mut self, ranks: &mut RankIndex) {
        let arrived = std::mem::take(&mut self.arrived);
        for keys in self.full.drain(..).chain([arrived]) {
            ranks.merge_delta(&keys);
        }
    }
}

impl BufferedRankIndex {
    /// A rank index to which nothing is to be added.
    pub fn new(ranks: RankIndex) -> Self {
        Self {
            ranks: RwLock::new(ranks),
            waiting: Mutex::default(),
        }
    }

    /// Notes keys that came, each of them new; whether there are now enough for [`Self::merge_full`].
    pub fn add<'k>(&self, keys: impl IntoIterator<Item = &'k [u8]>) -> bool {
        let mut waiting = self.waiting.lock();
        let arrived = &mut waiting.arrived;
        keys.into_iter().for_each(|key| arrived.push(key));
        if arrived.keys() < KEYS_MAX && arrived.bytes() < BYTES_MAX {
            return false;
        }
        let next = waiting.placed.take().unwrap_or_default();
        let full = std::mem::replace(&mut waiting.arrived, next);
        waiting.full.push_back(full);
        let are_too_many = waiting.full.len() > FULL_MAX;
        drop(waiting);
        if are_too_many {
            drop(self.change());
        }
        !are_too_many
    }

    /// Places keys that are enough to be merged together; false when there were not so many. Writers go on
    /// meanwhile.
    pub fn merge_full(&self) -> bool {
        let mut ranks = self.ranks.write();
        let Some(mut keys) = self.waiting.lock().full.pop_front() else {
            return false;
        };
        ranks.merge_delta(&keys);
        drop(ranks);
        if keys.keys() < 2 * KEYS_MAX && keys.bytes() < 2 * BYTES_MAX {
            keys.clear();
            self.waiting.lock().placed = Some(keys);
        }
        true
    }

    /// The rank index with all keys, to be asked. While it is held no keys come.
    pub fn read(&self) -> RwLockReadGuard<'_, RankIndex> {
        let is_placed = self.waiting.lock().is_empty();
        if !is_placed {
            drop(self.change());
        }
        // Who looks may look twice.
        self.ranks.read_recursive()
    }

    /// The rank index with all keys, to be changed.
    pub fn change(&self) -> RwLockWriteGuard<'_, RankIndex> {
        let mut ranks = self.ranks.write();
        self.waiting.lock().merge_all(&mut ranks);
        ranks
    }

    /// The rank index with those keys that are merged, for what does not depend on the others.
    pub fn as_merged(&self) -> RwLockWriteGuard<'_, RankIndex> {
        self.ranks.write()
    }

    /// Whether the rank index has something to build or to split now; false while keys are being merged.
    pub fn wants_rebuild(&self) -> bool {
        let ranks = self.ranks.try_read();
        ranks.is_some_and(|ranks| ranks.wants_rebuild())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{Rng, SeedableRng};
    use rand_chacha::ChaCha8Rng;
    use std::sync::atomic::{AtomicBool, Ordering};

    /// Whoever looks sees what came so far, wherever the keys are.
    #[test]
    fn what_is_put_aside_is_seen() {
        for seed in 0..4 {
            println!("seed {seed}");
            let mut random = ChaCha8Rng::seed_from_u64(seed);
            let (deferred, mut plain) = (
                BufferedRankIndex::new(RankIndex::empty()),
                RankIndex::empty(),
            );
            let mut all = Vec::new();
            for commit in 0..200 {
                let size = if commit % 50 == 0 { KEYS_MAX } else { 500 };
                let mut keys: Vec<[u8; 12]> = (0..size).map(|_| random.random()).collect();
                keys.sort_unstable();
                deferred.add(keys.iter().map(|key| &key[..]));
                plain.add(keys.iter().map(|key| &key[..]));
                all.extend(keys);
                match random.random_range(0..10) {
                    2 => _ = deferred.merge_full(),
                    0 => assert_eq!(deferred.read().entries(), all.len() as u64),
                    1 => {
                        let gone = all.swap_remove(random.random_range(0..all.len()));
                        assert!(deferred.change().remove([&gone[..]]));
                        assert!(plain.remove([&gone[..]]));
                    }
                    _ => assert!(deferred.as_merged().entries() <= all.len() as u64),
                }
            }
            let count = |ranks: &RankIndex, start: &[u8]| {
                ranks.count(start, None, &mut |piece| {
                    assert!(piece.bucket.entries() as usize <= all.len());
                })
            };
            for start in (0..=255_u8).map(|first| [first]) {
                assert_eq!(count(&deferred.read(), &start), count(&plain, &start));
            }
        }
    }

    /// Keys are not in the delta buffer without end.
    #[test]
    fn many_keys_are_placed_though_nobody_looks() {
        let deferred = BufferedRankIndex::new(RankIndex::empty());
        let all = (10 * FULL_MAX + 2) * KEYS_MAX;
        for first in (0..all).step_by(1_024) {
            let keys: Vec<[u8; 8]> = (first..first + 1_024).map(usize::to_be_bytes).collect();
            deferred.add(keys.iter().map(|key| &key[..]));
        }
        let placed = deferred.as_merged().entries() as usize;
        assert!(
            (all - (FULL_MAX + 1) * KEYS_MAX..all).contains(&placed),
            "{placed}"
        );
        let long = vec![7; BYTES_MAX];
        assert!(deferred.add([&long[..]]), "enough to be placed");
        while deferred.merge_full() {}
        assert_eq!(deferred.as_merged().entries() as usize, all + 1);
    }

    /// Whoever looks sees all keys while others are being merged.
    #[test]
    fn keys_in_the_hands_of_the_placing_thread_are_seen() {
        let deferred = BufferedRankIndex::new(RankIndex::empty());
        let is_done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let place = || {
                while !is_done.load(Ordering::Acquire) {
                    deferred.merge_full();
                }
            };
            scope.spawn(place);
            let mut all = 0_u64;
            for commit in 0..400 {
                let keys: Vec<[u8; 8]> = (all..all + 1_500)
                    .map(|number| number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes())
                    .collect();
                deferred.add(keys.iter().map(|key| &key[..]));
                all += 1_500;
                if commit % 11 == 0 {
                    let seen = deferred.read().entries();
                    assert_eq!((seen, deferred.read().entries()), (all, all));
                }
            }
            is_done.store(true, Ordering::Release);
        });
    }
}
