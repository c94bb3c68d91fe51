//! The library's lock on a directory, for what is done to a directory that nobody has open.

use crate::storage::StoreError;
use std::fs::File;
use std::path::Path;

/// Takes the lock that the library takes when it opens a directory; held until the file is dropped. It is the
/// process's: to be taken only where this process does not have the directory open.
///
/// # Errors
/// [`StoreError::Locked`] when another process has the directory open; [`StoreError::Failed`] on I/O failure.
pub(super) fn lock(directory: &Path) -> Result<File, StoreError> {
    let path = directory.join("LOCK");
    let file = File::options()
        .write(true)
        .create(true)
        .truncate(false)
        .open(&path)
        .map_err(|error| StoreError::Failed(format!("cannot open {}: {error}", path.display())))?;
    rustix::fs::fcntl_lock(&file, rustix::fs::FlockOperation::NonBlockingLockExclusive)
        .map_err(|_| StoreError::Locked(directory.display().to_string()))?;
    Ok(file)
}
