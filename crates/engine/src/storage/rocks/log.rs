//! The write-ahead log as it is read: what was committed since a sequence number.
//!
//! A record of the log is a write batch of the library, or several: batches of writers that commit at the same
//! time are written as one. So nothing is known of a record as a whole: every change in it says for itself
//! which sequence number it has and whether its key is new. The layout is the library's
//! (`db/write_batch.cc`), which all versions since 2012 read:
//!
//! ```text
//! sequence of the first change (u64 LE)  number of changes (u32 LE)  changes
//! change: tag (u8)  column family (varint, tags 04 05 06 08 0e)  key (varint length, bytes)  value (the same)
//! ```
//!
//! The library's own iterator ends, without saying so, at the first removed range, and passes over marks.

use super::{RocksStore, failed};
use crate::storage::encryption::{DataKey, StorageFile};
use crate::storage::{Family, Logged, LoggedChange, StoreError, VisitLogged};
use std::io::Read as _;
use std::path::{Path, PathBuf};

/// Stands before a change whose key was there already. In the log only: it has no sequence number and
/// never reaches a memtable.
pub(super) const REPLACES: &[u8] = b"r";

/// Tags of what the store writes, by their names in the library's `db/dbformat.h`.
mod tag {
    pub const VALUE: u8 = 0x01;
    pub const LOG_DATA: u8 = 0x03;
    pub const DELETION: u8 = 0x00;
    pub const COLUMN_FAMILY_DELETION: u8 = 0x04;
    pub const COLUMN_FAMILY_VALUE: u8 = 0x05;
    pub const NOOP: u8 = 0x0d;
    pub const COLUMN_FAMILY_RANGE_DELETION: u8 = 0x0e;
    pub const RANGE_DELETION: u8 = 0x0f;
}

impl RocksStore {
    pub(super) fn read_log(
        &self,
        sequence: u64,
        visit: &mut VisitLogged<'_>,
    ) -> Result<bool, StoreError> {
        // The library refuses numbers whose log is gone; then there is nothing to read.
        let Ok(batches) = self.database.get_updates_since(sequence) else {
            return Ok(false);
        };
        let families = self.families.by_id();
        for batch in batches {
            let (first, batch) = batch.map_err(failed)?;
            let logged = decode(batch.data(), &families).ok_or_else(|| {
                StoreError::Failed(format!("the log's record at {first} cannot be read"))
            })?;
            visit(first, batch.len() as u64, &logged);
        }
        Ok(true)
    }

    /// Removes archived log files older than the oldest file that is still written or needed, if all
    /// their operations are: an archived file ends where the next one begins.
    pub(super) fn remove_log_before(&self, sequence: u64) {
        let mut logs = log_files(&self.directory.join("archive"));
        logs.extend(log_files(&self.directory));
        logs.sort();
        let key = self.key.as_deref();
        let begins_by =
            |path: &Path| first_sequence(path, key).is_some_and(|first| first <= sequence + 1);
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

/// The changes of a record; `None` when it is not laid out as drawn above.
fn decode(record: &[u8], families: &[(u32, Family)]) -> Option<Vec<Logged>> {
    let (sequence, rest) = record.split_first_chunk()?;
    let (changes, mut rest) = rest.split_first_chunk()?;
    let (first, changes) = (u64::from_le_bytes(*sequence), u32::from_le_bytes(*changes));
    let mut logged = Vec::new();
    let mut replaces = false;
    while let Some(tag) = take_byte(&mut rest) {
        if tag == tag::NOOP {
            continue;
        }
        if tag == tag::LOG_DATA {
            replaces = take_bytes(&mut rest)? == REPLACES;
            continue;
        }
        let family_id = match tag {
            tag::VALUE | tag::DELETION | tag::RANGE_DELETION => 0,
            _ => take_varint(&mut rest)?,
        };
        let key = take_bytes(&mut rest)?.to_vec();
        let is_new = !std::mem::take(&mut replaces);
        let change = match tag {
            tag::VALUE | tag::COLUMN_FAMILY_VALUE => {
                take_bytes(&mut rest)?;
                if is_new {
                    LoggedChange::Added
                } else {
                    LoggedChange::Replaced
                }
            }
            tag::DELETION | tag::COLUMN_FAMILY_DELETION => LoggedChange::Removed,
            tag::RANGE_DELETION | tag::COLUMN_FAMILY_RANGE_DELETION => {
                LoggedChange::RangeRemoved(take_bytes(&mut rest)?.to_vec())
            }
            _ => return None,
        };
        let (_, family) = families.iter().find(|(id, _)| *id == family_id)?;
        logged.push(Logged {
            sequence: first + logged.len() as u64,
            family: *family,
            key,
            change,
        });
    }
    (logged.len() == changes as usize).then_some(logged)
}

fn take_byte(rest: &mut &[u8]) -> Option<u8> {
    let (first, behind) = rest.split_first()?;
    *rest = behind;
    Some(*first)
}

/// Seven bits a byte, the lowest first; the top bit says that another byte follows.
fn take_varint(rest: &mut &[u8]) -> Option<u32> {
    let mut value = 0_u32;
    for shift in (0..32).step_by(7) {
        let byte = take_byte(rest)?;
        value |= u32::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

fn take_bytes<'r>(rest: &mut &'r [u8]) -> Option<&'r [u8]> {
    let length = take_varint(rest)? as usize;
    let (bytes, behind) = rest.split_at_checked(length)?;
    *rest = behind;
    Some(bytes)
}

/// The log files in a directory by number.
pub(super) fn log_files(directory: &Path) -> Vec<(u64, PathBuf)> {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let paths = entries.map(|entry| entry.path());
    let logs = paths.filter(|path| path.extension().is_some_and(|end| end == "log"));
    logs.filter_map(|path| Some((path.file_stem()?.to_str()?.parse().ok()?, path)))
        .collect()
}

/// The number of the first operation in a log file, `None` when it holds none yet. A record begins with
/// checksum (4 bytes), length (2) and kind (1); its payload, a batch, with that number (u64 LE). See the
/// library's description of its log format.
fn first_sequence(path: &Path, key: Option<&DataKey>) -> Option<u64> {
    let mut head = [0; 15];
    let mut log = StorageFile::open(path, key).ok()?;
    log.read_exact(&mut head).ok()?;
    head[7..].try_into().ok().map(u64::from_le_bytes)
}
