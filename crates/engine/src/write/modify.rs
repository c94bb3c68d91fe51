//! Updates and deletes of documents that a query found.
//!
//! The query ran on a snapshot without locks. The change is worked out on what it saw; under the write
//! lock each document is compared with its newest state, and worked out again where it has changed.

use super::Writer;
use super::changes::{BATCH_BYTES_MAX, CollectionChanges};
use super::commit::Locked;
use super::unique::UniqueChecker;
use crate::catalog::Collection;
use crate::error::Result;
use crate::operation;
use crate::storage::Family;
use bson::raw::{RawDocument, RawDocumentBuf};
use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// A document that a query found, as it was in the query's snapshot.
#[derive(Debug, Clone)]
pub struct Target {
    /// Its encoded `_id`.
    pub id: Vec<u8>,
    /// Its content.
    pub document: RawDocumentBuf,
}

/// What is to become of a document.
#[derive(Debug, Clone, PartialEq)]
pub enum Change {
    /// It matches, and stays as it is.
    Keep,
    /// It becomes this document, with the same `_id`.
    Replace(RawDocumentBuf),
    /// It is deleted.
    Remove,
}

/// Works a change out from a document's content; `None` when the document does not match (any more).
pub type Decision<'a> = dyn Fn(&RawDocument) -> Result<Option<Change>> + 'a;

/// A change that was carried out.
#[derive(Debug, Clone)]
pub struct AppliedChange {
    /// The document before.
    pub before: RawDocumentBuf,
    /// What became of it.
    pub change: Change,
}

impl Writer {
    /// Changes the targets, which were found in this collection, where they still match, and reports them; those that
    /// vanished or no longer match are left out. A commit takes as many as `BATCH_BYTES_MAX` holds of what they were and
    /// become. With a unique index each document is a commit of its own, since one may free the key that the next one takes.
    ///
    /// # Errors
    /// What `decide` returns, validation failures, duplicate keys, storage failures, `QueryPlanKilled` (175) where the
    /// collection was dropped or renamed since; the targets before the failing one are changed then.
    pub fn modify(
        &self,
        collection: &Collection,
        targets: &[Target],
        bypass_validation: bool,
        decide: &Decision<'_>,
        report: &mut dyn FnMut(AppliedChange),
    ) -> Result<()> {
        let mut rest = targets;
        while !rest.is_empty() {
            operation::check()?;
            let done = self.modify_together(collection, rest, bypass_validation, decide, report)?;
            rest = &rest[done..];
        }
        Ok(())
    }

    /// Changes the first few targets; returns how many were seen to.
    fn modify_together(
        &self,
        collection: &Collection,
        targets: &[Target],
        bypass_validation: bool,
        decide: &Decision<'_>,
        report: &mut dyn FnMut(AppliedChange),
    ) -> Result<usize> {
        loop {
            let collection = self.catalog.now(collection)?;
            self.wait_for_room(&collection)?;
            // Changes keep the `_id`.
            let mut others = collection.secondary_indexes().iter();
            let has_unique = others.any(|index| index.spec.refuses_duplicates());
            let together = if has_unique { &targets[..1] } else { targets };
            let mut works = Works::prepare(&collection, together, bypass_validation, decide);
            let mut writing = collection.state.lock();
            if !self.is_current(&collection, &writing) {
                continue;
            }
            self.refresh(&mut works, bypass_validation, decide)?;
            if has_unique {
                self.check_unique(&works.changes)?;
            }
            works.changes.sort();
            let changes = &works.changes;
            self.commit(&mut [Locked {
                changes,
                writing: &mut writing,
            }])?;
            drop(writing);
            let (seen, failure) = (works.outcomes.len(), works.failure.take());
            works.report(report);
            return failure.map_or(Ok(seen), Err);
        }
    }

    /// Compares each document with its newest state: what was worked out is worked out again where it has
    /// changed, and given up where it is gone or no longer matches.
    fn refresh(
        &self,
        works: &mut Works<'_>,
        bypass_validation: bool,
        decide: &Decision<'_>,
    ) -> Result<()> {
        let documents = works.changes.collection().documents;
        for position in 0..works.outcomes.len() {
            if matches!(works.outcomes[position], TargetOutcome::Nothing) {
                continue;
            }
            let target = &works.targets[position];
            let key = documents.key(&target.id);
            let newest = self.store.get(Family::Documents, &key, |bytes| {
                (bytes != target.document.as_bytes()).then(|| bytes.to_vec())
            })?;
            if matches!(newest, Some(None)) {
                continue;
            }
            self.conflicts.fetch_add(1, Ordering::Relaxed);
            works.withdraw(position);
            let Some(Some(bytes)) = newest else {
                continue;
            };
            let newest =
                RawDocumentBuf::from_bytes(bytes).map_err(crate::error::corrupt_document)?;
            match works.work_out(target, Cow::Owned(newest), bypass_validation, decide) {
                Ok(outcome) => works.outcomes[position] = outcome,
                Err(error) => {
                    works.failure = Some(error);
                    works.withdraw_from(position);
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// Whether the documents' new entries are the only ones with their keys in unique indexes.
    fn check_unique(&self, changes: &CollectionChanges<'_>) -> Result<()> {
        let collection = changes.collection();
        let mut unique = UniqueChecker::new(collection, &self.store.snapshot());
        let by_document = changes.new_entries_by_document();
        for (number, entries) in by_document.iter().enumerate() {
            if !changes.document(number).is_withdrawn() {
                unique.check(collection, changes.entries(), entries)?;
            }
        }
        Ok(())
    }
}

/// What was worked out for the first few targets.
struct Works<'t> {
    targets: &'t [Target],
    /// What becomes of each of those that were seen to.
    outcomes: Vec<TargetOutcome<'t>>,
    changes: CollectionChanges<'t>,
    /// Why the next one cannot be changed.
    failure: Option<crate::Error>,
}

/// What becomes of a target.
enum TargetOutcome<'t> {
    /// It is gone, or does not match.
    Nothing,
    /// It matches, and stays as it is.
    Kept(Cow<'t, RawDocument>),
    /// The change with this number.
    Changed(usize),
}

impl<'t> Works<'t> {
    /// Works out targets up to the first that fails, or until a commit is full: documents may become much larger
    /// than they were, or get many index entries.
    fn prepare(
        collection: &Arc<Collection>,
        targets: &'t [Target],
        bypass_validation: bool,
        decide: &Decision<'_>,
    ) -> Self {
        let mut works = Self {
            targets,
            outcomes: Vec::new(),
            changes: CollectionChanges::new(collection),
            failure: None,
        };
        for target in targets {
            let before = Cow::Borrowed(&*target.document);
            match works.work_out(target, before, bypass_validation, decide) {
                Ok(outcome) => works.outcomes.push(outcome),
                Err(error) => {
                    works.failure = Some(error);
                    break;
                }
            }
            if works.changes.size_bytes() >= BATCH_BYTES_MAX {
                break;
            }
        }
        works.changes.shrink();
        works
    }

    fn work_out(
        &mut self,
        target: &Target,
        before: Cow<'t, RawDocument>,
        bypass_validation: bool,
        decide: &Decision<'_>,
    ) -> Result<TargetOutcome<'t>> {
        let number = self.changes.len();
        match decide(&before)? {
            None => return Ok(TargetOutcome::Nothing),
            Some(Change::Keep) => return Ok(TargetOutcome::Kept(before)),
            Some(Change::Remove) => self.changes.delete(&target.id, before)?,
            Some(Change::Replace(after)) => {
                let changes = &mut self.changes;
                changes.replace(&target.id, before, after, bypass_validation)?;
            }
        }
        Ok(TargetOutcome::Changed(number))
    }

    /// Gives up what was worked out for a target.
    fn withdraw(&mut self, position: usize) {
        let outcome = std::mem::replace(&mut self.outcomes[position], TargetOutcome::Nothing);
        if let TargetOutcome::Changed(number) = outcome {
            self.changes.withdraw(number);
        }
    }

    /// Gives up what was worked out for a target and all behind it.
    fn withdraw_from(&mut self, position: usize) {
        (position..self.outcomes.len()).for_each(|position| self.withdraw(position));
    }

    /// Reports what became of the targets.
    fn report(self, report: &mut dyn FnMut(AppliedChange)) {
        let mut documents = self.changes.into_documents();
        for outcome in self.outcomes {
            let (before, change) = match outcome {
                TargetOutcome::Nothing => continue,
                TargetOutcome::Kept(before) => (before, Change::Keep),
                TargetOutcome::Changed(number) => {
                    let document = &mut documents[number];
                    let before = document.before.take().expect("it was there before");
                    let after = document.after.take();
                    let replaced =
                        |after: Cow<'_, RawDocument>| Change::Replace(after.into_owned());
                    (before, after.map_or(Change::Remove, replaced))
                }
            };
            report(AppliedChange {
                before: before.into_owned(),
                change,
            });
        }
    }
}
