//! How deep a document nests.

use crate::field::fields;
use bson::RawDocument;

/// The bytes of a document around another one: its length, the type and the name (which may be empty) of its
/// field, and its end.
const BYTES_AROUND: usize = 4 + 1 + 1 + 1;
/// The bytes of the document inside of all others.
const BYTES_INSIDE: usize = 5;

/// Whether a document has more than so many levels of documents and arrays; it is one itself.
///
/// Only what is large enough to be that deep is looked into, and the recursion ends at the bound.
pub fn is_deeper(document: &RawDocument, levels: usize) -> bool {
    if document.as_bytes().len() < levels * BYTES_AROUND + BYTES_INSIDE {
        return false;
    }
    let Some(below) = levels.checked_sub(1) else {
        return true;
    };
    fields(document)
        .filter(|field| matches!(field.kind(), 0x03 | 0x04))
        .filter_map(|field| RawDocument::from_bytes(field.bytes()).ok())
        .any(|inner| is_deeper(inner, below))
}

#[cfg(test)]
mod tests {
    use super::*;
    use bson::{Bson, RawDocumentBuf, doc};

    #[test]
    fn levels_are_counted_with_the_outermost() {
        for arrays in [false, true] {
            for levels in [1, 2, 3, 199, 200, 201] {
                let wrap = |inner: Bson| match arrays {
                    true => Bson::Array(vec![Bson::Null, inner]),
                    false => doc! {"": inner}.into(),
                };
                let value = (1..levels).fold(Bson::Null, |inner, _| wrap(inner));
                let document = RawDocumentBuf::try_from(&doc! {"": value}).unwrap();
                assert!(is_deeper(&document, levels - 1), "{levels}");
                assert!(!is_deeper(&document, levels), "{levels}");
            }
        }
    }

    #[test]
    fn an_empty_document_is_one_level() {
        assert!(is_deeper(&RawDocumentBuf::new(), 0));
        assert!(!is_deeper(&RawDocumentBuf::new(), 1));
    }
}
