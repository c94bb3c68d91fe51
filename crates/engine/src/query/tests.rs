//! Filters, projections, sorts and validators against answers of mongod 6.0.5.
//!
//! `testdata/*.jsonl` hold, in canonical extended JSON, the documents and then one case a line
//! with what mongod answered. Below them stand the cases that are ours: what is refused by name.

use super::*;
use crate::error::{Code, Error};
use bson::raw::RawBsonRef;
use bson::{Bson, Document, RawBson, RawDocumentBuf};
use meridian_value::Collation;
use serde_json::Value;

/// Canonical extended JSON to BSON. The crate's own conversion would read the query operators
/// `$regex` and `$type` as extended JSON, too.
fn bson(value: &Value) -> Bson {
    match value {
        Value::Object(fields) => match fields.iter().next() {
            Some((name, inner)) if fields.len() == 1 => {
                wrapped(name, inner).unwrap_or_else(|| Bson::Document(document(value)))
            }
            _ => Bson::Document(document(value)),
        },
        Value::Array(items) => Bson::Array(items.iter().map(bson).collect()),
        Value::String(text) => Bson::String(text.clone()),
        Value::Bool(flag) => Bson::Boolean(*flag),
        Value::Null => Bson::Null,
        Value::Number(number) => panic!("canonical extended JSON has no bare number: {number}"),
    }
}

fn wrapped(name: &str, inner: &Value) -> Option<Bson> {
    const WRAPPERS: [&str; 13] = [
        "$numberInt",
        "$numberLong",
        "$numberDouble",
        "$numberDecimal",
        "$oid",
        "$date",
        "$binary",
        "$regularExpression",
        "$timestamp",
        "$minKey",
        "$maxKey",
        "$code",
        "$undefined",
    ];
    if !WRAPPERS.contains(&name) {
        return None;
    }
    Bson::try_from(serde_json::json!({ name: inner })).ok()
}

fn document(value: &Value) -> Document {
    let fields = value.as_object().expect("a document");
    fields
        .iter()
        .map(|(name, value)| (name.clone(), bson(value)))
        .collect()
}

fn raw(value: &Value) -> RawDocumentBuf {
    RawDocumentBuf::try_from(&document(value)).unwrap()
}

fn lines(text: &str) -> impl Iterator<Item = Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap())
}

/// Finds as a collection scan does: filter, order, project.
fn find(case: &Value, documents: &[RawDocumentBuf]) -> Result<Vec<RawDocumentBuf>, Error> {
    let filter = Filter::parse(&raw(&case["filter"]))?;
    let projection = case.get("projection").map(|projection| {
        Ok::<_, Error>(Projection::parse(&raw(projection), Some(&filter))?.located_by(&filter))
    });
    let projection = projection.transpose()?;
    let sort = case
        .get("sort")
        .map(|sort| Sort::parse(&raw(sort)))
        .transpose()?;
    let mut found = Vec::new();
    for document in documents {
        if !filter.matches(document)? {
            continue;
        }
        let key = sort.as_ref().map(|sort| sort.key(document)).transpose()?;
        let row = match &projection {
            Some(projection) => projection.apply(document, projection.array_position(document)?)?,
            None => document.clone(),
        };
        found.push((key, row));
    }
    found.sort_by(|a, b| a.0.cmp(&b.0));
    Ok(found.into_iter().map(|(_, row)| row).collect())
}

/// What the engine puts before errors that running a plan meets.
const RUNNING: &str = "Executor error during find command :: caused by :: ";

fn check_finds(text: &str) {
    let mut lines = lines(text);
    let first = lines.next().expect("the first line holds the documents");
    let documents: Vec<RawDocumentBuf> = first["documents"]
        .as_array()
        .unwrap()
        .iter()
        .map(raw)
        .collect();
    for case in lines {
        match (find(&case, &documents), case.get("code")) {
            (Err(error), Some(code)) => {
                assert_eq!(Bson::Int32(error.code.number()), bson(code), "{case}");
                let message = case["message"].as_str().unwrap();
                assert_eq!(error.message, message.trim_start_matches(RUNNING), "{case}");
            }
            (Ok(rows), None) => check_rows(&case, &rows),
            (answer, _) => panic!("{case}: {answer:?}"),
        }
    }
}

fn check_rows(case: &Value, rows: &[RawDocumentBuf]) {
    if let Some(ids) = case.get("ids") {
        let found: Vec<Bson> = rows
            .iter()
            .map(|row| Bson::try_from(row.get("_id").unwrap().unwrap()).unwrap())
            .collect();
        // NaN differs from itself, so that texts are compared.
        assert_eq!(
            format!("{:?}", Bson::Array(found)),
            format!("{:?}", bson(ids)),
            "{case}"
        );
        return;
    }
    let wanted: Vec<RawDocumentBuf> = case["result"].as_array().unwrap().iter().map(raw).collect();
    assert_eq!(rows, wanted, "{case}");
}

#[test]
fn every_operator_answers_as_mongod() {
    check_finds(include_str!("testdata/filters_operators.jsonl"));
}

#[test]
fn random_filters_answer_as_mongod() {
    check_finds(include_str!("testdata/filters_random.jsonl"));
}

#[test]
fn projections_and_sorts_answer_as_mongod() {
    check_finds(include_str!("testdata/projections_and_sorts.jsonl"));
}

#[test]
fn random_projections_and_sorts_answer_as_mongod() {
    check_finds(include_str!("testdata/projections_and_sorts_random.jsonl"));
}

fn check_validators(text: &str) {
    for case in lines(text) {
        let validator = raw(&case["validator"]);
        let filter = match Filter::parse(&validator) {
            Ok(filter) => filter,
            Err(error) => {
                let code = case
                    .get("code")
                    .unwrap_or_else(|| panic!("{case}: {error}"));
                assert_eq!(Bson::Int32(error.code.number()), bson(code), "{case}");
                assert_eq!(Some(&*error.message), case["message"].as_str(), "{case}");
                continue;
            }
        };
        assert!(case.get("code").is_none(), "{case}");
        let document = raw(&case["document"]);
        let is_valid = filter.matches(&document).unwrap_or(false);
        assert_eq!(is_valid, case.get("report").is_none(), "{case}");
        if let Some(report) = case.get("report") {
            let id = document.get("_id").unwrap().unwrap();
            let found = validation_failure(&validator, &filter, &document, id, &Collation::SIMPLE);
            assert_eq!(found, raw(report), "{case}");
        }
    }
}

#[test]
fn validators_fail_as_in_mongod() {
    check_validators(include_str!("testdata/validators.jsonl"));
}

#[test]
fn random_schemas_fail_as_in_mongod() {
    check_validators(include_str!("testdata/validators_random.jsonl"));
}

#[test]
fn what_is_not_implemented_is_named() {
    for (filter, name) in [
        (
            bson::rawdoc! { "$jsonSchema": { "encrypt": {} } },
            "encrypt",
        ),
        (
            bson::rawdoc! { "$jsonSchema": { "encryptMetadata": {} } },
            "encryptMetadata",
        ),
    ] {
        let error = Filter::parse(&filter).unwrap_err();
        assert_eq!(error.code, Code::NotImplemented, "{filter:?}");
        assert!(error.message.contains(name), "{}", error.message);
    }
}

#[test]
fn a_filter_parses_from_its_own_description() {
    let text = include_str!("testdata/filters_random.jsonl");
    for case in lines(text).skip(1) {
        let Ok(filter) = Filter::parse(&raw(&case["filter"])) else {
            continue;
        };
        let described = filter.to_document();
        let again = Filter::parse(&described).unwrap_or_else(|error| panic!("{case}: {error}"));
        assert_eq!(again.to_document(), described, "{case}");
    }
}

#[test]
fn the_table_finds_required_fields_in_any_order() {
    let names: Vec<String> = (0..70).map(|number| format!("field{number}")).collect();
    let required: RawBson =
        RawBson::Array(names.iter().map(|name| RawBson::from(&**name)).collect());
    let mut schema = RawDocumentBuf::new();
    append(&mut schema, "required", required);
    let schema = Schema::parse(&schema).unwrap();
    let mut whole = RawDocumentBuf::new();
    for name in names.iter().rev() {
        append(&mut whole, name, 1);
    }
    assert!(schema.matches(&whole));
    let mut partial = RawDocumentBuf::new();
    for name in names.iter().skip(1) {
        append(&mut partial, name, RawBsonRef::Null);
    }
    assert!(!schema.matches(&partial));
}
