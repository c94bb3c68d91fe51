//! Arithmetic, logarithms, rounding, and accumulators used as expressions.

use super::Value;
use super::control::number;
use super::convert::{display, general};
use crate::error::{Code, Error, Result};
use crate::expression::sum::{Deviation, OrderedSum};
use crate::expression::value::compare;
use bson::RawBsonRef;
use meridian_value::Collation;
use meridian_value::number::{Decimal, Number};
use std::cmp::Ordering;

/// A number as a value.
pub fn from_number<'a>(number: Number) -> Value<'a> {
    Value::Raw(match number {
        Number::Int32(value) => RawBsonRef::Int32(value),
        Number::Int64(value) => RawBsonRef::Int64(value),
        Number::Double(value) => RawBsonRef::Double(value),
        Number::Decimal(value) => RawBsonRef::Decimal128(value.to_bson()),
    })
}

fn date_millis(value: &Value<'_>) -> Option<i64> {
    match value {
        Value::Raw(RawBsonRef::DateTime(date)) => Some(date.timestamp_millis()),
        _ => None,
    }
}

/// `$add`: numbers, and at most one date.
pub fn add<'a>(_: &'static str, arguments: &mut [Value<'a>]) -> Result<Value<'a>> {
    let mut sum = OrderedSum::default();
    let mut date = None;
    for argument in arguments {
        if argument.is_nullish() {
            return Ok(Value::NULL);
        }
        if let Some(number) = number(argument) {
            sum.add(number);
        } else if let Some(millis) = date_millis(argument) {
            if date.replace(millis).is_some() {
                return Err(Error::location(
                    16612,
                    "only one date allowed in an $add expression",
                ));
            }
        } else {
            return Err(Error::location(
                16554,
                format!(
                    "$add only supports numeric or date types, not {}",
                    argument.type_name()
                ),
            ));
        }
    }
    let Some(millis) = date else {
        return Ok(from_number(sum.total()));
    };
    sum.add(Number::Int64(millis));
    let total = match sum.total() {
        // (To the nearest, and halves towards 1970, as MongoDB's exact sums of doubles come out.)
        Number::Double(millis) => Number::Double((millis.abs() - 0.5).ceil().copysign(millis)),
        total => total,
    };
    total
        .to_i64_rounded()
        .map(Value::date)
        .ok_or_else(|| Error::new(Code::Overflow, "date overflow in $add"))
}

/// `$subtract`: numbers, a number from a date, a date from a date.
pub fn subtract<'a>(_: &'static str, arguments: &mut [Value<'a>]) -> Result<Value<'a>> {
    let [left, right] = &*arguments else {
        unreachable!("arity 2")
    };
    if let (Some(a), Some(b)) = (number(left), number(right)) {
        return Ok(from_number(a.subtract(b)));
    }
    if left.is_nullish() || right.is_nullish() {
        return Ok(Value::NULL);
    }
    if let Some(millis) = date_millis(left) {
        let overflow = || Error::new(Code::Overflow, "date overflow in $subtract");
        if let Some(other) = date_millis(right) {
            return millis
                .checked_sub(other)
                .map(Value::int64)
                .ok_or_else(overflow);
        }
        if let Some(amount) = number(right) {
            let amount = amount.to_i64_rounded().ok_or_else(overflow)?;
            return millis
                .checked_sub(amount)
                .map(Value::date)
                .ok_or_else(overflow);
        }
    }
    Err(Error::type_mismatch(format!(
        "can't $subtract {} from {}",
        right.type_name(),
        match date_millis(left) {
            // (As MongoDB calls it here alone.)
            Some(_) => "Date",
            None => left.type_name(),
        }
    )))
}

/// `$multiply`.
pub fn multiply<'a>(_: &'static str, arguments: &mut [Value<'a>]) -> Result<Value<'a>> {
    // MongoDB multiplies doubles beside integers: 0 * -3 is 0 and becomes -0.0.
    let (mut product, mut of_doubles) = (Number::Int32(1), 1.0);
    for argument in arguments {
        if argument.is_nullish() {
            return Ok(Value::NULL);
        }
        let Some(factor) = number(argument) else {
            return Err(Error::type_mismatch(format!(
                "$multiply only supports numeric types, not {}",
                argument.type_name()
            )));
        };
        product = product.multiply(factor);
        of_doubles *= factor.to_f64();
    }
    Ok(from_number(match product {
        Number::Double(_) => Number::Double(of_doubles),
        other => other,
    }))
}

/// `$divide`: a double, or a decimal where either side is one.
pub fn divide<'a>(_: &'static str, arguments: &mut [Value<'a>]) -> Result<Value<'a>> {
    let [left, right] = &*arguments else {
        unreachable!("arity 2")
    };
    let (Some(a), Some(b)) = (number(left), number(right)) else {
        if left.is_nullish() || right.is_nullish() {
            return Ok(Value::NULL);
        }
        return Err(Error::type_mismatch(format!(
            "$divide only supports numeric types, not {} and {}",
            left.type_name(),
            right.type_name()
        )));
    };
    if b.is_zero() {
        return Err(Error::bad_value("can't $divide by zero"));
    }
    Ok(match (a, b) {
        (Number::Decimal(_), _) | (_, Number::Decimal(_)) => {
            from_number(Number::Decimal(a.to_decimal().divide(b.to_decimal())))
        }
        _ => Value::double(a.to_f64() / b.to_f64()),
    })
}

/// `$mod`.
pub fn modulo<'a>(_: &'static str, arguments: &mut [Value<'a>]) -> Result<Value<'a>> {
    let [left, right] = &*arguments else {
        unreachable!("arity 2")
    };
    let (Some(a), Some(b)) = (number(left), number(right)) else {
        if left.is_nullish() || right.is_nullish() {
            return Ok(Value::NULL);
        }
        return Err(Error::location(
            16611,
            format!(
                "$mod only supports numeric types, not {} and {}",
                left.type_name(),
                right.type_name()
            ),
        ));
    };
    if b.is_zero() {
        let decimal = matches!((a, b), (Number::Decimal(_), _) | (_, Number::Decimal(_)));
        let code = if decimal { 5_733_415 } else { 16610 };
        return Err(Error::location(code, "can't $mod by zero"));
    }
    Ok(match (a, b) {
        (Number::Decimal(_), _) | (_, Number::Decimal(_)) => {
            from_number(Number::Decimal(a.to_decimal().remainder(b.to_decimal())))
        }
        // A whole double of 32 bits leaves integers integers.
        (Number::Int32(_) | Number::Int64(_), Number::Double(double))
            if whole_i32(double).is_some() =>
        {
            let divisor = Number::Int32(whole_i32(double).unwrap_or(1));
            return Ok(integer_remainder(a, divisor));
        }
        (Number::Double(_), _) | (_, Number::Double(_)) => Value::double(a.to_f64() % b.to_f64()),
        _ => integer_remainder(a, b),
    })
}

fn integer_remainder(a: Number, b: Number) -> Value<'static> {
    if let (Number::Int32(a), Number::Int32(b)) = (a, b) {
        return Value::int32(a.wrapping_rem(b));
    }
    let whole = |number: Number| number.to_i64_exact().expect("an integer type");
    Value::int64(whole(a).wrapping_rem(whole(b)))
}

fn whole_i32(double: f64) -> Option<i32> {
    let whole = Number::Double(double).to_i64_exact()?;
    i32::try_from(whole).ok()
}

/// The one numeric argument of an operator; none where it is null.
pub fn single(name: &str, argument: &Value<'_>) -> Result<Option<Number>> {
    match number(argument) {
        Some(number) => Ok(Some(number)),
        None if argument.is_nullish() => Ok(None),
        None => Err(Error::location(
            28765,
            format!(
                "{name} only supports numeric types, not {}",
                argument.type_name()
            ),
        )),
    }
}

/// Applies one function to doubles and another to decimals; integers become doubles.
fn floating<'a>(
    name: &str,
    argument: &Value<'a>,
    check: impl FnOnce(Number) -> Result<()>,
    double: impl FnOnce(f64) -> f64,
    decimal: impl FnOnce(Decimal) -> Decimal,
) -> Result<Value<'a>> {
    let Some(number) = single(name, argument)? else {
        return Ok(Value::NULL);
    };
    check(number)?;
    Ok(match number {
        Number::Decimal(value) => from_number(Number::Decimal(decimal(value))),
        other => Value::double(double(other.to_f64())),
    })
}

/// `$abs`.
pub fn abs<'a>(name: &'static str, arguments: &mut [Value<'a>]) -> Result<Value<'a>> {
    Ok(match single(name, &arguments[0])? {
        None => Value::NULL,
        Some(Number::Int32(value)) => Value::int_or_long(i64::from(value).abs()),
        Some(Number::Int64(value)) => Value::int64(
            value
                .checked_abs()
                .ok_or_else(|| Error::location(28680, "can't take $abs of long long min"))?,
        ),
        Some(Number::Double(value)) => Value::double(value.abs()),
        Some(Number::Decimal(value)) => from_number(Number::Decimal(value.abs())),
    })
}

/// `$ceil`.
pub fn ceil<'a>(name: &'static str, arguments: &mut [Value<'a>]) -> Result<Value<'a>> {
    whole(name, &arguments[0], f64::ceil, Decimal::ceiling)
}

/// `$floor`.
pub fn floor<'a>(name: &'static str, arguments: &mut [Value<'a>]) -> Result<Value<'a>> {
    whole(name, &arguments[0], f64::floor, Decimal::floor)
}

fn whole<'a>(
    name: &str,
    argument: &Value<'a>,
    double: fn(f64) -> f64,
    decimal: fn(Decimal) -> Decimal,
) -> Result<Value<'a>> {
    Ok(match single(name, argument)? {
        None => Value::NULL,
        Some(Number::Double(value)) => Value::double(double(value)),
        Some(Number::Decimal(value)) => from_number(Number::Decimal(decimal(value))),
        Some(integer) => from_number(integer),
    })
}

/// `$exp`.
pub fn exp<'a>(name: &'static str, arguments: &mut [Value<'a>]) -> Result<Value<'a>> {
    floating(name, &arguments[0], |_| Ok(()), f64::exp, Decimal::exp)
}

/// A number as messages show it: integers as doubles.
pub fn shown(number: Number) -> String {
    match number {
        Number::Decimal(_) => display(&from_number(number)),
        other => general(other.to_f64(), 6),
    }
}

fn positive(code: i32, name: &'static str) -> impl Fn(Number) -> Result<()> {
    move |number| {
        if number.compare(Number::Int32(0)) == Ordering::Greater || number.is_nan() {
            return Ok(());
        }
        let shown = general(number.to_f64(), 6);
        Err(Error::location(
            code,
            format!("{name}'s argument must be a positive number, but is {shown}"),
        ))
    }
}

/// Of a decimal a decimal, but of NaN always a double.
fn logarithm<'a>(
    name: &str,
    argument: &Value<'a>,
    check: impl FnOnce(Number) -> Result<()>,
    double: fn(f64) -> f64,
    decimal: fn(Decimal) -> Decimal,
) -> Result<Value<'a>> {
    match number(argument) {
        Some(number) if number.is_nan() => Ok(Value::double(f64::NAN)),
        _ => floating(name, argument, check, double, decimal),
    }
}

/// `$ln`.
pub fn ln<'a>(name: &'static str, arguments: &mut [Value<'a>]) -> Result<Value<'a>> {
    let check = positive(28766, name);
    logarithm(name, &arguments[0], check, f64::ln, Decimal::ln)
}

/// `$log10`.
pub fn log10<'a>(name: &'static str, arguments: &mut [Value<'a>]) -> Result<Value<'a>> {
    let check = positive(28761, name);
    logarithm(name, &arguments[0], check, f64::log10, Decimal::log10)
}

/// `$log`: of the first argument to the base of the second.
pub fn log<'a>(name: &'static str, arguments: &mut [Value<'a>]) -> Result<Value<'a>> {
    let [argument, base] = &*arguments else {
        unreachable!("arity 2")
    };
    if argument.is_nullish() || base.is_nullish() {
        return Ok(Value::NULL);
    }
    let numeric = |value: &Value<'_>, code, what| {
        number(value).ok_or_else(|| {
            Error::location(
                code,
                format!("$log's {what} must be numeric, not {}", value.type_name()),
            )
        })
    };
    let mut value = numeric(argument, 28756, "argument")?;
    let mut base = numeric(base, 28757, "base")?;
    if value.is_nan() || base.is_nan() {
        (value, base) = (
            Number::Double(value.to_f64()),
            Number::Double(base.to_f64()),
        );
    }
    positive(28758, name)(value)?;
    let one = base.compare(Number::Int32(1)) == Ordering::Equal;
    let above_zero = base.is_nan() || base.compare(Number::Int32(0)) == Ordering::Greater;
    if one || !above_zero {
        let shown = general(base.to_f64(), 6);
        return Err(Error::location(
            28759,
            format!("$log's base must be a positive number not equal to 1, but is {shown}"),
        ));
    }
    Ok(match (value, base) {
        (Number::Decimal(_), _) | (_, Number::Decimal(_)) => {
            let logarithm = decimal_logarithm(value.to_decimal(), base.to_decimal());
            from_number(Number::Decimal(logarithm))
        }
        _ => Value::double(value.to_f64().ln() / base.to_f64().ln()),
    })
}

/// What MongoDB answers: to a base other than 2 and 10, the natural logarithm divided by the
/// base, where it should be by the base's logarithm (a mistake of MongoDB's, in decimals only).
fn decimal_logarithm(value: Decimal, base: Decimal) -> Decimal {
    if is_integer(base, 2) {
        value.log2()
    } else if is_integer(base, 10) {
        value.log10()
    } else {
        value.ln().divide(base)
    }
}

fn is_integer(value: Decimal, integer: i64) -> bool {
    value.compare(Decimal::from_i64(integer)) == Ordering::Equal
}

/// `$sqrt`.
pub fn sqrt<'a>(name: &'static str, arguments: &mut [Value<'a>]) -> Result<Value<'a>> {
    let check = |number: Number| {
        if number.compare(Number::Int32(0)) == Ordering::Less && !number.is_nan() {
            return Err(Error::location(
                28714,
                "$sqrt's argument must be greater than or equal to 0",
            ));
        }
        Ok(())
    };
    floating(name, &arguments[0], check, f64::sqrt, Decimal::sqrt)
}

/// `$pow`.
pub fn pow<'a>(_: &'static str, arguments: &mut [Value<'a>]) -> Result<Value<'a>> {
    let [base, exponent] = &*arguments else {
        unreachable!("arity 2")
    };
    if base.is_nullish() || exponent.is_nullish() {
        return Ok(Value::NULL);
    }
    let numeric = |value: &Value<'_>, code, what| {
        number(value).ok_or_else(|| {
            Error::location(
                code,
                format!("$pow's {what} must be numeric, not {}", value.type_name()),
            )
        })
    };
    let base = numeric(base, 28762, "base")?;
    let exponent = numeric(exponent, 28763, "exponent")?;
    let decimal = matches!(
        (base, exponent),
        (Number::Decimal(_), _) | (_, Number::Decimal(_))
    );
    // (Of decimals, a power of -0 counts.)
    let negative = match decimal {
        true => exponent.to_decimal().is_negative(),
        false => exponent.compare(Number::Int32(0)) == Ordering::Less && !exponent.is_nan(),
    };
    if base.is_zero() && negative {
        return Err(Error::location(
            28764,
            "$pow cannot take a base of 0 and a negative exponent",
        ));
    }
    Ok(match (base, exponent) {
        _ if decimal => {
            let power = decimal_power(base.to_decimal(), exponent.to_decimal());
            from_number(Number::Decimal(power))
        }
        (Number::Double(_), _) | (_, Number::Double(_)) => {
            Value::double(base.to_f64().powf(exponent.to_f64()))
        }
        _ => integer_power(base, exponent),
    })
}

/// What MongoDB answers: 0 for 10 to the power of 0 (a mistake of MongoDB's, in decimals only).
fn decimal_power(base: Decimal, exponent: Decimal) -> Decimal {
    if is_integer(base, 10) && exponent.is_zero() {
        return Decimal::ZERO.with_all_digits();
    }
    base.pow(exponent)
}

fn integer_power<'a>(base: Number, exponent: Number) -> Value<'a> {
    let long = matches!(base, Number::Int64(_)) || matches!(exponent, Number::Int64(_));
    let whole = |number: Number| number.to_i64_exact().expect("an integer type");
    let power = match (whole(base), whole(exponent)) {
        (1, _) => Some(1),
        (0, exponent) if exponent > 0 => Some(0),
        (-1, exponent) => Some(if exponent % 2 == 0 { 1 } else { -1 }),
        (base, exponent) => u32::try_from(exponent)
            .ok()
            .and_then(|exponent| base.checked_pow(exponent)),
    };
    match power {
        Some(power) if long => Value::int64(power),
        Some(power) => Value::int_or_long(power),
        None => Value::double(base.to_f64().powf(exponent.to_f64())),
    }
}

/// `$round` and `$trunc`, to a decimal place.
pub fn round<'a>(name: &'static str, arguments: &mut [Value<'a>]) -> Result<Value<'a>> {
    if arguments[0].is_nullish() {
        return Ok(Value::NULL);
    }
    let Some(value) = number(&arguments[0]) else {
        return Err(Error::location(
            51081,
            format!(
                "{name} only supports numeric types, not {}",
                arguments[0].type_name()
            ),
        ));
    };
    let place = match arguments.get(1) {
        Some(place) if place.is_nullish() => return Ok(Value::NULL),
        Some(place) => precision(name, place)?,
        None => 0,
    };
    let truncate = name == "$trunc";
    Ok(match value {
        Number::Decimal(value) if truncate => from_number(Number::Decimal(value.truncate(place))),
        Number::Decimal(value) => from_number(Number::Decimal(value.round(place))),
        Number::Double(value) => Value::double(round_double(value, place, truncate)),
        integer if place >= 0 => from_number(integer),
        Number::Int32(value) => {
            Value::int_or_long(round_integer(name, i64::from(value), place, truncate)?)
        }
        Number::Int64(value) => Value::int64(round_integer(name, value, place, truncate)?),
    })
}

fn precision(name: &str, place: &Value<'_>) -> Result<i32> {
    let Some(given) = number(place) else {
        return Err(Error::location(
            16004,
            format!("can't convert from BSON type {} to long", place.type_name()),
        ));
    };
    let whole = given
        .to_i64_exact()
        .filter(|whole| i32::try_from(*whole).is_ok());
    let Some(whole) = whole else {
        return Err(Error::location(
            51082,
            format!("precision argument to  {name} must be a integral value"),
        ));
    };
    if !(-20..=100).contains(&whole) {
        return Err(Error::location(
            51083,
            format!("cannot apply {name} with precision value {whole} value must be in [-20, 100]"),
        ));
    }
    Ok(whole as i32)
}

/// A double to a decimal place: through its decimal expansion, as MongoDB does, so that
/// 1.25 to one place is 1.2 and not what binary scaling would give.
fn round_double(value: f64, place: i32, truncate: bool) -> f64 {
    if !value.is_finite() {
        return value;
    }
    if place == 0 {
        return if truncate {
            value.trunc()
        } else {
            round_half_even(value)
        };
    }
    let decimal = Decimal::from_f64_exact(value);
    let rounded = if truncate {
        decimal.truncate(place)
    } else {
        decimal.round(place)
    };
    rounded.to_f64()
}

/// The nearest whole number; the even one where two are as near.
pub fn round_half_even(value: f64) -> f64 {
    value.round_ties_even()
}

fn round_integer(name: &str, value: i64, place: i32, truncate: bool) -> Result<i64> {
    let unit = 10_i128.pow(place.unsigned_abs());
    let value = i128::from(value);
    let down = value / unit * unit;
    let rest = (value - down).abs();
    let odd = (down / unit) % 2 != 0;
    let up = !truncate && (rest * 2 > unit || (rest * 2 == unit && odd));
    let rounded = if up {
        down + unit * value.signum()
    } else {
        down
    };
    i64::try_from(rounded).map_err(|_| {
        Error::location(51080, format!("invalid conversion from Decimal128 result in {name} resulting from arguments: [{value}, {place}]"))
    })
}

/// `$sum`, `$avg`, `$min`, `$max` and the deviations over the arguments, or over the
/// items of the one argument where that is an array.
pub fn accumulate<'a>(
    name: &'static str,
    arguments: &mut [Value<'a>],
    collation: &Collation,
) -> Result<Value<'a>> {
    if let [only] = &*arguments
        && let Some(items) = only.items()?
    {
        return accumulate_values(name, &items, collation);
    }
    accumulate_values(name, arguments, collation)
}

fn accumulate_values<'a>(
    name: &str,
    values: &[Value<'a>],
    collation: &Collation,
) -> Result<Value<'a>> {
    let present = values.iter().filter(|value| !value.is_nullish());
    match name {
        "$min" | "$max" => {
            let best = if name == "$min" {
                present.min_by(|a, b| compare(a, b, collation))
            } else {
                // The first of equals, where `max_by` would give the last.
                present.reduce(|best, next| {
                    if compare(next, best, collation).is_gt() {
                        next
                    } else {
                        best
                    }
                })
            };
            Ok(best.cloned().unwrap_or(Value::NULL))
        }
        "$sum" => Ok(from_number(sum(values).total())),
        "$avg" => {
            let mut sum = OrderedSum::default();
            values
                .iter()
                .filter_map(number)
                .for_each(|number| sum.add(number));
            Ok(sum.average().map_or(Value::NULL, from_number))
        }
        _ => {
            let mut deviation = Deviation::default();
            values
                .iter()
                .filter_map(number)
                .for_each(|value| deviation.add(value.to_f64()));
            let result = if name == "$stdDevPop" {
                deviation.population()
            } else {
                deviation.sample()
            };
            Ok(result.map_or(Value::NULL, Value::double))
        }
    }
}

fn sum(values: &[Value<'_>]) -> OrderedSum {
    let mut sum = OrderedSum::default();
    values
        .iter()
        .filter_map(number)
        .for_each(|number| sum.add(number));
    sum
}
