//! The Meridian engine: documents, indexes and everything that is asked of them.
//!
//! What comes in is typed (a [`query::Filter`], an [`update::Update`], an
//! [`aggregate::Pipeline`]); what goes out are raw BSON documents. The engine knows
//! nothing of sockets, frames or command documents.
//!
//! Import order: `expression <- query <- aggregate <- update` are pure meaning and read no storage;
//! `storage <- catalog, index, geo <- plan <- exec <- write, cursor, ttl <- database`.

pub mod aggregate;
pub mod catalog;
pub mod collation;
pub mod cursor;
pub mod database;
pub mod error;
pub mod exec;
pub mod expression;
pub mod geo;
pub mod index;
pub mod javascript;
mod namespace;
mod operation;
mod pattern;
pub mod plan;
pub mod query;
pub mod rank;
mod sorter;
pub mod storage;
pub mod text;
pub mod textsearch;
pub mod timeseries;
mod ttl;
pub mod types;
pub mod update;
pub mod write;

pub use catalog::{Capped, CollectionOptions, whole};
pub use cursor::{CursorFigures, CursorOwner, CursorRegistry, KillOutcome, Query};
pub use database::*;
pub use error::{Code, Error, Result};
pub use namespace::{Namespace, check_database_name};
pub use operation::{
    NameCounts, Operation, STACK_BYTES, StatementProfile, StoredFunctions, StoredGlobals, memory,
};
pub use storage::{Algorithm, Compression, MasterKey};
pub use write::{BuildPhase, BuildProgress, ErrorBytes, InsertOptions, InsertOutcome, WriteError};
