//! Index definitions and keys against what a real mongod 6.0.5 answered.
//!
//! `golden/index_specs.jsonl`: a definition, and its listing or error.
//! `golden/index_conflicts.jsonl`: an existing and a requested index, and the outcome.
//! `golden/index_keys.jsonl`: definition and document, and its keys (`returnKey`) or error.
//! All in canonical extended JSON, one case a line.

#![allow(clippy::unwrap_used)]

use bson::{Bson, Document, RawDocumentBuf, doc};
use meridian_engine::index::{
    CollectionKeys, EntryLayout, Existing, IndexSpec, KeyGenerator, KeySink,
};
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
    assert_eq!(
        not_implemented, 14,
        "text, 2d, wildcard, collation and the like"
    );
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
                assert_eq!(outcome == Existing::Identical, identical, "{case}");
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
        .generate(&document, &mut together, &mut |_, met| {
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
