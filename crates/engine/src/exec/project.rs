//! Gives each row the shape that a projection asks for.

use super::origin::Origin;
use super::{Row, Rows};
use crate::error::Result;
use crate::query::Projection;
use bson::raw::RawDocumentBuf;
use std::sync::Arc;

/// Applies a projection to every row.
pub struct ProjectRows {
    input: Box<dyn Rows>,
    projection: Arc<Projection>,
    /// Where rows come from, if the projection asks for it.
    origin: Option<Origin>,
    current: RawDocumentBuf,
}

impl ProjectRows {
    /// The rows of `input`, projected.
    pub fn new(
        input: Box<dyn Rows>,
        projection: Arc<Projection>,
        origin: impl FnOnce() -> Origin,
    ) -> Self {
        Self {
            input,
            origin: projection.asks_origin().then(origin),
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
        let row = self.input.row();
        let position = self.projection.array_position(row.document)?;
        let origin = self.origin.as_ref().map(|origin| origin.of(row));
        let origin = origin.transpose()?;
        self.current = self.projection.apply_from(row.document, position, origin)?;
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
