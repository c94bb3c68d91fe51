//! Counts and samples by rank indexes against their plain twin, a walk over all documents: after random
//! changes, while others write, and after restarts. Samples are uniform.
#![allow(clippy::unwrap_used)]

use bson::raw::{RawArrayBuf, RawDocument, RawDocumentBuf};
use bson::rawdoc;
use meridian_engine::{
    AggregateRequest, AggregateTarget, CountRequest, DeleteStatement, Engine, EngineOptions,
    InsertOptions, Namespace, UpdateStatement,
};
use rand::prelude::*;
use rand_chacha::ChaCha8Rng;
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

fn namespace() -> Namespace {
    Namespace::new("test", "counted").unwrap()
}

/// Opens the engine; one that was dropped may still be held for a moment by its background threads.
fn open(directory: &Path) -> Arc<Engine> {
    for _ in 0..500 {
        match Engine::open(directory, EngineOptions::default()) {
            Ok(engine) => return engine,
            Err(error)
                if ["in use", "LOG.old"]
                    .iter()
                    .any(|why| error.message.contains(why)) =>
            {
                std::thread::sleep(std::time::Duration::from_millis(10));
            }
            Err(error) => panic!("{error:?}"),
        }
    }
    panic!("the engine that was dropped is still open after five seconds");
}

/// Tells writers to end when it is dropped, also by an assertion that fails: who waits for them would wait
/// for ever.
struct EndsWriters<'a>(&'a AtomicBool);

impl Drop for EndsWriters<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn document(random: &mut ChaCha8Rng, id: i32) -> RawDocumentBuf {
    rawdoc! {
        "_id": id,
        "a": random.random_range(0..1_000),
        "b": random.random_range(0..5),
        "place": { "type": "Point", "coordinates": place(random) },
        "tags": [random.random_range(0..50), random.random_range(0..50)],
    }
}

/// Half of the places lie close together, so that cells hold few or many.
fn place(random: &mut ChaCha8Rng) -> RawArrayBuf {
    let reach = if random.random() { 40.0 } else { 0.5 };
    let mut position = RawArrayBuf::new();
    (0..2).for_each(|_| position.push(random.random_range(-reach..reach)));
    position
}

fn insert(engine: &Engine, documents: &[RawDocumentBuf]) {
    let borrowed: Vec<&RawDocument> = documents.iter().map(AsRef::as_ref).collect();
    for part in borrowed.chunks(1_000) {
        let options = InsertOptions {
            ordered: false,
            ..InsertOptions::default()
        };
        engine.insert(&namespace(), part, &options).unwrap();
    }
}

/// Some are compressed in ways of their own.
fn create_indexes(engine: &Engine) {
    let lz4 = rawdoc! { "meridian": { "compression": "lz4" } };
    let specs = [
        rawdoc! { "key": { "a": 1 }, "name": "a", "storageEngine": lz4 },
        rawdoc! { "key": { "b": -1, "a": 1 }, "name": "ba" },
        rawdoc! { "key": { "place": "2dsphere" }, "name": "place" },
        rawdoc! { "key": { "b": 1, "place": "2dsphere" }, "name": "bplace" },
        rawdoc! { "key": { "tags": 1 }, "name": "tags" },
    ];
    let specs: Vec<&RawDocument> = specs.iter().map(AsRef::as_ref).collect();
    engine
        .create_indexes(&namespace(), &specs, &mut |_| ())
        .unwrap();
}

fn update(engine: &Engine, filter: &RawDocument, update: &RawDocument) {
    let statement = UpdateStatement::new(filter, update);
    engine.update(&namespace(), &statement).unwrap();
}

fn delete(engine: &Engine, filter: &RawDocument) {
    let statement = DeleteStatement::new(filter);
    engine.delete(&namespace(), &statement).unwrap();
}

fn count(engine: &Engine, filter: &RawDocument, hint: Option<&RawDocument>) -> i64 {
    let request = CountRequest {
        collation: None,
        filter,
        skip: 0,
        limit: None,
        hint: hint.map(bson::RawBsonRef::Document),
    };
    engine.count(&namespace(), &request).unwrap()
}

fn aggregate(engine: &Engine, pipeline: &[RawDocumentBuf]) -> Vec<i32> {
    let mut ids = Vec::new();
    each(engine, pipeline, |row| {
        ids.push(row.get_i32("_id").unwrap())
    });
    ids
}

fn each(engine: &Engine, pipeline: &[RawDocumentBuf], mut row: impl FnMut(&RawDocument)) {
    let request = AggregateRequest::new(pipeline);
    let target = AggregateTarget::Collection(namespace());
    let mut query = engine.aggregate(&target, &request).unwrap();
    assert!(query.fill(None, usize::MAX, &mut row).unwrap());
}

fn sample_stages(filter: &RawDocument, size: i64, seed: i64) -> [RawDocumentBuf; 2] {
    [
        rawdoc! { "$match": filter.to_owned() },
        rawdoc! { "$sample": { "size": size, "seed": seed } },
    ]
}

fn sample(engine: &Engine, filter: &RawDocument, size: i64, seed: i64) -> Vec<i32> {
    aggregate(engine, &sample_stages(filter, size, seed))
}

fn area(west: f64, south: f64, east: f64, north: f64) -> RawDocumentBuf {
    let ring = rawdoc! { "type": "Polygon", "coordinates": [
        [[west, south], [east, south], [east, north], [west, north], [west, south]]
    ] };
    rawdoc! { "place": { "$geoIntersects": { "$geometry": ring } } }
}

fn filter(random: &mut ChaCha8Rng) -> RawDocumentBuf {
    let low = random.random_range(0..1_000);
    let high = low + random.random_range(0..400);
    match random.random_range(0..9) {
        0 => rawdoc! { "a": { "$gte": low, "$lt": high } },
        1 => rawdoc! { "a": low },
        2 => rawdoc! { "b": random.random_range(0..5), "a": { "$gt": low, "$lte": high } },
        3 => rawdoc! { "_id": { "$gte": low * 10, "$lt": high * 10 } },
        4 => rawdoc! { "a": { "$in": [low, low + 1, low + 7, high] } },
        5 => {
            rawdoc! { "$or": [{ "a": { "$lt": low } }, { "a": { "$gt": high } }, { "a": { "$gte": high, "$lt": high + 9 } }] }
        }
        6 => rawdoc! { "tags": random.random_range(0..50) },
        7 => {
            let (west, south) = (
                random.random_range(-40.0..20.0),
                random.random_range(-40.0..20.0),
            );
            area(
                west,
                south,
                west + random.random_range(0.1..40.0),
                south + random.random_range(0.1..40.0),
            )
        }
        _ => {
            let mut both = area(-0.3, -0.4, random.random_range(-0.2..0.4), 0.2);
            both.append(bson::cstr!("b"), random.random_range(0..5));
            both
        }
    }
}

fn check(engine: &Engine, random: &mut ChaCha8Rng, seed: u64) {
    let natural = rawdoc! { "$natural": 1 };
    for number in 0..60 {
        let filter = filter(random);
        let shown = format!("seed {seed}, filter {number}: {filter:?}");
        let plain = count(engine, &filter, Some(&natural));
        assert_eq!(count(engine, &filter, None), plain, "{shown}");
        let all = sample(engine, &filter, 1_000_000, number);
        let distinct: BTreeSet<i32> = all.iter().copied().collect();
        assert_eq!(
            (all.len(), distinct.len()),
            (plain as usize, plain as usize),
            "{shown}"
        );
        let matching = aggregate(engine, &[rawdoc! { "$match": filter.clone() }]);
        assert_eq!(distinct, matching.into_iter().collect(), "{shown}");
        // The first may keep what it reads for the second.
        for _ in 0..2 {
            let again = sample(engine, &filter, plain.max(1), number);
            assert_eq!(again, all, "{shown}");
        }
        let some = sample(engine, &filter, 20, number);
        assert_eq!(
            some[..],
            all[..some.len()],
            "a seed gives one order: {shown}"
        );
        assert_eq!(some.len(), all.len().min(20), "{shown}");
    }
    let report = engine.validate(&namespace()).unwrap();
    assert_eq!(report.errors, Vec::<String>::new(), "seed {seed}");
}

fn change(engine: &Engine, random: &mut ChaCha8Rng) {
    let documents: Vec<_> = (0..2_000)
        .map(|_| {
            let id = random.random_range(0..14_000);
            document(random, id)
        })
        .collect();
    insert(engine, &documents);
    for _ in 0..20 {
        let low = random.random_range(0..1_000);
        let some = rawdoc! { "a": { "$gte": low, "$lt": low + 15 } };
        match random.random_range(0..3) {
            0 => delete(engine, &some),
            1 => update(
                engine,
                &some,
                &rawdoc! { "$set": { "a": random.random_range(0..1_000) } },
            ),
            _ => {
                let place = rawdoc! { "type": "Point", "coordinates": place(random) };
                update(
                    engine,
                    &some,
                    &rawdoc! { "$set": { "place": place, "x": 1 } },
                );
            }
        }
    }
}

#[test]
fn counts_and_samples_are_those_of_a_scan() {
    for seed in [11, 12] {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let directory = tempfile::tempdir().unwrap();
        let mut engine = open(directory.path());
        let documents: Vec<_> = (0..8_000).map(|id| document(&mut random, id)).collect();
        let (early, late) = documents.split_at(4_000);
        insert(&engine, early);
        create_indexes(&engine);
        insert(&engine, late);
        for round in 0..6 {
            check(&engine, &mut random, seed);
            change(&engine, &mut random);
            if round == 3 {
                delete(&engine, &rawdoc! { "a": { "$lt": 900 } });
            }
            if round % 2 == 0 {
                drop(engine);
                engine = open(directory.path());
                assert_eq!(engine.server_stats().ranks_at_start, "saved");
            }
        }
        check(&engine, &mut random, seed);
    }
}

/// Writers move documents about within a range and an area: at every point in time all are there.
#[test]
fn counts_and_samples_are_exact_while_others_write() {
    const DOCUMENTS: i32 = 6_000;
    let directory = tempfile::tempdir().unwrap();
    let engine = open(directory.path());
    let mut random = ChaCha8Rng::seed_from_u64(5);
    let documents: Vec<_> = (0..DOCUMENTS).map(|id| document(&mut random, id)).collect();
    create_indexes(&engine);
    insert(&engine, &documents);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for seed in 0..2 {
            let (engine, done) = (&engine, &done);
            scope.spawn(move || {
                let mut random = ChaCha8Rng::seed_from_u64(seed);
                while !done.load(Ordering::Relaxed) {
                    let low = random.random_range(0..DOCUMENTS);
                    let some = rawdoc! { "_id": { "$gte": low, "$lt": low + 40 } };
                    let place = rawdoc! { "type": "Point", "coordinates": place(&mut random) };
                    let set = rawdoc! { "a": random.random_range(0..1_000), "place": place };
                    update(engine, &some, &rawdoc! { "$set": set });
                }
            });
        }
        let _ends = EndsWriters(&done);
        let everywhere = area(-41.0, -41.0, 41.0, 41.0);
        for round in 0..150 {
            let all = rawdoc! { "a": { "$gte": 0, "$lt": 1_000 } };
            assert_eq!(
                count(&engine, &all, None),
                i64::from(DOCUMENTS),
                "round {round}"
            );
            assert_eq!(
                count(&engine, &everywhere, None),
                i64::from(DOCUMENTS),
                "round {round}"
            );
            let drawn: BTreeSet<i32> = sample(&engine, &all, 500, round).into_iter().collect();
            assert_eq!(drawn.len(), 500, "round {round}");
            if round == 70 {
                let spec = rawdoc! { "key": { "a": -1 }, "name": "down" };
                engine
                    .create_indexes(&namespace(), &[&spec], &mut |_| ())
                    .unwrap();
            }
        }
    });
    check(&engine, &mut random, 5);
}

/// What a sample reads from end to end is kept for the next, and gone when it changes.
#[test]
fn what_a_sample_walks_is_kept_until_it_changes() {
    let engine = Engine::in_memory().unwrap();
    let mut random = ChaCha8Rng::seed_from_u64(7);
    let documents: Vec<_> = (0..10_000).map(|id| document(&mut random, id)).collect();
    create_indexes(&engine);
    insert(&engine, &documents);
    let kept = || engine.server_stats().range_cache_bytes;
    let some = rawdoc! { "a": { "$gte": 100, "$lt": 900 } };
    sample(&engine, &some, 50, 1);
    assert_eq!(kept(), 0, "these lie apart");
    let first = sample(&engine, &some, 2_000, 1);
    let after_first = kept();
    // About 8,000 entries of 5 bytes and more.
    assert!(after_first > 40_000, "{after_first} bytes");
    assert_eq!(sample(&engine, &some, 2_000, 1), first);
    assert_eq!(kept(), after_first, "all of it was there");
    let moved = rawdoc! { "$set": { "a": 950 } };
    update(
        &engine,
        &rawdoc! { "a": { "$gte": 300, "$lt": 500 } },
        &moved,
    );
    let after_update = kept();
    assert!(after_update < after_first, "{after_update} bytes are left");
    let left = count(&engine, &some, None);
    let drawn = sample(&engine, &some, left, 2);
    assert_eq!(drawn.len() as i64, left);
    assert!(kept() > after_update);
    delete(&engine, &some);
    assert_eq!(kept(), 0);
}

/// An engine with ten thousand documents, and their bytes.
fn filled(seed: u64) -> (Arc<Engine>, usize) {
    let engine = Engine::in_memory().unwrap();
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let documents: Vec<_> = (0..10_000).map(|id| document(&mut random, id)).collect();
    create_indexes(&engine);
    insert(&engine, &documents);
    let bytes = documents.iter().map(|one| one.as_bytes().len()).sum();
    (engine, bytes)
}

/// The documents of a sample are kept for the next, by an index and without, each until it changes.
#[test]
fn documents_that_a_sample_meets_are_kept_until_they_change() {
    let (engine, bytes) = filled(8);
    let kept = || engine.server_stats().range_cache_bytes as usize;
    let filters = [
        rawdoc! { "a": { "$gte": 0, "$lt": 1_000 } },
        rawdoc! { "_id": { "$gte": 0, "$lt": 10_000 } },
        rawdoc! {},
    ];
    for (round, filter) in (0..).zip(&filters) {
        // One sample in a few keeps what it meets.
        for seed in 0..8 {
            sample(&engine, filter, 9_000, seed);
        }
        let before = kept();
        assert!(before > bytes, "{filter:?}: {before} of {bytes}");
        // No index reads this field.
        let some = rawdoc! { "_id": { "$gte": 2_000, "$lt": 4_000 } };
        update(&engine, &some, &rawdoc! { "$set": { "round": round } });
        assert!(
            kept() < before - bytes / 10,
            "{filter:?}: what has changed is gone"
        );
        for seed in 0..8 {
            let mut changed = 0;
            each(&engine, &sample_stages(filter, 10_000, seed), |row| {
                let is_changed = (2_000..4_000).contains(&row.get_i32("_id").unwrap());
                assert_eq!(row.get_i32("round").ok(), is_changed.then_some(round));
                changed += i32::from(is_changed);
            });
            assert_eq!(changed, 2_000);
        }
    }
    delete(&engine, &rawdoc! {});
    assert_eq!(kept(), 0);
}

/// A sample that finds much of what it meets kept keeps the rest, though it is not the one in four that does.
#[test]
fn what_is_sampled_again_is_kept_sooner() {
    let (engine, bytes) = filled(9);
    let filter = rawdoc! { "a": { "$gte": 0, "$lt": 1_000 } };
    let kept: Vec<_> = (0..3)
        .map(|seed| {
            sample(&engine, &filter, 400, seed);
            engine.server_stats().range_cache_bytes as usize
        })
        .collect();
    assert!(kept[0] > bytes / 4, "{kept:?} of {bytes}");
    assert!(kept[1] - kept[0] > bytes / 6, "{kept:?} of {bytes}");
    assert!(kept[2] - kept[1] > bytes / 12, "{kept:?} of {bytes}");
}

/// What a sample finds by an index is as the index says, while others write: a document that is kept is
/// never older or newer than the entry that leads to it.
#[test]
fn documents_of_samples_agree_with_the_index_while_others_write() {
    const DOCUMENTS: i32 = 4_000;
    let directory = tempfile::tempdir().unwrap();
    let engine = open(directory.path());
    let mut random = ChaCha8Rng::seed_from_u64(10);
    let documents: Vec<_> = (0..DOCUMENTS).map(|id| document(&mut random, id)).collect();
    create_indexes(&engine);
    insert(&engine, &documents);
    let done = AtomicBool::new(false);
    let (mut most_kept, some) = (0, rawdoc! { "a": { "$gte": 200, "$lt": 800 } });
    std::thread::scope(|scope| {
        let (engine, done) = (&engine, &done);
        scope.spawn(move || {
            let mut random = ChaCha8Rng::seed_from_u64(3);
            while !done.load(Ordering::Relaxed) {
                let low = random.random_range(0..DOCUMENTS);
                let few = rawdoc! { "_id": { "$gte": low, "$lt": low + 5 } };
                let set = rawdoc! { "a": random.random_range(0..1_000) };
                update(engine, &few, &rawdoc! { "$set": set });
                std::thread::sleep(std::time::Duration::from_micros(200));
            }
        });
        let _ends = EndsWriters(done);
        for seed in 0..600 {
            let mut drawn = 0;
            each(engine, &sample_stages(&some, 1_500, seed), |row| {
                let a = row.get_i32("a").unwrap();
                assert!((200..800).contains(&a), "seed {seed}: {a}");
                drawn += 1;
            });
            assert_eq!(drawn, 1_500, "seed {seed}");
            most_kept = most_kept.max(engine.server_stats().range_cache_bytes as usize);
        }
    });
    let bytes: usize = documents.iter().map(|one| one.as_bytes().len()).sum();
    assert!(
        most_kept > bytes / 2,
        "{most_kept} of {bytes} bytes were kept"
    );
}

/// Writers move documents about on either side of an area's border, never across it: what is remembered of
/// the points along it must never be stale.
#[test]
fn counts_along_a_border_are_exact_while_others_write() {
    const DOCUMENTS: i32 = 20_000;
    fn place(random: &mut ChaCha8Rng, is_inside: bool) -> RawDocumentBuf {
        let mut axis = || random.random_range(-0.199..0.199);
        let (x, y): (f64, f64) = (axis(), axis());
        let x = if is_inside { x } else { x + 0.4 };
        rawdoc! { "type": "Point", "coordinates": [x, y] }
    }
    let is_inside = |id: i32| id % 2 == 0;
    let directory = tempfile::tempdir().unwrap();
    let engine = open(directory.path());
    let mut random = ChaCha8Rng::seed_from_u64(6);
    let documents: Vec<_> = (0..DOCUMENTS)
        .map(|id| rawdoc! { "_id": id, "place": place(&mut random, is_inside(id)) })
        .collect();
    create_indexes(&engine);
    insert(&engine, &documents);
    let remembered = || engine.server_stats().range_cache_bytes;
    let inside = area(-0.2, -0.2, 0.2, 0.2);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (engine, done) = (&engine, &done);
        scope.spawn(move || {
            let mut random = ChaCha8Rng::seed_from_u64(1);
            while !done.load(Ordering::Relaxed) {
                let id = random.random_range(0..DOCUMENTS);
                let place = place(&mut random, is_inside(id));
                let set = rawdoc! { "$set": { "place": place } };
                update(engine, &rawdoc! { "_id": id }, &set);
                std::thread::yield_now();
            }
        });
        let _ends = EndsWriters(done);
        for round in 0..300 {
            let expected = i64::from(DOCUMENTS / 2);
            assert_eq!(count(engine, &inside, None), expected, "round {round}");
        }
    });
    assert_eq!(count(&engine, &inside, None), i64::from(DOCUMENTS / 2));
    assert!(remembered() > 0);
    // Nothing is written any more: what was read last is remembered, and gone when its range changes.
    let before = remembered();
    assert_eq!(count(&engine, &inside, None), i64::from(DOCUMENTS / 2));
    assert_eq!(remembered(), before);
    delete(&engine, &rawdoc! { "place": { "$exists": true } });
    assert_eq!(remembered(), 0);
    assert_eq!(count(&engine, &inside, None), 0);
}

/// Each of the matching documents is drawn equally often over many seeds. Chi-squared with as many
/// degrees of freedom as documents less one passes the bound (mean plus 4.5 standard deviations) about
/// once in 100,000 runs; the seeds are fixed, so a pass stays a pass.
#[test]
fn samples_are_uniform() {
    const DRAWS: i64 = 4_000;
    const SIZE: i64 = 8;
    let engine = Engine::in_memory().unwrap();
    let mut random = ChaCha8Rng::seed_from_u64(9);
    let documents: Vec<_> = (0..3_000).map(|id| document(&mut random, id)).collect();
    create_indexes(&engine);
    insert(&engine, &documents);
    let filters = [
        rawdoc! { "a": { "$gte": 200, "$lt": 320 } },
        rawdoc! { "_id": { "$gte": 1_000, "$lt": 1_400 } },
        area(-0.4, -0.3, 0.2, 0.3),
        rawdoc! { "a": { "$gte": 200, "$lt": 600 }, "tags": { "$mod": [5, 0] } },
    ];
    for filter in filters {
        let matching = sample(&engine, &filter, 100_000, 1).len();
        assert!(matching > 100, "{filter:?} matches {matching}");
        let mut drawn = vec![0_f64; 3_000];
        for seed in 0..DRAWS {
            for id in sample(&engine, &filter, SIZE, seed) {
                drawn[id as usize] += 1.0;
            }
        }
        let expected = (DRAWS * SIZE) as f64 / matching as f64;
        let hit: Vec<f64> = drawn.into_iter().filter(|times| *times > 0.0).collect();
        assert_eq!(hit.len(), matching, "{filter:?}");
        let chi_squared: f64 = hit
            .iter()
            .map(|times| (times - expected).powi(2) / expected)
            .sum();
        let freedom = (matching - 1) as f64;
        let bound = freedom + 4.5 * (2.0 * freedom).sqrt();
        assert!(chi_squared < bound, "{filter:?}: {chi_squared} of {bound}");
    }
}
