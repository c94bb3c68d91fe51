//! Rows from index entries against rows from documents: whatever part of a document a query reads, and
//! whichever index it is told to use, it must be answered as a walk over all documents answers it.

use super::{DOCUMENTS, filter, namespace, point};
use bson::raw::{CStr, RawBsonRef, RawDocument, RawDocumentBuf};
use bson::{Bson, DateTime, Document, RawArrayBuf, RawBson, rawdoc};
use meridian_engine::{
    AggregateRequest, AggregateTarget, CountRequest, DeleteStatement, DistinctRequest, Engine,
    EngineOptions, ExplainRequest, FindRequest, InsertOptions, UpdateStatement, Verbosity,
};
use rand::prelude::*;
use rand_chacha::ChaCha8Rng;
use std::sync::Arc;

const QUERIES: usize = 250;
/// Indexes with an entry for every document: a hint may name them whatever the filter is.
const HINTS: [&str; 8] = ["a", "b", "ba", "all", "scalar", "carry", "whole", "lists"];

fn indexes() -> Vec<RawDocumentBuf> {
    vec![
        rawdoc! { "key": { "a": 1 }, "name": "a" },
        rawdoc! { "key": { "b": -1 }, "name": "b" },
        rawdoc! { "key": { "b": 1, "a": -1 }, "name": "ba" },
        rawdoc! { "key": { "b": 1, "s": -1, "c.d": 1, "_id": -1 }, "name": "all" },
        rawdoc! { "key": { "s": -1, "n.x": 1, "n.y": -1 }, "name": "scalar" },
        rawdoc! { "key": { "n.x": 1, "s": 1 }, "name": "carry", "include": ["b", "c.d", "n.y", "place", "a"] },
        rawdoc! { "key": { "b": 1 }, "name": "whole", "clustering": true },
        rawdoc! { "key": { "a": 1, "s": 1 }, "name": "lists", "clustering": true },
        rawdoc! { "key": { "s": 1 }, "name": "sparse", "sparse": true },
        rawdoc! { "key": { "c.d": 1 }, "name": "cd", "sparse": true, "clustering": true },
        rawdoc! { "key": { "place": "2dsphere", "s": 1, "n.x": 1 }, "name": "place" },
        rawdoc! { "key": { "spot": "2dsphere", "b": 1 }, "name": "spot", "clustering": true },
        rawdoc! { "key": { "b": "hashed", "s": 1 }, "name": "hash" },
        rawdoc! { "key": { "s": 1, "b": 1 }, "name": "partial", "partialFilterExpression": { "b": { "$gt": 3 } }, "include": ["n"] },
    ]
}

/// Every type that keys merge with another, and what is easily mistaken for a missing field.
fn scalar(random: &mut ChaCha8Rng) -> RawBson {
    match random.random_range(0..14) {
        0 | 1 => RawBson::Int32(random.random_range(-3..12)),
        2 => RawBson::Double(f64::from(random.random_range(-6..20)) / 2.0),
        3 => RawBson::Int64(random.random_range(-3..12)),
        4 => RawBson::String(["", "a", "ab", "b"].choose(random).unwrap().to_string()),
        5 | 6 => RawBson::Null,
        7 => RawBson::Boolean(random.random()),
        8 => RawBson::DateTime(DateTime::from_millis(random.random_range(0..5) * 1000)),
        9 => {
            let digits = ["1", "1.0", "2.50", "0E+3", "NaN", "-7.1"]
                .choose(random)
                .unwrap();
            RawBson::Decimal128(digits.parse().unwrap())
        }
        10 => RawBson::Double(
            *[-0.0, f64::NAN, f64::INFINITY, 1e300]
                .choose(random)
                .unwrap(),
        ),
        11 => RawBson::Symbol("ab".into()),
        12 => RawBson::Undefined,
        _ => RawBson::Document(
            rawdoc! { "y": random.random_range(0..4_i64), "x": [1, { "z": 2.0 }] },
        ),
    }
}

fn append(document: &mut RawDocumentBuf, name: &str, value: RawBson) {
    document.append(<&CStr>::try_from(name).unwrap(), value);
}

fn identifier(random: &mut ChaCha8Rng, id: i32) -> RawBson {
    match random.random_range(0..4) {
        0 => RawBson::Double(f64::from(id)),
        1 => RawBson::Int64(i64::from(id)),
        _ => RawBson::Int32(id),
    }
}

/// A place as a plain point, as a point with more to it, or as something else.
fn place(random: &mut ChaCha8Rng) -> RawBson {
    let (lon, lat) = (random.random_range(-20..20), random.random_range(-20..20));
    match random.random_range(0..6) {
        0 => RawBson::Document(rawdoc! { "type": "Point", "coordinates": [lon, lat] }),
        1 => RawBson::Document(rawdoc! { "coordinates": [f64::from(lon), 2.5], "type": "Point" }),
        2 => RawBson::Array([f64::from(lon), f64::from(lat)].into_iter().collect()),
        _ => RawBson::Document(point(random)),
    }
}

fn document(random: &mut ChaCha8Rng, id: i32, lists: bool) -> RawDocumentBuf {
    let mut document = RawDocumentBuf::new();
    append(&mut document, "_id", identifier(random, id));
    for name in ["s", "a", "b"] {
        if random.random_ratio(4, 5) {
            append(&mut document, name, scalar(random));
        }
    }
    if lists && random.random_ratio(1, 6) {
        let values = [scalar(random), scalar(random)];
        append(
            &mut document,
            "g",
            RawBson::Array(values.into_iter().collect()),
        );
    }
    for name in ["c", "n"] {
        let mut inner = RawDocumentBuf::new();
        for field in ["w", "y", "x", "d"] {
            if random.random_ratio(3, 4) {
                append(&mut inner, field, scalar(random));
            }
        }
        match random.random_range(0..8) {
            0 => {}
            1 => append(&mut document, name, scalar(random)),
            2 if lists => {
                let list: RawArrayBuf = [RawBson::Document(inner), scalar(random)]
                    .into_iter()
                    .collect();
                append(&mut document, name, RawBson::Array(list));
            }
            _ => append(&mut document, name, RawBson::Document(inner)),
        }
    }
    append(&mut document, "place", place(random));
    if random.random_ratio(3, 4) {
        let line = rawdoc! { "type": "LineString", "coordinates": [[0, 0], [random.random_range(1..9), 4]] };
        let spot = if random.random() {
            place(random)
        } else {
            RawBson::Document(line)
        };
        append(&mut document, "spot", spot);
    }
    document
}

/// Some of the fields, by inclusion.
fn projection(random: &mut ChaCha8Rng) -> RawDocumentBuf {
    let mut projection = RawDocumentBuf::new();
    let paths = ["s", "a", "b", "c.d", "n.x", "n.y", "place", "n", "spot"];
    let wanted = random.random_range(1..4);
    let mut chosen: Vec<&str> = paths.choose_multiple(random, wanted).copied().collect();
    if chosen.contains(&"n") {
        chosen.retain(|path| !path.starts_with("n."));
    }
    for path in chosen {
        append(&mut projection, path, RawBson::Int32(1));
    }
    if random.random() {
        append(&mut projection, "_id", RawBson::Int32(0));
    } else if random.random_ratio(1, 4) {
        append(
            &mut projection,
            "t",
            RawBson::Document(rawdoc! { "$type": "$s" }),
        );
    }
    projection
}

/// A value to compare with: `undefined` is refused there.
fn operand(random: &mut ChaCha8Rng) -> RawBson {
    match scalar(random) {
        RawBson::Undefined => RawBson::Null,
        other => other,
    }
}

fn condition(random: &mut ChaCha8Rng) -> RawDocumentBuf {
    let mut condition = RawDocumentBuf::new();
    match random.random_range(0..7) {
        0 => append(&mut condition, "$exists", RawBson::Boolean(random.random())),
        1 => append(&mut condition, "$ne", operand(random)),
        2 => append(&mut condition, "$regex", RawBson::String("b$".into())),
        3 => append(&mut condition, "$type", RawBson::String("number".into())),
        4 => append(
            &mut condition,
            "$mod",
            RawBson::Array([2, 1].into_iter().collect()),
        ),
        5 => append(&mut condition, "$eq", operand(random)),
        _ => append(
            &mut condition,
            "$gte",
            RawBson::Int32(random.random_range(-3..9)),
        ),
    }
    condition
}

/// Conditions on fields of the indexes above; some are no bounds, so that entries are tested.
fn conditions(random: &mut ChaCha8Rng) -> RawDocumentBuf {
    let mut all = if random.random_ratio(1, 3) {
        filter(random)
    } else {
        RawDocumentBuf::new()
    };
    let own = if all.is_empty() {
        &["s", "n.x", "b"][..]
    } else {
        &["s", "n.x"]
    };
    for path in own {
        if random.random_ratio(1, 2) {
            append(&mut all, path, RawBson::Document(condition(random)));
        }
    }
    if random.random_ratio(1, 8) {
        append(
            &mut all,
            "$expr",
            RawBson::Document(rawdoc! { "$gt": ["$s", "$b"] }),
        );
    }
    all
}

/// As text, with the fields of documents in alphabetical order: covered rows come in the key's order.
fn canonical(value: &Bson) -> String {
    match value {
        Bson::Document(document) => {
            let mut fields: Vec<String> = document
                .iter()
                .map(|(name, value)| format!("{name}: {}", canonical(value)))
                .collect();
            fields.sort();
            format!("{{{}}}", fields.join(", "))
        }
        Bson::Array(values) => {
            let values: Vec<String> = values.iter().map(canonical).collect();
            format!("[{}]", values.join(", "))
        }
        // The sign of a zero and the bits of a NaN count, too.
        Bson::Double(number) => format!("double {:x}", number.to_bits()),
        Bson::Decimal128(number) => format!("decimal {:x?}", number.bytes()),
        other => format!("{other:?}"),
    }
}

fn shown(row: &RawDocument) -> String {
    canonical(&Bson::Document(Document::try_from(row).unwrap()))
}

fn find(engine: &Engine, request: &FindRequest<'_>) -> Vec<String> {
    let mut found = Vec::new();
    let mut query = engine.find(&namespace(), request).unwrap();
    query
        .fill(None, usize::MAX, &mut |row| found.push(shown(row)))
        .unwrap();
    found
}

fn aggregate(
    engine: &Engine,
    pipeline: &[RawDocumentBuf],
    hint: Option<RawBsonRef<'_>>,
) -> Vec<String> {
    let request = AggregateRequest {
        hint,
        ..AggregateRequest::new(pipeline)
    };
    let target = AggregateTarget::Collection(namespace());
    let mut found = Vec::new();
    let mut query = engine.aggregate(&target, &request).unwrap();
    query
        .fill(None, usize::MAX, &mut |row| found.push(shown(row)))
        .unwrap();
    found.sort();
    found
}

fn pipelines(random: &mut ChaCha8Rng, filter: &RawDocument) -> Vec<RawDocumentBuf> {
    let select = rawdoc! { "$match": filter.to_owned() };
    let behind = match random.random_range(0..5) {
        // `$sum` in another order rounds otherwise, and equal numbers of several types may each stand
        // for a group: only what no order changes is asked for.
        0 => {
            rawdoc! { "$group": { "_id": { "$type": "$b" }, "n": { "$sum": 1 }, "most": { "$max": { "$type": "$n.x" } } } }
        }
        1 => rawdoc! { "$project": { "_id": 0, "s": 1, "more": { "$ifNull": ["$n.x", "none"] } } },
        2 => rawdoc! { "$project": { "b": 1, "n.x": 1, "n.y": 1 } },
        // All of them, drawn by rank: what entries do not prove must be tested on documents.
        3 => rawdoc! { "$sample": { "size": 100_000 } },
        _ => rawdoc! { "$match": { "s": { "$ne": null } } },
    };
    vec![select, behind, rawdoc! { "$project": { "place": 0 } }]
}

/// Whether the plan reads no document unless an entry cannot tell.
fn is_covered(engine: &Engine, request: &FindRequest<'_>) -> bool {
    let explained = engine
        .explain(
            &namespace(),
            &ExplainRequest::Find(request.clone()),
            Verbosity::QueryPlanner,
        )
        .unwrap();
    let text = format!(
        "{:?}",
        Document::try_from(&*explained).unwrap().get("queryPlanner")
    );
    text.contains("PROJECTION_COVERED")
}

fn check(engine: &Engine, random: &mut ChaCha8Rng, seed: u64) {
    let natural = rawdoc! { "$natural": 1 };
    let natural = RawBsonRef::Document(&natural);
    let (mut covered, all) = (0, RawDocumentBuf::new());
    for number in 0..QUERIES {
        let filter = if number % 8 == 0 {
            all.clone()
        } else {
            conditions(random)
        };
        let projection = projection(random);
        let hint = HINTS.choose(random).unwrap();
        let hint = [None, Some(RawBsonRef::String(hint))][random.random_range(0..2)];
        let told =
            format!("seed {seed}, query {number}: {filter:?}, {projection:?}, hint {hint:?}");
        let request = FindRequest {
            projection: Some(&projection),
            hint,
            ..FindRequest::new(&filter)
        };
        let plain = FindRequest {
            hint: Some(natural),
            ..request.clone()
        };
        let (mut ours, mut expected) = (find(engine, &request), find(engine, &plain));
        ours.sort();
        expected.sort();
        assert_eq!(ours, expected, "{told}");
        covered += u64::from(is_covered(engine, &request));
        let whole = FindRequest {
            projection: None,
            ..request.clone()
        };
        let (mut ours, mut expected) = (
            find(engine, &whole),
            find(
                engine,
                &FindRequest {
                    hint: Some(natural),
                    ..whole
                },
            ),
        );
        ours.sort();
        expected.sort();
        assert_eq!(ours, expected, "documents of {told}");
        let order = rawdoc! { "b": 1, "s": -1, "_id": 1 };
        let sorted = FindRequest {
            sort: Some(&order),
            limit: Some(20),
            ..request.clone()
        };
        assert_eq!(
            find(engine, &sorted),
            find(
                engine,
                &FindRequest {
                    hint: Some(natural),
                    ..sorted
                }
            ),
            "sorted {told}"
        );
        let count = |hint| {
            let request = CountRequest {
                collation: None,
                filter: &filter,
                skip: 0,
                limit: None,
                hint,
            };
            engine.count(&namespace(), &request).unwrap()
        };
        assert_eq!(count(hint), count(Some(natural)), "count of {told}");
        let key = *["a", "b", "s", "n.x", "c.d", "n", "_id", "place"]
            .choose(random)
            .unwrap();
        let distinct = |hint| {
            let request = DistinctRequest {
                collation: None,
                key,
                filter: &filter,
                hint,
            };
            let values = engine.distinct(&namespace(), &request).unwrap();
            // Equal numbers are one value; which of them is shown depends on the order of the walk.
            values.into_iter().count()
        };
        assert_eq!(
            distinct(hint),
            distinct(Some(natural)),
            "distinct {key} of {told}"
        );
        let pipeline = pipelines(random, &filter);
        assert_eq!(
            aggregate(engine, &pipeline, hint),
            aggregate(engine, &pipeline, Some(natural)),
            "{pipeline:?}, {told}"
        );
    }
    assert!(
        covered > QUERIES as u64 / 50,
        "seed {seed}: only {covered} covered queries"
    );
}

fn change_some(engine: &Engine, random: &mut ChaCha8Rng, lists: bool) {
    for _ in 0..80 {
        let filter = rawdoc! { "_id": random.random_range(0..DOCUMENTS) };
        let name = *["s", "b", "n.x", "n.y", "w", "c"].choose(random).unwrap();
        let mut set = RawDocumentBuf::new();
        append(&mut set, name, scalar(random));
        append(&mut set, "place", place(random));
        let update = if random.random() && !name.contains('.') {
            rawdoc! { "$set": set }
        } else {
            rawdoc! { "$unset": { "a": 1, "c.d": 1 } }
        };
        let statement = UpdateStatement {
            multi: false,
            ..UpdateStatement::new(&filter, &update)
        };
        engine.update(&namespace(), &statement).unwrap();
        let doomed = rawdoc! { "_id": random.random_range(0..DOCUMENTS) };
        let statement = DeleteStatement {
            limit_one: true,
            ..DeleteStatement::new(&doomed)
        };
        engine.delete(&namespace(), &statement).unwrap();
        if random.random_ratio(1, 8) {
            let id = DOCUMENTS + random.random_range(0..1_000_000);
            insert(engine, &[document(random, id, lists)]);
        }
    }
}

fn insert(engine: &Engine, documents: &[RawDocumentBuf]) {
    let documents: Vec<&RawDocument> = documents.iter().map(AsRef::as_ref).collect();
    let outcome = engine
        .insert(&namespace(), &documents, &InsertOptions::default())
        .unwrap();
    assert!(outcome.errors.is_empty(), "{:?}", outcome.errors);
}

/// With lists many fields are multikey, without them few: both ways must be taken.
fn twin(engine: &Arc<Engine>, seed: u64, lists: bool) {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let documents: Vec<_> = (0..DOCUMENTS)
        .map(|id| document(&mut random, id, lists))
        .collect();
    let (early, late) = documents.split_at(documents.len() / 2);
    insert(engine, early);
    let specs = indexes();
    let specs: Vec<&RawDocument> = specs.iter().map(AsRef::as_ref).collect();
    engine
        .create_indexes(&namespace(), &specs, &mut |_| ())
        .unwrap();
    insert(engine, late);
    check(engine, &mut random, seed);
    change_some(engine, &mut random, lists);
    check(engine, &mut random, seed);
    let report = engine.validate(&namespace()).unwrap();
    assert_eq!(report.errors, Vec::<String>::new(), "seed {seed}");
}

#[test]
fn entries_answer_as_documents_do() {
    for seed in [11, 12] {
        twin(&Engine::in_memory().unwrap(), seed, false);
    }
}

#[test]
fn entries_answer_as_documents_do_beside_arrays() {
    for seed in [21, 22] {
        twin(&Engine::in_memory().unwrap(), seed, true);
    }
}

#[test]
fn entries_answer_as_documents_do_on_disk_and_after_a_restart() {
    let directory = tempfile::tempdir().unwrap();
    let open = || Engine::open(directory.path(), EngineOptions::default()).unwrap();
    twin(&open(), 31, false);
    check(&open(), &mut ChaCha8Rng::seed_from_u64(32), 32);
}
