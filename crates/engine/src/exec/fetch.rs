//! From index entries to documents, many at a time.
//!
//! Entries come in index order, their documents lie anywhere. A batch of identifiers is sorted, read
//! together and handed out in the entries' order. Batches grow, so that the first row comes at once
//! and a page of thousands is read in few calls; they never exceed what the caller still wants. Where
//! documents turn out to be neighbours, as those of a time range often are, they are walked instead.

use super::cached::{CachedDocuments, CachedTree};
use super::row_buffers::{BufferLayout, BufferedBatch, BufferedRows};
use super::{Context, Entries, Entry, Row, Rows, SUSPENDED_BYTES_FREE, parallel};
use crate::error::{Error, Result, corrupt_document};
use crate::operation::memory::Reservation;
use crate::query::Filter;
use crate::storage::{Family, Order, Snapshot, TreeKey};
use bson::raw::RawDocument;
use std::cmp::Ordering;
use std::collections::VecDeque;
use std::num::NonZeroU32;
use std::ops::Range;
use std::sync::Arc;

const FIRST_BATCH: usize = 16;
const LARGEST_BATCH: usize = 8_192;
/// A batch of so many bytes is read without a reservation.
const FREE_BYTES: usize = 512 * 1024;
/// A batch holds about this many bytes of documents at most.
const BATCH_BYTES: usize = 16 * 1024 * 1024;
/// Room is made at once for so many; who wants more may find fewer.
const BATCH_EXPECTED: usize = 65_536;
/// So much where every document is wanted: the more are read at once, the more are neighbours.
const WANTED_BATCH_BYTES: usize = 64 * 1024 * 1024;
/// As many documents are given away in halves, if there are no more: their entries are walked before.
const SHARED_MAX: usize = 16_384;
/// Their keys take so many bytes at most.
const SHARED_BYTES_MAX: usize = 1 << 20;
/// Half a batch this large is worth a second core: reading it takes far longer than starting a thread.
const PARALLEL_BATCH: usize = 256;

/// A batch this large is first tried as a walk over neighbours.
const WALK_BATCH: usize = 128;
/// A document this many steps away is looked for instead of walked to.
const WALK_STEPS: usize = 20;
/// One key in this many may have to be looked for before the walk is given up.
const WALK_KEYS_A_SEEK: usize = 4;
/// Keys that may have to be looked for at the beginning.
const WALK_SEEKS_FREE: usize = 4;

/// Reads the documents of index entries; documents whose entry is not certain are tested.
pub struct FetchRows {
    entries: Box<dyn Entries>,
    snapshot: Snapshot,
    tree: TreeKey,
    /// What the entries stand for; asked of documents whose entry alone does not prove it.
    recheck: Option<Arc<Filter>>,
    /// The collection with what is cached of it.
    cached: Option<CachedTree>,
    context: Context,
    mean_bytes: usize,
    batch_size: usize,
    batch_max: usize,
    wanted: Option<u64>,
    memory: Reservation,
    exhausted: bool,
    /// `tree ++ _id` of the batch, one behind the other.
    keys: Vec<u8>,
    /// Its documents.
    documents: BufferedBatch,
    requests: Vec<Request>,
    /// Where the documents of the requests are.
    places: Vec<Option<BatchPosition>>,
    /// Behind the current one.
    position: usize,
    /// Keys that were taken from the entries and whose documents were given up, and whether they are certain.
    waiting: VecDeque<(Vec<u8>, bool)>,
    /// What walking entries ahead met.
    failed: Option<Error>,
}

/// A document of the batch.
struct Request {
    /// Where its key is in the batch's keys.
    key: Range<usize>,
    /// Whether its entry proves that it matches.
    certain: bool,
}

/// Where a document is: in which part, and there in the buffer of its number.
#[derive(Clone, Copy)]
struct BatchPosition {
    start: usize,
    length: NonZeroU32,
    part: u32,
}

impl BatchPosition {
    fn new(part: usize, range: &Range<usize>) -> Self {
        let length = u32::try_from(range.len()).ok().and_then(NonZeroU32::new);
        Self {
            start: range.start,
            length: length.expect("a document has 5 bytes at least and 16 MiB at most"),
            part: u32::try_from(part).expect("a batch has few parts"),
        }
    }

    fn range(self) -> Range<usize> {
        self.start..self.start + self.length.get() as usize
    }
}

/// A document to be read, and which of the batch it is.
#[derive(Clone, Copy)]
pub(super) struct FetchRequest<'k> {
    pub key: &'k [u8],
    pub number: usize,
}

/// None: all keys are known.
struct NoEntries;

impl Entries for NoEntries {
    fn advance(&mut self) -> Result<bool> {
        Ok(false)
    }

    fn entry(&self) -> Entry<'_> {
        unreachable!("an entry is read only after advance returned true")
    }

    fn suspend(&mut self) {}
}

impl FetchRows {
    /// The documents of `entries`; `wanted` is how many rows will be asked for at most, if known.
    pub fn new(
        entries: Box<dyn Entries>,
        snapshot: Snapshot,
        tree: TreeKey,
        recheck: Option<Arc<Filter>>,
        wanted: Option<u64>,
        mean_bytes: usize,
        context: Context,
    ) -> Self {
        // More than is wanted would be read in vain.
        let (bytes, largest) = match wanted {
            Some(_) => (WANTED_BATCH_BYTES, usize::MAX),
            None => (BATCH_BYTES, LARGEST_BATCH),
        };
        Self {
            entries,
            snapshot,
            tree,
            recheck,
            cached: None,
            context,
            mean_bytes,
            batch_size: FIRST_BATCH,
            batch_max: (bytes / mean_bytes.max(1)).clamp(1, largest),
            wanted,
            memory: Reservation::none(),
            exhausted: false,
            keys: Vec::new(),
            documents: BufferedBatch::default(),
            requests: Vec::new(),
            places: Vec::new(),
            position: 0,
            waiting: VecDeque::new(),
            failed: None,
        }
    }

    /// Takes documents from the cache of ranges, and adds buckets that it reads from end to end.
    pub(super) fn cached(mut self, tree: Option<CachedTree>) -> Self {
        self.cached = tree;
        self
    }

    /// Reads the next batch of documents; false when there are no entries left.
    fn fill(&mut self) -> Result<bool> {
        self.position = 0;
        self.requests.clear();
        self.keys.clear();
        self.documents = BufferedBatch::default();
        self.memory.shrink(0);
        if self.exhausted && self.waiting.is_empty() {
            return Ok(false);
        }
        let size = self.next_batch_size();
        while self.requests.len() < size {
            let start = self.keys.len();
            let certain = if let Some((key, certain)) = self.waiting.pop_front() {
                self.keys.extend_from_slice(&key);
                certain
            } else if let Some(error) = self.failed.take() {
                return Err(error);
            } else if !self.exhausted && self.entries.advance()? {
                self.keys.extend_from_slice(&self.tree.prefix());
                self.keys.extend_from_slice(self.entries.entry().id()?);
                self.entries.is_certain()
            } else {
                self.exhausted = true;
                break;
            };
            if start == 0 {
                let expected = size.min(BATCH_EXPECTED);
                self.keys.reserve(expected * self.keys.len());
                self.requests.reserve(expected);
            }
            self.requests.push(Request {
                key: start..self.keys.len(),
                certain,
            });
        }
        if self.requests.is_empty() {
            return Ok(false);
        }
        self.read()?;
        Ok(true)
    }

    /// The key of the next entry's document, and whether the entry is certain.
    fn next_key(&mut self) -> Result<Option<(Vec<u8>, bool)>> {
        if !self.entries.advance()? {
            return Ok(None);
        }
        let mut key = self.tree.prefix().to_vec();
        key.extend_from_slice(self.entries.entry().id()?);
        Ok(Some((key, self.entries.is_certain())))
    }

    fn next_batch_size(&mut self) -> usize {
        let size = match self.wanted {
            // Batches of one size: a short last one would find fewer neighbours.
            Some(wanted) => {
                let wanted = usize::try_from(wanted).unwrap_or(usize::MAX).max(1);
                wanted.div_ceil(wanted.div_ceil(self.batch_max))
            }
            None => self.batch_size,
        };
        self.batch_size = (self.batch_size * 4).min(self.batch_max);
        // Where memory is scarce, batches are small.
        let free = (FREE_BYTES / self.mean_bytes.max(1)).max(1);
        let mut size = size.min(self.batch_max);
        while size > free && !self.memory.try_grow(size * self.mean_bytes) {
            size = (size / 2).max(free);
        }
        size
    }

    /// Reads the documents of the requests.
    fn read(&mut self) -> Result<()> {
        let order = key_order(&self.keys, &self.requests);
        let wanted = |number: &usize| FetchRequest {
            key: &self.keys[self.requests[*number].key.clone()],
            number: *number,
        };
        let sorted: Vec<FetchRequest<'_>> = order.iter().map(wanted).collect();
        self.places.clear();
        self.places.resize(self.requests.len(), None);
        let layout = BufferLayout::of(self.requests.len(), self.mean_bytes);
        self.documents = BufferedBatch::new(layout);
        for (read, positions) in self.read_sorted(&sorted, layout)? {
            let part = self.documents.parts();
            for (range, number) in read.ranges.into_iter().zip(&order[positions]) {
                self.places[*number] = range.map(|range| BatchPosition::new(part, &range));
            }
            self.documents.add(read.documents);
        }
        let bytes = self.document_bytes();
        if bytes > FREE_BYTES {
            self.memory.force(bytes);
        }
        let read = self.requests.len() as u64;
        self.context.counters.add_documents(read);
        Ok(())
    }

    fn read_sorted(
        &self,
        wanted: &[FetchRequest<'_>],
        layout: BufferLayout,
    ) -> Result<Vec<(BatchPart, Range<usize>)>> {
        let tree = self.cached.as_ref();
        let tree = tree.filter(|_| wanted.len() >= WALK_BATCH);
        let cached =
            tree.and_then(|tree| CachedDocuments::of(tree, wanted, self.mean_bytes, &self.context));
        match cached {
            Some(cached) => cached.read_parts(layout),
            None => read_parts(&self.snapshot, wanted, layout),
        }
    }

    /// Bytes of the batch's documents.
    fn document_bytes(&self) -> usize {
        let places = self.places.iter().flatten();
        places.map(|place| place.range().len()).sum()
    }

    /// Whether the current request's document is there and matches. An entry without its document would be
    /// corruption; `check` finds it, a query skips it.
    fn is_match(&self) -> Result<bool> {
        let number = self.position - 1;
        match (self.places[number], &self.recheck) {
            (None, _) => Ok(false),
            (Some(place), Some(filter)) if !self.requests[number].certain => {
                filter.matches(self.document(place))
            }
            (Some(_), _) => Ok(true),
        }
    }

    /// The current document, which is there.
    fn document(&self, place: BatchPosition) -> &RawDocument {
        let (part, number) = (place.part as usize, self.position - 1);
        let bytes = self.documents.get(part, number, place.range());
        RawDocument::from_bytes(bytes).expect("documents are checked when they are read")
    }
}

/// Positions in keys by which they are sorted first.
const SORTED_BYTES: usize = 8;

/// The numbers of the requests in the order of their keys.
fn key_order(keys: &[u8], requests: &[Request]) -> Vec<usize> {
    let key = |number: usize| &keys[requests[number].key.clone()];
    // Identifiers have much in common. The first eight bytes in which they differ, as one number, nearly
    // always tell them apart, where comparing whole keys would be a cache miss each.
    let positions = telling_bytes(requests.len(), key);
    let word = |number: usize| {
        let key = key(number);
        let byte = |position: &usize| key.get(*position).copied().unwrap_or_default();
        let bytes = positions.iter().map(byte);
        bytes.fold(0, |word: u64, byte| word << 8 | u64::from(byte))
    };
    let mut order: Vec<(u64, usize)> = (0..requests.len())
        .map(|number| (word(number), number))
        .collect();
    order.sort_unstable_by_key(|(word, _)| *word);
    for same in order.chunk_by_mut(|a, b| a.0 == b.0) {
        if same.len() > 1 {
            same.sort_unstable_by(|a, b| key(a.1).cmp(key(b.1)));
        }
    }
    order.into_iter().map(|(_, number)| number).collect()
}

/// Positions whose bytes tell so many keys apart, none of which they put before a lesser one: the first at
/// which any differ; where their lengths do too, those that follow what all have in common.
fn telling_bytes<'k>(count: usize, key: impl Fn(usize) -> &'k [u8]) -> Vec<usize> {
    let first = key(0);
    let (mut shortest, mut longest) = (first.len(), first.len());
    let mut differences = vec![0; first.len()];
    for number in 1..count {
        let key = key(number);
        shortest = shortest.min(key.len());
        longest = longest.max(key.len());
        let pairs = first.iter().zip(key);
        for (difference, (a, b)) in differences.iter_mut().zip(pairs) {
            *difference |= a ^ b;
        }
    }
    let mut differing = (0..shortest).filter(|at| differences[*at] != 0);
    if shortest == longest {
        return differing.take(SORTED_BYTES).collect();
    }
    let shared = differing.next().unwrap_or(shortest);
    (shared..shared + SORTED_BYTES).collect()
}

/// Some documents of a batch.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct BatchPart {
    documents: BufferedRows,
    /// Where each is in its buffer, in the order of their keys.
    ranges: Vec<Option<Range<usize>>>,
}

impl BatchPart {
    /// For so many documents.
    fn new(documents: usize, layout: BufferLayout) -> Self {
        Self {
            documents: BufferedRows::new(layout, documents),
            ranges: Vec::with_capacity(documents),
        }
    }

    /// For so many documents, each of which is missing until it is put in.
    pub fn of_missing(documents: usize, layout: BufferLayout) -> Self {
        let mut part = Self::new(documents, layout);
        part.ranges.resize(documents, None);
        part
    }

    /// Adds the next document, if there is one.
    fn push(&mut self, number: usize, document: Option<&[u8]>) -> Result<()> {
        self.ranges.push(None);
        match document {
            Some(document) => self.put(self.ranges.len() - 1, number, document),
            None => Ok(()),
        }
    }

    /// Puts a document at its place.
    pub fn put(&mut self, place: usize, number: usize, document: &[u8]) -> Result<()> {
        // Here, where it is read anyway: later it would have to be fetched from memory for this alone.
        RawDocument::from_bytes(document).map_err(corrupt_document)?;
        self.ranges[place] = Some(self.documents.push(number, document));
        Ok(())
    }
}

/// Reads documents in the order of their keys, a large batch in parts; each comes with its positions.
fn read_parts(
    snapshot: &Snapshot,
    wanted: &[FetchRequest<'_>],
    layout: BufferLayout,
) -> Result<Vec<(BatchPart, Range<usize>)>> {
    if wanted.len() < PARALLEL_BATCH {
        let part = read_part(snapshot, wanted, layout)?;
        return Ok(vec![(part, 0..wanted.len())]);
    }
    parallel::in_parts(wanted, |wanted| read_part(snapshot, wanted, layout))
}

fn read_part(
    snapshot: &Snapshot,
    wanted: &[FetchRequest<'_>],
    layout: BufferLayout,
) -> Result<BatchPart> {
    if wanted.len() >= WALK_BATCH
        && let Some(part) = walk_neighbours(snapshot, wanted, layout)?
    {
        return Ok(part);
    }
    let mut part = BatchPart::new(wanted.len(), layout);
    if let [FetchRequest { key, number }] = wanted {
        // The usual case by far, and cheaper than a batch of one.
        let read = |value: &[u8]| part.push(*number, Some(value));
        match snapshot.get(Family::Documents, key, read)? {
            Some(pushed) => pushed?,
            None => part.push(*number, None)?,
        }
        return Ok(part);
    }
    read_together(snapshot, wanted.iter(), |position, value| {
        part.push(wanted[position].number, value)
    })?;
    Ok(part)
}

/// Reads documents in one call; each is handed out with its position.
pub(super) fn read_together<'w, 'k: 'w>(
    snapshot: &Snapshot,
    wanted: impl Iterator<Item = &'w FetchRequest<'k>>,
    mut read: impl FnMut(usize, Option<&[u8]>) -> Result<()>,
) -> Result<()> {
    let keys: Vec<&[u8]> = wanted.map(|wanted| wanted.key).collect();
    let mut done = Ok(());
    snapshot.multi_get(Family::Documents, &keys, &mut |position, value| {
        if done.is_ok() {
            done = read(position, value);
        }
    })?;
    done
}

/// The documents of sorted keys by one walk over them; `None` when too many of them lie apart.
fn walk_neighbours(
    snapshot: &Snapshot,
    wanted: &[FetchRequest<'_>],
    layout: BufferLayout,
) -> Result<Option<BatchPart>> {
    let (Some(first), Some(last)) = (wanted.first(), wanted.last()) else {
        return Ok(None);
    };
    let end = [last.key, &[0][..]].concat();
    let mut scan = snapshot.scan(Family::Documents, first.key, &end, Order::Forward);
    let mut is_on_entry = scan.advance()?;
    let mut part = BatchPart::new(wanted.len(), layout);
    let mut seeks = 0;
    for (position, FetchRequest { key, number }) in wanted.iter().enumerate() {
        let mut steps = 0;
        let is_found = loop {
            if !is_on_entry {
                break false;
            }
            match scan.key().cmp(key) {
                Ordering::Less => {}
                order => break order == Ordering::Equal,
            }
            steps += 1;
            if steps == WALK_STEPS {
                seeks += 1;
                if seeks > WALK_SEEKS_FREE + position / WALK_KEYS_A_SEEK {
                    return Ok(None);
                }
                scan.seek(key);
            }
            is_on_entry = scan.advance()?;
        };
        part.push(*number, is_found.then(|| scan.entry().1))?;
    }
    Ok(Some(part))
}

impl Rows for FetchRows {
    fn advance(&mut self) -> Result<bool> {
        loop {
            if self.position == self.requests.len() {
                if !self.fill()? {
                    return Ok(false);
                }
                continue;
            }
            self.documents.fetch(self.position);
            self.position += 1;
            if self.is_match()? {
                if let Some(wanted) = &mut self.wanted {
                    *wanted = wanted.saturating_sub(1);
                }
                return Ok(true);
            }
        }
    }

    /// Few documents may stay; where there are more, they are read again later, a few at first.
    fn suspend(&mut self, again: bool) -> Result<bool> {
        self.entries.suspend();
        let again = again && self.position > 0;
        self.position -= usize::from(again);
        if let Some(wanted) = self.wanted.as_mut().filter(|_| again) {
            *wanted += 1;
        }
        if self.memory.bytes() == 0 && self.document_bytes() <= SUSPENDED_BYTES_FREE {
            return Ok(again);
        }
        let left = self.requests.drain(..).skip(self.position);
        let left = left.map(|request| (self.keys[request.key].to_vec(), request.certain));
        // What waited already comes behind.
        let waiting = std::mem::take(&mut self.waiting);
        self.waiting = left.chain(waiting).collect();
        (self.position, self.batch_size) = (0, FIRST_BATCH);
        (self.keys, self.documents) = (Vec::new(), BufferedBatch::default());
        self.places.clear();
        self.memory.shrink(0);
        let keys = self.waiting.iter();
        let bytes = keys
            .map(|(key, _)| key.len() + size_of::<(Vec<u8>, bool)>())
            .sum();
        if bytes > SUSPENDED_BYTES_FREE {
            self.memory = Reservation::for_suspended(bytes)?;
        }
        Ok(again)
    }

    fn split_off(&mut self) -> Option<Box<dyn Rows>> {
        if self.wanted.is_some() || !self.requests.is_empty() {
            return None;
        }
        let mut bytes = 0;
        while !self.exhausted && self.waiting.len() <= SHARED_MAX && bytes <= SHARED_BYTES_MAX {
            match self.next_key() {
                Ok(Some((key, certain))) => {
                    bytes += key.len();
                    self.waiting.push_back((key, certain));
                }
                Ok(None) => self.exhausted = true,
                Err(error) => {
                    self.failed = Some(error);
                    return None;
                }
            }
        }
        if !self.exhausted || self.waiting.len() < PARALLEL_BATCH {
            return None;
        }
        let other = Self {
            waiting: self.waiting.split_off(self.waiting.len() / 2),
            exhausted: true,
            cached: self.cached.clone(),
            ..Self::new(
                Box::new(NoEntries),
                self.snapshot.clone(),
                self.tree,
                self.recheck.clone(),
                None,
                self.mean_bytes,
                self.context.clone(),
            )
        };
        Some(Box::new(other))
    }

    fn row(&self) -> Row<'_> {
        let number = self.position - 1;
        let place = self.places[number].expect("advance stops at documents");
        Row {
            id: TreeKey::strip(&self.keys[self.requests[number].key.clone()]),
            document: self.document(place),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::Store;

    fn key(number: u32) -> Vec<u8> {
        number.to_be_bytes().to_vec()
    }

    fn wanted(keys: &[Vec<u8>]) -> Vec<FetchRequest<'_>> {
        let keys = keys.iter().enumerate();
        keys.map(|(number, key)| FetchRequest { key, number })
            .collect()
    }

    /// These in three buffers.
    fn layout(keys: &[Vec<u8>]) -> BufferLayout {
        BufferLayout::of(keys.len(), (1_200 * 1024) / keys.len())
    }

    /// A store with documents under every third number.
    fn store() -> Store {
        let store = Store::in_memory();
        let mut batch = store.batch();
        for number in (0..3_000).step_by(3) {
            let document = bson::rawdoc! { "_id": number };
            let key = key(u32::try_from(number).unwrap());
            batch.put(Family::Documents, &key, document.as_bytes());
        }
        store.write(batch).unwrap();
        store
    }

    /// A walk finds what single reads find: near and far keys, missing ones, keys behind the last.
    #[test]
    fn neighbours_are_what_single_reads_find() {
        let snapshot = store().snapshot();
        for step in [1, 2, 3, 6, 9] {
            let keys: Vec<Vec<u8>> = (100..3_050).step_by(step).map(key).collect();
            let wanted = wanted(&keys);
            let layout = layout(&keys);
            let walked = walk_neighbours(&snapshot, &wanted, layout);
            let mut single = BatchPart::new(keys.len(), layout);
            for FetchRequest { key, number } in wanted {
                let value = snapshot.get(Family::Documents, key, <[u8]>::to_vec);
                single.push(number, value.unwrap().as_deref()).unwrap();
            }
            assert_eq!(walked.unwrap().unwrap(), single);
        }
    }

    #[test]
    fn one_key_is_read_as_several_are() {
        let snapshot = store().snapshot();
        for number in [0, 3, 4, 2_997, 3_000] {
            let (key, other) = (key(number), key(5));
            let keys = [key, other];
            let layout = layout(&keys);
            let one = read_part(&snapshot, &wanted(&keys[..1]), layout).unwrap();
            let several = read_part(&snapshot, &wanted(&keys), layout).unwrap();
            assert_eq!(one.documents, several.documents);
            assert_eq!(one.ranges, several.ranges[..1]);
        }
    }

    #[test]
    fn keys_are_ordered_whatever_they_share() {
        let cases: [&[&[u8]]; 4] = [
            &[b"k"],
            &[b"same", b"same", b"sam"],
            &[b"id-20", b"id-1", b"id-10", b"id-1\0"],
            &[
                b"prefix-abcdefgh-2",
                b"prefix-abcdefgh-1",
                b"prefix-abcdefgh",
            ],
        ];
        for case in cases {
            assert_eq!(sorted(case), expected(case));
        }
        // As many differing bytes as are looked at first, and one more.
        for length in [SORTED_BYTES, SORTED_BYTES + 1] {
            let key = |number: usize| {
                let tail = number.to_be_bytes();
                let byte = |at: usize| [b'x', (number * (at + 3) % 5) as u8];
                [(0..length).flat_map(byte).collect(), tail.to_vec()].concat()
            };
            let keys: Vec<Vec<u8>> = (0..500).rev().map(key).collect();
            let keys: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
            assert_eq!(sorted(&keys), expected(&keys));
        }
    }

    fn expected<'k>(keys: &[&'k [u8]]) -> Vec<&'k [u8]> {
        let mut expected = keys.to_vec();
        expected.sort_unstable();
        expected
    }

    /// In the order that [`key_order`] gives.
    fn sorted<'k>(keys: &[&'k [u8]]) -> Vec<&'k [u8]> {
        let mut bytes = Vec::new();
        let request = |key: &&[u8]| {
            let start = bytes.len();
            bytes.extend_from_slice(key);
            Request {
                key: start..bytes.len(),
                certain: true,
            }
        };
        let requests: Vec<Request> = keys.iter().map(request).collect();
        let order = key_order(&bytes, &requests);
        order.into_iter().map(|number| keys[number]).collect()
    }

    #[test]
    fn keys_far_apart_are_not_walked() {
        let snapshot = store().snapshot();
        let keys: Vec<Vec<u8>> = (0..3_000).step_by(60).map(key).collect();
        let walked = walk_neighbours(&snapshot, &wanted(&keys), layout(&keys));
        assert!(walked.unwrap().is_none());
    }
}
