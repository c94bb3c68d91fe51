//! The bounds of one field, and what can be done with them.

use super::{ByteRange, End, Interval, Tightness};
use bson::RawBsonRef;
use bson::raw::RawArrayBuf;
use meridian_value::key::Direction;
use meridian_value::{canonical_type, with_raw};

/// Ascending, disjoint intervals of one field's values.
#[derive(Debug, Clone, PartialEq)]
pub struct FieldBounds {
    intervals: Vec<Interval>,
    tightness: Tightness,
}

impl FieldBounds {
    /// Every value; exact, for no condition at all.
    pub fn all() -> Self {
        FieldBounds {
            intervals: vec![Interval::all()],
            tightness: Tightness::Exact,
        }
    }

    /// No value.
    pub fn none() -> Self {
        FieldBounds {
            intervals: Vec::new(),
            tightness: Tightness::Exact,
        }
    }

    /// The union of intervals in any order.
    pub fn new(mut intervals: Vec<Interval>, tightness: Tightness) -> Self {
        intervals.retain(|interval| !interval.is_empty());
        if intervals.len() < 2 {
            return FieldBounds {
                intervals,
                tightness,
            };
        }
        intervals.sort_by(Interval::compare_starts);
        let mut merged: Vec<Interval> = Vec::with_capacity(intervals.len());
        for interval in intervals {
            match merged
                .last_mut()
                .and_then(|last| last.join(&interval).map(|both| (last, both)))
            {
                Some((last, both)) => *last = both,
                None => merged.push(interval),
            }
        }
        FieldBounds {
            intervals: merged,
            tightness,
        }
    }

    /// The same intervals, proving at most this.
    #[must_use]
    pub fn at_most(self, tightness: Tightness) -> Self {
        FieldBounds {
            tightness: self.tightness.max(tightness),
            ..self
        }
    }

    /// The intervals, ascending.
    pub fn intervals(&self) -> &[Interval] {
        &self.intervals
    }

    /// What having a key within the bounds proves.
    pub fn tightness(&self) -> Tightness {
        self.tightness
    }

    /// Whether having a key within the bounds is the same as matching.
    pub fn is_exact(&self) -> bool {
        self.tightness == Tightness::Exact
    }

    /// True when nothing is left out.
    pub fn is_all(&self) -> bool {
        matches!(self.intervals.as_slice(), [only] if only.is_all())
    }

    /// True when nothing is within.
    pub fn is_empty(&self) -> bool {
        self.intervals.is_empty()
    }

    /// Whether there may be a text within, or a document or an array, which may hold one.
    pub fn may_hold_text(&self) -> bool {
        let kind = |end: &End| with_raw(end.value(), canonical_type);
        let (first, last) = (
            canonical_type(RawBsonRef::String("")),
            canonical_type(RawBsonRef::Array(&RawArrayBuf::new())),
        );
        let mut intervals = self.intervals.iter();
        intervals.any(|interval| kind(interval.low()) <= last && kind(interval.high()) >= first)
    }

    /// True for exactly one value.
    pub fn is_single_point(&self) -> bool {
        matches!(self.intervals.as_slice(), [only] if only.is_point())
    }

    /// True for single values only.
    pub fn is_points(&self) -> bool {
        self.intervals.iter().all(Interval::is_point)
    }

    /// The values, when the bounds are single values only.
    pub fn points(&self) -> Option<Vec<&End>> {
        self.is_points()
            .then(|| self.intervals.iter().map(Interval::low).collect())
    }

    /// True when this value is within.
    pub fn contains(&self, value: RawBsonRef<'_>) -> bool {
        self.intervals
            .iter()
            .any(|interval| interval.contains(value))
    }

    /// Whether null, which stands for a missing field too, is within.
    pub fn contains_null(&self) -> bool {
        self.contains(RawBsonRef::Null)
    }

    /// What lies within both. Not for two predicates on a multikey field, see the module.
    #[must_use]
    pub fn intersect(&self, other: &Self) -> Self {
        let pairs = self
            .intervals
            .iter()
            .flat_map(|a| other.intervals.iter().map(move |b| a.intersect(b)));
        Self::new(pairs.collect(), self.tightness.max(other.tightness))
    }

    /// What lies within either.
    #[must_use]
    pub fn union(mut self, other: Self) -> Self {
        self.intervals.extend(other.intervals);
        Self::new(self.intervals, self.tightness.max(other.tightness))
    }

    /// What lies outside.
    #[must_use]
    pub fn negate(&self) -> Self {
        let count = self.intervals.len();
        let gap = |position: usize| {
            let before = position
                .checked_sub(1)
                .map(|before| &self.intervals[before]);
            Interval::gap(before, self.intervals.get(position))
        };
        Self::new((0..=count).map(gap).collect(), self.tightness)
    }

    /// The byte ranges of a field that is kept in this direction, ascending.
    pub fn ranges(&self, direction: Direction) -> Vec<ByteRange> {
        let intervals = self.intervals_in(direction);
        intervals
            .map(|interval| interval.range(direction))
            .collect()
    }

    /// The intervals in the order in which a field that is kept in this direction has them.
    pub(super) fn intervals_in(
        &self,
        direction: Direction,
    ) -> impl Iterator<Item = &Interval> + Clone {
        let count = self.intervals.len();
        let at = move |number: usize| match direction {
            Direction::Ascending => number,
            Direction::Descending => count - 1 - number,
        };
        (0..count).map(move |number| &self.intervals[at(number)])
    }

    /// The intervals as `explain` shows them, in the order of the walk.
    pub fn texts(&self, reversed: bool) -> Vec<String> {
        let mut texts: Vec<String> = self
            .intervals
            .iter()
            .map(|interval| interval.text(reversed))
            .collect();
        if reversed {
            texts.reverse();
        }
        texts
    }
}
