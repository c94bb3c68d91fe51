//! What a kill at one instant leaves of a store that is still open in this process.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Copies that may be in vain because the store's background work changed files meanwhile.
const TRIES: usize = 500;

/// A copy of a store's directory at one instant: nothing of what is in memory is saved.
///
/// File by file it takes a while, and a list of files copied after a new one came names a file that was not
/// copied. So it counts only if no file came, went or grew between its beginning and its end.
pub fn killed(directory: &Path) -> tempfile::TempDir {
    for _ in 0..TRIES {
        let before = files(directory);
        let copy = tempfile::tempdir().unwrap();
        let is_whole = before
            .keys()
            .all(|file| copied(directory, copy.path(), file));
        if is_whole && files(directory) == before {
            return copy;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("{} never stood still", directory.display());
}

/// The files under a directory, by their path in it, and how long they are.
fn files(directory: &Path) -> BTreeMap<PathBuf, u64> {
    let mut found = BTreeMap::new();
    let mut left = vec![directory.to_owned()];
    while let Some(next) = left.pop() {
        for entry in std::fs::read_dir(&next).into_iter().flatten().flatten() {
            match entry.metadata() {
                Ok(about) if about.is_dir() => left.push(entry.path()),
                Ok(about) => {
                    let path = entry.path();
                    let name = path.strip_prefix(directory).unwrap().to_owned();
                    found.insert(name, about.len());
                }
                Err(error) => assert_eq!(error.kind(), ErrorKind::NotFound, "{error}"),
            }
        }
    }
    found
}

/// Copies one file; false when it has gone.
fn copied(from: &Path, to: &Path, file: &Path) -> bool {
    let target = to.join(file);
    std::fs::create_dir_all(target.parent().unwrap()).unwrap();
    match std::fs::copy(from.join(file), target) {
        Ok(_) => true,
        Err(error) if error.kind() == ErrorKind::NotFound => false,
        Err(error) => panic!("{}: {error}", file.display()),
    }
}
