//! Descends S2 cells, carrying only the edges that cross each cell.
//!
//! In: prepared shapes. Out: for each cell whether it is disjoint, inside or on the boundary.
//! On a face of the cube a geodesic is a straight segment, so whether an edge touches a
//! cell is a planar test. Every cell is widened by more than a leaf cell's size before an
//! edge is called absent: a cell without edges is therefore wholly inside or outside, and
//! so is every leaf cell in it. Sides are counted from one cell's middle to its child's; a
//! count that doubles cannot decide is made by exact predicates.

use super::boundary::{Boundary, Edge};
use super::cap::SphericalCap;
use super::cut::{CROSS_ERROR, Cut};
use super::geometry::Position;
use super::planar::{DegreeRect, Planar, Relation};
use super::predicates::counts_as_crossing;
use s2rst::s2::coords::{face_uv_to_xyz, xyz_to_face_uv};
use s2rst::s2::edge_clipping::clip_to_padded_face;
use s2rst::s2::{Cell, CellId, Face, LatLng, Point, Rect};

/// By how much a cell is widened, in face coordinates: several leaf cells (2.5e-9 each).
const PAD: f64 = 2e-8;
/// Edges are clipped to faces widened by this; larger than [`PAD`].
const FACE_PAD: f64 = 1e-6;

/// An edge as a segment on a face.
#[derive(Debug, Clone, Copy)]
pub(super) struct FlatEdge {
    from: [f64; 2],
    to: [f64; 2],
    /// Its place in the boundary.
    pub(super) edge: u32,
}

/// The edges on every face that they reach.
pub(super) fn flatten(edges: &[Edge]) -> [Vec<FlatEdge>; 6] {
    let mut faces: [Vec<FlatEdge>; 6] = Default::default();
    for (index, edge) in edges.iter().enumerate() {
        let index = size(index);
        if let Some((face, from, to)) = within_one_face(edge) {
            faces[face.as_u8() as usize].push(FlatEdge {
                from,
                to,
                edge: index,
            });
            continue;
        }
        for face in Face::iter() {
            if let Some((from, to)) = clip_to_padded_face(edge.a, edge.b, face, FACE_PAD) {
                let (from, to) = ([from.x, from.y], [to.x, to.y]);
                faces[face.as_u8() as usize].push(FlatEdge {
                    from,
                    to,
                    edge: index,
                });
            }
        }
    }
    faces
}

/// The ends of an edge that stays clear of its face's boundary, as nearly all do.
fn within_one_face(edge: &Edge) -> Option<(Face, [f64; 2], [f64; 2])> {
    let (face, u, v) = xyz_to_face_uv(&edge.a.0);
    let (other, x, y) = xyz_to_face_uv(&edge.b.0);
    let is_clear = face == other && [u, v, x, y].iter().all(|axis| axis.abs() < 1.0 - FACE_PAD);
    is_clear.then_some((face, [u, v], [x, y]))
}

/// A widened rectangle on a face.
#[derive(Clone, Copy)]
struct FlatRect {
    center: [f64; 2],
    half: [f64; 2],
}

impl FlatRect {
    fn new(cell: Cell) -> Self {
        let bound = cell.bound_uv();
        Self {
            center: middle(cell),
            half: [
                (bound.x.hi - bound.x.lo) / 2.0 + PAD,
                (bound.y.hi - bound.y.lo) / 2.0 + PAD,
            ],
        }
    }
}

fn middle(cell: Cell) -> [f64; 2] {
    let bound = cell.bound_uv();
    [
        (bound.x.lo + bound.x.hi) / 2.0,
        (bound.y.lo + bound.y.hi) / 2.0,
    ]
}

/// The point that stands for a cell when sides are counted.
pub(super) fn middle_point(cell: Cell) -> Point {
    let [u, v] = middle(cell);
    Point(face_uv_to_xyz(cell.face(), u, v).normalize())
}

fn cross(a: [f64; 2], b: [f64; 2], c: [f64; 2]) -> f64 {
    (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0])
}

impl FlatEdge {
    fn touches(&self, rect: &FlatRect) -> bool {
        let reach = |axis: usize| {
            let (low, high) = (
                self.from[axis].min(self.to[axis]),
                self.from[axis].max(self.to[axis]),
            );
            low <= rect.center[axis] + rect.half[axis]
                && high >= rect.center[axis] - rect.half[axis]
        };
        if !reach(0) || !reach(1) {
            return false;
        }
        let (du, dv) = (self.to[0] - self.from[0], self.to[1] - self.from[1]);
        cross(self.from, self.to, rect.center).abs()
            <= du.abs() * rect.half[1] + dv.abs() * rect.half[0] + CROSS_ERROR
    }

    /// Whether the straight path between two points of the face crosses; `None` when too close to tell.
    fn crosses(&self, start: [f64; 2], end: [f64; 2]) -> Option<bool> {
        let (a, b) = (
            cross(self.from, self.to, start),
            cross(self.from, self.to, end),
        );
        if a.abs() < CROSS_ERROR || b.abs() < CROSS_ERROR {
            return None;
        }
        if (a > 0.0) == (b > 0.0) {
            return Some(false);
        }
        let (c, d) = (cross(start, end, self.from), cross(start, end, self.to));
        if c.abs() < CROSS_ERROR || d.abs() < CROSS_ERROR {
            return None;
        }
        Some((c > 0.0) != (d > 0.0))
    }
}

/// A shape that cells are compared with.
#[derive(Clone, Copy)]
pub(super) enum GridTarget<'a> {
    Boundary(&'a Boundary),
    Cap(&'a SphericalCap),
    Planar(&'a Planar),
}

/// One shape that a boundary cell touches, with its edges there.
#[derive(Clone, Copy)]
pub(super) struct CellItem {
    target: u32,
    first_edge: u32,
    pub(super) edge_count: u32,
    /// Whether the cell's middle is inside.
    pub(super) inside: bool,
}

/// A boundary cell.
#[derive(Clone, Copy)]
pub(super) struct CellNode {
    pub(super) cell: Cell,
    first_item: u32,
    item_count: u32,
}

/// The boundary cells of one level, with their shapes and edges in shared arenas.
#[derive(Default)]
pub(super) struct Frontier {
    pub(super) nodes: Vec<CellNode>,
    items: Vec<CellItem>,
    edges: Vec<u32>,
}

pub(super) fn size(length: usize) -> u32 {
    u32::try_from(length).expect("shapes and frontiers hold fewer than 2^32 edges")
}

impl Frontier {
    /// The faces of the cube; those wholly inside go to `inside`.
    pub(super) fn roots(targets: &[GridTarget<'_>], inside: &mut Vec<CellId>) -> Self {
        let mut frontier = Self::default();
        for face in Face::iter() {
            let cell = Cell::from_face(face);
            let mut open = frontier.open(cell);
            for (index, target) in targets.iter().enumerate() {
                let relation = match target {
                    GridTarget::Boundary(boundary) => {
                        let all = 0..size(boundary.flat()[face.as_u8() as usize].len());
                        let contained = boundary.contains_exactly(middle_point(cell));
                        open.boundary(index, boundary, all, contained)
                    }
                    GridTarget::Cap(cap) => open.bare(index, cap.relation(cell)),
                    GridTarget::Planar(planar) => {
                        open.planar(index, planar, 0..size(planar.edge_count()))
                    }
                };
                open.note(relation);
            }
            open.close(inside);
        }
        frontier
    }

    /// Adds the children of `node`, a boundary cell of `self`, to `next`; those wholly inside go to `inside`.
    pub(super) fn split(
        &self,
        node: &CellNode,
        targets: &[GridTarget<'_>],
        next: &mut Self,
        inside: &mut Vec<CellId>,
    ) {
        let start = middle(node.cell);
        for child in node
            .cell
            .children()
            .expect("a boundary cell that is split is no leaf")
        {
            let mut open = next.open(child);
            for item in self.items_of(node) {
                let edges = self.edges_of(item).iter().copied();
                let relation = match targets[item.target as usize] {
                    GridTarget::Boundary(boundary) => {
                        let flat = &boundary.flat()[child.face().as_u8() as usize];
                        let path = Path {
                            start,
                            end: middle(child),
                            from: node.cell,
                            to: child,
                        };
                        let side =
                            |side, index: u32| side ^ path.crosses(boundary, &flat[index as usize]);
                        let contained =
                            boundary.has_interior() && edges.clone().fold(item.inside, side);
                        open.boundary(item.target as usize, boundary, edges, contained)
                    }
                    GridTarget::Cap(cap) => open.bare(item.target as usize, cap.relation(child)),
                    GridTarget::Planar(planar) => open.planar(item.target as usize, planar, edges),
                };
                open.note(relation);
            }
            open.close(inside);
        }
    }

    /// The line that cuts a boundary cell in two, if a single edge of a single polygon does.
    pub(super) fn cut(&self, node: &CellNode, targets: &[GridTarget<'_>]) -> Option<Cut> {
        let [item] = self.items_of(node) else {
            return None;
        };
        let (GridTarget::Boundary(boundary), [edge]) =
            (targets[item.target as usize], self.edges_of(item))
        else {
            return None;
        };
        let flat = &boundary.flat()[node.cell.face().as_u8() as usize][*edge as usize];
        let cut = || Cut::new([flat.from, flat.to], middle(node.cell), item.inside);
        boundary.has_interior().then(cut).flatten()
    }

    fn open(&mut self, cell: Cell) -> Open<'_> {
        let (items, edges) = (self.items.len(), self.edges.len());
        Open {
            frontier: self,
            cell,
            rect: FlatRect::new(cell),
            items,
            edges,
            is_inside: false,
        }
    }

    pub(super) fn items_of(&self, node: &CellNode) -> &[CellItem] {
        &self.items[node.first_item as usize..][..node.item_count as usize]
    }

    pub(super) fn edges_of(&self, item: &CellItem) -> &[u32] {
        &self.edges[item.first_edge as usize..][..item.edge_count as usize]
    }
}

/// The way from a cell's middle to its child's.
struct Path {
    start: [f64; 2],
    end: [f64; 2],
    from: Cell,
    to: Cell,
}

impl Path {
    fn crosses(&self, boundary: &Boundary, flat: &FlatEdge) -> bool {
        flat.crosses(self.start, self.end).unwrap_or_else(|| {
            let edge = boundary.edge(flat.edge);
            counts_as_crossing(
                middle_point(self.from),
                middle_point(self.to),
                edge.a,
                edge.b,
            )
        })
    }
}

/// A cell being compared with the shapes of its parent.
struct Open<'f> {
    frontier: &'f mut Frontier,
    cell: Cell,
    rect: FlatRect,
    items: usize,
    edges: usize,
    is_inside: bool,
}

impl Open<'_> {
    fn note(&mut self, relation: Relation) {
        self.is_inside |= relation == Relation::Inside;
    }

    fn boundary(
        &mut self,
        target: usize,
        boundary: &Boundary,
        edges: impl Iterator<Item = u32>,
        inside: bool,
    ) -> Relation {
        let flat = &boundary.flat()[self.cell.face().as_u8() as usize];
        let rect = self.rect;
        let touching = edges.filter(|index| flat[*index as usize].touches(&rect));
        if self.keep(target, touching, inside) {
            Relation::Boundary
        } else if inside {
            Relation::Inside
        } else {
            Relation::Disjoint
        }
    }

    fn planar(
        &mut self,
        target: usize,
        planar: &Planar,
        edges: impl Iterator<Item = u32>,
    ) -> Relation {
        let (first, second) = degree_rects(self.cell);
        let touches = |index: u32| {
            planar.edge_touches(index as usize, first)
                || second.is_some_and(|rect| planar.edge_touches(index as usize, rect))
        };
        if self.keep(target, edges.filter(|index| touches(*index)), false) {
            return Relation::Boundary;
        }
        let relation = planar.relation(first);
        let agrees = second.is_none_or(|rect| planar.relation(rect) == relation);
        self.bare(target, if agrees { relation } else { Relation::Boundary })
    }

    /// Keeps the edges that touch the cell; whether there are any.
    fn keep(&mut self, target: usize, edges: impl Iterator<Item = u32>, inside: bool) -> bool {
        let first = self.frontier.edges.len();
        self.frontier.edges.extend(edges);
        let count = self.frontier.edges.len() - first;
        if count > 0 {
            let (first_edge, edge_count) = (size(first), size(count));
            self.frontier.items.push(CellItem {
                target: size(target),
                first_edge,
                edge_count,
                inside,
            });
        }
        count > 0
    }

    /// Keeps a shape without edges where it is on the boundary.
    fn bare(&mut self, target: usize, relation: Relation) -> Relation {
        if relation == Relation::Boundary {
            self.frontier.items.push(CellItem {
                target: size(target),
                first_edge: 0,
                edge_count: 0,
                inside: false,
            });
        }
        relation
    }

    fn close(self, inside: &mut Vec<CellId>) {
        let Open {
            frontier,
            cell,
            items,
            edges,
            is_inside,
            ..
        } = self;
        if is_inside {
            inside.push(cell.id());
            frontier.items.truncate(items);
            frontier.edges.truncate(edges);
        } else if frontier.items.len() > items {
            let item_count = size(frontier.items.len() - items);
            frontier.nodes.push(CellNode {
                cell,
                first_item: size(items),
                item_count,
            });
        }
    }
}

/// The cell in degrees: one rectangle, or a second one where it meets the antimeridian.
fn degree_rects(cell: Cell) -> (DegreeRect, Option<DegreeRect>) {
    let bound: Rect = cell
        .rect_bound()
        .expanded(LatLng::from_radians(1e-12, 1e-12))
        .polar_closure();
    let (south, north) = (bound.lat.lo.to_degrees(), bound.lat.hi.to_degrees());
    let rect = |west: f64, east: f64| DegreeRect {
        low: Position {
            lon: west,
            lat: south,
        },
        high: Position {
            lon: east,
            lat: north,
        },
    };
    if bound.lng.is_full() {
        (rect(-180.0, 180.0), None)
    } else if bound.lng.is_inverted() {
        (
            rect(bound.lng.lo.to_degrees(), 180.0),
            Some(rect(-180.0, bound.lng.hi.to_degrees())),
        )
    } else {
        (
            rect(bound.lng.lo.to_degrees(), bound.lng.hi.to_degrees()),
            None,
        )
    }
}
