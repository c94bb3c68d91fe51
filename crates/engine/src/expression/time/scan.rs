//! Dates in free text, read as timelib reads them, which MongoDB uses (`$dateFromString` without a
//! format, `$toDate`).
//!
//! In: a text. Out: what it says ([`ReadTime`]): a date, a time, a zone, and steps from there
//! (`+1 day`, `next monday`), or MongoDB's list of what is wrong with it. The text is cut into
//! tokens; at each place the longest token of the table in `time_tokens` is taken, the first of equal
//! ones. The rules are those of timelib's documentation ("Supported Date and Time Formats" of PHP,
//! which uses the same library), its manners where the documentation is silent were found by
//! asking mongod 6.0.5.

use super::steps::{MonthEdge, Steps, Weekday, WithinMonth, count_of, weekday_of, workdays};
use super::tokens::{Token, TokenRule, longest, month_of};
use super::{DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS, Zone};
use super::{civil_from_days, days_from_civil, days_from_iso_week, days_in_month};
use std::fmt::Write;

/// No text longer than this is read: the longest that is stored as a date (a date as JavaScript
/// writes it, with the zone's name) has some 70 bytes. It also bounds the work, which is quadratic
/// for runs of blanks, and the length of the list of complaints.
pub const TEXT_BYTES_MAX: usize = 256;

/// A part that was not given where timelib computes with it nevertheless: the microseconds after
/// `1413`, the year of `29 Feb`.
const UNSET: i64 = -99_999;

/// What a text says.
#[derive(Debug, Default)]
pub struct ReadTime {
    year: Option<i64>,
    month: Option<i64>,
    day: Option<i64>,
    /// Hour, minute, second.
    time: Option<(i64, i64, i64)>,
    micros: Option<i64>,
    /// How many times of day were read; a second one of four digits is a year.
    times: u32,
    has_date: bool,
    /// The zone, and how MongoDB calls its kind.
    zone: Option<(Zone, String)>,
    zones: u32,
    steps: Steps,
    /// What is wrong, and what is only suspicious: MongoDB refuses both, and lists errors first.
    errors: String,
    warnings: String,
}

/// Reads a text of at most [`TEXT_BYTES_MAX`] bytes.
pub fn scan(text: &str) -> ReadTime {
    let trimmed = text.trim_matches([' ', '\t', '\n', '\r', '\x0b', '\x0c']);
    // timelib ends a text with NUL, which some tokens include.
    let mut bytes = trimmed.as_bytes().to_vec();
    bytes.push(0);
    let mut reading = ReadTime::default();
    let mut at = 0;
    while at < bytes.len() {
        let here = TokenStart {
            at,
            character: bytes[at],
        };
        let length = match longest(&bytes[at..]) {
            Some((rule, length)) => {
                let token = Token::new(&bytes[at..at + length]);
                if let Err(reason) = reading.take(rule, token, &here) {
                    here.complain(&mut reading.errors, reason);
                }
                length
            }
            None => {
                here.complain(&mut reading.errors, "Unexpected character");
                1
            }
        };
        at += length;
    }
    reading.check(trimmed.len() + 1);
    reading
}

/// Where a token begins.
struct TokenStart {
    at: usize,
    character: u8,
}

impl TokenStart {
    fn complain(&self, list: &mut String, reason: &str) {
        let shown = match self.character {
            byte if byte.is_ascii() => char::from(byte),
            _ => char::REPLACEMENT_CHARACTER,
        };
        let _ = write!(list, "; {}: {reason} '{shown}'", self.at);
    }
}

/// The second of two times, dates or zones.
type Refusal = &'static str;

impl ReadTime {
    fn take(
        &mut self,
        rule: TokenRule,
        mut token: Token<'_>,
        here: &TokenStart,
    ) -> Result<(), Refusal> {
        match rule {
            TokenRule::Blank | TokenRule::Now => {}
            TokenRule::Yesterday | TokenRule::Tomorrow | TokenRule::Noon | TokenRule::Midnight => {
                self.day_word(rule);
            }
            TokenRule::Timestamp => return self.timestamp(&mut token, here),
            TokenRule::EdgeOfMonth
            | TokenRule::WeekdayOf
            | TokenRule::Ago
            | TokenRule::WeekdayName => {
                self.step_word(rule, &mut token);
            }
            TokenRule::RelativeWeek | TokenRule::RelativeWord | TokenRule::RelativeNumber => {
                self.relative(rule, &mut token);
            }
            TokenRule::QuarterHour
            | TokenRule::Time12
            | TokenRule::Time12Fraction
            | TokenRule::Time24
            | TokenRule::SixDigits => return self.time_of_day(rule, &mut token),
            TokenRule::FourDigits => return self.four_digits(&mut token),
            TokenRule::Year => self.year = token.number(4),
            TokenRule::ZoneName => return self.zone_name(&mut token, here),
            TokenRule::DateAndTime
            | TokenRule::WebLog
            | TokenRule::WordDayTime12
            | TokenRule::WordDayTime24 => {
                return self.date_and_time(rule, &mut token);
            }
            _ => {
                self.begin_date()?;
                self.date(rule, &mut token);
            }
        }
        Ok(())
    }

    fn begin_time(&mut self) -> Result<(), Refusal> {
        if self.times > 0 {
            return Err("Double time specification");
        }
        self.no_time();
        self.times = 1;
        Ok(())
    }

    fn no_time(&mut self) {
        self.times = 0;
        self.time = Some((0, 0, 0));
        self.micros = Some(0);
    }

    fn begin_date(&mut self) -> Result<(), Refusal> {
        if self.has_date {
            return Err("Double date specification");
        }
        self.has_date = true;
        Ok(())
    }

    /// Whether a zone is the first. A second one is a warning, as timelib has it, others are errors.
    fn begin_zone(&mut self, here: &TokenStart) -> Result<bool, Refusal> {
        self.zones += 1;
        match self.zones {
            1 => Ok(true),
            2 => {
                here.complain(&mut self.warnings, "Double timezone specification");
                Ok(false)
            }
            _ => Err("Double timezone specification"),
        }
    }

    fn zone_name(&mut self, token: &mut Token<'_>, here: &TokenStart) -> Result<(), Refusal> {
        if self.begin_zone(here)? {
            self.zone = Some(token.zone()?);
        }
        Ok(())
    }

    fn day_word(&mut self, rule: TokenRule) {
        self.no_time();
        match rule {
            TokenRule::Yesterday => self.steps.days = -1,
            TokenRule::Tomorrow => self.steps.days = 1,
            TokenRule::Noon => {
                self.times = 1;
                self.time = Some((12, 0, 0));
            }
            _ => {}
        }
    }

    /// `@seconds` since 1970, with a fraction or without.
    fn timestamp(&mut self, token: &mut Token<'_>, here: &TokenStart) -> Result<(), Refusal> {
        self.has_date = false;
        self.no_time();
        if !self.begin_zone(here)? {
            return Ok(());
        }
        let negative = token.rest().starts_with(b"@-");
        let seconds = token.signed(24).unwrap_or(0);
        (self.year, self.month, self.day) = (Some(1970), Some(1), Some(1));
        self.steps.seconds = self.steps.seconds.saturating_add(seconds);
        if token.peek() == Some(b'.') {
            if token.rest().len() == 1 {
                return Err("Found unexpected data");
            }
            let micros = token.fraction();
            self.steps.micros = if negative { -micros } else { micros };
        }
        self.zone = Some((Zone::Offset(0), "GMT offset".to_owned()));
        Ok(())
    }

    fn time_of_day(&mut self, rule: TokenRule, token: &mut Token<'_>) -> Result<(), Refusal> {
        if rule == TokenRule::QuarterHour {
            self.no_time();
        }
        self.begin_time()?;
        let (hour, minute, second) = match rule {
            TokenRule::SixDigits => {
                let mut part = || token.number(2).unwrap_or(0);
                (part(), part(), part())
            }
            TokenRule::QuarterHour => {
                let back = token.peek() == Some(b'b');
                let hour = token.number(2).unwrap_or(0);
                if back {
                    (hour, 15, 0)
                } else {
                    (hour - 1, 45, 0)
                }
            }
            _ => token.clock(b":."),
        };
        let has_fraction = match rule {
            TokenRule::Time12Fraction => matches!(token.peek(), Some(b':' | b'.')),
            TokenRule::Time24 => token.peek() == Some(b'.'),
            _ => false,
        };
        if has_fraction {
            self.micros = Some(token.fraction());
        }
        let later = match rule {
            TokenRule::Time12 | TokenRule::Time12Fraction | TokenRule::QuarterHour => {
                token.half_of_day(hour)
            }
            _ => 0,
        };
        self.time = Some((hour + later, minute, second));
        Ok(())
    }

    /// `1413` is a time, and behind a time a year.
    fn four_digits(&mut self, token: &mut Token<'_>) -> Result<(), Refusal> {
        match self.times {
            0 => {
                let mut part = || token.number(2).unwrap_or(0);
                self.time = Some((part(), part(), 0));
            }
            1 => self.year = token.number(4),
            _ => return Err("Double time specification"),
        }
        self.times += 1;
        Ok(())
    }

    fn date_and_time(&mut self, rule: TokenRule, token: &mut Token<'_>) -> Result<(), Refusal> {
        match rule {
            TokenRule::DateAndTime => {
                self.begin_time()?;
                self.begin_date()?;
                (self.year, self.month, self.day) =
                    (token.number(4), token.number(2), token.number(2));
                let mut part = || token.number(2).unwrap_or(0);
                self.time = Some((part(), part(), part()));
                if token.peek() == Some(b'.') {
                    self.micros = Some(token.fraction());
                    if token.peek().is_some() {
                        self.zone = Some(token.zone()?);
                    }
                }
            }
            TokenRule::WebLog => {
                self.begin_time()?;
                self.begin_date()?;
                (self.day, self.month, self.year) =
                    (token.number(2), token.month(), token.number(4));
                let mut part = || token.number(2).unwrap_or(0);
                self.time = Some((part(), part(), part()));
                self.zone = Some(token.zone()?);
            }
            _ => {
                self.begin_date()?;
                (self.month, self.day) = (token.month(), token.number(2));
                self.begin_time()?;
                let half = rule == TokenRule::WordDayTime12;
                let hour = token.number(2).unwrap_or(0);
                let minute = token.number(2).unwrap_or(0);
                let separators: &[u8] = if half { b":." } else { b":" };
                let mut second = 0;
                if token.peek().is_some_and(|byte| separators.contains(&byte)) {
                    second = token.number(2).unwrap_or(0);
                }
                let later = if half { token.half_of_day(hour) } else { 0 };
                self.time = Some((hour + later, minute, second));
                if !half && token.peek().is_some() {
                    self.zone = Some(token.zone()?);
                }
            }
        }
        Ok(())
    }

    fn date(&mut self, rule: TokenRule, token: &mut Token<'_>) {
        match rule {
            TokenRule::MonthDayYear => {
                (self.month, self.day) = (token.number(2), token.number(2));
                token.day_suffix();
                if token.peek() == Some(b'/') {
                    self.year = token.year();
                }
            }
            TokenRule::YearMonthDay => {
                self.year = match token.peek() {
                    Some(b'+' | b'-') => token.signed(19),
                    _ => token.year(),
                };
                (self.month, self.day) = (token.number(2), token.number(2));
            }
            TokenRule::YearMonth => {
                (self.year, self.month, self.day) = (token.year(), token.number(2), Some(1));
            }
            TokenRule::DayWordYear | TokenRule::DayWord => {
                self.day = token.number(2);
                token.day_suffix();
                self.month = token.month();
                if rule == TokenRule::DayWordYear {
                    self.year = token.year();
                }
            }
            TokenRule::DayMonthYear => {
                (self.day, self.month, self.year) =
                    (token.number(2), token.number(2), token.year());
            }
            TokenRule::WordYear => {
                (self.month, self.year, self.day) = (token.month(), token.year(), Some(1));
            }
            TokenRule::YearWord => {
                (self.year, self.month, self.day) = (token.year(), token.month(), Some(1));
            }
            TokenRule::WordDayYear => {
                (self.month, self.day) = (token.month(), token.number(2));
                self.year = token.year();
            }
            TokenRule::EightDigits => {
                (self.year, self.month, self.day) =
                    (token.number(4), token.number(2), token.number(2));
            }
            TokenRule::YearAndDay => {
                // Beyond January timelib finds the day invalid.
                (self.year, self.day, self.month) = (token.year(), token.number(3), Some(1));
            }
            TokenRule::IsoWeek => {
                let year = token.number(4).unwrap_or(1970);
                let week = token.number(2).unwrap_or(1);
                let day = token.number(1).unwrap_or(1);
                (self.year, self.month, self.day) = (Some(year), Some(1), Some(1));
                self.steps.days = days_from_iso_week(year, week, day) - days_from_civil(year, 1, 1);
            }
            TokenRule::YearWordDay => {
                (self.year, self.month, self.day) = (token.year(), token.month(), token.number(2));
            }
            _ => self.month = Some(month_of(&token.letters())),
        }
    }

    fn step_word(&mut self, rule: TokenRule, token: &mut Token<'_>) {
        match rule {
            TokenRule::EdgeOfMonth => {
                let last = matches!(token.peek(), Some(b'l' | b'L'));
                self.no_time();
                self.steps.edge = Some(if last {
                    MonthEdge::LastDay
                } else {
                    MonthEdge::FirstDay
                });
            }
            TokenRule::Ago => self.steps.turn_back(),
            TokenRule::WeekdayName => {
                self.no_time();
                let name = token.letters();
                // `weekday` alone is taken for Monday.
                self.steps.weekday = Some(Weekday(weekday_of(&name).unwrap_or(1)));
                if self.steps.behavior != 2 {
                    self.steps.behavior = 1;
                }
            }
            _ => {
                let (amount, behavior) = count_of(&token.letters());
                token.skip(|byte| matches!(byte, b' ' | b'\t'));
                let (within, behavior) = if amount > 0 {
                    (WithinMonth::FromFirst, 1)
                } else {
                    (WithinMonth::FromLast, behavior)
                };
                // Of these and days from Monday to Friday, timelib keeps the last.
                (self.steps.within_month, self.steps.workdays) = (Some(within), None);
                self.step(amount, behavior, &token.letters());
                self.no_time();
            }
        }
    }

    fn relative(&mut self, rule: TokenRule, token: &mut Token<'_>) {
        let (amount, behavior) = match rule {
            TokenRule::RelativeNumber => (token.signed(24).unwrap_or(0), 1),
            _ => count_of(&token.letters()),
        };
        token.skip(|byte| matches!(byte, b' ' | b'\t'));
        let unit = String::from_utf8_lossy(token.rest()).to_ascii_lowercase();
        let of_days = self.step(amount, behavior, &unit);
        if of_days && rule == TokenRule::RelativeWord {
            self.no_time();
        }
        if rule == TokenRule::RelativeWeek {
            self.steps.behavior = 2;
            self.steps.weekday.get_or_insert(Weekday(1));
        }
    }

    /// Whether the step goes to certain days of the week, which a word (`next monday`) means from
    /// midnight on, and a number (`+1 monday`) does not.
    fn step(&mut self, amount: i64, behavior: i64, unit: &str) -> bool {
        let steps = &mut self.steps;
        if let Some(weekday) = weekday_of(unit) {
            let weeks = if amount > 0 { amount - 1 } else { amount };
            steps.days += weeks * 7;
            steps.weekday = Some(Weekday(weekday));
            steps.behavior = behavior;
            return true;
        }
        if unit.starts_with("weekday") {
            (steps.workdays, steps.within_month) = (Some(amount), None);
            return true;
        }
        match unit.trim_end_matches('s') {
            "year" => steps.years += amount,
            "month" => steps.months += amount,
            "fortnight" | "forthnight" => steps.days += amount * 14,
            "week" => steps.days += amount * 7,
            "day" => steps.days += amount,
            "hour" => steps.hours += amount,
            "minute" | "min" => steps.minutes += amount,
            "second" | "sec" => steps.seconds += amount,
            "millisecond" | "msec" | "m" => steps.micros += amount * 1000,
            _ => steps.micros += amount,
        }
        false
    }

    /// Complains about a time or date that cannot be.
    fn check(&mut self, end: usize) {
        let place = TokenStart {
            at: end,
            character: 0,
        };
        let (hour, minute, second) = self.time.unwrap_or_default();
        let valid_time =
            (0..24).contains(&hour) && (0..60).contains(&minute) && (0..60).contains(&second);
        if self.times > 0 && !valid_time {
            place.complain(&mut self.warnings, "The parsed time was invalid");
        }
        let (year, month) = (self.year.unwrap_or(UNSET), self.month.unwrap_or(UNSET));
        // Leap years come back every 400 years.
        let valid_date = (1..=12).contains(&month)
            && (1..=days_in_month(year.rem_euclid(400), month))
                .contains(&self.day.unwrap_or(UNSET));
        if self.has_date && !valid_date {
            place.complain(&mut self.warnings, "The parsed date was invalid");
        }
    }

    /// What is wrong with the text, in MongoDB's words; empty if nothing is.
    pub fn complaints(&self) -> String {
        format!("{}{}", self.errors, self.warnings)
    }

    /// The zone in the text, and how MongoDB calls its kind.
    pub fn zone(&self) -> Option<&(Zone, String)> {
        self.zone.as_ref()
    }

    /// Whether the text names a day.
    pub fn is_complete(&self) -> bool {
        self.year.is_some() && self.month.is_some() && self.day.is_some()
    }

    /// The local time, in milliseconds; none beyond what MongoDB computes with (microseconds of
    /// 64 bits).
    pub fn local(&self) -> Option<i64> {
        // Within these years days fit, whatever the steps are.
        const YEARS_MAX: i64 = 1_000_000_000_000_000;
        let (mut year, mut month, mut day) = (self.year?, self.month?, self.day?);
        if year.abs() > YEARS_MAX {
            return None;
        }
        let steps = &self.steps;
        let mut months = steps.months;
        if let Some(within) = steps.within_month {
            month += months + i64::from(matches!(within, WithinMonth::FromLast));
            (day, months) = (1, 0);
        }
        match steps.edge {
            None => {}
            Some(MonthEdge::FirstDay) => day = 1,
            Some(MonthEdge::LastDay) => (day, month) = (0, month + 1),
        }
        if let Some(weekday) = steps.weekday {
            day += steps.to_weekday(weekday, days_from_civil(year, month, day));
        }
        // The date is one of the calendar before months are added to it.
        (year, month, day) = civil_from_days(days_from_civil(year, month, day));
        let (year, month) = (year + steps.years, month + months);
        // Where a weekday moved the date into another month, the edge is that month's.
        let days = match steps.edge {
            None => days_from_civil(year, month, day + steps.days),
            Some(MonthEdge::FirstDay) => days_from_civil(year, month, 1),
            Some(MonthEdge::LastDay) => days_from_civil(year, month + 1, 0),
        };
        let (hour, minute, second) = self.time.unwrap_or_default();
        let micros = match self.time {
            Some(_) => self.micros.unwrap_or(UNSET),
            None => 0,
        };
        let parts = [
            (days, DAY_MS),
            (hour, HOUR_MS),
            (minute, MINUTE_MS),
            (second, SECOND_MS),
            (steps.hours, HOUR_MS),
            (steps.minutes, MINUTE_MS),
            (steps.seconds, SECOND_MS),
        ];
        let product = |(part, millis)| i128::from(part) * i128::from(millis) * 1000;
        let sum: i128 = parts.into_iter().map(product).sum();
        let mut all = i64::try_from(sum + i128::from(micros) + i128::from(steps.micros)).ok()?;
        if let Some(count) = steps.workdays {
            let day_micros = DAY_MS * 1000;
            let moved = workdays(count, all.div_euclid(day_micros));
            all = all.checked_add(moved.checked_mul(day_micros)?)?;
        }
        // Toward zero, as C divides.
        Some(all / 1000)
    }
}
