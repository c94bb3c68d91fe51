//! Sorts rows in memory, within a limit; keeps only the best when a limit follows.

use super::{Row, Rows};
use crate::error::{Code, Error, Result};
use crate::query::Sort;
use bson::raw::RawDocument;
use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::sync::Arc;

/// The input's rows in the order of a sort pattern; rows that compare equal keep the input's order.
pub struct SortRows {
    input: Option<Box<dyn Rows>>,
    sort: Arc<Sort>,
    keep: Option<usize>,
    bytes_max: usize,
    sorted: std::vec::IntoIter<Held>,
    current: Option<Held>,
}

struct Held {
    key: Vec<u8>,
    arrival: u64,
    id: Vec<u8>,
    document: Vec<u8>,
}

impl Held {
    fn size_bytes(&self) -> usize {
        self.key.len() + self.id.len() + self.document.len() + size_of::<Self>()
    }
}

impl PartialEq for Held {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Held {}

impl PartialOrd for Held {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Held {
    fn cmp(&self, other: &Self) -> Ordering {
        self.key
            .cmp(&other.key)
            .then(self.arrival.cmp(&other.arrival))
    }
}

impl SortRows {
    /// Sorts `input`; only the first `keep` rows are needed when given.
    pub fn new(input: Box<dyn Rows>, sort: Arc<Sort>, keep: Option<u64>, bytes_max: usize) -> Self {
        let keep = keep.map(|rows| usize::try_from(rows).unwrap_or(usize::MAX));
        Self {
            input: Some(input),
            sort,
            keep,
            bytes_max,
            sorted: Vec::new().into_iter(),
            current: None,
        }
    }

    fn consume(&mut self, mut input: Box<dyn Rows>) -> Result<()> {
        let mut heap = BinaryHeap::new();
        let mut bytes = 0;
        let mut arrival = 0;
        while input.advance()? {
            let row = input.row();
            let key = self.sort.key(row.document)?;
            arrival += 1;
            let full = self.keep.is_some_and(|keep| heap.len() >= keep);
            if full && heap.peek().is_none_or(|worst: &Held| worst.key <= key) {
                continue;
            }
            let held = Held {
                key,
                arrival,
                id: row.id.to_vec(),
                document: row.document.as_bytes().to_vec(),
            };
            bytes += held.size_bytes();
            heap.push(held);
            if full && let Some(worst) = heap.pop() {
                bytes -= worst.size_bytes();
            }
            if bytes > self.bytes_max {
                return Err(Error::new(
                    Code::QueryExceededMemoryLimitNoDiskUseAllowed,
                    format!(
                        "Executor error during find command :: caused by :: Sort exceeded memory limit of {} bytes, but did not opt in to external sorting. Aborting operation. Pass allowDiskUse:true to opt in.",
                        self.bytes_max
                    ),
                ));
            }
        }
        self.sorted = heap.into_sorted_vec().into_iter();
        Ok(())
    }
}

impl Rows for SortRows {
    fn advance(&mut self) -> Result<bool> {
        if let Some(input) = self.input.take() {
            self.consume(input)?;
        }
        self.current = self.sorted.next();
        Ok(self.current.is_some())
    }

    fn row(&self) -> Row<'_> {
        let held = self
            .current
            .as_ref()
            .expect("row is read after advance returned true");
        let document =
            RawDocument::from_bytes(&held.document).expect("a held document was read as one");
        Row {
            id: &held.id,
            document,
        }
    }
}
