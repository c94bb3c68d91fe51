//! Counts an area from the points of its border: remembered ones, or read and then remembered.
//!
//! In: an index whose entries begin with the location, and a moment. Whole ranges of the summary inside
//! the area are added up. Of a range that the area cuts through, all points are needed: they come from
//! memory when an earlier count has read them and no write has changed the range since.

use super::counted_area::{CellKeys, covering};
use super::{Context, Pacer, parallel};
use crate::catalog::{Collection, CollectionState, Mark, Moment, Tree};
use crate::error::Result;
use crate::geo::{CellRelation, CoveredRange};
use crate::index::entry::Located;
use crate::index::summary::{Hint, Piece, Point, Points, WalkedRange};
use crate::plan::GeoAccess;
use crate::storage::{Family, Order, Scan, Snapshot};
use meridian_value::key::{Direction, decode_cell};
use std::ops::Range;
use std::sync::Arc;

/// Points from which on a second core is worth it.
const POINTS_ALONE: u64 = 4_096;

/// The ranges of the summary that an area cuts through, ascending.
pub(super) struct Border {
    access: GeoAccess,
    tree: Tree,
    state: Arc<CollectionState>,
    mark: Mark,
    ranges: Vec<BorderRange>,
    /// The parts of the area in these ranges, range by range.
    parts: Vec<CoveredRange>,
    /// `tree ++ start` and `tree ++ end` of all ranges, one behind the other.
    keys: Vec<u8>,
    points_max: u64,
}

struct BorderRange {
    points: Option<Points>,
    start: Range<usize>,
    end: Range<usize>,
    is_last: bool,
    parts: Range<usize>,
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
            parts: Vec::new(),
            keys: Vec::new(),
            points_max: 0,
        };
        let mut whole = 0;
        let (mut hint, mut keys) = (Hint::default(), CellKeys::under(&[]));
        for part in covering(access, &[], &summary) {
            let (start, end) = keys.of(part.first, part.last);
            let mut look = |piece: Piece<'_>| border.push(&piece, part);
            whole += match part.relation {
                CellRelation::Inside => {
                    summary.count_from(&mut hint, start, Some(end), &mut look)?
                }
                CellRelation::Border => {
                    summary.pieces_from(&mut hint, start, end, &mut look)?;
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

    /// Adds a part of the area that takes a piece of a range, behind the others.
    fn push(&mut self, piece: &Piece<'_>, part: CoveredRange) {
        let is_new = self.ranges.last().is_none_or(|last| {
            &self.keys[last.start.start + 4..last.start.end] != piece.range_start
        });
        if is_new {
            let at = self.parts.len();
            let range = BorderRange {
                points: piece.points.cloned(),
                start: self.key(piece.range_start),
                end: match piece.range_end {
                    Some(end) => self.key(end),
                    None => self.key_behind_all(),
                },
                is_last: piece.range_end.is_none(),
                parts: at..at,
            };
            self.ranges.push(range);
            self.points_max += u64::from(piece.entries_max);
        }
        self.parts.push(part);
        if let Some(last) = self.ranges.last_mut() {
            last.parts.end = self.parts.len();
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
        if self.points_max < POINTS_ALONE {
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
            let read = match &range.points {
                Some(_) => None,
                None => Some(reader.read(self, range, snapshot)?),
            };
            let points = range.points.as_ref().or(read.as_ref());
            let points = points.map_or(&[][..], |points| points);
            for part in &self.parts[range.parts.clone()] {
                seen.points += count_in(points, part, &self.access);
            }
            if let Some(points) = read {
                seen.walked.push(self.walked(range, points));
            }
        }
        Ok(seen)
    }

    fn walked(&self, range: &BorderRange, points: Points) -> WalkedRange {
        let key = |range: &Range<usize>| self.keys[range.start + 4..range.end].to_vec();
        WalkedRange {
            start: key(&range.start),
            end: (!range.is_last).then(|| key(&range.end)),
            points,
        }
    }
}

/// How many of the points, which are in the order of their cells, lie in a part of the area.
fn count_in(points: &[Point], part: &CoveredRange, access: &GeoAccess) -> u64 {
    let from = points.partition_point(|point| point.cell < part.first);
    let to = points.partition_point(|point| point.cell <= part.last);
    let points = &points[from..to];
    let matches = |point: &&Point| {
        let Point { cell, lon, lat } = **point;
        access.region.matches_entry(cell, lon, lat)
    };
    let inside = match part.relation {
        CellRelation::Inside => points.len(),
        CellRelation::Border => points.iter().filter(matches).count(),
    };
    inside as u64
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

    fn read(
        &mut self,
        border: &Border,
        range: &BorderRange,
        snapshot: &Snapshot,
    ) -> Result<Points> {
        let (start, end) = (
            &border.keys[range.start.clone()],
            &border.keys[range.end.clone()],
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
                self.points.push(Point { cell, lon, lat });
            }
            *is_on_entry = scan.advance()?;
        }
        Ok(self.points.as_slice().into())
    }
}
