//! Documents sorted by their distance: the plain way, for few documents.
//!
//! In: rows in any order. Out: those at a wanted distance, nearest first, equal distances by `_id`.

use super::{Row, Rows};
use crate::error::{Code, Error, Result};
use crate::query::Nearest;
use bson::raw::RawDocument;
use std::cmp::Ordering;
use std::collections::BinaryHeap;

/// The input's rows, nearest first.
pub struct RankedRows {
    input: Option<Box<dyn Rows>>,
    nearest: Nearest,
    keep: Option<usize>,
    bytes_max: usize,
    sorted: std::vec::IntoIter<Held>,
    current: Option<Held>,
}

struct Held {
    distance: f64,
    id: Vec<u8>,
    document: Vec<u8>,
}

impl Held {
    fn size_bytes(&self) -> usize {
        self.id.len() + self.document.len() + size_of::<Self>()
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
        self.distance
            .total_cmp(&other.distance)
            .then_with(|| self.id.cmp(&other.id))
    }
}

impl RankedRows {
    /// Sorts `input`; only the first `keep` rows are needed when given.
    pub fn new(
        input: Box<dyn Rows>,
        nearest: Nearest,
        keep: Option<u64>,
        bytes_max: usize,
    ) -> Self {
        Self {
            input: Some(input),
            nearest,
            keep: keep.map(|rows| usize::try_from(rows).unwrap_or(usize::MAX)),
            bytes_max,
            sorted: Vec::new().into_iter(),
            current: None,
        }
    }

    fn consume(&mut self, mut input: Box<dyn Rows>) -> Result<()> {
        let Nearest { path, near } = &self.nearest;
        let mut heap: BinaryHeap<Held> = BinaryHeap::new();
        let mut bytes = 0;
        while input.advance()? {
            let row = input.row();
            let Some(measured) = near.measure(row.document, path.parts()) else {
                continue;
            };
            if !near.wants(measured.distance) {
                continue;
            }
            let held = Held {
                distance: measured.distance,
                id: row.id.to_vec(),
                document: row.document.as_bytes().to_vec(),
            };
            bytes += held.size_bytes();
            heap.push(held);
            if self.keep.is_some_and(|keep| heap.len() > keep)
                && let Some(worst) = heap.pop()
            {
                bytes -= worst.size_bytes();
            }
            if bytes > self.bytes_max {
                return Err(too_much(self.bytes_max));
            }
        }
        self.sorted = heap.into_sorted_vec().into_iter();
        Ok(())
    }
}

/// A nearest-first query would hold more than it may.
pub(super) fn too_much(bytes_max: usize) -> Error {
    Error::new(
        Code::QueryExceededMemoryLimitNoDiskUseAllowed,
        format!(
            "a nearest-first query holds more than {bytes_max} bytes; give a limit or a $maxDistance"
        ),
    )
}

impl Rows for RankedRows {
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
