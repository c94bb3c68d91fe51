//! A rank index with a delta buffer for new keys.
//!
//! Merging a key costs cache misses on the way to its bucket, and neighbours share that way. So a commit appends its keys
//! to the delta buffer. They are merged in order when there are many, by the background thread, or before the
//! rank index is read: a reader sees all of them.

use super::index::{DeltaBuffer, RankIndex};
use parking_lot::{MappedRwLockWriteGuard, Mutex, RwLock, RwLockWriteGuard};
use std::collections::VecDeque;
use std::sync::Arc;

/// Keys are merged when there are so many, about two milliseconds' work: many fall into one range then, or
/// next to one another.
const KEYS_MAX: usize = 16_384;
/// ... or so many bytes of them.
const BYTES_MAX: usize = 2 * 1024 * 1024;
/// A writer merges its keys itself when so many times as many wait to be merged.
const FULL_MAX: usize = 4;

/// A rank index, and keys that are still to be merged into it.
pub(super) struct BufferedRankIndex {
    /// Locked before the delta buffer. Shared with read views; a change copies it while one of them holds it (its leaves
    /// are shared on).
    index: RwLock<Arc<RankIndex>>,
    /// Writers append to it while nobody reads.
    pending: Mutex<PendingKeys>,
}

/// Keys that are to be merged. Whoever takes some away holds the rank index to change it: whoever holds the rank index
/// finds every key either here or in it.
#[derive(Default)]
struct PendingKeys {
    delta: DeltaBuffer,
    /// Full ones.
    full: VecDeque<DeltaBuffer>,
    /// One that was merged, for its memory.
    merged: Option<DeltaBuffer>,
}

impl PendingKeys {
    fn is_empty(&self) -> bool {
        self.delta.keys() == 0 && self.full.is_empty()
    }

    fn merge_all(&mut self, index: &mut RankIndex) {
        let delta = std::mem::take(&mut self.delta);
        for keys in self.full.drain(..).chain([delta]) {
            index.merge_delta(&keys);
        }
    }
}

impl BufferedRankIndex {
    /// A rank index to which nothing is to be added.
    pub fn new(index: RankIndex) -> Self {
        Self {
            index: RwLock::new(Arc::new(index)),
            pending: Mutex::default(),
        }
    }

    /// Appends new keys; whether there are now enough for [`Self::merge_full`].
    pub fn add<'k>(&self, keys: impl IntoIterator<Item = &'k [u8]>) -> bool {
        let mut pending = self.pending.lock();
        let delta = &mut pending.delta;
        keys.into_iter().for_each(|key| delta.push(key));
        if delta.keys() < KEYS_MAX && delta.bytes() < BYTES_MAX {
            return false;
        }
        let next = pending.merged.take().unwrap_or_default();
        let full = std::mem::replace(&mut pending.delta, next);
        pending.full.push_back(full);
        let are_too_many = pending.full.len() > FULL_MAX;
        drop(pending);
        if are_too_many {
            drop(self.change());
        }
        !are_too_many
    }

    /// Merges one full delta buffer; false when there was none. Commits go on meanwhile.
    pub fn merge_full(&self) -> bool {
        let mut index = self.as_merged();
        let Some(mut keys) = self.pending.lock().full.pop_front() else {
            return false;
        };
        index.merge_delta(&keys);
        drop(index);
        if keys.keys() < 2 * KEYS_MAX && keys.bytes() < 2 * BYTES_MAX {
            keys.clear();
            self.pending.lock().merged = Some(keys);
        }
        true
    }

    /// The rank index with all keys, as it is now.
    pub fn read(&self) -> Arc<RankIndex> {
        let is_merged = self.pending.lock().is_empty();
        if !is_merged {
            drop(self.change());
        }
        self.merged()
    }

    /// The rank index with those keys that are merged, for what does not depend on the others.
    pub fn merged(&self) -> Arc<RankIndex> {
        self.index.read().clone()
    }

    /// The rank index with all keys, to be changed.
    pub fn change(&self) -> MappedRwLockWriteGuard<'_, RankIndex> {
        let mut index = self.as_merged();
        self.pending.lock().merge_all(&mut index);
        index
    }

    /// The rank index with those keys that are merged, to be changed in what does not depend on the others.
    pub fn as_merged(&self) -> MappedRwLockWriteGuard<'_, RankIndex> {
        RwLockWriteGuard::map(self.index.write(), Arc::make_mut)
    }

    /// Whether the rank index has something to build or to split now; false while keys are being merged.
    pub fn wants_rebuild(&self) -> bool {
        let index = self.index.try_read();
        index.is_some_and(|index| index.wants_rebuild())
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
            let (buffered, mut plain) = (
                BufferedRankIndex::new(RankIndex::empty()),
                RankIndex::empty(),
            );
            let mut all = Vec::new();
            for commit in 0..200 {
                let size = if commit % 50 == 0 { KEYS_MAX } else { 500 };
                let mut keys: Vec<[u8; 12]> = (0..size).map(|_| random.random()).collect();
                keys.sort_unstable();
                buffered.add(keys.iter().map(|key| &key[..]));
                plain.add(keys.iter().map(|key| &key[..]));
                all.extend(keys);
                match random.random_range(0..10) {
                    2 => _ = buffered.merge_full(),
                    0 => assert_eq!(buffered.read().entries(), all.len() as u64),
                    1 => {
                        let gone = all.swap_remove(random.random_range(0..all.len()));
                        assert!(buffered.change().remove([&gone[..]]));
                        assert!(plain.remove([&gone[..]]));
                    }
                    _ => assert!(buffered.as_merged().entries() <= all.len() as u64),
                }
            }
            let count = |ranks: &RankIndex, start: &[u8]| {
                ranks.count(start, None, &mut |partial| {
                    assert!(partial.bucket.entries() as usize <= all.len());
                })
            };
            for start in (0..=255_u8).map(|first| [first]) {
                assert_eq!(count(&buffered.read(), &start), count(&plain, &start));
            }
        }
    }

    /// Keys are not in the delta buffer without end.
    #[test]
    fn many_keys_are_placed_though_nobody_looks() {
        let buffered = BufferedRankIndex::new(RankIndex::empty());
        let all = (10 * FULL_MAX + 2) * KEYS_MAX;
        for first in (0..all).step_by(1_024) {
            let keys: Vec<[u8; 8]> = (first..first + 1_024).map(usize::to_be_bytes).collect();
            buffered.add(keys.iter().map(|key| &key[..]));
        }
        let placed = buffered.as_merged().entries() as usize;
        assert!(
            (all - (FULL_MAX + 1) * KEYS_MAX..all).contains(&placed),
            "{placed}"
        );
        let long = vec![7; BYTES_MAX];
        assert!(buffered.add([&long[..]]), "enough to be placed");
        while buffered.merge_full() {}
        assert_eq!(buffered.as_merged().entries() as usize, all + 1);
    }

    /// Whoever looks sees all keys while others are being merged.
    #[test]
    fn keys_in_the_hands_of_the_placing_thread_are_seen() {
        let buffered = BufferedRankIndex::new(RankIndex::empty());
        let is_done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let place = || {
                while !is_done.load(Ordering::Acquire) {
                    buffered.merge_full();
                }
            };
            scope.spawn(place);
            let mut all = 0_u64;
            for commit in 0..400 {
                let keys: Vec<[u8; 8]> = (all..all + 1_500)
                    .map(|number| number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes())
                    .collect();
                buffered.add(keys.iter().map(|key| &key[..]));
                all += 1_500;
                if commit % 11 == 0 {
                    let seen = buffered.read().entries();
                    assert_eq!((seen, buffered.read().entries()), (all, all));
                }
            }
            is_done.store(true, Ordering::Release);
        });
    }
}
