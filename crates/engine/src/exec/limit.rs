//! Skips the first rows and stops after a number of them.

use super::{Row, Rows};
use crate::error::Result;

/// Rows `skip .. skip + limit` of the input.
pub struct LimitRows {
    input: Box<dyn Rows>,
    skip: u64,
    limit: u64,
}

impl LimitRows {
    /// Leaves `skip` rows out and passes on at most `limit`.
    pub fn new(input: Box<dyn Rows>, skip: u64, limit: Option<u64>) -> Self {
        Self {
            input,
            skip,
            limit: limit.unwrap_or(u64::MAX),
        }
    }
}

impl Rows for LimitRows {
    fn advance(&mut self) -> Result<bool> {
        if self.limit == 0 {
            return Ok(false);
        }
        while self.skip > 0 {
            if !self.input.advance()? {
                return Ok(false);
            }
            self.skip -= 1;
        }
        let advanced = self.input.advance()?;
        self.limit -= u64::from(advanced);
        Ok(advanced)
    }

    fn suspend(&mut self, again: bool) -> Result<bool> {
        let comes_again = self.input.suspend(again)?;
        self.limit += u64::from(comes_again);
        Ok(comes_again)
    }

    fn row(&self) -> Row<'_> {
        self.input.row()
    }
}
