//! Dates as text: `$dateToString`'s formats. Reading them back is in `time_parse`.

use super::{Civil, Zone};
use crate::error::{Error, Result};
use std::fmt::Write;

/// A date in a format of `%` specifiers.
///
/// # Errors
/// 18535 and 18536 for a bad format, 18537 for a year beyond 9999.
pub fn format(millis: i64, format: &str, zone: &Zone) -> Result<String> {
    let civil = Civil::from_millis(zone.to_local(millis));
    let mut out = String::with_capacity(format.len() + 16);
    let mut characters = format.chars();
    while let Some(character) = characters.next() {
        if character != '%' {
            out.push(character);
            continue;
        }
        let Some(specifier) = characters.next() else {
            return Err(unmatched());
        };
        let _ = match specifier {
            '%' => write!(out, "%"),
            'Y' => write!(out, "{:04}", year_in_range(civil.year)?),
            'm' => write!(out, "{:02}", civil.month),
            'd' => write!(out, "{:02}", civil.day),
            'H' => write!(out, "{:02}", civil.hour),
            'M' => write!(out, "{:02}", civil.minute),
            'S' => write!(out, "{:02}", civil.second),
            'L' => write!(out, "{:03}", civil.millisecond),
            'j' => write!(out, "{:03}", civil.day_of_year()),
            'w' => write!(out, "{}", civil.day_of_week()),
            'u' => write!(out, "{}", civil.iso_day_of_week()),
            'U' => write!(out, "{:02}", civil.week()),
            'V' => write!(out, "{:02}", civil.iso_week().1),
            'G' => write!(out, "{:04}", year_in_range(civil.iso_week().0)?),
            'z' => write!(out, "{}", offset_text(zone.offset_ms(millis))),
            'Z' => write!(out, "{}", zone.offset_ms(millis) / 60_000),
            other => return Err(invalid_specifier(other)),
        };
    }
    Ok(out)
}

fn year_in_range(year: i64) -> Result<i64> {
    if (0..=9999).contains(&year) {
        return Ok(year);
    }
    Err(Error::location(
        18537,
        format!("$dateToString is only defined on year 0-9999, tried to use year {year}"),
    ))
}

fn offset_text(offset_ms: i64) -> String {
    let minutes = (offset_ms / 60_000).abs();
    let sign = if offset_ms < 0 { '-' } else { '+' };
    format!("{sign}{:02}{:02}", minutes / 60, minutes % 60)
}

/// The error for a format that ends in `%`.
pub fn unmatched() -> Error {
    Error::location(18535, "Unmatched '%' at end of format string")
}

/// The error for a specifier that is none.
pub fn invalid_specifier(specifier: char) -> Error {
    Error::location(
        18536,
        format!("Invalid format character '%{specifier}' in format string"),
    )
}

/// A timestamp as `$toUpper` and its like write it: `Jan  1 00:00:01:5`.
pub fn clock(millis: i64, increment: u32) -> String {
    let civil = Civil::from_millis(millis);
    let month = MONTHS[(civil.month - 1) as usize];
    format!(
        "{}{} {:2} {:02}:{:02}:{:02}:{increment}",
        month[..1].to_ascii_uppercase(),
        &month[1..3],
        civil.day,
        civil.hour,
        civil.minute,
        civil.second
    )
}

/// The names of the months, as `$dateFromString` reads them.
pub const MONTHS: [&str; 12] = [
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
];
