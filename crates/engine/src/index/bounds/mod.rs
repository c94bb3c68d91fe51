//! Where in an index the values lie that a predicate asks for.
//!
//! A predicate in, [`FieldBounds`] out: ascending, disjoint intervals of one field's values,
//! with a [`Tightness`] that tells what they prove. The bounds of all fields become
//! [`ByteRange`]s of keys ([`byte_ranges`]), and a [`BoundsChecker`] walks what ranges of
//! leading fields cannot express, skipping what lies outside.
//!
//! mongod's type brackets hold: `$gt: 5` looks at numbers only, from 5 to infinity. The
//! intervals read as in mongod's `explain` (`indexBounds`); golden files compare them.
//!
//! What bounds of one field prove:
//!
//! | predicate | bounds | tightness |
//! |---|---|---|
//! | comparison or `$in` with scalars | points and ranges | exact |
//! | … with null | undefined and null, which stand for `[]` and missing fields too | fetch |
//! | … with an array | its first element and the array itself; open ranges for `$gt` and the like | fetch |
//! | `$ne`, `$nin`, `$not` of something exact | the complement | exact; multikey: fetch |
//! | `$regex` of the form `^literal` | strings that begin so, and the expression itself | exact |
//! | other `$regex` | all strings or those with the literal, and the expression | covered; multikey: fetch |
//! | `$type` | the bracket | exact, or covered where the bracket has other types too |
//! | `$exists: true` | everything | fetch; sparse: exact |
//! | `$exists: false` | null | fetch |
//! | `$mod` | numbers | covered; multikey: fetch |
//! | `$elemMatch` of values | the intersection of its parts | fetch |
//! | anything else | everything | fetch |
//!
//! A multikey index has an entry for each element of an array. So the bounds of two
//! predicates on one such field must not be intersected (`{a: {$gt: 1, $lt: 5}}` matches
//! `[0, 9]`): use one and test the other on the document. And one document may appear
//! under several keys.

mod checker;
mod field;
mod interval;
mod predicate;
mod ranges;

pub use checker::{BoundsChecker, KeyCheck};
pub use field::FieldBounds;
pub use interval::{End, Interval};
pub use predicate::FieldContext;
pub use ranges::{ByteRange, ByteRanges, byte_ranges};

/// What it proves that a document has a key within bounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Tightness {
    /// The document matches; and every document that matches has such a key.
    Exact,
    /// The document matches if the key's own value, decoded, satisfies the predicate.
    Covered,
    /// Nothing: the document must be read and tested.
    Fetch,
}

#[cfg(test)]
mod tests;
