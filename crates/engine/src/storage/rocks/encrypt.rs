//! Which directories are encrypted, how one becomes so, and how its master key is turned over.

use super::families::CURRENT;
use super::{lock, log_check};
use crate::storage::encryption::{
    DataKey, KeyFile, KeyFileState, MasterKey, StorageFile, is_encrypted,
};
use crate::storage::{Scratch, StoreError};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What a file is called while it is being encrypted.
const UNFINISHED: &str = "encrypting";
/// Directories within, in which the storage keeps logs.
const DIRECTORIES: [&str; 2] = ["archive", log_check::LOST];

/// The data key of a directory that is to be opened, `None` for one that is not encrypted. A new directory becomes
/// encrypted when there is a master key. Whoever opens it holds [`lock::opening`] until it is open.
///
/// # Errors
/// [`StoreError::Failed`] when the master key is wrong, missing, or given for a directory that is not encrypted.
pub(super) fn data_key(
    directory: &Path,
    master: Option<&MasterKey>,
) -> Result<Option<Arc<DataKey>>, StoreError> {
    let (file, has_data) = (KeyFile::read(directory)?, has_data(directory));
    let place = directory.display();
    let refused = |text: String| Err(StoreError::Failed(text));
    match (file, master) {
        (Some(file), _) if file.state == KeyFileState::Converting => refused(format!(
            "the encryption of {place} is not finished: run `meridian encrypt` on it again"
        )),
        (Some(file), Some(master)) => Ok(Some(Arc::new(file.unwrap(directory, master)?))),
        (Some(_), None) => refused(format!(
            "{place} is encrypted: give its master key, with --encryption-key-file or --encryption-key-command"
        )),
        (None, _) if has_data && is_current_encrypted(directory) => refused(format!(
            "{place} is encrypted, but its file ENCRYPTION with the data key is gone: put back a copy of it"
        )),
        (None, Some(_)) if has_data => refused(format!(
            "{place} is not encrypted, and a master key was given: `meridian encrypt` encrypts it"
        )),
        (None, Some(master)) => {
            let file = KeyFile::new(master, KeyFileState::Encrypted);
            file.write(directory)?;
            Ok(Some(Arc::new(file.unwrap(directory, master)?)))
        }
        (None, None) => Ok(None),
    }
}

/// Encrypts a directory that is not, in place, a file at a time. `progress` is told how many bytes are done, and of
/// how many. What was cut short goes on when it is called again, with the same master key.
///
/// # Errors
/// [`StoreError::Locked`] when somebody has the directory open; [`StoreError::Failed`] for one that is encrypted
/// already, or on I/O failure.
pub(super) fn encrypt(
    directory: &Path,
    master: &MasterKey,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<(), StoreError> {
    let _locks = lock::both(directory)?;
    let mut file = match KeyFile::read(directory)? {
        Some(file) if file.state == KeyFileState::Converting => file,
        Some(_) => {
            let place = directory.display();
            return Err(StoreError::Failed(format!("{place} is encrypted already")));
        }
        None => {
            // What was never written of a log is zeros, and must not become cipher text.
            for log in log_check::examine(directory, None)? {
                log.cut()?;
            }
            let file = KeyFile::new(master, KeyFileState::Converting);
            file.write(directory)?;
            file
        }
    };
    let key = file.unwrap(directory, master)?;
    Scratch::remove_leftovers(directory)?;
    encrypt_files(directory, &key, progress)?;
    file.state = KeyFileState::Encrypted;
    file.write(directory)
}

fn encrypt_files(
    directory: &Path,
    key: &DataKey,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<(), StoreError> {
    let mut files = Vec::new();
    list_files(directory, &mut files).map_err(|error| failed("list", directory, &error))?;
    let total = files.iter().map(|(_, bytes)| bytes).sum();
    let mut done = 0;
    for (path, bytes) in files {
        progress(done, total);
        encrypt_file(&path, key).map_err(|error| failed("encrypt", &path, &error))?;
        done += bytes;
    }
    progress(total, total);
    Ok(())
}

/// The storage's files in a directory, with their sizes; those that were not finished are removed. All others, such as
/// an audit log or a key, are left alone.
fn list_files(directory: &Path, files: &mut Vec<(PathBuf, u64)>) -> io::Result<()> {
    for entry in std::fs::read_dir(directory)? {
        let entry = entry?;
        let (path, kind) = (entry.path(), entry.file_type()?);
        let name = entry.file_name();
        let Some(name) = name.to_str() else {
            continue;
        };
        if kind.is_dir() && DIRECTORIES.contains(&name) {
            list_files(&path, files)?;
        } else if !kind.is_file() {
            continue;
        } else if is_storage_file(name) {
            files.push((path, entry.metadata()?.len()));
        } else if name
            .strip_suffix(UNFINISHED)
            .is_some_and(|name| name.strip_suffix('.').is_some_and(is_storage_file))
        {
            std::fs::remove_file(&path)?;
        }
    }
    Ok(())
}

/// Whether the storage library writes files of this name: tables, logs, values, and what it keeps of itself. The names are
/// those of its `file/filename.cc`.
fn is_storage_file(name: &str) -> bool {
    let is_numbered = |name: &str, endings: &[&str]| {
        name.split_once('.')
            .is_some_and(|(number, ending)| endings.contains(&ending) && is_number(number))
    };
    let follows = |begin: &str| name.strip_prefix(begin);
    name == CURRENT
        || name == "IDENTITY"
        || name == "LOG"
        || follows("LOG.old.").is_some_and(is_number)
        || follows("MANIFEST-").is_some_and(is_number)
        || follows("OPTIONS-").is_some_and(|rest| {
            is_number(rest) || rest.strip_suffix(".dbtmp").is_some_and(is_number)
        })
        || is_numbered(name, &["sst", "log", "blob", "dbtmp"])
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

fn encrypt_file(path: &Path, key: &DataKey) -> io::Result<()> {
    // The library takes an empty file for one without a header.
    if path.metadata()?.len() == 0 || is_encrypted(path)? {
        return Ok(());
    }
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".");
    name.push(UNFINISHED);
    let unfinished = path.with_file_name(name);
    let mut out = StorageFile::create(&unfinished, Some(key))?;
    io::copy(&mut File::open(path)?, &mut out)?;
    out.sync_all()?;
    std::fs::rename(&unfinished, path)?;
    File::open(path.parent().expect("it lies in a directory"))?.sync_all()
}

/// Wraps the data key of an encrypted directory with another master key. No other file changes.
///
/// # Errors
/// [`StoreError::Locked`] when somebody has the directory open; [`StoreError::Failed`] for one that is not encrypted,
/// for a wrong master key, or on I/O failure.
pub(super) fn rekey(directory: &Path, old: &MasterKey, new: &MasterKey) -> Result<(), StoreError> {
    let _locks = lock::both(directory)?;
    let place = directory.display();
    let file = KeyFile::read(directory)?
        .ok_or_else(|| StoreError::Failed(format!("{place} is not encrypted")))?;
    let key = file.unwrap(directory, old)?;
    file.rewrapped(&key, new).write(directory)
}

fn has_data(directory: &Path) -> bool {
    directory.join(CURRENT).exists()
}

fn is_current_encrypted(directory: &Path) -> bool {
    is_encrypted(&directory.join(CURRENT)).unwrap_or(false)
}

fn failed(what: &str, path: &Path, error: &io::Error) -> StoreError {
    StoreError::Failed(format!("cannot {what} {}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::{Family, Store, StoreOptions};

    const KNOWN: &[u8] = b"a text that is known";

    fn options(master: Option<u8>) -> StoreOptions {
        StoreOptions {
            master_key: master.map(MasterKey::for_tests),
            ..StoreOptions::default()
        }
    }

    fn fill(directory: &Path, master: Option<u8>) {
        let store = Store::open(directory, &options(master)).unwrap();
        for number in 0..2000_u32 {
            let mut batch = store.batch();
            let key = [&[0, 0, 0, 1], &number.to_be_bytes()[..]].concat();
            batch.put(Family::Documents, &key, KNOWN);
            store.write(batch).unwrap();
            if number == 1000 {
                store.flush().unwrap();
            }
        }
    }

    fn values(directory: &Path, master: Option<u8>) -> Result<usize, String> {
        let store = Store::open(directory, &options(master)).map_err(|error| error.to_string())?;
        let numbers = 0..2000_u32;
        let keys = numbers.map(|number| [&[0, 0, 0, 1], &number.to_be_bytes()[..]].concat());
        let values = keys.map(|key| store.get(Family::Documents, &key, |value| value == KNOWN));
        Ok(values
            .filter(|value| matches!(value, Ok(Some(true))))
            .count())
    }

    fn refused(directory: &Path, master: Option<u8>) -> String {
        values(directory, master).expect_err("it is not to be opened so")
    }

    fn files(directory: &Path) -> Vec<(PathBuf, u64)> {
        let mut files = Vec::new();
        list_files(directory, &mut files).unwrap();
        files
    }

    fn is_readable_by_anybody(directory: &Path) -> bool {
        files(directory).iter().any(|(path, _)| {
            let content = std::fs::read(path).unwrap();
            content.windows(KNOWN.len()).any(|part| part == KNOWN)
        })
    }

    #[test]
    fn files_of_others_are_left_alone() {
        let directory = tempfile::tempdir().unwrap();
        let directory = directory.path();
        fill(directory, None);
        let names = [
            "master.key",
            "audit.log",
            "server.pem",
            "1.encrypting",
            "LOG.txt",
            "notes/000001.sst",
        ];
        std::fs::create_dir(directory.join("notes")).unwrap();
        for name in names {
            std::fs::write(directory.join(name), name).unwrap();
        }
        encrypt(directory, &MasterKey::for_tests(1), &mut |_, _| ()).unwrap();
        for name in names {
            assert_eq!(std::fs::read_to_string(directory.join(name)).unwrap(), name);
        }
        assert_eq!(values(directory, Some(1)), Ok(2000));
    }

    #[test]
    fn two_who_open_a_new_directory_at_once_do_not_mix_what_is_encrypted() {
        for _ in 0..20 {
            let directory = tempfile::tempdir().unwrap();
            let directory = directory.path();
            let open = |master| move || Store::open(directory, &options(master)).map(drop).is_ok();
            std::thread::scope(|scope| {
                let both = [scope.spawn(open(None)), scope.spawn(open(Some(1)))];
                for one in both {
                    one.join().unwrap();
                }
            });
            let (plain, encrypted) = (values(directory, None), values(directory, Some(1)));
            assert!(
                plain.is_ok() != encrypted.is_ok(),
                "{plain:?} {encrypted:?}"
            );
        }
    }

    #[test]
    fn a_directory_is_opened_by_its_master_key_alone() {
        let directory = tempfile::tempdir().unwrap();
        let directory = directory.path();
        fill(directory, Some(1));
        assert!(!is_readable_by_anybody(directory));
        assert_eq!(values(directory, Some(1)), Ok(2000));
        assert!(refused(directory, Some(2)).contains("wrong master key"));
        assert!(refused(directory, None).contains("give its master key"));
        let (one, two) = (MasterKey::for_tests(1), MasterKey::for_tests(2));
        assert!(rekey(directory, &two, &one).is_err());
        rekey(directory, &one, &two).unwrap();
        assert!(refused(directory, Some(1)).contains("wrong master key"));
        assert_eq!(values(directory, Some(2)), Ok(2000));
        let text = encrypt(directory, &two, &mut |_, _| ()).unwrap_err();
        assert!(text.to_string().contains("encrypted already"));
        std::fs::remove_file(KeyFile::path(directory)).unwrap();
        for master in [None, Some(2)] {
            assert!(refused(directory, master).contains("ENCRYPTION"));
        }
    }

    #[test]
    fn a_directory_becomes_encrypted_even_when_that_is_cut_short_at_any_file() {
        let one = MasterKey::for_tests(1);
        for finished in 0.. {
            let directory = tempfile::tempdir().unwrap();
            let directory = directory.path();
            fill(directory, None);
            assert!(is_readable_by_anybody(directory));
            assert!(rekey(directory, &one, &one).is_err());
            assert!(refused(directory, Some(1)).contains("`meridian encrypt` encrypts it"));
            // As a kill leaves it after so many files, with one that is half written.
            let file = KeyFile::new(&one, KeyFileState::Converting);
            file.write(directory).unwrap();
            let key = file.unwrap(directory, &one).unwrap();
            let all = files(directory);
            for (path, _) in all.iter().take(finished) {
                encrypt_file(path, &key).unwrap();
            }
            std::fs::write(directory.join("000001.sst.encrypting"), "half").unwrap();
            for master in [None, Some(1)] {
                assert!(refused(directory, master).contains("is not finished"));
            }
            assert!(encrypt(directory, &MasterKey::for_tests(2), &mut |_, _| ()).is_err());
            let mut last = (0, 0);
            encrypt(directory, &one, &mut |done, of| last = (done, of)).unwrap();
            assert!(last.0 == last.1 && last.0 > 0);
            assert!(!is_readable_by_anybody(directory));
            assert_eq!(values(directory, Some(1)), Ok(2000));
            if finished > all.len() {
                return;
            }
        }
    }
}
