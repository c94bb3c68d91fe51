//! Trigonometry on doubles and decimals.

use super::Value;
use super::arithmetic::{from_number, shown, single};
use super::control::number;
use crate::error::{Error, Result};
use meridian_value::number::{Decimal, Number};
use std::cmp::Ordering;

/// A function of one angle: of doubles, of decimals, and where it is defined.
type AngleFunction = (fn(f64) -> f64, fn(Decimal) -> Decimal, Domain);

/// The functions of one angle, and the two conversions of angles.
pub fn of_angle<'a>(name: &'static str, arguments: &mut [Value<'a>]) -> Result<Value<'a>> {
    let Some(value) = single(name, &arguments[0])? else {
        return Ok(Value::NULL);
    };
    let (double, decimal, domain) = function(name);
    if !value.is_nan() && !domain.contains(value) {
        return Err(Error::location(
            50989,
            format!(
                "cannot apply {name} to {}, value must be in {}",
                shown(value),
                domain.range()
            ),
        ));
    }
    Ok(match value {
        Number::Decimal(value) => from_number(Number::Decimal(decimal(value))),
        other => Value::double(double(other.to_f64())),
    })
}

fn function(name: &str) -> AngleFunction {
    match name {
        "$sin" => (f64::sin, Decimal::sin, Domain::Finite),
        "$cos" => (f64::cos, Decimal::cos, Domain::Finite),
        "$tan" => (f64::tan, Decimal::tan, Domain::Finite),
        "$asin" => (f64::asin, Decimal::asin, Domain::Unit),
        "$acos" => (f64::acos, Decimal::acos, Domain::Unit),
        "$atanh" => (atanh, Decimal::atanh, Domain::Unit),
        "$acosh" => (acosh, Decimal::acosh, Domain::FromOne),
        "$atan" => (f64::atan, Decimal::atan, Domain::All),
        "$sinh" => (f64::sinh, Decimal::sinh, Domain::All),
        "$cosh" => (f64::cosh, Decimal::cosh, Domain::All),
        "$tanh" => (f64::tanh, Decimal::tanh, Domain::All),
        "$asinh" => (asinh, Decimal::asinh, Domain::All),
        "$degreesToRadians" => (
            |degrees| degrees * (std::f64::consts::PI / 180.0),
            Decimal::to_radians,
            Domain::All,
        ),
        _ => (
            |radians| radians * (180.0 / std::f64::consts::PI),
            Decimal::to_degrees,
            Domain::All,
        ),
    }
}

/// Where a function is defined.
enum Domain {
    All,
    Finite,
    Unit,
    FromOne,
}

impl Domain {
    fn contains(&self, value: Number) -> bool {
        let order = |bound| value.compare(Number::Int32(bound));
        match self {
            Domain::All => true,
            Domain::Finite => match value {
                Number::Decimal(value) => value.is_finite(),
                other => other.to_f64().is_finite(),
            },
            Domain::Unit => order(-1) != Ordering::Less && order(1) != Ordering::Greater,
            Domain::FromOne => order(1) != Ordering::Less,
        }
    }

    fn range(&self) -> &'static str {
        match self {
            Domain::All | Domain::Finite => "(-inf,inf)",
            Domain::Unit => "[-1,1]",
            Domain::FromOne => "[1,inf]",
        }
    }
}

// The inverse hyperbolic functions as C's library computes them; Rust's differ in the last
// digit.

fn acosh(value: f64) -> f64 {
    if value > 2.0 {
        let root = (value * value - 1.0).sqrt();
        return (2.0 * value - 1.0 / (value + root)).ln();
    }
    let above = value - 1.0;
    (above + (2.0 * above + above * above).sqrt()).ln_1p()
}

fn asinh(value: f64) -> f64 {
    let size = value.abs();
    let square = size * size;
    let result = if !square.is_finite() {
        size.ln() + std::f64::consts::LN_2
    } else if size > 2.0 {
        (2.0 * size + 1.0 / ((square + 1.0).sqrt() + size)).ln()
    } else {
        (size + square / (1.0 + (1.0 + square).sqrt())).ln_1p()
    };
    result.copysign(value)
}

fn atanh(value: f64) -> f64 {
    let size = value.abs();
    let twice = size + size;
    let result = if size < 0.5 {
        0.5 * (twice + twice * size / (1.0 - size)).ln_1p()
    } else {
        0.5 * (twice / (1.0 - size)).ln_1p()
    };
    result.copysign(value)
}

/// `$atan2`.
pub fn atan2<'a>(name: &'static str, arguments: &mut [Value<'a>]) -> Result<Value<'a>> {
    if arguments[0].is_nullish() {
        return Ok(Value::NULL);
    }
    let numeric = |value: &Value<'_>, code| {
        number(value).ok_or_else(|| {
            Error::location(
                code,
                format!(
                    "{name} only supports numeric types, not {}",
                    value.type_name()
                ),
            )
        })
    };
    let y = numeric(&arguments[0], 51044)?;
    if arguments[1].is_nullish() {
        return Ok(Value::NULL);
    }
    let x = numeric(&arguments[1], 51045)?;
    if matches!((y, x), (Number::Decimal(_), _) | (_, Number::Decimal(_))) {
        let angle = y.to_decimal().atan2(x.to_decimal());
        return Ok(from_number(Number::Decimal(angle)));
    }
    Ok(Value::double(y.to_f64().atan2(x.to_f64())))
}
