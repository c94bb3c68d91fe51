//! IEEE 754 binary128, in which MongoDB's decimal library computes transcendental functions.
//!
//! Decimals come in, each operation rounds its exact result to 113 bits, and decimals go
//! out, rounded to 34 digits. The functions come from an arbitrary-precision library, with
//! enough bits that the rounding is the correct one. There is no infinity: callers stay
//! within binary128's range.

use super::decimal::{COEFFICIENT_MAX, Decimal};
use astro_float_num::{BigFloat, Consts, RoundingMode, Sign, Word};
use std::cell::RefCell;
use std::cmp::Ordering;

/// The bits of binary128's significand.
const SIGNIFICAND_BITS: usize = 113;
/// The least power of two that binary128 represents: its subnormal numbers are multiples of it.
const POWER_MIN: i32 = -16_494;
/// The bits of intermediate results. Two times 113 would do for one operation; `ln(1 + y)`
/// and exact sums of numbers far apart need more.
const WIDE_BITS: usize = 512;
/// The bits of one decimal digit, rounded up.
const DIGIT_BITS: f64 = 3.322;

/// A function of the arbitrary-precision library.
pub(super) type Function = fn(&BigFloat, usize, RoundingMode, &mut Consts) -> BigFloat;

thread_local! {
    /// The library's pi and logarithms, to as many bits as were needed so far.
    static CONSTANTS: RefCell<Consts> =
        RefCell::new(Consts::new().expect("a few words of memory"));
}

/// A finite number of at most 113 significant bits.
#[derive(Clone)]
pub(super) struct Binary(BigFloat);

#[derive(Clone, Copy, PartialEq)]
enum Direction {
    /// Halves to even.
    Nearest,
    /// Halves away from zero, as Intel's sums of binary128 are rounded.
    HalfAway,
    TowardsZero,
}

impl Binary {
    /// The nearest to a finite decimal; far below binary128's range that is zero.
    pub fn nearest(value: Decimal) -> Self {
        Self::rounded(&wide(value, WIDE_BITS))
    }

    /// A finite decimal as the sum of two: itself rounded towards zero, and the rest.
    pub fn high_and_low(value: Decimal) -> (Self, Self) {
        let exact = wide(value, WIDE_BITS);
        let high = round(&exact, Direction::TowardsZero);
        let low = exact.sub(&high, WIDE_BITS, RoundingMode::None);
        (Binary(high), Self::rounded(&low))
    }

    /// A small number of which binary128 represents each.
    pub fn from_f64(value: f64) -> Self {
        Binary(BigFloat::from_f64(value, WIDE_BITS))
    }

    /// The nearest to pi.
    pub fn pi() -> Self {
        Self::computed(|constants| constants.pi(WIDE_BITS, RoundingMode::None))
    }

    /// The nearest to the natural logarithm of 10 times a factor.
    pub fn ln_10(factor: i32) -> Self {
        let ln_10 = computed(|constants| constants.ln_10(WIDE_BITS, RoundingMode::None));
        let factor = BigFloat::from_i32(factor, WIDE_BITS);
        Self::rounded(&ln_10.mul(&factor, WIDE_BITS, RoundingMode::None))
    }

    /// The nearest to the reciprocal of the natural logarithm of 2 or 10.
    pub fn reciprocal_ln(base: u32) -> Self {
        let base = BigFloat::from_u32(base, WIDE_BITS);
        let ln = computed(|constants| base.ln(WIDE_BITS, RoundingMode::None, constants));
        Self::rounded(&ln.reciprocal(WIDE_BITS, RoundingMode::None))
    }

    /// The nearest to the logarithm of 10 to base 2, times a factor.
    pub fn log2_10(factor: i32) -> Self {
        let ten = BigFloat::from_u32(10, WIDE_BITS);
        let log = computed(|constants| ten.log2(WIDE_BITS, RoundingMode::None, constants));
        let factor = BigFloat::from_i32(factor, WIDE_BITS);
        Self::rounded(&log.mul(&factor, WIDE_BITS, RoundingMode::None))
    }

    fn computed(compute: impl FnOnce(&mut Consts) -> BigFloat) -> Self {
        Self::rounded(&computed(compute))
    }

    fn rounded(value: &BigFloat) -> Self {
        Binary(round(value, Direction::Nearest))
    }

    /// A function of this number.
    pub fn apply(&self, function: Function) -> Self {
        Self::computed(|constants| function(&self.0, WIDE_BITS, RoundingMode::None, constants))
    }

    /// `ln(1 + self)`.
    pub fn ln_1p(&self) -> Self {
        let one = BigFloat::from_i32(1, WIDE_BITS);
        let sum = self.0.add(&one, WIDE_BITS, RoundingMode::None);
        Self::computed(|constants| sum.ln(WIDE_BITS, RoundingMode::None, constants))
    }

    /// The square root.
    pub fn sqrt(&self) -> Self {
        Self::rounded(&self.0.sqrt(WIDE_BITS, RoundingMode::None))
    }

    /// The sum.
    pub fn add(&self, other: &Self) -> Self {
        let sum = self.0.add(&other.0, WIDE_BITS, RoundingMode::None);
        Binary(round(&sum, Direction::HalfAway))
    }

    /// The difference.
    pub fn subtract(&self, other: &Self) -> Self {
        self.add(&other.negate())
    }

    /// The product.
    pub fn multiply(&self, other: &Self) -> Self {
        Self::rounded(&self.0.mul(&other.0, WIDE_BITS, RoundingMode::None))
    }

    /// The quotient.
    pub fn divide(&self, other: &Self) -> Self {
        Self::rounded(&self.0.div(&other.0, WIDE_BITS, RoundingMode::None))
    }

    /// The same magnitude with the other sign.
    pub fn negate(&self) -> Self {
        Binary(self.0.neg())
    }

    /// The magnitude.
    pub fn abs(&self) -> Self {
        Binary(self.0.abs())
    }

    /// True below zero.
    pub fn is_negative(&self) -> bool {
        self.0.is_negative() && !self.0.is_zero()
    }

    /// Numeric order with a number that binary128 represents.
    pub fn compare(&self, other: f64) -> Ordering {
        let other = BigFloat::from_f64(other, WIDE_BITS);
        self.0.cmp(&other).expect("finite numbers").cmp(&0)
    }

    /// The nearest decimal of 34 digits; without trailing zeros after the point when it is
    /// this very number.
    pub fn to_decimal(&self) -> Decimal {
        let Some(exponent) = self.0.exponent().filter(|_| !self.0.is_zero()) else {
            return Decimal::ZERO;
        };
        // Of the decimal's first digit: right, or one too low.
        let first = (f64::from(exponent - 1) * std::f64::consts::LOG10_2).floor() as i32;
        let magnitude = self.0.abs();
        let (coefficient, exact, last) = [first - 33, first - 32]
            .into_iter()
            .map(|last| (whole(&scaled(&magnitude, -last)), last))
            .map(|((coefficient, exact), last)| (coefficient, exact, last))
            .find(|(coefficient, ..)| *coefficient <= COEFFICIENT_MAX)
            .expect("one of them has at most 34 digits");
        let value = Decimal::from_parts(self.is_negative(), coefficient, last)
            .expect("binary128's range is within the decimals'");
        if exact { value.trim_fraction() } else { value }
    }
}

/// What the library computes with its constants.
fn computed(compute: impl FnOnce(&mut Consts) -> BigFloat) -> BigFloat {
    CONSTANTS.with_borrow_mut(compute)
}

/// An angle in quarter turns: how many (modulo 4), and the rest in radians, of at most an
/// eighth of a turn.
pub(super) fn quarter_turns(angle: Decimal) -> (u8, Binary) {
    let (_, _, exponent) = angle.parts().expect("a finite angle");
    // The bits before the point are lost in the reduction, so there have to be more.
    let lost = f64::from(exponent.max(0)) * DIGIT_BITS;
    let bits = WIDE_BITS + lost as usize;
    let pi = computed(|constants| constants.pi(bits, RoundingMode::None));
    let two = BigFloat::from_i32(2, WIDE_BITS);
    let quarters = wide(angle.abs(), bits)
        .mul(&two, bits, RoundingMode::None)
        .div(&pi, bits, RoundingMode::None);
    let mut rest = quarters.fract();
    rest.set_precision(WIDE_BITS, RoundingMode::None)
        .expect("a few words of memory");
    let mut count = quarter_count(&quarters);
    let mut negative = angle.is_negative();
    if rest.cmp(&BigFloat::from_f64(0.5, WIDE_BITS)) >= Some(0) {
        count = (count + 1) % 4;
        rest = BigFloat::from_i32(1, WIDE_BITS).sub(&rest, WIDE_BITS, RoundingMode::None);
        negative = !negative;
    }
    if angle.is_negative() {
        count = (4 - count) % 4;
    }
    let truncated = Binary(round(&rest, Direction::TowardsZero));
    let half = Binary::from_f64(0.5);
    let radians = Binary::pi().multiply(&half).multiply(&truncated);
    let radians = if negative { radians.negate() } else { radians };
    (count, radians)
}

/// The integer part modulo 4.
fn quarter_count(quarters: &BigFloat) -> u8 {
    let four = BigFloat::from_i32(4, WIDE_BITS);
    let count = quarters.int().rem(&four);
    (1..4)
        .rev()
        .find(|least| count.cmp(&BigFloat::from_u8(*least, WIDE_BITS)) >= Some(0))
        .unwrap_or(0)
}

/// A finite decimal with so many bits; exact where they suffice.
fn wide(value: Decimal, bits: usize) -> BigFloat {
    let (negative, coefficient, exponent) = value.parts().expect("a finite decimal");
    let magnitude = scaled_to(&BigFloat::from_u128(coefficient, bits), exponent, bits);
    if negative { magnitude.neg() } else { magnitude }
}

/// `value · 10^power`.
fn scaled(value: &BigFloat, power: i32) -> BigFloat {
    scaled_to(value, power, WIDE_BITS)
}

fn scaled_to(value: &BigFloat, power: i32, bits: usize) -> BigFloat {
    let ten = BigFloat::from_u32(10, bits);
    let factor = ten.powi(power.unsigned_abs() as usize, bits, RoundingMode::ToEven);
    if power < 0 {
        value.div(&factor, bits, RoundingMode::None)
    } else {
        value.mul(&factor, bits, RoundingMode::None)
    }
}

/// The leading 128 bits of the significand, and whether a bit after them is set.
fn leading(value: &BigFloat) -> (u128, bool) {
    let words = value.mantissa_digits().expect("a finite number");
    let bits = words.iter().rev().chain(std::iter::repeat(&0));
    let count = 128 / Word::BITS as usize;
    let lead = bits
        .take(count)
        .fold(0u128, |lead, word| lead << Word::BITS | u128::from(*word));
    let rest = words.iter().rev().skip(count).any(|word| *word != 0);
    (lead, rest)
}

/// The first bits of `lead`, rounded, and whether nothing was lost.
fn first_bits(lead: u128, sticky: bool, bits: u32, direction: Direction) -> (u128, bool) {
    let dropped = 128 - bits;
    let (kept, rest) = match bits {
        0 => (0, lead),
        128 => (lead, 0),
        _ => (lead >> dropped, lead << bits >> bits),
    };
    let half = if dropped == 0 { 0 } else { 1 << (dropped - 1) };
    let up = match rest.cmp(&half) {
        _ if direction == Direction::TowardsZero || dropped == 0 => false,
        Ordering::Equal => sticky || kept % 2 == 1 || direction == Direction::HalfAway,
        unequal => unequal == Ordering::Greater,
    };
    (kept + u128::from(up), rest == 0 && !sticky)
}

/// The nearest integer of a number below 2^127, and whether it is that integer.
fn whole(value: &BigFloat) -> (u128, bool) {
    let (lead, sticky) = leading(value);
    let bits = value.exponent().expect("a finite number").clamp(0, 127);
    first_bits(lead, sticky, bits as u32, Direction::Nearest)
}

/// Rounds to 113 bits, or to fewer for a subnormal number.
fn round(value: &BigFloat, direction: Direction) -> BigFloat {
    let (Some(exponent), Some(sign)) = (value.exponent(), value.sign()) else {
        unreachable!("a finite number");
    };
    let bits = (exponent - POWER_MIN).clamp(-1, SIGNIFICAND_BITS as i32);
    if value.is_zero() || bits < 0 {
        return BigFloat::new(WIDE_BITS);
    }
    let (lead, sticky) = leading(value);
    let (significand, _) = first_bits(lead, sticky, bits as u32, direction);
    let mut rounded = BigFloat::from_u128(significand, WIDE_BITS);
    if significand != 0 {
        let own = rounded.exponent().expect("a finite number");
        rounded.set_exponent(own + exponent - bits);
    }
    if sign == Sign::Neg {
        rounded.neg()
    } else {
        rounded
    }
}
