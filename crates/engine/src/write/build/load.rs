//! The bulk of a build: the documents of a snapshot in, their sorted entries in the tree.

use super::{Build, BuildPhase, BuildProgress, Report};
use crate::error::{Error, Result};
use crate::index::entry::corrupt;
use crate::index::{IndexSet, KeySink, Multikey};
use crate::sorter::{Sorted, Sorter};
use crate::storage::{AddEntry, Family, Order, TreeKey};
use crate::write::unique::duplicate_in_index;
use bson::raw::RawDocument;

/// Documents or entries between two looks at what happens meanwhile: about a millisecond.
const PART_DOCUMENTS: u64 = 500;
const PART_ENTRIES: u64 = 10_000;
/// Fewer bytes of entries are written as ever: files would be tiny.
const LOAD_BYTES_MIN: u64 = 1 << 20;

impl Build<'_> {
    /// Fills the trees with the snapshot's entries; true when they were loaded past the log.
    pub(super) fn load(&mut self, report: &mut Report<'_>) -> Result<bool> {
        let sorted = self.read(report)?;
        let store = self.writer.store.clone();
        if sorted.bytes < LOAD_BYTES_MIN.min(self.writer.sort_bytes as u64) {
            let writer = self.writer;
            writer.commit_loaded(|add| self.pour(&sorted, report, add))?;
            return Ok(false);
        }
        // A power loss must not take the trees' numbers back and leave their entries to the next.
        store.sync()?;
        store.load(Family::Indexes, |add| self.pour(&sorted, report, add))?;
        Ok(true)
    }

    /// Sorts the entries of all documents.
    fn read(&mut self, report: &mut Report<'_>) -> Result<Sorted> {
        let store = &self.writer.store;
        let mut sorter = Sorter::new(store, self.indexes.len(), self.writer.sort_bytes);
        let mut met = vec![Multikey::NONE; self.indexes.len()];
        let mut sink = KeySink::new();
        let (start, end) = self.documents.range();
        let mut scan = self
            .snapshot
            .scan(Family::Documents, &start, &end, Order::Forward);
        let total = u64::try_from(self.state.documents()).unwrap_or(0);
        let mut done = 0;
        while scan.advance()? {
            let (key, value) = scan.entry();
            let document =
                RawDocument::from_bytes(value).map_err(crate::error::corrupt_document)?;
            sink.clear();
            self.generate(document, &mut sink, &mut met)?;
            for (position, fields, value) in sink.iter_indexed() {
                let prefix = self.indexes[position].tree.prefix();
                sorter.push(position, &[&prefix, fields, TreeKey::strip(key)], value)?;
            }
            done += 1;
            if done % PART_DOCUMENTS == 0 {
                let phase = BuildPhase::Reading;
                self.pause(report, BuildProgress { phase, done, total })?;
            }
        }
        // It is saved when the indexes become ready.
        for (index, met) in self.indexes.iter().zip(met) {
            index.note_multikey(met);
        }
        sorter.finish()
    }

    /// Makes the document's entries, and adds to `met` which fields had several.
    fn generate(
        &self,
        document: &RawDocument,
        sink: &mut KeySink,
        met: &mut [Multikey],
    ) -> Result<()> {
        let mut note = |position: usize, own| met[position] = met[position].union(own);
        let generated = self.keys.generate(document, IndexSet::ALL, sink, &mut note);
        generated.map_err(|error| self.refused_now(error))
    }

    /// Hands all entries on in order, counts them, and finds keys that a unique index has twice.
    fn pour(
        &mut self,
        sorted: &Sorted,
        report: &mut Report<'_>,
        add: &mut AddEntry<'_>,
    ) -> Result<()> {
        let total = sorted.entries;
        let mut merge = sorted.merge()?;
        let (mut position, mut done) = (0, 0);
        let mut last_fields = Vec::new();
        while let Some((key, value)) = merge.next()? {
            let (prefix, key_in_tree) = key.split_at(4);
            while self.indexes[position].tree.prefix() != prefix {
                position += 1;
                last_fields.clear();
            }
            self.check_unique(position, key_in_tree, value, &mut last_fields)?;
            self.ranks[position].append(key_in_tree);
            add(key, value)?;
            done += 1;
            if done % PART_ENTRIES == 0 {
                let phase = BuildPhase::Loading;
                self.pause(report, BuildProgress { phase, done, total })?;
            }
        }
        Ok(())
    }

    /// Compares the fields of an entry with those of the one before it, in a unique index.
    fn check_unique(
        &self,
        position: usize,
        key: &[u8],
        value: &[u8],
        last_fields: &mut Vec<u8>,
    ) -> Result<()> {
        let index = &self.indexes[position];
        if !index.spec.unique {
            return Ok(());
        }
        let length = index.layout.fields_length(key);
        let fields = &key[..length.ok_or_else(corrupt)?];
        if last_fields.as_slice() == fields {
            let error = duplicate_in_index(&self.namespace, index, fields, value);
            return Err(self.refused_now(error));
        }
        last_fields.clear();
        last_fields.extend_from_slice(fields);
        Ok(())
    }

    /// An error that a document is the cause of, or that the build is not wanted any more.
    pub(super) fn refused_now(&self, error: Error) -> Error {
        match self.collection() {
            Ok(collection) => self.refused(&collection, error),
            Err(aborted) => aborted,
        }
    }
}
