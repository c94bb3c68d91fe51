//! `include`: fields that entries carry beside those of the key. Not an option of mongod.

use super::{FIELDS_MAX, IndexField, cannot_create};
use crate::Result;
use bson::raw::RawBsonRef;

/// Reads the list of paths.
pub(super) fn parse(value: RawBsonRef<'_>) -> Result<Vec<String>> {
    let refuse = || cannot_create("The field 'include' must be an array of field names");
    let array = value.as_array().ok_or_else(refuse)?;
    let mut paths = Vec::new();
    for element in array {
        let path = element
            .ok()
            .and_then(RawBsonRef::as_str)
            .ok_or_else(refuse)?;
        check_path(path)?;
        paths.push(path.to_owned());
    }
    if paths.is_empty() {
        return Err(cannot_create(
            "The field 'include' must name at least one field",
        ));
    }
    if paths.len() > FIELDS_MAX {
        let message = format!("The field 'include' may name at most {FIELDS_MAX} fields");
        return Err(cannot_create(message));
    }
    Ok(paths)
}

fn check_path(path: &str) -> Result<()> {
    let valid = |part: &str| !part.is_empty() && !part.starts_with('$') && !part.contains('\0');
    if !path.split('.').all(valid) {
        return Err(cannot_create(format!(
            "The field 'include' holds '{path}', which is no path of a field"
        )));
    }
    if path == "_id" {
        return Err(cannot_create(
            "The field 'include' must not name '_id': every entry holds it already",
        ));
    }
    Ok(())
}

/// Checks the paths together with the rest of the definition.
pub(super) fn check(
    paths: &[String],
    key: &[(String, IndexField)],
    clustering: bool,
) -> Result<()> {
    if paths.is_empty() {
        return Ok(());
    }
    if clustering {
        return Err(cannot_create(
            "cannot mix \"include\" and \"clustering\" options: a clustering index carries whole documents",
        ));
    }
    if key.iter().any(|(_, kind)| *kind == IndexField::Hashed) {
        return Err(cannot_create(
            "a hashed index cannot have the option \"include\"",
        ));
    }
    for (position, path) in paths.iter().enumerate() {
        let others = key.iter().map(|(own, _)| own).chain(&paths[..position]);
        if let Some(other) = others.into_iter().find(|other| collide(path, other)) {
            return Err(cannot_create(format!(
                "The field 'include' holds '{path}', but the index has '{other}' already"
            )));
        }
    }
    Ok(())
}

/// Whether one path is the other or leads to something within it.
fn collide(a: &str, b: &str) -> bool {
    let mut parts = a.split('.').zip(b.split('.'));
    parts.all(|(a, b)| a == b)
}
