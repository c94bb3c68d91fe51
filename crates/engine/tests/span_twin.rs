//! Ranges of time of a time series, which scans begin no earlier than the longest bucket lasts, against all measurements.
//! Buckets of several writers and some that are put in by hand, before and after a restart.
#![allow(clippy::unwrap_used)]

use bson::oid::ObjectId;
use bson::raw::{RawBsonRef, RawDocument, RawDocumentBuf};
use bson::{DateTime, rawdoc};
use meridian_engine::timeseries::Granularity;
use meridian_engine::{
    AggregateRequest, AggregateTarget, Code, CollModRequest, CollectionOptions, Engine,
    EngineOptions, ExplainRequest, InsertOptions, Namespace, Verbosity,
};
use rand::prelude::*;
use rand_chacha::ChaCha8Rng;
use std::sync::Arc;

const BEGIN_MS: i64 = 1_762_041_600_000;
const HOUR_MS: i64 = 3_600_000;
const HOURS: i64 = 96;
const WRITERS: u64 = 3;

fn namespace(collection: &str) -> Namespace {
    Namespace::new("test", collection).unwrap()
}

fn open(directory: &std::path::Path) -> Arc<Engine> {
    Engine::open(directory, EngineOptions::default()).unwrap()
}

/// The code of the first error.
fn insert(engine: &Engine, collection: &str, documents: &[RawDocumentBuf]) -> Option<Code> {
    let documents: Vec<&RawDocument> = documents.iter().map(AsRef::as_ref).collect();
    let outcome = engine.insert(
        &namespace(collection),
        &documents,
        &InsertOptions::default(),
    );
    let errors = outcome.unwrap().errors.into_iter();
    errors.map(|failed| failed.error.code).next()
}

/// Readings of some series, each statement within a few minutes, some of them late.
fn write(engine: &Engine, random: &mut ChaCha8Rng) -> Vec<i64> {
    let mut times = Vec::new();
    for _ in 0..60 {
        let begin = BEGIN_MS + random.random_range(0..HOURS * HOUR_MS);
        let count = random.random_range(1..40);
        let reading = |_| {
            let time = begin + random.random_range(0..300_000);
            times.push(time);
            rawdoc! { "t": DateTime::from_millis(time), "m": random.random_range(0..6) }
        };
        let readings: Vec<RawDocumentBuf> = (0..count).map(reading).collect();
        assert_eq!(insert(engine, "s", &readings), None);
    }
    times
}

/// A bucket of two readings so far from each other.
fn put_bucket(engine: &Engine, start: i64, lasts: i64) -> Option<Code> {
    let mut id = ObjectId::new().bytes();
    id[..4].copy_from_slice(&u32::try_from(start / 1_000).unwrap().to_be_bytes());
    let [first, last] = [start, start + lasts].map(DateTime::from_millis);
    let bucket = rawdoc! {
        "_id": ObjectId::from_bytes(id),
        "control": { "version": 1, "min": { "t": first }, "max": { "t": last } },
        "meta": 7,
        "data": { "t": { "0": first, "1": last } },
    };
    insert(engine, "system.buckets.s", &[bucket])
}

fn range(from: i64, until: i64) -> Vec<RawDocumentBuf> {
    let (from, until) = (DateTime::from_millis(from), DateTime::from_millis(until));
    vec![
        rawdoc! { "$match": { "t": { "$gte": from, "$lt": until } } },
        rawdoc! { "$count": "n" },
    ]
}

fn count(engine: &Engine, pipeline: &[RawDocumentBuf]) -> usize {
    let target = AggregateTarget::Collection(namespace("s"));
    let request = AggregateRequest::new(pipeline);
    let mut query = engine.aggregate(&target, &request).unwrap();
    let mut counted = 0;
    let mut add = |row: &RawDocument| counted = row.get_i32("n").unwrap();
    query.fill(None, usize::MAX, &mut add).unwrap();
    usize::try_from(counted).unwrap()
}

/// How many buckets a statement reads.
fn read(engine: &Engine, pipeline: &[RawDocumentBuf]) -> i64 {
    let explain = ExplainRequest::Aggregate(AggregateRequest::new(pipeline));
    let verbosity = Verbosity::ExecutionStats;
    let shown = engine
        .explain(&namespace("s"), &explain, verbosity)
        .unwrap();
    let first = shown.get_array("stages").unwrap().get(0).unwrap().unwrap();
    let cursor = first.as_document().unwrap().get_document("$cursor");
    let stats = cursor.unwrap().get_document("executionStats").unwrap();
    match stats.get("totalDocsExamined").unwrap().unwrap() {
        RawBsonRef::Int32(read) => read.into(),
        other => panic!("{other:?}"),
    }
}

fn compare(engine: &Engine, times: &[i64], random: &mut ChaCha8Rng) {
    for _ in 0..200 {
        let from = BEGIN_MS + random.random_range(-2 * HOUR_MS..(HOURS + 2) * HOUR_MS);
        let until = from + random.random_range(0..3 * HOUR_MS);
        let expected = times.iter().filter(|time| (from..until).contains(*time));
        let counted = count(engine, &range(from, until));
        assert_eq!(counted, expected.count(), "{from} to {until}");
    }
    let report = engine.validate(&namespace("system.buckets.s")).unwrap();
    assert!(report.errors.is_empty(), "{:?}", report.errors);
}

fn create(engine: &Engine) {
    let options = rawdoc! { "timeseries": { "timeField": "t", "metaField": "m" } };
    let options = CollectionOptions::parse(&options).unwrap();
    engine.create_collection(&namespace("s"), options).unwrap();
}

#[test]
fn ranges_of_time_find_what_lies_in_them_however_long_buckets_last() {
    let seed = rand::random();
    println!("seed {seed}");
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let directory = tempfile::tempdir().unwrap();
    let engine = open(directory.path());
    create(&engine);
    let mut times: Vec<i64> = std::thread::scope(|scope| {
        let engine = &engine;
        let writer = |own| move || write(engine, &mut ChaCha8Rng::seed_from_u64(own));
        let writers: Vec<_> = (0..WRITERS)
            .map(|number| scope.spawn(writer(seed.wrapping_add(number))))
            .collect();
        let all = writers.into_iter();
        all.flat_map(|writer| writer.join().unwrap()).collect()
    });
    compare(&engine, &times, &mut random);
    for lasts in [0, HOUR_MS / 2, HOUR_MS - 1, HOUR_MS] {
        let start = BEGIN_MS + random.random_range(0..HOURS) * HOUR_MS;
        assert_eq!(
            put_bucket(&engine, start, HOUR_MS + 1),
            Some(Code::BadValue)
        );
        assert_eq!(put_bucket(&engine, start, lasts), None);
        times.extend([start, start + lasts]);
        compare(&engine, &times, &mut random);
    }
    drop(engine);

    let engine = open(directory.path());
    compare(&engine, &times, &mut random);
    times.extend(write(&engine, &mut random));
    compare(&engine, &times, &mut random);
    let coarser = CollModRequest {
        granularity: Some(Granularity::Minutes),
        ..CollModRequest::default()
    };
    engine.modify_collection(&namespace("s"), &coarser).unwrap();
    compare(&engine, &times, &mut random);
    times.extend(write(&engine, &mut random));
    compare(&engine, &times, &mut random);
}

/// A bucket of each minute, which last for ten seconds: of those that may hold an instant one is read, and all of an hour
/// when one of them has lasted for an hour.
#[test]
fn a_scan_begins_no_earlier_than_the_longest_bucket_lasts() {
    let directory = tempfile::tempdir().unwrap();
    let engine = open(directory.path());
    create(&engine);
    for minute in 0..180 {
        let begin = BEGIN_MS + minute * 60_000;
        let reading = |seconds: i64| rawdoc! { "t": DateTime::from_millis(begin + seconds * 1_000), "m": minute };
        assert_eq!(insert(&engine, "s", &[reading(0), reading(10)]), None);
    }
    let instant = BEGIN_MS + 120 * 60_000 + 5_000;
    let asked = range(instant, instant + 6_000);
    assert_eq!((count(&engine, &asked), read(&engine, &asked)), (1, 1));
    let put = put_bucket(&engine, instant - HOUR_MS + 60_000, HOUR_MS - 60_000);
    assert_eq!(put, None);
    assert_eq!((count(&engine, &asked), read(&engine, &asked)), (2, 60));
}
