//! Trigonometry on doubles. On decimals only the conversions of angles.

use super::Value;
use super::arithmetic::{from_number, shown, single};
use super::control::number;
use crate::error::{Error, Result};
use meridian_value::number::{Decimal, Number};

/// The functions of one angle, and the two conversions of angles.
pub fn of_angle<'a>(name: &'static str, arguments: &mut [Value<'a>]) -> Result<Value<'a>> {
    let Some(value) = single(name, &arguments[0])? else {
        return Ok(Value::NULL);
    };
    let (function, bounds): (fn(f64) -> f64, _) = match name {
        "$sin" => (f64::sin, Domain::Finite),
        "$cos" => (f64::cos, Domain::Finite),
        "$tan" => (f64::tan, Domain::Finite),
        "$asin" => (f64::asin, Domain::Unit),
        "$acos" => (f64::acos, Domain::Unit),
        "$atanh" => (atanh, Domain::Unit),
        "$acosh" => (acosh, Domain::FromOne),
        "$atan" => (f64::atan, Domain::None),
        "$sinh" => (f64::sinh, Domain::None),
        "$cosh" => (f64::cosh, Domain::None),
        "$tanh" => (f64::tanh, Domain::None),
        "$asinh" => (asinh, Domain::None),
        "$degreesToRadians" => (
            |degrees| degrees * (std::f64::consts::PI / 180.0),
            Domain::None,
        ),
        _ => (
            |radians| radians * (180.0 / std::f64::consts::PI),
            Domain::None,
        ),
    };
    let angle = value.to_f64();
    let (inside, range) = match bounds {
        Domain::None => (true, ""),
        Domain::Finite => (angle.is_finite(), "(-inf,inf)"),
        Domain::Unit => ((-1.0..=1.0).contains(&angle), "[-1,1]"),
        Domain::FromOne => (angle >= 1.0, "[1,inf]"),
    };
    if !inside && !angle.is_nan() {
        return Err(Error::location(
            50989,
            format!(
                "cannot apply {name} to {}, value must be in {range}",
                shown(value)
            ),
        ));
    }
    match value {
        Number::Decimal(decimal) if decimal.is_finite() => decimal_trigonometry(name, decimal),
        _ => Ok(Value::double(function(angle))),
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

enum Domain {
    None,
    Finite,
    Unit,
    FromOne,
}

fn decimal_trigonometry<'a>(name: &str, value: Decimal) -> Result<Value<'a>> {
    // 34 digits of pi and what is built from it; the series are not worth their code yet.
    let pi: Decimal = "3.141592653589793238462643383279503"
        .parse()
        .unwrap_or(Decimal::from_f64(std::f64::consts::PI));
    let half_turn = Decimal::from_i64(180);
    let result = match name {
        "$degreesToRadians" => value.multiply(pi).divide(half_turn),
        "$radiansToDegrees" => value.multiply(half_turn).divide(pi),
        _ => return Err(Error::not_implemented(format!("{name} of a decimal"))),
    };
    Ok(from_number(Number::Decimal(result)))
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
        return Err(Error::not_implemented(format!("{name} of a decimal")));
    }
    Ok(Value::double(y.to_f64().atan2(x.to_f64())))
}
