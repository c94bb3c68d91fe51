//! Every engine answers alike: RocksDB, RocksDB encrypted, the map in memory read by pages, and engines with a short limit over which values
//! are cut.

use super::*;
use rand::{Rng, RngCore, SeedableRng};
use rand_chacha::ChaCha8Rng;

const TREE: [u8; 4] = [0, 0, 0, 9];
const FAMILIES: [Family; 3] = [Family::Catalog, Family::Documents, Family::Indexes];

fn limited(key_bytes_max: usize, value_bytes_max: usize) -> Store {
    let capabilities = Capabilities {
        key_bytes_max,
        value_bytes_max,
    };
    Store::in_memory_with(MemoryOptions {
        capabilities,
        ..MemoryOptions::default()
    })
}

/// A few short keys of few bytes, zeros among them, so that many are the beginning of others.
fn key(random: &mut ChaCha8Rng) -> Vec<u8> {
    let mut key = TREE.to_vec();
    for _ in 0..random.random_range(0..4) {
        key.push([0, 1, 0xFE, 0xFF][random.random_range(0..4)]);
    }
    key
}

fn value(random: &mut ChaCha8Rng) -> Vec<u8> {
    let mut value = vec![0; [0, 1, 15, 16, 17, 32, 100][random.random_range(0..7)]];
    random.fill_bytes(&mut value);
    value
}

fn read(mut scan: Scan, seek: Option<&[u8]>) -> Vec<(Vec<u8>, Vec<u8>)> {
    if let Some(key) = seek {
        scan.seek(key);
    }
    let mut entries = Vec::new();
    while scan.advance().unwrap() {
        let (key, value) = scan.entry();
        entries.push((key.to_vec(), value.to_vec()));
    }
    entries
}

#[test]
fn engines_answer_alike() {
    let seed = rand::random();
    println!("seed {seed}");
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let directory = tempfile::tempdir().unwrap();
    let rocks = Store::open(directory.path(), &StoreOptions::default()).unwrap();
    let encrypted_directory = tempfile::tempdir().unwrap();
    let options = StoreOptions {
        master_key: Some(MasterKey::for_tests(1)),
        ..StoreOptions::default()
    };
    let encrypted = Store::open(encrypted_directory.path(), &options).unwrap();
    let (short, shorter) = (limited(100, 16), limited(100, 2));
    let stores = [rocks, encrypted, Store::in_memory(), short, shorter];
    for _ in 0..300 {
        let mut batches: Vec<Batch> = stores.iter().map(Store::batch).collect();
        for _ in 0..random.random_range(1..6) {
            let family = FAMILIES[random.random_range(0..3)];
            let (key, other, value) = (key(&mut random), key(&mut random), value(&mut random));
            let choice = random.random_range(0..8);
            for batch in &mut batches {
                match choice {
                    0 => batch.delete(family, &key),
                    1 if key < other => batch.delete_range(family, &key, &other),
                    _ => batch.put(family, &key, &value),
                }
            }
        }
        let watched = key(&mut random);
        let family = FAMILIES[random.random_range(0..3)];
        let now = stores[0].get(family, &watched, <[u8]>::to_vec).unwrap();
        let expected = [now.clone(), None, Some(value(&mut random))];
        let expected = expected[random.random_range(0..3)].clone();
        let condition = Condition {
            family,
            key: watched,
            value: expected.clone(),
        };
        let outcome = match expected == now {
            true => Outcome::Committed,
            false => Outcome::Conflict,
        };
        for (store, batch) in stores.iter().zip(batches) {
            let committed = store.commit(batch, std::slice::from_ref(&condition));
            assert_eq!(committed.unwrap(), outcome);
        }
        check(&stores, &mut random);
    }
    // Chunks go with what they belong to.
    for store in &stores {
        let mut batch = store.batch();
        for family in FAMILIES {
            batch.delete_range(family, &TREE, &[0, 0, 0, 10]);
        }
        store.write(batch).unwrap();
        assert_eq!(
            store.size_of_range(Family::Documents, &TREE, &[0, 0, 0, 10]),
            0
        );
    }
}

/// Compares point reads, many reads, scans, seeks and pages.
fn check(stores: &[Store], random: &mut ChaCha8Rng) {
    let family = FAMILIES[random.random_range(0..3)];
    let (mut start, mut end) = (key(random), key(random));
    if random.random_bool(0.5) {
        (start, end) = (TREE.to_vec(), vec![0, 0, 0, 10]);
    }
    if start > end {
        std::mem::swap(&mut start, &mut end);
    }
    let seek = random
        .random_bool(0.5)
        .then(|| key(random).max(start.clone()));
    let seek = seek.filter(|key| *key < end);
    let mut keys: Vec<Vec<u8>> = (0..5).map(|_| key(random)).collect();
    keys.sort();
    let limit = PageLimit {
        entries: random.random_range(1..5),
        bytes: random.random_range(1..100),
    };
    for order in [Order::Forward, Order::Backward] {
        let mut answers = stores.iter().map(|store| {
            let view = store.snapshot();
            let scanned = read(view.scan(family, &start, &end, order), seek.as_deref());
            let keys: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
            let mut values = Vec::new();
            view.multi_get(family, &keys, &mut |at, value| {
                values.push((at, value.map(<[u8]>::to_vec)));
            })
            .unwrap();
            let one = |key: &&[u8]| view.get(family, key, <[u8]>::to_vec).unwrap();
            let ones: Vec<_> = keys.iter().map(one).collect();
            let mut page = Page::default();
            view.0
                .scan_page(family, (&start, &end), order, limit, &mut page)
                .unwrap();
            let page: Vec<_> = (0..page.len())
                .map(|at| (page.entry(at).0.to_vec(), page.entry(at).1.to_vec()))
                .collect();
            (scanned, values, ones, page)
        });
        let first = answers.next().unwrap();
        for other in answers {
            assert_eq!(first.0, other.0);
            assert_eq!(first.1, other.1);
            assert_eq!(first.2, other.2);
            // Pages may end sooner where values are cut: all are the beginning of the longest.
            let shared = first.3.len().min(other.3.len());
            assert_eq!(first.3[..shared], other.3[..shared]);
            assert_eq!(first.3.is_empty(), other.3.is_empty());
        }
    }
}

#[test]
fn keys_at_the_limit_are_taken_and_longer_ones_refused() {
    for (store, max) in [(limited(64, u32::MAX as usize), 64), (limited(64, 16), 26)] {
        assert_eq!(store.capabilities().key_bytes_max, max);
        for (bytes, is_taken) in [(max, true), (max + 1, false), (1_000 * max, false)] {
            let mut batch = store.batch();
            batch.put(Family::Documents, &vec![0; bytes], &[7; 40]);
            match store.write(batch) {
                Ok(()) => assert!(is_taken),
                Err(error) => {
                    assert!(!is_taken);
                    let text = format!("a key of {bytes} bytes is longer than the storage takes");
                    assert!(error.to_string().starts_with(&text), "{error}");
                }
            }
            let found = store.get(Family::Documents, &vec![0; bytes], |value| value.len());
            assert_eq!(found.unwrap(), is_taken.then_some(40));
        }
    }
}
