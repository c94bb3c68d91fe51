//! Ranges of a 2dsphere index whose entries are kept in memory.
//!
//! In: a range of cells. Out: the pages that hold all its entries, as the search's snapshot sees them. Where
//! some are missing, one search in a few reads those ranges whole and keeps them for the next.

use super::keys;
use crate::catalog::{CollectionState, Index};
use crate::error::Result;
use crate::exec::{CachedRanges, YieldCheck, corrupt_entry};
use crate::geo::SpherePoint;
use crate::index::entry::Located;
use crate::rank::{CACHED_ENTRIES_MAX, CachedEntries, CachedKind};
use crate::rank::{CachedBucket, ReadBucket};
use crate::storage::{Family, Order, Snapshot, TreeKey};
use meridian_value::key::{Direction, decode_cell};
use smallvec::SmallVec;
use std::sync::Arc;

/// A range of cells with about as many entries or fewer is taken from its pages at once.
const TAKEN_MAX: f64 = 128.0;
/// A range of more bytes is not kept.
const KEPT_BYTES_MAX: usize = 1 << 20;
/// A search that has used so many pages goes on without: it holds on to them to its end.
const USED_MAX: usize = 256;
/// The same by their bytes.
const USED_BYTES_MAX: usize = 16 << 20;

/// The pages of a few ranges side by side.
pub(super) type Pages = SmallVec<[Arc<CachedEntries>; 4]>;

/// What is known of a range of cells.
pub(super) enum Look {
    /// These pages hold all its entries.
    Taken(Pages),
    /// It has too many entries, or not all are kept; about how many it has, if that is known.
    Apart(Option<f64>),
}

/// The index's pages as a search uses them.
pub(super) struct Paged {
    index: Arc<Index>,
    state: Arc<CollectionState>,
    snapshot: Snapshot,
    kept: CachedRanges,
    /// Whether this search reads what is missing.
    keeps: bool,
    used: Vec<Arc<CachedEntries>>,
    used_bytes: usize,
}

/// A range whose entries are not kept.
struct Missing {
    start: Vec<u8>,
    end: Option<Vec<u8>>,
    /// Its place among the pages.
    position: usize,
}

impl Paged {
    pub(super) fn new(
        index: &Arc<Index>,
        state: &Arc<CollectionState>,
        snapshot: &Snapshot,
        kept: CachedRanges,
    ) -> Self {
        Self {
            index: index.clone(),
            state: state.clone(),
            snapshot: snapshot.clone(),
            keeps: kept.cache.is_to_keep(),
            kept,
            used: Vec::new(),
            used_bytes: 0,
        }
    }

    /// What is known of cells `first` to `last`.
    pub(super) fn look(&mut self, first: u64, last: u64, pacer: &mut YieldCheck) -> Result<Look> {
        if self.used.len() >= USED_MAX || self.used_bytes >= USED_BYTES_MAX {
            return Ok(Look::Apart(None));
        }
        let (start, end) = keys(&[], first, last);
        let mut pages: SmallVec<[Option<Arc<CachedEntries>>; 4]> = SmallVec::new();
        let mut missing = Vec::new();
        let mut is_whole = true;
        let keeps = self.keeps;
        let mut range = |range: CachedBucket<'_>| {
            if range.contents.is_none() {
                is_whole = false;
                if keeps && range.entries <= CACHED_ENTRIES_MAX {
                    missing.push(Missing {
                        start: range.start.to_vec(),
                        end: range.end.map(<[u8]>::to_vec),
                        position: pages.len(),
                    });
                }
            }
            pages.push(range.contents);
        };
        let (tree, stamp) = (self.index.tree, self.kept.stamp);
        let about = self.state.ranks().peek_marked(tree, stamp, |ranks| {
            ranks.cached_buckets(&start, &end, stamp.changes(), TAKEN_MAX, &mut range)
        });
        if about.is_none_or(f64::is_infinite) {
            return Ok(Look::Apart(about));
        }
        if !is_whole {
            self.read(&missing, &mut pages, pacer)?;
        }
        let taken: Option<Pages> = pages.into_iter().collect();
        Ok(taken.map_or(Look::Apart(about), Look::Taken))
    }

    /// The number of the page that comes into use next.
    pub(super) fn next_number(&self) -> u32 {
        u32::try_from(self.used.len()).expect("a search uses fewer pages than that")
    }

    /// Notes that the search goes on using a page.
    pub(super) fn use_page(&mut self, page: Arc<CachedEntries>) {
        self.used_bytes += page.size();
        self.used.push(page);
    }

    /// Key and value of an entry of a page in use.
    pub(super) fn entry(&self, page: u32, entry: u32) -> (&[u8], &[u8]) {
        self.used[page as usize].entry(entry as usize)
    }

    /// Reads ranges and keeps them.
    fn read(
        &self,
        missing: &[Missing],
        pages: &mut [Option<Arc<CachedEntries>>],
        pacer: &mut YieldCheck,
    ) -> Result<()> {
        let mut read = Vec::with_capacity(missing.len());
        for range in missing {
            let Some((contents, entries)) = self.read_range(range, pacer)? else {
                continue;
            };
            let contents = Arc::new(contents);
            pages[range.position] = Some(contents.clone());
            if let Some(page) = self.kept.cache.keep(contents) {
                read.push(ReadBucket {
                    start: range.start.clone(),
                    end: range.end.clone(),
                    entries,
                    page,
                });
            }
        }
        if !read.is_empty() {
            let counted = self.state.ranks();
            counted.keep(self.index.tree, self.kept.stamp, read);
        }
        Ok(())
    }

    /// The entries of a range that have a place, and how many all are; `None` when they are large.
    fn read_range(
        &self,
        range: &Missing,
        pacer: &mut YieldCheck,
    ) -> Result<Option<(CachedEntries, usize)>> {
        let tree = self.index.tree;
        let end = match &range.end {
            Some(end) => tree.key(end),
            None => tree.range().1.to_vec(),
        };
        let start = tree.key(&range.start);
        let mut scan = self
            .snapshot
            .scan(Family::Indexes, &start, &end, Order::Forward);
        let mut contents = CachedEntries::new(CachedKind::Points, self.kept.stamp.changes());
        let mut entries = 0;
        while scan.advance()? {
            // Counted when they are taken from the cached range.
            pacer.step()?;
            entries += 1;
            let (key, value) = scan.entry();
            let key = TreeKey::strip(key);
            let located = self.index.layout.located(value).ok_or_else(corrupt_entry)?;
            // Who has no place on the sphere is not found by a search.
            if let Located::Point { lon, lat, .. } = located
                && let Some(point) = SpherePoint::from_degrees(lon, lat)
            {
                let cell = decode_cell(key, Direction::Ascending).ok_or_else(corrupt_entry)?;
                contents.push_point(cell, point, key, value);
                if contents.size() > KEPT_BYTES_MAX {
                    return Ok(None);
                }
            }
        }
        Ok(Some((contents, entries)))
    }
}
