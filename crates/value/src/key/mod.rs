//! The order-preserving key encoding.
//!
//! In: a BSON value and a direction. Out: bytes whose plain lexicographic order is
//! MongoDB's comparison order ([`crate::compare`]), reversed for [`Direction::Descending`],
//! and [`TypeBits`] for what those bytes lose. Encodings say where they end and none is a
//! prefix of another, so fields are simply written one behind the other, and "all keys
//! that begin with these fields" is "all keys that begin with these bytes".
//!
//! # Format
//!
//! The first byte of a value is its type. Ascending:
//!
//! ```text
//! 00                                        end of a document or an array
//! 08                                        MinKey
//! 0C                                        undefined
//! 10                                        null (and a missing field)
//! 18                                        NaN
//! 19       ~(double << 1 | c)          8    x <= -2^63
//! 1A..21   ~(whole << 1 | f)           8..1 -2^63 < x <= -1
//! 22       ~(double << 2 | c)          8    -1 < x < 0
//! 23                                        zero
//! 24       double << 2 | c             8    0 < x < 1
//! 25..2C   whole << 1 | f              1..8 1 <= x < 2^63
//! 2D       double << 1 | c             8    2^63 <= x
//! 40       text 00                          string, symbol
//! 41       sort key 00                      the same by a collation
//! 48       (bracket name 00 value)* 00      document
//! 50       value* 00                        array
//! 58       length, subtype, bytes           binary data
//! 60       the 12 bytes                     ObjectId
//! 68 / 69                                   false / true
//! 70       milliseconds + 2^63         8    date
//! 78       seconds 4, increment 4           timestamp
//! 80       pattern 00 options 00            regular expression
//! 88       length 4, the value's bytes      DBPointer
//! 90       text 00                          code
//! 98       text 00, then as a document      code with scope
//! A0       cell id                     8    an S2 cell (2dsphere indexes only)
//! F0                                        MaxKey
//! ```
//!
//! All numbers are big-endian; `~` complements. Descending complements every byte of the
//! value, so a first byte is always within 08..=F7: a 00 or FF behind a prefix is below or
//! above every key with that prefix.
//!
//! **Numbers** that are equal have equal bytes whatever their type. `whole` is the integer
//! part, `f` tells that a fraction follows: as many bytes as hold the bits that a double
//! has left behind such an integer part, and a last bit `c`. `double` is the bit pattern
//! of the magnitude. A decimal that is neither a double nor an int64 is written as the
//! nearest such number towards zero with `c` set, and continues with what orders it among
//! the decimals of the same base:
//!
//! ```text
//! +-----------------------+----------------------------+     +-------------------------+
//! | exponent + 2000h  (2) | two digits << 1 | 1    (1) | ... | last two digits << 1 (1)|
//! +-----------------------+----------------------------+     +-------------------------+
//! ```
//!
//! (complemented when negative). So an int of 7 bits takes 2 bytes, of 15 bits 3, a double
//! 8 to 10, a price in decimal about 13.
//!
//! **Text** escapes its bytes 00 as `01 01` and 01 as `01 02` and ends with 00. By a collation that is not
//! the simple one its ICU sort key stands in its place, which cannot be read back. **Names**
//! and regular expressions cannot hold 00 and are not escaped.
//!
//! **Documents** compare type brackets before names before values. So a field begins with
//! the bracket (the type byte; 17 for all numbers, 67 for both booleans), then the name,
//! then the value, whose type byte is left out where the bracket already says it.
//!
//! **Binary data** compare by length first: one byte, or FF and four; subtype 2 counts its
//! inner length field.

mod bytes;
mod decode;
mod number;
mod transcode;
mod type_bits;

pub use decode::{decode, skip};
pub use transcode::transcode;
pub use type_bits::{TypeBits, TypeBitsReader};

use crate::order::value_bytes;
use bson::{RawBsonRef, RawDocument};
use icu_collator::CollatorBorrowed;

/// The order in which an index keeps a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Direction {
    /// Smallest first.
    Ascending,
    /// Largest first: all bytes complemented.
    Descending,
}

impl Direction {
    /// The other direction.
    #[must_use]
    pub fn reversed(self) -> Self {
        match self {
            Direction::Ascending => Direction::Descending,
            Direction::Descending => Direction::Ascending,
        }
    }
}

/// The bytes are not what [`encode`] writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// Truncated, an unknown type byte, or an impossible value.
    #[error("corrupt index key")]
    Corrupt,
}

/// What texts are ordered by, if not by their bytes.
type Texts<'c> = Option<&'c CollatorBorrowed<'static>>;

type KeyResult<T> = Result<T, KeyError>;

const END: u8 = 0x00;
/// Begins what stands for a byte 00 or 01 in a text.
const ESCAPE: u8 = 0x01;
const MIN_KEY: u8 = 0x08;
const UNDEFINED: u8 = 0x0C;
const NULL: u8 = 0x10;
const NUMBER_BRACKET: u8 = 0x17;
const STRING: u8 = 0x40;
const SORT_KEY: u8 = 0x41;
const DOCUMENT: u8 = 0x48;
const ARRAY: u8 = 0x50;
const BINARY: u8 = 0x58;
const OBJECT_ID: u8 = 0x60;
const BOOLEAN_BRACKET: u8 = 0x67;
const FALSE: u8 = 0x68;
const TRUE: u8 = 0x69;
const DATE: u8 = 0x70;
const TIMESTAMP: u8 = 0x78;
const REGEX: u8 = 0x80;
const DB_POINTER: u8 = 0x88;
const CODE: u8 = 0x90;
const CODE_WITH_SCOPE: u8 = 0x98;
const CELL: u8 = 0xA0;
const MAX_KEY: u8 = 0xF0;

/// A byte above every first byte of an encoded value, in either direction: behind a prefix
/// it makes the exclusive end of all keys with that prefix.
pub const ABOVE_ALL: u8 = 0xFF;

/// The length byte that announces four bytes of length.
const LONG_BINARY: u8 = 0xFF;

/// Appends the encoding of a value to `out` and its type information to `types`.
///
/// ```
/// use bson::RawBsonRef;
/// use meridian_value::key::{Direction, TypeBits, encode};
/// let (mut one, mut two, mut types) = (Vec::new(), Vec::new(), TypeBits::new());
/// encode(RawBsonRef::Int32(1), Direction::Ascending, &mut one, &mut types);
/// encode(RawBsonRef::Double(2.5), Direction::Ascending, &mut two, &mut types);
/// assert!(one < two);
/// ```
#[inline]
pub fn encode(
    value: RawBsonRef<'_>,
    direction: Direction,
    out: &mut Vec<u8>,
    types: &mut TypeBits,
) {
    encode_with(value, direction, None, out, types);
}

/// Appends the encoding of a value whose texts a collator orders, if there is one.
#[inline]
pub(crate) fn encode_with(
    value: RawBsonRef<'_>,
    direction: Direction,
    texts: Texts<'_>,
    out: &mut Vec<u8>,
    types: &mut TypeBits,
) {
    let start = out.len();
    encode_ascending(value, texts, out, types);
    if direction == Direction::Descending {
        for byte in &mut out[start..] {
            *byte = !*byte;
        }
    }
}

/// Appends MinKey, which is below every other value.
pub fn encode_min(direction: Direction, out: &mut Vec<u8>) {
    encode(RawBsonRef::MinKey, direction, out, &mut TypeBits::new());
}

/// Appends MaxKey, which is above every other value.
pub fn encode_max(direction: Direction, out: &mut Vec<u8>) {
    encode(RawBsonRef::MaxKey, direction, out, &mut TypeBits::new());
}

/// Appends an S2 cell id, ordered as an unsigned number.
#[inline]
pub fn encode_cell(cell: u64, direction: Direction, out: &mut impl Extend<u8>) {
    let mask = if direction == Direction::Descending {
        0xFF
    } else {
        0
    };
    let mut buffer = [CELL; 9];
    buffer[1..].copy_from_slice(&cell.to_be_bytes());
    out.extend(buffer.map(|byte| byte ^ mask));
}

/// The cell id that [`encode_cell`] wrote at the start of `bytes`.
#[inline]
pub fn decode_cell(bytes: &[u8], direction: Direction) -> Option<u64> {
    let mask = if direction == Direction::Descending {
        u64::MAX
    } else {
        0
    };
    let (head, rest) = bytes.split_first()?;
    let body: [u8; 8] = rest.get(..8)?.try_into().ok()?;
    (*head ^ mask as u8 == CELL).then_some(u64::from_be_bytes(body) ^ mask)
}

/// The first and last type byte (ascending) of a bracket, numbered as [`crate::canonical_type`]
/// does: every value of the bracket, and no other, encodes to bytes from `[first]` up to but
/// not including `[last + 1]`.
pub fn bracket_range(canonical_type: u8) -> Option<(u8, u8)> {
    Some(match canonical_type {
        0 => (MIN_KEY, MIN_KEY),
        3 => (UNDEFINED, UNDEFINED),
        5 => (NULL, NULL),
        10 => (number::NAN, number::POSITIVE_LARGE),
        15 => (STRING, SORT_KEY),
        20 => (DOCUMENT, DOCUMENT),
        25 => (ARRAY, ARRAY),
        30 => (BINARY, BINARY),
        35 => (OBJECT_ID, OBJECT_ID),
        40 => (FALSE, TRUE),
        45 => (DATE, DATE),
        47 => (TIMESTAMP, TIMESTAMP),
        50 => (REGEX, REGEX),
        55 => (DB_POINTER, DB_POINTER),
        60 => (CODE, CODE),
        65 => (CODE_WITH_SCOPE, CODE_WITH_SCOPE),
        127 => (MAX_KEY, MAX_KEY),
        _ => return None,
    })
}

#[inline]
fn encode_ascending(
    value: RawBsonRef<'_>,
    texts: Texts<'_>,
    out: &mut Vec<u8>,
    types: &mut TypeBits,
) {
    match value {
        RawBsonRef::Int32(value) => number::encode_integer(i64::from(value), true, out, types),
        RawBsonRef::DateTime(value) => {
            let mut buffer = [DATE; 9];
            buffer[1..].copy_from_slice(&date_body(value));
            out.extend_from_slice(&buffer);
        }
        RawBsonRef::Double(value) => number::encode_double(value, out, types),
        RawBsonRef::ObjectId(value) => {
            let mut buffer = [OBJECT_ID; 13];
            buffer[1..].copy_from_slice(&value.bytes());
            out.extend_from_slice(&buffer);
        }
        RawBsonRef::Int64(value) => number::encode_integer(value, false, out, types),
        _ => encode_other(value, texts, out, types),
    }
}

/// All that is not hot.
fn encode_other(value: RawBsonRef<'_>, texts: Texts<'_>, out: &mut Vec<u8>, types: &mut TypeBits) {
    match value {
        RawBsonRef::Decimal128(value) => number::encode_decimal(value, out, types),
        RawBsonRef::Boolean(value) => out.push(if value { TRUE } else { FALSE }),
        _ => {
            out.push(bracket(value, texts));
            encode_body(value, texts, out, types);
        }
    }
}

/// The byte that stands for a value's bracket; its type byte, except for numbers and booleans.
fn bracket(value: RawBsonRef<'_>, texts: Texts<'_>) -> u8 {
    match value {
        RawBsonRef::MinKey => MIN_KEY,
        RawBsonRef::Undefined => UNDEFINED,
        RawBsonRef::Null => NULL,
        RawBsonRef::Int32(_)
        | RawBsonRef::Int64(_)
        | RawBsonRef::Double(_)
        | RawBsonRef::Decimal128(_) => NUMBER_BRACKET,
        RawBsonRef::String(_) | RawBsonRef::Symbol(_) if texts.is_some() => SORT_KEY,
        RawBsonRef::String(_) | RawBsonRef::Symbol(_) => STRING,
        RawBsonRef::Document(_) => DOCUMENT,
        RawBsonRef::Array(_) => ARRAY,
        RawBsonRef::Binary(_) => BINARY,
        RawBsonRef::ObjectId(_) => OBJECT_ID,
        RawBsonRef::Boolean(_) => BOOLEAN_BRACKET,
        RawBsonRef::DateTime(_) => DATE,
        RawBsonRef::Timestamp(_) => TIMESTAMP,
        RawBsonRef::RegularExpression(_) => REGEX,
        RawBsonRef::DbPointer(_) => DB_POINTER,
        RawBsonRef::JavaScriptCode(_) => CODE,
        RawBsonRef::JavaScriptCodeWithScope(_) => CODE_WITH_SCOPE,
        RawBsonRef::MaxKey => MAX_KEY,
    }
}

/// Appends what follows the type byte, for values whose type byte is their bracket.
fn encode_body(value: RawBsonRef<'_>, texts: Texts<'_>, out: &mut Vec<u8>, types: &mut TypeBits) {
    match value {
        RawBsonRef::String(text) => {
            types.push_zero();
            encode_string(text, texts, out);
        }
        RawBsonRef::Symbol(text) => {
            types.push_one();
            encode_string(text, texts, out);
        }
        RawBsonRef::Document(document) => encode_document(document, texts, out, types),
        RawBsonRef::Array(array) => {
            for element in array.iter_elements() {
                let Some(value) = element.ok().and_then(|element| element.value().ok()) else {
                    break;
                };
                encode_ascending(value, texts, out, types);
            }
            out.push(END);
        }
        RawBsonRef::Binary(binary) => {
            let subtype = u8::from(binary.subtype);
            let length = binary.bytes.len() as u32 + if subtype == 2 { 4 } else { 0 };
            match u8::try_from(length) {
                Ok(short) if short != LONG_BINARY => out.push(short),
                _ => {
                    out.push(LONG_BINARY);
                    out.extend_from_slice(&length.to_be_bytes());
                }
            }
            out.push(subtype);
            out.extend_from_slice(binary.bytes);
        }
        RawBsonRef::ObjectId(value) => out.extend_from_slice(&value.bytes()),
        RawBsonRef::DateTime(value) => out.extend_from_slice(&date_body(value)),
        RawBsonRef::Timestamp(value) => {
            out.extend_from_slice(&value.time.to_be_bytes());
            out.extend_from_slice(&value.increment.to_be_bytes());
        }
        RawBsonRef::RegularExpression(regex) => {
            encode_name(regex.pattern.as_str(), out);
            encode_name(regex.options.as_str(), out);
        }
        RawBsonRef::DbPointer(_) => {
            let bytes = value_bytes(value);
            out.extend_from_slice(&(bytes.len() as u32).to_be_bytes());
            out.extend_from_slice(&bytes);
        }
        RawBsonRef::JavaScriptCode(code) => encode_text(code.as_bytes(), out),
        RawBsonRef::JavaScriptCodeWithScope(code) => {
            encode_text(code.code.as_bytes(), out);
            encode_document(code.scope, None, out, types);
        }
        RawBsonRef::MinKey | RawBsonRef::Undefined | RawBsonRef::Null | RawBsonRef::MaxKey => {}
        RawBsonRef::Int32(_)
        | RawBsonRef::Int64(_)
        | RawBsonRef::Double(_)
        | RawBsonRef::Decimal128(_)
        | RawBsonRef::Boolean(_) => unreachable!("these have type bytes of their own"),
    }
}

fn encode_document(
    document: &RawDocument,
    texts: Texts<'_>,
    out: &mut Vec<u8>,
    types: &mut TypeBits,
) {
    for field in crate::field::fields(document) {
        let (Some(value), Ok(name)) = (field.value(), std::str::from_utf8(field.name())) else {
            break;
        };
        let bracket = bracket(value, texts);
        out.push(bracket);
        encode_name(name, out);
        if matches!(bracket, NUMBER_BRACKET | BOOLEAN_BRACKET) {
            encode_ascending(value, texts, out, types);
        } else {
            encode_body(value, texts, out, types);
        }
    }
    out.push(END);
}

#[inline]
fn date_body(value: bson::DateTime) -> [u8; 8] {
    (value.timestamp_millis() as u64 ^ 1 << 63).to_be_bytes()
}

fn encode_name(name: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(name.as_bytes());
    out.push(0);
}

fn encode_string(text: &str, texts: Texts<'_>, out: &mut Vec<u8>) {
    match texts {
        None => encode_text(text.as_bytes(), out),
        Some(collator) => {
            let mut key = Vec::with_capacity(text.len() + 16);
            let Ok(()) = collator.write_sort_key_to(text, &mut key);
            encode_text(&key, out);
        }
    }
}

/// Text that may hold any byte: 00 and 01 are escaped so that the terminator is unique.
#[inline]
fn encode_text(mut text: &[u8], out: &mut Vec<u8>) {
    while let Some(special) = memchr::memchr2(0, 1, text) {
        out.extend_from_slice(&text[..special]);
        out.extend_from_slice(&[ESCAPE, text[special] + 1]);
        text = &text[special + 1..];
    }
    out.extend_from_slice(text);
    out.push(0);
}

#[cfg(test)]
mod tests;
