//! Contains and intersects between lines and polygons, with mongod's answers on boundaries.
//!
//! In: two shapes. Out: whether one contains, or meets, the other. The rules are those of
//! the S2 version that mongod carries: rings are compared by proper edge crossings and, at
//! shared vertices, by the order of edges around them; a line is clipped to a polygon and
//! the pieces are looked at. Point against shape is in `boundary`, which has the hot path.

use super::geometry::{BigPolygon, Line, Polygon, Ring};
use super::pairs::{EdgeBox, overlapping_pairs};
use super::predicates::{
    Crossing, Wedge, WedgeRelation, angle, cell_contains, crossing, distance_to_edge,
    nearest_on_edge, ordered, robust_cross, vertex_crossing, wedge_contains, wedge_intersects,
    wedge_relation,
};
use super::vector::{corners, dot, norm2, unit};
use s2rst::s1::Angle;
use s2rst::s2::polyline::Polyline;
use s2rst::s2::{Cell, Point};
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

/// Looks for a proper crossing, and shows every shared vertex with its two wedges to `stop`.
fn compare_boundaries(
    a: &Ring,
    b: &Ring,
    stop: &mut dyn FnMut(Wedge, Point, Wedge) -> bool,
) -> Boundaries {
    let mut outcome = Boundaries::Apart;
    let _ = overlapping_pairs(a.boxes(), b.boxes(), &mut |i, j| {
        match crossing(b.vertex(j), b.vertex(j + 1), a.vertex(i), a.vertex(i + 1)) {
            Crossing::Apart => return ControlFlow::Continue(()),
            Crossing::Proper => outcome = Boundaries::Cross,
            Crossing::Vertex => {
                let shared = a.vertex(i + 1);
                // Each shared vertex is looked at once: where both edges end in it.
                if shared != b.vertex(j + 1) || !stop(a.wedge(i + 1), shared, b.wedge(j + 1)) {
                    return ControlFlow::Continue(());
                }
                outcome = Boundaries::Stopped;
            }
        }
        ControlFlow::Break(())
    });
    outcome
}

/// Whether the interior of `a` contains that of `b`; shared boundary is allowed.
pub(super) fn ring_contains(a: &Ring, b: &Ring) -> bool {
    if !a.bound().contains(b.bound()) {
        return false;
    }
    let first = b.vertex(0);
    if !a.contains_point(first) && !a.has_vertex(first) {
        return false;
    }
    let boundaries = compare_boundaries(a, b, &mut |own, vertex, other| {
        !wedge_contains(own, vertex, other)
    });
    if boundaries != Boundaries::Apart {
        return false;
    }
    // Two rings whose union is the sphere contain each other's boundaries.
    let whole_sphere = a.bound().union(b.bound()).is_full();
    !(whole_sphere && b.contains_point(a.vertex(0)) && !b.has_vertex(a.vertex(0)))
}

/// Whether the interiors of two rings meet.
pub(super) fn ring_intersects(a: &Ring, b: &Ring) -> bool {
    // The order decides nothing but the rounding of collinear points.
    let (a, b) = if b.vertices().len() > a.vertices().len() {
        (b, a)
    } else {
        (a, b)
    };
    if !a.bound().intersects(b.bound()) {
        return false;
    }
    if a.contains_point(b.vertex(0)) && !a.has_vertex(b.vertex(0)) {
        return true;
    }
    let boundaries = compare_boundaries(a, b, &mut wedge_intersects);
    let contains_a = || b.contains_point(a.vertex(0)) && !b.has_vertex(a.vertex(0));
    boundaries != Boundaries::Apart || (b.bound().contains(a.bound()) && contains_a())
}

/// -1 when the boundaries cross, 1 when `a` contains `b`, 0 otherwise.
pub(super) fn contains_or_crosses(a: &Ring, b: &Ring) -> i32 {
    if !a.bound().intersects(b.bound()) {
        return 0;
    }
    let (mut a_wider, mut b_wider, mut disjoint) = (false, false, false);
    let boundaries = compare_boundaries(a, b, &mut |own, vertex, other| {
        match wedge_relation(own, vertex, other) {
            WedgeRelation::Overlaps => return true,
            WedgeRelation::Contains => a_wider = true,
            WedgeRelation::Contained => b_wider = true,
            WedgeRelation::Disjoint => disjoint = true,
            WedgeRelation::Equal => {}
        }
        a_wider && b_wider
    });
    if boundaries != Boundaries::Apart {
        return -1;
    }
    let has_first = || a.contains_point(b.vertex(0)) || a.has_vertex(b.vertex(0));
    i32::from(!disjoint && !b_wider && a.bound().contains(b.bound()) && has_first())
}

/// Whether `a` contains `b`, given that their boundaries do not cross.
pub(super) fn contains_nested(a: &Ring, b: &Ring) -> bool {
    if !a.bound().contains(b.bound()) {
        return false;
    }
    let shared = b.vertex(1);
    match a.vertices().iter().position(|vertex| *vertex == shared) {
        None => a.contains_point(shared),
        Some(index) => wedge_contains(a.wedge(index), shared, b.wedge(1)),
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
    if !a.bound().contains(b.bound()) && !a.bound().lng.union(b.bound().lng).is_full() {
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
    if !a.bound().intersects(b.bound()) {
        return false;
    }
    let (a_boxes, b_boxes) = (line_boxes(a), line_boxes(b));
    overlapping_pairs(&a_boxes, &b_boxes, &mut |i, j| match crossing(
        a.vertices[i],
        a.vertices[i + 1],
        b.vertices[j],
        b.vertices[j + 1],
    ) {
        Crossing::Apart => ControlFlow::Continue(()),
        Crossing::Vertex | Crossing::Proper => ControlFlow::Break(()),
    })
    .is_break()
}

fn line_boxes(line: &Line) -> Vec<EdgeBox> {
    line.edges().map(|(a, b)| EdgeBox::new(a, b)).collect()
}

/// Which side of the polygon a line is clipped to.
#[derive(Clone, Copy, PartialEq)]
enum ClipSide {
    Interior,
    Exterior,
}

/// Whether the whole line lies in the polygon or on its boundary.
///
/// As in mongod, a line that turns back on itself may be denied, since the clipped line has
/// to follow it from end to end.
pub(super) fn polygon_contains_line(polygon: &Polygon, line: &Line) -> bool {
    let mut pieces = clip(polygon, line, ClipSide::Interior);
    let (Some(piece), true) = (pieces.pop(), pieces.is_empty()) else {
        return false;
    };
    let whole = Polyline::new(line.vertices.clone());
    Polyline::new(piece).nearly_covers(&whole, Angle::from_radians(COVER_RADIANS))
}

/// Whether any stretch of the line lies in the polygon.
pub(super) fn polygon_intersects_line(polygon: &Polygon, line: &Line) -> bool {
    !clip(polygon, line, ClipSide::Interior).is_empty()
}

/// The pieces of a line on one side of a polygon's boundary, in order.
fn clip(polygon: &Polygon, line: &Line, side: ClipSide) -> Vec<Vec<Point>> {
    let mut meetings = meetings(polygon, line).into_iter().peekable();
    let mut inside = polygon.contains_point(line.vertices[0]) ^ (side == ClipSide::Exterior);
    let mut pieces = Vec::new();
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

/// Goes on with the last piece when `first` is where it ends; vertices that fall together are merged.
fn extend(pieces: &mut Vec<Vec<Point>>, first: Point, last: Point) {
    let ends_at = |piece: &Vec<Point>, point: Point| {
        piece
            .last()
            .is_some_and(|end| angle(*end, point) <= MERGE_RADIANS)
    };
    if !pieces.last().is_some_and(|piece| ends_at(piece, first)) {
        pieces.push(vec![first]);
    }
    if let Some(piece) = pieces.last_mut().filter(|piece| !ends_at(piece, last)) {
        piece.push(last);
    }
}

/// Where each of the line's edges meets the polygon's: (line edge, (fraction, point)), by line edge.
fn meetings(polygon: &Polygon, line: &Line) -> Vec<(usize, (f64, Point))> {
    let boxes = line_boxes(line);
    let mut found = Vec::new();
    for (index, ring) in polygon.rings.iter().enumerate() {
        let _ = overlapping_pairs(&boxes, ring.boxes(), &mut |i, j| {
            let edge = [ring.vertex(j), ring.vertex(j + 1)];
            // The polygon's interior is on the left of its shell and on the right of its holes.
            let edge = if index == 0 { edge } else { [edge[1], edge[0]] };
            if let Some(stop) = meeting([line.vertices[i], line.vertices[i + 1]], edge) {
                found.push((i, stop));
            }
            ControlFlow::Continue(())
        });
    }
    found.sort_by_key(|(edge, _)| *edge);
    found
}

fn meeting([a0, a1]: [Point; 2], [b0, b1]: [Point; 2]) -> Option<(f64, Point)> {
    match crossing(a0, a1, b0, b1) {
        Crossing::Apart => None,
        Crossing::Proper => {
            let point = intersection(a0, a1, b0, b1);
            let (before, after) = (angle(point, a0), angle(point, a1));
            Some((before / (before + after), point))
        }
        // Symmetric edges then both fall away, and equal ones are both kept.
        Crossing::Vertex if vertex_crossing(a0, a1, b0, b1) => Some(if a0 == b0 || a0 == b1 {
            (0.0, a0)
        } else {
            (1.0, a1)
        }),
        Crossing::Vertex => None,
    }
}

/// Where two edges that cross properly meet; always between the ends of both.
fn intersection(a0: Point, a1: Point, b0: Point, b1: Point) -> Point {
    let normal = |from: Point, to: Point| Point(unit(robust_cross(from, to)));
    let (a_normal, b_normal) = (normal(a0, a1), normal(b0, b1));
    let mut meeting = normal(a_normal, b_normal);
    if dot(meeting.0, (a0.0 + a1.0) + (b0.0 + b1.0)) < 0.0 {
        meeting = Point(-meeting.0);
    }
    let in_a = |point: Point| ordered(a0, point, a1, a_normal);
    let in_b = |point: Point| ordered(b0, point, b1, b_normal);
    if in_a(meeting) && in_b(meeting) {
        return meeting;
    }
    // Nearly parallel edges: the nearest end that lies on the other edge.
    let ends = [
        (a0, in_b(a0)),
        (a1, in_b(a1)),
        (b0, in_a(b0)),
        (b1, in_a(b1)),
    ];
    let on_both = ends
        .into_iter()
        .filter(|(_, on_both)| *on_both)
        .map(|(end, _)| end);
    let distance2 = |point: &Point| norm2(meeting.0 - point.0);
    on_both
        .min_by(|x, y| {
            distance2(x)
                .total_cmp(&distance2(y))
                .then_with(|| x.cmp_point(*y))
        })
        .unwrap_or(meeting)
}

/// Whether a strict-winding polygon contains a line.
pub(super) fn big_contains_line(big: &BigPolygon, line: &Line) -> bool {
    let outside = if big.is_normalized {
        ClipSide::Exterior
    } else {
        ClipSide::Interior
    };
    clip(&big.boundary, line, outside).is_empty()
}

/// Whether a strict-winding polygon contains a polygon.
pub(super) fn big_contains(big: &BigPolygon, polygon: &Polygon) -> bool {
    if big.is_normalized {
        polygon_contains(&big.boundary, polygon)
    } else {
        !polygon_intersects(&big.boundary, polygon)
    }
}

/// Whether a strict-winding polygon meets a polygon.
pub(super) fn big_intersects(big: &BigPolygon, polygon: &Polygon) -> bool {
    if big.is_normalized {
        polygon_intersects(&big.boundary, polygon)
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
    let corners = corners(cell);
    line.edges()
        .any(|(a, b)| line_meets_corners(cell, corners, a, b))
}

/// Whether an edge touches a cell with these corners.
pub(super) fn line_meets_corners(cell: Cell, corners: [Point; 4], a: Point, b: Point) -> bool {
    let meets =
        |index: usize| crossing(corners[index], corners[(index + 1) % 4], a, b) != Crossing::Apart;
    cell_contains(cell, a) || cell_contains(cell, b) || (0..4).any(meets)
}

/// Whether a polygon's interior meets a cell.
pub(super) fn polygon_meets_cell(polygon: &Polygon, cell: Cell) -> bool {
    let corners = corners(cell);
    polygon_intersects(
        polygon,
        &Polygon {
            rings: vec![Ring::new(corners.to_vec())],
        },
    )
}

/// Radians from a point to the nearest point of some edges.
fn distance_to_edges(point: Point, edges: impl Iterator<Item = (Point, Point)>) -> f64 {
    let by_distance = edges.map(|(a, b)| (distance_to_edge(point, a, b), (a, b)));
    let nearest = by_distance.min_by(|x, y| x.0.total_cmp(&y.0));
    nearest.map_or(f64::INFINITY, |(_, (a, b))| {
        angle(point, nearest_on_edge(point, a, b))
    })
}

/// Radians from a point to a line.
pub(super) fn distance_to_line(point: Point, line: &Line) -> f64 {
    distance_to_edges(point, line.edges())
}

/// Radians from a point to a polygon, zero inside it.
pub(super) fn distance_to_polygon(point: Point, polygon: &Polygon) -> f64 {
    if polygon.contains_point(point) {
        return 0.0;
    }
    distance_to_edges(point, polygon.rings.iter().flat_map(Ring::edges))
}
