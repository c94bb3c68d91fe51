//! Equality that ignores the order of fields: what `enum` and `uniqueItems` compare with.

use bson::raw::RawBsonRef;
use bson::{RawArray, RawDocument};
use std::cmp::Ordering;

/// Whether two values are equal up to the order of fields, at every level.
pub(super) fn equal(a: RawBsonRef<'_>, b: RawBsonRef<'_>) -> bool {
    compare(a, b).is_eq()
}

/// The first element that equals an earlier one.
pub(super) fn first_duplicate(array: &RawArray) -> Option<RawBsonRef<'_>> {
    let items: Vec<RawBsonRef<'_>> = array.into_iter().flatten().collect();
    let mut order: Vec<usize> = (0..items.len()).collect();
    order.sort_by(|a, b| compare(items[*a], items[*b]).then(a.cmp(b)));
    order
        .windows(2)
        .filter(|pair| compare(items[pair[0]], items[pair[1]]).is_eq())
        .map(|pair| pair[1])
        .min()
        .map(|index| items[index])
}

fn compare(a: RawBsonRef<'_>, b: RawBsonRef<'_>) -> Ordering {
    match (a, b) {
        (RawBsonRef::Document(a), RawBsonRef::Document(b)) => compare_fields(a, b),
        (RawBsonRef::Array(a), RawBsonRef::Array(b)) => {
            let mut left = a.into_iter().flatten();
            let mut right = b.into_iter().flatten();
            loop {
                let order = match (left.next(), right.next()) {
                    (Some(a), Some(b)) => compare(a, b),
                    (Some(_), None) => return Ordering::Greater,
                    (None, Some(_)) => return Ordering::Less,
                    (None, None) => return Ordering::Equal,
                };
                if order.is_ne() {
                    return order;
                }
            }
        }
        _ => meridian_value::compare(a, b),
    }
}

fn compare_fields(a: &RawDocument, b: &RawDocument) -> Ordering {
    let (left, right) = (sorted(a), sorted(b));
    for ((left_name, left_value), (right_name, right_value)) in left.iter().zip(&right) {
        let order = left_name
            .cmp(right_name)
            .then_with(|| compare(*left_value, *right_value));
        if order.is_ne() {
            return order;
        }
    }
    left.len().cmp(&right.len())
}

fn sorted(document: &RawDocument) -> Vec<(&str, RawBsonRef<'_>)> {
    let mut fields: Vec<_> = document
        .iter()
        .flatten()
        .map(|(name, value)| (name.as_str(), value))
        .collect();
    fields.sort_by_key(|(name, _)| *name);
    fields
}
