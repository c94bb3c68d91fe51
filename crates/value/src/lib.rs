//! BSON values as MongoDB orders, names and computes with them.
//!
//! What everything above needs: the comparison [`order`], [`field`]s and dotted [`path`]s
//! of raw documents and a [`DocumentBuilder`] for new ones, [`number`] arithmetic with
//! MongoDB's promotions, [`Collation`]s of texts, how deep documents nest, [`text`] that need not be
//! UTF-8, and the order-preserving [`key`] encoding of index entries. All of
//! it works on raw BSON; nothing here knows of storage, queries or the wire.

mod build;
mod by_name;
mod collation;
pub mod field;
pub mod key;
mod levels;
pub mod number;
pub mod order;
pub mod path;
pub mod text;

pub use build::DocumentBuilder;
pub use by_name::ByName;
pub use collation::{CaseFirst, Collation, CollationOptions, NoCollation, holds_text};
pub use levels::is_deeper;
pub use order::{canonical_type, compare, compare_bson, compare_documents, with_raw};
