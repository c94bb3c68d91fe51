//! Documents sorted by their distance: the plain way, for few documents.
//!
//! In: rows in any order. Out: those at a wanted distance, nearest first, equal distances by `_id`.

use super::top::{SortedRows, TopRows};
use super::{Row, Rows};
use crate::error::{Code, Error, Result};
use crate::operation::memory::Reservation;
use crate::query::Nearest;
use std::cmp::Ordering;

/// The input's rows, nearest first.
pub struct RankedRows {
    input: Option<Box<dyn Rows>>,
    nearest: Nearest,
    keep: Option<usize>,
    bytes_max: usize,
    memory: Reservation,
    sorted: SortedRows<Key>,
}

/// Distance and `_id`.
struct Key(f64, Vec<u8>);

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Key {}

impl PartialOrd for Key {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Key {
    fn cmp(&self, other: &Self) -> Ordering {
        let distances = self.0.total_cmp(&other.0);
        distances.then_with(|| self.1.cmp(&other.1))
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
            memory: Reservation::none(),
            sorted: SortedRows::default(),
        }
    }

    fn consume(&mut self, mut input: Box<dyn Rows>) -> Result<()> {
        let Nearest { path, near } = &self.nearest;
        let mut top = TopRows::new(self.keep);
        while input.advance()? {
            let row = input.row();
            let Some(measured) = near.measure(row.document, path.parts()) else {
                continue;
            };
            if !near.wants(measured.distance) {
                continue;
            }
            top.push(Key(measured.distance, row.id.to_vec()), row.id.len(), row);
            if top.bytes() > self.bytes_max {
                return Err(too_much(self.bytes_max));
            }
            self.memory.grow(top.bytes())?;
        }
        self.sorted = top.sorted();
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
        Ok(self.sorted.advance())
    }

    fn row(&self) -> Row<'_> {
        self.sorted.row()
    }
}
