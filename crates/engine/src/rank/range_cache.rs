//! The cache of ranges: entries of buckets of a rank index, decoded and ready to use.
//!
//! Of a 2dsphere index a cached range holds the entries' cells, their points as unit vectors, and their bytes, for searches
//! for the nearest; of other indexes the identifiers of all entries, and of a collection its documents, for
//! samples. A cached range belongs to a bucket, which drops it with the first change. Memory comes from the block
//! cache's budget; when it is used up, a clock (second-chance eviction) frees ranges that were not used since it
//! passed them last.
//!
//! Deliberately absent: reading the tree; deciding whether a cached range is what a snapshot sees (`index/cached`).

use crate::geo::SpherePoint;
use crate::storage::{CacheBudget, CacheReservation};
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Weak};

/// One search in so many reads whole ranges and keeps them: what is asked for often is soon kept, and
/// what is not costs little.
const KEEPING: u32 = 4;
/// A range with more entries is not worth a cached range: it waits to be split.
pub const CACHED_ENTRIES_MAX: u32 = 1_024;
/// Bytes of an identifier, about.
const ID_BYTES: usize = 16;
/// Cached ranges that are looked at to make room for one.
const LOOKED_AT_MAX: usize = 64;

/// What a cached range is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CachedKind {
    /// Those entries that have a point, with their cells.
    Points,
    /// The `_id`s of all entries.
    Identifiers,
    /// All documents with their `_id`s.
    Documents,
}

/// Entries of a range, in order.
#[derive(Debug)]
pub struct CachedEntries {
    kind: CachedKind,
    changes: u64,
    cells: Vec<u64>,
    points: Vec<SpherePoint>,
    /// Where each entry's key and value end in `keys` and `values`.
    ends: Vec<(u32, u32)>,
    /// Apart from the values: who looks for a key comes to few of them.
    keys: Vec<u8>,
    values: Vec<u8>,
}

impl CachedEntries {
    /// No entries of a range at a state of its rank index, told by the number of changes before it.
    pub fn new(kind: CachedKind, changes: u64) -> Self {
        Self {
            kind,
            changes,
            cells: Vec::new(),
            points: Vec::new(),
            ends: Vec::new(),
            keys: Vec::new(),
            values: Vec::new(),
        }
    }

    /// What it is for.
    pub fn kind(&self) -> CachedKind {
        self.kind
    }

    /// The rank index's number of changes at the state that is held.
    pub fn changes(&self) -> u64 {
        self.changes
    }

    /// Adds an entry with a point behind the others; its key is without the tree's prefix.
    pub fn push_point(&mut self, cell: u64, point: SpherePoint, key: &[u8], value: &[u8]) {
        self.cells.push(cell);
        self.points.push(point);
        self.push(key, value);
    }

    /// Adds the `_id` of an entry behind the others.
    pub fn push_identifier(&mut self, id: &[u8]) {
        self.push(id, &[]);
    }

    /// Adds a document behind the others.
    pub fn push_document(&mut self, id: &[u8], document: &[u8]) {
        self.push(id, document);
    }

    /// Makes room for so many documents of so many bytes about.
    pub fn reserve_documents(&mut self, documents: usize, mean_bytes: usize) {
        self.ends.reserve_exact(documents);
        self.keys.reserve(documents * ID_BYTES);
        self.values.reserve(documents * mean_bytes);
    }

    /// Gives back what it does not use of its memory.
    pub fn shrink(&mut self) {
        self.ends.shrink_to_fit();
        self.keys.shrink_to_fit();
        self.values.shrink_to_fit();
    }

    /// Number of entries.
    pub fn entries(&self) -> usize {
        self.ends.len()
    }

    fn push(&mut self, key: &[u8], value: &[u8]) {
        let offset =
            |bytes: &[u8]| u32::try_from(bytes.len()).expect("a page's entries are below 4 GiB");
        self.keys.extend_from_slice(key);
        self.values.extend_from_slice(value);
        self.ends.push((offset(&self.keys), offset(&self.values)));
    }

    /// Bytes of memory, about.
    pub fn size(&self) -> usize {
        self.keys.capacity()
            + self.values.capacity()
            + self.cells.capacity() * size_of::<u64>()
            + self.points.capacity() * size_of::<SpherePoint>()
            + self.ends.capacity() * size_of::<(u32, u32)>()
            + size_of::<CachedRange>()
            + size_of::<Self>()
    }

    /// The entries in cells `first` to `last`.
    pub fn within(&self, first: u64, last: u64) -> Range<usize> {
        let from = self.cells.partition_point(|cell| *cell < first);
        let to = self.cells.partition_point(|cell| *cell <= last);
        from..to
    }

    /// The points of all entries.
    pub fn points(&self) -> &[SpherePoint] {
        &self.points
    }

    /// The `_id` of an entry of a cached range of identifiers or documents.
    pub fn identifier(&self, number: usize) -> &[u8] {
        &self.keys[self.start(number).0..self.ends[number].0 as usize]
    }

    /// The number of the document with this `_id`, which is looked for from a number on.
    pub fn find(&self, from: usize, id: &[u8]) -> Option<usize> {
        let (mut low, mut high) = (from, self.entries());
        while low < high {
            let middle = usize::midpoint(low, high);
            match self.identifier(middle).cmp(id) {
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Equal => return Some(middle),
                std::cmp::Ordering::Greater => high = middle,
            }
        }
        None
    }

    /// Key (without the tree's prefix) and value of an entry: of a document its `_id` and itself.
    pub fn entry(&self, number: usize) -> (&[u8], &[u8]) {
        let value = self.start(number).1..self.ends[number].1 as usize;
        (self.identifier(number), &self.values[value])
    }

    /// Where an entry's key and value begin.
    fn start(&self, number: usize) -> (usize, usize) {
        let before = number.checked_sub(1).map(|before| self.ends[before]);
        before.map_or((0, 0), |(key, value)| (key as usize, value as usize))
    }
}

/// A range's entries for as long as they are cached.
pub struct CachedRange {
    kept: Mutex<Option<(Arc<CachedEntries>, CacheReservation)>>,
    /// Whether it was used since the clock came by.
    is_used: AtomicBool,
}

impl CachedRange {
    /// The entries, unless their memory was wanted for others.
    pub fn contents(&self) -> Option<Arc<CachedEntries>> {
        let contents = self.kept.lock().as_ref().map(|(kept, _)| kept.clone());
        if !self.is_used.load(Ordering::Relaxed) {
            self.is_used.store(true, Ordering::Relaxed);
        }
        contents
    }
}

impl std::fmt::Debug for CachedRange {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("CachedRange").finish_non_exhaustive()
    }
}

/// All cached ranges of all trees together.
pub struct RangeCache {
    room: Arc<CacheBudget>,
    /// What the room had lent to others before, who keep it.
    lent_before: usize,
    clock: Mutex<Clock>,
    searches: AtomicU32,
}

/// The cached ranges in the order in which they are looked at to make room.
#[derive(Default)]
struct Clock {
    pages: VecDeque<Weak<CachedRange>>,
    /// Once there are so many, those whose range has changed are taken out.
    swept_at: usize,
}

impl Clock {
    fn add(&mut self, page: &Arc<CachedRange>) {
        if self.pages.len() >= self.swept_at {
            self.pages.retain(|page| page.strong_count() > 0);
            self.swept_at = 2 * self.pages.len() + LOOKED_AT_MAX;
        }
        self.pages.push_back(Arc::downgrade(page));
    }
}

impl RangeCache {
    /// An empty one that takes its memory from here.
    pub fn new(room: Arc<CacheBudget>) -> Self {
        Self {
            lent_before: room.lent(),
            room,
            clock: Mutex::default(),
            searches: AtomicU32::new(0),
        }
    }

    /// Whether the search that asks is to keep what it comes to.
    pub fn is_to_keep(&self) -> bool {
        self.searches
            .fetch_add(1, Ordering::Relaxed)
            .is_multiple_of(KEEPING)
    }

    /// A cached range of these entries; `None` when there is no room for it.
    pub fn keep(&self, contents: Arc<CachedEntries>) -> Option<Arc<CachedRange>> {
        let mut clock = self.clock.lock();
        let lease = self.lend(contents.size(), &mut clock)?;
        let page = Arc::new(CachedRange {
            kept: Mutex::new(Some((contents, lease))),
            is_used: AtomicBool::new(false),
        });
        clock.add(&page);
        Some(page)
    }

    /// Bytes of memory of all cached ranges.
    pub fn bytes(&self) -> usize {
        self.room.lent().saturating_sub(self.lent_before)
    }

    /// They never take more.
    pub fn bytes_max(&self) -> u64 {
        self.room.lent_max().saturating_sub(self.lent_before) as u64
    }

    /// Whether so many bytes more fit without others making room.
    pub fn has_room(&self, bytes: u64) -> bool {
        self.bytes() as u64 + bytes <= self.bytes_max()
    }

    fn lend(&self, bytes: usize, clock: &mut Clock) -> Option<CacheReservation> {
        for _ in 0..LOOKED_AT_MAX {
            if let Some(lease) = self.room.lend(bytes) {
                return Some(lease);
            }
            let Some(page) = clock.pages.pop_front()?.upgrade() else {
                continue;
            };
            if page.is_used.swap(false, Ordering::Relaxed) {
                clock.pages.push_back(Arc::downgrade(&page));
            } else {
                // Given back outside of the cached range's lock.
                let gone = page.kept.lock().take();
                drop(gone);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::Store;

    fn contents(entries: u64, bytes: usize) -> Arc<CachedEntries> {
        let mut contents = CachedEntries::new(CachedKind::Points, 0);
        let point = SpherePoint::from_degrees(1.0, 2.0).expect("on the sphere");
        for number in 0..entries {
            contents.push_point(number * 10, point, &number.to_be_bytes(), &vec![7; bytes]);
        }
        Arc::new(contents)
    }

    #[test]
    fn entries_are_found_by_their_cells() {
        let page = contents(5, 3);
        assert_eq!(page.within(0, u64::MAX), 0..5);
        assert_eq!(page.within(10, 30), 1..4);
        assert_eq!(page.within(11, 29), 2..3);
        assert_eq!(page.within(41, u64::MAX), 5..5);
        for number in [0, 3] {
            let key = (number as u64).to_be_bytes();
            assert_eq!(page.entry(number), (&key[..], &[7, 7, 7][..]));
        }
    }

    #[test]
    fn what_is_used_stays_and_the_rest_makes_room() {
        let pages = RangeCache::new(Store::in_memory().cache_budget());
        let keep = || {
            let kept = pages.keep(contents(16, 16 * 1024));
            kept.expect("others make room")
        };
        let used = keep();
        let mut others = Vec::new();
        while others
            .first()
            .is_none_or(|first: &Arc<CachedRange>| first.kept.lock().is_some())
        {
            assert!(used.contents().is_some());
            others.push(keep());
            assert!(others.len() < 1_000_000, "the memory has no end");
        }
        assert!(used.contents().is_some());
        let kept = others.iter().filter(|page| page.contents().is_some());
        assert!(kept.count() > others.len() / 2);
        let bytes = pages.bytes();
        drop(others);
        assert!(pages.bytes() < bytes);
        drop(used);
        assert_eq!(pages.bytes(), 0);
    }

    #[test]
    fn pages_whose_ranges_have_changed_do_not_gather() {
        let pages = RangeCache::new(Store::in_memory().cache_budget());
        for _ in 0..10_000 {
            drop(pages.keep(contents(1, 1)));
        }
        assert!(pages.clock.lock().pages.len() <= 2 * LOOKED_AT_MAX);
        assert_eq!(pages.bytes(), 0);
    }
}
