//! Conditions tested on index entries, before any document is read for them.

use super::prefilter::Prefilter;
use super::{Entries, Entry};
use crate::error::Result;
use crate::index::RowBuffer;
use crate::plan::EntryFilter;
use meridian_value::Collation;

/// Passes on the entries whose fields satisfy a filter, and those that cannot tell: these are not
/// certain, their documents must be tested.
pub struct FilterEntries {
    input: Box<dyn Entries>,
    tested: EntryFilter,
    prefilter: Option<Prefilter>,
    told: bool,
    buffer: RowBuffer,
}

impl FilterEntries {
    /// The entries of `input` that may satisfy the filter.
    pub fn new(input: Box<dyn Entries>, tested: EntryFilter, ids: Option<&Collation>) -> Self {
        Self {
            input,
            prefilter: Prefilter::new(&tested.filter, ids),
            tested,
            told: true,
            buffer: RowBuffer::default(),
        }
    }
}

impl Entries for FilterEntries {
    fn advance(&mut self) -> Result<bool> {
        while self.input.advance()? {
            let Entry { key, value, .. } = self.input.entry();
            if self.prefilter.as_ref().is_some_and(|one| one.excludes(key)) {
                continue;
            }
            let row = self.tested.coverage.row(key, value, &mut self.buffer)?;
            self.told = row.is_some();
            let passes = match row {
                Some(row) => self.tested.filter.matches(row)?,
                None => true,
            };
            if passes {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn entry(&self) -> Entry<'_> {
        self.input.entry()
    }

    fn suspend(&mut self) {
        self.buffer = RowBuffer::default();
        self.input.suspend();
    }

    fn is_certain(&self) -> bool {
        self.told && self.input.is_certain()
    }
}
