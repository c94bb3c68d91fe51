//! Counts an area from the points of its border: remembered ones, or read and then remembered.
//!
//! In: an index whose entries begin with the location, and a moment. Whole ranges of the summary inside
//! the area are added up. Of a range that the area cuts through, all points are needed: they come from
//! memory when an earlier count has read them and no write has changed the range since.

use super::counted_area::{CELLS_MAX, CellKeys};
use super::{Context, Pacer, parallel};
use crate::catalog::{Collection, CollectionState, Mark, Moment, Tree};
use crate::error::Result;
use crate::geo::{CellRelation, CoverLimits, CoveredRange, flat_place};
use crate::index::entry::Located;
use crate::index::summary::{Hint, Piece, Place, Point, Points, RangeAt, Summary, WalkedRange};
use crate::plan::GeoAccess;
use crate::storage::{Family, Order, Scan, Snapshot};
use meridian_value::key::{Direction, decode_cell};
use std::ops::Range;
use std::sync::Arc;

/// A border cell with about as many entries is not split: testing their points costs as much as splitting.
const BORDER_ENTRIES: u64 = 128;
/// Points to be read, or in memory, from which on a second core is worth it.
const READ_ALONE: u64 = 4_096;
const REMEMBERED_ALONE: u64 = 1 << 18;

/// The ranges of the summary that an area cuts through, ascending.
pub(super) struct Border {
    access: GeoAccess,
    tree: Tree,
    state: Arc<CollectionState>,
    mark: Mark,
    ranges: Vec<BorderRange>,
    /// Which range of the summary the last one is.
    last: Option<Place>,
    /// The parts of the area in these ranges, range by range.
    parts: Vec<CoveredRange>,
    /// `tree ++ start` and `tree ++ end` of the ranges to be read, one behind the other.
    keys: Vec<u8>,
    /// Points of these ranges that are in memory, and those that are not.
    remembered: u64,
    to_be_read: u64,
}

struct BorderRange {
    points: RangePoints,
    parts: Range<usize>,
}

/// The points of a range.
enum RangePoints {
    Remembered(Points),
    ToBeRead(Bounds),
}

/// Where a range begins and ends, in the border's keys.
struct Bounds {
    start: Range<usize>,
    end: Range<usize>,
    is_last: bool,
}

/// The area's cells, the finer the more entries lie along its border, with the lines that cut them.
fn covering(access: &GeoAccess, summary: &Summary) -> Vec<CoveredRange> {
    let (mut hint, mut keys) = (Hint::default(), CellKeys::under(&[]));
    let mut holds_few = |first: u64, last: u64| {
        let (start, end) = keys.of(first, last);
        let about = summary.about_from(&mut hint, start, end);
        about.is_none_or(|about| about <= BORDER_ENTRIES)
    };
    access.cover(CoverLimits {
        cells_max: CELLS_MAX,
        stop: Some(&mut holds_few),
        cuts: true,
        ..CoverLimits::default()
    })
}

/// What was found along a border.
#[derive(Default)]
struct Seen {
    /// Points in the area.
    points: u64,
    /// Ranges that had to be read.
    walked: Vec<WalkedRange>,
}

impl Border {
    /// The points that the summary knows to be in the area, and the border, whose points are still to be
    /// counted; `None` when the summary cannot tell.
    pub fn take(
        access: &GeoAccess,
        collection: &Collection,
        moment: &Moment<'_>,
    ) -> Option<(u64, Self)> {
        let tree = access.index.tree;
        let summary = moment.summary(tree)?;
        let mut border = Self {
            access: access.clone(),
            tree,
            state: collection.state.clone(),
            mark: moment.mark(tree)?,
            ranges: Vec::new(),
            last: None,
            parts: Vec::new(),
            keys: Vec::new(),
            remembered: 0,
            to_be_read: 0,
        };
        let mut whole = 0;
        let (mut hint, mut keys) = (Hint::default(), CellKeys::under(&[]));
        for part in covering(access, &summary) {
            let (start, end) = keys.of(part.first, part.last);
            whole += match part.relation {
                CellRelation::Inside => {
                    let mut piece = |piece: Piece<'_>| border.push(piece.range, part);
                    summary.count_from(&mut hint, start, Some(end), &mut piece)?
                }
                CellRelation::Border => {
                    let mut push = |range: RangeAt<'_>| border.push(range, part);
                    summary.ranges_from(&mut hint, start, end, &mut push)?;
                    0
                }
            };
        }
        Some((whole, border))
    }

    /// The points of the border that are in the area, on the moment's snapshot.
    pub fn count(&self, snapshot: &Snapshot, context: &Context) -> Result<u64> {
        let seen = self.count_halves(snapshot, context)?;
        if !seen.walked.is_empty() {
            let counted = self.state.counted();
            counted.remember(self.tree, self.mark, seen.walked);
        }
        Ok(seen.points)
    }

    /// Adds a part of the area that takes some of a range, behind the others.
    fn push(&mut self, range: RangeAt<'_>, part: CoveredRange) {
        if self.last != Some(range.place()) {
            self.last = Some(range.place());
            let entries = u64::from(range.entries());
            let points = if let Some(points) = range.points() {
                self.remembered += entries;
                RangePoints::Remembered(points.clone())
            } else {
                self.to_be_read += entries;
                RangePoints::ToBeRead(self.bounds(range))
            };
            let at = self.parts.len();
            let parts = at..at;
            self.ranges.push(BorderRange { points, parts });
        }
        self.parts.push(part);
        if let Some(last) = self.ranges.last_mut() {
            last.parts.end = self.parts.len();
        }
    }

    fn bounds(&mut self, range: RangeAt<'_>) -> Bounds {
        let (start, end) = (range.start(), range.end());
        Bounds {
            start: self.key(&start),
            end: match &end {
                Some(end) => self.key(end),
                None => self.key_behind_all(),
            },
            is_last: end.is_none(),
        }
    }

    fn key(&mut self, key: &[u8]) -> Range<usize> {
        let at = self.keys.len();
        self.keys.extend_from_slice(&self.tree.prefix());
        self.keys.extend_from_slice(key);
        at..self.keys.len()
    }

    fn key_behind_all(&mut self) -> Range<usize> {
        let at = self.keys.len();
        self.keys.extend_from_slice(&self.tree.range().1);
        at..self.keys.len()
    }

    /// The points in the area, of many as two halves.
    fn count_halves(&self, snapshot: &Snapshot, context: &Context) -> Result<Seen> {
        let part = |ranges| self.count_part(ranges, snapshot, context);
        if self.to_be_read < READ_ALONE && self.remembered < REMEMBERED_ALONE {
            return part(&self.ranges);
        }
        let (low, high) = self.ranges.split_at(self.ranges.len() / 2);
        let (a, b) = parallel::join(|| part(low), || part(high));
        let (mut seen, other) = (a?, b?);
        seen.points += other.points;
        seen.walked.extend(other.walked);
        Ok(seen)
    }

    fn count_part(
        &self,
        ranges: &[BorderRange],
        snapshot: &Snapshot,
        context: &Context,
    ) -> Result<Seen> {
        let mut reader = PointReader::new(&self.access, context);
        let mut seen = Seen::default();
        for range in ranges {
            let parts = &self.parts[range.parts.clone()];
            match &range.points {
                RangePoints::Remembered(points) => seen.points += self.count_in(points, parts),
                RangePoints::ToBeRead(bounds) => {
                    let points = reader.read(self, bounds, snapshot)?;
                    seen.points += self.count_in(&points, parts);
                    seen.walked.push(self.walked(bounds, points));
                }
            }
        }
        Ok(seen)
    }

    fn walked(&self, bounds: &Bounds, points: Points) -> WalkedRange {
        let key = |range: &Range<usize>| self.keys[range.start + 4..range.end].to_vec();
        WalkedRange {
            start: key(&bounds.start),
            end: (!bounds.is_last).then(|| key(&bounds.end)),
            points,
        }
    }

    /// How many of the points, which are in the order of their cells, lie in some parts of the area.
    fn count_in(&self, points: &[Point], parts: &[CoveredRange]) -> u64 {
        let in_part = |part: &CoveredRange| {
            let from = points.partition_point(|point| point.cell < part.first);
            let to = points.partition_point(|point| point.cell <= part.last);
            let points = &points[from..to];
            let inside = match (part.relation, &part.cut) {
                (CellRelation::Inside, _) => points.len(),
                (CellRelation::Border, None) => self.count_matches(points),
                (CellRelation::Border, Some(cut)) => {
                    // Nearly always none is close to the line.
                    let (mut inside, mut close) = (0, 0);
                    for point in points {
                        let side = cut.matches(point.flat);
                        inside += usize::from(side == Some(true));
                        close += usize::from(side.is_none());
                    }
                    match close {
                        0 => inside,
                        _ => self.count_matches(points),
                    }
                }
            };
            inside as u64
        };
        parts.iter().map(in_part).sum()
    }

    /// How many points match, by the region's own test.
    fn count_matches(&self, points: &[Point]) -> usize {
        let region = &self.access.region;
        let matches = |point: &&Point| region.matches_entry(point.cell, point.lon, point.lat);
        points.iter().filter(matches).count()
    }
}

/// Reads the points of ascending ranges.
struct PointReader<'a> {
    access: &'a GeoAccess,
    pacer: Pacer,
    /// The scan, and whether it stands on an entry.
    scan: Option<(Scan, bool)>,
    points: Vec<Point>,
}

impl<'a> PointReader<'a> {
    fn new(access: &'a GeoAccess, context: &Context) -> Self {
        Self {
            access,
            pacer: Pacer::new(context.clone()),
            scan: None,
            points: Vec::new(),
        }
    }

    fn read(&mut self, border: &Border, bounds: &Bounds, snapshot: &Snapshot) -> Result<Points> {
        let (start, end) = (
            &border.keys[bounds.start.clone()],
            &border.keys[bounds.end.clone()],
        );
        let (scan, is_on_entry) = self.scan.get_or_insert_with(|| {
            let behind = border.tree.range().1;
            let scan = snapshot.scan(Family::Indexes, start, &behind, Order::Forward);
            (scan, false)
        });
        // Behind a range lies the next one, if that is to be read too.
        if !*is_on_entry || scan.entry().0 < start {
            scan.seek(start);
            *is_on_entry = scan.advance()?;
        }
        self.points.clear();
        while *is_on_entry {
            let (key, value) = scan.entry();
            if key >= end {
                break;
            }
            self.pacer.step_key()?;
            let cell = decode_cell(&key[4..], Direction::Ascending);
            let located = self.access.index.layout.located(value);
            if let (Some(cell), Some(Located::Point { lon, lat, .. })) = (cell, located) {
                let flat = flat_place(cell);
                self.points.push(Point {
                    cell,
                    flat,
                    lon,
                    lat,
                });
            }
            *is_on_entry = scan.advance()?;
        }
        Ok(self.points.as_slice().into())
    }
}
