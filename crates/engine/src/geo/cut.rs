//! The straight line that cuts a boundary cell in two, where only one edge of a polygon runs through it.
//!
//! On a face of the cube an edge is a straight segment. Where a cell, widened by more than a leaf cell, meets no
//! other edge, points left and right of the line differ, and all on one side are alike: a product tells what
//! the exact test would say, except close to the line.

use s2rst::s2::CellId;
use std::ops::Range;

/// How close to the line a point may be for the exact test to be needed: more than a leaf cell (2.5e-9), in
/// face coordinates.
const NEAR: f64 = 5e-9;
/// Above the rounding of a height to single precision, for points and an origin that are 1 apart.
const FLAT_ERROR: f64 = 1e-6;
/// Above any rounding of a planar cross product of face coordinates.
pub(super) const CROSS_ERROR: f64 = 1e-14;

/// A line on a face of the cube, with the points of a region to its left.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Cut {
    from: [f64; 2],
    /// Of length 1.
    along: [f64; 2],
    near: f64,
}

impl Cut {
    /// The line through an edge, with a point that is inside the region or not; `None` when that is too close to
    /// the line to tell its sides.
    pub(super) fn new([from, to]: [[f64; 2]; 2], point: [f64; 2], is_inside: bool) -> Option<Self> {
        let [x, y] = [to[0] - from[0], to[1] - from[1]];
        let length = (x * x + y * y).sqrt();
        if length <= 0.0 {
            return None;
        }
        let cut = Self {
            from,
            along: [x / length, y / length],
            near: NEAR + CROSS_ERROR / length,
        };
        let height = cut.height(point);
        if height.abs() <= cut.near {
            return None;
        }
        let turned = Self {
            along: cut.along.map(std::ops::Neg::neg),
            ..cut
        };
        Some(if (height > 0.0) == is_inside {
            cut
        } else {
            turned
        })
    }

    /// The distance to the left of the line.
    fn height(&self, [u, v]: [f64; 2]) -> f64 {
        self.along[0] * (v - self.from[1]) - self.along[1] * (u - self.from[0])
    }
}

/// Where neighbouring leaf cells are on their face of the cube: in single precision, from the first one.
#[derive(Debug, Default)]
pub struct FlatPlaces {
    origin: [f64; 2],
    u: Box<[f32]>,
    v: Box<[f32]>,
    /// None is further from the origin in either direction.
    extent: f32,
}

impl FlatPlaces {
    /// The places of leaf cells.
    pub fn of(leaves: &[u64]) -> Self {
        let place = |leaf: &u64| {
            let place = CellId(*leaf).center_uv();
            [place.x, place.y]
        };
        let Some(origin) = leaves.first().map(place) else {
            return Self::default();
        };
        let along = |axis: usize| {
            let from_origin = |leaf| place(leaf)[axis] - origin[axis];
            #[allow(clippy::cast_possible_truncation)]
            let single: Box<[f32]> = leaves.iter().map(|leaf| from_origin(leaf) as f32).collect();
            single
        };
        let (u, v) = (along(0), along(1));
        let extent = u
            .iter()
            .chain(&v)
            .fold(0.0_f32, |most, one| most.max(one.abs()));
        Self {
            origin,
            u,
            v,
            extent,
        }
    }

    /// How many of some of them match; `None` when one is too close to the line to tell.
    #[allow(clippy::cast_possible_truncation)]
    pub fn count_matches(&self, of: Range<usize>, cut: &Cut) -> Option<usize> {
        let near = (cut.near + FLAT_ERROR * f64::from(self.extent)) as f32;
        let [along_u, along_v] = cut.along.map(|along| along as f32);
        let at_origin = cut.height(self.origin) as f32;
        let (mut left, mut close) = (0_u32, 0_u32);
        // Four at a time in vector registers, without a branch: nearly always none is close.
        for (u, v) in self.u[of.clone()].iter().zip(&self.v[of]) {
            let height = along_u * v - along_v * u + at_origin;
            left += u32::from(height > 0.0);
            close += u32::from(height.abs() <= near);
        }
        (close == 0).then_some(left as usize)
    }
}
