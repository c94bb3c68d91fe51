//! Pipelines against the answers of a real mongod 6.0.5, and what only we promise.
//!
//! `testdata/pipelines_*.jsonl` hold, in extended JSON, the documents and then one case a
//! line: a pipeline, and the result or the error.

#![allow(clippy::unwrap_used)]

use super::{Executor, Limits, Pipeline, Stage, run};
use crate::error::Code;
use crate::expression::{VariableScope, Variables};
use crate::timeseries::{Granularity, TimeRange, Timeseries};
use bson::{Bson, Document, RawDocument, RawDocumentBuf, doc};
use meridian_value::Collation;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::time::Instant;

type Answer = Result<Vec<Document>, (i32, String)>;

pub(super) fn parse(line: &str) -> Document {
    let json: serde_json::Value = serde_json::from_str(line).unwrap();
    match Bson::try_from(json).unwrap() {
        Bson::Document(document) => document,
        other => panic!("not a document: {other}"),
    }
}

fn raw(document: &Document) -> RawDocumentBuf {
    RawDocumentBuf::try_from(document).unwrap()
}

fn ours(stages: &[RawDocumentBuf], input: &[RawDocumentBuf], limits: &Limits) -> Answer {
    ours_within(TimeRange::ALL, stages, input, limits)
}

/// Where buckets are unpacked, only measurements of these times are wanted.
fn ours_within(
    times: TimeRange,
    stages: &[RawDocumentBuf],
    input: &[RawDocumentBuf],
    limits: &Limits,
) -> Answer {
    let fail = |error: crate::error::Error| (error.code.number(), error.message);
    let stages: Vec<&RawDocument> = stages.iter().map(|stage| &**stage).collect();
    let mut pipeline = Pipeline::parse(&stages).map_err(fail)?;
    if let Some(Stage::UnpackBucket(unpack)) = pipeline.stages.first_mut() {
        unpack.times = times;
    }
    let input = input.iter().cloned().map(Ok);
    let output = run(&pipeline.stages, input, Variables::default(), limits).map_err(fail)?;
    output
        .map(|document| Ok(Document::try_from(&*document.map_err(fail)?).unwrap()))
        .collect()
}

fn stages(case: &Document) -> Vec<RawDocumentBuf> {
    let array = case.get_array("pipeline").unwrap();
    array
        .iter()
        .map(|stage| raw(stage.as_document().unwrap()))
        .collect()
}

fn theirs(case: &Document) -> Answer {
    match case.get_i32("code") {
        Ok(code) => Err((code, case.get_str("message").unwrap().to_owned())),
        Err(_) => {
            let array = case.get_array("result").unwrap();
            Ok(array
                .iter()
                .map(|item| item.as_document().unwrap().clone())
                .collect())
        }
    }
}

/// The text of an answer; of a `$group` that nothing sorts, without its order.
fn comparable(answer: &Answer, last_stage: &RawDocumentBuf) -> String {
    let grouped = last_stage.get("$group").unwrap().is_some();
    match answer {
        Ok(documents) if grouped => {
            let mut texts: Vec<String> = documents.iter().map(|d| format!("{d:?}")).collect();
            texts.sort();
            texts.join("; ")
        }
        other => format!("{other:?}"),
    }
}

fn check(table: &str, known_differences: &[&str]) {
    let mut lines = table.lines();
    let head = parse(lines.next().unwrap());
    let documents = head.get_array("documents").unwrap();
    let input: Vec<RawDocumentBuf> = documents
        .iter()
        .map(|document| raw(document.as_document().unwrap()))
        .collect();
    let mut wrong = Vec::new();
    for line in lines {
        let case = parse(line);
        let stages = stages(&case);
        let (ours, theirs) = (ours(&stages, &input, &Limits::new(false)), theirs(&case));
        let last = stages.last().unwrap();
        if comparable(&ours, last) != comparable(&theirs, last) {
            let shown = case.get("pipeline").unwrap().to_string();
            if !known_differences.iter().any(|known| *known == shown) {
                wrong.push(format!(
                    "{shown}\n    ours   {ours:?}\n    mongod {theirs:?}"
                ));
            }
        }
    }
    assert!(
        wrong.is_empty(),
        "{} differ:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

#[test]
fn stages_are_mongods() {
    check(
        include_str!("testdata/pipelines_stages.jsonl"),
        &[
            // mongod has $where, and refuses it here.
            r#"[{ "$match": { "$where": "1" } }]"#,
            // Where the field that held the array stands when its index takes its place.
            r#"[{ "$unwind": { "path": "$b", "includeArrayIndex": "b", "preserveNullAndEmptyArrays": true } }]"#,
        ],
    );
}

#[test]
fn accumulators_and_buckets_are_mongods() {
    check(
        include_str!("testdata/pipelines_accumulators.jsonl"),
        &[
            // mongod's second execution engine has other codes for the same errors.
            r#"[{ "$group": { "_id": { "$divide": ["$s", 1] } } }]"#,
            r#"[{ "$group": { "_id": "$s", "r": { "$sum": { "$add": ["$a", "$s"] } } } }, { "$sort": { "_id": 1 } }]"#,
            r#"[{ "$bucket": { "groupBy": "$_id", "boundaries": [0, 3] } }]"#,
            // A set has no order.
            r#"[{ "$group": { "_id": "$s", "r": { "$addToSet": "$a" } } }, { "$sort": { "_id": 1 } }]"#,
        ],
    );
}

#[test]
fn whole_pipelines_are_mongods() {
    check(include_str!("testdata/pipelines_documents.jsonl"), &[]);
}

fn pipeline(stages: &[Document]) -> Pipeline {
    let stages: Vec<RawDocumentBuf> = stages.iter().map(raw).collect();
    let stages: Vec<&RawDocument> = stages.iter().map(|stage| &**stage).collect();
    Pipeline::parse(&stages).unwrap()
}

fn executor(stages: &[Document]) -> Executor {
    let limits = Limits::new(false);
    Executor::new(&pipeline(stages).stages, Variables::default(), &limits).unwrap()
}

fn all(executor: &mut Executor) -> Vec<Document> {
    let mut documents = Vec::new();
    while let Some(document) = executor.pull().unwrap() {
        documents.push(Document::try_from(&*document).unwrap());
    }
    documents
}

#[test]
fn a_limit_says_that_no_more_input_is_needed() {
    let mut executor = executor(&[doc! { "$match": { "a": 1 } }, doc! { "$limit": 2 }]);
    assert!(executor.push(&raw(&doc! { "a": 1 })).unwrap().is_continue());
    assert!(executor.push(&raw(&doc! { "a": 2 })).unwrap().is_continue());
    assert!(
        executor
            .push(&raw(&doc! { "a": 1, "b": 1 }))
            .unwrap()
            .is_break()
    );
    executor.finish().unwrap();
    assert_eq!(
        all(&mut executor),
        [doc! { "a": 1 }, doc! { "a": 1, "b": 1 }]
    );
}

#[test]
fn documents_that_need_no_others_are_ready_at_once() {
    let mut executor = executor(&[doc! { "$set": { "b": { "$add": ["$a", 1] } } }]);
    assert_eq!(executor.pull().unwrap(), None);
    let _ = executor.push(&raw(&doc! { "a": 1 })).unwrap();
    assert_eq!(all(&mut executor), [doc! { "a": 1, "b": 2 }]);
    executor.finish().unwrap();
    assert_eq!(executor.pull().unwrap(), None);
}

#[test]
fn a_limit_behind_a_blocking_stage_ends_the_pipeline() {
    let stages = [
        doc! { "$sort": { "a": -1 } },
        doc! { "$unwind": "$l" },
        doc! { "$limit": 3 },
    ];
    let mut executor = executor(&stages);
    for a in 0..10 {
        let _ = executor.push(&raw(&doc! { "a": a, "l": [1, 2] })).unwrap();
    }
    executor.finish().unwrap();
    let expected = [
        doc! { "a": 9, "l": 1 },
        doc! { "a": 9, "l": 2 },
        doc! { "a": 8, "l": 1 },
    ];
    assert_eq!(all(&mut executor), expected);
}

#[test]
fn a_sample_has_the_size_asked_for_and_no_document_twice() {
    let mut executor = executor(&[doc! { "$sample": { "size": 10 } }]);
    for a in 0..1000 {
        let _ = executor.push(&raw(&doc! { "a": a })).unwrap();
    }
    executor.finish().unwrap();
    let mut sample: Vec<i32> = all(&mut executor)
        .iter()
        .map(|document| document.get_i32("a").unwrap())
        .collect();
    sample.sort_unstable();
    sample.dedup();
    assert_eq!(sample.len(), 10);
}

#[test]
fn stages_that_keep_documents_are_bounded() {
    let text = "x".repeat(1000);
    for (stage, message) in [
        (
            doc! { "$group": { "_id": "$a", "t": { "$first": "$t" } } },
            "Exceeded memory limit for $group",
        ),
        (
            doc! { "$sort": { "t": 1 } },
            "Sort exceeded memory limit of 500000 bytes",
        ),
        (
            doc! { "$bucketAuto": { "groupBy": "$a", "buckets": 2 } },
            "Sort exceeded memory limit of 500000 bytes",
        ),
    ] {
        let limits = Limits::new(false).with_memory(500_000);
        let mut executor =
            Executor::new(&pipeline(&[stage]).stages, Variables::default(), &limits).unwrap();
        let failure = (0..10_000)
            .find_map(|a| executor.push(&raw(&doc! { "a": a, "t": &text })).err())
            .expect("a limit");
        assert_eq!(failure.code, Code::QueryExceededMemoryLimitNoDiskUseAllowed);
        assert!(failure.message.contains(message), "{}", failure.message);
    }
}

/// The same answers with hardly any memory and a disk as with enough memory: of every accumulator, in the order in which
/// documents came.
#[test]
fn stages_that_spill_answer_as_in_memory() {
    let number = |field: &str| doc! { "$toInt": format!("${field}") };
    let ranked = doc! { "sortBy": { "r": 1, "a": -1 }, "output": "$a" };
    let several = doc! { "n": 3, "input": "$r" };
    let mut ranked_several = ranked.clone();
    ranked_several.insert("n", 4);
    let group = doc! { "$group": {
        "_id": { "k": "$k" }, "sum": { "$sum": "$r" }, "whole": { "$sum": number("a") }, "avg": { "$avg": "$w" },
        "min": { "$min": "$r" }, "max": { "$max": "$t" }, "first": { "$first": "$a" }, "last": { "$last": "$a" },
        "none": { "$first": "$absent" }, "push": { "$push": "$a" }, "set": { "$addToSet": "$r" }, "n": { "$count": {} },
        "merged": { "$mergeObjects": "$o" }, "firsts": { "$firstN": &several }, "lasts": { "$lastN": &several },
        "least": { "$minN": &several }, "most": { "$maxN": &several }, "top": { "$top": &ranked },
        "bottom": { "$bottom": &ranked }, "tops": { "$topN": &ranked_several }, "bottoms": { "$bottomN": &ranked_several },
        "deviation": { "$stdDevSamp": "$w" },
    } };
    let buckets = doc! { "$bucketAuto": { "groupBy": "$r", "buckets": 7, "output": { "a": { "$push": "$a" } } } };
    let documents: Vec<RawDocumentBuf> = (0..2000_i32)
        .map(|a| {
            let (k, r) = (a * 7919 % 97, a * 31 % 200);
            raw(&doc! {
                "a": a, "k": k, "r": r, "w": f64::from(a % 8), "t": format!("{r:0100}"),
                "o": { format!("f{}", a % 3): a },
            })
        })
        .collect();
    let space = crate::sorter::SpillSpace::in_memory();
    for stages in [
        vec![group, doc! { "$sort": { "_id.k": 1 } }],
        vec![doc! { "$sort": { "t": 1 } }],
        vec![
            doc! { "$sort": { "t": -1, "a": 1 } },
            doc! { "$limit": 900 },
        ],
        vec![buckets],
    ] {
        let run = |limits: &Limits| {
            let stages = pipeline(&stages).stages;
            let mut executor = Executor::new(&stages, Variables::default(), limits).unwrap();
            for document in &documents {
                let _ = executor.push(document).unwrap();
            }
            executor.finish().unwrap();
            all(&mut executor)
        };
        let little = Limits::new(true)
            .with_space(space.clone())
            .with_memory(50_000);
        let (spilled, held) = (run(&little), run(&Limits::new(true)));
        assert_eq!(spilled.len(), held.len());
        for (mut spilled, mut held) in spilled.into_iter().zip(held) {
            // Parts of a deviation that are put together are rounded otherwise.
            let deviation = |of: &mut Document| of.remove("deviation").and_then(|it| it.as_f64());
            if let (Some(a), Some(b)) = (deviation(&mut spilled), deviation(&mut held)) {
                assert!((a - b).abs() < 1e-12, "{a} {b}");
            }
            assert_eq!(spilled, held, "{stages:?}");
        }
    }
}

#[test]
fn groups_tell_values_apart_as_comparison_does() {
    let mut executor = executor(&[doc! { "$group": { "_id": "$a", "n": { "$sum": 1 } } }]);
    let decimal: bson::Decimal128 = "1.0".parse().unwrap();
    for a in [
        bson::bson!(1),
        bson::bson!(1.0),
        Bson::Int64(1),
        Bson::Decimal128(decimal),
        bson::bson!(0.5),
        bson::bson!("1"),
        Bson::Null,
    ] {
        let _ = executor.push(&raw(&doc! { "a": a })).unwrap();
    }
    let _ = executor.push(&raw(&doc! {})).unwrap();
    executor.finish().unwrap();
    let expected = [
        doc! { "_id": 1, "n": 4 },
        doc! { "_id": 0.5, "n": 1 },
        doc! { "_id": "1", "n": 1 },
        doc! { "_id": Bson::Null, "n": 2 },
    ];
    assert_eq!(all(&mut executor), expected);
}

#[test]
fn variables_of_let_are_known_when_a_pipeline_is_parsed() {
    let scope = VariableScope::from_let(
        &raw(&doc! { "x": { "$add": [1, 2] }, "y": "$$x" }),
        Collation::SIMPLE,
    )
    .unwrap();
    let stage = raw(&doc! { "$project": { "_id": 0, "sum": { "$add": ["$$x", "$$y", "$a"] } } });
    let pipeline = Pipeline::parse_with(&[&stage], &scope).unwrap();
    let input = std::iter::once(Ok(raw(&doc! { "a": 1 })));
    let mut output = run(
        &pipeline.stages,
        input,
        Variables::default(),
        &Limits::new(false),
    )
    .unwrap();
    assert_eq!(output.next().unwrap().unwrap(), raw(&doc! { "sum": 7 }));
}

/// Evaluation 1's roll-up: `cargo test --release -p meridian-engine roll_up -- --ignored --nocapture`.
#[test]
#[ignore = "a measurement"]
fn speed_of_the_daily_roll_up() {
    const DAY_MS: i64 = 86_400_000;
    let names = [
        "Large Wildfire Moving Rapidly West",
        "Hurricane Approaching",
        "Flood Warning",
    ];
    let documents: Vec<RawDocumentBuf> = (0..200_000_i64)
        .map(|i| {
            let date = |days: i64| bson::DateTime::from_millis(1_512_086_400_000 + i * 2042 + days * DAY_MS);
            raw(&doc! {
                "_id": bson::oid::ObjectId::new(), "indexnum": i as i32, "startdatetime": date(0),
                "enddatetime": date(9), "location": { "type": "Point", "coordinates": [2.5, 45.9] },
                "name": names[(i % 3) as usize], "lastupdatedatetime": date(1), "timezoneoffset": 60,
                "permitid": i as i32, "reading": (i % 1000) as f64 / 7.0,
            })
        })
        .collect();
    let group = doc! { "$group": {
        "_id": {
            "day": { "$dateTrunc": { "date": "$startdatetime", "unit": "day" } },
            "name": "$name",
        },
        "n": { "$sum": 1 }, "avg": { "$avg": "$reading" }, "max": { "$max": "$reading" },
    } };
    let mut executor = executor(&[group]);
    let start = Instant::now();
    for _ in 0..5 {
        for document in &documents {
            let _ = executor.push(document).unwrap();
        }
    }
    let seconds = start.elapsed().as_secs_f64();
    executor.finish().unwrap();
    println!(
        "{:.0} documents/s into {} groups",
        1e6 / seconds,
        all(&mut executor).len()
    );
}

/// Any other table: `MERIDIAN_PIPELINES=FILE cargo test --release -p meridian-engine pipelines_from -- --ignored`.
#[test]
#[ignore = "needs a file"]
fn pipelines_from_elsewhere_are_mongods() {
    let file = std::env::var("MERIDIAN_PIPELINES").expect("MERIDIAN_PIPELINES names a file");
    check(&std::fs::read_to_string(file).unwrap(), &[]);
}

/// A bucket of a time series as it is stored before it is compressed: times, in any order, and values, where there are.
fn bucket(number: i32, meta: &Bson, rows: &[(i64, Option<Bson>)]) -> RawDocumentBuf {
    let millis = |row: &(i64, Option<Bson>)| Bson::DateTime(bson::DateTime::from_millis(row.0));
    let rows = || rows.iter().enumerate();
    let times: Document = rows()
        .map(|(row, measured)| (row.to_string(), millis(measured)))
        .collect();
    let values: Document = rows()
        .filter_map(|(row, measured)| Some((row.to_string(), measured.1.clone()?)))
        .collect();
    let mut ends = [doc! {}, doc! {}];
    let all = rows().map(|(_, row)| row.0);
    let bounds =
        [all.clone().min(), all.max()].map(|end| bson::DateTime::from_millis(end.unwrap()));
    for (end, bound) in ends.iter_mut().zip(bounds) {
        end.insert("t", bound);
    }
    let kept = rows().filter_map(|(_, row)| row.1.clone());
    let order = |one: &Bson, other: &Bson| compare_bson(one, other);
    if let (Some(least), Some(greatest)) = (kept.clone().min_by(order), kept.max_by(order)) {
        ends[0].insert("v", least);
        ends[1].insert("v", greatest);
    }
    let [min, max] = ends;
    raw(&doc! {
        "_id": number, "control": { "version": 1, "min": min, "max": max }, "meta": meta, "data": { "t": times, "v": values },
    })
}

fn compare_bson(one: &Bson, other: &Bson) -> std::cmp::Ordering {
    let [one, other] = [one, other].map(|value| raw(&doc! { "": value }));
    let value = |document: &RawDocumentBuf| document.iter().next().unwrap().unwrap().1.into();
    let (one, other): (bson::RawBson, bson::RawBson) = (value(&one), value(&other));
    meridian_value::compare(one.as_raw_bson_ref(), other.as_raw_bson_ref())
}

/// Random values: of one kind for the whole bucket, or of any.
fn measured_value(kind: u32, random: &mut StdRng) -> Option<Bson> {
    let small = random.random_range(0..10);
    Some(match kind {
        0 => Bson::Double(f64::from(small)),
        1 => Bson::Double(f64::from(random.random_range(-300..300)) / 10.0),
        2 => Bson::Int32(small),
        3 => {
            return random
                .random::<bool>()
                .then(|| Bson::Double(f64::from(small)));
        }
        4 => Bson::Double([f64::NAN, -0.0, 7.0, f64::INFINITY, 0.1 + 0.2][small as usize % 5]),
        _ => {
            return match small {
                0 => None,
                1 => Some(Bson::Null),
                2 => Some(Bson::from("text")),
                3 => Some(Bson::Int64(5)),
                4 => Some(Bson::from(doc! { "a": small })),
                _ => Some(Bson::Double(f64::from(small))),
            };
        }
    })
}

/// A bucket, compressed or not.
fn random_bucket(number: i32, random: &mut StdRng) -> RawDocumentBuf {
    let meta = doc! { "s": random.random_range(0..4) };
    // Around the end of daylight saving time in New York.
    let start = 1_762_060_000_000 + random.random_range(0..40_000_000);
    let kind = random.random_range(0..6);
    let rows: Vec<(i64, Option<Bson>)> = (0..random.random_range(1..80))
        .map(|row| {
            let millis = start + row * 60_000 + random.random_range(-90_000..90_000);
            (millis, measured_value(kind, random))
        })
        .collect();
    let plain = bucket(number, &meta.into(), &rows);
    let series = Timeseries {
        time_field: "t".to_owned(),
        meta_field: Some("m".to_owned()),
        granularity: Granularity::Minutes,
    };
    let compressed = random
        .random::<bool>()
        .then(|| series.compressed(&plain).unwrap());
    compressed.flatten().unwrap_or(plain)
}

/// Groups of measurements, bucket by bucket, are those of the same documents one by one, also where groups are spilled.
#[test]
fn groups_of_buckets_are_those_of_their_measurements() {
    let seed = rand::random();
    println!("seed {seed}");
    let mut random = StdRng::seed_from_u64(seed);
    let unpack = raw(
        &doc! { "$_internalUnpackBucket": { "timeField": "t", "metaField": "m", "bucketMaxSpanSeconds": 3600 } },
    );
    let hour = |more: Document| {
        let mut operand = doc! { "date": "$t", "unit": "hour" };
        operand.extend(more);
        doc! { "$dateTrunc": operand }
    };
    let keys = [
        Bson::Null,
        Bson::from("$m"),
        Bson::from("$m.s"),
        Bson::from("$t"),
        Bson::from("$v"),
        hour(doc! {}).into(),
        hour(doc! { "unit": "minute", "binSize": 7 }).into(),
        hour(doc! { "unit": "month" }).into(),
        hour(doc! { "unit": "day", "timezone": "America/New_York" }).into(),
        doc! { "s": "$m.s", "h": hour(doc! {}), "k": 5 }.into(),
        doc! { "a": hour(doc! { "unit": "minute", "binSize": 25 }), "b": hour(doc! { "unit": "minute", "binSize": 10 }) }.into(),
        doc! { "h": hour(doc! {}), "v": { "$gt": ["$v", 5] } }.into(),
    ];
    // The first is taken one by one, the second by columns, the third by columns without gaps, the fourth by what whole buckets
    // say, the last by what buckets say of which a part is wanted.
    let accumulators = [
        doc! { "n": { "$sum": 1 }, "least": { "$min": "$v" }, "first": { "$first": "$t" }, "all": { "$push": "$v" } },
        doc! {
            "n": { "$sum": 1 }, "first": { "$first": "$t" }, "until": { "$max": "$t" }, "series": { "$last": "$m.s" }, "count": { "$count": {} },
            "v": { "$first": "$v" }, "w": { "$last": "$v" }, "least": { "$min": "$v" }, "none": { "$max": "$x" },
        },
        doc! {
            "first": { "$min": "$t" }, "sum": { "$sum": "$v" }, "mean": { "$avg": "$v" }, "least": { "$min": "$v" },
            "greatest": { "$max": "$v" }, "deviation": { "$stdDevPop": "$v" }, "halves": { "$sum": 0.5 },
        },
        doc! {
            "n": { "$sum": 1 }, "count": { "$count": {} }, "least": { "$min": "$v" }, "greatest": { "$max": "$v" }, "none": { "$max": "$x" },
            "series": { "$first": "$m.s" }, "sum": { "$sum": "$m.s" },
        },
        doc! { "least": { "$min": "$v" }, "greatest": { "$max": "$v" }, "none": { "$max": "$x" } },
    ];
    let limits = Limits::new(true).with_space(crate::sorter::SpillSpace::in_memory());
    for round in 0..60 {
        let count = random.random_range(1..12);
        let buckets: Vec<RawDocumentBuf> = (0..count)
            .map(|number| random_bucket(number, &mut random))
            .collect();
        let from = 1_762_060_000_000 + random.random_range(0..30_000_000);
        let times = match round % 2 {
            0 => TimeRange::ALL,
            _ => TimeRange {
                from,
                until: from + random.random_range(0..9_000_000),
            },
        };
        let measured =
            ours_within(times, std::slice::from_ref(&unpack), &buckets, &limits).unwrap();
        let measured: Vec<RawDocumentBuf> = measured.iter().map(raw).collect();
        let limits = match round % 3 {
            0 => limits.clone().with_memory(2_000),
            _ => limits.clone(),
        };
        let sample = raw(&doc! { "$sample": { "size": 1 + round % 9, "seed": round } });
        let drawn = ours_within(times, &[unpack.clone(), sample.clone()], &buckets, &limits);
        let from_all = ours(&[sample], &measured, &limits);
        assert_eq!(
            format!("{drawn:?}"),
            format!("{from_all:?}"),
            "round {round}"
        );
        let count = raw(&doc! { "$count": "n" });
        let counted = ours_within(times, &[unpack.clone(), count.clone()], &buckets, &limits);
        assert_eq!(counted, ours(&[count], &measured, &limits), "round {round}");
        for (key, fields) in keys
            .iter()
            .flat_map(|key| accumulators.iter().map(move |fields| (key, fields)))
        {
            let mut operand = doc! { "_id": key };
            operand.extend(fields.clone());
            if round % 3 == 0 {
                // Sums of parts are rounded otherwise.
                for field in ["sum", "mean", "deviation"] {
                    operand.remove(field);
                }
            }
            let group = raw(&doc! { "$group": operand });
            let sorted = raw(&doc! { "$sort": { "_id": 1, "first": 1 } });
            let by_bucket = ours_within(
                times,
                &[unpack.clone(), group.clone(), sorted.clone()],
                &buckets,
                &limits,
            );
            let one_by_one = ours(&[group.clone(), sorted], &measured, &limits);
            // (NaN is not itself.)
            let [by_bucket, one_by_one] =
                [by_bucket, one_by_one].map(|answer| format!("{answer:?}"));
            assert_eq!(by_bucket, one_by_one, "round {round}, {group:?}");
        }
    }
}

/// Buckets with more measurements than a sample draws, or a group takes from a summary, at once: as many, and one more.
#[test]
fn large_buckets_are_taken_one_by_one() {
    let unpack = raw(
        &doc! { "$_internalUnpackBucket": { "timeField": "t", "metaField": "m", "bucketMaxSpanSeconds": 86_400 } },
    );
    let limits = Limits::new(false);
    let series = Timeseries {
        time_field: "t".to_owned(),
        meta_field: Some("m".to_owned()),
        granularity: Granularity::Hours,
    };
    for count in [65_536_i64, 65_537] {
        let rows: Vec<_> = (0..count)
            .map(|row| (1_762_060_000_000 + row, Some(Bson::Double(row as f64))))
            .collect();
        let plain = bucket(1, &doc! { "s": 1 }.into(), &rows);
        let compressed = series.compressed(&plain).unwrap().expect("it is smaller");
        let measured = ours(
            std::slice::from_ref(&unpack),
            std::slice::from_ref(&plain),
            &limits,
        );
        let measured: Vec<RawDocumentBuf> = measured.unwrap().iter().map(raw).collect();
        for stages in [
            vec![doc! { "$sample": { "size": 5, "seed": 7 } }],
            vec![doc! { "$count": "n" }],
            vec![
                doc! { "$group": { "_id": "$m.s", "n": { "$sum": 0.5 }, "least": { "$min": "$v" }, "greatest": { "$max": "$v" }, "s": { "$sum": "$m.s" } } },
            ],
        ] {
            let stages: Vec<RawDocumentBuf> = stages.iter().map(raw).collect();
            let expected = ours(&stages, &measured, &limits).unwrap();
            for one in [&plain, &compressed] {
                let unpacked = [std::slice::from_ref(&unpack), &stages].concat();
                let actual = ours(&unpacked, std::slice::from_ref(one), &limits).unwrap();
                assert_eq!(actual, expected, "{count} rows, {stages:?}");
            }
        }
    }
}
