//! Inserts: a batch of documents in one commit, each document's failure its own.

use super::entries::{Entry, EntrySet};
use super::prepare::{encode_id, normalise};
use super::unique::{UniqueChecker, duplicate_id};
use super::{Durability, ErrorBytes, Totals, WriteError, Writer};
use crate::catalog::{Collection, Summaries, ValidationAction, ValidationLevel, WriteState};
use crate::error::{Code, Error, Result};
use crate::index::IndexSet;
use crate::namespace::Namespace;
use crate::operation;
use crate::query::validation_failure;
use crate::storage::{Batch, Family, Order};
use ahash::AHashSet;
use bson::Bson;
use bson::raw::{RawBsonRef, RawDocument};
use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

/// A commit holds at most this many bytes of documents, so that memory stays bounded and other
/// writers get the lock in between.
pub(super) const BATCH_BYTES_MAX: usize = 8 * 1024 * 1024;
/// ... and no further document once it holds this many bytes of index entries, ...
const ENTRY_BYTES_MAX: usize = 2 * BATCH_BYTES_MAX;
/// ... and at most this many documents.
pub(super) const BATCH_DOCUMENTS_MAX: usize = 2_000;

/// How an insert is carried out.
#[derive(Debug, Clone, Copy)]
pub struct InsertOptions {
    /// Stop at the first failing document.
    pub ordered: bool,
    /// Skip the collection's validator.
    pub bypass_validation: bool,
    /// When the insert counts as done.
    pub durability: Durability,
    /// Make the collection if there is none.
    pub creates: bool,
}

impl Default for InsertOptions {
    fn default() -> Self {
        Self {
            ordered: true,
            bypass_validation: false,
            durability: Durability::Buffered,
            creates: true,
        }
    }
}

fn gone(namespace: &Namespace) -> Error {
    let message =
        format!("collection {namespace} was renamed or dropped while it was being filled");
    Error::new(Code::NamespaceNotFound, message)
}

/// What became of an insert.
#[derive(Debug, Clone, Default)]
pub struct InsertOutcome {
    /// Number of documents that are stored now.
    pub inserted: usize,
    /// The others, by position.
    pub errors: Vec<WriteError>,
    error_bytes: ErrorBytes,
}

/// Documents that are ready for the commit, with everything that needs no lock done.
struct Prepared<'a> {
    documents: Vec<PreparedDocument<'a>>,
    ids: Vec<u8>,
    entries: EntrySet,
}

struct PreparedDocument<'a> {
    /// Position in the request.
    position: usize,
    stored: Cow<'a, RawDocument>,
    /// `tree ++ encoded _id`, in `Prepared::ids`.
    key: Range<usize>,
}

impl Writer {
    /// Inserts documents, creating the collection when it does not exist.
    ///
    /// # Errors
    /// Storage failures, and a namespace that cannot be created. What is wrong with single documents
    /// is in the outcome.
    pub fn insert(
        &self,
        namespace: &Namespace,
        documents: &[&RawDocument],
        options: &InsertOptions,
    ) -> Result<InsertOutcome> {
        let mut outcome = InsertOutcome::default();
        let mut prepared = Prepared {
            documents: Vec::new(),
            ids: Vec::new(),
            entries: EntrySet::default(),
        };
        let mut next = 0;
        while next < documents.len() {
            operation::check()?;
            let end = next + batch_length(&documents[next..]);
            next += self.insert_batch(
                namespace,
                &documents[next..end],
                next,
                options,
                &mut prepared,
                &mut outcome,
            )?;
            if options.ordered && !outcome.errors.is_empty() {
                break;
            }
        }
        self.settle(options.durability)?;
        outcome.errors.sort_by_key(|error| error.index);
        Ok(outcome)
    }

    /// Inserts the first few documents; returns how many were seen to.
    fn insert_batch<'a>(
        &self,
        namespace: &Namespace,
        documents: &[&'a RawDocument],
        first: usize,
        options: &InsertOptions,
        prepared: &mut Prepared<'a>,
        outcome: &mut InsertOutcome,
    ) -> Result<usize> {
        loop {
            let collection = match options.creates {
                true => self.catalog.get_or_create(namespace)?,
                false => self.catalog.get(namespace).ok_or_else(|| gone(namespace))?,
            };
            self.wait_for_room(&collection)?;
            let mut errors = Vec::new();
            let seen = prepared.fill(&collection, documents, first, options, &mut errors);
            let mut writing = collection.state.lock();
            if !self.is_current(&collection, &writing) {
                // An index was added or the collection replaced meanwhile: prepare again for it.
                continue;
            }
            outcome.inserted += self.commit_inserts(
                &collection,
                &mut writing,
                prepared,
                options.ordered,
                &mut errors,
            )?;
            outcome
                .errors
                .extend(errors.into_iter().map(|failed| WriteError {
                    error: outcome.error_bytes.bound(failed.error),
                    ..failed
                }));
            return Ok(seen);
        }
    }

    fn commit_inserts(
        &self,
        collection: &Arc<Collection>,
        writing: &mut WriteState,
        prepared: &mut Prepared<'_>,
        ordered: bool,
        errors: &mut Vec<WriteError>,
    ) -> Result<usize> {
        let refused = self.find_duplicates(collection, writing, prepared, ordered, errors)?;
        let mut batch = self.store.batch();
        let (mut inserted, mut bytes) = (0, 0);
        for (number, document) in prepared.documents.iter().enumerate() {
            if !refused.contains(number) {
                let stored = document.stored.as_bytes();
                batch.add(
                    Family::Documents,
                    &prepared.ids[document.key.clone()],
                    stored,
                );
                inserted += 1;
                bytes += stored.len();
            }
        }
        if inserted == 0 {
            return Ok(0);
        }
        prepared.entries.sort();
        put_entries(
            &prepared.entries,
            collection.indexes.len(),
            &refused,
            &mut batch,
        );
        self.note_multikey(collection, &prepared.entries, &mut batch);
        collection.state.watchers().note(prepared.kept(&refused));
        let totals = Totals {
            documents_added: inserted as i64,
            bytes_added: bytes as i64,
        };
        self.commit(collection, batch, &totals, |summaries| {
            prepared.summarise(collection, &refused, summaries);
        })?;
        prepared.remember_largest_id(writing);
        Ok(inserted)
    }

    /// Which prepared documents must not be written: their `_id` or a unique key exists already.
    fn find_duplicates(
        &self,
        collection: &Arc<Collection>,
        writing: &mut WriteState,
        prepared: &Prepared<'_>,
        ordered: bool,
        errors: &mut Vec<WriteError>,
    ) -> Result<Refused> {
        let mut refused = Refused::new(prepared.documents.len());
        let largest = self.largest_id(collection, writing)?;
        let ascending = prepared.ids_ascend();
        let has_unique = collection.indexes.iter().any(|index| index.spec.unique);
        let mut unique = has_unique.then(|| UniqueChecker::new(collection, &self.store.snapshot()));
        let by_document = unique
            .as_ref()
            .map(|_| prepared.entries_by_document(collection.indexes.len()));
        let mut seen: AHashSet<&[u8]> = AHashSet::new();
        for (number, document) in prepared.documents.iter().enumerate() {
            let key = &prepared.ids[document.key.clone()];
            let repeated = !ascending && seen.contains(key);
            let exists = repeated
                || (key <= largest && self.store.get(Family::Documents, key, |_| ())?.is_some());
            let verdict = match (&mut unique, &by_document) {
                _ if exists => Err(duplicate_id(&collection.namespace, &document.stored)),
                (Some(unique), Some(entries)) => {
                    unique.check(collection, &prepared.entries, &entries[number])
                }
                _ => Ok(()),
            };
            if let Err(error) = verdict {
                if error.code != Code::DuplicateKey {
                    return Err(error);
                }
                refused.insert(number);
                errors.push(WriteError {
                    index: document.position,
                    error,
                });
                if ordered {
                    // What failed in preparation comes later than this one.
                    errors.retain(|each| each.index <= document.position);
                    refused.insert_from(number);
                    break;
                }
            } else if !ascending {
                seen.insert(key);
            }
        }
        Ok(refused)
    }

    /// `tree ++ _id` of the greatest document, or the bare prefix when there is none.
    fn largest_id<'w>(
        &self,
        collection: &Collection,
        writing: &'w mut WriteState,
    ) -> Result<&'w [u8]> {
        if writing.largest_id.is_none() {
            let (start, end) = collection.documents.range();
            let mut scan =
                self.store
                    .snapshot()
                    .scan(Family::Documents, &start, &end, Order::Backward);
            let found = if scan.advance()? {
                scan.entry().0.to_vec()
            } else {
                start.to_vec()
            };
            writing.largest_id = Some(found);
        }
        Ok(writing.largest_id.as_deref().expect("it was just set"))
    }
}

fn batch_length(documents: &[&RawDocument]) -> usize {
    let mut bytes = 0;
    let fits = |document: &&&RawDocument| {
        bytes += document.as_bytes().len();
        bytes <= BATCH_BYTES_MAX
    };
    documents
        .iter()
        .take(BATCH_DOCUMENTS_MAX)
        .take_while(fits)
        .count()
        .max(1)
}

fn put_entries(entries: &EntrySet, indexes: usize, refused: &Refused, batch: &mut Batch) {
    for position in 0..indexes {
        for entry in entries.list(position) {
            if !refused.contains(entry.document as usize) {
                batch.add(Family::Indexes, entries.key(entry), entries.value(entry));
            }
        }
    }
}

impl<'a> Prepared<'a> {
    /// Does all that needs no lock. Stops at the first error when the insert is ordered, and when there are many
    /// bytes of index entries; returns how many documents were seen to.
    fn fill(
        &mut self,
        collection: &Collection,
        documents: &[&'a RawDocument],
        first: usize,
        options: &InsertOptions,
        errors: &mut Vec<WriteError>,
    ) -> usize {
        self.documents.clear();
        self.ids.clear();
        self.entries.clear(collection.indexes.len());
        for (offset, document) in documents.iter().enumerate() {
            if let Err(error) = self.add(
                collection,
                document,
                first + offset,
                options.bypass_validation,
            ) {
                errors.push(WriteError {
                    index: first + offset,
                    error,
                });
                if options.ordered {
                    return offset + 1;
                }
            }
            if self.entries.size_bytes() >= ENTRY_BYTES_MAX {
                return offset + 1;
            }
        }
        documents.len()
    }

    fn add(
        &mut self,
        collection: &Collection,
        document: &'a RawDocument,
        position: usize,
        bypass_validation: bool,
    ) -> Result<()> {
        let stored = normalise(document)?;
        let start = self.ids.len();
        self.ids.extend_from_slice(&collection.documents.prefix());
        let number = u32::try_from(self.documents.len()).expect("a batch holds few documents");
        let result = encode_id(&stored, &mut self.ids).and_then(|()| {
            if !bypass_validation {
                validate(collection, &stored, None)?;
            }
            self.entries.add(
                collection,
                number,
                &stored,
                &self.ids[start + 4..],
                IndexSet::ALL,
            )
        });
        if let Err(error) = result {
            self.ids.truncate(start);
            return Err(error);
        }
        self.documents.push(PreparedDocument {
            position,
            stored,
            key: start..self.ids.len(),
        });
        Ok(())
    }

    /// `tree ++ encoded _id` of the documents that are inserted.
    fn kept(&self, refused: &Refused) -> impl Iterator<Item = &[u8]> + Clone {
        let documents = self.documents.iter().enumerate();
        documents
            .filter(|(number, _)| !refused.contains(*number))
            .map(|(_, document)| &self.ids[document.key.clone()])
    }

    /// Tells the summaries what was inserted.
    fn summarise(&self, collection: &Collection, refused: &Refused, summaries: &mut Summaries) {
        let ids = self.kept(refused).map(|key| &key[4..]);
        summaries.add(collection.documents, ids);
        for (position, index) in collection.indexes.iter().enumerate() {
            let entries = self.entries.list(position).iter();
            let keys = entries
                .filter(|entry| !refused.contains(entry.document as usize))
                .map(|entry| &self.entries.key(entry)[4..]);
            summaries.add(index.tree, keys);
        }
    }

    fn ids_ascend(&self) -> bool {
        let keys = || {
            self.documents
                .iter()
                .map(|document| &self.ids[document.key.clone()])
        };
        keys().zip(keys().skip(1)).all(|(a, b)| a < b)
    }

    fn entries_by_document(&self, indexes: usize) -> Vec<Vec<Vec<Entry>>> {
        let mut by_document = vec![vec![Vec::new(); indexes]; self.documents.len()];
        let all = (0..indexes).flat_map(|position| {
            self.entries
                .list(position)
                .iter()
                .map(move |entry| (position, entry))
        });
        for (position, entry) in all {
            by_document[entry.document as usize][position].push(*entry);
        }
        by_document
    }

    fn remember_largest_id(&self, writing: &mut WriteState) {
        let largest = self
            .documents
            .iter()
            .map(|document| &self.ids[document.key.clone()])
            .max();
        if let (Some(new), Some(known)) = (largest, &mut writing.largest_id)
            && new > known.as_slice()
        {
            known.clear();
            known.extend_from_slice(new);
        }
    }
}

/// Applies the collection's validator to a document that is about to be stored; `before` is the
/// document it replaces.
///
/// # Errors
/// `DocumentValidationFailure` (121) with MongoDB's `errInfo`.
pub(super) fn validate(
    collection: &Collection,
    document: &RawDocument,
    before: Option<&RawDocument>,
) -> Result<()> {
    let Some(validator) = &collection.options.validator else {
        return Ok(());
    };
    // A validator that cannot be computed for a document refuses it; the report says why.
    let is_valid = |document| validator.filter.matches(document).unwrap_or(false);
    if validator.level == ValidationLevel::Off || is_valid(document) {
        return Ok(());
    }
    if let (ValidationLevel::Moderate, Some(before)) = (validator.level, before)
        && !is_valid(before)
    {
        return Ok(());
    }
    let id = document
        .get("_id")
        .ok()
        .flatten()
        .unwrap_or(RawBsonRef::Null);
    let details = validation_failure(&validator.source, &validator.filter, document, id);
    if validator.action == ValidationAction::Warn {
        tracing::warn!(namespace = %collection.namespace, details = %relaxed_json(&details), "a document fails validation");
        return Ok(());
    }
    let mut fields = bson::RawDocumentBuf::new();
    fields.append(bson::cstr!("errInfo"), details);
    Err(Error::new(
        Code::DocumentValidationFailure,
        "Document failed validation",
    )
    .with_fields(fields))
}

/// A document as people and log readers know it: relaxed extended JSON, on one line.
fn relaxed_json(document: &RawDocument) -> String {
    match bson::Document::try_from(document) {
        Ok(document) => Bson::Document(document).into_relaxed_extjson().to_string(),
        // Not readable as text; the debug form shows its bytes.
        Err(_) => format!("{document:?}"),
    }
}

/// A set of document numbers of one batch.
struct Refused(Vec<bool>);

impl Refused {
    fn new(documents: usize) -> Self {
        Self(vec![false; documents])
    }

    fn insert(&mut self, number: usize) {
        self.0[number] = true;
    }

    fn insert_from(&mut self, number: usize) {
        self.0[number..].fill(true);
    }

    fn contains(&self, number: usize) -> bool {
        self.0[number]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_logged_document_is_one_line_of_json() {
        let document = bson::rawdoc! { "a": 1_i64, "b": { "c": "x\n\u{1b}y" }, "d": [1.5, null] };
        let expected = r#"{"a":1,"b":{"c":"x\n\u001by"},"d":[1.5,null]}"#;
        assert_eq!(relaxed_json(&document), expected);
    }
}
