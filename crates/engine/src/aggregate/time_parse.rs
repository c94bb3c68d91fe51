//! Texts as dates: `$dateFromString` with and without a format, `$toDate`.
//!
//! Without a format MongoDB hands the text to timelib, which reads almost anything. Here
//! the forms people store are read: ISO 8601 in all its spellings, `2017/02/08`,
//! `02/08/2017`, `20170208`, ISO week dates, `Feb 8 2017`, `8 Feb 2017`, `July 4th, 2017`,
//! C's `Mon May  6 07:08:09 2019`, `@seconds`, each with an optional time and zone.
//! Anything else is an error.

use super::time::{DAY_MS, SECOND_MS, Zone, days_from_civil, days_from_iso_week, days_in_month};
use super::time_text::{MONTHS, invalid_specifier, unmatched};
use crate::error::{Code, Error, Result};

/// What was read out of a text.
#[derive(Default)]
struct Parts {
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
    zone: Option<(Zone, &'static str)>,
    /// The text is a count of milliseconds since 1970.
    instant: Option<i64>,
    /// Nothing but words that need a clock (`now`, `tomorrow`, a weekday).
    relative: bool,
}

/// A text as milliseconds since 1970.
///
/// # Errors
/// `ConversionFailure`, with MongoDB's words where they can be told.
pub fn parse(text: &str, zone: Option<&Zone>, format: Option<&str>) -> Result<i64> {
    let mut cursor = Cursor { text, at: 0 };
    if text.is_empty() {
        return Err(parse_error(text, 0, "Empty string", '\0'));
    }
    let parts = match format {
        Some(format) => with_format(&mut cursor, format)?,
        None => free_form(&mut cursor)?,
    };
    resolve(text, parts, zone, format.is_some())
}

fn parse_error(text: &str, at: usize, reason: &str, found: char) -> Error {
    Error::new(
        Code::ConversionFailure,
        format!("Error parsing date string '{text}'; {at}: {reason} '{found}'"),
    )
}

/// `formatted`: whether a format was given, by which timelib counts positions otherwise.
fn resolve(text: &str, parts: Parts, zone: Option<&Zone>, formatted: bool) -> Result<i64> {
    if let Some((_, kind)) = parts.zone.filter(|_| zone.is_some()) {
        return Err(Error::new(
            Code::ConversionFailure,
            format!(
                "you cannot pass in a date/time string with {kind} together with a timezone \
                 argument"
            ),
        ));
    }
    if let Some(instant) = parts.instant {
        return Ok(instant);
    }
    let incomplete = || {
        Error::new(
            Code::ConversionFailure,
            format!(
                "an incomplete date/time string has been found, with elements missing: \"{text}\""
            ),
        )
    };
    if parts.relative {
        return Err(incomplete());
    }
    let end = text.len() + usize::from(!formatted);
    let invalid = || parse_error(text, end, "The parsed date was invalid", '\0');
    let days = match (parts.year, parts.iso_year) {
        (Some(year), _) => {
            let month = parts.month.ok_or_else(incomplete)?;
            let day = parts.day.ok_or_else(incomplete)?;
            if !(1..=12).contains(&month) || !(1..=days_in_month(year, month)).contains(&day) {
                return Err(invalid());
            }
            days_from_civil(year, month, day)
        }
        (None, Some(year)) => days_from_iso_week(
            year,
            parts.iso_week.unwrap_or(1),
            parts.iso_day.unwrap_or(1),
        ),
        (None, None) => return Err(incomplete()),
    };
    if parts.hour > 23 || parts.minute > 59 || parts.second > 59 {
        return Err(parse_error(text, end, "The parsed time was invalid", '\0'));
    }
    let local = days * DAY_MS
        + parts.hour * 3_600_000
        + parts.minute * 60_000
        + parts.second * SECOND_MS
        + parts.millisecond;
    let zone = parts
        .zone
        .map(|(zone, _)| zone)
        .or(zone.copied())
        .unwrap_or(Zone::Utc);
    Ok(zone.to_utc(local, zone.default_clock()))
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

    fn eat_any(&mut self, wanted: &[char]) -> bool {
        match self.peek() {
            Some(next) if wanted.contains(&next) => {
                self.at += next.len_utf8();
                true
            }
            _ => false,
        }
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

    fn exact(&mut self, digits: usize) -> Option<i64> {
        let start = self.at;
        match self.number(digits) {
            Some((value, found)) if found == digits => Some(value),
            _ => {
                self.at = start;
                None
            }
        }
    }

    fn word(&mut self) -> &'t str {
        let rest = self.rest();
        let end = rest
            .find(|c: char| !c.is_alphabetic())
            .unwrap_or(rest.len());
        self.at += end;
        &rest[..end]
    }

    fn spaces(&mut self) {
        while self.eat_any(&[' ', '\t']) {}
    }

    fn error(&self, reason: &str) -> Error {
        parse_error(self.text, self.at, reason, self.peek().unwrap_or('\0'))
    }
}

/// The fraction of a second, in milliseconds.
fn fraction(cursor: &mut Cursor<'_>) -> Option<i64> {
    let digits = cursor.rest().bytes().take_while(u8::is_ascii_digit).count();
    if digits == 0 {
        return None;
    }
    let kept = &cursor.rest()[..digits.min(3)];
    let value: i64 = kept.parse().ok()?;
    cursor.at += digits;
    Some(value * 10_i64.pow(3 - kept.len() as u32))
}

fn with_format(cursor: &mut Cursor<'_>, format: &str) -> Result<Parts> {
    let mut parts = Parts::default();
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
            'M' => parts.minute = number(2, "two digit minute")?,
            'S' => parts.second = number(2, "two digit second")?,
            'L' => {
                parts.millisecond = fraction(cursor)
                    .ok_or_else(|| cursor.error("A three digit millisecond could not be found"))?;
            }
            'G' => parts.iso_year = Some(number(4, "four digit ISO year")?),
            'V' => parts.iso_week = Some(number(2, "two digit ISO week")?),
            'u' => parts.iso_day = Some(number(1, "one digit ISO day of week")?),
            'z' => parts.zone = Some(zone_in_text(cursor)?),
            'Z' => parts.zone = Some((minutes_offset(cursor)?, "GMT offset")),
            other => return Err(invalid_specifier(other)),
        }
    }
    if cursor.at < cursor.text.len() {
        return Err(cursor.error("Trailing data"));
    }
    Ok(parts)
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

/// Abbreviations that are read inside a text, with their hours east of UTC.
const ABBREVIATIONS: [(&str, i64); 16] = [
    ("utc", 0),
    ("gmt", 0),
    ("z", 0),
    ("wet", 0),
    ("cet", 1),
    ("cest", 2),
    ("bst", 1),
    ("eet", 2),
    ("eest", 3),
    ("est", -5),
    ("edt", -4),
    ("cst", -6),
    ("cdt", -5),
    ("mst", -7),
    ("mdt", -6),
    ("pst", -8),
];

fn zone_in_text(cursor: &mut Cursor<'_>) -> Result<(Zone, &'static str)> {
    let start = cursor.at;
    if matches!(cursor.peek(), Some('+' | '-')) {
        let sign = if cursor.eat("-") {
            -1
        } else {
            i64::from(cursor.eat("+"))
        };
        let Some((hours, digits)) = cursor.number(4) else {
            return Err(cursor.error("The timezone could not be found in the database"));
        };
        let seconds = match digits {
            3 | 4 => hours / 100 * 3600 + hours % 100 * 60,
            _ => {
                let minutes = if cursor.eat(":") {
                    cursor.exact(2).unwrap_or(0)
                } else {
                    0
                };
                hours * 3600 + minutes * 60
            }
        };
        return Ok((Zone::Offset(sign * seconds), "GMT offset"));
    }
    let word = cursor.word().to_ascii_lowercase();
    if word == "pdt" {
        return Ok((Zone::Offset(-7 * 3600), "time zone information ('PDT')"));
    }
    match ABBREVIATIONS.iter().find(|(name, _)| *name == word) {
        Some((name, hours)) => {
            let kind = match *name {
                "z" => "time zone information ('Z')",
                "utc" => "time zone information ('UTC')",
                _ => "time zone information",
            };
            Ok((Zone::Offset(hours * 3600), kind))
        }
        None => {
            cursor.at = start;
            Err(cursor.error("passing a time zone identifier as part of the string is not allowed"))
        }
    }
}

const DAYS: [&str; 7] = [
    "monday",
    "tuesday",
    "wednesday",
    "thursday",
    "friday",
    "saturday",
    "sunday",
];

fn month_of(word: &str) -> Option<i64> {
    let lower = word.to_ascii_lowercase();
    if lower == "sept" {
        return Some(9);
    }
    let long_enough = lower.len() >= 3;
    let place = MONTHS
        .iter()
        .position(|month| *month == lower || (long_enough && month[..3] == lower))?;
    Some(place as i64 + 1)
}

fn is_day_name(word: &str) -> bool {
    let lower = word.to_ascii_lowercase();
    DAYS.iter().any(|day| *day == lower || day[..3] == lower)
}

fn free_form(cursor: &mut Cursor<'_>) -> Result<Parts> {
    let mut parts = Parts::default();
    cursor.spaces();
    if cursor.eat("@") {
        let sign = if cursor.eat("-") { -1 } else { 1 };
        let (seconds, _) = cursor
            .number(18)
            .ok_or_else(|| cursor.error("Unexpected character"))?;
        parts.instant = Some(sign * seconds * SECOND_MS);
        parts.zone = Some((Zone::Utc, "GMT offset"));
    } else {
        date(cursor, &mut parts)?;
        cursor.spaces();
        // Between a date and its time.
        if cursor.rest().starts_with(['T', 't'])
            && cursor.rest()[1..].starts_with(|c: char| c.is_ascii_digit())
        {
            cursor.at += 1;
        }
        time_of_day(cursor, &mut parts)?;
        cursor.spaces();
        if cursor.peek().is_some() {
            parts.zone = Some(zone_in_text(cursor)?);
        }
    }
    cursor.spaces();
    if cursor.at < cursor.text.len() {
        return Err(cursor.error("Unexpected character"));
    }
    Ok(parts)
}

fn date(cursor: &mut Cursor<'_>, parts: &mut Parts) -> Result<()> {
    let start = cursor.at;
    if cursor.peek().is_some_and(char::is_alphabetic) {
        return worded_date(cursor, parts, start);
    }
    if iso_week_date(cursor, parts) || numeric_date(cursor, parts) {
        return Ok(());
    }
    cursor.at = start;
    if let Some((day, _)) = cursor.number(2) {
        ordinal_suffix(cursor);
        cursor.eat_any(&[' ', '-', '.']);
        let word_at = cursor.at;
        if let Some(month) = month_of(cursor.word()) {
            cursor.eat_any(&[',']);
            cursor.eat_any(&[' ', '-', '.']);
            if let Some(year) = cursor.exact(4) {
                (parts.year, parts.month, parts.day) = (Some(year), Some(month), Some(day));
                return Ok(());
            }
        }
        cursor.at = word_at;
    }
    // A time of day alone, or a year alone: complete for timelib, not for MongoDB.
    cursor.at = start;
    if cursor.exact(4).is_some() && cursor.at == cursor.text.len() {
        parts.relative = true;
        return Ok(());
    }
    cursor.at = start;
    Ok(())
}

fn ordinal_suffix(cursor: &mut Cursor<'_>) {
    for suffix in ["st", "nd", "rd", "th"] {
        if cursor.eat(suffix) {
            return;
        }
    }
}

/// `Feb 8 2017`, `July 4th, 2017`, `Friday, 8 February 2017`; words that need a clock.
fn worded_date(cursor: &mut Cursor<'_>, parts: &mut Parts, start: usize) -> Result<()> {
    let word = cursor.word();
    if is_day_name(word) {
        cursor.eat_any(&[',']);
        cursor.spaces();
        if cursor.peek().is_none() {
            parts.relative = true;
            return Ok(());
        }
        return date(cursor, parts);
    }
    if matches!(
        word,
        "now" | "today" | "tomorrow" | "yesterday" | "midnight" | "noon"
    ) {
        parts.relative = true;
        return Ok(());
    }
    if let Some(month) = month_of(word) {
        cursor.eat_any(&['.']);
        cursor.eat_any(&[' ', '-']);
        cursor.spaces();
        if let Some(year) = cursor.exact(4) {
            (parts.year, parts.month, parts.day) = (Some(year), Some(month), Some(1));
            return Ok(());
        }
        if let Some((day, _)) = cursor.number(2) {
            ordinal_suffix(cursor);
            cursor.eat_any(&[',']);
            cursor.eat_any(&[' ', '-']);
            let after_day = cursor.at;
            let mut year = cursor.exact(4);
            if year.is_none() {
                // `May  6 07:08:09 2019`, as C writes the time.
                cursor.at = after_day;
                time_of_day(cursor, parts)?;
                cursor.spaces();
                year = cursor.exact(4);
            }
            if year.is_some() {
                (parts.year, parts.month, parts.day) = (year, Some(month), Some(day));
                return Ok(());
            }
        }
    }
    cursor.at = start;
    Err(cursor.error("passing a time zone identifier as part of the string is not allowed"))
}

fn iso_week_date(cursor: &mut Cursor<'_>, parts: &mut Parts) -> bool {
    let start = cursor.at;
    if let Some(year) = cursor.exact(4) {
        cursor.eat("-");
        if cursor.eat("W")
            && let Some(week) = cursor.exact(2)
        {
            cursor.eat("-");
            let day = cursor.exact(1);
            (parts.iso_year, parts.iso_week, parts.iso_day) = (Some(year), Some(week), day);
            return true;
        }
    }
    cursor.at = start;
    false
}

/// `2017-02-08`, `2017/02/08`, `2017-02`, `20170208`, `02/08/2017`.
fn numeric_date(cursor: &mut Cursor<'_>, parts: &mut Parts) -> bool {
    let start = cursor.at;
    let set = |parts: &mut Parts, year, month, day| {
        (parts.year, parts.month, parts.day) = (Some(year), Some(month), Some(day));
        true
    };
    let digits = cursor.rest().bytes().take_while(u8::is_ascii_digit).count();
    if (digits == 8 || digits == 14)
        && let (Some(year), Some(month), Some(day)) =
            (cursor.exact(4), cursor.exact(2), cursor.exact(2))
    {
        return set(parts, year, month, day);
    }
    cursor.at = start;
    if let Some(year) = cursor.exact(4) {
        let separator = cursor.peek();
        if cursor.eat_any(&['-', '/'])
            && let Some((month, _)) = cursor.number(2)
        {
            let day_follows = cursor.peek() == separator;
            // `2017-039`, a day of the year to people, is no date to timelib.
            if cursor.peek().is_some_and(|next| next.is_ascii_digit()) {
                while cursor.eat_any(&['0', '1', '2', '3', '4', '5', '6', '7', '8', '9']) {}
                return set(parts, year, 0, 0);
            }
            if !day_follows && separator == Some('-') {
                return set(parts, year, month, 1);
            }
            if day_follows {
                cursor.at += 1;
                if let Some((day, _)) = cursor.number(2) {
                    return set(parts, year, month, day);
                }
            }
        }
    }
    cursor.at = start;
    if let Some((month, _)) = cursor.number(2)
        && cursor.eat("/")
        && let Some((day, _)) = cursor.number(2)
        && cursor.eat("/")
        && let Some(year) = cursor.exact(4)
    {
        return set(parts, year, month, day);
    }
    cursor.at = start;
    // `08-02-2017` and `8.2.2017` begin with the day.
    if let Some((day, _)) = cursor.number(2) {
        let separator = cursor.peek();
        if cursor.eat_any(&['-', '.'])
            && let Some((month, _)) = cursor.number(2)
            && cursor.peek() == separator
        {
            cursor.at += 1;
            if let Some(year) = cursor.exact(4) {
                return set(parts, year, month, day);
            }
            if let (Some('-'), Some((last, _))) = (separator, cursor.number(2)) {
                // `19-5-6` begins with the year.
                let century = if day < 70 { 2000 } else { 1900 };
                return set(parts, century + day, month, last);
            }
        }
    }
    cursor.at = start;
    false
}

fn time_of_day(cursor: &mut Cursor<'_>, parts: &mut Parts) -> Result<()> {
    let Some((hour, digits)) = cursor.number(2) else {
        return Ok(());
    };
    parts.hour = hour;
    let colon = cursor.eat(":");
    if colon || (digits == 2 && cursor.peek().is_some_and(|c| c.is_ascii_digit())) {
        let (minute, _) = cursor
            .number(2)
            .ok_or_else(|| cursor.error("Unexpected character"))?;
        parts.minute = minute;
        let more = if colon {
            cursor.eat(":")
        } else {
            cursor.peek().is_some_and(|c| c.is_ascii_digit())
        };
        if more {
            let (second, _) = cursor
                .number(2)
                .ok_or_else(|| cursor.error("Unexpected character"))?;
            parts.second = second;
            if cursor.eat_any(&['.', ',']) {
                parts.millisecond =
                    fraction(cursor).ok_or_else(|| cursor.error("Unexpected character"))?;
            }
        }
    }
    let before = cursor.at;
    cursor.spaces();
    match cursor.word().to_ascii_lowercase().as_str() {
        "am" => parts.hour %= 12,
        "pm" => parts.hour = parts.hour % 12 + 12,
        _ => cursor.at = before,
    }
    Ok(())
}
