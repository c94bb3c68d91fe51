//! Groups, buckets, facets and distinct values counted by rank indexes against their plain twin: the same
//! pipeline over a walk of all documents (`hint: {$natural: 1}`). Random documents with dates and other
//! types, null, missing fields and duplicates; random pipelines; while others write.
#![allow(clippy::unwrap_used)]

use bson::oid::ObjectId;
use bson::raw::{RawArrayBuf, RawBson, RawBsonRef, RawDocument, RawDocumentBuf};
use bson::{DateTime, Decimal128, Document, Timestamp, rawdoc};
use meridian_engine::{
    AggregateRequest, AggregateTarget, DeleteStatement, DistinctRequest, Engine, EngineOptions,
    Error, ExplainRequest, InsertOptions, Namespace, UpdateStatement, Verbosity,
};
use meridian_value::key::{Direction, TypeBits, encode};
use rand::prelude::*;
use rand_chacha::ChaCha8Rng;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

const DAY_MS: i64 = 86_400_000;
/// 1 January 2018.
const BEGIN_MS: i64 = 1_514_764_800_000;

fn namespace() -> Namespace {
    Namespace::new("test", "grouped").unwrap()
}

fn date(random: &mut ChaCha8Rng) -> RawBson {
    // Many in a few days, the others over three years; some on the very hour.
    let millis = match random.random_range(0..4) {
        0 => random.random_range(0..1_100) * DAY_MS,
        1 => random.random_range(0..1_100 * DAY_MS),
        2 => random.random_range(40 * DAY_MS..43 * DAY_MS),
        _ => random.random_range(1_000..1_024) * 3_600_000,
    };
    RawBson::DateTime(DateTime::from_millis(BEGIN_MS + millis))
}

/// What also counts as a date.
fn dates_by_seconds(random: &mut ChaCha8Rng) -> (ObjectId, Timestamp) {
    let seconds = |random: &mut ChaCha8Rng| 1_514_764_800 + random.random_range(0..40_000) * 997;
    let mut bytes: [u8; 12] = random.random();
    bytes[..4].copy_from_slice(&u32::to_be_bytes(seconds(random)));
    let timestamp = Timestamp {
        time: seconds(random),
        increment: random.random_range(0..3),
    };
    (ObjectId::from_bytes(bytes), timestamp)
}

fn number(random: &mut ChaCha8Rng) -> RawBson {
    let whole = random.random_range(-3..12);
    match random.random_range(0..5) {
        0 => RawBson::Int32(whole),
        1 => RawBson::Int64(i64::from(whole)),
        2 => RawBson::Double(f64::from(whole)),
        3 => RawBson::Double(f64::from(whole) + 0.5),
        _ => RawBson::Decimal128(whole.to_string().parse::<Decimal128>().unwrap()),
    }
}

fn mixed(random: &mut ChaCha8Rng) -> Option<RawBson> {
    Some(match random.random_range(0..12) {
        0 => return None,
        1 => RawBson::Null,
        2 => RawBson::String(["a", "b", "\u{0}c"][random.random_range(0..3)].into()),
        3 => RawBson::Boolean(random.random()),
        4 => RawBson::Document(rawdoc! { "x": number(random) }),
        5 => [RawBson::MinKey, RawBson::MaxKey, RawBson::Double(f64::NAN)]
            [random.random_range(0..3)]
        .clone(),
        _ => number(random),
    })
}

/// `d` is always a date, `o` and `t` stand for one, `s` is one or null or missing, `n` a number, `m` anything, `w.v` anything below.
fn document(random: &mut ChaCha8Rng, id: i32) -> RawDocumentBuf {
    let mut document = rawdoc! { "_id": id, "d": date(random), "n": number(random) };
    document.append(bson::cstr!("k"), random.random_range(0..4));
    let (object_id, timestamp) = dates_by_seconds(random);
    document.append(bson::cstr!("o"), object_id);
    document.append(bson::cstr!("t"), timestamp);
    document.append(bson::cstr!("u"), random.random_range(0..1_000_000));
    if random.random_ratio(9, 10) {
        document.append(bson::cstr!("s"), date(random));
    } else if random.random() {
        document.append(bson::cstr!("s"), RawBson::Null);
    }
    if let Some(value) = mixed(random) {
        document.append(bson::cstr!("m"), value.clone());
        document.append(bson::cstr!("w"), rawdoc! { "v": value });
    } else if random.random() {
        document.append(bson::cstr!("w"), 5);
    }
    document
}

fn insert(engine: &Engine, documents: &[RawDocumentBuf]) {
    let borrowed: Vec<&RawDocument> = documents.iter().map(AsRef::as_ref).collect();
    for part in borrowed.chunks(1_000) {
        let outcome = engine.insert(&namespace(), part, &InsertOptions::default());
        assert!(outcome.unwrap().errors.is_empty());
    }
}

fn create_indexes(engine: &Engine) {
    let specs = [
        rawdoc! { "key": { "d": 1 }, "name": "d" },
        rawdoc! { "key": { "k": 1, "d": -1 }, "name": "kd" },
        rawdoc! { "key": { "s": -1 }, "name": "s" },
        rawdoc! { "key": { "n": 1, "k": 1 }, "name": "nk" },
        rawdoc! { "key": { "m": -1 }, "name": "m" },
        rawdoc! { "key": { "w.v": 1 }, "name": "wv" },
        rawdoc! { "key": { "u": 1 }, "name": "u" },
        rawdoc! { "key": { "o": -1 }, "name": "o" },
        rawdoc! { "key": { "t": 1 }, "name": "t" },
    ];
    let specs: Vec<&RawDocument> = specs.iter().map(AsRef::as_ref).collect();
    let made = engine.create_indexes(&namespace(), &specs, &mut |_| ());
    made.unwrap();
}

fn request<'a>(
    pipeline: &'a [RawDocumentBuf],
    hint: Option<&'a RawDocument>,
) -> AggregateRequest<'a> {
    AggregateRequest {
        hint: hint.map(RawBsonRef::Document),
        ..AggregateRequest::new(pipeline)
    }
}

fn aggregate(
    engine: &Engine,
    pipeline: &[RawDocumentBuf],
    hint: Option<&RawDocument>,
) -> Result<Vec<RawDocumentBuf>, Error> {
    let target = AggregateTarget::Collection(namespace());
    let mut query = engine.aggregate(&target, &request(pipeline, hint))?;
    let mut documents = Vec::new();
    query.fill(None, usize::MAX, &mut |row| documents.push(row.to_owned()))?;
    Ok(documents)
}

/// A group's document, in which values that are equal are alike whatever their type: which of them gives
/// a group its `_id` depends on the order in which documents are met.
fn plain(document: &RawDocument) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (name, value) in document.iter().flatten() {
        bytes.extend_from_slice(name.as_str().as_bytes());
        if name == "_id" {
            let types = &mut TypeBits::new();
            encode(value, Direction::Ascending, &mut bytes, types);
        } else {
            let mut one = RawDocumentBuf::new();
            one.append(bson::cstr!("v"), value);
            bytes.extend_from_slice(one.as_bytes());
        }
    }
    bytes
}

/// The answer in an order that does not depend on how it was found; each facet's, too.
fn sorted(documents: &[RawDocumentBuf], shape: &dyn Fn(&RawDocument) -> Vec<u8>) -> Vec<Vec<u8>> {
    let is_facet = |document: &RawDocumentBuf| document.get_array("a").is_ok();
    let mut all: Vec<Vec<u8>> = Vec::new();
    for document in documents.iter().filter(|document| !is_facet(document)) {
        all.push(shape(document));
    }
    all.sort();
    for document in documents.iter().filter(|document| is_facet(document)) {
        for (name, value) in document.iter().flatten() {
            let items = value.as_array().unwrap().into_iter().flatten();
            let items = items.map(|item| item.as_document().unwrap().to_owned());
            all.push(name.as_str().as_bytes().to_vec());
            all.extend(sorted(&items.collect::<Vec<_>>(), shape));
        }
    }
    all
}

/// The name of the stage that a pipeline begins with.
fn first_stage(engine: &Engine, pipeline: &[RawDocumentBuf]) -> (String, RawDocumentBuf) {
    let explain = ExplainRequest::Aggregate(request(pipeline, None));
    let verbosity = Verbosity::ExecutionStats;
    let shown = engine.explain(&namespace(), &explain, verbosity).unwrap();
    let stages = shown.get_array("stages").unwrap();
    let cursor = stages.into_iter().next().unwrap().unwrap();
    let cursor = cursor
        .as_document()
        .unwrap()
        .get_document("$cursor")
        .unwrap();
    let stats = cursor.get_document("executionStats").unwrap();
    let stage = stats.get_document("executionStages").unwrap();
    (stage.get_str("stage").unwrap().to_owned(), stats.to_owned())
}

/// Among them some that skip midnight (Beirut, Asuncion, Sao Paulo until 2018), west and east.
const ZONES: [&str; 8] = [
    "UTC",
    "+05:45",
    "America/Sao_Paulo",
    "America/Asuncion",
    "America/New_York",
    "Asia/Beirut",
    "Europe/Berlin",
    "Australia/Lord_Howe",
];

fn truncation(random: &mut ChaCha8Rng, path: &str) -> RawDocumentBuf {
    let units = ["year", "quarter", "month", "week", "day", "hour", "minute"];
    rawdoc! { "$dateTrunc": {
        "date": path,
        "unit": units[random.random_range(0..units.len())],
        "binSize": random.random_range(1..4),
        "timezone": ZONES[random.random_range(0..ZONES.len())],
        "startOfWeek": (["mon", "thu", "sun"][random.random_range(0..3)]),
    } }
}

/// A key by a date.
fn date_key(random: &mut ChaCha8Rng, path: &str) -> RawBson {
    let zone = ZONES[random.random_range(0..ZONES.len())];
    let parts = rawdoc! { "date": path, "timezone": zone };
    RawBson::Document(match random.random_range(0..6) {
        0..3 => truncation(random, path),
        3 => rawdoc! { "bin": truncation(random, path) },
        4 => {
            rawdoc! { "y": { "$year": parts.clone() }, "m": { "$month": parts.clone() }, "d": { "$dayOfMonth": parts } }
        }
        _ => {
            let format = ["%Y-%m-%d", "%Y-%m", "%d.%m. %H", "%G/%V"][random.random_range(0..4)];
            rawdoc! { "$dateToString": { "date": path, "format": format, "timezone": zone } }
        }
    })
}

fn value_key(random: &mut ChaCha8Rng) -> RawBson {
    let path = ["$n", "$m", "$k", "$w.v", "$u"][random.random_range(0..5)];
    match random.random_range(0..4) {
        0 | 1 => RawBson::String(path.into()),
        2 => RawBson::Document(rawdoc! { "value": path }),
        _ => RawBson::Document(rawdoc! { "$cond": [
            { "$gte": [path, random.random_range(-2..9)] },
            { "$ifNull": [path, "none"] },
            "low",
        ] }),
    }
}

/// A stage that counts groups, with what follows it.
fn grouping(random: &mut ChaCha8Rng) -> Vec<RawDocumentBuf> {
    let mut group = RawDocumentBuf::new();
    match random.random_range(0..6) {
        0 => {
            let path = ["$n", "$m", "$u"][random.random_range(0..3)];
            let boundaries = [[-1, 0, 3, 7], [1, 2, 5, 500_000]][random.random_range(0..2)];
            let mut bounds = RawArrayBuf::new();
            boundaries.iter().for_each(|bound| bounds.push(*bound));
            let bucket = rawdoc! { "groupBy": path, "boundaries": bounds, "default": "other" };
            return vec![rawdoc! { "$bucket": bucket }];
        }
        1 => {
            let path = ["$n", "$m", "$k"][random.random_range(0..3)];
            // Groups with the same count come in any order.
            return vec![
                rawdoc! { "$sortByCount": path },
                rawdoc! { "$sort": { "count": 1, "_id": 1 } },
            ];
        }
        2 => group.append(bson::cstr!("_id"), value_key(random)),
        _ => {
            let path = ["$d", "$d", "$s", "$o", "$t"][random.random_range(0..5)];
            group.append(bson::cstr!("_id"), date_key(random, path));
        }
    }
    group.append(bson::cstr!("n"), rawdoc! { "$sum": 1 });
    if random.random() {
        group.append(bson::cstr!("twice"), rawdoc! { "$sum": 2.0 });
        group.append(bson::cstr!("count"), rawdoc! { "$count": {} });
    }
    let mut stages = vec![rawdoc! { "$group": group }];
    if random.random_ratio(1, 4) {
        stages.push(rawdoc! { "$match": { "n": { "$gt": 3 } } });
    }
    stages
}

fn condition(random: &mut ChaCha8Rng) -> RawDocumentBuf {
    let (low, high) = (date(random), date(random));
    match random.random_range(0..6) {
        0 => rawdoc! { "d": { "$gte": low, "$lt": high } },
        1 => rawdoc! { "k": random.random_range(0..4) },
        2 => rawdoc! { "k": { "$in": [0, 2] }, "d": { "$gt": low } },
        3 => rawdoc! { "n": { "$gte": 1, "$lte": 4 } },
        4 => rawdoc! { "m": { "$gt": 2 } },
        _ => rawdoc! { "s": { "$gte": low } },
    }
}

fn pipeline(random: &mut ChaCha8Rng) -> Vec<RawDocumentBuf> {
    let mut stages = Vec::new();
    if random.random() {
        stages.push(rawdoc! { "$match": condition(random) });
    }
    if random.random_ratio(3, 4) {
        stages.extend(grouping(random));
        return stages;
    }
    let mut facets = RawDocumentBuf::new();
    for name in ["a", "b", "c"] {
        let mut own = RawArrayBuf::new();
        if random.random_ratio(1, 3) {
            own.push(rawdoc! { "$match": condition(random) });
        }
        if random.random_ratio(1, 4) {
            own.push(rawdoc! { "$count": "n" });
        } else {
            grouping(random)
                .into_iter()
                .for_each(|stage| own.push(stage));
        }
        let name = bson::raw::CString::try_from(name).unwrap();
        facets.append(&*name, own);
    }
    stages.push(rawdoc! { "$facet": facets });
    stages
}

fn first_difference(a: &[Vec<u8>], b: &[Vec<u8>]) -> String {
    let at = a.iter().zip(b).position(|(a, b)| a != b);
    let shown = |all: &[Vec<u8>]| {
        let one = at
            .and_then(|at| all.get(at))
            .map(|bytes| bytes.escape_ascii().to_string());
        format!("{} parts, {one:?}", all.len())
    };
    format!("{} but walked {}", shown(a), shown(b))
}

fn json(pipeline: &[RawDocumentBuf]) -> String {
    let stages = pipeline
        .iter()
        .map(|stage| Document::try_from(&**stage).unwrap());
    let shown: Vec<String> = stages.map(|stage| stage.to_string()).collect();
    shown.join(", ")
}

/// Both answers are the same; true when the first was counted.
fn check(engine: &Engine, pipeline: &[RawDocumentBuf], shown: &str) -> bool {
    let natural = rawdoc! { "$natural": 1 };
    let counted = aggregate(engine, pipeline, None);
    let walked = aggregate(engine, pipeline, Some(&natural));
    match (counted, walked) {
        (Ok(counted), Ok(walked)) => {
            let (a, b) = (sorted(&counted, &plain), sorted(&walked, &plain));
            assert!(a == b, "{shown}: {}", first_difference(&a, &b));
            // Without a filter both meet the documents of a group in the order of `_id`, unless the index
            // of `n` puts another field between.
            if !shown.contains("$match") && !shown.contains("\"$n\"") {
                let exact = |document: &RawDocument| document.as_bytes().to_vec();
                let (a, b) = (sorted(&counted, &exact), sorted(&walked, &exact));
                assert!(a == b, "{shown}: {}", first_difference(&a, &b));
            }
        }
        (Err(counted), Err(walked)) => assert_eq!(counted.code, walked.code, "{shown}"),
        (counted, walked) => panic!("{shown}: {counted:?}, plainly {walked:?}"),
    }
    let (stage, stats) = first_stage(engine, pipeline);
    let is_counted = stage.starts_with("COUNTED");
    if is_counted {
        assert_eq!(stats.get_i32("totalDocsExamined").unwrap(), 0, "{shown}");
    }
    is_counted
}

fn check_distinct(engine: &Engine, random: &mut ChaCha8Rng, shown: &str) {
    let natural = rawdoc! { "$natural": 1 };
    let filter = match random.random() {
        true => condition(random),
        false => RawDocumentBuf::new(),
    };
    for key in ["d", "s", "n", "m", "k", "o", "t", "w.v", "_id"] {
        let values = |hint: Option<&RawDocument>| {
            let request = DistinctRequest {
                collation: None,
                key,
                filter: &filter,
                hint: hint.map(RawBsonRef::Document),
            };
            engine.distinct(&namespace(), &request).unwrap()
        };
        let (found, plain) = (values(None), values(Some(&natural)));
        // Of values that are equal either may be given where several ranges are walked.
        let compared = found.into_iter().flatten().zip(plain.into_iter().flatten());
        let mut compared = compared.map(|(a, b)| meridian_value::compare(a, b).is_eq());
        assert!(compared.all(|equal| equal), "{shown}, {key}: {filter:?}");
        let length = |array: &RawArrayBuf| array.into_iter().count();
        assert_eq!(length(&found), length(&plain), "{shown}, {key}: {filter:?}");
        if filter.is_empty() && key != "n" {
            assert_eq!(found, plain, "{shown}, {key}");
        }
    }
}

fn change(engine: &Engine, random: &mut ChaCha8Rng, next_id: &mut i32) {
    let documents: Vec<_> = (0..500).map(|at| document(random, *next_id + at)).collect();
    *next_id += 500;
    insert(engine, &documents);
    let low = random.random_range(0..*next_id);
    let some = rawdoc! { "_id": { "$gte": low, "$lt": low + 300 } };
    engine
        .delete(&namespace(), &DeleteStatement::new(&some))
        .unwrap();
    let low = random.random_range(0..*next_id);
    let some = rawdoc! { "_id": { "$gte": low, "$lt": low + 300 } };
    let update = rawdoc! { "$set": { "d": date(random), "m": number(random) } };
    let statement = UpdateStatement::new(&some, &update);
    engine.update(&namespace(), &statement).unwrap();
}

#[test]
fn groups_are_those_of_a_walk() {
    for seed in [21, 22] {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let engine = Engine::in_memory().unwrap();
        let documents: Vec<_> = (0..6_000).map(|id| document(&mut random, id)).collect();
        let (early, late) = documents.split_at(3_000);
        insert(&engine, early);
        create_indexes(&engine);
        insert(&engine, late);
        let (mut counted, mut next_id) = (0, 6_000);
        for round in 0..4 {
            for number in 0..60 {
                let pipeline = pipeline(&mut random);
                let shown = format!("seed {seed}, round {round}, {number}: {}", json(&pipeline));
                counted += u32::from(check(&engine, &pipeline, &shown));
            }
            check_distinct(&engine, &mut random, &format!("seed {seed}, round {round}"));
            change(&engine, &mut random, &mut next_id);
        }
        assert!(
            counted > 80,
            "seed {seed}: only {counted} of 240 were counted"
        );
    }
}

/// Long stretches are told by the rank index, not read: on disk, where ranges are cut in the background.
#[test]
fn few_groups_of_many_entries_are_not_read() {
    let directory = tempfile::tempdir().unwrap();
    let engine = Engine::open(directory.path(), EngineOptions::default()).unwrap();
    let mut random = ChaCha8Rng::seed_from_u64(3);
    create_indexes(&engine);
    let documents: Vec<_> = (0..20_000).map(|id| document(&mut random, id)).collect();
    insert(&engine, &documents);
    let n = rawdoc! { "$sum": 1 };
    let year = rawdoc! { "$dateTrunc": { "date": "$d", "unit": "year", "timezone": "UTC" } };
    let pipelines = [
        vec![rawdoc! { "$group": { "_id": "$k", "n": n.clone() } }],
        vec![rawdoc! { "$group": { "_id": year, "n": n.clone() } }],
        vec![rawdoc! { "$bucket": { "groupBy": "$u", "boundaries": [0, 250_000, 1_000_000] } }],
        vec![
            rawdoc! { "$match": { "k": 2 } },
            rawdoc! { "$group": { "_id": { "$year": "$d" }, "n": n } },
        ],
    ];
    for pipeline in pipelines {
        let shown = json(&pipeline);
        assert!(check(&engine, &pipeline, &shown), "{shown}");
        // Ranges that the inserts crowded are cut in the background, when writes rest: after five seconds.
        let mut keys = i32::MAX;
        for _ in 0..3_000 {
            let (_, stats) = first_stage(&engine, &pipeline);
            keys = stats.get_i32("totalKeysExamined").unwrap();
            if keys < 1_200 {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        assert!(keys < 1_200, "{shown} examined {keys} keys");
    }
}

/// Errors and answers are those of the walk where values cannot be told by a key, or have no group.
#[test]
fn what_cannot_be_counted_is_walked() {
    let engine = Engine::in_memory().unwrap();
    create_indexes(&engine);
    let mut random = ChaCha8Rng::seed_from_u64(4);
    let documents: Vec<_> = (0..300).map(|id| document(&mut random, id)).collect();
    insert(&engine, &documents);
    let n = rawdoc! { "$sum": 1 };
    let day = |path: &str| rawdoc! { "$dateTrunc": { "date": path, "unit": "day" } };
    let pipelines = [
        // Not a date; outside of all buckets; an array makes the index multikey.
        vec![rawdoc! { "$group": { "_id": day("$n"), "n": n.clone() } }],
        vec![rawdoc! { "$bucket": { "groupBy": "$n", "boundaries": [0, 5] } }],
        vec![rawdoc! { "$group": { "_id": "$k", "n": n } }],
    ];
    assert!(check(&engine, &pipelines[2], "before the array"));
    insert(&engine, &[rawdoc! { "_id": 1_000, "k": [1, 2], "n": 1 }]);
    for pipeline in pipelines {
        check(&engine, &pipeline, &json(&pipeline));
    }
}

/// Writers move documents about between groups: at every point in time all are there, in all facets.
#[test]
fn groups_are_exact_while_others_write() {
    const DOCUMENTS: i32 = 4_000;
    let engine: Arc<Engine> = Engine::in_memory().unwrap();
    let mut random = ChaCha8Rng::seed_from_u64(6);
    create_indexes(&engine);
    let documents: Vec<_> = (0..DOCUMENTS).map(|id| document(&mut random, id)).collect();
    insert(&engine, &documents);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (writing, finished) = (&engine, &done);
        scope.spawn(move || {
            let mut random = ChaCha8Rng::seed_from_u64(7);
            while !finished.load(Ordering::Relaxed) {
                let low = random.random_range(0..DOCUMENTS);
                let some = rawdoc! { "_id": { "$gte": low, "$lt": low + 40 } };
                let k = random.random_range(0..4);
                let update = rawdoc! { "$set": { "k": k, "n": k, "d": date(&mut random) } };
                let statement = UpdateStatement::new(&some, &update);
                writing.update(&namespace(), &statement).unwrap();
            }
        });
        let n = || rawdoc! { "$sum": 1 };
        let month = rawdoc! { "$dateTrunc": { "date": "$d", "unit": "month" } };
        let pipeline = [rawdoc! { "$facet": {
            "by k": [{ "$match": { "k": { "$lte": 100 } } }, { "$group": { "_id": "$k", "n": n() } }],
            "by month": [{ "$group": { "_id": month, "n": n() } }],
            "all": [{ "$count": "n" }],
        } }];
        for round in 0..60 {
            let found = aggregate(&engine, &pipeline, None).unwrap();
            let mut totals = BTreeMap::new();
            for (name, groups) in found[0].iter().flatten() {
                let groups = groups.as_array().unwrap().into_iter().flatten();
                let counts = groups.map(|group| group.as_document().unwrap().get_i32("n").unwrap());
                totals.insert(name.as_str().to_owned(), counts.sum::<i32>());
            }
            let expected = ["all", "by k", "by month"].map(|name| (name.to_owned(), DOCUMENTS));
            assert_eq!(totals, BTreeMap::from(expected), "round {round}");
        }
        done.store(true, Ordering::Relaxed);
    });
}
