//! A line or a polygon prepared for many point tests: the hot path.
//!
//! In: edges on the sphere. Out: whether the leaf cell of a position meets the shape (that
//! is mongod's rule for points). A test in plain doubles answers wherever the point is
//! farther from every edge than a leaf cell is wide; only closer points pay for exact
//! predicates on the four corners of their leaf cell. Shapes with many edges are looked up
//! in an index of cells, each with the few edges near it.

use super::geometry::{BigPolygon, Line, Polygon, Position, Ring};
use super::grid::{FlatEdge, flatten};
use super::lookup::PointIndex;
use super::predicates::{Crossing, cell_contains, counts_as_crossing, crossing, origin};
use super::relate::{line_meets_corners, polygon_intersects, ring_intersects};
use super::vector::{corners, unit};
use s2rst::r3::Vector;
use s2rst::s1::Angle;
use s2rst::s2::{Cell, CellId, Point, Rect};
use std::sync::OnceLock;

/// Radians around an edge within which plain doubles do not decide: more than a leaf
/// cell's diagonal (2.3e-9).
const NEAR_RADIANS: f64 = 1e-8;
/// Above any rounding of a triple product of unit vectors.
const SIGN_ERROR: f64 = 4e-15;
/// Up to this many edges are tested one by one.
const FEW_EDGES: usize = 12;

/// What the edges enclose.
#[derive(Debug, Clone)]
enum EnclosedShape {
    Line,
    Polygon(Polygon),
    Big(BigPolygon),
}

/// A prepared line or polygon.
#[derive(Debug)]
pub(super) struct Boundary {
    edges: Vec<Edge>,
    shape: EnclosedShape,
    origin_inside: bool,
    convex: bool,
    frame: Frame,
    flat: OnceLock<[Vec<FlatEdge>; 6]>,
    index: OnceLock<PointIndex>,
}

/// What has to lie in the shape for a point to match. The two differ only where rounding put
/// a point outside its own leaf cell, as at the poles.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum PointRule {
    /// `$geoIntersects`: some of the leaf cell.
    Leaf,
    /// `$geoWithin`: the point itself, or some of the leaf cell.
    PointOrLeaf,
}

/// One edge with what the plain test needs.
#[derive(Debug, Clone, Copy)]
pub(super) struct Edge {
    pub(super) a: Point,
    pub(super) b: Point,
    normal: Vector,
    near: f64,
    middle: Vector,
    reach2: f64,
}

impl Edge {
    fn new((a, b): (Point, Point)) -> Self {
        let normal = a.0.cross(b.0);
        let middle = (a.0 + b.0).normalize();
        let is_antipodal = a.0.dot(b.0) < 0.0 && normal.norm() < 1e-6;
        // Nearly antipodal ends leave the middle uncertain: every point is near such an edge.
        let reach = if is_antipodal {
            3.0
        } else {
            (a.0 - middle).norm() + 2.0 * NEAR_RADIANS
        };
        Self {
            a,
            b,
            normal,
            near: NEAR_RADIANS * normal.norm() + SIGN_ERROR,
            middle,
            reach2: reach * reach,
        }
    }
}

/// A starting point whose side is known, and the edges between it and a query point.
pub(super) struct Locality<'a> {
    pub(super) reference: Point,
    pub(super) inside: bool,
    pub(super) edges: EdgeList<'a>,
}

/// All edges, or a chosen few.
#[derive(Clone, Copy)]
pub(super) enum EdgeList<'a> {
    All,
    Some(&'a [u32]),
}

impl Boundary {
    pub(super) fn line(line: &Line) -> Self {
        let edges: Vec<_> = line.edges().map(Edge::new).collect();
        Self::new(edges, EnclosedShape::Line, false, line.bound())
    }

    pub(super) fn polygon(polygon: &Polygon) -> Self {
        let edges: Vec<_> = polygon
            .rings
            .iter()
            .flat_map(Ring::edges)
            .map(Edge::new)
            .collect();
        let origin_inside = polygon
            .rings
            .iter()
            .fold(false, |inside, ring| inside ^ ring.origin_inside());
        Self::new(
            edges,
            EnclosedShape::Polygon(polygon.clone()),
            origin_inside,
            polygon.bound(),
        )
    }

    pub(super) fn big(big: &BigPolygon) -> Self {
        let edges: Vec<_> = big.ring.edges().map(Edge::new).collect();
        Self::new(
            edges,
            EnclosedShape::Big(big.clone()),
            big.ring.origin_inside(),
            big.ring.bound(),
        )
    }

    fn new(edges: Vec<Edge>, shape: EnclosedShape, origin_inside: bool, bound: Rect) -> Self {
        let convex = matches!(&shape, EnclosedShape::Polygon(polygon) if is_convex(polygon));
        let (flat, index) = (OnceLock::new(), OnceLock::new());
        Self {
            edges,
            shape,
            origin_inside,
            convex,
            frame: Frame::new(bound),
            flat,
            index,
        }
    }

    pub(super) fn edge(&self, index: u32) -> &Edge {
        &self.edges[index as usize]
    }

    pub(super) fn has_interior(&self) -> bool {
        !matches!(self.shape, EnclosedShape::Line)
    }

    /// The edges as straight segments on each face of the cube.
    pub(super) fn flat(&self) -> &[Vec<FlatEdge>; 6] {
        self.flat.get_or_init(|| flatten(&self.edges))
    }

    /// Whether the leaf cell of the position meets the shape.
    pub(super) fn matches(&self, position: Position, rule: PointRule) -> bool {
        if self.frame.excludes(position) {
            return false;
        }
        let point = position.point();
        if let Some(inside) = self
            .convex
            .then(|| self.convex_test(point.0, 1.0))
            .flatten()
        {
            return inside;
        }
        let leaf = CellId::from_point(&point);
        self.locality(leaf)
            .is_some_and(|locality| self.matches_near(point, leaf, &locality, rule))
    }

    /// Whether the leaf cell meets the shape, where its middle is far enough from every edge to tell.
    pub(super) fn matches_leaf(&self, leaf: CellId) -> Option<bool> {
        /// On the surface of the cube a point is at most the root of 3 away from its middle.
        const LENGTH_MAX: f64 = 1.7321;
        let toward = leaf.to_point_raw().0;
        if self.convex {
            return self.convex_test(toward, LENGTH_MAX);
        }
        match self.locality(leaf) {
            None => Some(false),
            Some(locality) => self.plain_test(Point(unit(toward)), &locality),
        }
    }

    /// What decides about points in a leaf cell; `None` when it is outside.
    fn locality(&self, leaf: CellId) -> Option<Locality<'_>> {
        if self.edges.len() <= FEW_EDGES {
            return Some(self.whole());
        }
        self.index.get_or_init(|| PointIndex::new(self)).find(leaf)
    }

    /// All edges, from the origin.
    fn whole(&self) -> Locality<'_> {
        Locality {
            reference: origin(),
            inside: self.origin_inside,
            edges: EdgeList::All,
        }
    }

    /// Inside when left of every edge, outside when clearly right of one; for the direction of a point, a
    /// vector not longer than `length_max`.
    fn convex_test(&self, toward: Vector, length_max: f64) -> Option<bool> {
        let mut decided = true;
        for edge in &self.edges {
            let height = edge.normal.dot(toward);
            let near = length_max * edge.near;
            if height < -near {
                return Some(false);
            }
            decided &= height > near;
        }
        decided.then_some(true)
    }

    fn matches_near(
        &self,
        point: Point,
        leaf: CellId,
        locality: &Locality<'_>,
        rule: PointRule,
    ) -> bool {
        match self.plain_test(point, locality) {
            Some(inside) => inside,
            None => self.exact_test(point, leaf, locality, rule),
        }
    }

    /// Counts crossings in plain doubles; `None` when the point is near an edge.
    fn plain_test(&self, point: Point, locality: &Locality<'_>) -> Option<bool> {
        let mut inside = locality.inside;
        let path = locality.reference.0.cross(point.0);
        for edge in self.listed(locality.edges) {
            let height = edge.normal.dot(point.0);
            if height.abs() <= edge.near && (point.0 - edge.middle).norm2() <= edge.reach2 {
                return None;
            }
            if self.has_interior() {
                inside ^= crosses(edge, locality.reference, point, path, height);
            }
        }
        Some(inside)
    }

    fn listed<'a>(&'a self, list: EdgeList<'a>) -> impl Iterator<Item = &'a Edge> + 'a {
        let (all, some) = match list {
            EdgeList::All => (&self.edges[..], &[][..]),
            EdgeList::Some(some) => (&[][..], some),
        };
        all.iter().chain(some.iter().map(|index| self.edge(*index)))
    }

    /// mongod's own test.
    fn exact_test(
        &self,
        point: Point,
        leaf: CellId,
        locality: &Locality<'_>,
        rule: PointRule,
    ) -> bool {
        let cell = Cell::from_cell_id(leaf);
        let corners = corners(cell);
        if !self.has_interior() {
            return self
                .listed(locality.edges)
                .any(|edge| line_meets_corners(cell, corners, edge.a, edge.b));
        }
        if rule == PointRule::PointOrLeaf && self.exact_side(point, locality) {
            return true;
        }
        if self.edges.len() <= FEW_EDGES {
            return self.meets_cell(corners);
        }
        for edge in self.listed(locality.edges) {
            for index in 0..4 {
                match crossing(corners[index], corners[(index + 1) % 4], edge.a, edge.b) {
                    Crossing::Apart => {}
                    Crossing::Proper => return true,
                    Crossing::Vertex => return self.meets_cell(corners),
                }
            }
            if cell_contains(cell, edge.a) || cell_contains(cell, edge.b) {
                return true;
            }
        }
        self.exact_side(corners[0], locality)
    }

    /// The test by all edges: for shapes with few, and where a vertex is a corner of the cell.
    fn meets_cell(&self, corners: [Point; 4]) -> bool {
        let cell = Ring::new(corners.to_vec());
        match &self.shape {
            EnclosedShape::Line => false,
            EnclosedShape::Polygon(polygon) => {
                polygon_intersects(polygon, &Polygon { rings: vec![cell] })
            }
            EnclosedShape::Big(big) => ring_intersects(&cell, &big.ring),
        }
    }

    fn exact_side(&self, point: Point, locality: &Locality<'_>) -> bool {
        self.listed(locality.edges)
            .fold(locality.inside, |inside, edge| {
                inside ^ counts_as_crossing(locality.reference, point, edge.a, edge.b)
            })
    }

    /// Whether the shape's interior contains the point, by exact predicates on every edge.
    pub(super) fn contains_exactly(&self, point: Point) -> bool {
        if !self.has_interior() || self.frame.excludes_point(point) {
            return false;
        }
        self.exact_side(point, &self.whole())
    }
}

/// Whether the path from `reference` to `point` crosses the edge; exact where doubles cannot tell.
fn crosses(edge: &Edge, reference: Point, point: Point, path: Vector, height: f64) -> bool {
    let start = edge.normal.dot(reference.0);
    if height.abs() > SIGN_ERROR && start.abs() > SIGN_ERROR {
        if (height > 0.0) == (start > 0.0) {
            return false;
        }
        let (a, b) = (path.dot(edge.a.0), path.dot(edge.b.0));
        if a.abs() > SIGN_ERROR && b.abs() > SIGN_ERROR {
            return (start > 0.0) == (b > 0.0) && (start > 0.0) == (a < 0.0);
        }
    }
    counts_as_crossing(reference, point, edge.a, edge.b)
}

fn is_convex(polygon: &Polygon) -> bool {
    let ring = polygon.shell();
    let count = ring.vertices().len();
    !polygon.has_holes()
        && count <= FEW_EDGES
        && (0..count).all(|index| {
            let normal = ring.vertex(index).0.cross(ring.vertex(index + 1).0);
            (0..count).all(|other| {
                other == index
                    || other == (index + 1) % count
                    || normal.dot(ring.vertex(other).0) > SIGN_ERROR
            })
        })
}

/// A rectangle in degrees outside which nothing matches.
#[derive(Debug, Clone, Copy)]
struct Frame {
    south: f64,
    north: f64,
    west: f64,
    east: f64,
}

impl Frame {
    fn new(bound: Rect) -> Self {
        if bound.is_empty() {
            return Self {
                south: 1.0,
                north: -1.0,
                west: -181.0,
                east: 181.0,
            };
        }
        let wide = bound.expanded_by_distance(Angle::from_radians(10.0 * NEAR_RADIANS));
        let (west, east) = if wide.lng.is_full() {
            (-181.0, 181.0)
        } else {
            (wide.lng.lo.to_degrees(), wide.lng.hi.to_degrees())
        };
        Self {
            south: wide.lat.lo.to_degrees(),
            north: wide.lat.hi.to_degrees(),
            west,
            east,
        }
    }

    fn excludes(&self, position: Position) -> bool {
        if position.lat < self.south || position.lat > self.north {
            return true;
        }
        if self.west <= self.east {
            position.lon < self.west || position.lon > self.east
        } else {
            position.lon < self.west && position.lon > self.east
        }
    }

    fn excludes_point(&self, point: Point) -> bool {
        let position = s2rst::s2::LatLng::from_point(point);
        self.excludes(Position {
            lon: position.lng.degrees(),
            lat: position.lat.degrees(),
        })
    }
}
