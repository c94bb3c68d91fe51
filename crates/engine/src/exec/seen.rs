//! Which documents were met already, by their encoded `_id`s, within the memory budget.
//!
//! The `_id`s lie one behind the other in chunks that are never moved, and a table holds where: an `_id` takes
//! about fifteen bytes beside its own, where one allocation for each would take three times as many.

use crate::error::Result;
use crate::operation::memory::Reservation;
use ahash::RandomState;
use hashbrown::HashTable;

/// Room of a chunk; a longer `_id` has one for itself.
const CHUNK_BYTES: usize = 1 << 16;
/// Room of the first: most statements meet few documents.
const FIRST_CHUNK_BYTES: usize = 1 << 10;
/// Less than this is not worth a reservation.
const FREE_BYTES: usize = CHUNK_BYTES;
/// What an element of the table takes while the table is copied to one of twice the size.
const ELEMENT_BYTES: usize = 10;

/// The encoded `_id`s of documents that were met.
pub(super) struct SeenIds {
    hasher: RandomState,
    places: HashTable<IdPosition>,
    chunks: Vec<Vec<u8>>,
    /// Room of all chunks.
    bytes: usize,
    memory: Reservation,
}

/// Where an `_id` begins, behind its length (u32 LE).
#[derive(Clone, Copy)]
struct IdPosition {
    chunk: u16,
    at: u16,
}

impl SeenIds {
    pub fn new() -> Self {
        Self {
            hasher: RandomState::new(),
            places: HashTable::new(),
            chunks: Vec::new(),
            bytes: 0,
            memory: Reservation::none(),
        }
    }

    pub fn contains(&self, id: &[u8]) -> bool {
        let hash = self.hasher.hash_one(id);
        self.places
            .find(hash, |place| id_at(&self.chunks, *place) == id)
            .is_some()
    }

    /// Whether the `_id` is new; it is remembered.
    ///
    /// # Errors
    /// `ExceededMemoryLimit` when so many cannot be held.
    pub fn insert(&mut self, id: &[u8]) -> Result<bool> {
        if self.contains(id) {
            return Ok(false);
        }
        let place = self.hold(id)?;
        let (chunks, hasher) = (&self.chunks, &self.hasher);
        let hash_of = |place: &IdPosition| hasher.hash_one(id_at(chunks, *place));
        let hash = hasher.hash_one(id);
        self.places.insert_unique(hash, place, hash_of);
        Ok(true)
    }

    /// Forgets all. What was large is given back: clearing takes as long as the table has room.
    pub fn clear(&mut self) {
        if self.chunks.len() > 1 {
            *self = Self::new();
        }
        self.places.clear();
        self.chunks.iter_mut().for_each(Vec::clear);
    }

    fn hold(&mut self, id: &[u8]) -> Result<IdPosition> {
        let needed = size_of::<u32>() + id.len();
        let has_room =
            |chunk: &Vec<u8>| needed <= chunk.capacity() - chunk.len() && chunk.len() < CHUNK_BYTES;
        if !self.chunks.last().is_some_and(has_room) {
            let room = needed.max(match self.chunks.is_empty() {
                true => FIRST_CHUNK_BYTES,
                false => CHUNK_BYTES,
            });
            self.reserve(room)?;
            self.chunks.push(Vec::with_capacity(room));
            self.bytes += room;
        }
        let number = self.chunks.len() - 1;
        let chunk = &mut self.chunks[number];
        let too_many = |_| crate::operation::memory::exceeded(usize::MAX);
        let place = IdPosition {
            chunk: u16::try_from(number).map_err(too_many)?,
            at: u16::try_from(chunk.len()).map_err(too_many)?,
        };
        chunk.extend_from_slice(&u32::try_from(id.len()).unwrap_or(u32::MAX).to_le_bytes());
        chunk.extend_from_slice(id);
        Ok(place)
    }

    /// Makes sure that a chunk of so many bytes, and as many `_id`s as fit into it, may be held.
    fn reserve(&mut self, room: usize) -> Result<()> {
        let elements = self.places.len() + CHUNK_BYTES / (2 * size_of::<u32>());
        let wanted = self.bytes + room + elements * ELEMENT_BYTES;
        if self.bytes + room <= FREE_BYTES {
            return Ok(());
        }
        self.memory.grow(wanted)
    }
}

fn id_at(chunks: &[Vec<u8>], place: IdPosition) -> &[u8] {
    let rest = &chunks[usize::from(place.chunk)][usize::from(place.at)..];
    let (length, rest) = rest
        .split_first_chunk()
        .expect("a length stands before each");
    &rest[..u32::from_le_bytes(*length) as usize]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Code;

    #[test]
    fn each_is_new_once() {
        let mut seen = SeenIds::new();
        let id = |number: u32| number.to_be_bytes().repeat(number as usize % 5);
        for number in 1..50_000_u32 {
            let expected = number % 5 != 0 || number == 5;
            assert_eq!(seen.insert(&id(number)).unwrap(), expected, "{number}");
        }
        for number in 1..50_000 {
            assert!(!seen.insert(&id(number)).unwrap(), "{number}");
        }
        let long = vec![7; 3 * CHUNK_BYTES];
        assert!(seen.insert(&long).unwrap() && !seen.insert(&long).unwrap());
        assert!(seen.insert(&long[1..]).unwrap());
        seen.clear();
        assert!(seen.insert(&long).unwrap() && !seen.contains(&id(7)));
    }

    #[test]
    fn more_than_the_share_is_refused_and_given_back() {
        let mut seen = SeenIds::new();
        let mut number = 0_u64;
        let error = loop {
            number += 1;
            if let Err(error) = seen.insert(&number.to_be_bytes()) {
                break error;
            }
        };
        assert_eq!(error.code, Code::ExceededMemoryLimit);
        assert!(number > 500_000, "{number}");
    }
}
