//! Whether a raw document satisfies a filter.
//!
//! In: a [`Filter`] and raw BSON. Out: a boolean, and the array position that the positional
//! operator `$` means. Scalar comparisons allocate nothing.

use super::filter::{Comparison, Divisor, Filter, InList, Predicate};
use super::parse::truncated;
use crate::error::Result;
use crate::operation;
use crate::pattern::{Pattern, take_failure};
use bson::RawDocument;
use bson::raw::RawBsonRef;
use meridian_value::Collation;
use meridian_value::field;
use meridian_value::number::Number;
use meridian_value::path::{LeafArrays, Path, visit};
use std::ops::ControlFlow;

/// The array element that made a filter match, if one did.
type MatchedPosition = Option<usize>;

impl Filter {
    /// Whether the document satisfies the filter.
    ///
    /// # Errors
    /// What an expression below `$expr` raises for this document.
    pub fn matches(&self, document: &RawDocument) -> Result<bool> {
        self.evaluate(document, &mut None)
    }

    pub(super) fn evaluate(
        &self,
        document: &RawDocument,
        position: &mut MatchedPosition,
    ) -> Result<bool> {
        let matches = self.evaluate_as::<true>(document, position)?;
        take_failure()?;
        Ok(matches)
    }

    /// `ASKS` tells that it ends where the statement has to.
    fn evaluate_as<const ASKS: bool>(
        &self,
        document: &RawDocument,
        position: &mut MatchedPosition,
    ) -> Result<bool> {
        match self {
            Self::Always => Ok(true),
            Self::Never => Ok(false),
            Self::Expr(condition) => condition.holds(document),
            Self::Where(condition) => condition.holds(document),
            Self::Schema(schema) => Ok(schema.matches(document)),
            Self::Text(condition) => condition.matches(document),
            Self::Field { path, predicate } => {
                if ASKS {
                    operation::check_walk(document)?;
                }
                Ok(predicate.matches_path(document, path, position))
            }
            Self::And(children) => {
                for child in children {
                    if !child.evaluate_as::<ASKS>(document, position)? {
                        *position = None;
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            Self::Or(children) => {
                for child in children {
                    if child.evaluate_as::<ASKS>(document, position)? {
                        return Ok(true);
                    }
                }
                Ok(false)
            }
            Self::Nor(children) => {
                for child in children {
                    if child.evaluate_as::<ASKS>(document, &mut None)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
        }
    }
}

impl Predicate {
    /// Whether the predicate holds for what the path reaches in the document.
    fn matches_path(
        &self,
        document: &RawDocument,
        path: &Path,
        position: &mut MatchedPosition,
    ) -> bool {
        match self {
            Self::Not(inner) => !inner.matches_path(document, path, &mut None),
            Self::Near(near) => near
                .measure(document, path.parts())
                .is_some_and(|measured| near.wants(measured.distance)),
            Self::Exists(false) => !Self::Exists(true).matches_path(document, path, &mut None),
            Self::And(predicates) => predicates
                .iter()
                .all(|predicate| predicate.matches_path(document, path, position)),
            _ => match reach(document, path) {
                Reached::Scalar(value) => self.matches_value(value, position),
                Reached::Array => self.matches_any(document, path, position),
            },
        }
    }

    fn matches_any(
        &self,
        document: &RawDocument,
        path: &Path,
        position: &mut MatchedPosition,
    ) -> bool {
        visit(document, path, self.leaf_arrays(), &mut |visited| {
            if !self.matches_value(visited.value, position) {
                return ControlFlow::Continue(());
            }
            if visited.array_index.is_some() {
                *position = visited.array_index;
            }
            ControlFlow::Break(())
        })
        .is_break()
    }

    /// Operators on arrays look at the array alone; the others at its elements, then at itself.
    fn leaf_arrays(&self) -> LeafArrays {
        match self {
            Self::Size(_) | Self::ElemMatchObject(_) | Self::ElemMatchValue(_) => LeafArrays::Keep,
            _ => LeafArrays::Traverse,
        }
    }

    /// Whether the predicate holds for one value; `None` is a missing field.
    pub fn matches_value(
        &self,
        value: Option<RawBsonRef<'_>>,
        position: &mut MatchedPosition,
    ) -> bool {
        match (self, value) {
            (Self::Compare(comparison, operand), value) => {
                comparison.holds(value, operand.value(), operand.collation())
            }
            (Self::In(list), value) => list.holds(value),
            (Self::Exists(wanted), value) => value.is_some() == *wanted,
            (Self::Not(inner), value) => !inner.matches_value(value, &mut None),
            (Self::And(predicates), value) => predicates
                .iter()
                .all(|predicate| predicate.matches_value(value, position)),
            (_, None) => false,
            (Self::Type(types), Some(value)) => types.contains(value.element_type()),
            (Self::Mod(divisor), Some(value)) => divisor.holds(value),
            (Self::Regex(pattern), Some(value)) => pattern.holds(value),
            (Self::Size(size), Some(value)) => value
                .as_array()
                .is_some_and(|array| array.into_iter().count() as i64 == *size),
            (Self::ElemMatchObject(filter), Some(value)) => {
                any_element(value, position, |element| {
                    let inner = match element {
                        RawBsonRef::Document(document) => document,
                        RawBsonRef::Array(array) => match RawDocument::from_bytes(array.as_bytes())
                        {
                            Ok(document) => document,
                            Err(_) => return false,
                        },
                        _ => return false,
                    };
                    // Parsing refuses $expr here, and nothing else raises errors.
                    let holds = filter.evaluate_as::<false>(inner, &mut None);
                    holds.unwrap_or(false)
                })
            }
            (Self::ElemMatchValue(predicates), Some(value)) => {
                any_element(value, position, |element| {
                    predicates
                        .iter()
                        .all(|predicate| predicate.matches_value(Some(element), &mut None))
                })
            }
            (Self::Bits(test), Some(value)) => test.matches(value),
            (Self::GeoWithin(region) | Self::GeoIntersects(region), Some(value)) => {
                region.matches_raw(value)
            }
            (Self::BucketGeo(_), Some(_)) => true,
            // Asked of whole documents, in `matches_path`: nothing else may hold it.
            (Self::Near(_), Some(_)) => false,
        }
    }
}

fn any_element<'a>(
    value: RawBsonRef<'a>,
    position: &mut MatchedPosition,
    mut holds: impl FnMut(RawBsonRef<'a>) -> bool,
) -> bool {
    let RawBsonRef::Array(array) = value else {
        return false;
    };
    let found = array.into_iter().flatten().position(&mut holds);
    if found.is_some() {
        *position = found;
    }
    found.is_some()
}

/// What a path reaches without passing through an array.
enum Reached<'a> {
    Scalar(Option<RawBsonRef<'a>>),
    /// An array is on the way or at the end: the general visitor has to look.
    Array,
}

/// Follows a path through documents only: the common case, without a closure per value.
#[inline]
fn reach<'a>(document: &'a RawDocument, path: &Path) -> Reached<'a> {
    let mut document = document;
    let mut parts = path.parts().iter();
    let Some(mut part) = parts.next() else {
        return Reached::Scalar(None);
    };
    loop {
        match (
            field::find(document, part.as_bytes()).and_then(|entry| entry.value()),
            parts.next(),
        ) {
            (Some(RawBsonRef::Array(_)), _) => return Reached::Array,
            (value, None) => return Reached::Scalar(value),
            (Some(RawBsonRef::Document(inner)), Some(next)) => {
                document = inner;
                part = next;
            }
            (_, Some(_)) => return Reached::Scalar(None),
        }
    }
}

impl Comparison {
    /// Whether `value <comparison> operand`, within the operand's type bracket.
    pub fn holds(
        self,
        value: Option<RawBsonRef<'_>>,
        operand: RawBsonRef<'_>,
        collation: &Collation,
    ) -> bool {
        let value = match value {
            // A missing field and undefined equal null.
            None | Some(RawBsonRef::Undefined) => return self.holds_for_missing(operand),
            Some(value) => value,
        };
        if meridian_value::canonical_type(value) != meridian_value::canonical_type(operand) {
            return self.holds_across_types(operand);
        }
        if is_nan(value) || is_nan(operand) {
            let both = is_nan(value) && is_nan(operand);
            return both && matches!(self, Self::Eq | Self::Lte | Self::Gte);
        }
        let order = collation.compare(value, operand);
        match self {
            Self::Eq => order.is_eq(),
            Self::Lt => order.is_lt(),
            Self::Lte => order.is_le(),
            Self::Gt => order.is_gt(),
            Self::Gte => order.is_ge(),
        }
    }

    fn holds_for_missing(self, operand: RawBsonRef<'_>) -> bool {
        match operand {
            RawBsonRef::Null => matches!(self, Self::Eq | Self::Lte | Self::Gte),
            other => self.holds_across_types(other),
        }
    }

    /// Only MinKey and MaxKey compare with values of other types.
    fn holds_across_types(self, operand: RawBsonRef<'_>) -> bool {
        match operand {
            RawBsonRef::MaxKey => matches!(self, Self::Lt | Self::Lte),
            RawBsonRef::MinKey => matches!(self, Self::Gt | Self::Gte),
            _ => false,
        }
    }
}

fn is_nan(value: RawBsonRef<'_>) -> bool {
    match value {
        RawBsonRef::Double(number) => number.is_nan(),
        RawBsonRef::Decimal128(_) => Number::from_raw(value).is_some_and(Number::is_nan),
        _ => false,
    }
}

impl InList {
    fn holds(&self, value: Option<RawBsonRef<'_>>) -> bool {
        match value {
            None | Some(RawBsonRef::Undefined) => self.has_null(),
            Some(value) => {
                self.contains(value) || self.patterns().iter().any(|pattern| pattern.holds(value))
            }
        }
    }
}

impl Pattern {
    /// A string or symbol that matches, or the same regular expression as a value.
    fn holds(&self, value: RawBsonRef<'_>) -> bool {
        match value {
            RawBsonRef::String(text) | RawBsonRef::Symbol(text) => self.is_match(text),
            RawBsonRef::RegularExpression(regex) => {
                regex.pattern.as_str() == self.source() && regex.options.as_str() == self.options()
            }
            _ => false,
        }
    }
}

impl Divisor {
    fn holds(self, value: RawBsonRef<'_>) -> bool {
        super::parse::is_number(value)
            && truncated(value)
                .is_ok_and(|number| number.wrapping_rem(self.divisor) == self.remainder)
    }
}
