//! The index entries of a batch of documents, in one buffer, ready to be sorted and written.
//!
//! An entry is `tree (4 bytes) ++ encoded fields ++ encoded _id -> value`; the fields and the value
//! come from [`crate::index`].

use crate::catalog::{Collection, Tree};
use crate::error::{Code, Error, Result};
use crate::index::{IndexSet, KeySink, Multikey};
use bson::raw::RawDocument;
use std::ops::Range;

/// Bytes of a batch's entries. A batch of documents is small (`insert::BATCH_BYTES_MAX`); only arrays
/// under a clustering index, which carries the document in each of its entries, come near.
const BYTES_MAX: usize = 1024 * 1024 * 1024;

/// One entry: where its parts are in the set's buffer.
#[derive(Debug, Clone, Copy)]
pub(super) struct Entry {
    /// Which document of the batch it belongs to.
    pub document: u32,
    start: u32,
    fields_end: u32,
    key_end: u32,
    value_end: u32,
}

/// The entries of a batch of documents, one list an index.
#[derive(Default)]
pub(super) struct EntrySet {
    buffer: Vec<u8>,
    lists: Vec<Vec<Entry>>,
    multikey: Vec<Multikey>,
    sink: KeySink,
}

impl EntrySet {
    /// Empties the set for a collection with this many indexes, keeping its memory.
    pub fn clear(&mut self, indexes: usize) {
        self.buffer.clear();
        self.lists.iter_mut().for_each(Vec::clear);
        self.lists.resize_with(indexes, Vec::new);
        self.multikey.clear();
        self.multikey.resize(indexes, Multikey::NONE);
    }

    /// Adds all entries of `document` in these indexes; none when one of them refuses it.
    ///
    /// # Errors
    /// What the key generators refuse: parallel arrays, impossible geometry, ...
    pub fn add(
        &mut self,
        collection: &Collection,
        number: u32,
        document: &RawDocument,
        id: &[u8],
        indexes: IndexSet,
    ) -> Result<()> {
        self.sink.clear();
        let all = &mut self.multikey;
        collection
            .keys()
            .generate(document, indexes, &mut self.sink, &mut |position, met| {
                all[position] = all[position].union(met);
            })?;
        check_room(&self.buffer, &self.sink, id)?;
        for (position, fields, value) in self.sink.iter_indexed() {
            let tree = collection.indexes[position].tree;
            self.lists[position].push(append(&mut self.buffer, tree, number, fields, id, value));
        }
        Ok(())
    }

    /// The entries of one index.
    pub fn list(&self, position: usize) -> &[Entry] {
        &self.lists[position]
    }

    /// Puts each index's entries in key order: the storage takes sorted runs fastest.
    pub fn sort(&mut self) {
        let buffer = &self.buffer;
        for list in &mut self.lists {
            list.sort_by(|a, b| buffer[key_range(a)].cmp(&buffer[key_range(b)]));
        }
    }

    /// Sorts, and gives back what only adding needs.
    pub fn finish(&mut self) {
        self.sort();
        self.sink = KeySink::default();
        self.buffer.shrink_to_fit();
    }

    /// Bytes that the entries take.
    pub fn size_bytes(&self) -> usize {
        let entries: usize = self.lists.iter().map(Vec::len).sum();
        self.buffer.len() + entries * size_of::<Entry>()
    }

    /// `tree ++ fields ++ _id`.
    pub fn key(&self, entry: &Entry) -> &[u8] {
        &self.buffer[key_range(entry)]
    }

    /// `tree ++ fields`: what a unique index allows once.
    pub fn unique_part(&self, entry: &Entry) -> &[u8] {
        &self.buffer[entry.start as usize..entry.fields_end as usize]
    }

    /// The entry's value.
    pub fn value(&self, entry: &Entry) -> &[u8] {
        &self.buffer[entry.key_end as usize..entry.value_end as usize]
    }

    /// Which fields of this index gave a document of the batch several entries.
    pub fn multikey(&self, position: usize) -> Multikey {
        self.multikey[position]
    }
}

fn append(
    buffer: &mut Vec<u8>,
    tree: Tree,
    document: u32,
    fields: &[u8],
    id: &[u8],
    value: &[u8],
) -> Entry {
    let start = offset(buffer);
    buffer.extend_from_slice(&tree.prefix());
    buffer.extend_from_slice(fields);
    let fields_end = offset(buffer);
    buffer.extend_from_slice(id);
    let key_end = offset(buffer);
    buffer.extend_from_slice(value);
    Entry {
        document,
        start,
        fields_end,
        key_end,
        value_end: offset(buffer),
    }
}

/// Refuses what would make a batch's entries larger than [`BYTES_MAX`].
fn check_room(buffer: &[u8], sink: &KeySink, id: &[u8]) -> Result<()> {
    let own = sink.size_bytes() + sink.len() * (4 + id.len());
    if buffer.len() + own <= BYTES_MAX {
        return Ok(());
    }
    let message = format!("the index entries of one batch of writes exceed {BYTES_MAX} bytes");
    Err(Error::new(Code::BSONObjectTooLarge, message))
}

fn key_range(entry: &Entry) -> Range<usize> {
    entry.start as usize..entry.key_end as usize
}

fn offset(buffer: &[u8]) -> u32 {
    u32::try_from(buffer.len()).expect("a batch of entries stays below 4 GiB")
}
