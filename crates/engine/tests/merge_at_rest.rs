//! When writes rest, memory is emptied into files and level 0 is merged: reads then look in few places.

use meridian_engine::storage::{Family, Store, StoreOptions};
use std::time::{Duration, Instant};

/// Far more than it takes: the test fails after it, it does not wait for it.
const PATIENCE: Duration = Duration::from_secs(120);

fn figure(store: &Store, wanted: &str) -> u64 {
    let figures = store.statistics();
    let found = figures.iter().find(|(name, _)| *name == wanted);
    found.expect("the store tells it").1
}

fn level_zero_files(store: &Store) -> u64 {
    figure(store, "levelZeroFiles")
}

#[test]
fn files_written_one_after_the_other_are_merged_at_rest() {
    let directory = tempfile::tempdir().unwrap();
    let store = Store::open(directory.path(), &StoreOptions::default()).unwrap();
    for round in 0_u32..4 {
        let mut batch = store.batch();
        for number in 0_u32..1000 {
            let key = [[0, 0, 0, 1], (number * 4 + round).to_be_bytes()].concat();
            batch.put(Family::Documents, &key, b"document");
            batch.put(Family::Indexes, &key, b"entry");
        }
        store.write(batch).unwrap();
        store.flush().unwrap();
    }
    assert_eq!(level_zero_files(&store), 8, "four of each family");
    let begun = Instant::now();
    while level_zero_files(&store) > 2 {
        assert!(begun.elapsed() < PATIENCE, "nothing was merged");
        std::thread::sleep(Duration::from_millis(50));
    }
    let snapshot = store.snapshot();
    let key = [[0, 0, 0, 1], 3999_u32.to_be_bytes()].concat();
    let value = snapshot
        .get(Family::Documents, &key, <[u8]>::to_vec)
        .unwrap();
    assert_eq!(value.as_deref(), Some(&b"document"[..]));
}

#[test]
fn what_was_written_last_is_in_files_at_rest() {
    let directory = tempfile::tempdir().unwrap();
    let store = Store::open(directory.path(), &StoreOptions::default()).unwrap();
    let mut batch = store.batch();
    for number in 0_u32..20_000 {
        let key = [[0, 0, 0, 1], number.to_be_bytes()].concat();
        batch.put(Family::Documents, &key, &[7; 100]);
    }
    store.write(batch).unwrap();
    let written = figure(&store, "memtableBytes");
    assert!(written > 2_000_000, "{written} bytes in memory");
    let begun = Instant::now();
    while figure(&store, "memtableBytes") > written / 2 {
        assert!(begun.elapsed() < PATIENCE, "nothing was flushed");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Each file written while a load goes on is one that must be merged with all others.
#[test]
fn a_load_without_a_log_is_not_cut_into_small_files() {
    let directory = tempfile::tempdir().unwrap();
    let options = StoreOptions {
        journal: false,
        ..StoreOptions::default()
    };
    let store = Store::open(directory.path(), &options).unwrap();
    // Several times as long as what a log holds waits for the disk; no pause is long enough for rest.
    for number in 0_u32..40 {
        let mut batch = store.batch();
        let key = [[0, 0, 0, 1], number.to_be_bytes()].concat();
        batch.put(Family::Documents, &key, b"document");
        store.write(batch).unwrap();
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(level_zero_files(&store), 0, "all is in memory");
    store.sync().unwrap();
    assert_eq!(level_zero_files(&store), 1, "asked for, it is in a file");
}
