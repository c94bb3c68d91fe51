//! Sorts rows in memory, within a limit, or else on disk; keeps only the best when a limit follows.

use super::{Context, Counters, Row, Rows};
use crate::error::{Code, Error, Result};
use crate::query::Sort;
use crate::sorter::{InOrder, Spillable, TopSorter, sort_too_large};
use bson::raw::RawDocumentBuf;
use std::sync::Arc;

/// The input's rows in the order of a sort pattern; rows that compare equal keep the input's order.
pub struct SortRows {
    sort: Arc<Sort>,
    counters: Arc<Counters>,
    /// Before the first row is asked for.
    input: Option<(Box<dyn Rows>, TopSorter<HeldRow>)>,
    sorted: Option<InOrder<HeldRow>>,
    current: Option<HeldRow>,
}

impl SortRows {
    /// Sorts `input`; only the first `keep` rows are needed when given.
    pub fn new(
        input: Box<dyn Rows>,
        sort: Arc<Sort>,
        keep: Option<u64>,
        context: &Context,
    ) -> Self {
        let sorter = TopSorter::new(keep, &context.limits, sort_too_large);
        Self {
            sort,
            counters: Arc::clone(&context.counters),
            input: Some((input, sorter)),
            sorted: None,
            current: None,
        }
    }
}

impl Rows for SortRows {
    fn advance(&mut self) -> Result<bool> {
        if let Some((mut input, mut sorter)) = self.input.take() {
            let mut rows = 0;
            while input.advance()? {
                rows += 1;
                let row = input.row();
                let key = self.sort.key(row.document)?;
                sorter.push(key, || HeldRow::from(row))?;
            }
            self.counters.add_sorted(rows);
            self.sorted = Some(sorter.finish()?);
        }
        self.current = self.sorted.as_mut().and_then(Iterator::next).transpose()?;
        Ok(self.current.is_some())
    }

    fn suspend(&mut self, again: bool) -> Result<bool> {
        self.current = None;
        match &mut self.sorted {
            Some(sorted) if again => sorted.unread(),
            _ => Ok(false),
        }
    }

    fn row(&self) -> Row<'_> {
        let held = self.current.as_ref();
        held.expect("row is read after advance returned true").row()
    }
}

/// A copy of a row.
pub(super) struct HeldRow {
    id: Vec<u8>,
    document: RawDocumentBuf,
}

impl From<Row<'_>> for HeldRow {
    fn from(row: Row<'_>) -> Self {
        Self {
            id: row.id.to_vec(),
            document: row.document.to_owned(),
        }
    }
}

impl HeldRow {
    pub fn row(&self) -> Row<'_> {
        Row {
            id: &self.id,
            document: &self.document,
        }
    }
}

/// On disk: the length of the `_id` (u32 LE), the `_id`, the document.
impl Spillable for HeldRow {
    fn size_bytes(&self) -> usize {
        self.id.len() + self.document.as_bytes().len()
    }

    fn encode(&self, bytes: &mut Vec<u8>) {
        let length = u32::try_from(self.id.len()).unwrap_or(u32::MAX);
        bytes.extend_from_slice(&length.to_le_bytes());
        bytes.extend_from_slice(&self.id);
        bytes.extend_from_slice(self.document.as_bytes());
    }

    fn decode(bytes: &[u8]) -> Result<Self> {
        let broken = || Error::new(Code::InternalError, "a spilled row is not what was written");
        let (length, rest) = bytes.split_first_chunk().ok_or_else(broken)?;
        let length = u32::from_le_bytes(*length) as usize;
        let (id, document) = rest.split_at_checked(length).ok_or_else(broken)?;
        let document = RawDocumentBuf::from_bytes(document.to_vec());
        Ok(Self {
            id: id.to_vec(),
            document: document.map_err(crate::error::corrupt_document)?,
        })
    }
}
