//! The straight line that cuts a border cell in two, where only one edge of a polygon runs through it.
//!
//! On a face of the cube an edge is a straight segment. Where a cell, widened by more than a leaf cell, meets no
//! other edge, points left and right of the line differ, and all on one side are alike: a product tells what
//! the exact test would say, except close to the line.

/// How close to the line a point may be for the exact test to be needed: more than a leaf cell (2.5e-9) and the
/// rounding of its place to single precision (4.3e-8) together, in face coordinates.
const NEAR: f64 = 1e-7;
/// Above any rounding of a planar cross product of face coordinates.
pub(super) const CROSS_ERROR: f64 = 1e-14;

/// A line on a face of the cube, with the points of a region to its left.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Cut {
    from: [f64; 2],
    along: [f64; 2],
    near: f64,
}

impl Cut {
    /// The line through an edge, with a point that is inside the region or not; `None` when that is too close to
    /// the line to tell its sides.
    pub(super) fn new([from, to]: [[f64; 2]; 2], point: [f64; 2], is_inside: bool) -> Option<Self> {
        let along = [to[0] - from[0], to[1] - from[1]];
        let near = NEAR * (along[0].powi(2) + along[1].powi(2)).sqrt() + CROSS_ERROR;
        let cut = Self { from, along, near };
        let height = cut.height(point);
        if height.abs() <= near {
            return None;
        }
        let turned = Self {
            along: [-along[0], -along[1]],
            ..cut
        };
        Some(if (height > 0.0) == is_inside {
            cut
        } else {
            turned
        })
    }

    /// Whether points whose leaf cell is here match; `None` close to the line.
    #[inline]
    pub fn matches(&self, flat: [f32; 2]) -> Option<bool> {
        let height = self.height(flat.map(f64::from));
        (height.abs() > self.near).then_some(height > 0.0)
    }

    /// Grows with the distance to the left of the line.
    #[inline]
    fn height(&self, [u, v]: [f64; 2]) -> f64 {
        self.along[0] * (v - self.from[1]) - self.along[1] * (u - self.from[0])
    }
}

/// Where a leaf cell is on its face of the cube, in single precision.
pub fn flat_place(leaf: u64) -> [f32; 2] {
    let place = s2rst::s2::CellId(leaf).center_uv();
    #[allow(clippy::cast_possible_truncation)]
    [place.x as f32, place.y as f32]
}
