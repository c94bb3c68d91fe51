//! Ranges of leaf cells that hold every point a region matches: S2 cells, or the squares of a 2d index.
//!
//! In: a region and limits. Out: sorted, disjoint ranges, each wholly `Inside` (every leaf
//! cell in it matches) or on the `Boundary` (its points must be tested). Boundary cells are
//! split level by level until the number of cells reaches the limit, or until the caller
//! says that a cell holds too few entries to be worth it.

use super::cut::Cut;
use super::geometry::{Geometry, GeometryPart};
use super::grid::{Frontier, GridTarget};
use super::plane_cover::Squares;
use super::plane_grid::PlaneGrid;
use super::region::Region;
use crate::{Error, Result};
use s2rst::s2::CellId;
use smallvec::{SmallVec, smallvec};

/// Whether the points in a range still have to be tested.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CellRelation {
    /// Every point in the range matches.
    Inside,
    /// Some may not.
    Boundary,
}

/// Leaf cell ids from `first` to `last`, both included.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CoveredRange {
    /// The first leaf cell id.
    pub first: u64,
    /// The last leaf cell id.
    pub last: u64,
    /// Whether points in the range must be tested.
    pub relation: CellRelation,
    /// What tells which points of a boundary range match, if that is asked for and a line does.
    pub cut: Option<Cut>,
}

/// Told the first and last leaf id of a boundary cell, answers whether to leave it unsplit.
pub type StopAt<'a> = &'a mut dyn FnMut(u64, u64) -> bool;

/// How finely a region is covered.
pub struct CoverLimits<'a> {
    /// Splitting ends before the number of cells passes this.
    pub cells_max: usize,
    /// Cells of this level (0 to 30) are not split.
    pub level_max: u8,
    /// The caller's own reason to leave a boundary cell as it is: few entries in it.
    pub stop: Option<StopAt<'a>>,
    /// Whether ranges on the boundary are told with the lines that cut them, each in a range of its own.
    pub cuts: bool,
}

impl Default for CoverLimits<'_> {
    fn default() -> Self {
        Self {
            cells_max: 512,
            level_max: 30,
            stop: None,
            cuts: false,
        }
    }
}

/// Lines and polygons are indexed under cells no finer than this (about 150 m).
pub const INDEX_LEVEL_MAX: u8 = 16;
/// A line or polygon is indexed under at most about this many cells.
const INDEX_CELLS_MAX: usize = 20;
/// Cells of many points that are held before they are made fewer.
const CELLS_HELD_MAX: usize = 4_096;

/// The level of leaf cells, which cannot be split.
const LEAF_LEVEL: u8 = 30;

/// Covers the points that a region matches by S2 cells.
pub fn cover(region: &Region, limits: CoverLimits<'_>) -> Vec<CoveredRange> {
    let (targets, points) = region.cover_targets();
    // Single points match on both sides of a polygon's edge.
    let cuts = limits.cuts && points.is_empty();
    let (inside, boundary) = descend_sphere(&targets, CoverLimits { cuts, ..limits });
    let inside = inside.into_iter().chain(points);
    merged(inside, boundary)
}

/// Covers the pairs of a plane that a region matches, by the plane's squares; the region is one that
/// [`Region::suits_plane`].
pub fn cover_plane(region: &Region, grid: PlaneGrid, limits: CoverLimits<'_>) -> Vec<CoveredRange> {
    let (targets, _) = region.cover_targets();
    let Some(target) = targets.first() else {
        return Vec::new();
    };
    let mut inside = Vec::new();
    let all = Squares::all(*target, grid, &mut inside);
    let target = *target;
    let boundary = descend(all, &mut inside, &PlaneDescent { target, grid }, limits);
    merged(inside.into_iter(), boundary)
}

/// The boundary cells of one level.
pub(super) trait BoundaryCells: Default {
    /// The number of cells.
    fn count(&self) -> usize;

    /// The cell at a position.
    fn cell(&self, at: usize) -> CellId;
}

impl BoundaryCells for Frontier {
    fn count(&self) -> usize {
        self.nodes.len()
    }

    fn cell(&self, at: usize) -> CellId {
        self.nodes[at].cell.id()
    }
}

/// A boundary cell that was left, and the line that cuts it.
type Left = (CellId, Option<Cut>);

/// The S2 cells wholly inside some target, and the boundary cells that were left.
fn descend_sphere(targets: &[GridTarget<'_>], limits: CoverLimits<'_>) -> (Vec<CellId>, Vec<Left>) {
    let mut inside = Vec::new();
    let roots = Frontier::roots(targets, &mut inside);
    let boundary = descend(roots, &mut inside, &SphereDescent { targets }, limits);
    (inside, boundary)
}

/// How boundary cells of one kind are taken apart.
trait Descent<B> {
    /// Puts the children of the cell at a position that are on the boundary into the next level, and those
    /// wholly inside into the list.
    fn split(&self, cells: &B, at: usize, next: &mut B, inside: &mut Vec<CellId>);

    /// The line that cuts the cell at a position.
    fn cut(&self, cells: &B, at: usize) -> Option<Cut>;
}

struct SphereDescent<'a> {
    targets: &'a [GridTarget<'a>],
}

impl Descent<Frontier> for SphereDescent<'_> {
    fn split(&self, cells: &Frontier, at: usize, next: &mut Frontier, inside: &mut Vec<CellId>) {
        cells.split(&cells.nodes[at], self.targets, next, inside);
    }

    fn cut(&self, cells: &Frontier, at: usize) -> Option<Cut> {
        cells.cut(&cells.nodes[at], self.targets)
    }
}

struct PlaneDescent<'a> {
    target: GridTarget<'a>,
    grid: PlaneGrid,
}

impl Descent<Squares> for PlaneDescent<'_> {
    fn split(&self, squares: &Squares, at: usize, next: &mut Squares, inside: &mut Vec<CellId>) {
        squares.split(at, self.target, self.grid, next, inside);
    }

    fn cut(&self, _: &Squares, _: usize) -> Option<Cut> {
        None
    }
}

/// Splits boundary cells level by level; the boundary cells that were left.
fn descend<B: BoundaryCells>(
    mut level: B,
    inside: &mut Vec<CellId>,
    descent: &impl Descent<B>,
    mut limits: CoverLimits<'_>,
) -> Vec<Left> {
    let mut boundary = Vec::new();
    while level.count() > 0 {
        let depth = level.cell(0).level().as_u8();
        // A boundary cell has about two boundary children and one inside; a few cells, up to four
        // around a corner, cost nothing to split however small the limit is.
        let expected = inside.len() + boundary.len() + 3 * level.count();
        let is_fine = depth >= limits.level_max.min(LEAF_LEVEL)
            || (expected > limits.cells_max && level.count() > 1);
        let mut next = B::default();
        for at in 0..level.count() {
            let id = level.cell(at);
            let stopped = |stop: &mut StopAt<'_>| stop(id.range_min().id(), id.range_max().id());
            if is_fine || limits.stop.as_mut().is_some_and(stopped) {
                let cut = limits.cuts.then(|| descent.cut(&level, at)).flatten();
                boundary.push((id, cut));
            } else {
                descent.split(&level, at, &mut next, inside);
            }
        }
        level = next;
    }
    boundary
}

/// Sorts the ranges of cells, drops those inside another, and joins neighbours with the same relation.
fn merged(inside: impl Iterator<Item = CellId>, boundary: Vec<Left>) -> Vec<CoveredRange> {
    let range = |cell: CellId, relation, cut| CoveredRange {
        first: cell.range_min().id(),
        last: cell.range_max().id(),
        relation,
        cut,
    };
    let inside = inside.map(|cell| range(cell, CellRelation::Inside, None));
    let boundary = boundary.into_iter();
    let boundary = boundary.map(|(cell, cut)| range(cell, CellRelation::Boundary, cut));
    let mut sorted: Vec<_> = inside.chain(boundary).collect();
    sorted.sort_unstable_by(|a, b| a.first.cmp(&b.first).then(b.last.cmp(&a.last)));
    let mut out: Vec<CoveredRange> = Vec::with_capacity(sorted.len());
    for range in sorted {
        match out.last_mut() {
            // Cells are nested or disjoint; a point's leaf may lie in a polygon's cell.
            Some(previous) if range.last <= previous.last => {}
            // Leaf ids are odd: the next one is two higher.
            Some(previous)
                if (previous.relation, previous.cut) == (range.relation, range.cut)
                    && previous.last + 2 == range.first =>
            {
                previous.last = range.last;
            }
            _ => out.push(range),
        }
    }
    out
}

/// The cells that contain a covered leaf cell but are not themselves within a range.
///
/// Lines and polygons are indexed under cells of any level up to [`INDEX_LEVEL_MAX`]: those
/// finer than a range have their id in it, those coarser are here. Sorted, no duplicates.
pub fn ancestors(ranges: &[CoveredRange]) -> Vec<u64> {
    let mut found = Vec::new();
    for range in ranges {
        for leaf in [range.first, range.last] {
            let mut cell = CellId(leaf).parent_at_level(s2rst::s2::Level::new(INDEX_LEVEL_MAX));
            loop {
                found.push(cell.id());
                if cell.is_face() {
                    break;
                }
                cell = cell.parent();
            }
        }
    }
    found.sort_unstable();
    found.dedup();
    found.retain(|id| {
        let after = ranges.partition_point(|range| range.first <= *id);
        after == 0 || ranges[after - 1].last < *id
    });
    found
}

/// Cells that hold many points, few of them: ancestors of these where there are too many.
#[derive(Debug, Default)]
pub struct FewCells(Vec<u64>);

impl FewCells {
    /// Adds the leaf cell of a point.
    pub fn add(&mut self, leaf: u64) {
        self.0.push(leaf);
        if self.0.len() > CELLS_HELD_MAX {
            self.deduplicate();
            // Half of it is free again.
            self.coarsen(CELLS_HELD_MAX / 2);
        }
    }

    /// The cells, in order.
    pub fn finish(mut self) -> Vec<u64> {
        self.deduplicate();
        self.coarsen(INDEX_CELLS_MAX);
        self.0
    }

    fn deduplicate(&mut self) {
        self.0.sort_unstable();
        self.0.dedup();
    }

    fn coarsen(&mut self, cells_max: usize) {
        let mut coarsest = INDEX_LEVEL_MAX;
        while self.0.len() > cells_max {
            let level = s2rst::s2::Level::new(coarsest);
            for cell in &mut self.0 {
                if CellId(*cell).level() > level {
                    *cell = CellId(*cell).parent_at_level(level).id();
                }
            }
            self.deduplicate();
            // At last there are six faces.
            coarsest = coarsest.saturating_sub(1);
        }
    }
}

/// The leaf cell of a position in degrees.
pub fn point_cell(lon: f64, lat: f64) -> u64 {
    super::geometry::Position { lon, lat }.leaf().id()
}

/// The cells under which a geometry is indexed: a point's leaf cell, or a covering.
///
/// # Errors
/// `BadValue` for a pair outside the sphere's bounds and for a strict-winding polygon.
pub fn index_cells(geometry: &Geometry) -> Result<SmallVec<[CellId; 1]>> {
    match geometry {
        Geometry::Point(position) if position.is_on_sphere() => Ok(smallvec![position.leaf()]),
        Geometry::Point(position) => {
            let (x, y) = (
                super::text::stream_number(position.lon),
                super::text::stream_number(position.lat),
            );
            Err(Error::bad_value(format!(
                "can't project geometry into spherical CRS: [ {x}, {y} ]"
            )))
        }
        Geometry::BigPolygon(_) => Err(Error::bad_value(
            "can't index geometry with strict winding order",
        )),
        _ => Ok(covering(geometry)),
    }
}

fn covering(geometry: &Geometry) -> SmallVec<[CellId; 1]> {
    let mut cells: SmallVec<[CellId; 1]> = SmallVec::new();
    let mut boundaries = Vec::new();
    for part in geometry.parts() {
        match part {
            GeometryPart::Point(position) => cells.push(position.leaf()),
            GeometryPart::Line(line) => boundaries.push(super::boundary::Boundary::line(line)),
            GeometryPart::Polygon(polygon) => {
                boundaries.push(super::boundary::Boundary::polygon(polygon))
            }
            GeometryPart::Big(big) => boundaries.push(super::boundary::Boundary::big(big)),
        }
    }
    if !boundaries.is_empty() {
        let targets: Vec<_> = boundaries.iter().map(GridTarget::Boundary).collect();
        let limits = CoverLimits {
            cells_max: INDEX_CELLS_MAX,
            level_max: INDEX_LEVEL_MAX,
            ..CoverLimits::default()
        };
        let (inside, boundary) = descend_sphere(&targets, limits);
        cells.extend(inside);
        cells.extend(boundary.into_iter().map(|(cell, _)| cell));
    }
    cells.sort_unstable();
    cells.dedup();
    cells
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{Rng, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    /// Points that are around each other, and everywhere, up to a thousand times the bound.
    #[test]
    fn few_cells_hold_all_points() {
        let seed = 11;
        println!("seed {seed}");
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let counts = [
            1,
            INDEX_CELLS_MAX,
            INDEX_CELLS_MAX + 1,
            CELLS_HELD_MAX + 1,
            1_000 * CELLS_HELD_MAX,
        ];
        for (count, spread) in counts.into_iter().zip([0.0, 0.001, 1.0, 80.0, 80.0]) {
            let (mut cells, mut points) = (FewCells::default(), Vec::new());
            for number in 0..count {
                let mut off = || {
                    if spread > 0.0 {
                        random.random_range(-spread..spread)
                    } else {
                        0.0
                    }
                };
                let leaf = point_cell(2.0 * off(), off());
                cells.add(leaf);
                assert!(cells.0.len() <= CELLS_HELD_MAX);
                if number % 1_000 == 0 {
                    points.push(leaf);
                }
            }
            let cells = cells.finish();
            assert!(cells.len() <= INDEX_CELLS_MAX && cells.is_sorted());
            let holds = |leaf: &u64| {
                cells
                    .iter()
                    .any(|cell| CellId(*cell).contains(CellId(*leaf)))
            };
            assert!(points.iter().all(holds), "{count} points");
            if count <= INDEX_CELLS_MAX {
                assert!(cells.iter().all(|cell| CellId(*cell).is_leaf()));
            }
        }
    }
}
