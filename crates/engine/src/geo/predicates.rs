//! Orientation and crossing as the S2 library of 2011 decides them, which is what mongod runs.
//!
//! In: unit vectors. Out: signs. Today's S2 (and `s2rst`) decides exactly collinear points by
//! exact arithmetic and a symbolic perturbation; mongod's decides them in doubles, with
//! another perturbation. Points on the equator, on meridians and on shared edges are
//! collinear all the time, so equal answers need the same decisions. The order of
//! arguments matters where rounding does.

use super::vector::{cross, dot, norm, norm2, ortho, unit};
use s2rst::r3::Vector;
use s2rst::s2::coords::face_xyz_to_uv;
use s2rst::s2::{Cell, Point};

/// Above any rounding of a triple product of unit vectors.
const DETERMINANT_ERROR: f64 = 0.8e-15;

/// 1 when a, b and c turn left, -1 when they turn right, 0 when two are equal (or, rarely,
/// when doubles cannot tell).
pub(super) fn orientation(a: Point, b: Point, c: Point) -> i8 {
    orientation_by(a, b, c, cross(a.0, b.0))
}

/// [`orientation`], given the cross product of `a` and `b`.
fn orientation_by(a: Point, b: Point, c: Point, a_cross_b: Vector) -> i8 {
    let determinant = dot(a_cross_b, c.0);
    if determinant > DETERMINANT_ERROR {
        1
    } else if determinant < -DETERMINANT_ERROR {
        -1
    } else {
        near_orientation(a, b, c)
    }
}

/// The orientation of almost collinear points, from the differences of the nearest ones.
#[cold]
fn near_orientation(a: Point, b: Point, c: Point) -> i8 {
    if a == b || b == c || c == a {
        return 0;
    }
    // Points that are nearly antipodal are brought together by adding instead of subtracting.
    let toward = |x: Point, y: Point| if dot(x.0, y.0) > 0.0 { -1.0 } else { 1.0 };
    let (s_ab, s_bc, s_ca) = (toward(a, b), toward(b, c), toward(c, a));
    let (ab, bc, ca) = (a.0 + b.0 * s_ab, b.0 + c.0 * s_bc, c.0 + a.0 * s_ca);
    let (d_ab, d_bc, d_ca) = (norm2(ab), norm2(bc), norm2(ca));
    // The corner opposite the longest side is the origin; ties go by coordinates, so that
    // the answer does not depend on the order of the points.
    let below = |x: Point, y: Point| x.cmp_point(y).is_lt();
    let opposite_c = || dot(cross(ca, bc), c.0) * s_ca;
    let sign = if d_ca < d_bc || (d_ca == d_bc && below(a, b)) {
        if d_ab < d_bc || (d_ab == d_bc && below(a, c)) {
            dot(cross(ab, ca), a.0) * s_ab
        } else {
            opposite_c()
        }
    } else if d_ab < d_ca || (d_ab == d_ca && below(b, c)) {
        dot(cross(bc, ab), b.0) * s_bc
    } else {
        opposite_c()
    };
    match sign_of(sign) {
        0 => perturbed_orientation(a, b, c),
        sign => sign,
    }
}

/// The order of coplanar points around the origin in the planes y-z, z-x and x-y: what a
/// displacement by (e, e^2, e^3) would give.
fn perturbed_orientation(a: Point, b: Point, c: Point) -> i8 {
    let planes: [fn(Point) -> [f64; 2]; 3] =
        [|p| [p.0.y, p.0.z], |p| [p.0.z, p.0.x], |p| [p.0.x, p.0.y]];
    planes
        .into_iter()
        .map(|plane| {
            let (a, b, c) = (plane(a), plane(b), plane(c));
            (planar_turn(a, b) + planar_turn(b, c) + planar_turn(c, a)).signum()
        })
        .find(|turn| *turn != 0)
        .unwrap_or(0)
}

fn planar_turn(a: [f64; 2], b: [f64; 2]) -> i8 {
    let toward = if a[0] * b[0] + a[1] * b[1] > 0.0 {
        -1.0
    } else {
        1.0
    };
    let side = [a[0] + toward * b[0], a[1] + toward * b[1]];
    let (a2, b2) = (a[0] * a[0] + a[1] * a[1], b[0] * b[0] + b[1] * b[1]);
    let cross = |x: [f64; 2], y: [f64; 2]| x[0] * y[1] - x[1] * y[0];
    let a_below_b = a[0] < b[0] || (a[0] == b[0] && a[1] < b[1]);
    if a2 < b2 || (a2 == b2 && a_below_b) {
        sign_of(cross(a, side) * toward)
    } else {
        sign_of(cross(side, b))
    }
}

fn sign_of(value: f64) -> i8 {
    i8::from(value > 0.0) - i8::from(value < 0.0)
}

/// How two edges meet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Crossing {
    /// Not at all.
    Apart,
    /// In a vertex of both.
    Vertex,
    /// Inside both.
    Proper,
}

/// How edge `ab` meets edge `cd`.
pub(super) fn crossing(a: Point, b: Point, c: Point, d: Point) -> Crossing {
    let a_cross_b = cross(a.0, b.0);
    let acb = -orientation_by(a, b, c, a_cross_b);
    let bda = orientation_by(a, b, d, a_cross_b);
    if bda == -acb && bda != 0 {
        return Crossing::Apart;
    }
    if bda == 0 || acb == 0 {
        return Crossing::Vertex;
    }
    let c_cross_d = cross(c.0, d.0);
    let is_proper =
        -orientation_by(c, d, b, c_cross_d) == acb && orientation_by(c, d, a, c_cross_d) == acb;
    if is_proper {
        Crossing::Proper
    } else {
        Crossing::Apart
    }
}

/// Whether edges that share a vertex count as crossing: `ab` comes after `cd` in a turn around it.
pub(super) fn vertex_crossing(a: Point, b: Point, c: Point, d: Point) -> bool {
    if a == b || c == d {
        false
    } else if a == d {
        ordered(ortho(a), c, b, a)
    } else if b == c {
        ordered(ortho(b), d, a, b)
    } else if a == c {
        ordered(ortho(a), d, b, a)
    } else if b == d {
        ordered(ortho(b), c, a, b)
    } else {
        false
    }
}

/// Whether the edges cross, for counting which side of a boundary a point is on.
pub(super) fn counts_as_crossing(a: Point, b: Point, c: Point, d: Point) -> bool {
    match crossing(a, b, c, d) {
        Crossing::Apart => false,
        Crossing::Proper => true,
        Crossing::Vertex => vertex_crossing(a, b, c, d),
    }
}

/// Whether a, b and c are met in this order in a left turn around `o`.
pub(super) fn ordered(a: Point, b: Point, c: Point, o: Point) -> bool {
    let count = u8::from(orientation(b, o, a) >= 0)
        + u8::from(orientation(c, o, b) >= 0)
        + u8::from(orientation(a, o, c) > 0);
    count >= 2
}

/// A vector at right angles to both points, accurate even when they nearly coincide.
pub(super) fn robust_cross(a: Point, b: Point) -> Vector {
    let product = cross(b.0 + a.0, b.0 - a.0);
    if product == Vector::default() {
        ortho(a).0
    } else {
        product
    }
}

/// Whether a, b and c turn left, in plain doubles.
fn turns_left(a: Vector, b: Vector, c: Vector) -> bool {
    dot(cross(c, a), b) > 0.0
}

/// The distance in radians that decides which edge is nearest.
pub(super) fn distance_to_edge(point: Point, a: Point, b: Point) -> f64 {
    let normal = robust_cross(a, b);
    if turns_left(normal, a.0, point.0) && turns_left(point.0, b.0, normal) {
        return (dot(point.0, normal).abs() / norm(normal)).min(1.0).asin();
    }
    let chord2 = norm2(point.0 - a.0).min(norm2(point.0 - b.0));
    2.0 * (0.5 * chord2.sqrt()).min(1.0).asin()
}

/// The point of an edge that is nearest to `point`.
pub(super) fn nearest_on_edge(point: Point, a: Point, b: Point) -> Point {
    let normal = robust_cross(a, b);
    let foot = point.0 - normal * (dot(point.0, normal) / norm2(normal));
    if turns_left(normal, a.0, foot) && turns_left(foot, b.0, normal) {
        Point(unit(foot))
    } else if norm2(point.0 - a.0) <= norm2(point.0 - b.0) {
        a
    } else {
        b
    }
}

/// By how many radians a path turns left at `b`.
pub(super) fn turn(a: Point, b: Point, c: Point) -> f64 {
    let size = angle(Point(robust_cross(b, a)), Point(robust_cross(c, b)));
    if orientation(a, b, c) > 0 {
        size
    } else {
        -size
    }
}

/// Radians between two points, accurate when they are close.
pub(super) fn angle(a: Point, b: Point) -> f64 {
    norm(cross(a.0, b.0)).atan2(dot(a.0, b.0))
}

/// The point from which sides are counted: S2's origin of the time.
pub(super) fn origin() -> Point {
    Point(unit(Vector {
        x: 0.00457,
        y: 1.0,
        z: 0.0321,
    }))
}

/// Whether a point is in a cell or on its boundary; unlike today's S2, without any margin.
pub(super) fn cell_contains(cell: Cell, point: Point) -> bool {
    let bound = cell.bound_uv();
    face_xyz_to_uv(cell.face(), &point.0).is_some_and(|(u, v)| {
        u >= bound.x.lo && u <= bound.x.hi && v >= bound.y.lo && v <= bound.y.hi
    })
}

/// The two neighbours of a shared vertex in a ring: the one before and the one after it.
#[derive(Clone, Copy)]
pub(super) struct Wedge {
    pub(super) before: Point,
    pub(super) after: Point,
}

/// How two wedges at one vertex lie to each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WedgeRelation {
    Equal,
    Contains,
    Contained,
    Overlaps,
    Disjoint,
}

/// Whether wedge `a` contains wedge `b`.
pub(super) fn wedge_contains(a: Wedge, vertex: Point, b: Wedge) -> bool {
    ordered(a.after, b.after, b.before, vertex) && ordered(b.before, a.before, a.after, vertex)
}

/// Whether two wedges meet in more than an edge.
pub(super) fn wedge_intersects(a: Wedge, vertex: Point, b: Wedge) -> bool {
    !(ordered(a.before, b.after, b.before, vertex) && ordered(b.before, a.after, a.before, vertex))
}

/// How wedge `a` lies to wedge `b`.
pub(super) fn wedge_relation(a: Wedge, vertex: Point, b: Wedge) -> WedgeRelation {
    if a.before == b.before && a.after == b.after {
        return WedgeRelation::Equal;
    }
    if ordered(a.before, a.after, b.after, vertex) {
        if ordered(b.after, b.before, a.before, vertex) {
            WedgeRelation::Contains
        } else if a.after == b.after {
            WedgeRelation::Contained
        } else {
            WedgeRelation::Overlaps
        }
    } else if ordered(a.before, b.before, b.after, vertex) {
        WedgeRelation::Contained
    } else if ordered(a.before, b.before, a.after, vertex) {
        WedgeRelation::Disjoint
    } else {
        WedgeRelation::Overlaps
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use s2rst::s2::LatLng;

    fn point(lon: f64, lat: f64) -> Point {
        LatLng::from_degrees(lat, lon).to_point()
    }

    #[test]
    fn turns_have_opposite_signs_when_two_points_are_exchanged() {
        for (a, b, c) in [
            (point(0.0, 0.0), point(10.0, 0.0), point(20.0, 0.0)),
            (point(5.0, -10.0), point(5.0, 0.0), point(5.0, 80.0)),
            (point(1.0, 2.0), point(3.0, 4.0), point(-7.0, 11.0)),
        ] {
            assert_ne!(orientation(a, b, c), 0);
            assert_eq!(orientation(a, b, c), -orientation(b, a, c));
            assert_eq!(orientation(a, b, c), orientation(b, c, a));
        }
    }

    #[test]
    fn edges_meet_properly_or_in_a_vertex_or_not() {
        let (a, b) = (point(0.0, 0.0), point(10.0, 10.0));
        assert_eq!(
            crossing(a, b, point(0.0, 10.0), point(10.0, 0.0)),
            Crossing::Proper
        );
        assert_eq!(crossing(a, b, b, point(10.0, 0.0)), Crossing::Vertex);
        assert_eq!(
            crossing(a, b, point(20.0, 10.0), point(20.0, 0.0)),
            Crossing::Apart
        );
    }
}
