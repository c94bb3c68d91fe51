//! Full text search as MongoDB 6.0 means it (text indexes of version 3): what the terms of a text are, what a
//! search says, how well a document answers it.
//!
//! In: texts, documents, the operand of `$text` and the definition of a text index. Out: terms with scores (the
//! entries of a document in the index), a parsed search, and whether a document matches it. Nothing here knows
//! of storage, indexes or plans. Versions 1 and 2 of text indexes are absent.

mod character_tables;
mod characters;
mod definition;
mod fields;
mod language;
mod query;
mod score;
mod stems;
mod tokens;

#[cfg(test)]
mod tests;

pub use definition::{SCORE_FIELD, TERM_FIELD, TextIndexDefinition, TextIndexSpec};
pub use fields::FieldText;
pub use language::Language;
pub use query::TextQuery;
pub use tokens::{Sensitivity, Tokens, any_of, index_key, index_terms, tokens};
