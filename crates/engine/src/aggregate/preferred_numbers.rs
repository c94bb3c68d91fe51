//! `granularity` of `$bucketAuto`: boundaries are numbers of a series of preferred numbers, or powers of two.
//!
//! The series are those of ISO 3 (R5 to R80), IEC 60063 (E6 to E192) and 1-2-5, each times any power of ten.

use crate::error::{Error, Result};
use crate::expression::arithmetic;
use crate::expression::value::Value;
use crate::types::type_name;
use bson::RawBson;
use bson::raw::RawBsonRef;
use meridian_value::number::{Decimal, Number};

const R5: &[i32] = &[10, 16, 25, 40, 63];
const R10: &[i32] = &[100, 125, 160, 200, 250, 315, 400, 500, 630, 800];
const R20: &[i32] = &[
    100, 112, 125, 140, 160, 180, 200, 224, 250, 280, 315, 355, 400, 450, 500, 560, 630, 710, 800,
    900,
];
/// As MongoDB has it: without 3.35.
const R40: &[i32] = &[
    100, 106, 112, 118, 125, 132, 140, 150, 160, 170, 180, 190, 200, 212, 224, 236, 250, 265, 280,
    300, 315, 355, 375, 400, 425, 450, 475, 500, 530, 560, 600, 630, 670, 710, 750, 800, 850, 900,
    950,
];
const R80: &[i32] = &[
    103, 109, 115, 122, 128, 136, 145, 155, 165, 175, 185, 195, 206, 218, 230, 243, 258, 272, 290,
    307, 325, 345, 365, 387, 412, 437, 462, 487, 515, 545, 575, 615, 650, 690, 730, 775, 825, 875,
    925, 975,
];
const ONE_TWO_FIVE: &[i32] = &[10, 20, 50];
const E6: &[i32] = &[10, 15, 22, 33, 47, 68];
const E12: &[i32] = &[10, 12, 15, 18, 22, 27, 33, 39, 47, 56, 68, 82];
const E24: &[i32] = &[
    10, 11, 12, 13, 15, 16, 18, 20, 22, 24, 27, 30, 33, 36, 39, 43, 47, 51, 56, 62, 68, 75, 82, 91,
];

/// What boundaries are rounded to.
#[derive(Debug, Clone)]
pub enum PreferredNumbers {
    /// Numbers of a series between 1 and 10, ascending, times 10 or 100.
    Series(Vec<i32>),
    /// Powers of two.
    PowersOfTwo,
}

impl PreferredNumbers {
    /// Reads its name.
    ///
    /// # Errors
    /// 40257, 40261.
    pub fn parse(raw: RawBsonRef<'_>) -> Result<Self> {
        let RawBsonRef::String(name) = raw else {
            let found = type_name(raw.element_type());
            let message = format!(
                "The $bucketAuto 'granularity' field must be a string, but found type: {found}"
            );
            return Err(Error::location(40261, message));
        };
        let series = match name {
            "R5" => R5,
            "R10" => R10,
            "R20" => R20,
            "R40" => R40,
            "R80" => R80,
            "1-2-5" => ONE_TWO_FIVE,
            "E6" => E6,
            "E12" => E12,
            "E24" => E24,
            "E48" => return Ok(Self::Series(three_digits(48))),
            "E96" => return Ok(Self::Series(three_digits(96))),
            "E192" => return Ok(Self::Series(three_digits(192))),
            "POWERSOF2" => return Ok(Self::PowersOfTwo),
            _ => {
                let message = format!("Unknown rounding granularity '{name}'");
                return Err(Error::location(40257, message));
            }
        };
        Ok(Self::Series(series.to_vec()))
    }

    /// Refuses a value that cannot be a boundary.
    ///
    /// # Errors
    /// 40258 to 40260.
    pub fn check(&self, key: RawBsonRef<'_>) -> Result<()> {
        let refused = |code, why: &str| {
            Err(Error::location(
                code,
                format!("$bucketAuto can specify a 'granularity' with {why}"),
            ))
        };
        let Some(number) = Number::from_raw(key) else {
            let found = type_name(key.element_type());
            let why = format!("numeric boundaries only, but found a value with type: {found}");
            return refused(40258, &why);
        };
        if number.is_nan() {
            return refused(40259, "numeric boundaries only, but found a NaN");
        }
        if number.compare(Number::Int32(0)).is_lt() {
            return refused(
                40260,
                "non-negative numbers only, but found a negative number",
            );
        }
        Ok(())
    }

    /// The least boundary that is greater.
    pub fn above(&self, key: &RawBson) -> Result<RawBson> {
        self.round(key, &|series, number| above(series, number), &|exponent| {
            exponent.floor() + 1.0
        })
    }

    /// The greatest boundary that is less.
    pub fn below(&self, key: &RawBson) -> Result<RawBson> {
        self.round(key, &|series, number| below(series, number), &|exponent| {
            exponent.ceil() - 1.0
        })
    }

    /// Zero and infinity stay as they are.
    fn round(
        &self,
        key: &RawBson,
        in_series: &dyn Fn(&[Number], Number) -> Number,
        exponent: &dyn Fn(f64) -> f64,
    ) -> Result<RawBson> {
        let number = Number::from_raw(key.as_raw_bson_ref());
        let Some(number) = number.filter(|own| !own.is_zero() && !own.is_infinite()) else {
            return Ok(key.clone());
        };
        let rounded = match self {
            Self::Series(series) => {
                let is_decimal = matches!(number, Number::Decimal(_));
                let step = |step: &i32| match is_decimal {
                    true => Number::Decimal(Decimal::from_f64((*step).into())),
                    false => Number::Double((*step).into()),
                };
                let series: Vec<Number> = series.iter().map(step).collect();
                let number = match is_decimal {
                    true => number,
                    false => Number::Double(number.to_f64()),
                };
                arithmetic::from_number(in_series(&series, number))
            }
            Self::PowersOfTwo => power_of_two(number, exponent)?,
        };
        Ok(rounded.to_raw()?.unwrap_or(RawBson::Null))
    }
}

/// Series of IEC 60063 with three digits: powers of the root of ten, rounded, but for one.
fn three_digits(count: i32) -> Vec<i32> {
    let step = |number: i32| {
        let exact = 100.0 * 10_f64.powf(f64::from(number) / f64::from(count));
        // The standard has 9.20 where 9.19 is nearer.
        #[expect(clippy::cast_possible_truncation, reason = "it is less than 1,000")]
        match exact.round() as i32 {
            919 => 920,
            other => other,
        }
    };
    (0..count).map(step).collect()
}

fn ten(number: Number) -> Number {
    match number {
        Number::Decimal(_) => Number::Decimal(Decimal::from_i64(10)),
        _ => Number::Double(10.0),
    }
}

fn one(number: Number) -> Number {
    match number {
        Number::Decimal(_) => Number::Decimal(Decimal::from_i64(1)),
        _ => Number::Double(1.0),
    }
}

fn tenth(number: Number) -> Number {
    number.divide(ten(number)).unwrap_or(number)
}

/// The least number of a series, times a power of ten, that is greater than this.
fn above(series: &[Number], number: Number) -> Number {
    let (first, last) = (series[0], series[series.len() - 1]);
    let mut power = one(number);
    while number.compare(last.multiply(power)).is_ge() {
        power = power.multiply(ten(number));
    }
    while number.compare(first.multiply(power)).is_lt() {
        let former = first.multiply(power);
        power = tenth(power);
        if number.compare(last.multiply(power)).is_ge() {
            return former;
        }
    }
    let mut steps = series.iter().map(|step| step.multiply(power));
    let found = steps.find(|step| number.compare(*step).is_lt());
    found.unwrap_or(number)
}

/// The greatest number of a series, times a power of ten, that is less than this.
fn below(series: &[Number], number: Number) -> Number {
    let (first, last) = (series[0], series[series.len() - 1]);
    let mut power = one(number);
    while number.compare(first.multiply(power)).is_le() {
        let next = tenth(power);
        if next.is_zero() {
            return number;
        }
        power = next;
    }
    while number.compare(last.multiply(power)).is_gt() {
        let former = last.multiply(power);
        power = power.multiply(ten(number));
        if number.compare(first.multiply(power)).is_le() {
            return former;
        }
    }
    let steps = series.iter().map(|step| step.multiply(power));
    let less = steps.take_while(|step| step.compare(number).is_lt());
    less.last().unwrap_or(number)
}

fn power_of_two(number: Number, exponent: &dyn Fn(f64) -> f64) -> Result<Value<'static>> {
    // Exact, also where a double is not.
    let of_integer = |whole: i64| match whole.count_ones() {
        1 => f64::from(whole.ilog2()),
        _ => f64::from(whole.ilog2()) + 0.5,
    };
    let logarithm = match number {
        Number::Int32(_) | Number::Int64(_) => {
            of_integer(number.to_i64_exact().unwrap_or(1).max(1))
        }
        other => other.to_f64().log2(),
    };
    #[expect(
        clippy::cast_possible_truncation,
        reason = "logarithms of doubles are small"
    )]
    let exponent = exponent(logarithm) as i32;
    let exponent = match number {
        Number::Decimal(_) => Number::Decimal(Decimal::from_i64(exponent.into())),
        _ => Number::Int32(exponent),
    };
    let mut arguments = [
        arithmetic::from_number(Number::Int32(2)),
        arithmetic::from_number(exponent),
    ];
    arithmetic::pow("$pow", &mut arguments)
}
