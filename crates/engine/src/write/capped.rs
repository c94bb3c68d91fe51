//! Inserts into capped collections: documents lie in the order in which they come, and the oldest go when there are more
//! than the collection holds.
//!
//! A document's place in that order is its record number, which it gets under the write lock, in the order of commits. Each
//! document is checked, added, and makes room for itself before the next one is seen to, as if each were a commit of its
//! own: an `_id` may come again as soon as the document that has it is gone.

use super::changes::{BATCH_BYTES_MAX, CollectionChanges};
use super::commit::Locked;
use super::entries::EntryChange;
use super::insert::{InsertOptions, InsertOutcome};
use super::prepare::normalise;
use super::unique::UniqueChecker;
use super::{WriteError, Writer};
use crate::catalog::{Capped, Collection, RecordNumber, WriteState, record_number};
use crate::error::{Code, Error, Result, corrupt_document};
use crate::operation;
use crate::storage::{Family, Order, Scan, Snapshot, TreeKey};
use bson::raw::{RawDocument, RawDocumentBuf};
use std::borrow::Cow;
use std::collections::VecDeque;
use std::sync::Arc;

impl Writer {
    /// Inserts the first few documents into a capped collection; returns how many were seen to, or `None` where the
    /// collection is not the current version any more.
    pub(super) fn insert_capped(
        &self,
        collection: &Arc<Collection>,
        documents: &[&RawDocument],
        first: usize,
        options: &InsertOptions,
        outcome: &mut InsertOutcome,
    ) -> Result<Option<usize>> {
        let mut writing = collection.state.lock();
        if !self.is_current(collection, &writing) {
            return Ok(None);
        }
        let mut filled = CappedChanges::new(self, collection, &mut writing)?;
        let mut seen = 0;
        for document in documents {
            let index = first + seen;
            seen += 1;
            match filled.insert(document, options.bypass_validation)? {
                None => outcome.inserted += 1,
                Some(error) => {
                    outcome.fail(WriteError { index, error });
                    if options.ordered {
                        break;
                    }
                }
            }
        }
        filled.commit()?;
        Ok(Some(seen))
    }
}

/// Changes of a capped collection, whose write lock is held.
struct CappedChanges<'w, 'd> {
    writer: &'w Writer,
    writing: &'w mut WriteState,
    limits: Capped,
    changes: CollectionChanges<'d>,
    /// What there is with the changes: documents, and their bytes.
    totals: (i64, i64),
    next: RecordNumber,
    snapshot: Snapshot,
    /// The documents that were there before, the oldest first, once one of them has to go.
    stored: Option<Scan>,
    /// The key of the last of them that goes.
    last_gone: Option<Vec<u8>>,
    /// The documents that the changes add, the oldest first.
    added: VecDeque<AddedDocument>,
    unique: UniqueChecker,
}

/// A document that is not committed yet.
struct AddedDocument {
    number: usize,
    bytes: i64,
    entries: Vec<Vec<EntryChange>>,
}

impl<'w, 'd> CappedChanges<'w, 'd> {
    fn new(
        writer: &'w Writer,
        collection: &Arc<Collection>,
        writing: &'w mut WriteState,
    ) -> Result<Self> {
        let limits = collection.options.capped;
        let limits = limits.expect("the collection is capped");
        let greatest = TreeKey::strip(writer.largest_key(collection, writing)?);
        let last = match greatest {
            [] => 0,
            key => record_number(key)?,
        };
        let snapshot = writer.store.snapshot();
        Ok(Self {
            unique: UniqueChecker::new(collection, &snapshot),
            writer,
            writing,
            limits,
            changes: CollectionChanges::new(collection),
            totals: (collection.state.documents(), collection.state.bytes()),
            next: last + 1,
            snapshot,
            stored: None,
            last_gone: None,
            added: VecDeque::new(),
        })
    }

    /// Adds a document and makes room for it; or tells what is wrong with it.
    ///
    /// # Errors
    /// Storage failures.
    fn insert(
        &mut self,
        document: &'d RawDocument,
        bypass_validation: bool,
    ) -> Result<Option<Error>> {
        let changes = &mut self.changes;
        let added = normalise(document).and_then(|document| {
            let bytes = document.as_bytes().len() as i64;
            changes.insert_record(self.next, document, bypass_validation)?;
            Ok(bytes)
        });
        let bytes = match added {
            Ok(bytes) => bytes,
            Err(error) => return Ok(Some(error)),
        };
        let (number, entries) = (changes.len() - 1, changes.last_entries());
        let collection = changes.collection();
        let is_unique = self.unique.check(collection, changes.entries(), &entries);
        if let Err(error) = is_unique {
            changes.withdraw(number);
            return match error.code {
                Code::DuplicateKey => Ok(Some(error)),
                _ => Err(error),
            };
        }
        self.next += 1;
        self.totals = (self.totals.0 + 1, self.totals.1 + bytes);
        self.added.push_back(AddedDocument {
            number,
            bytes,
            entries,
        });
        self.make_room()?;
        Ok(None)
    }

    /// Removes the oldest documents until there are no more than the collection holds. The newest stays in any case.
    fn make_room(&mut self) -> Result<()> {
        while self.limits.is_exceeded(self.totals.0, self.totals.1) && self.totals.0 > 1 {
            operation::check()?;
            if self.changes.size_bytes() >= BATCH_BYTES_MAX {
                self.commit()?;
            }
            match self.oldest_stored()? {
                Some((key, document)) => {
                    self.removed(document.as_bytes().len() as i64);
                    self.changes.delete(&key, Cow::Owned(document))?;
                    let entries = self.changes.last_entries();
                    self.unique.remove(self.changes.entries(), &entries);
                }
                None => {
                    let oldest = self.added.pop_front();
                    let oldest = oldest.ok_or_else(|| {
                        let message = "a capped collection has fewer documents than its totals say";
                        Error::new(Code::InternalError, message)
                    })?;
                    self.removed(oldest.bytes);
                    self.changes.withdraw(oldest.number);
                    self.unique.forget(self.changes.entries(), &oldest.entries);
                }
            }
        }
        Ok(())
    }

    fn removed(&mut self, bytes: i64) {
        self.totals = (self.totals.0 - 1, self.totals.1 - bytes);
    }

    /// The next document of those that were there before: its key and its content.
    fn oldest_stored(&mut self) -> Result<Option<(Vec<u8>, RawDocumentBuf)>> {
        let (start, end) = self.changes.collection().documents.range();
        let start = self.writing.oldest_key.as_deref().unwrap_or(&start);
        let snapshot = &self.snapshot;
        let stored = self
            .stored
            .get_or_insert_with(|| snapshot.scan(Family::Documents, start, &end, Order::Forward));
        if !stored.advance()? {
            return Ok(None);
        }
        let (key, document) = stored.entry();
        self.last_gone = Some(key.to_vec());
        let document = RawDocumentBuf::from_bytes(document.to_vec()).map_err(corrupt_document)?;
        Ok(Some((TreeKey::strip(key).to_vec(), document)))
    }

    /// Commits the changes, and goes on without any.
    fn commit(&mut self) -> Result<()> {
        let collection = self.changes.collection().clone();
        self.changes.sort();
        let locked = Locked {
            changes: &self.changes,
            writing: self.writing,
        };
        self.writer.commit(&mut [locked])?;
        if let Some(gone) = self.last_gone.take() {
            self.writing.oldest_key = Some(gone);
        }
        collection.state.arrivals().tell();
        self.changes.reset(&collection);
        self.added.clear();
        self.stored = None;
        self.snapshot = self.writer.store.snapshot();
        self.unique = UniqueChecker::new(&collection, &self.snapshot);
        Ok(())
    }
}
