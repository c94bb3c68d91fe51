//! Reading encoded bytes of either direction.

use super::KeyError;

/// Reads bytes that were all complemented if `MASK` is 0xFF, and not if it is 0.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reader<'a, const MASK: u8> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a, const MASK: u8> Reader<'a, MASK> {
    #[inline]
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Reader { bytes, at: 0 }
    }

    /// How many bytes have been read.
    #[inline]
    pub(super) fn position(&self) -> usize {
        self.at
    }

    #[inline]
    pub(super) fn byte(&mut self) -> Result<u8, KeyError> {
        let byte = *self.bytes.get(self.at).ok_or(KeyError::Corrupt)?;
        self.at += 1;
        Ok(byte ^ MASK)
    }

    /// The next bytes as they stand, complemented or not.
    #[inline]
    pub(super) fn take(&mut self, count: usize) -> Result<&'a [u8], KeyError> {
        let end = self.at.checked_add(count).ok_or(KeyError::Corrupt)?;
        let taken = self.bytes.get(self.at..end).ok_or(KeyError::Corrupt)?;
        self.at = end;
        Ok(taken)
    }

    /// A big-endian number of up to 8 bytes.
    #[inline]
    pub(super) fn unsigned(&mut self, count: usize) -> Result<u64, KeyError> {
        let taken = self.take(count)?;
        let mut buffer = [0; 8];
        buffer[8 - count..].copy_from_slice(taken);
        let mask = u64::from_ne_bytes([MASK; 8]) & u64::MAX >> (64 - 8 * count);
        Ok(u64::from_be_bytes(buffer) ^ mask)
    }

    /// The bytes up to a terminating zero, which is stepped over.
    #[inline]
    pub(super) fn until_zero(&mut self) -> Result<&'a [u8], KeyError> {
        let rest = self.bytes.get(self.at..).ok_or(KeyError::Corrupt)?;
        let length = memchr::memchr(MASK, rest).ok_or(KeyError::Corrupt)?;
        self.at += length + 1;
        Ok(&rest[..length])
    }
}
