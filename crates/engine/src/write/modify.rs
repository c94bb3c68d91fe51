//! Updates and deletes of documents that a query found.
//!
//! The query ran on a snapshot without locks. The change is worked out on what it saw; under the write
//! lock each document is compared with its newest state, and worked out again where it has changed.

use super::entries::{Entry, EntrySet};
use super::insert::{BATCH_BYTES_MAX, validate};
use super::unique::UniqueChecker;
use super::{Totals, Writer};
use crate::catalog::{Collection, Summaries};
use crate::error::Result;
use crate::index::IndexSet;
use crate::namespace::Namespace;
use crate::operation;
use crate::storage::{Batch, Family};
use bson::raw::{RawDocument, RawDocumentBuf};
use std::cmp::Ordering;
use std::sync::Arc;
use std::sync::atomic::Ordering as Atomic;

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
pub struct Applied {
    /// The document before.
    pub before: RawDocumentBuf,
    /// What became of it.
    pub change: Change,
}

/// A change with the index entries that it may add or take away.
struct Work {
    id_key: Vec<u8>,
    before: RawDocumentBuf,
    change: Change,
    old: EntrySet,
    new: EntrySet,
}

impl Writer {
    /// Changes the targets that still match, and reports them; those that vanished or no longer match are left
    /// out. A commit takes as many as `BATCH_BYTES_MAX` holds of what they were and become. With a
    /// unique index each document is a commit of its own, since one may free the key that the next one
    /// takes.
    ///
    /// # Errors
    /// What `decide` returns, validation failures, duplicate keys, storage failures; the targets
    /// before the failing one are changed then.
    pub fn modify(
        &self,
        namespace: &Namespace,
        targets: &[Target],
        bypass_validation: bool,
        decide: &Decision<'_>,
        report: &mut dyn FnMut(Applied),
    ) -> Result<()> {
        let mut rest = targets;
        while !rest.is_empty() {
            operation::check()?;
            let done = self.modify_together(namespace, rest, bypass_validation, decide, report)?;
            rest = &rest[done..];
        }
        Ok(())
    }

    /// Changes the first few targets; returns how many were seen to.
    fn modify_together(
        &self,
        namespace: &Namespace,
        targets: &[Target],
        bypass_validation: bool,
        decide: &Decision<'_>,
        report: &mut dyn FnMut(Applied),
    ) -> Result<usize> {
        loop {
            let Some(collection) = self.catalog.get(namespace) else {
                return Ok(targets.len());
            };
            self.wait_for_room(&collection)?;
            let has_unique = collection.indexes.iter().any(|index| index.spec.unique);
            let together = if has_unique { &targets[..1] } else { targets };
            let prepared = prepare_some(&collection, together, bypass_validation, decide);
            let Prepared {
                works,
                seen,
                mut failure,
            } = prepared;
            let writing = collection.state.lock();
            if !self.is_current(&collection, &writing) {
                continue;
            }
            let mut current = Vec::with_capacity(works.len());
            for work in works {
                match self.refresh(&collection, work, bypass_validation, decide) {
                    Ok(work) => current.extend(work),
                    Err(error) => {
                        failure = Some(error);
                        break;
                    }
                }
            }
            self.commit_changes(&collection, current, report)?;
            return failure.map_or(Ok(seen), Err);
        }
    }

    /// The work for the document's newest state: as prepared when it has not changed, worked out
    /// again when it has, `None` when it is gone or no longer matches.
    fn refresh(
        &self,
        collection: &Arc<Collection>,
        work: Work,
        bypass_validation: bool,
        decide: &Decision<'_>,
    ) -> Result<Option<Work>> {
        let newest = self.store.get(Family::Documents, &work.id_key, |bytes| {
            (bytes != work.before.as_bytes()).then(|| bytes.to_vec())
        })?;
        if !matches!(newest, Some(None)) {
            self.conflicts.fetch_add(1, Atomic::Relaxed);
        }
        match newest {
            None => Ok(None),
            Some(None) => Ok(Some(work)),
            Some(Some(bytes)) => {
                let document =
                    RawDocumentBuf::from_bytes(bytes).map_err(crate::exec::corrupt_document)?;
                Work::prepare(collection, work.id_key, document, bypass_validation, decide)
            }
        }
    }

    fn commit_changes(
        &self,
        collection: &Arc<Collection>,
        works: Vec<Work>,
        report: &mut dyn FnMut(Applied),
    ) -> Result<()> {
        let mut batch = self.store.batch();
        let (mut documents_added, mut bytes_added) = (0, 0);
        let has_unique = collection.indexes.iter().any(|index| index.spec.unique);
        let mut unique = has_unique.then(|| UniqueChecker::new(collection, &self.store.snapshot()));
        for work in &works {
            if let Some(unique) = &mut unique {
                work.check_unique(collection, unique)?;
            }
            work.write(collection, &mut batch);
            self.note_multikey(collection, &work.new, &mut batch);
            let size_before = work.before.as_bytes().len() as i64;
            match &work.change {
                Change::Keep => {}
                Change::Replace(after) => {
                    bytes_added += after.as_bytes().len() as i64 - size_before
                }
                Change::Remove => {
                    documents_added -= 1;
                    bytes_added -= size_before;
                }
            }
        }
        if !batch.is_empty() {
            let ids = works.iter().map(|work| work.id_key.as_slice());
            collection.state.watchers().note(ids);
            let totals = Totals {
                documents_added,
                bytes_added,
            };
            self.commit(collection, batch, &totals, |summaries| {
                works
                    .iter()
                    .for_each(|work| work.summarise(collection, summaries));
            })?;
        }
        for work in works {
            report(Applied {
                before: work.before,
                change: work.change,
            });
        }
        Ok(())
    }
}

/// Work for the first few targets.
struct Prepared {
    works: Vec<Work>,
    /// Targets that were seen to, whether there is work for them or not.
    seen: usize,
    /// Why the next one cannot be changed.
    failure: Option<crate::Error>,
}

/// Prepares targets up to the first that fails, or until a commit is full: documents may become much larger
/// than they were, or get many index entries.
fn prepare_some(
    collection: &Collection,
    targets: &[Target],
    bypass_validation: bool,
    decide: &Decision<'_>,
) -> Prepared {
    let mut prepared = Prepared {
        works: Vec::new(),
        seen: 0,
        failure: None,
    };
    let mut bytes = 0;
    for target in targets {
        let id_key = collection.documents.key(&target.id);
        let before = target.document.clone();
        match Work::prepare(collection, id_key, before, bypass_validation, decide) {
            Ok(work) => {
                bytes += work.as_ref().map_or(0, Work::size_bytes);
                prepared.works.extend(work);
                prepared.seen += 1;
            }
            Err(error) => {
                prepared.failure = Some(error);
                break;
            }
        }
        if bytes >= BATCH_BYTES_MAX {
            break;
        }
    }
    prepared
}

impl Work {
    fn prepare(
        collection: &Collection,
        id_key: Vec<u8>,
        before: RawDocumentBuf,
        bypass_validation: bool,
        decide: &Decision<'_>,
    ) -> Result<Option<Self>> {
        let Some(change) = decide(&before)? else {
            return Ok(None);
        };
        let (mut old, mut new) = (EntrySet::default(), EntrySet::default());
        old.clear(collection.indexes.len());
        new.clear(collection.indexes.len());
        let id = &id_key[4..];
        match &change {
            Change::Keep => {}
            Change::Remove => old.add(collection, 0, &before, id, IndexSet::ALL)?,
            Change::Replace(after) => {
                if !bypass_validation {
                    validate(collection, after, Some(&before))?;
                }
                // Entries that stay are not even made.
                let changed = collection.keys().changed(&before, after);
                old.add(collection, 0, &before, id, changed)?;
                new.add(collection, 0, after, id, changed)?;
            }
        }
        old.finish();
        new.finish();
        Ok(Some(Self {
            id_key,
            before,
            change,
            old,
            new,
        }))
    }

    /// Bytes that the work holds.
    fn size_bytes(&self) -> usize {
        let after = match &self.change {
            Change::Replace(after) => after.as_bytes().len(),
            Change::Keep | Change::Remove => 0,
        };
        self.before.as_bytes().len() + after + self.old.size_bytes() + self.new.size_bytes()
    }

    fn check_unique(&self, collection: &Collection, unique: &mut UniqueChecker) -> Result<()> {
        let Change::Replace(_) = &self.change else {
            return Ok(());
        };
        let added: Vec<Vec<Entry>> = (0..collection.indexes.len())
            .map(|position| {
                let mut added = Vec::new();
                self.compare_entries(position, &mut |_, new| added.extend(new.copied()));
                added
            })
            .collect();
        unique.check(collection, &self.new, &added)
    }

    fn write(&self, collection: &Collection, batch: &mut Batch) {
        match &self.change {
            Change::Keep => return,
            Change::Replace(after) => {
                batch.replace(Family::Documents, &self.id_key, after.as_bytes());
            }
            Change::Remove => batch.delete(Family::Documents, &self.id_key),
        }
        for position in 0..collection.indexes.len() {
            self.compare_entries(position, &mut |old, new| match (old, new) {
                (Some(old), None) => batch.delete(Family::Indexes, self.old.key(old)),
                (None, Some(new)) => {
                    batch.add(Family::Indexes, self.new.key(new), self.new.value(new));
                }
                (Some(_), Some(new)) => {
                    batch.replace(Family::Indexes, self.new.key(new), self.new.value(new));
                }
                (None, None) => {}
            });
        }
    }

    /// Tells the summaries what was changed.
    fn summarise(&self, collection: &Collection, summaries: &mut Summaries) {
        match &self.change {
            Change::Keep => return,
            Change::Replace(_) => summaries.touch(collection.documents, [&self.id_key[4..]]),
            Change::Remove => summaries.remove(collection.documents, [&self.id_key[4..]]),
        }
        for (position, index) in collection.indexes.iter().enumerate() {
            self.compare_entries(position, &mut |old, new| match (old, new) {
                (Some(old), None) => summaries.remove(index.tree, [&self.old.key(old)[4..]]),
                (None, Some(new)) => summaries.add(index.tree, [&self.new.key(new)[4..]]),
                (Some(_), Some(new)) => summaries.touch(index.tree, [&self.new.key(new)[4..]]),
                (None, None) => {}
            });
        }
    }

    /// Walks the sorted old and new entries of one index together and reports what differs:
    /// `(Some, None)` vanishes, `(_, Some)` is new or has a new value.
    fn compare_entries(
        &self,
        position: usize,
        report: &mut dyn FnMut(Option<&Entry>, Option<&Entry>),
    ) {
        let (mut old, mut new) = (self.old.list(position), self.new.list(position));
        loop {
            match (old.first(), new.first()) {
                (None, None) => return,
                (Some(first), None) => {
                    report(Some(first), None);
                    old = &old[1..];
                }
                (None, Some(first)) => {
                    report(None, Some(first));
                    new = &new[1..];
                }
                (Some(a), Some(b)) => match self.old.key(a).cmp(self.new.key(b)) {
                    Ordering::Less => {
                        report(Some(a), None);
                        old = &old[1..];
                    }
                    Ordering::Greater => {
                        report(None, Some(b));
                        new = &new[1..];
                    }
                    Ordering::Equal => {
                        if self.old.value(a) != self.new.value(b) {
                            report(Some(a), Some(b));
                        }
                        (old, new) = (&old[1..], &new[1..]);
                    }
                },
            }
        }
    }
}
