//! Entries of a geo index, nearest first, as lazily as they are asked for.
//!
//! A queue holds cells by the least distance of any point in them, and entries by their exact distance.
//! What is first in the queue is taken: an entry is the next result; a cell with few entries is scanned
//! and gives way to them, another to its four children. The search begins in the cell around the point
//! that holds about as many entries as a first page; all that lies outside of it waits as one element
//! at the distance of the cell's boundary, and gives way to the cell's siblings and what lies outside of
//! its parent. So ten results look at a few dozen entries in one to four seeks, whatever the radius.
//!
//! How many entries a cell holds is asked of the index's rank index as it is now: that only guides. What is
//! empty, the snapshot tells: a seek that lands behind a cell shows a gap, which later cells inside it
//! need no seek for.
//!
//! Where searches come again and again, the entries of a range of the rank index are kept in memory
//! ([`buckets`]): cells are then taken from there, and nothing is read. Where it is known how many results
//! are wanted and every entry is one, what lies behind the last of the nearest met is left out ([`bound`]).
//!
//! Points have their exact coordinates in the entry. Lines, polygons and collections are known by the
//! distance of their cell until they come first; then their document is read and measured.

mod bound;
mod buckets;
mod held;
mod walk;

use super::cached::CachedTree;
use super::ranked::too_much;
use super::seen::SeenIds;
use super::{Context, Entries, Entry, YieldCheck, corrupt_entry};
use crate::catalog::{Collection, CollectionState, Index};
use crate::error::{Error, Result, corrupt_document};
use crate::geo::{CellId, INDEX_LEVEL_MAX, Near, Reach};
use crate::index::IndexField;
use crate::index::entry::Located;
use crate::operation::memory::Reservation;
use crate::plan::NearAccess;
use crate::query::Nearest;
use crate::rank::SearchHint;
use crate::sorter::Limits;
use crate::storage::{Family, Snapshot, TreeKey};
use bound::Bound;
use bson::raw::RawDocument;
use buckets::{Buckets, CachedBuckets, Look};
use held::{EntrySlot, HeldEntries, QueueItem, What};
use meridian_value::key::{ABOVE_ALL, Direction, decode_cell, encode_cell};
use std::collections::BinaryHeap;
use std::sync::Arc;
use walk::{CellWalk, WalkStep};

/// A cell with so many entries or fewer is scanned at once: a seek costs as much as a dozen of them.
const SCANNED_MAX: u64 = 48;
/// ... or a quarter of what is wanted, up to so many.
const SCANNED_MAX_FOR_MANY: u64 = 1_024;
/// The search begins in a cell with at least so many entries.
const BEGIN_ENTRIES_MIN: f64 = 16.0;
/// ... or, where they need not be read, so many.
const BEGIN_ENTRIES_MIN_CACHED: f64 = 48.0;
/// The children of a cell with as few entries as so many of these are scanned without asking about each.
const CELLS_ASKED_TOGETHER: u64 = 3;
/// Room in the queue for a first page.
const FIRST_ITEMS: usize = 64;
/// The level of the finest cells.
const LEAF_LEVEL: u8 = 30;
/// Entries and cells of so many bytes are held without a reservation.
const FREE_BYTES: usize = 128 * 1024;
/// How often more entries than expected may turn up in a cell before it is split after all.
const SURPRISE: u64 = 4;

/// The entries of a search, each document once.
pub struct NearEntries {
    index: Arc<Index>,
    state: Arc<CollectionState>,
    documents: TreeKey,
    nearest: Nearest,
    reach: Reach,
    snapshot: Snapshot,
    walk: CellWalk,
    queue: BinaryHeap<QueueItem>,
    held: HeldEntries,
    cached: Option<CachedBuckets>,
    bound: Bound,
    /// Results at one distance, the last is next.
    ready: Vec<EntrySlot>,
    current: EntrySlot,
    scanned_max: u64,
    holds_shapes: bool,
    /// Documents that are done with, where a document may have several entries.
    settled: Option<SeenIds>,
    /// Documents that were read and measured.
    measured: SeenIds,
    /// Why there is no result at all.
    refused: Option<Error>,
    memory: Reservation,
    yield_check: YieldCheck,
}

impl NearEntries {
    /// Begins a search, with what is cached of the index; `wanted` is how many results will be asked for at most, if known, unless entries
    /// are tested first.
    pub(super) fn new(
        access: &NearAccess,
        collection: &Collection,
        snapshot: &Snapshot,
        cached: Option<CachedTree>,
        wanted: Option<u64>,
        context: Context,
    ) -> Self {
        let index = access.index.clone();
        let multikey = index.multikey();
        let repeats = multikey.is_multikey() || multikey.holds_shapes();
        let prefixes = access.prefixes.iter().map(|prefix| index.tree.key(prefix));
        let is_plane = index.spec.key[access.position].1 == IndexField::Plane2d;
        let uses_cache = !is_plane
            && !repeats
            && matches!(access.prefixes.as_slice(), [prefix] if prefix.is_empty());
        let cached = cached.filter(|_| uses_cache);
        let results = wanted.filter(|_| !repeats && access.entries.filter.is_none());
        let mut search = Self {
            reach: match is_plane {
                true => Reach::plane(&access.nearest.near, index.spec.grid),
                false => Reach::sphere(&access.nearest.near),
            },
            cached: cached.map(|tree| CachedBuckets::new(&index, tree, &context)),
            bound: Bound::new(&access.nearest.near, results),
            refused: None,
            state: collection.state.clone(),
            documents: collection.documents,
            nearest: access.nearest.clone(),
            snapshot: snapshot.clone(),
            walk: CellWalk::new(snapshot, prefixes.collect()),
            queue: BinaryHeap::with_capacity(FIRST_ITEMS),
            held: HeldEntries::default(),
            ready: Vec::new(),
            current: EntrySlot::default(),
            scanned_max: (wanted.unwrap_or(0) / 4).clamp(SCANNED_MAX, SCANNED_MAX_FOR_MANY),
            holds_shapes: multikey.holds_shapes(),
            settled: repeats.then(SeenIds::new),
            measured: SeenIds::new(),
            memory: Reservation::none(),
            yield_check: YieldCheck::new(context),
            index,
        };
        search.refused = search.reach.outside();
        for prefix in 0..search.walk.prefixes() {
            search.begin(prefix);
        }
        search
    }

    fn near(&self) -> &Near {
        &self.nearest.near
    }

    /// Puts everything under a prefix into the queue.
    fn begin(&mut self, prefix: u32) {
        let guess = self.guessed_level(prefix);
        if guess.is_none() || self.cached.is_none() {
            let all = self.about(prefix, 0, u64::MAX);
            if all.is_some_and(|all| all <= self.scanned_most(1)) {
                return self.push(0.0, What::All { prefix });
            }
        }
        let home = match guess {
            // With too few or too many entries it costs a step or two.
            Some(level) if self.cached.is_some() => self.reach.home(level),
            _ => self.home(prefix, guess),
        };
        self.push(
            0.0,
            What::Cell {
                prefix,
                cell: home.id(),
                few: false,
            },
        );
        let boundary = self.reach.boundary(home);
        self.push(
            boundary,
            What::Outside {
                prefix,
                cell: home.id(),
            },
        );
        let mut cell = home;
        while self.holds_shapes && !cell.is_face() {
            cell = cell.parent();
            self.push_exactly(0.0, prefix, cell);
        }
    }

    fn begin_min(&self) -> f64 {
        match self.cached {
            Some(_) => BEGIN_ENTRIES_MIN_CACHED,
            None => BEGIN_ENTRIES_MIN,
        }
    }

    /// The finest cell around the point with enough entries to begin with.
    fn home(&self, prefix: u32, guess: Option<u8>) -> CellId {
        let holds_enough = |level: u8| {
            self.about_in(prefix, self.reach.home(level))
                .is_some_and(|entries| entries >= self.begin_min())
        };
        // Levels below `low` hold enough, `high` and above do not.
        let (mut low, mut high) = (0, 31);
        if let Some(guess) = guess {
            if holds_enough(guess) {
                return self.reach.home(guess);
            }
            high = guess;
        }
        while low < high {
            let middle = u8::midpoint(low, high);
            if holds_enough(middle) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        self.reach.home(low.saturating_sub(1))
    }

    /// The finest level whose cells would hold enough if entries lay everywhere as densely as in the
    /// rank index's range around the point.
    fn guessed_level(&self, prefix: u32) -> Option<u8> {
        let leaf = self.reach.home(LEAF_LEVEL).id();
        let (start, end) = self.walk.keys(prefix, leaf, leaf);
        let leading = start.len() - 9;
        let (entries, cells) = self.state.ranks().peek(self.index.tree, |ranks| {
            let mut range = None;
            let mut partial = |partial: crate::rank::PartialBucket<'_>| {
                // Ranges begin at keys that are cut short.
                let cell = |key: &[u8]| {
                    let rest = key.strip_prefix(&start[4..leading])?;
                    let length = rest.len().min(9);
                    let mut whole = [0; 9];
                    whole[..length].copy_from_slice(&rest[..length]);
                    decode_cell(&whole, Direction::Ascending)
                };
                let first = cell(&partial.bucket.start()).unwrap_or(0);
                let behind = partial.bucket.end();
                let last = behind.and_then(|key| cell(&key)).unwrap_or(u64::MAX);
                range = Some((partial.bucket.entries(), last.saturating_sub(first)));
            };
            ranks.count_from(
                &mut SearchHint::default(),
                TreeKey::strip(&start),
                Some(TreeKey::strip(&end)),
                &mut partial,
            )?;
            range
        })?;
        #[allow(clippy::cast_precision_loss)]
        let wanted = self.begin_min() * cells as f64 / f64::from(entries.max(1));
        // A cell of level l holds 2 * 4^(30 - l) leaves' numbers.
        let levels = (0.5 * wanted).log2() / 2.0;
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        let guess = (f64::from(LEAF_LEVEL) - levels).floor().clamp(0.0, 30.0) as u8;
        Some(guess)
    }

    fn about_in(&self, prefix: u32, cell: CellId) -> Option<f64> {
        self.about(prefix, cell.range_min().id(), cell.range_max().id())
    }

    /// About how many entries lie in cells `first` to `last`, as the rank index has it now.
    fn about(&self, prefix: u32, first: u64, last: u64) -> Option<f64> {
        let (start, end) = self.walk.keys(prefix, first, last);
        self.state.ranks().peek(self.index.tree, |ranks| {
            let mut in_partial = 0.0;
            let mut partial =
                |partial: crate::rank::PartialBucket<'_>| in_partial += partial.estimate();
            let mut hint = SearchHint::default();
            let whole = ranks.count_from(
                &mut hint,
                TreeKey::strip(&start),
                Some(TreeKey::strip(&end)),
                &mut partial,
            )?;
            #[allow(clippy::cast_precision_loss)]
            Some(whole as f64 + in_partial)
        })
    }

    fn push(&mut self, distance: f64, what: What) {
        if !self.bound.excludes(distance) {
            self.queue.push(QueueItem { distance, what });
        }
    }

    fn push_cell(&mut self, distance: f64, prefix: u32, cell: CellId, few: bool) {
        let distance_min = self.near().distance_min();
        // Entries that are too near still tell of documents with several entries.
        let too_near = self.settled.is_none()
            && distance_min > 0.0
            && self.reach.farthest(cell) < distance_min;
        if !too_near {
            let distance = self.reach.nearest(cell).max(distance);
            self.push(
                distance,
                What::Cell {
                    prefix,
                    cell: cell.id(),
                    few,
                },
            );
        }
    }

    /// The entries of shapes that lie under just this cell.
    fn push_exactly(&mut self, distance: f64, prefix: u32, cell: CellId) {
        if self.holds_shapes && cell.level().as_u8() <= INDEX_LEVEL_MAX {
            self.push(
                distance,
                What::Exactly {
                    prefix,
                    cell: cell.id(),
                },
            );
        }
    }

    /// Replaces what came first in the queue by what is in it.
    fn open(&mut self, item: &QueueItem) -> Result<()> {
        match item.what {
            What::All { prefix } => self.scan(item, prefix, 0, u64::MAX, u64::MAX).map(|_| ()),
            What::Exactly { prefix, cell } => {
                self.scan(item, prefix, cell, cell, u64::MAX).map(|_| ())
            }
            What::Cell { prefix, cell, few } => self.open_cell(item, prefix, CellId(cell), few),
            What::Outside { prefix, cell } => {
                self.open_outside(item.distance, prefix, CellId(cell));
                Ok(())
            }
            What::Shape(slot) => self.measure(slot),
            What::Entry(_) => unreachable!("an entry is a result"),
        }
    }

    fn open_cell(&mut self, item: &QueueItem, prefix: u32, cell: CellId, few: bool) -> Result<()> {
        let (first, last) = (cell.range_min().id(), cell.range_max().id());
        let at_most = if cell.is_leaf() {
            u64::MAX
        } else {
            self.scanned_max * SURPRISE
        };
        let mut about = None;
        let mut is_asked = !few && !cell.is_leaf();
        // A leaf cell cannot be split, however many entries it has.
        if let Some(cached) = self.cached.as_mut().filter(|_| !cell.is_leaf()) {
            match cached.look(first, last)? {
                Look::Taken(buckets) => return self.take(first, last, buckets),
                Look::Apart(known) => (about, is_asked) = (known, is_asked && known.is_none()),
            }
        }
        if is_asked && !self.walk.is_known_empty(prefix, first, last) {
            about = self.about(prefix, first, last);
        }
        let is_oversized = about.is_some_and(|about| about > self.scanned_most(1));
        if !is_oversized && self.scan(item, prefix, first, last, at_most)? {
            return Ok(());
        }
        let few = about.is_some_and(|about| about <= self.scanned_most(CELLS_ASKED_TOGETHER));
        for child in cell.children() {
            self.push_cell(item.distance, prefix, child, few);
        }
        self.push_exactly(item.distance, prefix, cell);
        Ok(())
    }

    /// Puts the entries of cells `first` to `last` into the queue that these buckets hold.
    fn take(&mut self, first: u64, last: u64, buckets: Buckets) -> Result<()> {
        let (near, cached) = (&self.nearest.near, self.cached.as_mut());
        let cached = cached.expect("the buckets came from it");
        for bucket in buckets {
            let within = bucket.within(first, last);
            self.yield_check.step_keys(within.len())?;
            let number = cached.next_number();
            for (at, point) in within.clone().zip(&bucket.points()[within]) {
                if self.bound.excludes_chord(near.chord_to(point)) {
                    continue;
                }
                let distance = near.distance_to_point(point);
                if self.bound.excludes(distance) || distance < near.distance_min() {
                    continue;
                }
                self.bound.meet(distance);
                let slot = EntrySlot::Cached {
                    bucket: number,
                    entry: u32::try_from(at).expect("a bucket has fewer entries than that"),
                };
                let what = What::Entry(slot);
                self.queue.push(QueueItem { distance, what });
            }
            cached.use_bucket(bucket);
        }
        self.check_room()
    }

    fn check_room(&mut self) -> Result<()> {
        let shared = self.cached.as_ref().map_or(0, CachedBuckets::used_bytes);
        let bytes = self.held.bytes() + self.queue.len() * size_of::<QueueItem>() + shared;
        if bytes > FREE_BYTES {
            Limits::default().hold(&mut self.memory, bytes, too_much)?;
        }
        Ok(())
    }

    /// Entries of so many cells that are scanned at once.
    #[allow(clippy::cast_precision_loss)]
    fn scanned_most(&self, cells: u64) -> f64 {
        (self.scanned_max * cells) as f64
    }

    /// What lies outside of a cell lies in its siblings or outside of its parent.
    fn open_outside(&mut self, distance: f64, prefix: u32, cell: CellId) {
        if cell.is_face() {
            let own = |root: &CellId| *root != cell;
            let others: Vec<CellId> = self.reach.roots().filter(own).collect();
            for root in others {
                self.push_cell(distance, prefix, root, false);
            }
            return;
        }
        let parent = cell.parent();
        let few = self
            .about_in(prefix, parent)
            .is_some_and(|about| about <= self.scanned_most(CELLS_ASKED_TOGETHER));
        for sibling in parent.children() {
            if sibling != cell {
                self.push_cell(distance, prefix, sibling, few);
            }
        }
        let boundary = self.reach.boundary(parent).max(distance);
        self.push(
            boundary,
            What::Outside {
                prefix,
                cell: parent.id(),
            },
        );
    }

    /// Puts the entries of cells `first` to `last` into the queue; false, and none of them, when there
    /// are more than `at_most`.
    fn scan(
        &mut self,
        item: &QueueItem,
        prefix: u32,
        first: u64,
        last: u64,
        at_most: u64,
    ) -> Result<bool> {
        let stamp = self.held.stamp();
        let mut found: smallvec::SmallVec<[QueueItem; 64]> = smallvec::SmallVec::new();
        let mut step = self.walk.enter(prefix, first, last)?;
        let mut seen = 0;
        while let WalkStep::Entry(cell) = step {
            self.yield_check.step_key()?;
            seen += 1;
            if seen > at_most {
                self.walk.leave();
                self.held.release_to(stamp);
                return Ok(false);
            }
            found.extend(self.locate(item.distance, cell)?);
            self.check_room()?;
            step = self.walk.next()?;
        }
        self.queue.extend(found);
        Ok(true)
    }

    /// What the walk's entry becomes in the queue: a point with its distance, or a shape to be measured.
    fn locate(&mut self, distance: f64, cell: u64) -> Result<Option<QueueItem>> {
        let (key, value) = self.walk.entry();
        let near = &self.nearest.near;
        let (distance, is_point) = match self.index.layout.located(value) {
            Some(Located::Point { lon, lat, .. }) => match near.distance_to(lon, lat) {
                Some(distance) => (distance, true),
                None => return Ok(None),
            },
            Some(Located::InDocument) => (self.reach.nearest(CellId(cell)).max(distance), false),
            Some(Located::Nowhere) => return Ok(None),
            None => return Err(corrupt_entry()),
        };
        if self.bound.excludes(distance) {
            return Ok(None);
        }
        if is_point && distance < near.distance_min() {
            if let Some(settled) = &mut self.settled {
                // Its document has a place that is too near, whatever others it has.
                let id_at = self.index.layout.fields_length(TreeKey::strip(key));
                settled.insert(&key[4 + id_at.ok_or_else(corrupt_entry)?..])?;
            }
            return Ok(None);
        }
        let slot = EntrySlot::Held(self.held.hold(TreeKey::strip(key), value));
        let what = if is_point {
            self.bound.meet(distance);
            What::Entry(slot)
        } else {
            What::Shape(slot)
        };
        Ok(Some(QueueItem { distance, what }))
    }

    /// Reads the document of a shape that came first and puts it back at its exact distance.
    fn measure(&mut self, slot: EntrySlot) -> Result<()> {
        let id = self.entry_of(slot).id()?.to_vec();
        if self.is_settled(&id) || self.measured.contains(&id) {
            self.held.give_back(slot);
            return Ok(());
        }
        let key = self.documents.key(&id);
        let Nearest { path, near } = &self.nearest;
        let distance = self.snapshot.get(Family::Documents, &key, |bytes| {
            let document = RawDocument::from_bytes(bytes).map_err(corrupt_document)?;
            let measured = near.measure(document, path.parts());
            Ok::<_, Error>(measured.map(|found| found.distance))
        })?;
        self.yield_check.context.counters.add_documents(1);
        self.measured.insert(&id)?;
        // An entry without its document would be corruption; `check` finds it, a query skips it.
        let distance = distance.transpose()?.flatten();
        match distance {
            Some(distance) if self.near().wants(distance) => {
                self.push(distance, What::Entry(slot));
            }
            _ => {
                self.settled.get_or_insert_with(SeenIds::new).insert(&id)?;
                self.held.give_back(slot);
            }
        }
        Ok(())
    }

    fn is_settled(&self, id: &[u8]) -> bool {
        self.settled
            .as_ref()
            .is_some_and(|settled| settled.contains(id))
    }

    /// Takes all results at the distance of the first: equal distances come by `_id`.
    fn gather(&mut self, distance: f64, first: EntrySlot) -> Result<()> {
        self.ready.push(first);
        while let Some(QueueItem {
            distance: next,
            what: What::Entry(slot),
        }) = self.queue.peek()
            && *next == distance
        {
            self.ready.push(*slot);
            self.queue.pop();
        }
        if self.ready.len() > 1 {
            let mut by_id = Vec::with_capacity(self.ready.len());
            for slot in std::mem::take(&mut self.ready) {
                by_id.push((self.entry_of(slot).id()?.to_vec(), slot));
            }
            by_id.sort_by(|a, b| b.0.cmp(&a.0));
            self.ready = by_id.into_iter().map(|(_, slot)| slot).collect();
        }
        Ok(())
    }

    fn entry_of(&self, slot: EntrySlot) -> Entry<'_> {
        let (key, value) = match (slot, &self.cached) {
            (EntrySlot::Held(place), _) => self.held.get(place),
            (EntrySlot::Cached { bucket, entry }, Some(cached)) => cached.entry(bucket, entry),
            _ => unreachable!("an entry is asked for after one was found"),
        };
        Entry {
            key,
            value,
            layout: Some(&self.index.layout),
        }
    }

    /// Whether the document of a result comes for the first time.
    fn is_new(&mut self, slot: EntrySlot) -> Result<bool> {
        if self.settled.is_none() {
            return Ok(true);
        }
        let id = self.entry_of(slot).id()?.to_vec();
        self.settled.get_or_insert_with(SeenIds::new).insert(&id)
    }
}

impl Entries for NearEntries {
    fn advance(&mut self) -> Result<bool> {
        if let Some(error) = self.refused.take() {
            return Err(error);
        }
        self.held.give_back(self.current);
        self.current = EntrySlot::default();
        loop {
            while let Some(slot) = self.ready.pop() {
                if self.is_new(slot)? {
                    self.current = slot;
                    return Ok(true);
                }
                self.held.give_back(slot);
            }
            self.held.compact(&mut self.queue);
            let Some(item) = self.queue.pop() else {
                return Ok(false);
            };
            match item.what {
                What::Entry(slot) => self.gather(item.distance, slot)?,
                _ => self.open(&item)?,
            }
        }
    }

    fn entry(&self) -> Entry<'_> {
        self.entry_of(self.current)
    }

    /// What was found and has not been handed out is held.
    fn suspend(&mut self) {
        self.walk.suspend();
    }
}

/// A key, mostly without an allocation.
type ShortKey = smallvec::SmallVec<[u8; 48]>;

/// First key of the entries in cells `first` to `last` under a prefix, and a key behind them.
fn keys(prefix: &[u8], first: u64, last: u64) -> (ShortKey, ShortKey) {
    let mut start = ShortKey::from_slice(prefix);
    encode_cell(first, Direction::Ascending, &mut start);
    let mut end = ShortKey::from_slice(prefix);
    encode_cell(last, Direction::Ascending, &mut end);
    end.push(ABOVE_ALL);
    (start, end)
}
