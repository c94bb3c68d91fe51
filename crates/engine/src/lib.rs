//! The Meridian engine: documents, indexes and everything that is asked of them.
//!
//! What comes in is typed (a [`query::Filter`], an [`update::Update`], an
//! [`aggregate::Pipeline`]); what goes out are raw BSON documents. The engine knows
//! nothing of sockets, frames or command documents.
//!
//! Import order: `storage <- catalog, index, geo <- plan <- exec <- write, cursor, ttl <- database`;
//! `query`, `update` and `aggregate` are pure meaning and read no storage.

pub mod aggregate;
pub mod error;
pub mod geo;
pub mod index;
pub mod query;
pub mod update;

pub use error::{Code, Error, Result};
