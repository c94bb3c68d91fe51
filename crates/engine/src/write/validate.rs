//! The validator of a collection, applied to documents that are about to be stored.

use crate::catalog::{Collection, ValidationAction, ValidationLevel};
use crate::error::{Code, Error, Result};
use crate::query::validation_failure;
use bson::Bson;
use bson::raw::{RawBsonRef, RawDocument};

/// Applies the collection's validator to a document that is about to be stored; `before` is the
/// document it replaces.
///
/// # Errors
/// `DocumentValidationFailure` (121) with MongoDB's `errInfo`.
pub(super) fn validate(
    collection: &Collection,
    document: &RawDocument,
    before: Option<&RawDocument>,
) -> Result<()> {
    let Some(validator) = &collection.options.validator else {
        return Ok(());
    };
    // A validator that cannot be computed for a document refuses it; the report says why.
    let is_valid = |document| validator.filter.matches(document).unwrap_or(false);
    if validator.level == ValidationLevel::Off || is_valid(document) {
        return Ok(());
    }
    if let (ValidationLevel::Moderate, Some(before)) = (validator.level, before)
        && !is_valid(before)
    {
        return Ok(());
    }
    let id = document
        .get("_id")
        .ok()
        .flatten()
        .unwrap_or(RawBsonRef::Null);
    let details = validation_failure(
        &validator.source,
        &validator.filter,
        document,
        id,
        &collection.options.collation,
    );
    if validator.action == ValidationAction::Warn {
        tracing::warn!(namespace = %collection.namespace, details = %relaxed_json(&details), "a document fails validation");
        return Ok(());
    }
    let mut fields = bson::RawDocumentBuf::new();
    fields.append(bson::cstr!("errInfo"), details);
    Err(Error::new(
        Code::DocumentValidationFailure,
        "Document failed validation",
    )
    .with_fields(fields))
}

/// A document as people and log readers know it: relaxed extended JSON, on one line.
fn relaxed_json(document: &RawDocument) -> String {
    match bson::Document::try_from(document) {
        Ok(document) => Bson::Document(document).into_relaxed_extjson().to_string(),
        // Not readable as text; the debug form shows its bytes.
        Err(_) => format!("{document:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_logged_document_is_one_line_of_json() {
        let document = bson::rawdoc! { "a": 1_i64, "b": { "c": "x\n\u{1b}y" }, "d": [1.5, null] };
        let expected = r#"{"a":1,"b":{"c":"x\n\u001by"},"d":[1.5,null]}"#;
        assert_eq!(relaxed_json(&document), expected);
    }
}
