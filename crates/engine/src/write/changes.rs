//! What becomes of the documents of one collection in a commit: inserts, replacements and deletes in any mixture.
//!
//! In: documents before and after, checked and with their index entries made, none of which needs a lock. Under
//! the collection's write lock single ones may be withdrawn. Everything that a commit does to the collection is
//! derived from here, see [`super::commit`].

use super::entries::{ChangedKeys, EntryChange, EntryChanges, KeyChange};
use super::prepare::encode_id;
use super::validate::validate;
use crate::catalog::{Collection, RecordNumber};
use crate::error::Result;
use crate::storage::{Batch, Family, TreeKey};
use bson::raw::{RawDocument, RawDocumentBuf};
use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

/// A commit holds at most this many bytes of documents, so that memory stays bounded and other
/// writers get the lock in between.
pub(super) const BATCH_BYTES_MAX: usize = 8 * 1024 * 1024;

/// Changes of one version of a collection.
pub(super) struct CollectionChanges<'d> {
    collection: Arc<Collection>,
    documents: Vec<DocumentChange<'d>>,
    /// The key of each document.
    keys: Vec<u8>,
    entries: EntryChanges,
    document_bytes: usize,
    /// For how long buckets last at most.
    longest_bucket_millis: u64,
    /// Chunks of the delta store whose rows are in the documents.
    from_delta: Vec<Vec<u8>>,
}

/// One document: there is one before the change, one after it, or both.
pub(super) struct DocumentChange<'d> {
    pub before: Option<Cow<'d, RawDocument>>,
    pub after: Option<Cow<'d, RawDocument>>,
    key: Range<usize>,
    is_withdrawn: bool,
}

/// What changes do to a collection's totals.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Totals {
    pub documents_added: i64,
    pub bytes_added: i64,
}

impl DocumentChange<'_> {
    /// Whether it stays as it is, after all.
    pub fn is_withdrawn(&self) -> bool {
        self.is_withdrawn
    }

    fn change(&self) -> KeyChange {
        match (&self.before, &self.after) {
            (None, _) => KeyChange::Added,
            (Some(_), Some(_)) => KeyChange::Replaced,
            (Some(_), None) => KeyChange::Removed,
        }
    }
}

impl<'d> CollectionChanges<'d> {
    /// None yet, of a collection.
    pub fn new(collection: &Arc<Collection>) -> Self {
        let mut changes = Self {
            collection: collection.clone(),
            documents: Vec::new(),
            keys: Vec::new(),
            entries: EntryChanges::default(),
            document_bytes: 0,
            longest_bucket_millis: 0,
            from_delta: Vec::new(),
        };
        changes.reset(collection);
        changes
    }

    /// Forgets all changes, keeping their memory for those of a version of a collection.
    pub fn reset(&mut self, collection: &Arc<Collection>) {
        self.collection = collection.clone();
        self.documents.clear();
        self.keys.clear();
        let trees = collection.indexes.iter().map(|index| index.tree);
        self.entries.reset(trees);
        self.document_bytes = 0;
        self.longest_bucket_millis = 0;
        self.from_delta.clear();
    }

    /// The version of the collection that the changes were made for.
    pub fn collection(&self) -> &Arc<Collection> {
        &self.collection
    }

    /// Adds an insert.
    ///
    /// # Errors
    /// An unusable `_id`, a document that fails validation, or one that an index refuses.
    pub fn insert(
        &mut self,
        document: Cow<'d, RawDocument>,
        bypass_validation: bool,
    ) -> Result<()> {
        let start = self.begin(&[]);
        let ids = &self.collection.options.collation;
        let result = encode_id(&document, ids, &mut self.keys)
            .and_then(|()| self.check_insert(start, &document, bypass_validation));
        self.finish(start, result, None, Some(document))
    }

    /// Adds an insert into a capped collection, under a record number.
    ///
    /// # Errors
    /// As [`Self::insert`].
    pub fn insert_record(
        &mut self,
        record: RecordNumber,
        document: Cow<'d, RawDocument>,
        bypass_validation: bool,
    ) -> Result<()> {
        let start = self.begin(&record.to_be_bytes());
        let ids = &self.collection.options.collation;
        let result = encode_id(&document, ids, &mut Vec::new())
            .and_then(|()| self.check_insert(start, &document, bypass_validation));
        self.finish(start, result, None, Some(document))
    }

    /// Makes the entries of a document that is inserted under the key that begins at `start`.
    fn check_insert(
        &mut self,
        start: usize,
        document: &RawDocument,
        bypass_validation: bool,
    ) -> Result<()> {
        if validates(&self.collection, bypass_validation) {
            validate(&self.collection, document, None)?;
        }
        self.check_bucket(document)?;
        let (number, key) = (self.documents.len() as u32, &self.keys[start + 4..]);
        self.entries
            .insert(self.collection.keys(), number, document, key)
    }

    /// Adds the replacement of the document with this key.
    ///
    /// # Errors
    /// A document that fails validation, or one that an index refuses.
    pub fn replace(
        &mut self,
        id: &[u8],
        before: Cow<'d, RawDocument>,
        after: RawDocumentBuf,
        bypass_validation: bool,
    ) -> Result<()> {
        if validates(&self.collection, bypass_validation) {
            validate(&self.collection, &after, Some(&before))?;
        }
        self.check_bucket(&after)?;
        let start = self.begin(id);
        let (keys, number) = (self.collection.keys(), self.documents.len() as u32);
        let result = self.entries.replace(keys, number, [&before, &after], id);
        self.finish(start, result, Some(before), Some(Cow::Owned(after)))
    }

    fn check_bucket(&mut self, document: &RawDocument) -> Result<()> {
        if let Some(timeseries) = &self.collection.options.timeseries {
            let lasts = timeseries.check_bucket(document)?;
            self.longest_bucket_millis = self.longest_bucket_millis.max(lasts);
        }
        Ok(())
    }

    /// Adds the deletion of the document with this key.
    ///
    /// # Errors
    /// A document that an index refuses.
    pub fn delete(&mut self, id: &[u8], before: Cow<'d, RawDocument>) -> Result<()> {
        let start = self.begin(id);
        let (keys, number) = (self.collection.keys(), self.documents.len() as u32);
        let result = self.entries.delete(keys, number, &before, id);
        self.finish(start, result, Some(before), None)
    }

    /// Takes chunks out of the delta store: their rows are in the documents that change.
    pub fn take_from_delta(&mut self, chunks: Vec<Vec<u8>>) {
        self.from_delta = chunks;
    }

    /// Begins the key of another document; where it begins.
    fn begin(&mut self, id: &[u8]) -> usize {
        let start = self.keys.len();
        self.keys
            .extend_from_slice(&self.collection.documents.prefix());
        self.keys.extend_from_slice(id);
        start
    }

    fn finish(
        &mut self,
        start: usize,
        result: Result<()>,
        before: Option<Cow<'d, RawDocument>>,
        after: Option<Cow<'d, RawDocument>>,
    ) -> Result<()> {
        if result.is_err() {
            self.keys.truncate(start);
            return result;
        }
        let both = before.iter().chain(&after);
        self.document_bytes += both.map(|one| one.as_bytes().len()).sum::<usize>();
        self.documents.push(DocumentChange {
            before,
            after,
            key: start..self.keys.len(),
            is_withdrawn: false,
        });
        Ok(())
    }

    /// Leaves a document as it is, after all.
    pub fn withdraw(&mut self, number: usize) {
        self.documents[number].is_withdrawn = true;
    }

    /// Leaves this and all later documents as they are.
    pub fn withdraw_from(&mut self, number: usize) {
        let later = self.documents[number..].iter_mut();
        later.for_each(|document| document.is_withdrawn = true);
    }

    /// To be called when all changes are there, before they are committed.
    pub fn sort(&mut self) {
        self.entries.sort();
    }

    /// Gives back what only adding changes needs.
    pub fn shrink(&mut self) {
        self.entries.shrink();
    }

    /// Number of changes, withdrawn ones included.
    pub fn len(&self) -> usize {
        self.documents.len()
    }

    /// Whether nothing is left to commit.
    pub fn is_empty(&self) -> bool {
        self.documents.iter().all(|document| document.is_withdrawn)
    }

    /// One of the documents.
    pub fn document(&self, number: usize) -> &DocumentChange<'d> {
        &self.documents[number]
    }

    /// All documents, withdrawn ones included.
    pub fn into_documents(self) -> Vec<DocumentChange<'d>> {
        self.documents
    }

    /// The key of a document.
    pub fn key(&self, number: usize) -> &[u8] {
        &self.keys[self.documents[number].key.clone()]
    }

    /// Whether the keys of the documents ascend.
    pub fn keys_ascend(&self) -> bool {
        (1..self.len()).all(|number| self.key(number - 1) < self.key(number))
    }

    /// Bytes that the changes take.
    pub fn size_bytes(&self) -> usize {
        self.document_bytes + self.entries.size_bytes()
    }

    /// The changed index entries.
    pub fn entries(&self) -> &EntryChanges {
        &self.entries
    }

    /// The entries of the document that was added last, by the position of their index. Only before they are sorted.
    pub fn last_entries(&self) -> Vec<Vec<EntryChange>> {
        let number = self.documents.len().saturating_sub(1) as u32;
        let positions = 0..self.collection.indexes.len();
        let own = |position: usize| {
            let list = self.entries.list(position);
            let others = |entry: &EntryChange| entry.document != number;
            let begin = list.iter().rposition(others).map_or(0, |last| last + 1);
            list[begin..].to_vec()
        };
        positions.map(own).collect()
    }

    /// The entries that each document adds or gives another value, by the position of their index.
    pub fn new_entries_by_document(&self) -> Vec<Vec<Vec<EntryChange>>> {
        let indexes = self.collection.indexes.len();
        let mut by_document = vec![vec![Vec::new(); indexes]; self.documents.len()];
        let positions = 0..indexes;
        let lists = positions.map(|position| (position, self.entries.list(position)));
        for (position, list) in lists {
            let new = list.iter();
            for entry in new.filter(|entry| entry.change != KeyChange::Removed) {
                by_document[entry.document as usize][position].push(*entry);
            }
        }
        by_document
    }

    fn is_wanted(&self, number: u32) -> bool {
        !self.documents[number as usize].is_withdrawn
    }

    fn wanted(&self) -> impl Iterator<Item = &DocumentChange<'d>> + Clone {
        let documents = self.documents.iter();
        documents.filter(|document| !document.is_withdrawn)
    }

    /// The key of the documents that change.
    pub fn changed_keys(&self) -> impl Iterator<Item = &[u8]> + Clone {
        self.wanted()
            .map(|document| &self.keys[document.key.clone()])
    }

    /// Adds the writes of documents and index entries to a batch.
    pub fn write(&self, batch: &mut Batch) {
        for document in self.wanted() {
            let after = document.after.as_ref();
            let value = after.map_or(&b""[..], |after| after.as_bytes());
            let key = &self.keys[document.key.clone()];
            document
                .change()
                .write(batch, Family::Documents, key, value);
        }
        self.entries.write(batch, &|number| self.is_wanted(number));
        for chunk in &self.from_delta {
            batch.delete(Family::Documents, chunk);
        }
    }

    /// For how many milliseconds a bucket among the documents lasts at most.
    pub fn longest_bucket_millis(&self) -> u64 {
        self.longest_bucket_millis
    }

    /// What the changes do to the collection's totals.
    pub fn totals(&self) -> Totals {
        let mut totals = Totals::default();
        let bytes = |one: &Option<Cow<'_, RawDocument>>| {
            one.as_ref().map_or(0, |one| one.as_bytes().len() as i64)
        };
        for document in self.wanted() {
            totals.documents_added +=
                i64::from(document.after.is_some()) - i64::from(document.before.is_some());
            totals.bytes_added += bytes(&document.after) - bytes(&document.before);
        }
        totals
    }

    /// Hands out the keys that change, of the documents and of all indexes: what counts are kept by. The documents'
    /// position is that behind all indexes.
    pub fn each_tree(&self, visit: &mut dyn FnMut(ChangedKeys<'_>)) {
        for change in KeyChange::ALL {
            let mut of_kind = self.wanted().filter(|document| document.change() == change);
            if of_kind.clone().next().is_some() {
                let keys = of_kind
                    .by_ref()
                    .map(|document| TreeKey::strip(&self.keys[document.key.clone()]));
                visit(ChangedKeys {
                    position: self.collection.indexes.len(),
                    tree: self.collection.documents,
                    change,
                    keys: &mut { keys },
                });
            }
        }
        self.entries
            .each_tree(&|number| self.is_wanted(number), visit);
    }
}

/// Buckets of a time series are validated always: one that is none would make all reads of it errors.
fn validates(collection: &Collection, bypass_validation: bool) -> bool {
    !bypass_validation || collection.options.timeseries.is_some()
}
