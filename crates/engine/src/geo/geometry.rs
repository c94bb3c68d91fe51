//! Parsed geometries: positions, lines and polygons on the sphere.
//!
//! In: coordinates that [`super::parse`] has read and validated. Out: shapes over the S2
//! library's points, with what the relations need (bounds, orientation). Deliberately
//! absent: parsing, and the relations between shapes (`relate`).

use super::bound::around;
use super::pairs::EdgeBox;
use super::predicates::{Wedge, counts_as_crossing, ordered, origin, turn};
use super::vector::ortho;
use s2rst::r1::Interval;
use s2rst::s2::{CellId, LatLng, Point, Rect};
use std::f64::consts::{FRAC_PI_2, PI};
use std::sync::OnceLock;

/// A longitude and latitude in degrees, as the document has them.
///
/// A legacy pair may lie outside the sphere's bounds; such a position matches planar
/// shapes only.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Position {
    /// Degrees east, or the planar x.
    pub lon: f64,
    /// Degrees north, or the planar y.
    pub lat: f64,
}

impl Position {
    /// Whether the position lies on the sphere.
    pub fn is_on_sphere(self) -> bool {
        self.lon.abs() <= 180.0 && self.lat.abs() <= 90.0
    }

    /// The unit vector of this position.
    ///
    /// Longitudes are not reduced: 180 and -180 degrees give points on either side of the
    /// antimeridian, as they do in mongod.
    pub(super) fn point(self) -> Point {
        LatLng::from_degrees(self.lat, self.lon).to_point()
    }

    pub(super) fn leaf(self) -> CellId {
        CellId::from_point(&self.point())
    }
}

/// A geometry of a document: GeoJSON, or a legacy coordinate pair (a [`Geometry::Point`]).
#[derive(Debug, Clone)]
pub enum Geometry {
    /// A GeoJSON point or a legacy pair.
    Point(Position),
    /// A chain of geodesic edges.
    LineString(Line),
    /// A shell with holes.
    Polygon(Polygon),
    /// A polygon with strict winding: it may cover more than a hemisphere. Such a document
    /// never matches and cannot be indexed; only queries use it.
    BigPolygon(Box<BigPolygon>),
    /// Several points.
    MultiPoint(Vec<Position>),
    /// Several lines.
    MultiLineString(Vec<Line>),
    /// Several polygons, which may overlap.
    MultiPolygon(Vec<Polygon>),
    /// Several geometries, none of them a collection.
    Collection(Vec<Geometry>),
}

/// One simple shape of a geometry.
#[derive(Debug, Clone, Copy)]
pub(super) enum GeometryPart<'a> {
    Point(Position),
    Line(&'a Line),
    Polygon(&'a Polygon),
    Big(&'a BigPolygon),
}

impl Geometry {
    /// Every simple shape in order.
    pub(super) fn parts(&self) -> Vec<GeometryPart<'_>> {
        match self {
            Geometry::Point(position) => vec![GeometryPart::Point(*position)],
            Geometry::LineString(line) => vec![GeometryPart::Line(line)],
            Geometry::Polygon(polygon) => vec![GeometryPart::Polygon(polygon)],
            Geometry::BigPolygon(polygon) => vec![GeometryPart::Big(polygon)],
            Geometry::MultiPoint(points) => {
                points.iter().copied().map(GeometryPart::Point).collect()
            }
            Geometry::MultiLineString(lines) => lines.iter().map(GeometryPart::Line).collect(),
            Geometry::MultiPolygon(polygons) => {
                polygons.iter().map(GeometryPart::Polygon).collect()
            }
            Geometry::Collection(members) => members.iter().flat_map(Geometry::parts).collect(),
        }
    }

    /// The single position of a point geometry.
    pub fn as_point(&self) -> Option<Position> {
        match self {
            Geometry::Point(position) => Some(*position),
            _ => None,
        }
    }
}

/// A chain of at least two vertices.
#[derive(Debug, Clone)]
pub struct Line {
    pub(super) vertices: Vec<Point>,
}

impl Line {
    pub(super) fn bound(&self) -> Rect {
        around(self.vertices.iter().copied())
    }

    pub(super) fn edges(&self) -> impl Iterator<Item = (Point, Point)> + '_ {
        self.vertices.windows(2).map(|pair| (pair[0], pair[1]))
    }
}

/// A valid polygon: the first ring is the shell, the others are holes in it.
#[derive(Debug, Clone)]
pub struct Polygon {
    pub(super) rings: Vec<Ring>,
}

impl Polygon {
    pub(super) fn shell(&self) -> &Ring {
        &self.rings[0]
    }

    pub(super) fn has_holes(&self) -> bool {
        self.rings.len() > 1
    }

    pub(super) fn contains_point(&self, point: Point) -> bool {
        self.rings
            .iter()
            .fold(false, |inside, ring| inside ^ ring.contains_point(point))
    }

    pub(super) fn bound(&self) -> Rect {
        self.shell().bound()
    }
}

/// A polygon given by one ring whose interior is on its left, however large that is.
#[derive(Debug, Clone)]
pub struct BigPolygon {
    /// The ring as given.
    pub(super) ring: Ring,
    /// The same boundary enclosing at most a hemisphere: the ring or its complement.
    pub(super) boundary: Polygon,
    /// Whether `boundary` is the ring itself.
    pub(super) is_normalized: bool,
}

/// A simple closed chain; the last vertex is not repeated. Its interior is on its left.
#[derive(Debug, Clone)]
pub(super) struct Ring {
    vertices: Vec<Point>,
    origin_inside: bool,
    bound: Rect,
    boxes: OnceLock<Vec<EdgeBox>>,
}

impl Ring {
    /// Needs at least three vertices.
    pub(super) fn new(vertices: Vec<Point>) -> Self {
        let boxes = OnceLock::new();
        let mut ring = Self {
            vertices,
            origin_inside: false,
            bound: Rect::full(),
            boxes,
        };
        // A ring contains its second vertex when a fixed direction there is inside: guess
        // that the origin is outside, and correct the guess if that vertex disagrees.
        let (before, vertex, after) = (ring.vertex(0), ring.vertex(1), ring.vertex(2));
        ring.origin_inside =
            ordered(ortho(vertex), before, after, vertex) != ring.contains_point(vertex);
        ring.set_bound();
        ring
    }

    /// The rectangle of the vertices and edges, widened by the poles the ring contains.
    fn set_bound(&mut self) {
        let closed = self.vertices.iter().copied().chain([self.vertex(0)]);
        let mut bound = around(closed);
        if self.contains_point(Point::from_coords(0.0, 0.0, 1.0)) {
            bound = Rect::new(Interval::new(bound.lat.lo, FRAC_PI_2), Rect::full_lng());
        }
        if bound.lng.is_full() && self.contains_point(Point::from_coords(0.0, 0.0, -1.0)) {
            bound = Rect::new(Interval::new(-FRAC_PI_2, bound.lat.hi), bound.lng);
        }
        self.bound = bound;
    }

    pub(super) fn vertices(&self) -> &[Point] {
        &self.vertices
    }

    /// The vertex at `index`, counted around the ring.
    pub(super) fn vertex(&self, index: usize) -> Point {
        self.vertices[index % self.vertices.len()]
    }

    /// The vertices around vertex `index`.
    pub(super) fn wedge(&self, index: usize) -> Wedge {
        Wedge {
            before: self.vertex(index + self.vertices.len() - 1),
            after: self.vertex(index + 1),
        }
    }

    pub(super) fn edges(&self) -> impl Iterator<Item = (Point, Point)> + '_ {
        (0..self.vertices.len()).map(|index| (self.vertices[index], self.vertex(index + 1)))
    }

    /// A box around each edge, computed once.
    pub(super) fn boxes(&self) -> &[EdgeBox] {
        self.boxes
            .get_or_init(|| self.edges().map(|(a, b)| EdgeBox::new(a, b)).collect())
    }

    pub(super) fn bound(&self) -> Rect {
        self.bound
    }

    pub(super) fn origin_inside(&self) -> bool {
        self.origin_inside
    }

    /// Whether the ring encloses at most a hemisphere.
    pub(super) fn is_normalized(&self) -> bool {
        self.bound.lng.length() < PI || self.turning_angle() >= -1e-14
    }

    /// The sum of the turns at all vertices, left turns positive: positive when the ring
    /// encloses less than a hemisphere. The sum starts at the least vertex and goes to its
    /// lesser neighbour, so that the same ring gives the same sum however it is written.
    fn turning_angle(&self) -> f64 {
        let count = self.vertices.len();
        let below = |a: usize, b: usize| self.vertex(a).cmp_point(self.vertex(b)).is_lt();
        let first = (1..count).fold(
            0,
            |least, index| if below(index, least) { index } else { least },
        );
        let (step, sign) = if below(first + 1, first + count - 1) {
            (1, 1.0)
        } else {
            (count - 1, -1.0)
        };
        let turn_at = |nth: usize| {
            let at = first + nth * step;
            turn(
                self.vertex(at + count - step),
                self.vertex(at),
                self.vertex(at + step),
            )
        };
        sign * (1..count).fold(turn_at(0), |sum, nth| sum + turn_at(nth))
    }

    /// Inverts the ring if it encloses more than a hemisphere.
    pub(super) fn normalize(&mut self) {
        if self.is_normalized() {
            return;
        }
        self.vertices.reverse();
        self.origin_inside = !self.origin_inside;
        self.boxes = OnceLock::new();
        self.bound = Rect::full();
        self.set_bound();
    }

    pub(super) fn contains_point(&self, point: Point) -> bool {
        if !self.bound.contains_point(point) {
            return false;
        }
        let origin = origin();
        self.edges().fold(self.origin_inside, |inside, (a, b)| {
            inside ^ counts_as_crossing(origin, point, a, b)
        })
    }

    pub(super) fn has_vertex(&self, point: Point) -> bool {
        self.vertices.contains(&point)
    }
}
