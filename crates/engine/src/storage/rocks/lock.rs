//! Locks on a directory: the library's, for what is done to a directory that nobody has open, and one of our own while a
//! directory is being opened, so that two processes do not decide at once whether a new one is encrypted.

use crate::storage::StoreError;
use std::fs::File;
use std::path::Path;

/// Locks, held until this is dropped.
pub(super) struct Locks {
    _library: File,
    _opening: File,
}

/// Takes the lock of who opens a directory; held until the file is dropped.
///
/// # Errors
/// [`StoreError::Locked`] when another is opening it; [`StoreError::Failed`] on I/O failure.
pub(super) fn opening(directory: &Path) -> Result<File, StoreError> {
    let place = || directory.display().to_string();
    let opened = File::open(directory)
        .map_err(|error| StoreError::Failed(format!("cannot open {}: {error}", place())))?;
    rustix::fs::flock(
        &opened,
        rustix::fs::FlockOperation::NonBlockingLockExclusive,
    )
    .map_err(|_| StoreError::Locked(place()))?;
    Ok(opened)
}

/// Takes both locks of a directory.
///
/// # Errors
/// As [`opening`] and [`lock`].
pub(super) fn both(directory: &Path) -> Result<Locks, StoreError> {
    Ok(Locks {
        _opening: opening(directory)?,
        _library: lock(directory)?,
    })
}

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
