//! Indexes: what a definition means, which keys a document has, and where to look for a filter.
//!
//! Definition in ([`IndexSpec`]), document in, keys out ([`KeyGenerator`], [`CollectionKeys`]);
//! predicate in, byte ranges out ([`bounds`]); entry in, row out ([`Coverage`]). Everything is computed from bytes in memory:
//! nothing here opens a tree, chooses a plan or knows how a document is stored.
//!
//! An entry in storage is `tree prefix ++ fields ++ encoded _id -> value`; this module makes
//! `fields` ([`meridian_value::key`]) and `value` ([`entry`]).

pub mod bounds;
mod carried;
mod collection;
mod coverage;
pub mod entry;
mod extract;
mod generator;
mod sink;
pub mod spec;
mod sphere;
pub mod storage_engine;
mod text;
mod wildcard;

pub use crate::expression::hash_value;
pub use collection::{CollectionKeys, IndexSet};
pub use coverage::{Coverage, HeldFields, RowBuffer};
pub use entry::EntryLayout;
pub use generator::KeyGenerator;
pub use sink::{KeySink, Multikey};
pub use spec::{ExistingIndex, IndexChange, IndexField, IndexSpec};
pub use wildcard::ARRAY_MARK;
