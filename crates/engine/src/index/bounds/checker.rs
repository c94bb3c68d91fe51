//! Walks keys against the bounds of all their fields, and tells where to go on.
//!
//! `{a: {$gt: 5}, b: 3}` over `{a: 1, b: 1}` is no range of bytes. Instead of testing every
//! entry above 5, the walk skips: at `(6, 1)` to `(6, 3)`, at `(6, 4)` past all of 6.

use super::{ByteRange, FieldBounds};
use meridian_value::key::{ABOVE_ALL, Direction, skip};

/// What is to be done about a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyCheck {
    /// All fields are within their bounds.
    Match,
    /// The key is outside. Walking forward, go on at the first key not below
    /// [`BoundsChecker::target`]; walking backward, at the last key below it.
    Seek,
    /// The key is outside and no further key of the walk is inside.
    Done,
    /// The key's bytes are corrupt.
    Corrupt,
}

/// The bounds of every field of an index, ready to be checked.
#[derive(Debug, Clone)]
pub struct BoundsChecker {
    fields: Vec<CheckedField>,
    target: Vec<u8>,
}

#[derive(Debug, Clone)]
struct CheckedField {
    direction: Direction,
    ranges: Vec<ByteRange>,
}

/// Where a field's bytes lie.
enum FieldBytes<'r> {
    Inside,
    /// Before this range, in the order of the walk.
    Before(&'r ByteRange),
    /// Behind all ranges, in the order of the walk.
    Behind,
}

impl BoundsChecker {
    /// A checker for an index; `directions` and `bounds` have one entry for each field.
    pub fn new(directions: &[Direction], bounds: &[FieldBounds]) -> Self {
        let field = |(bounds, direction): (&FieldBounds, &Direction)| CheckedField {
            direction: *direction,
            ranges: bounds.ranges(*direction),
        };
        // Fields behind the last bounded one need no look.
        let bounded = bounds
            .iter()
            .rposition(|bounds| !bounds.is_all())
            .map_or(0, |last| last + 1);
        let fields = bounds[..bounded]
            .iter()
            .zip(directions)
            .map(field)
            .collect();
        BoundsChecker {
            fields,
            target: Vec::new(),
        }
    }

    /// Where to go on after [`KeyCheck::Seek`].
    pub fn target(&self) -> &[u8] {
        &self.target
    }

    /// Checks a key (without tree prefix; what follows the fields is ignored) of a forward walk.
    pub fn check_forward(&mut self, key: &[u8]) -> KeyCheck {
        let mut at = 0;
        for position in 0..self.fields.len() {
            let field = &self.fields[position];
            let Some(length) = skip(&key[at..], field.direction) else {
                return KeyCheck::Corrupt;
            };
            match field.place_forward(&key[at..at + length]) {
                FieldBytes::Inside => at += length,
                FieldBytes::Before(range) => {
                    set(&mut self.target, &key[..at], &range.start);
                    for later in &self.fields[position + 1..] {
                        let start = later
                            .ranges
                            .first()
                            .map_or(&[] as &[u8], |range| &range.start);
                        self.target.extend_from_slice(start);
                    }
                    return KeyCheck::Seek;
                }
                FieldBytes::Behind if position == 0 => return KeyCheck::Done,
                FieldBytes::Behind => {
                    set(&mut self.target, &key[..at], &[ABOVE_ALL]);
                    return KeyCheck::Seek;
                }
            }
        }
        KeyCheck::Match
    }

    /// Checks a key of a backward walk.
    pub fn check_backward(&mut self, key: &[u8]) -> KeyCheck {
        let mut at = 0;
        for (position, field) in self.fields.iter().enumerate() {
            let Some(length) = skip(&key[at..], field.direction) else {
                return KeyCheck::Corrupt;
            };
            match field.place_backward(&key[at..at + length]) {
                FieldBytes::Inside => at += length,
                FieldBytes::Before(range) => {
                    set(&mut self.target, &key[..at], &range.end);
                    return KeyCheck::Seek;
                }
                FieldBytes::Behind if position == 0 => return KeyCheck::Done,
                FieldBytes::Behind => {
                    set(&mut self.target, &key[..at], &[]);
                    return KeyCheck::Seek;
                }
            }
        }
        KeyCheck::Match
    }
}

fn set(target: &mut Vec<u8>, prefix: &[u8], rest: &[u8]) {
    target.clear();
    target.extend_from_slice(prefix);
    target.extend_from_slice(rest);
}

impl CheckedField {
    fn place_forward(&self, field: &[u8]) -> FieldBytes<'_> {
        let next = self
            .ranges
            .partition_point(|range| range.end.as_slice() <= field);
        match self.ranges.get(next) {
            Some(range) if range.start.as_slice() <= field => FieldBytes::Inside,
            Some(range) => FieldBytes::Before(range),
            None => FieldBytes::Behind,
        }
    }

    fn place_backward(&self, field: &[u8]) -> FieldBytes<'_> {
        let behind = self
            .ranges
            .partition_point(|range| range.start.as_slice() <= field);
        match behind.checked_sub(1).map(|last| &self.ranges[last]) {
            Some(range) if field < range.end.as_slice() => FieldBytes::Inside,
            Some(range) => FieldBytes::Before(range),
            None => FieldBytes::Behind,
        }
    }
}
