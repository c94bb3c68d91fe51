//! Intervals of values, and of the bytes that encode them.

use super::ByteRange;
use crate::query::text::text;
use bson::{Bson, RawBsonRef};
use meridian_value::key::{ABOVE_ALL, Direction, TypeBits, encode};
use meridian_value::with_raw;
use smallvec::SmallVec;
use std::sync::LazyLock;

/// One end of an interval: a value, and whether the interval includes it.
#[derive(Debug, Clone, PartialEq)]
pub struct End {
    value: Bson,
    inclusive: bool,
    /// The value's ascending encoding.
    key: SmallVec<[u8; 24]>,
}

impl End {
    /// An end at this value.
    pub fn new(value: Bson, inclusive: bool) -> Self {
        let mut key = Vec::new();
        with_raw(&value, |raw| {
            encode(raw, Direction::Ascending, &mut key, &mut TypeBits::new())
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
    high: End,
}

impl Interval {
    /// The values between two ends.
    pub fn new(low: End, high: End) -> Self {
        Interval { low, high }
    }

    /// One value, and those that compare equal to it.
    pub fn point(value: Bson) -> Self {
        let end = End::new(value, true);
        Interval {
            low: end.clone(),
            high: end,
        }
    }

    /// From MinKey to MaxKey.
    pub fn all() -> Self {
        static ALL: LazyLock<Interval> = LazyLock::new(|| Interval {
            low: End::new(Bson::MinKey, true),
            high: End::new(Bson::MaxKey, true),
        });
        ALL.clone()
    }

    /// The lower end.
    pub fn low(&self) -> &End {
        &self.low
    }

    /// The upper end.
    pub fn high(&self) -> &End {
        &self.high
    }

    /// True for exactly one value.
    pub fn is_point(&self) -> bool {
        self.low.inclusive && self.high.inclusive && self.low.key == self.high.key
    }

    /// True for every value.
    pub fn is_all(&self) -> bool {
        let ends = (&self.low.value, &self.high.value);
        let includes_both = self.low.inclusive && self.high.inclusive;
        includes_both && matches!(ends, (Bson::MinKey, Bson::MaxKey))
    }

    /// The first ascending bytes within.
    pub(super) fn start(&self) -> Vec<u8> {
        extended(self.low.key.to_vec(), !self.low.inclusive)
    }

    /// The first ascending bytes behind.
    pub(super) fn end(&self) -> Vec<u8> {
        extended(self.high.key.to_vec(), self.high.inclusive)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.start() >= self.end()
    }

    /// True when this value is within.
    pub fn contains(&self, value: RawBsonRef<'_>) -> bool {
        let mut key = Vec::new();
        encode(value, Direction::Ascending, &mut key, &mut TypeBits::new());
        self.start() <= key && key < self.end()
    }

    /// The bytes of a field that is kept in this direction.
    pub fn range(&self, direction: Direction) -> ByteRange {
        match direction {
            Direction::Ascending => ByteRange {
                start: self.start(),
                end: self.end(),
            },
            Direction::Descending => ByteRange {
                start: extended(complement(&self.high.key), !self.high.inclusive),
                end: extended(complement(&self.low.key), self.low.inclusive),
            },
        }
    }

    pub(super) fn intersect(&self, other: &Self) -> Self {
        let low = if self.start() >= other.start() {
            &self.low
        } else {
            &other.low
        };
        let high = if self.end() <= other.end() {
            &self.high
        } else {
            &other.high
        };
        Interval {
            low: low.clone(),
            high: high.clone(),
        }
    }

    /// Joins an interval that begins within this one or where it ends; `None` if it begins later.
    pub(super) fn join(&self, later: &Self) -> Option<Self> {
        (later.start() <= self.end()).then(|| {
            let high = if later.end() > self.end() {
                &later.high
            } else {
                &self.high
            };
            Interval {
                low: self.low.clone(),
                high: high.clone(),
            }
        })
    }

    /// What lies between the end of `before` and the start of `after`; from MinKey or to
    /// MaxKey where there is none.
    pub(super) fn gap(before: Option<&Self>, after: Option<&Self>) -> Self {
        let whole = Self::all();
        Interval {
            low: before.map_or(whole.low, |interval| interval.high.opposite()),
            high: after.map_or(whole.high, |interval| interval.low.opposite()),
        }
    }

    /// The interval as `explain` shows it, `[1, 5)`; walked from above, `(5, 1]`.
    pub fn text(&self, reversed: bool) -> String {
        let (first, last) = if reversed {
            (&self.high, &self.low)
        } else {
            (&self.low, &self.high)
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

fn extended(mut bytes: Vec<u8>, above: bool) -> Vec<u8> {
    if above {
        bytes.push(ABOVE_ALL);
    }
    bytes
}

fn complement(bytes: &[u8]) -> Vec<u8> {
    bytes.iter().map(|byte| !byte).collect()
}
