//! `$dateTrunc`, `$dateAdd`, `$dateSubtract`, `$dateDiff`.

use super::Value;
use super::control::number;
use super::convert::display;
use super::date::{date_millis, zone};
use crate::error::{Error, Result};
use crate::expression::time::bins::LocalBins;
use crate::expression::time::{self, Unit, Zone, ZoneClock, parse_day_of_week};
use meridian_value::number::Number;

/// `$dateTrunc` with its unit, bin, zone and start of week known.
#[derive(Debug, Clone)]
pub struct TruncatePlan {
    bins: LocalBins,
    /// The clock of the zone where the bins are counted from.
    clock: ZoneClock,
    /// Where every bin is as long as every other: where one begins, and its length.
    even: Option<(i64, i64)>,
}

impl TruncatePlan {
    /// The first instant behind a stretch of time around `millis` that lies in one bin.
    pub fn end(&self, millis: i64) -> Option<i64> {
        match self.even {
            Some((_, length)) => self.even_begin(millis)?.checked_add(length),
            None => self.bins.end(millis),
        }
    }

    /// The first instant of such a stretch.
    pub fn begin(&self, millis: i64) -> Option<i64> {
        match self.even {
            Some(_) => self.even_begin(millis),
            None => self.bins.begin(millis),
        }
    }

    fn even_begin(&self, millis: i64) -> Option<i64> {
        let (start, length) = self.even?;
        let number = millis.checked_sub(start)?.div_euclid(length);
        number.checked_mul(length)?.checked_add(start)
    }
}

/// The plan, from the values of `unit`, `binSize`, `timezone`, `startOfWeek`; none where
/// one of them is null or wrong, which every evaluation then finds by itself.
pub fn plan_truncation(values: &[Option<Value<'_>>]) -> Option<TruncatePlan> {
    let [unit, bin, timezone, week] = values else {
        return None;
    };
    let plan = truncate_plan(
        "$dateTrunc",
        unit.as_ref()?,
        bin.as_ref(),
        timezone.as_ref(),
        week.as_ref(),
    );
    plan.ok().flatten()
}

const BIN_MAX: i64 = 100_000_000_000;

fn truncate_plan(
    name: &str,
    unit: &Value<'_>,
    bin: Option<&Value<'_>>,
    timezone: Option<&Value<'_>>,
    week: Option<&Value<'_>>,
) -> Result<Option<TruncatePlan>> {
    let given = [Some(unit), bin, timezone];
    if given.iter().flatten().any(|value| value.is_nullish()) {
        return Ok(None);
    }
    let unit = unit_of(name, unit)?;
    let bin = bin.map_or(Ok(1), |bin| bin_size(name, bin))?;
    let zone = prefixed_zone(name, timezone)?;
    let week_start = match week {
        Some(week) if unit == Unit::Week => match week_start(name, week)? {
            Some(start) => start,
            None => return Ok(None),
        },
        _ => 7,
    };
    // A bin of days is even where every day is; of a month never.
    let even = match unit {
        Unit::Week | Unit::Day if zone.is_fixed() => true,
        unit => !unit.is_calendar(),
    };
    let bins = LocalBins {
        unit,
        bin,
        zone,
        week_start,
    };
    let clock = time::reference_clock(zone);
    let even = even.then(|| {
        let start = time::truncate(0, &bins, clock);
        (start, bin.saturating_mul(unit.millis()))
    });
    Ok(Some(TruncatePlan { bins, clock, even }))
}

/// A unit of time by its name.
///
/// # Errors
/// `FailedToParse` for any other text.
pub fn named_unit(text: &str) -> Result<Unit> {
    Unit::parse(text)
        .ok_or_else(|| Error::failed_to_parse(format!("unknown time unit value: {text}")))
}

fn unit_of(name: &str, value: &Value<'_>) -> Result<Unit> {
    let Some(text) = value.as_str() else {
        return Err(Error::location(
            5_439_013,
            format!(
                "{name} requires 'unit' to be a string, but got {}",
                value.type_name()
            ),
        ));
    };
    Unit::parse(text).ok_or_else(|| {
        Error::location(
            5_439_014,
            format!("{name} parameter 'unit' value cannot be recognized as a time unit: {text}"),
        )
    })
}

fn bin_size(name: &str, value: &Value<'_>) -> Result<i64> {
    let Some(bin) = number(value).and_then(Number::to_i64_exact) else {
        return Err(Error::location(
            5_439_017,
            format!(
                "{name} requires 'binSize' to be a 64-bit integer, but got value '{}' of type {}",
                display(value),
                value.type_name()
            ),
        ));
    };
    if bin <= 0 {
        return Err(Error::location(
            5_439_018,
            format!("{name} requires 'binSize' to be greater than 0, but got value {bin}"),
        ));
    }
    if bin > BIN_MAX {
        return Err(Error::location(
            5_439_006,
            "dateTrunc unsupported binSize value",
        ));
    }
    Ok(bin)
}

fn prefixed_zone(name: &str, timezone: Option<&Value<'_>>) -> Result<Zone> {
    let found = zone(timezone).map_err(|error| fault_of(name, "timezone", error))?;
    Ok(found.unwrap_or(Zone::Utc))
}

/// An error about an argument of an operator in the operator's words, if it has its own.
pub fn fault_of(name: &str, parameter: &str, mut error: Error) -> Error {
    if matches!((name, parameter), ("$dateTrunc" | "$dateDiff", "timezone")) {
        let prefix = format!("{name} parameter 'timezone' value parsing failed :: caused by :: ");
        error.message.insert_str(0, &prefix);
    }
    error
}

/// 1 (Monday) to 7 (Sunday); none where the value is null.
fn week_start(name: &str, value: &Value<'_>) -> Result<Option<i64>> {
    if value.is_nullish() {
        return Ok(None);
    }
    let Some(text) = value.as_str() else {
        return Err(Error::location(
            5_439_015,
            format!(
                "{name} requires 'startOfWeek' to be a string, but got {}",
                value.type_name()
            ),
        ));
    };
    parse_day_of_week(text).map(Some).ok_or_else(|| {
        Error::location(
            5_439_016,
            format!(
                "{name} parameter 'startOfWeek' value cannot be recognized as a day of a week: {text}"
            ),
        )
    })
}

/// `$dateTrunc` of one date with everything else known.
#[inline]
pub fn truncate_planned<'a>(date: &Value<'a>, plan: &TruncatePlan) -> Result<Value<'a>> {
    let Some(millis) = date_millis(date) else {
        if date.is_nullish() {
            return Ok(Value::NULL);
        }
        return Err(not_a_date(date));
    };
    Ok(Value::date(match plan.even {
        Some((start, length)) => millis.saturating_sub(start).div_euclid(length) * length + start,
        None => time::truncate(millis, &plan.bins, plan.clock),
    }))
}

fn not_a_date(value: &Value<'_>) -> Error {
    Error::location(
        5_439_012,
        format!(
            "$dateTrunc requires 'date' to be a date, but got {}",
            value.type_name()
        ),
    )
}

/// `$dateTrunc`.
pub fn truncate<'a>(name: &'static str, arguments: &mut [Option<Value<'a>>]) -> Result<Value<'a>> {
    let [date, unit, bin, timezone, week] = &*arguments else {
        unreachable!("five parameters")
    };
    let (Some(date), Some(unit)) = (date, unit) else {
        unreachable!("required arguments")
    };
    if date.is_nullish() {
        return Ok(Value::NULL);
    }
    let given = [Some(unit), bin.as_ref(), timezone.as_ref()];
    if given.into_iter().flatten().any(Value::is_nullish) {
        return Ok(Value::NULL);
    }
    // The zone, then the date, then the rest, as MongoDB looks at them.
    prefixed_zone(name, timezone.as_ref())?;
    if date_millis(date).is_none() {
        return Err(not_a_date(date));
    }
    let plan = truncate_plan(name, unit, bin.as_ref(), timezone.as_ref(), week.as_ref())?;
    match plan {
        Some(plan) => truncate_planned(date, &plan),
        None => Ok(Value::NULL),
    }
}

/// `$dateAdd` and `$dateSubtract`.
pub fn add<'a>(name: &'static str, arguments: &mut [Option<Value<'a>>]) -> Result<Value<'a>> {
    if arguments.iter().flatten().any(Value::is_nullish) {
        return Ok(Value::NULL);
    }
    let [Some(date), Some(unit), Some(amount), timezone] = &*arguments else {
        unreachable!("three required parameters and one that is not")
    };
    let zone = zone(timezone.as_ref())?.unwrap_or(Zone::Utc);
    let millis = date_millis(date).ok_or_else(|| {
        Error::location(
            5_166_403,
            format!("{name} requires startDate to be convertible to a date"),
        )
    })?;
    let Some(unit_name) = unit.as_str() else {
        return Err(Error::location(
            5_166_404,
            format!("{name} expects string defining the time unit"),
        ));
    };
    let unit = named_unit(unit_name)?;
    let amount = number(amount)
        .and_then(Number::to_i64_exact)
        .ok_or_else(|| {
            Error::location(
                5_166_405,
                format!("{name} expects integer amount of time units"),
            )
        })?;
    let signed = if name == "$dateSubtract" {
        amount.checked_neg().ok_or_else(|| {
            Error::location(
                6_045_000,
                format!("invalid {name} 'amount' parameter value: {amount}"),
            )
        })?
    } else {
        amount
    };
    if signed.unsigned_abs() > u64::MAX / unit.millis().unsigned_abs() {
        return Err(Error::location(
            5_976_500,
            format!("invalid dateAdd 'amount' parameter value: {signed} {unit_name}"),
        ));
    }
    time::add(millis, unit, signed, &zone)
        .map(Value::date)
        .ok_or_else(|| Error::location(5_166_406, "dateAdd overflowed"))
}

/// `$dateDiff`.
pub fn difference<'a>(
    name: &'static str,
    arguments: &mut [Option<Value<'a>>],
) -> Result<Value<'a>> {
    let [start, end, unit, timezone, week] = &*arguments else {
        unreachable!("five parameters")
    };
    let (Some(start), Some(end), Some(unit)) = (start, end, unit) else {
        unreachable!("required arguments")
    };
    let nullish = [Some(start), Some(end), Some(unit), timezone.as_ref()];
    if nullish.iter().flatten().any(|value| value.is_nullish()) {
        return Ok(Value::NULL);
    }
    let millis = |value: &Value<'_>, which| {
        date_millis(value).ok_or_else(|| {
            Error::location(
                5_166_307,
                format!(
                    "{name} requires '{which}' to be a date, but got {}",
                    value.type_name()
                ),
            )
        })
    };
    let zone = prefixed_zone(name, timezone.as_ref())?;
    let start = millis(start, "startDate")?;
    let end = millis(end, "endDate")?;
    let unit = unit_of(name, unit)?;
    let week_start = match week {
        Some(week) if unit == Unit::Week => match week_start(name, week)? {
            Some(start) => start,
            None => return Ok(Value::NULL),
        },
        _ => 7,
    };
    time::difference(start, end, unit, &zone, week_start)
        .map(Value::int64)
        .ok_or_else(|| Error::location(5_166_308, "dateDiff overflowed"))
}
