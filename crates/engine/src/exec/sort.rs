//! Sorts rows in memory, within a limit; keeps only the best when a limit follows.

use super::top::{SortedRows, TopRows};
use super::{Row, Rows};
use crate::error::{Code, Error, Result};
use crate::query::Sort;
use std::sync::Arc;

/// The sort key, and which row of the input it is.
type Key = (Vec<u8>, u64);

/// The input's rows in the order of a sort pattern; rows that compare equal keep the input's order.
pub struct SortRows {
    input: Option<Box<dyn Rows>>,
    sort: Arc<Sort>,
    keep: Option<usize>,
    bytes_max: usize,
    sorted: SortedRows<Key>,
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
            sorted: SortedRows::default(),
        }
    }

    fn consume(&mut self, mut input: Box<dyn Rows>) -> Result<()> {
        let mut top = TopRows::new(self.keep);
        let mut arrival = 0;
        while input.advance()? {
            let row = input.row();
            let key = self.sort.key(row.document)?;
            arrival += 1;
            let key_bytes = key.len();
            top.push((key, arrival), key_bytes, row);
            if top.bytes() > self.bytes_max {
                return Err(Error::new(
                    Code::QueryExceededMemoryLimitNoDiskUseAllowed,
                    format!(
                        "Executor error during find command :: caused by :: Sort exceeded memory limit of {} bytes, but did not opt in to external sorting. Aborting operation. Pass allowDiskUse:true to opt in.",
                        self.bytes_max
                    ),
                ));
            }
        }
        self.sorted = top.sorted();
        Ok(())
    }
}

impl Rows for SortRows {
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
