//! Ranges of leaf cells that hold every point a region matches: S2 cells, or the squares of a 2d index.
//!
//! In: a region and limits. Out: sorted, disjoint ranges, each wholly `Inside` (every leaf
//! cell in it matches) or on the `Border` (its points must be tested). Border cells are
//! split level by level until the number of cells reaches the limit, or until the caller
//! says that a cell holds too few entries to be worth it.

use super::geometry::{Geometry, Part};
use super::grid::{Frontier, Target};
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
    Border,
}

/// Leaf cell ids from `first` to `last`, both included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CoveredRange {
    /// The first leaf cell id.
    pub first: u64,
    /// The last leaf cell id.
    pub last: u64,
    /// Whether points in the range must be tested.
    pub relation: CellRelation,
}

/// Told the first and last leaf id of a border cell, answers whether to leave it unsplit.
pub type StopAt<'a> = &'a mut dyn FnMut(u64, u64) -> bool;

/// How finely a region is covered.
pub struct CoverLimits<'a> {
    /// Splitting ends before the number of cells passes this.
    pub cells_max: usize,
    /// Cells of this level (0 to 30) are not split.
    pub level_max: u8,
    /// The caller's own reason to leave a border cell as it is: few entries in it.
    pub stop: Option<StopAt<'a>>,
}

impl Default for CoverLimits<'_> {
    fn default() -> Self {
        Self {
            cells_max: 512,
            level_max: 30,
            stop: None,
        }
    }
}

/// Lines and polygons are indexed under cells no finer than this (about 150 m).
pub const INDEX_LEVEL_MAX: u8 = 16;
/// A line or polygon is indexed under at most about this many cells.
const INDEX_CELLS_MAX: usize = 20;

/// The level of leaf cells, which cannot be split.
const LEAF_LEVEL: u8 = 30;

/// Covers the points that a region matches by S2 cells.
pub fn cover(region: &Region, limits: CoverLimits<'_>) -> Vec<CoveredRange> {
    let (targets, points) = region.cover_targets();
    let (inside, border) = descend_sphere(&targets, limits);
    let inside = inside.into_iter().chain(points);
    merged(inside, border)
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
    let split = |squares: &Squares, at: usize, next: &mut Squares, inside: &mut Vec<CellId>| {
        squares.split(at, *target, grid, next, inside);
    };
    let border = descend(all, &mut inside, &split, limits);
    merged(inside.into_iter(), border)
}

/// The border cells of one level.
pub(super) trait BorderCells: Default {
    /// The number of cells.
    fn count(&self) -> usize;

    /// The cell at a position.
    fn cell(&self, at: usize) -> CellId;
}

impl BorderCells for Frontier {
    fn count(&self) -> usize {
        self.nodes.len()
    }

    fn cell(&self, at: usize) -> CellId {
        self.nodes[at].cell.id()
    }
}

/// The S2 cells wholly inside some target, and the border cells that were left.
fn descend_sphere(targets: &[Target<'_>], limits: CoverLimits<'_>) -> (Vec<CellId>, Vec<CellId>) {
    let mut inside = Vec::new();
    let roots = Frontier::roots(targets, &mut inside);
    let split = |cells: &Frontier, at: usize, next: &mut Frontier, inside: &mut Vec<CellId>| {
        cells.split(&cells.nodes[at], targets, next, inside);
    };
    let border = descend(roots, &mut inside, &split, limits);
    (inside, border)
}

/// Puts the children of the cell at a position that are on the border into the next level, and those
/// wholly inside into the list.
type Split<'s, B> = &'s dyn Fn(&B, usize, &mut B, &mut Vec<CellId>);

/// Splits border cells level by level; the border cells that were left.
fn descend<B: BorderCells>(
    mut level: B,
    inside: &mut Vec<CellId>,
    split: Split<'_, B>,
    mut limits: CoverLimits<'_>,
) -> Vec<CellId> {
    let mut border = Vec::new();
    while level.count() > 0 {
        let depth = level.cell(0).level().as_u8();
        // A border cell has about two border children and one inside; a few cells, up to four
        // around a corner, cost nothing to split however small the limit is.
        let expected = inside.len() + border.len() + 3 * level.count();
        let is_fine = depth >= limits.level_max.min(LEAF_LEVEL)
            || (expected > limits.cells_max && level.count() > 1);
        let mut next = B::default();
        for at in 0..level.count() {
            let id = level.cell(at);
            let stopped = |stop: &mut StopAt<'_>| stop(id.range_min().id(), id.range_max().id());
            if is_fine || limits.stop.as_mut().is_some_and(stopped) {
                border.push(id);
            } else {
                split(&level, at, &mut next, inside);
            }
        }
        level = next;
    }
    border
}

/// Sorts the ranges of cells, drops those inside another, and joins neighbours with the same relation.
fn merged(inside: impl Iterator<Item = CellId>, border: Vec<CellId>) -> Vec<CoveredRange> {
    let range = |relation| {
        move |cell: CellId| CoveredRange {
            first: cell.range_min().id(),
            last: cell.range_max().id(),
            relation,
        }
    };
    let inside = inside.map(range(CellRelation::Inside));
    let border = border.into_iter().map(range(CellRelation::Border));
    let mut sorted: Vec<_> = inside.chain(border).collect();
    sorted.sort_unstable_by(|a, b| a.first.cmp(&b.first).then(b.last.cmp(&a.last)));
    let mut out: Vec<CoveredRange> = Vec::with_capacity(sorted.len());
    for range in sorted {
        match out.last_mut() {
            // Cells are nested or disjoint; a point's leaf may lie in a polygon's cell.
            Some(previous) if range.last <= previous.last => {}
            // Leaf ids are odd: the next one is two higher.
            Some(previous)
                if previous.relation == range.relation && previous.last + 2 == range.first =>
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
            Part::Point(position) => cells.push(position.leaf()),
            Part::Line(line) => boundaries.push(super::boundary::Boundary::line(line)),
            Part::Polygon(polygon) => boundaries.push(super::boundary::Boundary::polygon(polygon)),
            Part::Big(big) => boundaries.push(super::boundary::Boundary::big(big)),
        }
    }
    if !boundaries.is_empty() {
        let targets: Vec<_> = boundaries.iter().map(Target::Boundary).collect();
        let limits = CoverLimits {
            cells_max: INDEX_CELLS_MAX,
            level_max: INDEX_LEVEL_MAX,
            stop: None,
        };
        let (inside, border) = descend_sphere(&targets, limits);
        cells.extend(inside.into_iter().chain(border));
    }
    cells.sort_unstable();
    cells.dedup();
    cells
}
