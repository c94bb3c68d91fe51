//! A file of the data directory that the storage library knows nothing of: encrypted where the directory is.

use super::{DataKey, HEADER_BYTES, Keystream, MAGIC};
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;

/// So much is encrypted at a time.
const CHUNK_BYTES: usize = 32 << 10;

/// Whether a file begins as encrypted ones do.
pub fn is_encrypted(path: &Path) -> io::Result<bool> {
    let mut start = Vec::new();
    let mut file = File::open(path)?.take(MAGIC.len() as u64);
    file.read_to_end(&mut start)?;
    Ok(start == MAGIC)
}

/// An open file; places in it are those of what was written to it, without a header.
#[derive(Debug)]
pub struct StorageFile {
    file: File,
    keystream: Option<Box<Keystream>>,
    /// Where the next byte is read or written.
    at: u64,
}

impl StorageFile {
    /// Makes a file, or empties it, to write it from beginning to end.
    pub fn create(path: &Path, key: Option<&DataKey>) -> io::Result<Self> {
        let mut file = File::create(path)?;
        let Some(key) = key else {
            return Ok(Self::new(file, None));
        };
        let header = key.new_header();
        file.write_all(&header)?;
        Ok(Self::new(file, key.keystream(&header)))
    }

    /// Opens a file to read it.
    ///
    /// # Errors
    /// `InvalidData` for one that `key` did not encrypt.
    pub fn open(path: &Path, key: Option<&DataKey>) -> io::Result<Self> {
        let mut file = File::open(path)?;
        let Some(key) = key else {
            return Ok(Self::new(file, None));
        };
        let mut header = Vec::with_capacity(HEADER_BYTES);
        (&mut file)
            .take(HEADER_BYTES as u64)
            .read_to_end(&mut header)?;
        let keystream = key.keystream(&header).ok_or_else(|| {
            let text = "it was not encrypted with the data key of this directory";
            io::Error::new(io::ErrorKind::InvalidData, text)
        })?;
        Ok(Self::new(file, Some(keystream)))
    }

    fn new(file: File, keystream: Option<Keystream>) -> Self {
        let (keystream, at) = (keystream.map(Box::new), 0);
        Self {
            file,
            keystream,
            at,
        }
    }

    /// Bytes before the first one that was written.
    pub fn header_bytes(&self) -> u64 {
        self.keystream.as_ref().map_or(0, |_| HEADER_BYTES as u64)
    }

    /// What is kept on disk, header and cipher text.
    pub fn raw(&mut self) -> &mut File {
        &mut self.file
    }

    /// Waits until all is on disk.
    pub fn sync_all(&self) -> io::Result<()> {
        self.file.sync_all()
    }
}

impl Read for StorageFile {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = self.file.read(buffer)?;
        if let Some(keystream) = &self.keystream {
            keystream.apply(HEADER_BYTES as u64 + self.at, &mut buffer[..length]);
        }
        self.at += length as u64;
        Ok(length)
    }
}

impl Write for StorageFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let Some(keystream) = &self.keystream else {
            return self.file.write(bytes);
        };
        let mut chunk = bytes[..bytes.len().min(CHUNK_BYTES)].to_vec();
        keystream.apply(HEADER_BYTES as u64 + self.at, &mut chunk);
        let length = self.file.write(&chunk)?;
        self.at += length as u64;
        Ok(length)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Seek for StorageFile {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let header = self.header_bytes();
        let to = match to {
            SeekFrom::Start(at) => SeekFrom::Start(header + at),
            other => other,
        };
        let place = self.file.seek(to)?;
        self.at = place.checked_sub(header).ok_or_else(|| {
            io::Error::new(io::ErrorKind::InvalidInput, "a place before the beginning")
        })?;
        Ok(self.at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_read_from_anywhere_and_is_not_on_disk() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        let text: Vec<u8> = (0..200_000_u32).map(|number| (number % 7) as u8).collect();
        for key in [None, Some(DataKey::random())] {
            let mut file = StorageFile::create(&path, key.as_ref()).unwrap();
            for part in text.chunks(77_777) {
                file.write_all(part).unwrap();
            }
            file.sync_all().unwrap();
            assert_eq!(is_encrypted(&path).unwrap(), key.is_some());
            let on_disk = std::fs::read(&path).unwrap();
            let found = on_disk.windows(14).any(|part| part == &text[..14]);
            assert_eq!(found, key.is_none());
            let mut file = StorageFile::open(&path, key.as_ref()).unwrap();
            for from in [0, 1, 16, 31_999, 199_999, 200_000] {
                file.seek(SeekFrom::Start(from as u64)).unwrap();
                let mut rest = Vec::new();
                file.read_to_end(&mut rest).unwrap();
                assert!(rest == text[from..], "from {from}");
            }
            let other = DataKey::random();
            assert!(StorageFile::open(&path, Some(&other)).is_err());
        }
    }
}
