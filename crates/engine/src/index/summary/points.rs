//! The points of ranges of a 2dsphere index that a count has looked into.
//!
//! The border of an area runs through a few hundred ranges, whose points have to be tested one by one.
//! They are remembered until a write changes their range or the memory is wanted for others, so that the
//! next area along the same border reads nothing.

use super::{Place, Summary};
use std::sync::Arc;

/// Bytes of points that a summary remembers at most: so many an entry, but no more than in all.
const BYTES_AN_ENTRY: u64 = 4;
const BYTES_MAX: u64 = 16 * 1024 * 1024;
/// A range with more points is not remembered: it waits to be cut.
const POINTS_MAX: usize = 1_024;

/// The point of an entry.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Point {
    /// Its leaf cell.
    pub cell: u64,
    /// Where that is on its face of the cube, in short: a look at it settles nearly every point.
    pub flat: [f32; 2],
    /// Degrees of longitude, exactly as stored.
    pub lon: f64,
    /// Degrees of latitude, exactly as stored.
    pub lat: f64,
}

/// The points of all entries of a range, in the order of their cells.
pub type Points = Arc<[Point]>;

/// A range that was walked at some point in time.
#[derive(Debug)]
pub struct WalkedRange {
    /// The range's first key.
    pub start: Vec<u8>,
    /// The first key behind it; `None` at the end of the tree.
    pub end: Option<Vec<u8>>,
    /// What it held.
    pub points: Points,
}

impl Summary {
    /// How often the summary has changed: to be noted with the point in time of a walk.
    pub fn changes(&self) -> u64 {
        self.changes
    }

    /// Remembers what a walk found; ranges that have changed since `changes` are left out.
    pub fn remember(&mut self, walked: Vec<WalkedRange>, changes: u64) {
        let limit = BYTES_MAX.min(self.entries() * BYTES_AN_ENTRY);
        let new: usize = walked.iter().map(|range| range.points.len()).sum();
        let known: usize = self.blocks.iter().map(|block| block.points_known()).sum();
        let bytes = (new + known) as u64 * size_of::<Point>() as u64;
        if bytes > limit {
            let all = self.blocks.iter_mut();
            let with_points = all.filter(|block| block.points_known() > 0);
            with_points.for_each(|block| Arc::make_mut(block).forget_points());
        }
        let mut place = Place::FIRST;
        for range in walked {
            place = self.find(place, &range.start);
            let (end, points) = (range.end.as_deref(), range.points.len());
            let is_as_read = self.is_as_read(place, &range.start, end, points, changes);
            if is_as_read && points <= POINTS_MAX {
                self.block_mut(place.block)
                    .set_points(place.range, range.points);
            }
        }
    }

    /// Bytes of points that are remembered, about.
    pub fn points_bytes(&self) -> usize {
        let known: usize = self.blocks.iter().map(|block| block.points_known()).sum();
        known * size_of::<Point>()
    }
}
