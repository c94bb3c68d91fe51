//! Stretches of time that no calendar bin cuts.
//!
//! In: an instant, and a unit in a time zone. Out: how far around the instant every other one has the
//! same offset from UTC and lies in the same bin. So whatever is computed from the bin (`$dateTrunc`,
//! `$year`, ...) is the same for a whole stretch. Where clocks change a stretch ends, even if the bin goes
//! on: set back over midnight, a day is left and entered again, and its bin is no one stretch of time.

use super::{Civil, DAY_MS, REFERENCE_DAYS, Unit, Zone, days_from_civil};
use std::ops::Range;

/// No zone changes its clocks twice within so long: the shortest time in the Olson database is four days
/// (Africa/Freetown, 1939).
const PROBE_MS: i64 = DAY_MS / 4;
/// No stretch in a zone that changes its clocks is looked for further than this.
const HORIZON_MS: i64 = 400 * DAY_MS;

/// Bins of so many units, counted in a zone's local time.
#[derive(Debug, Clone, Copy)]
pub struct LocalBins {
    /// What is counted.
    pub unit: Unit,
    /// How many make a bin.
    pub bin: i64,
    /// Whose local time.
    pub zone: Zone,
    /// The first day of weeks: 1 (Monday) to 7 (Sunday).
    pub week_start: i64,
}

impl LocalBins {
    /// Single units, which the parts of a date (`$year`, `$hour`) are constant in.
    pub fn single(unit: Unit, zone: Zone) -> Self {
        Self {
            unit,
            bin: 1,
            zone,
            week_start: 7,
        }
    }

    /// The first instant behind the stretch that holds `millis`; `None` beyond what can be computed.
    pub fn end(&self, millis: i64) -> Option<i64> {
        let offset = self.zone.offset_ms(millis);
        let local_end = self.bin(millis.checked_add(offset)?)?.end;
        let end = local_end.checked_sub(offset)?;
        let end = self.zone.offset_until(millis, end);
        (end > millis).then_some(end)
    }

    /// The first instant of the stretch that holds `millis`; `None` beyond what can be computed.
    pub fn begin(&self, millis: i64) -> Option<i64> {
        let offset = self.zone.offset_ms(millis);
        let local_begin = self.bin(millis.checked_add(offset)?)?.start;
        let begin = local_begin.checked_sub(offset)?;
        let begin = self.zone.offset_since(millis, begin);
        (begin <= millis).then_some(begin)
    }

    /// The bin of a local reading.
    fn bin(&self, local: i64) -> Option<Range<i64>> {
        if let Some(unit_months) = self.unit.months() {
            let civil = Civil::from_millis(local);
            let bin_months = unit_months.checked_mul(self.bin)?;
            let months = (civil.year - 2000) * 12 + civil.month - 1;
            let first = months.div_euclid(bin_months).checked_mul(bin_months)?;
            return Some(first_of_month(first)?..first_of_month(first.checked_add(bin_months)?)?);
        }
        let (reference, unit_ms) = match self.unit {
            Unit::Week => {
                let first_day = REFERENCE_DAYS + (self.week_start + 1) % 7;
                (first_day * DAY_MS, 7 * DAY_MS)
            }
            unit => (REFERENCE_DAYS * DAY_MS, unit.millis()),
        };
        let length = unit_ms.checked_mul(self.bin)?;
        let number = local.checked_sub(reference)?.div_euclid(length);
        let start = number.checked_mul(length)?.checked_add(reference)?;
        Some(start..start.checked_add(length)?)
    }
}

/// The local reading at which a month begins, counted from January 2000.
fn first_of_month(months: i64) -> Option<i64> {
    // Far beyond any date; keeps the days within their range.
    const MONTHS_MAX: i64 = 12 * 1_000_000_000;
    if months.abs() > MONTHS_MAX {
        return None;
    }
    days_from_civil(2000, 1 + months, 1).checked_mul(DAY_MS)
}

impl Zone {
    /// The first instant behind `millis` with another offset from UTC, if it is before `end`; else `end`, or
    /// an earlier instant that is far away.
    fn offset_until(self, millis: i64, end: i64) -> i64 {
        if self.is_fixed() {
            return end;
        }
        let end = end.min(millis.saturating_add(HORIZON_MS));
        let offset = self.offset_ms(millis);
        let mut same = millis;
        while same < end {
            let next = same.saturating_add(PROBE_MS).min(end);
            if self.offset_ms(next) != offset {
                return self.change(same, next, offset);
            }
            same = next;
        }
        end
    }

    /// The first instant from `begin` on since which the offset is that at `millis`, or a later one
    /// that is far away.
    fn offset_since(self, millis: i64, begin: i64) -> i64 {
        if self.is_fixed() {
            return begin;
        }
        let begin = begin.max(millis.saturating_sub(HORIZON_MS));
        let offset = self.offset_ms(millis);
        let mut same = millis;
        while same > begin {
            let before = same.saturating_sub(PROBE_MS).max(begin);
            let other = self.offset_ms(before);
            if other != offset {
                return self.change(before, same, other);
            }
            same = before;
        }
        begin
    }

    /// The first instant in `(low, high]` without the offset that `low` has and `high` does not.
    fn change(self, low: i64, high: i64, offset: i64) -> i64 {
        let (mut low, mut high) = (low, high);
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            if self.offset_ms(middle) == offset {
                low = middle;
            } else {
                high = middle;
            }
        }
        high
    }
}

#[cfg(test)]
mod tests {
    use super::super::{HOUR_MS, reference_clock, truncate};
    use super::*;
    use rand::prelude::*;
    use rand_chacha::ChaCha8Rng;

    const UNITS: [Unit; 7] = [
        Unit::Year,
        Unit::Quarter,
        Unit::Month,
        Unit::Week,
        Unit::Day,
        Unit::Hour,
        Unit::Minute,
    ];

    /// Instants all over a stretch, and most of them near its ends.
    fn within(random: &mut ChaCha8Rng, stretch: &Range<i64>) -> i64 {
        let length = stretch.end - stretch.start;
        let reach = [1, 10, HOUR_MS, 30 * HOUR_MS, length][random.random_range(0..5)].min(length);
        let step = random.random_range(0..reach);
        if random.random() {
            stretch.start + step
        } else {
            stretch.end - 1 - step
        }
    }

    #[test]
    fn nothing_changes_within_a_stretch() {
        let seed = 31;
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let zones = [
            "UTC",
            "+05:45",
            "America/New_York",
            "America/Sao_Paulo",
            "America/Havana",
            "Australia/Lord_Howe",
            "Europe/Berlin",
            "Asia/Gaza",
            "Asia/Kathmandu",
            "Africa/Casablanca",
            "Pacific/Apia",
            "Antarctica/Troll",
            "Asia/Beirut",
            "Africa/Cairo",
            "America/Asuncion",
        ];
        for number in 0..6_000 {
            let name = zones[random.random_range(0..zones.len())];
            let bins = LocalBins {
                unit: UNITS[random.random_range(0..UNITS.len())],
                bin: random.random_range(1..4),
                zone: Zone::parse(name).unwrap(),
                week_start: random.random_range(1..8),
            };
            let millis = random.random_range(-60 * 366 * DAY_MS..80 * 366 * DAY_MS);
            let stretch = bins.begin(millis).unwrap()..bins.end(millis).unwrap();
            let shown = format!("seed {seed}, number {number}: {bins:?} at {millis}: {stretch:?}");
            assert!(stretch.contains(&millis), "{shown}");
            let clock = reference_clock(bins.zone);
            let truncated = |at| truncate(at, &bins, clock);
            for _ in 0..20 {
                let other = within(&mut random, &stretch);
                let offset = bins.zone.offset_ms(other);
                assert_eq!(offset, bins.zone.offset_ms(millis), "{shown}, {other}");
                let local = |at: i64| bins.bin(at + offset).unwrap();
                assert_eq!(local(other), local(millis), "{shown}, {other}");
                if bins.unit.is_calendar() {
                    assert_eq!(truncated(other), truncated(millis), "{shown}, {other}");
                }
            }
        }
    }

    #[test]
    fn clocks_set_back_over_midnight_cut_a_day() {
        // Brazil, 18 February 2018, 00:00 to 23:00: the last hour of the 17th comes twice.
        let zone = Zone::parse("America/Sao_Paulo").unwrap();
        let bins = LocalBins::single(Unit::Day, zone);
        let change = 1_518_919_200_000;
        let before = change - 1;
        assert_eq!(bins.end(before), Some(change));
        assert_eq!(bins.begin(change), Some(change));
        assert_eq!(bins.end(change), Some(change + HOUR_MS));
        let day = |at| truncate(at, &bins, reference_clock(zone));
        assert_eq!(day(before), day(change));
    }
}
