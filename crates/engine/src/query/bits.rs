//! `$bitsAllSet` and its three siblings.
//!
//! In: a list of positions, a number or binary data. Out: a test for numbers that are integers
//! and for binary data, little-endian bit order, as MongoDB's `BitTestMatchExpression`.

use super::parse::{IntegerError, integer};
use crate::error::{Error, Result};
use crate::text::element;
use bson::raw::RawBsonRef;
use meridian_value::number::Decimal;

/// Which of the four questions is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum BitMask {
    AllSet,
    AllClear,
    AnySet,
    AnyClear,
}

impl BitMask {
    /// The operator's name.
    pub fn name(self) -> &'static str {
        match self {
            Self::AllSet => "$bitsAllSet",
            Self::AllClear => "$bitsAllClear",
            Self::AnySet => "$bitsAnySet",
            Self::AnyClear => "$bitsAnyClear",
        }
    }
}

/// A bit test: the question and the positions it is asked of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BitTest {
    mask: BitMask,
    positions: Vec<u32>,
}

impl BitTest {
    /// Parses the operand of a bit operator over `field`.
    ///
    /// # Errors
    /// `BadValue` and `FailedToParse` as MongoDB for operands that name no bits.
    pub fn parse(mask: BitMask, field: &str, operand: RawBsonRef<'_>) -> Result<Self> {
        let positions = match operand {
            RawBsonRef::Array(array) => {
                let mut positions = Vec::new();
                for (index, entry) in array.into_iter().enumerate() {
                    let entry = entry.map_err(crate::error::malformed)?;
                    positions.push(position(index, entry)?);
                }
                positions
            }
            RawBsonRef::Binary(binary) => (0u32..)
                .zip(binary.bytes)
                .flat_map(|(byte_index, byte)| {
                    (0..8)
                        .filter(move |bit| byte & (1 << bit) != 0)
                        .map(move |bit| byte_index * 8 + bit)
                })
                .collect(),
            RawBsonRef::Int32(_)
            | RawBsonRef::Int64(_)
            | RawBsonRef::Double(_)
            | RawBsonRef::Decimal128(_) => {
                let number = integer(mask.name(), operand)
                    .and_then(|number| number.non_negative(mask.name(), operand))
                    .map_err(|IntegerError(message)| Error::failed_to_parse(message))?;
                (0..64).filter(|bit| number & (1 << bit) != 0).collect()
            }
            _ => {
                return Err(Error::bad_value(format!(
                    "{field} takes an Array, a number, or a BinData but received: {}",
                    element(mask.name(), operand)
                )));
            }
        };
        Ok(Self { mask, positions })
    }

    /// Which question is asked.
    pub fn mask(&self) -> BitMask {
        self.mask
    }

    /// The positions, 0 the least significant bit.
    pub fn positions(&self) -> &[u32] {
        &self.positions
    }

    /// Whether the value is an integer or binary data whose bits satisfy the test.
    pub fn matches(&self, value: RawBsonRef<'_>) -> bool {
        match value {
            RawBsonRef::Int32(number) => self.test_integer(i64::from(number)),
            RawBsonRef::Int64(number) => self.test_integer(number),
            RawBsonRef::Double(number) => {
                let fits =
                    (-9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0).contains(&number);
                fits && number.trunc() == number && self.test_integer(number as i64)
            }
            // Rounded half to even; what no int64 holds is the least of them.
            RawBsonRef::Decimal128(number) => {
                let whole = Decimal::from_bson(number).round(0).to_i64_exact();
                self.test_integer(whole.unwrap_or(i64::MIN))
            }
            RawBsonRef::Binary(binary) => self.test(|position| {
                let byte = binary
                    .bytes
                    .get(position as usize / 8)
                    .copied()
                    .unwrap_or(0);
                byte & (1 << (position % 8)) != 0
            }),
            _ => false,
        }
    }

    /// Positions past 63 read the sign, as two's complement extends it.
    fn test_integer(&self, number: i64) -> bool {
        self.test(|position| number >> position.min(63) & 1 == 1)
    }

    fn test(&self, is_set: impl Fn(u32) -> bool) -> bool {
        let mut positions = self.positions.iter().copied();
        match self.mask {
            BitMask::AllSet => positions.all(is_set),
            BitMask::AllClear => !positions.any(is_set),
            BitMask::AnySet => positions.any(is_set),
            BitMask::AnyClear => !positions.all(is_set),
        }
    }
}

fn position(index: usize, operand: RawBsonRef<'_>) -> Result<u32> {
    let name = index.to_string();
    let fail = |IntegerError(message)| {
        Error::bad_value(format!("Failed to parse bit position. {message}"))
    };
    let position = integer(&name, operand)
        .and_then(|number| number.non_negative(&name, operand))
        .map_err(fail)?;
    if position > i64::from(i32::MAX) {
        return Err(fail(IntegerError(format!(
            "Cannot represent {} in an int",
            element(&name, operand)
        ))));
    }
    Ok(position as u32)
}
