//! Descends the squares of a 2d index, carrying only the edges that cross each square.
//!
//! In: the shape of a region. Out: for each square whether it is disjoint, inside or on the boundary. Squares
//! are widened by more than any rounding, and no pair outside of the plane is in any.

use super::cover::BoundaryCells;
use super::geometry::Position;
use super::grid::{GridTarget, size};
use super::planar::{DegreeRect, Planar, Relation};
use super::plane_grid::PlaneGrid;
use s2rst::s2::{CellId, Face};

/// The boundary squares of one level, with their edges in a shared arena.
#[derive(Default)]
pub(super) struct Squares {
    squares: Vec<Square>,
    edges: Vec<u32>,
}

/// A boundary square.
struct Square {
    cell: CellId,
    first_edge: u32,
    edge_count: u32,
}

impl BoundaryCells for Squares {
    fn count(&self) -> usize {
        self.squares.len()
    }

    fn cell(&self, at: usize) -> CellId {
        self.squares[at].cell
    }
}

impl Squares {
    /// The whole plane, if the shape's boundary crosses it.
    pub(super) fn all(target: GridTarget<'_>, grid: PlaneGrid, inside: &mut Vec<CellId>) -> Self {
        let mut squares = Self::default();
        let edges = match target {
            GridTarget::Planar(planar) => planar.edge_count(),
            _ => 0,
        };
        let root = CellId::from_face(Face::ALL[0]);
        squares.add(root, target, grid, 0..size(edges), inside);
        squares
    }

    /// Adds the four parts of the square at a position to `next`; those wholly inside go to `inside`.
    pub(super) fn split(
        &self,
        at: usize,
        target: GridTarget<'_>,
        grid: PlaneGrid,
        next: &mut Self,
        inside: &mut Vec<CellId>,
    ) {
        let square = &self.squares[at];
        let edges = &self.edges[square.first_edge as usize..][..square.edge_count as usize];
        for child in square.cell.children() {
            next.add(child, target, grid, edges.iter().copied(), inside);
        }
    }

    fn add(
        &mut self,
        cell: CellId,
        target: GridTarget<'_>,
        grid: PlaneGrid,
        edges: impl Iterator<Item = u32>,
        inside: &mut Vec<CellId>,
    ) {
        let rect = rectangle(grid, cell);
        let first_edge = self.edges.len();
        let relation = match target {
            GridTarget::Planar(planar) => self.relation(planar, rect, edges),
            GridTarget::Cap(cap) => cap.relation_to_degrees(rect),
            // No 2d index answers for a shape with geodesic edges.
            GridTarget::Boundary(_) => Relation::Boundary,
        };
        match relation {
            Relation::Disjoint => {}
            Relation::Inside => inside.push(cell),
            Relation::Boundary => self.squares.push(Square {
                cell,
                first_edge: size(first_edge),
                edge_count: size(self.edges.len() - first_edge),
            }),
        }
    }

    /// Keeps the edges that touch the rectangle.
    fn relation(
        &mut self,
        planar: &Planar,
        rect: DegreeRect,
        edges: impl Iterator<Item = u32>,
    ) -> Relation {
        let before = self.edges.len();
        let touching = edges.filter(|edge| planar.edge_touches(*edge as usize, rect));
        self.edges.extend(touching);
        if self.edges.len() > before {
            Relation::Boundary
        } else {
            planar.relation(rect)
        }
    }
}

/// A square's part of the plane.
fn rectangle(grid: PlaneGrid, cell: CellId) -> DegreeRect {
    let [x, y] = grid
        .bounds(cell)
        .map(|[least, most]| [least.max(grid.min), most.min(grid.max)]);
    DegreeRect {
        low: Position {
            lon: x[0],
            lat: y[0],
        },
        high: Position {
            lon: x[1],
            lat: y[1],
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::geo::{CellRelation, CoverLimits, Region, cover_plane};
    use bson::{RawBsonRef, RawDocumentBuf, rawdoc};
    use rand::prelude::*;
    use rand_chacha::ChaCha8Rng;

    const SEED: u64 = 41;
    const GRIDS: [[f64; 2]; 5] = [
        [-180.0, 180.0],
        [-3.5, 17.0],
        [-720.0, 1440.0],
        [1e9, 1e9 + 40.0],
        [-1e12, 3e12],
    ];

    /// A shape, and numbers that its boundaries lie at.
    fn shape(random: &mut ChaCha8Rng, grid: PlaneGrid) -> (RawDocumentBuf, [f64; 4]) {
        let range = grid.max - grid.min;
        let size = range * 10_f64.powf(random.random_range(-4.0..0.3));
        let mut near = |spread: f64| grid.min + range * random.random_range(-0.1..1.1) + spread;
        let (x, y) = (near(0.0), near(0.0));
        let boundaries = [x, y, x + size, y + size];
        let shape = match random.random_range(0..4) {
            0 => rawdoc! { "$box": [[x, y], [x + size, y + size]] },
            1 => rawdoc! { "$center": [[x, y], size] },
            2 => {
                let (lon, lat) = (x.clamp(-180.0, 180.0), y.clamp(-90.0, 90.0));
                rawdoc! { "$centerSphere": [[lon, lat], size.to_radians()] }
            }
            _ => rawdoc! { "$polygon": [
                [x, y], [x + size, y - size / 3.0], [x + size / 2.0, y + size / 5.0], [x + size, y + size]
            ] },
        };
        (shape, boundaries)
    }

    /// Squares inside hold matching pairs only, and no matching pair is outside all squares.
    #[test]
    fn coverings_of_planes_are_sound() {
        let mut random = ChaCha8Rng::seed_from_u64(SEED);
        let (mut inside, mut outside) = (0, 0);
        for number in 0..400 {
            let [min, max] = GRIDS[number % GRIDS.len()];
            let grid = PlaneGrid { min, max };
            let (shape, boundaries) = shape(&mut random, grid);
            let region = Region::parse_within(RawBsonRef::Document(&shape)).expect("a shape");
            assert!(region.suits_plane());
            let limits = CoverLimits {
                cells_max: [4, 64, 512][number / 5 % 3],
                ..CoverLimits::default()
            };
            let ranges = cover_plane(&region, grid, limits);
            assert!(ranges.windows(2).all(|pair| pair[0].last < pair[1].first));
            for _ in 0..300 {
                let mut coordinate = || {
                    let at = match random.random_range(0..4) {
                        0 => *boundaries.choose(&mut random).expect("four"),
                        1 => {
                            *boundaries.choose(&mut random).expect("four")
                                + random.random_range(-1.0..1.0)
                        }
                        _ => random.random_range(min..=max),
                    };
                    at.clamp(min, max)
                };
                let (x, y) = (coordinate(), coordinate());
                let cell = grid.cell(x, y);
                let range = ranges
                    .iter()
                    .find(|range| range.first <= cell && cell <= range.last);
                let matches = region.matches_point(x, y);
                let shown =
                    format!("seed {SEED}, shape {number}: {shape:?} at {x}, {y} in {grid:?}");
                match range.map(|range| range.relation) {
                    Some(CellRelation::Inside) => assert!(matches, "inside: {shown}"),
                    Some(CellRelation::Boundary) => {}
                    None => assert!(!matches, "outside: {shown}"),
                }
                inside +=
                    u32::from(range.is_some_and(|range| range.relation == CellRelation::Inside));
                outside += u32::from(range.is_none());
            }
        }
        // Squares do tell: few pairs are left to be tested.
        assert!(
            inside > 5_000 && outside > 50_000,
            "{inside} inside, {outside} outside"
        );
    }
}
