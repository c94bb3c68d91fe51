//! Cursors that wait for their clients between batches of any size, while others write, against their plain twin: the
//! same query, made at the same moment and read at once. Seeds are printed on failure.
#![allow(clippy::unwrap_used)]

use bson::raw::{RawDocument, RawDocumentBuf};
use bson::{RawArrayBuf, RawBsonRef, rawdoc};
use meridian_engine::{
    AggregateRequest, AggregateTarget, CursorOwner, CursorRegistry, DeleteStatement, Engine,
    EngineOptions, FindRequest, InsertOptions, Namespace, Query,
};
use rand::prelude::*;
use rand_chacha::ChaCha8Rng;
use std::sync::Arc;

const DOCUMENTS: i32 = 1_000;

fn namespace() -> Namespace {
    Namespace::new("test", "cursors").unwrap()
}

/// Every fifth has more than a waiting cursor may hold without a reservation.
fn document(random: &mut ChaCha8Rng, id: i32) -> RawDocumentBuf {
    let mut tags = RawArrayBuf::new();
    for _ in 0..random.random_range(0..4) {
        tags.push(random.random_range(0..6));
    }
    let (lon, lat) = (
        random.random_range(-20.0..20.0),
        random.random_range(-20.0..20.0),
    );
    let text = if random.random_ratio(1, 5) {
        20_000
    } else {
        10
    };
    rawdoc! {
        "_id": id,
        "a": random.random_range(0..8),
        "b": random.random_range(0..40),
        "tags": tags,
        "p": { "type": "Point", "coordinates": [lon, lat] },
        "text": "x".repeat(text),
    }
}

fn filled(engine: &Engine, random: &mut ChaCha8Rng) {
    let documents: Vec<RawDocumentBuf> = (0..DOCUMENTS).map(|id| document(random, id)).collect();
    let borrowed: Vec<&RawDocument> = documents.iter().map(AsRef::as_ref).collect();
    let indexes = [
        rawdoc! { "key": { "a": 1, "b": 1 }, "name": "ab" },
        rawdoc! { "key": { "b": 1, "text": 1 }, "name": "b_text" },
        rawdoc! { "key": { "tags": 1, "b": -1 }, "name": "tags" },
        rawdoc! { "key": { "text": 1 }, "name": "clustering", "clustering": true },
        rawdoc! { "key": { "p": "2dsphere" }, "name": "p" },
        rawdoc! { "key": { "a": 1, "p": "2dsphere" }, "name": "a_p" },
    ];
    let outcome = engine.insert(&namespace(), &borrowed, &InsertOptions::default());
    assert!(outcome.unwrap().errors.is_empty());
    let indexes: Vec<&RawDocument> = indexes.iter().map(AsRef::as_ref).collect();
    engine
        .create_indexes(&namespace(), &indexes, &mut |_| ())
        .unwrap();
}

type Open = Box<dyn Fn(&Engine) -> Query>;

/// A find; an empty sort, projection or hint is none.
fn find(
    filter: RawDocumentBuf,
    sort: RawDocumentBuf,
    projection: RawDocumentBuf,
    hint: &'static str,
    limit: Option<u64>,
) -> Open {
    Box::new(move |engine| {
        let request = FindRequest {
            sort: (!sort.is_empty()).then_some(&sort),
            projection: (!projection.is_empty()).then_some(&projection),
            hint: (!hint.is_empty()).then_some(RawBsonRef::String(hint)),
            limit,
            ..FindRequest::new(&filter)
        };
        engine.find(&namespace(), &request).unwrap()
    })
}

fn plain(filter: RawDocumentBuf) -> Open {
    find(filter, rawdoc! {}, rawdoc! {}, "", None)
}

fn hinted(filter: RawDocumentBuf, hint: &'static str) -> Open {
    find(filter, rawdoc! {}, rawdoc! {}, hint, None)
}

fn aggregate(pipeline: Vec<RawDocumentBuf>) -> Open {
    Box::new(move |engine| {
        let request = AggregateRequest::new(&pipeline);
        let target = AggregateTarget::Collection(namespace());
        engine.aggregate(&target, &request).unwrap()
    })
}

/// One for each kind of node that may have to give up a scan or a row.
fn queries() -> Vec<(&'static str, Open)> {
    let area = || rawdoc! { "$geoWithin": { "$box": [[-15.0, -15.0], [12.0, 17.0]] } };
    let point = || rawdoc! { "type": "Point", "coordinates": [1.0, 2.0] };
    let from_two = || rawdoc! { "a": { "$gte": 2 } };
    let seeking = || rawdoc! { "a": { "$gt": 2 }, "b": { "$gt": 30 } };
    let from_three = || rawdoc! { "b": { "$gte": 3 } };
    let either = || rawdoc! { "$or": [{ "a": 3 }, { "tags": 2 }, { "b": { "$lt": 9 } }] };
    let ordered = || rawdoc! { "$or": [{ "a": 3 }, { "a": 5 }, { "a": 7 }] };
    let some = || rawdoc! { "_id": { "$in": [1, 5, 9, 17, 200, 201, 399] } };
    let none = || rawdoc! {};
    let shape = || rawdoc! { "_id": 0, "b": 1, "text": 1 };
    vec![
        ("scan", plain(none())),
        (
            "filtered scan",
            plain(rawdoc! { "text": { "$gt": "xxxxxxxxxxxx" } }),
        ),
        (
            "backward scan",
            find(none(), rawdoc! { "_id": -1 }, rawdoc! { "a": 0 }, "", None),
        ),
        ("identifiers", plain(some())),
        ("index", hinted(from_two(), "ab")),
        ("limit", find(from_two(), none(), none(), "ab", Some(150))),
        ("seeking", hinted(seeking(), "ab")),
        (
            "seeking back",
            find(seeking(), rawdoc! { "a": -1, "b": -1 }, none(), "ab", None),
        ),
        (
            "multikey",
            hinted(rawdoc! { "tags": { "$gte": 1 } }, "tags"),
        ),
        (
            "covered",
            find(from_three(), none(), shape(), "b_text", None),
        ),
        (
            "clustering",
            hinted(rawdoc! { "text": { "$gte": "x" } }, "clustering"),
        ),
        ("area", hinted(rawdoc! { "p": area() }, "p")),
        (
            "areas",
            hinted(rawdoc! { "a": { "$in": [1, 2, 7] }, "p": area() }, "a_p"),
        ),
        (
            "near",
            plain(rawdoc! { "p": { "$near": { "$geometry": point() } } }),
        ),
        (
            "near, of some",
            plain(
                rawdoc! { "a": { "$in": [1, 2, 7] }, "p": { "$near": { "$geometry": point() } } },
            ),
        ),
        ("union", plain(either())),
        (
            "merged",
            find(ordered(), rawdoc! { "b": 1 }, none(), "", None),
        ),
        (
            "merged, shaped",
            find(
                ordered(),
                rawdoc! { "b": 1 },
                rawdoc! { "_id": 0, "b": 1 },
                "",
                None,
            ),
        ),
        (
            "sorted",
            find(
                none(),
                rawdoc! { "text": 1, "a": -1, "_id": 1 },
                none(),
                "",
                None,
            ),
        ),
        (
            "sample",
            aggregate(vec![rawdoc! { "$sample": { "size": 100, "seed": 4 } }]),
        ),
        (
            "pipeline",
            aggregate(vec![
                rawdoc! { "$match": from_two() },
                rawdoc! { "$set": { "c": { "$add": ["$a", "$b"] } } },
            ]),
        ),
        (
            "groups",
            aggregate(vec![
                rawdoc! { "$unwind": "$tags" },
                rawdoc! { "$group": { "_id": "$tags", "n": { "$sum": 1 } } },
                rawdoc! { "$sort": { "_id": 1 } },
            ]),
        ),
    ]
}

fn write(engine: &Engine, random: &mut ChaCha8Rng) {
    let low = random.random_range(0..2 * DOCUMENTS);
    let new = document(random, low);
    let behind = low + [1, 1, 1, 2][random.random_range(0..4)];
    let some = rawdoc! { "_id": { "$gte": low, "$lt": behind } };
    engine
        .delete(&namespace(), &DeleteStatement::new(&some))
        .unwrap();
    let outcome = engine.insert(&namespace(), &[&new], &InsertOptions::default());
    assert!(outcome.unwrap().errors.is_empty());
}

/// Everything that a cursor hands out, in batches of random sizes, with writes between them.
fn in_batches(mut query: Query, engine: &Engine, random: &mut ChaCha8Rng) -> Vec<RawDocumentBuf> {
    let registry = CursorRegistry::default();
    let mut documents = Vec::new();
    let first = random.random_range(0..5);
    if query
        .fill(Some(first), usize::MAX, &mut |row| {
            documents.push(row.to_owned())
        })
        .unwrap()
    {
        return documents;
    }
    let id = registry
        .open(query, namespace(), CursorOwner::default(), false)
        .unwrap();
    loop {
        write(engine, random);
        let most = random.random_range(1..60);
        let bytes = [usize::MAX, 30_000, 1][random.random_range(0..3)];
        let mut sink = |row: &RawDocument| documents.push(row.to_owned());
        let mut fits = |size: usize| size <= bytes;
        let is_exhausted =
            registry.get_more(id, &namespace(), Some(most), None, &mut fits, &mut sink);
        if is_exhausted.unwrap() {
            return documents;
        }
    }
}

fn check(engine: &Arc<Engine>, seed: u64) {
    let random = &mut ChaCha8Rng::seed_from_u64(seed);
    filled(engine, random);
    for round in 0..2 {
        for (name, open) in queries() {
            let (query, mut plain) = (open(engine), open(engine));
            let mut expected = Vec::new();
            plain
                .fill(None, usize::MAX, &mut |row| expected.push(row.to_owned()))
                .unwrap();
            assert!(
                expected.len() > 2,
                "seed {seed}, round {round}: {name} finds little"
            );
            let found = in_batches(query, engine, random);
            assert!(
                found == expected,
                "seed {seed}, round {round}: {name}: {} of {}",
                found.len(),
                expected.len()
            );
        }
    }
}

#[test]
fn cursors_that_wait_find_what_their_queries_found() {
    for seed in 0..3 {
        check(&Engine::in_memory().unwrap(), seed);
        let directory = tempfile::tempdir().unwrap();
        let engine = Engine::open(directory.path(), EngineOptions::default()).unwrap();
        check(&engine, seed);
    }
}
