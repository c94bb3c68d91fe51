//! Refuses writes before the disk is full.
//!
//! When the disk is full for the write-ahead log itself, the library cannot go on without being opened again
//! (11.8): the log's end is unknown to it. So writes are refused while a little room is left, and resume when
//! there is more. What removes whole collections or indexes, and so makes room, goes on longer.

use crate::storage::StoreError;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

const MEBIBYTE: u64 = 1 << 20;
/// Less than this part of the disk, within [`LEFT_BYTES`], and writes are refused.
const LEFT_SHARE: u64 = 20;
/// More than is written between two looks, at the fastest.
const LEFT_BYTES: std::ops::RangeInclusive<u64> = 16 * MEBIBYTE..=64 * MEBIBYTE;
/// Writes resume with so much more than they were refused with.
const RESUME_PERCENT: u64 = 125;
/// Removals of whole ranges are refused with less than this.
const REMOVAL_BYTES: u64 = 4 * MEBIBYTE;

/// What is known of the disk's room.
#[derive(Debug)]
pub(super) struct DiskSpace {
    free_bytes: AtomicU64,
    /// Writes are refused below it. Higher while they are refused.
    wanted_bytes: AtomicU64,
}

impl Default for DiskSpace {
    fn default() -> Self {
        Self {
            free_bytes: AtomicU64::new(u64::MAX),
            wanted_bytes: AtomicU64::new(0),
        }
    }
}

impl DiskSpace {
    /// Looks how much room there is, and says in the log when writes begin to be refused, and when they resume.
    pub fn look(&self, directory: &Path) {
        let Ok(disk) = rustix::fs::statvfs(directory) else {
            return;
        };
        let free = disk.f_bavail.saturating_mul(disk.f_frsize);
        let all = disk.f_blocks.saturating_mul(disk.f_frsize);
        let wanted = (all / LEFT_SHARE).clamp(*LEFT_BYTES.start(), *LEFT_BYTES.end());
        let was_refusing = self.is_short();
        self.free_bytes.store(free, Ordering::Relaxed);
        let limit = match was_refusing {
            true => wanted * RESUME_PERCENT / 100,
            false => wanted,
        };
        self.wanted_bytes.store(limit, Ordering::Relaxed);
        match (was_refusing, self.is_short()) {
            (false, true) => tracing::error!(
                directory = %directory.display(),
                free_bytes = free,
                wanted_bytes = wanted,
                "the disk is full: writes are refused and resume by themselves when there is room again"
            ),
            (true, false) => tracing::info!(
                free_bytes = free,
                "there is room on the disk again: writes resume"
            ),
            _ => {}
        }
    }

    /// Whether a batch may be written; one that removes ranges, for longer.
    ///
    /// # Errors
    /// [`StoreError::OutOfSpace`].
    pub fn check(&self, removes_ranges: bool) -> Result<(), StoreError> {
        let free = self.free_bytes.load(Ordering::Relaxed);
        let may_go_on = match removes_ranges {
            true => free >= REMOVAL_BYTES,
            false => !self.is_short(),
        };
        match may_go_on {
            true => Ok(()),
            false => Err(StoreError::OutOfSpace(format!(
                "the disk is full: {} MiB are left, writes need {} MiB; they resume when there is room again",
                free / MEBIBYTE,
                self.wanted_bytes.load(Ordering::Relaxed) / MEBIBYTE
            ))),
        }
    }

    fn is_short(&self) -> bool {
        self.free_bytes.load(Ordering::Relaxed) < self.wanted_bytes.load(Ordering::Relaxed)
    }
}
