//! `$rename`: the value of one path for another, neither of them inside an array.

use super::OwnedValue;
use crate::error::malformed;
use crate::error::{Code, Error, Result};
use crate::operation;
use crate::text;
use crate::update::apply::OperatorPosition;
use crate::update::path::{PathPart, UpdatePath, array_index};
use bson::raw::{RawBsonRef, RawDocument};
use meridian_value::field;

/// The two paths of a `$rename`.
///
/// # Errors
/// `BadValue` when the new name is not a string; that of an empty path.
pub(in crate::update) fn parse_paths(
    from: &str,
    operand: RawBsonRef<'_>,
) -> Result<(UpdatePath, UpdatePath)> {
    let RawBsonRef::String(to) = operand else {
        return Err(Error::bad_value(format!(
            "The 'to' field for $rename must be a string: {}",
            text::element(from, operand)
        )));
    };
    if to.contains('\0') {
        return Err(Error::bad_value(
            "The 'to' field for $rename cannot contain an embedded null byte",
        ));
    }
    Ok((UpdatePath::parse(from)?, UpdatePath::parse(to)?))
}

/// Refuses paths that are not two separate plain ones.
///
/// # Errors
/// `BadValue`.
pub(in crate::update) fn check_paths(source: &UpdatePath, target: &UpdatePath) -> Result<()> {
    let shown = || format!("{}: \"{}\"", source.text, target.text);
    if source.text == target.text {
        return Err(Error::bad_value(format!(
            "The source and target field for $rename must differ: {}",
            shown()
        )));
    }
    let pairs = source.parts.iter().zip(&target.parts);
    let shared = pairs.take_while(|(a, b)| a == b).count();
    if shared == source.parts.len().min(target.parts.len()) {
        return Err(Error::bad_value(format!(
            "The source and target field for $rename must not be on the same path: {}",
            shown()
        )));
    }
    for (kind, path) in [("source", source), ("destination", target)] {
        if !path.is_static() {
            return Err(Error::bad_value(format!(
                "The {kind} field for $rename may not be dynamic: {}",
                path.text
            )));
        }
    }
    Ok(())
}

/// The value that moves to `place`; `None` when there is none.
///
/// # Errors
/// `PathNotViable` when the source cannot be walked to, `BadValue` when either path leads
/// through an array.
pub(in crate::update) fn source_value(
    source: &UpdatePath,
    place: &OperatorPosition<'_>,
) -> Result<Option<OwnedValue>> {
    operation::check_walk(place.document)?;
    let parts: Vec<&str> = source.parts.iter().map(plain).collect();
    let walked = walk(place.document, &parts)?;
    let Some(value) = walked.value else {
        return match walked.blocked_by {
            Some((name, blocker)) => Err(Error::new(
                Code::PathNotViable,
                format!(
                    "cannot use the part ({name} of {}) to traverse the element ({{{}}})",
                    source.text,
                    text::element(name, blocker)
                ),
            )),
            None => Ok(None),
        };
    };
    let refuse = |kind: &str, path: &str, array: &str| {
        Err(Error::bad_value(format!(
            "The {kind} field cannot be an array element, '{path}' in doc with {} has an array field called '{array}'",
            place.document_id()
        )))
    };
    if let Some(array) = walked.array {
        return refuse("source", &source.text, array);
    }
    let target: Vec<&str> = place.path.split('.').collect();
    if let Some(array) = walk(place.document, &target)?.array {
        return refuse("destination", place.path, array);
    }
    Ok(Some(OwnedValue::new(value)))
}

fn plain(part: &PathPart) -> &str {
    match part {
        PathPart::Field(name) => name,
        _ => unreachable!("the paths of a $rename are plain"),
    }
}

/// How far a path goes in a document.
struct Walked<'a> {
    /// The value at its end.
    value: Option<RawBsonRef<'a>>,
    /// The innermost array that it enters.
    array: Option<&'a str>,
    /// The value that has no such fields.
    blocked_by: Option<(&'a str, RawBsonRef<'a>)>,
}

fn walk<'a>(document: &'a RawDocument, parts: &[&'a str]) -> Result<Walked<'a>> {
    let mut walked = Walked {
        value: None,
        array: None,
        blocked_by: None,
    };
    let mut value = RawBsonRef::Document(document);
    let mut name = "";
    for part in parts {
        let child = match value {
            RawBsonRef::Document(document) => {
                field::find(document, part.as_bytes()).and_then(|found| found.value())
            }
            RawBsonRef::Array(array) => {
                walked.array = Some(name);
                match array_index(part) {
                    Some(index) => array.get(index).map_err(malformed)?,
                    None => {
                        walked.blocked_by = Some((name, value));
                        None
                    }
                }
            }
            _ => {
                walked.blocked_by = Some((name, value));
                None
            }
        };
        match child {
            Some(child) => value = child,
            None => return Ok(walked),
        }
        name = part;
    }
    walked.value = Some(value);
    Ok(walked)
}
