//! Calendar arithmetic on milliseconds since 1970, and time zones.
//!
//! Dates are the proleptic Gregorian calendar; the two conversions between days and
//! calendar dates are Howard Hinnant's (`days_from_civil`, `civil_from_days`). Time zones
//! come from `chrono-tz`; where a local time does not exist or exists twice
//! [`Zone::to_utc`] answers as timelib does, which MongoDB uses.

pub(crate) mod abbreviations;
pub(crate) mod bins;
pub(crate) mod parse;
pub(crate) mod scan;
pub(crate) mod steps;
pub(crate) mod text;
pub(crate) mod tokens;

use bins::LocalBins;
use chrono::{Offset, TimeZone};
use chrono_tz::{OffsetComponents, Tz, TzOffset};

/// Milliseconds of a second.
pub const SECOND_MS: i64 = 1000;
/// Milliseconds of a minute.
pub const MINUTE_MS: i64 = 60 * SECOND_MS;
/// Milliseconds of an hour.
pub const HOUR_MS: i64 = 60 * MINUTE_MS;
/// Milliseconds of a day.
pub const DAY_MS: i64 = 24 * HOUR_MS;

/// A calendar date and time of day.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Civil {
    pub year: i64,
    /// 1 to 12.
    pub month: i64,
    /// 1 to 31.
    pub day: i64,
    pub hour: i64,
    pub minute: i64,
    pub second: i64,
    pub millisecond: i64,
}

/// Days since 1970 of a calendar date. The month may be any number, the day too.
pub fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let year = year + (month - 1).div_euclid(12);
    let month = (month - 1).rem_euclid(12) + 1;
    let shifted = if month <= 2 { year - 1 } else { year };
    let era = shifted.div_euclid(400);
    let year_of_era = shifted.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468 + day - 1
}

/// Year, month and day of days since 1970.
pub fn civil_from_days(days: i64) -> (i64, i64, i64) {
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_shifted + 2) / 5 + 1;
    let month = if month_shifted < 10 {
        month_shifted + 3
    } else {
        month_shifted - 9
    };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (year, month, day)
}

impl Civil {
    /// The calendar reading of milliseconds since 1970.
    pub fn from_millis(millis: i64) -> Self {
        let (year, month, day) = civil_from_days(millis.div_euclid(DAY_MS));
        let rest = millis.rem_euclid(DAY_MS);
        Self {
            year,
            month,
            day,
            hour: rest / HOUR_MS,
            minute: rest / MINUTE_MS % 60,
            second: rest / SECOND_MS % 60,
            millisecond: rest % 1000,
        }
    }

    /// Milliseconds since 1970; parts out of their range carry over.
    pub fn to_millis(self) -> Option<i64> {
        let days = days_from_civil(self.year, self.month, self.day);
        let seconds = self.second.checked_mul(SECOND_MS)?;
        days.checked_mul(DAY_MS)?
            .checked_add(self.hour.checked_mul(HOUR_MS)?)?
            .checked_add(self.minute.checked_mul(MINUTE_MS)?)?
            .checked_add(seconds)?
            .checked_add(self.millisecond)
    }

    /// Days since 1970 of the date.
    pub fn days(&self) -> i64 {
        days_from_civil(self.year, self.month, self.day)
    }

    /// 1 to 366.
    pub fn day_of_year(&self) -> i64 {
        self.days() - days_from_civil(self.year, 1, 1) + 1
    }

    /// 1 (Monday) to 7 (Sunday).
    pub fn iso_day_of_week(&self) -> i64 {
        (self.days() + 3).rem_euclid(7) + 1
    }

    /// 1 (Sunday) to 7 (Saturday).
    pub fn day_of_week(&self) -> i64 {
        self.iso_day_of_week() % 7 + 1
    }

    /// 0 to 53: weeks begin on Sunday, days before the first Sunday are week 0.
    pub fn week(&self) -> i64 {
        (self.day_of_year() - 1 + 7 - (self.day_of_week() - 1)) / 7
    }

    /// The ISO 8601 week and the year it belongs to.
    pub fn iso_week(&self) -> (i64, i64) {
        let thursday = self.days() - (self.iso_day_of_week() - 1) + 3;
        let (year, _, _) = civil_from_days(thursday);
        let week = (thursday - days_from_civil(year, 1, 1)) / 7 + 1;
        (year, week)
    }
}

/// Days since 1970 of an ISO week date; week and day may be any number.
pub fn days_from_iso_week(year: i64, week: i64, day: i64) -> i64 {
    let fourth = days_from_civil(year, 1, 4);
    let monday = fourth - (fourth + 3).rem_euclid(7);
    monday + (week - 1) * 7 + day - 1
}

/// The last day of a month.
pub fn days_in_month(year: i64, month: i64) -> i64 {
    days_from_civil(year, month + 1, 1) - days_from_civil(year, month, 1)
}

/// A time zone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Zone {
    /// UTC.
    Utc,
    /// So many seconds east of UTC.
    Offset(i64),
    /// A zone of the Olson database.
    Named(Tz),
}

impl Zone {
    /// `UTC`, `+05:30`, `-0500`, `+05`, or an Olson name; none for anything else.
    pub fn parse(text: &str) -> Option<Self> {
        if matches!(text, "UTC" | "GMT") {
            return Some(Zone::Utc);
        }
        let east = match text.as_bytes().first()? {
            b'+' => 1,
            b'-' => -1,
            _ => return text.parse().ok().map(Zone::Named),
        };
        let digits = &text[1..];
        let (hours, minutes) = match digits.len() {
            2 => (digits, "0"),
            4 if !digits.contains(':') => digits.split_at_checked(2)?,
            5 => digits.split_once(':')?,
            _ => return None,
        };
        let number = |text: &str| {
            let all_digits = text.bytes().all(|byte| byte.is_ascii_digit());
            if all_digits {
                text.parse::<i64>().ok()
            } else {
                None
            }
        };
        Some(Zone::Offset(
            east * (number(hours)? * 3600 + number(minutes)? * 60),
        ))
    }

    /// Milliseconds east of UTC at an instant.
    pub fn offset_ms(self, millis: i64) -> i64 {
        match self {
            Zone::Utc => 0,
            Zone::Offset(seconds) => seconds * SECOND_MS,
            Zone::Named(zone) => {
                let offset = offset_at(zone, millis);
                i64::from(offset.fix().local_minus_utc()) * SECOND_MS
            }
        }
    }

    /// The clock in use at an instant.
    pub fn clock_at(self, millis: i64) -> ZoneClock {
        match self {
            Zone::Named(zone) if !offset_at(zone, millis).dst_offset().is_zero() => {
                ZoneClock::Daylight
            }
            _ => ZoneClock::Standard,
        }
    }

    /// The clock that MongoDB takes a reading from which no instant gave: timelib looks it up
    /// before it knows the date, and finds the clock of 1 January 1970.
    pub fn default_clock(self) -> ZoneClock {
        self.clock_at(0)
    }

    /// The local reading of an instant, as milliseconds.
    pub fn to_local(self, millis: i64) -> i64 {
        millis.saturating_add(self.offset_ms(millis))
    }

    /// The instant of a local reading. `clock` is the clock that the reading was taken from,
    /// which matters where there are two instants.
    ///
    /// A reading that does not exist is moved forward by the length of the gap. This is the
    /// rule of timelib 2021 (`timelib_update_ts`), found by comparing with mongod 6.0.5: the
    /// offset is looked up at the reading taken for UTC, then at the instant this gives, then,
    /// where both agree but the clocks do not, two hours on the side of the other clock.
    pub fn to_utc(self, local: i64, clock: ZoneClock) -> i64 {
        let offset = self.offset_ms(local);
        let instant = local.saturating_sub(offset);
        if self.is_fixed() {
            return instant;
        }
        let there = self.offset_ms(instant);
        if there < offset {
            return local.saturating_sub(there);
        }
        let other = if there > offset {
            there
        } else if offset >= 0 && clock == ZoneClock::Daylight && self.clock_at(local) != clock {
            self.offset_ms(instant.saturating_sub(CLOCK_REACH_MS))
        } else if offset <= 0 && clock == ZoneClock::Standard && self.clock_at(local) != clock {
            self.offset_ms(instant.saturating_add(CLOCK_REACH_MS))
        } else {
            offset
        };
        let other_instant = local.saturating_sub(other);
        if self.offset_ms(other_instant) == other {
            other_instant
        } else {
            instant
        }
    }

    /// Whether every day has 24 hours.
    pub fn is_fixed(self) -> bool {
        !matches!(self, Zone::Named(_))
    }
}

/// How far from a reading timelib looks for the other clock.
const CLOCK_REACH_MS: i64 = 2 * HOUR_MS;

fn offset_at(zone: Tz, millis: i64) -> TzOffset {
    let seconds = millis.div_euclid(SECOND_MS);
    let instant = chrono::DateTime::from_timestamp(seconds, 0).unwrap_or_default();
    zone.offset_from_utc_datetime(&instant.naive_utc())
}

/// Which of its two clocks a zone uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ZoneClock {
    /// The clock of winter.
    Standard,
    /// Daylight saving time.
    Daylight,
}

/// A unit of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Unit {
    Year,
    Quarter,
    Month,
    Week,
    Day,
    Hour,
    Minute,
    Second,
    Millisecond,
}

impl Unit {
    /// The unit of a name.
    pub fn parse(text: &str) -> Option<Self> {
        Some(match text {
            "year" => Unit::Year,
            "quarter" => Unit::Quarter,
            "month" => Unit::Month,
            "week" => Unit::Week,
            "day" => Unit::Day,
            "hour" => Unit::Hour,
            "minute" => Unit::Minute,
            "second" => Unit::Second,
            "millisecond" => Unit::Millisecond,
            _ => return None,
        })
    }

    /// Months of the unit, where it is made of months.
    pub fn months(self) -> Option<i64> {
        match self {
            Unit::Year => Some(12),
            Unit::Quarter => Some(3),
            Unit::Month => Some(1),
            _ => None,
        }
    }

    /// Milliseconds of the unit (of a month, the longest).
    pub fn millis(self) -> i64 {
        match self {
            Unit::Year => 366 * DAY_MS,
            Unit::Quarter => 92 * DAY_MS,
            Unit::Month => 31 * DAY_MS,
            Unit::Week => 7 * DAY_MS,
            Unit::Day => DAY_MS,
            Unit::Hour => HOUR_MS,
            Unit::Minute => MINUTE_MS,
            Unit::Second => SECOND_MS,
            Unit::Millisecond => 1,
        }
    }

    /// Whether the unit is counted in local days, months or years.
    pub fn is_calendar(self) -> bool {
        matches!(
            self,
            Unit::Year | Unit::Quarter | Unit::Month | Unit::Week | Unit::Day
        )
    }
}

/// The day a week begins on: 1 (Monday) to 7 (Sunday).
pub fn parse_day_of_week(text: &str) -> Option<i64> {
    const NAMES: [&str; 7] = [
        "monday",
        "tuesday",
        "wednesday",
        "thursday",
        "friday",
        "saturday",
        "sunday",
    ];
    let lower = text.to_ascii_lowercase();
    let place = NAMES
        .iter()
        .position(|name| *name == lower || name[..3] == lower)?;
    Some(place as i64 + 1)
}

/// Where `$dateTrunc` counts bins from: 2000-01-01, a Saturday.
pub(crate) const REFERENCE_DAYS: i64 = 10_957;

/// The start of the bin an instant lies in. `clock` is that of the bins' reference
/// ([`reference_clock`]): MongoDB moves the reference by whole days or months, as `$dateAdd`
/// would.
pub fn truncate(millis: i64, bins: &LocalBins, clock: ZoneClock) -> i64 {
    let LocalBins {
        unit,
        bin,
        zone,
        week_start,
    } = *bins;
    if let Some(unit_months) = unit.months() {
        let local = Civil::from_millis(zone.to_local(millis));
        let months = (local.year - 2000) * 12 + local.month - 1;
        let bin_months = unit_months.saturating_mul(bin);
        let start = months.div_euclid(bin_months) * bin_months;
        return zone.to_utc(days_from_civil(2000, 1 + start, 1) * DAY_MS, clock);
    }
    if unit.is_calendar() {
        let days = zone.to_local(millis).div_euclid(DAY_MS);
        let (reference, unit_days) = match unit {
            Unit::Week => (REFERENCE_DAYS + (week_start + 1) % 7, 7),
            _ => (REFERENCE_DAYS, 1),
        };
        let bin_days = bin.saturating_mul(unit_days);
        let start = (days - reference).div_euclid(bin_days) * bin_days + reference;
        return zone.to_utc(start * DAY_MS, clock);
    }
    let reference = reference(zone);
    let bin_millis = bin.saturating_mul(unit.millis());
    let start = (millis.saturating_sub(reference)).div_euclid(bin_millis) * bin_millis;
    start.saturating_add(reference)
}

/// The instant that bins are counted from.
fn reference(zone: Zone) -> i64 {
    zone.to_utc(REFERENCE_DAYS * DAY_MS, zone.default_clock())
}

/// The clock at the instant that bins are counted from.
pub fn reference_clock(zone: Zone) -> ZoneClock {
    zone.clock_at(reference(zone))
}

/// A date moved by an amount of a unit, in local time where the unit is a day or longer;
/// none where that overflows.
pub fn add(millis: i64, unit: Unit, amount: i64, zone: &Zone) -> Option<i64> {
    if !unit.is_calendar() {
        return millis.checked_add(amount.checked_mul(unit.millis())?);
    }
    let local = zone.to_local(millis);
    let moved = match unit.months() {
        None => local.checked_add(amount.checked_mul(unit.millis())?)?,
        Some(unit_months) => {
            let mut civil = Civil::from_millis(local);
            let months = (civil.year * 12 + civil.month - 1)
                .checked_add(amount.checked_mul(unit_months)?)?;
            civil.year = months.div_euclid(12);
            civil.month = months.rem_euclid(12) + 1;
            civil.day = civil.day.min(days_in_month(civil.year, civil.month));
            civil.to_millis()?
        }
    };
    Some(zone.to_utc(moved, zone.clock_at(millis)))
}

/// How many boundaries of a unit lie between two instants.
pub fn difference(start: i64, end: i64, unit: Unit, zone: &Zone, week_start: i64) -> Option<i64> {
    let (start_local, end_local) = (zone.to_local(start), zone.to_local(end));
    let months = |local: i64| {
        let civil = Civil::from_millis(local);
        civil.year * 12 + civil.month - 1
    };
    let count = |local: i64| match unit {
        Unit::Year | Unit::Quarter | Unit::Month => {
            months(local).div_euclid(unit.months().unwrap_or(1))
        }
        Unit::Day => local.div_euclid(DAY_MS),
        // Day 0 is a Thursday (4); weeks are counted from the first start of a week before.
        Unit::Week => (local.div_euclid(DAY_MS) + 4 - week_start).div_euclid(7),
        _ => 0,
    };
    // By how much the clocks were set back in between, in whole units: MongoDB counts hours and
    // minutes by the clocks, then corrects what their change made or took.
    let set_back = |unit_ms: i64| (zone.offset_ms(start) - zone.offset_ms(end)) / unit_ms;
    match unit {
        Unit::Millisecond => end.checked_sub(start),
        Unit::Second => Some(end.div_euclid(SECOND_MS) - start.div_euclid(SECOND_MS)),
        Unit::Hour | Unit::Minute => {
            let unit_ms = unit.millis();
            let by_clocks = end_local.div_euclid(unit_ms) - start_local.div_euclid(unit_ms);
            Some(by_clocks + set_back(unit_ms))
        }
        _ => Some(count(end_local) - count(start_local)),
    }
}
