//! BSON values as MongoDB writes them into its messages: `{ a: 1, b: [ "x" ] }`.
//!
//! In: raw values. Out: text that equals `BSONElement::toString` of MongoDB 6.0, so that
//! messages which quote the client's own operands read the same. Nothing parses this text.

use bson::raw::{RawBinaryRef, RawBsonRef};
use bson::spec::BinarySubtype;
use bson::{RawArray, RawDocument};
use std::borrow::Cow;
use std::fmt::Write;

/// `name: value`, as MongoDB quotes one element of a document.
pub fn element(name: &str, value: RawBsonRef<'_>) -> String {
    format!("{name}: {}", text(value))
}

/// A value in MongoDB's notation.
pub fn text(value: RawBsonRef<'_>) -> String {
    match value {
        RawBsonRef::Double(number) => with_point(general(number, 16)),
        RawBsonRef::String(text) | RawBsonRef::Symbol(text) => {
            format!("\"{}\"", cut(text, 159, 150))
        }
        RawBsonRef::Document(document) => document_text(document),
        RawBsonRef::Array(array) => array_text(array),
        RawBsonRef::Binary(binary) => binary_text(binary),
        RawBsonRef::Undefined => "undefined".into(),
        RawBsonRef::ObjectId(id) => format!("ObjectId('{id}')"),
        RawBsonRef::Boolean(value) => value.to_string(),
        RawBsonRef::DateTime(date) => format!("new Date({})", date.timestamp_millis()),
        RawBsonRef::Null => "null".into(),
        RawBsonRef::RegularExpression(regex) => {
            format!("/{}/{}", regex.pattern.as_str(), regex.options.as_str())
        }
        RawBsonRef::JavaScriptCode(code) => cut(code, 80, 70).into(),
        RawBsonRef::JavaScriptCodeWithScope(code) => {
            format!("CodeWScope( {}, {})", code.code, document_text(code.scope))
        }
        RawBsonRef::Int32(number) => number.to_string(),
        RawBsonRef::Int64(number) => number.to_string(),
        RawBsonRef::Timestamp(stamp) => format!("Timestamp({}, {})", stamp.time, stamp.increment),
        RawBsonRef::Decimal128(number) => number.to_string(),
        RawBsonRef::MinKey => "MinKey".into(),
        RawBsonRef::MaxKey => "MaxKey".into(),
        RawBsonRef::DbPointer(_) => "DBRef".into(),
    }
}

/// `UUID("...")`, or the bytes in hexadecimal, of which MongoDB writes 70 when there are more
/// than 80.
fn binary_text(binary: RawBinaryRef<'_>) -> String {
    const UUID_DASHES: [usize; 4] = [4, 6, 8, 10];
    if binary.subtype == BinarySubtype::Uuid && binary.bytes.len() == 16 {
        let mut out = String::from("UUID(\"");
        for (index, byte) in binary.bytes.iter().enumerate() {
            let dash = if UUID_DASHES.contains(&index) {
                "-"
            } else {
                ""
            };
            let _ = write!(out, "{dash}{byte:02x}");
        }
        return out + "\")";
    }
    let is_long = binary.bytes.len() > 80;
    let shown = if is_long {
        &binary.bytes[..70]
    } else {
        binary.bytes
    };
    let mut out = format!("BinData({}, ", u8::from(binary.subtype));
    for byte in shown {
        let _ = write!(out, "{byte:02X}");
    }
    out + if is_long { "...)" } else { ")" }
}

/// The text, or its first `kept` bytes and dots when it is longer than `length_max` bytes.
fn cut(text: &str, length_max: usize, kept: usize) -> Cow<'_, str> {
    if text.len() <= length_max {
        return Cow::Borrowed(text);
    }
    let end = (0..=kept)
        .rev()
        .find(|end| text.is_char_boundary(*end))
        .unwrap_or(0);
    Cow::Owned(format!("{}...", &text[..end]))
}

/// A document in MongoDB's notation: `{}` or `{ a: 1, b: 2 }`.
pub fn document_text(document: &RawDocument) -> String {
    let parts: Vec<String> = document
        .iter()
        .flatten()
        .map(|(key, value)| element(key.as_str(), value))
        .collect();
    if parts.is_empty() {
        "{}".into()
    } else {
        format!("{{ {} }}", parts.join(", "))
    }
}

fn array_text(array: &RawArray) -> String {
    let parts: Vec<String> = array.into_iter().flatten().map(text).collect();
    if parts.is_empty() {
        "[]".into()
    } else {
        format!("[ {} ]", parts.join(", "))
    }
}

/// `StringBuilder::appendDoubleNice`: a number without a point gets one, `inf` and `nan` too.
fn with_point(text: String) -> String {
    if text.contains(['.', 'E', 'N']) {
        text
    } else {
        text + ".0"
    }
}

/// C's `%.{digits}g`.
pub fn general(number: f64, digits: usize) -> String {
    if number.is_nan() {
        return "nan".into();
    }
    if number.is_infinite() {
        return if number > 0.0 {
            "inf".into()
        } else {
            "-inf".into()
        };
    }
    let scientific = format!("{number:.*e}", digits - 1);
    let (mantissa, exponent) = scientific.split_once('e').expect("{:e} writes an exponent");
    let exponent: i32 = exponent.parse().expect("{:e} writes a decimal exponent");
    if exponent < -4 || exponent >= digits as i32 {
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{}e{sign}{:02}", trim_zeros(mantissa), exponent.abs());
    }
    let decimals = usize::try_from(digits as i32 - 1 - exponent).unwrap_or(0);
    trim_zeros(&format!("{number:.decimals$}")).to_owned()
}

fn trim_zeros(text: &str) -> &str {
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.')
    } else {
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bson::rawdoc;

    #[test]
    fn values_read_as_in_mongodb_messages() {
        let doc = rawdoc! { "a": 1, "b": [1.5, "x", 2.0], "c": {}, "d": [], "e": 1e300, "f": f64::NAN, "g": null };
        assert_eq!(
            document_text(&doc),
            "{ a: 1, b: [ 1.5, \"x\", 2.0 ], c: {}, d: [], e: 1e+300.0, f: nan.0, g: null }"
        );
    }

    #[test]
    fn general_is_printf_g() {
        for (number, expected) in [
            (0.0, "0"),
            (0.1, "0.1"),
            (100000.0, "100000"),
            (1e16, "1e+16"),
            (1e-5, "1e-05"),
            (123.456, "123.456"),
            (-2.5e-7, "-2.5e-07"),
        ] {
            assert_eq!(general(number, 16), expected);
        }
    }
}
