//! The tokens of dates in free text: a table of what they look like, and how one is read.
//!
//! MongoDB reads dates with timelib (D. Rethans, the formats documented as PHP's "Supported Date and Time
//! Formats"). Which text is a date, and which rule wins where several fit, was taken from there and asked of mongod.

use super::Zone;
use super::abbreviations::{UNKNOWN_ZONE, zone_at};
use super::text::MONTHS;
use regex::bytes::Regex;
use std::sync::LazyLock;

/// What a token is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum TokenRule {
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
    ("hour_2d", "(?:[01][0-9]|2[0-4])"),
    ("hour", "(?:2[0-4]|[01]?[0-9])"),
    ("half_day_hour", "(?:1[0-2]|0?[1-9])"),
    ("minute_2d", "[0-5][0-9]"),
    ("minute", "[0-5]?[0-9]"),
    ("second_2d", "(?:60|[0-5][0-9])"),
    ("second", "(?:60|[0-5]?[0-9])"),
    ("fraction", r"\.[0-9]+"),
    ("blanks", "[ \t]+"),
    ("half", "[AaPp]\\.?[Mm]\\.?[\0\t ]"),
    ("month_2d", "(?:0[0-9]|1[0-2])"),
    ("month", "(?:1[0-2]|0?[0-9])"),
    ("day_2d", "(?:0[0-9]|[12][0-9]|3[01])"),
    ("day", "(?:3[01]|[0-2]?[0-9])(?:st|nd|rd|th)?"),
    ("year_4d", "[0-9]{4}"),
    ("year", "[0-9]{1,4}"),
    (
        "month_name",
        "(?i:january|february|march|april|may|june|july|august|september|october|november|december)",
    ),
    (
        "month_short",
        "(?i:jan|feb|mar|apr|may|jun|jul|aug|sept|sep|oct|nov|dec)",
    ),
    (
        "month_word",
        "(?:<month_name>|<month_short>|VIII|VII|VI|V|IV|IX|III|II|I|XII|XI|X)",
    ),
    (
        "weekday",
        "(?i:(?:sunday|monday|tuesday|wednesday|thursday|friday|saturday)s?)",
    ),
    ("weekday_short", "(?i:sun|mon|tue|wed|thu|fri|sat)"),
    (
        "ordinal",
        "(?i:first|second|third|fourth|fifth|sixth|seventh|eighth|eight|ninth|tenth|eleventh|twelfth)",
    ),
    ("relative", "(?i:next|last|previous|this)"),
    (
        "unit",
        "(?i:(?:msec|millisecond|\\xC2\\xB5sec|microsecond|usec|second|sec|minute|min|hour|day|fortnight|\
         forthnight|month|year)s?|weeks|weekdays|weekday|<weekday>|<weekday_short>|ms|\\xC2\\xB5s)",
    ),
    (
        "offset",
        "(?:GMT)?[+-](?:<hour_2d>:<minute_2d>:<second_2d>|<hour_2d><minute_2d><second_2d>|<hour>:?<minute>|<hour>)",
    ),
    (
        "month_word_day",
        "<month_word>[ .\t-]*<day>(?:[,.stndrh\t ]+|\0)",
    ),
];

/// In the order in which timelib prefers them.
const RULES: [(TokenRule, &str); 62] = [
    (TokenRule::Yesterday, "(?i:yesterday)"),
    (TokenRule::Now, "(?i:now)"),
    (TokenRule::Noon, "(?i:noon)"),
    (TokenRule::Midnight, "(?i:midnight|today)"),
    (TokenRule::Tomorrow, "(?i:tomorrow)"),
    (TokenRule::Timestamp, r"@-?[0-9]+(?:\.[0-9]{0,6})?"),
    (TokenRule::EdgeOfMonth, "(?i:first day of|last day of)"),
    (
        TokenRule::QuarterHour,
        "(?i:back of |front of )<hour>(?:(?:<blanks>)?<half>)?",
    ),
    (
        TokenRule::WeekdayOf,
        "(?:<ordinal>|<relative>)<blanks>(?:<weekday>|<weekday_short>)<blanks>(?i:of)",
    ),
    (TokenRule::Time12, "<half_day_hour>(?:<blanks>)?<half>"),
    (
        TokenRule::Time12,
        "<half_day_hour>[:.]<minute_2d>(?:<blanks>)?<half>",
    ),
    (
        TokenRule::Time12,
        "<half_day_hour>[:.]<minute>[:.]<second_2d>(?:<blanks>)?<half>",
    ),
    (
        TokenRule::Time12Fraction,
        "<half_day_hour>:<minute_2d>:<second_2d>[:.][0-9]+<half>",
    ),
    (TokenRule::Time24, "(?i:t)<hour>"),
    (TokenRule::Time24, "(?i:t)?<hour>[:.]<minute>"),
    (
        TokenRule::Time24,
        "(?i:t)?<hour>[:.]<minute>[:.]<second>(?:<fraction>)?",
    ),
    (TokenRule::FourDigits, "(?i:t)?<hour_2d><minute_2d>"),
    (
        TokenRule::SixDigits,
        "(?i:t)?<hour_2d><minute_2d><second_2d>",
    ),
    (TokenRule::MonthDayYear, "<month>/<day>(?:/<year>)?"),
    (
        TokenRule::YearMonthDay,
        "[+-]?<year_4d>-<month_2d>-<day_2d>",
    ),
    (TokenRule::YearMonthDay, "<year_4d>/<month_2d>/<day_2d>/?"),
    (TokenRule::YearMonthDay, "<year_4d>/<month>/<day>"),
    (TokenRule::YearMonthDay, "[0-9]{2}-<month_2d>-<day_2d>"),
    (
        TokenRule::YearMonthDay,
        "[+-][0-9]{5,19}-<month_2d>-<day_2d>",
    ),
    (TokenRule::YearMonth, "<year_4d>-<month>"),
    (TokenRule::YearMonthDay, "<year>-<month>-<day>"),
    (
        TokenRule::DayWordYear,
        "<day>[ \t.-]*<month_word>[ \t.-]*<year>",
    ),
    (TokenRule::DayMonthYear, "<day>[.\t-]<month>[.-]<year_4d>"),
    (TokenRule::DayMonthYear, "<day>[.\t]<month>\\.[0-9]{2}"),
    (TokenRule::WordYear, "<month_word>[ .\t-]*<year_4d>"),
    (TokenRule::YearWord, "<year_4d>[ .\t-]*<month_word>"),
    (
        TokenRule::WordDayYear,
        "<month_word>[ .\t-]*<day>[,.stndrh\t ]+<year>",
    ),
    (TokenRule::WordDayYear, "<month_word_day>"),
    (TokenRule::DayWord, "<day>[ .\t-]*<month_word>"),
    (TokenRule::EightDigits, "<year_4d><month_2d><day_2d>"),
    (
        TokenRule::DateAndTime,
        "<year_4d><month_2d><day_2d>T<hour>:<minute_2d>:<second_2d>",
    ),
    (
        TokenRule::DateAndTime,
        "<year_4d><month_2d><day_2d>(?i:t)<hour><minute_2d><second_2d>",
    ),
    (
        TokenRule::DateAndTime,
        "<year_4d>-<month_2d>-<day_2d>T<hour_2d>:<minute_2d>:<second_2d><fraction>(?:<offset>)?",
    ),
    (
        TokenRule::DateAndTime,
        "<year_4d>-<month>-<day>T<hour>:<minute>:<second>",
    ),
    (
        TokenRule::DateAndTime,
        "<year_4d>:<month_2d>:<day_2d> <hour_2d>:<minute_2d>:<second_2d>",
    ),
    (
        TokenRule::YearAndDay,
        "<year_4d>[.-]?(?:00[1-9]|0[1-9][0-9]|[12][0-9][0-9]|3[0-5][0-9]|36[0-6])",
    ),
    (
        TokenRule::IsoWeek,
        "<year_4d>-?W(?:0[1-9]|[1-4][0-9]|5[0-3])-?[0-7]",
    ),
    (
        TokenRule::IsoWeek,
        "<year_4d>-?W(?:0[1-9]|[1-4][0-9]|5[0-3])",
    ),
    (TokenRule::WordDayYear, "<month_short>-<day_2d>-<year>"),
    (TokenRule::YearWordDay, "<year>-<month_short>-<day_2d>"),
    (
        TokenRule::WebLog,
        "<day>/<month_short>/<year_4d>:<hour_2d>:<minute_2d>:<second_2d><blanks><offset>",
    ),
    (TokenRule::Year, "<year_4d>"),
    (TokenRule::Ago, "(?i:ago)"),
    (
        TokenRule::WeekdayName,
        "(?:<weekday>|<weekday_short>|(?i:weekdays|weekday))",
    ),
    (TokenRule::RelativeWeek, "<relative><blanks>(?i:week)"),
    (
        TokenRule::RelativeWord,
        "(?:<ordinal>|<relative>)<blanks><unit>",
    ),
    (TokenRule::MonthName, "(?:<month_name>|<month_short>)"),
    (TokenRule::ZoneName, "<offset>"),
    (TokenRule::ZoneName, r"\(?[A-Za-z]{1,6}\)?"),
    (TokenRule::ZoneName, "[A-Z][a-z]+(?:[_/-][A-Za-z]+)+"),
    (
        TokenRule::WordDayTime12,
        "<month_word_day><half_day_hour>[:.]<minute_2d>(?:<blanks>)?<half>",
    ),
    (
        TokenRule::WordDayTime12,
        "<month_word_day><half_day_hour>[:.]<minute>[:.]<second_2d>(?:<blanks>)?<half>",
    ),
    (
        TokenRule::WordDayTime24,
        "<month_word_day>(?i:t)?<hour>[:.]<minute>",
    ),
    (
        TokenRule::WordDayTime24,
        "<month_word_day>(?i:t)?<hour>[:.]<minute>[:.]<second>",
    ),
    (
        TokenRule::WordDayTime24,
        "<month_word_day>(?i:t)?<hour>[:.]<minute>[:.]<second_2d>(?:<blanks>)?(?:<offset>|\\(?[A-Za-z]{1,6}\\)?)",
    ),
    (
        TokenRule::RelativeNumber,
        "[+-]*[ \t]*[0-9]{1,13}(?:<blanks>)?(?:<unit>|(?i:week))",
    ),
    (TokenRule::Blank, "[ .,\t\n\0]"),
];

static COMPILED: LazyLock<Vec<(TokenRule, Regex)>> = LazyLock::new(|| {
    let compile = |(rule, pattern): (TokenRule, &str)| {
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
pub fn longest(bytes: &[u8]) -> Option<(TokenRule, usize)> {
    let mut best: Option<(TokenRule, usize)> = None;
    for (rule, pattern) in COMPILED.iter() {
        if let Some(found) = pattern.find(bytes)
            && best.is_none_or(|(_, length)| found.end() > length)
        {
            best = Some((*rule, found.end()));
        }
    }
    best
}

/// A token, read from its start as timelib does: numbers are looked for, whatever is in between.
pub struct Token<'t> {
    bytes: &'t [u8],
    at: usize,
}

impl<'t> Token<'t> {
    /// A token from its start; what is behind a NUL is no part of it.
    pub fn new(bytes: &'t [u8]) -> Self {
        let end = bytes.iter().position(|byte| *byte == 0);
        Self {
            bytes: &bytes[..end.unwrap_or(bytes.len())],
            at: 0,
        }
    }

    /// What was not read yet.
    pub fn rest(&self) -> &'t [u8] {
        &self.bytes[self.at..]
    }

    /// The next byte.
    pub fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    /// Goes on behind all bytes that are not wanted.
    pub fn skip(&mut self, unwanted: impl Fn(u8) -> bool) {
        while self.peek().is_some_and(&unwanted) {
            self.at += 1;
        }
    }

    /// The next number, of at most so many digits, and how many it has.
    pub fn number_and_digits(&mut self, digits_max: usize) -> Option<(i64, usize)> {
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

    /// The next number, of at most so many digits.
    pub fn number(&mut self, digits_max: usize) -> Option<i64> {
        self.number_and_digits(digits_max).map(|(value, _)| value)
    }

    /// A number behind any number of signs, of which the first counts.
    pub fn signed(&mut self, digits_max: usize) -> Option<i64> {
        self.skip(|byte| !byte.is_ascii_digit() && !matches!(byte, b'+' | b'-'));
        let sign = if self.peek() == Some(b'-') { -1 } else { 1 };
        self.number(digits_max).map(|value| sign * value)
    }

    /// A year; one of two digits is of 1970 to 2069.
    pub fn year(&mut self) -> Option<i64> {
        let (year, digits) = self.number_and_digits(4)?;
        Some(match year {
            0..70 if digits < 4 => year + 2000,
            70..100 if digits < 4 => year + 1900,
            _ => year,
        })
    }

    /// The next letters, in lower case.
    pub fn letters(&mut self) -> String {
        let start = self.at;
        self.skip(|byte| byte.is_ascii_alphabetic());
        String::from_utf8_lossy(&self.bytes[start..self.at]).to_ascii_lowercase()
    }

    /// The number of the month whose name comes next.
    pub fn month(&mut self) -> Option<i64> {
        self.skip(|byte| matches!(byte, b' ' | b'\t' | b'-' | b'.' | b'/'));
        Some(month_of(&self.letters()))
    }

    /// Goes on behind `st`, `nd`, `rd`, `th`.
    pub fn day_suffix(&mut self) {
        let rest = self.rest();
        let suffixes: [&[u8]; 4] = [b"nd", b"rd", b"st", b"th"];
        if rest.len() >= 2 && suffixes.contains(&rest[..2].to_ascii_lowercase().as_slice()) {
            self.at += 2;
        }
    }

    /// Microseconds of the fraction of a second that comes next.
    pub fn fraction(&mut self) -> i64 {
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
    pub fn half_of_day(&mut self, hour: i64) -> i64 {
        self.skip(|byte| !matches!(byte, b'a' | b'A' | b'p' | b'P'));
        match (self.peek(), hour) {
            (Some(b'a' | b'A'), 12) => -12,
            (Some(b'p' | b'P'), hour) if hour != 12 => 12,
            _ => 0,
        }
    }

    /// Hour and minute, and the second if one follows one of the separators.
    pub fn clock(&mut self, separators: &[u8]) -> (i64, i64, i64) {
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

    /// The zone that comes next, and how MongoDB calls its kind.
    pub fn zone(&mut self) -> Result<(Zone, String), &'static str> {
        let (length, zone) = zone_at(self.rest());
        self.at += length;
        zone.ok_or(UNKNOWN_ZONE)
    }
}

/// The number of a month's name, in full, short or in Roman numerals; 0 for none.
pub fn month_of(word: &str) -> i64 {
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
