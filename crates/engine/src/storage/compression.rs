//! How blocks of documents and index entries are compressed.
//!
//! The library compresses by column family, so every kind of compression that is in use has one of its
//! own in each [`super::Family`]. Which one a key lies in stands in the tree's prefix, the first four bytes
//! of a key (outside the catalogue):
//!
//! ```text
//! class (5 bits) number of the tree (27 bits), big-endian
//!
//! class  0 default | 1 none | 2 lz4 | 2 + n  zstd level n (1 to 22)
//! ```

use std::ops::RangeInclusive;

/// Bits of a prefix behind the class.
pub const TREE_NUMBER_BITS: u32 = 27;
/// Classes that a prefix has room for.
pub(super) const CLASSES: usize = 1 << (u32::BITS - TREE_NUMBER_BITS);

/// Bits of a prefix's first byte that belong to the number.
const CLASS_SHIFT: u32 = TREE_NUMBER_BITS - 24;

/// The levels of zstd.
pub const ZSTD_LEVELS: RangeInclusive<u8> = 1..=22;
/// The level of zstd where none is asked for.
pub const ZSTD_LEVEL_DEFAULT: u8 = 3;

const DEFAULT: u8 = 0;
const NONE: u8 = 1;
const LZ4: u8 = 2;

/// A way to compress a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Algorithm {
    /// Blocks stay as they are.
    None,
    /// Fast, and about half as effective as the next.
    Lz4,
    /// With a level, one of [`ZSTD_LEVELS`]: the higher, the smaller and the slower to write.
    Zstd(u8),
}

impl Algorithm {
    /// Its name in options and statistics.
    pub fn name(self) -> &'static str {
        match self {
            Algorithm::None => "none",
            Algorithm::Lz4 => "lz4",
            Algorithm::Zstd(_) => "zstd",
        }
    }

    /// Its level, where it has levels.
    pub fn level(self) -> Option<u8> {
        match self {
            Algorithm::Zstd(level) => Some(level),
            Algorithm::None | Algorithm::Lz4 => None,
        }
    }
}

/// How a tree is compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Compression {
    /// Fast where files come and go, dense at the lowest level, where nearly all bytes are.
    #[default]
    Default,
    /// As somebody asked for.
    Chosen(Algorithm),
}

impl Compression {
    /// What files of the lowest level and files that are loaded are compressed with.
    pub fn settled(self) -> Algorithm {
        match self {
            Compression::Default => Algorithm::Zstd(ZSTD_LEVEL_DEFAULT),
            Compression::Chosen(algorithm) => algorithm,
        }
    }

    /// What files above the lowest level are compressed with: they are written again before long, so a
    /// high level would be wasted on them.
    pub fn passing(self) -> Algorithm {
        match self {
            Compression::Default => Algorithm::Lz4,
            Compression::Chosen(Algorithm::Zstd(_)) => Algorithm::Zstd(*ZSTD_LEVELS.start()),
            Compression::Chosen(algorithm) => algorithm,
        }
    }

    /// The upper bits of a tree's prefix.
    pub fn class(self) -> u8 {
        match self {
            Compression::Default => DEFAULT,
            Compression::Chosen(Algorithm::None) => NONE,
            Compression::Chosen(Algorithm::Lz4) => LZ4,
            Compression::Chosen(Algorithm::Zstd(level)) => {
                assert!(ZSTD_LEVELS.contains(&level), "zstd has no level {level}");
                LZ4 + level
            }
        }
    }

    /// The compression with this class, if there is one.
    pub fn of_class(class: u8) -> Option<Self> {
        let chosen = match class {
            DEFAULT => return Some(Compression::Default),
            NONE => Algorithm::None,
            LZ4 => Algorithm::Lz4,
            _ => Algorithm::Zstd(Some(class - LZ4).filter(|level| ZSTD_LEVELS.contains(level))?),
        };
        Some(Compression::Chosen(chosen))
    }
}

/// The class in a key's prefix.
pub(super) fn class_of(key: &[u8]) -> usize {
    usize::from(key[0] >> CLASS_SHIFT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_class_means_one_compression() {
        let known: Vec<Compression> = (0..=u8::MAX).filter_map(Compression::of_class).collect();
        assert_eq!(known.len(), 3 + ZSTD_LEVELS.count());
        for compression in known {
            let class = compression.class();
            assert_eq!(Compression::of_class(class), Some(compression));
            assert!(usize::from(class) < CLASSES);
            let prefix = (u32::from(class) << TREE_NUMBER_BITS) | 7;
            assert_eq!(class_of(&prefix.to_be_bytes()), usize::from(class));
        }
    }
}
