//! Documents that are asked for by their keys again and again, ready to be borrowed.
//!
//! Looking a key up costs the library most of a microsecond when its block is in memory, here a tenth of
//! that. A row is what a key held at a sequence number. Who reads at that number or at a later one may have
//! it as long as nobody has changed the key since.
//!
//! Changes are told by *buckets* of keys. A writer marks the buckets of the keys that it replaces or removes
//! before it writes, and when it has written leaves the number there that its write has at most. So whoever
//! sees a write in the store finds its bucket marked, or left with that number; rows need not be looked for to
//! take them away, and a row that comes late with what a slow reader saw is seen to be out of date. Keys that
//! were not there before (`Batch::add`) need no mark: there is no row of them, since a row from before they
//! were last removed is out of date by that removal.
//!
//! A row is kept when its key is asked for the second time: each bucket remembers a key that was
//! looked for in vain, so that who reads everything once displaces nothing.

use crate::storage::budget::{CacheBudget, CacheReservation};
use ahash::RandomState;
use quick_cache::Weighter;
use quick_cache::sync::Cache;
use smallvec::SmallVec;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Rows take this share of the cache.
const SHARE: usize = 32;
/// A bucket for so many bytes of rows, about one for each row.
const BUCKET_SHARE: usize = 512;
/// What a row takes beside its key and value: two allocations, its place in the cache, its links.
const ROW_OVERHEAD: usize = 128;
/// Larger values are not kept: copying them is what costs.
const VALUE_BYTES_MAX: usize = 16 << 10;
/// Asks for the present state, whatever its number.
pub(super) const PRESENT: u64 = u64::MAX;

pub(super) struct RowCache {
    rows: Cache<Box<[u8]>, Arc<StoredRow>, Weight>,
    buckets: Box<[Bucket]>,
    hasher: RandomState,
    _reservation: Option<CacheReservation>,
}

/// What a key held.
pub(super) struct StoredRow {
    /// From this number on, ...
    from: u64,
    /// ... unless its bucket was changed after this one.
    unchanged_since: u64,
    value: Box<[u8]>,
}

/// What was found under a key.
pub(super) enum CacheLookup {
    /// Its row.
    Row(Arc<StoredRow>),
    /// Nothing that may be borrowed.
    Missing {
        /// Whether what the store has should be kept.
        is_wanted: bool,
    },
}

/// Some keys, told by their hashes.
#[derive(Default)]
struct Bucket {
    /// No key was changed by a write of a greater number, ...
    changed: AtomicU64,
    /// ... except by those that are under way: so many.
    changing: AtomicU32,
    /// The part of a hash that tells which key was looked for in vain, but for some bits: that there is one
    /// ([`ASKED`]), and how often it stays when another comes ([`SPARES`]). 0 for none.
    asked: AtomicU32,
}

const ASKED: u32 = 1;
const SPARE: u32 = 2;
const SPARES: u32 = 3 * SPARE;

/// The buckets that a batch changes.
#[derive(Default)]
pub(super) enum Changed {
    #[default]
    Nothing,
    Buckets(SmallVec<[u32; 8]>),
    Everything,
}

#[derive(Clone)]
struct Weight;

impl Weighter<Box<[u8]>, Arc<StoredRow>> for Weight {
    fn weight(&self, key: &Box<[u8]>, row: &Arc<StoredRow>) -> u64 {
        (key.len() + row.value.len() + ROW_OVERHEAD) as u64
    }
}

impl StoredRow {
    /// What the key held.
    pub(super) fn value(&self) -> &[u8] {
        &self.value
    }
}

impl Bucket {
    fn is_unchanged_since(&self, sequence: u64) -> bool {
        // In this order: a writer that has left is seen in `changed`.
        self.changing.load(Ordering::Acquire) == 0
            && self.changed.load(Ordering::Acquire) <= sequence
    }

    /// Notes that a key was looked for in vain; whether it is the one that was before.
    fn note_asked(&self, hash: u32) -> bool {
        let asked = self.asked.load(Ordering::Relaxed);
        let tag = hash | ASKED | SPARES;
        if asked | SPARES == tag {
            return true;
        }
        // The one before is spared a few times: where several keys share a bucket and are asked for in
        // turn, none would ever be found here.
        let next = match asked & SPARES {
            0 => tag,
            _ => asked - SPARE,
        };
        self.asked.store(next, Ordering::Relaxed);
        false
    }

    fn enter(&self) {
        self.changing.fetch_add(1, Ordering::AcqRel);
        // What changes often is asked for twice by each change.
        self.asked.store(0, Ordering::Relaxed);
    }

    fn leave(&self, sequence: u64) {
        self.changed.fetch_max(sequence, Ordering::AcqRel);
        self.changing.fetch_sub(1, Ordering::AcqRel);
    }
}

impl RowCache {
    /// Rows in a share of `cache_bytes`, reserved in `room`.
    pub(super) fn new(cache_bytes: usize, room: &Arc<CacheBudget>) -> Self {
        let bytes = cache_bytes / SHARE;
        let buckets = (bytes / BUCKET_SHARE).next_power_of_two();
        Self {
            rows: Cache::with_weighter(buckets, bytes as u64, Weight),
            buckets: (0..buckets).map(|_| Bucket::default()).collect(),
            hasher: RandomState::new(),
            _reservation: room.reserve(bytes),
        }
    }

    fn bucket(&self, hash: u64) -> usize {
        hash as usize & (self.buckets.len() - 1)
    }

    /// The row of `key` for who reads at `sequence`.
    pub(super) fn find(&self, key: &[u8], sequence: u64) -> CacheLookup {
        let hash = self.hasher.hash_one(key);
        let bucket = &self.buckets[self.bucket(hash)];
        if let Some(row) = self.rows.get(key)
            && row.from <= sequence
            && bucket.is_unchanged_since(row.unchanged_since)
        {
            return CacheLookup::Row(row);
        }
        CacheLookup::Missing {
            is_wanted: bucket.note_asked((hash >> 32) as u32),
        }
    }

    /// Keeps what `key` holds, as somebody read it who began at one sequence number and ended at the other:
    /// the same one for a snapshot.
    pub(super) fn keep(&self, key: &[u8], value: &[u8], begun: u64, ended: u64) {
        if value.len() > VALUE_BYTES_MAX {
            return;
        }
        let row = StoredRow {
            from: ended,
            unchanged_since: begun,
            value: value.into(),
        };
        self.rows.insert(key.into(), Arc::new(row));
    }

    /// Adds the bucket of `key` to those that a batch changes.
    pub(super) fn note_change(&self, key: &[u8], changed: &mut Changed) {
        let bucket = self.bucket(self.hasher.hash_one(key)) as u32;
        match changed {
            Changed::Nothing => *changed = Changed::Buckets(SmallVec::from_slice(&[bucket])),
            Changed::Buckets(buckets) => buckets.push(bucket),
            Changed::Everything => {}
        }
    }

    /// To be called before the batch is written.
    pub(super) fn enter(&self, changed: &Changed) {
        self.of(changed, Bucket::enter);
    }

    /// To be called when it was written, or was not, with the newest number since.
    pub(super) fn leave(&self, changed: &Changed, sequence: u64) {
        self.of(changed, |bucket| bucket.leave(sequence));
    }

    fn of(&self, changed: &Changed, each: impl Fn(&Bucket)) {
        match changed {
            Changed::Nothing => {}
            Changed::Buckets(buckets) => buckets
                .iter()
                .for_each(|number| each(&self.buckets[*number as usize])),
            Changed::Everything => self.buckets.iter().for_each(each),
        }
    }

    /// How many rows there are.
    pub(super) fn rows(&self) -> usize {
        self.rows.len()
    }

    /// The memory they take.
    pub(super) fn bytes(&self) -> u64 {
        self.rows.weight()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::{Family, Snapshot, Store, StoreOptions};
    use rand::{Rng, SeedableRng};
    use rand_chacha::ChaCha8Rng;
    use std::collections::BTreeMap;
    use std::sync::atomic::AtomicBool;
    use tempfile::TempDir;

    const MEBIBYTE: usize = 1 << 20;

    fn row_cache() -> RowCache {
        RowCache::new(64 * MEBIBYTE, &CacheBudget::new(64 * MEBIBYTE, None))
    }

    fn found(rows: &RowCache, key: &[u8], sequence: u64) -> Option<Vec<u8>> {
        match rows.find(key, sequence) {
            CacheLookup::Row(row) => Some(row.value().to_vec()),
            CacheLookup::Missing { .. } => None,
        }
    }

    fn changed(rows: &RowCache, key: &[u8]) -> Changed {
        let mut changed = Changed::default();
        rows.note_change(key, &mut changed);
        changed
    }

    #[test]
    fn a_row_is_lent_to_readers_of_its_number_and_later_ones() {
        let rows = row_cache();
        rows.keep(b"key", b"value", 5, 7);
        for (sequence, is_lent) in [
            (5, false),
            (6, false),
            (7, true),
            (8, true),
            (PRESENT, true),
        ] {
            let found = found(&rows, b"key", sequence);
            assert_eq!(found.is_some(), is_lent, "at {sequence}");
        }
        assert_eq!(found(&rows, b"other", PRESENT), None);
    }

    #[test]
    fn a_change_ends_a_row_before_it_is_written_and_whenever_the_row_comes() {
        let rows = row_cache();
        rows.keep(b"key", b"old", 5, 5);
        rows.keep(b"other", b"same", 5, 5);
        let changed = changed(&rows, b"key");
        rows.enter(&changed);
        assert_eq!(found(&rows, b"key", 5), None);
        rows.leave(&changed, 6);
        assert_eq!(found(&rows, b"key", PRESENT), None);
        // From somebody whose snapshot is from before the change, or who began to read before it.
        rows.keep(b"key", b"old", 5, 5);
        assert_eq!(found(&rows, b"key", PRESENT), None);
        rows.keep(b"key", b"new", 5, 6);
        assert_eq!(found(&rows, b"key", PRESENT), None);
        rows.keep(b"key", b"new", 6, 6);
        assert_eq!(found(&rows, b"key", PRESENT), Some(b"new".to_vec()));
        assert_eq!(found(&rows, b"other", PRESENT), Some(b"same".to_vec()));
    }

    #[test]
    fn a_row_is_wanted_when_its_key_is_asked_for_again() {
        let rows = row_cache();
        let is_wanted = |key: &[u8]| match rows.find(key, PRESENT) {
            CacheLookup::Row(_) => panic!("nothing was kept"),
            CacheLookup::Missing { is_wanted } => is_wanted,
        };
        assert!(!is_wanted(b"key"));
        assert!(is_wanted(b"key"));
        // What is changed between is asked for once by each change.
        rows.enter(&changed(&rows, b"key"));
        assert!(!is_wanted(b"key"));
    }

    fn store() -> (Store, TempDir) {
        let directory = tempfile::tempdir().expect("a directory");
        let options = StoreOptions {
            master_key: None,
            cache_bytes: 64 * MEBIBYTE as u64,
            journal: true,
        };
        let store = Store::open(directory.path(), &options).expect("a new store");
        (store, directory)
    }

    fn rows_of(store: &Store) -> u64 {
        let figures = store.statistics();
        let rows = figures.iter().find(|(name, _)| *name == "rowCacheRows");
        rows.expect("the store tells it").1
    }

    /// A page of documents that is asked for again and again comes from the rows, a whole sample does not.
    #[test]
    fn pages_are_lent_from_rows_and_larger_reads_leave_none() {
        for (keys, kept) in [(1_000, 1_000), (5_000, 0)] {
            let (store, _directory) = store();
            let mut batch = store.batch();
            let keys: Vec<Vec<u8>> = (0..keys).map(key).collect();
            for key in &keys {
                batch.add(Family::Documents, key, &key[4..]);
            }
            store.write(batch).expect("there is room on the disk");
            let wanted: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
            let snapshot = store.snapshot();
            for _ in 0..5 {
                let mut read = Vec::new();
                let all = snapshot.multi_get(Family::Documents, &wanted, &mut |position, value| {
                    read.push((position, value.map(<[u8]>::to_vec)));
                });
                all.expect("the store can be read");
                let expected = keys.iter().map(|key| Some(key[4..].to_vec()));
                assert!(read.into_iter().eq(expected.enumerate()));
            }
            // Where several keys share a bucket, some are kept later.
            let rows = rows_of(&store);
            assert!((kept * 95 / 100..=kept).contains(&rows), "{rows} of {kept}");
        }
    }

    type Model = BTreeMap<Vec<u8>, Vec<u8>>;

    fn key(number: u32) -> Vec<u8> {
        [1, number].map(u32::to_be_bytes).concat()
    }

    /// A batch of random changes, in the store and in its model.
    fn write(store: &Store, model: &mut Model, random: &mut ChaCha8Rng, keys: u32) {
        let mut batch = store.batch();
        for _ in 0..random.random_range(1..4) {
            let key = key(random.random_range(0..keys));
            let value = random.random::<u64>().to_be_bytes().to_vec();
            match random.random_range(0..20) {
                0 => {
                    let end = [&key[..], &[0]].concat();
                    batch.delete_range(Family::Documents, &key, &end);
                    model.remove(&key);
                }
                1..5 => {
                    batch.delete(Family::Documents, &key);
                    model.remove(&key);
                }
                _ if model.contains_key(&key) => {
                    batch.put(Family::Documents, &key, &value);
                    model.insert(key, value);
                }
                _ => {
                    batch.add(Family::Documents, &key, &value);
                    model.insert(key, value);
                }
            }
        }
        store.write(batch).expect("there is room on the disk");
    }

    fn check(snapshot: &Snapshot, model: &Model, random: &mut ChaCha8Rng, keys: u32, shown: &str) {
        let mut wanted: Vec<Vec<u8>> = (0..keys).map(key).collect();
        wanted.retain(|_| random.random_bool(0.3));
        let wanted: Vec<&[u8]> = wanted.iter().map(Vec::as_slice).collect();
        let mut position_next = 0;
        let all = snapshot.multi_get(Family::Documents, &wanted, &mut |position, value| {
            assert_eq!(position, position_next, "{shown}");
            position_next += 1;
            let expected = model.get(wanted[position]).map(Vec::as_slice);
            assert_eq!(value, expected, "{shown}");
        });
        all.expect("the files can be read");
        assert_eq!(position_next, wanted.len(), "{shown}");
        for key in wanted {
            let value = snapshot.get(Family::Documents, key, <[u8]>::to_vec);
            let value = value.expect("the files can be read");
            assert_eq!(value.as_ref(), model.get(key), "{shown}");
        }
    }

    /// Whatever is replaced, removed and added again, each reader gets what its snapshot has.
    #[test]
    fn each_snapshot_has_its_own_values() {
        const KEYS: u32 = 40;
        for seed in [1, 2] {
            let mut random = ChaCha8Rng::seed_from_u64(seed);
            let (store, _directory) = store();
            let mut model = Model::new();
            let mut views: Vec<(Snapshot, Model)> = Vec::new();
            let mut rows_most = 0;
            for step in 0..2_000 {
                let shown = format!("seed {seed}, step {step}");
                if random.random_bool(0.5) {
                    write(&store, &mut model, &mut random, KEYS);
                }
                if random.random_bool(0.2) {
                    views.truncate(3);
                    views.insert(0, (store.snapshot(), model.clone()));
                }
                for (snapshot, model) in &views {
                    check(snapshot, model, &mut random, KEYS, &shown);
                }
                for number in 0..KEYS {
                    let key = key(number);
                    let newest = store.get_document(&key, <[u8]>::to_vec);
                    let newest = newest.expect("the files can be read");
                    assert_eq!(newest.as_ref(), model.get(&key), "{shown}");
                }
                rows_most = rows_most.max(rows_of(&store));
            }
            assert!(rows_most > u64::from(KEYS) / 2, "rows were kept");
        }
    }

    /// Two keys always hold the same number, which only grows: in no snapshot do they differ, and nobody sees
    /// less than what was there when they asked.
    #[test]
    fn nobody_sees_an_old_value_while_it_is_replaced() {
        const WRITES: u64 = 30_000;
        let (store, _directory) = store();
        let keys = [key(1), key(2)];
        let write = |number: u64| {
            let mut batch = store.batch();
            for key in &keys {
                batch.put(Family::Documents, key, &number.to_be_bytes());
            }
            store.write(batch).expect("there is room on the disk");
        };
        let number = |value: &[u8]| u64::from_be_bytes(value.try_into().expect("8 bytes"));
        write(0);
        let written = AtomicU64::new(0);
        let ends = AtomicBool::new(false);
        let lent = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for reader in 0..3 {
                let (store, keys, written, ends, lent) = (&store, &keys, &written, &ends, &lent);
                scope.spawn(move || {
                    while !ends.load(Ordering::Relaxed) {
                        let least = written.load(Ordering::Acquire);
                        if reader == 0 {
                            let newest = store.get_document(&keys[0], number);
                            let newest = newest.expect("the files can be read");
                            assert!(newest.expect("it is there") >= least);
                            continue;
                        }
                        let snapshot = store.snapshot();
                        for _ in 0..4 {
                            let [first, second] = [0, 1].map(|which| {
                                let read = snapshot.get(Family::Documents, &keys[which], number);
                                read.expect("the files can be read").expect("it is there")
                            });
                            assert_eq!(first, second);
                            assert!(first >= least);
                        }
                        lent.fetch_add(rows_of(store), Ordering::Relaxed);
                    }
                });
            }
            for next in 1..=WRITES {
                write(next);
                written.store(next, Ordering::Release);
                if next % 1_000 == 0 {
                    // Rows last for a while.
                    std::thread::sleep(std::time::Duration::from_millis(5));
                }
            }
            ends.store(true, Ordering::Relaxed);
        });
        assert!(lent.into_inner() > 0, "rows were kept");
    }

    #[test]
    fn rows_are_bounded_and_large_values_are_not_kept() {
        let rows = row_cache();
        let value = [0; 1_000];
        for number in 0..10_000 {
            rows.keep(&key(number), &value, 1, 1);
        }
        let (bytes, most) = (rows.bytes(), (64 * MEBIBYTE / SHARE) as u64);
        assert!((most / 2..=most).contains(&bytes), "{bytes} of {most}");
        rows.keep(b"large", &[0; VALUE_BYTES_MAX + 1], 1, 1);
        assert_eq!(found(&rows, b"large", PRESENT), None);
    }
}
