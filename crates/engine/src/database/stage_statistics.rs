//! What each stage of an executed plan did, as `explain` shows it.
//!
//! A plan is run as a whole: known are the rows that came out, the entries and documents that were examined, and the rows
//! that were sorted. What a stage hands on follows from these and from what stands above it. Below a stage with several
//! inputs nothing is known of each.

use bson::raw::{RawBsonRef, RawDocument, RawDocumentBuf};
use bson::{cstr, rawdoc};

/// What is known of an executed plan.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Executed {
    /// Rows that came out.
    pub returned: u64,
    /// What a `COUNT` counted.
    pub counted: u64,
    /// Index entries examined.
    pub keys: u64,
    /// Documents examined.
    pub documents: u64,
    /// Rows that were sorted.
    pub sorted: u64,
    /// Whether it was stopped before it knew of its end.
    pub is_stopped: bool,
    /// Milliseconds.
    pub millis: i32,
}

/// The tree of stages with what each of them did; the root hands out what the plan returned.
pub(super) fn with_statistics(stage: &RawDocument, executed: &Executed) -> RawDocumentBuf {
    annotate(stage, executed.returned, executed.is_stopped, executed).0
}

/// A stage that hands out so many rows, and may be stopped before it knows of its end; and how many units of work it and those below it took, as MongoDB counts them: each
/// entry or document that is examined, and each row that a sort gives back.
fn annotate(
    stage: &RawDocument,
    out: u64,
    is_stopped: bool,
    executed: &Executed,
) -> (RawDocumentBuf, u64) {
    let name = stage.get_str("stage").unwrap_or_default();
    let limit = stage.get("limitAmount").ok().flatten();
    let is_limited = name == "LIMIT" && whole(limit) == out;
    let input = stage.get_document("inputStage").ok().map(|input| {
        let stops_input = (is_stopped && name != "SORT") || is_limited;
        let handed_on = handed_on(stage, name, out, executed);
        annotate(input, handed_on, stops_input, executed)
    });
    let below = input.as_ref().map(|(_, works)| *works);
    let works = match (name, below) {
        ("SORT", Some(below)) => below + out + 1,
        (_, Some(below)) => below + u64::from(is_limited),
        ("COLLSCAN", None) => executed.documents + 2 - u64::from(is_stopped),
        ("IDHACK", None) => out + 1,
        ("EOF" | "RECORD_STORE_FAST_COUNT", None) => 1,
        (_, None) => executed.keys + 1 - u64::from(is_stopped),
    };
    let mut shown = rawdoc! { "stage": name };
    if let Ok(Some(filter)) = stage.get("filter") {
        shown.append(cstr!("filter"), filter);
    }
    let is_over = u64::from(!is_stopped);
    let waiting = works.saturating_sub(out + is_over);
    shown.append(cstr!("nReturned"), number(out));
    shown.append(cstr!("executionTimeMillisEstimate"), executed.millis);
    shown.append(cstr!("works"), number(works));
    shown.append(cstr!("advanced"), number(out));
    shown.append(cstr!("needTime"), number(waiting));
    for name in [
        cstr!("needYield"),
        cstr!("saveState"),
        cstr!("restoreState"),
    ] {
        shown.append(name, 0_i32);
    }
    shown.append(cstr!("isEOF"), number(is_over));
    for (name, value) in stage.iter().flatten() {
        if !matches!(name.as_str(), "stage" | "filter" | "inputStage") {
            shown.append(name, value);
        }
    }
    append_own(name, executed, &mut shown);
    if let Some((input, _)) = input {
        shown.append(cstr!("inputStage"), input);
    }
    (shown, works)
}

/// How many rows the stage below one that hands out so many has handed to it.
fn handed_on(stage: &RawDocument, name: &str, out: u64, executed: &Executed) -> u64 {
    match name {
        "SORT" => executed.sorted,
        "FETCH" => executed.documents,
        "COUNT" => executed.counted,
        "UPDATE" | "DELETE" => executed.counted.max(out),
        // Where none came through, it is not known how many were there.
        "SKIP" if out == 0 => executed.documents.max(executed.keys),
        "SKIP" => out + whole(stage.get("skipAmount").ok().flatten()),
        _ => out,
    }
}

fn append_own(name: &str, executed: &Executed, shown: &mut RawDocumentBuf) {
    let (keys, documents) = (number(executed.keys), number(executed.documents));
    match name {
        "COLLSCAN" => shown.append(cstr!("docsExamined"), documents),
        "FETCH" => {
            shown.append(cstr!("docsExamined"), documents);
            shown.append(cstr!("alreadyHasObj"), 0_i32);
        }
        "IDHACK" => {
            shown.append(cstr!("keysExamined"), keys);
            shown.append(cstr!("docsExamined"), documents);
        }
        "IXSCAN" | "COUNT_SCAN" | "DISTINCT_SCAN" | "CLUSTERED_IXSCAN" => {
            shown.append(cstr!("keysExamined"), keys);
        }
        "COUNT" | "RECORD_STORE_FAST_COUNT" => {
            shown.append(cstr!("nCounted"), number(executed.counted));
            shown.append(cstr!("nSkipped"), 0_i32);
        }
        _ => {}
    }
}

fn number(count: u64) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}

fn whole(value: Option<RawBsonRef<'_>>) -> u64 {
    let number = value.and_then(meridian_value::number::Number::from_raw);
    let whole = number.and_then(|number| number.to_i64_truncated());
    whole
        .and_then(|whole| u64::try_from(whole).ok())
        .unwrap_or(0)
}
