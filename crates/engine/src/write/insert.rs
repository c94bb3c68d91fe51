//! Inserts: a batch of documents in one commit, each document's failure its own.

use super::changes::{BATCH_BYTES_MAX, CollectionChanges};
use super::commit::Locked;
use super::prepare::normalise;
use super::unique::{UniqueChecker, duplicate_id};
use super::{ErrorBytes, WriteError, Writer};
use crate::catalog::{Collection, WriteState};
use crate::error::{Code, Error, Result};
use crate::namespace::Namespace;
use crate::operation;
use crate::storage::{Family, Order};
use ahash::AHashSet;
use bson::raw::RawDocument;

/// A commit takes no further document once it holds this many bytes of index entries, ...
const ENTRY_BYTES_MAX: usize = 2 * BATCH_BYTES_MAX;
/// ... and at most this many documents.
const BATCH_DOCUMENTS_MAX: usize = 2_000;

/// How an insert is carried out.
#[derive(Debug, Clone, Copy)]
pub struct InsertOptions {
    /// Stop at the first failing document.
    pub ordered: bool,
    /// Skip the collection's validator.
    pub bypass_validation: bool,
    /// Make the collection if there is none.
    pub creates: bool,
}

impl Default for InsertOptions {
    fn default() -> Self {
        Self {
            ordered: true,
            bypass_validation: false,
            creates: true,
        }
    }
}

pub(super) fn gone(namespace: &Namespace) -> Error {
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

impl InsertOutcome {
    /// Adds the failure of a document.
    pub(super) fn fail(&mut self, failed: WriteError) {
        let error = self.error_bytes.bound(failed.error);
        self.errors.push(WriteError { error, ..failed });
    }

    /// Of an insert whose first documents, so many, are all refused for the same reason.
    pub fn refused(error: &Error, documents: usize) -> Self {
        let mut outcome = Self::default();
        for index in 0..documents {
            let error = outcome.error_bytes.bound(error.clone());
            outcome.errors.push(WriteError { index, error });
        }
        outcome
    }
}

/// Documents that are ready for the commit, with everything that needs no lock done.
struct PreparedDocuments<'a> {
    changes: CollectionChanges<'a>,
    /// Where each document stands in the request.
    positions: Vec<usize>,
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
        let mut prepared = None;
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
        outcome.errors.sort_by_key(|error| error.index);
        Ok(outcome)
    }

    /// Inserts the first few documents; returns how many were seen to. The memory of `kept` is used again.
    fn insert_batch<'a>(
        &self,
        namespace: &Namespace,
        documents: &[&'a RawDocument],
        first: usize,
        options: &InsertOptions,
        kept: &mut Option<PreparedDocuments<'a>>,
        outcome: &mut InsertOutcome,
    ) -> Result<usize> {
        loop {
            let collection = match options.creates {
                true => self.get_or_create(namespace)?,
                false => self.catalog.get(namespace).ok_or_else(|| gone(namespace))?,
            };
            self.wait_for_room(&collection)?;
            if collection.options.capped.is_some() {
                match self.insert_capped(&collection, documents, first, options, outcome)? {
                    Some(seen) => return Ok(seen),
                    None => continue,
                }
            }
            let prepared = kept.get_or_insert_with(|| PreparedDocuments {
                changes: CollectionChanges::new(&collection),
                positions: Vec::new(),
            });
            prepared.changes.reset(&collection);
            let mut errors = Vec::new();
            let seen = prepared.fill(documents, first, options, &mut errors);
            let mut writing = collection.state.lock();
            if !self.is_current(&collection, &writing) {
                // An index was added or the collection replaced meanwhile: prepare again for it.
                continue;
            }
            outcome.inserted +=
                self.commit_inserts(&mut writing, prepared, options.ordered, &mut errors)?;
            errors.into_iter().for_each(|failed| outcome.fail(failed));
            return Ok(seen);
        }
    }

    fn commit_inserts(
        &self,
        writing: &mut WriteState,
        prepared: &mut PreparedDocuments<'_>,
        ordered: bool,
        errors: &mut Vec<WriteError>,
    ) -> Result<usize> {
        for (number, error) in self.find_duplicates(writing, &prepared.changes, ordered)? {
            let index = prepared.positions[number];
            errors.push(WriteError { index, error });
            prepared.changes.withdraw(number);
            if ordered {
                // What failed in preparation comes later than this one.
                errors.retain(|each| each.index <= index);
                prepared.changes.withdraw_from(number);
            }
        }
        let changes = &mut prepared.changes;
        changes.sort();
        self.commit(&mut [Locked { changes, writing }])?;
        Ok(changes.changed_keys().count())
    }

    /// Which documents must not be written, and why: their `_id` or a unique key exists already. Of an ordered
    /// insert only the first.
    fn find_duplicates(
        &self,
        writing: &mut WriteState,
        changes: &CollectionChanges<'_>,
        ordered: bool,
    ) -> Result<Vec<(usize, Error)>> {
        let collection = changes.collection();
        let largest = self.largest_key(collection, writing)?;
        let ascending = changes.keys_ascend();
        let has_unique = collection
            .indexes
            .iter()
            .any(|index| index.spec.refuses_duplicates());
        let mut unique = has_unique.then(|| UniqueChecker::new(collection, &self.store.snapshot()));
        let by_document = has_unique.then(|| changes.new_entries_by_document());
        let mut seen: AHashSet<&[u8]> = AHashSet::new();
        let mut refused = Vec::new();
        for number in 0..changes.len() {
            let key = changes.key(number);
            let repeated = !ascending && seen.contains(key);
            let exists = repeated
                || (key <= largest && self.store.get(Family::Documents, key, |_| ())?.is_some());
            let verdict = match (&mut unique, &by_document) {
                _ if exists => {
                    let document = changes.document(number).after.as_deref();
                    let document = document.expect("an insert has a document");
                    Err(duplicate_id(collection, document))
                }
                (Some(unique), Some(entries)) => {
                    unique.check(collection, changes.entries(), &entries[number])
                }
                _ => Ok(()),
            };
            match verdict {
                Ok(()) if ascending => {}
                Ok(()) => _ = seen.insert(key),
                Err(error) if error.code == Code::DuplicateKey => {
                    refused.push((number, error));
                    if ordered {
                        break;
                    }
                }
                Err(error) => return Err(error),
            }
        }
        Ok(refused)
    }

    /// `tree ++ _id` of the greatest document, or the bare prefix when there is none.
    pub(super) fn largest_key<'w>(
        &self,
        collection: &Collection,
        writing: &'w mut WriteState,
    ) -> Result<&'w [u8]> {
        if writing.largest_key.is_none() {
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
            writing.largest_key = Some(found);
        }
        Ok(writing.largest_key.as_deref().expect("it was just set"))
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

impl<'a> PreparedDocuments<'a> {
    /// Does all that needs no lock. Stops at the first error when the insert is ordered, and when there are many
    /// bytes of index entries; returns how many documents were seen to.
    fn fill(
        &mut self,
        documents: &[&'a RawDocument],
        first: usize,
        options: &InsertOptions,
        errors: &mut Vec<WriteError>,
    ) -> usize {
        self.positions.clear();
        for (offset, document) in documents.iter().enumerate() {
            let changes = &mut self.changes;
            let added = normalise(document)
                .and_then(|stored| changes.insert(stored, options.bypass_validation));
            let index = first + offset;
            match added {
                Ok(()) => self.positions.push(index),
                Err(error) => {
                    errors.push(WriteError { index, error });
                    if options.ordered {
                        return offset + 1;
                    }
                }
            }
            if self.changes.entries().size_bytes() >= ENTRY_BYTES_MAX {
                return offset + 1;
            }
        }
        documents.len()
    }
}
