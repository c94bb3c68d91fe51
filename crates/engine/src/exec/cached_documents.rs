//! Documents of a batch that are read range by range: from cached ranges in memory, where others have read the same
//! ranges before.
//!
//! In: the keys of the batch in order, and what keeps ranges of the collection. Out: the documents, as a walk
//! or single reads would find them on the same snapshot. Ranges that are not kept are read from end to end and
//! kept, where what is wanted lies so close together that a walk would meet most of them anyway.

use super::STEPS_BEFORE_SEEK;
use super::cache_writer::{CacheBatch, CacheWriter};
use super::fetch::{Part, Wanted, read_together};
use super::parallel;
use super::row_buffers::BufferLayout;
use crate::error::Result;
use crate::rank::RankIndex;
use crate::rank::{CACHED_ENTRIES_MAX, CachedEntries, CachedKind};
use crate::storage::{Family, Order, Scan, Snapshot, TreeKey};
use std::ops::Range;
use std::sync::Arc;

/// The ranges in which the documents of a batch lie.
pub(super) struct KeptDocuments<'a> {
    cache_writer: &'a CacheWriter,
    snapshot: &'a Snapshot,
    wanted: &'a [Wanted<'a>],
    ranges: Vec<HeldRange>,
    mean_bytes: usize,
}

/// A range of the collection in which some of the wanted documents lie.
struct HeldRange {
    /// Its documents, if they are cached.
    page: Option<Arc<CachedEntries>>,
    /// Where it begins and ends, if it is to be read from end to end.
    bounds: Option<Bounds>,
    /// Which of the wanted.
    wanted: Range<usize>,
}

/// The first key of a range and the first behind it (`None`: to the end of the tree), without the tree's
/// prefix.
struct Bounds {
    start: Vec<u8>,
    end: Option<Vec<u8>>,
    entries: u32,
}

/// The ranges that hold some keys; those that are to be kept, and are not yet, are to be read from end to end.
fn buckets_of<'k>(
    ranks: &RankIndex,
    ids: impl Iterator<Item = &'k [u8]>,
    changes: u64,
    keeps: bool,
) -> Vec<HeldRange> {
    let mut ranges = Vec::<HeldRange>::new();
    ranks.buckets_of(ids, CachedKind::Documents, changes, &mut |range, held| {
        let from = ranges.last().map_or(0, |last| last.wanted.end);
        let is_to_be_read =
            keeps && range.contents.is_none() && range.entries <= CACHED_ENTRIES_MAX;
        let bounds = is_to_be_read.then(|| Bounds {
            start: range.start.to_vec(),
            end: range.end.map(<[u8]>::to_vec),
            entries: range.entries,
        });
        ranges.push(HeldRange {
            page: range.contents,
            bounds,
            wanted: from..from + held,
        });
    });
    ranges
}

impl<'a> KeptDocuments<'a> {
    /// The ranges of these documents, which are in the order of their keys; `None` where cached ranges would not help.
    pub fn of(
        cache_writer: &'a CacheWriter,
        snapshot: &'a Snapshot,
        wanted: &'a [Wanted<'a>],
        mean_bytes: usize,
    ) -> Option<Self> {
        let id = |wanted: &Wanted<'a>| TreeKey::strip(wanted.key);
        let ends = wanted.first().map(id).zip(wanted.last().map(id));
        let (keeps, are_neighbours, ranges) = cache_writer.ask(|ranks| {
            let (first, last) = ends?;
            let entries = ranks.entries_around(first, last)?;
            let are_neighbours = entries <= STEPS_BEFORE_SEEK * wanted.len() as u64;
            let bytes = entries.saturating_mul(mean_bytes as u64);
            let mut keeps = are_neighbours && cache_writer.is_to_keep(bytes);
            let listed =
                |keeps| buckets_of(ranks, wanted.iter().map(id), cache_writer.changes(), keeps);
            let mut ranges = listed(keeps);
            // Who meets so much that is cached is not the first to draw from here, nor the last: the rest is
            // worth keeping now, if nothing has to go for it.
            let (kept, all) = (kept_among(&ranges), ranges.len());
            let is_drawn_again = 4 * kept >= all && 8 * kept < 7 * all;
            let has_room = || cache_writer.has_room(bytes / all as u64 * (all - kept) as u64);
            if are_neighbours && !keeps && is_drawn_again && has_room() {
                keeps = true;
                ranges = listed(keeps);
            }
            Some((keeps, are_neighbours, ranges))
        })?;
        // Neighbours are scanned faster than they are read one by one between cached ranges.
        let kept_min = if are_neighbours { ranges.len() / 2 } else { 1 };
        (keeps || kept_among(&ranges) >= kept_min.max(1)).then_some(Self {
            cache_writer,
            snapshot,
            wanted,
            ranges,
            mean_bytes,
        })
    }

    /// Reads the documents in parts; each comes with the positions of what it holds.
    pub fn read_parts(&self, stacking: BufferLayout) -> Result<Vec<(Part, Range<usize>)>> {
        let read = |ranges: &[HeldRange]| self.read_part(ranges, stacking);
        let parts = parallel::in_parts(&self.ranges, read)?;
        let positions = |of: Range<usize>| wanted_in(&self.ranges[of]);
        let parts = parts.into_iter();
        Ok(parts.map(|(part, of)| (part, positions(of))).collect())
    }

    fn read_part(&self, ranges: &[HeldRange], stacking: BufferLayout) -> Result<Part> {
        let positions = wanted_in(ranges);
        let mut part = Part::of_missing(positions.len(), stacking);
        let mut keeping = self.cache_writer.begin();
        let mut reader = None;
        let mut apart = Vec::new();
        for range in ranges {
            let page = match (&range.page, &range.bounds) {
                (Some(page), _) => page.clone(),
                (None, Some(bounds)) => {
                    let reader = reader.get_or_insert_with(|| RangeReader::new(self));
                    reader.read(bounds, &mut keeping)?
                }
                (None, None) => {
                    apart.extend(range.wanted.clone());
                    continue;
                }
            };
            let mut from = 0;
            for position in range.wanted.clone() {
                let Wanted { key, number } = self.wanted[position];
                if let Some(found) = page.find(from, TreeKey::strip(key)) {
                    let document = page.entry(found).1;
                    part.put(position - positions.start, number, document)?;
                    from = found + 1;
                }
            }
        }
        let wanted = apart.iter().map(|position| &self.wanted[*position]);
        read_together(self.snapshot, wanted, |read, document| {
            let position = apart[read];
            let number = self.wanted[position].number;
            document.map_or(Ok(()), |document| {
                part.put(position - positions.start, number, document)
            })
        })?;
        Ok(part)
    }
}

/// How many of the ranges are cached.
fn kept_among(ranges: &[HeldRange]) -> usize {
    ranges.iter().filter(|range| range.page.is_some()).count()
}

/// The positions of what is wanted in ranges side by side.
fn wanted_in(ranges: &[HeldRange]) -> Range<usize> {
    let (first, last) = (ranges.first(), ranges.last());
    let ends = first.zip(last);
    ends.map_or(0..0, |(first, last)| first.wanted.start..last.wanted.end)
}

/// Reads ranges from end to end, in ascending order.
struct RangeReader<'a> {
    scan: Scan,
    of: &'a KeptDocuments<'a>,
    /// Where the last range ended, if the scan stands on a document there.
    stands_at: Option<Vec<u8>>,
}

impl<'a> RangeReader<'a> {
    fn new(of: &'a KeptDocuments<'a>) -> Self {
        let (start, end) = of.cache_writer.tree().range();
        let scan = of
            .snapshot
            .scan(Family::Documents, &start, &end, Order::Forward);
        Self {
            scan,
            of,
            stands_at: None,
        }
    }

    /// All documents of a range at the statement's read view, which are cached.
    fn read(
        &mut self,
        bounds: &Bounds,
        keeping: &mut CacheBatch<'_>,
    ) -> Result<Arc<CachedEntries>> {
        let (cache_writer, Bounds { start, end, .. }) = (self.of.cache_writer, bounds);
        let mut contents = CachedEntries::new(CachedKind::Documents, cache_writer.changes());
        contents.reserve_documents(bounds.entries as usize, self.of.mean_bytes);
        let mut is_on_document = true;
        if self.stands_at.as_ref() != Some(start) {
            self.scan.seek(&cache_writer.tree().key(start));
            is_on_document = self.scan.advance()?;
        }
        while is_on_document {
            let (key, document) = self.scan.entry();
            let id = TreeKey::strip(key);
            if end.as_ref().is_some_and(|end| id >= end.as_slice()) {
                break;
            }
            contents.push_document(id, document);
            is_on_document = self.scan.advance()?;
        }
        self.stands_at = end.clone().filter(|_| is_on_document);
        contents.shrink();
        let contents = Arc::new(contents);
        keeping.keep(start, end.as_deref(), contents.clone());
        Ok(contents)
    }
}
