//! Strings.

use super::control::number;
use super::convert::{display, general};
use super::{Value, date};
use crate::error::{Error, Result};
use crate::expression::time::text as time_text;
use crate::expression::value::{check_buffer, items_bytes};
use crate::operation::memory;
use bson::RawBsonRef;
use meridian_value::number::Number;
use meridian_value::text::is_utf8;
use std::borrow::Cow;

/// `$concat` makes no string of so many bytes: MongoDB's limit.
const CONCAT_BYTES_MAX: usize = 16 << 20;

/// `$concat`.
pub fn concat<'a>(_: &'static str, arguments: &mut [Value<'a>]) -> Result<Value<'a>> {
    let mut joined = String::new();
    for argument in arguments {
        if argument.is_nullish() {
            return Ok(Value::NULL);
        }
        let Some(text) = argument.as_str() else {
            return Err(Error::location(
                16702,
                format!(
                    "$concat only supports strings, not {}",
                    argument.type_name()
                ),
            ));
        };
        if joined.len() + text.len() >= CONCAT_BYTES_MAX {
            return Err(Error::location(
                16493,
                "Tried to create string longer than 16MB",
            ));
        }
        joined.push_str(text);
    }
    Ok(Value::string(joined))
}

/// The text of a value where MongoDB takes numbers and dates for strings; null is empty.
fn coerced<'v>(value: &'v Value<'_>) -> Result<Cow<'v, str>> {
    if value.is_nullish() {
        return Ok("".into());
    }
    if let Some(text) = value.as_str() {
        return Ok(text.into());
    }
    Ok(match value.raw() {
        Some(RawBsonRef::Int32(value)) => value.to_string().into(),
        Some(RawBsonRef::Int64(value)) => value.to_string().into(),
        Some(RawBsonRef::Double(value)) => general(value, 6).into(),
        Some(RawBsonRef::Decimal128(value)) => value.to_string().into(),
        Some(RawBsonRef::DateTime(date)) => date::iso(date.timestamp_millis())?.into(),
        Some(RawBsonRef::Timestamp(stamp)) => {
            time_text::clock(i64::from(stamp.time) * 1000, stamp.increment).into()
        }
        Some(RawBsonRef::Symbol(text) | RawBsonRef::JavaScriptCode(text)) => text.into(),
        _ => {
            return Err(Error::location(
                16007,
                format!(
                    "can't convert from BSON type {} to String",
                    value.type_name()
                ),
            ));
        }
    })
}

/// `$toLower`: ASCII letters only, as MongoDB.
pub fn to_lower<'a>(_: &'static str, arguments: &mut [Value<'a>]) -> Result<Value<'a>> {
    Ok(Value::string(coerced(&arguments[0])?.to_ascii_lowercase()))
}

/// `$toUpper`: ASCII letters only, as MongoDB.
pub fn to_upper<'a>(_: &'static str, arguments: &mut [Value<'a>]) -> Result<Value<'a>> {
    Ok(Value::string(coerced(&arguments[0])?.to_ascii_uppercase()))
}

/// `$strcasecmp`.
pub fn compare_ignoring_case<'a>(
    _: &'static str,
    arguments: &mut [Value<'a>],
) -> Result<Value<'a>> {
    let upper = |value: &Value<'_>| coerced(value).map(|text| text.to_ascii_uppercase());
    let order = upper(&arguments[0])?.cmp(&upper(&arguments[1])?);
    Ok(Value::int32(order as i32))
}

fn coerced_long(value: &Value<'_>) -> Result<i64> {
    let given = number(value);
    given.and_then(Number::to_i64_rounded).ok_or_else(|| {
        let shown = given.map_or_else(String::new, |given| general(given.to_f64(), 6));
        Error::location(
            31109,
            format!("Can't coerce out of range value {shown} to long"),
        )
    })
}

/// `$substr` and `$substrBytes`.
pub fn substring_bytes<'a>(_: &'static str, arguments: &mut [Value<'a>]) -> Result<Value<'a>> {
    const NAME: &str = "$substrBytes";
    let text = coerced(&arguments[0])?;
    let check = |value: &Value<'_>, code, what| {
        if value.is_number() {
            return Ok(());
        }
        let found = value.type_name();
        Err(Error::location(
            code,
            format!("{NAME}:  {what} must be a numeric type (is BSON type {found})"),
        ))
    };
    check(&arguments[1], 16034, "starting index")?;
    check(&arguments[2], 16035, "length")?;
    let start = coerced_long(&arguments[1])?;
    let length = coerced_long(&arguments[2])?;
    let Ok(start) = usize::try_from(start) else {
        return Err(Error::location(
            50752,
            format!("{NAME}:  starting index must be non-negative (got: {start})"),
        ));
    };
    if start >= text.len() {
        return Ok(Value::string(""));
    }
    if !text.is_char_boundary(start) {
        return Err(Error::location(
            28656,
            format!("{NAME}:  Invalid range, starting index is a UTF-8 continuation byte."),
        ));
    }
    let length = usize::try_from(length).unwrap_or(usize::MAX);
    let end = start.saturating_add(length).min(text.len());
    if !text.is_char_boundary(end) {
        return Err(Error::location(
            28657,
            format!("{NAME}:  Invalid range, ending index is in the middle of a UTF-8 character."),
        ));
    }
    Ok(Value::string(&text[start..end]))
}

/// `$substrCP`.
pub fn substring_points<'a>(_: &'static str, arguments: &mut [Value<'a>]) -> Result<Value<'a>> {
    let text = coerced(&arguments[0])?;
    let whole =
        |value: &Value<'_>, codes: (i32, i32), what| {
            let Some(given) = number(value) else {
                return Err(Error::location(
                    codes.0,
                    format!(
                        "$substrCP: {what} must be a numeric type (is BSON type {})",
                        value.type_name()
                    ),
                ));
            };
            given.to_i64_exact().and_then(|whole| i32::try_from(whole).ok()).ok_or_else(|| {
            Error::location(
                codes.1,
                format!(
                    "$substrCP: {what} cannot be represented as a 32-bit integral value: {}",
                    display(value)
                ),
            )
        })
        };
    let start = whole(&arguments[1], (34450, 34451), "starting index")?;
    let length = whole(&arguments[2], (34452, 34453), "length")?;
    let Ok(length) = usize::try_from(length) else {
        return Err(Error::location(
            34454,
            "$substrCP: length must be a nonnegative integer.",
        ));
    };
    let Ok(start) = usize::try_from(start) else {
        return Err(Error::location(
            34455,
            "$substrCP: the starting index must be nonnegative integer.",
        ));
    };
    if !is_utf8(&text) {
        return Err(Error::location(34459, "$substrCP: invalid UTF-8 string"));
    }
    Ok(Value::string(
        text.chars().skip(start).take(length).collect::<String>(),
    ))
}

/// `$strLenBytes`.
pub fn length_bytes<'a>(name: &'static str, arguments: &mut [Value<'a>]) -> Result<Value<'a>> {
    length(name, 34473, &arguments[0], str::len)
}

/// `$strLenCP`.
pub fn length_points<'a>(name: &'static str, arguments: &mut [Value<'a>]) -> Result<Value<'a>> {
    length(name, 34471, &arguments[0], |text| text.chars().count())
}

fn length<'a>(
    name: &str,
    code: i32,
    argument: &Value<'a>,
    count: impl Fn(&str) -> usize,
) -> Result<Value<'a>> {
    match argument.as_str() {
        Some(text) => Ok(Value::int_or_long(count(text) as i64)),
        None => Err(Error::location(
            code,
            format!(
                "{name} requires a string argument, found: {}",
                argument.type_name()
            ),
        )),
    }
}

/// The bound of a search, from the third and fourth arguments of `$indexOf...`.
pub fn search_bound(name: &str, value: &Value<'_>, which: &str) -> Result<usize> {
    let whole = number(value)
        .and_then(Number::to_i64_exact)
        .and_then(|whole| i32::try_from(whole).ok());
    let Some(whole) = whole else {
        return Err(Error::location(
            40096,
            format!(
                "{name}requires an integral {which} index, found a value of type: {}, with value: {}",
                value.type_name(),
                display(value)
            ),
        ));
    };
    usize::try_from(whole).map_err(|_| {
        Error::location(
            40097,
            format!("{name} requires a nonnegative {which} index, found: {whole}"),
        )
    })
}

/// The two texts of a search; none where the first is null.
fn search_texts<'v>(
    name: &str,
    codes: (i32, i32),
    arguments: &'v [Value<'_>],
) -> Result<Option<(&'v str, &'v str)>> {
    if arguments[0].is_nullish() {
        return Ok(None);
    }
    let text = |value: &'v Value<'_>, code, which| {
        value.as_str().ok_or_else(|| {
            Error::location(
                code,
                format!(
                    "{name} requires a string as the {which} argument, found: {}",
                    value.type_name()
                ),
            )
        })
    };
    Ok(Some((
        text(&arguments[0], codes.0, "first")?,
        text(&arguments[1], codes.1, "second")?,
    )))
}

/// `$indexOfBytes`.
pub fn index_of_bytes<'a>(name: &'static str, arguments: &mut [Value<'a>]) -> Result<Value<'a>> {
    let Some((text, wanted)) = search_texts(name, (40091, 40092), arguments)? else {
        return Ok(Value::NULL);
    };
    let start = arguments
        .get(2)
        .map_or(Ok(0), |value| search_bound(name, value, "starting"))?;
    let end = arguments
        .get(3)
        .map_or(Ok(text.len()), |value| search_bound(name, value, "ending"))?;
    let end = end.min(text.len());
    if start > text.len() || end < start {
        return Ok(Value::int32(-1));
    }
    let haystack = &text.as_bytes()[start..end];
    let found = memchr::memmem::find(haystack, wanted.as_bytes());
    Ok(found.map_or(Value::int32(-1), |index| {
        Value::int_or_long((start + index) as i64)
    }))
}

/// `$indexOfCP`.
pub fn index_of_points<'a>(name: &'static str, arguments: &mut [Value<'a>]) -> Result<Value<'a>> {
    let Some((text, wanted)) = search_texts(name, (40093, 40094), arguments)? else {
        return Ok(Value::NULL);
    };
    let starts: Vec<usize> = text.char_indices().map(|(index, _)| index).collect();
    let start = arguments
        .get(2)
        .map_or(Ok(0), |value| search_bound(name, value, "starting"))?;
    let end = arguments.get(3).map_or(Ok(starts.len()), |value| {
        search_bound(name, value, "ending")
    })?;
    let end = end.min(starts.len());
    // MongoDB finds an empty string at the end only in an empty string.
    if start >= end && !(text.is_empty() && wanted.is_empty() && start == 0) {
        return Ok(Value::int32(-1));
    }
    let end_byte = starts.get(end).copied().unwrap_or(text.len());
    let start_byte = starts.get(start).copied().unwrap_or(text.len());
    let found = text[start_byte..end_byte].find(wanted);
    Ok(found.map_or(Value::int32(-1), |bytes| {
        let points = text[start_byte..start_byte + bytes].chars().count();
        Value::int_or_long((start + points) as i64)
    }))
}

/// `$split`.
pub fn split<'a>(_: &'static str, arguments: &mut [Value<'a>]) -> Result<Value<'a>> {
    let [input, separator] = &*arguments else {
        unreachable!("arity 2")
    };
    if input.is_nullish() || separator.is_nullish() {
        return Ok(Value::NULL);
    }
    let text = |value: &Value<'a>, code, which| match value.as_str() {
        Some(text) => Ok(text.to_owned()),
        None => Err(Error::location(
            code,
            format!(
                "$split requires an expression that evaluates to a string as a {which} argument, \
                 found: {}",
                value.type_name()
            ),
        )),
    };
    let input = text(input, 40085, "first")?;
    let separator = text(separator, 40086, "second")?;
    if separator.is_empty() {
        return Err(Error::location(
            40087,
            "$split requires a non-empty separator",
        ));
    }
    let parts = memchr::memmem::find_iter(input.as_bytes(), separator.as_bytes()).count() + 1;
    memory::expect_values(input.len() + 2 * items_bytes(2 * parts))?;
    Ok(Value::array(
        input.split(&separator).map(Value::string).collect(),
    ))
}

/// What `$trim` takes away when it is not told.
const WHITESPACE: [char; 20] = [
    '\0', ' ', '\t', '\n', '\u{0B}', '\u{0C}', '\r', '\u{A0}', '\u{1680}', '\u{2000}', '\u{2001}',
    '\u{2002}', '\u{2003}', '\u{2004}', '\u{2005}', '\u{2006}', '\u{2007}', '\u{2008}', '\u{2009}',
    '\u{200A}',
];

/// `$trim`, `$ltrim`, `$rtrim`.
pub fn trim<'a>(name: &'static str, arguments: &mut [Option<Value<'a>>]) -> Result<Value<'a>> {
    let input = arguments[0].as_ref().expect("a required argument");
    if input.is_nullish() {
        return Ok(Value::NULL);
    }
    let text = |value: &Value<'_>, code, what: &str| match value.as_str() {
        Some(text) => Ok(text.to_owned()),
        None => Err(Error::location(
            code,
            format!(
                "{name} requires {what} to be a string, got {} (of type {}) instead.",
                display(value),
                value.type_name()
            ),
        )),
    };
    let input = text(input, 50699, "its input")?;
    let unwanted: Vec<char> = match &arguments[1] {
        None => WHITESPACE.to_vec(),
        Some(chars) if chars.is_nullish() => return Ok(Value::NULL),
        Some(chars) => text(chars, 50700, "'chars'")?.chars().collect(),
    };
    let mut trimmed = input.as_str();
    if name != "$rtrim" {
        trimmed = trimmed.trim_start_matches(&unwanted[..]);
    }
    if name != "$ltrim" {
        trimmed = trimmed.trim_end_matches(&unwanted[..]);
    }
    Ok(Value::string(trimmed))
}

/// `$replaceOne` and `$replaceAll`.
pub fn replace<'a>(name: &'static str, arguments: &mut [Option<Value<'a>>]) -> Result<Value<'a>> {
    let mut texts = Vec::with_capacity(3);
    let mut null = false;
    for (argument, (what, code)) in
        arguments
            .iter()
            .zip([("input", 51746), ("find", 51745), ("replacement", 51744)])
    {
        let argument = argument.as_ref().expect("a required argument");
        null |= argument.is_nullish();
        match argument.as_str() {
            Some(text) => texts.push(text),
            None if argument.is_nullish() => {}
            None => {
                return Err(Error::location(
                    code,
                    format!(
                        "{name} requires that '{what}' be a string, found: {}",
                        display(argument)
                    ),
                ));
            }
        }
    }
    if null {
        return Ok(Value::NULL);
    }
    let [input, find, replacement] = texts[..] else {
        unreachable!("three texts")
    };
    check_replaced(name, input, find, replacement)?;
    Ok(Value::string(if name == "$replaceOne" {
        input.replacen(find, replacement, 1)
    } else {
        input.replace(find, replacement)
    }))
}

/// Refuses a replacement that makes the text too large.
fn check_replaced(name: &str, input: &str, find: &str, replacement: &str) -> Result<()> {
    let places = match name {
        "$replaceOne" => 1,
        // An empty text is found at each character.
        _ if find.is_empty() => input.len() + 1,
        _ => memchr::memmem::find_iter(input.as_bytes(), find.as_bytes()).count(),
    };
    let grown = places.saturating_mul(replacement.len().saturating_sub(find.len()));
    let bytes = input.len().saturating_add(grown);
    check_buffer(bytes)?;
    // Growing may double the memory.
    memory::expect_values(2 * bytes)
}
