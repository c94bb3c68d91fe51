//! What a nearest-first search holds: the queue's elements, and the bytes of entries.
//!
//! Entries lie one behind the other in one buffer, so that holding one costs no allocation; the room of
//! those given back is reclaimed once it is half of the buffer.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

/// Given-back bytes below this are not worth reclaiming.
const RECLAIM_BYTES_MIN: usize = 64 * 1024;
/// Room for a first page of entries with their documents: growing to it would copy them several times.
const FIRST_BYTES: usize = 8 * 1024;

/// An element of the queue; the nearest is the greatest.
#[derive(Debug, Clone, Copy)]
pub(super) struct QueueItem {
    /// At most the distance of what it stands for, in the unit of `Near::measure`.
    pub distance: f64,
    pub what: What,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum What {
    /// Everything under a prefix.
    All { prefix: u32 },
    /// The entries in a cell, which are few if its surroundings have few.
    Cell { prefix: u32, cell: u64, few: bool },
    /// The entries under just this cell: of shapes.
    Exactly { prefix: u32, cell: u64 },
    /// All entries outside of a cell around the point, but for those of coarser cells.
    Outside { prefix: u32, cell: u64 },
    /// A shape, to be measured.
    Shape(EntrySlot),
    /// A result at its exact distance.
    Entry(EntrySlot),
}

impl QueueItem {
    fn is_result(&self) -> bool {
        matches!(self.what, What::Entry(_))
    }
}

impl PartialEq for QueueItem {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for QueueItem {}

impl PartialOrd for QueueItem {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for QueueItem {
    /// What may still hold results of a distance comes before the results at it, so that those that are
    /// equally far are known together.
    fn cmp(&self, other: &Self) -> Ordering {
        other
            .distance
            .total_cmp(&self.distance)
            .then_with(|| other.is_result().cmp(&self.is_result()))
    }
}

/// Where an entry is.
#[derive(Debug, Clone, Copy, Default)]
pub(super) enum EntrySlot {
    /// Nowhere.
    #[default]
    None,
    /// Among the entries held here.
    Held(HeldPosition),
    /// In a bucket that the search uses: which, and its number there.
    Cached { bucket: u32, entry: u32 },
}

/// Where an entry is held.
#[derive(Debug, Clone, Copy)]
pub(super) struct HeldPosition {
    at: u32,
    key: u32,
    value: u32,
}

impl HeldPosition {
    fn bytes(self) -> usize {
        self.key as usize + self.value as usize
    }
}

/// The bytes of entries.
#[derive(Debug, Default)]
pub(super) struct HeldEntries {
    bytes: Vec<u8>,
    given_back: usize,
}

impl HeldEntries {
    pub(super) fn hold(&mut self, key: &[u8], value: &[u8]) -> HeldPosition {
        if self.bytes.capacity() == 0 {
            self.bytes.reserve(FIRST_BYTES);
        }
        let number = |length: usize| u32::try_from(length).expect("less than 4 GiB is held");
        let place = HeldPosition {
            at: number(self.bytes.len()),
            key: number(key.len()),
            value: number(value.len()),
        };
        self.bytes.extend_from_slice(key);
        self.bytes.extend_from_slice(value);
        place
    }

    /// Key and value of an entry.
    pub(super) fn get(&self, place: HeldPosition) -> (&[u8], &[u8]) {
        let from = &self.bytes[place.at as usize..];
        from[..place.bytes()].split_at(place.key as usize)
    }

    /// The entry is needed no longer.
    pub(super) fn give_back(&mut self, slot: EntrySlot) {
        if let EntrySlot::Held(place) = slot {
            self.given_back += place.bytes();
        }
    }

    /// A place to return to with [`Self::release_to`].
    pub(super) fn stamp(&self) -> usize {
        self.bytes.len()
    }

    /// Forgets everything that was held since `mark`.
    pub(super) fn release_to(&mut self, stamp: usize) {
        self.bytes.truncate(stamp);
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Reclaims what was given back, when it is worth it. The queue holds all entries there are.
    pub(super) fn compact(&mut self, queue: &mut BinaryHeap<QueueItem>) {
        if self.given_back < RECLAIM_BYTES_MIN || self.given_back * 2 < self.bytes.len() {
            return;
        }
        let mut kept = HeldEntries::default();
        let mut items = std::mem::take(queue).into_vec();
        for item in &mut items {
            if let What::Shape(EntrySlot::Held(place)) | What::Entry(EntrySlot::Held(place)) =
                &mut item.what
            {
                let (key, value) = self.get(*place);
                *place = kept.hold(key, value);
            }
        }
        *queue = BinaryHeap::from(items);
        *self = kept;
    }
}
