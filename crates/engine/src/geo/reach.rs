//! How far the cells of an index are from the point of a nearest-first query.
//!
//! In: a [`Near`], then cells. Out: bounds that every point in (or outside of) a cell keeps, in the unit
//! of [`Near::measure`]. Bounds are loosened by more than any rounding, so that none cuts off a point.

use super::near::{EARTH_RADIUS_METERS, Metric, Near};
use super::plane_grid::PlaneGrid;
use super::text::stream_number;
use crate::Error;
use s2rst::r1::Interval;
use s2rst::s1;
use s2rst::s1::ChordAngle;
use s2rst::s2::{Cell, CellId, Face, LatLng, Level, Point, Rect};

/// More than the rounding of a chord's length, as a share of it and (60 nanometres) in all.
const CHORD_SHARE: f64 = 1e-14;
const CHORD_SLACK: f64 = 1e-14;
/// The same for angles to rectangles of longitude and latitude, in radians.
const ANGLE_SLACK: f64 = 1e-12;
/// And for distances in the plane, as a share.
const PLANE_SHARE: f64 = 1e-14;

/// The cells of an index as seen from the point of a query.
#[derive(Debug, Clone)]
pub struct Reach {
    leaf: CellId,
    cells: Cells,
}

#[derive(Debug, Clone)]
enum Cells {
    /// S2 cells.
    Sphere(Point),
    /// Squares, measured in the plane.
    Plane { grid: PlaneGrid, center: [f64; 2] },
    /// Squares of longitude and latitude, measured on the sphere.
    Degrees { grid: PlaneGrid, center: LatLng },
}

impl Reach {
    /// The S2 cells of a 2dsphere index.
    pub fn sphere(near: &Near) -> Self {
        Self {
            leaf: CellId::from_point(&near.point),
            cells: Cells::Sphere(near.point),
        }
    }

    /// The squares of a 2d index.
    pub fn plane(near: &Near, grid: PlaneGrid) -> Self {
        let (x, y) = (near.center.lon, near.center.lat);
        Self {
            leaf: CellId(grid.cell(x, y)),
            cells: match near.metric {
                Metric::Plane => Cells::Plane {
                    grid,
                    center: [x, y],
                },
                Metric::Sphere => Cells::Degrees {
                    grid,
                    center: LatLng::from_degrees(y, x),
                },
            },
        }
    }

    /// What mongod answers where the point lies outside of the index's plane.
    pub fn outside(&self) -> Option<Error> {
        let Cells::Plane {
            grid,
            center: [x, y],
        } = &self.cells
        else {
            return None;
        };
        if grid.holds(*x, *y) {
            return None;
        }
        let shown = |number: f64| {
            let text = stream_number(number);
            if text.contains(['.', 'e', 'n']) {
                text
            } else {
                format!("{text}.0")
            }
        };
        let refused = grid.outside(&format!("{{ 0: {}, 1: {} }}", shown(*x), shown(*y)));
        Some(Error::location(16433, refused.message))
    }

    /// The cell of a level (0 to 30) that holds the point.
    pub fn home(&self, level: u8) -> CellId {
        self.leaf.parent_at_level(Level::new(level))
    }

    /// The coarsest cells, which hold all others.
    pub fn roots(&self) -> impl Iterator<Item = CellId> {
        let roots = match self.cells {
            Cells::Sphere(_) => Face::ALL.len(),
            Cells::Plane { .. } | Cells::Degrees { .. } => 1,
        };
        Face::ALL.into_iter().take(roots).map(CellId::from_face)
    }

    /// No point in the cell is nearer.
    pub fn nearest(&self, cell: CellId) -> f64 {
        match &self.cells {
            Cells::Sphere(center) => at_least(Cell::from_cell_id(cell).distance_to_point(*center)),
            Cells::Plane { grid, center } => {
                let bounds = grid.bounds(cell);
                let [x, y] = [0, 1].map(|axis| {
                    let [least, most] = bounds[axis];
                    (least - center[axis]).max(center[axis] - most).max(0.0)
                });
                (x * x + y * y).sqrt() * (1.0 - PLANE_SHARE)
            }
            Cells::Degrees { grid, center } => {
                on_sphere(grid.bounds(cell)).map_or(f64::INFINITY, |rectangle| {
                    let angle = rectangle.get_distance_to_latlng(*center).radians();
                    (angle - ANGLE_SLACK).max(0.0) * EARTH_RADIUS_METERS
                })
            }
        }
    }

    /// No point in the cell is farther.
    pub fn farthest(&self, cell: CellId) -> f64 {
        match &self.cells {
            Cells::Sphere(center) => {
                at_most(Cell::from_cell_id(cell).max_distance_to_point(*center))
            }
            Cells::Plane { grid, center } => {
                let bounds = grid.bounds(cell);
                let [x, y] = [0, 1].map(|axis| {
                    let [least, most] = bounds[axis];
                    (center[axis] - least)
                        .abs()
                        .max((most - center[axis]).abs())
                });
                (x * x + y * y).sqrt() * (1.0 + PLANE_SHARE)
            }
            Cells::Degrees { .. } => f64::INFINITY,
        }
    }

    /// No point outside of the cell, which holds the query's point, is nearer.
    pub fn boundary(&self, cell: CellId) -> f64 {
        match &self.cells {
            Cells::Sphere(center) => at_least(Cell::from_cell_id(cell).boundary_distance(*center)),
            Cells::Plane { grid, center } => {
                let bounds = grid.bounds(cell);
                // The bounds are widened, which here would promise too much.
                let slack = |axis: usize| 4e-14 * (grid.max - grid.min + bounds[axis][0].abs());
                let inside = |axis: usize| {
                    let [least, most] = bounds[axis];
                    (center[axis] - least).min(most - center[axis]) - slack(axis)
                };
                inside(0).min(inside(1)).max(0.0)
            }
            Cells::Degrees { .. } => 0.0,
        }
    }
}

/// The part of a square of degrees that lies on the sphere, if any does.
pub(super) fn on_sphere(bounds: [[f64; 2]; 2]) -> Option<Rect> {
    let [[west, east], [south, north]] = bounds;
    let (west, east) = (west.max(-180.0), east.min(180.0));
    let (south, north) = (south.max(-90.0), north.min(90.0));
    if west > east || south > north {
        return None;
    }
    let latitudes = Interval::new(south.to_radians(), north.to_radians());
    let longitudes = if east - west >= 359.999 {
        Rect::full_lng()
    } else {
        s1::Interval::new(west.to_radians(), east.to_radians())
    };
    Some(Rect::new(latitudes, longitudes))
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
