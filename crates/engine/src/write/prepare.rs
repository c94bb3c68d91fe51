//! Makes a client's document ready to be stored: identifier first, limits checked, timestamps filled in.

use crate::error::malformed;
use crate::error::{Code, Error, Result};
use crate::update::{check_id_names, next_timestamp};
use bson::oid::ObjectId;
use bson::raw::{RawBsonRef, RawDocument, RawDocumentBuf};
use bson::{Timestamp, cstr};
use meridian_value::Collation;
use meridian_value::field::fields;
use meridian_value::key::{Direction, TypeBits};
use std::borrow::Cow;

/// The largest document, in bytes of BSON: MongoDB's limit.
pub const DOCUMENT_BYTES_MAX: usize = 16 * 1024 * 1024;
/// The levels of documents and arrays in a document that is inserted, itself included.
const NESTING_MAX: usize = 180;
/// A level takes at least its length, a type, a name's end and its own end.
const LEVEL_BYTES_MIN: usize = 7;

/// The document as it will be stored: `_id` first (generated when absent), empty top-level
/// timestamps replaced by the present. Borrowed when nothing had to change.
pub(super) fn normalise(document: &RawDocument) -> Result<Cow<'_, RawDocument>> {
    let mut position_of_id = None;
    let mut empty_timestamp = false;
    for (position, element) in document.iter_elements().enumerate() {
        let element = element.map_err(malformed)?;
        if position_of_id.is_none() && element.key().as_str() == "_id" {
            position_of_id = Some(position);
        } else if element.element_type() == bson::spec::ElementType::Timestamp {
            empty_timestamp |= is_empty_timestamp(element.value().map_err(malformed)?);
        }
    }
    let stored = if position_of_id == Some(0) && !empty_timestamp {
        Cow::Borrowed(document)
    } else {
        Cow::Owned(rebuild(document)?)
    };
    check_insertable(&stored)?;
    Ok(stored)
}

/// Refuses a document that is too large, or nested too deeply.
pub(super) fn check_insertable(document: &RawDocument) -> Result<()> {
    check_size(document)?;
    check_nesting(document)
}

/// Refuses a document above [`DOCUMENT_BYTES_MAX`].
fn check_size(document: &RawDocument) -> Result<()> {
    let size = document.as_bytes().len();
    if size > DOCUMENT_BYTES_MAX {
        return Err(Error::bad_value(format!(
            "object to insert too large. size in bytes: {size}, max size: {DOCUMENT_BYTES_MAX}"
        )));
    }
    Ok(())
}

/// Refuses a document of more than [`NESTING_MAX`] levels.
fn check_nesting(document: &RawDocument) -> Result<()> {
    if exceeds(document, NESTING_MAX) {
        return Err(Error::new(
            Code::Overflow,
            format!("cannot insert document because it exceeds {NESTING_MAX} levels of nesting"),
        ));
    }
    Ok(())
}

/// Whether a document has more than `levels` levels, itself included. What is too short for them is
/// not looked at, which is nearly every document.
fn exceeds(document: &RawDocument, levels: usize) -> bool {
    if levels == 0 {
        return true;
    }
    if document.as_bytes().len() < levels * LEVEL_BYTES_MIN {
        return false;
    }
    fields(document).any(|field| match field.value() {
        Some(RawBsonRef::Document(inner)) => exceeds(inner, levels - 1),
        Some(RawBsonRef::Array(inner)) => {
            RawDocument::from_bytes(inner.as_bytes()).is_ok_and(|inner| exceeds(inner, levels - 1))
        }
        _ => false,
    })
}

fn rebuild(document: &RawDocument) -> Result<RawDocumentBuf> {
    let mut stored = RawDocumentBuf::new();
    match document.get("_id").map_err(malformed)? {
        Some(id) => stored.append(cstr!("_id"), id),
        None => stored.append(cstr!("_id"), ObjectId::new()),
    }
    let mut seen_id = false;
    for element in document {
        let (key, value) = element.map_err(malformed)?;
        if key.as_str() == "_id" && !seen_id {
            seen_id = true;
        } else if is_empty_timestamp(value) {
            stored.append(key, next_timestamp());
        } else {
            stored.append(key, value);
        }
    }
    Ok(stored)
}

fn is_empty_timestamp(value: RawBsonRef<'_>) -> bool {
    matches!(
        value,
        RawBsonRef::Timestamp(Timestamp {
            time: 0,
            increment: 0
        })
    )
}

/// Appends the order-preserving encoding of a document's `_id`, in a collection that compares them so.
///
/// # Errors
/// `InvalidIdField` (53) for arrays, regular expressions, undefined, and documents with `$` names.
pub fn encode_id(document: &RawDocument, ids: &Collation, out: &mut Vec<u8>) -> Result<()> {
    let id = document.get("_id").map_err(malformed)?;
    let id = id.ok_or_else(|| Error::new(Code::InternalError, "a stored document has no _id"))?;
    check_id(id)?;
    ids.encode(id, Direction::Ascending, out, &mut TypeBits::default());
    Ok(())
}

fn check_id(id: RawBsonRef<'_>) -> Result<()> {
    let refused = match id {
        RawBsonRef::Array(_) => "array",
        RawBsonRef::RegularExpression(_) => "regex",
        RawBsonRef::Undefined => "undefined",
        RawBsonRef::Document(_) => return check_id_names(id),
        _ => return Ok(()),
    };
    Err(Error::new(
        Code::InvalidIdField,
        format!("The '_id' value cannot be of type {refused}"),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use bson::rawdoc;

    #[test]
    fn identifiers_come_first_and_are_generated() {
        let stored = normalise(&rawdoc! { "a": 1, "_id": 7 })
            .unwrap()
            .into_owned();
        assert_eq!(stored, rawdoc! { "_id": 7, "a": 1 });
        let stored = normalise(&rawdoc! { "a": 1 }).unwrap().into_owned();
        assert!(stored.get_object_id("_id").is_ok());
        let document = rawdoc! { "_id": 7, "a": 1 };
        assert!(matches!(normalise(&document).unwrap(), Cow::Borrowed(_)));
    }

    #[test]
    fn empty_timestamps_become_the_present() {
        let zero = Timestamp {
            time: 0,
            increment: 0,
        };
        let stored = normalise(&rawdoc! { "_id": 1, "t": zero, "d": { "t": zero } })
            .unwrap()
            .into_owned();
        assert_ne!(stored.get_timestamp("t").unwrap(), zero);
        assert_eq!(
            stored
                .get_document("d")
                .unwrap()
                .get_timestamp("t")
                .unwrap(),
            zero
        );
    }

    #[test]
    fn documents_at_the_limit_pass_and_one_byte_more_is_refused() {
        let overhead = rawdoc! { "_id": 1, "s": "" }.as_bytes().len();
        let text = "x".repeat(DOCUMENT_BYTES_MAX - overhead);
        assert!(normalise(&rawdoc! { "_id": 1, "s": text.as_str() }).is_ok());
        let error = normalise(&rawdoc! { "_id": 1, "s": format!("{text}x") }).unwrap_err();
        assert_eq!(error.code, Code::BadValue);
    }

    #[test]
    fn nesting_at_the_limit_passes_and_one_level_more_is_refused() {
        let nested = |levels: usize| (1..levels).fold(rawdoc! {}, |inner, _| rawdoc! { "": inner });
        assert!(!exceeds(&nested(NESTING_MAX), NESTING_MAX));
        assert!(exceeds(&nested(NESTING_MAX + 1), NESTING_MAX));
    }

    #[test]
    fn unusable_identifiers_are_refused() {
        for document in [rawdoc! { "_id": [1] }, rawdoc! { "_id": { "$a": 1 } }] {
            assert!(encode_id(&document, &Collation::SIMPLE, &mut Vec::new()).is_err());
        }
    }
}
