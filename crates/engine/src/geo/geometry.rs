//! Parsed geometries: positions, lines and polygons on the sphere.
//!
//! In: coordinates that [`super::parse`] has read and validated. Out: shapes over the S2
//! library's points, with what the relations need (bounds, orientation). Deliberately
//! absent: parsing, and the relations between shapes (`relate`).

use s2rst::s2::{CellId, LatLng, Loop, Point, Rect, Region as _};

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
pub(super) enum Part<'a> {
    Point(Position),
    Line(&'a Line),
    Polygon(&'a Polygon),
    Big(&'a BigPolygon),
}

impl Geometry {
    /// Every simple shape in order.
    pub(super) fn parts(&self) -> Vec<Part<'_>> {
        match self {
            Geometry::Point(position) => vec![Part::Point(*position)],
            Geometry::LineString(line) => vec![Part::Line(line)],
            Geometry::Polygon(polygon) => vec![Part::Polygon(polygon)],
            Geometry::BigPolygon(polygon) => vec![Part::Big(polygon)],
            Geometry::MultiPoint(points) => points.iter().copied().map(Part::Point).collect(),
            Geometry::MultiLineString(lines) => lines.iter().map(Part::Line).collect(),
            Geometry::MultiPolygon(polygons) => polygons.iter().map(Part::Polygon).collect(),
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

    /// Every edge with the polygon's interior on its left, as mongod's clipping walks them.
    pub(super) fn oriented_edges(&self) -> impl Iterator<Item = (Point, Point)> + '_ {
        self.rings.iter().enumerate().flat_map(|(index, ring)| {
            ring.edges()
                .map(move |(a, b)| if index == 0 { (a, b) } else { (b, a) })
        })
    }
}

/// A polygon given by one ring whose interior is on its left, however large that is.
#[derive(Debug, Clone)]
pub struct BigPolygon {
    /// The ring as given.
    pub(super) ring: Ring,
    /// The same boundary enclosing at most a hemisphere: the ring or its complement.
    pub(super) border: Polygon,
    /// Whether `border` is the ring itself.
    pub(super) is_normalized: bool,
}

/// A simple closed chain; the last vertex is not repeated. Its interior is on its left.
#[derive(Debug, Clone)]
pub(super) struct Ring {
    inner: Loop,
}

impl Ring {
    pub(super) fn new(vertices: Vec<Point>) -> Self {
        Self {
            inner: Loop::new(vertices),
        }
    }

    pub(super) fn vertices(&self) -> &[Point] {
        self.inner.vertices()
    }

    /// The vertex at `index`, counted around the ring.
    pub(super) fn vertex(&self, index: usize) -> Point {
        self.inner.vertices()[index % self.inner.num_vertices()]
    }

    pub(super) fn edges(&self) -> impl Iterator<Item = (Point, Point)> + '_ {
        let vertices = self.vertices();
        (0..vertices.len())
            .map(move |index| (vertices[index], vertices[(index + 1) % vertices.len()]))
    }

    pub(super) fn bound(&self) -> Rect {
        self.inner.bound()
    }

    pub(super) fn is_normalized(&self) -> bool {
        self.inner.is_normalized()
    }

    /// Inverts the ring if it encloses more than a hemisphere.
    pub(super) fn normalize(&mut self) {
        self.inner.normalize();
    }

    pub(super) fn contains_point(&self, point: Point) -> bool {
        self.inner.contains_point(&point)
    }

    pub(super) fn contains_origin(&self) -> bool {
        self.inner.contains_origin()
    }
}
