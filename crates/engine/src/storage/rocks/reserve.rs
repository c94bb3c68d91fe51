//! A little of the disk that is kept for the day when it is full.
//!
//! To open a directory the library writes: a list of files, settings, a new log. On a full disk that fails, and
//! nobody could even read. So a file takes [`RESERVE_BYTES`] while there is room; when the directory cannot be
//! opened for lack of space it is given up, and taken again once there is room.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

/// Enough for the list of a hundred thousand files.
const RESERVE_BYTES: u64 = 8 * 1024 * 1024;
pub(super) const NAME: &str = "reserve";

/// The file in one data directory.
pub(super) struct Reserve(PathBuf);

impl Reserve {
    pub fn of(directory: &Path) -> Self {
        Self(directory.join(NAME))
    }

    /// Takes the space, unless it is taken already.
    ///
    /// # Errors
    /// When there is no room for it, or not for as much again: others need that sooner.
    pub fn take(&self) -> io::Result<()> {
        if std::fs::metadata(&self.0).is_ok_and(|about| about.len() == RESERVE_BYTES) {
            return Ok(());
        }
        self.check_room()?;
        let file = File::create(&self.0)?;
        let flags = rustix::fs::FallocateFlags::empty();
        let taken = rustix::fs::fallocate(&file, flags, 0, RESERVE_BYTES);
        if let Err(error) = taken {
            self.give_up();
            return Err(error.into());
        }
        Ok(())
    }

    fn check_room(&self) -> io::Result<()> {
        let directory = self.0.parent().expect("it lies in a directory");
        let room = rustix::fs::statvfs(directory)?;
        let free = room.f_bavail.saturating_mul(room.f_frsize);
        match free >= 2 * RESERVE_BYTES {
            true => Ok(()),
            false => Err(io::ErrorKind::StorageFull.into()),
        }
    }

    /// Gives the space up; whether there was any.
    pub fn give_up(&self) -> bool {
        std::fs::remove_file(&self.0).is_ok()
    }
}
