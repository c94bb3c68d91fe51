//! Gives each row the shape that a projection asks for.

use super::{Row, Rows};
use crate::error::Result;
use crate::query::Projection;
use bson::raw::RawDocumentBuf;
use std::sync::Arc;

/// Applies a projection to every row.
pub struct ProjectRows {
    input: Box<dyn Rows>,
    projection: Arc<Projection>,
    current: RawDocumentBuf,
}

impl ProjectRows {
    /// The rows of `input`, projected.
    pub fn new(input: Box<dyn Rows>, projection: Arc<Projection>) -> Self {
        Self {
            input,
            projection,
            current: RawDocumentBuf::new(),
        }
    }
}

impl Rows for ProjectRows {
    fn advance(&mut self) -> Result<bool> {
        if !self.input.advance()? {
            return Ok(false);
        }
        let document = self.input.row().document;
        let position = self.projection.array_position(document)?;
        self.current = self.projection.apply(document, position)?;
        Ok(true)
    }

    fn suspend(&mut self, again: bool) -> Result<bool> {
        self.current = RawDocumentBuf::new();
        self.input.suspend(again)
    }

    fn row(&self) -> Row<'_> {
        Row {
            id: self.input.row().id,
            document: &self.current,
        }
    }
}
