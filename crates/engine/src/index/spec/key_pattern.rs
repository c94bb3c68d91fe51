//! Key patterns: `{a: 1, "b.c": -1, place: "2dsphere"}`.

use super::wildcard::{is_wildcard, negative};
use super::{IndexField, cannot_create};
use crate::textsearch::TERM_FIELD;
use crate::types::type_name;
use crate::{Error, Result};
use bson::raw::{RawBsonRef, RawDocument};
use meridian_value::number::Number;

/// The index types that mongod 6.0 knows by name.
const PLUGINS: [&str; 7] = [
    "2d",
    "2dsphere",
    "2dsphere_bucket",
    "geoHaystack",
    "hashed",
    "text",
    "wildcard",
];

/// MongoDB's limit, which bounds the parts of a path too.
const PATTERN_BYTES_MAX: usize = 2048;

/// Validates a key pattern.
pub(super) fn parse(pattern: &RawDocument) -> Result<Vec<(String, IndexField)>> {
    let plugin = pattern
        .iter()
        .flatten()
        .find_map(|(_, kind)| kind.as_str())
        .unwrap_or_default();
    if !plugin.is_empty() && !PLUGINS.contains(&plugin) {
        return Err(cannot_create(format!("Unknown index plugin '{plugin}'")));
    }
    if plugin == "wildcard" && pattern.iter().count() > 1 {
        return Err(cannot_create("wildcard indexes do not allow compounding"));
    }
    if pattern.as_bytes().len() > PATTERN_BYTES_MAX {
        return Err(cannot_create("Index key pattern too large."));
    }
    let mut fields = Vec::new();
    for (path, kind) in pattern.iter().flatten() {
        let path = path.as_str();
        let field = match Number::from_raw(kind) {
            Some(_) if is_wildcard(path) && plugin.is_empty() => {
                parse_wildcard(path, parse_kind(kind, plugin)?, pattern)?
            }
            // All texts of a document.
            None if path == "$**" && plugin == "text" => parse_kind(kind, plugin)?,
            // No other kind of index has such a field.
            None if is_wildcard(path)
                && matches!(plugin, "" | "2d" | "2dsphere" | "hashed" | "text")
                && kind.as_str().is_some() =>
            {
                check_path(path)?;
                parse_kind(kind, plugin)?
            }
            _ => {
                let field = parse_kind(kind, plugin)?;
                check_path(path)?;
                if path == TERM_FIELD && plugin != "text" {
                    return Err(cannot_create(format!(
                        "Index key contains an illegal field name: '{TERM_FIELD}'"
                    )));
                }
                field
            }
        };
        fields.push((path.to_owned(), field));
    }
    if fields.is_empty() {
        return Err(cannot_create("Index keys cannot be empty."));
    }
    Ok(fields)
}

/// A field that stands for many, with a number as its kind.
fn parse_wildcard(path: &str, field: IndexField, pattern: &RawDocument) -> Result<IndexField> {
    if pattern.iter().count() > 1 {
        return Err(cannot_create("wildcard indexes do not allow compounding"));
    }
    if field == IndexField::Descending {
        return Err(negative());
    }
    if let Some(below) = path.strip_suffix(".$**") {
        if below.is_empty() {
            return Err(cannot_create("Index keys cannot contain an empty field."));
        }
        check_path(below)?;
    }
    Ok(IndexField::Wildcard)
}

fn parse_kind(kind: RawBsonRef<'_>, plugin: &str) -> Result<IndexField> {
    if let Some(number) = Number::from_raw(kind) {
        return parse_direction(number);
    }
    match kind {
        RawBsonRef::String("") => Err(cannot_create(
            "Values in the index key pattern cannot be empty strings",
        )),
        RawBsonRef::String(name) if name != plugin => Err(cannot_create(
            "Can't use more than one index plugin for a single index.",
        )),
        RawBsonRef::String("2dsphere") => Ok(IndexField::Sphere2d),
        RawBsonRef::String("2dsphere_bucket") => Ok(IndexField::SphereBucket),
        RawBsonRef::String("2d") => Ok(IndexField::Plane2d),
        RawBsonRef::String("hashed") => Ok(IndexField::Hashed),
        RawBsonRef::String("wildcard") => Err(cannot_create(
            "The key pattern value for an 'wildcard' index must be a non-zero number, not a string.",
        )),
        RawBsonRef::String("geoHaystack") => Err(cannot_create(
            "GeoHaystack indexes cannot be created in version 5.0 and above",
        )),
        RawBsonRef::String("text") => Ok(IndexField::Text),
        RawBsonRef::String(name) => Err(Error::not_implemented(format!("the index type '{name}'"))),
        other => Err(cannot_create(format!(
            "Values in v:2 index key pattern cannot be of type {}. \
             Only numbers > 0, numbers < 0, and strings are allowed.",
            type_name(other.element_type())
        ))),
    }
}

fn parse_direction(number: Number) -> Result<IndexField> {
    if number.is_nan() {
        return Err(cannot_create(
            "Values in the index key pattern cannot be NaN.",
        ));
    }
    if number.is_zero() {
        return Err(cannot_create(
            "Values in the index key pattern cannot be 0.",
        ));
    }
    Ok(if number.is_negative() {
        IndexField::Descending
    } else {
        IndexField::Ascending
    })
}

fn check_path(path: &str) -> Result<()> {
    if path.is_empty() {
        return Err(cannot_create("Index keys cannot be an empty field."));
    }
    for (position, part) in path.split('.').enumerate() {
        if part.is_empty() {
            return Err(cannot_create("Index keys cannot contain an empty field."));
        }
        // The fields of a DBRef may be indexed.
        let reference = position > 0 && matches!(part, "$id" | "$ref" | "$db");
        if part.starts_with('$') && !reference {
            return Err(cannot_create(
                "Index key contains an illegal field name: field name starts with '$'.",
            ));
        }
    }
    Ok(())
}

/// True for `{_id: 1}`, with a one of any numeric type.
pub(super) fn is_id(pattern: &RawDocument) -> bool {
    let mut fields = pattern.iter().flatten();
    let first = fields.next();
    let one = first.is_some_and(|(path, kind)| {
        path.as_str() == "_id"
            && Number::from_raw(kind).is_some_and(|number| number.compare(Number::Int32(1)).is_eq())
    });
    one && fields.next().is_none()
}
