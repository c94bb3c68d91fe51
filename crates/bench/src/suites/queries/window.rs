//! Readings of sensors, one a minute from each, and the average over the hour before each reading.
//!
//! Readings are whole tenths of a degree, as sensors send them, so that sums are exact in whatever
//! order they are formed, and PostgreSQL can take a reading out of a sum again when it leaves the hour.

use std::collections::VecDeque;
use std::f64::consts::TAU;
use std::sync::Arc;

use bson::{Document, doc};
use rand::Rng;

use super::part::{Contents, Index, Table};
use crate::encode::{copy_field, copy_row, document, int32, int64, postgres_time};
use crate::questions::answer::{Answer, Column, Kind, Row, column};
use crate::questions::{OWN, Question, Sql, aggregate};
use crate::seeded::{RandomByNumber, Size};

/// Sensors at full size.
const SENSORS: u32 = 1_000;
/// Readings of each.
const READINGS_EACH: u32 = 2_000;
/// 2025-01-01T00:00:00Z in milliseconds.
const START_MS: i64 = 1_735_689_600_000;
const MINUTE_MS: i64 = 60_000;
const HOUR_MS: i64 = 60 * MINUTE_MS;
const AVERAGES: &[Column] = &[
    column("sensor", Kind::Whole),
    column("at", Kind::Time),
    column("average", Kind::Number),
];
const HIGHEST: &[Column] = &[column("_id", Kind::Whole), column("highest", Kind::Number)];
/// What makes PostgreSQL read the table as it lies.
const SEQUENTIAL: &str =
    "SET enable_indexscan = off; SET enable_indexonlyscan = off; SET enable_bitmapscan = off";

/// The part.
pub fn contents(size: Size) -> Contents {
    let readings = Readings {
        sensors: size.of(SENSORS, 2),
        random: size.random("readings"),
    };
    let (averages, highest) = readings.answers();
    let natural = |mut command: Document| {
        command.insert("hint", doc! { "$natural": 1 });
        command
    };
    let average = |label, command, settings| Question {
        label,
        command,
        sql: Sql {
            settings,
            select: AVERAGE_SQL.into(),
            cells: "sensor::bigint, (extract(epoch FROM at) * 1000)::bigint, average",
        },
        columns: AVERAGES,
        expected: averages,
    };
    let highest = |label, command, settings| Question {
        label,
        command,
        sql: Sql {
            settings,
            select: format!(
                "SELECT sensor, max(average) AS highest FROM ({AVERAGE_SQL}) averages GROUP BY sensor"
            ),
            cells: "sensor::bigint, highest",
        },
        columns: HIGHEST,
        expected: highest,
    };
    let (each, top) = (average_command(), highest_command());
    Contents {
        questions: vec![
            average(
                "every average, without an index",
                natural(each.clone()),
                SEQUENTIAL,
            ),
            average("every average, along an index", each, OWN),
            highest(
                "highest average of each, without an index",
                natural(top.clone()),
                SEQUENTIAL,
            ),
            highest("highest average of each, along an index", top, OWN),
        ],
        tables: vec![readings.table()],
    }
}

const AVERAGE_SQL: &str = "SELECT sensor, at, (sum(value) OVER hour)::float8 / count(*) OVER hour AS average \
     FROM {schema}.readings WINDOW hour AS (PARTITION BY sensor ORDER BY at \
     RANGE BETWEEN INTERVAL '1 hour' PRECEDING AND CURRENT ROW)";

fn window() -> Document {
    doc! { "$setWindowFields": {
        "partitionBy": "$sensor",
        "sortBy": { "at": 1 },
        "output": { "average": { "$avg": "$value", "window": { "range": [-1, 0], "unit": "hour" } } },
    } }
}

fn average_command() -> Document {
    let project = doc! { "$project": { "_id": 0, "sensor": 1, "at": 1, "average": 1 } };
    aggregate("readings", vec![window(), project])
}

fn highest_command() -> Document {
    let group = doc! { "$group": { "_id": "$sensor", "highest": { "$max": "$average" } } };
    aggregate("readings", vec![window(), group])
}

/// All readings, minute by minute, in each of which every sensor reports once.
#[derive(Clone)]
struct Readings {
    sensors: u32,
    random: RandomByNumber,
}

/// One reading.
struct Reading {
    sensor: u32,
    at_ms: i64,
    /// Tenths of a degree.
    value: i32,
}

impl Readings {
    fn total(&self) -> u32 {
        self.sensors * READINGS_EACH
    }

    fn reading(&self, number: u32) -> Reading {
        let (minute, sensor) = (number / self.sensors, number % self.sensors);
        let random = &mut self.random.of(number);
        let day = f64::from(minute) / 1_440.0;
        let degrees = 12.0 + 8.0 * (day * TAU + f64::from(sensor)).sin() + random.random::<f64>();
        Reading {
            sensor,
            at_ms: START_MS + i64::from(minute) * MINUTE_MS + random.random_range(0..MINUTE_MS),
            value: (degrees * 10.0) as i32,
        }
    }

    /// Every average, and the highest of each sensor.
    fn answers(&self) -> (Answer, Answer) {
        let mut hours = vec![Hour::default(); self.sensors as usize];
        let mut averages = Answer::default();
        for number in 0..self.total() {
            let reading = self.reading(number);
            let average = hours[reading.sensor as usize].average(&reading);
            let row = Row::new().whole(reading.sensor.into());
            averages.add(row.whole(reading.at_ms).number(average));
        }
        let highest = (0..).zip(&hours);
        let row = |(sensor, hour): (i64, &Hour)| Row::new().whole(sensor).number(hour.highest);
        (averages, highest.map(row).collect())
    }

    fn table(self) -> Table {
        let for_rows = self.clone();
        Table {
            name: "readings",
            count: self.total(),
            document_bytes: 60,
            document: Arc::new(move |number, out| {
                let reading = self.reading(*number);
                document(out, |out| {
                    int32(b"\x10_id\0", *number as i32, out);
                    int32(b"\x10sensor\0", reading.sensor as i32, out);
                    int64(b"\x09at\0", reading.at_ms, out);
                    int32(b"\x10value\0", reading.value, out);
                });
            }),
            row: Arc::new(move |number, out| {
                let reading = for_rows.reading(*number);
                copy_row(3, out);
                copy_field(&reading.sensor.to_be_bytes(), out);
                copy_field(&postgres_time(reading.at_ms), out);
                copy_field(&reading.value.to_be_bytes(), out);
            }),
            columns: "(sensor integer NOT NULL, at timestamptz NOT NULL, value integer NOT NULL)"
                .into(),
            loaded: "",
            index: Some(Index {
                key: doc! { "sensor": 1, "at": 1, "value": 1 },
                unique: false,
                sql: "(sensor, at) INCLUDE (value)",
            }),
        }
    }
}

/// The last hour of one sensor.
#[derive(Debug, Clone, Default)]
struct Hour {
    readings: VecDeque<(i64, i32)>,
    sum: i64,
    highest: f64,
}

impl Hour {
    /// The average with the next reading, an hour before it included.
    fn average(&mut self, next: &Reading) -> f64 {
        self.readings.push_back((next.at_ms, next.value));
        self.sum += i64::from(next.value);
        while let Some((at_ms, value)) = self.readings.front().copied()
            && at_ms < next.at_ms - HOUR_MS
        {
            self.readings.pop_front();
            self.sum -= i64::from(value);
        }
        let average = self.sum as f64 / self.readings.len() as f64;
        self.highest = self.highest.max(average);
        average
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn averages_are_those_of_brute_force() {
        let size = Size {
            seed: 3,
            scale: 0.002,
        };
        let readings = Readings {
            sensors: 2,
            random: size.random("readings"),
        };
        let of_first: Vec<Reading> = (0..200)
            .map(|minute| readings.reading(minute * 2))
            .collect();
        assert!(of_first.is_sorted_by_key(|reading| reading.at_ms));
        assert!(of_first.iter().all(|reading| reading.sensor == 0));
        let mut hour = Hour::default();
        for reading in &of_first {
            let within = of_first
                .iter()
                .filter(|other| (reading.at_ms - HOUR_MS..=reading.at_ms).contains(&other.at_ms));
            let values: Vec<i32> = within.map(|other| other.value).collect();
            let expected = f64::from(values.iter().sum::<i32>()) / values.len() as f64;
            assert_eq!(hour.average(reading), expected);
        }
    }

    #[test]
    fn each_reading_has_an_average_and_each_sensor_a_highest() {
        let contents = contents(Size {
            seed: 1,
            scale: 0.002,
        });
        let rows: Vec<u64> = contents
            .questions
            .iter()
            .map(|asked| asked.expected.rows)
            .collect();
        assert_eq!(rows, [4_000, 4_000, 2, 2]);
        assert_eq!(contents.tables[0].count, 4_000);
    }
}
