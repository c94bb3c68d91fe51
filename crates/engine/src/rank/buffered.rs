//! A summary to which new keys are added many at a time.
//!
//! What it costs to place a key is mostly the memory that has to be fetched on the way to its range, and
//! neighbours share that way. So a writer puts keys aside here, and they are placed in order when there
//! are many, by the thread that keeps summaries fine, or when somebody looks: whoever looks sees all of them.

use crate::index::summary::{Arrived, Summary};
use parking_lot::{Mutex, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::collections::VecDeque;

/// Keys are placed when there are so many, about two milliseconds' work: many fall into one range then, or
/// next to one another.
const KEYS_MAX: usize = 16_384;
/// ... or so many bytes of them.
const BYTES_MAX: usize = 2 * 1024 * 1024;
/// A writer places its keys itself when so many times as many wait to be placed.
const FULL_MAX: usize = 4;

/// A summary, and keys that are still to be placed in it.
pub(super) struct Deferred {
    /// Locked before what waits.
    summary: RwLock<Summary>,
    /// Writers add to it while nobody looks.
    waiting: Mutex<Waiting>,
}

/// Keys that are to be placed. Who takes some away holds the summary to change it: who holds the summary
/// finds every key either here or in it.
#[derive(Default)]
struct Waiting {
    arrived: Arrived,
    /// Enough each time to be placed together.
    full: VecDeque<Arrived>,
    /// Placed keys, for their memory.
    placed: Option<Arrived>,
}

impl Waiting {
    fn is_empty(&self) -> bool {
        self.arrived.keys() == 0 && self.full.is_empty()
    }

    fn place_all(&mut self, summary: &mut Summary) {
        let arrived = std::mem::take(&mut self.arrived);
        for keys in self.full.drain(..).chain([arrived]) {
            summary.add_arrived(&keys);
        }
    }
}

impl Deferred {
    /// A summary to which nothing is to be added.
    pub fn new(summary: Summary) -> Self {
        Self {
            summary: RwLock::new(summary),
            waiting: Mutex::default(),
        }
    }

    /// Notes keys that came, each of them new; whether there are now enough for [`Self::place_full`].
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

    /// Places keys that are enough to be placed together; false when there were not so many. Writers go on
    /// meanwhile.
    pub fn place_full(&self) -> bool {
        let mut summary = self.summary.write();
        let Some(mut keys) = self.waiting.lock().full.pop_front() else {
            return false;
        };
        summary.add_arrived(&keys);
        drop(summary);
        if keys.keys() < 2 * KEYS_MAX && keys.bytes() < 2 * BYTES_MAX {
            keys.clear();
            self.waiting.lock().placed = Some(keys);
        }
        true
    }

    /// The summary with all keys, to be asked. While it is held no keys come.
    pub fn read(&self) -> RwLockReadGuard<'_, Summary> {
        let is_placed = self.waiting.lock().is_empty();
        if !is_placed {
            drop(self.change());
        }
        // Who looks may look twice.
        self.summary.read_recursive()
    }

    /// The summary with all keys, to be changed.
    pub fn change(&self) -> RwLockWriteGuard<'_, Summary> {
        let mut summary = self.summary.write();
        self.waiting.lock().place_all(&mut summary);
        summary
    }

    /// The summary with those keys that are placed, for what does not depend on the others.
    pub fn as_placed(&self) -> RwLockWriteGuard<'_, Summary> {
        self.summary.write()
    }

    /// Whether the summary has something to learn or to cut now; false while keys are being placed.
    pub fn wants_recount(&self) -> bool {
        let summary = self.summary.try_read();
        summary.is_some_and(|summary| summary.wants_recount())
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
            let (deferred, mut plain) = (Deferred::new(Summary::empty()), Summary::empty());
            let mut all = Vec::new();
            for commit in 0..200 {
                let size = if commit % 50 == 0 { KEYS_MAX } else { 500 };
                let mut keys: Vec<[u8; 12]> = (0..size).map(|_| random.random()).collect();
                keys.sort_unstable();
                deferred.add(keys.iter().map(|key| &key[..]));
                plain.add(keys.iter().map(|key| &key[..]));
                all.extend(keys);
                match random.random_range(0..10) {
                    2 => _ = deferred.place_full(),
                    0 => assert_eq!(deferred.read().entries(), all.len() as u64),
                    1 => {
                        let gone = all.swap_remove(random.random_range(0..all.len()));
                        assert!(deferred.change().remove([&gone[..]]));
                        assert!(plain.remove([&gone[..]]));
                    }
                    _ => assert!(deferred.as_placed().entries() <= all.len() as u64),
                }
            }
            let count = |summary: &Summary, start: &[u8]| {
                summary.count(start, None, &mut |piece| {
                    assert!(piece.range.entries() as usize <= all.len());
                })
            };
            for start in (0..=255_u8).map(|first| [first]) {
                assert_eq!(count(&deferred.read(), &start), count(&plain, &start));
            }
        }
    }

    /// Keys are not put aside without end.
    #[test]
    fn many_keys_are_placed_though_nobody_looks() {
        let deferred = Deferred::new(Summary::empty());
        let all = (10 * FULL_MAX + 2) * KEYS_MAX;
        for first in (0..all).step_by(1_024) {
            let keys: Vec<[u8; 8]> = (first..first + 1_024).map(usize::to_be_bytes).collect();
            deferred.add(keys.iter().map(|key| &key[..]));
        }
        let placed = deferred.as_placed().entries() as usize;
        assert!(
            (all - (FULL_MAX + 1) * KEYS_MAX..all).contains(&placed),
            "{placed}"
        );
        let long = vec![7; BYTES_MAX];
        assert!(deferred.add([&long[..]]), "enough to be placed");
        while deferred.place_full() {}
        assert_eq!(deferred.as_placed().entries() as usize, all + 1);
    }

    /// Whoever looks sees all keys while others are being placed.
    #[test]
    fn keys_in_the_hands_of_the_placing_thread_are_seen() {
        let deferred = Deferred::new(Summary::empty());
        let is_done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let place = || {
                while !is_done.load(Ordering::Acquire) {
                    deferred.place_full();
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
