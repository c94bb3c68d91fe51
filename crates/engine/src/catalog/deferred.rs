//! A summary to which new keys are added many at a time.
//!
//! What it costs to place a key is mostly the memory that has to be fetched on the way to its range, and
//! neighbours share that way. So a writer puts keys aside here, and they are placed in order when there
//! are many or when somebody looks: whoever looks sees all of them.

use crate::index::summary::{Arrived, Summary};
use parking_lot::{Mutex, RwLock, RwLockReadGuard};

/// Keys are placed when there are so many, about two milliseconds' work: many fall into one range then, or
/// next to one another.
const KEYS_MAX: usize = 16_384;
/// ... or so many bytes of them.
const BYTES_MAX: usize = 2 * 1024 * 1024;

/// A summary, and keys that are still to be placed in it.
pub(super) struct Deferred {
    summary: RwLock<Summary>,
    /// Locked before the summary. While there are some nobody holds that: they come with a `&mut`, and
    /// who looks places them first.
    arrived: Mutex<Arrived>,
}

impl Deferred {
    /// A summary to which nothing is to be added.
    pub fn new(summary: Summary) -> Self {
        Self {
            summary: RwLock::new(summary),
            arrived: Mutex::default(),
        }
    }

    /// Notes keys that came, each of them new.
    pub fn add<'k>(&mut self, keys: impl IntoIterator<Item = &'k [u8]>) {
        let arrived = self.arrived.get_mut();
        keys.into_iter().for_each(|key| arrived.push(key));
        if arrived.keys() >= KEYS_MAX || arrived.bytes() >= BYTES_MAX {
            self.summary.get_mut().add_arrived(arrived);
            let is_usual = arrived.keys() < 2 * KEYS_MAX && arrived.bytes() < 2 * BYTES_MAX;
            if is_usual {
                arrived.clear();
            } else {
                *arrived = Arrived::default();
            }
        }
    }

    /// The summary with all keys, to be asked.
    pub fn read(&self) -> RwLockReadGuard<'_, Summary> {
        let mut arrived = self.arrived.lock();
        if arrived.keys() > 0 {
            self.summary.write().add_arrived(&mut arrived);
            *arrived = Arrived::default();
        }
        drop(arrived);
        // Who looks may look twice.
        self.summary.read_recursive()
    }

    /// The summary with all keys, to be changed.
    pub fn get_mut(&mut self) -> &mut Summary {
        let summary = self.summary.get_mut();
        summary.add_arrived(&mut std::mem::take(self.arrived.get_mut()));
        summary
    }

    /// The summary with those keys that are placed, for what does not depend on the others.
    pub fn as_placed(&mut self) -> &mut Summary {
        self.summary.get_mut()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{Rng, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    /// Whoever looks sees what came so far, wherever the keys are.
    #[test]
    fn what_is_put_aside_is_seen() {
        for seed in 0..4 {
            println!("seed {seed}");
            let mut random = ChaCha8Rng::seed_from_u64(seed);
            let (mut deferred, mut plain) = (Deferred::new(Summary::empty()), Summary::empty());
            let mut all = Vec::new();
            for commit in 0..200 {
                let size = if commit % 50 == 0 { KEYS_MAX } else { 500 };
                let mut keys: Vec<[u8; 12]> = (0..size).map(|_| random.random()).collect();
                keys.sort_unstable();
                deferred.add(keys.iter().map(|key| &key[..]));
                plain.add(keys.iter().map(|key| &key[..]));
                all.extend(keys);
                match random.random_range(0..10) {
                    0 => assert_eq!(deferred.read().entries(), all.len() as u64),
                    1 => {
                        let gone = all.swap_remove(random.random_range(0..all.len()));
                        assert!(deferred.get_mut().remove([&gone[..]]));
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
        let mut deferred = Deferred::new(Summary::empty());
        for first in (0..40_000_u32).step_by(1_000) {
            let keys: Vec<[u8; 4]> = (first..first + 1_000).map(u32::to_be_bytes).collect();
            deferred.add(keys.iter().map(|key| &key[..]));
        }
        let placed = deferred.as_placed().entries() as usize;
        assert!((40_000 - KEYS_MAX..40_000).contains(&placed), "{placed}");
        let long = vec![7; BYTES_MAX];
        deferred.add([&long[..]]);
        assert_eq!(deferred.as_placed().entries(), 40_001);
    }
}
