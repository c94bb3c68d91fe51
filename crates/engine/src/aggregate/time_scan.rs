//! Dates in free text, read as timelib reads them, which MongoDB uses (`$dateFromString` without a
//! format, `$toDate`).
//!
//! In: a text. Out: what it says ([`Reading`]): a date, a time, a zone, and steps from there
//! (`+1 day`, `next monday`), or MongoDB's list of what is wrong with it. The text is cut into
//! tokens; at each place the longest token of the table [`RULES`] is taken, the first of equal
//! ones. The rules are those of timelib's documentation ("Supported Date and Time Formats" of PHP,
//! which uses the same library), its manners where the documentation is silent were found by
//! asking mongod 6.0.5.

use super::time::{DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS, Zone};
use super::time::{civil_from_days, days_from_civil, days_from_iso_week, days_in_month};
use super::time_abbreviations::ABBREVIATIONS;
use super::time_text::MONTHS;
use regex::bytes::Regex;
use std::fmt::Write;
use std::sync::LazyLock;

/// No text longer than this is read: the longest that is stored as a date (a date as JavaScript
/// writes it, with the zone's name) has some 70 bytes. It also bounds the work, which is quadratic
/// for runs of blanks, and the length of the list of complaints.
pub const TEXT_BYTES_MAX: usize = 256;

/// A part that was not given where timelib computes with it nevertheless: the microseconds after
/// `1413`, the year of `29 Feb`.
const UNSET: i64 = -99_999;

/// What a text says.
#[derive(Debug, Default)]
pub struct Reading {
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

/// By how much a date is moved after it was read.
#[derive(Debug, Default)]
struct Steps {
    years: i64,
    months: i64,
    days: i64,
    hours: i64,
    minutes: i64,
    seconds: i64,
    micros: i64,
    weekday: Option<Weekday>,
    /// `2` once `this week` was read, which changes what a weekday means.
    behavior: i64,
    /// So many days from Monday to Friday.
    workdays: Option<i64>,
    within_month: Option<WithinMonth>,
    edge: Option<Edge>,
}

/// A day of the week, 0 (Sunday) to 6; negative after `ago`.
#[derive(Debug, Clone, Copy)]
struct Weekday(i64);

/// `third friday of`, `last friday of`.
#[derive(Debug, Clone, Copy)]
enum WithinMonth {
    FromFirst,
    FromLast,
}

/// `first day of`, `last day of`.
#[derive(Debug, Clone, Copy)]
enum Edge {
    FirstDay,
    LastDay,
}

/// What a token is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rule {
    Yesterday,
    Now,
    Noon,
    Midnight,
    Tomorrow,
    Timestamp,
    EdgeOfMonth,
    QuarterHour,
    WeekdayOf,
    Time12,
    Time12Fraction,
    Time24,
    FourDigits,
    SixDigits,
    MonthDayYear,
    YearMonthDay,
    YearMonth,
    DayWordYear,
    DayMonthYear,
    WordYear,
    YearWord,
    WordDayYear,
    DayWord,
    EightDigits,
    DateAndTime,
    YearAndDay,
    IsoWeek,
    YearWordDay,
    WebLog,
    Year,
    Ago,
    WeekdayName,
    RelativeWeek,
    RelativeWord,
    MonthName,
    ZoneName,
    WordDayTime12,
    WordDayTime24,
    RelativeNumber,
    Blank,
}

/// Names of parts of the rules.
const PARTS: [(&str, &str); 26] = [
    ("h24lz", "(?:[01][0-9]|2[0-4])"),
    ("h24", "(?:2[0-4]|[01]?[0-9])"),
    ("h12", "(?:1[0-2]|0?[1-9])"),
    ("mmlz", "[0-5][0-9]"),
    ("mm", "[0-5]?[0-9]"),
    ("sslz", "(?:60|[0-5][0-9])"),
    ("ss", "(?:60|[0-5]?[0-9])"),
    ("frac", r"\.[0-9]+"),
    ("sp", "[ \t]+"),
    ("ampm", "[AaPp]\\.?[Mm]\\.?[\0\t ]"),
    ("monthlz", "(?:0[0-9]|1[0-2])"),
    ("month", "(?:1[0-2]|0?[0-9])"),
    ("daylz", "(?:0[0-9]|[12][0-9]|3[01])"),
    ("day", "(?:3[01]|[0-2]?[0-9])(?:st|nd|rd|th)?"),
    ("year4", "[0-9]{4}"),
    ("year", "[0-9]{1,4}"),
    (
        "full",
        "(?i:january|february|march|april|may|june|july|august|september|october|november|december)",
    ),
    (
        "abbr",
        "(?i:jan|feb|mar|apr|may|jun|jul|aug|sept|sep|oct|nov|dec)",
    ),
    (
        "word",
        "(?:<full>|<abbr>|VIII|VII|VI|V|IV|IX|III|II|I|XII|XI|X)",
    ),
    (
        "dayname",
        "(?i:(?:sunday|monday|tuesday|wednesday|thursday|friday|saturday)s?)",
    ),
    ("dayabbr", "(?i:sun|mon|tue|wed|thu|fri|sat)"),
    (
        "count",
        "(?i:first|second|third|fourth|fifth|sixth|seventh|eighth|eight|ninth|tenth|eleventh|twelfth)",
    ),
    ("which", "(?i:next|last|previous|this)"),
    (
        "unit",
        "(?i:(?:msec|millisecond|\\xC2\\xB5sec|microsecond|usec|second|sec|minute|min|hour|day|fortnight|\
         forthnight|month|year)s?|weeks|weekdays|weekday|<dayname>|<dayabbr>|ms|\\xC2\\xB5s)",
    ),
    (
        "correction",
        "(?:GMT)?[+-](?:<h24lz>:<mmlz>:<sslz>|<h24lz><mmlz><sslz>|<h24>:?<mm>|<h24>)",
    ),
    ("wordday", "<word>[ .\t-]*<day>(?:[,.stndrh\t ]+|\0)"),
];

/// In the order in which timelib prefers them.
const RULES: [(Rule, &str); 62] = [
    (Rule::Yesterday, "(?i:yesterday)"),
    (Rule::Now, "(?i:now)"),
    (Rule::Noon, "(?i:noon)"),
    (Rule::Midnight, "(?i:midnight|today)"),
    (Rule::Tomorrow, "(?i:tomorrow)"),
    (Rule::Timestamp, r"@-?[0-9]+(?:\.[0-9]{0,6})?"),
    (Rule::EdgeOfMonth, "(?i:first day of|last day of)"),
    (
        Rule::QuarterHour,
        "(?i:back of |front of )<h24>(?:(?:<sp>)?<ampm>)?",
    ),
    (
        Rule::WeekdayOf,
        "(?:<count>|<which>)<sp>(?:<dayname>|<dayabbr>)<sp>(?i:of)",
    ),
    (Rule::Time12, "<h12>(?:<sp>)?<ampm>"),
    (Rule::Time12, "<h12>[:.]<mmlz>(?:<sp>)?<ampm>"),
    (Rule::Time12, "<h12>[:.]<mm>[:.]<sslz>(?:<sp>)?<ampm>"),
    (Rule::Time12Fraction, "<h12>:<mmlz>:<sslz>[:.][0-9]+<ampm>"),
    (Rule::Time24, "(?i:t)<h24>"),
    (Rule::Time24, "(?i:t)?<h24>[:.]<mm>"),
    (Rule::Time24, "(?i:t)?<h24>[:.]<mm>[:.]<ss>(?:<frac>)?"),
    (Rule::FourDigits, "(?i:t)?<h24lz><mmlz>"),
    (Rule::SixDigits, "(?i:t)?<h24lz><mmlz><sslz>"),
    (Rule::MonthDayYear, "<month>/<day>(?:/<year>)?"),
    (Rule::YearMonthDay, "[+-]?<year4>-<monthlz>-<daylz>"),
    (Rule::YearMonthDay, "<year4>/<monthlz>/<daylz>/?"),
    (Rule::YearMonthDay, "<year4>/<month>/<day>"),
    (Rule::YearMonthDay, "[0-9]{2}-<monthlz>-<daylz>"),
    (Rule::YearMonthDay, "[+-][0-9]{5,19}-<monthlz>-<daylz>"),
    (Rule::YearMonth, "<year4>-<month>"),
    (Rule::YearMonthDay, "<year>-<month>-<day>"),
    (Rule::DayWordYear, "<day>[ \t.-]*<word>[ \t.-]*<year>"),
    (Rule::DayMonthYear, "<day>[.\t-]<month>[.-]<year4>"),
    (Rule::DayMonthYear, "<day>[.\t]<month>\\.[0-9]{2}"),
    (Rule::WordYear, "<word>[ .\t-]*<year4>"),
    (Rule::YearWord, "<year4>[ .\t-]*<word>"),
    (Rule::WordDayYear, "<word>[ .\t-]*<day>[,.stndrh\t ]+<year>"),
    (Rule::WordDayYear, "<wordday>"),
    (Rule::DayWord, "<day>[ .\t-]*<word>"),
    (Rule::EightDigits, "<year4><monthlz><daylz>"),
    (
        Rule::DateAndTime,
        "<year4><monthlz><daylz>T<h24>:<mmlz>:<sslz>",
    ),
    (
        Rule::DateAndTime,
        "<year4><monthlz><daylz>(?i:t)<h24><mmlz><sslz>",
    ),
    (
        Rule::DateAndTime,
        "<year4>-<monthlz>-<daylz>T<h24lz>:<mmlz>:<sslz><frac>(?:<correction>)?",
    ),
    (Rule::DateAndTime, "<year4>-<month>-<day>T<h24>:<mm>:<ss>"),
    (
        Rule::DateAndTime,
        "<year4>:<monthlz>:<daylz> <h24lz>:<mmlz>:<sslz>",
    ),
    (
        Rule::YearAndDay,
        "<year4>[.-]?(?:00[1-9]|0[1-9][0-9]|[12][0-9][0-9]|3[0-5][0-9]|36[0-6])",
    ),
    (
        Rule::IsoWeek,
        "<year4>-?W(?:0[1-9]|[1-4][0-9]|5[0-3])-?[0-7]",
    ),
    (Rule::IsoWeek, "<year4>-?W(?:0[1-9]|[1-4][0-9]|5[0-3])"),
    (Rule::WordDayYear, "<abbr>-<daylz>-<year>"),
    (Rule::YearWordDay, "<year>-<abbr>-<daylz>"),
    (
        Rule::WebLog,
        "<day>/<abbr>/<year4>:<h24lz>:<mmlz>:<sslz><sp><correction>",
    ),
    (Rule::Year, "<year4>"),
    (Rule::Ago, "(?i:ago)"),
    (
        Rule::WeekdayName,
        "(?:<dayname>|<dayabbr>|(?i:weekdays|weekday))",
    ),
    (Rule::RelativeWeek, "<which><sp>(?i:week)"),
    (Rule::RelativeWord, "(?:<count>|<which>)<sp><unit>"),
    (Rule::MonthName, "(?:<full>|<abbr>)"),
    (Rule::ZoneName, "<correction>"),
    (Rule::ZoneName, r"\(?[A-Za-z]{1,6}\)?"),
    (Rule::ZoneName, "[A-Z][a-z]+(?:[_/-][A-Za-z]+)+"),
    (
        Rule::WordDayTime12,
        "<wordday><h12>[:.]<mmlz>(?:<sp>)?<ampm>",
    ),
    (
        Rule::WordDayTime12,
        "<wordday><h12>[:.]<mm>[:.]<sslz>(?:<sp>)?<ampm>",
    ),
    (Rule::WordDayTime24, "<wordday>(?i:t)?<h24>[:.]<mm>"),
    (Rule::WordDayTime24, "<wordday>(?i:t)?<h24>[:.]<mm>[:.]<ss>"),
    (
        Rule::WordDayTime24,
        "<wordday>(?i:t)?<h24>[:.]<mm>[:.]<sslz>(?:<sp>)?(?:<correction>|\\(?[A-Za-z]{1,6}\\)?)",
    ),
    (
        Rule::RelativeNumber,
        "[+-]*[ \t]*[0-9]{1,13}(?:<sp>)?(?:<unit>|(?i:week))",
    ),
    (Rule::Blank, "[ .,\t\n\0]"),
];

static COMPILED: LazyLock<Vec<(Rule, Regex)>> = LazyLock::new(|| {
    let compile = |(rule, pattern): (Rule, &str)| {
        let mut pattern = format!(r"(?-u)\A(?:{pattern})");
        // A part names other parts at most twice deep.
        for _ in 0..3 {
            for (name, part) in PARTS {
                pattern = pattern.replace(&format!("<{name}>"), part);
            }
        }
        (
            rule,
            Regex::new(&pattern).expect("the table's patterns are well-formed"),
        )
    };
    RULES.into_iter().map(compile).collect()
});

/// The longest token at the start of some bytes, and its length.
fn longest(bytes: &[u8]) -> Option<(Rule, usize)> {
    let mut best: Option<(Rule, usize)> = None;
    for (rule, pattern) in COMPILED.iter() {
        if let Some(found) = pattern.find(bytes)
            && best.is_none_or(|(_, length)| found.end() > length)
        {
            best = Some((*rule, found.end()));
        }
    }
    best
}

/// Reads a text of at most [`TEXT_BYTES_MAX`] bytes.
pub fn scan(text: &str) -> Reading {
    let trimmed = text.trim_matches([' ', '\t', '\n', '\r', '\x0b', '\x0c']);
    // timelib ends a text with NUL, which some tokens include.
    let mut bytes = trimmed.as_bytes().to_vec();
    bytes.push(0);
    let mut reading = Reading::default();
    let mut at = 0;
    while at < bytes.len() {
        let here = Place {
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
struct Place {
    at: usize,
    character: u8,
}

impl Place {
    fn complain(&self, list: &mut String, reason: &str) {
        let shown = match self.character {
            byte if byte.is_ascii() => char::from(byte),
            _ => char::REPLACEMENT_CHARACTER,
        };
        let _ = write!(list, "; {}: {reason} '{shown}'", self.at);
    }
}

/// What MongoDB says of a zone that is none, or one of the Olson database.
pub const UNKNOWN_ZONE: &str =
    "passing a time zone identifier as part of the string is not allowed";

/// A token, read from its start as timelib does: numbers are looked for, whatever is in between.
struct Token<'t> {
    bytes: &'t [u8],
    at: usize,
}

impl<'t> Token<'t> {
    fn new(bytes: &'t [u8]) -> Self {
        let end = bytes.iter().position(|byte| *byte == 0);
        Self {
            bytes: &bytes[..end.unwrap_or(bytes.len())],
            at: 0,
        }
    }

    fn rest(&self) -> &'t [u8] {
        &self.bytes[self.at..]
    }

    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn skip(&mut self, unwanted: impl Fn(u8) -> bool) {
        while self.peek().is_some_and(&unwanted) {
            self.at += 1;
        }
    }

    /// The next number, of at most so many digits, and how many it has.
    fn number_and_digits(&mut self, digits_max: usize) -> Option<(i64, usize)> {
        self.skip(|byte| !byte.is_ascii_digit());
        let rest = self.rest();
        let digits = rest
            .iter()
            .take(digits_max)
            .take_while(|byte| byte.is_ascii_digit())
            .count();
        if digits == 0 {
            return None;
        }
        self.at += digits;
        let text = std::str::from_utf8(&rest[..digits]).ok()?;
        Some((text.parse().unwrap_or(i64::MAX), digits))
    }

    fn number(&mut self, digits_max: usize) -> Option<i64> {
        self.number_and_digits(digits_max).map(|(value, _)| value)
    }

    /// A number behind any number of signs, of which the first counts.
    fn signed(&mut self, digits_max: usize) -> Option<i64> {
        self.skip(|byte| !byte.is_ascii_digit() && !matches!(byte, b'+' | b'-'));
        let sign = if self.peek() == Some(b'-') { -1 } else { 1 };
        self.number(digits_max).map(|value| sign * value)
    }

    /// A year; one of two digits is of 1970 to 2069.
    fn year(&mut self) -> Option<i64> {
        let (year, digits) = self.number_and_digits(4)?;
        Some(match year {
            0..70 if digits < 4 => year + 2000,
            70..100 if digits < 4 => year + 1900,
            _ => year,
        })
    }

    fn letters(&mut self) -> String {
        let start = self.at;
        self.skip(|byte| byte.is_ascii_alphabetic());
        String::from_utf8_lossy(&self.bytes[start..self.at]).to_ascii_lowercase()
    }

    fn month(&mut self) -> Option<i64> {
        self.skip(|byte| matches!(byte, b' ' | b'\t' | b'-' | b'.' | b'/'));
        Some(month_of(&self.letters()))
    }

    fn day_suffix(&mut self) {
        let rest = self.rest();
        let suffixes: [&[u8]; 4] = [b"nd", b"rd", b"st", b"th"];
        if rest.len() >= 2 && suffixes.contains(&rest[..2].to_ascii_lowercase().as_slice()) {
            self.at += 2;
        }
    }

    /// Microseconds of the fraction of a second that comes next.
    fn fraction(&mut self) -> i64 {
        self.skip(|byte| !matches!(byte, b'.' | b':'));
        self.at += 1;
        let digits = self.rest().iter().take_while(|byte| byte.is_ascii_digit());
        let digits: Vec<u8> = digits.copied().collect();
        self.at += digits.len();
        let padded = digits.iter().copied().chain(std::iter::repeat(b'0'));
        padded
            .take(6)
            .fold(0, |sum, digit| sum * 10 + i64::from(digit - b'0'))
    }

    /// What `am` or `pm` adds to an hour.
    fn half_of_day(&mut self, hour: i64) -> i64 {
        self.skip(|byte| !matches!(byte, b'a' | b'A' | b'p' | b'P'));
        match (self.peek(), hour) {
            (Some(b'a' | b'A'), 12) => -12,
            (Some(b'p' | b'P'), hour) if hour != 12 => 12,
            _ => 0,
        }
    }

    /// Hour and minute, and the second if one follows one of the separators.
    fn clock(&mut self, separators: &[u8]) -> (i64, i64, i64) {
        let mut parts = [0; 3];
        parts[0] = self.number(2).unwrap_or(0);
        for part in &mut parts[1..] {
            if !self.peek().is_some_and(|byte| separators.contains(&byte)) {
                break;
            }
            *part = self.number(2).unwrap_or(0);
        }
        parts.into()
    }

    fn zone(&mut self) -> Result<(Zone, String), &'static str> {
        let (length, zone) = zone_at(self.rest());
        self.at += length;
        zone.ok_or(UNKNOWN_ZONE)
    }
}

/// The number of a month's name, in full, short or in Roman numerals; 0 for none.
fn month_of(word: &str) -> i64 {
    const ROMAN: [&str; 12] = [
        "i", "ii", "iii", "iv", "v", "vi", "vii", "viii", "ix", "x", "xi", "xii",
    ];
    if word == "sept" {
        return 9;
    }
    let named = |month: &&str| *month == word || &month[..3] == word;
    let place = MONTHS.iter().position(named);
    let place = place.or_else(|| ROMAN.iter().position(|month| *month == word));
    place.map_or(0, |place| place as i64 + 1)
}

/// How many bytes of a text a zone takes, and the zone with the name of its kind: an offset from
/// UTC, or an abbreviation.
pub fn zone_at(bytes: &[u8]) -> (usize, Option<(Zone, String)>) {
    let blanks = bytes
        .iter()
        .take_while(|byte| matches!(byte, b' ' | b'\t' | b'('));
    let mut at = blanks.count();
    if bytes[at..].starts_with(b"GMT+") || bytes[at..].starts_with(b"GMT-") {
        at += 3;
    }
    let zone = match bytes.get(at) {
        Some(sign @ (b'+' | b'-')) => {
            let east = if *sign == b'-' { -1 } else { 1 };
            let start = at + 1;
            let digits = bytes[start..]
                .iter()
                .take_while(|byte| byte.is_ascii_digit() || **byte == b':');
            at = start + digits.count();
            correction(&bytes[start..at])
                .map(|seconds| (Zone::Offset(east * seconds), "GMT offset".to_owned()))
        }
        _ => {
            let start = at;
            let word = bytes[start..]
                .iter()
                .take_while(|byte| !matches!(byte, 0 | b')' | b' '));
            at += word.count();
            abbreviation(&bytes[start..at])
        }
    };
    at += bytes[at..].iter().take_while(|byte| **byte == b')').count();
    (at, zone)
}

/// Seconds of an offset from UTC: `1`, `01`, `1:30`, `130`, `0130`, `01:30`, `013000`, `01:30:00`.
fn correction(text: &[u8]) -> Option<i64> {
    // As C's `strtol`, which stops where the digits do.
    let number = |range: std::ops::Range<usize>| -> i64 {
        let digits = text[range].iter().take_while(|byte| byte.is_ascii_digit());
        digits.fold(0, |sum, digit| sum * 10 + i64::from(digit - b'0'))
    };
    let length = text.len();
    Some(match length {
        1 | 2 => number(0..length) * 3600,
        3 | 4 if text[1] == b':' => number(0..1) * 3600 + number(2..length) * 60,
        3 | 4 if text[2] == b':' => number(0..2) * 3600 + number(3..length) * 60,
        3 | 4 => {
            let digits = number(0..length);
            digits / 100 * 3600 + digits % 100 * 60
        }
        5 if text[2] == b':' => number(0..2) * 3600 + number(3..5) * 60,
        6 => number(0..2) * 3600 + number(2..4) * 60 + number(4..6),
        8 if text[2] == b':' && text[5] == b':' => {
            number(0..2) * 3600 + number(3..5) * 60 + number(6..8)
        }
        _ => return None,
    })
}

fn abbreviation(word: &[u8]) -> Option<(Zone, String)> {
    let lower = String::from_utf8(word.to_ascii_lowercase()).ok()?;
    let place = ABBREVIATIONS.binary_search_by(|(name, _)| (*name).cmp(lower.as_str()));
    let (_, seconds) = ABBREVIATIONS[place.ok()?];
    let kind = format!("time zone information ('{}')", lower.to_ascii_uppercase());
    Some((Zone::Offset(seconds), kind))
}

/// The second of two times, dates or zones.
type Refusal = &'static str;

impl Reading {
    fn take(&mut self, rule: Rule, mut token: Token<'_>, here: &Place) -> Result<(), Refusal> {
        match rule {
            Rule::Blank | Rule::Now => {}
            Rule::Yesterday | Rule::Tomorrow | Rule::Noon | Rule::Midnight => {
                self.day_word(rule);
            }
            Rule::Timestamp => return self.timestamp(&mut token, here),
            Rule::EdgeOfMonth | Rule::WeekdayOf | Rule::Ago | Rule::WeekdayName => {
                self.step_word(rule, &mut token);
            }
            Rule::RelativeWeek | Rule::RelativeWord | Rule::RelativeNumber => {
                self.relative(rule, &mut token);
            }
            Rule::QuarterHour
            | Rule::Time12
            | Rule::Time12Fraction
            | Rule::Time24
            | Rule::SixDigits => return self.time_of_day(rule, &mut token),
            Rule::FourDigits => return self.four_digits(&mut token),
            Rule::Year => self.year = token.number(4),
            Rule::ZoneName => return self.zone_name(&mut token, here),
            Rule::DateAndTime | Rule::WebLog | Rule::WordDayTime12 | Rule::WordDayTime24 => {
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
    fn begin_zone(&mut self, here: &Place) -> Result<bool, Refusal> {
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

    fn zone_name(&mut self, token: &mut Token<'_>, here: &Place) -> Result<(), Refusal> {
        if self.begin_zone(here)? {
            self.zone = Some(token.zone()?);
        }
        Ok(())
    }

    fn day_word(&mut self, rule: Rule) {
        self.no_time();
        match rule {
            Rule::Yesterday => self.steps.days = -1,
            Rule::Tomorrow => self.steps.days = 1,
            Rule::Noon => {
                self.times = 1;
                self.time = Some((12, 0, 0));
            }
            _ => {}
        }
    }

    /// `@seconds` since 1970, with a fraction or without.
    fn timestamp(&mut self, token: &mut Token<'_>, here: &Place) -> Result<(), Refusal> {
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
            let micros = token.fraction();
            self.steps.micros = if negative { -micros } else { micros };
        }
        self.zone = Some((Zone::Offset(0), "GMT offset".to_owned()));
        Ok(())
    }

    fn time_of_day(&mut self, rule: Rule, token: &mut Token<'_>) -> Result<(), Refusal> {
        if rule == Rule::QuarterHour {
            self.no_time();
        }
        self.begin_time()?;
        let (hour, minute, second) = match rule {
            Rule::SixDigits => {
                let mut part = || token.number(2).unwrap_or(0);
                (part(), part(), part())
            }
            Rule::QuarterHour => {
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
            Rule::Time12Fraction => matches!(token.peek(), Some(b':' | b'.')),
            Rule::Time24 => token.peek() == Some(b'.'),
            _ => false,
        };
        if has_fraction {
            self.micros = Some(token.fraction());
        }
        let later = match rule {
            Rule::Time12 | Rule::Time12Fraction | Rule::QuarterHour => token.half_of_day(hour),
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

    fn date_and_time(&mut self, rule: Rule, token: &mut Token<'_>) -> Result<(), Refusal> {
        match rule {
            Rule::DateAndTime => {
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
            Rule::WebLog => {
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
                let half = rule == Rule::WordDayTime12;
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

    fn date(&mut self, rule: Rule, token: &mut Token<'_>) {
        match rule {
            Rule::MonthDayYear => {
                (self.month, self.day) = (token.number(2), token.number(2));
                token.day_suffix();
                if token.peek() == Some(b'/') {
                    self.year = token.year();
                }
            }
            Rule::YearMonthDay => {
                self.year = match token.peek() {
                    Some(b'+' | b'-') => token.signed(19),
                    _ => token.year(),
                };
                (self.month, self.day) = (token.number(2), token.number(2));
            }
            Rule::YearMonth => {
                (self.year, self.month, self.day) = (token.year(), token.number(2), Some(1));
            }
            Rule::DayWordYear | Rule::DayWord => {
                self.day = token.number(2);
                token.day_suffix();
                self.month = token.month();
                if rule == Rule::DayWordYear {
                    self.year = token.year();
                }
            }
            Rule::DayMonthYear => {
                (self.day, self.month, self.year) =
                    (token.number(2), token.number(2), token.year());
            }
            Rule::WordYear => {
                (self.month, self.year, self.day) = (token.month(), token.year(), Some(1));
            }
            Rule::YearWord => {
                (self.year, self.month, self.day) = (token.year(), token.month(), Some(1));
            }
            Rule::WordDayYear => {
                (self.month, self.day) = (token.month(), token.number(2));
                self.year = token.year();
            }
            Rule::EightDigits => {
                (self.year, self.month, self.day) =
                    (token.number(4), token.number(2), token.number(2));
            }
            Rule::YearAndDay => {
                // Beyond January timelib finds the day invalid.
                (self.year, self.day, self.month) = (token.year(), token.number(3), Some(1));
            }
            Rule::IsoWeek => {
                let year = token.number(4).unwrap_or(1970);
                let week = token.number(2).unwrap_or(1);
                let day = token.number(1).unwrap_or(1);
                (self.year, self.month, self.day) = (Some(year), Some(1), Some(1));
                self.steps.days = days_from_iso_week(year, week, day) - days_from_civil(year, 1, 1);
            }
            Rule::YearWordDay => {
                (self.year, self.month, self.day) = (token.year(), token.month(), token.number(2));
            }
            _ => self.month = Some(month_of(&token.letters())),
        }
    }

    fn step_word(&mut self, rule: Rule, token: &mut Token<'_>) {
        match rule {
            Rule::EdgeOfMonth => {
                let last = matches!(token.peek(), Some(b'l' | b'L'));
                self.no_time();
                self.steps.edge = Some(if last { Edge::LastDay } else { Edge::FirstDay });
            }
            Rule::Ago => self.steps.turn_back(),
            Rule::WeekdayName => {
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
                self.steps.within_month = Some(within);
                self.step(amount, behavior, &token.letters());
                self.no_time();
            }
        }
    }

    fn relative(&mut self, rule: Rule, token: &mut Token<'_>) {
        let (amount, behavior) = match rule {
            Rule::RelativeNumber => (token.signed(24).unwrap_or(0), 1),
            _ => count_of(&token.letters()),
        };
        token.skip(|byte| matches!(byte, b' ' | b'\t'));
        let unit = String::from_utf8_lossy(token.rest()).to_ascii_lowercase();
        let of_days = self.step(amount, behavior, &unit);
        if of_days && rule == Rule::RelativeWord {
            self.no_time();
        }
        if rule == Rule::RelativeWeek {
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
            steps.workdays = Some(amount);
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
        let place = Place {
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
            Some(Edge::FirstDay) => day = 1,
            Some(Edge::LastDay) => (day, month) = (0, month + 1),
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
            Some(Edge::FirstDay) => days_from_civil(year, month, 1),
            Some(Edge::LastDay) => days_from_civil(year, month + 1, 0),
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

impl Steps {
    /// `ago`: all steps before it go back. (Not microseconds, in MongoDB's edition of timelib.)
    fn turn_back(&mut self) {
        for step in [
            &mut self.years,
            &mut self.months,
            &mut self.days,
            &mut self.hours,
            &mut self.minutes,
            &mut self.seconds,
        ] {
            *step = step.saturating_neg();
        }
        // Without a weekday this is remembered too, but not used.
        if let Some(Weekday(day)) = &mut self.weekday {
            *day = if *day == 0 { -7 } else { -*day };
        }
        if let Some(count) = &mut self.workdays {
            *count = -*count;
        }
    }

    /// By how many days a date moves to a day of the week.
    fn to_weekday(&self, Weekday(weekday): Weekday, days: i64) -> i64 {
        let today = (days + 4).rem_euclid(7);
        if self.behavior == 2 {
            // Weeks begin on Monday here, and have their Sunday at the end.
            let sunday = if weekday == 0 && today != 0 { 7 } else { 0 };
            let last_week = if today == 0 && weekday != 0 { -7 } else { 0 };
            return weekday + sunday + last_week - today;
        }
        if weekday < 0 {
            return -(7 - (-weekday - today));
        }
        let difference = weekday - today;
        let next = if self.days < 0 {
            difference < 0
        } else {
            difference <= -self.behavior
        };
        if next { difference + 7 } else { difference }
    }
}

/// By how many days a date moves so that so many days from Monday to Friday pass.
fn workdays(count: i64, days: i64) -> i64 {
    let today = (days + 4).rem_euclid(7);
    let (weeks, rest) = (count / 5, count % 5);
    let weekend = match (count > 0, rest, today) {
        (true, 0, 0) => -2,
        (true, 0, 6) => -1,
        (true, 0, _) => 0,
        (true, _, 6) => 1,
        (true, _, _) if today + rest > 5 => 2,
        (false, 0, 6) => 2,
        (false, 0, 0) => 1,
        (false, 0, _) => 0,
        (false, _, 0) => -1,
        (false, _, _) if today + rest < 1 => -2,
        _ => 0,
    };
    weeks * 7 + rest + weekend
}

/// 0 (Sunday) to 6.
fn weekday_of(name: &str) -> Option<i64> {
    const NAMES: [&str; 7] = [
        "sunday",
        "monday",
        "tuesday",
        "wednesday",
        "thursday",
        "friday",
        "saturday",
    ];
    let place = NAMES
        .iter()
        .position(|day| *day == name.strip_suffix('s').unwrap_or(name) || &day[..3] == name)?;
    Some(place as i64)
}

/// What `first` to `twelfth`, `next`, `last` count, and how a weekday behind them is meant.
fn count_of(word: &str) -> (i64, i64) {
    const COUNTS: [&str; 12] = [
        "first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth",
        "tenth", "eleventh", "twelfth",
    ];
    match word {
        "next" => (1, 0),
        "last" | "previous" => (-1, 0),
        "this" => (0, 1),
        "eight" => (8, 0),
        _ => {
            let place = COUNTS.iter().position(|count| *count == word);
            (place.map_or(0, |place| place as i64 + 1), 0)
        }
    }
}
