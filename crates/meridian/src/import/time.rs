//! Dates and times in text: the usual forms, and Go's layouts as mongoimport takes them.

const MINUTE_MS: i64 = 60_000;
const DAY_MS: i64 = 86_400_000;

/// Milliseconds since 1970 of `2017-12-01`, `2017-12-01 10:20[:30[.123456]][Z|±01[:]00]`, the same with `T`,
/// or DB2's `2017-12-01-10.20.30.123456`. UTC unless the text says otherwise.
pub fn parse(text: &[u8]) -> Option<i64> {
    let mut input = Cursor(text);
    let year = input.digits(4)?;
    input.literal(b'-')?;
    let month = input.digits(2)?;
    input.literal(b'-')?;
    let day = input.digits(2)?;
    let midnight = civil(year, month, day)?;
    let Some((separator, rest)) = input.0.split_first() else {
        return Some(midnight);
    };
    input.0 = rest;
    let between = match separator {
        b' ' | b'T' | b't' => b':',
        b'-' => b'.',
        _ => return None,
    };
    let hour = input.digits(2)?;
    input.literal(between)?;
    let minute = input.digits(2)?;
    let second = if input.literal(between).is_some() {
        input.digits(2)?
    } else {
        0
    };
    let fraction = input.fraction()?;
    let offset = input.zone()?;
    input.end()?;
    Some(midnight + time_of_day(hour, minute, second)? + fraction - offset)
}

fn time_of_day(hour: i64, minute: i64, second: i64) -> Option<i64> {
    // A leap second counts as the next minute's first, as everywhere in MongoDB's world.
    (hour < 24 && minute < 60 && second <= 60)
        .then_some((hour * 3600 + minute * 60 + second) * 1000)
}

/// Midnight UTC of a date in milliseconds since 1970 (Howard Hinnant's days_from_civil).
fn civil(year: i64, month: i64, day: i64) -> Option<i64> {
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let days_of_month = match month {
        2 => 28 + i64::from(leap),
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => return None,
    };
    if day < 1 || day > days_of_month {
        return None;
    }
    let shifted = if month <= 2 { year - 1 } else { year };
    let era = shifted.div_euclid(400);
    let year_of_era = shifted - era * 400;
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    Some((era * 146_097 + day_of_era - 719_468) * DAY_MS)
}

/// What is left of the text.
struct Cursor<'a>(&'a [u8]);

impl Cursor<'_> {
    fn literal(&mut self, byte: u8) -> Option<()> {
        self.0 = self.0.strip_prefix(&[byte])?;
        Some(())
    }

    fn digits(&mut self, count: usize) -> Option<i64> {
        let (digits, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        digits.iter().try_fold(0, |so_far, byte| {
            byte.is_ascii_digit()
                .then(|| so_far * 10 + i64::from(byte - b'0'))
        })
    }

    /// One or two digits, as Go's layouts without a leading zero take them.
    fn short_number(&mut self) -> Option<i64> {
        let count = self
            .0
            .iter()
            .take(2)
            .take_while(|byte| byte.is_ascii_digit())
            .count();
        if count == 0 { None } else { self.digits(count) }
    }

    /// Milliseconds of `.123456`; 0 when there is no point.
    fn fraction(&mut self) -> Option<i64> {
        if !matches!(self.0.first(), Some(b'.' | b',')) {
            return Some(0);
        }
        self.0 = &self.0[1..];
        let count = self
            .0
            .iter()
            .take_while(|byte| byte.is_ascii_digit())
            .count();
        let digits = &self.0[..count];
        self.0 = &self.0[count..];
        let millisecond = |at: usize| digits.get(at).map_or(0, |byte| i64::from(byte - b'0'));
        (count > 0).then(|| millisecond(0) * 100 + millisecond(1) * 10 + millisecond(2))
    }

    /// Milliseconds east of UTC of `Z`, `+01:00`, `+0100` or `+01`; 0 when there is none.
    fn zone(&mut self) -> Option<i64> {
        if self.literal(b' ').is_some() && self.0.is_empty() {
            return None;
        }
        let sign = match self.0.first() {
            None => return Some(0),
            Some(b'Z' | b'z') => {
                self.0 = &self.0[1..];
                return Some(0);
            }
            Some(b'+') => 1,
            Some(b'-') => -1,
            Some(_) => return None,
        };
        self.0 = &self.0[1..];
        let hours = self.digits(2)?;
        let colon = self.literal(b':').is_some();
        let minutes = if colon || !self.0.is_empty() {
            self.digits(2)?
        } else {
            0
        };
        (hours < 24 && minutes < 60).then_some(sign * (hours * 60 + minutes) * MINUTE_MS)
    }

    fn end(&self) -> Option<()> {
        self.0.is_empty().then_some(())
    }

    fn name(&mut self, names: &[&str], shortest: usize) -> Option<i64> {
        for (at, name) in names.iter().enumerate() {
            for length in [name.len(), shortest] {
                if self.0.len() >= length
                    && self.0[..length].eq_ignore_ascii_case(&name.as_bytes()[..length])
                {
                    self.0 = &self.0[length..];
                    return Some(at as i64);
                }
            }
        }
        None
    }
}

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const WEEKDAYS: [&str; 7] = [
    "Sunday",
    "Monday",
    "Tuesday",
    "Wednesday",
    "Thursday",
    "Friday",
    "Saturday",
];

/// A piece of a layout.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Piece {
    Literal(u8),
    Year4,
    Year2,
    Month,
    MonthName,
    Day,
    Weekday,
    Hour,
    Minute,
    Second,
    Fraction,
    Zone,
    Noon,
}

/// Go's reference time, `Mon Jan 2 15:04:05 -0700 2006`, written the way dates are written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout(Vec<Piece>);

/// Longer spellings first, so that a prefix does not win.
const PIECES: [(&str, Piece); 32] = [
    ("January", Piece::MonthName),
    ("Monday", Piece::Weekday),
    ("2006", Piece::Year4),
    ("Z07:00", Piece::Zone),
    ("-07:00", Piece::Zone),
    ("Z0700", Piece::Zone),
    ("-0700", Piece::Zone),
    ("Z07", Piece::Zone),
    ("-07", Piece::Zone),
    ("Jan", Piece::MonthName),
    ("Mon", Piece::Weekday),
    ("MST", Piece::Zone),
    ("15", Piece::Hour),
    ("01", Piece::Month),
    ("02", Piece::Day),
    ("_2", Piece::Day),
    ("03", Piece::Hour),
    ("04", Piece::Minute),
    ("05", Piece::Second),
    ("06", Piece::Year2),
    ("PM", Piece::Noon),
    ("pm", Piece::Noon),
    (".000000000", Piece::Fraction),
    (".000000", Piece::Fraction),
    (".000", Piece::Fraction),
    (".999", Piece::Fraction),
    (".0", Piece::Fraction),
    ("1", Piece::Month),
    ("2", Piece::Day),
    ("3", Piece::Hour),
    ("4", Piece::Minute),
    ("5", Piece::Second),
];

impl Layout {
    /// Reads a layout. Anything that is no part of the reference time stands for itself.
    pub fn new(text: &str) -> Self {
        let mut pieces = Vec::new();
        let mut rest = text;
        while let Some(first) = rest.bytes().next() {
            let found = PIECES
                .iter()
                .find(|(spelling, _)| rest.starts_with(spelling));
            let (length, piece) = found.map_or((1, Piece::Literal(first)), |(spelling, piece)| {
                (spelling.len(), *piece)
            });
            pieces.push(piece);
            // A literal may be the first byte of a longer character: go on byte by byte only within ASCII.
            if rest.is_char_boundary(length) {
                rest = &rest[length..];
            } else {
                let character = rest.chars().next().map_or(1, char::len_utf8);
                pieces.pop();
                pieces.extend(
                    rest.as_bytes()[..character]
                        .iter()
                        .map(|byte| Piece::Literal(*byte)),
                );
                rest = &rest[character..];
            }
        }
        Self(pieces)
    }

    /// Milliseconds since 1970 of a text in this layout.
    pub fn parse(&self, text: &[u8]) -> Option<i64> {
        let mut input = Cursor(text);
        let (mut year, mut month, mut day) = (1970, 1, 1);
        let (mut hour, mut minute, mut second, mut fraction, mut offset) = (0, 0, 0, 0, 0);
        let mut afternoon = None;
        for piece in &self.0 {
            match piece {
                Piece::Literal(byte) => input.literal(*byte)?,
                Piece::Year4 => year = input.digits(4)?,
                // As Go: 69 to 99 are the last century.
                Piece::Year2 => {
                    year = input.digits(2).map(|short| {
                        if short >= 69 {
                            1900 + short
                        } else {
                            2000 + short
                        }
                    })?
                }
                Piece::Month => month = input.short_number()?,
                Piece::MonthName => month = input.name(&MONTHS, 3)? + 1,
                Piece::Day => {
                    let _ = input.literal(b' ');
                    day = input.short_number()?;
                }
                Piece::Weekday => drop(input.name(&WEEKDAYS, 3)?),
                Piece::Hour => hour = input.short_number()?,
                Piece::Minute => minute = input.short_number()?,
                Piece::Second => second = input.short_number()?,
                Piece::Fraction => fraction = input.fraction()?,
                Piece::Zone => offset = input.named_zone()?,
                Piece::Noon => afternoon = Some(input.name(&["AM", "PM"], 2)? == 1),
            }
            // Go takes a fraction after the seconds even where the layout has none.
            if *piece == Piece::Second
                && input.0.first() == Some(&b'.')
                && !self.0.contains(&Piece::Fraction)
            {
                fraction = input.fraction()?;
            }
        }
        input.end()?;
        if let Some(afternoon) = afternoon {
            hour = hour % 12 + if afternoon { 12 } else { 0 };
        }
        Some(civil(year, month, day)? + time_of_day(hour, minute, second)? + fraction - offset)
    }
}

impl Cursor<'_> {
    /// An offset, or `UTC` or `GMT`; other zones' names are ambiguous and refused.
    fn named_zone(&mut self) -> Option<i64> {
        for name in [b"UTC", b"GMT"] {
            if let Some(rest) = self.0.strip_prefix(name) {
                self.0 = rest;
                return Some(0);
            }
        }
        let length = match self.0.first()? {
            b'Z' => 1,
            _ if self.0.get(3) == Some(&b':') => 6,
            _ if self.0.len() >= 5 && self.0[3].is_ascii_digit() => 5,
            _ => 3,
        };
        let (zone, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Cursor(zone).zone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DECEMBER_FIRST: i64 = 1_512_086_400_000;

    #[test]
    fn the_usual_forms_are_read() {
        for (text, expected) in [
            ("2017-12-01", DECEMBER_FIRST),
            ("2017-12-01 00:00:00", DECEMBER_FIRST),
            ("2017-12-01T01:02:03.004Z", DECEMBER_FIRST + 3_723_004),
            ("2017-12-01 01:02:03.0", DECEMBER_FIRST + 3_723_000),
            ("2017-12-01-01.02.03.004999", DECEMBER_FIRST + 3_723_004),
            ("2017-12-01T01:00:00+01:00", DECEMBER_FIRST),
            ("2017-12-01T00:30", DECEMBER_FIRST + 1_800_000),
            ("2017-11-30T23:00:00-0100", DECEMBER_FIRST),
            ("1969-12-31", -DAY_MS),
            ("2000-02-29", 951_782_400_000),
        ] {
            assert_eq!(parse(text.as_bytes()), Some(expected), "{text}");
        }
        for wrong in [
            "",
            "2017",
            "2017-13-01",
            "2017-02-29",
            "2017-12-01 25:00:00",
            "2017-12-01 10:20:30 ",
            "2017-12-01x",
        ] {
            assert_eq!(parse(wrong.as_bytes()), None, "{wrong:?}");
        }
    }

    #[test]
    fn layouts_are_read_as_go_reads_them() {
        for (layout, text, expected) in [
            (
                "2006-01-02 15:04:05",
                "2017-12-01 01:02:03",
                Some(DECEMBER_FIRST + 3_723_000),
            ),
            (
                "2006-01-02 15:04:05",
                "2017-12-01 01:02:03.5",
                Some(DECEMBER_FIRST + 3_723_500),
            ),
            ("02/01/2006", "01/12/2017", Some(DECEMBER_FIRST)),
            (
                "1/2/06 3:04 PM",
                "12/1/17 1:30 AM",
                Some(DECEMBER_FIRST + 5_400_000),
            ),
            ("Jan 2, 2006", "Dec 1, 2017", Some(DECEMBER_FIRST)),
            (
                "Mon, 02 Jan 2006 15:04:05 MST",
                "Fri, 01 Dec 2017 00:00:00 GMT",
                Some(DECEMBER_FIRST),
            ),
            (
                "2006-01-02T15:04:05Z07:00",
                "2017-12-01T01:00:00+01:00",
                Some(DECEMBER_FIRST),
            ),
            ("2006-01-02", "01.12.2017", None),
            ("2006-01-02", "2017-12-01 ", None),
        ] {
            assert_eq!(
                Layout::new(layout).parse(text.as_bytes()),
                expected,
                "{layout}: {text}"
            );
        }
    }
}
