//! What databases keep for the functions of their clients.

use super::{Engine, FindRequest};
use crate::error::Result;
use crate::namespace::Namespace;
use crate::operation::StoredFunctions;
use bson::raw::{RawDocument, RawDocumentBuf};

/// The collection of a database that holds it.
const COLLECTION: &str = "system.js";

impl StoredFunctions for Engine {
    fn each(&self, database: &str, take: &mut dyn FnMut(&RawDocument) -> Result<()>) -> Result<()> {
        let everything = RawDocumentBuf::new();
        let request = FindRequest {
            counts: false,
            ..FindRequest::new(&everything)
        };
        let mut query = self.find(&Namespace::new(database, COLLECTION)?, &request)?;
        while let Some(document) = query.next_document()? {
            take(document)?;
        }
        Ok(())
    }
}
