//! Counts after a kill against their plain twin, a walk: many writers of different kinds at once, whose commits
//! reach the log together, on several collections.
#![allow(clippy::unwrap_used)]

mod kill;

use bson::raw::{RawDocument, RawDocumentBuf};
use bson::rawdoc;
use meridian_engine::{
    Code, DeleteStatement, DropIndexes, Engine, EngineOptions, InsertOptions, Namespace,
    UpdateStatement,
};
use rand::prelude::*;
use rand_chacha::ChaCha8Rng;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const DOCUMENTS: i32 = 400;
/// How long the writers write before each kill.
const WRITE: Duration = Duration::from_millis(150);
const KILLS: u64 = 8;

fn namespace(collection: &str) -> Namespace {
    Namespace::new("kill", collection).unwrap()
}

fn open(directory: &Path) -> Arc<Engine> {
    Engine::open(directory, EngineOptions::default()).unwrap()
}

fn insert(engine: &Engine, collection: &str, ids: std::ops::Range<i32>, random: &mut ChaCha8Rng) {
    let documents: Vec<RawDocumentBuf> = ids
        .map(|id| rawdoc! { "_id": id, "n": random.random_range(0..1_000), "tags": [id % 7, id % 3] })
        .collect();
    let documents: Vec<&RawDocument> = documents.iter().map(AsRef::as_ref).collect();
    let options = InsertOptions {
        ordered: false,
        ..InsertOptions::default()
    };
    // Some are there already: they are refused.
    engine
        .insert(&namespace(collection), &documents, &options)
        .unwrap();
}

fn create_indexes(engine: &Engine, collection: &str, specs: &[RawDocumentBuf]) {
    let specs: Vec<&RawDocument> = specs.iter().map(AsRef::as_ref).collect();
    engine
        .create_indexes(&namespace(collection), &specs, &mut |_| ())
        .unwrap();
}

fn update(
    engine: &Engine,
    collection: &str,
    filter: &RawDocument,
    change: &RawDocument,
    upsert: bool,
) {
    let mut statement = UpdateStatement::new(filter, change);
    statement.upsert = upsert;
    match engine.update(&namespace(collection), &statement) {
        // Somebody else inserted the document meanwhile.
        Err(error) if upsert && error.code == Code::DuplicateKey => {}
        other => _ = other.unwrap(),
    }
}

/// One step of a writer of this kind.
fn step(engine: &Engine, kind: usize, number: i32, random: &mut ChaCha8Rng) {
    let some = random.random_range(0..DOCUMENTS);
    let inc = rawdoc! { "$inc": { "n": 1 } };
    match kind {
        0 => insert(engine, "inserted", number * 20..number * 20 + 20, random),
        1 | 2 => update(engine, "updated", &rawdoc! { "_id": some }, &inc, false),
        3 => update(engine, "carried", &rawdoc! { "_id": some }, &inc, false),
        4 => {
            let id = random.random_range(0..2 * DOCUMENTS);
            update(engine, "mixed", &rawdoc! { "_id": id }, &inc, true);
        }
        5 => {
            let few = rawdoc! { "_id": { "$gte": some, "$lt": some + 5 } };
            let statement = DeleteStatement::new(&few);
            engine.delete(&namespace("mixed"), &statement).unwrap();
        }
        6 => insert(engine, "mixed", some..some + 10, random),
        // Removes whole trees, so that removed ranges stand among the changes of others.
        7 => {
            insert(engine, "dropped", 0..3, random);
            create_indexes(
                engine,
                "dropped",
                &[rawdoc! { "key": { "n": 1 }, "name": "n" }],
            );
            let names = DropIndexes::Names(vec!["n".into()]);
            engine.drop_indexes(&namespace("dropped"), &names).unwrap();
            engine.drop_collection(&namespace("dropped")).unwrap();
        }
        _ => engine.save_rank_indexes().unwrap(),
    }
}

fn write_all(engine: &Engine, seed: u64, kinds: std::ops::Range<usize>) {
    let is_done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for kind in kinds {
            let is_done = &is_done;
            scope.spawn(move || {
                let mut random = ChaCha8Rng::seed_from_u64(seed * 100 + kind as u64);
                // Of each kill others, or few would be new.
                let first = i32::try_from(seed % 1_000).unwrap() * 1_000;
                let mut number = first;
                while !is_done.load(Ordering::Relaxed) {
                    step(engine, kind, number, &mut random);
                    number += 1;
                }
            });
        }
        std::thread::sleep(WRITE);
        is_done.store(true, Ordering::Relaxed);
    });
}

fn fill(engine: &Engine) {
    let mut random = ChaCha8Rng::seed_from_u64(0);
    for collection in ["inserted", "updated", "carried", "mixed"] {
        insert(engine, collection, -DOCUMENTS..0, &mut random);
        insert(engine, collection, 0..DOCUMENTS, &mut random);
    }
    let plain = || rawdoc! { "key": { "n": 1 }, "name": "n" };
    let tags = rawdoc! { "key": { "tags": 1 }, "name": "tags" };
    create_indexes(engine, "inserted", &[plain(), tags]);
    create_indexes(engine, "mixed", &[plain()]);
    // Its entries stay where they are and get other values.
    let carrying = rawdoc! { "key": { "tags": 1 }, "name": "tags", "clustering": true };
    create_indexes(engine, "carried", &[carrying]);
}

/// Kills while these kinds of writers write, and compares all counts with walks after each.
fn kill_while_writing(seed: u64, kinds: std::ops::Range<usize>) {
    let mut directory = tempfile::tempdir().unwrap();
    let engine = open(directory.path());
    fill(&engine);
    drop(engine);
    for kill in 0..KILLS {
        let copy = {
            let engine = open(directory.path());
            engine.save_rank_indexes().unwrap();
            write_all(&engine, seed + kill, kinds.clone());
            kill::killed(directory.path())
        };
        directory = copy;
        let engine = open(directory.path());
        let at_start = engine.server_stats().ranks_at_start;
        assert_ne!(at_start, "built", "seed {seed}, kill {kill}");
        for collection in engine.list_collections("kill").unwrap() {
            let name = &collection.name;
            let report = engine.validate(&namespace(name)).unwrap();
            let errors = &report.errors;
            assert!(
                errors.is_empty(),
                "seed {seed}, kill {kill}: {name}: {errors:?}"
            );
        }
    }
}

#[test]
fn counts_of_many_writers_survive_kills() {
    let seed = rand::random_range(1..1_000_000_u64);
    println!("seed {seed}");
    kill_while_writing(seed, 0..8);
}

/// Counts are saved by several threads at once, as the background, `fsync` and index builds do.
#[test]
fn counts_that_are_saved_by_several_at_once_survive_kills() {
    let seed = rand::random_range(1..1_000_000_u64);
    println!("seed {seed}");
    kill_while_writing(seed, 0..11);
}
