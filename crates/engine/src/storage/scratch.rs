//! Files that are needed for a while: sorted runs of an index build, files that are being filled.
//!
//! They lie in `scratch/` of the data directory, so that they share its disk. Each user has a directory
//! there that goes with it; what a kill left behind is removed at the next start. They are encrypted where the data is.

use super::StoreError;
use super::encryption::{DataKey, StorageFile};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

const NAME: &str = "scratch";

/// A directory that is removed, with all its files, when this is dropped.
pub struct Scratch {
    path: PathBuf,
    key: Option<Arc<DataKey>>,
    files: u64,
}

impl Scratch {
    /// Makes a new one for the store in `directory`, whose files `key` encrypts, if any.
    pub(super) fn create(directory: &Path, key: Option<Arc<DataKey>>) -> Result<Self, StoreError> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("{}-{number}", std::process::id());
        let path = directory.join(NAME).join(name);
        std::fs::create_dir_all(&path).map_err(|error| failed("create", &path, &error))?;
        let files = 0;
        Ok(Self { path, key, files })
    }

    /// Removes what a process that was killed left behind.
    pub(super) fn remove_leftovers(directory: &Path) -> Result<(), StoreError> {
        let path = directory.join(NAME);
        match std::fs::remove_dir_all(&path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(failed("remove", &path, &error))
            }
            _ => Ok(()),
        }
    }

    /// The path of a file that is not there yet.
    pub fn next_file(&mut self) -> PathBuf {
        self.files += 1;
        self.path.join(self.files.to_string())
    }

    /// Makes the file, to write it from beginning to end.
    ///
    /// # Errors
    /// As the system's.
    pub fn create_file(&self, path: &Path) -> io::Result<StorageFile> {
        StorageFile::create(path, self.key.as_deref())
    }

    /// Opens a file that was made so, to read it.
    ///
    /// # Errors
    /// As the system's.
    pub fn open_file(&self, path: &Path) -> io::Result<StorageFile> {
        StorageFile::open(path, self.key.as_deref())
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(&self.path) {
            tracing::warn!(path = %self.path.display(), %error, "temporary files could not be removed");
        }
    }
}

fn failed(what: &str, path: &Path, error: &std::io::Error) -> StoreError {
    StoreError::Failed(format!("cannot {what} {}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_go_with_their_directory_and_leftovers_at_the_next_start() {
        let store = tempfile::tempdir().unwrap();
        let mut first = Scratch::create(store.path(), None).unwrap();
        let mut second = Scratch::create(store.path(), None).unwrap();
        let (gone, left) = (first.next_file(), second.next_file());
        for path in [&gone, &left] {
            std::fs::write(path, "x").unwrap();
        }
        drop(first);
        assert!(!gone.exists() && left.exists());
        std::mem::forget(second);
        Scratch::remove_leftovers(store.path()).unwrap();
        assert!(!left.exists());
        Scratch::remove_leftovers(store.path()).unwrap();
    }
}
