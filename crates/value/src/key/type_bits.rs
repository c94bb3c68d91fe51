//! What the order-preserving bytes lose, kept beside them.
//!
//! Numerically equal numbers have equal key bytes, so a key alone cannot tell `1` from
//! `1.0`. The difference is a few bits a value, appended in the order of encoding:
//!
//! | value | bits |
//! |---|---|
//! | a number of the type its key bytes suggest | `0` |
//! | any other number | `1`, then the type: `00` int32, `01` int64, `10` double, `11` decimal |
//! | … a double zero | one bit more: its sign |
//! | … a double NaN | 64 bits more: the double as it was |
//! | … a decimal | 128 bits more: the decimal as it was |
//! | a string | `0` |
//! | a symbol | `1` |
//! | everything else | nothing |
//!
//! The suggested type of a whole number is int32 if it fits, else int64 if it fits, else
//! double; of a number with a fraction, double. So integers and ordinary doubles cost
//! nothing: trailing zero bits are not stored, and mostly there is no byte at all.
//!
//! Whoever encodes may add bits of its own between values ([`TypeBits::push_bit`]).

use smallvec::SmallVec;

/// The type information of one key, appended to while encoding.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TypeBits {
    /// Bit `i` is bit `i % 8` of byte `i / 8`; bytes behind the last set bit are absent.
    bytes: SmallVec<[u8; 24]>,
    count: usize,
}

impl TypeBits {
    /// No bits.
    pub fn new() -> Self {
        Self::default()
    }

    /// Forgets all bits; keeps the memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.count = 0;
    }

    /// The bytes to store; empty when every value was of its suggested type.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The bytes to store.
    pub fn to_bytes(&self) -> Vec<u8> {
        self.bytes.to_vec()
    }

    /// True when there is nothing to store.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    #[inline]
    pub(super) fn push_zero(&mut self) {
        self.count += 1;
    }

    pub(super) fn push_one(&mut self) {
        self.bytes.resize(self.count / 8 + 1, 0);
        self.bytes[self.count / 8] |= 1 << (self.count % 8);
        self.count += 1;
    }

    /// Appends a bit that says something the encoder of values does not know.
    #[inline]
    pub fn push_bit(&mut self, bit: bool) {
        if bit {
            self.push_one()
        } else {
            self.push_zero()
        }
    }

    /// Appends all bits of `other`.
    pub fn extend(&mut self, other: &TypeBits) {
        let mut bits = TypeBitsReader::from_bytes(&other.bytes);
        for _ in 0..other.count {
            self.push_bit(bits.read_one());
        }
    }

    /// Appends the lowest `count` bits, lowest first.
    pub(super) fn push(&mut self, bits: u128, count: u32) {
        for bit in 0..count {
            if bits >> bit & 1 == 1 {
                self.push_one()
            } else {
                self.push_zero()
            }
        }
    }

    /// Makes the bits what they were when `count` of them had been pushed.
    pub fn truncate(&mut self, count: usize) {
        self.count = count;
        self.bytes.truncate(count.div_ceil(8));
        if let Some(last) = self.bytes.get_mut(count / 8) {
            *last &= (1 << (count % 8)) - 1;
        }
        while self.bytes.last() == Some(&0) {
            self.bytes.pop();
        }
    }

    /// How many bits have been pushed, for [`TypeBits::truncate`].
    pub fn count(&self) -> usize {
        self.count
    }
}

/// Reads the bits back in the order in which they were pushed.
#[derive(Debug, Clone, Default)]
pub struct TypeBitsReader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> TypeBitsReader<'a> {
    /// Reads what [`TypeBits::as_bytes`] gave.
    pub fn from_bytes(bytes: &'a [u8]) -> Self {
        TypeBitsReader { bytes, at: 0 }
    }

    /// Reads a bit that [`TypeBits::push_bit`] appended.
    #[inline]
    pub fn read_bit(&mut self) -> bool {
        self.read_one()
    }

    /// Whether only zero bits follow: values may then be stepped over without reading their bits.
    #[inline]
    pub fn is_spent(&self) -> bool {
        self.at >= self.bytes.len() * 8
    }

    #[inline]
    pub(super) fn read_one(&mut self) -> bool {
        let byte = self.bytes.get(self.at / 8).copied().unwrap_or(0);
        let bit = byte >> (self.at % 8) & 1;
        self.at += 1;
        bit == 1
    }

    pub(super) fn read(&mut self, count: u32) -> u128 {
        (0..count).fold(0, |bits, bit| bits | u128::from(self.read_one()) << bit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_come_back_and_trailing_zeros_cost_nothing() {
        let mut bits = TypeBits::new();
        for _ in 0..100 {
            bits.push_zero();
        }
        assert!(bits.is_empty());
        bits.push(0b1011, 4);
        let mark = bits.count();
        bits.push(u128::MAX, 128);
        let mut reader = TypeBitsReader::from_bytes(bits.as_bytes());
        assert_eq!(reader.read(100), 0);
        assert_eq!(reader.read(4), 0b1011);
        assert_eq!(reader.read(128), u128::MAX);
        assert_eq!(reader.read(128), 0);
        let mut behind = TypeBits::new();
        behind.push_bit(true);
        behind.extend(&bits);
        let mut reader = TypeBitsReader::from_bytes(behind.as_bytes());
        assert!(reader.read_bit() && !reader.is_spent());
        assert_eq!(reader.read(100), 0);
        assert_eq!(reader.read(4), 0b1011);
        assert_eq!(reader.read(128), u128::MAX);
        assert!(!reader.read_bit() || reader.is_spent());
        bits.truncate(mark);
        assert_eq!(bits.as_bytes().len(), 13);
        bits.truncate(100);
        assert!(bits.is_empty());
    }
}
