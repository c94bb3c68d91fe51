//! How far the cells of an index are from the point of a nearest-first query.
//!
//! In: a [`Near`], then cells. Out: bounds that every point in (or outside of) a cell keeps, in the unit
//! of [`Near::measure`]. Bounds are loosened by more than any rounding, so that none cuts off a point.

use super::near::{EARTH_RADIUS_METERS, Near};
use s2rst::s1::ChordAngle;
use s2rst::s2::{Cell, CellId, Face, Level, Point};

/// More than the rounding of a chord's length, as a share of it and (6 nanometres) in all.
const CHORD_SHARE: f64 = 1e-14;
const CHORD_SLACK: f64 = 1e-14;

/// The cells of an index as seen from the point of a query.
#[derive(Debug, Clone)]
pub struct Reach {
    center: Point,
    leaf: CellId,
}

impl Reach {
    /// The S2 cells of a 2dsphere index.
    pub fn sphere(near: &Near) -> Self {
        Self {
            center: near.point,
            leaf: CellId::from_point(&near.point),
        }
    }

    /// The cell of a level (0 to 30) that holds the point.
    pub fn home(&self, level: u8) -> CellId {
        self.leaf.parent_at_level(Level::new(level))
    }

    /// The coarsest cells, which hold all others.
    pub fn roots(&self) -> impl Iterator<Item = CellId> {
        Face::ALL.into_iter().map(CellId::from_face)
    }

    /// No point in the cell is nearer.
    pub fn nearest(&self, cell: CellId) -> f64 {
        at_least(Cell::from_cell_id(cell).distance_to_point(self.center))
    }

    /// No point in the cell is farther.
    pub fn farthest(&self, cell: CellId) -> f64 {
        at_most(Cell::from_cell_id(cell).max_distance_to_point(self.center))
    }

    /// No point outside of the cell, which holds the query's point, is nearer.
    pub fn border(&self, cell: CellId) -> f64 {
        at_least(Cell::from_cell_id(cell).boundary_distance(self.center))
    }
}

fn at_least(chord: ChordAngle) -> f64 {
    meters(chord.length2().max(0.0).sqrt() * (1.0 - CHORD_SHARE) - CHORD_SLACK)
}

fn at_most(chord: ChordAngle) -> f64 {
    meters(chord.length2().max(0.0).sqrt() * (1.0 + CHORD_SHARE) + CHORD_SLACK)
}

fn meters(chord: f64) -> f64 {
    2.0 * (0.5 * chord.max(0.0)).min(1.0).asin() * EARTH_RADIUS_METERS
}
