//! The Meridian engine: documents, indexes and everything that is asked of them.
//!
//! What comes in is typed (a [`query::Filter`], an [`update::Update`], an
//! [`aggregate::Pipeline`]); what goes out are raw BSON documents. The engine knows
//! nothing of sockets, frames or command documents.
//!
//! Import order: `storage <- catalog, index, geo <- plan <- exec <- write, cursor, ttl <- database`;
//! `query`, `update` and `aggregate` are pure meaning and read no storage.

pub mod aggregate;
pub mod catalog;
pub mod cursor;
pub mod database;
pub mod error;
pub mod exec;
pub mod geo;
pub mod index;
pub mod memory;
mod namespace;
mod operation;
pub mod plan;
pub mod query;
mod sorter;
pub mod storage;
mod ttl;
pub mod update;
pub mod write;

pub use catalog::CollectionOptions;
pub use cursor::{CursorFigures, CursorRegistry, KillOutcome, Query};
pub use database::*;
pub use error::{Code, Error, Result};
pub use namespace::{Namespace, check_database_name};
pub use operation::{Operation, STACK_BYTES};
pub use storage::{Algorithm, Compression};
pub use write::{
    BuildPhase, BuildProgress, Durability, ErrorBytes, InsertOptions, InsertOutcome, WriteError,
};
