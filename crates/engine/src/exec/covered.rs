//! Rows from index entries alone: rebuilt from their fields, or carried by a clustering index.
//!
//! The document is read only where the entry cannot tell (see [`Coverage`]) or does not prove that it
//! matches.

use super::{Context, Entries, Entry, Row, Rows};
use crate::error::{Result, corrupt_document};
use crate::index::{Coverage, RowBuffer};
use crate::query::{Filter, Projection};
use crate::storage::{Family, Snapshot, TreeKey};
use bson::raw::{RawDocument, RawDocumentBuf};
use std::sync::Arc;

/// The rows of index entries.
pub struct CoveredRows {
    entries: Box<dyn Entries>,
    coverage: Arc<Coverage>,
    snapshot: Snapshot,
    documents: TreeKey,
    /// Asked of documents whose entry does not prove it.
    recheck: Option<Arc<Filter>>,
    /// What rows of entries are without it, and documents become by it.
    shape: Option<Arc<Projection>>,
    context: Context,
    /// Where the `_id` begins in the current entry's key.
    id_at: usize,
    buffer: RowBuffer,
}

impl CoveredRows {
    /// The rows of `entries`; `documents` is where those lie that must be read all the same.
    pub fn new(
        entries: Box<dyn Entries>,
        coverage: Arc<Coverage>,
        snapshot: Snapshot,
        documents: TreeKey,
        recheck: Option<Arc<Filter>>,
        context: Context,
    ) -> Self {
        Self {
            entries,
            coverage,
            snapshot,
            documents,
            recheck,
            shape: None,
            context,
            id_at: 0,
            buffer: RowBuffer::default(),
        }
    }

    /// The same rows, all of this shape, which the [`Coverage`] gives them.
    #[must_use]
    pub fn shaped(mut self, shape: Option<Arc<Projection>>) -> Self {
        self.shape = shape;
        self
    }

    /// Makes the current entry's row; false when it turns out not to match.
    fn take(&mut self) -> Result<bool> {
        let entry = self.entries.entry();
        let certain = self.entries.is_certain();
        let Entry { key, value, .. } = entry;
        if self.coverage.is_whole() {
            self.id_at = entry.id_at()?;
            let document = self.coverage.carried(value)?;
            return Ok(certain || matches(self.recheck.as_deref(), document)?);
        }
        if certain && self.coverage.row(key, value, &mut self.buffer)?.is_some() {
            self.id_at = self.buffer.id_at();
            return Ok(true);
        }
        self.id_at = entry.id_at()?;
        let key = self.documents.key(&key[self.id_at..]);
        let stored = self.snapshot.get(Family::Documents, &key, <[u8]>::to_vec)?;
        self.context.counters.add_documents(1);
        // An entry without its document would be corruption; `check` finds it, a query skips it.
        let Some(bytes) = stored else {
            return Ok(false);
        };
        let document = RawDocumentBuf::from_bytes(bytes).map_err(corrupt_document)?;
        if !certain && !matches(self.recheck.as_deref(), &document)? {
            return Ok(false);
        }
        self.buffer.replace(match &self.shape {
            Some(shape) => shape.apply(&document, None)?,
            None => document,
        });
        Ok(true)
    }
}

fn matches(filter: Option<&Filter>, document: &RawDocument) -> Result<bool> {
    filter.map_or(Ok(true), |filter| filter.matches(document))
}

impl Rows for CoveredRows {
    fn advance(&mut self) -> Result<bool> {
        while self.entries.advance()? {
            if self.take()? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn suspend(&mut self, _: bool) -> Result<bool> {
        self.buffer = RowBuffer::default();
        self.entries.suspend();
        Ok(false)
    }

    fn row(&self) -> Row<'_> {
        let Entry { key, value, .. } = self.entries.entry();
        let document = if self.coverage.is_whole() {
            let carried = self.coverage.carried(value);
            carried.expect("advance has read this entry")
        } else {
            self.buffer.row()
        };
        Row {
            id: &key[self.id_at..],
            document,
        }
    }
}
