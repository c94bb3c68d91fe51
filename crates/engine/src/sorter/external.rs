//! Sorts more entries than memory holds: those of index builds, and of the stages that spill.
//!
//! Entries are collected in memory; when that is full they are sorted and written to a file, a *run*. At
//! the end the runs are merged, at most [`FAN_IN_MAX`] at once. Entries belong to lists, one a tree: all
//! keys of a list begin with the tree's four bytes, and those of one list come before those of the next.
//!
//! ```text
//! run   for each entry: length of the key (u32 LE), length of the value (u32 LE), key, value
//! ```

use crate::error::{Error, Result};
use crate::storage::{Scratch, StorageFile, Store, StoreError};
use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;
use std::io::{BufRead, BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

/// Runs that are merged at once.
const FAN_IN_MAX: usize = 64;
/// Bytes read from, or written to, a run at once.
const BUFFER_BYTES: usize = 256 * 1024;
/// ... when memory is scarce, see [`Sorter::for_spill`].
const SMALL_BUFFER_BYTES: usize = 64 * 1024;
/// What such a merge may take, but for two runs of large entries, which it needs.
const SMALL_MERGE_BYTES: usize = 1024 * 1024;
pub(super) const PREFIX_BYTES: usize = 4;
const LENGTHS_BYTES: usize = 8;

/// Takes entries in any order.
pub(crate) struct Sorter {
    memory: Memory,
    memory_bytes: usize,
    store: Store,
    runs: Option<Runs>,
    merging: Merging,
    entries: u64,
    bytes: u64,
}

/// All entries, in order as often as they are asked for.
pub(crate) struct Sorted {
    memory: Memory,
    runs: Option<Runs>,
    /// Number of entries.
    pub entries: u64,
    /// Bytes of keys and values.
    pub bytes: u64,
}

impl Sorter {
    /// A sorter for so many lists that keeps about so many bytes in memory, and files in the store's
    /// directory.
    pub fn new(store: &Store, lists: usize, memory_bytes: usize) -> Self {
        Self {
            memory: Memory::new(lists),
            memory_bytes,
            store: store.clone(),
            runs: None,
            merging: Merging::Wide,
            entries: 0,
            bytes: 0,
        }
    }

    /// A sorter of one list for a statement that has outgrown its memory: it keeps about so many bytes, and what merges
    /// its runs afterwards keeps little, since a cursor may wait with it for long.
    pub fn for_spill(store: &Store, memory_bytes: usize) -> Self {
        Self {
            merging: Merging::Narrow { entry_bytes_max: 0 },
            ..Self::new(store, 1, memory_bytes)
        }
    }

    /// Bytes that merging what was pushed so far takes in memory: while runs are merged until they are few
    /// enough, and then, from one entry to the next.
    pub fn merge_bytes(&self) -> (usize, usize) {
        let before = self.merging.fan_in() * self.merging.run_bytes();
        match self.merging.last_fan_in() {
            // Its large entries are not kept.
            1 => (before, 2 * SMALL_BUFFER_BYTES),
            runs => (before, runs * self.merging.run_bytes()),
        }
    }

    /// Number of entries so far.
    pub fn entries(&self) -> u64 {
        self.entries
    }

    /// Adds an entry; its key is given in parts, the first of which begins with the tree.
    ///
    /// # Errors
    /// Storage failures.
    pub fn push(&mut self, list: usize, key: &[&[u8]], value: &[u8]) -> Result<()> {
        let entry_bytes = self.memory.push(list, key, value);
        self.merging.note(entry_bytes);
        self.bytes += entry_bytes as u64;
        self.entries += 1;
        // Offsets in memory have 32 bits.
        if self.memory.bytes() >= self.memory_bytes.min(1 << 30) {
            self.spill()?;
        }
        Ok(())
    }

    /// Ends the taking.
    ///
    /// # Errors
    /// Storage failures.
    pub fn finish(mut self) -> Result<Sorted> {
        if self.runs.is_some() && self.memory.bytes() > 0 {
            self.spill()?;
        }
        match &mut self.runs {
            None => self.memory.sort(),
            Some(runs) => {
                self.memory = Memory::default();
                runs.reduce(self.merging)?;
            }
        }
        Ok(Sorted {
            memory: self.memory,
            runs: self.runs,
            entries: self.entries,
            bytes: self.bytes,
        })
    }

    /// Ends the taking, with all entries in files.
    ///
    /// # Errors
    /// Storage failures.
    pub fn finish_in_files(mut self) -> Result<Spilled> {
        self.spill()?;
        let Some(mut runs) = self.runs else {
            unreachable!("spilling makes runs");
        };
        self.memory = Memory::default();
        runs.reduce(self.merging)?;
        let merge = MergedRuns::over(runs.open(&runs.paths, self.merging)?)?;
        Ok(Spilled { merge, _runs: runs })
    }

    fn spill(&mut self) -> Result<()> {
        if self.runs.is_none() {
            let (scratch, paths) = (self.store.scratch()?, Vec::new());
            self.runs = Some(Runs { scratch, paths });
        }
        self.memory.sort();
        let memory = &self.memory;
        if let Some(runs) = &mut self.runs {
            runs.write(
                MergedRuns::over([RunSource::Memory(memory.iter())])?,
                self.merging,
            )?;
        }
        self.memory.clear();
        if let Merging::Narrow { .. } = self.merging {
            // One large entry made it grow.
            self.memory.buffer.shrink_to(self.memory_bytes);
        }
        Ok(())
    }
}

impl Sorted {
    /// The entries in ascending order of keys.
    ///
    /// # Errors
    /// Storage failures.
    pub fn merge(&self) -> Result<MergedRuns<'_>> {
        match &self.runs {
            None => MergedRuns::over([RunSource::Memory(self.memory.iter())]),
            Some(runs) => MergedRuns::over(runs.open(&runs.paths, Merging::Wide)?),
        }
    }
}

/// Sorted entries in files, on their way out; the files go when it is dropped.
pub(crate) struct Spilled {
    merge: MergedRuns<'static>,
    _runs: Runs,
}

impl Spilled {
    /// What `decode` makes of the next entry, which is not kept if it is large.
    ///
    /// # Errors
    /// Storage failures, and those of `decode`.
    pub fn next_with<T>(
        &mut self,
        decode: impl FnOnce(&[u8], &[u8]) -> Result<T>,
    ) -> Result<Option<T>> {
        let Some((key, value)) = self.merge.next()? else {
            return Ok(None);
        };
        let decoded = decode(key, value)?;
        self.merge.forget_large();
        Ok(Some(decoded))
    }

    /// Has the entry that came last come again.
    ///
    /// # Errors
    /// Storage failures.
    pub fn unread(&mut self) -> Result<()> {
        self.merge.unread()
    }
}

/// How much memory a merge may take.
#[derive(Debug, Clone, Copy)]
enum Merging {
    /// Many runs at once, read in large parts.
    Wide,
    /// As few as [`SMALL_MERGE_BYTES`] hold, given the largest entry.
    Narrow { entry_bytes_max: usize },
}

impl Merging {
    fn note(&mut self, entry_bytes: usize) {
        if let Self::Narrow { entry_bytes_max } = self {
            *entry_bytes_max = entry_bytes.max(*entry_bytes_max);
        }
    }

    fn buffer_bytes(self) -> usize {
        match self {
            Self::Wide => BUFFER_BYTES,
            Self::Narrow { .. } => SMALL_BUFFER_BYTES,
        }
    }

    fn run_bytes(self) -> usize {
        match self {
            Self::Wide => BUFFER_BYTES,
            Self::Narrow { entry_bytes_max } => SMALL_BUFFER_BYTES + entry_bytes_max,
        }
    }

    fn fan_in(self) -> usize {
        match self {
            Self::Wide => FAN_IN_MAX,
            Self::Narrow { .. } => (SMALL_MERGE_BYTES / self.run_bytes()).clamp(2, FAN_IN_MAX),
        }
    }

    /// Runs that may be left for the last merge: one where two of large entries would take too much.
    fn last_fan_in(self) -> usize {
        match self {
            Self::Narrow { .. } if 2 * self.run_bytes() > SMALL_MERGE_BYTES => 1,
            _ => self.fan_in(),
        }
    }
}

/// Entries in memory.
#[derive(Default)]
struct Memory {
    /// For each entry what a run has of it.
    buffer: Vec<u8>,
    lists: Vec<Vec<MemorySlot>>,
    slots: usize,
}

/// Where an entry is, and the first bytes of its key behind the tree: most comparisons end there.
#[derive(Clone, Copy)]
struct MemorySlot {
    head: u64,
    start: u32,
}

impl Memory {
    fn new(lists: usize) -> Self {
        Self {
            lists: vec![Vec::new(); lists],
            ..Self::default()
        }
    }

    fn bytes(&self) -> usize {
        self.buffer.len() + self.slots * size_of::<MemorySlot>()
    }

    /// Returns the bytes of key and value.
    fn push(&mut self, list: usize, key: &[&[u8]], value: &[u8]) -> usize {
        let start = u32::try_from(self.buffer.len()).expect("memory is spilled long before");
        let key_length: usize = key.iter().map(|part| part.len()).sum();
        self.buffer.extend_from_slice(&length(key_length));
        self.buffer.extend_from_slice(&length(value.len()));
        let key_start = self.buffer.len();
        key.iter()
            .for_each(|part| self.buffer.extend_from_slice(part));
        let head = head(&self.buffer[key_start..]);
        self.buffer.extend_from_slice(value);
        self.lists[list].push(MemorySlot { head, start });
        self.slots += 1;
        key_length + value.len()
    }

    fn sort(&mut self) {
        let buffer = &self.buffer;
        let key = |slot: &MemorySlot| entry_at(buffer, slot.start).0;
        for list in &mut self.lists {
            list.sort_unstable_by(|a, b| a.head.cmp(&b.head).then_with(|| key(a).cmp(key(b))));
        }
    }

    fn iter(&self) -> MemoryIter<'_> {
        MemoryIter {
            memory: self,
            list: 0,
            next: 0,
        }
    }

    fn clear(&mut self) {
        self.buffer.clear();
        self.lists.iter_mut().for_each(Vec::clear);
        self.slots = 0;
    }
}

/// The key's first eight bytes behind its tree, as a number that compares alike.
fn head(key: &[u8]) -> u64 {
    let mut bytes = [0; 8];
    let rest = key.get(PREFIX_BYTES..).unwrap_or_default();
    let count = rest.len().min(8);
    bytes[..count].copy_from_slice(&rest[..count]);
    u64::from_be_bytes(bytes)
}

/// Key and value of the entry that begins here.
fn entry_at(buffer: &[u8], start: u32) -> (&[u8], &[u8]) {
    let entry = &buffer[start as usize..];
    let (lengths, rest) = entry.split_at(LENGTHS_BYTES);
    let (key, value) = decode_lengths(lengths.try_into().expect("eight bytes"));
    let (key, rest) = rest.split_at(key);
    (key, &rest[..value])
}

struct MemoryIter<'m> {
    memory: &'m Memory,
    list: usize,
    next: usize,
}

impl<'m> Iterator for MemoryIter<'m> {
    type Item = (&'m [u8], &'m [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let list = self.memory.lists.get(self.list)?;
            if let Some(slot) = list.get(self.next) {
                self.next += 1;
                return Some(entry_at(&self.memory.buffer, slot.start));
            }
            (self.list, self.next) = (self.list + 1, 0);
        }
    }
}

/// Sorted entries in files.
struct Runs {
    scratch: Scratch,
    paths: Vec<PathBuf>,
}

impl Runs {
    /// Writes one run more.
    fn write(&mut self, mut entries: MergedRuns<'_>, merging: Merging) -> Result<()> {
        let path = self.scratch.next_file();
        let file = self
            .scratch
            .create_file(&path)
            .map_err(|error| failed(&path, &error))?;
        let mut out = BufWriter::with_capacity(merging.buffer_bytes(), file);
        while let Some((key, value)) = entries.next()? {
            write_entry(&mut out, key, value).map_err(|error| failed(&path, &error))?;
        }
        out.flush().map_err(|error| failed(&path, &error))?;
        self.paths.push(path);
        Ok(())
    }

    /// Merges runs until they are few enough for the last merge.
    fn reduce(&mut self, merging: Merging) -> Result<()> {
        while self.paths.len() > merging.last_fan_in() {
            let fan_in = merging.fan_in().min(self.paths.len());
            // Any order will do: what is sorted alike differs in its key.
            let merged: Vec<PathBuf> = self.paths.drain(..fan_in).collect();
            let sources = self.open(&merged, merging)?;
            self.write(MergedRuns::over(sources)?, merging)?;
            for path in merged {
                std::fs::remove_file(&path).map_err(|error| failed(&path, &error))?;
            }
        }
        Ok(())
    }

    fn open<'m>(&self, paths: &[PathBuf], merging: Merging) -> Result<Vec<RunSource<'m>>> {
        let open = |path: &PathBuf| {
            let file = self.scratch.open_file(path);
            let file = file.map_err(|error| failed(path, &error))?;
            let reader = BufReader::with_capacity(merging.buffer_bytes(), file);
            Ok(RunSource::Run(reader, path.clone()))
        };
        paths.iter().map(open).collect()
    }
}

fn write_entry(out: &mut impl Write, key: &[u8], value: &[u8]) -> std::io::Result<()> {
    out.write_all(&length(key.len()))?;
    out.write_all(&length(value.len()))?;
    out.write_all(key)?;
    out.write_all(value)
}

/// Several sorted sources as one.
pub(crate) struct MergedRuns<'m> {
    heads: BinaryHeap<Head<'m>>,
    /// The least head was handed out: it has to move on first.
    is_used: bool,
}

/// A source's next entry: key and, behind it, value.
struct Head<'m> {
    entry: Vec<u8>,
    key_length: usize,
    source: RunSource<'m>,
    /// The length of an entry that is not kept.
    forgotten: Option<usize>,
}

enum RunSource<'m> {
    Memory(MemoryIter<'m>),
    Run(BufReader<StorageFile>, PathBuf),
}

impl<'m> MergedRuns<'m> {
    fn over(sources: impl IntoIterator<Item = RunSource<'m>>) -> Result<Self> {
        let mut heads = BinaryHeap::new();
        for source in sources {
            let (entry, key_length) = (Vec::new(), 0);
            let mut head = Head {
                entry,
                key_length,
                source,
                forgotten: None,
            };
            if head.advance()? {
                heads.push(head);
            }
        }
        Ok(Self {
            heads,
            is_used: false,
        })
    }

    /// The next entry.
    ///
    /// # Errors
    /// Storage failures.
    pub fn next(&mut self) -> Result<Option<(&[u8], &[u8])>> {
        if std::mem::replace(&mut self.is_used, true)
            && let Some(mut least) = self.heads.peek_mut()
            && !least.advance()?
        {
            PeekMut::pop(least);
        }
        Ok(self
            .heads
            .peek()
            .map(|least| least.entry.split_at(least.key_length)))
    }
}

impl MergedRuns<'_> {
    /// Gives up the entry that was handed out, if it is large and no other is compared with it.
    fn forget_large(&mut self) {
        if self.heads.len() == 1
            && let Some(mut only) = self.heads.peek_mut()
            && only.entry.len() > SMALL_BUFFER_BYTES
        {
            only.forgotten = Some(std::mem::take(&mut only.entry).len());
            only.key_length = 0;
        }
    }

    /// Has the entry that was handed out last come again.
    fn unread(&mut self) -> Result<()> {
        self.is_used = false;
        if let Some(mut least) = self.heads.peek_mut()
            && let Some(length) = least.forgotten.take()
            && let RunSource::Run(reader, path) = &mut least.source
        {
            let length = i64::try_from(LENGTHS_BYTES + length).unwrap_or(i64::MAX);
            let moved = reader.seek_relative(-length);
            moved.map_err(|error| failed(path, &error))?;
            self.is_used = true;
        }
        Ok(())
    }
}

impl Head<'_> {
    /// False at the end of the source.
    fn advance(&mut self) -> Result<bool> {
        self.forgotten = None;
        match &mut self.source {
            RunSource::Memory(entries) => {
                let Some((key, value)) = entries.next() else {
                    return Ok(false);
                };
                self.entry.clear();
                self.entry.extend_from_slice(key);
                self.entry.extend_from_slice(value);
                self.key_length = key.len();
                Ok(true)
            }
            RunSource::Run(reader, path) => {
                let read = read_entry(reader, &mut self.entry);
                let found = read.map_err(|error| failed(path, &error))?;
                self.key_length = found.unwrap_or(0);
                Ok(found.is_some())
            }
        }
    }

    fn key(&self) -> &[u8] {
        &self.entry[..self.key_length]
    }
}

/// Reads an entry and returns the length of its key; `None` at the end.
fn read_entry(
    reader: &mut BufReader<StorageFile>,
    entry: &mut Vec<u8>,
) -> std::io::Result<Option<usize>> {
    if reader.fill_buf()?.is_empty() {
        return Ok(None);
    }
    let mut lengths = [0; LENGTHS_BYTES];
    reader.read_exact(&mut lengths)?;
    let (key, value) = decode_lengths(&lengths);
    entry.resize(key + value, 0);
    reader.read_exact(entry)?;
    Ok(Some(key))
}

/// The heap hands out its greatest, which must be the least key.
impl Ord for Head<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        other.key().cmp(self.key())
    }
}

impl PartialOrd for Head<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Head<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Head<'_> {}

fn length(bytes: usize) -> [u8; 4] {
    u32::try_from(bytes)
        .expect("keys and values are shorter than 4 GiB")
        .to_le_bytes()
}

fn decode_lengths(bytes: &[u8; LENGTHS_BYTES]) -> (usize, usize) {
    let [a, b, c, d, e, f, g, h] = *bytes;
    let key = u32::from_le_bytes([a, b, c, d]);
    (key as usize, u32::from_le_bytes([e, f, g, h]) as usize)
}

fn failed(path: &Path, error: &std::io::Error) -> Error {
    StoreError::Failed(format!("temporary file {}: {error}", path.display())).into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::prelude::*;
    use rand_chacha::ChaCha8Rng;

    /// Random entries of two lists, keys with equal beginnings and repeats among them.
    fn entries(random: &mut ChaCha8Rng, count: usize) -> Vec<(usize, Vec<u8>, Vec<u8>)> {
        let entry = |_| {
            let list = random.random_range(0..2);
            let mut key = vec![0, 0, 0, list as u8];
            let bytes = random.random_range(0..12);
            key.extend((0..bytes).map(|_| random.random_range(0..3_u8)));
            (list, key, vec![7; random.random_range(0..40)])
        };
        (0..count).map(entry).collect()
    }

    fn sorted(count: usize, memory_bytes: usize) -> usize {
        let store = Store::in_memory();
        let mut random = ChaCha8Rng::seed_from_u64(count as u64);
        let entries = entries(&mut random, count);
        let mut sorter = Sorter::new(&store, 2, memory_bytes);
        for (list, key, value) in &entries {
            let (front, back) = key.split_at(4);
            sorter.push(*list, &[front, back], value).unwrap();
        }
        let sorted = sorter.finish().unwrap();
        let mut expected: Vec<_> = entries.iter().map(|(_, key, value)| (key, value)).collect();
        expected.sort();
        for _ in 0..2 {
            let mut merge = sorted.merge().unwrap();
            let mut found = Vec::new();
            while let Some((key, value)) = merge.next().unwrap() {
                found.push((key.to_vec(), value.to_vec()));
            }
            assert!(found.iter().is_sorted_by_key(|(key, _)| key));
            found.sort();
            assert!(
                found
                    .iter()
                    .map(|(key, value)| (key, value))
                    .eq(expected.iter().copied())
            );
        }
        assert_eq!(sorted.entries, count as u64);
        sorted.runs.as_ref().map_or(0, |runs| runs.paths.len())
    }

    #[test]
    fn entries_come_in_order_from_memory_from_runs_and_from_merged_runs() {
        assert_eq!(sorted(0, 0), 0);
        assert_eq!(sorted(5_000, 1 << 20), 0);
        assert!((2..=FAN_IN_MAX).contains(&sorted(5_000, 20_000)));
        assert!(
            sorted(5_000, 0) <= FAN_IN_MAX,
            "one run an entry, merged and merged again"
        );
    }

    /// What spills with hardly any memory comes back in order, and its files go with it.
    #[test]
    fn spilled_entries_come_in_order_and_leave_nothing() {
        let store = Store::in_memory();
        let mut random = ChaCha8Rng::seed_from_u64(3);
        let mut sorter = Sorter::for_spill(&store, 2_000);
        let mut expected = Vec::new();
        for number in 0..2_000_u32 {
            let key = [
                &[0; 4][..],
                &random.random::<u16>().to_be_bytes(),
                &number.to_be_bytes(),
            ];
            let value = vec![7; random.random_range(0..300_000) / (1 + number as usize)];
            sorter.push(0, &key, &value).unwrap();
            expected.push((key.concat(), value));
        }
        expected.sort();
        assert!(sorter.merge_bytes().0 <= SMALL_MERGE_BYTES);
        let mut spilled = sorter.finish_in_files().unwrap();
        let directory = spilled._runs.paths[0].parent().unwrap().to_owned();
        for (key, value) in &expected {
            next_is(&mut spilled, key, value);
        }
        assert!(spilled.next_with(|_, _| Ok(())).unwrap().is_none());
        drop(spilled);
        assert!(!directory.exists());
    }

    fn next_is(spilled: &mut Spilled, key: &[u8], value: &[u8]) {
        let same = |one: &[u8], other: &[u8]| Ok((one, other) == (key, value));
        assert_eq!(spilled.next_with(same).unwrap(), Some(true));
    }

    /// Whether entries are large, which are merged into one run and not kept, or small.
    #[test]
    fn a_spilled_entry_comes_again() {
        for value_bytes in [10, 700_000] {
            let store = Store::in_memory();
            let mut sorter = Sorter::for_spill(&store, 0);
            let entry = |number: u8| ([&[0; 4][..], &[number]].concat(), vec![number; value_bytes]);
            for number in [3, 0, 4, 1, 2] {
                let (key, value) = entry(number);
                sorter.push(0, &[&key], &value).unwrap();
            }
            let mut spilled = sorter.finish_in_files().unwrap();
            assert_eq!(spilled._runs.paths.len() == 1, value_bytes > 10);
            for number in 0..5 {
                let (key, value) = entry(number);
                for _ in 0..3 {
                    next_is(&mut spilled, &key, &value);
                    spilled.unread().unwrap();
                }
                next_is(&mut spilled, &key, &value);
                if value_bytes > 10 {
                    assert!(spilled.merge.heads.iter().all(|head| head.entry.is_empty()));
                }
            }
            assert!(spilled.next_with(|_, _| Ok(())).unwrap().is_none());
        }
    }
}
