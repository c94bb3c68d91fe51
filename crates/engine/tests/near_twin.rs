//! Nearest-first searches against their plain twin: every document measured, sorted by distance and
//! `_id`. Whatever index and plan answers, the same documents come in the same order. Seeds are printed.
#![allow(clippy::unwrap_used)]

use bson::raw::{RawArrayBuf, RawDocument, RawDocumentBuf};
use bson::{cstr, rawdoc};
use meridian_engine::geo::Near;
use meridian_engine::query::Filter;
use meridian_engine::{
    CountRequest, DeleteStatement, Engine, EngineOptions, FindRequest, InsertOptions, Namespace,
    UpdateStatement,
};
use meridian_value::path::Path;
use rand::prelude::*;
use rand_chacha::ChaCha8Rng;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

const DOCUMENTS: i32 = 3_000;
const QUERIES: usize = 250;

fn namespace() -> Namespace {
    Namespace::new("test", "near").unwrap()
}

fn pair(random: &mut ChaCha8Rng) -> (f64, f64) {
    match random.random_range(0..10) {
        // A cluster, a grid with equal distances, the antimeridian, the poles, anywhere.
        0..4 => (
            10.0 + random.random_range(-0.5..0.5),
            45.0 + random.random_range(-0.5..0.5),
        ),
        4 | 5 => (
            f64::from(random.random_range(-4..4)),
            f64::from(random.random_range(-4..4)),
        ),
        6 => {
            let lon: f64 = *[180.0, -180.0, 179.99, -179.99].choose(random).unwrap();
            (lon, random.random_range(-10.0..10.0))
        }
        7 => {
            let lat: f64 = *[90.0, -90.0, 89.9, -89.9].choose(random).unwrap();
            (random.random_range(-180.0..180.0), lat)
        }
        _ => (
            random.random_range(-180.0..180.0),
            random.random_range(-90.0..90.0),
        ),
    }
}

fn point(random: &mut ChaCha8Rng) -> RawDocumentBuf {
    let (lon, lat) = pair(random);
    rawdoc! { "type": "Point", "coordinates": [lon, lat] }
}

fn shape(random: &mut ChaCha8Rng) -> RawDocumentBuf {
    let (lon, lat) = pair(random);
    let (lon, lat) = (lon.clamp(-170.0, 170.0), lat.clamp(-80.0, 80.0));
    let size = random.random_range(0.01..3.0);
    match random.random_range(0..4) {
        0 => {
            rawdoc! { "type": "LineString", "coordinates": [[lon, lat], [lon + size, lat], [lon, lat + size]] }
        }
        1 => rawdoc! { "type": "MultiPoint", "coordinates": [[lon, lat], [lon + size, lat]] },
        2 => rawdoc! { "type": "Polygon", "coordinates": [
            [[lon, lat], [lon + size, lat], [lon + size, lat + size], [lon, lat + size], [lon, lat]]
        ] },
        _ => rawdoc! { "type": "GeometryCollection", "geometries": [
            { "type": "Point", "coordinates": [lon, lat] },
            { "type": "LineString", "coordinates": [[lon, lat], [lon - size, lat - size]] }
        ] },
    }
}

/// Which kinds of locations documents have.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Points,
    Shapes,
    /// Several locations a document.
    Lists,
}

fn document(random: &mut ChaCha8Rng, id: i32, kind: Kind) -> RawDocumentBuf {
    let mut document =
        rawdoc! { "_id": id, "a": random.random_range(0..5), "b": random.random_range(0..1000) };
    if random.random_ratio(1, 30) {
        return document;
    }
    match kind {
        Kind::Points => document.append(cstr!("place"), point(random)),
        Kind::Shapes if random.random_ratio(1, 2) => {
            document.append(cstr!("place"), shape(random));
        }
        Kind::Shapes => document.append(cstr!("place"), point(random)),
        Kind::Lists => {
            let mut list = RawArrayBuf::new();
            for _ in 0..random.random_range(1..4) {
                let place = if random.random_ratio(1, 4) {
                    shape(random)
                } else {
                    point(random)
                };
                list.push(rawdoc! { "at": place });
            }
            document.append(cstr!("place"), list);
        }
    }
    document
}

struct Question {
    filter: RawDocumentBuf,
    rest: RawDocumentBuf,
    near: Near,
    path: &'static str,
    skip: u64,
    limit: Option<u64>,
}

fn question(random: &mut ChaCha8Rng, path: &'static str) -> Question {
    let (lon, lat) = pair(random);
    let mut limits = RawDocumentBuf::new();
    let radians = random.random_ratio(1, 3);
    let unit = if radians { 6_378_100.0 } else { 1.0 };
    if random.random_ratio(1, 3) {
        let least = 10_f64.powf(random.random_range(1.0..6.5));
        limits.append(cstr!("$minDistance"), least / unit);
    }
    if random.random_ratio(1, 2) {
        let most = 10_f64.powf(random.random_range(3.0..7.3));
        limits.append(cstr!("$maxDistance"), most / unit);
    }
    let mut operators = RawDocumentBuf::new();
    if radians {
        operators.append(cstr!("$nearSphere"), RawArrayBuf::from_iter([lon, lat]));
        for (name, value) in limits.iter().flatten() {
            operators.append(name, value);
        }
    } else {
        let mut inner = rawdoc! { "$geometry": { "type": "Point", "coordinates": [lon, lat] } };
        for (name, value) in limits.iter().flatten() {
            inner.append(name, value);
        }
        operators.append(cstr!("$near"), inner);
    }
    let near = Near::parse(&operators).unwrap();
    let mut rest = RawDocumentBuf::new();
    match random.random_range(0..6) {
        0 => rest.append(cstr!("a"), random.random_range(0..5)),
        1 => rest.append(cstr!("a"), rawdoc! { "$in": [0, 3] }),
        2 => rest.append(cstr!("b"), rawdoc! { "$lt": random.random_range(0..1000) }),
        3 => rest.append(cstr!("a"), rawdoc! { "$gte": 3 }),
        _ => {}
    }
    let mut filter = rest.clone();
    filter.append(<&bson::raw::CStr>::try_from(path).unwrap(), operators);
    Question {
        filter,
        rest,
        near,
        path,
        skip: if random.random_ratio(1, 4) {
            random.random_range(0..40)
        } else {
            0
        },
        limit: random
            .random_ratio(2, 3)
            .then(|| random.random_range(1..60)),
    }
}

/// Fails with the first difference, and what the documents there are.
fn check(
    shown: &str,
    found: &[i32],
    expected: &[i32],
    documents: &[RawDocumentBuf],
    asked: &Question,
) {
    if found == expected {
        return;
    }
    let at = found
        .iter()
        .zip(expected)
        .take_while(|(a, b)| a == b)
        .count();
    let path = Path::parse(asked.path);
    let describe = |id: Option<&i32>| {
        let own = |document: &&RawDocumentBuf| document.get_i32("_id").ok() == id.copied();
        let document = documents.iter().find(own);
        let measured = document.and_then(|document| asked.near.measure(document, path.parts()));
        let text = document.map(|document| bson::Document::try_from(document).unwrap().to_string());
        format!(
            "{:?} {}",
            measured.map(|measured| measured.distance),
            text.unwrap_or_default()
        )
    };
    let filter = bson::Document::try_from(&asked.filter).unwrap();
    panic!(
        "{shown}: {filter}\nfound {} and expected {} documents; at {at}\nfound    {}\nexpected {}",
        found.len(),
        expected.len(),
        describe(found.get(at)),
        describe(expected.get(at))
    );
}

/// Every document measured and sorted.
fn plain(documents: &[RawDocumentBuf], question: &Question) -> Vec<i32> {
    let rest = Filter::parse(&question.rest).unwrap();
    let path = Path::parse(question.path);
    let mut found: Vec<(f64, i32)> = documents
        .iter()
        .filter(|document| rest.matches(document).unwrap())
        .filter_map(|document| {
            let measured = question.near.measure(document, path.parts())?;
            let wanted = question.near.wants(measured.distance);
            wanted.then(|| (measured.distance, document.get_i32("_id").unwrap()))
        })
        .collect();
    found.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    found.into_iter().map(|(_, id)| id).collect()
}

fn update(engine: &Engine, filter: &RawDocument, update: &RawDocument) {
    let statement = UpdateStatement {
        multi: false,
        ..UpdateStatement::new(filter, update)
    };
    engine.update(&namespace(), &statement).unwrap();
}

fn searched(engine: &Engine, question: &Question, hint: Option<&str>) -> Vec<i32> {
    let request = FindRequest {
        skip: question.skip,
        limit: question.limit,
        hint: hint.map(bson::RawBsonRef::String),
        ..FindRequest::new(&question.filter)
    };
    let mut query = engine.find(&namespace(), &request).unwrap();
    let mut found = Vec::new();
    // A few at a time, as cursors do.
    while !query
        .fill(Some(7), usize::MAX, &mut |row| {
            found.push(row.get_i32("_id").unwrap());
        })
        .unwrap_or_else(|error| panic!("{error}: hint {hint:?}, {:?}", question.filter))
    {}
    found
}

fn twin(engine: &Arc<Engine>, seed: u64, kind: Kind) {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let mut documents: Vec<RawDocumentBuf> = (0..DOCUMENTS)
        .map(|id| document(&mut random, id, kind))
        .collect();
    let insert = |part: &[RawDocumentBuf]| {
        let part: Vec<&RawDocument> = part.iter().map(AsRef::as_ref).collect();
        let options = InsertOptions::default();
        let outcome = engine.insert(&namespace(), &part, &options).unwrap();
        assert!(outcome.errors.is_empty(), "{:?}", outcome.errors);
    };
    let path = if kind == Kind::Lists {
        "place.at"
    } else {
        "place"
    };
    let (early, late) = documents.split_at(documents.len() / 2);
    insert(early);
    let mut specs: Vec<RawDocumentBuf> = Vec::new();
    let place = <&bson::raw::CStr>::try_from(path).unwrap();
    for (name, before, after, include) in [
        ("plain", false, false, false),
        ("led", true, false, false),
        ("followed", false, true, false),
        ("carrying", false, false, true),
    ] {
        let mut key = RawDocumentBuf::new();
        if before {
            key.append(cstr!("a"), 1);
        }
        key.append(place, "2dsphere");
        if after {
            key.append(cstr!("a"), 1);
        }
        let mut spec = rawdoc! { "name": name };
        spec.append(cstr!("key"), key);
        if include {
            spec.append(cstr!("include"), RawArrayBuf::from_iter(["b"]));
        }
        specs.push(spec);
    }
    let mut key = RawDocumentBuf::new();
    key.append(place, "2dsphere");
    specs.push(rawdoc! { "name": "clustered", "key": key, "clustering": true });
    specs.push(rawdoc! { "name": "b", "key": { "b": 1 } });
    let specs: Vec<&RawDocument> = specs.iter().map(AsRef::as_ref).collect();
    engine
        .create_indexes(&namespace(), &specs, &mut |_| ())
        .unwrap();
    insert(late);
    // Gaps, and rank indexes that have seen removals.
    for _ in 0..100 {
        let doomed = documents.swap_remove(random.random_range(0..documents.len()));
        let filter = rawdoc! { "_id": doomed.get_i32("_id").unwrap() };
        let statement = DeleteStatement {
            limit_one: true,
            ..DeleteStatement::new(&filter)
        };
        assert_eq!(engine.delete(&namespace(), &statement).unwrap(), 1);
    }
    for number in 0..QUERIES {
        // What searches keep in memory must not outlive a change, of the place or of anything else.
        let changed = random.random_range(0..documents.len());
        let id = documents[changed].get_i32("_id").unwrap();
        let mut after = document(&mut random, id, kind);
        if random.random_ratio(1, 2)
            && let Some(place) = documents[changed].get("place").unwrap()
        {
            after = rawdoc! { "_id": id, "a": random.random_range(0..5), "b": 7, "place": place };
        }
        let filter = rawdoc! { "_id": id };
        update(engine, &filter, &after);
        documents[changed] = after;
        let question = question(&mut random, path);
        let all = plain(&documents, &question);
        let skip = usize::try_from(question.skip).unwrap();
        let limit = question
            .limit
            .map_or(usize::MAX, |limit| usize::try_from(limit).unwrap());
        let expected: Vec<i32> = all.iter().copied().skip(skip).take(limit).collect();
        let hints = ["plain", "followed", "carrying", "clustered"].map(Some);
        for hint in hints.into_iter().chain([None]) {
            let shown =
                format!("seed {seed}, query {number}, hint {hint:?}, skip {skip}, limit {limit}");
            let found = searched(engine, &question, hint);
            check(&shown, &found, &expected, &documents, &question);
        }
        if question.rest.get("a").unwrap().is_some() {
            let shown = format!("seed {seed}, query {number}, led");
            let found = searched(engine, &question, Some("led"));
            check(&shown, &found, &expected, &documents, &question);
        }
        let count = CountRequest {
            collation: None,
            filter: &question.filter,
            skip: 0,
            limit: None,
            hint: None,
        };
        assert_eq!(
            engine.count(&namespace(), &count).unwrap(),
            i64::try_from(all.len()).unwrap(),
            "seed {seed}, count {number}: {:?}",
            question.filter
        );
    }
}

/// A writer moves documents about, inside a circle or outside of it but never across its border, and notes in
/// the document where it is; some go to and fro all together, so that no other is where they were. A search finds all that are inside, each once and as it was at one moment,
/// whatever is kept in memory.
#[test]
fn searches_see_one_moment_while_others_write() {
    const DOCUMENTS: i32 = 4_000;
    const TOGETHER: std::ops::Range<i32> = 10_000..10_200;
    fn replacement(random: &mut ChaCha8Rng, id: i32) -> RawDocumentBuf {
        let side = if id % 2 == 0 { 0.0 } else { 1.0 };
        let lon: f64 = side + random.random_range(-0.2..0.2);
        let lat: f64 = random.random_range(-0.2..0.2);
        let place = rawdoc! { "type": "Point", "coordinates": [lon, lat] };
        rawdoc! { "_id": id, "place": place, "lon": lon, "lat": lat, "n": random.random_range(0..9) }
    }
    let directory = tempfile::tempdir().unwrap();
    let engine = Engine::open(directory.path(), EngineOptions::default()).unwrap();
    let mut random = ChaCha8Rng::seed_from_u64(21);
    let alone = (0..DOCUMENTS).map(|id| replacement(&mut random, id));
    let mut documents: Vec<_> = alone.collect();
    for id in TOGETHER {
        let (lon, lat) = (
            random.random_range(-0.02..0.02),
            random.random_range(0.3..0.32),
        );
        let place = rawdoc! { "type": "Point", "coordinates": [lon, lat] };
        let document = rawdoc! { "_id": id, "place": place, "lon": lon, "lat": lat, "group": 1 };
        documents.push(document);
    }
    let documents: Vec<&RawDocument> = documents.iter().map(AsRef::as_ref).collect();
    let spec = rawdoc! { "key": { "place": "2dsphere" }, "name": "clustered", "clustering": true };
    engine
        .create_indexes(&namespace(), &[&spec], &mut |_| ())
        .unwrap();
    engine
        .insert(&namespace(), &documents, &InsertOptions::default())
        .unwrap();
    let center = rawdoc! { "type": "Point", "coordinates": [0, 0] };
    let inside = rawdoc! { "place": { "$near": { "$geometry": center, "$maxDistance": 50_000 } } };
    let search = |limit: Option<u64>| {
        let request = FindRequest {
            limit,
            ..FindRequest::new(&inside)
        };
        let mut found = Vec::new();
        let mut query = engine.find(&namespace(), &request).unwrap();
        query
            .fill(None, usize::MAX, &mut |row| {
                let place = row.get_document("place").unwrap();
                let place = place.get_array("coordinates").unwrap();
                assert_eq!(
                    row.get_f64("lon").unwrap(),
                    place.get_f64(0).unwrap(),
                    "{row:?}"
                );
                assert_eq!(
                    row.get_f64("lat").unwrap(),
                    place.get_f64(1).unwrap(),
                    "{row:?}"
                );
                found.push(row.get_i32("_id").unwrap());
            })
            .unwrap();
        found
    };
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (engine, done) = (&engine, &done);
        scope.spawn(move || {
            let mut random = ChaCha8Rng::seed_from_u64(22);
            while !done.load(Ordering::Relaxed) {
                let id = random.random_range(0..DOCUMENTS);
                let filter = rawdoc! { "_id": id };
                let after = match random.random_ratio(1, 2) {
                    true => replacement(&mut random, id),
                    false => rawdoc! { "$inc": { "n": 1 } },
                };
                update(engine, &filter, &after);
                if id % 16 == 0 {
                    let across = rawdoc! { "$mul": { "place.coordinates.1": -1, "lat": -1 } };
                    let filter = rawdoc! { "group": 1 };
                    let statement = UpdateStatement::new(&filter, &across);
                    engine.update(&namespace(), &statement).unwrap();
                }
                std::thread::yield_now();
            }
        });
        // Several: what one keeps, another may meet that began before it.
        let search_all = || {
            for round in 0..150 {
                let found = search(None);
                let distinct: BTreeSet<i32> = found.iter().copied().collect();
                assert_eq!(distinct.len(), found.len(), "round {round}");
                let expected = (0..DOCUMENTS).step_by(2).chain(TOGETHER);
                let expected: BTreeSet<i32> = expected.collect();
                let differ: Vec<_> = distinct.symmetric_difference(&expected).collect();
                assert!(differ.is_empty(), "round {round}: {differ:?}");
            }
        };
        let searches: Vec<_> = (0..4).map(|_| scope.spawn(search_all)).collect();
        let ended: Vec<bool> = searches
            .into_iter()
            .map(|search| search.join().is_ok())
            .collect();
        done.store(true, Ordering::Relaxed);
        assert!(ended.into_iter().all(|agrees| agrees));
    });
    // Nothing is written any more: what is asked for again and again is kept, and gone with its range.
    let kept = || engine.server_stats().range_cache_bytes;
    for _ in 0..8 {
        assert_eq!(search(Some(10)).len(), 10);
    }
    let before = kept();
    assert!(before > 0);
    let changed = search(Some(1))[0];
    let filter = rawdoc! { "_id": changed };
    let set = rawdoc! { "$set": { "n": 1_000 } };
    update(&engine, &filter, &set);
    assert!(kept() < before);
    let request = FindRequest {
        limit: Some(1),
        ..FindRequest::new(&inside)
    };
    let mut query = engine.find(&namespace(), &request).unwrap();
    let row = query.next_document().unwrap().unwrap();
    assert_eq!(row.get_i32("_id").unwrap(), changed);
    assert_eq!(row.get_i32("n").unwrap(), 1_000);
}

#[test]
fn points_come_as_measured() {
    twin(&Engine::in_memory().unwrap(), 11, Kind::Points);
}

#[test]
fn lines_and_polygons_come_as_measured() {
    twin(&Engine::in_memory().unwrap(), 12, Kind::Shapes);
}

#[test]
fn lists_of_places_come_as_their_nearest() {
    twin(&Engine::in_memory().unwrap(), 13, Kind::Lists);
}

#[test]
fn searches_on_disk_find_the_same() {
    for (seed, kind) in [(14, Kind::Points), (15, Kind::Shapes)] {
        let directory = tempfile::tempdir().unwrap();
        let engine = Engine::open(directory.path(), EngineOptions::default()).unwrap();
        twin(&engine, seed, kind);
    }
}
