//! The hash of hashed indexes and `$toHashedIndexKey`, equal to mongod's.
//!
//! MD5 over seed, type bracket and value; numbers are hashed as 64-bit integers, so that
//! `1` and `1.0` (and, as in mongod, `1.5`) share a hash. Source: `BSONElementHasher` of
//! MongoDB 6.0. The first eight bytes of the digest are the hash.

use bson::cstr;
use bson::raw::{RawBinaryRef, RawBsonRef, RawDocument, RawDocumentBuf};
use bson::spec::BinarySubtype;
use md5::{Digest, Md5};
use meridian_value::Collation;
use meridian_value::field::{Field, fields};
use meridian_value::key::{Direction, TypeBits};
use meridian_value::number::Number;

/// The seed that every hashed index uses.
const SEED: i32 = 0;

/// The hash of a value, which is what a hashed index keeps of it: the same for those that a collation finds equal.
pub fn hash_value(value: RawBsonRef<'_>, collation: &Collation) -> i64 {
    if collation.concerns(value) {
        let mut key = Vec::new();
        collation.encode(value, Direction::Ascending, &mut key, &mut TypeBits::new());
        return hash(RawBsonRef::Binary(RawBinaryRef {
            subtype: BinarySubtype::Generic,
            bytes: &key,
        }));
    }
    hash(value)
}

fn hash(value: RawBsonRef<'_>) -> i64 {
    let mut wrapped = RawDocumentBuf::new();
    wrapped.append(cstr!(""), value);
    let mut hasher = Md5::new();
    hasher.update(SEED.to_le_bytes());
    if let Some(field) = fields(&wrapped).next() {
        hash_field(&mut hasher, &field, false);
    }
    let digest = hasher.finalize();
    i64::from_le_bytes(digest[..8].try_into().expect("an MD5 digest has 16 bytes"))
}

fn hash_field(hasher: &mut Md5, field: &Field<'_>, with_name: bool) {
    hasher.update(bracket(field.kind()).to_le_bytes());
    if with_name {
        hasher.update(field.name());
        hasher.update([0]);
    }
    match field.value() {
        Some(RawBsonRef::Document(inner)) => hash_fields(hasher, inner),
        Some(RawBsonRef::Array(inner)) => {
            if let Ok(inner) = RawDocument::from_bytes(inner.as_bytes()) {
                hash_fields(hasher, inner);
            }
        }
        Some(RawBsonRef::JavaScriptCodeWithScope(code)) => {
            hasher.update(code.code);
            hasher.update([0]);
            hash_fields(hasher, code.scope);
        }
        Some(value) => match Number::from_raw(value) {
            Some(number) => hasher.update(integer(number).to_le_bytes()),
            None => hasher.update(field.bytes()),
        },
        None => {}
    }
}

fn hash_fields(hasher: &mut Md5, document: &RawDocument) {
    for field in fields(document) {
        hash_field(hasher, &field, true);
    }
    // The end of a document is hashed as a value of bracket 0 without name.
    hasher.update(0i32.to_le_bytes());
}

/// A number as mongod hashes it: truncated; NaN is 0; the nearest int64 beyond its range, but
/// for the double 2^63, whose conversion on x86 gives the smallest int64.
fn integer(number: Number) -> i64 {
    match number {
        _ if number.is_nan() => return 0,
        Number::Double(double) if double == 2f64.powi(63) => return i64::MIN,
        _ => {}
    }
    let limit = if number.is_negative() {
        i64::MIN
    } else {
        i64::MAX
    };
    number.to_i64_truncated().unwrap_or(limit)
}

/// MongoDB's own numbers for type brackets.
fn bracket(kind: u8) -> i32 {
    match kind {
        0xFF => -1,
        0x7F => 127,
        0x06 => 0,
        0x0A => 5,
        0x01 | 0x10 | 0x12 | 0x13 => 10,
        0x02 | 0x0E => 15,
        0x03 => 20,
        0x04 => 25,
        0x05 => 30,
        0x07 => 35,
        0x08 => 40,
        0x09 => 45,
        0x11 => 47,
        0x0B => 50,
        0x0C => 55,
        0x0D => 60,
        _ => 65,
    }
}
