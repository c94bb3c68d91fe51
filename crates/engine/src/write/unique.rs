//! Duplicate keys: found under the write lock, reported as MongoDB reports them.

use super::entries::{EntryChange, EntryChanges};
use crate::catalog::{Collection, Index};
use crate::error::{Code, Error, Result};
use crate::expression::value::field_name;
use crate::namespace::Namespace;
use crate::storage::{Family, Order, Scan, Snapshot, TreeKey};
use crate::text::document_text;
use ahash::AHashSet;
use bson::raw::{CStr, RawArrayBuf, RawBsonRef, RawDocument, RawDocumentBuf};
use bson::{Bson, cstr, rawdoc};
use meridian_value::key::{ABOVE_ALL, Direction, TypeBits};
use meridian_value::number::Number;
use meridian_value::text::{is_utf8, restored};
use meridian_value::{Collation, with_raw};

/// Looks entries of unique indexes up in the newest state and in what this batch adds.
pub(super) struct UniqueChecker {
    snapshot: Snapshot,
    /// Which indexes are to be looked at.
    unique: Vec<bool>,
    /// Parts of keys that the batch adds.
    added: AHashSet<Vec<u8>>,
    /// Whole keys that the batch removes.
    removed: AHashSet<Vec<u8>>,
}

impl UniqueChecker {
    /// A checker over `snapshot`, which must hold everything committed: take it under the write lock.
    pub fn new(collection: &Collection, snapshot: &Snapshot) -> Self {
        let indexes = collection.indexes.iter();
        Self {
            snapshot: snapshot.clone(),
            unique: indexes
                .map(|index| index.spec.refuses_duplicates() && index.ready)
                .collect(),
            added: AHashSet::new(),
            removed: AHashSet::new(),
        }
    }

    /// Takes entries of a document that the batch deletes for removed.
    pub fn remove(&mut self, entries: &EntryChanges, of_document: &[Vec<EntryChange>]) {
        for (is_unique, list) in self.unique.iter().zip(of_document) {
            if *is_unique {
                let keys = list.iter().map(|entry| entries.key(entry).to_vec());
                self.removed.extend(keys);
            }
        }
    }

    /// Forgets the entries of a document that the batch adds no longer.
    pub fn forget(&mut self, entries: &EntryChanges, of_document: &[Vec<EntryChange>]) {
        for entry in of_document.iter().flatten() {
            self.added.remove(entries.unique_part(entry));
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
            if !self.unique[position] {
                continue;
            }
            for entry in &of_document[position] {
                let (part, key) = (entries.unique_part(entry), entries.key(entry));
                let is_other = |found: &[u8]| found != key && !self.removed.contains(found);
                if self.added.contains(part) || self.holds(part, is_other)? {
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
            if self.unique[position] {
                self.added
                    .extend(list.iter().map(|entry| entries.unique_part(entry).to_vec()));
            }
        }
        Ok(())
    }

    /// Whether one of the entries that start with `part` is what is looked for. Not a search in one scan of the whole
    /// tree: where many entries behind `part` were deleted it would step over all of them.
    fn holds(&self, part: &[u8], is_sought: impl Fn(&[u8]) -> bool) -> Result<bool> {
        let end = [part, &[ABOVE_ALL]].concat();
        let mut scan = self
            .snapshot
            .scan(Family::Indexes, part, &end, Order::Forward);
        while scan.advance()? {
            if is_sought(scan.entry().0) {
                return Ok(true);
            }
        }
        Ok(false)
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
pub(super) fn duplicate_id(collection: &Collection, document: &RawDocument) -> Error {
    let id = document
        .get("_id")
        .ok()
        .flatten()
        .unwrap_or(RawBsonRef::Null);
    // Of a clustered collection MongoDB shows the document's own value.
    let collation = match collection.options.clustered_index {
        None => &collection.options.collation,
        Some(_) => &Collation::SIMPLE,
    };
    let mut shown = ShownKey::default();
    if collation.concerns(id) {
        let mut key = Vec::new();
        let ids = Direction::Ascending;
        collation.encode(id, ids, &mut key, &mut TypeBits::new());
        shown.push_encoded(cstr!("_id"), &key, ids);
    } else {
        // It reads a whole number of a record id as an integer.
        let whole = collection.cluster_name().and(Number::from_raw(id));
        match whole.and_then(Number::to_i64_exact) {
            Some(whole) => match i32::try_from(whole) {
                Ok(whole) => shown.push(cstr!("_id"), RawBsonRef::Int32(whole)),
                Err(_) => shown.push(cstr!("_id"), RawBsonRef::Int64(whole)),
            },
            None => shown.push(cstr!("_id"), id),
        }
    }
    let pattern = rawdoc! { "_id": 1 };
    // It has no index of its own.
    let index = collection.cluster_name().is_none().then_some("_id_");
    duplicate(&collection.namespace, index, pattern, collation, shown)
}

/// `E11000` for an entry of a unique index: the fields of its key, without tree and `_id`, and its value.
pub(super) fn duplicate_in_index(
    namespace: &Namespace,
    index: &Index,
    fields: &[u8],
    value: &[u8],
) -> Error {
    let spec = &index.spec;
    let shown = match spec.collation.is_simple() {
        true => index.layout.key_document(fields, value).map(|values| {
            let mut shown = ShownKey::default();
            for (name, value) in values.iter().flatten() {
                shown.push(name, value);
            }
            shown
        }),
        false => shown_by_collation(index, fields, value),
    };
    let pattern = spec.key_pattern().to_owned();
    match shown {
        Ok(shown) => duplicate(namespace, Some(&spec.name), pattern, &spec.collation, shown),
        Err(error) => error,
    }
}

/// The key of an entry whose texts cannot be read back: those are shown as they are encoded.
fn shown_by_collation(index: &Index, fields: &[u8], value: &[u8]) -> Result<ShownKey> {
    let mut shown = ShownKey::default();
    let mut types = index.layout.split(value)?.types;
    let mut at = 0;
    for (position, (path, kind)) in index.spec.key.iter().enumerate() {
        let name = field_name(path)?;
        let length = index.layout.field_length(position, &fields[at..])?;
        let field = &fields[at..at + length];
        match index.layout.decode_field(position, field, &mut types) {
            Ok((value, _)) => {
                let value = value.unwrap_or(Bson::Null);
                with_raw(&value, |value| shown.push(name, value));
            }
            Err(_) => shown.push_encoded(name, field, kind.direction()),
        }
        at += length;
    }
    Ok(shown)
}

fn duplicate(
    namespace: &Namespace,
    index: Option<&str>,
    pattern: RawDocumentBuf,
    collation: &Collation,
    key: ShownKey,
) -> Error {
    let shown = document_text(&key.shown);
    let index = index
        .map(|index| format!(" index: {index}"))
        .unwrap_or_default();
    let collation = crate::collation::listing(collation);
    let by = collation.as_deref().map(document_text);
    let by = by.map(|by| format!(" collation: {by}")).unwrap_or_default();
    let message =
        format!("E11000 duplicate key error collection: {namespace}{index}{by} dup key: {shown}");
    let mut fields = RawDocumentBuf::new();
    fields.append(cstr!("keyPattern"), pattern);
    fields.append(cstr!("keyValue"), key.values);
    if key.is_any_encoded {
        fields.append(cstr!("hexEncoded"), key.encoded);
    }
    if let Some(collation) = collation {
        fields.append(cstr!("collation"), collation);
    }
    Error::new(Code::DuplicateKey, message).with_fields(fields)
}

/// The values of a key as the message shows them and as the error carries them: strings that are not valid UTF-8, or
/// that a collation has encoded, in hexadecimal, as MongoDB writes them; and for which of the values that was done.
#[derive(Default)]
struct ShownKey {
    shown: RawDocumentBuf,
    values: RawDocumentBuf,
    encoded: RawArrayBuf,
    is_any_encoded: bool,
}

impl ShownKey {
    fn push(&mut self, name: &CStr, value: RawBsonRef<'_>) {
        match value.as_str().filter(|text| !is_utf8(text)) {
            Some(text) => self.push_bytes(name, &restored(text)),
            None => {
                self.shown.append(name, value);
                self.values.append(name, value);
                self.encoded.push(false);
            }
        }
    }

    /// Adds an encoded value, without its type and its end.
    fn push_encoded(&mut self, name: &CStr, key: &[u8], direction: Direction) {
        let within = key.get(1..key.len().saturating_sub(1)).unwrap_or_default();
        let bytes: Vec<u8> = match direction {
            Direction::Ascending => within.to_vec(),
            Direction::Descending => within.iter().map(|byte| !byte).collect(),
        };
        self.push_bytes(name, &bytes);
    }

    fn push_bytes(&mut self, name: &CStr, bytes: &[u8]) {
        let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        self.shown.append(name, format!("0x{digits}"));
        self.values.append(name, digits);
        self.encoded.push(true);
        self.is_any_encoded = true;
    }
}
