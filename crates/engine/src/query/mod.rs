//! What a client asks for, parsed once: filters, projections, sorts and `$jsonSchema`.
//!
//! In: the documents of `find`, `$match`, `validator`, ... Out: typed values that evaluate raw
//! BSON. Everything is pure: nothing here reads storage, chooses an index or parses twice.
//! Semantics, codes and messages are MongoDB 6.0's.

mod bits;
mod describe;
mod filter;
mod implied;
mod matches;
mod parse;
mod position;
pub(crate) mod projection;
pub mod schema;
mod shape;
mod simplify;
mod sort;
#[cfg(test)]
mod tests;
mod text;
mod validation;

pub use bits::{BitMask, BitTest};
pub use filter::{
    BucketRegion, Comparison, ConditionVariables, Divisor, ExprCondition, Filter, InList, Measure,
    Nearest, Operand, Predicate,
};
pub use parse::{OPERATORS_USED, ParseContext, exact_integer};
pub use projection::Projection;
pub use schema::Schema;
pub use shape::{ShapeNode, push_escaped};
pub use sort::{Sort, SortField};
pub use text::TextCondition;
pub use validation::validation_failure;

/// Appends a field whose name comes from BSON or from a parsed path: it has no NUL.
pub(crate) fn append(
    document: &mut bson::RawDocumentBuf,
    name: &str,
    value: impl bson::raw::BindRawBsonRef,
) {
    let name = <&bson::raw::CStr>::try_from(name).expect("a name from BSON has no NUL");
    document.append(name, value);
}
