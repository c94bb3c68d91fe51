//! Intervals of values, and of the bytes that encode them.

use super::ByteRange;
use crate::text::text;
use bson::{Bson, RawBsonRef};
use meridian_value::Collation;
use meridian_value::key::{ABOVE_ALL, Direction, TypeBits, encode};
use meridian_value::with_raw;
use smallvec::SmallVec;
use std::cmp::Ordering;
use std::sync::LazyLock;

/// Room for most encodings.
const KEY_BYTES: usize = 32;

/// One end of an interval: a value, and whether the interval includes it.
#[derive(Debug, Clone, PartialEq)]
pub struct End {
    value: Bson,
    inclusive: bool,
    /// The value's ascending encoding.
    key: SmallVec<[u8; 24]>,
}

impl End {
    /// An end at this value, among values that are ordered by a collation.
    pub fn new(value: Bson, inclusive: bool, collation: &Collation) -> Self {
        let mut key = Vec::with_capacity(KEY_BYTES);
        with_raw(&value, |raw| {
            collation.encode(raw, Direction::Ascending, &mut key, &mut TypeBits::new())
        });
        End {
            value,
            inclusive,
            key: SmallVec::from_slice(&key),
        }
    }

    /// The value at the end.
    pub fn value(&self) -> &Bson {
        &self.value
    }

    /// The value's encoding in a direction.
    pub fn key(&self, direction: Direction) -> Vec<u8> {
        let mut key = Vec::new();
        push(self, direction, false, &mut key);
        key
    }

    /// Whether the interval includes it.
    pub fn is_inclusive(&self) -> bool {
        self.inclusive
    }

    /// The same value on the other side of what it bounds.
    fn opposite(&self) -> Self {
        End {
            inclusive: !self.inclusive,
            ..self.clone()
        }
    }
}

/// The values from `low` to `high`; `low` is not above `high`.
#[derive(Debug, Clone, PartialEq)]
pub struct Interval {
    low: End,
    /// `None` when it is the lower one.
    high: Option<End>,
}

impl Interval {
    /// The values between two ends.
    pub fn new(low: End, high: End) -> Self {
        let high = (high != low).then_some(high);
        Interval { low, high }
    }

    /// One value, and those that compare equal to it.
    pub fn point(value: Bson, collation: &Collation) -> Self {
        Interval {
            low: End::new(value, true, collation),
            high: None,
        }
    }

    /// From MinKey to MaxKey.
    pub fn all() -> Self {
        static ALL: LazyLock<Interval> = LazyLock::new(|| {
            let end = |value| End::new(value, true, &Collation::SIMPLE);
            Interval::new(end(Bson::MinKey), end(Bson::MaxKey))
        });
        ALL.clone()
    }

    /// The lower end.
    pub fn low(&self) -> &End {
        &self.low
    }

    /// The upper end.
    pub fn high(&self) -> &End {
        self.high.as_ref().unwrap_or(&self.low)
    }

    /// True for exactly one value.
    pub fn is_point(&self) -> bool {
        let (low, high) = (&self.low, self.high());
        low.inclusive && high.inclusive && low.key == high.key
    }

    /// True for every value.
    pub fn is_all(&self) -> bool {
        let (low, high) = (&self.low, self.high());
        let includes_both = low.inclusive && high.inclusive;
        includes_both && matches!((&low.value, &high.value), (Bson::MinKey, Bson::MaxKey))
    }

    /// The first ascending bytes within.
    fn start(&self) -> EncodedEdge<'_> {
        EncodedEdge(&self.low.key, !self.low.inclusive)
    }

    /// The first ascending bytes behind.
    fn end(&self) -> EncodedEdge<'_> {
        let high = self.high();
        EncodedEdge(&high.key, high.inclusive)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.start().compare(self.end()).is_ge()
    }

    /// Which begins first.
    pub(super) fn compare_starts(&self, other: &Self) -> Ordering {
        self.start().compare(other.start())
    }

    fn compare_ends(&self, other: &Self) -> Ordering {
        self.end().compare(other.end())
    }

    /// True when this value is within.
    pub fn contains(&self, value: RawBsonRef<'_>) -> bool {
        let mut key = Vec::with_capacity(KEY_BYTES);
        encode(value, Direction::Ascending, &mut key, &mut TypeBits::new());
        let key = EncodedEdge(&key, false);
        self.start().compare(key).is_le() && key.compare(self.end()).is_lt()
    }

    /// The bytes of a field that is kept in this direction.
    pub fn range(&self, direction: Direction) -> ByteRange {
        let (mut start, mut end) = (Vec::new(), Vec::new());
        self.push_start(direction, &mut start);
        let (last, is_included) = match direction {
            Direction::Ascending => (self.high(), self.high().inclusive),
            Direction::Descending => (&self.low, self.low.inclusive),
        };
        push(last, direction, is_included, &mut end);
        ByteRange { start, end }
    }

    /// Adds the first bytes of the field within.
    pub(super) fn push_start(&self, direction: Direction, bytes: &mut Vec<u8>) {
        let first = match direction {
            Direction::Ascending => &self.low,
            Direction::Descending => self.high(),
        };
        push(first, direction, !first.inclusive, bytes);
    }

    pub(super) fn intersect(&self, other: &Self) -> Self {
        let low = std::cmp::max_by(other, self, |a, b| a.compare_starts(b));
        let high = std::cmp::min_by(self, other, |a, b| a.compare_ends(b));
        Interval::new(low.low.clone(), high.high().clone())
    }

    /// Joins an interval that begins within this one or where it ends; `None` if it begins later.
    pub(super) fn join(&self, later: &Self) -> Option<Self> {
        later.start().compare(self.end()).is_le().then(|| {
            let high = std::cmp::max_by(later, self, |a, b| a.compare_ends(b));
            Interval::new(self.low.clone(), high.high().clone())
        })
    }

    /// What lies between the end of `before` and the start of `after`; from MinKey or to
    /// MaxKey where there is none.
    pub(super) fn gap(before: Option<&Self>, after: Option<&Self>) -> Self {
        let whole = Self::all();
        let low = before.map_or(whole.low.clone(), |interval| interval.high().opposite());
        let high = after.map_or(whole.high().clone(), |interval| interval.low.opposite());
        Interval::new(low, high)
    }

    /// The interval as `explain` shows it, `[1, 5)`; walked from above, `(5, 1]`.
    pub fn text(&self, reversed: bool) -> String {
        let (first, last) = if reversed {
            (self.high(), &self.low)
        } else {
            (&self.low, self.high())
        };
        let open = if first.inclusive { '[' } else { '(' };
        let close = if last.inclusive { ']' } else { ')' };
        format!(
            "{open}{}, {}{close}",
            value_text(&first.value),
            value_text(&last.value)
        )
    }
}

fn value_text(value: &Bson) -> String {
    match value {
        // The least DBPointer, which bounds the regular expressions from above.
        Bson::DbPointer(_) => "DBRef('',000000000000000000000000)".into(),
        value => with_raw(value, text),
    }
}

/// Adds the bytes of a field at this end; or those above all that begin with them.
fn push(end: &End, direction: Direction, above: bool, bytes: &mut Vec<u8>) {
    bytes.reserve(end.key.len() + 1);
    match direction {
        Direction::Ascending => bytes.extend_from_slice(&end.key),
        Direction::Descending => bytes.extend(end.key.iter().map(|byte| !byte)),
    }
    if above {
        bytes.push(ABOVE_ALL);
    }
}

/// An encoding, or what lies above all that begins with it; compares as the bytes do.
#[derive(Clone, Copy)]
struct EncodedEdge<'k>(&'k [u8], bool);

impl EncodedEdge<'_> {
    /// The bytes from here on.
    fn rest(self, from: usize) -> impl Iterator<Item = u8> {
        let above = self.1.then_some(ABOVE_ALL);
        self.0[from..].iter().copied().chain(above)
    }

    fn compare(self, other: EncodedEdge<'_>) -> Ordering {
        let common = self.0.len().min(other.0.len());
        let first = self.0[..common].cmp(&other.0[..common]);
        first.then_with(|| self.rest(common).cmp(other.rest(common)))
    }
}
