use super::idle::IdleChange;
use super::load::Files;
use super::warm::Warming;
use super::*;
use crate::storage::BLOB_BYTES_MIN;
use rand::{RngCore, SeedableRng};
use rand_chacha::ChaCha8Rng;

fn store_in(directory: &Path) -> Arc<RocksStore> {
    let options = StoreOptions {
        master_key: None,
        cache_bytes: 64 * MEBIBYTE as u64,
        journal: true,
    };
    let store = RocksStore::open(directory, &options).expect("a new store");
    Arc::new(store)
}

/// As rank indexes are saved: loaded files take no sequence numbers, though merges, which begin with two
/// files of level 0, run among their keys.
#[test]
fn the_log_has_all_that_has_a_number() {
    const TREES: u32 = 6;
    const KEYS: u32 = 20_000;
    let directory = tempfile::tempdir().expect("a directory");
    let store = store_in(directory.path());
    store.set_idle(IdleChange::Begins);
    let key = |tree: u32, round: u32, number: u32| -> Vec<u8> {
        [tree, round, number].map(u32::to_be_bytes).concat()
    };
    // A file of the lowest level that spans all keys, so that others must stay above it.
    for _ in 0..2 {
        let mut batch = RocksBatch::new(store.clone());
        batch.put(Family::Catalog, &key(0, 0, 0), b"first");
        batch.put(Family::Catalog, &key(TREES, 0, 0), b"last");
        store.write(batch).expect("there is room on the disk");
        store.flush().expect("there is room on the disk");
    }
    let merged = store
        .database
        .wait_for_compact(&WaitForCompactOptions::default());
    merged.expect("there is room on the disk");
    let mut operations = store.latest_sequence();
    let mut random = ChaCha8Rng::seed_from_u64(1);
    for round in 1..5 {
        for tree in 0..TREES {
            let scratch = Scratch::create(directory.path(), None).expect("a directory");
            let mut files = Files::new(&store, Family::Catalog, scratch);
            for number in 0..KEYS {
                let mut value = [0; 100];
                random.fill_bytes(&mut value);
                let added = files.add(&key(tree, round, number), &value);
                added.expect("keys ascend");
            }
            let files = files.finished().expect("there is room on the disk");
            store.take_over(files).expect("there is room on the disk");
            let mut batch = RocksBatch::new(store.clone());
            batch.delete_range(Family::Catalog, &key(tree, 0, 0), &key(tree, round, 0));
            batch.put(Family::Catalog, &key(tree, round, KEYS), b"head");
            store.write(batch).expect("there is room on the disk");
            operations += 2;
            assert_eq!(store.latest_sequence(), operations, "round {round}");
        }
    }
    let live = store.database.iterator_cf(
        &store.family(Family::Catalog, b"").handle,
        rocksdb::IteratorMode::Start,
    );
    assert_eq!(live.count() as u32, TREES * (KEYS + 1) + 1);
}

/// As rank indexes are saved while others insert: what is in one batch with the removal of a range is written
/// as ever, whoever writes beside it.
#[test]
fn ranges_are_removed_while_others_write() {
    const ROUNDS: u32 = 3_000;
    const KEYS: u32 = 20;
    let directory = tempfile::tempdir().expect("a directory");
    let store = store_in(directory.path());
    let key = |writer: u32, round: u32, number: u32| -> Vec<u8> {
        [writer, round, number].map(u32::to_be_bytes).concat()
    };
    let ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for writer in 1..=2 {
            let (store, ended, key) = (&store, &ended, &key);
            scope.spawn(move || {
                let mut rounds = 0..;
                while !ended.load(Ordering::Relaxed) {
                    let round = rounds.next().expect("there are many numbers");
                    let mut batch = RocksBatch::new(store.clone());
                    for number in 0..KEYS {
                        batch.put(Family::Catalog, &key(writer, round % 64, number), b"other");
                    }
                    store.write(batch).expect("there is room on the disk");
                }
            });
        }
        for round in 1..=ROUNDS {
            let mut batch = RocksBatch::new(store.clone());
            for number in 0..KEYS {
                batch.put(Family::Catalog, &key(0, round, number), b"own");
            }
            batch.delete_range(Family::Catalog, &key(0, 0, 0), &key(0, round, 0));
            batch.put(Family::Catalog, &key(0, 0, 0), b"head");
            store.write(batch).expect("there is room on the disk");
        }
        ended.store(true, Ordering::Relaxed);
    });
    let handle = &store.family(Family::Catalog, b"").handle;
    let kept = store
        .database
        .iterator_cf(handle, rocksdb::IteratorMode::Start);
    let kept: Vec<Vec<u8>> = kept
        .map(|entry| entry.expect("it is in memory").0.to_vec())
        .take_while(|kept| kept.starts_with(&0_u32.to_be_bytes()))
        .collect();
    let head = std::iter::once(key(0, 0, 0));
    let last = (0..KEYS).map(|number| key(0, ROUNDS, number));
    assert_eq!(kept, head.chain(last).collect::<Vec<_>>());
}

/// What the cache holds once nothing changes it: the memory of memtables, which it is charged with, is given
/// back a while after they were flushed.
fn settled_usage(store: &RocksStore) -> usize {
    const LOOKS: u32 = 10;
    let (mut usage, mut looks) = (store.cache.get_usage(), 0);
    while looks < LOOKS {
        std::thread::sleep(Duration::from_millis(10));
        let now = store.cache.get_usage();
        looks = if now == usage { looks + 1 } else { 0 };
        usage = now;
    }
    usage
}

#[test]
fn new_files_are_read_into_the_cache_while_writes_rest() {
    let directory = tempfile::tempdir().expect("a directory");
    let store = store_in(directory.path());
    let mut random = ChaCha8Rng::seed_from_u64(1);
    store.fill_cache(false);
    let mut add = |first: u32, documents: u32| {
        let mut batch = RocksBatch::new(store.clone());
        for number in first..first + documents {
            let mut value = [0; 4 * 1024];
            random.fill_bytes(&mut value);
            let key = [1, number].map(u32::to_be_bytes).concat();
            batch.put(Family::Documents, &key, &value);
        }
        store.write(batch).expect("there is room on the disk");
        store.flush().expect("there is room on the disk");
    };
    // The thread that reads holds the store too; were it the only one, it would end.
    let _other = store.clone();
    let mut warming = Warming::default();
    let mut grows_by = |what: &str| {
        let before = settled_usage(&store);
        store.warm(&mut warming);
        let grown = store.cache.get_usage() - before;
        println!("{what}: {grown} bytes more than {before}");
        grown / MEBIBYTE
    };
    add(0, 2_048);
    assert_eq!(grows_by("under load"), 0);
    store.is_idle.store(true, Ordering::Relaxed);
    assert_eq!(grows_by("at rest"), 8);
    assert_eq!(grows_by("nothing new"), 0);
    add(2_048, 1_024);
    assert_eq!(grows_by("one file more"), 4);
    for file in 2..8 {
        add(file * 2_048, 2_048);
        grows_by("more than there is room for");
    }
    let percent = store.percent_filled();
    assert!((65..=80).contains(&percent), "{percent} percent");
}

#[test]
fn what_is_flushed_is_in_the_cache_as_long_as_that_is_wanted() {
    let directory = tempfile::tempdir().expect("a directory");
    let store = store_in(directory.path());
    let mut random = ChaCha8Rng::seed_from_u64(1);
    for (number, fills) in (0_u32..).zip([true, false, true]) {
        store.fill_cache(fills);
        let before = settled_usage(&store);
        let mut batch = RocksBatch::new(store.clone());
        for part in 0..8 {
            let mut value = vec![0; MEBIBYTE / 2];
            random.fill_bytes(&mut value);
            let key = [1, 8 * number + part].map(u32::to_be_bytes).concat();
            batch.put(Family::Documents, &key, &value);
        }
        store.write(batch).expect("there is room on the disk");
        store.flush().expect("there is room on the disk");
        let grown = settled_usage(&store).saturating_sub(before) / MEBIBYTE;
        // Where the files are merged meanwhile, it grows by what that writes too.
        let is_expected = if fills { grown >= 4 } else { grown == 0 };
        assert!(is_expected, "batch {number}: {grown} MiB");
    }
}

fn compact(store: &RocksStore) {
    let family = store.family(Family::Documents, &[0, 0, 0, 1]);
    let (database, all) = (&store.database, None::<&[u8]>);
    database.compact_range_cf(&family.handle, all, all);
}

/// Large values and what replaces them stay bounded on disk, are read back, and leave with their tree.
#[test]
fn large_values_lie_in_blob_files_that_leave_with_them() {
    let directory = tempfile::tempdir().expect("a directory");
    let blob_bytes = || {
        let files = std::fs::read_dir(directory.path()).expect("the directory");
        let files = files.map(|file| file.expect("a file"));
        let blobs = files.filter(|file| file.path().extension().is_some_and(|kind| kind == "blob"));
        blobs
            .map(|file| file.metadata().map_or(0, |is| is.len()))
            .sum::<u64>()
    };
    let key = |number: u8| [0, 0, 0, 1, number];
    let mut random = ChaCha8Rng::seed_from_u64(1);
    let mut values = Vec::new();
    {
        let store = store_in(directory.path());
        for _round in 0..6 {
            values.clear();
            for number in 0..8 {
                let large = BLOB_BYTES_MIN as usize;
                let mut value = vec![0; if number == 0 { large - 1 } else { large }];
                random.fill_bytes(&mut value);
                let mut batch = RocksBatch::new(store.clone());
                batch.put(Family::Documents, &key(number), &value);
                store.write(batch).expect("there is room on the disk");
                values.push(value);
            }
            store.flush().expect("there is room on the disk");
        }
        compact(&store);
    }
    let store = store_in(directory.path());
    let held = blob_bytes() / BLOB_BYTES_MIN;
    assert!(
        (7..=21).contains(&held),
        "{held} values in blob files, of which 7 are present"
    );
    for (number, value) in (0..).zip(&values) {
        let mut found = None;
        let read = store.get(Family::Documents, &key(number), &mut |bytes| {
            found = Some(bytes.to_vec())
        });
        read.expect("the files can be read");
        assert_eq!(found.as_ref(), Some(value), "value {number}");
    }
    let mut batch = RocksBatch::new(store.clone());
    batch.delete_range(Family::Documents, &key(0), &[0, 0, 0, 2]);
    store.write(batch).expect("there is room on the disk");
    store.flush().expect("there is room on the disk");
    compact(&store);
    // Files that are gone are deleted in the background, at the latest now.
    drop(store);
    assert_eq!(blob_bytes(), 0);
}
