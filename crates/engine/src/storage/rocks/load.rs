//! Entries in key order in, files in their final form out: what RocksDB takes over whole.

use super::families::ColumnFamily;
use super::{RocksStore, failed};
use crate::storage::local::Loader;
use crate::storage::{Family, Scratch, StoreError};
use rocksdb::SstFileWriter;
use std::path::PathBuf;

/// A file is closed at about this size: what the library makes of the files of its lowest level.
const FILE_BYTES: u64 = 64 << 20;
/// The open file's size is asked for once in this many bytes that were added.
const ASK_BYTES: u64 = 4 << 20;

/// Files that are being filled.
pub(super) struct Files<'s> {
    store: &'s RocksStore,
    family: Family,
    scratch: Scratch,
    paths: Vec<(&'s ColumnFamily, Vec<PathBuf>)>,
    open: Option<SstFileWriter<'s>>,
    /// What the keys of the open file begin with.
    tree: Vec<u8>,
    unasked_bytes: u64,
}

/// Files that are full, in a directory that goes with this.
pub(super) struct Finished<'s> {
    /// By the column family that they are for.
    pub paths: Vec<(&'s ColumnFamily, Vec<PathBuf>)>,
    _scratch: Scratch,
}

impl<'s> Files<'s> {
    pub(super) fn new(store: &'s RocksStore, family: Family, scratch: Scratch) -> Self {
        Self {
            store,
            family,
            scratch,
            paths: Vec::new(),
            open: None,
            tree: Vec::new(),
            unasked_bytes: 0,
        }
    }

    /// The files, when the last one is written.
    pub(super) fn finished(mut self) -> Result<Finished<'s>, StoreError> {
        self.close()?;
        Ok(Finished {
            paths: self.paths,
            _scratch: self.scratch,
        })
    }

    fn close(&mut self) -> Result<(), StoreError> {
        match self.open.take() {
            Some(mut writer) => writer.finish().map_err(failed),
            None => Ok(()),
        }
    }
}

impl Loader for Files<'_> {
    fn add(&mut self, key: &[u8], value: &[u8]) -> Result<(), StoreError> {
        // A file spans one tree: between trees there may be keys that are still in memory, which would have to
        // be written to a file before this one is taken over, while writers wait.
        let tree = tree_of(self.family, key);
        if self.tree != tree {
            self.close()?;
            self.tree = tree.to_vec();
            let family = self.store.family(self.family, key);
            if !matches!(self.paths.last(), Some((last, _)) if last.id == family.id) {
                self.paths.push((family, Vec::new()));
            }
        }
        let writer = match (&mut self.open, self.paths.last_mut()) {
            (Some(writer), _) => writer,
            (closed, paths) => {
                let (family, paths) = paths.expect("the tree's family was put there");
                let path = self.scratch.next_file();
                let writer = SstFileWriter::create(&family.options);
                writer.open(&path).map_err(failed)?;
                paths.push(path);
                closed.insert(writer)
            }
        };
        writer.put(key, value).map_err(failed)?;
        self.unasked_bytes += (key.len() + value.len()) as u64;
        if self.unasked_bytes >= ASK_BYTES {
            self.unasked_bytes = 0;
            if writer.file_size() >= FILE_BYTES {
                self.close()?;
            }
        }
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<(), StoreError> {
        let store = self.store;
        store.take_over(self.finished()?)
    }
}

/// The part of a key that all keys of its tree begin with; in the catalogue, a kind of keys and the tree that
/// they are about.
fn tree_of(family: Family, key: &[u8]) -> &[u8] {
    let length = match family {
        Family::Catalog => 5,
        Family::Documents | Family::Indexes => 4,
    };
    &key[..length.min(key.len())]
}
