//! Counts an area by the points in its boundary buckets, cached or read and then cached.
//!
//! In: an index whose entries begin with the location, and a read view. Buckets inside the area are added up. Of a bucket
//! that the area's boundary runs through, all points are needed: they come from memory when an earlier count has read them
//! and no write has changed the bucket since.

use super::cached::{CachedTree, Point, Points, ReadPoints};
use super::counted_area::{CELLS_MAX, CellKeys};
use super::{Context, parallel};
use crate::catalog::Collection;
use crate::error::{Error, Result};
use crate::geo::{CellRelation, CoverLimits, CoveredRange};
use crate::plan::GeoAccess;
use crate::rank::{
    BucketBounds, BucketPosition, BucketRef, PartialBucket, RankIndex, ReadView, SearchHint,
};
use crate::storage::Family;
use smallvec::{SmallVec, smallvec};

/// A boundary cell with about as many entries is not split: testing their points costs as much as splitting.
const BOUNDARY_ENTRIES: u64 = 128;
/// Points to be read from which on a second core is worth it.
const READ_ALONE: u64 = 4_096;

/// The buckets that an area's boundary runs through and whose points are not cached, ascending.
pub(super) struct BoundaryPoints {
    access: GeoAccess,
    tree: CachedTree,
    unread: Vec<UnreadBucket>,
}

struct UnreadBucket {
    place: BucketPosition,
    bounds: BucketBounds,
    /// The parts of the area in it.
    parts: SmallVec<[CoveredRange; 2]>,
}

impl BoundaryPoints {
    /// The points that are known to be in the area, and that part of the boundary whose points are still to be
    /// counted; `None` when the rank index cannot tell.
    pub fn take(
        access: &GeoAccess,
        collection: &Collection,
        view: &ReadView,
    ) -> Option<(u64, Self)> {
        let index = access.index.tree;
        let ranks = view.ranks(index)?;
        view.unpin();
        let taken = SplitArea::of(access, &ranks)?;
        let boundary = Self {
            access: access.clone(),
            tree: CachedTree::of(Family::Indexes, index, view, &collection.state)?,
            unread: taken.unread,
        };
        Some((taken.points, boundary))
    }

    /// The points of the boundary that are in the area; of many as two halves.
    pub fn count(&self, context: &Context) -> Result<u64> {
        let entries = self.unread.iter().map(|bucket| bucket.bounds.entries);
        if entries.map(u64::from).sum::<u64>() < READ_ALONE {
            return self.count_part(&self.unread, context);
        }
        let (low, high) = self.unread.split_at(self.unread.len() / 2);
        let part = |buckets| self.count_part(buckets, context);
        let (a, b) = parallel::join(|| part(low), || part(high));
        Ok(a? + b?)
    }

    fn count_part(&self, buckets: &[UnreadBucket], context: &Context) -> Result<u64> {
        let mut reader = self.tree.reader(context);
        let (mut counted, mut memory) = (0, Vec::new());
        for bucket in buckets {
            let layout = &self.access.index.layout;
            let read = reader.read(&bucket.bounds, ReadPoints::new(layout, &mut memory))?;
            let points = read.ok_or_else(|| Error::internal("points were not read to the end"))?;
            counted += count_in(&self.access, &points, &bucket.parts);
            context.counters.add_keys(bucket.bounds.entries.into());
        }
        Ok(counted)
    }
}

/// An area, taken apart.
struct SplitArea<'a> {
    access: &'a GeoAccess,
    ranks: &'a RankIndex,
    /// Points that are known to be in the area.
    points: u64,
    /// Buckets to be read.
    unread: Vec<UnreadBucket>,
}

impl<'a> SplitArea<'a> {
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
                    let mut partial = |partial: PartialBucket<'_>| taken.add(partial.bucket, part);
                    let whole = ranks.count_from(&mut hint, start, Some(end), &mut partial)?;
                    taken.points += whole;
                }
                CellRelation::Boundary => {
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
            about.is_none_or(|about| about <= BOUNDARY_ENTRIES)
        };
        self.access.cover(CoverLimits {
            cells_max: CELLS_MAX,
            stop: Some(&mut holds_few),
            cuts: true,
            ..CoverLimits::default()
        })
    }

    /// Adds a part of the area that takes some of a bucket, behind the others.
    fn add(&mut self, bucket: BucketRef<'_>, part: CoveredRange) {
        if let Some(points) = bucket.borrow_cached::<Points>() {
            self.points += count_in(self.access, &points, &[part]);
            return;
        }
        match self.unread.last_mut() {
            Some(last) if last.place == bucket.place() => last.parts.push(part),
            _ => self.unread.push(UnreadBucket {
                place: bucket.place(),
                bounds: bucket.bounds(),
                parts: smallvec![part],
            }),
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::Index;
    use crate::geo::{Region, point_cell};
    use crate::index::IndexSpec;
    use crate::plan::EntryUse;
    use crate::query::Filter;
    use crate::rank::{CollectionRanks, RangeCache};
    use crate::storage::{Store, TreeKey};
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
        meridian_value::key::encode_cell(cell, meridian_value::key::Direction::Ascending, &mut key);
        key
    }

    /// Whichever of its buckets are cached, as many points are in an area as one after the other says.
    #[test]
    fn cached_and_read_points_are_those_in_the_area() {
        const SEED: u64 = 20_261_125;
        let mut random = ChaCha8Rng::seed_from_u64(SEED);
        let (access, all) = (triangle(), points(&mut random));
        let keys: Vec<_> = all.iter().map(|point| key(point.cell)).collect();
        let mut counted = RankIndex::empty();
        keys.iter().for_each(|key| counted.append(key));
        let store = Store::in_memory();
        let ranks = CollectionRanks::new(RangeCache::new(store.cache_budget()).into());
        ranks.insert(Family::Indexes, access.index.tree, counted);
        let of_bucket = |bounds: &BucketBounds| {
            let before = |end: &[u8]| keys.partition_point(|key| key.as_slice() < end);
            let end = bounds.end.as_deref().map_or(all.len(), before);
            Points::new(&all[before(&bounds.start)..end])
        };
        let view = ReadView::open(&ranks, &store);
        let stamp = view.stamp(access.index.tree).unwrap();
        let unread = SplitArea::of(&access, &view.ranks(access.index.tree).unwrap())
            .unwrap()
            .unread;
        drop(view);
        let some = unread.iter().step_by(3).take(100);
        let read = some.map(|bucket| (bucket.bounds.clone(), of_bucket(&bucket.bounds).into()));
        ranks.cache(access.index.tree, stamp, read.collect());
        let counted = ReadView::open(&ranks, &store);
        let counted = counted.ranks(access.index.tree).unwrap();
        let taken = SplitArea::of(&access, &counted).unwrap();
        assert!(taken.unread.len() < unread.len(), "some are cached");
        let count =
            |bucket: &UnreadBucket| count_in(&access, &of_bucket(&bucket.bounds), &bucket.parts);
        let counted = taken.points + taken.unread.iter().map(count).sum::<u64>();
        let plain = count_matches(&access, all.iter().copied()) as u64;
        assert_eq!(counted, plain, "seed {SEED}");
    }
}
