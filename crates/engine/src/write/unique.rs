//! Duplicate keys: found under the write lock, reported as MongoDB reports them.

use super::entries::{EntryChange, EntryChanges};
use crate::catalog::{Collection, Index};
use crate::error::{Code, Error, Result};
use crate::namespace::Namespace;
use crate::storage::{Family, Order, Scan, Snapshot, TreeKey};
use crate::text::document_text;
use ahash::AHashSet;
use bson::raw::{RawArrayBuf, RawBsonRef, RawDocument, RawDocumentBuf};
use bson::{cstr, rawdoc};
use meridian_value::text::{is_marked, is_utf8, restored};

/// Looks entries of unique indexes up in the newest state and in what this batch adds.
pub(super) struct UniqueChecker {
    scans: Vec<Option<Scan>>,
    added: AHashSet<Vec<u8>>,
}

impl UniqueChecker {
    /// A checker over `snapshot`, which must hold everything committed: take it under the write lock.
    pub fn new(collection: &Collection, snapshot: &Snapshot) -> Self {
        let scan = |index: &Index| {
            let (start, end) = index.tree.range();
            snapshot.scan(Family::Indexes, &start, &end, Order::Forward)
        };
        let scans = collection
            .indexes
            .iter()
            .map(|index| (index.spec.unique && index.ready).then(|| scan(index)))
            .collect();
        Self {
            scans,
            added: AHashSet::new(),
        }
    }

    /// Checks one document's entries (given as indexes into the set's lists, in the original order).
    /// The keys are remembered, so that a later document of the batch conflicts with them.
    ///
    /// # Errors
    /// `DuplicateKey` naming the first index that holds another document with the same key.
    pub fn check(
        &mut self,
        collection: &Collection,
        entries: &EntryChanges,
        of_document: &[Vec<EntryChange>],
    ) -> Result<()> {
        for (position, index) in collection.indexes.iter().enumerate() {
            let Some(scan) = &mut self.scans[position] else {
                continue;
            };
            for entry in &of_document[position] {
                let (part, key) = (entries.unique_part(entry), entries.key(entry));
                if self.added.contains(part) || holds_other(scan, part, key)? {
                    let (fields, value) = (TreeKey::strip(part), entries.value(entry));
                    return Err(duplicate_in_index(
                        &collection.namespace,
                        index,
                        fields,
                        value,
                    ));
                }
            }
        }
        for (position, list) in of_document.iter().enumerate() {
            if self.scans[position].is_some() {
                self.added
                    .extend(list.iter().map(|entry| entries.unique_part(entry).to_vec()));
            }
        }
        Ok(())
    }
}

/// Whether an entry starts with `part` and is not `key` itself.
pub(super) fn holds_other(scan: &mut Scan, part: &[u8], key: &[u8]) -> Result<bool> {
    scan.seek(part);
    while scan.advance()? {
        let (found, _) = scan.entry();
        if !found.starts_with(part) {
            return Ok(false);
        }
        if found != key {
            return Ok(true);
        }
    }
    Ok(false)
}

/// `E11000` for the identifier.
pub(super) fn duplicate_id(namespace: &Namespace, document: &RawDocument) -> Error {
    let id = document
        .get("_id")
        .ok()
        .flatten()
        .unwrap_or(RawBsonRef::Null);
    let mut values = RawDocumentBuf::new();
    values.append(cstr!("_id"), id);
    duplicate(namespace, "_id_", rawdoc! { "_id": 1 }, values)
}

/// `E11000` for an entry of a unique index: the fields of its key, without tree and `_id`, and its value.
pub(super) fn duplicate_in_index(
    namespace: &Namespace,
    index: &Index,
    fields: &[u8],
    value: &[u8],
) -> Error {
    match index.layout.key_document(fields, value) {
        Ok(values) => duplicate(
            namespace,
            &index.spec.name,
            index.spec.key_pattern().to_owned(),
            values,
        ),
        Err(error) => error,
    }
}

fn duplicate(
    namespace: &Namespace,
    index: &str,
    pattern: RawDocumentBuf,
    values: RawDocumentBuf,
) -> Error {
    let (shown, values, encoded) = encode_text(values);
    let shown = document_text(&shown);
    let message = format!(
        "E11000 duplicate key error collection: {namespace} index: {index} dup key: {shown}"
    );
    let mut fields = RawDocumentBuf::new();
    fields.append(cstr!("keyPattern"), pattern);
    fields.append(cstr!("keyValue"), values);
    if let Some(encoded) = encoded {
        fields.append(cstr!("hexEncoded"), encoded);
    }
    Error::new(Code::DuplicateKey, message).with_fields(fields)
}

/// The values of a key as the message shows them and as the error carries them: strings that are not valid UTF-8 in
/// hexadecimal, as MongoDB writes them, and for which of the values that was done, if for any.
fn encode_text(values: RawDocumentBuf) -> (RawDocumentBuf, RawDocumentBuf, Option<RawArrayBuf>) {
    if !is_marked(values.as_bytes()) {
        return (values.clone(), values, None);
    }
    let (mut shown, mut carried) = (RawDocumentBuf::new(), RawDocumentBuf::new());
    let (mut encoded, mut any) = (RawArrayBuf::new(), false);
    for (name, value) in values.iter().flatten() {
        match value.as_str().filter(|text| !is_utf8(text)) {
            Some(text) => {
                let text = restored(text);
                let digits: String = text.iter().map(|byte| format!("{byte:02x}")).collect();
                shown.append(name, format!("0x{digits}"));
                carried.append(name, digits);
                encoded.push(true);
                any = true;
            }
            None => {
                shown.append(name, value);
                carried.append(name, value);
                encoded.push(false);
            }
        }
    }
    (shown, carried, any.then_some(encoded))
}
