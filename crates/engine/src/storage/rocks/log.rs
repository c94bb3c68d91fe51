//! The write-ahead log as it is read: what was committed since a sequence number.

use super::{RocksStore, failed};
use crate::storage::{Family, Logged, StoreError};
use rocksdb::WriteBatchIteratorCf;
use std::path::{Path, PathBuf};

impl RocksStore {
    pub(in crate::storage) fn replay(
        &self,
        sequence: u64,
        visit: &mut dyn FnMut(u64, u64, &[Logged]),
    ) -> Result<bool, StoreError> {
        // The library refuses numbers whose log is gone; then there is nothing to read.
        let Ok(batches) = self.database.get_updates_since(sequence) else {
            return Ok(false);
        };
        let mut operations = LoggedOperations {
            families: self.families.by_id(),
            logged: Vec::new(),
        };
        for batch in batches {
            let (first, batch) = batch.map_err(failed)?;
            operations.logged.clear();
            batch.iterate_cf(&mut operations);
            visit(first, batch.len() as u64, &operations.logged);
        }
        Ok(true)
    }

    /// Removes archived log files older than the oldest file that is still written or needed, if all
    /// their operations are: an archived file ends where the next one begins.
    pub(in crate::storage) fn forget_log_before(&self, sequence: u64) {
        let mut logs = log_files(&self.directory.join("archive"));
        logs.extend(log_files(&self.directory));
        logs.sort();
        let begins_by =
            |path: &Path| first_sequence(path).is_some_and(|first| first <= sequence + 1);
        for pair in logs.windows(2) {
            let is_archived = pair[0]
                .1
                .parent()
                .is_some_and(|parent| parent.ends_with("archive"));
            if !is_archived || !begins_by(&pair[1].1) {
                return;
            }
            if let Err(error) = std::fs::remove_file(&pair[0].1) {
                tracing::warn!(path = %pair[0].1.display(), %error, "an old log file could not be removed");
                return;
            }
        }
    }
}

/// Collects the operations of a batch read from the log.
struct LoggedOperations {
    families: Vec<(u32, Family)>,
    logged: Vec<Logged>,
}

impl LoggedOperations {
    fn push(&mut self, family_id: u32, key: &[u8], put: Option<&[u8]>) {
        let mut families = self.families.iter();
        let (_, family) = *families
            .find(|(id, _)| *id == family_id)
            .expect("no column family is ever dropped, and all are open");
        let kept = |value: &[u8]| match family {
            Family::Catalog => value.to_vec(),
            Family::Documents | Family::Indexes => Vec::new(),
        };
        self.logged.push(Logged {
            family,
            key: key.to_vec(),
            put: put.map(kept),
        });
    }
}

impl WriteBatchIteratorCf for LoggedOperations {
    fn put_cf(&mut self, family_id: u32, key: &[u8], value: &[u8]) {
        self.push(family_id, key, Some(value));
    }

    fn delete_cf(&mut self, family_id: u32, key: &[u8]) {
        self.push(family_id, key, None);
    }

    fn merge_cf(&mut self, _: u32, _: &[u8], _: &[u8]) {}
}

/// The log files in a directory by number.
fn log_files(directory: &Path) -> Vec<(u64, PathBuf)> {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let paths = entries.map(|entry| entry.path());
    let logs = paths.filter(|path| path.extension().is_some_and(|end| end == "log"));
    logs.filter_map(|path| Some((path.file_stem()?.to_str()?.parse().ok()?, path)))
        .collect()
}

/// The number of the first operation in a log file, `None` when it holds none yet. A record begins with
/// checksum (4 bytes), length (2) and kind (1); its payload, a batch, with that number (u64 LE). See the
/// library's description of its log format.
fn first_sequence(path: &Path) -> Option<u64> {
    use std::io::Read;
    let mut head = [0; 15];
    std::fs::File::open(path).ok()?.read_exact(&mut head).ok()?;
    head[7..].try_into().ok().map(u64::from_le_bytes)
}
