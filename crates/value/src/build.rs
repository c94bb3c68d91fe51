//! Puts documents together of fields whose bytes stand elsewhere already.

use crate::field::Field;
use bson::raw::{RawDocument, RawDocumentBuf};
use bson::spec::ElementType;

/// A document that is being written.
///
/// ```
/// use bson::{rawdoc, spec::ElementType};
/// use meridian_value::{DocumentBuilder, field};
/// let stored = rawdoc! { "_id": 1, "name": "Meridian" };
/// let mut built = DocumentBuilder::default();
/// built.copy(&field::find(&stored, b"name").expect("it has one"));
/// built.field(ElementType::Int32, b"age", &7_i32.to_le_bytes());
/// built.append_with(|document| document.append(bson::raw::cstr!("open"), true));
/// assert_eq!(built.finish(), rawdoc! { "name": "Meridian", "age": 7, "open": true });
/// ```
#[derive(Debug)]
pub struct DocumentBuilder {
    /// The length, filled in at the end, and the fields.
    bytes: Vec<u8>,
}

impl Default for DocumentBuilder {
    fn default() -> Self {
        Self::with_capacity(64)
    }
}

impl DocumentBuilder {
    /// With room for so many bytes.
    pub fn with_capacity(bytes: usize) -> Self {
        Self::reusing(Vec::with_capacity(bytes))
    }

    /// In memory whose content is not needed any more.
    pub fn reusing(mut bytes: Vec<u8>) -> Self {
        bytes.clear();
        bytes.extend_from_slice(&[0; 4]);
        Self { bytes }
    }

    /// A document's fields, and room for those that follow.
    pub fn extending(document: &RawDocument) -> Self {
        let fields = document.as_bytes();
        let mut bytes = Vec::with_capacity(fields.len() + fields.len() / 4 + 64);
        bytes.extend_from_slice(&fields[..fields.len() - 1]);
        Self { bytes }
    }

    /// Appends a field: its value's bytes as BSON has them. The name holds no zero byte.
    #[inline]
    pub fn field(&mut self, kind: ElementType, name: &[u8], value: &[u8]) {
        self.append(kind as u8, name, value);
    }

    /// Appends a field as it stands in another document.
    #[inline]
    pub fn copy(&mut self, field: &Field<'_>) {
        self.append(field.kind(), field.name(), field.bytes());
    }

    /// Appends a document within this one.
    pub fn document(&mut self, name: &[u8], inner: DocumentBuilder) {
        let inner = inner.finish();
        self.field(ElementType::EmbeddedDocument, name, inner.as_bytes());
    }

    /// Has `append` add fields of its own.
    pub fn append_with<T>(&mut self, append: impl FnOnce(&mut RawDocumentBuf) -> T) -> T {
        let bytes = std::mem::take(&mut self.bytes);
        let mut document = Self { bytes }.finish();
        let appended = append(&mut document);
        self.bytes = document.into_bytes();
        // The terminator.
        self.bytes.pop();
        appended
    }

    #[inline]
    fn append(&mut self, kind: u8, name: &[u8], value: &[u8]) {
        self.bytes.reserve(name.len() + value.len() + 2);
        self.bytes.push(kind);
        self.bytes.extend_from_slice(name);
        self.bytes.push(0);
        self.bytes.extend_from_slice(value);
    }

    /// The bytes so far: the next field begins behind so many.
    #[expect(
        clippy::len_without_is_empty,
        reason = "a document is never without bytes"
    )]
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// The document.
    ///
    /// # Panics
    /// When it would be 2 GiB or more.
    pub fn finish(mut self) -> RawDocumentBuf {
        self.bytes.push(0);
        let length = i32::try_from(self.bytes.len()).expect("a document is far below 2 GiB");
        self.bytes[..4].copy_from_slice(&length.to_le_bytes());
        RawDocumentBuf::from_bytes(self.bytes).expect("it has a length and a terminator")
    }
}
