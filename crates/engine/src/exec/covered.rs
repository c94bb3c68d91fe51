//! Rows from index entries alone: rebuilt from their fields, or carried by a clustering index.
//!
//! The document is read only where the entry cannot tell (see [`Coverage`]) or does not prove that it
//! matches.

use super::{Context, Entries, Entry, Row, Rows, corrupt_document};
use crate::catalog::Tree;
use crate::error::Result;
use crate::index::Coverage;
use crate::query::Filter;
use crate::storage::{Family, Snapshot};
use bson::raw::{RawDocument, RawDocumentBuf};
use std::sync::Arc;

/// The rows of index entries.
pub struct CoveredRows {
    entries: Box<dyn Entries>,
    coverage: Arc<Coverage>,
    snapshot: Snapshot,
    documents: Tree,
    /// Asked of documents whose entry does not prove it.
    recheck: Option<Arc<Filter>>,
    context: Context,
    id: Vec<u8>,
    row: RawDocumentBuf,
}

impl CoveredRows {
    /// The rows of `entries`; `documents` is where those lie that must be read all the same.
    pub fn new(
        entries: Box<dyn Entries>,
        coverage: Arc<Coverage>,
        snapshot: Snapshot,
        documents: Tree,
        recheck: Option<Arc<Filter>>,
        context: Context,
    ) -> Self {
        Self {
            entries,
            coverage,
            snapshot,
            documents,
            recheck,
            context,
            id: Vec::new(),
            row: RawDocumentBuf::new(),
        }
    }

    /// Makes the current entry's row; false when it turns out not to match.
    fn take(&mut self) -> Result<bool> {
        let entry = self.entries.entry()?;
        self.id.clear();
        self.id.extend_from_slice(entry.id());
        let certain = self.entries.is_certain();
        if self.coverage.is_whole() {
            let document = self.coverage.carried(entry.value)?;
            return Ok(certain || matches(self.recheck.as_deref(), document)?);
        }
        let Entry { key, value, .. } = entry;
        if certain && self.coverage.row(key, value, &mut self.row)?.is_some() {
            return Ok(true);
        }
        let key = self.documents.key(&self.id);
        let stored = self.snapshot.get(Family::Documents, &key, <[u8]>::to_vec)?;
        self.context.counters.add_documents(1);
        // An entry without its document would be corruption; `check` finds it, a query skips it.
        let Some(bytes) = stored else {
            return Ok(false);
        };
        self.row = RawDocumentBuf::from_bytes(bytes).map_err(corrupt_document)?;
        Ok(certain || matches(self.recheck.as_deref(), &self.row)?)
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

    fn row(&self) -> Row<'_> {
        let carried = || {
            let entry = self.entries.entry().ok()?;
            self.coverage.carried(entry.value).ok()
        };
        let document = if self.coverage.is_whole() {
            carried().expect("advance has read this entry")
        } else {
            &self.row
        };
        Row {
            id: &self.id,
            document,
        }
    }
}
