//! By how much a free text moves the date in it: `+1 day`, `next monday`, `last day of`.

/// By how much a date is moved after it was read.
#[derive(Debug, Default)]
#[allow(missing_docs)]
pub struct Steps {
    pub years: i64,
    pub months: i64,
    pub days: i64,
    pub hours: i64,
    pub minutes: i64,
    pub seconds: i64,
    pub micros: i64,
    pub weekday: Option<Weekday>,
    /// `2` once `this week` was read, which changes what a weekday means.
    pub behavior: i64,
    /// So many days from Monday to Friday.
    pub workdays: Option<i64>,
    pub within_month: Option<WithinMonth>,
    pub edge: Option<MonthEdge>,
}

/// A day of the week, 0 (Sunday) to 6; negative after `ago`.
#[derive(Debug, Clone, Copy)]
pub struct Weekday(pub i64);

/// `third friday of`, `last friday of`.
#[derive(Debug, Clone, Copy)]
#[allow(missing_docs)]
pub enum WithinMonth {
    FromFirst,
    FromLast,
}

/// `first day of`, `last day of`.
#[derive(Debug, Clone, Copy)]
#[allow(missing_docs)]
pub enum MonthEdge {
    FirstDay,
    LastDay,
}

impl Steps {
    /// `ago`: all steps before it go back. (Not microseconds, in MongoDB's edition of timelib.)
    pub fn turn_back(&mut self) {
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
    pub fn to_weekday(&self, Weekday(weekday): Weekday, days: i64) -> i64 {
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
pub fn workdays(count: i64, days: i64) -> i64 {
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
pub fn weekday_of(name: &str) -> Option<i64> {
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
pub fn count_of(word: &str) -> (i64, i64) {
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
