//! `_id`: first in every document, of a type that can be one, and never altered by an update.

use super::raw::{Field, fields, write_document, write_element};
use super::{Applied, ApplyMode};
use crate::error::malformed;
use crate::error::{Code, Error, Result};
use crate::text;
use crate::types::type_name;
use bson::raw::{RawBsonRef, RawDocument, RawDocumentBuf};
use std::borrow::Cow;

/// The `_id` field.
pub(super) fn find(document: &RawDocument) -> Result<Option<Field<'_>>> {
    for field in fields(document) {
        let field = field?;
        if field.name() == "_id" {
            return Ok(Some(field));
        }
    }
    Ok(None)
}

/// The document with its `_id`, when it has one, moved to the front.
pub(super) fn with_id_first(document: &RawDocument) -> Result<RawDocumentBuf> {
    let bytes = document.as_bytes();
    let found = find(document)?.filter(|field| field.range.start != 4);
    let Some(id) = found else {
        return Ok(document.to_owned());
    };
    let mut out = Vec::with_capacity(bytes.len());
    write_document(&mut out, |out| {
        out.extend_from_slice(&bytes[id.range.clone()]);
        out.extend_from_slice(&bytes[4..id.range.start]);
        out.extend_from_slice(&bytes[id.range.end..bytes.len() - 1]);
    });
    super::document(out)
}

/// The document with another one's `_id` in front of it.
fn prepended(document: &RawDocument, id: &Field<'_>) -> Result<RawDocumentBuf> {
    let bytes = document.as_bytes();
    let mut out = Vec::with_capacity(bytes.len() + id.range.len());
    write_document(&mut out, |out| {
        write_element(out, "_id", id.kind(), id.payload());
        out.extend_from_slice(&bytes[4..bytes.len() - 1]);
    });
    super::document(out)
}

/// A whole new document in the place of an old one: under the old `_id` when it brings none,
/// which MongoDB counts as a modification even when nothing else differs.
///
/// # Errors
/// `ImmutableField` when its `_id` is another one; that of an `_id` that cannot be stored.
pub(super) fn under_old_id(
    old: &RawDocument,
    new: Cow<'_, RawDocument>,
    mode: ApplyMode,
) -> Result<Applied> {
    let old_id = find(old)?;
    let Some(id) = find(&new)? else {
        let Some(old_id) = old_id else {
            return Ok(Applied::Changed(new.into_owned()));
        };
        refuse_array(old_id.value()?)?;
        return Ok(Applied::Changed(prepended(&new, &old_id)?));
    };
    match mode {
        ApplyMode::Update => check_stored(&new)?,
        ApplyMode::InsertOnUpsert => refuse_array(id.value()?)?,
    }
    check_unaltered(old, &new)?;
    let new = with_id_first(&new)?;
    Ok(if new.as_bytes() == old.as_bytes() {
        Applied::Unchanged
    } else {
        Applied::Changed(new)
    })
}

/// Refuses an `_id` that cannot be stored.
///
/// # Errors
/// `InvalidIdField` for an array, a regular expression or undefined;
/// `DollarPrefixedFieldName` for such a name inside it.
pub(super) fn check_stored(document: &RawDocument) -> Result<()> {
    let Some(id) = find(document)? else {
        return Ok(());
    };
    let value = id.value()?;
    match value {
        RawBsonRef::Array(_) | RawBsonRef::RegularExpression(_) | RawBsonRef::Undefined => {
            Err(Error::new(
                Code::InvalidIdField,
                format!(
                    "The '_id' value cannot be of type {}",
                    type_name(value.element_type())
                ),
            ))
        }
        value => check_names(value),
    }
}

/// Refuses names that begin with `$` inside an `_id`, but for those of a reference to a document.
///
/// # Errors
/// `DollarPrefixedFieldName`.
pub(crate) fn check_names(value: RawBsonRef<'_>) -> Result<()> {
    let children = match value {
        RawBsonRef::Document(document) => document,
        RawBsonRef::Array(array) => {
            for item in array {
                check_names(item.map_err(malformed)?)?;
            }
            return Ok(());
        }
        _ => return Ok(()),
    };
    for child in children.iter().skip(reference_fields(children)) {
        let (name, child) = child.map_err(malformed)?;
        let name = name.as_str();
        if name.starts_with('$') {
            return Err(Error::new(
                Code::DollarPrefixedFieldName,
                format!(
                    "_id fields may not contain '$'-prefixed fields: {name} is not valid for storage."
                ),
            ));
        }
        check_names(child)?;
    }
    Ok(())
}

/// How many fields at the front refer to another document: `$ref` (a string), `$id` (anything,
/// whatever is in it), and perhaps `$db` (a string), in this order.
fn reference_fields(document: &RawDocument) -> usize {
    let mut fields = document.iter().flatten();
    let mut next = |wanted: &str, text: bool| {
        fields.next().is_some_and(|(name, value)| {
            name.as_str() == wanted && (!text || matches!(value, RawBsonRef::String(_)))
        })
    };
    if !next("$ref", true) || !next("$id", false) {
        return 0;
    }
    if next("$db", true) { 3 } else { 2 }
}

/// Refuses a new document whose `_id` is not the old one's value.
///
/// # Errors
/// `ImmutableField`.
fn check_unaltered(old: &RawDocument, new: &RawDocument) -> Result<()> {
    let (Some(old), Some(new)) = (find(old)?, find(new)?) else {
        return Ok(());
    };
    let new = new.value()?;
    if meridian_value::compare(old.value()?, new).is_eq() {
        return Ok(());
    }
    Err(Error::new(
        Code::ImmutableField,
        format!(
            "After applying the update, the (immutable) field '_id' was found to have been altered to {}",
            text::element("_id", new)
        ),
    ))
}

/// Refuses an array as the `_id` that an upsert would insert.
///
/// # Errors
/// `NotSingleValueField`.
fn refuse_array(id: RawBsonRef<'_>) -> Result<()> {
    if !matches!(id, RawBsonRef::Array(_)) {
        return Ok(());
    }
    Err(Error::new(
        Code::NotSingleValueField,
        "After applying the update to the document, the (immutable) field '_id' was found to be an array or array descendant.",
    ))
}
