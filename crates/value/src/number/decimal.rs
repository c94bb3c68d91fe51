//! Decimal128 as MongoDB stores it: sign, 34-digit coefficient, exponent.
//!
//! BSON carries decimals in the BID encoding (IEEE 754-2008, binary integer
//! significand), libdecnumber works on the DPD one; this module converts between both
//! through the plain numbers and gives the arithmetic. Decimals are rare in documents,
//! so it aims at being exact and short, not fast.

use bson::Decimal128;
use dec::{Context, Rounding};
use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

/// The largest coefficient: 34 nines.
pub const COEFFICIENT_MAX: u128 = 10u128.pow(34) - 1;
/// The smallest exponent of a coefficient's last digit.
pub const EXPONENT_MIN: i32 = -6176;
/// The largest exponent of a coefficient's last digit.
pub const EXPONENT_MAX: i32 = 6111;

/// The digits a double keeps when MongoDB's arithmetic turns it into a decimal.
const DOUBLE_DIGITS: usize = 15;
/// The digits of a decimal's coefficient.
const DIGITS: usize = 34;

/// The wide type for functions that the fixed format does not offer (12 units of 3 digits).
type Wide = dec::Decimal<12>;

/// A decimal floating-point number: `± coefficient · 10^exponent`, an infinity, or NaN.
///
/// Equality and order are numeric through [`Decimal::compare`]; `1.10` and `1.1` are
/// different representations of one number, so there is deliberately no `PartialEq`.
#[derive(Debug, Clone, Copy)]
pub struct Decimal {
    kind: Kind,
    negative: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Finite { coefficient: u128, exponent: i32 },
    Infinity,
    NaN,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Parity {
    Even,
    Odd,
}

impl Default for Decimal {
    fn default() -> Self {
        Self::ZERO
    }
}

impl Decimal {
    /// Zero with exponent 0.
    pub const ZERO: Decimal = Decimal {
        kind: Kind::Finite {
            coefficient: 0,
            exponent: 0,
        },
        negative: false,
    };
    /// Not a number.
    pub const NAN: Decimal = Decimal {
        kind: Kind::NaN,
        negative: false,
    };
    /// Positive infinity.
    pub const INFINITY: Decimal = Decimal {
        kind: Kind::Infinity,
        negative: false,
    };
    /// Negative infinity.
    pub const NEGATIVE_INFINITY: Decimal = Decimal {
        kind: Kind::Infinity,
        negative: true,
    };

    /// `± coefficient · 10^exponent`, or `None` when it does not fit the format.
    pub fn from_parts(negative: bool, coefficient: u128, exponent: i32) -> Option<Self> {
        let fits =
            coefficient <= COEFFICIENT_MAX && (EXPONENT_MIN..=EXPONENT_MAX).contains(&exponent);
        fits.then_some(Decimal {
            kind: Kind::Finite {
                coefficient,
                exponent,
            },
            negative,
        })
    }

    /// A positive number whose parts are known to fit.
    pub(super) const fn constant(coefficient: u128, exponent: i32) -> Self {
        assert!(coefficient <= COEFFICIENT_MAX);
        assert!(EXPONENT_MIN <= exponent && exponent <= EXPONENT_MAX);
        Decimal {
            kind: Kind::Finite {
                coefficient,
                exponent,
            },
            negative: false,
        }
    }

    /// Reads the 16 bytes of BSON. A coefficient above 34 digits counts as zero, as IEEE 754 asks.
    pub fn from_bson(value: Decimal128) -> Self {
        let bits = u128::from_le_bytes(value.bytes());
        let negative = bits >> 127 == 1;
        let kind = match (bits >> 122) & 0x1F {
            0x1F => Kind::NaN,
            0x1E => Kind::Infinity,
            // Two leading ones of the combination field: an implied `100` precedes the
            // coefficient, which then always exceeds 34 digits.
            high if high >> 3 == 3 => Kind::Finite {
                coefficient: 0,
                exponent: ((bits >> 111) & 0x3FFF) as i32 + EXPONENT_MIN,
            },
            _ => {
                let coefficient = bits & ((1 << 113) - 1);
                let exponent = ((bits >> 113) & 0x3FFF) as i32 + EXPONENT_MIN;
                let canonical = if coefficient > COEFFICIENT_MAX {
                    0
                } else {
                    coefficient
                };
                Kind::Finite {
                    coefficient: canonical,
                    exponent,
                }
            }
        };
        Decimal { kind, negative }
    }

    /// The 16 bytes of BSON, canonical.
    pub fn to_bson(self) -> Decimal128 {
        let sign = u128::from(self.negative) << 127;
        let bits = match self.kind {
            Kind::NaN => 0x1F << 122,
            Kind::Infinity => sign | (0x1E << 122),
            Kind::Finite {
                coefficient,
                exponent,
            } => sign | (((exponent - EXPONENT_MIN) as u128) << 113) | coefficient,
        };
        Decimal128::from_bytes(bits.to_le_bytes())
    }

    /// An integer, exactly, with exponent 0.
    pub fn from_i64(value: i64) -> Self {
        let kind = Kind::Finite {
            coefficient: u128::from(value.unsigned_abs()),
            exponent: 0,
        };
        Decimal {
            kind,
            negative: value < 0,
        }
    }

    /// A double as MongoDB's decimal arithmetic sees it: rounded to 15 significant digits.
    pub fn from_f64(value: f64) -> Self {
        Self::from_f64_digits(value, DOUBLE_DIGITS)
    }

    /// A double rounded to 34 digits; exact when it has no more, without trailing zeros
    /// after the point.
    pub fn from_f64_exact(value: f64) -> Self {
        Self::from_f64_digits(value, DIGITS).trim_fraction()
    }

    fn from_f64_digits(value: f64, digits: usize) -> Self {
        if value.is_nan() {
            return Self::NAN;
        }
        if value.is_infinite() {
            return Decimal {
                kind: Kind::Infinity,
                negative: value < 0.0,
            };
        }
        if value == 0.0 {
            return Decimal {
                negative: value.is_sign_negative(),
                ..Self::ZERO
            };
        }
        format!("{:.*e}", digits - 1, value)
            .parse()
            .expect("a formatted double is a decimal")
    }

    /// Drops trailing zeros of the coefficient while the exponent is negative.
    pub(super) fn trim_fraction(self) -> Self {
        let Kind::Finite {
            mut coefficient,
            mut exponent,
        } = self.kind
        else {
            return self;
        };
        while exponent < 0 && coefficient.is_multiple_of(10) && coefficient != 0 {
            coefficient /= 10;
            exponent += 1;
        }
        while exponent > 0 && coefficient <= COEFFICIENT_MAX / 10 {
            coefficient *= 10;
            exponent -= 1;
        }
        Decimal {
            kind: Kind::Finite {
                coefficient,
                exponent,
            },
            ..self
        }
    }

    /// True for NaN.
    pub fn is_nan(self) -> bool {
        self.kind == Kind::NaN
    }

    /// True for either infinity.
    pub fn is_infinite(self) -> bool {
        self.kind == Kind::Infinity
    }

    /// True for a number that is neither NaN nor infinite.
    pub fn is_finite(self) -> bool {
        matches!(self.kind, Kind::Finite { .. })
    }

    /// True for zero of either sign and any exponent.
    pub fn is_zero(self) -> bool {
        matches!(self.kind, Kind::Finite { coefficient: 0, .. })
    }

    /// True when the sign bit is set (also for -0).
    pub fn is_negative(self) -> bool {
        self.negative
    }

    /// `(negative, coefficient, exponent)` of a finite number.
    pub fn parts(self) -> Option<(bool, u128, i32)> {
        match self.kind {
            Kind::Finite {
                coefficient,
                exponent,
            } => Some((self.negative, coefficient, exponent)),
            _ => None,
        }
    }

    /// `(coefficient, exponent)` of a finite number, the coefficient without trailing zeros.
    pub fn normalized(self) -> Option<(u128, i32)> {
        let (_, mut coefficient, mut exponent) = self.parts()?;
        if coefficient == 0 {
            return Some((0, 0));
        }
        while coefficient.is_multiple_of(10) {
            coefficient /= 10;
            exponent += 1;
        }
        Some((coefficient, exponent))
    }

    /// The nearest double.
    pub fn to_f64(self) -> f64 {
        let magnitude = match self.kind {
            Kind::NaN => return f64::NAN,
            Kind::Infinity => f64::INFINITY,
            Kind::Finite {
                coefficient,
                exponent,
            } => format!("{coefficient}e{exponent}")
                .parse()
                .expect("digits and an exponent"),
        };
        if self.negative { -magnitude } else { magnitude }
    }

    /// The integer it equals, if it is one that fits.
    pub fn to_i64_exact(self) -> Option<i64> {
        let (coefficient, exponent) = self.normalized()?;
        let scale = 10u128.checked_pow(u32::try_from(exponent).ok()?)?;
        let magnitude = i128::try_from(coefficient.checked_mul(scale)?).ok()?;
        i64::try_from(if self.negative { -magnitude } else { magnitude }).ok()
    }

    /// Rounded towards zero, if that fits.
    pub fn to_i64_truncated(self) -> Option<i64> {
        self.truncate(0).to_i64_exact()
    }

    /// Numeric order; NaN equals itself and is below everything.
    pub fn compare(self, other: Self) -> Ordering {
        match (self.is_nan(), other.is_nan()) {
            (true, true) => return Ordering::Equal,
            (true, false) => return Ordering::Less,
            (false, true) => return Ordering::Greater,
            (false, false) => {}
        }
        let sign = |d: Decimal| {
            if d.is_zero() {
                0
            } else if d.negative {
                -1
            } else {
                1
            }
        };
        match sign(self).cmp(&sign(other)) {
            Ordering::Equal if self.negative => other.compare_magnitude(self),
            Ordering::Equal => self.compare_magnitude(other),
            unequal => unequal,
        }
    }

    fn compare_magnitude(self, other: Self) -> Ordering {
        let Some(left) = self.scientific() else {
            return if other.is_infinite() {
                Ordering::Equal
            } else {
                Ordering::Greater
            };
        };
        let Some(right) = other.scientific() else {
            return Ordering::Less;
        };
        left.cmp(&right)
    }

    /// `(exponent of the first digit, coefficient scaled to 34 digits)`: ordered as the magnitude.
    fn scientific(self) -> Option<(i32, u128)> {
        let (_, coefficient, exponent) = self.parts()?;
        if coefficient == 0 {
            return Some((i32::MIN, 0));
        }
        let digits = coefficient.ilog10() as i32 + 1;
        Some((
            exponent + digits,
            coefficient * 10u128.pow((DIGITS as i32 - digits) as u32),
        ))
    }

    /// The sum, rounded half to even to 34 digits.
    #[allow(clippy::should_implement_trait)] // a family with `subtract`, `divide`, …
    pub fn add(self, other: Self) -> Self {
        self.binary(other, |context, a, b| context.add(a, b))
    }

    /// The difference.
    pub fn subtract(self, other: Self) -> Self {
        self.binary(other, |context, a, b| context.sub(a, b))
    }

    /// The product.
    pub fn multiply(self, other: Self) -> Self {
        self.binary(other, |context, a, b| context.mul(a, b))
    }

    /// The product plus a summand, rounded once.
    pub fn multiply_add(self, factor: Self, summand: Self) -> Self {
        let summand = summand.to_dec();
        self.binary(factor, |context, a, b| context.fma(a, b, summand))
    }

    /// The quotient; division by zero gives an infinity or NaN.
    pub fn divide(self, other: Self) -> Self {
        self.binary(other, |context, a, b| context.div(a, b))
    }

    /// The remainder of the division rounded towards zero, with the sign of `self`.
    pub fn remainder(self, other: Self) -> Self {
        let Some((_, coefficient, exponent)) = self.parts() else {
            return Self::NAN;
        };
        if other.is_infinite() {
            return self;
        }
        let Some((_, divisor, divisor_exponent)) = other.parts() else {
            return Self::NAN;
        };
        if divisor == 0 {
            return Self::NAN;
        }
        // libdecnumber refuses quotients above 34 digits, MongoDB's library does not.
        let least = exponent.min(divisor_exponent);
        let divisor_shift = divisor_exponent - least;
        let rest = match shifted(divisor, divisor_shift) {
            // The divisor is far above the dividend.
            None => return self,
            Some(modulus) => remainder_scaled(coefficient, (exponent - least) as u32, modulus),
        };
        Decimal {
            kind: Kind::Finite {
                coefficient: rest,
                exponent: least,
            },
            ..self
        }
    }

    /// The same magnitude with the other sign.
    pub fn negate(self) -> Self {
        Decimal {
            negative: !self.negative,
            ..self
        }
    }

    /// The magnitude.
    pub fn abs(self) -> Self {
        Decimal {
            negative: false,
            ..self
        }
    }

    /// Rounded half to even at `place` digits after the point (before it, when negative),
    /// with as many digits; with all 34 where those would be more.
    pub fn round(self, place: i32) -> Self {
        self.quantize(place, Rounding::HalfEven)
            .unwrap_or_else(|| self.with_all_digits())
    }

    /// As [`Decimal::round`], but towards zero.
    pub fn truncate(self, place: i32) -> Self {
        self.quantize(place, Rounding::Down)
            .unwrap_or_else(|| self.with_all_digits())
    }

    /// The largest integer not above it; NaN where that has more than 34 digits, as MongoDB
    /// answers.
    pub fn floor(self) -> Self {
        self.quantize(0, Rounding::Floor).unwrap_or(Self::NAN)
    }

    /// The smallest integer not below it; NaN where that has more than 34 digits, as MongoDB
    /// answers.
    pub fn ceiling(self) -> Self {
        self.quantize(0, Rounding::Ceiling).unwrap_or(Self::NAN)
    }

    /// With exactly `place` digits after the point, or `None` where that takes more than 34
    /// in all.
    fn quantize(self, place: i32, rounding: Rounding) -> Option<Self> {
        let (negative, coefficient, exponent) = match self.kind {
            Kind::NaN => return Some(self),
            _ => self.parts()?,
        };
        let dropped = -place - exponent;
        let whole = if dropped > 0 {
            rounded(coefficient, dropped as u32, negative, rounding)
        } else if coefficient == 0 {
            0
        } else {
            shifted(coefficient, -dropped)?
        };
        Self::from_parts(negative, whole, -place)
    }

    /// With zeros after the last digit up to all 34, as MongoDB gives powers; zero with the
    /// least exponent, and positive.
    pub fn with_all_digits(self) -> Self {
        self.add(Self::constant(0, EXPONENT_MIN))
    }

    /// The square root.
    pub fn sqrt(self) -> Self {
        self.wide(|context, value| context.sqrt(value))
    }

    /// This number to the power of `exponent`, with all 34 digits. As in C, NaN to the power
    /// of 0 is 1, and so is 1 to the power of NaN.
    pub fn pow(self, exponent: Self) -> Self {
        let one = Self::constant(1, 0);
        let is_one = |value: Self| value.compare(one) == Ordering::Equal;
        let parity = exponent.parity();
        let is_real = parity.is_some() || !self.negative || self.is_zero();
        let power =
            if exponent.is_zero() || is_one(self) || (is_one(self.abs()) && exponent.is_infinite())
            {
                one
            } else if self.is_finite() && exponent.is_finite() && !is_real {
                Self::NAN
            } else {
                let exponent = Wide::from(exponent.to_dec());
                let magnitude = self.abs();
                magnitude.wide(|context, value| context.pow(value, &exponent))
            };
        let odd = self.negative && parity == Some(Parity::Odd);
        let power = if odd { power.negate() } else { power };
        power.with_all_digits()
    }

    /// Of an integer.
    fn parity(self) -> Option<Parity> {
        let (coefficient, exponent) = self.normalized()?;
        match exponent {
            ..0 => None,
            0 if coefficient % 2 == 1 => Some(Parity::Odd),
            _ => Some(Parity::Even),
        }
    }

    fn binary(
        self,
        other: Self,
        operation: impl FnOnce(
            &mut Context<dec::Decimal128>,
            dec::Decimal128,
            dec::Decimal128,
        ) -> dec::Decimal128,
    ) -> Self {
        let mut context = Context::<dec::Decimal128>::default();
        Self::from_dec(operation(&mut context, self.to_dec(), other.to_dec()))
    }

    fn wide(self, operation: impl FnOnce(&mut Context<Wide>, &mut Wide)) -> Self {
        let mut context = Context::<Wide>::default();
        context
            .set_precision(DIGITS)
            .expect("34 digits fit 12 units");
        context.set_rounding(Rounding::HalfEven);
        // decNumber computes exp, ln, log10 and power only below these exponents, and
        // answers NaN otherwise.
        context
            .set_max_exponent(999_999)
            .and_then(|()| context.set_min_exponent(-999_999))
            .expect("exponents that decNumber allows");
        let mut value = Wide::from(self.to_dec());
        operation(&mut context, &mut value);
        Self::from_dec(value.to_decimal128())
    }

    fn to_dec(self) -> dec::Decimal128 {
        let mut context = Context::<dec::Decimal128>::default();
        let magnitude = match self.kind {
            Kind::NaN => dec::Decimal128::NAN,
            Kind::Infinity => context.div(dec::Decimal128::ONE, dec::Decimal128::ZERO),
            Kind::Finite {
                coefficient,
                exponent,
            } => {
                let mut value = context.from_u128(coefficient);
                context.set_exponent(&mut value, exponent);
                value
            }
        };
        if !self.negative || self.is_nan() {
            return magnitude;
        }
        // `minus` would turn 0 into +0; the sign is the top bit of the big-endian form.
        let mut bytes = magnitude.to_be_bytes();
        bytes[0] |= 0x80;
        dec::Decimal128::from_be_bytes(bytes)
    }

    fn from_dec(value: dec::Decimal128) -> Self {
        let negative = value.is_signed();
        let kind = if value.is_nan() {
            return Self::NAN;
        } else if value.is_infinite() {
            Kind::Infinity
        } else {
            let digits = value.coefficient_digits();
            let coefficient = digits
                .iter()
                .fold(0u128, |sum, digit| sum * 10 + u128::from(*digit));
            Kind::Finite {
                coefficient,
                exponent: value.exponent(),
            }
        };
        Decimal { kind, negative }
    }
}

/// A coefficient without so many of its last digits.
fn rounded(coefficient: u128, dropped: u32, negative: bool, rounding: Rounding) -> u128 {
    let Some(unit) = 10u128.checked_pow(dropped) else {
        let away = match rounding {
            Rounding::Floor => negative,
            Rounding::Ceiling => !negative,
            _ => false,
        };
        return u128::from(away && coefficient != 0);
    };
    let (whole, rest) = (coefficient / unit, coefficient % unit);
    let away = match rounding {
        Rounding::Floor => negative && rest != 0,
        Rounding::Ceiling => !negative && rest != 0,
        Rounding::HalfEven => match rest.cmp(&(unit / 2)) {
            Ordering::Equal => whole % 2 == 1,
            unequal => unequal == Ordering::Greater,
        },
        _ => false,
    };
    whole + u128::from(away)
}

/// `coefficient · 10^shift` if it fits 128 bits.
fn shifted(coefficient: u128, shift: i32) -> Option<u128> {
    10u128.checked_pow(shift as u32)?.checked_mul(coefficient)
}

/// `coefficient · 10^shift mod modulus`, one digit at a time (`modulus` < 2^124, so that
/// ten times a remainder fits).
fn remainder_scaled(coefficient: u128, shift: u32, modulus: u128) -> u128 {
    let mut rest = coefficient % modulus;
    for _ in 0..shift {
        if rest == 0 {
            break;
        }
        rest = times_ten(rest, modulus);
    }
    rest
}

/// `value · 10 mod modulus` by doubling, for moduli that leave no room for the product.
fn times_ten(value: u128, modulus: u128) -> u128 {
    let add = |a: u128, b: u128| {
        if a >= modulus - b {
            a - (modulus - b)
        } else {
            a + b
        }
    };
    let double = add(value, value);
    let eight = {
        let four = add(double, double);
        add(four, four)
    };
    add(eight, double)
}

impl fmt::Display for Decimal {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.to_bson().fmt(formatter)
    }
}

/// The text is not a decimal number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a decimal number")]
pub struct ParseDecimalError;

impl FromStr for Decimal {
    type Err = ParseDecimalError;

    /// Parses digits, a point and an exponent, or a name of infinity or NaN; more than 34
    /// digits are rounded half to even.
    fn from_str(text: &str) -> Result<Self, ParseDecimalError> {
        let mut context = Context::<dec::Decimal128>::default();
        context
            .parse(text)
            .map(Self::from_dec)
            .map_err(|_| ParseDecimalError)
    }
}
