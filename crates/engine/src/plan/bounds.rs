//! Where in an index a predicate's values lie.
//!
//! A predicate in, [`FieldBounds`] out: ascending, disjoint intervals of encoded values. `exact` tells
//! that a document has a value within the bounds exactly when it matches; otherwise the bounds only
//! narrow the search and the document must be tested. MongoDB's type brackets hold: `$gt: 5` looks at
//! numbers only.

use crate::index::{IndexField, hash_value};
use crate::query::{Comparison, InList, Predicate, display_value};
use bson::raw::{CString, RawBsonRef};
use bson::{Bson, RawBson};
use meridian_value::key::{ABOVE_ALL, Direction, TypeBits, bracket_range, encode};

/// First bytes of the least and the greatest encoded value.
const LEAST: u8 = 0x08;
const GREATEST: u8 = 0xF0;

/// One end of an interval.
#[derive(Debug, Clone, PartialEq)]
struct End {
    /// An encoded value, or the first byte of a whole type bracket.
    bytes: Vec<u8>,
    inclusive: bool,
    /// As `explain` shows it.
    text: String,
}

/// Encoded values from `low` to `high`.
#[derive(Debug, Clone, PartialEq)]
struct Interval {
    low: End,
    high: End,
    /// The value, when the interval holds just one.
    point: Option<Bson>,
}

/// Key bytes from `start` up to but not including `end`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ByteRange {
    /// The first possible key.
    pub start: Vec<u8>,
    /// Above the last possible key.
    pub end: Vec<u8>,
}

/// Ascending, disjoint intervals of one field of an index.
#[derive(Debug, Clone, PartialEq)]
pub struct FieldBounds {
    intervals: Vec<Interval>,
    exact: bool,
}

impl End {
    fn value(value: RawBsonRef<'_>, inclusive: bool) -> Self {
        let mut bytes = Vec::new();
        encode(
            value,
            Direction::Ascending,
            &mut bytes,
            &mut TypeBits::new(),
        );
        Self {
            bytes,
            inclusive,
            text: display_value(value),
        }
    }

    fn first_byte(byte: u8, inclusive: bool, text: &str) -> Self {
        Self {
            bytes: vec![byte],
            inclusive,
            text: text.to_owned(),
        }
    }

    fn complement(&self) -> Vec<u8> {
        self.bytes.iter().map(|byte| !byte).collect()
    }
}

/// The bytes themselves, or the end of all keys that begin with them. Behind a whole value no key
/// goes on with [`ABOVE_ALL`]; behind the first byte of a bracket any byte may follow.
fn extended(mut bytes: Vec<u8>, above: bool) -> Vec<u8> {
    match bytes.as_mut_slice() {
        [first] if above => *first = first.saturating_add(1),
        _ if above => bytes.push(ABOVE_ALL),
        _ => {}
    }
    bytes
}

impl Interval {
    fn point(value: RawBsonRef<'_>) -> Self {
        Self {
            low: End::value(value, true),
            high: End::value(value, true),
            point: Bson::try_from(value).ok(),
        }
    }

    fn range(&self, direction: Direction) -> ByteRange {
        match direction {
            Direction::Ascending => ByteRange {
                start: self.start(),
                end: self.end(),
            },
            Direction::Descending => ByteRange {
                start: extended(self.high.complement(), !self.high.inclusive),
                end: extended(self.low.complement(), self.low.inclusive),
            },
        }
    }

    fn start(&self) -> Vec<u8> {
        extended(self.low.bytes.clone(), !self.low.inclusive)
    }

    fn end(&self) -> Vec<u8> {
        extended(self.high.bytes.clone(), self.high.inclusive)
    }

    fn is_empty(&self) -> bool {
        self.start() >= self.end()
    }

    fn text(&self) -> String {
        let open = if self.low.inclusive { '[' } else { '(' };
        let close = if self.high.inclusive { ']' } else { ')' };
        format!("{open}{}, {}{close}", self.low.text, self.high.text)
    }
}

impl FieldBounds {
    /// Every value.
    pub fn all() -> Self {
        let low = End::first_byte(LEAST, true, "MinKey");
        let high = End::first_byte(GREATEST, true, "MaxKey");
        Self {
            intervals: vec![Interval {
                low,
                high,
                point: None,
            }],
            exact: true,
        }
    }

    fn new(mut intervals: Vec<Interval>, exact: bool) -> Self {
        intervals.retain(|interval| !interval.is_empty());
        intervals.sort_by_key(Interval::start);
        intervals.dedup();
        Self { intervals, exact }
    }

    /// The bounds of a predicate in a field of this kind; `None` when an index does not help.
    pub fn from_predicate(predicate: &Predicate, field: IndexField) -> Option<Self> {
        match field {
            IndexField::Ascending | IndexField::Descending => by_value(predicate),
            IndexField::Hashed => by_hash(predicate),
            IndexField::Sphere2d => None,
        }
    }

    /// Whether having a value within the bounds is the same as matching.
    pub fn is_exact(&self) -> bool {
        self.exact
    }

    /// Whether nothing is left out.
    pub fn is_all(&self) -> bool {
        matches!(self.intervals.as_slice(), [only] if only.low.text == "MinKey" && only.high.text == "MaxKey"
            && only.low.inclusive && only.high.inclusive)
    }

    /// Whether exactly one value is within the bounds.
    pub fn is_single_point(&self) -> bool {
        matches!(self.intervals.as_slice(), [only] if only.point.is_some())
    }

    /// The values, when the bounds are single values only.
    pub fn points(&self) -> Option<Vec<&Bson>> {
        self.intervals
            .iter()
            .map(|interval| interval.point.as_ref())
            .collect()
    }

    /// Whether null, which stands for a missing field too, is within the bounds.
    pub fn contains_null(&self) -> bool {
        let null = End::value(RawBsonRef::Null, true).bytes;
        self.intervals
            .iter()
            .any(|interval| interval.start() <= null && null < interval.end())
    }

    /// What lies within both.
    #[must_use]
    pub fn intersect(&self, other: &Self) -> Self {
        let mut common = Vec::new();
        for a in &self.intervals {
            for b in &other.intervals {
                let low = if a.start() >= b.start() {
                    &a.low
                } else {
                    &b.low
                };
                let high = if a.end() <= b.end() { &a.high } else { &b.high };
                let point = a.point.clone().or_else(|| b.point.clone());
                common.push(Interval {
                    low: low.clone(),
                    high: high.clone(),
                    point,
                });
            }
        }
        Self::new(common, self.exact && other.exact)
    }

    /// What lies within either.
    #[must_use]
    fn union(mut self, other: Self) -> Self {
        self.intervals.extend(other.intervals);
        let merged = Self::new(self.intervals, self.exact && other.exact);
        merged.merge_overlaps()
    }

    fn merge_overlaps(self) -> Self {
        let mut merged: Vec<Interval> = Vec::with_capacity(self.intervals.len());
        for interval in self.intervals {
            match merged.last_mut() {
                Some(last) if interval.start() < last.end() => {
                    if interval.end() > last.end() {
                        last.high = interval.high;
                        last.point = None;
                    }
                }
                _ => merged.push(interval),
            }
        }
        Self {
            intervals: merged,
            exact: self.exact,
        }
    }

    /// What lies outside.
    fn complement(&self) -> Self {
        let whole = Self::all().intervals.remove(0);
        let mut outside = Vec::new();
        let mut low = whole.low;
        for interval in &self.intervals {
            let high = End {
                inclusive: !interval.low.inclusive,
                ..interval.low.clone()
            };
            outside.push(Interval {
                low,
                high,
                point: None,
            });
            low = End {
                inclusive: !interval.high.inclusive,
                ..interval.high.clone()
            };
        }
        outside.push(Interval {
            low,
            high: whole.high,
            point: None,
        });
        Self::new(outside, self.exact)
    }

    /// The key ranges of a field that is kept in this direction, ascending.
    pub fn ranges(&self, direction: Direction) -> Vec<ByteRange> {
        let mut ranges: Vec<ByteRange> = self
            .intervals
            .iter()
            .map(|interval| interval.range(direction))
            .collect();
        if direction == Direction::Descending {
            ranges.reverse();
        }
        ranges
    }

    /// The intervals as MongoDB's `explain` shows them, in the order of the walk.
    pub fn texts(&self, reversed: bool) -> Vec<String> {
        let text = |interval: &Interval| {
            if !reversed {
                return interval.text();
            }
            Interval {
                low: interval.high.clone(),
                high: interval.low.clone(),
                point: None,
            }
            .text()
        };
        let mut texts: Vec<String> = self.intervals.iter().map(text).collect();
        if reversed {
            texts.reverse();
        }
        texts
    }
}

fn by_hash(predicate: &Predicate) -> Option<FieldBounds> {
    let hashed = |value: &RawBson| {
        let value = value.as_raw_bson_ref();
        (!matches!(value, RawBsonRef::Array(_)))
            .then(|| Interval::point(RawBsonRef::Int64(hash_value(value))))
    };
    match predicate {
        Predicate::Compare(Comparison::Eq, value) => {
            Some(FieldBounds::new(vec![hashed(value)?], false))
        }
        Predicate::In(list) if list.patterns().is_empty() => {
            let points: Option<Vec<Interval>> = list.values().iter().map(hashed).collect();
            Some(FieldBounds::new(points?, false))
        }
        _ => None,
    }
}

fn by_value(predicate: &Predicate) -> Option<FieldBounds> {
    match predicate {
        Predicate::Compare(comparison, operand) => compare(*comparison, operand.as_raw_bson_ref()),
        Predicate::In(list) => within(list),
        Predicate::Exists(false) => Some(FieldBounds {
            exact: false,
            ..null()
        }),
        Predicate::Regex(pattern) => {
            Some(regex(pattern.prefix(), pattern.source(), pattern.options()))
        }
        Predicate::Mod(_) => bracket_of(RawBsonRef::Int32(0)).map(inexact),
        Predicate::ElemMatchValue(all) => {
            let mut bounds = FieldBounds::all();
            for own in all.iter().filter_map(by_value) {
                bounds = bounds.intersect(&own);
            }
            Some(inexact(bounds))
        }
        Predicate::Not(inner) => not(inner),
        _ => None,
    }
}

fn inexact(bounds: FieldBounds) -> FieldBounds {
    FieldBounds {
        exact: false,
        ..bounds
    }
}

fn null() -> FieldBounds {
    FieldBounds::new(vec![Interval::point(RawBsonRef::Null)], false)
}

fn compare(comparison: Comparison, operand: RawBsonRef<'_>) -> Option<FieldBounds> {
    match (comparison, operand) {
        (Comparison::Eq, _) => Some(equal(operand)),
        (_, RawBsonRef::Null) => Some(null().union(FieldBounds::new(
            vec![Interval::point(RawBsonRef::Undefined)],
            false,
        ))),
        (_, RawBsonRef::Array(_) | RawBsonRef::Undefined) => None,
        (_, RawBsonRef::MinKey | RawBsonRef::MaxKey) => None,
        (_, RawBsonRef::Double(number)) if number.is_nan() => {
            let inclusive = matches!(comparison, Comparison::Lte | Comparison::Gte);
            let points = if inclusive {
                vec![Interval::point(operand)]
            } else {
                Vec::new()
            };
            Some(FieldBounds::new(points, true))
        }
        (_, RawBsonRef::Decimal128(_)) => Some(inexact(one_sided(comparison, operand)?)),
        _ => one_sided(comparison, operand),
    }
}

/// From the operand to the end of its type bracket.
fn one_sided(comparison: Comparison, operand: RawBsonRef<'_>) -> Option<FieldBounds> {
    let whole = bracket_of(operand)?.intervals.remove(0);
    let inclusive = matches!(comparison, Comparison::Lte | Comparison::Gte);
    let end = End::value(operand, inclusive);
    let interval = match comparison {
        Comparison::Lt | Comparison::Lte => Interval {
            low: whole.low,
            high: end,
            point: None,
        },
        _ => Interval {
            low: end,
            high: whole.high,
            point: None,
        },
    };
    Some(FieldBounds::new(vec![interval], true))
}

fn equal(operand: RawBsonRef<'_>) -> FieldBounds {
    match operand {
        RawBsonRef::Null => null().union(FieldBounds::new(
            vec![Interval::point(RawBsonRef::Undefined)],
            false,
        )),
        // A whole array is not in the index, its elements are; an empty one is there as undefined.
        RawBsonRef::Array(array) => {
            let first = array
                .into_iter()
                .next()
                .and_then(Result::ok)
                .unwrap_or(RawBsonRef::Undefined);
            FieldBounds::new(
                vec![Interval::point(first), Interval::point(operand)],
                false,
            )
        }
        _ => FieldBounds::new(vec![Interval::point(operand)], true),
    }
}

fn within(list: &InList) -> Option<FieldBounds> {
    let mut bounds = FieldBounds::new(Vec::new(), true);
    for value in list.values() {
        let own = equal(value.as_raw_bson_ref());
        bounds.exact &= own.exact;
        bounds.intervals.extend(own.intervals);
    }
    for pattern in list.patterns() {
        let own = regex(pattern.prefix(), pattern.source(), pattern.options());
        bounds.exact = false;
        bounds.intervals.extend(own.intervals);
    }
    Some(FieldBounds::new(bounds.intervals, bounds.exact).merge_overlaps())
}

/// Strings that may match a regular expression, and the expression itself as a value.
fn regex(prefix: Option<(String, bool)>, source: &str, options: &str) -> FieldBounds {
    let strings = match prefix {
        Some((prefix, _)) if !prefix.is_empty() => {
            let low = End::value(RawBsonRef::String(&prefix), true);
            // Every string that begins so: its encoding without the terminator, and all behind it.
            let mut bytes = low.bytes.clone();
            bytes.pop();
            let high = End {
                bytes,
                inclusive: true,
                text: format!("{}…", low.text),
            };
            FieldBounds::new(
                vec![Interval {
                    low,
                    high,
                    point: None,
                }],
                false,
            )
        }
        _ => bracket_of(RawBsonRef::String(""))
            .map(inexact)
            .unwrap_or_else(FieldBounds::all),
    };
    let text =
        |part: &str| CString::try_from(part).expect("a regular expression from BSON has no NUL");
    let value = Bson::RegularExpression(bson::Regex {
        pattern: text(source),
        options: text(options),
    });
    let own = meridian_value::with_raw(&value, |raw| {
        FieldBounds::new(vec![Interval::point(raw)], false)
    });
    strings.union(own)
}

fn not(inner: &Predicate) -> Option<FieldBounds> {
    match inner {
        Predicate::Compare(Comparison::Eq, RawBson::Null) => Some(null().complement()),
        Predicate::Compare(..) | Predicate::In(_) => by_value(inner)
            .filter(FieldBounds::is_exact)
            .map(|bounds| bounds.complement()),
        _ => None,
    }
}

/// All values of the operand's type bracket.
fn bracket_of(operand: RawBsonRef<'_>) -> Option<FieldBounds> {
    let (first, last) = bracket_range(meridian_value::canonical_type(operand))?;
    let infinity = |number| End::value(RawBsonRef::Double(number), true);
    let (low, high) = match operand {
        RawBsonRef::Int32(_)
        | RawBsonRef::Int64(_)
        | RawBsonRef::Double(_)
        | RawBsonRef::Decimal128(_) => {
            let mut low = infinity(f64::NEG_INFINITY);
            let mut high = infinity(f64::INFINITY);
            (low.text, high.text) = ("-inf".into(), "inf".into());
            (low, high)
        }
        _ => {
            let (low, high, last_inclusive) = bracket_texts(operand);
            (
                End::first_byte(first, true, low),
                End {
                    inclusive: true,
                    ..End::first_byte(last, last_inclusive, high)
                },
            )
        }
    };
    Some(FieldBounds::new(
        vec![Interval {
            low,
            high,
            point: None,
        }],
        true,
    ))
}

/// How MongoDB shows the ends of a bracket.
fn bracket_texts(operand: RawBsonRef<'_>) -> (&'static str, &'static str, bool) {
    match operand {
        RawBsonRef::String(_) | RawBsonRef::Symbol(_) => ("\"\"", "{}", false),
        RawBsonRef::Document(_) => ("{}", "[]", false),
        RawBsonRef::DateTime(_) => (
            "new Date(-9223372036854775808)",
            "new Date(9223372036854775807)",
            true,
        ),
        RawBsonRef::ObjectId(_) => (
            "ObjectId('000000000000000000000000')",
            "ObjectId('ffffffffffffffffffffffff')",
            true,
        ),
        RawBsonRef::Boolean(_) => ("false", "true", true),
        RawBsonRef::Timestamp(_) => ("Timestamp(0, 0)", "Timestamp(4294967295, 4294967295)", true),
        _ => ("MinValue", "MaxValue", true),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::query::Filter;
    use bson::rawdoc;

    fn bounds(condition: bson::RawDocumentBuf) -> FieldBounds {
        let filter = Filter::parse(&rawdoc! { "a": condition }).unwrap();
        let mut bounds = FieldBounds::all();
        for conjunct in filter.conjuncts() {
            let Filter::Field { predicate, .. } = conjunct else {
                panic!("not a field")
            };
            bounds = bounds
                .intersect(&FieldBounds::from_predicate(predicate, IndexField::Ascending).unwrap());
        }
        bounds
    }

    #[test]
    fn ranges_stay_in_their_type_bracket() {
        assert_eq!(bounds(rawdoc! { "$gt": 5 }).texts(false), ["(5, inf]"]);
        assert_eq!(
            bounds(rawdoc! { "$gt": 10, "$lt": 20 }).texts(false),
            ["(10, 20)"]
        );
        assert_eq!(
            bounds(rawdoc! { "$in": [3, 1, 3] }).texts(false),
            ["[1, 1]", "[3, 3]"]
        );
        assert_eq!(
            bounds(rawdoc! { "$ne": 3 }).texts(false),
            ["[MinKey, 3)", "(3, MaxKey]"]
        );
        assert_eq!(
            bounds(rawdoc! { "$gt": 10, "$lt": 5 }).texts(false),
            Vec::<String>::new()
        );
    }

    #[test]
    fn byte_ranges_hold_what_the_bounds_say_in_both_directions() {
        for direction in [Direction::Ascending, Direction::Descending] {
            let ranges = bounds(rawdoc! { "$gt": 10, "$lte": 20 }).ranges(direction);
            for (value, inside) in [(9, false), (10, false), (11, true), (20, true), (21, false)] {
                let mut key = Vec::new();
                encode(
                    RawBsonRef::Int32(value),
                    direction,
                    &mut key,
                    &mut TypeBits::new(),
                );
                key.extend_from_slice(b"\x60identifier");
                let found = ranges
                    .iter()
                    .any(|range| range.start <= key && key < range.end);
                assert_eq!(found, inside, "{value} {direction:?}");
            }
        }
    }
}
