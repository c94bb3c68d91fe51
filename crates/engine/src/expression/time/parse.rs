//! Texts as dates: `$dateFromString` with and without a format, `$toDate`.
//!
//! Without a format MongoDB hands the text to timelib, which reads almost anything: that is in
//! `time_scan`. What is stored most (ISO 8601 in full) is read here, without it.

use super::abbreviations::{UNKNOWN_ZONE, zone_at};
use super::scan::{self, TEXT_BYTES_MAX};
use super::text::{invalid_specifier, unmatched};
use super::{Civil, SECOND_MS, Zone, days_from_iso_week, days_in_month};
use super::{DAY_MS, HOUR_MS, MINUTE_MS, days_from_civil};
use crate::error::{Code, Error, Result};

/// What was read out of a text by a format.
#[derive(Default)]
struct TimeParts {
    year: Option<i64>,
    month: Option<i64>,
    day: Option<i64>,
    iso_year: Option<i64>,
    iso_week: Option<i64>,
    iso_day: Option<i64>,
    hour: i64,
    minute: i64,
    second: i64,
    millisecond: i64,
    /// The zone in the text, and how MongoDB calls its kind.
    zone: Option<(Zone, String)>,
}

/// A text as milliseconds since 1970.
///
/// # Errors
/// `ConversionFailure`, with MongoDB's words; `DurationOverflow` for dates beyond what MongoDB
/// computes with.
pub fn parse(text: &str, zone: Option<&Zone>, format: Option<&str>) -> Result<i64> {
    if text.is_empty() {
        return Err(parse_error(text, 0, "Empty string", '\0'));
    }
    match format {
        Some(format) => {
            let parts = with_format(&mut Cursor { text, at: 0 }, format)?;
            resolve(text, parts, zone)
        }
        None => match iso(text) {
            Some((local, None)) => Ok(instant(local, zone.copied().unwrap_or(Zone::Utc))),
            Some((local, Some(given))) if zone.is_none() => Ok(instant(local, given)),
            _ => free_form(text, zone),
        },
    }
}

fn instant(local: i64, zone: Zone) -> i64 {
    zone.to_utc(local, zone.default_clock())
}

/// `2017-02-08T12:10:40.787Z` and the same with a blank, without the fraction, without the zone or
/// with `+01:00`, `+0100`: the local time and the zone. None for whatever else, right or wrong.
fn iso(text: &str) -> Option<(i64, Option<Zone>)> {
    let bytes = text.as_bytes();
    let number = |range: std::ops::Range<usize>| {
        let digits = bytes.get(range)?;
        digits.iter().try_fold(0, |sum, digit| {
            let digit = digit.is_ascii_digit().then(|| i64::from(digit - b'0'))?;
            Some(sum * 10 + digit)
        })
    };
    let is = |at: usize, byte: u8| bytes.get(at) == Some(&byte);
    let separated = is(4, b'-') && is(7, b'-') && is(13, b':') && is(16, b':');
    if !separated || !(is(10, b'T') || is(10, b' ')) {
        return None;
    }
    let mut civil = Civil {
        year: number(0..4)?,
        month: number(5..7)?,
        day: number(8..10)?,
        hour: number(11..13)?,
        minute: number(14..16)?,
        second: number(17..19)?,
        millisecond: 0,
    };
    let valid = (1..=12).contains(&civil.month)
        && (1..=days_in_month(civil.year, civil.month)).contains(&civil.day)
        && civil.hour < 24
        && civil.minute < 60
        && civil.second < 60;
    if !valid {
        return None;
    }
    let mut at = 19;
    if is(at, b'.') && number(20..23).is_some() {
        civil.millisecond = number(20..23)?;
        at = 23;
    }
    let zone = match &bytes[at..] {
        [] => None,
        b"Z" => Some(Zone::Utc),
        [sign @ (b'+' | b'-'), hours @ ..] if hours.len() == 4 || is(at + 3, b':') => {
            let minutes_at = if hours.len() == 4 { at + 3 } else { at + 4 };
            if minutes_at + 2 != bytes.len() {
                return None;
            }
            let (hours, minutes) = (number(at + 1..at + 3)?, number(minutes_at..minutes_at + 2)?);
            if hours > 24 || minutes > 59 {
                return None;
            }
            let east = if *sign == b'-' { -1 } else { 1 };
            Some(Zone::Offset(east * (hours * 3600 + minutes * 60)))
        }
        _ => return None,
    };
    Some((civil.to_millis()?, zone))
}

fn free_form(text: &str, zone: Option<&Zone>) -> Result<i64> {
    if text.trim_ascii().len() > TEXT_BYTES_MAX {
        return Err(Error::new(
            Code::ConversionFailure,
            format!("Error parsing date string; it is longer than {TEXT_BYTES_MAX} bytes"),
        ));
    }
    let reading = scan::scan(text);
    let complaints = reading.complaints();
    if !complaints.is_empty() {
        return Err(Error::new(
            Code::ConversionFailure,
            format!("Error parsing date string '{text}'{complaints}"),
        ));
    }
    refuse_two_zones(reading.zone(), zone)?;
    if !reading.is_complete() {
        return Err(incomplete(text));
    }
    let local = reading.local().ok_or_else(|| {
        Error::new(
            Code::DurationOverflow,
            "Overflow casting from a lower-precision duration to a higher-precision duration",
        )
    })?;
    let given = reading.zone().map(|(zone, _)| *zone);
    Ok(instant(local, given.or(zone.copied()).unwrap_or(Zone::Utc)))
}

fn parse_error(text: &str, at: usize, reason: &str, found: char) -> Error {
    Error::new(
        Code::ConversionFailure,
        format!("Error parsing date string '{text}'; {at}: {reason} '{found}'"),
    )
}

fn incomplete(text: &str) -> Error {
    Error::new(
        Code::ConversionFailure,
        format!("an incomplete date/time string has been found, with elements missing: \"{text}\""),
    )
}

fn refuse_two_zones(in_text: Option<&(Zone, String)>, argument: Option<&Zone>) -> Result<()> {
    match (in_text, argument) {
        (Some((_, kind)), Some(_)) => Err(Error::new(
            Code::ConversionFailure,
            format!(
                "you cannot pass in a date/time string with {kind} together with a timezone \
                 argument"
            ),
        )),
        _ => Ok(()),
    }
}

fn resolve(text: &str, parts: TimeParts, zone: Option<&Zone>) -> Result<i64> {
    refuse_two_zones(parts.zone.as_ref(), zone)?;
    let invalid = |reason| parse_error(text, text.len(), reason, '\0');
    let days = match (parts.year, parts.iso_year) {
        (Some(year), _) => {
            let month = parts.month.ok_or_else(|| incomplete(text))?;
            let day = parts.day.ok_or_else(|| incomplete(text))?;
            if !(1..=12).contains(&month) || !(1..=days_in_month(year, month)).contains(&day) {
                return Err(invalid("The parsed date was invalid"));
            }
            days_from_civil(year, month, day)
        }
        (None, Some(year)) => days_from_iso_week(
            year,
            parts.iso_week.unwrap_or(1),
            parts.iso_day.unwrap_or(1),
        ),
        (None, None) => return Err(incomplete(text)),
    };
    if parts.hour > 23 || parts.minute > 59 || parts.second > 59 {
        return Err(invalid("The parsed time was invalid"));
    }
    let local = days * DAY_MS
        + parts.hour * HOUR_MS
        + parts.minute * MINUTE_MS
        + parts.second * SECOND_MS
        + parts.millisecond;
    let given = parts.zone.map(|(zone, _)| zone);
    Ok(instant(local, given.or(zone.copied()).unwrap_or(Zone::Utc)))
}

struct Cursor<'t> {
    text: &'t str,
    at: usize,
}

impl<'t> Cursor<'t> {
    fn rest(&self) -> &'t str {
        &self.text[self.at..]
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn eat(&mut self, wanted: &str) -> bool {
        let found = self.rest().starts_with(wanted);
        if found {
            self.at += wanted.len();
        }
        found
    }

    /// A number of at most so many digits, and how many it had.
    fn number(&mut self, digits_max: usize) -> Option<(i64, usize)> {
        let digits = self
            .rest()
            .bytes()
            .take(digits_max)
            .take_while(u8::is_ascii_digit)
            .count();
        let value = self.rest()[..digits].parse().ok()?;
        self.at += digits;
        Some((value, digits))
    }

    fn error(&self, reason: &str) -> Error {
        parse_error(self.text, self.at, reason, self.peek().unwrap_or('\0'))
    }
}

/// Refuses a format with specifiers that there are not.
fn check_format(format: &str) -> Result<()> {
    let mut characters = format.chars();
    while let Some(character) = characters.next() {
        match (character, characters.clone().next()) {
            ('%', None) => return Err(unmatched()),
            ('%', Some(specifier)) if !"%YmdHMSLGVuzZ".contains(specifier) => {
                return Err(invalid_specifier(specifier));
            }
            ('%', Some(_)) => _ = characters.next(),
            _ => {}
        }
    }
    Ok(())
}

fn with_format(cursor: &mut Cursor<'_>, format: &str) -> Result<TimeParts> {
    check_format(format)?;
    let mut parts = TimeParts::default();
    let mut specifiers = format.chars();
    while let Some(character) = specifiers.next() {
        if character != '%' {
            let mut buffer = [0; 4];
            if !cursor.eat(character.encode_utf8(&mut buffer)) {
                return Err(cursor.error("Format literal not found"));
            }
            continue;
        }
        let Some(specifier) = specifiers.next() else {
            return Err(unmatched());
        };
        let mut number = |digits_max: usize, what: &str| {
            cursor
                .number(digits_max)
                .map(|(value, _)| value)
                .ok_or_else(|| cursor.error(&format!("A {what} could not be found")))
        };
        match specifier {
            '%' => {
                if !cursor.eat("%") {
                    return Err(cursor.error("Format literal not found"));
                }
            }
            'Y' => parts.year = Some(number(4, "four digit year")?),
            'm' => parts.month = Some(number(2, "two digit month")?),
            'd' => parts.day = Some(number(2, "two digit day")?),
            'H' => parts.hour = number(2, "two digit hour")?,
            'M' => parts.minute = two_digits(cursor, "minute")?,
            'S' => parts.second = two_digits(cursor, "second")?,
            'L' => {
                let (value, digits) = cursor
                    .number(3)
                    .ok_or_else(|| cursor.error("A three digit millisecond could not be found"))?;
                parts.millisecond = value * 10_i64.pow(3 - digits as u32);
            }
            'G' => parts.iso_year = Some(number(4, "four digit ISO year")?),
            'V' => parts.iso_week = Some(number(2, "two digit ISO week")?),
            'u' => parts.iso_day = Some(number(1, "one digit ISO day of week")?),
            'z' => parts.zone = Some(zone_in_text(cursor)?),
            'Z' => parts.zone = Some((minutes_offset(cursor)?, "GMT offset".to_owned())),
            other => return Err(invalid_specifier(other)),
        }
    }
    if cursor.at < cursor.text.len() {
        return Err(cursor.error("Trailing data"));
    }
    Ok(parts)
}

fn two_digits(cursor: &mut Cursor<'_>, what: &str) -> Result<i64> {
    let start = cursor.at;
    match cursor.number(2) {
        Some((value, 2)) => Ok(value),
        _ => {
            cursor.at = start;
            Err(cursor.error(&format!("A two digit {what} could not be found")))
        }
    }
}

fn minutes_offset(cursor: &mut Cursor<'_>) -> Result<Zone> {
    let sign = if cursor.eat("-") {
        -1
    } else if cursor.eat("+") {
        1
    } else {
        return Err(cursor.error("Invalid timezone offset in minutes"));
    };
    let minutes = cursor
        .number(4)
        .ok_or_else(|| cursor.error("Invalid timezone offset in minutes"))?;
    Ok(Zone::Offset(sign * minutes.0 * 60))
}

fn zone_in_text(cursor: &mut Cursor<'_>) -> Result<(Zone, String)> {
    let (length, zone) = zone_at(cursor.rest().as_bytes());
    let zone = zone.ok_or_else(|| cursor.error(UNKNOWN_ZONE))?;
    cursor.at += length;
    Ok(zone)
}
