//! What kind of failure an error of the library is.
//!
//! The binding gives the status' class and the library's message, but neither the subcode nor what the library was doing:
//! these are read from its words here, and nowhere else.

use crate::storage::StoreError;
use std::path::Path;

/// What is known of a failure of the library.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Failure {
    /// The disk was full.
    pub is_out_of_space: bool,
    /// It was met while the log was written.
    pub is_of_log: bool,
    /// It was met by an fsync, and not by a refusal to try one.
    pub is_of_fsync: bool,
    /// Another process has the directory.
    pub is_in_use: bool,
    /// Files that were to be loaded need a sequence number, since a merge runs among their keys.
    pub needs_sequence: bool,
}

impl Failure {
    /// Of an error of the library.
    pub fn of(error: &rocksdb::Error) -> Self {
        Self::of_message(error.as_ref())
    }

    fn of_message(message: &str) -> Self {
        let says = |words: &str| message.contains(words);
        Self {
            is_out_of_space: says("No space left"),
            is_of_log: says(".log: "),
            is_of_fsync: says("sync") && !says("Writer has previous error"),
            is_in_use: says("lock") && (says("LOCK") || says("temporarily")),
            needs_sequence: says("Global seqno is required"),
        }
    }
}

/// A failure of the library while the store is open.
pub fn failed(error: rocksdb::Error) -> StoreError {
    match Failure::of(&error).is_out_of_space {
        true => StoreError::OutOfSpace(error.into_string()),
        false => StoreError::Failed(error.into_string()),
    }
}

/// A failure of the library while the store is being opened.
pub fn open_failed(directory: &Path, error: rocksdb::Error) -> StoreError {
    let place = directory.display().to_string();
    match Failure::of(&error).is_in_use {
        true => StoreError::Locked(place),
        false => StoreError::Failed(format!("cannot open {place}: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rocksdb::{DB, Options};

    #[test]
    fn failures_are_told_apart_by_their_words() {
        let none = Failure::of_message("IO error: While open a file: Permission denied");
        assert_eq!(none, Failure::of_message(""));
        let full =
            "IO error: No space left on device: While appending to file: /data/000012.log: ...";
        let full = Failure::of_message(full);
        assert!(full.is_out_of_space && full.is_of_log && !full.is_of_fsync);
        let fsync = Failure::of_message("IO error: While fdatasync: /data/000012.log: I/O error");
        assert!(fsync.is_of_fsync && !fsync.is_out_of_space);
        let refused = Failure::of_message("IO error: Writer has previous error. sync");
        assert!(!refused.is_of_fsync);
    }

    /// What the library says of a directory in use, so that an update of it that says something else is noticed.
    #[test]
    fn a_directory_in_use_is_known_by_the_librarys_own_words() {
        let directory = tempfile::tempdir().unwrap();
        let mut options = Options::default();
        options.create_if_missing(true);
        let _first = DB::open(&options, directory.path()).unwrap();
        let error = DB::open(&options, directory.path()).unwrap_err();
        assert!(Failure::of(&error).is_in_use, "{error}");
    }
}
