//! The points of buckets of a 2dsphere index that a count has scanned.
//!
//! The boundary of an area runs through a few hundred buckets, whose points have to be tested one by one.
//! They are cached until a write changes their bucket or the memory is needed for others, so that the
//! next area along the same boundary reads nothing.

use super::{BucketPosition, RankIndex};
use crate::geo::{Cut, FlatPlaces};
use std::ops::Range;
use std::sync::Arc;

/// Bytes of points that a rank index caches at most: so many an entry, but no more than in all.
const BYTES_AN_ENTRY: u64 = 4;
const BYTES_MAX: u64 = 16 * 1024 * 1024;
/// A bucket with more points is not cached: it waits to be split.
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

/// The points of all entries of a bucket, in the order of their cells. What is looked at of nearly every one
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

/// A bucket that was scanned at some point in time.
#[derive(Debug)]
pub struct ScannedBucket {
    /// The bucket's first key.
    pub start: Vec<u8>,
    /// The first key behind it; `None` at the end of the tree.
    pub end: Option<Vec<u8>>,
    /// What it held.
    pub points: Arc<Points>,
}

impl RankIndex {
    /// How often the rank index has changed: to be noted with the point in time of a scan.
    pub fn changes(&self) -> u64 {
        self.changes
    }

    /// Caches what a scan found; buckets that have changed since `changes` are left out.
    pub fn remember(&mut self, walked: Vec<ScannedBucket>, changes: u64) {
        let limit = BYTES_MAX.min(self.entries() * BYTES_AN_ENTRY);
        let new: usize = walked.iter().map(|bucket| bucket.points.count()).sum();
        let known: usize = self.leaves.iter().map(|leaf| leaf.points_known()).sum();
        let bytes = ((new + known) * POINT_BYTES) as u64;
        if bytes > limit {
            let all = self.leaves.iter_mut();
            let with_points = all.filter(|leaf| leaf.points_known() > 0);
            with_points.for_each(|leaf| Arc::make_mut(leaf).forget_points());
        }
        let mut place = BucketPosition::FIRST;
        for bucket in walked {
            place = self.find(place, &bucket.start);
            let (end, points) = (bucket.end.as_deref(), bucket.points.count());
            let is_as_read = self.is_as_read(place, &bucket.start, end, points, changes);
            if is_as_read && points <= POINTS_MAX {
                self.leaf_mut(place.leaf)
                    .set_points(place.bucket, bucket.points);
            }
        }
    }

    /// Bytes of points that are cached, about.
    pub fn points_bytes(&self) -> usize {
        let known: usize = self.leaves.iter().map(|leaf| leaf.points_known()).sum();
        known * POINT_BYTES
    }
}
