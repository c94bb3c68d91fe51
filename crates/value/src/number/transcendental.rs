//! Transcendental functions of decimals, to the last digit as MongoDB 6.0.5 gives them.
//!
//! MongoDB's library (Intel's) computes most of them in binary128 and some steps in
//! decimal, and what that loses shows in the last of the 34 digits. So each function here
//! takes the same steps, with the same thresholds between them. The few arguments for which
//! a binary128 function of Intel's is not correctly rounded give another last digit here
//! (see `tests/decimal_functions.rs`).

use super::binary::{Binary, Function, quarter_turns};
use super::decimal::{Decimal, EXPONENT_MIN};
use astro_float_num::BigFloat;
use std::cmp::Ordering;

/// The digits of pi that a decimal holds; and of some fractions of it.
const PI: Decimal = constant(3_141_592_653_589_793_238_462_643_383_279_503, -33);
const PI_3_4: Decimal = constant(2_356_194_490_192_344_928_846_982_537_459_627, -33);
const PI_1_2: Decimal = constant(1_570_796_326_794_896_619_231_321_691_639_751, -33);
const PI_1_4: Decimal = constant(785_398_163_397_448_309_615_660_845_819_876, -33);
const RADIANS_A_DEGREE: Decimal = constant(1_745_329_251_994_329_576_923_690_768_488_613, -35);
const DEGREES_A_RADIAN: Decimal = constant(5_729_577_951_308_232_087_679_815_481_410_517, -32);

const ONE: Decimal = constant(1, 0);
const HALF: Decimal = constant(5, -1);
/// What Intel's library adds to or multiplies by where a result differs from a simple one
/// only beyond the last digit. It matters for the trailing zeros.
const TINY: Decimal = constant(1, -40);

/// Beyond this power binary128's exponential overflows; the rest is multiplied in decimal.
const EXP_SPLIT: f64 = 11_000.0;
const EXP_OF_SPLIT: Decimal = constant(1_735_005_819_277_738_509_638_425_077_349_642, 4744);
const EXP_OF_NEGATIVE_SPLIT: Decimal =
    constant(5_763_669_429_168_183_696_272_822_960_961_269, -4811);
/// Beyond this power of e every decimal overflows or underflows.
const EXP_MAX: Decimal = constant(15_000, 0);
/// Logarithms of numbers beyond ten to this power of either sign, which binary128 does not
/// represent, are taken in two parts.
const LOG_SPLIT: i32 = 4464;
/// From this exponent on, inverse hyperbolic functions take the logarithm in two parts.
const AREA_SPLIT: i32 = 34;
/// Up to here hyperbolic functions are sums of two exponentials; beyond, the lesser one
/// does not show.
const HYPERBOLIC_SPLIT: f64 = 64.0;

/// Angles with a lower exponent are not reduced to a part of a turn.
const EXPONENT_OF_REDUCED_MIN: i32 = -35;
/// Angles with a lower exponent are their own sine.
const EXPONENT_OF_ANGLE_MIN: i32 = -52;

const fn constant(coefficient: u128, exponent: i32) -> Decimal {
    Decimal::constant(coefficient, exponent)
}

impl Decimal {
    /// The sine of an angle in radians; NaN where that is infinite.
    pub fn sin(self) -> Self {
        if !self.is_finite() {
            return Self::NAN;
        }
        if self.is_zero() {
            return self;
        }
        if self.is_tiny_angle() {
            return self.with_tiny_more();
        }
        let (quarters, rest) = self.quarter_turns();
        let function: Function = match quarters {
            0 | 2 => BigFloat::sin,
            _ => BigFloat::cos,
        };
        rest.apply(function).negative_if(quarters >= 2)
    }

    /// The cosine of an angle in radians; NaN where that is infinite.
    pub fn cos(self) -> Self {
        if !self.is_finite() {
            return Self::NAN;
        }
        if self.is_tiny_angle() {
            return ONE.add(TINY);
        }
        let (quarters, rest) = self.quarter_turns();
        let function: Function = match quarters {
            0 | 2 => BigFloat::cos,
            _ => BigFloat::sin,
        };
        rest.apply(function)
            .negative_if(quarters == 1 || quarters == 2)
    }

    /// The tangent of an angle in radians; NaN where that is infinite.
    pub fn tan(self) -> Self {
        if !self.is_finite() {
            return Self::NAN;
        }
        if self.is_tiny_angle() {
            return self.with_tiny_more();
        }
        let (quarters, rest) = self.quarter_turns();
        let tangent = rest.apply(BigFloat::tan);
        if quarters % 2 == 0 {
            return tangent.to_decimal();
        }
        Binary::from_f64(-1.0).divide(&tangent).to_decimal()
    }

    /// The angle between -π/2 and π/2 of this sine; NaN outside -1 to 1.
    pub fn asin(self) -> Self {
        if self.is_nan() || self.is_beyond_one() {
            return Self::NAN;
        }
        if self.is_tiny() {
            return self.with_tiny_more();
        }
        let value = Binary::nearest(self);
        if value.is_central() {
            return value.apply(BigFloat::asin).to_decimal();
        }
        let complement = self.complement().apply(BigFloat::acos);
        complement.negative_if(self.is_negative())
    }

    /// The angle between 0 and π of this cosine; NaN outside -1 to 1.
    pub fn acos(self) -> Self {
        if self.is_nan() || self.is_beyond_one() {
            return Self::NAN;
        }
        if self.is_tiny() {
            return PI_1_2;
        }
        let value = Binary::nearest(self);
        if value.is_central() {
            return value.apply(BigFloat::acos).to_decimal();
        }
        if value.compare(1.0) == Ordering::Equal {
            return constant(0, EXPONENT_MIN);
        }
        let angle = self.complement().apply(BigFloat::asin);
        if self.is_negative() {
            return Binary::pi().subtract(&angle).to_decimal();
        }
        angle.to_decimal()
    }

    /// The angle between -π/2 and π/2 of this tangent.
    pub fn atan(self) -> Self {
        self.towards(PI_1_2, 40, BigFloat::atan)
    }

    /// An odd function that is its argument where that is tiny, and a limit beyond a power of ten.
    fn towards(self, limit: Self, exponent_max: i32, function: Function) -> Self {
        if self.is_nan() || self.is_zero() {
            return self;
        }
        if self.is_infinite() || self.magnitude_exponent() > exponent_max {
            return limit.with_sign_of(self);
        }
        if self.is_tiny() {
            return self.with_tiny_more();
        }
        Binary::nearest(self).apply(function).to_decimal()
    }

    /// The angle of the point `(x, self)`, between -π and π.
    pub fn atan2(self, x: Self) -> Self {
        if self.is_nan() || x.is_nan() {
            return Self::NAN;
        }
        let axis = if x.is_negative() {
            PI
        } else {
            constant(0, EXPONENT_MIN)
        };
        let angle = match (self.is_infinite(), x.is_infinite()) {
            (true, true) if x.is_negative() => PI_3_4,
            (true, true) => PI_1_4,
            (true, false) => PI_1_2,
            (false, true) => axis,
            (false, false) if self.is_zero() => axis,
            (false, false) if x.is_zero() => PI_1_2,
            (false, false) => self.abs().atan2_finite(x),
        };
        angle.with_sign_of(self)
    }

    fn atan2_finite(self, x: Self) -> Self {
        let ratio = self.divide(x).abs();
        if ratio.compare(constant(1, 36)) == Ordering::Greater {
            return PI_1_2;
        }
        if ratio.compare(constant(1, -36)) == Ordering::Less {
            return if x.is_negative() { PI } else { ratio };
        }
        let angle = Binary::nearest(ratio).apply(BigFloat::atan).to_decimal();
        if x.is_negative() {
            PI.subtract(angle)
        } else {
            angle
        }
    }

    /// The hyperbolic sine.
    pub fn sinh(self) -> Self {
        if self.is_nan() || self.is_infinite() {
            return self;
        }
        if self.is_tiny() {
            return self.with_tiny_more();
        }
        let size = self.abs();
        let value = Binary::nearest(size);
        let magnitude = if value.compare(1.0) != Ordering::Greater {
            value.apply(BigFloat::sinh).to_decimal()
        } else if value.compare(HYPERBOLIC_SPLIT) != Ordering::Greater {
            let exponential = size.exp();
            let lesser = ONE.divide(exponential).multiply(HALF.negate());
            exponential.multiply_add(HALF, lesser)
        } else {
            size.half_exp(|whole, fraction, half| whole.multiply(fraction).multiply(half))
        };
        magnitude.with_sign_of(self)
    }

    /// The hyperbolic cosine.
    pub fn cosh(self) -> Self {
        if self.is_nan() || self.is_infinite() {
            return self.abs();
        }
        if self.abs().compare(TINY) != Ordering::Greater {
            return ONE.add(TINY);
        }
        let size = self.abs();
        let value = Binary::nearest(size);
        if value.compare(1.0) != Ordering::Greater {
            value.apply(BigFloat::cosh).to_decimal()
        } else if value.compare(HYPERBOLIC_SPLIT) != Ordering::Greater {
            let exponential = size.exp();
            let lesser = ONE.divide(exponential).multiply(HALF);
            exponential.multiply_add(HALF, lesser)
        } else {
            size.half_exp(|whole, fraction, half| whole.multiply(half).multiply(fraction))
        }
    }

    /// Half of e to this power, which can be finite where e to this power is not. The three
    /// factors are of the power's integer part, of the rest, and one half.
    fn half_exp(self, product: impl FnOnce(&Binary, &Binary, &Binary) -> Binary) -> Self {
        if self.compare(EXP_MAX) == Ordering::Greater {
            return Self::INFINITY;
        }
        let whole = self.round(0);
        let fraction = Binary::nearest(self.subtract(whole)).exp();
        let whole = Binary::nearest(whole);
        let half = Binary::from_f64(0.5);
        if whole.compare(EXP_SPLIT) != Ordering::Greater {
            return product(&whole.exp(), &fraction, &half).to_decimal();
        }
        let whole = whole.subtract(&Binary::from_f64(EXP_SPLIT)).exp();
        product(&whole, &fraction, &half)
            .to_decimal()
            .multiply(EXP_OF_SPLIT)
    }

    /// The hyperbolic tangent.
    pub fn tanh(self) -> Self {
        self.towards(ONE, 4, BigFloat::tanh)
    }

    /// The inverse of [`Decimal::sinh`].
    pub fn asinh(self) -> Self {
        let Some((_, coefficient, exponent)) = self.parts() else {
            return self;
        };
        if coefficient == 0 {
            return constant(0, EXPONENT_MIN).with_sign_of(self);
        }
        if exponent > AREA_SPLIT {
            return ln_of_double(coefficient, exponent).with_sign_of(self);
        }
        Binary::nearest(self.abs())
            .asinh()
            .to_decimal()
            .with_sign_of(self)
    }

    /// The inverse of [`Decimal::cosh`] that is not negative; NaN below 1.
    pub fn acosh(self) -> Self {
        let Some((_, coefficient, exponent)) = self.parts() else {
            return if self.is_negative() { Self::NAN } else { self };
        };
        if self.compare(ONE) == Ordering::Less {
            return Self::NAN;
        }
        if self.compare(constant(103_125, -5)) == Ordering::Less {
            let root = self.multiply_add(self, ONE.negate()).sqrt();
            return Binary::nearest(root).asinh().to_decimal();
        }
        if exponent > AREA_SPLIT {
            return ln_of_double(coefficient, exponent);
        }
        Binary::nearest(self).apply(BigFloat::acosh).to_decimal()
    }

    /// The inverse of [`Decimal::tanh`]; infinite at -1 and 1, NaN outside.
    pub fn atanh(self) -> Self {
        let Some((_, coefficient, exponent)) = self.parts() else {
            return Self::NAN;
        };
        if coefficient == 0 {
            return constant(0, EXPONENT_MIN).with_sign_of(self);
        }
        if exponent <= -51 {
            return self;
        }
        let size = self.abs();
        match size.compare(ONE) {
            Ordering::Greater => return Self::NAN,
            Ordering::Equal => return Self::INFINITY.with_sign_of(self),
            Ordering::Less => {}
        }
        let ratio = size.divide(ONE.subtract(size));
        let half = Binary::from_f64(0.5);
        let area = Binary::nearest(ratio.add(ratio)).ln_1p().multiply(&half);
        area.to_decimal().with_sign_of(self)
    }

    /// e to this power.
    pub fn exp(self) -> Self {
        if self.is_nan() || (self.is_infinite() && !self.is_negative()) {
            return self;
        }
        if self.is_infinite() {
            return Self::ZERO;
        }
        if self.is_zero() {
            return ONE;
        }
        if self.abs().compare(EXP_MAX) == Ordering::Greater {
            return if self.is_negative() {
                constant(0, EXPONENT_MIN)
            } else {
                Self::INFINITY
            };
        }
        let (high, low) = Binary::high_and_low(self);
        let exp = |high: &Binary| {
            let main = high.exp();
            main.add(&main.multiply(&low)).to_decimal()
        };
        let split = Binary::from_f64(EXP_SPLIT);
        if high.compare(EXP_SPLIT) == Ordering::Greater {
            exp(&high.subtract(&split)).multiply(EXP_OF_SPLIT)
        } else if high.compare(-EXP_SPLIT) == Ordering::Less {
            exp(&high.add(&split)).multiply(EXP_OF_NEGATIVE_SPLIT)
        } else {
            exp(&high)
        }
    }

    /// The natural logarithm; NaN below zero.
    pub fn ln(self) -> Self {
        let one = Binary::from_f64(1.0);
        self.logarithm(&one, |value| value.apply(BigFloat::ln), Binary::ln_10)
    }

    /// The logarithm to base 10; NaN below zero.
    pub fn log10(self) -> Self {
        let Some(split) = self.log_split() else {
            return self.logarithm_of_special();
        };
        let ln = match split {
            0 => self.corrected(
                Binary::nearest(self).apply(BigFloat::ln),
                &Binary::from_f64(1.0),
            ),
            _ => self.split_off(split).apply(BigFloat::ln),
        };
        let log = ln.multiply(&Binary::reciprocal_ln(10));
        log.add(&Binary::from_f64(f64::from(split))).to_decimal()
    }

    /// The logarithm to base 2; NaN below zero.
    pub fn log2(self) -> Self {
        let factor = Binary::reciprocal_ln(2);
        self.logarithm(
            &factor,
            |value| value.apply(BigFloat::log2),
            Binary::log2_10,
        )
    }

    /// A logarithm of which `of` is the function, `factor` the derivative at 1, and
    /// `of_power` that of a power of ten.
    fn logarithm(
        self,
        factor: &Binary,
        of: impl FnOnce(&Binary) -> Binary,
        of_power: impl FnOnce(i32) -> Binary,
    ) -> Self {
        match self.log_split() {
            None => self.logarithm_of_special(),
            Some(0) => self
                .corrected(of(&Binary::nearest(self)), factor)
                .to_decimal(),
            Some(split) => of(&self.split_off(split))
                .add(&of_power(split))
                .to_decimal(),
        }
    }

    fn logarithm_of_special(self) -> Self {
        if self.is_zero() {
            Self::NEGATIVE_INFINITY
        } else if self.is_infinite() && !self.is_negative() {
            self
        } else {
            Self::NAN
        }
    }

    /// The power of ten to take off before a logarithm; none of a number without one.
    fn log_split(self) -> Option<i32> {
        if !self.is_finite() || self.is_zero() || self.is_negative() {
            return None;
        }
        Some(
            if self.compare(constant(1, LOG_SPLIT)) == Ordering::Greater {
                LOG_SPLIT
            } else if self.compare(constant(1, -LOG_SPLIT)) == Ordering::Less {
                -LOG_SPLIT
            } else {
                0
            },
        )
    }

    fn split_off(self, split: i32) -> Binary {
        Binary::nearest(self.multiply(constant(1, -split)))
    }

    /// A logarithm of the nearest binary number, moved by what that number is off; near 1
    /// the relative error would be large otherwise.
    fn corrected(self, logarithm: Binary, factor: &Binary) -> Binary {
        let value = Binary::nearest(self);
        let above_one = value.subtract(&Binary::from_f64(1.0));
        if above_one.abs().compare(0.5) != Ordering::Less {
            return logarithm;
        }
        let exact = Binary::nearest(self.subtract(ONE));
        let error = above_one.subtract(&exact).multiply(factor).divide(&value);
        logarithm.subtract(&error)
    }

    /// An angle in degrees as radians.
    pub fn to_radians(self) -> Self {
        self.multiply(RADIANS_A_DEGREE)
    }

    /// An angle in radians as degrees.
    pub fn to_degrees(self) -> Self {
        self.multiply(DEGREES_A_RADIAN)
    }

    fn quarter_turns(self) -> (u8, Binary) {
        // An angle this small is not reduced.
        let (_, _, exponent) = self.parts().expect("a finite angle");
        if exponent < EXPONENT_OF_REDUCED_MIN {
            return (0, Binary::nearest(self));
        }
        quarter_turns(self)
    }

    /// Below every digit that could change a function's value from its limit at zero.
    fn is_tiny(self) -> bool {
        self.abs().compare(TINY) == Ordering::Less
    }

    /// So small an exponent, or zero, that an angle's sine is the angle.
    fn is_tiny_angle(self) -> bool {
        let (_, coefficient, exponent) = self.parts().expect("a finite angle");
        coefficient == 0 || exponent < EXPONENT_OF_ANGLE_MIN
    }

    fn is_beyond_one(self) -> bool {
        self.abs().compare(ONE) == Ordering::Greater
    }

    /// The exponent of the first digit.
    fn magnitude_exponent(self) -> i32 {
        let (_, coefficient, exponent) = self.parts().expect("a finite number");
        exponent + coefficient.checked_ilog10().unwrap_or(0) as i32
    }

    /// With trailing zeros up to 34 digits; zero with 40 digits more after the point.
    fn with_tiny_more(self) -> Self {
        self.multiply_add(TINY, self)
    }

    fn with_sign_of(self, other: Self) -> Self {
        if other.is_negative() {
            self.abs().negate()
        } else {
            self.abs()
        }
    }

    /// `√(1 - self²)`
    fn complement(self) -> Binary {
        let square = self.multiply_add(self, ONE.negate());
        Binary::nearest(square).negate().sqrt()
    }
}

impl Binary {
    fn exp(&self) -> Self {
        self.near_zero(BigFloat::exp, |_| Binary::from_f64(1.0))
    }

    fn asinh(&self) -> Self {
        self.near_zero(BigFloat::asinh, Binary::clone)
    }

    /// A function of which the value for tiny arguments is known: the library would take
    /// the longer the tinier.
    fn near_zero(&self, function: Function, limit: impl FnOnce(&Self) -> Self) -> Self {
        if self.abs().compare(1e-40) == Ordering::Less {
            return limit(self);
        }
        self.apply(function)
    }

    /// In the range in which Intel's library takes inverse functions directly.
    fn is_central(&self) -> bool {
        let limit = Binary::nearest(constant(7, -1));
        !limit.subtract(&self.abs()).is_negative()
    }

    fn negative_if(&self, negative: bool) -> Decimal {
        let value = self.to_decimal();
        if negative { value.negate() } else { value }
    }
}

/// `ln(2 · coefficient · 10^exponent)`.
fn ln_of_double(coefficient: u128, exponent: i32) -> Decimal {
    let coefficient = Binary::nearest(constant(coefficient, 0));
    let ln = coefficient.add(&coefficient).apply(BigFloat::ln);
    let power = Binary::from_f64(f64::from(exponent)).multiply(&Binary::ln_10(1));
    power.add(&ln).to_decimal()
}
