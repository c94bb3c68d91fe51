//! Ranges of leaf cells that hold every point a region matches.
//!
//! In: a region and limits. Out: sorted, disjoint ranges, each wholly `Inside` (every leaf
//! cell in it matches) or on the `Border` (its points must be tested). Border cells are
//! split level by level until the number of cells reaches the limit, or until the caller
//! says that a cell holds too few entries to be worth it.

use super::geometry::{Geometry, Part};
use super::grid::{Frontier, Target};
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

/// Covers the points that a region matches.
pub fn cover(region: &Region, limits: CoverLimits<'_>) -> Vec<CoveredRange> {
    let (targets, points) = region.cover_targets();
    let (inside, border) = descend(&targets, limits);
    let cells = inside.into_iter().map(|cell| (cell, CellRelation::Inside));
    let cells = cells.chain(border.into_iter().map(|cell| (cell, CellRelation::Border)));
    let cells = cells.chain(points.into_iter().map(|leaf| (leaf, CellRelation::Inside)));
    merged(cells.map(|(cell, relation)| CoveredRange {
        first: cell.range_min().id(),
        last: cell.range_max().id(),
        relation,
    }))
}

/// The cells wholly inside some target, and the border cells that were left.
fn descend(targets: &[Target<'_>], mut limits: CoverLimits<'_>) -> (Vec<CellId>, Vec<CellId>) {
    let (mut inside, mut border) = (Vec::new(), Vec::new());
    let mut frontier = Frontier::roots(targets, &mut inside);
    while !frontier.nodes.is_empty() {
        let level = frontier.nodes[0].cell.level().as_u8();
        // A border cell has about two border children and one inside; a few cells, up to four
        // around a corner, cost nothing to split however small the limit is.
        let expected = inside.len() + border.len() + 3 * frontier.nodes.len();
        let is_fine = level >= limits.level_max.min(LEAF_LEVEL)
            || (expected > limits.cells_max && frontier.nodes.len() > 1);
        let mut next = Frontier::default();
        for node in &frontier.nodes {
            let id = node.cell.id();
            let stopped = |stop: &mut StopAt<'_>| stop(id.range_min().id(), id.range_max().id());
            if is_fine || limits.stop.as_mut().is_some_and(stopped) {
                border.push(id);
            } else {
                frontier.split(node, targets, &mut next, &mut inside);
            }
        }
        frontier = next;
    }
    (inside, border)
}

/// Sorts ranges, drops those inside another, and joins neighbours with the same relation.
fn merged(ranges: impl Iterator<Item = CoveredRange>) -> Vec<CoveredRange> {
    let mut sorted: Vec<_> = ranges.collect();
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
        let (inside, border) = descend(&targets, limits);
        cells.extend(inside.into_iter().chain(border));
    }
    cells.sort_unstable();
    cells.dedup();
    cells
}
