//! Values as bytes, and documents rewritten by copying what did not change.
//!
//! In: raw documents and the edits to make. Out: raw documents. Nothing here knows operators.

use bson::raw::{RawBsonRef, RawDocument, RawDocumentBuf, RawElement, cstr};
use bson::spec::ElementType;
use std::ops::Range;

use crate::error::Result;
use crate::error::malformed;

/// The wrapper's length, the kind and the empty name that stand before a [`OwnedValue`]'s payload.
const HEADER: usize = 6;
/// The element types that are written directly.
pub(super) const DOCUMENT: u8 = ElementType::EmbeddedDocument as u8;
pub(super) const ARRAY: u8 = ElementType::Array as u8;
pub(super) const NULL: u8 = ElementType::Null as u8;

/// An owned BSON value, laid out as the document `{"": value}` so that it can be read
/// as raw BSON without copying:
///
/// ```text
/// length (4) | kind (1) | 00 | payload | 00
/// ```
#[derive(Clone, PartialEq)]
pub(super) struct OwnedValue(Vec<u8>);

impl OwnedValue {
    /// A copy of a value.
    pub fn new<'a>(value: impl Into<RawBsonRef<'a>>) -> Self {
        let mut document = RawDocumentBuf::new();
        document.append(cstr!(""), value.into());
        Self(document.into_bytes())
    }

    /// The value of this kind whose payload `write` appends.
    pub fn build(kind: u8, write: impl FnOnce(&mut Vec<u8>)) -> Self {
        let mut bytes = vec![0, 0, 0, 0, kind, 0];
        write(&mut bytes);
        bytes.push(0);
        let length = length_bytes(bytes.len());
        bytes[..4].copy_from_slice(&length);
        Self(bytes)
    }

    /// An array of these values.
    pub fn array<'a>(values: impl IntoIterator<Item = (u8, &'a [u8])>) -> Self {
        Self::build(ARRAY, |out| {
            write_document(out, |out| {
                for (index, (kind, payload)) in values.into_iter().enumerate() {
                    write_indexed(out, index, kind, payload);
                }
            });
        })
    }

    /// The element type.
    pub fn kind(&self) -> u8 {
        self.0[4]
    }

    /// The bytes after the element's name.
    pub fn payload(&self) -> &[u8] {
        &self.0[HEADER..self.0.len() - 1]
    }

    /// The value `{"": value}`.
    pub fn wrapped(&self) -> &RawDocument {
        RawDocument::from_bytes(&self.0).expect("a value is built with its length and terminator")
    }

    /// The value, for reading.
    pub fn get(&self) -> RawBsonRef<'_> {
        let element = self
            .wrapped()
            .iter()
            .next()
            .expect("a value wraps one element");
        element
            .expect("values are copied from elements that were read before")
            .1
    }
}

impl std::fmt::Debug for OwnedValue {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.get().fmt(formatter)
    }
}

/// An element of a document, with where it stands.
#[derive(Clone)]
pub(super) struct Field<'a> {
    element: RawElement<'a>,
    /// The element's bytes within its document.
    pub range: Range<usize>,
    payload: &'a [u8],
}

impl<'a> Field<'a> {
    /// The field's name.
    pub fn name(&self) -> &'a str {
        self.element.key().as_str()
    }

    /// The element type.
    pub fn kind(&self) -> u8 {
        self.element.element_type() as u8
    }

    /// The bytes after the name.
    pub fn payload(&self) -> &'a [u8] {
        self.payload
    }

    /// The value.
    pub fn value(&self) -> Result<RawBsonRef<'a>> {
        self.element.value().map_err(malformed)
    }
}

/// The fields of a document (or of an array's bytes), in order.
pub(super) fn fields(document: &RawDocument) -> impl Iterator<Item = Result<Field<'_>>> {
    let bytes = document.as_bytes();
    let mut start = 4;
    document.iter_elements().map(move |element| {
        let element = element.map_err(malformed)?;
        let payload_start = start + 1 + element.key().len() + 1;
        let end = payload_start + element.size();
        let range = start..end;
        start = end;
        Ok(Field {
            element,
            range,
            payload: &bytes[payload_start..end],
        })
    })
}

/// The document that an embedded document's or array's payload holds.
pub(super) fn as_document(payload: &[u8]) -> Result<&RawDocument> {
    RawDocument::from_bytes(payload).map_err(malformed)
}

/// What becomes of one field.
pub(super) struct Edit<'a> {
    /// The field's bytes within the document.
    pub range: Range<usize>,
    /// Its name.
    pub name: &'a str,
    /// The new value; `None` removes the field.
    pub value: Option<OwnedValue>,
}

/// Appends `document` with the edits made and what `append` writes at its end.
pub(super) fn splice(
    document: &[u8],
    edits: &mut [Edit<'_>],
    out: &mut Vec<u8>,
    append: impl FnOnce(&mut Vec<u8>),
) {
    edits.sort_unstable_by_key(|edit| edit.range.start);
    write_document(out, |out| {
        let mut copied = 4;
        for edit in edits.iter() {
            out.extend_from_slice(&document[copied..edit.range.start]);
            if let Some(value) = &edit.value {
                write_element(out, edit.name, value.kind(), value.payload());
            }
            copied = edit.range.end;
        }
        out.extend_from_slice(&document[copied..document.len() - 1]);
        append(out);
    });
}

/// Appends a document of the elements that `write` appends.
pub(super) fn write_document(out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.extend_from_slice(&[0; 4]);
    write(out);
    out.push(0);
    let length = length_bytes(out.len() - start);
    out[start..start + 4].copy_from_slice(&length);
}

/// Appends one element.
pub(super) fn write_element(out: &mut Vec<u8>, name: &str, kind: u8, payload: &[u8]) {
    out.push(kind);
    out.extend_from_slice(name.as_bytes());
    out.push(0);
    out.extend_from_slice(payload);
}

/// Appends one element of an array.
pub(super) fn write_indexed(out: &mut Vec<u8>, index: usize, kind: u8, payload: &[u8]) {
    let mut digits = [0u8; 20];
    let mut start = digits.len();
    let mut rest = index;
    loop {
        start -= 1;
        digits[start] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    out.push(kind);
    out.extend_from_slice(&digits[start..]);
    out.push(0);
    out.extend_from_slice(payload);
}

/// How many levels of elements a value has below itself: 0 for a scalar or an empty document.
pub(super) fn depth(value: RawBsonRef<'_>) -> usize {
    let below = |document: &RawDocument| {
        document
            .iter()
            .flatten()
            .map(|(_, value)| 1 + depth(value))
            .max()
            .unwrap_or(0)
    };
    match value {
        RawBsonRef::Document(document) => below(document),
        RawBsonRef::Array(array) => array
            .into_iter()
            .flatten()
            .map(|value| 1 + depth(value))
            .max()
            .unwrap_or(0),
        _ => 0,
    }
}

fn length_bytes(length: usize) -> [u8; 4] {
    // Longer than 2 GiB cannot come about: operands are bounded by the message size and
    // documents by 16 MiB, and padding by its own limit.
    i32::try_from(length)
        .expect("a document under construction is shorter than 2 GiB")
        .to_le_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use bson::rawdoc;

    #[test]
    fn unchanged_bytes_are_copied_around_edits() {
        let document = rawdoc! { "a": 1, "b": "two", "c": [3], "d": 4.0 };
        let found: Vec<Field<'_>> = fields(&document).map(Result::unwrap).collect();
        let mut edits = [
            Edit {
                range: found[2].range.clone(),
                name: "c",
                value: None,
            },
            Edit {
                range: found[0].range.clone(),
                name: "a",
                value: Some(OwnedValue::new("one")),
            },
        ];
        let mut out = Vec::new();
        splice(document.as_bytes(), &mut edits, &mut out, |out| {
            write_element(out, "e", NULL, &[]);
        });
        let expected = rawdoc! { "a": "one", "b": "two", "d": 4.0, "e": null };
        assert_eq!(out, expected.as_bytes());
    }

    #[test]
    fn values_read_back() {
        let value = OwnedValue::array([(NULL, &[][..]), (16, &7i32.to_le_bytes())]);
        let array = value.get().as_array().unwrap();
        assert_eq!(array.get(1).unwrap().unwrap().as_i32(), Some(7));
        assert_eq!(depth(value.get()), 1);
        assert_eq!(
            depth(OwnedValue::new(&rawdoc! { "a": { "b": {} } }).get()),
            2
        );
    }
}
