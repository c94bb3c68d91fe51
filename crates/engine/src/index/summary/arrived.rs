//! Keys that are to be added together, in order: neighbours share most of the way to their ranges.

use super::block::word;
use super::{Summary, shared_bytes};

/// Keys one behind the other, in any order.
#[derive(Debug, Default)]
pub struct Arrived {
    bytes: Vec<u8>,
    keys: Vec<ArrivedKey>,
}

#[derive(Debug)]
struct ArrivedKey {
    /// What follows the bytes that all keys have in common, see [`word`].
    word: u64,
    start: u32,
    end: u32,
}

impl Arrived {
    /// Adds a key behind the others.
    pub fn push(&mut self, key: &[u8]) {
        let start = self.offset();
        self.bytes.extend_from_slice(key);
        self.keys.push(ArrivedKey {
            word: 0,
            start,
            end: self.offset(),
        });
    }

    /// Number of keys.
    pub fn keys(&self) -> usize {
        self.keys.len()
    }

    /// Bytes of all keys together.
    pub fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Forgets all keys, but keeps the memory for others.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.keys.clear();
    }

    fn offset(&self) -> u32 {
        let bytes = u32::try_from(self.bytes.len());
        bytes.expect("keys of one commit and a few megabytes are below 4 GiB")
    }

    fn sort(&mut self) {
        let Self { bytes, keys } = self;
        let Some(first) = keys.first().map(|key| key.of(bytes)) else {
            return;
        };
        let shared = keys.iter().fold(first.len(), |shared, key| {
            shared_bytes(&first[..shared], key.of(bytes))
        });
        for key in keys.iter_mut() {
            key.word = word(&key.of(bytes)[shared..]);
        }
        // Words tell nearly all keys apart. Those of a commit are in order already: a stable sort merges.
        keys.sort_by(|a, b| {
            let by_word = a.word.cmp(&b.word);
            by_word.then_with(|| a.of(bytes).cmp(b.of(bytes)))
        });
    }
}

impl ArrivedKey {
    fn of<'b>(&self, bytes: &'b [u8]) -> &'b [u8] {
        &bytes[self.start as usize..self.end as usize]
    }
}

impl Summary {
    /// Notes keys that came, each of them new.
    pub fn add_arrived(&mut self, arrived: &mut Arrived) {
        arrived.sort();
        let bytes = &arrived.bytes;
        self.add(arrived.keys.iter().map(|key| key.of(bytes)));
    }
}
