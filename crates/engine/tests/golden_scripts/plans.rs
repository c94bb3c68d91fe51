//! A plan as lines: one a stage, its input below it.
//!
//! ```text
//! LIMIT 5
//!   FETCH filter {"b": 1}
//!     IXSCAN a_1 forward, a [3, 3]
//! examined 2 keys, 2 documents; 1 rejected: IXSCAN b_1
//! ```

use bson::raw::RawDocument;
use bson::{Bson, Document};
use std::fmt::Write;

/// Ranges of an area's covering beyond this number are counted, not listed.
const RANGES_SHOWN_MAX: usize = 3;

/// A document as JSON in one line.
pub fn json(document: &RawDocument) -> String {
    let document = Document::try_from(document).unwrap();
    Bson::Document(document).into_relaxed_extjson().to_string()
}

/// The plan of an `explain` answer and what running it examined.
pub fn show(explained: &Document) -> String {
    let mut shown = String::new();
    // A pipeline that goes on behind its plan begins with a stage that holds it.
    let cursor = explained.get_array("stages").ok().and_then(|stages| {
        let first = stages.first()?.as_document()?;
        first.get_document("$cursor").ok()
    });
    let explained = cursor.unwrap_or(explained);
    let planner = explained.get_document("queryPlanner").unwrap();
    let stats = explained.get_document("executionStats").unwrap();
    let root = match cursor {
        // With the figures of what was counted or drawn.
        Some(_) => stats.get_document("executionStages").unwrap(),
        None => planner.get_document("winningPlan").unwrap(),
    };
    stage(root, 0, &mut shown);
    let (keys, documents) = (
        stats.get("totalKeysExamined").unwrap(),
        stats.get("totalDocsExamined").unwrap(),
    );
    write!(shown, "examined {keys} keys, {documents} documents").unwrap();
    let rejected = planner.get_array("rejectedPlans").unwrap();
    let names: Vec<&str> = rejected
        .iter()
        .map(|plan| name(plan.as_document().unwrap()))
        .collect();
    if !names.is_empty() {
        write!(shown, "; rejected: {}", names.join(", ")).unwrap();
    }
    shown.push('\n');
    shown
}

/// The index at the end of a plan, or the stage there.
fn name(plan: &Document) -> &str {
    match plan.get_document("inputStage") {
        Ok(input) => name(input),
        Err(_) => plan
            .get_str("indexName")
            .or_else(|_| plan.get_str("stage"))
            .unwrap(),
    }
}

fn stage(plan: &Document, depth: usize, shown: &mut String) {
    write!(
        shown,
        "{:indent$}{}",
        "",
        plan.get_str("stage").unwrap(),
        indent = 2 * depth
    )
    .unwrap();
    let mut inputs = Vec::new();
    for (field, value) in plan {
        match (field.as_str(), value) {
            ("inputStage", Bson::Document(input)) => inputs.push(input),
            ("inputStages", Bson::Array(list)) => {
                inputs.extend(list.iter().filter_map(Bson::as_document))
            }
            ("indexName" | "direction", Bson::String(text)) => write!(shown, " {text}").unwrap(),
            ("limitAmount" | "skipAmount", number) => write!(shown, " {number}").unwrap(),
            (
                "groups" | "keyRuns" | "entriesCounted" | "entriesNotScanned" | "population"
                | "rejected",
                number,
            ) => write!(shown, ", {field} {number}").unwrap(),
            ("groupBy" | "countedBy" | "drawnBy", Bson::String(text)) => {
                write!(shown, ", {field} {text}").unwrap();
            }
            ("exactEntries", number) if plan.get_str("stage").unwrap() == "COUNT_SCAN" => {
                write!(shown, ", {number} entries").unwrap();
            }
            ("facets", Bson::Document(facets)) => {
                inputs.extend(facets.iter().filter_map(|facet| facet.1.as_document()));
            }
            ("isMultiKey", Bson::Boolean(true)) => shown.push_str(" multikey"),
            ("indexBounds", Bson::Document(bounds)) => shown.push_str(&self::bounds(bounds)),
            (
                "filter" | "sortPattern" | "transformBy" | "rejectsUnless",
                Bson::Document(document),
            ) => {
                let text = Bson::Document(document.clone()).into_relaxed_extjson();
                write!(shown, " {text}").unwrap();
            }
            // What the index's name says, and constants.
            _ => {}
        }
    }
    shown.push('\n');
    for input in inputs {
        stage(input, depth + 1, shown);
    }
}

fn bounds(bounds: &Document) -> String {
    let mut shown = String::new();
    for (path, ranges) in bounds {
        let ranges = ranges.as_array().unwrap();
        let texts: Vec<&str> = ranges.iter().filter_map(Bson::as_str).collect();
        if texts.is_empty() {
            write!(shown, ", {path} nothing").unwrap();
        } else if texts.len() > RANGES_SHOWN_MAX {
            write!(shown, ", {path} in {} ranges", texts.len()).unwrap();
        } else {
            write!(shown, ", {path} {}", texts.join(" ")).unwrap();
        }
    }
    shown
}
