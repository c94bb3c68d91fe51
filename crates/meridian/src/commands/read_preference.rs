//! `$readPreference`, which every command may carry: one server is the nearest of all.

use super::arguments::{elements, field, integer, present, type_name, unknown_field, wrong_type};
use bson::raw::{RawBsonRef, RawDocument};
use meridian_engine::{Code, Error, Result};

const STALENESS_SECONDS_MIN: i64 = 90;

/// Checks it.
///
/// # Errors
/// MongoDB's, by field.
pub fn check_read_preference(value: RawBsonRef<'_>) -> Result<()> {
    let Some(preference) = value.as_document() else {
        let found = type_name(value);
        let message =
            format!("$readPreference has incorrect type: expected object but got {found}");
        return Err(Error::type_mismatch(message));
    };
    let mode = check_mode(field(preference, "mode"))?;
    let is_primary = mode == "primary";
    let has_tags = check_tags(field(preference, "tags"))?;
    if is_primary && has_tags {
        return Err(Error::bad_value(
            "Only empty tags are allowed with primary read preference",
        ));
    }
    check_staleness(field(preference, "maxStalenessSeconds"), is_primary)?;
    check_hedge(field(preference, "hedge").and_then(present), mode)
}

fn expected(name: &str, kind: &str, value: RawBsonRef<'_>) -> Error {
    let found = type_name(value);
    Error::type_mismatch(format!(
        "\"{name}\" had the wrong type. Expected {kind}, found {found}"
    ))
}

fn check_mode(mode: Option<RawBsonRef<'_>>) -> Result<&str> {
    let missing = || Error::new(Code::NoSuchKey, "Missing expected field \"mode\"");
    let value = mode.ok_or_else(missing)?;
    let mode = value
        .as_str()
        .ok_or_else(|| expected("mode", "string", value))?;
    match mode {
        "primary" | "primaryPreferred" | "secondary" | "secondaryPreferred" | "nearest" => Ok(mode),
        _ => Err(Error::bad_value(format!(
            "Could not parse $readPreference mode '{mode}'. Only the modes 'primary', \
             'primaryPreferred', 'secondary', 'secondaryPreferred', and 'nearest' are \
             supported. :: caused by :: Enumeration value '{mode}' for field 'mode' is not a \
             valid value."
        ))),
    }
}

/// Whether there is any but the one that fits all.
fn check_tags(tags: Option<RawBsonRef<'_>>) -> Result<bool> {
    let Some(value) = tags else {
        return Ok(false);
    };
    let tags = value
        .as_array()
        .ok_or_else(|| expected("tags", "array", value))?;
    let fits_all = |set: &RawDocument| set.is_empty();
    let mut sets = tags.into_iter().flatten().enumerate();
    Ok(sets.any(|(number, set)| number > 0 || !set.as_document().is_some_and(fits_all)))
}

fn check_staleness(value: Option<RawBsonRef<'_>>, is_primary: bool) -> Result<()> {
    let Some(value) = value else { return Ok(()) };
    let seconds = integer(value).ok_or_else(|| {
        let found = type_name(value);
        Error::type_mismatch(format!(
            "Expected field \"maxStalenessSeconds\" to have numeric type, but found {found}"
        ))
    })?;
    let wrong = |message: &str| Err(Error::new(Code::MaxStalenessOutOfRange, message));
    match seconds {
        0 => Ok(()),
        ..0 => Err(Error::bad_value(
            "maxStalenessSeconds must be a non-negative integer",
        )),
        _ if is_primary => Err(Error::bad_value(
            "maxStalenessSeconds can not be set for the primary mode",
        )),
        1..STALENESS_SECONDS_MIN => wrong("maxStalenessSeconds value can not be less than 90"),
        _ => Ok(()),
    }
}

fn check_hedge(value: Option<RawBsonRef<'_>>, mode: &str) -> Result<()> {
    let Some(value) = value else { return Ok(()) };
    let hedge = value.as_document().ok_or_else(|| {
        let found = meridian_engine::text::element("hedge", value);
        Error::type_mismatch(format!(
            "hedge field must be of type object if provided; found {found}"
        ))
    })?;
    let mut is_enabled = true;
    for (name, value) in elements(hedge) {
        is_enabled = match (name, value) {
            ("enabled", RawBsonRef::Boolean(own)) => own,
            ("enabled", other) => return Err(wrong_type("hedge.enabled", other, &["bool"])),
            _ => return Err(unknown_field("hedge", name)),
        };
    }
    match is_enabled && mode == "primary" {
        true => Err(Error::new(
            Code::InvalidOptions,
            "cannot enable hedging for $readPreference mode \"primaryOnly\"",
        )),
        false => Ok(()),
    }
}
