//! The prefix that the keys of one tree begin with.

use super::{Compression, TREE_NUMBER_BITS};

/// The 4-byte prefix of everything in one ordered tree: how it is compressed, and its number (drawn in
/// `storage::compression`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TreeKey(pub u32);

impl TreeKey {
    /// Bytes of a prefix.
    pub const BYTES: usize = size_of::<u32>();

    /// Trees have a number below this.
    pub const NUMBERS_END: u32 = 1 << TREE_NUMBER_BITS;

    /// The tree with a number of its own, below [`Self::NUMBERS_END`].
    pub fn new(number: u32, compression: Compression) -> Self {
        assert!(number < Self::NUMBERS_END, "a tree's number has 27 bits");
        Self((u32::from(compression.class()) << TREE_NUMBER_BITS) | number)
    }

    /// How it is compressed.
    pub fn compression(self) -> Compression {
        self.known_compression()
            .expect("a tree is made with a compression, or checked when it is read")
    }

    /// How it is compressed; `None` for a prefix that [`Self::new`] cannot have made.
    pub fn known_compression(self) -> Option<Compression> {
        let class = u8::try_from(self.0 >> TREE_NUMBER_BITS).ok()?;
        Compression::of_class(class)
    }

    /// The tree of this prefix.
    pub fn from_prefix(prefix: [u8; Self::BYTES]) -> Self {
        Self(u32::from_be_bytes(prefix))
    }

    /// The prefix as stored.
    pub fn prefix(self) -> [u8; Self::BYTES] {
        self.0.to_be_bytes()
    }

    /// First key of the tree, and first key after it.
    pub fn range(self) -> ([u8; Self::BYTES], [u8; Self::BYTES]) {
        (self.prefix(), (self.0 + 1).to_be_bytes())
    }

    /// What follows the tree's prefix in the key of an entry.
    #[inline]
    pub fn strip(key: &[u8]) -> &[u8] {
        &key[Self::BYTES..]
    }

    /// `prefix ++ rest`.
    pub fn key(self, rest: &[u8]) -> Vec<u8> {
        let mut key = Vec::with_capacity(Self::BYTES + rest.len());
        key.extend_from_slice(&self.prefix());
        key.extend_from_slice(rest);
        key
    }
}
