//! What `$collStats` asks for.

use crate::error::{Error, Result};
use crate::expression::value::corrupt;
use crate::text;
use crate::types::type_name;
use bson::raw::{RawBsonRef, RawDocument};
use meridian_value::number::Number;

/// Its options; what is null is not asked for.
#[derive(Debug, Clone, Copy, Default)]
pub struct CollectionStatsOptions {
    /// `latencyStats`, and whether with histograms.
    pub latencies: Option<bool>,
    /// `storageStats`, and by what sizes are divided.
    pub storage: Option<i64>,
    /// `count`.
    pub counts: bool,
    /// `queryExecStats`.
    pub queries: bool,
}

impl CollectionStatsOptions {
    /// Reads the operand of `$collStats`.
    ///
    /// # Errors
    /// 5447000, 31170; unknown fields and wrong types.
    pub fn parse(raw: RawBsonRef<'_>) -> Result<Self> {
        let RawBsonRef::Document(options) = raw else {
            let found = text::element("$collStats", raw);
            let message = format!("$collStats must take a nested object but found: {found}");
            return Err(Error::location(5_447_000, message));
        };
        let mut parsed = Self::default();
        for entry in options {
            let (name, value) = entry.map_err(corrupt)?;
            let name = name.as_str();
            let path = format!("$collStats.{name}");
            if !matches!(
                name,
                "latencyStats" | "storageStats" | "count" | "queryExecStats"
            ) {
                return Err(unknown(&path));
            }
            let options = match value {
                RawBsonRef::Null | RawBsonRef::Undefined => continue,
                RawBsonRef::Document(options) => options,
                other => return Err(wrong_type(&path, other, "type 'object'")),
            };
            match name {
                "latencyStats" => parsed.latencies = Some(parse_latencies(options, &path)?),
                "storageStats" => parsed.storage = Some(parse_storage(options, &path)?),
                "count" => parsed.counts = is_empty(options)?,
                _ => parsed.queries = is_empty(options)?,
            }
        }
        Ok(parsed)
    }

    /// The first that is asked for of what no view has.
    pub fn first_of_collection(&self) -> Option<&'static str> {
        match self {
            Self {
                storage: Some(_), ..
            } => Some("storageStats"),
            Self { counts: true, .. } => Some("count"),
            Self { queries: true, .. } => Some("queryExecStats"),
            _ => None,
        }
    }
}

fn parse_latencies(options: &RawDocument, path: &str) -> Result<bool> {
    let mut histograms = false;
    for entry in options {
        let (name, value) = entry.map_err(corrupt)?;
        match name.as_str() {
            "histograms" => histograms = boolean("histograms", value)?,
            other => return Err(unknown(&format!("{path}.{other}"))),
        }
    }
    Ok(histograms)
}

fn parse_storage(options: &RawDocument, path: &str) -> Result<i64> {
    let mut scale = 1;
    for entry in options {
        let (name, value) = entry.map_err(corrupt)?;
        match name.as_str() {
            name @ ("verbose" | "waitForLock" | "numericOnly") => _ = boolean(name, value)?,
            "scale" if matches!(value, RawBsonRef::Null | RawBsonRef::Undefined) => {}
            "scale" => {
                let expected = "types '[long, int, decimal, double']";
                let number = Number::from_raw(value);
                let number =
                    number.ok_or_else(|| wrong_type(&format!("{path}.scale"), value, expected))?;
                scale = number.to_i64_truncated().unwrap_or(i64::MAX);
                if scale < 1 {
                    let message =
                        format!("BSON field 'scale' value must be >= 1, actual value '{scale}'");
                    return Err(Error::location(51024, message));
                }
            }
            _ => {}
        }
    }
    Ok(scale)
}

fn is_empty(options: &RawDocument) -> Result<bool> {
    match options.is_empty() {
        true => Ok(true),
        false => Err(Error::location(
            31170,
            format!(
                "expected an empty object, but got {}",
                text::document_text(options)
            ),
        )),
    }
}

fn boolean(name: &str, value: RawBsonRef<'_>) -> Result<bool> {
    value.as_bool().ok_or_else(|| {
        let found = type_name(value.element_type());
        Error::type_mismatch(format!(
            "Field '{name}' should be a boolean value, but found: {found}"
        ))
    })
}

fn unknown(path: &str) -> Error {
    Error::location(40415, format!("BSON field '{path}' is an unknown field."))
}

fn wrong_type(path: &str, value: RawBsonRef<'_>, expected: &str) -> Error {
    let found = type_name(value.element_type());
    Error::type_mismatch(format!(
        "BSON field '{path}' is the wrong type '{found}', expected {expected}"
    ))
}
