//! Gives each row the shape that a projection asks for.

use super::{Row, Rows};
use crate::error::Result;
use crate::query::{Filter, Projection};
use bson::raw::RawDocumentBuf;
use std::sync::Arc;

/// Applies a projection to every row.
pub struct ProjectRows {
    input: Box<dyn Rows>,
    projection: Arc<Projection>,
    /// Asked for the matched array position when the projection is positional (`a.$`).
    positional: Option<Arc<Filter>>,
    current: RawDocumentBuf,
}

impl ProjectRows {
    /// The rows of `input`, projected.
    pub fn new(input: Box<dyn Rows>, projection: Arc<Projection>, filter: Arc<Filter>) -> Self {
        let positional = projection.is_positional().then_some(filter);
        Self {
            input,
            projection,
            positional,
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
        let position = match &self.positional {
            Some(filter) => filter.array_position(document)?,
            None => None,
        };
        self.current = self.projection.apply(document, position)?;
        Ok(true)
    }

    fn row(&self) -> Row<'_> {
        Row {
            id: self.input.row().id,
            document: &self.current,
        }
    }
}
