//! Sorts rows in memory, within a limit, or else on disk; keeps only the best when a limit follows.

use super::top::{SortedRows, TopRows};
use super::{Row, Rows};
use crate::error::{Code, Error, Result};
use crate::operation::memory::Reservation;
use crate::query::Sort;
use crate::sorter::{SpillSort, SpillSpace, SpilledRows};
use bson::raw::RawDocument;
use std::sync::Arc;

/// The sort key, and which row of the input it is.
type Key = (Vec<u8>, u64);

/// The input's rows in the order of a sort pattern; rows that compare equal keep the input's order.
pub struct SortRows {
    input: Option<Box<dyn Rows>>,
    sort: Arc<Sort>,
    keep: Option<usize>,
    bytes_max: usize,
    disk: Option<SpillSpace>,
    memory: Reservation,
    sorted: Sorted,
}

/// Rows in order.
enum Sorted {
    InMemory(SortedRows<Key>),
    OnDisk(SpilledSort),
}

/// Rows that were spilled.
struct SpilledSort {
    rows: SpilledRows,
    left: usize,
    id: Vec<u8>,
    document: Vec<u8>,
}

impl SortRows {
    /// Sorts `input`; only the first `keep` rows are needed when given. What is more than `bytes_max` goes to
    /// the disk, if there is one to use.
    pub fn new(
        input: Box<dyn Rows>,
        sort: Arc<Sort>,
        keep: Option<u64>,
        bytes_max: usize,
        disk: Option<SpillSpace>,
    ) -> Self {
        let keep = keep.map(|rows| usize::try_from(rows).unwrap_or(usize::MAX));
        Self {
            input: Some(input),
            sort,
            keep,
            bytes_max,
            disk,
            memory: Reservation::none(),
            sorted: Sorted::InMemory(SortedRows::default()),
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
            let bytes = top.bytes();
            if bytes <= self.bytes_max && self.memory.try_grow(bytes) {
                continue;
            }
            match &self.disk {
                Some(disk) => {
                    let disk = disk.clone();
                    return self.spill(&disk, top, input, arrival);
                }
                None if bytes <= self.bytes_max => self.memory.grow(bytes)?,
                None => return Err(too_large(self.bytes_max)),
            }
        }
        self.sorted = Sorted::InMemory(top.sorted());
        Ok(())
    }

    /// Sorts what was read and what is still to come on disk.
    fn spill(
        &mut self,
        disk: &SpillSpace,
        top: TopRows<Key>,
        mut input: Box<dyn Rows>,
        mut arrival: u64,
    ) -> Result<()> {
        let mut spilled = SpillSort::new(disk);
        let mut value = Vec::new();
        let mut rows = top.sorted();
        while let Some(((key, arrival), row)) = rows.next_with_key() {
            spilled.push(key, *arrival, encode(row, &mut value))?;
        }
        drop(rows);
        self.memory.shrink(0);
        while input.advance()? {
            let row = input.row();
            arrival += 1;
            let key = self.sort.key(row.document)?;
            spilled.push(&key, arrival, encode(row, &mut value))?;
        }
        self.sorted = Sorted::OnDisk(SpilledSort {
            rows: spilled.finish()?,
            left: self.keep.unwrap_or(usize::MAX),
            id: Vec::new(),
            document: Vec::new(),
        });
        Ok(())
    }
}

/// A row as it is spilled: the length of its `_id` (u32 LE), the `_id`, the document.
fn encode<'v>(row: Row<'_>, value: &'v mut Vec<u8>) -> &'v [u8] {
    value.clear();
    value.extend_from_slice(
        &u32::try_from(row.id.len())
            .unwrap_or(u32::MAX)
            .to_le_bytes(),
    );
    value.extend_from_slice(row.id);
    value.extend_from_slice(row.document.as_bytes());
    value
}

fn too_large(limit: usize) -> Error {
    Error::new(
        Code::QueryExceededMemoryLimitNoDiskUseAllowed,
        format!(
            "Executor error during find command :: caused by :: Sort exceeded memory limit of {limit} \
             bytes, but did not opt in to external sorting."
        ),
    )
}

impl SpilledSort {
    fn advance(&mut self) -> Result<bool> {
        if self.left == 0 {
            return Ok(false);
        }
        self.left -= 1;
        let (own_id, own_document) = (&mut self.id, &mut self.document);
        let decode = |_: &[u8], value: &[u8]| {
            let broken =
                || Error::new(Code::InternalError, "a spilled row is not what was written");
            let (length, rest) = value.split_first_chunk().ok_or_else(broken)?;
            let length = u32::from_le_bytes(*length) as usize;
            let (id, document) = rest.split_at_checked(length).ok_or_else(broken)?;
            RawDocument::from_bytes(document).map_err(crate::error::corrupt_document)?;
            own_id.clear();
            own_id.extend_from_slice(id);
            own_document.clear();
            own_document.extend_from_slice(document);
            Ok(())
        };
        Ok(self.rows.next_with(decode)?.is_some())
    }

    fn row(&self) -> Row<'_> {
        let document = RawDocument::from_bytes(&self.document);
        Row {
            id: &self.id,
            document: document.expect("it was checked when it was read"),
        }
    }
}

impl Rows for SortRows {
    fn advance(&mut self) -> Result<bool> {
        if let Some(input) = self.input.take() {
            self.consume(input)?;
        }
        match &mut self.sorted {
            Sorted::InMemory(rows) => Ok(rows.advance()),
            Sorted::OnDisk(rows) => rows.advance(),
        }
    }

    fn row(&self) -> Row<'_> {
        match &self.sorted {
            Sorted::InMemory(rows) => rows.row(),
            Sorted::OnDisk(rows) => rows.row(),
        }
    }
}
