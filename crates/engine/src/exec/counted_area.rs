//! Counts an area from the rank index of a geo index that holds only points.
//!
//! The area is covered as finely as its entries lie: a boundary cell is split until few entries are left
//! in it. Cells wholly inside are counted as whole buckets; what they cut off at the ends
//! of ranges is scanned without a test, and the entries of boundary cells are tested.
//!
//! The time grows with the square root of the number of entries: so many cells lie along a boundary. Half-planes
//! cannot be counted in less with an index whose size is linear (B. Chazelle, Lower Bounds on the Complexity of
//! Polytope Range Searching, J. AMS 2(4), 1989).

use super::counted::PartialBuckets;
use crate::geo::{CellRelation, CoverLimits, CoveredRange};
use crate::index::entry::Located;
use crate::plan::GeoAccess;
use crate::rank::{PartialBucket, RankIndex, RankInterval, ReadView, SearchHint};
use crate::storage::Family;
use meridian_value::key::{ABOVE_ALL, Direction, encode_cell};

/// A boundary cell with about as many entries is not split: reading and testing them costs as much as splitting.
const BOUNDARY_ENTRIES: f64 = 48.0;
/// Cells of one area at most.
pub(super) const CELLS_MAX: usize = 1 << 16;

/// Whether the point of an entry lies in the area, by the cell's relation and the entry's value.
pub(super) fn entry_test(access: &GeoAccess) -> impl Fn(CellRelation, &[u8]) -> bool + Sync + '_ {
    let layout = &access.index.layout;
    move |relation, value| {
        relation == CellRelation::Inside
            || matches!(layout.located(value), Some(Located::Point { lon, lat, .. })
                if access.region.matches_point(lon, lat))
    }
}

/// An area, taken apart.
pub(super) struct TakenArea {
    /// Whole ranges of the rank index inside.
    pub runs: Vec<RankInterval>,
    /// What has to be scanned, and on the boundary tested.
    pub partial: PartialBuckets<CellRelation>,
}

/// About how many entries lie in the area, from a coarse covering; `None` when the rank index cannot tell.
pub(super) fn estimate(access: &GeoAccess, view: &ReadView) -> Option<u64> {
    // Fewer, and boundary cells would make a small area look large.
    const CELLS: usize = 64;
    let ranks = view.ranks(access.index.tree)?;
    let limits = CoverLimits {
        cells_max: CELLS,
        ..CoverLimits::default()
    };
    let ranges = access.cover(limits);
    let mut entries = 0.0;
    for prefix in &access.prefixes {
        let (mut hint, mut keys) = (SearchHint::default(), CellKeys::under(prefix));
        for range in &ranges {
            let (start, end) = keys.of(range.first, range.last);
            let mut in_partial = 0.0;
            let whole = ranks.count_from(&mut hint, start, Some(end), &mut |partial| {
                in_partial += partial.estimate();
            })?;
            let share = match range.relation {
                CellRelation::Inside => 1.0,
                CellRelation::Boundary => 0.5,
            };
            #[allow(clippy::cast_precision_loss)]
            let in_range = share * (whole as f64 + in_partial);
            entries += in_range;
        }
    }
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    Some(entries.ceil() as u64)
}

/// Takes an area apart whose entries are single points; `None` when the rank index is not built.
pub(super) fn take(access: &GeoAccess, view: &ReadView) -> Option<TakenArea> {
    let ranks = view.ranks(access.index.tree)?;
    view.unpin();
    let mut partial = PartialBuckets::new(Family::Indexes, access.index.tree);
    let mut runs = Vec::new();
    let mut prefixes: Vec<&Vec<u8>> = access.prefixes.iter().collect();
    prefixes.sort_unstable();
    for prefix in prefixes {
        let (mut hint, mut keys) = (SearchHint::default(), CellKeys::under(prefix));
        for range in covering(access, prefix, &ranks) {
            let (start, end) = keys.of(range.first, range.last);
            let inside = range.relation == CellRelation::Inside;
            if !inside {
                partial.push_span(start, Some(end), CellRelation::Boundary);
                continue;
            }
            let mut push = |bucket: PartialBucket<'_>| partial.push(&bucket, range.relation);
            runs.push(ranks.interval_from(&mut hint, start, Some(end), &mut push)?);
        }
    }
    Some(TakenArea { runs, partial })
}

/// The area's cells, the finer the more entries lie along its boundary.
fn covering(access: &GeoAccess, prefix: &[u8], ranks: &RankIndex) -> Vec<CoveredRange> {
    let (mut hint, mut keys) = (SearchHint::default(), CellKeys::under(prefix));
    let mut holds_few = |first: u64, last: u64| {
        let (start, end) = keys.of(first, last);
        let mut in_partial = 0.0;
        let whole = ranks.count_from(&mut hint, start, Some(end), &mut |partial| {
            in_partial += partial.estimate();
        });
        #[allow(clippy::cast_precision_loss)]
        whole.is_none_or(|whole| whole as f64 + in_partial <= BOUNDARY_ENTRIES)
    };
    let limits = CoverLimits {
        cells_max: CELLS_MAX,
        stop: Some(&mut holds_few),
        ..CoverLimits::default()
    };
    access.cover(limits)
}

/// The keys of cells under a prefix, each time in the same memory.
pub(super) struct CellKeys {
    start: Vec<u8>,
    end: Vec<u8>,
    prefix: usize,
}

impl CellKeys {
    pub fn under(prefix: &[u8]) -> Self {
        Self {
            start: prefix.to_vec(),
            end: prefix.to_vec(),
            prefix: prefix.len(),
        }
    }

    /// First key of the entries in cells `first` to `last`, and a key behind them.
    pub fn of(&mut self, first: u64, last: u64) -> (&[u8], &[u8]) {
        self.start.truncate(self.prefix);
        encode_cell(first, Direction::Ascending, &mut self.start);
        self.end.truncate(self.prefix);
        encode_cell(last, Direction::Ascending, &mut self.end);
        self.end.push(ABOVE_ALL);
        (&self.start, &self.end)
    }
}
