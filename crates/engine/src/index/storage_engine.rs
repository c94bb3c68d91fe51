//! The option `storageEngine` of collections and indexes: MongoDB's place for what only one engine knows.
//!
//! Here that is `{meridian: {compression: "none" | "lz4" | "zstd", compressionLevel: 1 to 22}}`.

use crate::storage::{Algorithm, Compression, ZSTD_LEVEL_DEFAULT, ZSTD_LEVELS};
use crate::types::type_name;
use crate::{Code, Error, Result};
use bson::raw::{RawBsonRef, RawDocument};
use meridian_value::number::Number;

/// The name by which options are ours.
const ENGINE: &str = "meridian";

/// The compression that was chosen, if any.
///
/// # Errors
/// mongod's for engines it does not have, for options the engine does not have and for wrong types.
pub fn parse(engines: &RawDocument) -> Result<Option<Compression>> {
    let mut compression = None;
    for (engine, value) in engines.iter().flatten() {
        let Some(options) = value.as_document() else {
            return Err(Error::bad_value(format!(
                "'storageEngine.{engine}' has to be an embedded document."
            )));
        };
        if engine != ENGINE {
            return Err(Error::new(
                Code::InvalidOptions,
                format!(
                    "{engine} is not a registered storage engine for this server; what '{ENGINE}' takes is \
                     storageEngine: {{{ENGINE}: {{compression: 'none' | 'lz4' | 'zstd', compressionLevel: <number>}}}}"
                ),
            ));
        }
        compression = parse_options(options)?;
    }
    Ok(compression)
}

fn parse_options(options: &RawDocument) -> Result<Option<Compression>> {
    let (mut name, mut level) = (None, None);
    for (key, value) in options.iter().flatten() {
        match key.as_str() {
            "compression" => {
                name = Some(
                    value
                        .as_str()
                        .ok_or_else(|| wrong_type(key.as_str(), value, "string"))?,
                );
            }
            "compressionLevel" => level = Some(parse_level(value)?),
            other => {
                return Err(Error::new(
                    Code::InvalidOptions,
                    format!("'{other}' is not a supported option."),
                ));
            }
        }
    }
    let algorithm = match (name, level) {
        (None, None) => return Ok(None),
        (Some("zstd"), level) => Algorithm::Zstd(level.unwrap_or(ZSTD_LEVEL_DEFAULT)),
        (_, Some(_)) => {
            return Err(Error::new(
                Code::InvalidOptions,
                "'compressionLevel' requires compression: 'zstd'",
            ));
        }
        (Some("none"), None) => Algorithm::None,
        (Some("lz4"), None) => Algorithm::Lz4,
        (Some(other), None) => {
            return Err(Error::bad_value(format!(
                "'storageEngine.{ENGINE}.compression' has to be 'none', 'lz4' or 'zstd', not '{other}'"
            )));
        }
    };
    Ok(Some(Compression::Chosen(algorithm)))
}

fn parse_level(value: RawBsonRef<'_>) -> Result<u8> {
    let number =
        Number::from_raw(value).ok_or_else(|| wrong_type("compressionLevel", value, "int"))?;
    let level = number
        .to_i64_exact()
        .and_then(|level| u8::try_from(level).ok());
    level.filter(|level| ZSTD_LEVELS.contains(level)).ok_or_else(|| {
        Error::bad_value(format!(
            "'storageEngine.{ENGINE}.compressionLevel' has to be a whole number from {} to {}, not {}",
            ZSTD_LEVELS.start(),
            ZSTD_LEVELS.end(),
            crate::text::text(value)
        ))
    })
}

fn wrong_type(field: &str, value: RawBsonRef<'_>, expected: &str) -> Error {
    let found = type_name(value.element_type());
    Error::type_mismatch(format!(
        "BSON field 'storageEngine.{ENGINE}.{field}' is the wrong type '{found}', expected type '{expected}'"
    ))
}
