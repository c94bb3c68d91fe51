//! What is done to a directory that nobody has open: a damaged write-ahead log cut off (`meridian repair`), encryption
//! (`meridian encrypt`), another master key (`meridian rekey`).

use crate::error::{Error, Result};
use crate::rank::forget_saved;
use crate::storage::{MasterKey, Store, StoreOptions};
use std::path::Path;

/// Cuts a damaged write-ahead log off where it is damaged. What was lost so, a line a log; none where no log is
/// damaged. Counts are made anew when the directory is opened, since those that were saved may hold what was
/// given up. Whether documents and indexes still agree is to be asked of [`super::check_directory`].
///
/// # Errors
/// A directory that does not exist, that another process has open, or that cannot be read.
pub fn truncate_log(directory: &Path, master_key: Option<MasterKey>) -> Result<Vec<String>> {
    require_data_directory(directory)?;
    let lost = Store::truncate_log(directory, master_key.as_ref())?;
    if !lost.is_empty() {
        let options = StoreOptions {
            master_key,
            ..StoreOptions::default()
        };
        let store = Store::open(directory, &options)?;
        forget_saved(&store)?;
        store.close()?;
    }
    Ok(lost)
}

/// Encrypts a directory that is not, in place, a file at a time; `progress` is told how many bytes are done, and of
/// how many. What was cut short goes on when it is called again.
///
/// # Errors
/// A directory that does not exist, that another process has open, or that is encrypted already; I/O failures.
pub fn encrypt_directory(
    directory: &Path,
    master_key: &MasterKey,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<()> {
    require_data_directory(directory)?;
    Ok(Store::encrypt(directory, master_key, progress)?)
}

/// Turns the master key of an encrypted directory over, without rewriting data.
///
/// # Errors
/// A directory that does not exist, that another process has open, or that is not encrypted; a wrong master key; I/O
/// failures.
pub fn rekey_directory(directory: &Path, old: &MasterKey, new: &MasterKey) -> Result<()> {
    require_data_directory(directory)?;
    Ok(Store::rekey(directory, old, new)?)
}

/// # Errors
/// `BadValue` for a directory without data.
pub(super) fn require_data_directory(directory: &Path) -> Result<()> {
    match directory.join("CURRENT").exists() {
        true => Ok(()),
        false => Err(Error::bad_value(format!(
            "{} is not a Meridian data directory",
            directory.display()
        ))),
    }
}
