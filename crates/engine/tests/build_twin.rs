//! Indexes built on existing documents, sorted in files and loaded past the log, against their plain
//! twin, a walk over all documents: while others write, for every kind of index, and after restarts.
#![allow(clippy::unwrap_used)]

mod kill;

use bson::raw::{RawArrayBuf, RawDocument, RawDocumentBuf};
use bson::rawdoc;
use kill::killed;
use meridian_engine::{
    BuildPhase, BuildProgress, Code, CountRequest, DeleteStatement, Engine, EngineOptions,
    InsertOptions, Namespace, UpdateStatement,
};
use rand::prelude::*;
use rand_chacha::ChaCha8Rng;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// So little that every build writes runs, merges them, and loads files.
const SORT_BYTES: u64 = 60_000;

fn namespace() -> Namespace {
    Namespace::new("test", "built").unwrap()
}

/// Opens the engine; one that was dropped may still be held for a moment by its background threads.
fn open(directory: &Path, journal: bool) -> Arc<Engine> {
    let options = EngineOptions {
        sort_bytes: Some(SORT_BYTES),
        journal,
        ..EngineOptions::default()
    };
    for _ in 0..500 {
        match Engine::open(directory, options.clone()) {
            Ok(engine) => return engine,
            Err(error) if error.message.contains("in use") => {
                std::thread::sleep(std::time::Duration::from_millis(10));
            }
            Err(error) => panic!("{error:?}"),
        }
    }
    panic!("the engine that was dropped is still open after five seconds");
}

fn document(random: &mut ChaCha8Rng, id: i32) -> RawDocumentBuf {
    let mut position = RawArrayBuf::new();
    (0..2).for_each(|_| position.push(random.random_range(-40.0..40.0)));
    let mut document = rawdoc! {
        "_id": id,
        "a": random.random_range(0..1_000),
        "b": random.random_range(0..5),
        "place": { "type": "Point", "coordinates": position },
        "text": "x".repeat(random.random_range(0..30)),
        "key": id,
    };
    if random.random() {
        document.append(
            bson::cstr!("tags"),
            rawdoc! { "x": [random.random_range(0..50), random.random_range(0..50)] },
        );
    }
    document
}

fn insert(engine: &Engine, documents: &[RawDocumentBuf]) {
    let borrowed: Vec<&RawDocument> = documents.iter().map(AsRef::as_ref).collect();
    let options = InsertOptions {
        ordered: false,
        ..InsertOptions::default()
    };
    for part in borrowed.chunks(1_000) {
        engine.insert(&namespace(), part, &options).unwrap();
    }
}

/// Some are compressed in ways of their own: their trees are not in the order in which they were made.
fn specs() -> Vec<RawDocumentBuf> {
    let zstd = rawdoc! { "meridian": { "compression": "zstd", "compressionLevel": 9 } };
    let none = rawdoc! { "meridian": { "compression": "none" } };
    vec![
        rawdoc! { "key": { "a": 1 }, "name": "a", "storageEngine": zstd },
        rawdoc! { "key": { "b": -1, "text": 1 }, "name": "btext", "include": ["a"] },
        rawdoc! { "key": { "place": "2dsphere" }, "name": "place", "storageEngine": none },
        rawdoc! { "key": { "tags.x": 1, "a": 1 }, "name": "tags", "sparse": true },
        rawdoc! { "key": { "text": "hashed" }, "name": "hashed" },
        rawdoc! { "key": { "a": -1, "b": 1 }, "name": "whole", "clustering": true },
        rawdoc! { "key": { "b": 1 }, "name": "part", "partialFilterExpression": { "a": { "$gt": 500 } } },
        rawdoc! { "key": { "key": 1 }, "name": "key", "unique": true },
        rawdoc! { "key": { "$**": 1 }, "name": "every" },
        rawdoc! { "key": { "a": 1, "$**": "text" }, "name": "words" },
    ]
}

fn create(
    engine: &Engine,
    specs: &[RawDocumentBuf],
    report: &mut dyn FnMut(BuildProgress),
) -> meridian_engine::Result<()> {
    let specs: Vec<&RawDocument> = specs.iter().map(AsRef::as_ref).collect();
    engine
        .create_indexes(&namespace(), &specs, report)
        .map(|_| ())
}

fn update(engine: &Engine, filter: &RawDocument, update: &RawDocument) {
    let statement = UpdateStatement::new(filter, update);
    engine.update(&namespace(), &statement).unwrap();
}

fn delete(engine: &Engine, filter: &RawDocument) {
    let statement = DeleteStatement::new(filter);
    engine.delete(&namespace(), &statement).unwrap();
}

/// One random change to a few documents; ids in use are below `next_id`.
fn change(engine: &Engine, random: &mut ChaCha8Rng, next_id: &mut i32) {
    let from = random.random_range(0..*next_id);
    let some = rawdoc! { "_id": { "$gte": from, "$lt": from + random.random_range(1..40) } };
    match random.random_range(0..5) {
        0 => delete(engine, &some),
        1 => {
            let a = random.random_range(0..1_000);
            update(engine, &some, &rawdoc! { "$set": { "a": a, "text": "y" } });
        }
        2 => update(
            engine,
            &some,
            &rawdoc! { "$push": { "tags.x": random.random_range(0..50) } },
        ),
        // What is only in the values of entries.
        3 => update(engine, &some, &rawdoc! { "$inc": { "other": 1 } }),
        _ => {
            let count = random.random_range(1..60);
            let ids = *next_id..*next_id + count;
            let documents: Vec<_> = ids.map(|id| document(random, id)).collect();
            insert(engine, &documents);
            *next_id += count;
        }
    }
}

/// Documents and indexes agree both ways, with the rank indexes too, and counts are those of a walk.
fn verify(engine: &Engine, what: &str) {
    let report = engine.validate(&namespace()).unwrap();
    assert!(report.errors.is_empty(), "{what}: {:?}", report.errors);
    let natural = rawdoc! { "$natural": 1 };
    for (filter, name) in [
        (rawdoc! { "a": { "$gte": 200, "$lt": 700 } }, "a"),
        (rawdoc! { "b": { "$gte": 1, "$lt": 3 } }, "btext"),
        (rawdoc! { "key": { "$gte": 0 } }, "key"),
        (rawdoc! { "tags.x": 7 }, "tags"),
        (rawdoc! { "tags.x": 7 }, "every"),
        (rawdoc! { "a": { "$gte": 200, "$lt": 700 } }, "every"),
    ] {
        let counted = count(engine, &filter, bson::RawBsonRef::String(name));
        let walked = count(engine, &filter, bson::RawBsonRef::Document(&natural));
        assert_eq!(counted, walked, "{what}: {filter:?}");
    }
}

fn count(engine: &Engine, filter: &RawDocument, hint: bson::RawBsonRef<'_>) -> i64 {
    let request = CountRequest {
        collation: None,
        filter,
        skip: 0,
        limit: None,
        hint: Some(hint),
    };
    engine.count(&namespace(), &request).unwrap()
}

#[test]
fn indexes_built_while_others_write_hold_what_the_documents_say() {
    let seed: u64 = rand::random();
    println!("seed {seed}");
    for journal in [true, false] {
        let directory = tempfile::tempdir().unwrap();
        let engine = open(directory.path(), journal);
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let documents: Vec<_> = (0..8_000).map(|id| document(&mut random, id)).collect();
        insert(&engine, &documents);
        let (built, changes) = (AtomicBool::new(false), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for writer in 0..2_u64 {
                let (engine, built, changes) = (&engine, &built, &changes);
                scope.spawn(move || {
                    let mut random = ChaCha8Rng::seed_from_u64(seed + 1 + writer);
                    let mut next_id = 8_000 * (1 + 100 * (writer as i32));
                    while !built.load(Ordering::Acquire) {
                        change(engine, &mut random, &mut next_id);
                        changes.fetch_add(1, Ordering::Relaxed);
                        std::thread::sleep(std::time::Duration::from_micros(200));
                    }
                });
            }
            let mut phases = Vec::new();
            let created = create(&engine, &specs(), &mut |progress| {
                phases.push(progress.phase)
            });
            built.store(true, Ordering::Release);
            created.unwrap();
            for phase in [
                BuildPhase::Reading,
                BuildPhase::Loading,
                BuildPhase::CatchingUp,
            ] {
                assert!(
                    phases.contains(&phase),
                    "seed {seed}: {phase:?} was never reported"
                );
            }
        });
        let changes = changes.into_inner();
        assert!(changes > 20, "{changes} changes: the test proves nothing");
        verify(&engine, &format!("seed {seed}, journal {journal}"));
        let mut next_id = 90_000_000;
        for _ in 0..50 {
            change(&engine, &mut random, &mut next_id);
        }
        verify(
            &engine,
            &format!("seed {seed}, journal {journal}, changed later"),
        );
        drop(engine);
        let engine = open(directory.path(), journal);
        verify(
            &engine,
            &format!("seed {seed}, journal {journal}, opened again"),
        );
    }
}

#[test]
fn after_a_kill_summaries_are_caught_up_although_files_were_loaded() {
    let seed: u64 = rand::random();
    println!("seed {seed}");
    let directory = tempfile::tempdir().unwrap();
    let engine = open(directory.path(), true);
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let mut next_id = 5_000;
    let documents: Vec<_> = (0..next_id).map(|id| document(&mut random, id)).collect();
    insert(&engine, &documents);
    create(&engine, &specs(), &mut |_| ()).unwrap();
    for _ in 0..30 {
        change(&engine, &mut random, &mut next_id);
    }
    engine.sync_journal().unwrap();
    let copy = killed(directory.path());
    let restarted = open(copy.path(), true);
    assert_eq!(
        restarted.server_stats().ranks_at_start,
        "caughtUp",
        "seed {seed}"
    );
    verify(&restarted, &format!("seed {seed}"));
}

#[test]
fn a_kill_during_a_build_leaves_neither_index_nor_files() {
    let directory = tempfile::tempdir().unwrap();
    let engine = open(directory.path(), true);
    let mut random = ChaCha8Rng::seed_from_u64(1);
    let documents: Vec<_> = (0..5_000).map(|id| document(&mut random, id)).collect();
    insert(&engine, &documents);
    let mut copies = Vec::new();
    let mut last = None;
    create(&engine, &specs(), &mut |progress| {
        if last.replace(progress.phase) != Some(progress.phase) {
            copies.push((progress.phase, killed(directory.path())));
        }
    })
    .unwrap();
    assert!(copies.len() >= 2);
    for (phase, copy) in copies {
        assert!(copy.path().join("scratch").read_dir().unwrap().count() > 0);
        let restarted = open(copy.path(), true);
        assert_eq!(
            restarted.list_indexes(&namespace()).unwrap().len(),
            1,
            "{phase:?}"
        );
        assert!(!copy.path().join("scratch").exists());
        create(&restarted, &specs(), &mut |_| ()).unwrap();
        verify(&restarted, &format!("killed while {phase:?}, built again"));
    }
    let scratch = directory.path().join("scratch");
    assert_eq!(scratch.read_dir().unwrap().count(), 0);
}

#[test]
fn duplicates_are_found_among_the_old_documents_and_the_changed_ones() {
    let directory = tempfile::tempdir().unwrap();
    let engine = open(directory.path(), true);
    let mut random = ChaCha8Rng::seed_from_u64(1);
    let documents: Vec<_> = (0..5_000).map(|id| document(&mut random, id)).collect();
    insert(&engine, &documents);
    let unique = [rawdoc! { "key": { "key": 1 }, "name": "key", "unique": true }];

    update(
        &engine,
        &rawdoc! { "_id": 4_000 },
        &rawdoc! { "$set": { "key": 17 } },
    );
    let error = create(&engine, &unique, &mut |_| ()).unwrap_err();
    assert_eq!(error.code, Code::DuplicateKey);
    assert!(
        error.message.starts_with("Index build failed: "),
        "{}",
        error.message
    );
    assert!(
        error.message.ends_with(
            "E11000 duplicate key error collection: test.built index: key dup key: { key: 17 }"
        ),
        "{}",
        error.message
    );
    update(
        &engine,
        &rawdoc! { "_id": 4_000 },
        &rawdoc! { "$set": { "key": 4_000 } },
    );

    // Two documents exchange their keys while the index is built: no duplicate at the end.
    let mut once = true;
    create(&engine, &unique, &mut |_| {
        if std::mem::take(&mut once) {
            for (id, key) in [(5, -1), (3_000, 5), (5, 3_000)] {
                update(
                    &engine,
                    &rawdoc! { "_id": id },
                    &rawdoc! { "$set": { "key": key } },
                );
            }
        }
    })
    .unwrap();
    let report = engine.validate(&namespace()).unwrap();
    assert!(report.errors.is_empty(), "{:?}", report.errors);
    let names = meridian_engine::DropIndexes::Names(vec!["key".into()]);
    engine.drop_indexes(&namespace(), &names).unwrap();

    // A document that comes during the build has a key that is there already.
    let mut once = true;
    let error = create(&engine, &unique, &mut |_| {
        if std::mem::take(&mut once) {
            let mut late = document(&mut random, 6_000);
            late = rawdoc! { "_id": 6_000, "key": late.get_i32("key").unwrap() - 5_990 };
            insert(&engine, &[late]);
        }
    })
    .unwrap_err();
    assert_eq!(error.code, Code::DuplicateKey);
    assert!(
        error.message.ends_with("dup key: { key: 10 }"),
        "{}",
        error.message
    );
    assert_eq!(engine.list_indexes(&namespace()).unwrap().len(), 1);
}

#[test]
fn a_build_outlives_a_rename_and_ends_with_its_collection_or_its_index() {
    let directory = tempfile::tempdir().unwrap();
    let engine = open(directory.path(), true);
    let mut random = ChaCha8Rng::seed_from_u64(1);
    let documents: Vec<_> = (0..3_000).map(|id| document(&mut random, id)).collect();
    let other = Namespace::new("test", "other").unwrap();
    let during = |action: &mut dyn FnMut()| {
        insert(&engine, &documents);
        let mut once = true;
        create(&engine, &specs(), &mut |_| {
            if std::mem::take(&mut once) {
                action();
            }
        })
    };
    during(&mut || {
        engine
            .rename_collection(&namespace(), &other, false)
            .unwrap()
    })
    .unwrap();
    assert_eq!(
        engine.list_indexes(&other).unwrap().len(),
        1 + specs().len()
    );
    let report = engine.validate(&other).unwrap();
    assert!(report.errors.is_empty(), "{:?}", report.errors);

    let mut drop_index = || {
        let names = meridian_engine::DropIndexes::Names(vec!["tags".into()]);
        engine.drop_indexes(&namespace(), &names).unwrap();
    };
    let error = during(&mut drop_index).unwrap_err();
    assert_eq!(error.code, Code::IndexBuildAborted);
    assert_eq!(engine.list_indexes(&namespace()).unwrap().len(), 1);

    let mut drop_collection = || {
        engine.drop_collection(&namespace()).unwrap();
    };
    let error = during(&mut drop_collection).unwrap_err();
    assert_eq!(error.code, Code::IndexBuildAborted);
}

#[test]
fn the_store_in_memory_loads_alike() {
    let engine = Engine::in_memory().unwrap();
    let mut random = ChaCha8Rng::seed_from_u64(1);
    let documents: Vec<_> = (0..20_000).map(|id| document(&mut random, id)).collect();
    insert(&engine, &documents);
    create(&engine, &specs(), &mut |_| ()).unwrap();
    verify(&engine, "in memory");
}
