//! Whether a query stays within a partial index: everything it matches must match the index's filter.
//!
//! Conservative: a `false` only means that the index is not used.

use crate::query::{Comparison, Filter, InList, Operand, Predicate};
use bson::RawBson;
use meridian_value::holds_text;
use meridian_value::number::Number;
use std::cmp::Ordering;

/// Whether every document that matches `query` matches `partial`.
pub(super) fn implies(query: &Filter, partial: &Filter) -> bool {
    match partial {
        Filter::Always => true,
        Filter::And(parts) => parts.iter().all(|part| implies(query, part)),
        Filter::Or(parts) => {
            // (Of fields alone, so that no depth multiplies with that of the query.)
            let is_flat = || {
                parts
                    .iter()
                    .all(|part| matches!(part, Filter::Field { .. }))
            };
            parts.iter().any(|part| implies(query, part))
                || is_flat() && branches_imply(query, partial)
        }
        Filter::Field { path, predicate } => {
            query.conjuncts().iter().any(|conjunct| match conjunct {
                Filter::Field {
                    path: own,
                    predicate: asked,
                } => own == path && predicate_implies(asked, predicate),
                _ => false,
            }) || branches_imply(query, partial)
        }
        _ => false,
    }
}

/// Whether all branches of an `$or` that the query asks for stay within.
fn branches_imply(query: &Filter, partial: &Filter) -> bool {
    let mut conjuncts = query.conjuncts().iter();
    conjuncts.any(|conjunct| match conjunct {
        Filter::Or(branches) => branches.iter().all(|branch| implies(branch, partial)),
        _ => false,
    })
}

fn predicate_implies(asked: &Predicate, needed: &Predicate) -> bool {
    match (asked, needed) {
        (Predicate::Compare(comparison, operand), Predicate::Exists(true)) => {
            !matches!(**operand, RawBson::Null)
                || matches!(comparison, Comparison::Lt | Comparison::Gt)
        }
        (Predicate::In(list), Predicate::Exists(true)) => !list.has_null(),
        (Predicate::Exists(true), Predicate::Exists(true)) => true,
        (
            Predicate::Type(_)
            | Predicate::Regex(_)
            | Predicate::Mod(_)
            | Predicate::Size(_)
            | Predicate::ElemMatchObject(_)
            | Predicate::ElemMatchValue(_)
            | Predicate::GeoWithin(_)
            | Predicate::GeoIntersects(_)
            | Predicate::Near(_),
            Predicate::Exists(true),
        ) => true,
        (Predicate::Compare(asked, a), Predicate::Compare(needed, b)) => {
            comparison_implies(*asked, a, *needed, b)
        }
        (Predicate::In(list), Predicate::Compare(needed, b)) => {
            list.patterns().is_empty()
                && list.values().iter().all(|a| {
                    comparison_implies(Comparison::Eq, &list.operand(a.clone()), *needed, b)
                })
        }
        (Predicate::Type(asked), Predicate::Type(needed)) => {
            asked.kinds().all(|kind| needed.contains(kind))
        }
        (Predicate::In(asked), Predicate::In(needed)) => {
            asked.patterns().is_empty()
                && asked
                    .values()
                    .iter()
                    .all(|value| holds(needed, &asked.operand(value.clone())))
        }
        (Predicate::Compare(Comparison::Eq, value), Predicate::In(needed)) => holds(needed, value),
        _ => false,
    }
}

/// Whether `x <asked> a` makes `x <needed> b` certain.
fn comparison_implies(asked: Comparison, a: &Operand, needed: Comparison, b: &Operand) -> bool {
    let bracket = |operand: &Operand| meridian_value::canonical_type(operand.value());
    if bracket(a) != bracket(b) {
        return false;
    }
    let Some(order) = compare(a, b) else {
        return false;
    };
    if is_nan(a) || is_nan(b) {
        // It is less than all numbers where these are ordered, and only equal to itself where they are compared.
        let holds_for_equal = |comparison| !matches!(comparison, Comparison::Lt | Comparison::Gt);
        return is_nan(a) && is_nan(b) && holds_for_equal(asked) && holds_for_equal(needed);
    }
    match (asked, needed) {
        (Comparison::Eq, Comparison::Eq) => order == Ordering::Equal,
        (Comparison::Eq | Comparison::Lt | Comparison::Lte, Comparison::Lte) => {
            order != Ordering::Greater
        }
        (Comparison::Eq | Comparison::Lte, Comparison::Lt) => order == Ordering::Less,
        (Comparison::Lt, Comparison::Lt) => order != Ordering::Greater,
        (Comparison::Eq | Comparison::Gt | Comparison::Gte, Comparison::Gte) => {
            order != Ordering::Less
        }
        (Comparison::Eq | Comparison::Gte, Comparison::Gt) => order == Ordering::Greater,
        (Comparison::Gt, Comparison::Gt) => order != Ordering::Less,
        _ => false,
    }
}

fn is_nan(operand: &Operand) -> bool {
    Number::from_raw(operand.value()).is_some_and(Number::is_nan)
}

/// The order of two operands; none where the texts in them are compared by different collations.
fn compare(a: &Operand, b: &Operand) -> Option<Ordering> {
    let is_told =
        a.collation() == b.collation() || !(holds_text(a.value()) || holds_text(b.value()));
    is_told.then(|| b.collation().compare(a.value(), b.value()))
}

/// Whether an operand is certainly one of those in the list.
fn holds(list: &InList, operand: &Operand) -> bool {
    let mut values = list.values().iter();
    values.any(|other| compare(operand, &list.operand(other.clone())) == Some(Ordering::Equal))
}

#[cfg(test)]
mod tests {
    use super::*;
    use bson::{RawDocumentBuf, rawdoc};

    fn holds(query: RawDocumentBuf, partial: RawDocumentBuf) -> bool {
        implies(
            &Filter::parse(&query).unwrap(),
            &Filter::parse(&partial).unwrap(),
        )
    }

    #[test]
    fn only_queries_inside_the_partial_filter_may_use_its_index() {
        let over_five = || rawdoc! { "a": { "$gt": 5 } };
        assert!(holds(rawdoc! { "a": { "$gt": 5 }, "b": 1 }, over_five()));
        assert!(holds(rawdoc! { "a": 6 }, over_five()));
        assert!(holds(rawdoc! { "a": { "$in": [6, 7] } }, over_five()));
        assert!(!holds(rawdoc! { "a": { "$in": [5, 7] } }, over_five()));
        assert!(!holds(rawdoc! { "a": { "$gte": 5 } }, over_five()));
        assert!(!holds(rawdoc! { "a": "x" }, over_five()));
        assert!(!holds(rawdoc! { "b": 6 }, over_five()));
        let exists = || rawdoc! { "a": { "$exists": true } };
        assert!(holds(rawdoc! { "a": 1 }, exists()));
        assert!(!holds(rawdoc! { "a": null }, exists()));
        let either = || rawdoc! { "$or": [{ "a": 1 }, { "b": { "$lt": 3 } }] };
        let both = rawdoc! { "$or": [{ "b": 2 }, { "a": 1, "c": 5 }] };
        assert!(holds(both, either()));
        let other = rawdoc! { "$or": [{ "b": 2 }, { "a": 2 }] };
        assert!(!holds(other, either()));
    }

    #[test]
    fn nan_is_within_nothing_but_itself() {
        let all = ["$eq", "$gt", "$gte", "$lt", "$lte"];
        let condition = |operator: &str, value: f64| {
            let mut own = RawDocumentBuf::new();
            own.append(bson::raw::CString::try_from(operator).unwrap(), value);
            rawdoc! { "a": own }
        };
        let matches = |filter: &RawDocumentBuf, value: f64| {
            let filter = Filter::parse(filter).unwrap();
            filter.matches(&rawdoc! { "a": value }).unwrap()
        };
        let values = [f64::NAN, f64::NEG_INFINITY, 4.0, 5.0, 6.0];
        for (asked, needed) in all.iter().flat_map(|one| all.map(|other| (*one, other))) {
            for (a, b) in [
                (f64::NAN, 5.0),
                (5.0, f64::NAN),
                (f64::NAN, f64::NAN),
                (5.0, 5.0),
                (4.0, 6.0),
            ] {
                let (query, partial) = (condition(asked, a), condition(needed, b));
                let is_outside =
                    |value: &f64| matches(&query, *value) && !matches(&partial, *value);
                let is_wrong =
                    values.iter().any(is_outside) && holds(query.clone(), partial.clone());
                assert!(!is_wrong, "{query:?} within {partial:?}");
            }
        }
        assert!(holds(
            condition("$lte", f64::NAN),
            condition("$eq", f64::NAN)
        ));
    }
}
