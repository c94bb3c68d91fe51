//! A fast walk over the fields of a raw document.
//!
//! `bson`'s own iterator checks the text of every name and the size of every value with
//! full error reports; on the ingest path each document's fields are walked several times,
//! so this one only steps. It trusts nothing: a malformed document ends the walk.

use bson::raw::{CStr, RawBinaryRef, RawJavaScriptCodeWithScopeRef, RawRegexRef};
use bson::spec::{BinarySubtype, ElementType};
use bson::{DateTime, Decimal128, RawArray, RawBsonRef, RawDocument, Timestamp, oid::ObjectId};
use serde::Deserialize;
use serde::de::value::BorrowedBytesDeserializer;

/// One field: its name and where its value lies.
#[derive(Debug, Clone, Copy)]
pub struct Field<'a> {
    document: &'a RawDocument,
    name: &'a [u8],
    kind: u8,
    value: &'a [u8],
    position: u32,
}

impl<'a> Field<'a> {
    /// The name's bytes (UTF-8 in any document that was accepted).
    #[inline]
    pub fn name(&self) -> &'a [u8] {
        self.name
    }

    /// BSON's type byte.
    #[inline]
    pub fn kind(&self) -> u8 {
        self.kind
    }

    /// The value's bytes, as they stand in the document.
    #[inline]
    pub fn bytes(&self) -> &'a [u8] {
        self.value
    }

    /// The field's ordinal in the document, from 0.
    #[inline]
    pub fn position(&self) -> usize {
        self.position as usize
    }

    /// The value; `None` when its bytes are malformed.
    #[inline]
    pub fn value(&self) -> Option<RawBsonRef<'a>> {
        if self.kind == ElementType::DbPointer as u8 {
            // `bson` has no public way to view bytes as this type; let it find the field.
            let mut elements = self.document.iter_elements();
            return elements.nth(self.position())?.ok()?.value().ok();
        }
        value_of(self.kind, self.value)
    }
}

/// The value of these bytes, as they stand in a document behind their type's byte and the name; `None` when they are
/// malformed, and for the type that has no view but in a document, the `dbPointer`.
#[inline]
pub fn value_of(kind: u8, bytes: &[u8]) -> Option<RawBsonRef<'_>> {
    Some(match ElementType::from(kind)? {
        ElementType::Int32 => RawBsonRef::Int32(i32::from_le_bytes(bytes.try_into().ok()?)),
        ElementType::Int64 => RawBsonRef::Int64(i64::from_le_bytes(bytes.try_into().ok()?)),
        ElementType::Double => RawBsonRef::Double(f64::from_le_bytes(bytes.try_into().ok()?)),
        ElementType::DateTime => {
            let millis = i64::from_le_bytes(bytes.try_into().ok()?);
            RawBsonRef::DateTime(DateTime::from_millis(millis))
        }
        ElementType::ObjectId => RawBsonRef::ObjectId(ObjectId::from_bytes(bytes.try_into().ok()?)),
        ElementType::String => RawBsonRef::String(text(bytes)?),
        ElementType::Symbol => RawBsonRef::Symbol(text(bytes)?),
        ElementType::Boolean => RawBsonRef::Boolean(*bytes.first()? != 0),
        ElementType::Null => RawBsonRef::Null,
        ElementType::Undefined => RawBsonRef::Undefined,
        ElementType::MinKey => RawBsonRef::MinKey,
        ElementType::MaxKey => RawBsonRef::MaxKey,
        ElementType::EmbeddedDocument => RawBsonRef::Document(RawDocument::from_bytes(bytes).ok()?),
        ElementType::Decimal128 => {
            RawBsonRef::Decimal128(Decimal128::from_bytes(bytes.try_into().ok()?))
        }
        ElementType::Timestamp => RawBsonRef::Timestamp(Timestamp {
            increment: u32::from_le_bytes(bytes.get(..4)?.try_into().ok()?),
            time: u32::from_le_bytes(bytes.get(4..)?.try_into().ok()?),
        }),
        ElementType::Binary if bytes.get(4) != Some(&2) => RawBsonRef::Binary(RawBinaryRef {
            subtype: BinarySubtype::from(*bytes.get(4)?),
            bytes: bytes.get(5..)?,
        }),
        ElementType::Array => RawBsonRef::Array(array(bytes)?),
        ElementType::JavaScriptCode => RawBsonRef::JavaScriptCode(text(bytes)?),
        ElementType::RegularExpression => {
            let (pattern, options) = cstrings(bytes)?;
            RawBsonRef::RegularExpression(RawRegexRef { pattern, options })
        }
        ElementType::JavaScriptCodeWithScope => {
            let (code, scope) = code_with_scope(bytes)?;
            RawBsonRef::JavaScriptCodeWithScope(RawJavaScriptCodeWithScopeRef { code, scope })
        }
        // The old subtype repeats its length inside.
        ElementType::Binary => RawBsonRef::Binary(RawBinaryRef {
            subtype: BinarySubtype::from(*bytes.get(4)?),
            bytes: bytes.get(9..)?,
        }),
        ElementType::DbPointer => return None,
    })
}

/// The view of an array's bytes. `bson` makes one only for its own iterators, which would have to walk to the
/// field first, and for formats that have no arrays of their own and lend their bytes.
fn array(bytes: &[u8]) -> Option<&RawArray> {
    <&RawArray>::deserialize(BorrowedBytesDeserializer::<serde::de::value::Error>::new(
        bytes,
    ))
    .ok()
}

/// The two texts of a regular expression.
fn cstrings(bytes: &[u8]) -> Option<(&CStr, &CStr)> {
    let end = memchr::memchr(0, bytes)? + 1;
    let (pattern, options) = bytes.split_at_checked(end)?;
    Some((cstr(pattern)?, cstr(options)?))
}

fn cstr(bytes: &[u8]) -> Option<&CStr> {
    let text = std::str::from_utf8(bytes.strip_suffix(&[0])?).ok()?;
    <&CStr>::try_from(text).ok()
}

fn code_with_scope(bytes: &[u8]) -> Option<(&str, &RawDocument)> {
    let inner = bytes.get(4..)?;
    let length = usize::try_from(i32::from_le_bytes(inner.get(..4)?.try_into().ok()?)).ok()?;
    let (code, scope) = inner.split_at_checked(length.checked_add(4)?)?;
    Some((text(code)?, RawDocument::from_bytes(scope).ok()?))
}

/// The text of a string value (length, bytes, NUL).
#[inline]
fn text(bytes: &[u8]) -> Option<&str> {
    std::str::from_utf8(bytes.get(4..bytes.len().checked_sub(1)?)?).ok()
}

/// Walks a document's fields in order.
#[inline]
pub fn fields(document: &RawDocument) -> Fields<'_> {
    let bytes = document.as_bytes();
    // The last byte is the terminator; without one there are no fields.
    let rest = bytes.get(4..bytes.len().saturating_sub(1)).unwrap_or(&[]);
    Fields {
        document,
        rest,
        position: 0,
    }
}

/// The first field of this name.
#[inline]
pub fn find<'a>(document: &'a RawDocument, name: &[u8]) -> Option<Field<'a>> {
    fields(document).find(|field| field.name == name)
}

/// The iterator of [`fields`].
#[derive(Debug, Clone)]
pub struct Fields<'a> {
    document: &'a RawDocument,
    rest: &'a [u8],
    position: u32,
}

impl<'a> Iterator for Fields<'a> {
    type Item = Field<'a>;

    #[inline]
    fn next(&mut self) -> Option<Field<'a>> {
        let (&kind, after_kind) = self.rest.split_first()?;
        let name_length = name_length(after_kind)?;
        let (name, after_name) = after_kind.split_at_checked(name_length)?;
        let after_name = &after_name[1..];
        let (value, rest) = after_name.split_at_checked(value_length(kind, after_name)?)?;
        let field = Field {
            document: self.document,
            name,
            kind,
            value,
            position: self.position,
        };
        self.rest = rest;
        self.position += 1;
        Some(field)
    }
}

/// Names are short: a plain loop beats a vectorised search.
#[inline]
fn name_length(bytes: &[u8]) -> Option<usize> {
    bytes.iter().position(|byte| *byte == 0)
}

/// How many bytes a value of this type takes; `None` for unknown types and impossible lengths.
#[inline]
fn value_length(kind: u8, bytes: &[u8]) -> Option<usize> {
    let prefixed = |extra: usize| -> Option<usize> {
        let length = i32::from_le_bytes(bytes.get(..4)?.try_into().ok()?);
        usize::try_from(length).ok()?.checked_add(extra)
    };
    Some(match kind {
        0x10 => 4,
        0x01 | 0x09 | 0x11 | 0x12 => 8,
        0x02 | 0x0D | 0x0E => prefixed(4).filter(|length| *length > 4)?,
        0x03 | 0x04 => prefixed(0).filter(|length| *length > 4)?,
        0x05 => prefixed(5)?,
        0x07 => 12,
        0x08 => 1,
        0x06 | 0x0A | 0x7F | 0xFF => 0,
        0x13 => 16,
        0x0B => {
            let pattern = memchr::memchr(0, bytes)? + 1;
            pattern + memchr::memchr(0, bytes.get(pattern..)?)? + 1
        }
        0x0C => prefixed(16)?,
        0x0F => prefixed(0)?,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use bson::{Bson, RawDocumentBuf, doc};

    #[test]
    fn every_type_is_stepped_over_and_read() {
        let document = doc! {
            "double": 1.5, "string": "a\0b", "document": {"x": 1}, "array": [1, "two"],
            "binary": Bson::Binary(bson::Binary { subtype: BinarySubtype::Generic, bytes: vec![1, 2] }),
            "old": Bson::Binary(bson::Binary { subtype: BinarySubtype::BinaryOld, bytes: vec![1, 2] }),
            "undefined": Bson::Undefined, "id": ObjectId::from_bytes([7; 12]), "true": true,
            "date": DateTime::from_millis(-5), "null": Bson::Null,
            "regex": Bson::RegularExpression(bson::Regex {
                pattern: "^a".try_into().unwrap(), options: "i".try_into().unwrap() }),
            "code": Bson::JavaScriptCode("x".into()), "symbol": Bson::Symbol("s".into()),
            "scope": Bson::JavaScriptCodeWithScope(bson::JavaScriptCodeWithScope {
                code: "x".into(), scope: doc! {"y": 1} }),
            "int": 7, "timestamp": Bson::Timestamp(Timestamp { time: 3, increment: 4 }),
            "long": 7i64, "decimal": "1.5".parse::<Decimal128>().unwrap(),
            "min": Bson::MinKey, "max": Bson::MaxKey, "": "empty name",
        };
        let raw = RawDocumentBuf::try_from(&document).unwrap();
        let mut seen = bson::Document::new();
        for field in fields(&raw) {
            let value = Bson::try_from(field.value().unwrap()).unwrap();
            seen.insert(std::str::from_utf8(field.name()).unwrap(), value);
        }
        assert_eq!(seen, document);
        assert_eq!(
            find(&raw, b"int").unwrap().value(),
            Some(RawBsonRef::Int32(7))
        );
        assert!(find(&raw, b"absent").is_none());
    }

    #[test]
    fn a_malformed_document_ends_the_walk() {
        let raw = RawDocumentBuf::try_from(&doc! {"a": 1, "b": "text"}).unwrap();
        let mut bytes = raw.into_bytes();
        let length_at = bytes.len() - 10;
        bytes[length_at] = 200;
        let raw = RawDocument::from_bytes(&bytes).unwrap();
        assert_eq!(fields(raw).count(), 1);
    }
}
