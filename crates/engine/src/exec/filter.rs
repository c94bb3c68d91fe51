//! Rows that match a filter.

use super::{Row, Rows};
use crate::error::Result;
use crate::query::Filter;
use std::sync::Arc;

/// Passes on the rows whose document matches.
pub struct FilterRows {
    input: Box<dyn Rows>,
    filter: Arc<Filter>,
}

impl FilterRows {
    /// The rows of `input` that match `filter`.
    pub fn new(input: Box<dyn Rows>, filter: Arc<Filter>) -> Self {
        Self { input, filter }
    }
}

impl Rows for FilterRows {
    fn advance(&mut self) -> Result<bool> {
        while self.input.advance()? {
            if self.filter.matches(self.input.row().document)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn suspend(&mut self, again: bool) -> Result<bool> {
        self.input.suspend(again)
    }

    fn row(&self) -> Row<'_> {
        self.input.row()
    }

    fn split_off(&mut self) -> Option<Box<dyn Rows>> {
        let other = self.input.split_off()?;
        Some(Box::new(Self::new(other, self.filter.clone())))
    }
}
