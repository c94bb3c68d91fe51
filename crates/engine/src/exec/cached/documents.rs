//! Documents of a batch that are read bucket by bucket: from the cache of ranges, where others have read the same
//! buckets before.
//!
//! In: the keys of the batch in order, and the collection's tree. Out: the documents, as a scan
//! or single reads would find them on the same snapshot. Buckets that are not cached are read from end to end and
//! cached, where what is wanted lies so close together that a scan would meet most of them anyway.

use super::{CachedTree, PackedEntries, ReadDocuments};
use crate::error::Result;
use crate::exec::fetch::{BatchPart, FetchRequest, read_together};
use crate::exec::row_buffers::BufferLayout;
use crate::exec::{Context, STEPS_BEFORE_SEEK, parallel};
use crate::rank::{BucketBounds, CACHED_ENTRIES_MAX, RankIndex};
use crate::storage::TreeKey;
use std::ops::Range;
use std::sync::Arc;

/// The buckets in which the documents of a batch lie.
pub(in crate::exec) struct CachedDocuments<'a> {
    tree: &'a CachedTree,
    wanted: &'a [FetchRequest<'a>],
    buckets: Vec<WantedBucket>,
    mean_bytes: usize,
    context: &'a Context,
}

/// A bucket of the collection in which some of the wanted documents lie.
struct WantedBucket {
    /// Its documents, if they are cached.
    cached: Option<Arc<PackedEntries>>,
    /// Where it begins and ends, if it is to be read from end to end.
    bounds: Option<BucketBounds>,
    /// Which of the wanted.
    wanted: Range<usize>,
}

/// The buckets that hold some keys; where they are to be read whole, their bounds.
fn buckets_of<'k>(
    ranks: &RankIndex,
    ids: impl Iterator<Item = &'k [u8]>,
    changes: u64,
    reads_whole: bool,
) -> Vec<WantedBucket> {
    let mut buckets = Vec::<WantedBucket>::new();
    ranks.buckets_of(ids, &mut |bucket, held| {
        let from = buckets.last().map_or(0, |last| last.wanted.end);
        let cached = bucket.cached_at(changes);
        let is_read = reads_whole && cached.is_none() && bucket.entries() <= CACHED_ENTRIES_MAX;
        buckets.push(WantedBucket {
            bounds: is_read.then(|| bucket.bounds()),
            cached,
            wanted: from..from + held,
        });
    });
    buckets
}

impl<'a> CachedDocuments<'a> {
    /// The buckets of these documents, which are in the order of their keys; `None` where the cache would not help.
    pub fn of(
        tree: &'a CachedTree,
        wanted: &'a [FetchRequest<'a>],
        mean_bytes: usize,
        context: &'a Context,
    ) -> Option<Self> {
        let id = |wanted: &FetchRequest<'a>| TreeKey::strip(wanted.key);
        let ends = wanted.first().map(id).zip(wanted.last().map(id));
        let cache = tree.cache();
        let (reads_whole, are_neighbours, buckets) = tree.ask(|ranks| {
            let (first, last) = ends?;
            let entries = ranks.entries_around(first, last)?;
            let are_neighbours = entries <= STEPS_BEFORE_SEEK * wanted.len() as u64;
            let bytes = entries.saturating_mul(mean_bytes as u64);
            let mut reads_whole = are_neighbours && cache.admits(bytes);
            let listed =
                |reads_whole| buckets_of(ranks, wanted.iter().map(id), tree.changes(), reads_whole);
            let mut buckets = listed(reads_whole);
            // Who meets so much that is cached is not the first to draw from here, nor the last: the rest is
            // worth caching now, if nothing has to go for it.
            let (cached, all) = (cached_among(&buckets), buckets.len());
            let is_drawn_again = 4 * cached >= all && 8 * cached < 7 * all;
            let has_room = || cache.has_room(bytes / all as u64 * (all - cached) as u64);
            if are_neighbours && !reads_whole && is_drawn_again && has_room() {
                reads_whole = true;
                buckets = listed(reads_whole);
            }
            Some((reads_whole, are_neighbours, buckets))
        })?;
        // Neighbours are scanned faster than they are read one by one between cached buckets.
        let cached_min = if are_neighbours { buckets.len() / 2 } else { 1 };
        let helps = reads_whole || cached_among(&buckets) >= cached_min.max(1);
        helps.then_some(Self {
            tree,
            wanted,
            buckets,
            mean_bytes,
            context,
        })
    }

    /// Reads the documents in parts; each comes with the positions of what it holds.
    pub fn read_parts(&self, layout: BufferLayout) -> Result<Vec<(BatchPart, Range<usize>)>> {
        let read = |buckets: &[WantedBucket]| self.read_part(buckets, layout);
        let parts = parallel::in_parts(&self.buckets, read)?;
        let positions = |of: Range<usize>| wanted_in(&self.buckets[of]);
        let parts = parts.into_iter();
        Ok(parts.map(|(part, of)| (part, positions(of))).collect())
    }

    fn read_part(&self, buckets: &[WantedBucket], layout: BufferLayout) -> Result<BatchPart> {
        let positions = wanted_in(buckets);
        let mut part = BatchPart::of_missing(positions.len(), layout);
        let mut reader = self.tree.reader(self.context);
        let mut apart = Vec::new();
        for bucket in buckets {
            let documents = match (&bucket.cached, &bucket.bounds) {
                (Some(cached), _) => Some(cached.clone()),
                (None, Some(bounds)) => {
                    reader.read(bounds, ReadDocuments::new(bounds.entries, self.mean_bytes))?
                }
                (None, None) => None,
            };
            let Some(documents) = documents else {
                apart.extend(bucket.wanted.clone());
                continue;
            };
            let mut from = 0;
            for position in bucket.wanted.clone() {
                let FetchRequest { key, number } = self.wanted[position];
                if let Some(found) = documents.find(from, TreeKey::strip(key)) {
                    let document = documents.entry(found).1;
                    part.put(position - positions.start, number, document)?;
                    from = found + 1;
                }
            }
        }
        let wanted = apart.iter().map(|position| &self.wanted[*position]);
        read_together(self.tree.snapshot(), wanted, |read, document| {
            let position = apart[read];
            let number = self.wanted[position].number;
            document.map_or(Ok(()), |document| {
                part.put(position - positions.start, number, document)
            })
        })?;
        Ok(part)
    }
}

/// How many of the buckets are cached.
fn cached_among(buckets: &[WantedBucket]) -> usize {
    let cached = buckets.iter().filter(|bucket| bucket.cached.is_some());
    cached.count()
}

/// The positions of what is wanted in buckets side by side.
fn wanted_in(buckets: &[WantedBucket]) -> Range<usize> {
    let (first, last) = (buckets.first(), buckets.last());
    let ends = first.zip(last);
    ends.map_or(0..0, |(first, last)| first.wanted.start..last.wanted.end)
}
