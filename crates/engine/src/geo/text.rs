//! Renders BSON values the way mongod's error messages show them.
//!
//! In: a raw value. Out: text such as `[ [ 0, 0 ], [ 1, 2.5 ] ]` or `{ type: "Point" }`.
//! This is not JSON: strings are not escaped, and field names are not quoted, because
//! mongod does neither. Formats were taken from mongod 6.0.5's replies.

use bson::{RawArray, RawBsonRef, RawDocument};
use std::fmt::Write;

/// The value as mongod's messages print it.
pub(super) fn value_text(value: RawBsonRef<'_>) -> String {
    let mut out = String::new();
    write_value(&mut out, value);
    out
}

/// The document as mongod's messages print it.
pub(super) fn document_text(document: &RawDocument) -> String {
    value_text(RawBsonRef::Document(document))
}

/// The elements in order; a corrupt array ends at the first one that cannot be read.
pub(super) fn array_values(array: &RawArray) -> impl Iterator<Item = RawBsonRef<'_>> {
    array.into_iter().map_while(Result::ok)
}

/// A double with 16 significant digits and without an added `.0`, as mongod's streams print it.
pub(super) fn stream_number(number: f64) -> String {
    if !number.is_finite() {
        return if number.is_nan() {
            "nan"
        } else if number > 0.0 {
            "inf"
        } else {
            "-inf"
        }
        .to_owned();
    }
    if number == 0.0 {
        return if number.is_sign_negative() { "-0" } else { "0" }.to_owned();
    }
    let scientific = format!("{number:.15e}");
    let (mantissa, exponent) = scientific
        .split_once('e')
        .expect("`e` formatting has an exponent");
    let exponent: i32 = exponent.parse().expect("the exponent is an integer");
    if (-5..16).contains(&exponent) {
        let decimals = usize::try_from(15 - exponent).expect("the exponent is at most 15");
        return trim_zeros(&format!("{number:.decimals$}")).to_owned();
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{}e{sign}{:02}", trim_zeros(mantissa), exponent.abs())
}

fn trim_zeros(digits: &str) -> &str {
    if digits.contains('.') {
        digits.trim_end_matches('0').trim_end_matches('.')
    } else {
        digits
    }
}

fn write_value(out: &mut String, value: RawBsonRef<'_>) {
    // Writing to a String cannot fail, so the results below carry nothing.
    let _ = match value {
        RawBsonRef::Double(number) => {
            let text = stream_number(number);
            let point = if text.contains('.') { "" } else { ".0" };
            write!(out, "{text}{point}")
        }
        RawBsonRef::String(text) | RawBsonRef::Symbol(text) => write!(out, "\"{text}\""),
        RawBsonRef::Array(array) => {
            write_fields(
                out,
                array_values(array).map(|value| ("", value)),
                ['[', ']'],
            );
            Ok(())
        }
        RawBsonRef::Document(document) => {
            let fields = document
                .iter()
                .map_while(Result::ok)
                .map(|(key, value)| (key.as_str(), value));
            write_fields(out, fields, ['{', '}']);
            Ok(())
        }
        RawBsonRef::Boolean(value) => write!(out, "{value}"),
        RawBsonRef::Null => write!(out, "null"),
        RawBsonRef::RegularExpression(regex) => {
            write!(
                out,
                "/{}/{}",
                regex.pattern.as_str(),
                regex.options.as_str()
            )
        }
        RawBsonRef::JavaScriptCode(code) => write!(out, "{code}"),
        RawBsonRef::JavaScriptCodeWithScope(code) => {
            write!(
                out,
                "CodeWScope( {}, {})",
                code.code,
                document_text(code.scope)
            )
        }
        RawBsonRef::Int32(number) => write!(out, "{number}"),
        RawBsonRef::Int64(number) => write!(out, "{number}"),
        RawBsonRef::Timestamp(stamp) => {
            write!(out, "Timestamp({}, {})", stamp.time, stamp.increment)
        }
        RawBsonRef::Binary(binary) => {
            let _ = write!(out, "BinData({}, ", u8::from(binary.subtype));
            for byte in binary.bytes {
                let _ = write!(out, "{byte:02X}");
            }
            write!(out, ")")
        }
        RawBsonRef::ObjectId(id) => write!(out, "ObjectId('{id}')"),
        RawBsonRef::DateTime(date) => write!(out, "new Date({})", date.timestamp_millis()),
        RawBsonRef::Decimal128(number) => write!(out, "{number}"),
        RawBsonRef::Undefined => write!(out, "undefined"),
        RawBsonRef::MaxKey => write!(out, "MaxKey"),
        RawBsonRef::MinKey => write!(out, "MinKey"),
        RawBsonRef::DbPointer(_) => write!(out, "DBRef"),
    };
}

fn write_fields<'a>(
    out: &mut String,
    fields: impl Iterator<Item = (&'a str, RawBsonRef<'a>)>,
    [open, close]: [char; 2],
) {
    out.push(open);
    let mut separator = " ";
    let mut any = false;
    for (name, value) in fields {
        out.push_str(separator);
        if open == '{' {
            out.push_str(name);
            out.push_str(": ");
        }
        write_value(out, value);
        separator = ", ";
        any = true;
    }
    if any {
        out.push(' ');
    }
    out.push(close);
}

#[cfg(test)]
mod tests {
    use super::*;
    use bson::rawdoc;

    #[test]
    fn values_read_as_in_mongods_messages() {
        let document = rawdoc! { "a": [1.0, 2.5, 1e20, 1e15, 123_456_789.125, 0.1, 1e-7, -0.0, 5, "x"], "b": {}, "c": [] };
        assert_eq!(
            document_text(&document),
            "{ a: [ 1.0, 2.5, 1e+20.0, 1000000000000000.0, 123456789.125, 0.1, 1e-07.0, -0.0, 5, \"x\" ], b: {}, c: [] }"
        );
    }
}
