//! A thousand updates with what a real mongod 6.0.5 answered to them.
//!
//! `answers.jsonl` holds one update a line, in extended JSON, with its answer; `record.py`
//! writes the answers. Here the same updates are applied and must give the same documents, the
//! same counts, the same codes and messages.

use super::{Applied, ApplyMode, Update, check_upsert_filter, upsert_document};
use crate::error::{Error, Result};
use crate::expression::VariableScope;
use crate::query::Filter;
use bson::raw::{RawBson, RawDocument, RawDocumentBuf};
use bson::{Bson, Document};

/// What differs from mongod on purpose or waits for another module, by a part of the line.
const KNOWN_GAPS: &[(&str, &str)] = &[
    (
        "$lookup",
        "mongod parses stages that an update cannot have anyway before it refuses them",
    ),
    (
        "[{\"$replaceWith\": {\"$numberInt\": \"5\"}}]",
        "the message shows no input document",
    ),
];

#[derive(Debug, PartialEq)]
enum OperatorAnswer {
    Done {
        matched: i32,
        modified: i32,
        document: Option<Document>,
    },
    Failed {
        code: i32,
        message: String,
    },
}

#[test]
fn every_update_answers_as_mongod_does() {
    let mut differences = Vec::new();
    for line in include_str!("answers.jsonl").lines() {
        let case = parse_line(line);
        let expected = expected(case.get_document("answer").unwrap());
        let answered = match answer(&case) {
            Ok(answer) => answer,
            Err(Error { code, message, .. }) => OperatorAnswer::Failed {
                code: code.number(),
                message,
            },
        };
        let is_known = KNOWN_GAPS.iter().any(|(part, _)| line.contains(part));
        if is_same(&expected, &answered) == is_known {
            differences.push(format!(
                "{line}\n  mongod:   {expected:?}\n  meridian: {answered:?}"
            ));
        }
    }
    let count = differences.len();
    assert!(
        count == 0,
        "{count} differences:\n{}",
        differences.join("\n")
    );
}

fn parse_line(line: &str) -> Document {
    let json: serde_json::Value = serde_json::from_str(line).unwrap();
    match Bson::try_from(json).unwrap() {
        Bson::Document(document) => document,
        other => panic!("a line is a document, not {other}"),
    }
}

fn expected(answer: &Document) -> OperatorAnswer {
    match answer.get_i32("code") {
        Ok(code) => OperatorAnswer::Failed {
            code,
            message: answer.get_str("message").unwrap().into(),
        },
        Err(_) => OperatorAnswer::Done {
            matched: answer.get_i32("matched").unwrap(),
            modified: answer.get_i32("modified").unwrap(),
            document: answer.get_document("document").ok().cloned(),
        },
    }
}

fn answer(case: &Document) -> Result<OperatorAnswer> {
    let raw = |name: &str| {
        case.get_document(name)
            .ok()
            .map(|document| RawDocumentBuf::try_from(document).unwrap())
    };
    let filters: Vec<RawDocumentBuf> =
        case.get_array("arrayFilters")
            .map_or(Vec::new(), |filters| {
                filters
                    .iter()
                    .map(|filter| RawDocumentBuf::try_from(filter.as_document().unwrap()).unwrap())
                    .collect()
            });
    let filters: Vec<&RawDocument> = filters.iter().map(|filter| &**filter).collect();
    let update = RawBson::try_from(case.get("update").unwrap().clone()).unwrap();
    let update = Update::parse(
        update.as_raw_bson_ref(),
        &filters,
        &VariableScope::default(),
    )?;
    if case.get_bool("multi").unwrap_or(false) {
        update.check_multi()?;
    }
    let filter = Filter::parse(&raw("query").unwrap_or_default())?;
    let is_upsert = case.get_bool("upsert").unwrap_or(false);
    if is_upsert {
        check_upsert_filter(&filter)?;
    }
    let document = raw("document");
    let done = |matched, modified, document: &RawDocument| {
        let document = Some(Document::try_from(document).unwrap());
        Ok(OperatorAnswer::Done {
            matched,
            modified,
            document,
        })
    };
    if let Some(document) = &document
        && filter.matches(document)?
    {
        let position = filter.array_position(document)?;
        return match update.apply(document, position, ApplyMode::Update)? {
            Applied::Unchanged => done(1, 0, document),
            Applied::Changed(new) => done(1, 1, &new),
        };
    }
    if is_upsert {
        return done(0, 0, &upsert_document(&filter, &update)?);
    }
    Ok(OperatorAnswer::Done {
        matched: 0,
        modified: 0,
        document: document.map(|document| Document::try_from(&document).unwrap()),
    })
}

/// Whether the answers are equal, but for the clock.
fn is_same(expected: &OperatorAnswer, answered: &OperatorAnswer) -> bool {
    match (expected, answered) {
        (
            OperatorAnswer::Done {
                document: Some(expected),
                matched,
                modified,
            },
            OperatorAnswer::Done {
                document: Some(answered),
                matched: other,
                modified: another,
            },
        ) => {
            (matched, modified) == (other, another)
                && same_value(&expected.clone().into(), &answered.clone().into())
        }
        (expected, answered) => expected == answered,
    }
}

fn same_value(expected: &Bson, answered: &Bson) -> bool {
    /// When the first answers were recorded: later times are the server's clock.
    const RECORDED_MS: i64 = 1_790_000_000_000;
    match (expected, answered) {
        (Bson::Document(expected), Bson::Document(answered)) => {
            expected.len() == answered.len()
                && expected
                    .iter()
                    .zip(answered)
                    .all(|((name, left), (other, right))| name == other && same_value(left, right))
        }
        (Bson::Array(expected), Bson::Array(answered)) => {
            expected.len() == answered.len()
                && expected
                    .iter()
                    .zip(answered)
                    .all(|(left, right)| same_value(left, right))
        }
        (Bson::DateTime(time), Bson::DateTime(_)) if time.timestamp_millis() > RECORDED_MS => true,
        (Bson::Timestamp(time), Bson::Timestamp(_))
            if i64::from(time.time) > RECORDED_MS / 1000 =>
        {
            true
        }
        (Bson::Double(left), Bson::Double(right)) => {
            left.to_bits() == right.to_bits() || (left.is_nan() && right.is_nan())
        }
        (expected, answered) => expected == answered,
    }
}
