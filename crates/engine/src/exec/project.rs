//! Gives each row the document that a query asks for.

use super::origin::Origin;
use super::{Row, Rows};
use crate::error::Result;
use crate::query::Projection;
use bson::cstr;
use bson::raw::RawDocumentBuf;
use std::sync::Arc;

/// Rows whose documents are made from those of others.
struct MadeRows<F> {
    input: Box<dyn Rows>,
    make: F,
    current: RawDocumentBuf,
}

/// The rows of `input`, projected; `origin` tells where they come from, if the projection asks for it.
pub fn projected(
    input: Box<dyn Rows>,
    projection: Arc<Projection>,
    origin: impl FnOnce() -> Origin,
) -> Box<dyn Rows> {
    let origin = projection.asks_origin().then(origin);
    made(input, move |row| {
        let position = projection.array_position(row.document)?;
        let origin = origin.as_ref().map(|origin| origin.of(row));
        projection.apply_from(row.document, position, origin.transpose()?)
    })
}

/// The entries by which the rows of `input` were found; empty where none was used.
pub fn index_keys(input: Box<dyn Rows>, origin: Origin) -> Box<dyn Rows> {
    made(input, move |row| {
        Ok(origin.index_key(row.document)?.unwrap_or_default())
    })
}

/// The rows of `input`, and in a field `$recordId` more what their documents lie under.
pub fn with_record_ids(input: Box<dyn Rows>, origin: Origin) -> Box<dyn Rows> {
    made(input, move |row| {
        let mut with_id = row.document.to_owned();
        with_id.append(cstr!("$recordId"), origin.record_id(row.id)?);
        Ok(with_id)
    })
}

fn made<F>(input: Box<dyn Rows>, make: F) -> Box<dyn Rows>
where
    F: Fn(Row<'_>) -> Result<RawDocumentBuf> + Send + 'static,
{
    Box::new(MadeRows {
        input,
        make,
        current: RawDocumentBuf::new(),
    })
}

impl<F: Fn(Row<'_>) -> Result<RawDocumentBuf> + Send> Rows for MadeRows<F> {
    fn advance(&mut self) -> Result<bool> {
        if !self.input.advance()? {
            return Ok(false);
        }
        self.current = (self.make)(self.input.row())?;
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
