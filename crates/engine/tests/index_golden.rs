//! Index definitions and keys against what a real mongod 6.0.5 answered.
//!
//! `golden/index_specs.jsonl`: a definition, and its listing or error.
//! `golden/index_conflicts.jsonl`: an existing and a requested index, and the outcome.
//! `golden/index_keys.jsonl`: definition and document, and its keys (`returnKey`) or error.
//! `golden/index_bounds.jsonl`: index and filter, and the `indexBounds` of `explain`.
//! All in canonical extended JSON, one case a line.

#![allow(clippy::unwrap_used)]

use bson::{Bson, Document, RawDocumentBuf, doc};
use meridian_engine::index::bounds::{FieldBounds, FieldContext, Tightness};
use meridian_engine::index::{
    CollectionKeys, EntryLayout, ExistingIndex, IndexField, IndexSet, IndexSpec, KeyGenerator,
    KeySink,
};
use meridian_engine::query::Filter;
use std::sync::Arc;

fn cases(text: &str) -> impl Iterator<Item = Document> + '_ {
    text.lines().map(|line| {
        let json: serde_json::Value = serde_json::from_str(line).unwrap();
        match Bson::try_from(json).unwrap() {
            Bson::Document(case) => case,
            other => panic!("a case is a document, not {other}"),
        }
    })
}

fn raw(document: &Document) -> RawDocumentBuf {
    RawDocumentBuf::try_from(document).unwrap()
}

/// What mongod has and Meridian refuses by name.
const NOT_IMPLEMENTED: i32 = 238;

#[test]
fn definitions_are_accepted_listed_and_refused_as_by_mongod() {
    let (mut failures, mut not_implemented) = (Vec::new(), 0);
    for case in cases(include_str!("golden/index_specs.jsonl")) {
        let spec = case.get_document("spec").unwrap();
        let ours = match IndexSpec::parse(&raw(spec)) {
            Ok(parsed) if parsed.is_id_index() => doc! {"listed": Bson::Null},
            Ok(parsed) => doc! {"listed": Document::try_from(parsed.listing()).unwrap()},
            Err(error) if error.code.number() == NOT_IMPLEMENTED => {
                not_implemented += 1;
                continue;
            }
            Err(error) => doc! {"error": {"code": error.code.number(), "message": error.message}},
        };
        let mut expected = case.clone();
        expected.remove("spec");
        if ours.to_string() != expected.to_string() {
            failures.push(format!("{spec}\n  mongod {expected}\n  ours   {ours}"));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    assert_eq!(not_implemented, 1, "old versions");
}

#[test]
fn conflicts_are_found_as_by_mongod() {
    for case in cases(include_str!("golden/index_conflicts.jsonl")) {
        let parse = |name| IndexSpec::parse(&raw(case.get_document(name).unwrap()));
        let (Ok(existing), Ok(requested)) = (parse("existing"), parse("requested")) else {
            continue;
        };
        match (
            requested.compare_with([&existing]),
            case.get_document("error"),
        ) {
            (Ok(outcome), Err(_)) => {
                let identical = case.get_bool("identical").unwrap();
                assert_eq!(outcome == ExistingIndex::Identical, identical, "{case}");
            }
            (Err(error), Ok(expected)) => {
                assert_eq!(
                    error.code.number(),
                    expected.get_i32("code").unwrap(),
                    "{case}"
                );
                assert_eq!(error.message, expected.get_str("message").unwrap());
            }
            (ours, _) => panic!("{case}: {ours:?}"),
        }
    }
}

/// The keys of a document, as text, sorted; or the error.
fn keys(spec: &IndexSpec, document: &Document) -> Result<(Vec<String>, bool), (i32, String)> {
    let (generator, layout) = (KeyGenerator::new(spec).unwrap(), EntryLayout::new(spec));
    let (mut sink, mut together) = (KeySink::new(), KeySink::new());
    let document = raw(document);
    let generated = generator.generate(&document, &mut sink);
    let multikey = generated.map_err(|error| (error.code.number(), error.message))?;
    let collection = CollectionKeys::new([Arc::new(generator)]);
    collection
        .generate(&document, IndexSet::ALL, &mut together, &mut |_, met| {
            assert_eq!(met, multikey)
        })
        .unwrap();
    assert!(sink.iter().eq(together.iter()));
    assert!(sink.iter().is_sorted_by(|a, b| a.0 < b.0));
    let mut keys: Vec<String> = sink
        .iter()
        .map(|(fields, value)| {
            assert_eq!(layout.fields_length(fields), Some(fields.len()));
            let key = layout.key_document(fields, value).unwrap();
            Document::try_from(&*key).unwrap().to_string()
        })
        .collect();
    keys.sort();
    Ok((keys, multikey.is_multikey()))
}

#[test]
fn documents_have_the_keys_that_mongod_gives_them() {
    let mut failures = Vec::new();
    let mut count = 0;
    for case in cases(include_str!("golden/index_keys.jsonl")) {
        let mut definition = doc! {"key": case.get_document("key").unwrap(), "name": "i"};
        definition.extend(case.get_document("options").unwrap().clone());
        let spec = IndexSpec::parse(&raw(&definition)).unwrap();
        let ours = keys(&spec, case.get_document("document").unwrap());
        let agrees = match (&ours, case.get_array("keys")) {
            (Ok((keys, multikey)), Ok(expected)) => {
                let mut expected: Vec<String> = expected.iter().map(Bson::to_string).collect();
                expected.sort();
                let same_flag = case
                    .get_bool("multikey")
                    .is_ok_and(|flag| flag == *multikey);
                *keys == expected && (same_flag || expected.is_empty())
            }
            (Err((code, message)), Err(_)) => {
                let expected = case.get_document("error").unwrap();
                expected == &doc! {"code": *code, "message": message.as_str()}
            }
            _ => false,
        };
        count += 1;
        if !agrees {
            failures.push(format!("{case}\n   ours {ours:?}"));
        }
    }
    assert!(
        failures.is_empty(),
        "{} of {count} differ\n{}",
        failures.len(),
        failures.join("\n")
    );
}

/// The bounds of a filter on `a`, as the planner would combine them.
fn bounds(filter: &Filter, context: FieldContext) -> Option<FieldBounds> {
    let all = filter.conjuncts().iter().map(|conjunct| match conjunct {
        Filter::Field { predicate, .. } => FieldBounds::from_predicate(predicate, context),
        Filter::Or(branches) => {
            let branches: Option<Vec<_>> = branches
                .iter()
                .map(|branch| bounds(branch, context))
                .collect();
            branches?.into_iter().reduce(FieldBounds::union)
        }
        _ => None,
    });
    let all: Vec<FieldBounds> = all.collect::<Option<_>>()?;
    // On a multikey field, mongod picks one predicate by rules that are the planner's.
    if context.multikey && all.len() > 1 {
        return None;
    }
    Some(
        all.iter()
            .fold(FieldBounds::all(), |all, next| all.intersect(next)),
    )
}

/// Where our bounds are others, and as right: prefixes of expressions that are not looked for,
/// arrays under a hashed index, which has none, null under a sparse one, and double negations.
fn differs_on_purpose(case: &Document) -> bool {
    let filter = case.get_document("filter").unwrap().to_string();
    let sparse = !case.get_document("options").unwrap().is_empty();
    let hashed = matches!(
        case.get_document("index").unwrap().get("a"),
        Some(Bson::String(_))
    );
    [r"^abc.*", r"\Aabc", r"^\Qa.b", "^ab{2}", "\"x\""]
        .iter()
        .any(|part| filter.contains("$regex") && filter.contains(part))
        || (hashed && filter.contains('['))
        || filter.contains(r#""$not": { "$ne""#)
        // Parsed as `$exists: true`, which a sparse index proves.
        || (sparse && filter.contains(r#""$not": { "$exists": false"#))
        || (sparse && (filter.contains("te\": null") || filter.contains("$elemMatch")))
}

#[test]
fn bounds_read_as_in_mongods_explain() {
    let (mut failures, mut compared) = (Vec::new(), 0);
    for case in cases(include_str!("golden/index_bounds.jsonl")) {
        if differs_on_purpose(&case) {
            continue;
        }
        let (Ok(expected), Ok(filter)) = (
            case.get_array("bounds"),
            Filter::parse(&raw(case.get_document("filter").unwrap())),
        ) else {
            continue;
        };
        let field = match case.get_document("index").unwrap().get("a").unwrap() {
            Bson::String(_) => IndexField::Hashed,
            Bson::Int32(1) => IndexField::Ascending,
            _ => IndexField::Descending,
        };
        let context = FieldContext {
            collation: &meridian_value::Collation::SIMPLE,
            field,
            multikey: case.get_bool("multikey").unwrap(),
            sparse: !case.get_document("options").unwrap().is_empty(),
        };
        let Some(ours) = bounds(&filter, context) else {
            continue;
        };
        compared += 1;
        let texts = ours.texts(field == IndexField::Descending);
        let expected: Vec<&str> = expected.iter().map(|text| text.as_str().unwrap()).collect();
        let tightness = match (case.get_bool("fetchFilter"), case.get_bool("ixFilter")) {
            (Ok(true), _) => Tightness::Fetch,
            (_, Ok(true)) => Tightness::Covered,
            _ => Tightness::Exact,
        };
        if texts != expected || ours.tightness() != tightness {
            failures.push(format!("{case}\n   ours {texts:?} {:?}", ours.tightness()));
        }
    }
    assert!(
        failures.is_empty(),
        "{} of {compared}\n{}",
        failures.len(),
        failures.join("\n")
    );
    assert!(compared > 700, "{compared}");
}

/// How long the keys of an event of the weather evaluation take, in its five indexes:
/// `cargo test --release --test index_golden -- --ignored --nocapture`.
#[test]
#[ignore = "prints a time"]
fn time_of_a_weather_event() {
    let date = |millis| Bson::DateTime(bson::DateTime::from_millis(millis));
    let event = raw(&doc! {
        "_id": bson::oid::ObjectId::new(), "indexnum": 123_456, "startdatetime": date(1_512_086_400_000),
        "enddatetime": date(1_512_864_000_000),
        "location": {"type": "Point", "coordinates": [2.551103, 45.881680]},
        "name": "Large Wildfire Moving Rapidly West", "lastupdatedatetime": date(1_512_086_500_000),
        "timezoneoffset": 60, "permitid": 77, "reading": 12.25,
    });
    let keys = [
        "startdatetime",
        "enddatetime",
        "lastupdatedatetime",
        "indexnum",
    ];
    let mut generators: Vec<Arc<KeyGenerator>> = Vec::new();
    for key in keys
        .iter()
        .map(|name| doc! {*name: 1})
        .chain([doc! {"location": "2dsphere"}])
    {
        let spec = IndexSpec::parse(&raw(&doc! {"key": key, "name": "i"})).unwrap();
        generators.push(Arc::new(KeyGenerator::new(&spec).unwrap()));
    }
    let one_by_one = |sink: &mut KeySink| {
        generators.iter().for_each(|generator| {
            generator.generate(&event, sink).unwrap();
        });
    };
    let compiled = CollectionKeys::new(generators.iter().cloned());
    let together = |sink: &mut KeySink| {
        compiled
            .generate(&event, IndexSet::ALL, sink, &mut |_, _| {})
            .unwrap()
    };
    let mut sink = KeySink::new();
    for (name, generate) in [
        ("one by one", &one_by_one as &dyn Fn(&mut KeySink)),
        ("together", &together),
    ] {
        const ROUNDS: u32 = 300_000;
        let start = std::time::Instant::now();
        for _ in 0..ROUNDS {
            sink.clear();
            generate(&mut sink);
        }
        println!(
            "{name}: {:?} a document, {} entries",
            start.elapsed() / ROUNDS,
            sink.len()
        );
    }
}

/// mongod has another engine, so its place in the listing is all that can be compared: behind
/// `expireAfterSeconds`, before `default_language`.
#[test]
fn storage_engine_is_listed_where_mongod_lists_it() {
    let engine = doc! {"meridian": {"compression": "zstd", "compressionLevel": 9}};
    let spec = doc! {
        "key": {"a": "2dsphere"}, "name": "i", "storageEngine": engine.clone(), "default_language": "de",
        "expireAfterSeconds": 5,
    };
    let listed = doc! {
        "v": 2, "key": {"a": "2dsphere"}, "name": "i", "expireAfterSeconds": 5, "storageEngine": engine,
        "default_language": "de", "2dsphereIndexVersion": 3,
    };
    let parsed = IndexSpec::parse(&raw(&spec)).unwrap();
    let ours = Document::try_from(parsed.listing()).unwrap();
    assert_eq!(ours.to_string(), listed.to_string());
    let again = IndexSpec::parse(parsed.listing()).unwrap();
    assert_eq!(again.compression, parsed.compression);
}
