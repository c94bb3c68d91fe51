//! Replacement: a whole new document, under the old `_id`.

use super::operators::next_timestamp;
use super::raw::{Edit, Field, OwnedValue, fields, splice};
use super::{Applied, ApplyMode, dollar_field, id};
use crate::error::Result;
use bson::Timestamp;
use bson::raw::{RawBsonRef, RawDocument, RawDocumentBuf};
use std::borrow::Cow;

/// A parsed replacement document.
#[derive(Debug)]
pub struct Replacement {
    document: RawDocumentBuf,
    /// The first field whose name begins with a dollar sign: refused only where one updates.
    dollar_field: Option<Box<str>>,
    /// Whether a top-level field asks for the server's timestamp.
    has_empty_timestamp: bool,
}

impl Replacement {
    /// Checks the replacement's depth and `_id`, and puts `_id` first.
    ///
    /// # Errors
    /// `Overflow` when it is nested too deeply.
    pub(super) fn parse(document: &RawDocument) -> Result<Self> {
        super::check_depth(document)?;
        let mut dollar_field = None;
        let mut has_empty_timestamp = false;
        for field in fields(document) {
            let field = field?;
            let name = field.name();
            if name.starts_with('$') && dollar_field.is_none() {
                dollar_field = Some(name.into());
            }
            has_empty_timestamp |= name != "_id" && is_empty_timestamp(&field)?;
        }
        let document = id::with_id_first(document)?;
        Ok(Self {
            document,
            dollar_field,
            has_empty_timestamp,
        })
    }

    /// The new document; the old one's `_id` leads when the replacement has none.
    pub(super) fn apply(&self, old: &RawDocument, mode: ApplyMode) -> Result<Applied> {
        if let (Some(name), ApplyMode::Update) = (&self.dollar_field, mode) {
            return Err(dollar_field(name));
        }
        let mut new = Cow::Borrowed(&*self.document);
        if self.has_empty_timestamp {
            new = Cow::Owned(with_timestamps(&new)?);
        }
        id::under_old_id(old, new, mode)
    }
}

fn is_empty_timestamp(field: &Field<'_>) -> Result<bool> {
    const EMPTY: Timestamp = Timestamp {
        time: 0,
        increment: 0,
    };
    Ok(matches!(field.value()?, RawBsonRef::Timestamp(EMPTY)))
}

/// The document with the server's time in every top-level empty timestamp but `_id`.
fn with_timestamps(document: &RawDocument) -> Result<RawDocumentBuf> {
    let mut edits = Vec::new();
    for field in fields(document) {
        let field = field?;
        if field.name() != "_id" && is_empty_timestamp(&field)? {
            let value = Some(OwnedValue::new(next_timestamp()));
            edits.push(Edit {
                range: field.range.clone(),
                name: field.name(),
                value,
            });
        }
    }
    let mut out = Vec::with_capacity(document.as_bytes().len());
    splice(document.as_bytes(), &mut edits, &mut out, |_| ());
    super::document(out)
}
