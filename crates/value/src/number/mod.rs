//! Numbers and MongoDB's arithmetic on them.
//!
//! A [`Number`] is one of BSON's four numeric types. Operations promote as MongoDB's
//! expressions do: int32 to int64 to double when a result does not fit, double with
//! anything gives double, decimal with anything gives decimal.

mod binary;
mod decimal;
pub(crate) mod exact;
mod transcendental;

pub use decimal::{COEFFICIENT_MAX, Decimal, EXPONENT_MAX, EXPONENT_MIN, ParseDecimalError};

use bson::{Bson, RawBsonRef};
use std::cmp::Ordering;

/// A BSON number.
#[derive(Debug, Clone, Copy)]
pub enum Number {
    /// 32-bit integer.
    Int32(i32),
    /// 64-bit integer.
    Int64(i64),
    /// Binary floating point.
    Double(f64),
    /// Decimal floating point.
    Decimal(Decimal),
}

use Number::{Double, Int32, Int64};

impl Number {
    /// The number, or `None` for a value of another type.
    pub fn from_raw(value: RawBsonRef<'_>) -> Option<Self> {
        Some(match value {
            RawBsonRef::Int32(value) => Int32(value),
            RawBsonRef::Int64(value) => Int64(value),
            RawBsonRef::Double(value) => Double(value),
            RawBsonRef::Decimal128(value) => Number::Decimal(Decimal::from_bson(value)),
            _ => return None,
        })
    }

    /// The number, or `None` for a value of another type.
    pub fn from_bson(value: &Bson) -> Option<Self> {
        Some(match value {
            Bson::Int32(value) => Int32(*value),
            Bson::Int64(value) => Int64(*value),
            Bson::Double(value) => Double(*value),
            Bson::Decimal128(value) => Number::Decimal(Decimal::from_bson(*value)),
            _ => return None,
        })
    }

    /// The BSON value of the same type.
    pub fn to_bson(self) -> Bson {
        match self {
            Int32(value) => Bson::Int32(value),
            Int64(value) => Bson::Int64(value),
            Double(value) => Bson::Double(value),
            Number::Decimal(value) => Bson::Decimal128(value.to_bson()),
        }
    }

    /// The nearest double.
    pub fn to_f64(self) -> f64 {
        match self {
            Int32(value) => f64::from(value),
            Int64(value) => value as f64,
            Double(value) => value,
            Number::Decimal(value) => value.to_f64(),
        }
    }

    /// The decimal that MongoDB's arithmetic uses: doubles are rounded to 15 digits.
    pub fn to_decimal(self) -> Decimal {
        match self {
            Int32(value) => Decimal::from_i64(i64::from(value)),
            Int64(value) => Decimal::from_i64(value),
            Double(value) => Decimal::from_f64(value),
            Number::Decimal(value) => value,
        }
    }

    /// The integer it equals, if it is one that fits.
    pub fn to_i64_exact(self) -> Option<i64> {
        match self {
            Int32(value) => Some(i64::from(value)),
            Int64(value) => Some(value),
            Double(value) => double_to_i64(value).filter(|whole| *whole as f64 == value),
            Number::Decimal(value) => value.to_i64_exact(),
        }
    }

    /// Rounded towards zero, or `None` when it is NaN or does not fit.
    pub fn to_i64_truncated(self) -> Option<i64> {
        match self {
            Int32(value) => Some(i64::from(value)),
            Int64(value) => Some(value),
            Double(value) => double_to_i64(value),
            Number::Decimal(value) => value.to_i64_truncated(),
        }
    }

    /// As [`Self::to_i64_truncated`], but decimals are rounded half to even.
    pub fn to_i64_rounded(self) -> Option<i64> {
        match self {
            Number::Decimal(value) => value.round(0).to_i64_exact(),
            other => other.to_i64_truncated(),
        }
    }

    /// True for int32 and int64.
    pub fn is_integer_type(self) -> bool {
        matches!(self, Int32(_) | Int64(_))
    }

    /// True for NaN of either kind.
    pub fn is_nan(self) -> bool {
        match self {
            Double(value) => value.is_nan(),
            Number::Decimal(value) => value.is_nan(),
            _ => false,
        }
    }

    /// True for an infinity of either kind.
    pub fn is_infinite(self) -> bool {
        match self {
            Double(value) => value.is_infinite(),
            Number::Decimal(value) => value.is_infinite(),
            _ => false,
        }
    }

    /// True for zero of any type and sign.
    pub fn is_zero(self) -> bool {
        match self {
            Int32(value) => value == 0,
            Int64(value) => value == 0,
            Double(value) => value == 0.0,
            Number::Decimal(value) => value.is_zero(),
        }
    }

    /// True below zero.
    pub fn is_negative(self) -> bool {
        self.compare(Int32(0)) == Ordering::Less && !self.is_nan()
    }

    /// The sum, promoted so that integers never wrap: past int64 it is a double.
    #[allow(clippy::should_implement_trait)] // a family with `subtract`, `divide`, …
    pub fn add(self, other: Self) -> Self {
        self.checked_add(other)
            .unwrap_or_else(|| Double(self.to_f64() + other.to_f64()))
    }

    /// The difference, promoted like [`Number::add`].
    pub fn subtract(self, other: Self) -> Self {
        match self.pair(other) {
            Pair::Int32(a, b) => widen(i64::from(a) - i64::from(b)),
            Pair::Int64(a, b) => a.checked_sub(b).map_or(Double(a as f64 - b as f64), Int64),
            Pair::Double(a, b) => Double(a - b),
            Pair::Decimal(a, b) => Number::Decimal(a.subtract(b)),
        }
    }

    /// The product, promoted like [`Number::add`].
    pub fn multiply(self, other: Self) -> Self {
        self.checked_multiply(other)
            .unwrap_or_else(|| Double(self.to_f64() * other.to_f64()))
    }

    /// The sum as `$inc` needs it: `None` when two integers overflow int64.
    pub fn checked_add(self, other: Self) -> Option<Self> {
        Some(match self.pair(other) {
            Pair::Int32(a, b) => widen(i64::from(a) + i64::from(b)),
            Pair::Int64(a, b) => Int64(a.checked_add(b)?),
            Pair::Double(a, b) => Double(a + b),
            Pair::Decimal(a, b) => Number::Decimal(a.add(b)),
        })
    }

    /// The product as `$mul` needs it: `None` when two integers overflow int64.
    pub fn checked_multiply(self, other: Self) -> Option<Self> {
        Some(match self.pair(other) {
            Pair::Int32(a, b) => widen(i64::from(a) * i64::from(b)),
            Pair::Int64(a, b) => Int64(a.checked_mul(b)?),
            Pair::Double(a, b) => Double(a * b),
            Pair::Decimal(a, b) => Number::Decimal(a.multiply(b)),
        })
    }

    /// The quotient as `$divide` gives it: a double, or a decimal when either side is one;
    /// `None` for a zero divisor.
    pub fn divide(self, other: Self) -> Option<Self> {
        if other.is_zero() {
            return None;
        }
        Some(match self.pair(other) {
            Pair::Decimal(a, b) => Number::Decimal(a.divide(b)),
            _ => Double(self.to_f64() / other.to_f64()),
        })
    }

    /// The remainder as `$mod` gives it, with the sign of the dividend; `None` for a zero divisor.
    pub fn remainder(self, other: Self) -> Option<Self> {
        if other.is_zero() {
            return None;
        }
        // The shell used to send every integer as a double, so MongoDB takes a divisor that
        // is a whole int32 for one and leaves an integer dividend's type alone.
        let divisor = match (self, other) {
            (Int32(_) | Int64(_), Double(b)) if f64::from(b as i32) == b => Int32(b as i32),
            _ => other,
        };
        Some(match self.pair(divisor) {
            Pair::Int32(a, b) => Int32(a.wrapping_rem(b)),
            Pair::Int64(a, b) => Int64(a.wrapping_rem(b)),
            Pair::Double(a, b) => Double(a % b),
            Pair::Decimal(a, b) => Number::Decimal(a.remainder(b)),
        })
    }

    /// The exact numeric order across all types; NaN equals NaN and is below everything.
    pub fn compare(self, other: Self) -> Ordering {
        match (self, other) {
            (Number::Decimal(a), Number::Decimal(b)) => a.compare(b),
            (Number::Decimal(a), Double(b)) => compare_decimal_double(a, b),
            (Double(a), Number::Decimal(b)) => compare_decimal_double(b, a).reverse(),
            (Number::Decimal(a), _) => a.compare(other.to_decimal()),
            (_, Number::Decimal(b)) => self.to_decimal().compare(b),
            (Double(a), Double(b)) => compare_doubles(a, b),
            (Double(a), Int32(b)) => compare_doubles(a, f64::from(b)),
            (Int32(a), Double(b)) => compare_doubles(f64::from(a), b),
            (Double(a), Int64(b)) => compare_integer_double(b, a).reverse(),
            (Int64(a), Double(b)) => compare_integer_double(a, b),
            (Int32(a), Int32(b)) => a.cmp(&b),
            (Int32(a), Int64(b)) => i64::from(a).cmp(&b),
            (Int64(a), Int32(b)) => a.cmp(&i64::from(b)),
            (Int64(a), Int64(b)) => a.cmp(&b),
        }
    }

    /// Both numbers in the wider of their types.
    fn pair(self, other: Self) -> Pair {
        match (self, other) {
            (Number::Decimal(_), _) | (_, Number::Decimal(_)) => {
                Pair::Decimal(self.to_decimal(), other.to_decimal())
            }
            (Double(_), _) | (_, Double(_)) => Pair::Double(self.to_f64(), other.to_f64()),
            (Int32(a), Int32(b)) => Pair::Int32(a, b),
            (Int32(a), Int64(b)) => Pair::Int64(i64::from(a), b),
            (Int64(a), Int32(b)) => Pair::Int64(a, i64::from(b)),
            (Int64(a), Int64(b)) => Pair::Int64(a, b),
        }
    }
}

enum Pair {
    Int32(i32, i32),
    Int64(i64, i64),
    Double(f64, f64),
    Decimal(Decimal, Decimal),
}

/// The result of int32 arithmetic: int32 if it fits, int64 otherwise.
fn widen(value: i64) -> Number {
    i32::try_from(value).map_or(Int64(value), Int32)
}

/// Truncates, or `None` outside of int64 and for NaN.
fn double_to_i64(value: f64) -> Option<i64> {
    const LIMIT: f64 = 9_223_372_036_854_775_808.0; // 2^63
    (-LIMIT..LIMIT).contains(&value).then_some(value as i64)
}

/// Numeric order of doubles; NaN equals NaN and is below everything.
pub fn compare_doubles(a: f64, b: f64) -> Ordering {
    a.partial_cmp(&b)
        .unwrap_or_else(|| b.is_nan().cmp(&a.is_nan()))
}

fn compare_integer_double(integer: i64, double: f64) -> Ordering {
    if double.is_nan() {
        return Ordering::Greater;
    }
    match double_to_i64(double) {
        // Equal whole parts: what is left of the double decides.
        Some(whole) => integer
            .cmp(&whole)
            .then_with(|| compare_doubles(0.0, double.fract())),
        None => compare_doubles(0.0, double),
    }
}

fn compare_decimal_double(decimal: Decimal, double: f64) -> Ordering {
    match (decimal.is_nan(), double.is_nan()) {
        (true, true) => return Ordering::Equal,
        (true, false) => return Ordering::Less,
        (false, true) => return Ordering::Greater,
        (false, false) => {}
    }
    if decimal.is_infinite() || decimal.is_zero() {
        return compare_doubles(decimal.to_f64(), double);
    }
    if decimal.is_negative() {
        return compare_decimal_double(decimal.negate(), -double).reverse();
    }
    // The greatest double not above the decimal orders it among all doubles.
    let (below, inexact) = exact::truncate_to_double(decimal);
    compare_doubles(below, double).then(inexact.cmp(&false))
}

#[cfg(test)]
mod tests;
