//! Tells a write-ahead log that a kill or a power loss cut off from one that was damaged, before the library
//! replays it. The library ends its replay at the first record that it cannot read, wherever that is, and says
//! nothing: a flipped bit would silently drop every later write.
//!
//! A log is blocks of 32 KiB; in each, fragments of records (the library's `db/log_format.h`):
//!
//! ```text
//! checksum (u32 LE)  length (u16 LE)  type (u8)  payload
//! ```
//!
//! The checksum is CRC-32C of type and payload, rotated right by 15 bits, plus [`MASK_DELTA`]. What is left of
//! a block where no header fits is zeros. A log was *cut off* if nothing readable follows the first unreadable
//! fragment and that fragment was never written as a whole: the file ends within it, or zeros follow.
//! Everything else is *damage*.
//!
//! In an encrypted log all of that is about what it decrypts to, but for the zeros: those of sectors that were never
//! written are on the disk. So it is cut where it was cut off before the library reads it.

use super::lock;
use crate::storage::StoreError;
use crate::storage::encryption::{self, DataKey, StorageFile};
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

const BLOCK_BYTES: usize = 32 * 1024;
const HEADER_BYTES: usize = 7;
/// Types that the store's logs have: a whole record, or its first, middle or last fragment.
const TYPES: std::ops::RangeInclusive<u8> = 1..=4;
/// What is added to a rotated checksum.
const MASK_DELTA: u32 = 0xa282_ead8;
/// Disks write so many bytes as a whole.
const SECTOR_BYTES: u64 = 512;
/// Where what a repaired log loses is kept, in the data directory.
pub(super) const LOST: &str = "damaged-log";

/// How a log reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LogState {
    /// From beginning to end.
    Whole,
    /// Up to this byte, where writing it was cut off.
    CutOff(u64),
    /// Up to this byte; what is there was changed after it was written.
    Damaged(u64),
}

/// A log whose end was never written as a whole, as a power loss leaves it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CutOff {
    /// The log.
    pub path: PathBuf,
    /// From here on it cannot be replayed.
    pub at: u64,
    /// Bytes of it that cannot be replayed.
    pub bytes: u64,
}

impl CutOff {
    /// Cuts the file there.
    ///
    /// # Errors
    /// [`StoreError::Failed`] on I/O failure.
    pub fn cut(&self) -> Result<(), StoreError> {
        cut(&self.path, self.at).map_err(|error| failed(&self.path, &error))
    }
}

/// Reads all logs of a data directory; those that were cut off.
///
/// # Errors
/// [`StoreError::LogDamaged`] when one was damaged.
pub(super) fn examine(directory: &Path, key: Option<&DataKey>) -> Result<Vec<CutOff>, StoreError> {
    let mut cut_off = Vec::new();
    for path in logs(directory) {
        let (state, length) = state_of(&path, key)?;
        match state {
            LogState::Whole => {}
            LogState::CutOff(at) => cut_off.push(CutOff {
                at,
                bytes: length - at,
                path,
            }),
            LogState::Damaged(at) => {
                return Err(StoreError::LogDamaged {
                    log: path.display().to_string(),
                    at,
                    bytes: length - at,
                    directory: directory.display().to_string(),
                });
            }
        }
    }
    Ok(cut_off)
}

/// As [`examine`], before the library replays encrypted logs: takes away what follows where one was cut off.
///
/// # Errors
/// As [`examine`]; [`StoreError::Locked`] when another process is writing it.
pub(super) fn examine_and_cut(
    directory: &Path,
    key: Option<&DataKey>,
) -> Result<Vec<CutOff>, StoreError> {
    let found = examine(directory, key)?;
    if found.is_empty() || key.is_none() {
        return Ok(found);
    }
    let _lock = lock::lock(directory)?;
    let found = examine(directory, key)?;
    found.iter().try_for_each(CutOff::cut)?;
    Ok(found)
}

/// Cuts the first damaged log off where it is damaged, and takes it and all later logs aside first. What is
/// lost so, in words, a line a log; none where no log is damaged.
///
/// # Errors
/// [`StoreError::Locked`] when another process has the directory open; [`StoreError::Failed`] on I/O failure.
pub(super) fn truncate(directory: &Path, key: Option<&DataKey>) -> Result<Vec<String>, StoreError> {
    let _locks = lock::both(directory)?;
    let mut lost = Vec::new();
    for path in logs(directory) {
        let (state, length) = state_of(&path, key)?;
        let at = match state {
            _ if !lost.is_empty() => 0,
            LogState::Damaged(at) => at,
            LogState::Whole | LogState::CutOff(_) => continue,
        };
        let kept = keep_aside(directory, &path).map_err(|error| failed(&path, &error))?;
        cut(&path, at).map_err(|error| failed(&path, &error))?;
        let bytes = length - at;
        lost.push(format!(
            "{}: {bytes} bytes from byte {at} on given up; the whole file is kept as {}",
            path.display(),
            kept.display()
        ));
    }
    Ok(lost)
}

/// The logs that are replayed, in order.
fn logs(directory: &Path) -> Vec<PathBuf> {
    let mut logs = super::log::log_files(directory);
    logs.sort();
    logs.into_iter().map(|(_, path)| path).collect()
}

fn keep_aside(directory: &Path, path: &Path) -> io::Result<PathBuf> {
    let lost = directory.join(LOST);
    std::fs::create_dir_all(&lost)?;
    let name = path.file_name().expect("a log has a name");
    let kept = lost.join(name);
    std::fs::copy(path, &kept)?;
    File::open(&kept)?.sync_all()?;
    File::open(&lost)?.sync_all()?;
    Ok(kept)
}

fn cut(path: &Path, at: u64) -> io::Result<()> {
    let file = File::options().write(true).open(path)?;
    file.set_len(at)?;
    file.sync_all()
}

fn failed(path: &Path, error: &io::Error) -> StoreError {
    StoreError::Failed(format!("cannot read or cut {}: {error}", path.display()))
}

/// How a log reads, and how long it is; places are those of the file on disk.
fn state_of(path: &Path, key: Option<&DataKey>) -> Result<(LogState, u64), StoreError> {
    let read = || -> io::Result<(LogState, u64)> {
        let length = path.metadata()?.len();
        if length == 0 {
            return Ok((LogState::Whole, 0));
        }
        let mut log = match StorageFile::open(path, key) {
            // Without a header nothing behind it can be read.
            Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                return Ok((state_without_header(path)?, length));
            }
            log => log?,
        };
        let header = log.header_bytes();
        let Some(at) = first_unreadable(&mut log)? else {
            return Ok((LogState::Whole, length));
        };
        let was_cut_off =
            !is_readable_behind(&mut log, at)? && is_unfinished(&mut log, at, length - header)?;
        let state = match was_cut_off {
            true => LogState::CutOff(header + at),
            false => LogState::Damaged(header + at),
        };
        Ok((state, length))
    };
    read().map_err(|error| failed(path, &error))
}

/// Of a log whose header is not one of the directory's key: it was cut off if the header was never written.
fn state_without_header(path: &Path) -> io::Result<LogState> {
    let mut raw = File::open(path)?;
    let length = raw.metadata()?.len();
    match length < encryption::HEADER_BYTES as u64 || zeros_from(&mut raw, 0, length)? == 0 {
        true => Ok(LogState::CutOff(0)),
        false => Ok(LogState::Damaged(0)),
    }
}

/// Where the first fragment is that cannot be read.
fn first_unreadable(file: &mut StorageFile) -> io::Result<Option<u64>> {
    let mut block = Vec::with_capacity(BLOCK_BYTES);
    let mut block_at = 0;
    while read_block(file, block_at, &mut block)? {
        let mut at = 0;
        while at < block.len() {
            let rest = &block[at..];
            let is_trailer = block_at_end(at) && rest.iter().all(|byte| *byte == 0);
            if is_trailer {
                break;
            }
            match fragment_length(rest) {
                Some(length) => at += length,
                None => return Ok(Some(block_at + at as u64)),
            }
        }
        block_at += BLOCK_BYTES as u64;
    }
    Ok(None)
}

/// Whether no header fits between here and the end of a whole block.
fn block_at_end(at: usize) -> bool {
    BLOCK_BYTES - at < HEADER_BYTES
}

/// Whether some fragment behind the unreadable one at `at` can be read. In its own block one may begin
/// anywhere, since its length cannot be trusted; in each later block one begins at the block's first byte.
fn is_readable_behind(file: &mut StorageFile, at: u64) -> io::Result<bool> {
    let block_bytes = BLOCK_BYTES as u64;
    let mut block_at = at / block_bytes * block_bytes;
    let mut block = Vec::with_capacity(BLOCK_BYTES);
    let within = usize::try_from(at - block_at).expect("a place in a block") + 1;
    if read_block(file, block_at, &mut block)?
        && (within..block.len()).any(|from| fragment_length(&block[from..]).is_some())
    {
        return Ok(true);
    }
    block_at += block_bytes;
    while read_block(file, block_at, &mut block)? {
        if fragment_length(&block).is_some() {
            return Ok(true);
        }
        block_at += block_bytes;
    }
    Ok(false)
}

/// Whether the fragment at `at`, behind which nothing can be read, was never written as a whole: the file
/// ends within it, or from some sector on only zeros are left.
fn is_unfinished(file: &mut StorageFile, at: u64, length: u64) -> io::Result<bool> {
    file.seek(SeekFrom::Start(at))?;
    let mut rest = Vec::new();
    file.take(2 * BLOCK_BYTES as u64).read_to_end(&mut rest)?;
    let Some((header, payload)) = rest.split_first_chunk::<HEADER_BYTES>() else {
        return Ok(true);
    };
    let wanted = usize::from(u16::from_le_bytes([header[4], header[5]]));
    let is_short = payload.len() < wanted;
    // With another length it would be whole: then the length is what was changed.
    let is_whole_otherwise = checksum(header[6], payload) == stored_checksum(header);
    let (at, length) = (file.header_bytes() + at, file.header_bytes() + length);
    let has_zeros = zeros_from(file.raw(), at, length)? < length;
    Ok((is_short && !is_whole_otherwise) || has_zeros)
}

/// The first byte behind `at` at the beginning of a sector, or `at` itself, from which on the file holds only
/// zeros; `length` when there is none.
fn zeros_from(file: &mut File, at: u64, length: u64) -> io::Result<u64> {
    let mut zeros_from = length;
    let mut block = Vec::with_capacity(BLOCK_BYTES);
    let mut block_at = at / BLOCK_BYTES as u64 * BLOCK_BYTES as u64;
    while read_block(file, block_at, &mut block)? {
        for (number, sector) in (0_u64..).zip(block.chunks(SECTOR_BYTES as usize)) {
            let sector_at = block_at + number * SECTOR_BYTES;
            let from = at.saturating_sub(sector_at).min(sector.len() as u64);
            let is_zero = sector[from as usize..].iter().all(|byte| *byte == 0);
            let is_before = from as usize == sector.len();
            match (is_zero && !is_before, zeros_from == length) {
                (true, true) => zeros_from = sector_at + from,
                (false, false) => zeros_from = length,
                _ => {}
            }
        }
        block_at += BLOCK_BYTES as u64;
    }
    Ok(zeros_from)
}

/// Reads the block that begins at `at`, the last one as far as it goes; false behind the end.
fn read_block(file: &mut (impl Read + Seek), at: u64, block: &mut Vec<u8>) -> io::Result<bool> {
    block.clear();
    file.seek(SeekFrom::Start(at))?;
    file.take(BLOCK_BYTES as u64).read_to_end(block)?;
    Ok(!block.is_empty())
}

/// Bytes of the fragment that `bytes` begins with; `None` when there is none that can be read.
fn fragment_length(bytes: &[u8]) -> Option<usize> {
    let (header, rest) = bytes.split_first_chunk::<HEADER_BYTES>()?;
    let length = usize::from(u16::from_le_bytes([header[4], header[5]]));
    let payload = rest.get(..length)?;
    let is_right =
        TYPES.contains(&header[6]) && checksum(header[6], payload) == stored_checksum(header);
    is_right.then_some(HEADER_BYTES + length)
}

fn checksum(kind: u8, payload: &[u8]) -> u32 {
    let crc = crc32c::crc32c_append(crc32c::crc32c(&[kind]), payload);
    crc.rotate_right(15).wrapping_add(MASK_DELTA)
}

fn stored_checksum(header: &[u8; HEADER_BYTES]) -> u32 {
    u32::from_le_bytes([header[0], header[1], header[2], header[3]])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::{Family, MasterKey, Order, Store, StoreOptions};
    use rand::{Rng, SeedableRng};
    use rand_chacha::ChaCha8Rng;
    use std::sync::Arc;

    const BATCHES: u32 = 600;

    fn open(directory: &Path, master: Option<&MasterKey>) -> Result<Store, StoreError> {
        let options = StoreOptions {
            master_key: master.cloned(),
            ..StoreOptions::default()
        };
        Store::open(directory, &options)
    }

    fn key(directory: &Path, master: Option<&MasterKey>) -> Option<Arc<DataKey>> {
        super::super::encrypt::data_key(directory, master).unwrap()
    }

    /// A directory as a kill leaves it: [`BATCHES`] batches in one log, nothing flushed.
    fn killed(master: Option<&MasterKey>) -> (tempfile::TempDir, PathBuf) {
        let (directory, copy) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let store = open(directory.path(), master).unwrap();
        for number in 0..BATCHES {
            let mut batch = store.batch();
            let value = vec![7; 1 + number as usize % 400];
            batch.add(
                Family::Documents,
                &[&[0, 0, 0, 1][..], &number.to_be_bytes()].concat(),
                &value,
            );
            store.write(batch).unwrap();
        }
        for file in std::fs::read_dir(directory.path()).unwrap() {
            let file = file.unwrap();
            if file.file_type().unwrap().is_file() {
                std::fs::copy(file.path(), copy.path().join(file.file_name())).unwrap();
            }
        }
        let log = logs(copy.path())
            .into_iter()
            .max_by_key(|log| log.metadata().unwrap().len());
        (copy, log.unwrap())
    }

    fn documents(store: &Store) -> u32 {
        let snapshot = store.snapshot();
        let mut scan = snapshot.scan(
            Family::Documents,
            &[0, 0, 0, 1],
            &[0, 0, 0, 2],
            Order::Forward,
        );
        let mut found = 0;
        while scan.advance().unwrap() {
            found += 1;
        }
        found
    }

    #[test]
    fn every_flipped_bit_stops_the_start_and_the_way_on_keeps_what_is_before_it() {
        flip_bits(None);
        flip_bits(Some(&MasterKey::for_tests(1)));
    }

    fn flip_bits(master: Option<&MasterKey>) {
        let (directory, log) = killed(master);
        let key = key(directory.path(), master);
        let key = key.as_deref();
        let header = key.map_or(0, |_| encryption::HEADER_BYTES);
        let whole = std::fs::read(&log).unwrap();
        assert!(whole.len() > 3 * BLOCK_BYTES);
        let seed = rand::random::<u64>();
        println!("seed {seed}");
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        for round in 0..300 {
            let mut bytes = whole.clone();
            let at = match round % 3 {
                0 => random.random_range(0..bytes.len()),
                1 => random.random_range(0..64),
                _ => bytes.len() - 1 - random.random_range(0..64),
            };
            let mask = 1 << random.random_range(0..8);
            bytes[at] ^= mask;
            let within = (at + BLOCK_BYTES - header % BLOCK_BYTES) % BLOCK_BYTES;
            let is_trailer = at >= header && within > BLOCK_BYTES - HEADER_BYTES;
            std::fs::write(&log, &bytes).unwrap();
            let result = examine(directory.path(), key);
            let is_damaged = matches!(result, Err(StoreError::LogDamaged { .. }));
            assert!(
                is_damaged || is_trailer,
                "seed {seed}, byte {at} mask {mask}: {result:?}"
            );
            if round % 30 == 0 && is_damaged {
                assert!(matches!(
                    open(directory.path(), master),
                    Err(StoreError::LogDamaged { .. })
                ));
                assert_eq!(truncate(directory.path(), key).unwrap().len(), 1);
                assert_eq!(examine(directory.path(), key).unwrap(), []);
                let copy = tempfile::tempdir().unwrap();
                for file in std::fs::read_dir(directory.path()).unwrap() {
                    let file = file.unwrap();
                    if file.file_type().unwrap().is_file() {
                        std::fs::copy(file.path(), copy.path().join(file.file_name())).unwrap();
                    }
                }
                let found = documents(&open(copy.path(), master).unwrap());
                let share = at as f64 / whole.len() as f64;
                let fair = f64::from(BATCHES) * share;
                assert!(
                    f64::from(found) <= f64::from(BATCHES)
                        && (f64::from(found) - fair).abs() < 160.0,
                    "{found} at {share}"
                );
            }
        }
        std::fs::write(&log, &whole).unwrap();
        assert_eq!(examine(directory.path(), key).unwrap(), []);
        assert_eq!(documents(&open(directory.path(), master).unwrap()), BATCHES);
    }

    #[test]
    fn a_log_that_was_cut_off_anywhere_is_opened_with_what_it_has() {
        cut_off_anywhere(None);
        cut_off_anywhere(Some(&MasterKey::for_tests(1)));
    }

    fn cut_off_anywhere(master: Option<&MasterKey>) {
        let (directory, log) = killed(master);
        let key = key(directory.path(), master);
        let key = key.as_deref();
        let whole = std::fs::read(&log).unwrap();
        for length in (0..whole.len())
            .step_by(997)
            .chain(whole.len() - 40..whole.len())
        {
            std::fs::write(&log, &whole[..length]).unwrap();
            let cut_off = examine(directory.path(), key).unwrap();
            let bytes: u64 = cut_off.iter().map(|one| one.bytes).sum();
            assert!(bytes < BLOCK_BYTES as u64, "{length}");
            // Sectors that were not written before the power went are zeros.
            let mut zeroed = whole[..length.max(1)].to_vec();
            let sector = zeroed.len() / SECTOR_BYTES as usize * SECTOR_BYTES as usize;
            zeroed[sector..].fill(0);
            zeroed.resize(sector + 4096, 0);
            std::fs::write(&log, &zeroed).unwrap();
            assert!(
                examine(directory.path(), key).is_ok(),
                "{length} with zeros"
            );
        }
        std::fs::write(&log, &whole[..whole.len() / 2]).unwrap();
        let found = documents(&open(directory.path(), master).unwrap());
        assert!((BATCHES / 4..BATCHES).contains(&found), "{found}");
    }
}
