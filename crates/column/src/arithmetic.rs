//! Values as integers, whose differences columns store.
//!
//! ```text
//! int, long, bool   the number                        date       its milliseconds
//! timestamp         seconds << 32 | increment         double     times its scale, or its 64 bits
//! ObjectId          T0 T1 C0 T2 C1 T3 C2, from bit 48 down: time and counter by turns; the 5 bytes between stay
//! decimal           its 128 bits                      string, code   its 16 bytes at most, big-endian
//! binary            its 16 bytes at most, little-endian; the length and the subtype stay
//! ```

/// How the values of a type are computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Class {
    /// Differences of 64 bits.
    Delta,
    /// Differences of differences of 64 bits.
    DeltaOfDelta,
    /// Differences of 64 bits, of doubles.
    Double,
    /// Differences of 128 bits.
    Wide,
    /// Only repeated.
    Repeat,
}

impl Class {
    #[inline]
    pub fn of(kind: u8) -> Self {
        match kind {
            0x10 | 0x12 | 0x08 => Self::Delta,
            0x07 | 0x09 | 0x11 => Self::DeltaOfDelta,
            0x01 => Self::Double,
            0x13 | 0x05 | 0x02 | 0x0D => Self::Wide,
            _ => Self::Repeat,
        }
    }
}

#[inline]
pub(crate) fn zigzag(value: i64) -> u64 {
    (value as u64) << 1 ^ (value >> 63) as u64
}

#[inline]
pub(crate) fn unzigzag(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}

#[inline]
pub(crate) fn zigzag_wide(value: i128) -> u128 {
    (value as u128) << 1 ^ (value >> 127) as u128
}

#[inline]
pub(crate) fn unzigzag_wide(value: u128) -> i128 {
    (value >> 1) as i128 ^ -((value & 1) as i128)
}

/// The integer of a value of a type of 64 bits; of a double its bits; 0 for types that only repeat.
#[inline]
pub(crate) fn narrow_of(kind: u8, bytes: &[u8]) -> i64 {
    if let Ok(bytes) = <[u8; 8]>::try_from(bytes) {
        return i64::from_le_bytes(bytes);
    }
    if let Ok(bytes) = <[u8; 4]>::try_from(bytes) {
        return i64::from(i32::from_le_bytes(bytes));
    }
    match (kind, bytes) {
        (0x08, [byte]) => i64::from(*byte),
        (0x07, &[t0, t1, t2, t3, .., c0, c1, c2]) => {
            i64::from_be_bytes([0, t0, t1, c0, t2, c1, t3, c2])
        }
        _ => 0,
    }
}

/// An ObjectId of its integer; the bytes between time and counter are another's.
#[inline]
pub(crate) fn object_id(value: i64, other: &[u8; 12]) -> [u8; 12] {
    let [_, t0, t1, c0, t2, c1, t3, c2] = value.to_be_bytes();
    let mut id = *other;
    id[..4].copy_from_slice(&[t0, t1, t2, t3]);
    id[9..].copy_from_slice(&[c0, c1, c2]);
    id
}

/// The integer of a value of a type of 128 bits; `None` for texts and binaries that have none.
pub(crate) fn wide_of(kind: u8, bytes: &[u8]) -> Option<i128> {
    match kind {
        0x13 => Some(i128::from_le_bytes(bytes.try_into().ok()?)),
        0x05 => little_endian(bytes.get(5..)?),
        _ => {
            let text = bytes.get(4..bytes.len().checked_sub(1)?)?;
            // Zero bytes in front would be lost.
            if text.first() == Some(&0) {
                return None;
            }
            let mut padded = [0; 16];
            let start = 16_usize.checked_sub(text.len())?;
            padded[start..].copy_from_slice(text);
            Some(i128::from_be_bytes(padded))
        }
    }
}

fn little_endian(bytes: &[u8]) -> Option<i128> {
    let mut padded = [0; 16];
    padded.get_mut(..bytes.len())?.copy_from_slice(bytes);
    Some(i128::from_le_bytes(padded))
}
