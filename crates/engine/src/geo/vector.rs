//! Vector arithmetic that rounds after every operation.
//!
//! In: vectors of the S2 library. Out: the same doubles that mongod's build computes. The
//! library's own products use fused multiply-add where the processor has it, which rounds
//! once less: exactly collinear points then turn the other way.

use s2rst::r3::Vector;
use s2rst::s2::{Cell, CellVertex, Point};

pub(super) fn dot(a: Vector, b: Vector) -> f64 {
    a.x * b.x + a.y * b.y + a.z * b.z
}

pub(super) fn cross(a: Vector, b: Vector) -> Vector {
    Vector {
        x: a.y * b.z - a.z * b.y,
        y: a.z * b.x - a.x * b.z,
        z: a.x * b.y - a.y * b.x,
    }
}

pub(super) fn norm2(a: Vector) -> f64 {
    dot(a, a)
}

pub(super) fn norm(a: Vector) -> f64 {
    norm2(a).sqrt()
}

/// The unit vector in the direction of `a`, which must not be zero.
pub(super) fn unit(a: Vector) -> Vector {
    a * (1.0 / norm(a))
}

/// A unit vector at right angles to a point; which one is fixed by the point.
pub(super) fn ortho(point: Point) -> Point {
    let mut other = Vector {
        x: 0.012,
        y: 0.0053,
        z: 0.00457,
    };
    match point.0.largest_abs_component() {
        0 => other.z = 1.0,
        1 => other.x = 1.0,
        _ => other.y = 1.0,
    }
    Point(unit(cross(point.0, other)))
}

/// A cell's four corners in a left turn.
pub(super) fn corners(cell: Cell) -> [Point; 4] {
    CellVertex::ALL.map(|corner| Point(unit(cell.vertex_raw(corner).0)))
}
