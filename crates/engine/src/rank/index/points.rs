//! The points of ranges of a 2dsphere index that a count has looked into.
//!
//! The border of an area runs through a few hundred ranges, whose points have to be tested one by one.
//! They are remembered until a write changes their range or the memory is wanted for others, so that the
//! next area along the same border reads nothing.

use super::{Place, Summary};
use crate::geo::{Cut, FlatPlaces};
use std::ops::Range;
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
    /// Degrees of longitude, exactly as stored.
    pub lon: f64,
    /// Degrees of latitude, exactly as stored.
    pub lat: f64,
}

/// Bytes of memory of a point among others.
const POINT_BYTES: usize = size_of::<Point>() + 2 * size_of::<f32>();

/// The points of all entries of a range, in the order of their cells. What is looked at of nearly every one
/// lies side by side.
#[derive(Debug)]
pub struct Points {
    cells: Box<[u64]>,
    flat: FlatPlaces,
    /// Longitude and latitude.
    exact: Box<[[f64; 2]]>,
}

impl Points {
    /// Points in the order of their cells.
    pub fn new(points: &[Point]) -> Self {
        let cells: Box<[u64]> = points.iter().map(|point| point.cell).collect();
        Self {
            flat: FlatPlaces::of(&cells),
            cells,
            exact: points.iter().map(|point| [point.lon, point.lat]).collect(),
        }
    }

    /// Their number.
    pub fn count(&self) -> usize {
        self.cells.len()
    }

    /// Which of them lie in cells `first` to `last`.
    pub fn within(&self, first: u64, last: u64) -> Range<usize> {
        let from = self.cells.partition_point(|cell| *cell < first);
        from..from + self.cells[from..].partition_point(|cell| *cell <= last)
    }

    /// How many of some of them match by the line that cuts their cell; `None` when one is too close to it.
    pub fn count_matches(&self, of: Range<usize>, cut: &Cut) -> Option<usize> {
        self.flat.count_matches(of, cut)
    }

    /// Some of them.
    pub fn points(&self, of: Range<usize>) -> impl Iterator<Item = Point> {
        let cells = self.cells[of.clone()].iter();
        let all = cells.zip(&self.exact[of]);
        all.map(|(cell, [lon, lat])| Point {
            cell: *cell,
            lon: *lon,
            lat: *lat,
        })
    }
}

/// A range that was walked at some point in time.
#[derive(Debug)]
pub struct WalkedRange {
    /// The range's first key.
    pub start: Vec<u8>,
    /// The first key behind it; `None` at the end of the tree.
    pub end: Option<Vec<u8>>,
    /// What it held.
    pub points: Arc<Points>,
}

impl Summary {
    /// How often the summary has changed: to be noted with the point in time of a walk.
    pub fn changes(&self) -> u64 {
        self.changes
    }

    /// Remembers what a walk found; ranges that have changed since `changes` are left out.
    pub fn remember(&mut self, walked: Vec<WalkedRange>, changes: u64) {
        let limit = BYTES_MAX.min(self.entries() * BYTES_AN_ENTRY);
        let new: usize = walked.iter().map(|range| range.points.count()).sum();
        let known: usize = self.blocks.iter().map(|block| block.points_known()).sum();
        let bytes = ((new + known) * POINT_BYTES) as u64;
        if bytes > limit {
            let all = self.blocks.iter_mut();
            let with_points = all.filter(|block| block.points_known() > 0);
            with_points.for_each(|block| Arc::make_mut(block).forget_points());
        }
        let mut place = Place::FIRST;
        for range in walked {
            place = self.find(place, &range.start);
            let (end, points) = (range.end.as_deref(), range.points.count());
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
        known * POINT_BYTES
    }
}
