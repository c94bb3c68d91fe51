//! Contains and intersects between lines and polygons, with mongod's answers on boundaries.
//!
//! In: two shapes. Out: whether one contains, or meets, the other. The rules are those of
//! the S2 version that mongod carries: rings are compared by proper edge crossings and, at
//! shared vertices, by the order of edges around them; a line is clipped to a polygon and
//! the pieces are looked at. Point against shape is in `prepared`, which has the hot path.

use super::geometry::{BigPolygon, Line, Polygon, Ring};
use super::pairs::{EdgeBox, overlapping_pairs};
use s2rst::s2::edge_crossings::{Crossing, crossing_sign, intersection, vertex_crossing};
use s2rst::s2::wedge_relations::{WedgeRel, wedge_contains, wedge_intersects, wedge_relation};
use s2rst::s2::{Cell, CellVertex, Point};
use std::ops::ControlFlow;

/// mongod merges clipped vertices closer than this many radians.
const MERGE_RADIANS: f64 = 1.5e-15;
/// A clipped line must cover the line to within this: 1e-10 degrees.
const COVER_RADIANS: f64 = 1e-10 * std::f64::consts::PI / 180.0;

/// What happens where two rings' boundaries meet.
#[derive(PartialEq)]
enum Boundaries {
    Cross,
    /// A shared vertex satisfied the caller's test.
    Stopped,
    Apart,
}

/// Looks for a proper crossing, and shows every shared vertex's two wedges to `wedge`.
fn compare_boundaries(
    a: &Ring,
    b: &Ring,
    wedge: &mut dyn FnMut([Point; 2], Point, [Point; 2]) -> bool,
) -> Boundaries {
    let (a_boxes, b_boxes) = (ring_boxes(a), ring_boxes(b));
    let (a_len, b_len) = (a.vertices().len(), b.vertices().len());
    let mut outcome = Boundaries::Apart;
    let _ = overlapping_pairs(&a_boxes, &b_boxes, &mut |i, j| {
        match crossing_sign(a.vertex(i), a.vertex(i + 1), b.vertex(j), b.vertex(j + 1)) {
            Crossing::DoNotCross => return ControlFlow::Continue(()),
            Crossing::Cross => outcome = Boundaries::Cross,
            Crossing::MaybeCross => {
                let shared = a.vertex(i + 1);
                // Each shared vertex is looked at once: where both edges end in it.
                if shared != b.vertex(j + 1) {
                    return ControlFlow::Continue(());
                }
                let a_wedge = [a.vertex(i), a.vertex((i + 2) % a_len)];
                let b_wedge = [b.vertex(j), b.vertex((j + 2) % b_len)];
                if !wedge(a_wedge, shared, b_wedge) {
                    return ControlFlow::Continue(());
                }
                outcome = Boundaries::Stopped;
            }
        }
        ControlFlow::Break(())
    });
    outcome
}

fn ring_boxes(ring: &Ring) -> Vec<EdgeBox> {
    ring.edges().map(|(a, b)| EdgeBox::new(a, b)).collect()
}

fn has_vertex(ring: &Ring, point: Point) -> bool {
    ring.vertices().contains(&point)
}

/// Whether the interior of `a` contains that of `b`; shared boundary is allowed.
pub(super) fn ring_contains(a: &Ring, b: &Ring) -> bool {
    let first = b.vertex(0);
    if !a.contains_point(first) && !has_vertex(a, first) {
        return false;
    }
    let boundaries = compare_boundaries(a, b, &mut |[a0, a2], shared, [b0, b2]| {
        !wedge_contains(a0, shared, a2, b0, b2)
    });
    if boundaries != Boundaries::Apart {
        return false;
    }
    // Two rings whose union is the sphere contain each other's boundaries.
    let whole_sphere = a.bound().union(b.bound()).is_full();
    !(whole_sphere && b.contains_point(a.vertex(0)) && !has_vertex(b, a.vertex(0)))
}

/// Whether the interiors of two rings meet.
pub(super) fn ring_intersects(a: &Ring, b: &Ring) -> bool {
    if !a.bound().intersects(b.bound()) {
        return false;
    }
    if a.contains_point(b.vertex(0)) && !has_vertex(a, b.vertex(0)) {
        return true;
    }
    let boundaries = compare_boundaries(a, b, &mut |[a0, a2], shared, [b0, b2]| {
        wedge_intersects(a0, shared, a2, b0, b2)
    });
    boundaries != Boundaries::Apart
        || (b.contains_point(a.vertex(0)) && !has_vertex(b, a.vertex(0)))
}

/// -1 when the boundaries cross, 1 when `a` contains `b`, 0 otherwise.
pub(super) fn contains_or_crosses(a: &Ring, b: &Ring) -> i32 {
    if !a.bound().intersects(b.bound()) {
        return 0;
    }
    let (mut a_wider, mut b_wider, mut disjoint) = (false, false, false);
    let boundaries = compare_boundaries(a, b, &mut |[a0, a2], shared, [b0, b2]| {
        match wedge_relation(a0, shared, a2, b0, b2) {
            WedgeRel::ProperlyOverlaps => return true,
            WedgeRel::ProperlyContains => a_wider = true,
            WedgeRel::IsProperlyContained => b_wider = true,
            WedgeRel::IsDisjoint => disjoint = true,
            WedgeRel::Equal => {}
        }
        a_wider && b_wider
    });
    if boundaries != Boundaries::Apart {
        return -1;
    }
    let contained =
        !disjoint && !b_wider && (a.contains_point(b.vertex(0)) || has_vertex(a, b.vertex(0)));
    i32::from(contained)
}

/// Whether `a` contains `b`, given that their boundaries do not cross.
pub(super) fn contains_nested(a: &Ring, b: &Ring) -> bool {
    let shared = b.vertex(1);
    match a.vertices().iter().position(|vertex| *vertex == shared) {
        None => a.contains_point(shared),
        Some(index) => {
            let before = a.vertex(index + a.vertices().len() - 1);
            wedge_contains(
                before,
                shared,
                a.vertex(index + 1),
                b.vertex(0),
                b.vertex(2),
            )
        }
    }
}

fn polygon_contains_or_crosses(a: &Polygon, ring: &Ring) -> i32 {
    let mut inside = 0;
    for own in &a.rings {
        match contains_or_crosses(own, ring) {
            -1 => return -1,
            contains => inside ^= contains,
        }
    }
    inside
}

/// Whether polygon `a` contains polygon `b`.
pub(super) fn polygon_contains(a: &Polygon, b: &Polygon) -> bool {
    if !a.has_holes() && !b.has_holes() {
        return ring_contains(a.shell(), b.shell());
    }
    if !a.bound().expand_for_subregions().contains(b.bound()) {
        return false;
    }
    polygon_contains_or_crosses(a, b.shell()) > 0
        && a.rings[1..]
            .iter()
            .all(|hole| polygon_contains_or_crosses(b, hole) == 0)
}

/// Whether the interiors of two polygons meet.
pub(super) fn polygon_intersects(a: &Polygon, b: &Polygon) -> bool {
    if !a.has_holes() && !b.has_holes() {
        return ring_intersects(a.shell(), b.shell());
    }
    a.bound().intersects(b.bound())
        && (intersects_shell(a, b.shell()) || intersects_shell(b, a.shell()))
}

fn intersects_shell(a: &Polygon, shell: &Ring) -> bool {
    let mut inside = false;
    for ring in &a.rings {
        if ring_contains(ring, shell) {
            inside = !inside;
        } else if !ring_contains(shell, ring) && ring_intersects(ring, shell) {
            return true;
        }
    }
    inside
}

/// Whether two lines touch or cross.
pub(super) fn line_intersects(a: &Line, b: &Line) -> bool {
    let (a_boxes, b_boxes) = (line_boxes(a), line_boxes(b));
    overlapping_pairs(&a_boxes, &b_boxes, &mut |i, j| {
        let crossing = crossing_sign(
            a.vertices[i],
            a.vertices[i + 1],
            b.vertices[j],
            b.vertices[j + 1],
        );
        if crossing == Crossing::DoNotCross {
            ControlFlow::Continue(())
        } else {
            ControlFlow::Break(())
        }
    })
    .is_break()
}

fn line_boxes(line: &Line) -> Vec<EdgeBox> {
    line.edges().map(|(a, b)| EdgeBox::new(a, b)).collect()
}

/// Which side of the polygon a line is clipped to.
#[derive(Clone, Copy, PartialEq)]
enum Side {
    Interior,
    Exterior,
}

/// A maximal stretch of a clipped line: its first and last vertex.
struct Piece {
    first: Point,
    last: Point,
}

/// Whether the whole line lies in the polygon or on its boundary.
pub(super) fn polygon_contains_line(polygon: &Polygon, line: &Line) -> bool {
    let pieces = clip(polygon, line, Side::Interior);
    let [piece] = &pieces[..] else { return false };
    let (start, end) = (line.vertices[0], line.vertices[line.vertices.len() - 1]);
    angle(piece.first, start) <= COVER_RADIANS && angle(piece.last, end) <= COVER_RADIANS
}

/// Whether any stretch of the line lies in the polygon.
pub(super) fn polygon_intersects_line(polygon: &Polygon, line: &Line) -> bool {
    !clip(polygon, line, Side::Interior).is_empty()
}

fn angle(a: Point, b: Point) -> f64 {
    a.0.cross(b.0).norm().atan2(a.0.dot(b.0))
}

/// The pieces of a line on one side of a polygon's boundary, in order.
fn clip(polygon: &Polygon, line: &Line, side: Side) -> Vec<Piece> {
    let edges: Vec<_> = polygon.oriented_edges().collect();
    let meetings = meetings(&edges, line);
    let mut meetings = meetings.into_iter().peekable();
    let mut inside = polygon.contains_point(line.vertices[0]) ^ (side == Side::Exterior);
    let mut pieces: Vec<Piece> = Vec::new();
    for (index, (a0, a1)) in line.edges().enumerate() {
        let mut stops: Vec<(f64, Point)> = Vec::new();
        while let Some((_, stop)) = meetings.next_if(|(edge, _)| *edge == index) {
            stops.push(stop);
        }
        if inside {
            stops.push((0.0, a0));
        }
        inside = stops.len() % 2 == 1;
        if inside {
            stops.push((1.0, a1));
        }
        stops.sort_by(|x, y| x.0.total_cmp(&y.0).then_with(|| x.1.cmp_point(y.1)));
        for stretch in stops
            .chunks_exact(2)
            .filter(|stretch| stretch[0] != stretch[1])
        {
            extend(&mut pieces, stretch[0].1, stretch[1].1);
        }
    }
    pieces
}

fn extend(pieces: &mut Vec<Piece>, first: Point, last: Point) {
    match pieces.last_mut() {
        Some(piece) if angle(piece.last, first) <= MERGE_RADIANS => {
            if angle(piece.last, last) > MERGE_RADIANS {
                piece.last = last;
            }
        }
        _ => {
            let last = if angle(first, last) > MERGE_RADIANS {
                last
            } else {
                first
            };
            pieces.push(Piece { first, last });
        }
    }
}

/// Where each of the line's edges meets the polygon's: (line edge, (fraction, point)), by line edge.
fn meetings(edges: &[(Point, Point)], line: &Line) -> Vec<(usize, (f64, Point))> {
    let polygon_boxes: Vec<_> = edges.iter().map(|(a, b)| EdgeBox::new(*a, *b)).collect();
    let mut found = Vec::new();
    let _ = overlapping_pairs(&line_boxes(line), &polygon_boxes, &mut |i, j| {
        if let Some(stop) = meeting([line.vertices[i], line.vertices[i + 1]], edges[j]) {
            found.push((i, stop));
        }
        ControlFlow::Continue(())
    });
    found.sort_by_key(|(edge, _)| *edge);
    found
}

fn meeting([a0, a1]: [Point; 2], (b0, b1): (Point, Point)) -> Option<(f64, Point)> {
    match crossing_sign(a0, a1, b0, b1) {
        Crossing::DoNotCross => None,
        Crossing::Cross => {
            let point = intersection(a0, a1, b0, b1);
            let (before, after) = (angle(point, a0), angle(point, a1));
            Some((before / (before + after), point))
        }
        // Symmetric edges then both fall away, and equal ones are both kept.
        Crossing::MaybeCross if vertex_crossing(a0, a1, b0, b1) => Some(if a0 == b0 || a0 == b1 {
            (0.0, a0)
        } else {
            (1.0, a1)
        }),
        Crossing::MaybeCross => None,
    }
}

/// Whether a strict-winding polygon contains a line.
pub(super) fn big_contains_line(big: &BigPolygon, line: &Line) -> bool {
    let outside = if big.is_normalized {
        Side::Exterior
    } else {
        Side::Interior
    };
    clip(&big.border, line, outside).is_empty()
}

/// Whether a strict-winding polygon contains a polygon.
pub(super) fn big_contains(big: &BigPolygon, polygon: &Polygon) -> bool {
    if big.is_normalized {
        polygon_contains(&big.border, polygon)
    } else {
        !polygon_intersects(&big.border, polygon)
    }
}

/// Whether a strict-winding polygon meets a polygon.
pub(super) fn big_intersects(big: &BigPolygon, polygon: &Polygon) -> bool {
    if big.is_normalized {
        polygon_intersects(&big.border, polygon)
    } else {
        ring_intersects(&big.ring, polygon.shell())
    }
}

/// Whether a strict-winding polygon meets a line.
pub(super) fn big_intersects_line(big: &BigPolygon, line: &Line) -> bool {
    let mut vertices = big.ring.vertices().to_vec();
    vertices.push(vertices[0]);
    line_intersects(&Line { vertices }, line) || big.ring.contains_point(line.vertices[0])
}

/// Whether a line touches a cell.
pub(super) fn line_meets_cell(line: &Line, cell: Cell) -> bool {
    let corners = CellVertex::ALL.map(|corner| cell.vertex(corner));
    line.vertices
        .iter()
        .any(|vertex| cell.contains_point(*vertex))
        || line.edges().any(|(a, b)| {
            (0..4).any(|index| {
                crossing_sign(corners[index], corners[(index + 1) % 4], a, b)
                    != Crossing::DoNotCross
            })
        })
}

/// Whether a polygon's interior meets a cell.
pub(super) fn polygon_meets_cell(polygon: &Polygon, cell: Cell) -> bool {
    let corners = CellVertex::ALL.map(|corner| cell.vertex(corner));
    polygon_intersects(
        polygon,
        &Polygon {
            rings: vec![Ring::new(corners.to_vec())],
        },
    )
}
