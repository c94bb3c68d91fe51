//! From index entries to documents, many at a time.
//!
//! Entries come in index order, their documents lie anywhere. A batch of identifiers is sorted, read
//! together and handed out in the entries' order. Batches grow, so that the first row comes at once
//! and a page of thousands is read in few calls; they never exceed what the caller still wants. Where
//! documents turn out to be neighbours, as those of a time range often are, they are walked instead.

use super::{Context, Entries, Row, Rows, corrupt_document, parallel};
use crate::catalog::Tree;
use crate::error::Result;
use crate::query::Filter;
use crate::storage::{Family, Order, Snapshot};
use bson::raw::RawDocument;
use std::cmp::Ordering;
use std::ops::Range;
use std::sync::Arc;

const FIRST_BATCH: usize = 16;
const LARGEST_BATCH: usize = 8_192;
/// A batch holds about this many bytes of documents at most.
const BATCH_BYTES: usize = 16 * 1024 * 1024;
/// So much where every document is wanted: the more are read at once, the more are neighbours.
const WANTED_BATCH_BYTES: usize = 64 * 1024 * 1024;
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

/// Documents are read in the order of their keys and handed out in another. Those that are handed out one
/// soon after the other are put together in stacks of about this size: a processor's own cache holds one.
const STACK_BYTES: usize = 512 * 1024;
/// A batch has at most so many.
const STACKS_MAX: usize = 128;
const CACHE_LINE_BYTES: usize = 64;

/// Reads the documents of index entries; documents whose entry is not certain are tested.
pub struct FetchRows {
    entries: Box<dyn Entries>,
    snapshot: Snapshot,
    tree: Tree,
    /// What the entries stand for; asked of documents whose entry alone does not prove it.
    recheck: Option<Arc<Filter>>,
    context: Context,
    mean_bytes: usize,
    batch_size: usize,
    batch_max: usize,
    wanted: Option<u64>,
    exhausted: bool,
    /// `tree ++ _id` of the batch, one behind the other.
    keys: Vec<u8>,
    stacks: Stacks,
    /// So many of the stacks were touched.
    touched: usize,
    /// Its documents, one part behind the other; of each part all stacks.
    buffers: Vec<Vec<u8>>,
    fetched: Vec<Fetched>,
    position: usize,
}

struct Fetched {
    /// Where it is in the batch's keys.
    id: Range<usize>,
    document: Place,
    certain: bool,
}

/// Where a document is: in which buffer, and there.
struct Place {
    buffer: usize,
    range: Range<usize>,
}

/// Into how many stacks the documents of a batch are put, by when they are handed out.
#[derive(Clone, Copy, Default)]
struct Stacks {
    count: usize,
    requests: usize,
}

impl Stacks {
    fn of(requests: usize, mean_bytes: usize) -> Self {
        let count = (requests * mean_bytes).div_ceil(STACK_BYTES);
        Self {
            count: count.clamp(1, STACKS_MAX),
            requests,
        }
    }

    /// The stack of the request of this number.
    fn at(self, number: usize) -> usize {
        number * self.count / self.requests
    }
}

/// A document to be read.
#[derive(Clone, Copy)]
struct Wanted<'k> {
    key: &'k [u8],
    stack: usize,
}

impl FetchRows {
    /// The documents of `entries`; `wanted` is how many rows will be asked for at most, if known.
    pub fn new(
        entries: Box<dyn Entries>,
        snapshot: Snapshot,
        tree: Tree,
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
            context,
            mean_bytes,
            batch_size: FIRST_BATCH,
            batch_max: (bytes / mean_bytes.max(1)).clamp(1, largest),
            wanted,
            exhausted: false,
            keys: Vec::new(),
            stacks: Stacks::default(),
            touched: 0,
            buffers: Vec::new(),
            fetched: Vec::new(),
            position: 0,
        }
    }

    /// Reads the next batch of documents; false when there are no entries left.
    fn fill(&mut self) -> Result<bool> {
        if self.exhausted {
            return Ok(false);
        }
        let size = self.next_batch_size();
        let mut keys = Vec::new();
        let mut requests: Vec<(Range<usize>, bool)> = Vec::with_capacity(size.min(LARGEST_BATCH));
        while requests.len() < size {
            if !self.entries.advance()? {
                self.exhausted = true;
                break;
            }
            let start = keys.len();
            keys.extend_from_slice(&self.tree.prefix());
            keys.extend_from_slice(self.entries.entry()?.id());
            requests.push((start..keys.len(), self.entries.is_certain()));
        }
        if requests.is_empty() {
            return Ok(false);
        }
        self.read(keys, &requests)?;
        Ok(true)
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
        size.min(self.batch_max)
    }

    fn read(&mut self, keys: Vec<u8>, requests: &[(Range<usize>, bool)]) -> Result<()> {
        let order = key_order(&keys, requests);
        let stacks = Stacks::of(requests.len(), self.mean_bytes);
        let wanted = |number: &usize| Wanted {
            key: &keys[requests[*number].0.clone()],
            stack: stacks.at(*number),
        };
        let sorted: Vec<Wanted<'_>> = order.iter().map(wanted).collect();
        let mut places: Vec<Option<Place>> = Vec::new();
        places.resize_with(requests.len(), || None);
        self.buffers.clear();
        let each = Each {
            mean_bytes: self.mean_bytes,
            stacks: stacks.count,
        };
        for (part, positions) in read_parts(&self.snapshot, &sorted, each)? {
            for (range, number) in part.ranges.into_iter().zip(&order[positions]) {
                let buffer = self.buffers.len() + stacks.at(*number);
                places[*number] = range.map(|range| Place { buffer, range });
            }
            self.buffers.extend(part.stacks);
        }
        (self.stacks, self.touched) = (stacks, 0);
        self.keys = keys;
        self.context.counters.add_documents(requests.len() as u64);
        self.position = 0;
        self.fetched.clear();
        for ((key, certain), place) in requests.iter().zip(places) {
            // An entry without its document would be corruption; `check` finds it, a query skips it.
            if let Some(document) = place {
                self.fetched.push(Fetched {
                    id: key.start + 4..key.end,
                    document,
                    certain: *certain,
                });
            }
        }
        Ok(())
    }

    /// Has the processor fetch the stack of the current document, if none of it was handed out yet: from one
    /// end to the other it does so much faster than document by document.
    fn touch_stack(&mut self) {
        let stack = self.fetched[self.position].document.buffer % self.stacks.count;
        if stack < self.touched {
            return;
        }
        self.touched = stack + 1;
        for buffer in self.buffers.iter().skip(stack).step_by(self.stacks.count) {
            for byte in buffer.iter().step_by(CACHE_LINE_BYTES) {
                std::hint::black_box(*byte);
            }
        }
    }

    fn is_match(&self, fetched: &Fetched) -> Result<bool> {
        match &self.recheck {
            Some(filter) if !fetched.certain => filter.matches(self.document(fetched)),
            _ => Ok(true),
        }
    }

    fn document(&self, fetched: &Fetched) -> &RawDocument {
        let Place { buffer, range } = &fetched.document;
        RawDocument::from_bytes(&self.buffers[*buffer][range.clone()])
            .expect("documents are checked when they are read")
    }
}

/// The numbers of the requests in the order of their keys.
fn key_order(keys: &[u8], requests: &[(Range<usize>, bool)]) -> Vec<usize> {
    let key = |number: usize| &keys[requests[number].0.clone()];
    // Identifiers have much in common: behind that, eight bytes beside the number nearly always tell
    // them apart, where comparing whole keys would be a cache miss each.
    let first = key(0);
    let shared = (1..requests.len()).fold(first.len(), |shared, number| {
        let pairs = first[..shared].iter().zip(key(number));
        pairs.take_while(|(a, b)| a == b).count()
    });
    let word = |number: usize| {
        let rest = &key(number)[shared..];
        let mut word = [0; 8];
        let length = rest.len().min(8);
        word[..length].copy_from_slice(&rest[..length]);
        u64::from_be_bytes(word)
    };
    let mut order: Vec<(u64, usize)> = (0..requests.len())
        .map(|number| (word(number), number))
        .collect();
    order.sort_unstable_by(|a, b| a.0.cmp(&b.0).then_with(|| key(a.1).cmp(key(b.1))));
    order.into_iter().map(|(_, number)| number).collect()
}

/// What is known of the documents of a batch before they are read.
#[derive(Clone, Copy)]
struct Each {
    mean_bytes: usize,
    stacks: usize,
}

/// Some documents of a batch.
#[derive(Debug, PartialEq, Eq)]
struct Part {
    /// One behind the other in each.
    stacks: Vec<Vec<u8>>,
    /// Where each is in its stack, in the order in which they were read.
    ranges: Vec<Option<Range<usize>>>,
}

impl Part {
    /// For so many documents.
    fn new(documents: usize, each: Each) -> Self {
        // Growing would copy everything several times. (What is not used of it costs nothing.)
        let bytes = documents * (each.mean_bytes + each.mean_bytes / 8) / each.stacks;
        let stack = || Vec::with_capacity(bytes.min(2 * STACK_BYTES));
        Self {
            stacks: std::iter::repeat_with(stack).take(each.stacks).collect(),
            ranges: Vec::with_capacity(documents),
        }
    }

    /// Adds the next document, if there is one.
    fn push(&mut self, stack: usize, document: Option<&[u8]>) -> Result<()> {
        let stack = &mut self.stacks[stack];
        let start = stack.len();
        if let Some(document) = document {
            // Here, where it is read anyway: later it would have to be fetched from memory for this alone.
            RawDocument::from_bytes(document).map_err(corrupt_document)?;
            stack.extend_from_slice(document);
        }
        self.ranges.push(document.map(|_| start..stack.len()));
        Ok(())
    }
}

/// Reads documents in the order of their keys, a large batch in parts; each comes with its positions.
fn read_parts(
    snapshot: &Snapshot,
    wanted: &[Wanted<'_>],
    each: Each,
) -> Result<Vec<(Part, Range<usize>)>> {
    if wanted.len() < PARALLEL_BATCH {
        let part = read_part(snapshot, wanted, each)?;
        return Ok(vec![(part, 0..wanted.len())]);
    }
    parallel::in_parts(wanted, |wanted| read_part(snapshot, wanted, each))
}

fn read_part(snapshot: &Snapshot, wanted: &[Wanted<'_>], each: Each) -> Result<Part> {
    if wanted.len() >= WALK_BATCH
        && let Some(part) = walk_neighbours(snapshot, wanted, each)?
    {
        return Ok(part);
    }
    let mut part = Part::new(wanted.len(), each);
    if let [Wanted { key, stack }] = wanted {
        // The usual case by far, and cheaper than a batch of one.
        let read = |value: &[u8]| part.push(*stack, Some(value));
        match snapshot.get(Family::Documents, key, read)? {
            Some(pushed) => pushed?,
            None => part.push(*stack, None)?,
        }
        return Ok(part);
    }
    let keys: Vec<&[u8]> = wanted.iter().map(|wanted| wanted.key).collect();
    let mut pushed = Ok(());
    snapshot.multi_get(Family::Documents, &keys, &mut |number, value| {
        if pushed.is_ok() {
            pushed = part.push(wanted[number].stack, value);
        }
    })?;
    pushed.map(|()| part)
}

/// The documents of sorted keys by one walk over them; `None` when too many of them lie apart.
fn walk_neighbours(snapshot: &Snapshot, wanted: &[Wanted<'_>], each: Each) -> Result<Option<Part>> {
    let (Some(first), Some(last)) = (wanted.first(), wanted.last()) else {
        return Ok(None);
    };
    let end = [last.key, &[0][..]].concat();
    let mut scan = snapshot.scan(Family::Documents, first.key, &end, Order::Forward);
    let mut is_on_entry = scan.advance()?;
    let mut part = Part::new(wanted.len(), each);
    let mut seeks = 0;
    for (number, Wanted { key, stack }) in wanted.iter().enumerate() {
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
                if seeks > WALK_SEEKS_FREE + number / WALK_KEYS_A_SEEK {
                    return Ok(None);
                }
                scan.seek(key);
            }
            is_on_entry = scan.advance()?;
        };
        part.push(*stack, is_found.then(|| scan.entry().1))?;
    }
    Ok(Some(part))
}

impl Rows for FetchRows {
    fn advance(&mut self) -> Result<bool> {
        loop {
            if self.position == self.fetched.len() {
                self.fetched.clear();
                self.position = 0;
                if !self.fill()? {
                    return Ok(false);
                }
                continue;
            }
            self.touch_stack();
            self.position += 1;
            if self.is_match(&self.fetched[self.position - 1])? {
                if let Some(wanted) = &mut self.wanted {
                    *wanted = wanted.saturating_sub(1);
                }
                return Ok(true);
            }
        }
    }

    fn row(&self) -> Row<'_> {
        let fetched = &self.fetched[self.position - 1];
        Row {
            id: &self.keys[fetched.id.clone()],
            document: self.document(fetched),
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

    const EACH: Each = Each {
        mean_bytes: 12,
        stacks: 3,
    };

    /// These in turn on each stack.
    fn wanted(keys: &[Vec<u8>]) -> Vec<Wanted<'_>> {
        let keys = keys.iter().enumerate();
        keys.map(|(number, key)| Wanted {
            key,
            stack: number % EACH.stacks,
        })
        .collect()
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
            let walked = walk_neighbours(&snapshot, &wanted, EACH).unwrap().unwrap();
            let mut single = Part::new(keys.len(), EACH);
            for Wanted { key, stack } in wanted {
                let value = snapshot.get(Family::Documents, key, <[u8]>::to_vec);
                single.push(stack, value.unwrap().as_deref()).unwrap();
            }
            assert_eq!(walked, single);
        }
    }

    #[test]
    fn one_key_is_read_as_several_are() {
        let snapshot = store().snapshot();
        for number in [0, 3, 4, 2_997, 3_000] {
            let (key, other) = (key(number), key(5));
            let keys = [key, other];
            let one = read_part(&snapshot, &wanted(&keys[..1]), EACH).unwrap();
            let several = read_part(&snapshot, &wanted(&keys), EACH).unwrap();
            assert_eq!(one.stacks, several.stacks);
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
            let mut keys = Vec::new();
            let requests: Vec<(Range<usize>, bool)> = case
                .iter()
                .map(|key| {
                    let start = keys.len();
                    keys.extend_from_slice(key);
                    (start..keys.len(), true)
                })
                .collect();
            let order = key_order(&keys, &requests);
            let ordered: Vec<&[u8]> = order.into_iter().map(|number| case[number]).collect();
            let mut expected = case.to_vec();
            expected.sort_unstable();
            assert_eq!(ordered, expected);
        }
    }

    #[test]
    fn keys_far_apart_are_not_walked() {
        let snapshot = store().snapshot();
        let keys: Vec<Vec<u8>> = (0..3_000).step_by(60).map(key).collect();
        assert!(
            walk_neighbours(&snapshot, &wanted(&keys), EACH)
                .unwrap()
                .is_none()
        );
    }
}
