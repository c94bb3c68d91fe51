//! The documents: seeded, so that every run and every target has the same.
//!
//! `{_id, URI, name, origin, creation, expiration}`, 234 bytes of BSON each.
//! Every indexed field is random, so that all four secondary indexes are written
//! at random places: the case that B-trees larger than memory are slow at.

use rand::{Rng, RngCore, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// 2012-01-01T00:00:00Z in milliseconds since 1970: the earliest creation.
pub const FIRST_CREATION_MS: i64 = 1_325_376_000_000;
/// Creations are spread over so long.
pub const CREATION_SPAN_MS: i64 = 365 * DAY_MS;
/// Milliseconds of a day.
const DAY_MS: i64 = 86_400_000;
/// Letters that random texts are made of: five random bits each, in ascending order.
const LETTERS: &[u8; 32] = b"234567abcdefghijklmnopqrstuvwxyz";
/// What every URI starts with.
pub const URI_START: &str = "http://";
const URI_RANDOM: usize = 61;
const NAME_LENGTH: usize = 36;
const ORIGIN_LENGTH: usize = 36;

/// One document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Item {
    /// From 0, in the order of insertion.
    pub number: u32,
    /// Random.
    pub uri: String,
    /// Random.
    pub name: String,
    /// Random.
    pub origin: String,
    /// Random within a year, milliseconds since 1970.
    pub creation_ms: i64,
    /// One to ninety days after the creation.
    pub expiration_ms: i64,
}

/// An iterator over the documents of one seed and size.
pub struct Generator {
    random: ChaCha8Rng,
    total: u32,
    next: u32,
}

impl Generator {
    /// `total` documents from `seed`.
    pub fn new(total: u32, seed: u64) -> Self {
        Self {
            random: ChaCha8Rng::seed_from_u64(seed),
            total,
            next: 0,
        }
    }
}

impl Iterator for Generator {
    type Item = Item;

    fn next(&mut self) -> Option<Item> {
        if self.next == self.total {
            return None;
        }
        let number = self.next;
        self.next += 1;
        let random = &mut self.random;
        let creation_ms = FIRST_CREATION_MS + random.random_range(0..CREATION_SPAN_MS);
        Some(Item {
            number,
            uri: text(random, URI_START, URI_RANDOM),
            name: text(random, "", NAME_LENGTH),
            origin: text(random, "", ORIGIN_LENGTH),
            creation_ms,
            expiration_ms: creation_ms + random.random_range(1..=90) * DAY_MS,
        })
    }
}

/// `start` and `length` random letters.
fn text(random: &mut ChaCha8Rng, start: &str, length: usize) -> String {
    let mut text = String::with_capacity(start.len() + length);
    text.push_str(start);
    let mut bits = 0;
    for at in 0..length {
        if at % 12 == 0 {
            bits = random.next_u64();
        }
        text.push(char::from(LETTERS[(bits & 31) as usize]));
        bits >>= 5;
    }
    text
}

/// Where range queries start: seeded, and different from the documents' own.
pub struct Starts(ChaCha8Rng);

impl Starts {
    /// Starts for the queries of a run.
    pub fn new(seed: u64) -> Self {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        random.set_stream(1);
        Self(random)
    }

    /// A random URI. It lies below the last 1/32 of all URIs, so that enough follow.
    pub fn draw(&mut self) -> String {
        loop {
            let uri = text(&mut self.0, URI_START, URI_RANDOM);
            if uri.as_bytes()[URI_START.len()] < LETTERS[31] {
                return uri;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_documents_and_another_seed_others() {
        let items: Vec<Item> = Generator::new(100, 7).collect();
        assert!(Generator::new(100, 7).eq(items.iter().cloned()));
        assert!(!Generator::new(100, 8).eq(items.iter().cloned()));
        assert_eq!(items.last().map(|item| item.number), Some(99));
    }

    #[test]
    fn letters_ascend_as_bytes_do_and_starts_leave_room() {
        assert!(LETTERS.is_sorted());
        let mut starts = Starts::new(1);
        for _ in 0..1000 {
            assert!(!starts.draw().starts_with("http://z"));
        }
    }
}
