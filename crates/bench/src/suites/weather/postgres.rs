//! The evaluation on PostgreSQL with PostGIS, as an expert there would do it.
//!
//! Events are rows with nine typed, non-null columns (the validator's
//! equivalent); places are `geometry(Point, 4326)` under GiST. There is no
//! primary key beside the five indexes, which favours PostgreSQL.

use std::io::{Read, Write};
use std::time::Instant;

use anyhow::{Context, ensure};
use postgres::types::{FromSql, ToSql, Type};
use postgres::{Client, SimpleQueryMessage};

use super::dataset::{Between, PAGE, Questions};
use super::document::number_ranges;
use super::encode::copy_row;
use super::generator::{Event, Generator};
use super::rectangle::Rectangle;
use super::{Plan, ageing};
use crate::encode::{COPY_HEADER, COPY_TRAILER, extended_well_known_binary};
use crate::load::{self, BATCH, copy_at_once, copy_by_batch};
use crate::measure::{Measure, Spread, Unit, time_runs};
use crate::progress;
use crate::report::TargetReport;
use crate::storage;
use crate::targets::Target;
use crate::targets::postgres::PostgresServer;

const CREATE: &str = "CREATE TABLE events (
    indexnum integer NOT NULL,
    startdatetime timestamptz NOT NULL,
    enddatetime timestamptz NOT NULL,
    location geometry(Point, 4326) NOT NULL,
    name text NOT NULL,
    lastupdatedatetime timestamptz NOT NULL,
    timezoneoffset integer NOT NULL,
    permitid integer NOT NULL,
    reading double precision NOT NULL)";
const INDEXES: &str = "CREATE INDEX events_location ON events USING gist (location);
    CREATE INDEX events_start ON events (startdatetime);
    CREATE INDEX events_end ON events (enddatetime);
    CREATE INDEX events_update ON events (lastupdatedatetime);
    CREATE INDEX events_number ON events (indexnum)";
const COPY: &str = "COPY events FROM STDIN (FORMAT binary)";
const COLUMNS: &str = "indexnum, startdatetime, enddatetime, location, name, lastupdatedatetime, timezoneoffset, permitid, reading";
/// Worker settings tried for each area; the better one counts.
const PARALLEL_WORKERS: [u32; 2] = [0, 2];

/// Runs everything and fills a report.
///
/// # Errors
/// When the server fails or answers wrongly.
pub fn run(server: &mut PostgresServer, plan: &Plan) -> anyhow::Result<TargetReport> {
    let version = server.version()?;
    let mut report = TargetReport::new(&server.name, version, server.settings.clone());
    server.client.batch_execute("DROP SCHEMA IF EXISTS meridian_bench CASCADE; CREATE SCHEMA meridian_bench; SET search_path = meridian_bench, public")?;
    loads(server, plan, &mut report)?;
    storage::of_table(server, "events", &mut report)?;
    counts(&mut server.client, plan, &mut report)?;
    areas(&mut server.client, plan, &mut report)?;
    pages(&mut server.client, plan, &mut report)?;
    roll_ups(&mut server.client, plan, &mut report)?;
    if let Some(bytes) = server.observe().and_then(|seen| seen.memory_bytes) {
        report.add(
            Measure::megabytes("Storage", "memory after the queries", bytes)
                .noted("all processes, shared pages once"),
        );
    }
    if plan.ageing {
        age(&mut server.client, plan, &mut report)?;
    }
    server
        .client
        .batch_execute("DROP SCHEMA meridian_bench CASCADE")?;
    Ok(report)
}

fn recreate(client: &mut Client, statements: &[&str]) -> anyhow::Result<()> {
    client.batch_execute("DROP TABLE IF EXISTS events")?;
    for statement in statements {
        client.batch_execute(statement)?;
    }
    Ok(())
}

fn loads(
    server: &mut PostgresServer,
    plan: &Plan,
    report: &mut TargetReport,
) -> anyhow::Result<()> {
    let name = server.name.clone();
    let encoded = plan.dataset.copy_pieces();
    let client = &mut server.client;

    recreate(client, &[CREATE])?;
    let what = format!("{name}: COPY without indexes");
    let load = copy_at_once(client, COPY, encoded.batches.iter(), encoded.count(), &what)?;
    record(report, "without indexes, one COPY", plan, load.seconds);
    let spinner = progress::spinner(&format!("{name}: building the indexes"));
    let started = Instant::now();
    client.batch_execute(INDEXES)?;
    report.add(Measure::single(
        "Ingest",
        "index build afterwards",
        Unit::Seconds,
        started.elapsed().as_secs_f64(),
    ));
    spinner.finish_and_clear();

    recreate(client, &[CREATE, INDEXES])?;
    let seconds = prepared_inserts(client, plan, &format!("{name}: prepared inserts"))?;
    record(
        report,
        "with indexes and validator, prepared inserts of 1,000 rows",
        plan,
        seconds,
    );

    recreate(client, &[CREATE, INDEXES])?;
    let load = copy_by_batch(
        client,
        COPY,
        encoded.batches.iter(),
        encoded.count(),
        &format!("{name}: COPY 1,000 a commit"),
        load::unwatched,
    )?;
    let by_thousand = record(
        report,
        "with indexes and validator, COPY 1,000 a commit",
        plan,
        load.seconds,
    );

    recreate(client, &[CREATE, INDEXES])?;
    let what = format!("{name}: one COPY with indexes");
    let load = copy_at_once(client, COPY, encoded.batches.iter(), encoded.count(), &what)?;
    let at_once = record(
        report,
        "with indexes and validator, one COPY",
        plan,
        load.seconds,
    );
    report.add(Measure::single(
        "Ingest",
        "with indexes and validator, best client",
        Unit::PerSecond,
        by_thousand.max(at_once),
    ));
    report.peak_during_load(server.observe().and_then(|seen| seen.memory_bytes));
    Ok(())
}

fn record(report: &mut TargetReport, name: &str, plan: &Plan, seconds: f64) -> f64 {
    let rate = plan.dataset.events as f64 / seconds;
    report.add(Measure::single("Ingest", name, Unit::PerSecond, rate));
    rate
}

/// A value whose bytes are the type's binary form already.
#[derive(Debug)]
struct Geometry([u8; 25]);

impl ToSql for Geometry {
    fn to_sql(
        &self,
        _: &Type,
        out: &mut bytes::BytesMut,
    ) -> Result<postgres::types::IsNull, Box<dyn std::error::Error + Sync + Send>> {
        out.extend_from_slice(&self.0);
        Ok(postgres::types::IsNull::No)
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    postgres::types::to_sql_checked!();
}

/// A column's bytes as they came.
struct Bytes;

impl<'a> FromSql<'a> for Bytes {
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<Self, Box<dyn std::error::Error + Sync + Send>> {
        std::hint::black_box(raw);
        Ok(Self)
    }

    fn accepts(_: &Type) -> bool {
        true
    }
}

fn insert_statement(rows: usize) -> String {
    let mut statement = format!("INSERT INTO events ({COLUMNS}) VALUES ");
    for row in 0..rows {
        let values: Vec<String> = (1..=9)
            .map(|column| format!("${}", row * 9 + column))
            .collect();
        let separator = if row == 0 { "(" } else { ", (" };
        statement.push_str(separator);
        statement.push_str(&values.join(","));
        statement.push(')');
    }
    statement
}

fn parameters(events: &[Event]) -> Vec<Box<dyn ToSql + Sync>> {
    let time = |unix_ms: i64| {
        Box::new(std::time::UNIX_EPOCH + std::time::Duration::from_millis(unix_ms as u64))
            as Box<dyn ToSql + Sync>
    };
    events
        .iter()
        .flat_map(|event| {
            [
                Box::new(event.indexnum) as Box<dyn ToSql + Sync>,
                time(event.start_ms),
                time(event.end_ms),
                Box::new(Geometry(extended_well_known_binary(
                    event.longitude,
                    event.latitude,
                ))),
                Box::new(event.name),
                time(event.last_update_ms),
                Box::new(event.timezone_offset),
                Box::new(event.permit_id),
                Box::new(event.reading),
            ]
        })
        .collect()
}

/// Seconds within the database client, building the parameters left out.
fn prepared_inserts(client: &mut Client, plan: &Plan, what: &str) -> anyhow::Result<f64> {
    let bar = progress::bar(plan.dataset.events, what);
    let full = client.prepare(&insert_statement(BATCH))?;
    let events: Vec<Event> = plan.dataset.generate().collect();
    let mut seconds = 0.0;
    for batch in events.chunks(BATCH) {
        let values = parameters(batch);
        let references: Vec<&(dyn ToSql + Sync)> = values.iter().map(AsRef::as_ref).collect();
        let started = Instant::now();
        let inserted = if batch.len() == BATCH {
            client.execute(&full, &references)?
        } else {
            client.execute(&insert_statement(batch.len()), &references)?
        };
        seconds += started.elapsed().as_secs_f64();
        ensure!(
            inserted == batch.len() as u64,
            "PostgreSQL took {inserted} of {} rows",
            batch.len()
        );
        bar.inc(inserted);
    }
    bar.finish_and_clear();
    Ok(seconds)
}

fn simple_count(client: &mut Client, sql: &str) -> anyhow::Result<u64> {
    for message in client.simple_query(sql)? {
        if let SimpleQueryMessage::Row(row) = message {
            return Ok(row.get(0).context("a count is not null")?.parse()?);
        }
    }
    anyhow::bail!("{sql} returned no row")
}

fn timestamp(unix_ms: i64) -> String {
    chrono::DateTime::from_timestamp_millis(unix_ms)
        .map(|time| time.to_rfc3339())
        .unwrap_or_default()
}

/// PostgreSQL's three forms: text (simple query), parameters without preparing, prepared statement.
fn counts(client: &mut Client, plan: &Plan, report: &mut TargetReport) -> anyhow::Result<()> {
    let Questions {
        date,
        number,
        number_wide,
        ..
    } = plan.dataset.questions();
    let text = format!(
        "SELECT count(*) FROM events WHERE startdatetime > '{}' AND startdatetime < '{}'",
        timestamp(date.above),
        timestamp(date.below)
    );
    let sql = "SELECT count(*) FROM events WHERE startdatetime > $1 AND startdatetime < $2";
    let time = |ms: i64| std::time::UNIX_EPOCH + std::time::Duration::from_millis(ms as u64);
    let (above, below) = (time(date.above), time(date.below));
    three_forms(
        client,
        plan,
        report,
        "date range",
        plan.answers.date,
        &text,
        sql,
        &[&above, &below],
    )?;
    for (label, expected, Between { above, below }) in number_ranges(plan, number, number_wide) {
        let text =
            format!("SELECT count(*) FROM events WHERE indexnum > {above} AND indexnum < {below}");
        let sql = "SELECT count(*) FROM events WHERE indexnum > $1 AND indexnum < $2";
        let name = format!("number range ({label})");
        three_forms(
            client,
            plan,
            report,
            &name,
            expected,
            &text,
            sql,
            &[&(above as i32), &(below as i32)],
        )?;
    }
    Ok(())
}

#[allow(clippy::too_many_arguments)]
fn three_forms(
    client: &mut Client,
    plan: &Plan,
    report: &mut TargetReport,
    name: &str,
    expected: u64,
    text: &str,
    sql: &str,
    values: &[&(dyn ToSql + Sync)],
) -> anyhow::Result<()> {
    let mut found = 0;
    let samples = time_runs(plan.repeats, || {
        found = simple_count(client, text)?;
        Ok(())
    })?;
    report.add(count_row(
        &format!("{name}, parsed text"),
        samples,
        "simple query with literals",
    ));
    report.answer(&format!("{name}, text"), found, expected)?;
    let samples = time_runs(plan.repeats, || {
        found = client.query_one(sql, values)?.get::<_, i64>(0) as u64;
        Ok(())
    })?;
    report.add(count_row(
        &format!("{name}, built document"),
        samples,
        "parameters, prepared each time",
    ));
    report.answer(&format!("{name}, parameters"), found, expected)?;
    let statement = client.prepare(sql)?;
    let samples = time_runs(plan.repeats, || {
        found = client.query_one(&statement, values)?.get::<_, i64>(0) as u64;
        Ok(())
    })?;
    report.add(count_row(
        &format!("{name}, typed helper"),
        samples,
        "prepared once",
    ));
    report.answer(&format!("{name}, prepared"), found, expected)
}

fn count_row(name: &str, samples: Vec<f64>, form: &str) -> Measure {
    Measure::new("Counts", name, Unit::Milliseconds, samples).noted(format!("PostgreSQL: {form}"))
}

fn area_condition(rectangle: &Rectangle) -> String {
    format!(
        "ST_Intersects(location, ST_GeomFromText('{}', 4326))",
        rectangle.well_known_text()
    )
}

/// Times `query` at each number of parallel workers and keeps the best.
fn best_workers(
    client: &mut Client,
    plan: &Plan,
    mut query: impl FnMut(&mut Client) -> anyhow::Result<()>,
) -> anyhow::Result<(Vec<f64>, String)> {
    let mut best: Option<(Vec<f64>, u32)> = None;
    for workers in PARALLEL_WORKERS {
        client.batch_execute(&format!("SET max_parallel_workers_per_gather = {workers}"))?;
        let samples = time_runs(plan.repeats, || query(client))?;
        let median =
            |samples: &[f64]| Spread::of(samples).map_or(f64::INFINITY, |spread| spread.median);
        if best
            .as_ref()
            .is_none_or(|(so_far, _)| median(&samples) < median(so_far))
        {
            best = Some((samples, workers));
        }
    }
    client.batch_execute("RESET max_parallel_workers_per_gather")?;
    let (samples, workers) = best.context("at least one number of workers is tried")?;
    Ok((
        samples,
        format!("PostgreSQL: best with {workers} parallel workers of {PARALLEL_WORKERS:?} tried"),
    ))
}

fn areas(client: &mut Client, plan: &Plan, report: &mut TargetReport) -> anyhow::Result<()> {
    for (zoom, rectangle) in plan.dataset.questions().zooms.iter().enumerate() {
        let sql = format!(
            "SELECT count(*) FROM events WHERE {}",
            area_condition(rectangle)
        );
        let mut found = 0;
        let (samples, note) = best_workers(client, plan, |client| {
            found = simple_count(client, &sql)?;
            Ok(())
        })?;
        let name = format!("zoom {}", zoom + 1);
        report.add(Measure::new("Area counts", &name, Unit::Milliseconds, samples).noted(note));
        report.answer(
            &format!("area count, {name}"),
            found,
            plan.answers.zooms[zoom],
        )?;
    }
    Ok(())
}

fn pages(client: &mut Client, plan: &Plan, report: &mut TargetReport) -> anyhow::Result<()> {
    for (zoom, rectangle) in plan.dataset.questions().zooms.iter().enumerate() {
        let name = format!("zoom {}", zoom + 1);
        let select = format!(
            "SELECT {COLUMNS} FROM events WHERE {} LIMIT {PAGE}",
            area_condition(rectangle)
        );
        let copy = format!("COPY ({select}) TO STDOUT (FORMAT binary)");
        let mut buffer = Vec::new();
        let (samples, note) = best_workers(client, plan, |client| {
            buffer.clear();
            client.copy_out(&copy)?.read_to_end(&mut buffer)?;
            Ok(())
        })?;
        let row = Measure::new(
            "Area pages",
            &format!("{name}, raw"),
            Unit::Milliseconds,
            samples,
        );
        report.add(row.noted(format!(
            "{note}; COPY TO STDOUT binary, {:.2} MB a page",
            buffer.len() as f64 / 1e6
        )));
        let statement = client.prepare(&select)?;
        let mut rows = 0;
        let (samples, note) = best_workers(client, plan, |client| {
            rows = 0;
            for row in client.query(&statement, &[])? {
                decode_row(&row);
                rows += 1;
            }
            Ok(())
        })?;
        report.add(
            Measure::new(
                "Area pages",
                &format!("{name}, driver"),
                Unit::Milliseconds,
                samples,
            )
            .noted(note),
        );
        report.answer(
            &format!("page, {name}"),
            rows,
            PAGE.min(plan.answers.zooms[zoom]),
        )?;
    }
    Ok(())
}

fn decode_row(row: &postgres::Row) {
    use std::time::SystemTime;
    let numbers: (i32, i32, i32) = (row.get(0), row.get(6), row.get(7));
    let times: (SystemTime, SystemTime, SystemTime) = (row.get(1), row.get(2), row.get(5));
    let rest: (Bytes, String, f64) = (row.get(3), row.get(4), row.get(8));
    std::hint::black_box((numbers, times, rest));
}

const ROLL_UPS: [(&str, &str); 3] = [
    (
        "daily",
        "CREATE TABLE daily AS SELECT date_trunc('day', startdatetime) AS period, name, count(*)::bigint AS events, \
         sum(reading) AS total, min(reading) AS least, max(reading) AS greatest, sum(reading) / count(*) AS mean \
         FROM events GROUP BY 1, 2",
    ),
    ("monthly", "month"),
    ("yearly", "year"),
];

fn roll_ups(client: &mut Client, plan: &Plan, report: &mut TargetReport) -> anyhow::Result<()> {
    let mut from = "events";
    for (into, statement) in ROLL_UPS {
        let sql = if into == "daily" {
            statement.to_owned()
        } else {
            format!(
                "CREATE TABLE {into} AS SELECT date_trunc('{statement}', period) AS period, name, \
                 sum(events)::bigint AS events, sum(total) AS total, min(least) AS least, max(greatest) AS greatest, \
                 sum(total) / sum(events) AS mean FROM {from} GROUP BY 1, 2"
            )
        };
        let started = Instant::now();
        client.batch_execute(&sql)?;
        let milliseconds = started.elapsed().as_secs_f64() * 1e3;
        report.add(Measure::single(
            "Ageing",
            &format!("roll-up to {into}"),
            Unit::Milliseconds,
            milliseconds,
        ));
        let events = simple_count(client, &format!("SELECT sum(events)::bigint FROM {into}"))?;
        report.answer(
            &format!("events in the {into} roll-up"),
            events,
            plan.dataset.events,
        )?;
        from = into;
    }
    Ok(())
}

/// PostgreSQL has no expiry: a job deletes and vacuums, which is what is timed.
fn age(client: &mut Client, plan: &Plan, report: &mut TargetReport) -> anyhow::Result<()> {
    for form in ageing::Form::ALL {
        let aged = ageing::Aged::prepare(plan);
        recreate(client, &[CREATE, INDEXES])?;
        let mut rows = COPY_HEADER.to_vec();
        Generator::new(aged.events, plan.dataset.seed)
            .shifted(aged.shift_ms)
            .for_each(|event| copy_row(&event, &mut rows));
        rows.extend_from_slice(COPY_TRAILER);
        let mut writer = client.copy_in(COPY)?;
        writer.write_all(&rows)?;
        writer.finish()?;
        let delete = match form {
            ageing::Form::LastUpdate => {
                "DELETE FROM events WHERE lastupdatedatetime < now() - interval '30 days'"
            }
            ageing::Form::ExpirationDate => {
                client.batch_execute(
                    "ALTER TABLE events ADD expirationdate timestamptz; \
                     UPDATE events SET expirationdate = lastupdatedatetime + interval '30 days'; \
                     CREATE INDEX ON events (expirationdate)",
                )?;
                "DELETE FROM events WHERE expirationdate < now()"
            }
        };
        client.batch_execute("VACUUM ANALYZE events")?;
        let started = Instant::now();
        client.batch_execute(delete)?;
        client.batch_execute("VACUUM events")?;
        let row = Measure::single(
            "Ageing",
            form.label(),
            Unit::Seconds,
            started.elapsed().as_secs_f64(),
        );
        report.add(row.noted("PostgreSQL: DELETE and VACUUM, as a scheduled job would"));
        let left = simple_count(client, "SELECT count(*) FROM events")?;
        ensure!(
            aged.survivors_plausible(left),
            "{left} of {} events are left after ageing",
            aged.events
        );
    }
    Ok(())
}
