//! Keys that are to be added together, in order: neighbours share most of the way to their buckets.

use super::leaf::word;
use super::{RankIndex, shared_bytes};

/// Bits of a number of a key among others; a commit has fewer.
const NUMBER_BITS: u32 = 24;

/// Keys one behind the other, in any order.
#[derive(Debug, Default)]
pub struct DeltaBuffer {
    bytes: Vec<u8>,
    /// Where each ends.
    ends: Vec<u32>,
    /// All begin with so many bytes of the first.
    shared: usize,
}

impl DeltaBuffer {
    /// Adds a key behind the others.
    pub fn push(&mut self, key: &[u8]) {
        self.shared = match self.ends.first() {
            None => key.len(),
            Some(_) => shared_bytes(&self.bytes[..self.shared], key),
        };
        self.bytes.extend_from_slice(key);
        let end = u32::try_from(self.bytes.len());
        self.ends
            .push(end.expect("keys of one commit and a few megabytes are below 4 GiB"));
    }

    /// Number of keys.
    pub fn keys(&self) -> usize {
        self.ends.len()
    }

    /// Bytes of all keys together.
    pub fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Forgets all keys, but keeps the memory for others.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }

    fn key(&self, number: usize) -> &[u8] {
        let start = match number {
            0 => 0,
            _ => self.ends[number - 1],
        };
        &self.bytes[start as usize..self.ends[number] as usize]
    }

    /// The numbers of the keys in their order, nearly: of those that begin alike the first that came is first.
    fn in_order(&self) -> impl Iterator<Item = usize> {
        // What tells nearly all keys apart and the number beside it are one integer, which sorts fastest.
        const NUMBER: u64 = (1 << NUMBER_BITS) - 1;
        assert!(self.keys() as u64 <= NUMBER, "a commit has fewer keys");
        let beginning = |number: usize| word(&self.key(number)[self.shared..]) & !NUMBER;
        let all = 0..self.keys();
        let mut order: Vec<u64> = all
            .map(|number| beginning(number) | number as u64)
            .collect();
        order.sort_unstable();
        order.into_iter().map(|one| (one & NUMBER) as usize)
    }
}

impl RankIndex {
    /// Notes keys that came, each of them new.
    pub fn merge_delta(&mut self, arrived: &DeltaBuffer) {
        self.add(arrived.in_order().map(|number| arrived.key(number)));
    }
}
