//! What a client asks for, parsed once: filters, projections, sorts and `$jsonSchema`.
//!
//! In: the documents of `find`, `$match`, `validator`, ... Out: typed values that evaluate raw
//! BSON. Everything is pure: nothing here reads storage, chooses an index or parses twice.
//! Semantics, codes and messages are MongoDB 6.0's. `$where`, `$text`, `$near` and
//! `$sampleRate` answer with an error that names them.

mod bits;
mod filter;
mod matches;
mod parse;
mod pattern;
pub mod schema;
mod simplify;
pub mod text;
mod types;

pub use bits::{BitMask, BitTest};
pub use filter::{Comparison, Divisor, Filter, InList, Predicate};
pub use parse::ParseContext;
pub use pattern::Pattern;
pub use schema::Schema;
pub use types::{TypeSet, type_code, type_name};

use crate::error::{Code, Error};

/// What a broken document is to a client: `InvalidBSON`.
pub(crate) fn malformed(error: bson::error::Error) -> Error {
    Error::new(Code::InvalidBSON, error.to_string())
}
