//! Counts an area by the points in its boundary buckets, cached or read and then cached.
//!
//! In: an index whose entries begin with the location, and a read view. Buckets inside the area are added up. Of a bucket
//! that the area's boundary runs through, all points are needed: they come from memory when an earlier count has read them
//! and no write has changed the bucket since.

use super::counted_area::{CELLS_MAX, CellKeys};
use super::{Context, YieldCheck, parallel};
use crate::catalog::{Collection, CollectionState};
use crate::error::Result;
use crate::geo::{CellRelation, CoverLimits, CoveredRange};
use crate::index::entry::Located;
use crate::plan::GeoAccess;
use crate::rank::{
    BucketPosition, BucketRef, PartialBucket, Point, Points, RankIndex, ReadView, ScannedBucket,
    SearchHint, VersionStamp,
};
use crate::storage::{Family, Order, Scan, Snapshot, TreeKey};
use meridian_value::key::{Direction, decode_cell};
use smallvec::{SmallVec, smallvec};
use std::sync::Arc;

/// A boundary cell with about as many entries is not split: testing their points costs as much as splitting.
const BORDER_ENTRIES: u64 = 128;
/// Points to be read from which on a second core is worth it.
const READ_ALONE: u64 = 4_096;

/// The ranges of the rank index that an area cuts through and whose points are not in memory, ascending.
pub(super) struct Border {
    access: GeoAccess,
    state: Arc<CollectionState>,
    stamp: VersionStamp,
    ranges: Vec<UnreadRange>,
}

struct UnreadRange {
    place: BucketPosition,
    /// `tree ++ first key`, and that of the first key behind it.
    start: Vec<u8>,
    end: Vec<u8>,
    is_last: bool,
    entries: u32,
    /// The parts of the area in it.
    parts: SmallVec<[CoveredRange; 2]>,
}

/// What was found along a boundary.
#[derive(Default)]
struct Seen {
    /// Points in the area.
    points: u64,
    /// Ranges that had to be read.
    walked: Vec<ScannedBucket>,
}

impl Border {
    /// The points that are known to be in the area, and that part of the boundary whose points are still to be
    /// counted; `None` when the rank index cannot tell.
    pub fn take(
        access: &GeoAccess,
        collection: &Collection,
        view: &ReadView,
    ) -> Option<(u64, Self)> {
        let tree = access.index.tree;
        let ranks = view.ranks(tree)?;
        view.unpin();
        let taken = Taken::of(access, &ranks)?;
        let border = Self {
            access: access.clone(),
            state: collection.state.clone(),
            stamp: view.stamp(tree)?,
            ranges: taken.unread,
        };
        Some((taken.points, border))
    }

    /// The points of the boundary that are in the area, on the view's snapshot.
    pub fn count(&self, snapshot: &Snapshot, context: &Context) -> Result<u64> {
        let seen = self.count_halves(snapshot, context)?;
        if !seen.walked.is_empty() {
            let counted = self.state.ranks();
            counted.remember(self.access.index.tree, self.stamp, seen.walked);
        }
        Ok(seen.points)
    }

    /// The points in the area, of many as two halves.
    fn count_halves(&self, snapshot: &Snapshot, context: &Context) -> Result<Seen> {
        let part = |ranges| self.count_part(ranges, snapshot, context);
        let to_be_read: u64 = self
            .ranges
            .iter()
            .map(|range| u64::from(range.entries))
            .sum();
        if to_be_read < READ_ALONE {
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
        ranges: &[UnreadRange],
        snapshot: &Snapshot,
        context: &Context,
    ) -> Result<Seen> {
        let mut reader = PointReader::new(&self.access, context);
        let mut seen = Seen::default();
        for range in ranges {
            let points = reader.read(range, snapshot)?;
            seen.points += count_in(&self.access, &points, &range.parts);
            seen.walked.push(ScannedBucket {
                start: TreeKey::strip(&range.start).to_vec(),
                end: (!range.is_last).then(|| TreeKey::strip(&range.end).to_vec()),
                points,
            });
        }
        Ok(seen)
    }
}

/// An area, taken apart.
struct Taken<'a> {
    access: &'a GeoAccess,
    ranks: &'a RankIndex,
    /// Points that are known to be in the area.
    points: u64,
    /// Ranges to be read.
    unread: Vec<UnreadRange>,
}

impl<'a> Taken<'a> {
    /// Takes an area apart; `None` when the rank index cannot tell.
    fn of(access: &'a GeoAccess, ranks: &'a RankIndex) -> Option<Self> {
        let mut taken = Self {
            access,
            ranks,
            points: 0,
            unread: Vec::new(),
        };
        let (mut hint, mut keys) = (SearchHint::default(), CellKeys::under(&[]));
        for part in taken.covering() {
            let (start, end) = keys.of(part.first, part.last);
            match part.relation {
                CellRelation::Inside => {
                    let mut piece = |piece: PartialBucket<'_>| taken.add(piece.bucket, part);
                    let whole = ranks.count_from(&mut hint, start, Some(end), &mut piece)?;
                    taken.points += whole;
                }
                CellRelation::Border => {
                    let mut add = |range: BucketRef<'_>| taken.add(range, part);
                    ranks.buckets_from(&mut hint, start, end, &mut add)?;
                }
            }
        }
        Some(taken)
    }

    /// The area's cells, the finer the more entries lie along its boundary, with the lines that cut them.
    fn covering(&self) -> Vec<CoveredRange> {
        let (mut hint, mut keys) = (SearchHint::default(), CellKeys::under(&[]));
        let mut holds_few = |first: u64, last: u64| {
            let (start, end) = keys.of(first, last);
            let about = self.ranks.about_from(&mut hint, start, end);
            about.is_none_or(|about| about <= BORDER_ENTRIES)
        };
        self.access.cover(CoverLimits {
            cells_max: CELLS_MAX,
            stop: Some(&mut holds_few),
            cuts: true,
            ..CoverLimits::default()
        })
    }

    /// Adds a part of the area that takes some of a range, behind the others.
    fn add(&mut self, range: BucketRef<'_>, part: CoveredRange) {
        if let Some(points) = range.points() {
            self.points += count_in(self.access, points, &[part]);
            return;
        }
        match self.unread.last_mut() {
            Some(last) if last.place == range.place() => last.parts.push(part),
            _ => self.unread.push(self.unread(range, part)),
        }
    }

    fn unread(&self, range: BucketRef<'_>, part: CoveredRange) -> UnreadRange {
        let tree = self.access.index.tree;
        let end = range.end();
        UnreadRange {
            place: range.place(),
            start: tree.key(&range.start()),
            is_last: end.is_none(),
            end: end.map_or_else(|| tree.range().1.to_vec(), |end| tree.key(&end)),
            entries: range.entries(),
            parts: smallvec![part],
        }
    }
}

/// How many of the points lie in some parts of the area.
fn count_in(access: &GeoAccess, points: &Points, parts: &[CoveredRange]) -> u64 {
    let in_part = |part: &CoveredRange| {
        let within = points.within(part.first, part.last);
        if part.relation == CellRelation::Inside {
            return within.len();
        }
        let cut = part.cut.as_ref();
        let told = cut.and_then(|cut| points.count_matches(within.clone(), cut));
        told.unwrap_or_else(|| count_matches(access, points.points(within)))
    };
    parts.iter().map(in_part).sum::<usize>() as u64
}

/// How many points match, by the region's own test.
fn count_matches(access: &GeoAccess, points: impl Iterator<Item = Point>) -> usize {
    let region = &access.region;
    let matches = |point: &Point| region.matches_entry(point.cell, point.lon, point.lat);
    points.filter(matches).count()
}

/// Reads the points of ascending ranges.
struct PointReader<'a> {
    access: &'a GeoAccess,
    pacer: YieldCheck,
    /// The scan, and whether it stands on an entry.
    scan: Option<(Scan, bool)>,
    points: Vec<Point>,
}

impl<'a> PointReader<'a> {
    fn new(access: &'a GeoAccess, context: &Context) -> Self {
        Self {
            access,
            pacer: YieldCheck::new(context.clone()),
            scan: None,
            points: Vec::new(),
        }
    }

    fn read(&mut self, range: &UnreadRange, snapshot: &Snapshot) -> Result<Arc<Points>> {
        let tree = self.access.index.tree;
        let (start, end) = (range.start.as_slice(), range.end.as_slice());
        let (scan, is_on_entry) = self.scan.get_or_insert_with(|| {
            let scan = snapshot.scan(Family::Indexes, start, &tree.range().1, Order::Forward);
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
            let cell = decode_cell(TreeKey::strip(key), Direction::Ascending);
            let located = self.access.index.layout.located(value);
            if let (Some(cell), Some(Located::Point { lon, lat, .. })) = (cell, located) {
                self.points.push(Point { cell, lon, lat });
            }
            *is_on_entry = scan.advance()?;
        }
        Ok(Points::new(&self.points).into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::Index;
    use crate::geo::{Region, point_cell};
    use crate::index::IndexSpec;
    use crate::plan::EntryUse;
    use crate::query::Filter;
    use bson::{RawBsonRef, rawdoc};
    use rand::{Rng, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    /// A triangle, whose edges run across cells.
    fn triangle() -> GeoAccess {
        let ring = [[2.1, 45.2], [3.9, 45.9], [2.7, 46.8], [2.1, 45.2]];
        let ring: bson::RawArrayBuf = ring
            .iter()
            .map(|[lon, lat]| bson::raw::RawBson::Array([*lon, *lat].into_iter().collect()))
            .collect();
        let within = rawdoc! { "$geometry": { "type": "Polygon", "coordinates": [ring] } };
        let spec = rawdoc! { "key": { "at": "2dsphere" }, "name": "at_2dsphere" };
        let condition = rawdoc! { "at": { "$geoIntersects": within.clone() } };
        GeoAccess {
            index: Index::new(IndexSpec::parse(&spec).unwrap(), TreeKey(7))
                .unwrap()
                .into(),
            region: Region::parse_intersects(RawBsonRef::Document(&within))
                .unwrap()
                .into(),
            condition: Filter::parse(&condition).unwrap().into(),
            position: 0,
            prefixes: vec![Vec::new()],
            bounds: Vec::new(),
            entries: EntryUse::default(),
        }
    }

    /// Points in the order of their cells.
    fn points(random: &mut ChaCha8Rng) -> Vec<Point> {
        let point = |_| {
            let (lon, lat) = (
                random.random_range(2.0..4.0),
                random.random_range(45.0..47.0),
            );
            let cell = point_cell(lon, lat);
            Point { cell, lon, lat }
        };
        let mut points: Vec<_> = (0..40_000).map(point).collect();
        points.sort_unstable_by_key(|point| point.cell);
        points
    }

    fn key(cell: u64) -> Vec<u8> {
        let mut key = Vec::new();
        meridian_value::key::encode_cell(cell, Direction::Ascending, &mut key);
        key
    }

    /// Whichever of its ranges are cached, as many points are in an area as one after the other says.
    #[test]
    fn remembered_and_read_points_are_those_in_the_area() {
        const SEED: u64 = 20_261_125;
        let mut random = ChaCha8Rng::seed_from_u64(SEED);
        let (access, all) = (triangle(), points(&mut random));
        let keys: Vec<_> = all.iter().map(|point| key(point.cell)).collect();
        let mut ranks = RankIndex::empty();
        keys.iter().for_each(|key| ranks.append(key));
        let of_range = |range: &UnreadRange| {
            let before =
                |end: &[u8]| keys.partition_point(|key| key.as_slice() < TreeKey::strip(end));
            Points::new(&all[before(&range.start)..before(&range.end)])
        };
        let unread = Taken::of(&access, &ranks).unwrap().unread;
        let some = unread
            .iter()
            .step_by(3)
            .take(100)
            .map(|range| ScannedBucket {
                start: TreeKey::strip(&range.start).to_vec(),
                end: (!range.is_last).then(|| TreeKey::strip(&range.end).to_vec()),
                points: of_range(range).into(),
            });
        ranks.remember(some.collect(), ranks.changes());
        let taken = Taken::of(&access, &ranks).unwrap();
        assert!(taken.unread.len() < unread.len(), "some are remembered");
        let count = |range: &UnreadRange| count_in(&access, &of_range(range), &range.parts);
        let counted = taken.points + taken.unread.iter().map(count).sum::<u64>();
        let plain = count_matches(&access, all.iter().copied()) as u64;
        assert_eq!(counted, plain, "seed {SEED}");
    }
}
