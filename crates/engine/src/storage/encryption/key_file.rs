//! The file `ENCRYPTION` of a data directory: its data key, wrapped by the master key (AES-256 key wrap, RFC 3394).
//! A directory that has none is not encrypted; who loses it has lost the data.

use super::{DataKey, KEY_BYTES, MasterKey};
use crate::storage::StoreError;
use aes_kw::{KeyInit as _, KwAes256};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use zeroize::Zeroizing;

const NAME: &str = "ENCRYPTION";
/// A new one, before it takes the other's place.
const NEW_NAME: &str = "ENCRYPTION.new";
const VERSION: u32 = 1;
const CIPHER: &str = "AES-256-CTR";
/// Wrapping adds so many bytes.
const WRAPPED_BYTES: usize = KEY_BYTES + aes_kw::IV_LEN;

/// What the file says, in JSON.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct KeyFile {
    version: u32,
    cipher: String,
    pub state: KeyFileState,
    /// In base64.
    wrapped_key: String,
}

/// Which files of the directory are encrypted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum KeyFileState {
    /// All.
    Encrypted,
    /// Those that were reached.
    Converting,
}

impl KeyFile {
    /// With a new data key.
    pub fn new(master: &MasterKey, state: KeyFileState) -> Self {
        Self {
            version: VERSION,
            cipher: CIPHER.to_owned(),
            state,
            wrapped_key: wrap(&DataKey::random(), master),
        }
    }

    /// Reads that of a directory; `None` where there is none.
    ///
    /// # Errors
    /// [`StoreError::Failed`] for one that cannot be read or understood.
    pub fn read(directory: &Path) -> Result<Option<Self>, StoreError> {
        let path = Self::path(directory);
        let text = match std::fs::read_to_string(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            text => text.map_err(|error| failed("read", &path, &error))?,
        };
        let damaged = |why: &dyn std::fmt::Display| {
            StoreError::Failed(format!(
                "{} is damaged ({why}): put back a copy of it, without it the directory cannot be decrypted",
                path.display()
            ))
        };
        let found: Self = serde_json::from_str(&text).map_err(|error| damaged(&error))?;
        if found.version != VERSION || found.cipher != CIPHER {
            return Err(StoreError::Failed(format!(
                "{} is of version {} with the cipher {}, and this program knows version {VERSION} with {CIPHER}",
                path.display(),
                found.version,
                found.cipher
            )));
        }
        match BASE64_STANDARD.decode(&found.wrapped_key) {
            Ok(bytes) if bytes.len() == WRAPPED_BYTES => Ok(Some(found)),
            _ => Err(damaged(&"its wrappedKey is not 40 bytes in base64")),
        }
    }

    /// Takes the place of the directory's.
    ///
    /// # Errors
    /// [`StoreError::Failed`] on I/O failure; the one that was there is then still there.
    pub fn write(&self, directory: &Path) -> Result<(), StoreError> {
        let (new, path) = (directory.join(NEW_NAME), Self::path(directory));
        let text = serde_json::to_string_pretty(self).expect("text and numbers");
        let write = || {
            let mut file = File::create(&new)?;
            file.write_all(text.as_bytes())?;
            file.write_all(b"\n")?;
            file.sync_all()?;
            std::fs::rename(&new, &path)?;
            File::open(directory)?.sync_all()
        };
        write().map_err(|error| failed("write", &path, &error))
    }

    /// The data key.
    ///
    /// # Errors
    /// [`StoreError::Failed`] when another master key wrapped it.
    pub fn unwrap(&self, directory: &Path, master: &MasterKey) -> Result<DataKey, StoreError> {
        let wrapped = BASE64_STANDARD.decode(&self.wrapped_key);
        let mut key = Zeroizing::new([0; KEY_BYTES]);
        let unwrapped = wrapped.ok().and_then(|wrapped| {
            let wrapping = KwAes256::new(&(*master.0).into());
            wrapping.unwrap_key(&wrapped, key.as_mut_slice()).ok()?;
            Some(())
        });
        unwrapped.ok_or_else(|| {
            StoreError::Failed(format!(
                "wrong master key: it does not unwrap the data key in {}",
                Self::path(directory).display()
            ))
        })?;
        Ok(DataKey(key))
    }

    /// The same data key, wrapped by another master key.
    pub fn rewrapped(&self, key: &DataKey, master: &MasterKey) -> Self {
        Self {
            wrapped_key: wrap(key, master),
            ..self.clone()
        }
    }

    /// Where it lies in a directory.
    pub fn path(directory: &Path) -> PathBuf {
        directory.join(NAME)
    }
}

fn wrap(key: &DataKey, master: &MasterKey) -> String {
    let mut wrapped = [0; WRAPPED_BYTES];
    let wrapping = KwAes256::new(&(*master.0).into());
    let wrapped = wrapping
        .wrap_key(key.0.as_slice(), &mut wrapped)
        .expect("room for a key and the check");
    BASE64_STANDARD.encode(wrapped)
}

fn failed(what: &str, path: &Path, error: &io::Error) -> StoreError {
    StoreError::Failed(format!("cannot {what} {}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_master_key_that_wrapped_a_data_key_unwraps_it() {
        let directory = tempfile::tempdir().unwrap();
        let directory = directory.path();
        assert_eq!(KeyFile::read(directory).unwrap(), None);
        let file = KeyFile::new(&MasterKey::for_tests(1), KeyFileState::Encrypted);
        file.write(directory).unwrap();
        let read = KeyFile::read(directory).unwrap().unwrap();
        assert_eq!(read, file);
        let key = read.unwrap(directory, &MasterKey::for_tests(1)).unwrap();
        let error = read
            .unwrap(directory, &MasterKey::for_tests(2))
            .unwrap_err()
            .to_string();
        assert!(error.contains("wrong master key"), "{error}");
        let turned = read.rewrapped(&key, &MasterKey::for_tests(2));
        assert_eq!(
            turned
                .unwrap(directory, &MasterKey::for_tests(2))
                .unwrap()
                .0,
            key.0
        );
        assert!(turned.unwrap(directory, &MasterKey::for_tests(1)).is_err());
    }

    #[test]
    fn every_change_of_the_file_is_noticed() {
        let directory = tempfile::tempdir().unwrap();
        let directory = directory.path();
        KeyFile::new(&MasterKey::for_tests(1), KeyFileState::Encrypted)
            .write(directory)
            .unwrap();
        let whole = std::fs::read(KeyFile::path(directory)).unwrap();
        for at in 0..whole.len() {
            let mut changed = whole.clone();
            changed[at] ^= 1;
            std::fs::write(KeyFile::path(directory), &changed).unwrap();
            let outcome = KeyFile::read(directory)
                .and_then(|file| file.unwrap().unwrap(directory, &MasterKey::for_tests(1)));
            assert!(outcome.is_err(), "byte {at}");
        }
    }
}
