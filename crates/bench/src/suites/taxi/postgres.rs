//! The evaluation on PostgreSQL through its ordinary driver, as an expert there would do it.
//!
//! Trips are rows with typed columns, null only where some trip lacks a field, loaded by one binary COPY. A
//! shuffled table (C) is random in the order in which it lies on disk, so a
//! bitmap or sequential scan with a limit is a random sample.

use std::io::Read;
use std::time::{Duration, Instant};

use postgres::Row;

use super::layout::{self, Layout};
use super::questions::{Question, Returned, Wanted};
use super::trip::{KnownField, Trip, name};
use super::{Plan, TaxiTarget};
use crate::load::{self, Load, ahead, copy_pieces};
use crate::report::TargetReport;
use crate::storage;
use crate::targets::postgres::PostgresServer;

const SCHEMA: &str = "meridian_bench_taxi";
const TABLE: &str = "meridian_bench_taxi.trips";
/// A table sample is drawn this much larger than wanted, and by [`SURE`] standard deviations, and cut.
const OVERSAMPLING: f64 = 1.1;
/// Falls short once in a thousand million draws.
const SURE: f64 = 6.0;

/// A query and the planner's settings for it.
pub struct Way {
    settings: &'static str,
    select: String,
}

const OWN: &str = "RESET ALL";
const PARALLEL_OFF: &str = "RESET ALL; SET max_parallel_workers_per_gather = 0";
const WALK_RANDOM: &str = "RESET ALL; SET max_parallel_workers_per_gather = 0; SET enable_seqscan = off; \
     SET enable_bitmapscan = off; SET enable_sort = off";
const BITMAP: &str = "RESET ALL; SET max_parallel_workers_per_gather = 0; SET enable_seqscan = off; \
     SET enable_indexscan = off";
const SEQUENTIAL: &str = "RESET ALL; SET max_parallel_workers_per_gather = 0; SET enable_bitmapscan = off; \
     SET enable_indexscan = off; SET synchronize_seqscans = off";

impl TaxiTarget for PostgresServer {
    type Way = Way;

    fn load(&mut self, plan: &Plan, layout: Layout) -> anyhow::Result<Load> {
        let create = format!(
            "CREATE SCHEMA {SCHEMA}; CREATE TABLE {TABLE} {}",
            layout::columns(layout, &plan.fields)
        );
        self.client.batch_execute(&create)?;
        match layout {
            Layout::A | Layout::B => copy(self, plan, layout, plan.trips.in_order()),
            Layout::C => copy(self, plan, layout, plan.trips.shuffled()?),
        }
    }

    fn build_indexes(&mut self, layout: Layout) -> anyhow::Result<()> {
        let columns: &[&str] = match layout {
            Layout::A | Layout::C => &["pickup_datetime", "medallion"],
            Layout::B => &["pickup_datetime", "medallion", "random"],
        };
        for column in columns {
            let create = format!("CREATE INDEX ON {TABLE} ({column})");
            self.client.batch_execute(&create)?;
        }
        Ok(())
    }

    fn count(&mut self, question: &Question, layout: Layout) -> anyhow::Result<u64> {
        self.count_rows(TABLE, &condition(question.wanted, layout))
    }

    /// A sequential scan alone would leave a large table out of the shared buffers.
    fn read_all(&mut self) -> anyhow::Result<()> {
        let create = "CREATE EXTENSION IF NOT EXISTS pg_prewarm";
        if self.client.batch_execute(create).is_ok() {
            let prewarm = format!("SELECT pg_prewarm('{TABLE}')");
            self.client.batch_execute(&prewarm)?;
        } else {
            self.client.batch_execute(SEQUENTIAL)?;
            self.count_rows(TABLE, "")?;
        }
        Ok(())
    }

    fn ways(&self, question: &Question, layout: Layout, plan: &Plan) -> Vec<(String, Self::Way)> {
        let condition = condition(question.wanted, layout);
        let limit = plan.limit;
        let select = |rest: &str| format!("SELECT * FROM {TABLE} {rest} LIMIT {limit}");
        let at_random = select(&format!("{condition} ORDER BY random()"));
        let by_random = select(&format!("{condition} ORDER BY random"));
        let as_it_lies = select(&condition);
        let matches = question.matches;
        let wanted = f64::from(limit);
        let expected = wanted * OVERSAMPLING + SURE * wanted.sqrt();
        let percent = 100.0 * expected / matches.max(1) as f64;
        let table_sample = select(&format!(
            "TABLESAMPLE BERNOULLI ({percent}) ORDER BY random()"
        ));
        let ways = match (layout, question.wanted) {
            (Layout::A, Wanted::Everything) if percent < 50.0 => vec![
                ("ORDER BY random()", OWN, at_random),
                ("TABLESAMPLE BERNOULLI", OWN, table_sample),
            ],
            (Layout::A, _) => vec![
                ("ORDER BY random()", OWN, at_random.clone()),
                (
                    "ORDER BY random() without parallel workers",
                    PARALLEL_OFF,
                    at_random,
                ),
            ],
            (Layout::B, Wanted::Medallion(_)) => vec![("the planner's choice", OWN, by_random)],
            (Layout::B, _) => vec![
                (
                    "ORDER BY random, the planner's choice",
                    OWN,
                    by_random.clone(),
                ),
                ("walking the index on random", WALK_RANDOM, by_random),
            ],
            (Layout::C, Wanted::Medallion(_)) => vec![("the planner's choice", OWN, as_it_lies)],
            (Layout::C, Wanted::Everything) => {
                vec![("scanning as the table lies", SEQUENTIAL, as_it_lies)]
            }
            (Layout::C, _) => vec![
                ("bitmap scan as the table lies", BITMAP, as_it_lies.clone()),
                ("scanning as the table lies", SEQUENTIAL, as_it_lies),
            ],
        };
        ways.into_iter()
            .map(|(name, settings, select)| (name.to_owned(), Way { settings, select }))
            .collect()
    }

    fn fetch(&mut self, way: &Way) -> anyhow::Result<Duration> {
        self.client.batch_execute(way.settings)?;
        let copy = format!("COPY ({}) TO STDOUT (FORMAT binary)", way.select);
        let mut rows = Vec::new();
        let started = Instant::now();
        self.client.copy_out(&copy)?.read_to_end(&mut rows)?;
        std::hint::black_box(rows);
        Ok(started.elapsed())
    }

    fn look(&mut self, way: &Way, layout: Layout) -> anyhow::Result<Vec<Returned>> {
        self.client.batch_execute(way.settings)?;
        let pickup_ms = if layout.has_dates() {
            "(extract(epoch FROM pickup_datetime) * 1000)::bigint"
        } else {
            "pickup_datetime"
        };
        let sql = format!(
            "SELECT id, {pickup_ms}, medallion FROM ({}) trips",
            way.select
        );
        let rows = self.client.query(&sql, &[])?;
        let returned = |row: &Row| {
            Ok(Returned {
                id: u128::from(row.get::<_, i32>(0).unsigned_abs()),
                pickup_ms: row.get(1),
                medallion: name(row.get(2))?,
            })
        };
        rows.iter().map(returned).collect()
    }

    fn restart(&mut self, between: &mut dyn FnMut()) -> anyhow::Result<bool> {
        PostgresServer::restart(self, between)
    }

    fn storage(&mut self, report: &mut TargetReport) -> anyhow::Result<()> {
        storage::of_table(self, TABLE, report)
    }

    fn drop_all(&mut self) -> anyhow::Result<()> {
        self.drop_schema(SCHEMA)
    }
}

fn copy(
    server: &mut PostgresServer,
    plan: &Plan,
    layout: Layout,
    trips: impl Iterator<Item = Trip> + Send + 'static,
) -> anyhow::Result<Load> {
    let numbered = (0u32..).zip(trips);
    let fields: Vec<KnownField> = plan.fields.clone();
    let pieces = copy_pieces(numbered, layout::ROW_BYTES, move |(position, trip), out| {
        layout::row(trip, *position, layout, &fields, out)
    });
    let statement = format!("COPY {TABLE} FROM STDIN (FORMAT binary)");
    let what = format!("{}: {}: load", server.name, layout.letter());
    let total = plan.trips.total().into();
    load::copy_at_once(&mut server.client, &statement, ahead(pieces), total, &what)
}

fn condition(wanted: Wanted, layout: Layout) -> String {
    let time = |unix_ms: i64| {
        if layout.has_dates() {
            format!("to_timestamp({unix_ms} / 1000.0)")
        } else {
            unix_ms.to_string()
        }
    };
    match wanted {
        Wanted::Time(from, until) => format!(
            "WHERE pickup_datetime >= {} AND pickup_datetime < {}",
            time(from),
            time(until)
        ),
        Wanted::Medallion(name) => {
            format!("WHERE medallion = '{}'", name.replace('\'', "''"))
        }
        Wanted::Everything => String::new(),
    }
}
