//! The right answers, worked out from the readings themselves.

use super::asked::{Asked, DAY, HOUR, HOUR_MS, SIX_HOURS};
use super::generator::{Reading, Readings, degrees};
use crate::questions::answer::{Answer, Row};

/// What is known of some temperatures.
#[derive(Debug, Clone, Copy)]
struct Totals {
    readings: i64,
    sum_tenths: i64,
    least_tenths: i32,
    greatest_tenths: i32,
}

impl Totals {
    const NONE: Self = Self {
        readings: 0,
        sum_tenths: 0,
        least_tenths: i32::MAX,
        greatest_tenths: i32::MIN,
    };

    fn add(&mut self, tenths: i32) {
        self.readings += 1;
        self.sum_tenths += i64::from(tenths);
        self.least_tenths = self.least_tenths.min(tenths);
        self.greatest_tenths = self.greatest_tenths.max(tenths);
    }

    fn average(&self) -> f64 {
        self.sum_tenths as f64 / (10 * self.readings) as f64
    }
}

/// What the right answers are made of.
pub struct Answers {
    /// Time and temperature of each sensor's last reading so far.
    last: Vec<(i64, f64)>,
    /// The readings of the day of the sensor that is asked for.
    pub day_of_one: Answer,
    in_area: Vec<bool>,
    /// Of each hour of the day, in the area.
    area_hours: Vec<Totals>,
    /// Of each of six hours of each sensor.
    sensor_hours: Vec<Totals>,
    hour: Totals,
    day_count: i64,
}

impl Answers {
    /// Looks at every reading.
    pub fn of(readings: &Readings, asked: &Asked) -> Self {
        let sensors = readings.sensors();
        let in_area = sensors.iter().map(|sensor| asked.area.contains(sensor));
        let mut answers = Self {
            last: vec![(i64::MIN, 0.0); sensors.len()],
            day_of_one: Answer::default(),
            in_area: in_area.collect(),
            area_hours: vec![Totals::NONE; DAY.hours_within()],
            sensor_hours: vec![Totals::NONE; sensors.len() * SIX_HOURS.hours_within()],
            hour: Totals::NONE,
            day_count: 0,
        };
        for number in 0..readings.total() {
            answers.add(&readings.reading(number), asked);
        }
        answers
    }

    fn add(&mut self, reading: &Reading, asked: &Asked) {
        let (sensor, tenths) = (reading.sensor as usize, reading.temperature_tenths);
        // A sensor's readings come in the order of time.
        self.last[sensor] = (reading.at_ms, reading.temperature());
        if let Some(hour) = DAY.hour(reading.at_ms) {
            self.day_count += 1;
            if self.in_area[sensor] {
                self.area_hours[hour].add(tenths);
            }
            if reading.sensor == asked.sensor {
                self.day_of_one.add(whole_reading(reading));
            }
        }
        if let Some(hour) = SIX_HOURS.hour(reading.at_ms) {
            self.sensor_hours[sensor * SIX_HOURS.hours_within() + hour].add(tenths);
        }
        if HOUR.hour(reading.at_ms).is_some() {
            self.hour.add(tenths);
        }
    }

    /// Sensor, time and temperature of each last reading.
    pub fn last(&self) -> Answer {
        let last = (0..).zip(&self.last);
        last.map(|(sensor, (at_ms, temperature))| {
            Row::new().whole(sensor).whole(*at_ms).number(*temperature)
        })
        .collect()
    }

    /// Hour, average and number of readings in the area.
    pub fn averages(&self) -> Answer {
        let hours = (0..).zip(&self.area_hours);
        hours
            .map(|(hour, totals): (i64, _)| {
                let row = Row::new().whole(DAY.from_ms + hour * HOUR_MS);
                row.rounded(totals.average()).whole(totals.readings)
            })
            .collect()
    }

    /// Sensor, hour, average, least and greatest.
    pub fn downsampled(&self) -> Answer {
        let hours = SIX_HOURS.hours_within() as i64;
        let each = (0..).zip(&self.sensor_hours);
        each.map(|(place, totals): (i64, _)| {
            let (sensor, hour) = (place / hours, place % hours);
            Row::new()
                .whole(sensor)
                .whole(SIX_HOURS.from_ms + hour * HOUR_MS)
                .rounded(totals.average())
                .number(degrees(totals.least_tenths))
                .number(degrees(totals.greatest_tenths))
        })
        .collect()
    }

    /// The highest temperature of the hour.
    pub fn highest(&self) -> Answer {
        let highest = degrees(self.hour.greatest_tenths);
        [Row::new().number(highest)].into_iter().collect()
    }

    /// How many readings the day has.
    pub fn count(&self) -> Answer {
        [Row::new().whole(self.day_count)].into_iter().collect()
    }
}

fn whole_reading(reading: &Reading) -> Row {
    Row::new()
        .whole(reading.sensor.into())
        .whole(reading.at_ms)
        .number(reading.temperature())
        .number(reading.humidity())
        .whole(reading.battery.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seeded::Size;

    #[test]
    fn a_day_is_counted_whole_and_averages_are_those_of_brute_force() {
        let readings = Readings::new(Size {
            seed: 1,
            scale: 0.002,
        });
        let asked = Asked::of(&readings);
        let answers = Answers::of(&readings, &asked);
        assert_eq!(answers.day_count, 20 * 1_440);
        let all = (0..readings.total()).map(|number| readings.reading(number));
        let in_first_hour = all.filter(|reading| {
            let sensor = &readings.sensors()[reading.sensor as usize];
            asked.area.contains(sensor) && DAY.hour(reading.at_ms) == Some(0)
        });
        let temperatures: Vec<f64> = in_first_hour.map(|reading| reading.temperature()).collect();
        let average = temperatures.iter().sum::<f64>() / temperatures.len() as f64;
        let known = answers.area_hours[0];
        let sensors = asked.sensors_in_area(&readings) as i64;
        assert_eq!(known.readings, 60 * sensors);
        assert_eq!(known.readings, temperatures.len() as i64);
        assert!((known.average() - average).abs() < 1e-9);
    }
}
