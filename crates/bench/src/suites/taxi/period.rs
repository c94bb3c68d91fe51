//! The times that the questions are about: a week, a month, the first half, all.
//!
//! They are those of the published evaluation where the trips cover a February:
//! the week from its first Monday, the whole of it, and the first half of all
//! months covered. Recorded trips may cover other months, and some records have
//! clocks that were wrong; hence the months are counted.

use std::collections::BTreeMap;

use anyhow::{Context, ensure};
use chrono::{DateTime, Datelike, Days, NaiveDate, Weekday};

use super::demand::DAY_MS;

/// A month holds at least this share of the trips of the busiest one, or it is not covered:
/// what lies in it are wrong clocks and the ends of the months around it.
const COVERED_SHARE: f64 = 0.01;
const FEBRUARY: u32 = 2;
const NAMES: [&str; 12] = [
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

/// A month of a year.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Month {
    /// The year.
    pub year: i32,
    /// From 1.
    pub month: u32,
}

impl Month {
    /// The month of a time in milliseconds since 1970; nothing beyond the calendar.
    pub fn of(unix_ms: i64) -> Option<Self> {
        let time = DateTime::from_timestamp_millis(unix_ms)?;
        Some(Self {
            year: time.year(),
            month: time.month(),
        })
    }

    /// Its name, without the year.
    pub fn name(self) -> &'static str {
        NAMES[self.month as usize - 1]
    }

    /// Whether it is the one that the published evaluation asked about.
    pub fn is_february(self) -> bool {
        self.month == FEBRUARY
    }

    fn next(self) -> Self {
        Self {
            year: self.year + i32::from(self.month == 12),
            month: self.month % 12 + 1,
        }
    }

    fn first_day(self) -> anyhow::Result<NaiveDate> {
        NaiveDate::from_ymd_opt(self.year, self.month, 1).context("a month beyond the calendar")
    }
}

/// From when until when, milliseconds since 1970, the end excluded.
pub type Range = (i64, i64);

/// What the questions are about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Period {
    /// Seven days from the month's first Monday.
    pub week: Range,
    /// All of the month.
    pub month: Range,
    /// Which month: a February where one is covered.
    pub month_asked: Month,
    /// The first half of all, in whole days.
    pub first_half: Range,
    /// All months covered.
    pub all: Range,
}

impl Period {
    /// The period of trips from the month `first` to the month `last`, with questions about `asked`.
    ///
    /// # Errors
    /// Beyond the calendar.
    pub fn new(first: Month, last: Month, asked: Month) -> anyhow::Result<Self> {
        let start = first.first_day()?;
        let end = last.next().first_day()?;
        let half = start + Days::new((end - start).num_days() as u64 / 2);
        let first_of_month = asked.first_day()?;
        let monday = first_of_month.week(Weekday::Mon).first_day();
        let monday = if monday < first_of_month {
            monday + Days::new(7)
        } else {
            monday
        };
        Ok(Self {
            week: (unix_ms(monday), unix_ms(monday) + 7 * DAY_MS),
            month: (unix_ms(first_of_month), unix_ms(asked.next().first_day()?)),
            month_asked: asked,
            first_half: (unix_ms(start), unix_ms(half)),
            all: (unix_ms(start), unix_ms(end)),
        })
    }

    /// The period of so many trips a month: the busiest February that is covered, or else the
    /// busiest month.
    ///
    /// # Errors
    /// Where there are no trips.
    pub fn of(months: &BTreeMap<Month, u64>) -> anyhow::Result<Self> {
        let busiest = months.values().max().copied().unwrap_or(0);
        ensure!(busiest > 0, "there are no trips");
        let covered = || {
            let enough = |trips: u64| trips as f64 >= busiest as f64 * COVERED_SHARE;
            months.iter().filter(move |(_, trips)| enough(**trips))
        };
        let most = |(_, trips): &(&Month, &u64)| **trips;
        let asked = covered()
            .filter(|(month, _)| month.is_february())
            .max_by_key(most)
            .or_else(|| covered().max_by_key(most));
        let first = covered().next().context("the busiest is covered")?;
        let last = covered().next_back().context("the busiest is covered")?;
        let (asked, _) = asked.context("the busiest is covered")?;
        Self::new(*first.0, *last.0, *asked)
    }
}

fn unix_ms(day: NaiveDate) -> i64 {
    day.and_time(chrono::NaiveTime::MIN)
        .and_utc()
        .timestamp_millis()
}

/// The days of a range, first and last, for people.
pub fn days((from_ms, until_ms): Range) -> String {
    let day = |unix_ms: i64| {
        DateTime::from_timestamp_millis(unix_ms)
            .map_or_else(|| unix_ms.to_string(), |time| time.date_naive().to_string())
    };
    format!("{} to {}", day(from_ms), day(until_ms - DAY_MS))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suites::taxi::demand::{DAYS, YEAR_START_MS};

    fn month(year: i32, month: u32) -> Month {
        Month { year, month }
    }

    fn of(months: &[(i32, u32, u64)]) -> Period {
        let trips = months.iter().map(|(y, m, trips)| (month(*y, *m), *trips));
        Period::of(&trips.collect()).expect("there are trips")
    }

    #[test]
    fn a_year_is_asked_about_february_and_its_first_half() {
        let days = |from: i64, until: i64| {
            (
                YEAR_START_MS + from * DAY_MS,
                YEAR_START_MS + until * DAY_MS,
            )
        };
        let year: Vec<(i32, u32, u64)> = (1..=12).map(|month| (2013, month, 100)).collect();
        let period = of(&year);
        assert_eq!(period.week, days(34, 41));
        assert_eq!(period.month, days(31, 59));
        assert_eq!(period.first_half, days(0, 182));
        assert_eq!(period.all, days(0, DAYS));
        assert_eq!(super::days(period.week), "2013-02-04 to 2013-02-10");
    }

    #[test]
    fn the_busiest_february_is_asked_about_and_else_the_busiest_month() {
        let period = of(&[(2019, 12, 50), (2020, 2, 60), (2021, 2, 14), (2021, 3, 70)]);
        assert_eq!(period.month_asked, month(2020, 2));
        assert_eq!(days(period.month), "2020-02-01 to 2020-02-29");
        let period = of(&[(2022, 11, 50), (2022, 12, 60), (2023, 1, 55)]);
        assert_eq!(period.month_asked, month(2022, 12));
        assert_eq!(period.month_asked.name(), "December");
        assert_eq!(days(period.month), "2022-12-01 to 2022-12-31");
        // 1 December 2022 was a Thursday.
        assert_eq!(days(period.week), "2022-12-05 to 2022-12-11");
        assert_eq!(days(period.all), "2022-11-01 to 2023-01-31");
    }

    #[test]
    fn a_few_trips_with_wrong_clocks_cover_no_month() {
        let period = of(&[(2002, 12, 9), (2023, 1, 1000), (2023, 2, 9), (2098, 9, 1)]);
        assert_eq!(period.month_asked, month(2023, 1));
        assert_eq!(days(period.all), "2023-01-01 to 2023-01-31");
        let period = of(&[(2023, 1, 1000), (2023, 2, 10)]);
        assert_eq!(period.month_asked, month(2023, 2));
        assert!(Period::of(&BTreeMap::new()).is_err());
    }
}
