//! Trees with different compression: they answer alike on disk and in memory, after restarts and kills
//! too, and take the room that their compression promises.
#![allow(clippy::unwrap_used)]

mod kill;

use bson::rawdoc;
use kill::killed;
use meridian_engine::catalog::Catalog;
use meridian_engine::storage::{
    Algorithm, Compression, Family, Order, Snapshot, Store, StoreError, StoreOptions, TreeKey,
};
use meridian_engine::write::Writer;
use meridian_engine::{CollectionOptions, Namespace};
use rand::prelude::*;
use rand_chacha::ChaCha8Rng;
use std::path::Path;
use std::sync::Arc;

const NONE: Compression = Compression::Chosen(Algorithm::None);
const LZ4: Compression = Compression::Chosen(Algorithm::Lz4);

fn zstd(level: u8) -> Compression {
    Compression::Chosen(Algorithm::Zstd(level))
}

/// The trees of a test, those of documents and those of indexes.
fn trees() -> Vec<(Family, TreeKey)> {
    let compressions = [Compression::Default, NONE, LZ4, zstd(1), zstd(22)];
    let both = compressions
        .iter()
        .flat_map(|one| [(Family::Documents, *one), (Family::Indexes, *one)]);
    let numbered = (7..).zip(both);
    numbered
        .map(|(number, (family, one))| (family, TreeKey::new(number, one)))
        .collect()
}

/// Opens the store; one that was dropped may still be held for a moment by its background thread.
fn open(directory: &Path) -> Store {
    open_with(directory, &StoreOptions::default())
}

fn open_with(directory: &Path, options: &StoreOptions) -> Store {
    for _ in 0..500 {
        match Store::open(directory, options) {
            Ok(store) => return store,
            Err(StoreError::Locked(_)) => {
                std::thread::sleep(std::time::Duration::from_millis(10));
            }
            Err(error) => panic!("{error:?}"),
        }
    }
    panic!("the store that was dropped is still open after five seconds");
}

fn add(store: &Store, trees: &[(Family, TreeKey)]) {
    for (family, tree) in trees {
        store.add_compression(*family, tree.compression()).unwrap();
    }
}

fn put(store: &Store, trees: &[(Family, TreeKey)], keys: std::ops::Range<u32>) {
    let mut batch = store.batch();
    for (family, tree) in trees {
        for key in keys.clone() {
            let value = format!("{} {key}", tree.0);
            batch.put(*family, &tree.key(&key.to_be_bytes()), value.as_bytes());
        }
    }
    store.write(batch).unwrap();
}

fn drop_tree(store: &Store, (family, tree): (Family, TreeKey)) {
    let mut batch = store.batch();
    let (start, end) = tree.range();
    batch.delete_range(family, &start, &end);
    store.write(batch).unwrap();
}

/// The numbers of a tree's keys, by scans both ways and by reads, which must agree.
fn keys(snapshot: &Snapshot, (family, tree): (Family, TreeKey)) -> Vec<u32> {
    let (start, end) = tree.range();
    let read = |order| {
        let mut scan = snapshot.scan(family, &start, &end, order);
        let mut keys = Vec::new();
        while scan.advance().unwrap() {
            let (key, value) = scan.entry();
            let number = u32::from_be_bytes(key[4..].try_into().unwrap());
            assert_eq!(value, format!("{} {number}", tree.0).as_bytes());
            keys.push(number);
        }
        keys
    };
    let forward = read(Order::Forward);
    let mut backward = read(Order::Backward);
    backward.reverse();
    assert_eq!(forward, backward);
    let wanted: Vec<Vec<u8>> = (0..40)
        .map(|key: u32| tree.key(&key.to_be_bytes()))
        .collect();
    let wanted: Vec<&[u8]> = wanted.iter().map(Vec::as_slice).collect();
    let mut found = Vec::new();
    snapshot
        .multi_get(family, &wanted, &mut |position, value| {
            found.extend(value.map(|_| position as u32));
        })
        .unwrap();
    let few = forward.iter().copied().filter(|key| *key < 40);
    assert_eq!(found, few.collect::<Vec<_>>());
    for (position, key) in wanted.iter().enumerate() {
        let there = snapshot.get(family, key, |_| ()).unwrap().is_some();
        assert_eq!(there, forward.contains(&(position as u32)));
    }
    forward
}

#[test]
fn trees_answer_alike_whatever_their_compression() {
    let directory = tempfile::tempdir().unwrap();
    for store in [open(directory.path()), Store::in_memory()] {
        let all = trees();
        let (early, late) = all.split_at(3);
        add(&store, early);
        put(&store, early, 0..20);
        // A snapshot that is older than a column family.
        let before = store.snapshot();
        add(&store, late);
        add(&store, late);
        put(&store, &all, 10..30);
        let after = store.snapshot();
        drop_tree(&store, all[8]);
        for tree in early {
            assert_eq!(keys(&before, *tree), (0..20).collect::<Vec<_>>());
            assert_eq!(keys(&after, *tree), (0..30).collect::<Vec<_>>());
        }
        for tree in late {
            assert!(keys(&before, *tree).is_empty());
            assert_eq!(keys(&after, *tree), (10..30).collect::<Vec<_>>());
        }
        let now = store.snapshot();
        assert!(keys(&now, all[8]).is_empty());
        assert_eq!(keys(&now, all[9]), (10..30).collect::<Vec<_>>());
    }
}

#[test]
fn every_compression_is_there_after_restarts_and_kills() {
    let directory = tempfile::tempdir().unwrap();
    let all = trees();
    let store = open(directory.path());
    add(&store, &all);
    put(&store, &all, 0..30);
    drop_tree(&store, all[5]);
    let check = |store: &Store| {
        let snapshot = store.snapshot();
        for tree in &all {
            let expected = if tree == &all[5] { 0..0 } else { 0..30 };
            assert_eq!(keys(&snapshot, *tree), expected.collect::<Vec<_>>());
        }
    };
    let copy = killed(directory.path());
    check(&open(copy.path()));
    store.close().unwrap();
    drop(store);
    let store = open(directory.path());
    check(&store);
    // What was opened, not made, takes writes as well.
    put(&store, &all[5..6], 0..30);
    drop_tree(&store, all[5]);
    store.flush().unwrap();
    check(&open(killed(directory.path()).path()));
}

#[test]
fn without_a_log_all_families_reach_the_disk_together() {
    let directory = tempfile::tempdir().unwrap();
    let options = StoreOptions {
        journal: false,
        ..StoreOptions::default()
    };
    let store = open_with(directory.path(), &options);
    let all = trees();
    add(&store, &all[..4]);
    put(&store, &all[..4], 0..10);
    store.sync().unwrap();
    add(&store, &all);
    put(&store, &all, 10..30);
    store.sync().unwrap();
    let snapshot = open(killed(directory.path()).path()).snapshot();
    for (number, tree) in all.iter().enumerate() {
        let first = if number < 4 { 0 } else { 10 };
        assert_eq!(keys(&snapshot, *tree), (first..30).collect::<Vec<_>>());
    }
}

#[test]
fn a_kill_between_family_and_first_tree_leaves_both_possible() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(directory.path());
    store.add_compression(Family::Indexes, zstd(9)).unwrap();
    let copy = killed(directory.path());
    let store = open(copy.path());
    let tree = [(Family::Indexes, TreeKey::new(1, zstd(9)))];
    add(&store, &tree);
    put(&store, &tree, 0..30);
    assert_eq!(keys(&store.snapshot(), tree[0]).len(), 30);
}

#[test]
fn the_log_tells_which_family_each_key_is_of() {
    let directory = tempfile::tempdir().unwrap();
    let all = trees();
    {
        let store = open(directory.path());
        // Not in the order of classes, so that numbers of families and classes differ.
        let reversed: Vec<_> = all.iter().rev().copied().collect();
        add(&store, &reversed);
        put(&store, &all, 0..2);
        store.close().unwrap();
    }
    let store = open(directory.path());
    let mut logged = Vec::new();
    let read = store.replay(0, &mut |_, _, operations| {
        logged.extend(operations.iter().map(|one| (one.family, one.key.clone())));
    });
    assert!(read.unwrap());
    let mut expected = Vec::new();
    for (family, tree) in &all {
        expected.extend((0..2_u32).map(|key| (*family, tree.key(&key.to_be_bytes()))));
    }
    assert_eq!(logged, expected);
}

#[test]
fn an_idle_family_does_not_keep_the_log() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(directory.path());
    let all = trees();
    add(&store, &all);
    let logs = || {
        let files = std::fs::read_dir(directory.path()).unwrap().flatten();
        files
            .filter(|file| file.path().extension().is_some_and(|end| end == "log"))
            .count()
    };
    for _ in 0..4 {
        put(&store, &all[..1], 0..30);
        store.flush().unwrap();
    }
    assert!(logs() <= 2, "{} log files are kept", logs());
}

/// Half text that repeats, half letters that only a better code makes smaller.
fn value(random: &mut ChaCha8Rng) -> Vec<u8> {
    let words = ["place ", "time ", "event ", "station ", "morning "];
    let mut value = Vec::new();
    while value.len() < 200 {
        value.extend_from_slice(words[random.random_range(0..words.len())].as_bytes());
    }
    value.extend((0..200).map(|_| b'a' + random.random_range(0..16)));
    value
}

fn size(store: &Store, (family, tree): (Family, TreeKey)) -> u64 {
    let (start, end) = tree.range();
    store.size_of_range(family, &start, &end)
}

#[test]
fn loaded_files_are_as_small_as_their_compression_makes_them() {
    let seed = 5;
    println!("seed {seed}");
    let directory = tempfile::tempdir().unwrap();
    let compressions = [NONE, LZ4, zstd(1), zstd(19)];
    for family in [Family::Documents, Family::Indexes] {
        for store in [open(directory.path()), Store::in_memory()] {
            let numbered = (1..).zip(compressions);
            let trees: Vec<(Family, TreeKey)> = numbered
                .map(|(number, one)| (family, TreeKey::new(number, one)))
                .collect();
            add(&store, &trees);
            store
                .load::<StoreError>(family, |add| {
                    for (_, tree) in &trees {
                        let mut random = ChaCha8Rng::seed_from_u64(seed);
                        for key in 0..5_000_u32 {
                            add(&tree.key(&key.to_be_bytes()), &value(&mut random))?;
                        }
                    }
                    Ok(())
                })
                .unwrap();
            let snapshot = store.snapshot();
            for (_, tree) in &trees {
                let (start, end) = tree.range();
                let mut scan = snapshot.scan(family, &start, &end, Order::Forward);
                let mut count = 0;
                while scan.advance().unwrap() {
                    count += 1;
                }
                assert_eq!(count, 5_000);
            }
            if store.statistics().is_empty() {
                continue; // in memory nothing is compressed
            }
            let sizes: Vec<u64> = trees.iter().map(|tree| size(&store, *tree)).collect();
            let [none, lz4, fast, dense] = sizes[..] else {
                panic!("four trees")
            };
            assert!(none > 1_900_000, "{sizes:?}");
            assert!(lz4 * 10 < none * 8, "{sizes:?}");
            assert!(fast * 10 < lz4 * 8, "{sizes:?}");
            assert!(dense < fast, "{sizes:?}");
        }
    }
}

fn writer(store: Store) -> Writer {
    let catalog = Catalog::load(store.clone()).unwrap();
    Writer::new(store, Arc::new(catalog), 1 << 20)
}

#[test]
fn an_option_decides_the_tree_and_survives_a_restart() {
    let directory = tempfile::tempdir().unwrap();
    let name = Namespace::new("test", "dense").unwrap();
    let options = rawdoc! {
        "storageEngine": { "meridian": { "compression": "zstd", "compressionLevel": 9 } },
        "indexOptionDefaults": { "storageEngine": { "meridian": { "compression": "none" } } },
    };
    {
        let options = CollectionOptions::parse(&options).unwrap();
        let writer = writer(open(directory.path()));
        writer.create_collection(&name, options).unwrap();
    }
    let catalog = Catalog::load(open(directory.path())).unwrap();
    let collection = catalog.require(&name).unwrap();
    assert_eq!(collection.documents.compression(), zstd(9));
    assert_eq!(collection.options.index_compression, NONE);
    assert_eq!(collection.options.original, options);
}

#[test]
fn the_last_number_of_a_tree_is_given_out_and_none_after_it() {
    let store = Store::in_memory();
    let mut batch = store.batch();
    let last = TreeKey::NUMBERS_END - 1;
    batch.put(Family::Catalog, b"t", &last.to_le_bytes());
    store.write(batch).unwrap();
    let writer = writer(store);
    let create = |name| {
        let namespace = Namespace::new("test", name).unwrap();
        writer.create_collection(&namespace, CollectionOptions::default())
    };
    let collection = create("last").unwrap();
    assert_eq!(
        collection.documents,
        TreeKey::new(last, Compression::Default)
    );
    let error = create("more").err().unwrap();
    assert!(error.message.contains("134217728 numbers"), "{error:?}");
}
