//! Reads BSON values from bytes that may be anything.

use crate::error::{ColumnError, Result};

/// Documents within documents, at most.
pub(crate) const DEPTH_MAX: usize = 200;

/// An element of a document.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Element<'a> {
    pub kind: u8,
    pub name: &'a [u8],
    pub value: &'a [u8],
}

impl Element<'_> {
    /// Whether it is a document or an array.
    pub fn is_container(&self) -> bool {
        is_container(self.kind)
    }
}

/// Whether values of this type are documents or arrays.
pub(crate) fn is_container(kind: u8) -> bool {
    matches!(kind, 0x03 | 0x04)
}

/// Whether a document's bytes hold no element.
pub(crate) fn is_empty(document: &[u8]) -> bool {
    document.len() <= 5
}

/// Steps over the elements of a document; what is malformed ends the walk.
#[derive(Debug, Clone)]
pub(crate) struct Elements<'a> {
    rest: &'a [u8],
}

/// The elements of a document.
pub(crate) fn elements(document: &[u8]) -> Elements<'_> {
    let rest = document.get(4..document.len().saturating_sub(1));
    Elements {
        rest: rest.unwrap_or(&[]),
    }
}

impl<'a> Iterator for Elements<'a> {
    type Item = Element<'a>;

    #[inline]
    fn next(&mut self) -> Option<Element<'a>> {
        let (&kind, rest) = self.rest.split_first()?;
        let name_length = rest.iter().position(|byte| *byte == 0)?;
        let (name, rest) = rest.split_at_checked(name_length)?;
        let rest = &rest[1..];
        let (value, rest) = rest.split_at_checked(value_length(kind, rest)?)?;
        self.rest = rest;
        Some(Element { kind, name, value })
    }
}

/// How many bytes the value takes that starts here; `None` for unknown types and impossible lengths.
#[inline]
pub(crate) fn value_length(kind: u8, bytes: &[u8]) -> Option<usize> {
    let prefixed = |extra: usize, least: usize| -> Option<usize> {
        let length = i32::from_le_bytes(bytes.get(..4)?.try_into().ok()?);
        let length = usize::try_from(length).ok()?.checked_add(extra)?;
        (length >= least && length <= bytes.len()).then_some(length)
    };
    let length = match kind {
        0x10 => 4,
        0x01 | 0x09 | 0x11 | 0x12 => 8,
        0x02 | 0x0D | 0x0E => prefixed(4, 5)?,
        0x03 | 0x04 => prefixed(0, 5)?,
        0x05 => prefixed(5, 5)?,
        0x07 => 12,
        0x08 => 1,
        0x06 | 0x0A | 0x7F | 0xFF => 0,
        0x13 => 16,
        0x0B => {
            let pattern = bytes.iter().position(|byte| *byte == 0)? + 1;
            pattern + bytes.get(pattern..)?.iter().position(|byte| *byte == 0)? + 1
        }
        0x0C => prefixed(16, 17)?,
        0x0F => prefixed(0, 14)?,
        _ => return None,
    };
    (length <= bytes.len()).then_some(length)
}

/// Checks that a value is well-formed, with all that it holds.
///
/// # Errors
/// What is wrong, `at` where the value starts.
pub(crate) fn check(kind: u8, value: &[u8], at: usize) -> Result<()> {
    check_value(kind, value, DEPTH_MAX).map_err(|what| ColumnError::new(what, at))
}

fn check_value(kind: u8, value: &[u8], depth: usize) -> std::result::Result<(), &'static str> {
    if value_length(kind, value) != Some(value.len()) {
        return Err("a value of an unknown type or of a wrong length");
    }
    match kind {
        0x02 | 0x0D | 0x0E => check_text(&value[4..]),
        0x08 if value[0] > 1 => Err("a boolean that is neither true nor false"),
        0x0B => check_utf8(value),
        0x0C => check_text(&value[4..value.len() - 12]),
        0x03 | 0x04 => check_document(value, depth),
        0x0F => {
            let code = value_length(0x02, &value[4..]).ok_or("code with a wrong length")?;
            let (code, scope) = value[4..].split_at(code);
            check_text(&code[4..])?;
            check_value(0x03, scope, depth)
        }
        _ => Ok(()),
    }
}

fn check_document(document: &[u8], depth: usize) -> std::result::Result<(), &'static str> {
    let depth = depth
        .checked_sub(1)
        .ok_or("documents that are nested too deep")?;
    if document.last() != Some(&0) {
        return Err("a document without its end");
    }
    let mut walk = elements(document);
    for element in walk.by_ref() {
        check_utf8(element.name)?;
        check_value(element.kind, element.value, depth)?;
    }
    if walk.rest.is_empty() {
        Ok(())
    } else {
        Err("a document with a malformed element")
    }
}

/// A text with its terminator.
fn check_text(text: &[u8]) -> std::result::Result<(), &'static str> {
    match text.split_last() {
        Some((0, text)) => check_utf8(text),
        _ => Err("a text without its end"),
    }
}

fn check_utf8(text: &[u8]) -> std::result::Result<(), &'static str> {
    std::str::from_utf8(text)
        .map(|_| ())
        .map_err(|_| "a text that is not UTF-8")
}
