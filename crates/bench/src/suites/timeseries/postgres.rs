//! The suite on PostgreSQL, as an expert there would do it.
//!
//! Sensors are rows of their own, with places under GiST; a reading is a row that refers to its sensor. Both layouts
//! have a B-tree on sensor and time; the time alone is under BRIN, or what the table is partitioned by.
//! Readings come by binary COPYs of 1,000 rows a commit, with `synchronous_commit` off.

use super::generator::{READINGS_EACH, ROW_BYTES, Readings, START_MS};
use super::layout::Layout;
use super::questions::READINGS;
use super::{DATABASE as SCHEMA, TimeseriesTarget};
use crate::load::{self, Load, ahead, copy_at_once, copy_pieces, unwatched};
use crate::report::TargetReport;
use crate::storage;
use crate::targets::Target;
use crate::targets::postgres::PostgresServer;

/// What a sensor takes in a binary COPY, about.
const SENSOR_BYTES: usize = 60;
/// A partition holds so many readings of each sensor: six hours.
const PARTITION_MINUTES: u32 = 360;
/// In an order that needs no padding.
const COLUMNS: &str = "(at timestamptz NOT NULL, sensor integer NOT NULL, battery integer NOT NULL, \
     temperature float8 NOT NULL, humidity float8 NOT NULL)";

impl TimeseriesTarget for PostgresServer {
    fn create(&mut self, layout: Layout, readings: &Readings) -> anyhow::Result<()> {
        self.client.batch_execute(&format!(
            "CREATE SCHEMA {SCHEMA}; CREATE TABLE {SCHEMA}.sensors (id integer PRIMARY KEY, model text NOT NULL, \
             location geometry(Point, 4326) NOT NULL)"
        ))?;
        copy_sensors(self, readings)?;
        let client = &mut self.client;
        client.batch_execute(&format!(
            "CREATE INDEX ON {SCHEMA}.sensors USING gist (location)"
        ))?;
        client.batch_execute(&create_readings(layout))?;
        let index = format!("CREATE INDEX ON {SCHEMA}.{READINGS} (sensor, at DESC)");
        Ok(client.batch_execute(&index)?)
    }

    fn load(&mut self, readings: &Readings) -> anyhow::Result<Load> {
        let total = readings.total();
        let made = readings.clone();
        let encode = move |number: &u32, out: &mut Vec<u8>| made.row(*number, out);
        let pieces = ahead(copy_pieces(0..total, ROW_BYTES, encode));
        let copy = format!("COPY {SCHEMA}.{READINGS} FROM STDIN (FORMAT binary)");
        let what = format!("{}: load", self.name);
        let client = &mut self.client;
        client.batch_execute("SET synchronous_commit = off")?;
        load::copy_by_batch(client, &copy, pieces, total.into(), &what, unwatched)
    }

    fn settle(&mut self, report: &mut TargetReport) -> anyhow::Result<()> {
        let names = ["sensors", READINGS].map(|table| format!("{SCHEMA}.{table}"));
        let [data, indexes] = storage::settle_tables(self, names)?;
        report.storage(data, indexes, self.observe());
        Ok(())
    }

    fn drop_all(&mut self) -> anyhow::Result<()> {
        self.client.batch_execute("RESET ALL")?;
        self.drop_schema(SCHEMA)
    }
}

fn copy_sensors(server: &mut PostgresServer, readings: &Readings) -> anyhow::Result<()> {
    let sensors = readings.sensors();
    let pieces = copy_pieces(sensors.iter(), SENSOR_BYTES, |sensor, out| sensor.row(out));
    let copy = format!("COPY {SCHEMA}.sensors FROM STDIN (FORMAT binary)");
    let what = format!("{}: sensors", server.name);
    let total = sensors.len() as u64;
    copy_at_once(&mut server.client, &copy, pieces, total, &what)?;
    Ok(())
}

fn create_readings(layout: Layout) -> String {
    let table = format!("{SCHEMA}.{READINGS}");
    if layout != Layout::Partitioned {
        return format!(
            "CREATE TABLE {table} {COLUMNS}; \
             CREATE INDEX ON {table} USING brin (at) WITH (pages_per_range = 32)"
        );
    }
    let mut statements = format!("CREATE TABLE {table} {COLUMNS} PARTITION BY RANGE (at)");
    let second = |minute: u32| START_MS / 1000 + i64::from(minute) * 60;
    for minute in (0..READINGS_EACH).step_by(PARTITION_MINUTES as usize) {
        let (from, until) = (second(minute), second(minute + PARTITION_MINUTES));
        statements += &format!(
            "; CREATE TABLE {table}_{minute} PARTITION OF {table} \
             FOR VALUES FROM (to_timestamp({from})) TO (to_timestamp({until}))"
        );
    }
    statements
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn partitions_follow_one_another_until_after_the_last_reading() {
        let statements = create_readings(Layout::Partitioned);
        let partitions: Vec<&str> = statements.split("PARTITION OF").skip(1).collect();
        assert_eq!(partitions.len(), 6);
        let ends = |partition: &str| -> Vec<String> {
            let numbers = partition.split("to_timestamp(").skip(1);
            let number = |text: &str| text.split(')').next().unwrap_or_default().to_owned();
            numbers.map(number).collect()
        };
        for pair in partitions.windows(2) {
            assert_eq!(ends(pair[0])[1], ends(pair[1])[0]);
        }
        assert!(!create_readings(Layout::Brin).contains("PARTITION"));
    }
}
