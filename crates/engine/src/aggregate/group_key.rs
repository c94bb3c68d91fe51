//! Bytes by which `$group` and `$addToSet` tell values apart: equal bytes exactly where
//! MongoDB's comparison finds the values equal (so 1, 1.0 and a decimal 1 share theirs).
//! Not ordered, never stored.

use crate::error::Result;
use crate::expression::value::{Value, check_built, corrupt};
use bson::{RawBsonRef, RawDocumentBuf};
use meridian_value::Collation;
use meridian_value::number::{Decimal, Number};
use std::cmp::Ordering;

const MISSING: u8 = 0x40;
const INTEGER: u8 = 0x41;
const DOUBLE: u8 = 0x42;
const DECIMAL: u8 = 0x43;
const STRING: u8 = 0x44;
const ARRAY: u8 = 0x45;
const DOCUMENT: u8 = 0x46;
const END: u8 = 0x47;
const OTHER: u8 = 0x48;
const DATE: u8 = 0x49;
const FALSE: u8 = 0x4A;
const TRUE: u8 = 0x4B;
const NULL: u8 = 0x4C;
const OBJECT_ID: u8 = 0x4D;

/// Appends a value's bytes.
pub fn encode(value: &Value<'_>, collation: &Collation, out: &mut Vec<u8>) -> Result<()> {
    match value {
        Value::Missing => out.push(MISSING),
        Value::Raw(raw) => encode_raw(*raw, collation, out)?,
        Value::Owned(raw) => encode_raw(raw.as_raw_bson_ref(), collation, out)?,
        Value::Array(items) => {
            out.push(ARRAY);
            for item in items.iter() {
                encode(
                    if item.is_missing() {
                        &Value::NULL
                    } else {
                        item
                    },
                    collation,
                    out,
                )?;
                check_built(out.len())?;
            }
            out.push(END);
        }
        Value::Document(fields) => {
            out.push(DOCUMENT);
            for (key, value) in fields.iter().filter(|(_, value)| !value.is_missing()) {
                name(key, out);
                encode(value, collation, out)?;
                check_built(out.len())?;
            }
            out.push(END);
        }
    }
    Ok(())
}

#[inline]
fn encode_raw(raw: RawBsonRef<'_>, collation: &Collation, out: &mut Vec<u8>) -> Result<()> {
    match raw {
        RawBsonRef::Int32(value) => integer(i64::from(value), out),
        RawBsonRef::Int64(value) => integer(value, out),
        RawBsonRef::Double(value) => double(value, out),
        RawBsonRef::Decimal128(value) => decimal(Decimal::from_bson(value), out),
        RawBsonRef::String(text) | RawBsonRef::Symbol(text) => string(text, collation, out),
        RawBsonRef::DateTime(date) => {
            out.push(DATE);
            out.extend_from_slice(&date.timestamp_millis().to_le_bytes());
        }
        RawBsonRef::Null => out.push(NULL),
        RawBsonRef::Undefined => out.push(MISSING),
        RawBsonRef::Boolean(value) => out.push(if value { TRUE } else { FALSE }),
        RawBsonRef::ObjectId(id) => {
            out.push(OBJECT_ID);
            out.extend_from_slice(&id.bytes());
        }
        RawBsonRef::Array(array) => {
            out.push(ARRAY);
            for item in array {
                encode_raw(item.map_err(corrupt)?, collation, out)?;
            }
            out.push(END);
        }
        RawBsonRef::Document(document) => {
            out.push(DOCUMENT);
            for entry in document.iter() {
                let (key, value) = entry.map_err(corrupt)?;
                name(key.as_str(), out);
                encode_raw(value, collation, out)?;
            }
            out.push(END);
        }
        other => {
            // The element's own bytes: type, empty key, value.
            let mut holder = RawDocumentBuf::new();
            holder.append(bson::raw::cstr!(""), other);
            out.push(OTHER);
            out.extend_from_slice(holder.as_bytes());
        }
    }
    Ok(())
}

fn name(key: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(key.as_bytes());
    out.push(0);
}

fn string(text: &str, collation: &Collation, out: &mut Vec<u8>) {
    out.push(STRING);
    let text = collation.sort_key(text);
    out.extend_from_slice(&(text.len() as u32).to_le_bytes());
    out.extend_from_slice(&text);
}

fn integer(value: i64, out: &mut Vec<u8>) {
    out.push(INTEGER);
    out.extend_from_slice(&value.to_le_bytes());
}

fn double(value: f64, out: &mut Vec<u8>) {
    const LIMIT: f64 = 9_223_372_036_854_775_808.0;
    if value.fract() == 0.0 && (-LIMIT..LIMIT).contains(&value) {
        return integer(value as i64, out);
    }
    let bits = if value.is_nan() {
        f64::NAN.to_bits()
    } else {
        value.to_bits()
    };
    out.push(DOUBLE);
    out.extend_from_slice(&bits.to_le_bytes());
}

fn decimal(value: Decimal, out: &mut Vec<u8>) {
    if let Some(whole) = value.to_i64_exact() {
        return integer(whole, out);
    }
    let near = value.to_f64();
    let same = Number::Double(near).compare(Number::Decimal(value)) == Ordering::Equal;
    if same || value.is_nan() {
        return double(near, out);
    }
    out.push(DECIMAL);
    out.push(u8::from(value.is_negative()));
    if let Some((coefficient, exponent)) = value.normalized() {
        out.extend_from_slice(&coefficient.to_le_bytes());
        out.extend_from_slice(&exponent.to_le_bytes());
    }
}
