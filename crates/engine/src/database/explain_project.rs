//! A `$project` right behind a plan, which `explain` shows as the plan's last stage, as MongoDB does.

use crate::aggregate::Stage;
use bson::raw::{RawBsonRef, RawDocument, RawDocumentBuf};
use bson::{cstr, rawdoc};
use meridian_value::number::Number;

/// The stage of the plan for a stage of the pipeline, given as it was written; `None` for stages that stay where they are.
pub(super) fn taken(stage: &Stage, source: &RawDocument) -> Option<RawDocumentBuf> {
    let Stage::Project(transform) = stage else {
        return None;
    };
    let fields = source.get_document("$project").ok()?;
    if !transform.is_inclusion() {
        return None;
    }
    let mut shown = RawDocumentBuf::new();
    if fields.get("_id").is_ok_and(|id| id.is_none()) {
        shown.append(cstr!("_id"), true);
    }
    let mut is_simple = true;
    let mut without_id = false;
    for (name, value) in fields.iter().flatten() {
        match flag(value) {
            Some(true) => shown.append(name, true),
            Some(false) => without_id = true,
            None => shown.append(name, value),
        }
        is_simple &= flag(value).is_some() && !name.as_str().contains('.');
    }
    if without_id {
        shown.append(cstr!("_id"), false);
    }
    let name = match is_simple {
        true => "PROJECTION_SIMPLE",
        false => "PROJECTION_DEFAULT",
    };
    let mut stage = rawdoc! { "stage": name };
    stage.append(cstr!("transformBy"), shown);
    Some(stage)
}

/// Whether a field is kept, where nothing else is said of it.
fn flag(value: RawBsonRef<'_>) -> Option<bool> {
    match value {
        RawBsonRef::Boolean(flag) => Some(flag),
        other => Number::from_raw(other).map(|number| !number.is_zero()),
    }
}
