//! Every operator against the answers of a real mongod 6.0.5.
//!
//! `testdata/expressions_*.jsonl` hold, in extended JSON, one document and then one case a
//! line: an expression under `$project`, and the result, its absence, or the error.

#![allow(clippy::unwrap_used)]

use crate::aggregate::{Limits, Pipeline, run};
use crate::expression::Variables;
use bson::{Bson, Document, RawDocumentBuf, doc};

/// What mongod or we answer: a value, nothing, or code and message.
type Answer = Result<Option<Bson>, (i32, String)>;

fn ours(expression: &Bson, document: &RawDocumentBuf) -> Answer {
    let stage = doc! { "$project": { "_id": 0, "r": expression.clone() } };
    let stage = RawDocumentBuf::try_from(&stage).unwrap();
    let fail = |error: crate::error::Error| (error.code.number(), error.message);
    let pipeline = Pipeline::parse(&[&stage]).map_err(fail)?;
    let input = std::iter::once(Ok(document.clone()));
    let limits = Limits::new(false);
    let mut output = run(&pipeline.stages, input, Variables::default(), &limits).map_err(fail)?;
    let result = output.next().unwrap().map_err(fail)?;
    let mut result = Document::try_from(&*result).unwrap();
    Ok(result.remove("r"))
}

fn theirs(case: &Document) -> Answer {
    match case.get_i32("code") {
        Ok(code) => Err((code, case.get_str("message").unwrap().to_owned())),
        Err(_) => Ok(case.get("result").cloned()),
    }
}

fn parse(line: &str) -> Document {
    let json: serde_json::Value = serde_json::from_str(line).unwrap();
    match Bson::try_from(json).unwrap() {
        Bson::Document(document) => document,
        other => panic!("not a document: {other}"),
    }
}

/// Runs a table, in which at most the named expressions may answer otherwise.
fn check(table: &str, known_differences: &[&str]) {
    let mut lines = table.lines();
    let head = parse(lines.next().unwrap());
    let document = RawDocumentBuf::try_from(head.get_document("document").unwrap()).unwrap();
    let mut wrong = Vec::new();
    for line in lines {
        let case = parse(line);
        let expression = case.get("expression").unwrap();
        let (ours, theirs) = (ours(expression, &document), theirs(&case));
        // By their text, so that NaN equals NaN and 1 differs from 1.0.
        if format!("{ours:?}") != format!("{theirs:?}") {
            let shown = expression.to_string();
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

macro_rules! table {
    ($name:ident, $file:literal, $known:expr) => {
        #[test]
        fn $name() {
            check(include_str!(concat!("testdata/", $file)), &$known);
        }
    };
}

// Trigonometry of decimals is not implemented.
table!(
    arithmetic_is_mongods,
    "expressions_arithmetic.jsonl",
    [r#"{ "$sin": "$dec" }"#]
);
table!(
    logic_and_strings_are_mongods,
    "expressions_logic_and_strings.jsonl",
    []
);
table!(
    arrays_and_sets_are_mongods,
    "expressions_arrays_and_sets.jsonl",
    []
);
table!(
    objects_types_and_variables_are_mongods,
    "expressions_objects_types_variables.jsonl",
    []
);
// mongod reports a second error behind the first.
table!(
    dates_are_mongods,
    "expressions_dates.jsonl",
    [r#"{ "$dateFromString": { "dateString": "2017 60", "format": "%Y %Z" } }"#]
);
table!(
    date_arithmetic_is_mongods,
    "expressions_date_arithmetic.jsonl",
    []
);

/// Any other table: `MERIDIAN_CASES=FILE cargo test --release -p meridian-engine a_table -- --ignored`.
#[test]
#[ignore = "needs a file"]
fn a_table_from_elsewhere_is_mongods() {
    let file = std::env::var("MERIDIAN_CASES").expect("MERIDIAN_CASES names a file");
    check(&std::fs::read_to_string(file).unwrap(), &[]);
}
