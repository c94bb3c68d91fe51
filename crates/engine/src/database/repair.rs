//! Makes a directory whose write-ahead log is damaged one that can be opened again: `meridian repair`.

use crate::error::{Error, Result};
use crate::rank::forget_saved;
use crate::storage::{Store, StoreOptions};
use std::path::Path;

/// Cuts a damaged write-ahead log off where it is damaged. What was lost so, a line a log; none where no log is
/// damaged. Counts are made anew when the directory is opened, since those that were saved may hold what was
/// given up. Whether documents and indexes still agree is to be asked of [`super::check_directory`].
///
/// # Errors
/// A directory that does not exist, that another process has open, or that cannot be read.
pub fn truncate_log(directory: &Path) -> Result<Vec<String>> {
    if !directory.join("CURRENT").exists() {
        return Err(Error::bad_value(format!(
            "{} is not a Meridian data directory",
            directory.display()
        )));
    }
    let lost = Store::truncate_log(directory)?;
    if !lost.is_empty() {
        let store = Store::open(directory, &StoreOptions::default())?;
        forget_saved(&store)?;
        store.close()?;
    }
    Ok(lost)
}
