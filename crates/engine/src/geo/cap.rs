//! The spherical cap of `$centerSphere`.
//!
//! In: a centre and a radius in radians. Out: whether the leaf cell of a point meets the
//! cap (that is mongod's rule), and how any cell lies to it.

use super::geometry::{GeometryPart, Position};
use super::planar::{DegreeRect, Relation};
use super::predicates::cell_contains;
use super::reach::on_sphere;
use super::relate::{distance_to_line, distance_to_polygon};
use super::vector::{corners, cross, dot, norm2};
use s2rst::s2::{Cell, CellEdge, LatLng, Point};
use std::f64::consts::PI;

/// More than a leaf cell's diagonal (2.3e-9) and any rounding, as a chord length.
const MARGIN: f64 = 1e-8;

/// All points at most a radius away from an axis.
#[derive(Debug, Clone)]
pub(super) struct SphericalCap {
    axis: Point,
    /// How far the cap's top is above its base: 1 for a hemisphere, 2 for the sphere.
    height: f64,
    radius_radians: f64,
    chord: f64,
}

impl SphericalCap {
    pub(super) fn new(center: Position, radius_radians: f64) -> Self {
        let half = (0.5 * radius_radians.min(PI)).sin();
        let height = if radius_radians >= PI {
            2.0
        } else {
            2.0 * half * half
        };
        Self::with_height(center.point(), height, radius_radians.min(PI))
    }

    fn with_height(axis: Point, height: f64, radius_radians: f64) -> Self {
        Self {
            axis,
            height,
            radius_radians,
            chord: (2.0 * height).sqrt(),
        }
    }

    /// Whether the leaf cell of the position meets the cap.
    pub(super) fn matches(&self, position: Position) -> bool {
        let chord = (self.axis.0 - position.point().0).norm();
        if chord < self.chord - MARGIN {
            true
        } else if chord > self.chord + MARGIN {
            false
        } else {
            self.may_intersect(Cell::from_cell_id(position.leaf()))
        }
    }

    fn contains_point(&self, point: Point) -> bool {
        norm2(self.axis.0 - point.0) <= 2.0 * self.height
    }

    /// S2's test of the time: exact but for caps above a hemisphere, where a cell without a
    /// contained corner never meets the cap.
    fn may_intersect(&self, cell: Cell) -> bool {
        let corners = corners(cell);
        if corners.iter().any(|corner| self.contains_point(*corner)) {
            return true;
        }
        if self.height >= 1.0 {
            return false;
        }
        cell_contains(cell, self.axis) || self.crosses_an_edge(cell, corners)
    }

    fn crosses_an_edge(&self, cell: Cell, corners: [Point; 4]) -> bool {
        let sin2 = self.height * (2.0 - self.height);
        for (index, edge) in CellEdge::ALL.into_iter().enumerate() {
            let normal = cell.edge_raw(edge);
            let height = dot(self.axis.0, normal.0);
            if height > 0.0 {
                continue;
            }
            if height * height > sin2 * norm2(normal.0) {
                return false;
            }
            let direction = cross(normal.0, self.axis.0);
            if dot(direction, corners[index].0) < 0.0
                && dot(direction, corners[(index + 1) % 4].0) > 0.0
            {
                return true;
            }
        }
        false
    }

    /// Whether a part of a geometry lies within: its points by their leaf cells, others when
    /// they keep their distance from the centre of the rest of the sphere.
    pub(super) fn contains(&self, part: GeometryPart<'_>) -> bool {
        let rest_height = if self.height >= 2.0 {
            -1.0
        } else {
            2.0 - self.height
        };
        let rest_radians = if rest_height < 0.0 {
            -1.0
        } else {
            2.0 * (0.5 * rest_height).sqrt().asin()
        };
        let rest_axis = Point(-self.axis.0);
        match part {
            GeometryPart::Point(position) => self.matches(position),
            GeometryPart::Line(line) => distance_to_line(rest_axis, line) >= rest_radians,
            GeometryPart::Polygon(polygon) => {
                distance_to_polygon(rest_axis, polygon) >= rest_radians
            }
            GeometryPart::Big(_) => false,
        }
    }

    /// How the cell lies to the cap; leaf cells in an `Inside` cell all match, and none in a
    /// `Disjoint` one.
    pub(super) fn relation(&self, cell: Cell) -> Relation {
        let corners = corners(cell);
        let center = cell.center();
        let spread = corners
            .iter()
            .map(|corner| angle(center, *corner))
            .fold(0.0, f64::max);
        let away = angle(self.axis, center);
        if away + spread <= self.radius_radians - MARGIN {
            return Relation::Inside;
        }
        if away - spread > self.radius_radians + MARGIN {
            return Relation::Disjoint;
        }
        // A cap up to a hemisphere is convex, and so is a cell.
        let within = |corner: &Point| (self.axis.0 - corner.0).norm() < self.chord - MARGIN;
        if self.height < 1.0 && corners.iter().all(within) {
            return Relation::Inside;
        }
        let chord = self.chord + MARGIN;
        let wider = Self::with_height(self.axis, chord * chord / 2.0, self.radius_radians);
        if wider.height < 1.0 && !wider.may_intersect(cell) {
            Relation::Disjoint
        } else {
            Relation::Boundary
        }
    }

    /// How a rectangle of degrees lies to the cap; what is outside of the sphere's bounds never matches.
    pub(super) fn relation_to_degrees(&self, rect: DegreeRect) -> Relation {
        let Some(part) = on_sphere([[rect.low.lon, rect.high.lon], [rect.low.lat, rect.high.lat]])
        else {
            return Relation::Disjoint;
        };
        let distance = |from: Point| {
            part.get_distance_to_latlng(LatLng::from_point(from))
                .radians()
        };
        if distance(self.axis) > self.radius_radians + MARGIN {
            return Relation::Disjoint;
        }
        let farthest = PI - distance(Point(-self.axis.0));
        let is_whole = rect.low.is_on_sphere() && rect.high.is_on_sphere();
        if is_whole && farthest < self.radius_radians - MARGIN {
            Relation::Inside
        } else {
            Relation::Boundary
        }
    }
}

fn angle(a: Point, b: Point) -> f64 {
    2.0 * (0.5 * (a.0 - b.0).norm()).min(1.0).asin()
}
