//! Brings trees that hold the entries of one snapshot up to date with a later one, and makes the
//! indexes ready.
//!
//! Only documents that were changed between the two have to be looked at: the entries that the older
//! version had and the newer has not are deleted, those that are new are put.

use super::{Build, BuildPhase, BuildProgress, Report, changed_sorter, holds, replace_former};
use crate::catalog::Index;
use crate::error::{Code, Result};
use crate::index::IndexSet;
use crate::sorter::{Sorted, Sorter};
use crate::storage::{Family, Order, Snapshot, TreeKey};
use crate::write::entries::EntryChanges;
use crate::write::unique::{duplicate_in_index, holds_other};
use bson::raw::RawDocument;
use std::sync::Arc;

/// Changed documents that are indexed under the write lock, together with making the index ready.
const LAST_ROUND_DOCUMENTS: u64 = 1_000;
/// While a round is worked off, writers may change so much less than was changed before it.
const SHRINK: u64 = 2;
/// From 2^40 changes on. Each writer may commit one batch more than it should, so that rounds of many
/// writers stop shrinking earlier; then the last is as long as that.
const ROUNDS_MAX: usize = 32;
/// Documents whose entries are compared together: all of them are in memory, before and after.
const PAGE_DOCUMENTS: usize = 64;

/// Which of a document's two versions entries are made of.
#[derive(Clone, Copy)]
enum Version {
    Before,
    After,
}

impl Build<'_> {
    /// Works off what was changed, in rounds, and publishes the indexes as ready.
    pub(super) fn catch_up(&mut self, report: &mut Report<'_>) -> Result<()> {
        for _ in 0..ROUNDS_MAX {
            self.put_changed_aside()?;
            if self.sorter.entries() <= LAST_ROUND_DOCUMENTS {
                break;
            }
            let state = self.state.clone();
            let (changed, present) = {
                let _writing = state.lock();
                self.begin_round()?
            };
            self.round(changed, present, report)?;
        }
        self.finish(report)
    }

    /// What was changed since the snapshot, and the present; the caller holds the write lock.
    fn begin_round(&mut self) -> Result<(Sorter, Snapshot)> {
        self.put_changed_aside()?;
        let changed = std::mem::replace(&mut self.sorter, changed_sorter(self.writer));
        let fewer = (changed.entries() / SHRINK).max(LAST_ROUND_DOCUMENTS);
        self.changed.count_anew(fewer);
        Ok((changed, self.writer.store.snapshot()))
    }

    /// The last round, and the publication, under the write lock.
    fn finish(&mut self, report: &mut Report<'_>) -> Result<()> {
        let namespace = self.collection()?.namespace.clone();
        let writer = self.writer;
        let published = writer.change_draft(&namespace, |draft| {
            // Before the lock was taken it may have been dropped, or another have taken its name.
            let is_own = Arc::ptr_eq(&draft.collection.state, &self.state);
            let is_held = |index: &Arc<Index>| holds(&draft.collection, index);
            if !is_own || !self.indexes.iter().all(is_held) {
                return Err(self.aborted("the collection or an index"));
            }
            let (changed, present) = self.begin_round()?;
            self.round(changed, present, report)?;
            for (index, ranks) in self.indexes.iter().zip(std::mem::take(&mut self.ranks)) {
                let mut own = draft.collection.indexes.iter_mut();
                let own = own.find(|own| own.tree == index.tree);
                // Another version of it, when it was hidden meanwhile.
                let own = own.expect("the collection holds all of them");
                *own = Arc::new(own.built());
                draft.counts.push((index.tree, ranks));
                replace_former(&mut draft.collection.indexes, index.tree);
            }
            Ok(())
        });
        published.map_err(|error| match error.code {
            Code::NamespaceNotFound => self.aborted("the collection"),
            _ => error,
        })?;
        if self.state.ranks().wants_scan(&writer.store) {
            writer.ranks.queue(self.state.ranks());
        }
        Ok(())
    }

    /// Brings the trees from the snapshot to the present.
    fn round(&mut self, changed: Sorter, present: Snapshot, report: &mut Report<'_>) -> Result<()> {
        let changed = changed.finish()?;
        let total = changed.entries;
        let mut done = 0;
        let mut entries = EntryChanges::default();
        each_page(&changed, |ids| {
            let before = self.snapshot.clone();
            entries.reset(self.indexes.iter().map(|index| index.tree));
            self.make_entries(&before, ids, Version::Before, &mut entries)?;
            self.make_entries(&present, ids, Version::After, &mut entries)?;
            entries.compare();
            entries.sort();
            for (position, index) in self.indexes.iter().enumerate() {
                index.note_multikey(entries.multikey(position));
            }
            self.writer.commit_built(&entries, &mut self.ranks)?;
            done += ids.len() as u64;
            report(BuildProgress {
                phase: BuildPhase::CatchingUp,
                done,
                total,
            });
            crate::operation::check()
        })?;
        // All of them first: one document may have taken the key that a later one gave up.
        if self.indexes.iter().any(|index| index.spec.unique) {
            each_page(&changed, |ids| self.check_unique_now(&present, ids))?;
        }
        self.snapshot = present;
        Ok(())
    }

    /// Makes the entries that the documents with these keys have in a snapshot; none for one that is not there.
    fn make_entries(
        &self,
        snapshot: &Snapshot,
        ids: &[Vec<u8>],
        version: Version,
        entries: &mut EntryChanges,
    ) -> Result<()> {
        let keys: Vec<&[u8]> = ids.iter().map(Vec::as_slice).collect();
        let mut made = Ok(());
        snapshot.multi_get(Family::Documents, &keys, &mut |number, document| {
            if let (Some(document), Ok(())) = (document, &made) {
                made = self.add_entries(
                    number,
                    TreeKey::strip(&ids[number]),
                    document,
                    version,
                    entries,
                );
            }
        })?;
        made
    }

    fn add_entries(
        &self,
        number: usize,
        id: &[u8],
        document: &[u8],
        version: Version,
        entries: &mut EntryChanges,
    ) -> Result<()> {
        let document = RawDocument::from_bytes(document).map_err(crate::error::corrupt_document)?;
        let (keys, number) = (&self.keys, number as u32);
        let added = match version {
            Version::Before => entries.add_before(keys, number, document, id, IndexSet::ALL),
            Version::After => entries.add_after(keys, number, document, id, IndexSet::ALL),
        };
        added.map_err(|error| self.refused_now(error))
    }

    /// Whether these documents' entries in unique indexes are the only ones with their keys.
    fn check_unique_now(&self, present: &Snapshot, ids: &[Vec<u8>]) -> Result<()> {
        let trees = self.writer.store.snapshot();
        let mut entries = EntryChanges::default();
        entries.reset(self.indexes.iter().map(|index| index.tree));
        self.make_entries(present, ids, Version::After, &mut entries)?;
        entries.compare();
        for (position, index) in self.indexes.iter().enumerate() {
            if !index.spec.unique {
                continue;
            }
            let (start, end) = index.tree.range();
            let mut scan = trees.scan(Family::Indexes, &start, &end, Order::Forward);
            for entry in entries.list(position) {
                let key = entries.key(entry);
                let part = entries.unique_part(entry);
                if holds_other(&mut scan, part, key)? {
                    let error = duplicate_in_index(
                        &self.namespace,
                        index,
                        TreeKey::strip(part),
                        entries.value(entry),
                    );
                    return Err(self.refused_now(error));
                }
            }
        }
        Ok(())
    }
}

/// Hands the keys out in pages, in order and each once.
fn each_page(changed: &Sorted, mut visit: impl FnMut(&[Vec<u8>]) -> Result<()>) -> Result<()> {
    let mut merge = changed.merge()?;
    let mut page: Vec<Vec<u8>> = Vec::new();
    while let Some((id, _)) = merge.next()? {
        if page.last().is_some_and(|last| last == id) {
            continue;
        }
        if page.len() == PAGE_DOCUMENTS {
            visit(&page)?;
            page.clear();
        }
        page.push(id.to_vec());
    }
    if page.is_empty() {
        Ok(())
    } else {
        visit(&page)
    }
}
