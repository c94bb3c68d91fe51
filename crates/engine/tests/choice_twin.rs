//! The index that the planner takes against its plain twin: the one with the fewest entries of all that
//! were considered, each counted exactly, whatever the planner asked to find out. Seeds are printed.
#![allow(clippy::unwrap_used)]

use bson::raw::{RawDocument, RawDocumentBuf};
use bson::{Document, rawdoc};
use meridian_engine::{Engine, ExplainRequest, FindRequest, InsertOptions, Namespace, Verbosity};
use rand::prelude::*;
use rand_chacha::ChaCha8Rng;
use std::sync::Arc;

const DOCUMENTS: i32 = 6_000;
const FILTERS: usize = 400;
const FIELDS: [&str; 4] = ["few", "some", "many", "skewed"];

fn namespace() -> Namespace {
    Namespace::new("test", "choice").unwrap()
}

fn value(field: &str, random: &mut ChaCha8Rng) -> i32 {
    match field {
        "few" => random.random_range(0..3),
        "some" => random.random_range(0..100),
        "many" => random.random_range(0..DOCUMENTS),
        // Half of them are 0, a quarter 1, ...
        _ => random.random::<u32>().trailing_zeros() as i32,
    }
}

/// `late` is as the `_id`: what is late in it is late in a walk.
fn engine(random: &mut ChaCha8Rng) -> Arc<Engine> {
    let engine = Engine::in_memory().unwrap();
    let document = |id: i32| {
        let mut document = rawdoc! { "_id": id, "late": id };
        for field in FIELDS {
            document.append(
                bson::raw::CString::try_from(field).unwrap(),
                value(field, random),
            );
        }
        document
    };
    let documents: Vec<RawDocumentBuf> = (0..DOCUMENTS).map(document).collect();
    let documents: Vec<&RawDocument> = documents.iter().map(|one| &**one).collect();
    engine
        .insert(&namespace(), &documents, &InsertOptions::default())
        .unwrap();
    let spec = |field: &str| {
        let mut key = RawDocumentBuf::new();
        key.append(bson::raw::CString::try_from(field).unwrap(), 1);
        rawdoc! { "key": key, "name": field }
    };
    let specs = FIELDS.iter().chain(&["late"]).map(|field| spec(field));
    let specs: Vec<RawDocumentBuf> = specs.collect();
    let specs: Vec<&RawDocument> = specs.iter().map(|one| &**one).collect();
    engine
        .create_indexes(&namespace(), &specs, &mut |_| ())
        .unwrap();
    engine
}

fn filter(random: &mut ChaCha8Rng) -> RawDocumentBuf {
    let mut filter = RawDocumentBuf::new();
    let number = random.random_range(2..=FIELDS.len());
    for field in FIELDS.choose_multiple(random, number) {
        let name = bson::raw::CString::try_from(*field).unwrap();
        let from = value(field, random);
        match random.random_range(0..3) {
            0 => filter.append(name, from),
            1 => filter.append(name, rawdoc! { "$gte": from }),
            _ => {
                let to = from + random.random_range(1..50);
                filter.append(name, rawdoc! { "$gte": from, "$lt": to });
            }
        }
    }
    filter
}

/// The entries of the index at the end of a plan, and its name.
fn entries(plan: &Document) -> (i64, String) {
    let mut stage = plan;
    while let Ok(input) = stage.get_document("inputStage") {
        stage = input;
    }
    let name = stage.get_str("indexName").unwrap().to_owned();
    (number(stage, "exactEntries"), name)
}

/// A number of `explain`, of either size.
fn number(shown: &Document, field: &str) -> i64 {
    let number = shown.get(field).unwrap();
    number
        .as_i64()
        .unwrap_or_else(|| number.as_i32().unwrap().into())
}

#[test]
fn the_index_with_the_fewest_entries_is_taken() {
    let seed = 23;
    println!("seed {seed}");
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let engine = engine(&mut random);
    let mut taken = std::collections::BTreeMap::<String, u32>::new();
    for _ in 0..FILTERS {
        let filter = filter(&mut random);
        let request = ExplainRequest::Find(FindRequest::new(&filter));
        let shown = engine
            .explain(&namespace(), &request, Verbosity::QueryPlanner)
            .unwrap();
        let shown = Document::try_from(&*shown).unwrap();
        let planner = shown.get_document("queryPlanner").unwrap();
        let (won, name) = entries(planner.get_document("winningPlan").unwrap());
        let rejected = planner.get_array("rejectedPlans").unwrap();
        assert!(!rejected.is_empty(), "{filter:?}");
        for plan in rejected {
            let (lost, other) = entries(plan.as_document().unwrap());
            assert!(won <= lost, "{name} has {won}, {other} {lost}: {filter:?}");
        }
        *taken.entry(name).or_default() += 1;
    }
    // Each is the best one for some.
    assert_eq!(taken.len(), FIELDS.len(), "{taken:?}");
}

/// Documents are walked for the first rows only where few do not match: all of these may come first.
#[test]
fn a_limit_is_not_met_by_a_walk_that_may_be_long() {
    let engine = engine(&mut ChaCha8Rng::seed_from_u64(23));
    let limit = 1_000;
    for (others, stage) in [
        (DOCUMENTS / 2, "FETCH"),
        (2 * limit, "FETCH"),
        (limit / 10, "COLLSCAN"),
    ] {
        let filter = rawdoc! { "late": { "$gte": others } };
        let request = FindRequest {
            limit: u64::try_from(limit).ok(),
            ..FindRequest::new(&filter)
        };
        let request = ExplainRequest::Find(request);
        let shown = engine
            .explain(&namespace(), &request, Verbosity::ExecutionStats)
            .unwrap();
        let shown = Document::try_from(&*shown).unwrap();
        let stats = shown.get_document("executionStats").unwrap();
        assert!(
            number(stats, "totalDocsExamined") <= i64::from(limit + limit / 10),
            "{others}: {stats:?}"
        );
        assert!(stats.to_string().contains(stage), "{others}: {stats:?}");
    }
}

/// The entries that a plan walks, over all branches of its unions.
fn all_entries(plan: &Document) -> i64 {
    if let Ok(input) = plan.get_document("inputStage") {
        return all_entries(input);
    }
    match plan.get_array("inputStages") {
        Ok(inputs) => inputs
            .iter()
            .map(|input| all_entries(input.as_document().unwrap()))
            .sum(),
        Err(_) => number(plan, "exactEntries"),
    }
}

fn planned(engine: &Engine, filter: &RawDocument) -> Document {
    let request = ExplainRequest::Find(FindRequest::new(filter));
    let shown = engine
        .explain(&namespace(), &request, Verbosity::QueryPlanner)
        .unwrap();
    let shown = Document::try_from(&*shown).unwrap();
    shown.get_document("queryPlanner").unwrap().clone()
}

fn or_of(branches: &[RawDocumentBuf]) -> RawDocumentBuf {
    let mut list = bson::RawArrayBuf::new();
    branches.iter().for_each(|branch| list.push(branch.clone()));
    rawdoc! { "$or": list }
}

#[test]
fn each_branch_of_an_or_has_the_index_it_has_alone() {
    let seed = 26;
    println!("seed {seed}");
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let engine = engine(&mut random);
    for _ in 0..FILTERS / 4 {
        let branches: Vec<RawDocumentBuf> = (0..random.random_range(2..5))
            .map(|_| filter(&mut random))
            .collect();
        let filter = or_of(&branches);
        let whole = planned(&engine, &filter);
        let winner = whole.get_document("winningPlan").unwrap();
        let alone = |branch: &RawDocumentBuf| {
            all_entries(
                planned(&engine, branch)
                    .get_document("winningPlan")
                    .unwrap(),
            )
        };
        let expected: i64 = branches.iter().map(alone).sum();
        assert_eq!(all_entries(winner), expected, "{filter:?}");
    }
}

/// Beside another condition with an index, or another `$or`, the fewest entries decide.
#[test]
fn an_or_competes_with_other_indexes_by_entries() {
    let seed = 27;
    println!("seed {seed}");
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let engine = engine(&mut random);
    let mut unions = 0;
    for _ in 0..FILTERS {
        let mut branches = || or_of(&[filter(&mut random), filter(&mut random)]);
        let mut parts = bson::RawArrayBuf::new();
        parts.push(branches());
        parts.push(branches());
        parts.push(rawdoc! { "many": { "$gte": random.random_range(0..DOCUMENTS) } });
        let filter = rawdoc! { "$and": parts };
        let planner = planned(&engine, &filter);
        let winner = planner.get_document("winningPlan").unwrap();
        let won = all_entries(winner);
        let rejected = planner.get_array("rejectedPlans").unwrap();
        assert_eq!(rejected.len(), 2, "{filter:?}");
        for plan in rejected {
            let lost = all_entries(plan.as_document().unwrap());
            assert!(won <= lost, "{won} to {lost}: {filter:?}");
        }
        unions += usize::from(winner.to_string().contains("\"OR\""));
    }
    assert!((1..FILTERS).contains(&unions), "{unions}");
}

/// The index made first has bounds for the first branch, and most of its entries do not match: the keys
/// that are read tell whether it was taken. Many branches are compared without reading any entry.
#[test]
fn an_or_reads_the_entries_of_its_best_indexes() {
    let engine = Engine::in_memory().unwrap();
    let documents: Vec<RawDocumentBuf> = (0..20_000)
        .map(|id| rawdoc! { "_id": id, "c": id % 1_000, "p": id / 20, "k": id })
        .collect();
    let documents: Vec<&RawDocument> = documents.iter().map(|one| &**one).collect();
    engine
        .insert(&namespace(), &documents, &InsertOptions::default())
        .unwrap();
    let first = rawdoc! { "key": { "p": 1, "k": 1 }, "name": "pk" };
    let second = rawdoc! { "key": { "c": 1, "p": 1, "k": 1 }, "name": "cpk" };
    engine
        .create_indexes(&namespace(), &[&first, &second], &mut |_| ())
        .unwrap();
    let two = [
        rawdoc! { "c": 500, "p": { "$gt": 500 } },
        rawdoc! { "c": { "$gt": 998 } },
    ];
    let many: Vec<RawDocumentBuf> = (0..100)
        .map(|c| rawdoc! { "c": c, "p": { "$gt": 500 } })
        .collect();
    for (branches, matching) in [(&two[..], 30), (&many, 980)] {
        let filter = or_of(branches);
        let request = FindRequest {
            limit: Some(1_000),
            ..FindRequest::new(&filter)
        };
        let request = ExplainRequest::Find(request);
        let shown = engine
            .explain(&namespace(), &request, Verbosity::ExecutionStats)
            .unwrap();
        let shown = Document::try_from(&*shown).unwrap();
        let stats = shown.get_document("executionStats").unwrap();
        assert_eq!(number(stats, "nReturned"), matching);
        let keys = number(stats, "totalKeysExamined");
        assert!(keys <= matching + 2, "{keys} of {matching}: {stats:?}");
    }
}

/// Branches whose indexes all give the order are merged: the first rows are had from the first entries.
#[test]
fn an_order_that_all_branches_give_is_merged() {
    let engine = Engine::in_memory().unwrap();
    let documents: Vec<RawDocumentBuf> = (0..20_000)
        .map(|id| rawdoc! { "_id": id, "c": id % 100, "d": id % 70, "t": (id * 7919) % 20_000, "tags": [id % 3, 5] })
        .collect();
    let documents: Vec<&RawDocument> = documents.iter().map(|one| &**one).collect();
    engine
        .insert(&namespace(), &documents, &InsertOptions::default())
        .unwrap();
    for index in [
        rawdoc! { "key": { "c": 1, "t": 1 }, "name": "ct" },
        rawdoc! { "key": { "d": 1, "t": -1 }, "name": "dt" },
        rawdoc! { "key": { "tags": 1, "t": 1 }, "name": "tagst" },
    ] {
        engine
            .create_indexes(&namespace(), &[&index], &mut |_| ())
            .unwrap();
    }
    let nested = or_of(&[rawdoc! { "c": 7 }, rawdoc! { "d": 8, "c": { "$lt": 90 } }]);
    for (branches, is_merged) in [
        (vec![rawdoc! { "c": 5 }, rawdoc! { "d": 6 }], true),
        // Every document has the tag, so most come up in both.
        (vec![rawdoc! { "c": 5 }, rawdoc! { "tags": 5 }], true),
        (vec![rawdoc! { "_id": 9 }, nested], true),
        // One index, several values.
        (
            vec![rawdoc! { "c": 5 }, rawdoc! { "c": { "$in": [6, 7, 8] } }],
            true,
        ),
        (
            vec![rawdoc! { "c": { "$gt": 97 } }, rawdoc! { "d": 6 }],
            false,
        ),
    ] {
        let filter = or_of(&branches);
        for direction in [1, -1] {
            let sort = rawdoc! { "t": direction };
            let request = FindRequest {
                sort: Some(&sort),
                limit: Some(20),
                ..FindRequest::new(&filter)
            };
            let request = ExplainRequest::Find(request);
            let shown = engine
                .explain(&namespace(), &request, Verbosity::ExecutionStats)
                .unwrap();
            let shown = Document::try_from(&*shown).unwrap();
            let stats = shown.get_document("executionStats").unwrap();
            assert_eq!(number(stats, "nReturned"), 20);
            assert_eq!(
                shown.to_string().contains("\"SORT_MERGE\""),
                is_merged,
                "{shown}"
            );
            let keys = number(stats, "totalKeysExamined");
            assert_eq!(keys <= 150, is_merged, "{keys}: {stats:?}");
        }
    }
}

/// Where every alternative begins with a literal, only strings that begin so are read.
#[test]
fn an_expression_of_alternatives_reads_a_range_for_each() {
    let engine = Engine::in_memory().unwrap();
    let documents: Vec<RawDocumentBuf> = (100..1_000)
        .map(|id| rawdoc! { "_id": id, "name": id.to_string() })
        .collect();
    let documents: Vec<&RawDocument> = documents.iter().map(|one| &**one).collect();
    engine
        .insert(&namespace(), &documents, &InsertOptions::default())
        .unwrap();
    let index = rawdoc! { "key": { "name": 1 }, "name": "name" };
    engine
        .create_indexes(&namespace(), &[&index], &mut |_| ())
        .unwrap();
    for (pattern, matching, entries) in [
        ("^123$|^456$", 2, 2),
        ("^(12|45)", 20, 20),
        ("^(?:12|45)6", 2, 20),
        ("^12|^(45|7)", 120, 120),
        ("^12|9$", 99, 900),
    ] {
        let filter = rawdoc! { "name": { "$regex": pattern } };
        let request = ExplainRequest::Find(FindRequest::new(&filter));
        let shown = engine
            .explain(&namespace(), &request, Verbosity::ExecutionStats)
            .unwrap();
        let shown = Document::try_from(&*shown).unwrap();
        let stats = shown.get_document("executionStats").unwrap();
        assert_eq!(number(stats, "nReturned"), matching, "{pattern}");
        assert_eq!(number(stats, "totalKeysExamined"), entries, "{pattern}");
    }
}
