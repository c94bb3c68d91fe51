//! Seeded data of any size: each thing's random numbers come from its number alone, so that loads, rows
//! and right answers are made one after the other without keeping them.

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

/// How large a run is, and of which seed.
#[derive(Debug, Clone, Copy)]
pub struct Size {
    /// Of the data.
    pub seed: u64,
    /// Of the full size.
    pub scale: f64,
}

impl Size {
    /// So many of `full`, at least `least`.
    pub fn of(self, full: u32, least: u32) -> u32 {
        ((f64::from(full) * self.scale).round() as u32).max(least)
    }

    /// Random numbers for the things of one kind.
    pub fn random(self, kind: &str) -> RandomByNumber {
        let salt = kind
            .bytes()
            .fold(0, |salt, byte| salt * 31 + u64::from(byte));
        RandomByNumber(ChaCha8Rng::seed_from_u64(self.seed ^ (salt << 16)))
    }
}

/// Random numbers that each thing has of its own.
#[derive(Debug, Clone)]
pub struct RandomByNumber(ChaCha8Rng);

impl RandomByNumber {
    /// Those of the thing with that number.
    pub fn of(&self, number: u32) -> ChaCha8Rng {
        let mut random = self.0.clone();
        random.set_stream(number.into());
        random.set_word_pos(0);
        random
    }
}
