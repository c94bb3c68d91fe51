//! One document as BSON and as a row of PostgreSQL's binary COPY.

use super::generator::Item;
use crate::encode::{copy_field, copy_row, document, int64, object_id, postgres_time, string};

/// Bytes of one document.
pub const DOCUMENT_BYTES: usize = 234;
/// About what one row takes in a binary COPY.
pub const ROW_BYTES: usize = 200;

/// Appends the document, `_id` first.
pub fn bson(item: &Item, out: &mut Vec<u8>) {
    document(out, |out| {
        object_id(item.number, out);
        string(b"\x02URI\0", &item.uri, out);
        string(b"\x02name\0", &item.name, out);
        string(b"\x02origin\0", &item.origin, out);
        int64(b"\x09creation\0", item.creation_ms, out);
        int64(b"\x09expiration\0", item.expiration_ms, out);
    });
}

/// Appends the row: id, uri, name, origin, creation, expiration.
pub fn row(item: &Item, out: &mut Vec<u8>) {
    copy_row(6, out);
    copy_field(&i64::from(item.number).to_be_bytes(), out);
    copy_field(item.uri.as_bytes(), out);
    copy_field(item.name.as_bytes(), out);
    copy_field(item.origin.as_bytes(), out);
    copy_field(&postgres_time(item.creation_ms), out);
    copy_field(&postgres_time(item.expiration_ms), out);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suites::indexing::generator::Generator;

    #[test]
    fn a_document_has_its_size_and_its_fields() {
        let item = Generator::new(1, 1).next().expect("one document");
        let mut bytes = Vec::new();
        bson(&item, &mut bytes);
        assert_eq!(bytes.len(), DOCUMENT_BYTES);
        let document = bson::RawDocument::from_bytes(&bytes).expect("a document");
        assert_eq!(document.get_str("URI").ok(), Some(item.uri.as_str()));
        let creation = document.get_datetime("creation").expect("a date");
        assert_eq!(creation.timestamp_millis(), item.creation_ms);
        assert_eq!(document.iter().count(), 6);
    }
}
