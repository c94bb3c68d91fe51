//! The one way in which documents change: changes of one or several collections, committed together or not at all.
//!
//! In: [`CollectionChanges`], with the write lock of each collection. Everything that follows from them is derived here, once,
//! from the same list, so that no two of them can disagree:
//!
//! | derived | used by |
//! |---|---|
//! | one storage batch: documents, index entries, totals, what they show that plans rely on | the storage |
//! | which keys came, went or stayed with another value | counts, and what is cached of their ranges |
//! | which documents changed | index builds that have to catch up |
//! | the greatest `_id` | later inserts |
//!
//! In the log each write says for itself whether its key is new ([`KeyChange`]): a replay does not depend on how
//! writers were grouped. Entries of an index that is being built are committed by the same derivation, with
//! counts of the build's own ([`Writer::commit_built`]).

use super::Writer;
use super::changes::CollectionChanges;
use super::entries::{ChangedKeys, EntryChanges, KeyChange};
use crate::catalog::{WriteState, put_collection_entry, read_totals, statistics_entry};
use crate::error::Result;
use crate::rank::{RankIndex, RankIndexes};
use crate::storage::{AddEntry, Batch, Family, StoreError};

/// Changes of a collection, and its write lock.
pub(super) struct Locked<'l, 'd> {
    pub changes: &'l CollectionChanges<'d>,
    pub writing: &'l mut WriteState,
}

impl Writer {
    /// Commits the changes of several collections together. Their versions are the current ones, which their write
    /// locks keep.
    ///
    /// # Errors
    /// Storage failures; nothing has changed then, unless the outcome is unknown ([`StoreError::OutcomeUnknown`]).
    pub(super) fn commit(&self, locked: &mut [Locked<'_, '_>]) -> Result<()> {
        let mut batch = self.store.batch();
        for Locked { changes, .. } in &*locked {
            self.derive(changes, &mut batch);
        }
        if batch.is_empty() {
            return Ok(());
        }
        for Locked { changes, .. } in &*locked {
            let state = &changes.collection().state;
            state.change_capture().note(changes.changed_keys());
            state.ranks().begin_commit(&self.store);
        }
        let written = self.store.write(batch);
        for Locked { changes, writing } in locked {
            match written {
                Err(StoreError::OutcomeUnknown) => self.settle(changes, writing)?,
                _ => self.end_commit(changes, writing, written.is_ok()),
            }
        }
        Ok(written?)
    }

    /// Adds everything that is written for the changes of one collection to the batch.
    fn derive(&self, changes: &CollectionChanges<'_>, batch: &mut Batch) {
        if changes.is_empty() {
            return;
        }
        changes.write(batch);
        let collection = changes.collection();
        // Known before the commit: a query planned in between only gives up a shortcut.
        for (position, index) in collection.indexes.iter().enumerate() {
            index.note_multikey(changes.entries().multikey(position));
        }
        collection
            .state
            .note_bucket_millis(changes.longest_bucket_millis());
        if !collection.is_stored() {
            put_collection_entry(batch, collection);
        }
        let (state, totals) = (&collection.state, changes.totals());
        let (key, value) = statistics_entry(
            collection.documents,
            state.documents() + totals.documents_added,
            state.bytes() + totals.bytes_added,
        );
        batch.put(Family::Catalog, &key, &value);
    }

    /// Makes counts and totals agree with what was written.
    fn end_commit(
        &self,
        changes: &CollectionChanges<'_>,
        writing: &mut WriteState,
        is_written: bool,
    ) {
        let state = &changes.collection().state;
        let mut wants_work = false;
        state.ranks().end_commit(|ranks| {
            if is_written {
                changes.each_tree(&mut |changed| count(ranks, changed));
                let totals = changes.totals();
                state.set_totals(
                    state.documents() + totals.documents_added,
                    state.bytes() + totals.bytes_added,
                );
                wants_work = ranks.wants_work();
            }
        });
        if is_written {
            changes.collection().note_stored();
            note_greatest_key(changes, writing);
        }
        if wants_work {
            self.ranks.queue(state.ranks());
        }
    }

    /// Makes counts and totals agree with what the store has, where it did not tell whether it has written: the write
    /// lock is held, so nobody else writes to the collection. The rank indexes are built anew.
    fn settle(&self, changes: &CollectionChanges<'_>, writing: &mut WriteState) -> Result<()> {
        let collection = changes.collection();
        let state = &collection.state;
        state.ranks().end_commit(|_| {});
        for (_, tree) in collection.counted_trees() {
            state.ranks().forget(tree);
        }
        note_greatest_key(changes, writing);
        self.ranks.queue(state.ranks());
        let (documents, bytes) = read_totals(&self.store, collection.documents)?.unwrap_or((0, 0));
        state.set_totals(documents, bytes);
        Ok(())
    }

    /// Commits entries of indexes that are being built: nobody else writes to their trees or counts them. The
    /// build's own rank indexes are in the order of its indexes.
    ///
    /// # Errors
    /// Storage failures; the rank indexes are then to be given up with the build.
    pub(super) fn commit_built(
        &self,
        entries: &EntryChanges,
        ranks: &mut [RankIndex],
    ) -> Result<()> {
        let mut batch = self.store.batch();
        entries.write(&mut batch, &|_| true);
        if batch.is_empty() {
            return Ok(());
        }
        self.store.write(batch)?;
        entries.each_tree(&|_| true, &mut |changed| {
            let ranks = &mut ranks[changed.position];
            match changed.change {
                KeyChange::Added => ranks.add(changed.keys),
                KeyChange::Removed => _ = ranks.remove(changed.keys),
                KeyChange::Replaced => ranks.touch(changed.keys),
            }
        });
        Ok(())
    }

    /// Commits the few entries that `fill` gives of indexes that are being built and whose trees are empty. The build
    /// counts them.
    ///
    /// # Errors
    /// What `fill` returns; storage failures.
    pub(super) fn commit_loaded(
        &self,
        fill: impl FnOnce(&mut AddEntry<'_>) -> Result<()>,
    ) -> Result<()> {
        let mut batch = self.store.batch();
        fill(&mut |key, value| {
            batch.put(Family::Indexes, key, value);
            Ok(())
        })?;
        match batch.is_empty() {
            true => Ok(()),
            false => Ok(self.store.write(batch)?),
        }
    }
}

fn count(ranks: &mut RankIndexes, changed: ChangedKeys<'_>) {
    match changed.change {
        KeyChange::Added => ranks.add(changed.tree, changed.keys),
        KeyChange::Removed => ranks.remove(changed.tree, changed.keys),
        KeyChange::Replaced => ranks.touch(changed.tree, changed.keys),
    }
}

/// A greater `_id` than all others is not looked for when it is inserted.
fn note_greatest_key(changes: &CollectionChanges<'_>, writing: &mut WriteState) {
    if let (Some(greatest), Some(known)) = (changes.changed_keys().max(), &mut writing.largest_key)
        && greatest > known.as_slice()
    {
        known.clear();
        known.extend_from_slice(greatest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::{Catalog, Collection, CollectionOptions};
    use crate::error::Code;
    use crate::index::IndexSpec;
    use crate::namespace::Namespace;
    use crate::rank::RanksAtStart;
    use crate::storage::TreeKey;
    use crate::storage::{CommitFault, MemoryOptions, Order, Store, StoreOptions};
    use crate::write::{InsertOptions, encode_id};
    use bson::oid::ObjectId;
    use bson::raw::{RawDocument, RawDocumentBuf};
    use bson::{DateTime, rawdoc};
    use std::borrow::Cow;
    use std::path::Path;
    use std::sync::Arc;

    fn open(directory: &Path) -> Writer {
        let store = Store::open(directory, &StoreOptions::default()).unwrap();
        let catalog = Arc::new(Catalog::load(store.clone()).unwrap());
        Writer::new(store, catalog, 1 << 20)
    }

    fn name(collection: &str) -> Namespace {
        Namespace::new("db", collection).unwrap()
    }

    fn document(id: i32, a: i32) -> RawDocumentBuf {
        rawdoc! { "_id": id, "a": [a, a + 1], "b": a }
    }

    fn key(document: &RawDocument) -> Vec<u8> {
        let mut id = Vec::new();
        encode_id(document, &meridian_value::Collation::SIMPLE, &mut id).unwrap();
        id
    }

    /// Makes a collection with two indexes and the documents 0 to 499.
    fn fill(writer: &Writer, collection: &str) {
        let documents: Vec<_> = (0..500).map(|id| document(id, id)).collect();
        let documents: Vec<&RawDocument> = documents.iter().map(|one| &**one).collect();
        let inserted = writer.insert(&name(collection), &documents, &InsertOptions::default());
        assert_eq!(inserted.unwrap().inserted, 500);
        for key in [rawdoc! { "a": 1 }, rawdoc! { "b": 1 }] {
            let spec = rawdoc! { "name": format!("{key:?}"), "key": key };
            let specs = vec![IndexSpec::parse(&spec).unwrap()];
            let built = writer.build_indexes(&name(collection), specs, &mut |_| {});
            built.unwrap();
        }
    }

    fn walked(writer: &Writer, family: Family, tree: TreeKey) -> u64 {
        let (start, end) = tree.range();
        let snapshot = writer.store.snapshot();
        let mut scan = snapshot.scan(family, &start, &end, Order::Forward);
        let mut entries = 0;
        while scan.advance().unwrap() {
            entries += 1;
        }
        entries
    }

    /// Compares counts and totals with what is stored; the number of documents.
    fn check(writer: &Writer, collection: &Collection) -> u64 {
        for (family, tree) in collection.counted_trees() {
            let counted = collection
                .state
                .ranks()
                .peek(tree, |ranks| ranks.is_complete().then(|| ranks.entries()));
            assert_eq!(counted, Some(walked(writer, family, tree)));
        }
        let documents = walked(writer, Family::Documents, collection.documents);
        assert_eq!(collection.state.documents(), documents as i64);
        documents
    }

    /// Inserts, replacements and deletes of two collections in one commit: counts are those of what is stored, at
    /// once and when the log is replayed.
    #[test]
    fn a_mixed_commit_of_two_collections_counts_as_it_is_stored() {
        let directory = tempfile::tempdir().unwrap();
        let writer = open(directory.path());
        fill(&writer, "one");
        fill(&writer, "other");
        writer.ranks.save(writer.catalog.ranks()).unwrap();
        let collections = ["one", "other"].map(|each| writer.catalog.get(&name(each)).unwrap());
        let [mut one, mut other] = collections.each_ref().map(CollectionChanges::new);
        for id in [-1, 700, 600, 900] {
            one.insert(Cow::Owned(document(id, id)), false).unwrap();
        }
        one.withdraw(3);
        for id in [3, 499] {
            let before = document(id, id);
            let after = document(id, id + 1_000);
            one.replace(&key(&before), Cow::Owned(before), after, false)
                .unwrap();
        }
        for id in 10..17 {
            let before = document(id, id);
            other.delete(&key(&before), Cow::Owned(before)).unwrap();
        }
        other.withdraw_from(5);
        other.insert(Cow::Owned(document(800, 7)), false).unwrap();
        for changes in [&mut one, &mut other] {
            changes.sort();
        }
        let [mut first, mut second] = collections.each_ref().map(|each| each.state.lock());
        let locked = |changes, writing| Locked { changes, writing };
        writer
            .commit(&mut [locked(&one, &mut first), locked(&other, &mut second)])
            .unwrap();
        drop((first, second));
        let expected = [503, 496];
        assert_eq!(
            collections.each_ref().map(|each| check(&writer, each)),
            expected
        );
        drop((one, other, collections, writer));

        let writer = open(directory.path());
        let start = writer.catalog.ranks_at_start();
        assert_eq!(start, RanksAtStart::CaughtUp);
        let collections = ["one", "other"].map(|each| writer.catalog.get(&name(each)).unwrap());
        assert_eq!(
            collections.each_ref().map(|each| check(&writer, each)),
            expected
        );
    }

    /// Whatever an answer that was lost stood for, counts and totals are those of what is stored, and a document that
    /// was not written can be written again.
    #[test]
    fn counts_agree_when_the_answer_to_a_commit_was_lost() {
        let options = MemoryOptions::default();
        let faults = options.faults.clone();
        let store = Store::in_memory_with(options);
        let catalog = Arc::new(Catalog::load(store.clone()).unwrap());
        let writer = Writer::new(store, catalog, 1 << 20);
        fill(&writer, "one");
        let insert = |id: i32| {
            let document = document(id, id);
            writer.insert(&name("one"), &[&document], &InsertOptions::default())
        };
        let collection = writer.catalog.get(&name("one")).unwrap();
        for (fault, written) in [
            (CommitFault::UnknownCommitted, 1),
            (CommitFault::UnknownLost, 0),
        ] {
            let id = 1_000 + written;
            faults.push(fault);
            let lost = insert(id).unwrap_err();
            assert!(lost.message.contains("unknown"), "{}", lost.message);
            let documents = walked(&writer, Family::Documents, collection.documents);
            assert_eq!(collection.state.documents(), documents as i64);
            for (_, tree) in collection.counted_trees() {
                let known = |ranks: &RankIndex| ranks.is_complete().then(|| ranks.entries());
                assert_eq!(collection.state.ranks().peek(tree, known), None);
            }
            assert_eq!(insert(id).unwrap().inserted, 1 - written as usize);
        }
        assert_eq!(collection.state.documents(), 502);
    }

    /// An index that becomes multikey with the commit after one that was lost is multikey after a restart, and the longest bucket
    /// is that long.
    #[test]
    fn what_a_lost_commit_has_noted_is_stored_with_the_next_one() {
        for fault in [CommitFault::Failed, CommitFault::UnknownLost] {
            let options = MemoryOptions::default();
            let faults = options.faults.clone();
            let store = Store::in_memory_with(options);
            let catalog = Arc::new(Catalog::load(store.clone()).unwrap());
            let writer = Writer::new(store.clone(), catalog, 1 << 20);
            fill(&writer, "one");
            let timeseries = rawdoc! { "timeseries": { "timeField": "t" } };
            let timeseries = CollectionOptions::parse(&timeseries).unwrap();
            let created = writer.create_collection(&name("buckets"), timeseries);
            created.unwrap();
            let insert = |collection: &str, document: &RawDocument| {
                writer.insert(&name(collection), &[document], &InsertOptions::default())
            };
            let [first, last] = [0, 100_000].map(DateTime::from_millis);
            let bucket = |id: [u8; 12]| {
                rawdoc! {
                    "_id": ObjectId::from_bytes(id), "data": {},
                    "control": { "version": 1, "min": { "t": first }, "max": { "t": last } },
                }
            };
            let mut other = [0; 12];
            other[11] = 1;
            for (collection, lost, next) in [
                (
                    "one",
                    rawdoc! { "_id": 1_000, "b": [1, 2] },
                    rawdoc! { "_id": 1_001, "b": [1, 2] },
                ),
                ("buckets", bucket([0; 12]), bucket(other)),
            ] {
                faults.push(fault);
                assert!(insert(collection, &lost).is_err());
                assert_eq!(insert(collection, &next).unwrap().inserted, 1);
            }
            let again = Catalog::load(store).unwrap();
            let collection = again.get(&name("one")).unwrap();
            assert!(collection.indexes[1].multikey().is_multikey(), "{fault:?}");
            let buckets = again.get(&name("buckets")).unwrap();
            let longest = buckets.state.longest_bucket_millis();
            assert_eq!(longest, Some(112_500), "{fault:?}");
        }
    }

    /// A definition whose answer was lost is there or not, in the catalogue as in the store.
    #[test]
    fn definitions_are_settled_when_the_answer_was_lost() {
        let options = MemoryOptions::default();
        let faults = options.faults.clone();
        let store = Store::in_memory_with(options);
        let catalog = Arc::new(Catalog::load(store.clone()).unwrap());
        let writer = Writer::new(store.clone(), catalog, 1 << 20);
        let create = |collection: &str| {
            let created = writer.create_collection(&name(collection), CollectionOptions::default());
            created.map(|_| ()).map_err(|error| error.code)
        };
        faults.push(CommitFault::UnknownCommitted);
        assert_eq!(create("one"), Ok(()));
        faults.push(CommitFault::UnknownLost);
        assert!(create("other").is_err());
        assert_eq!(create("other"), Ok(()));
        faults.push(CommitFault::UnknownLost);
        assert!(writer.drop_collection(&name("one")).is_err());
        assert!(writer.catalog.get(&name("one")).is_some());
        faults.push(CommitFault::UnknownCommitted);
        writer.drop_collection(&name("one")).unwrap();
        let again = Catalog::load(store.clone()).unwrap();
        assert!(again.get(&name("one")).is_none() && again.get(&name("other")).is_some());
        // What another writer created is not written over.
        let other = Writer::new(store, Arc::new(again), 1 << 20);
        let theirs = other.create_collection(&name("two"), CollectionOptions::default());
        theirs.unwrap();
        assert_eq!(create("two"), Err(Code::NamespaceExists));
    }

    /// An `_id` that came with a commit is found when it comes again, wherever it lies.
    #[test]
    fn the_greatest_id_is_known_after_a_commit() {
        let directory = tempfile::tempdir().unwrap();
        let writer = open(directory.path());
        fill(&writer, "one");
        let again = |id: i32| {
            let document = document(id, id);
            let inserted = writer.insert(&name("one"), &[&document], &InsertOptions::default());
            inserted.unwrap().inserted
        };
        assert_eq!([700, 600, 700, 499, 701].map(again), [1, 1, 0, 0, 1]);
    }
}
