//! Every plan against its plain twin: whatever index the planner picks, a walk over all documents must
//! find the same ones, and both stores must agree. Seeds are printed on failure.
#![allow(clippy::unwrap_used)]

#[path = "plan_twin/covered.rs"]
mod covered;

use bson::raw::{RawDocument, RawDocumentBuf};
use bson::{DateTime, RawArrayBuf, rawdoc};
use meridian_engine::query::Sort;
use meridian_engine::{
    CountRequest, DeleteStatement, Engine, EngineOptions, FindRequest, InsertOptions, Namespace,
    UpdateStatement,
};
use rand::prelude::*;
use rand_chacha::ChaCha8Rng;
use std::sync::Arc;

const DOCUMENTS: i32 = 400;
const FILTERS: usize = 300;

/// Those that become ranges of an index, and those whose alternatives may begin otherwise.
const EXPRESSIONS: [&str; 16] = [
    "^a",
    "^a|^b",
    "^a$|^b$",
    "^ab|^a",
    "^(a|b)$",
    "^(?:ab|b)",
    "^(a|b)a",
    "^(a|b)?c",
    "^(a|b)+|^c",
    "^(a(b|c)|b)",
    "^a(b|x)",
    "^a\\|b|^c",
    "^a|b",
    "^(a|)",
    "^a(?i)|^B",
    "^[a|]|^c",
];

const ORDERS: [fn() -> RawDocumentBuf; 9] = [
    || rawdoc! { "b": 1 },
    || rawdoc! { "b": -1 },
    || rawdoc! { "b": 1, "a": -1 },
    || rawdoc! { "c.d": 1, "b": 1 },
    || rawdoc! { "a": 1, "b": 1 },
    || rawdoc! { "_id": -1 },
    || rawdoc! { "d": 1 },
    || rawdoc! { "d": -1, "b": 1 },
    || rawdoc! { "a": -1 },
];

fn namespace() -> Namespace {
    Namespace::new("test", "twin").unwrap()
}

fn scalar(random: &mut ChaCha8Rng) -> bson::RawBson {
    match random.random_range(0..9) {
        0 | 1 => bson::RawBson::Int32(random.random_range(-3..12)),
        2 => bson::RawBson::Double(f64::from(random.random_range(-6..20)) / 2.0),
        3 => bson::RawBson::Int64(random.random_range(-3..12)),
        4 => bson::RawBson::String(
            ["", "a", "ab", "b", "ba", "a|b", "b\n", "c"]
                .choose(random)
                .unwrap()
                .to_string(),
        ),
        5 => bson::RawBson::Null,
        6 => bson::RawBson::Boolean(random.random()),
        7 => bson::RawBson::DateTime(DateTime::from_millis(random.random_range(0..5) * 1000)),
        _ => bson::RawBson::Document(rawdoc! { "x": random.random_range(0..4) }),
    }
}

fn value(random: &mut ChaCha8Rng) -> bson::RawBson {
    if random.random_ratio(1, 5) {
        let mut array = RawArrayBuf::new();
        for _ in 0..random.random_range(0..4) {
            array.push(scalar(random));
        }
        return bson::RawBson::Array(array);
    }
    scalar(random)
}

fn point(random: &mut ChaCha8Rng) -> RawDocumentBuf {
    let (lon, lat) = (
        random.random_range(-20.0..20.0),
        random.random_range(-20.0..20.0),
    );
    rawdoc! { "type": "Point", "coordinates": [lon, lat] }
}

fn document(random: &mut ChaCha8Rng, id: i32) -> RawDocumentBuf {
    let mut document = rawdoc! { "_id": id };
    if random.random_ratio(4, 5) {
        document.append(bson::cstr!("a"), value(random));
    }
    if random.random_ratio(4, 5) {
        document.append(bson::cstr!("b"), scalar(random));
    }
    let mut inner = RawDocumentBuf::new();
    inner.append(bson::cstr!("d"), scalar(random));
    if random.random_ratio(1, 4) {
        let mut list = RawArrayBuf::new();
        list.push(inner.clone());
        list.push(rawdoc! { "d": random.random_range(0..5) });
        document.append(bson::cstr!("c"), list);
    } else {
        document.append(bson::cstr!("c"), inner);
    }
    document.append(bson::cstr!("place"), point(random));
    document.append(bson::cstr!("d"), scalar(random));
    document
}

fn condition(random: &mut ChaCha8Rng) -> RawDocumentBuf {
    let operator = *["$eq", "$gt", "$gte", "$lt", "$lte", "$ne"]
        .choose(random)
        .unwrap();
    let mut condition = RawDocumentBuf::new();
    match random.random_range(0..6) {
        0 => {
            let mut list = RawArrayBuf::new();
            (0..random.random_range(0..4)).for_each(|_| list.push(scalar(random)));
            condition.append(bson::cstr!("$in"), list);
        }
        1 => condition.append(bson::cstr!("$exists"), random.random::<bool>()),
        2 => {
            condition.append(bson::cstr!("$gte"), random.random_range(-3..6));
            condition.append(bson::cstr!("$lt"), random.random_range(0..12));
        }
        3 => condition.append(
            bson::cstr!("$elemMatch"),
            rawdoc! { "$gte": 1, "$lt": random.random_range(2..9) },
        ),
        4 => condition.append(bson::cstr!("$regex"), *EXPRESSIONS.choose(random).unwrap()),
        _ => {
            let name = <&bson::raw::CStr>::try_from(operator).unwrap();
            condition.append(name, scalar(random));
        }
    }
    condition
}

fn filter(random: &mut ChaCha8Rng) -> RawDocumentBuf {
    let mut filter = RawDocumentBuf::new();
    for path in ["a", "b", "c.d", "_id"] {
        if random.random_ratio(2, 5) {
            let name = <&bson::raw::CStr>::try_from(path).unwrap();
            filter.append(name, condition(random));
        }
    }
    if random.random_ratio(1, 4) {
        let (west, south) = (
            random.random_range(-20.0..10.0),
            random.random_range(-20.0..10.0),
        );
        let (east, north) = (
            west + random.random_range(0.5..20.0),
            south + random.random_range(0.5..20.0),
        );
        let ring = rawdoc! { "type": "Polygon", "coordinates": [[[west, south], [east, south], [east, north], [west, north], [west, south]]] };
        let operator = if random.random() {
            bson::cstr!("$geoWithin")
        } else {
            bson::cstr!("$geoIntersects")
        };
        let mut area = RawDocumentBuf::new();
        area.append(operator, rawdoc! { "$geometry": ring });
        filter.append(bson::cstr!("place"), area);
    }
    if random.random_ratio(1, 3) {
        filter.append(bson::cstr!("$or"), branches(random, 2));
    }
    if random.random_ratio(1, 8) {
        let mut both = RawArrayBuf::new();
        for _ in 0..2 {
            both.push(rawdoc! { "$or": branches(random, 1) });
        }
        filter.append(bson::cstr!("$and"), both);
    }
    filter
}

/// The branches of an `$or`: each has conditions on one field or several, so that several indexes may
/// serve it, and maybe an `$or` of its own, so many levels deep.
fn branches(random: &mut ChaCha8Rng, depth: usize) -> RawArrayBuf {
    let mut branches = RawArrayBuf::new();
    for _ in 0..random.random_range(1..5) {
        let mut branch = RawDocumentBuf::new();
        let number = random.random_range(1..4);
        for path in ["a", "b", "c.d", "_id"].choose_multiple(random, number) {
            let name = <&bson::raw::CStr>::try_from(*path).unwrap();
            branch.append(name, condition(random));
        }
        if depth > 0 && random.random_ratio(1, 5) {
            branch.append(bson::cstr!("$or"), self::branches(random, depth - 1));
        }
        branches.push(branch);
    }
    branches
}

fn ids(
    engine: &Engine,
    filter: &RawDocument,
    natural: bool,
    sort: Option<&RawDocument>,
) -> Vec<i32> {
    let hint = rawdoc! { "$natural": 1 };
    let hint = natural.then_some(bson::RawBsonRef::Document(&hint));
    let mut query = engine
        .find(
            &namespace(),
            &FindRequest {
                hint,
                sort,
                ..FindRequest::new(filter)
            },
        )
        .unwrap();
    let mut found = Vec::new();
    assert!(
        query
            .fill(None, usize::MAX, &mut |row| found
                .push(row.get_i32("_id").unwrap()))
            .unwrap()
    );
    found
}

fn indexes() -> Vec<RawDocumentBuf> {
    vec![
        rawdoc! { "key": { "a": 1 }, "name": "a" },
        rawdoc! { "key": { "b": -1 }, "name": "b" },
        rawdoc! { "key": { "b": 1, "a": -1 }, "name": "ba" },
        rawdoc! { "key": { "c.d": 1, "b": 1 }, "name": "cdb", "sparse": true },
        rawdoc! { "key": { "place": "2dsphere" }, "name": "place" },
        rawdoc! { "key": { "b": 1, "place": "2dsphere" }, "name": "bplace" },
        rawdoc! { "key": { "b": "hashed" }, "name": "hash" },
        rawdoc! { "key": { "$**": 1 }, "name": "every" },
        rawdoc! { "key": { "$**": 1 }, "name": "most", "wildcardProjection": { "a": 0, "c.e": 0 } },
        rawdoc! { "key": { "b": 1, "d": 1, "a": 1 }, "name": "bda" },
        rawdoc! { "key": { "a": 1, "b": 1 }, "name": "partial", "partialFilterExpression": { "b": { "$gt": 3 } } },
    ]
}

fn check_all(engine: &Engine, random: &mut ChaCha8Rng, seed: u64) {
    for number in 0..FILTERS {
        let filter = filter(random);
        let mut planned = ids(engine, &filter, false, None);
        let plain = ids(engine, &filter, true, None);
        planned.sort_unstable();
        let shown = format!("seed {seed}, filter {number}: {filter:?}");
        assert_eq!(planned, plain, "{shown}");
        let count = CountRequest {
            collation: None,
            filter: &filter,
            skip: 0,
            limit: None,
            hint: None,
        };
        assert_eq!(
            engine.count(&namespace(), &count).unwrap(),
            plain.len() as i64,
            "count of {shown}"
        );
        let order = rawdoc! { "b": random.random_range(0..2) * 2 - 1, "_id": 1 };
        let sorted = ids(engine, &filter, false, Some(&order));
        assert_eq!(
            sorted,
            ids(engine, &filter, true, Some(&order)),
            "sort {order:?} of {shown}"
        );
        check_order(engine, random, &filter, &shown);
    }
}

/// An order that some index gives, or all that the branches of an `$or` use: equal keys may come in any
/// order, so the keys are compared, of all and of the first few.
fn check_order(engine: &Engine, random: &mut ChaCha8Rng, filter: &RawDocument, shown: &str) {
    let order = ORDERS.choose(random).unwrap()();
    let limit = random
        .random_ratio(1, 2)
        .then(|| random.random_range(1..30));
    let sort = Sort::parse(&order).unwrap();
    let keys = |natural: bool| {
        let hint = rawdoc! { "$natural": 1 };
        let request = FindRequest {
            hint: natural.then_some(bson::RawBsonRef::Document(&hint)),
            sort: Some(&order),
            limit,
            ..FindRequest::new(filter)
        };
        let mut query = engine.find(&namespace(), &request).unwrap();
        let (mut keys, mut ids) = (Vec::new(), Vec::new());
        let mut take = |row: &RawDocument| {
            keys.push(sort.key(row).unwrap());
            ids.push(row.get_i32("_id").unwrap());
        };
        assert!(query.fill(None, usize::MAX, &mut take).unwrap());
        ids.sort_unstable();
        let all = ids.len();
        ids.dedup();
        assert_eq!(ids.len(), all, "a document twice: {order:?} of {shown}");
        keys
    };
    assert_eq!(keys(false), keys(true), "{order:?}, {limit:?} of {shown}");
}

fn change_some(engine: &Engine, random: &mut ChaCha8Rng) {
    for _ in 0..60 {
        let filter = filter(random);
        let mut set = RawDocumentBuf::new();
        set.append(bson::cstr!("a"), value(random));
        set.append(bson::cstr!("place"), point(random));
        let mut update = RawDocumentBuf::new();
        update.append(bson::cstr!("$set"), set);
        let statement = UpdateStatement {
            multi: random.random(),
            ..UpdateStatement::new(&filter, &update)
        };
        engine.update(&namespace(), &statement).unwrap();
        let doomed = rawdoc! { "_id": random.random_range(0..DOCUMENTS) };
        let statement = DeleteStatement {
            limit_one: true,
            ..DeleteStatement::new(&doomed)
        };
        engine.delete(&namespace(), &statement).unwrap();
    }
}

fn twin(engine: &Arc<Engine>, seed: u64) {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let documents: Vec<RawDocumentBuf> =
        (0..DOCUMENTS).map(|id| document(&mut random, id)).collect();
    let borrowed: Vec<&RawDocument> = documents.iter().map(AsRef::as_ref).collect();
    let (early, late) = borrowed.split_at(borrowed.len() / 2);
    let insert = |part: &[&RawDocument]| {
        let outcome = engine
            .insert(&namespace(), part, &InsertOptions::default())
            .unwrap();
        assert!(outcome.errors.is_empty(), "{:?}", outcome.errors);
    };
    insert(early);
    let specs = indexes();
    let specs: Vec<&RawDocument> = specs.iter().map(AsRef::as_ref).collect();
    // Half the documents are there before the indexes, half come after. A hashed index and arrays
    // under `b` do not go together, so `b` is never an array.
    engine
        .create_indexes(&namespace(), &specs, &mut |_| ())
        .unwrap();
    insert(late);
    check_all(engine, &mut random, seed);
    change_some(engine, &mut random);
    check_all(engine, &mut random, seed);
    let report = engine.validate(&namespace()).unwrap();
    assert_eq!(report.errors, Vec::<String>::new(), "seed {seed}");
}

#[test]
fn plans_on_the_memory_store_find_what_a_scan_finds() {
    for seed in [1, 2] {
        twin(&Engine::in_memory().unwrap(), seed);
    }
}

#[test]
fn plans_on_disk_find_what_a_scan_finds() {
    let directory = tempfile::tempdir().unwrap();
    twin(
        &Engine::open(directory.path(), EngineOptions::default()).unwrap(),
        3,
    );
}

#[test]
fn everything_is_there_after_a_restart() {
    let directory = tempfile::tempdir().unwrap();
    let everything = RawDocumentBuf::new();
    let engine = Engine::open(directory.path(), EngineOptions::default()).unwrap();
    twin(&engine, 4);
    let before = ids(&engine, &everything, true, None);
    let closed = Arc::downgrade(&engine);
    engine.shutdown();
    drop(engine);
    // Background threads may hold it for a moment longer.
    while closed.strong_count() > 0 {
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    std::thread::sleep(std::time::Duration::from_millis(50));
    let engine = Engine::open(directory.path(), EngineOptions::default()).unwrap();
    assert_eq!(ids(&engine, &everything, true, None), before);
    assert_eq!(
        engine.list_indexes(&namespace()).unwrap().len(),
        indexes().len() + 1
    );
    let report = engine.validate(&namespace()).unwrap();
    assert_eq!(
        (report.documents, report.error_count),
        (before.len() as i64, 0)
    );
}

#[test]
fn a_second_process_is_refused_by_name() {
    let directory = tempfile::tempdir().unwrap();
    let _first = Engine::open(directory.path(), EngineOptions::default()).unwrap();
    let error = Engine::open(directory.path(), EngineOptions::default())
        .err()
        .unwrap();
    assert!(
        error.message.contains("in use by another process"),
        "{}",
        error.message
    );
}
