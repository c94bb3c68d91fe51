//! From index entries to documents, many at a time.
//!
//! Entries come in index order, their documents lie anywhere. A batch of identifiers is sorted, read
//! together and handed out in the entries' order. Batches grow, so that the first row comes at once
//! and a page of thousands is read in few calls; they never exceed what the caller still wants.

use super::{Context, Entries, Row, Rows, corrupt_document, parallel};
use crate::catalog::Tree;
use crate::error::Result;
use crate::query::Filter;
use crate::storage::{Family, Snapshot};
use bson::raw::RawDocument;
use std::ops::Range;
use std::sync::Arc;

const FIRST_BATCH: usize = 16;
const LARGEST_BATCH: usize = 8_192;
/// A batch holds about this many bytes of documents at most.
const BATCH_BYTES: usize = 16 * 1024 * 1024;
/// Half a batch this large is worth a second core: reading it takes far longer than starting a thread.
const PARALLEL_BATCH: usize = 256;

/// Reads the documents of index entries; documents whose entry is not certain are tested.
pub struct FetchRows {
    entries: Box<dyn Entries>,
    snapshot: Snapshot,
    tree: Tree,
    /// What the entries stand for; asked of documents whose entry alone does not prove it.
    recheck: Option<Arc<Filter>>,
    context: Context,
    batch_size: usize,
    batch_max: usize,
    wanted: Option<u64>,
    exhausted: bool,
    /// `tree ++ _id` of the batch, one behind the other.
    keys: Vec<u8>,
    /// Its documents, as they were read.
    parts: Vec<Vec<u8>>,
    fetched: Vec<Fetched>,
    position: usize,
}

struct Fetched {
    /// Where it is in the batch's keys.
    id: Range<usize>,
    document: Place,
    certain: bool,
}

/// Where a document is: in which part, and there.
struct Place {
    part: usize,
    range: Range<usize>,
}

impl FetchRows {
    /// The documents of `entries`; `wanted` is how many rows will be asked for at most, if known.
    pub fn new(
        entries: Box<dyn Entries>,
        snapshot: Snapshot,
        tree: Tree,
        recheck: Option<Arc<Filter>>,
        wanted: Option<u64>,
        mean_document_bytes: usize,
        context: Context,
    ) -> Self {
        // More than is wanted would be read in vain.
        let largest = match wanted {
            Some(_) => usize::MAX,
            None => LARGEST_BATCH,
        };
        Self {
            entries,
            snapshot,
            tree,
            recheck,
            context,
            batch_size: FIRST_BATCH,
            batch_max: (BATCH_BYTES / mean_document_bytes.max(1)).clamp(1, largest),
            wanted,
            exhausted: false,
            keys: Vec::new(),
            parts: Vec::new(),
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
            Some(wanted) => usize::try_from(wanted).unwrap_or(usize::MAX).max(1),
            None => self.batch_size,
        };
        self.batch_size = (self.batch_size * 4).min(self.batch_max);
        size.min(self.batch_max)
    }

    fn read(&mut self, keys: Vec<u8>, requests: &[(Range<usize>, bool)]) -> Result<()> {
        let mut order: Vec<usize> = (0..requests.len()).collect();
        order.sort_by(|a, b| keys[requests[*a].0.clone()].cmp(&keys[requests[*b].0.clone()]));
        let sorted: Vec<&[u8]> = order
            .iter()
            .map(|number| &keys[requests[*number].0.clone()])
            .collect();
        let mut places: Vec<Option<Place>> = Vec::new();
        places.resize_with(requests.len(), || None);
        self.parts.clear();
        for (part, positions) in read_parts(&self.snapshot, &sorted)? {
            for (range, number) in part.ranges.into_iter().zip(&order[positions]) {
                let part = self.parts.len();
                places[*number] = range.map(|range| Place { part, range });
            }
            self.parts.push(part.bytes);
        }
        self.keys = keys;
        self.context.counters.add_documents(requests.len() as u64);
        self.position = 0;
        self.fetched.clear();
        for ((key, certain), place) in requests.iter().zip(places) {
            // An entry without its document would be corruption; `check` finds it, a query skips it.
            if let Some(document) = place {
                RawDocument::from_bytes(&self.parts[document.part][document.range.clone()])
                    .map_err(corrupt_document)?;
                self.fetched.push(Fetched {
                    id: key.start + 4..key.end,
                    document,
                    certain: *certain,
                });
            }
        }
        Ok(())
    }

    fn is_match(&self, fetched: &Fetched) -> Result<bool> {
        match &self.recheck {
            Some(filter) if !fetched.certain => filter.matches(self.document(fetched)),
            _ => Ok(true),
        }
    }

    fn document(&self, fetched: &Fetched) -> &RawDocument {
        let Place { part, range } = &fetched.document;
        RawDocument::from_bytes(&self.parts[*part][range.clone()])
            .expect("read has checked the document")
    }
}

/// Documents of some of the keys, one behind the other.
struct Part {
    bytes: Vec<u8>,
    ranges: Vec<Option<Range<usize>>>,
}

/// Reads the documents of sorted keys, a large batch as two halves; each part comes with the positions
/// of its keys.
fn read_parts(snapshot: &Snapshot, keys: &[&[u8]]) -> Result<Vec<(Part, Range<usize>)>> {
    if keys.len() < PARALLEL_BATCH {
        return Ok(vec![(read_part(snapshot, keys)?, 0..keys.len())]);
    }
    let middle = keys.len() / 2;
    let (low, high) = keys.split_at(middle);
    let (a, b) = parallel::join(|| read_part(snapshot, low), || read_part(snapshot, high));
    Ok(vec![(a?, 0..middle), (b?, middle..keys.len())])
}

fn read_part(snapshot: &Snapshot, keys: &[&[u8]]) -> Result<Part> {
    let mut part = Part {
        bytes: Vec::new(),
        ranges: Vec::with_capacity(keys.len()),
    };
    snapshot.multi_get(Family::Documents, keys, &mut |_, value| {
        let start = part.bytes.len();
        part.bytes.extend_from_slice(value.unwrap_or_default());
        part.ranges.push(value.map(|_| start..part.bytes.len()));
    })?;
    Ok(part)
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
