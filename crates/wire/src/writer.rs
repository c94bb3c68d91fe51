//! Writes BSON at the end of a byte buffer, without trees and without copies between.
//!
//! A [`DocumentWriter`] closes its document when it is dropped: the length is filled in and
//! the terminator appended. Nested writers borrow from their parent, so that the nesting in
//! the code is the nesting in the document.
//!
//! What is not BSON (a NUL byte in a name, more bytes than a length can say) is refused without a panic, since
//! a writer may be dropped while another panic unwinds: the outermost document is left without its length, and
//! [`is_whole`] says so to whoever made it.

use bson::raw::{RawArray, RawBsonRef, RawDocument};
use bson::spec::{BinarySubtype, ElementType};

/// Appends one document to a buffer.
///
/// ```
/// let mut bytes = Vec::new();
/// let mut reply = meridian_wire::DocumentWriter::new(&mut bytes);
/// reply.document("cursor").int64("id", 0).string("ns", "test.places");
/// reply.double("ok", 1.0);
/// drop(reply);
/// let document = bson::RawDocument::from_bytes(&bytes)?;
/// assert_eq!(document.get_document("cursor")?.get_str("ns")?, "test.places");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct DocumentWriter<'b> {
    out: &'b mut Vec<u8>,
    /// Where the outermost document begins.
    root: usize,
    start: usize,
}

impl Drop for DocumentWriter<'_> {
    fn drop(&mut self) {
        close(self.out, self.root, self.start);
    }
}

fn open(out: &mut Vec<u8>) -> usize {
    let start = out.len();
    out.extend_from_slice(&[0; 4]);
    start
}

/// What stands in place of the length of an outermost document that is refused.
const REFUSED: [u8; 4] = [0xff; 4];

fn close(out: &mut Vec<u8>, root: usize, start: usize) {
    out.push(0);
    match length_of(out.len() - start) {
        None => refuse(out, root),
        Some(_) if start == root && out[root..root + 4] == REFUSED => {}
        Some(length) => out[start..start + 4].copy_from_slice(&length),
    }
}

fn refuse(out: &mut [u8], root: usize) {
    out[root..root + 4].copy_from_slice(&REFUSED);
}

/// Whether these bytes are one document as its writer finished it, nothing in it refused.
pub fn is_whole(document: &[u8]) -> bool {
    let length = document.first_chunk::<4>();
    length.is_some_and(|length| length_of(document.len()) == Some(*length))
}

fn push_key(out: &mut Vec<u8>, root: usize, kind: ElementType, key: &str) {
    let written = match key.split_once('\0') {
        None => key,
        Some((before, _)) => {
            refuse(out, root);
            before
        }
    };
    out.push(kind as u8);
    out.extend_from_slice(written.as_bytes());
    out.push(0);
}

impl<'b> DocumentWriter<'b> {
    /// Begins a document at the end of `out`.
    pub fn new(out: &'b mut Vec<u8>) -> Self {
        let start = open(out);
        Self {
            out,
            root: start,
            start,
        }
    }

    fn nested(out: &'b mut Vec<u8>, root: usize) -> Self {
        let start = open(out);
        Self { out, root, start }
    }

    /// Appends a value of any type.
    pub fn value(&mut self, key: &str, value: RawBsonRef<'_>) -> &mut Self {
        push_key(self.out, self.root, value.element_type(), key);
        append_value(self.out, value);
        self
    }

    /// Appends a 32-bit integer.
    pub fn int32(&mut self, key: &str, value: i32) -> &mut Self {
        self.value(key, RawBsonRef::Int32(value))
    }

    /// Appends a 64-bit integer.
    pub fn int64(&mut self, key: &str, value: i64) -> &mut Self {
        self.value(key, RawBsonRef::Int64(value))
    }

    /// Appends a count the way MongoDB does: 32 bits if it fits, else 64.
    pub fn count(&mut self, key: &str, value: i64) -> &mut Self {
        match i32::try_from(value) {
            Ok(small) => self.int32(key, small),
            Err(_) => self.int64(key, value),
        }
    }

    /// Appends a double.
    pub fn double(&mut self, key: &str, value: f64) -> &mut Self {
        self.value(key, RawBsonRef::Double(value))
    }

    /// Appends a boolean.
    pub fn boolean(&mut self, key: &str, value: bool) -> &mut Self {
        self.value(key, RawBsonRef::Boolean(value))
    }

    /// Appends a string.
    pub fn string(&mut self, key: &str, value: &str) -> &mut Self {
        self.value(key, RawBsonRef::String(value))
    }

    /// Appends a date.
    pub fn date(&mut self, key: &str, value: bson::DateTime) -> &mut Self {
        self.value(key, RawBsonRef::DateTime(value))
    }

    /// Appends a document that exists already.
    pub fn embed(&mut self, key: &str, value: &RawDocument) -> &mut Self {
        self.value(key, RawBsonRef::Document(value))
    }

    /// Appends an array that exists already.
    pub fn embed_array(&mut self, key: &str, value: &RawArray) -> &mut Self {
        self.value(key, RawBsonRef::Array(value))
    }

    /// Appends every element of another document.
    pub fn elements(&mut self, other: &RawDocument) -> &mut Self {
        let bytes = other.as_bytes();
        self.out.extend_from_slice(&bytes[4..bytes.len() - 1]);
        self
    }

    /// Begins a nested document.
    pub fn document(&mut self, key: &str) -> DocumentWriter<'_> {
        push_key(self.out, self.root, ElementType::EmbeddedDocument, key);
        DocumentWriter::nested(self.out, self.root)
    }

    /// Begins a nested array.
    pub fn array(&mut self, key: &str) -> ArrayWriter<'_> {
        push_key(self.out, self.root, ElementType::Array, key);
        ArrayWriter::nested(self.out, self.root)
    }

    /// The bytes written so far, nested ones included.
    pub fn size_bytes(&self) -> usize {
        self.out.len() - self.start
    }
}

/// From here on an array gets room for the largest.
const LARGE_ARRAY: usize = 1 << 20;
/// A reply's documents are not longer together, but for the last.
const LARGEST_ARRAY: usize = 16 << 20;

/// Appends one array to a buffer.
#[derive(Debug)]
pub struct ArrayWriter<'b> {
    out: &'b mut Vec<u8>,
    /// Where the outermost document or array begins.
    root: usize,
    start: usize,
    next: u32,
}

impl Drop for ArrayWriter<'_> {
    fn drop(&mut self) {
        close(self.out, self.root, self.start);
    }
}

impl<'b> ArrayWriter<'b> {
    /// Begins an array at the end of `out`.
    pub fn new(out: &'b mut Vec<u8>) -> Self {
        let start = open(out);
        Self {
            out,
            root: start,
            start,
            next: 0,
        }
    }

    fn nested(out: &'b mut Vec<u8>, root: usize) -> Self {
        let start = open(out);
        Self {
            out,
            root,
            start,
            next: 0,
        }
    }

    /// Appends a value of any type.
    pub fn push(&mut self, value: RawBsonRef<'_>) -> &mut Self {
        self.push_index(value.element_type());
        append_value(self.out, value);
        self
    }

    /// Appends a document that exists already.
    pub fn push_document(&mut self, document: &RawDocument) -> &mut Self {
        self.push_index(ElementType::EmbeddedDocument);
        let document = document.as_bytes();
        if self.out.capacity() - self.out.len() < document.len() && self.out.len() >= LARGE_ARRAY {
            // It may well become as long as can be, and growing by doubling would copy it several times.
            self.out.reserve(LARGEST_ARRAY.max(document.len()));
        }
        self.out.extend_from_slice(document);
        self
    }

    /// Begins a nested document.
    pub fn document(&mut self) -> DocumentWriter<'_> {
        self.push_index(ElementType::EmbeddedDocument);
        DocumentWriter::nested(self.out, self.root)
    }

    /// How many elements there are.
    pub fn count(&self) -> usize {
        self.next as usize
    }

    /// The bytes written so far.
    pub fn size_bytes(&self) -> usize {
        self.out.len() - self.start
    }

    fn push_index(&mut self, kind: ElementType) {
        self.out.push(kind as u8);
        push_decimal(self.out, self.next);
        self.out.push(0);
        self.next += 1;
    }
}

/// An array's keys are its indexes in decimal. This is on the path of every returned
/// document, where formatting machinery would show.
fn push_decimal(out: &mut Vec<u8>, mut number: u32) {
    let mut digits = [0_u8; 10];
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[at..]);
}

/// Appends a value's bytes, without type and key.
pub fn append_value(out: &mut Vec<u8>, value: RawBsonRef<'_>) {
    match value {
        RawBsonRef::Double(value) => out.extend_from_slice(&value.to_le_bytes()),
        RawBsonRef::String(value)
        | RawBsonRef::JavaScriptCode(value)
        | RawBsonRef::Symbol(value) => push_string(out, value),
        RawBsonRef::Array(value) => out.extend_from_slice(value.as_bytes()),
        RawBsonRef::Document(value) => out.extend_from_slice(value.as_bytes()),
        RawBsonRef::Boolean(value) => out.push(u8::from(value)),
        RawBsonRef::Null | RawBsonRef::Undefined | RawBsonRef::MinKey | RawBsonRef::MaxKey => {}
        RawBsonRef::RegularExpression(regex) => {
            push_cstring(out, regex.pattern.as_str());
            push_cstring(out, regex.options.as_str());
        }
        RawBsonRef::JavaScriptCodeWithScope(code) => {
            let start = out.len();
            out.extend_from_slice(&[0; 4]);
            push_string(out, code.code);
            out.extend_from_slice(code.scope.as_bytes());
            let length = length_bytes(out.len() - start);
            out[start..start + 4].copy_from_slice(&length);
        }
        RawBsonRef::Int32(value) => out.extend_from_slice(&value.to_le_bytes()),
        RawBsonRef::Int64(value) => out.extend_from_slice(&value.to_le_bytes()),
        RawBsonRef::Timestamp(value) => {
            out.extend_from_slice(&value.increment.to_le_bytes());
            out.extend_from_slice(&value.time.to_le_bytes());
        }
        RawBsonRef::Binary(binary) => push_binary(out, binary.subtype, binary.bytes),
        RawBsonRef::ObjectId(id) => out.extend_from_slice(&id.bytes()),
        RawBsonRef::DateTime(date) => {
            out.extend_from_slice(&date.timestamp_millis().to_le_bytes());
        }
        RawBsonRef::Decimal128(value) => out.extend_from_slice(&value.bytes()),
        RawBsonRef::DbPointer(_) => push_db_pointer(out, value),
    }
}

fn push_string(out: &mut Vec<u8>, value: &str) {
    out.extend_from_slice(&length_bytes(value.len() + 1));
    push_cstring(out, value);
}

fn push_cstring(out: &mut Vec<u8>, value: &str) {
    out.extend_from_slice(value.as_bytes());
    out.push(0);
}

fn push_binary(out: &mut Vec<u8>, subtype: BinarySubtype, bytes: &[u8]) {
    let old = subtype == BinarySubtype::BinaryOld;
    let length = if old { bytes.len() + 4 } else { bytes.len() };
    out.extend_from_slice(&length_bytes(length));
    out.push(subtype.into());
    if old {
        out.extend_from_slice(&length_bytes(bytes.len()));
    }
    out.extend_from_slice(bytes);
}

/// The library keeps a pointer's parts to itself, so it is written through a document.
fn push_db_pointer(out: &mut Vec<u8>, value: RawBsonRef<'_>) {
    let mut holder = bson::RawDocumentBuf::new();
    holder.append(bson::raw::cstr!(""), value);
    let bytes = holder.as_bytes();
    // length, type, empty key; the terminator at the end
    out.extend_from_slice(&bytes[6..bytes.len() - 1]);
}

/// A value that is too long for its length is in a document that is too: that one is refused when it is closed.
fn length_bytes(length: usize) -> [u8; 4] {
    length_of(length).unwrap_or(REFUSED)
}

/// A length as BSON has it; none of one that it cannot say.
fn length_of(bytes: usize) -> Option<[u8; 4]> {
    i32::try_from(bytes).ok().map(i32::to_le_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Writes a document of two levels with this name in one of them.
    fn written(outer: &str, inner: &str) -> Vec<u8> {
        let mut bytes = vec![7; 3];
        let mut writer = DocumentWriter::new(&mut bytes);
        writer.int32(outer, 1);
        let mut array = writer.array("array");
        array.document().document("nested").string(inner, "text");
        drop(array);
        writer.double("ok", 1.0);
        drop(writer);
        bytes.split_off(3)
    }

    #[test]
    fn a_name_with_a_nul_byte_refuses_the_whole_document() {
        assert!(is_whole(&written("outer", "inner")));
        assert!(bson::RawDocument::from_bytes(&written("outer", "inner")).is_ok());
        for (outer, inner) in [
            ("a\0b", "inner"),
            ("outer", "\0"),
            ("outer", "a\0"),
            ("\0", "\0"),
        ] {
            let bytes = written(outer, inner);
            assert!(!is_whole(&bytes), "{outer:?} {inner:?}");
            assert!(bson::RawDocument::from_bytes(&bytes).is_err());
        }
    }

    #[test]
    fn lengths_end_where_bson_ends() {
        let most = i32::MAX as usize;
        assert_eq!(length_of(most), Some(i32::MAX.to_le_bytes()));
        for too_long in [most + 1, most * 1000] {
            assert_eq!(length_of(too_long), None);
            assert_eq!(length_bytes(too_long), REFUSED);
        }
        assert!(!is_whole(&[]) && !is_whole(&REFUSED) && !is_whole(&[5, 0, 0, 0]));
        assert!(is_whole(&[5, 0, 0, 0, 0]));
    }
}
