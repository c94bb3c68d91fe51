//! Which array element `a.$` stands for.
//!
//! In: a filter and a document. Out: the index, in the outermost array, of the element that
//! matched last in MongoDB's order of evaluation. For an update that is not the order in which the
//! client wrote the conditions: MongoDB sorts them by kind and path. For a projection MongoDB
//! takes the simplified filter in written order.

use super::filter::{Comparison, Filter, Predicate};
use crate::error::Result;
use bson::RawDocument;

/// The order in which the conditions of a conjunction are evaluated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ConditionOrder {
    /// By kind and path.
    Sorted,
    /// As the client wrote them.
    AsWritten,
}

impl Filter {
    /// The index in the outermost array that made the filter match: what `a.$` stands for.
    /// `None` when the document does not match or no array was passed through.
    ///
    /// # Errors
    /// As [`Filter::matches`].
    pub fn array_position(&self, document: &RawDocument) -> Result<Option<usize>> {
        let mut position = None;
        let matched = self.locate(document, &mut position, ConditionOrder::Sorted)?;
        Ok(position.filter(|_| matched))
    }

    /// What `a.$` stands for in a projection. The conditions are taken in the order in which
    /// they were written.
    ///
    /// # Errors
    /// As [`Filter::matches`].
    pub fn array_position_as_written(&self, document: &RawDocument) -> Result<Option<usize>> {
        let mut position = None;
        let matched = self.locate(document, &mut position, ConditionOrder::AsWritten)?;
        Ok(position.filter(|_| matched))
    }

    fn locate(
        &self,
        document: &RawDocument,
        position: &mut Option<usize>,
        order: ConditionOrder,
    ) -> Result<bool> {
        match self {
            Self::And(children) => {
                let mut children: Vec<&Filter> = children.iter().collect();
                if order == ConditionOrder::Sorted {
                    children.sort_by_key(|child| child.evaluation_order());
                }
                for child in children {
                    if !child.locate(document, position, order)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            // Equalities of one path are an `$in` by now; other branches leave no position.
            Self::Or(_) => self.matches(document),
            _ => self.evaluate(document, position),
        }
    }

    /// The rank of the condition's kind among MongoDB's, and its path.
    fn evaluation_order(&self) -> (u8, &str) {
        match self {
            Self::And(_) => (0, ""),
            Self::Or(_) => (1, ""),
            Self::Field { predicate, .. } => (rank(predicate), self.path()),
            Self::Nor(_) => (RANK_NOT + 1, ""),
            _ => (u8::MAX, ""),
        }
    }

    fn path(&self) -> &str {
        match self {
            Self::Field { path, .. } => path.as_str(),
            _ => "",
        }
    }
}

const RANK_NOT: u8 = 15;

/// MongoDB's order of `MatchExpression::MatchType`.
fn rank(predicate: &Predicate) -> u8 {
    match predicate {
        Predicate::And(_) => 0,
        Predicate::ElemMatchObject(_) => 2,
        Predicate::ElemMatchValue(_) => 3,
        Predicate::Size(_) => 4,
        Predicate::Compare(Comparison::Eq, _) => 5,
        Predicate::Compare(Comparison::Lte, _) => 6,
        Predicate::Compare(Comparison::Lt, _) => 7,
        Predicate::Compare(Comparison::Gt, _) => 8,
        Predicate::Compare(Comparison::Gte, _) => 9,
        Predicate::Regex(_) => 10,
        Predicate::Mod(_) => 11,
        Predicate::Exists(_) => 12,
        Predicate::In(_) => 13,
        Predicate::Bits(_) => 14,
        Predicate::Not(_) => RANK_NOT,
        Predicate::Type(_) => 17,
        Predicate::GeoWithin(_) | Predicate::GeoIntersects(_) | Predicate::BucketGeo(_) => 18,
        Predicate::Near(_) => 19,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bson::rawdoc;

    /// What mongod 6.0.5 changed with `$set: {"z.$": 9}`.
    #[test]
    fn the_last_condition_in_mongodbs_order_decides() {
        let document = rawdoc! { "a": [1, 2, 3, 2], "b": [3, 2, 1], "g": [{ "x": 1 }, { "x": 2 }] };
        for (query, position) in [
            (rawdoc! { "a": 2, "b": 1 }, Some(2)),
            (rawdoc! { "b": 1, "a": 2 }, Some(2)),
            (rawdoc! { "g.x": 2, "a": 3 }, Some(1)),
            (rawdoc! { "a": { "$in": [3] }, "b": 2 }, Some(1)),
            (rawdoc! { "b": 2, "a": { "$in": [3, 9] } }, Some(2)),
            (rawdoc! { "a": 2, "b": { "$gt": 2 } }, Some(0)),
            (
                rawdoc! { "a": 1, "g": { "$elemMatch": { "x": 2 } } },
                Some(0),
            ),
            (rawdoc! { "b": 1, "a": { "$exists": true } }, Some(0)),
            (rawdoc! { "a": { "$type": "int" }, "b": 1 }, Some(0)),
            (rawdoc! { "a": { "$all": [3, 2] } }, Some(1)),
            (rawdoc! { "a": { "$lt": 4, "$gt": 2 } }, Some(2)),
            (rawdoc! { "$or": [{ "b": 1 }, { "b": 7 }] }, Some(2)),
            (rawdoc! { "$or": [{ "a": 2 }, { "b": 3 }] }, None),
            (
                rawdoc! { "$and": [{ "$or": [{ "a": 3 }, { "a": 8 }] }, { "b": 2 }] },
                Some(2),
            ),
            (rawdoc! { "a.1": 2, "b": 1 }, Some(2)),
            (rawdoc! { "b.2": 1 }, None),
            (rawdoc! { "a": 77 }, None),
        ] {
            let filter = Filter::parse(&query).unwrap();
            assert_eq!(
                filter.array_position(&document).unwrap(),
                position,
                "{query:?}"
            );
        }
    }

    /// What mongod 6.0.5 projects with `{"z.$": 1}`: the last condition as written decides.
    #[test]
    fn a_projection_takes_the_conditions_as_they_were_written() {
        let document = rawdoc! { "a": [1, 2, 3, 2], "b": [3, 2, 1], "g": [{ "x": 1 }, { "x": 2 }] };
        for (query, position) in [
            (rawdoc! { "a": 2, "b": 1 }, Some(2)),
            (rawdoc! { "b": 1, "a": 2 }, Some(1)),
            (
                rawdoc! { "g": { "$elemMatch": { "x": 2 } }, "a": 1 },
                Some(0),
            ),
            (
                rawdoc! { "a": 1, "g": { "$elemMatch": { "x": 2 } } },
                Some(1),
            ),
            (rawdoc! { "a": { "$gt": 2, "$lt": 4 } }, Some(0)),
            (rawdoc! { "a": { "$lt": 4, "$gt": 2 } }, Some(2)),
            (rawdoc! { "$and": [{ "b": 2 }, { "a": 3 }] }, Some(2)),
            (rawdoc! { "$or": [{ "b": 1 }, { "b": 7 }] }, Some(2)),
            (rawdoc! { "$or": [{ "b": 1 }] }, Some(2)),
            (rawdoc! { "$or": [{ "a": 2 }, { "b": 3 }] }, None),
            (rawdoc! { "a": 3, "$or": [{ "b": 3 }] }, Some(0)),
            (rawdoc! { "a": 3, "$or": [{ "b": 3 }, { "a": 7 }] }, Some(2)),
            (rawdoc! { "$nor": [{ "b": 7 }], "a": 3 }, Some(2)),
            (rawdoc! { "a": { "$not": { "$not": { "$gt": 1 } } } }, None),
        ] {
            let filter = Filter::parse(&query).unwrap();
            assert_eq!(
                filter.array_position_as_written(&document).unwrap(),
                position,
                "{query:?}"
            );
        }
    }
}
