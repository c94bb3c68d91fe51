//! Scans that two cores share against their plain twin: the same pipeline over one walk of all documents,
//! which a `$limit` in front makes it be.
#![allow(clippy::unwrap_used)]

use bson::raw::{RawBson, RawDocument, RawDocumentBuf};
use bson::{Decimal128, rawdoc};
use meridian_engine::{
    AggregateRequest, AggregateTarget, CountRequest, Engine, Error, InsertOptions, Namespace,
};
use rand::prelude::*;
use rand_chacha::ChaCha8Rng;
use std::sync::Arc;

/// Enough to be shared.
const DOCUMENTS: i32 = 30_000;

fn namespace() -> Namespace {
    Namespace::new("test", "halves").unwrap()
}

fn value(random: &mut ChaCha8Rng) -> Option<RawBson> {
    let whole = random.random_range(-30..90);
    Some(match random.random_range(0..9) {
        0 => return None,
        1 => RawBson::Null,
        2 => RawBson::String(["a", "b"][random.random_range(0..2)].into()),
        3 => RawBson::Int64(i64::from(whole) << 40),
        4 => RawBson::Double(f64::from(whole) + 0.25),
        5 => RawBson::Decimal128(whole.to_string().parse::<Decimal128>().unwrap()),
        6 => [f64::NAN, f64::INFINITY].map(RawBson::Double)[random.random_range(0..2)].clone(),
        _ => RawBson::Int32(whole),
    })
}

/// `k` has few values, some only in one half; `v` is anything, `d` a double, `tags` an array.
fn document(random: &mut ChaCha8Rng, id: i32) -> RawDocumentBuf {
    let key = random.random_range(0..40) + id / 500;
    let mut document = rawdoc! {
        "_id": id,
        "k": key,
        "d": f64::from(random.random_range(-4_000..4_000)) / 8.0,
        "tags": [random.random_range(0..5), random.random_range(0..5)],
    };
    if let Some(value) = value(random) {
        document.append(bson::cstr!("v"), value);
    }
    document
}

fn filled(seed: u64) -> Arc<Engine> {
    let engine = Engine::in_memory().unwrap();
    let random = &mut ChaCha8Rng::seed_from_u64(seed);
    let mut ids: Vec<i32> = (0..DOCUMENTS).collect();
    ids.shuffle(random);
    let documents: Vec<RawDocumentBuf> = ids.into_iter().map(|id| document(random, id)).collect();
    let borrowed: Vec<&RawDocument> = documents.iter().map(AsRef::as_ref).collect();
    for part in borrowed.chunks(1_000) {
        let outcome = engine.insert(&namespace(), part, &InsertOptions::default());
        assert!(outcome.unwrap().errors.is_empty());
    }
    engine
}

fn aggregate(engine: &Engine, pipeline: &[RawDocumentBuf]) -> Result<Vec<RawDocumentBuf>, Error> {
    let request = AggregateRequest::new(pipeline);
    let target = AggregateTarget::Collection(namespace());
    let mut query = engine.aggregate(&target, &request)?;
    let mut documents = Vec::new();
    query.fill(None, usize::MAX, &mut |row| documents.push(row.to_owned()))?;
    Ok(documents)
}

fn pipelines() -> Vec<Vec<RawDocumentBuf>> {
    let all = rawdoc! {
        "_id": "$k",
        "n": { "$sum": 1 },
        "count": { "$count": {} },
        "sum": { "$sum": "$v" },
        "doubles": { "$sum": "$d" },
        "mean": { "$avg": "$d" },
        "least": { "$min": "$v" },
        "greatest": { "$max": "$v" },
        "first": { "$first": "$v" },
        "last": { "$last": "$v" },
    };
    let mut by_document = all.clone();
    by_document.append(bson::cstr!("more"), rawdoc! { "$first": "$_id" });
    vec![
        vec![rawdoc! { "$group": all.clone() }],
        vec![
            rawdoc! { "$match": { "d": { "$gt": 100 } } },
            rawdoc! { "$group": by_document },
            rawdoc! { "$match": { "n": { "$gt": 3 } } },
        ],
        vec![
            rawdoc! { "$unwind": "$tags" },
            rawdoc! { "$set": { "w": { "$multiply": ["$tags", "$d"] } } },
            rawdoc! { "$group": { "_id": { "tag": "$tags", "v": "$v" }, "w": { "$sum": "$w" } } },
        ],
        vec![
            rawdoc! { "$group": { "_id": null, "least": { "$min": "$d" }, "last": { "$last": "$_id" } } },
        ],
        vec![
            rawdoc! { "$match": { "v": { "$type": "string" } } },
            rawdoc! { "$count": "strings" },
        ],
        vec![
            rawdoc! { "$match": { "v": "nowhere" } },
            rawdoc! { "$count": "none" },
        ],
        vec![rawdoc! { "$facet": {
            "groups": [{ "$group": all.clone() }, { "$limit": 5 }],
            "few": [{ "$match": { "k": { "$lt": 3 } } }, { "$count": "n" }],
        } }],
        // What cannot be merged is not shared.
        vec![rawdoc! { "$group": { "_id": "$k", "all": { "$push": "$d" }, "n": { "$sum": 1 } } }],
        vec![
            rawdoc! { "$skip": 17 },
            rawdoc! { "$group": { "_id": "$k", "first": { "$first": "$_id" } } },
        ],
    ]
}

#[test]
fn halves_make_what_one_walk_makes() {
    let seed = rand::random();
    println!("seed {seed}");
    let engine = filled(seed);
    for pipeline in pipelines() {
        let mut plain = vec![rawdoc! { "$limit": i64::from(DOCUMENTS) }];
        plain.extend(pipeline.iter().cloned());
        let (shared, plain) = (aggregate(&engine, &pipeline), aggregate(&engine, &plain));
        // Also in the same order: groups come as their first documents do.
        assert_eq!(shared.unwrap(), plain.unwrap(), "seed {seed}, {pipeline:?}");
    }
}

#[test]
fn a_count_without_an_index_is_the_same_in_halves() {
    let seed = rand::random();
    println!("seed {seed}");
    let engine = filled(seed);
    for filter in [
        rawdoc! { "d": { "$gt": 250 } },
        rawdoc! { "v": null },
        rawdoc! { "k": 7 },
    ] {
        let request = CountRequest {
            collation: None,
            filter: &filter,
            skip: 0,
            limit: None,
            hint: None,
        };
        let counted = engine.count(&namespace(), &request).unwrap();
        let listed = aggregate(
            &engine,
            &[
                rawdoc! { "$match": filter.clone() },
                rawdoc! { "$project": { "_id": 1 } },
            ],
        );
        assert_eq!(
            counted as usize,
            listed.unwrap().len(),
            "seed {seed}, {filter:?}"
        );
    }
}

#[test]
fn an_error_in_either_half_is_told() {
    let engine = filled(1);
    for id in [5, DOCUMENTS - 5] {
        let dividing = rawdoc! { "$divide": [1, { "$subtract": ["$_id", id] }] };
        let failed = aggregate(
            &engine,
            &[rawdoc! { "$group": { "_id": null, "n": { "$sum": dividing } } }],
        );
        let error = failed.unwrap_err();
        assert!(error.message.contains("can't $divide by zero"), "{error:?}");
    }
}
