//! Types: `$convert` and its shorthands, `$type`, `$isNumber`, `$not`, and values as text.

use super::arithmetic::from_number;
use super::control::number;
use super::{Value, date};
use crate::error::{Code, Error, Result};
use crate::text::document_text;
use bson::RawBsonRef;
use bson::oid::ObjectId;
use meridian_value::number::{Decimal, Number};
use std::fmt::Write;

/// `$not`.
pub fn not<'a>(_: &'static str, arguments: &mut [Value<'a>]) -> Result<Value<'a>> {
    Ok(Value::boolean(!arguments[0].truthy()))
}

/// `$isNumber`.
pub fn is_number<'a>(_: &'static str, arguments: &mut [Value<'a>]) -> Result<Value<'a>> {
    Ok(Value::boolean(arguments[0].is_number()))
}

/// `$type`.
pub fn type_of<'a>(_: &'static str, arguments: &mut [Value<'a>]) -> Result<Value<'a>> {
    Ok(Value::Raw(RawBsonRef::String(arguments[0].type_name())))
}

/// `$toInt` and its like.
pub fn shorthand<'a>(name: &'static str, arguments: &mut [Value<'a>]) -> Result<Value<'a>> {
    if arguments[0].is_nullish() {
        return Ok(Value::NULL);
    }
    let target = match name {
        "$toBool" => "bool",
        "$toInt" => "int",
        "$toLong" => "long",
        "$toDouble" => "double",
        "$toDecimal" => "decimal",
        "$toString" => "string",
        "$toDate" => "date",
        _ => "objectId",
    };
    to_type(&arguments[0], target)
}

/// `$convert`.
pub fn convert<'a>(_: &'static str, arguments: &mut [Option<Value<'a>>]) -> Result<Value<'a>> {
    let [input, to, on_error, on_null] = arguments else {
        unreachable!("four parameters")
    };
    let input = input.take().expect("a required argument");
    let to = to.take().expect("a required argument");
    let target = match to.is_nullish() {
        true => None,
        false => Some(target_type(&to)?),
    };
    if input.is_nullish() {
        return Ok(on_null.take().unwrap_or(Value::NULL));
    }
    let Some(target) = target else {
        return Ok(Value::NULL);
    };
    match (to_type(&input, target), on_error.take()) {
        (Err(error), Some(fallback)) if error.code == Code::ConversionFailure => Ok(fallback),
        (result, _) => result,
    }
}

const TYPES: [(&str, i32); 22] = [
    ("double", 1),
    ("string", 2),
    ("object", 3),
    ("array", 4),
    ("binData", 5),
    ("undefined", 6),
    ("objectId", 7),
    ("bool", 8),
    ("date", 9),
    ("null", 10),
    ("regex", 11),
    ("dbPointer", 12),
    ("javascript", 13),
    ("symbol", 14),
    ("javascriptWithScope", 15),
    ("int", 16),
    ("timestamp", 17),
    ("long", 18),
    ("decimal", 19),
    ("minKey", -1),
    ("maxKey", 127),
    ("missing", 0),
];

fn target_type(to: &Value<'_>) -> Result<&'static str> {
    if let Some(name) = to.as_str() {
        let found = TYPES.iter().find(|(known, _)| *known == name);
        return found
            .map(|(known, _)| *known)
            .ok_or_else(|| Error::bad_value(format!("Unknown type name: {name}")));
    }
    let Some(given) = number(to) else {
        return Err(Error::failed_to_parse(format!(
            "$convert's 'to' argument must be a string or number, but is {}",
            to.type_name()
        )));
    };
    let Some(code) = given.to_i64_exact() else {
        return Err(Error::failed_to_parse(
            "In $convert, numeric 'to' argument is not an integer",
        ));
    };
    let found = TYPES.iter().find(|(_, known)| i64::from(*known) == code);
    found.map(|(known, _)| *known).ok_or_else(|| {
        Error::failed_to_parse(format!(
            "In $convert, numeric value for 'to' does not correspond to a BSON type: {code}"
        ))
    })
}

const CONTEXT: &str = "in $convert with no onError value";

fn failure(text: String) -> Error {
    Error::new(Code::ConversionFailure, text)
}

fn to_type<'a>(input: &Value<'a>, target: &str) -> Result<Value<'a>> {
    let unsupported = || {
        failure(format!(
            "Unsupported conversion from {} to {target} {CONTEXT}",
            input.type_name()
        ))
    };
    if input.type_name() == target
        && matches!(
            target,
            "double" | "string" | "objectId" | "bool" | "date" | "int" | "long" | "decimal"
        )
    {
        return Ok(input.clone());
    }
    match target {
        "bool" => Ok(Value::boolean(input.truthy())),
        "string" => to_text(input)?.map(Value::string).ok_or_else(unsupported),
        "int" | "long" | "double" | "decimal" => to_number(input, target, &unsupported),
        "date" => to_date(input, &unsupported),
        "objectId" => match input.as_str() {
            Some(text) => to_object_id(text),
            None => Err(unsupported()),
        },
        _ => Err(unsupported()),
    }
}

fn to_text(input: &Value<'_>) -> Result<Option<String>> {
    Ok(match input {
        Value::Raw(RawBsonRef::ObjectId(id)) => Some(id.to_hex()),
        Value::Raw(RawBsonRef::Boolean(value)) => Some(value.to_string()),
        Value::Raw(RawBsonRef::DateTime(date)) => Some(date::iso(date.timestamp_millis())?),
        Value::Raw(RawBsonRef::Double(value)) => Some(double_text(*value)),
        Value::Raw(RawBsonRef::Int32(value)) => Some(value.to_string()),
        Value::Raw(RawBsonRef::Int64(value)) => Some(value.to_string()),
        Value::Raw(RawBsonRef::Decimal128(value)) => Some(value.to_string()),
        _ => None,
    })
}

/// A double as `$toString` writes it.
pub fn double_text(value: f64) -> String {
    if value.is_nan() {
        "NaN".into()
    } else if value.is_infinite() {
        if value > 0.0 {
            "Infinity".into()
        } else {
            "-Infinity".into()
        }
    } else {
        general(value, 6)
    }
}

fn to_number<'a>(
    input: &Value<'a>,
    target: &str,
    unsupported: &dyn Fn() -> Error,
) -> Result<Value<'a>> {
    if let Some(text) = input.as_str() {
        return parse_number(text, target);
    }
    let source = match input {
        Value::Raw(RawBsonRef::Boolean(value)) => Number::Int32(i32::from(*value)),
        Value::Raw(RawBsonRef::DateTime(date)) if target != "int" => {
            Number::Int64(date.timestamp_millis())
        }
        other => number(other).ok_or_else(unsupported)?,
    };
    match target {
        "double" => {
            let converted = source.to_f64();
            if converted.is_infinite() && !source.is_infinite() {
                return Err(overflow(source));
            }
            Ok(Value::double(converted))
        }
        "decimal" => Ok(from_number(Number::Decimal(source.to_decimal()))),
        "int" => {
            let whole = to_whole(source)?;
            i32::try_from(whole)
                .map(Value::int32)
                .map_err(|_| overflow(source))
        }
        _ => to_whole(source).map(Value::int64),
    }
}

fn to_whole(source: Number) -> Result<i64> {
    if source.is_nan() {
        return Err(failure(format!(
            "Attempt to convert NaN value to integer type {CONTEXT}"
        )));
    }
    if source.is_infinite() {
        return Err(failure(format!(
            "Attempt to convert infinity value to integer type {CONTEXT}"
        )));
    }
    source.to_i64_truncated().ok_or_else(|| overflow(source))
}

fn overflow(source: Number) -> Error {
    // MongoDB leaves the value out where it is a long.
    let shown = match source {
        Number::Int64(_) => String::new(),
        other => display(&from_number(other)),
    };
    failure(format!(
        "Conversion would overflow target type {CONTEXT}: {shown}"
    ))
}

fn parse_number<'a>(text: &str, target: &str) -> Result<Value<'a>> {
    if text.starts_with("0x") || text.starts_with("0X") {
        return Err(failure(format!(
            "Illegal hexadecimal input {CONTEXT}: {text}"
        )));
    }
    let parsed = match target {
        "int" => parse_whole(text)
            .and_then(|value| i32::try_from(value).map_err(|_| "Overflow"))
            .map(Value::int32),
        "long" => parse_whole(text).map(Value::int64),
        "double" => parse_double(text).map(Value::double),
        _ if text.is_empty() => Err("Empty string"),
        _ => text
            .parse::<Decimal>()
            .map(|value| from_number(Number::Decimal(value)))
            .map_err(|_| "Failed to parse string to decimal"),
    };
    parsed.map_err(|reason| {
        failure(format!(
            "Failed to parse number '{text}' {CONTEXT}: {reason}"
        ))
    })
}

fn parse_whole(text: &str) -> std::result::Result<i64, &'static str> {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    if digits.is_empty() {
        return Err("No digits");
    }
    if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err("Did not consume whole string.");
    }
    text.parse().map_err(|_| "Overflow")
}

fn parse_double(text: &str) -> std::result::Result<f64, &'static str> {
    if text.is_empty() {
        return Err("Empty string");
    }
    if text.starts_with(|c: char| c.is_ascii_whitespace()) {
        return Err("Leading whitespace");
    }
    let value: f64 = match text.parse() {
        Ok(value) => value,
        Err(_) if text.starts_with(|c: char| c.is_ascii_digit()) => {
            return Err("Did not consume whole string.");
        }
        Err(_) => return Err("Did not consume any digits"),
    };
    let mantissa = text.split(['e', 'E']).next().unwrap_or(text);
    let not_zero = mantissa.bytes().any(|byte| (b'1'..=b'9').contains(&byte));
    if not_zero && (value.is_infinite() || value == 0.0) {
        return Err("Out of range");
    }
    Ok(value)
}

fn to_date<'a>(input: &Value<'a>, unsupported: &dyn Fn() -> Error) -> Result<Value<'a>> {
    if let Some(text) = input.as_str() {
        return date::parse_text(text, None, None).map(Value::date);
    }
    match input {
        Value::Raw(RawBsonRef::ObjectId(id)) => Ok(Value::date(id.timestamp().timestamp_millis())),
        Value::Raw(RawBsonRef::Timestamp(stamp)) => Ok(Value::date(i64::from(stamp.time) * 1000)),
        Value::Raw(RawBsonRef::Int64(millis)) => Ok(Value::date(*millis)),
        Value::Raw(RawBsonRef::Double(_) | RawBsonRef::Decimal128(_)) => {
            to_whole(number(input).expect("a number")).map(Value::date)
        }
        _ => Err(unsupported()),
    }
}

fn to_object_id<'a>(text: &str) -> Result<Value<'a>> {
    let reason = if text.len() != 24 {
        format!(
            "Invalid string length for parsing to OID, expected 24 but found {}",
            text.len()
        )
    } else if let Some(bad) = text.chars().find(|c| !c.is_ascii_hexdigit()) {
        format!("Invalid character found in hex string: {bad}")
    } else {
        let id = ObjectId::parse_str(text).expect("24 hexadecimal digits");
        return Ok(Value::Raw(RawBsonRef::ObjectId(id)));
    };
    Err(failure(format!(
        "Failed to parse objectId '{text}' {CONTEXT}: {reason}"
    )))
}

/// No longer text of a value is shown in a message, which is cut there anyway.
const SHOWN_BYTES_MAX: usize = 64 << 10;

/// A value as MongoDB shows it in the messages of expressions: `{a: 1, b: [1, "x"]}`.
pub fn display(value: &Value<'_>) -> String {
    let mut out = String::new();
    show(value, &mut out);
    out
}

/// Appends the text of a value, as long as there is room for it.
fn show(value: &Value<'_>, out: &mut String) {
    if let Some(text) = value.as_str() {
        let _ = write!(out, "\"{text}\"");
    } else if let Ok(Some(items)) = value.items() {
        out.push('[');
        for (index, item) in items.iter().enumerate() {
            if out.len() > SHOWN_BYTES_MAX {
                return;
            }
            out.push_str(if index == 0 { "" } else { ", " });
            show(item, out);
        }
        out.push(']');
    } else if let Ok(Some(fields)) = value.fields() {
        out.push('{');
        for (index, (key, value)) in fields.iter().enumerate() {
            if out.len() > SHOWN_BYTES_MAX {
                return;
            }
            let comma = if index == 0 { "" } else { ", " };
            let _ = write!(out, "{comma}{key}: ");
            show(value, out);
        }
        out.push('}');
    } else {
        out.push_str(&display_scalar(value));
    }
}

fn display_scalar(value: &Value<'_>) -> String {
    if value.is_missing() {
        return "MISSING".into();
    }
    match value.raw() {
        Some(RawBsonRef::Null) => "null".into(),
        Some(RawBsonRef::Undefined) => "undefined".into(),
        Some(RawBsonRef::Double(value)) => general(value, 6),
        Some(RawBsonRef::RegularExpression(regex)) => {
            format!("/{}/{}", regex.pattern.as_str(), regex.options.as_str())
        }
        Some(RawBsonRef::Timestamp(stamp)) => {
            format!("Timestamp({}, {})", stamp.time, stamp.increment)
        }
        Some(RawBsonRef::Binary(binary)) => {
            let digits: String = binary
                .bytes
                .iter()
                .map(|byte| format!("{byte:02X}"))
                .collect();
            format!("BinData({}, \"{digits}\")", u8::from(binary.subtype))
        }
        Some(RawBsonRef::Symbol(symbol)) => format!("Symbol(\"{symbol}\")"),
        Some(RawBsonRef::JavaScriptCode(code)) => format!("Code(\"{code}\")"),
        Some(RawBsonRef::JavaScriptCodeWithScope(code)) => {
            let scope = document_text(code.scope);
            format!("CodeWScope(\"{}\", {scope})", code.code)
        }
        Some(RawBsonRef::MinKey) => "MinKey".into(),
        Some(RawBsonRef::MaxKey) => "MaxKey".into(),
        _ => match to_text(value) {
            Ok(Some(text)) => text,
            _ => format!("a value of type {}", value.type_name()),
        },
    }
}

/// A double as C's `%.{digits}g` writes it.
pub fn general(value: f64, digits: usize) -> String {
    if value.is_nan() {
        return "nan".into();
    }
    if value.is_infinite() {
        return if value > 0.0 {
            "inf".into()
        } else {
            "-inf".into()
        };
    }
    if value == 0.0 {
        return if value.is_sign_negative() {
            "-0".into()
        } else {
            "0".into()
        };
    }
    let scientific = format!("{value:.*e}", digits - 1);
    let (mantissa, exponent) = scientific.split_once('e').expect("scientific notation");
    let exponent: i32 = exponent.parse().expect("a decimal exponent");
    if exponent < -4 || exponent >= digits as i32 {
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{}e{sign}{:02}", trim_zeros(mantissa), exponent.abs());
    }
    let places = (digits as i32 - 1 - exponent).max(0) as usize;
    trim_zeros(&format!("{value:.places$}")).to_owned()
}

fn trim_zeros(text: &str) -> &str {
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.')
    } else {
        text
    }
}
