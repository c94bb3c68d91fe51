//! Whether rings and lines are valid, and mongod's words for why they are not.
//!
//! In: vertices on the sphere. Out: nothing, or the reason. Edges are compared in pairs
//! only where their bounding boxes meet, so a ring of thousands of vertices costs
//! milliseconds.

use super::geometry::Ring;
use super::pairs::{EdgeBox, own_pairs};
use super::predicates::{Crossing, crossing};
use super::relate::{contains_nested, contains_or_crosses};
use ahash::{AHashMap, AHashSet};
use s2rst::s2::{LatLng, Point};

/// Neighbouring vertices of a line must differ and must not be antipodal.
pub(super) fn line(vertices: &[Point]) -> Result<(), String> {
    for (index, pair) in vertices.windows(2).enumerate() {
        if pair[0] == pair[1] || pair[0].0 == -pair[1].0 {
            return Err(format!(
                "Vertices {index} and {} are identical or antipodal",
                index + 1
            ));
        }
    }
    Ok(())
}

/// A ring must not repeat a vertex, and its edges must not cross.
pub(super) fn ring(vertices: &[Point]) -> Result<(), String> {
    let mut seen = AHashMap::with_capacity(vertices.len());
    for (index, vertex) in vertices.iter().enumerate() {
        if let Some(first) = seen.insert(bits(*vertex), index) {
            return Err(format!("Duplicate vertices: {first} and {index}"));
        }
    }
    match first_crossing(vertices) {
        None => Ok(()),
        Some((first, second)) => Err(format!(
            "Edges {first} and {second} cross. Edge locations in degrees: {}-{} and {}-{}",
            degrees(vertices[first]),
            degrees(vertices[(first + 1) % vertices.len()]),
            degrees(vertices[second]),
            degrees(vertices[(second + 1) % vertices.len()]),
        )),
    }
}

fn first_crossing(vertices: &[Point]) -> Option<(usize, usize)> {
    let edge = |index: usize| (vertices[index], vertices[(index + 1) % vertices.len()]);
    let boxes: Vec<_> = (0..vertices.len())
        .map(|index| EdgeBox::new(edge(index).0, edge(index).1))
        .collect();
    let mut found: Option<(usize, usize)> = None;
    own_pairs(&boxes, &mut |first, second| {
        if second > first + 1 && found.is_none_or(|best| (first, second) < best) {
            let ((a, b), (c, d)) = (edge(first), edge(second));
            if crossing(a, b, c, d) == Crossing::Proper {
                found = Some((first, second));
            }
        }
    });
    found
}

/// Coordinates that are equal as numbers (`-0.0` and `0.0` too) have equal bits.
fn bits(point: Point) -> [u64; 3] {
    [point.0.x + 0.0, point.0.y + 0.0, point.0.z + 0.0].map(f64::to_bits)
}

fn degrees(point: Point) -> String {
    let position = LatLng::from_point(point);
    // mongod shows latitude first here.
    format!(
        "[{:.7}, {:.7}]",
        position.lat.degrees(),
        position.lng.degrees()
    )
}

/// Why valid rings do not make a polygon.
pub(super) enum PolygonFault {
    /// S2's own rules: shared edges, crossing rings.
    Invalid(String),
    /// A hole touches its parent in more than one vertex.
    Shares(String),
    /// A hole in a hole.
    Nested,
}

impl PolygonFault {
    pub(super) fn message(&self, polygon: &str) -> String {
        match self {
            PolygonFault::Invalid(reason) => format!("Polygon isn't valid: {reason} {polygon}"),
            PolygonFault::Shares(reason) => format!("{reason}: {polygon}"),
            PolygonFault::Nested => format!("Polygon interior loops cannot be nested: {polygon}"),
        }
    }
}

/// Rings, each contained by the first, must not share edges, cross, or nest.
pub(super) fn rings(rings: &[Ring]) -> Result<(), PolygonFault> {
    if rings.len() == 1 {
        return Ok(());
    }
    no_shared_edges(rings)?;
    for (first, ring) in rings.iter().enumerate() {
        for (offset, other) in rings[first + 1..].iter().enumerate() {
            if contains_or_crosses(ring, other) < 0 {
                let second = first + 1 + offset;
                return Err(PolygonFault::Invalid(format!(
                    "Loop {first} crosses loop {second}"
                )));
            }
        }
    }
    let parents = parents(rings);
    for (index, parent) in parents.iter().enumerate().skip(1) {
        if shared_vertices(&rings[*parent], &rings[index]) > 1 {
            let reason =
                format!("Loop {index} shares more than one vertex with its parent loop {parent}");
            return Err(PolygonFault::Shares(reason));
        }
    }
    if parents.iter().skip(1).any(|parent| *parent != 0) {
        Err(PolygonFault::Nested)
    } else {
        Ok(())
    }
}

/// The innermost ring that contains each ring; the first ring contains all.
fn parents(rings: &[Ring]) -> Vec<usize> {
    let holes = 1..rings.len();
    (0..rings.len())
        .map(|index| {
            let around = holes.clone().filter(|&other| {
                other != index && index != 0 && contains_nested(&rings[other], &rings[index])
            });
            around
                .max_by_key(|&other| {
                    holes
                        .clone()
                        .filter(|&outer| {
                            outer != other && contains_nested(&rings[outer], &rings[other])
                        })
                        .count()
                })
                .unwrap_or(0)
        })
        .collect()
}

fn shared_vertices(first: &Ring, second: &Ring) -> usize {
    let vertices: AHashSet<_> = first.vertices().iter().copied().map(bits).collect();
    second
        .vertices()
        .iter()
        .filter(|vertex| vertices.contains(&bits(**vertex)))
        .count()
}

fn no_shared_edges(rings: &[Ring]) -> Result<(), PolygonFault> {
    let mut seen = AHashMap::new();
    for (ring_index, ring) in rings.iter().enumerate() {
        for (edge_index, (a, b)) in ring.edges().enumerate() {
            for key in [(bits(a), bits(b)), (bits(b), bits(a))] {
                if let Some((other_ring, other_edge)) = seen.insert(key, (ring_index, edge_index)) {
                    return Err(PolygonFault::Invalid(format!(
                        "Duplicate edge: loop {ring_index}, edge {edge_index} and loop {other_ring}, edge {other_edge}"
                    )));
                }
            }
        }
    }
    Ok(())
}
