//! What a database keeps for the functions of its clients, in its collection `system.js`.

use crate::error::Result;
use bson::RawDocument;
use std::fmt::{self, Debug, Formatter};
use std::sync::Arc;

/// Whoever reads it.
pub trait StoredFunctions: Send + Sync {
    /// Gives `take` each document, `{_id: name, value}`.
    ///
    /// # Errors
    /// Storage failures, and those of `take`.
    fn each(&self, database: &str, take: &mut dyn FnMut(&RawDocument) -> Result<()>) -> Result<()>;
}

/// What a statement's functions find as globals.
pub struct StoredGlobals {
    /// Who reads them.
    pub source: Arc<dyn StoredFunctions>,
    /// The database.
    pub database: String,
    /// Whether all functions of the statement find them, and not those of `$where` alone.
    pub for_all: bool,
}

impl StoredGlobals {
    /// As [`StoredFunctions::each`].
    ///
    /// # Errors
    /// The same.
    pub(crate) fn each(&self, take: &mut dyn FnMut(&RawDocument) -> Result<()>) -> Result<()> {
        self.source.each(&self.database, take)
    }
}

impl Debug for StoredGlobals {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        write!(formatter, "StoredGlobals of {}", self.database)
    }
}
