//! Exact comparison of a double with a decimal, through whole numbers of any size.
//!
//! Only mixed comparisons with decimals come here: neither binary nor decimal floating
//! point contains the other, and MongoDB orders all numbers by their exact values.

use super::decimal::Decimal;
use std::cmp::Ordering;

/// The largest double that is not above the magnitude of a finite `decimal`, and whether
/// the magnitude is strictly above it.
pub(crate) fn truncate_to_double(decimal: Decimal) -> (f64, bool) {
    let decimal = decimal.abs();
    let nearest = decimal.to_f64();
    if nearest.is_infinite() {
        return (f64::MAX, true);
    }
    match compare_magnitudes(nearest, decimal) {
        Ordering::Equal => (nearest, false),
        Ordering::Less => (nearest, true),
        Ordering::Greater => (nearest.next_down(), true),
    }
}

/// Compares a finite non-negative double with a finite non-negative decimal.
fn compare_magnitudes(double: f64, decimal: Decimal) -> Ordering {
    let (coefficient, exponent) = decimal
        .normalized()
        .expect("the caller passes finite decimals");
    if double == 0.0 || coefficient == 0 {
        return (double != 0.0).cmp(&(coefficient != 0));
    }
    let (mantissa, power) = split(double);
    let mut left = Natural::from(u128::from(mantissa));
    let mut right = Natural::from(coefficient);
    if power >= 0 {
        left.shift_left(power as u32)
    } else {
        right.shift_left(power.unsigned_abs())
    }
    // Both sides are within a factor of two of each other or zero, so the exponent is small.
    let ten_side = if exponent >= 0 { &mut right } else { &mut left };
    ten_side.multiply_power_of_ten(exponent.unsigned_abs());
    left.compare(&right)
}

/// `(mantissa, power)` with `double == mantissa · 2^power`.
fn split(double: f64) -> (u64, i32) {
    let bits = double.to_bits();
    let exponent = ((bits >> 52) & 0x7FF) as i32;
    let fraction = bits & ((1 << 52) - 1);
    if exponent == 0 {
        (fraction, -1074)
    } else {
        (fraction | (1 << 52), exponent - 1075)
    }
}

/// A whole number of any size, least significant limb first, no zero limbs at the top.
struct Natural(Vec<u32>);

impl Natural {
    fn shift_left(&mut self, bits: u32) {
        self.multiply(1 << (bits % 32));
        self.0
            .splice(0..0, std::iter::repeat_n(0, (bits / 32) as usize));
    }

    fn multiply_power_of_ten(&mut self, power: u32) {
        for _ in 0..power / 9 {
            self.multiply(1_000_000_000);
        }
        self.multiply(10u32.pow(power % 9));
    }

    fn multiply(&mut self, factor: u32) {
        let mut carry = 0u64;
        for limb in &mut self.0 {
            carry += u64::from(*limb) * u64::from(factor);
            *limb = carry as u32;
            carry >>= 32;
        }
        if carry != 0 {
            self.0.push(carry as u32);
        }
    }

    fn compare(&self, other: &Self) -> Ordering {
        let by_length = self.0.len().cmp(&other.0.len());
        by_length.then_with(|| self.0.iter().rev().cmp(other.0.iter().rev()))
    }
}

impl From<u128> for Natural {
    fn from(value: u128) -> Self {
        let mut limbs: Vec<u32> = (0..4).map(|limb| (value >> (32 * limb)) as u32).collect();
        while limbs.last() == Some(&0) {
            limbs.pop();
        }
        Natural(limbs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn truncated(text: &str) -> (f64, bool) {
        truncate_to_double(text.parse().unwrap())
    }

    #[test]
    fn truncation_goes_to_the_double_below() {
        assert_eq!(truncated("0.5"), (0.5, false));
        assert_eq!(truncated("0.1"), (0.1f64.next_down(), true));
        assert_eq!(truncated("0.3"), (0.3, true));
        assert_eq!(truncated("9007199254740993"), (9007199254740992.0, true));
        assert_eq!(truncated("1E400"), (f64::MAX, true));
        assert_eq!(truncated("1E-400"), (0.0, true));
        assert_eq!(truncated("1E-6176"), (0.0, true));
        assert_eq!(truncated("4.940656458412465441765687928682213E-324").0, 0.0);
        assert_eq!(
            truncated("4.940656458412465441765687928682214E-324"),
            (5e-324, true)
        );
        assert_eq!(
            truncated("1797693134862315708145274237317043E+275").0,
            f64::MAX.next_down()
        );
        assert_eq!(
            truncated("1797693134862315708145274237317044E+275"),
            (f64::MAX, true)
        );
    }
}
