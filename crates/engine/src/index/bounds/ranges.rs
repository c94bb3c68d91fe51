//! The bounds of all fields as ranges of key bytes.

use super::FieldBounds;
use meridian_value::key::{ABOVE_ALL, Direction};

/// Key bytes from `start` up to but not including `end`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ByteRange {
    /// The first possible key.
    pub start: Vec<u8>,
    /// Above the last possible key.
    pub end: Vec<u8>,
}

impl ByteRange {
    /// All keys that begin with these bytes.
    pub fn prefixed(prefix: Vec<u8>) -> Self {
        let mut end = prefix.clone();
        end.push(ABOVE_ALL);
        ByteRange { start: prefix, end }
    }

    /// True when the bytes lie within.
    #[inline]
    pub fn contains(&self, bytes: &[u8]) -> bool {
        self.start.as_slice() <= bytes && bytes < self.end.as_slice()
    }
}

/// Ranges of field bytes, without tree prefix.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ByteRanges {
    /// Ascending and disjoint.
    pub ranges: Vec<ByteRange>,
    /// How many leading fields the ranges settle: a key within them is within those fields'
    /// bounds. Later fields need a [`super::BoundsChecker`], if they are bounded.
    pub settled: usize,
}

/// The ranges of an index: every combination of values of the leading fields that are bounded by
/// single values, times the intervals of the next field. At most `limit` ranges; fields that would make
/// more are left to a check.
///
/// `directions` and `bounds` have one entry for each field of the key.
pub fn byte_ranges(directions: &[Direction], bounds: &[FieldBounds], limit: usize) -> ByteRanges {
    let mut prefixes = vec![Vec::new()];
    for (position, (field, direction)) in bounds.iter().zip(directions).enumerate() {
        if field.is_all() || prefixes.len() * field.intervals().len() > limit {
            return prefixed(prefixes, position);
        }
        if !field.is_points() {
            let ranges = field.ranges(*direction);
            let combined = prefixes.iter().flat_map(|prefix| {
                ranges.iter().map(move |range| ByteRange {
                    start: [prefix.as_slice(), &range.start].concat(),
                    end: [prefix.as_slice(), &range.end].concat(),
                })
            });
            return ByteRanges {
                ranges: combined.collect(),
                settled: position + 1,
            };
        }
        let intervals = field.intervals_in(*direction);
        let extended = prefixes.iter().flat_map(|prefix| {
            intervals.clone().map(move |interval| {
                let mut extended = prefix.clone();
                interval.push_start(*direction, &mut extended);
                extended
            })
        });
        prefixes = extended.collect();
    }
    prefixed(prefixes, bounds.len())
}

fn prefixed(prefixes: Vec<Vec<u8>>, settled: usize) -> ByteRanges {
    ByteRanges {
        ranges: prefixes.into_iter().map(ByteRange::prefixed).collect(),
        settled,
    }
}
