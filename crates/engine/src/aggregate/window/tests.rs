//! Windows that slide beside a plain twin: a `$group` of the documents that the definition of each window names.

use crate::aggregate::{Limits, Pipeline, run};
use crate::expression::Variables;
use crate::sorter::SpillSpace;
use bson::{Bson, Document, RawDocumentBuf, doc};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

fn aggregated(stages: &[Document], documents: &[Document], limits: &Limits) -> Vec<Document> {
    let raw = |document: &Document| RawDocumentBuf::try_from(document).unwrap();
    let stages: Vec<RawDocumentBuf> = stages.iter().map(raw).collect();
    let stages: Vec<_> = stages.iter().map(|stage| &**stage).collect();
    let pipeline = Pipeline::parse(&stages).unwrap();
    let input = documents.iter().map(|document| Ok(raw(document)));
    let made = run(&pipeline.stages, input, Variables::default(), limits).unwrap();
    made.map(|document| Document::try_from(document.unwrap()).unwrap())
        .collect()
}

/// The ends of a window, both included: distances by position or by value.
#[derive(Clone, Copy)]
struct Ends {
    by_range: bool,
    lower: Option<i64>,
    upper: Option<i64>,
}

impl Ends {
    fn random(random: &mut StdRng) -> Self {
        let by_range = random.random_ratio(1, 2);
        let mut end = || {
            let distance = random.random_range(-6..7_i64);
            (random.random_ratio(4, 5)).then_some(distance)
        };
        let (one, other) = (end(), end());
        let (lower, upper) = match (one, other) {
            (Some(one), Some(other)) => (Some(one.min(other)), Some(one.max(other))),
            ends => ends,
        };
        Self {
            by_range,
            lower,
            upper,
        }
    }

    fn specification(self) -> Document {
        let end = |end: Option<i64>| end.map_or(Bson::from("unbounded"), Bson::from);
        let name = if self.by_range { "range" } else { "documents" };
        doc! { name: [end(self.lower), end(self.upper)] }
    }

    fn holds(self, distance: i64) -> bool {
        self.lower.is_none_or(|lower| lower <= distance)
            && self.upper.is_none_or(|upper| distance <= upper)
    }
}

/// One value of a function over documents, as `$group` finds it.
fn twin(name: &str, argument: &Bson, members: &[Document], limits: &Limits) -> Bson {
    let group = doc! { "$group": { "_id": null, "x": { name: argument.clone() } } };
    let found = aggregated(&[group], members, limits);
    match (found.first(), name) {
        (Some(found), _) => found.get("x").cloned().unwrap_or(Bson::Null),
        (None, "$sum" | "$count") => Bson::Int32(0),
        (None, "$push" | "$addToSet" | "$firstN" | "$lastN" | "$minN" | "$maxN" | "$topN") => {
            Bson::Array(Vec::new())
        }
        (None, _) => Bson::Null,
    }
}

/// Whether values are the same but for the rounding of doubles, which depends on what was in a window before.
fn agree(name: &str, found: &Bson, expected: &Bson) -> bool {
    let number = |value: &Bson| match value {
        Bson::Int32(value) => Some(f64::from(*value)),
        Bson::Int64(value) => Some(*value as f64),
        Bson::Double(value) => Some(*value),
        _ => None,
    };
    match (found, expected) {
        (Bson::Array(found), Bson::Array(expected)) if name == "$addToSet" => {
            let sorted = |items: &[Bson]| {
                let mut shown: Vec<String> = items.iter().map(|item| format!("{item:?}")).collect();
                shown.sort();
                shown
            };
            sorted(found) == sorted(expected)
        }
        _ => match (number(found), number(expected)) {
            (Some(found), Some(expected)) => {
                (found - expected).abs() <= 1e-6 * (1.0 + expected.abs())
            }
            _ => found == expected,
        },
    }
}

#[test]
fn windows_that_slide_are_the_groups_of_their_documents() {
    let seed = 20_261_127;
    println!("seed {seed}");
    let mut random = StdRng::seed_from_u64(seed);
    let limits = Limits::new(false);
    let several = Bson::from(doc! { "n": 3, "input": "$v" });
    let ranked = doc! { "sortBy": { "w": 1, "_id": 1 }, "output": "$v" };
    let mut ranked_several = ranked.clone();
    ranked_several.insert("n", 2);
    let mut functions: Vec<(&str, Bson)> = [
        "$sum",
        "$avg",
        "$min",
        "$max",
        "$push",
        "$addToSet",
        "$stdDevPop",
        "$first",
        "$last",
    ]
    .map(|name| (name, Bson::from("$v")))
    .to_vec();
    functions.extend(["$firstN", "$lastN", "$minN", "$maxN"].map(|name| (name, several.clone())));
    functions.extend(["$top", "$bottom"].map(|name| (name, Bson::from(ranked.clone()))));
    functions.extend([("$topN", ranked_several.into()), ("$count", doc! {}.into())]);
    for case in 0..300 {
        let (name, argument) = &functions[case % functions.len()];
        let ends = Ends::random(&mut random);
        let documents: Vec<Document> = (0..random.random_range(0..40))
            .map(|id| {
                // Large values come and go, so that what is left of a sum of squares is little.
                let large = if random.random_ratio(1, 8) { 1_000_000 } else { 1 };
                let value = random.random_range(-9..10) * large;
                let part = random.random_range(0..2);
                doc! { "_id": id, "p": part, "at": random.random_range(0..25), "w": random.random_range(0..5), "v": value }
            })
            .collect();
        let order = match ends.by_range {
            true => doc! { "at": 1 },
            false => doc! { "at": 1, "_id": 1 },
        };
        let mut function = doc! { *name: argument.clone() };
        function.insert("window", ends.specification());
        let mut in_order = documents.clone();
        in_order.sort_by_key(|one| {
            let field = |name: &str| one.get_i32(name).unwrap();
            (field("p"), field("at"), field("_id"))
        });
        let stage = doc! { "$setWindowFields": { "partitionBy": "$p", "sortBy": order, "output": { "x": function } } };
        let found = aggregated(&[stage], &in_order, &limits);
        assert_eq!(found.len(), documents.len(), "case {case}");
        for (place, (found, document)) in found.iter().zip(&in_order).enumerate() {
            let distance = |other: usize| match ends.by_range {
                true => {
                    let at = |one: &Document| i64::from(one.get_i32("at").unwrap());
                    at(&in_order[other]) - at(document)
                }
                false => other as i64 - place as i64,
            };
            let is_member = |other: &usize| {
                in_order[*other].get("p") == document.get("p") && ends.holds(distance(*other))
            };
            let members = (0..in_order.len()).filter(is_member);
            let members: Vec<Document> = members.map(|other| in_order[other].clone()).collect();
            let expected = twin(name, argument, &members, &limits);
            let value = found.get("x").unwrap_or(&Bson::Null);
            assert!(
                agree(name, value, &expected),
                "case {case}: {name} {} of document {place}: {value:?}, not {expected:?} of {members:?}",
                ends.specification()
            );
        }
    }
}

/// The same whether documents wait in memory or on disk, whether values are appended or put into a tree of paths, and
/// where partitions are many or one.
#[test]
fn documents_that_wait_on_disk_come_out_the_same() {
    let documents: Vec<Document> = (0..3000)
        .map(|id| doc! { "_id": id, "p": id / 700, "v": id * 37 % 101, "fill": "x".repeat(100) })
        .collect();
    let little = Limits::new(true)
        .with_space(SpillSpace::in_memory())
        .with_memory(150_000);
    for partition in [Bson::Null, "$p".into(), "$v".into()] {
        for window in [
            doc! {},
            doc! { "documents": ["unbounded", "current"] },
            doc! { "documents": [-20, 20] },
        ] {
            let stage = |path: &str| {
                let function = doc! { "$sum": "$v", "window": window.clone() };
                doc! { "$setWindowFields": {
                    "partitionBy": partition.clone(), "sortBy": { "_id": 1 }, "output": { path: function },
                } }
            };
            let mut in_order = documents.clone();
            if partition == "$v".into() {
                in_order
                    .sort_by_key(|one| (one.get_i32("v").unwrap(), one.get_i32("_id").unwrap()));
            }
            let held = aggregated(&[stage("x")], &in_order, &Limits::new(false));
            let spilled = aggregated(&[stage("x")], &in_order, &little);
            assert_eq!(held, spilled);
            let nested = [
                stage("o.x"),
                doc! { "$set": { "x": "$o.x" } },
                doc! { "$unset": "o" },
            ];
            assert_eq!(held, aggregated(&nested, &in_order, &little));
        }
    }
}

#[test]
fn what_functions_keep_is_bounded() {
    let documents: Vec<Document> = (0..3000)
        .map(|id| doc! { "_id": id, "v": "x".repeat(100) })
        .collect();
    let limits = Limits::new(true)
        .with_space(SpillSpace::in_memory())
        .with_memory(150_000);
    let raw = |document: &Document| RawDocumentBuf::try_from(document).unwrap();
    for function in [
        doc! { "$push": "$v" },
        doc! { "$push": "$v", "window": { "documents": ["current", "unbounded"] } },
        doc! { "$max": "$v", "window": { "documents": [-2000, 0] } },
        doc! { "$shift": { "output": "$v", "by": 2500 } },
    ] {
        let stage = raw(
            &doc! { "$setWindowFields": { "sortBy": { "_id": 1 }, "output": { "x": function.clone() } } },
        );
        let pipeline = Pipeline::parse(&[&stage]).unwrap();
        let input = documents.iter().map(|document| Ok(raw(document)));
        let failure = run(&pipeline.stages, input, Variables::default(), &limits)
            .unwrap()
            .find_map(Result::err)
            .unwrap_or_else(|| panic!("{function} keeps more than it may"));
        assert!(
            failure
                .message
                .contains("Exceeded memory limit in DocumentSourceSetWindowFields"),
            "{}",
            failure.message
        );
    }
    // What needs no more than its last values keeps no more of a partition.
    for function in [
        doc! { "$covariancePop": ["$_id", "$w"] },
        doc! { "$integral": { "input": "$w" } },
        doc! { "$derivative": { "input": "$w" }, "window": { "documents": ["unbounded", "current"] } },
        doc! { "$stdDevSamp": "$w", "window": { "documents": ["unbounded", "unbounded"] } },
        doc! { "$sum": "$w", "window": { "documents": ["unbounded", "current"] } },
        doc! { "$last": "$v", "window": { "documents": ["unbounded", "current"] } },
        doc! { "$expMovingAvg": { "input": "$w", "N": 3 } },
        doc! { "$locf": "$v" },
        doc! { "$rank": {} },
    ] {
        let stage = doc! { "$setWindowFields": { "sortBy": { "_id": 1 }, "output": { "x": function.clone() } } };
        let limits = Limits::new(true)
            .with_space(SpillSpace::in_memory())
            .with_memory(20_000);
        let set = doc! { "$set": { "w": { "$mod": ["$_id", 7] } } };
        let found = aggregated(&[set, stage], &documents, &limits);
        assert_eq!(found.len(), documents.len(), "{function}");
    }
}
