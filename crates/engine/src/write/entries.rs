//! The index entries that documents gain, lose and change, in one buffer, ready to be written and counted.
//!
//! In: documents before and after, and the key generators of some indexes. Out: for each index a list of
//! [`EntryChange`]s; what stays as it is is in none. An entry is
//! `tree (4 bytes) ++ encoded fields ++ encoded _id -> value`; the fields and the value come from [`crate::index`].

use crate::error::{Code, Error, Result};
use crate::index::{CollectionKeys, IndexSet, KeySink, Multikey};
use crate::storage::{Batch, Family, TreeKey};
use bson::raw::RawDocument;
use std::cmp::Ordering;
use std::ops::Range;

/// Bytes of the entries that one document has. A batch of documents is small (`changes::BATCH_BYTES_MAX`); only
/// arrays under a clustering index, which carries the document in each of its entries, come near.
const DOCUMENT_ENTRY_BYTES_MAX: usize = 1024 * 1024 * 1024;
/// Bytes of all of them, so that offsets fit: a full batch, and a document before and after.
const BYTES_MAX: usize = 3 * DOCUMENT_ENTRY_BYTES_MAX;

/// What a commit does to one key of a tree: which write it is, and how it counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum KeyChange {
    /// The key was not there: one more.
    Added,
    /// The key stays, with another value.
    Replaced,
    /// The key goes: one less.
    Removed,
}

impl KeyChange {
    /// In the order in which they are counted.
    pub const ALL: [Self; 3] = [Self::Removed, Self::Added, Self::Replaced];

    /// Adds the write to a batch.
    pub fn write(self, batch: &mut Batch, family: Family, key: &[u8], value: &[u8]) {
        match self {
            Self::Added => batch.add(family, key, value),
            Self::Replaced => batch.replace(family, key, value),
            Self::Removed => batch.delete(family, key),
        }
    }
}

/// One entry that changes: where its parts are in the buffer.
#[derive(Debug, Clone, Copy)]
pub(super) struct EntryChange {
    /// Which document of the batch it belongs to.
    pub document: u32,
    /// What becomes of it.
    pub change: KeyChange,
    start: u32,
    fields_end: u32,
    key_end: u32,
    value_end: u32,
}

/// The entries of some indexes that the documents of a batch change, a list for each index.
#[derive(Default)]
pub(super) struct EntryChanges {
    buffer: Vec<u8>,
    trees: Vec<TreeChanges>,
    /// Entries of documents before and after, with the position of their index, to be compared.
    before: Vec<(usize, EntryChange)>,
    after: Vec<(usize, EntryChange)>,
    sink: KeySink,
}

/// The changed entries of one index.
struct TreeChanges {
    tree: TreeKey,
    changes: Vec<EntryChange>,
    /// How many there are of each kind.
    counts: [usize; 3],
    /// Which fields gave a document several entries.
    multikey: Multikey,
}

/// Keys of one tree with the same change.
pub(super) struct ChangedKeys<'k> {
    /// The position of the index.
    pub position: usize,
    /// Where its entries are.
    pub tree: TreeKey,
    /// What becomes of the keys.
    pub change: KeyChange,
    /// The keys, without the tree's prefix, ascending.
    pub keys: &'k mut dyn Iterator<Item = &'k [u8]>,
}

impl EntryChanges {
    /// Empties it for indexes with these trees, keeping its memory.
    pub fn reset(&mut self, trees: impl ExactSizeIterator<Item = TreeKey>) {
        self.buffer.clear();
        self.before.clear();
        self.after.clear();
        self.trees.truncate(trees.len());
        for (position, tree) in trees.enumerate() {
            match self.trees.get_mut(position) {
                Some(own) => own.reset(tree),
                None => self.trees.push(TreeChanges::new(tree)),
            }
        }
    }

    /// Adds all entries of a document that is inserted; none when an index refuses it.
    ///
    /// # Errors
    /// What the key generators refuse: parallel arrays, impossible geometry, ...
    pub fn insert(
        &mut self,
        keys: &CollectionKeys,
        number: u32,
        document: &RawDocument,
        id: &[u8],
    ) -> Result<()> {
        self.add_all(keys, number, document, id, KeyChange::Added)
    }

    /// Adds all entries of a document that is deleted.
    ///
    /// # Errors
    /// As [`Self::insert`].
    pub fn delete(
        &mut self,
        keys: &CollectionKeys,
        number: u32,
        document: &RawDocument,
        id: &[u8],
    ) -> Result<()> {
        self.add_all(keys, number, document, id, KeyChange::Removed)
    }

    /// Adds the entries in which a document differs from the one that replaces it; none when an index refuses it.
    ///
    /// # Errors
    /// As [`Self::insert`].
    pub fn replace(
        &mut self,
        keys: &CollectionKeys,
        number: u32,
        [before, after]: [&RawDocument; 2],
        id: &[u8],
    ) -> Result<()> {
        // Entries that stay are not even made.
        let changed = keys.changed(before, after);
        let made = self
            .add_before(keys, number, before, id, changed)
            .and_then(|()| self.add_after(keys, number, after, id, changed));
        if made.is_err() {
            self.before.clear();
            self.after.clear();
        }
        made?;
        self.compare();
        Ok(())
    }

    /// Makes the entries of a document before the change, for [`Self::compare`].
    ///
    /// # Errors
    /// As [`Self::insert`].
    pub fn add_before(
        &mut self,
        keys: &CollectionKeys,
        number: u32,
        document: &RawDocument,
        id: &[u8],
        indexes: IndexSet,
    ) -> Result<()> {
        self.generate(keys, document, id, indexes)?;
        let made = made(&mut self.buffer, &self.sink, &self.trees, number, id);
        self.before.extend(made);
        Ok(())
    }

    /// Makes the entries of a document after the change, for [`Self::compare`].
    ///
    /// # Errors
    /// As [`Self::insert`].
    pub fn add_after(
        &mut self,
        keys: &CollectionKeys,
        number: u32,
        document: &RawDocument,
        id: &[u8],
        indexes: IndexSet,
    ) -> Result<()> {
        self.generate(keys, document, id, indexes)?;
        let made = made(&mut self.buffer, &self.sink, &self.trees, number, id);
        self.after.extend(made);
        Ok(())
    }

    /// Adds the differences between what [`Self::add_before`] and [`Self::add_after`] made.
    pub fn compare(&mut self) {
        let buffer = &self.buffer;
        let order = |(a, one): &(usize, EntryChange), (b, other): &(usize, EntryChange)| {
            a.cmp(b)
                .then_with(|| buffer[one.key()].cmp(&buffer[other.key()]))
        };
        self.before.sort_by(order);
        self.after.sort_by(order);
        let (mut before, mut after) = (self.before.as_slice(), self.after.as_slice());
        loop {
            let (first, change) = match (before.first(), after.first()) {
                (None, None) => break,
                (Some(old), None) => (old, Some(KeyChange::Removed)),
                (None, Some(new)) => (new, Some(KeyChange::Added)),
                (Some(old), Some(new)) => match order(old, new) {
                    Ordering::Less => (old, Some(KeyChange::Removed)),
                    Ordering::Greater => (new, Some(KeyChange::Added)),
                    Ordering::Equal => {
                        let is_same = buffer[old.1.value()] == buffer[new.1.value()];
                        (new, (!is_same).then_some(KeyChange::Replaced))
                    }
                },
            };
            let (position, entry) = *first;
            before = &before[usize::from(!matches!(change, Some(KeyChange::Added)))..];
            after = &after[usize::from(!matches!(change, Some(KeyChange::Removed)))..];
            if let Some(change) = change {
                self.trees[position].push(EntryChange { change, ..entry });
            }
        }
        self.before.clear();
        self.after.clear();
    }

    fn add_all(
        &mut self,
        keys: &CollectionKeys,
        number: u32,
        document: &RawDocument,
        id: &[u8],
        change: KeyChange,
    ) -> Result<()> {
        self.generate(keys, document, id, IndexSet::ALL)?;
        for (position, fields, value) in self.sink.iter_indexed() {
            let tree = &mut self.trees[position];
            let entry = append(&mut self.buffer, tree.tree, number, fields, id, value);
            tree.push(EntryChange { change, ..entry });
        }
        Ok(())
    }

    fn generate(
        &mut self,
        keys: &CollectionKeys,
        document: &RawDocument,
        id: &[u8],
        indexes: IndexSet,
    ) -> Result<()> {
        self.sink.clear();
        let trees = &mut self.trees;
        keys.generate(document, indexes, &mut self.sink, &mut |position, met| {
            trees[position].multikey = trees[position].multikey.union(met);
        })?;
        check_size(&self.buffer, &self.sink, id)
    }

    /// Puts each index's entries in key order: the storage takes sorted runs fastest.
    pub fn sort(&mut self) {
        let buffer = &self.buffer;
        for tree in &mut self.trees {
            tree.changes
                .sort_by(|a, b| buffer[a.key()].cmp(&buffer[b.key()]));
        }
    }

    /// Gives back what only adding needs.
    pub fn shrink(&mut self) {
        self.sink = KeySink::default();
        self.before = Vec::new();
        self.after = Vec::new();
        self.buffer.shrink_to_fit();
    }

    /// Bytes that the entries take.
    pub fn size_bytes(&self) -> usize {
        let entries: usize = self.trees.iter().map(|tree| tree.changes.len()).sum();
        self.buffer.len() + entries * size_of::<EntryChange>()
    }

    /// The changed entries of one index.
    pub fn list(&self, position: usize) -> &[EntryChange] {
        &self.trees[position].changes
    }

    /// Adds the writes of all entries to a batch, but those of documents that are not `wanted`.
    pub fn write(&self, batch: &mut Batch, wanted: &dyn Fn(u32) -> bool) {
        let changes = self.trees.iter().flat_map(|tree| &tree.changes);
        for entry in changes.filter(|entry| wanted(entry.document)) {
            let (key, value) = (self.key(entry), self.value(entry));
            entry.change.write(batch, Family::Indexes, key, value);
        }
    }

    /// Hands out the keys that change by tree and change, but those of documents that are not `wanted`. Each
    /// tree's entries are sorted.
    pub fn each_tree(&self, wanted: &dyn Fn(u32) -> bool, visit: &mut dyn FnMut(ChangedKeys<'_>)) {
        for (position, tree) in self.trees.iter().enumerate() {
            for change in KeyChange::ALL {
                if tree.counts[change as usize] == 0 {
                    continue;
                }
                let entries = tree.changes.iter();
                let entries = entries.filter(|entry| entry.change == change);
                let entries = entries.filter(|entry| wanted(entry.document));
                visit(ChangedKeys {
                    position,
                    tree: tree.tree,
                    change,
                    keys: &mut entries.map(|entry| TreeKey::strip(self.key(entry))),
                });
            }
        }
    }

    /// `tree ++ fields ++ _id`.
    pub fn key(&self, entry: &EntryChange) -> &[u8] {
        &self.buffer[entry.key()]
    }

    /// `tree ++ fields`: what a unique index allows once.
    pub fn unique_part(&self, entry: &EntryChange) -> &[u8] {
        &self.buffer[entry.start as usize..entry.fields_end as usize]
    }

    /// The entry's value.
    pub fn value(&self, entry: &EntryChange) -> &[u8] {
        &self.buffer[entry.value()]
    }

    /// Which fields of this index gave a document of the batch several entries.
    pub fn multikey(&self, position: usize) -> Multikey {
        self.trees[position].multikey
    }
}

impl TreeChanges {
    fn new(tree: TreeKey) -> Self {
        Self {
            tree,
            changes: Vec::new(),
            counts: [0; 3],
            multikey: Multikey::NONE,
        }
    }

    fn reset(&mut self, tree: TreeKey) {
        let mut changes = std::mem::take(&mut self.changes);
        changes.clear();
        *self = Self {
            changes,
            ..Self::new(tree)
        };
    }

    fn push(&mut self, entry: EntryChange) {
        self.counts[entry.change as usize] += 1;
        self.changes.push(entry);
    }
}

impl EntryChange {
    fn key(&self) -> Range<usize> {
        self.start as usize..self.key_end as usize
    }

    fn value(&self) -> Range<usize> {
        self.key_end as usize..self.value_end as usize
    }
}

/// Moves the entries that were generated into the buffer.
fn made<'m>(
    buffer: &'m mut Vec<u8>,
    sink: &'m KeySink,
    trees: &'m [TreeChanges],
    number: u32,
    id: &'m [u8],
) -> impl Iterator<Item = (usize, EntryChange)> + 'm {
    sink.iter_indexed().map(move |(position, fields, value)| {
        let tree = trees[position].tree;
        (position, append(buffer, tree, number, fields, id, value))
    })
}

/// An entry in the buffer, whose change is still to be found out.
fn append(
    buffer: &mut Vec<u8>,
    tree: TreeKey,
    document: u32,
    fields: &[u8],
    id: &[u8],
    value: &[u8],
) -> EntryChange {
    let start = offset(buffer);
    buffer.extend_from_slice(&tree.prefix());
    buffer.extend_from_slice(fields);
    let fields_end = offset(buffer);
    buffer.extend_from_slice(id);
    let key_end = offset(buffer);
    buffer.extend_from_slice(value);
    EntryChange {
        document,
        change: KeyChange::Added,
        start,
        fields_end,
        key_end,
        value_end: offset(buffer),
    }
}

/// Refuses what would make a document's entries larger than [`DOCUMENT_ENTRY_BYTES_MAX`].
fn check_size(buffer: &[u8], sink: &KeySink, id: &[u8]) -> Result<()> {
    let own = sink.size_bytes() + sink.len() * (4 + id.len());
    if own <= DOCUMENT_ENTRY_BYTES_MAX && buffer.len() + own <= BYTES_MAX {
        return Ok(());
    }
    let message =
        format!("the index entries of one batch of writes exceed {DOCUMENT_ENTRY_BYTES_MAX} bytes");
    Err(Error::new(Code::BSONObjectTooLarge, message))
}

fn offset(buffer: &[u8]) -> u32 {
    u32::try_from(buffer.len()).expect("a batch of entries stays below 4 GiB")
}
