//! When people take taxis: the demand of each hour of 2013.
//!
//! Trips are numbered in time order. The year's demand is summed hour by hour,
//! and trip `i` of `n` is picked up when a share between `i / n` and `(i + 1) / n`
//! of it has passed: any trip's time follows from its number alone, so trips
//! can be made in any order.

/// 2013-01-01T00:00:00Z, a Tuesday, in milliseconds since 1970.
pub const YEAR_START_MS: i64 = 1_356_998_400_000;
/// Days of the year.
pub const DAYS: i64 = 365;
/// Milliseconds of an hour.
pub const HOUR_MS: i64 = 3_600_000;
/// Milliseconds of a day.
pub const DAY_MS: i64 = 24 * HOUR_MS;
/// Demand by hour of the day: quiet before dawn, most after work.
const BY_HOUR: [f64; 24] = [
    0.90, 0.67, 0.50, 0.36, 0.27, 0.23, 0.49, 0.83, 1.04, 1.07, 1.03, 1.07, 1.13, 1.12, 1.16, 1.11,
    0.96, 1.14, 1.39, 1.45, 1.36, 1.33, 1.29, 1.13,
];
/// Demand by day of the week, from Monday.
const BY_WEEKDAY: [f64; 7] = [0.90, 0.97, 1.01, 1.04, 1.09, 1.07, 0.92];
/// 2013 began on a Tuesday.
const FIRST_WEEKDAY: usize = 1;

/// The year's demand, summed.
#[derive(Debug, Clone)]
pub struct Demand {
    /// Demand until the end of each hour of the year.
    until: Vec<f64>,
}

impl Demand {
    /// Sums it.
    pub fn of_the_year() -> Self {
        let hours = DAYS as usize * 24;
        let mut sum = 0.0;
        let until = (0..hours).map(|hour| {
            let weekday = (hour / 24 + FIRST_WEEKDAY) % 7;
            // Nights out: the small hours of Saturday and Sunday are busy.
            let night_out = if weekday >= 5 && hour % 24 < 5 {
                1.8
            } else {
                1.0
            };
            sum += BY_HOUR[hour % 24] * BY_WEEKDAY[weekday] * night_out;
            sum
        });
        Self {
            until: until.collect(),
        }
    }

    /// When a share of the year's demand has passed, in milliseconds since 1970, whole seconds.
    pub fn time_ms(&self, share: f64) -> i64 {
        let total = self.until[self.until.len() - 1];
        let passed = share * total;
        let hour = self.until.partition_point(|until| *until <= passed);
        let hour = hour.min(self.until.len() - 1);
        let before = if hour == 0 { 0.0 } else { self.until[hour - 1] };
        let within = (passed - before) / (self.until[hour] - before);
        let second = (within * 3600.0).clamp(0.0, 3599.0) as i64;
        YEAR_START_MS + hour as i64 * HOUR_MS + second * 1000
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_ascend_through_the_year_and_follow_the_hours() {
        let demand = Demand::of_the_year();
        let times: Vec<i64> = (0..100_000)
            .map(|number| demand.time_ms(f64::from(number) / 100_000.0))
            .collect();
        assert!(times.is_sorted());
        assert_eq!(times[0], YEAR_START_MS);
        assert!(times[99_999] < YEAR_START_MS + DAYS * DAY_MS);
        let at_hour = |wanted: i64| {
            let hours = times
                .iter()
                .map(|time| (time - YEAR_START_MS) / HOUR_MS % 24);
            hours.filter(|hour| *hour == wanted).count()
        };
        assert!(
            at_hour(19) > 4 * at_hour(5),
            "{} {}",
            at_hour(19),
            at_hour(5)
        );
    }
}
