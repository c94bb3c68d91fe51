//! Rectangles of latitude and longitude around chains of edges, as the S2 library of 2011
//! computes them.
//!
//! In: vertices. Out: a rectangle without any margin for rounding. Today's S2 adds one;
//! mongod's has none, and rejects by it shapes that touch exactly at a rectangle's side.

use super::predicates::robust_cross;
use super::vector::{cross, dot, norm};
use s2rst::r1::Interval;
use s2rst::r3::Vector;
use s2rst::s2::{LatLng, Point, Rect};
use std::f64::consts::FRAC_PI_2;

/// The rectangle around the edges between consecutive vertices.
pub(super) fn around(vertices: impl Iterator<Item = Point>) -> Rect {
    let mut bound = Rect::empty();
    let mut previous: Option<(Point, LatLng)> = None;
    for vertex in vertices {
        let position = LatLng::from_point(vertex);
        bound = match previous {
            None => bound.add_point(position),
            Some((before, from)) => bulge(
                bound.union(Rect::from_point_pair(from, position)),
                before,
                vertex,
            ),
        };
        previous = Some((vertex, position));
    }
    bound
}

/// Widens the latitudes if an edge reaches farther north or south between its ends.
fn bulge(mut bound: Rect, a: Point, b: Point) -> Rect {
    let normal = robust_cross(a, b);
    let direction = cross(
        normal,
        Vector {
            x: 0.0,
            y: 0.0,
            z: 1.0,
        },
    );
    let (at_a, at_b) = (dot(direction, a.0), dot(direction, b.0));
    if at_a * at_b >= 0.0 {
        return bound;
    }
    let latitude = (normal.z / norm(normal)).abs().acos();
    bound.lat = if at_a < 0.0 {
        Interval::new(bound.lat.lo, latitude.max(bound.lat.hi))
    } else {
        Interval::new((-latitude).min(bound.lat.lo), bound.lat.hi)
    };
    // So close to a pole it is not certain on which side the edge passes.
    if latitude >= FRAC_PI_2 - 1e-15 {
        bound.lng = Rect::full_lng();
    }
    bound
}
