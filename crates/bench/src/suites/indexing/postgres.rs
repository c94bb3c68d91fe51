//! The evaluation on PostgreSQL, as an expert there would do it.
//!
//! Documents are rows with typed, non-null columns under a primary key; loads
//! are binary COPYs of 1,000 rows a commit with `synchronous_commit` off. The
//! covering index uses INCLUDE.

use std::time::{Duration, Instant};

use postgres::{Client, Statement};

use super::answers::{PAGE, Range};
use super::reader::Pages;
use super::{IndexingTarget, Kind, Plan, encode};
use crate::load::{self, Load, ahead, copy_pieces};
use crate::report::TargetReport;
use crate::storage;
use crate::targets::Journal;
use crate::targets::postgres::PostgresServer;

const SCHEMA: &str = "meridian_bench_indexing";
const TABLE: &str = "meridian_bench_indexing.documents";
const COLUMNS: &str = "(
    id bigint PRIMARY KEY,
    uri text COLLATE \"C\" NOT NULL,
    name text COLLATE \"C\" NOT NULL,
    origin text COLLATE \"C\" NOT NULL,
    creation timestamptz NOT NULL,
    expiration timestamptz NOT NULL)";
const FIELDS: [&str; 3] = ["name", "origin", "creation"];

impl IndexingTarget for PostgresServer {
    fn create(&mut self, kind: Kind, journal: Journal) -> anyhow::Result<Result<(), String>> {
        self.drop_all()?;
        let logged = match journal {
            Journal::On => "",
            Journal::Off => "UNLOGGED",
        };
        let uri = match kind {
            Kind::Plain => "(uri)",
            Kind::Covering => "(uri) INCLUDE (creation, name, origin)",
            Kind::Clustering => {
                return Ok(Err("PostgreSQL keeps no index that carries its rows".into()));
            }
        };
        let client = &mut self.client;
        client.batch_execute(&format!("CREATE SCHEMA {SCHEMA}"))?;
        client.batch_execute(&format!("CREATE {logged} TABLE {TABLE} {COLUMNS}"))?;
        client.batch_execute(&format!("CREATE INDEX ON {TABLE} {uri}"))?;
        for field in FIELDS {
            client.batch_execute(&format!("CREATE INDEX ON {TABLE} ({field})"))?;
        }
        Ok(Ok(()))
    }

    fn insert(
        &self,
        plan: &Plan,
        what: &str,
        watch: &mut dyn FnMut(usize, Duration),
    ) -> anyhow::Result<Load> {
        let mut client = self.another_client()?;
        client.batch_execute("SET synchronous_commit = off")?;
        let copy = format!("COPY {TABLE} FROM STDIN (FORMAT binary)");
        let pieces = ahead(copy_pieces(plan.generate(), encode::ROW_BYTES, encode::row));
        let what = format!("{}: {what}", self.name);
        load::copy_by_batch(&mut client, &copy, pieces, plan.docs.into(), &what, watch)
    }

    fn pages(&self, kind: Kind) -> anyhow::Result<Box<dyn Pages>> {
        let mut client = self.another_client()?;
        // While a table grows its statistics are old; nobody wants it sorted for a page.
        client.batch_execute("SET enable_seqscan = off; SET enable_bitmapscan = off")?;
        let fields = match kind {
            Kind::Covering => "uri, creation, name, origin",
            Kind::Plain | Kind::Clustering => "uri, id, name, origin, creation, expiration",
        };
        let statement = client.prepare(&format!(
            "SELECT {fields} FROM {TABLE} WHERE uri >= $1 ORDER BY uri LIMIT {PAGE}"
        ))?;
        Ok(Box::new(PostgresPages { client, statement }))
    }

    fn count(&mut self, range: Range) -> anyhow::Result<u64> {
        let condition = match range {
            Range::Text(field, low, high) => format!("{field} >= '{low}' AND {field} < '{high}'"),
            Range::Creation(low, high) => format!(
                "creation >= to_timestamp({low} / 1000.0) AND creation < to_timestamp({high} / 1000.0)"
            ),
        };
        self.count_rows(TABLE, &format!("WHERE {condition}"))
    }

    fn flush(&mut self) -> anyhow::Result<()> {
        Ok(self.client.batch_execute("CHECKPOINT")?)
    }

    fn storage(&mut self, report: &mut TargetReport) -> anyhow::Result<()> {
        storage::of_table(self, TABLE, report)
    }

    fn drop_all(&mut self) -> anyhow::Result<()> {
        self.drop_schema(SCHEMA)
    }
}

/// Pages through a prepared statement.
struct PostgresPages {
    client: Client,
    statement: Statement,
}

impl Pages for PostgresPages {
    fn page(&mut self, start: &str) -> anyhow::Result<(Duration, Vec<String>)> {
        let started = Instant::now();
        let rows = self.client.query(&self.statement, &[&start])?;
        let took = started.elapsed();
        Ok((took, rows.iter().map(|row| row.get(0)).collect()))
    }
}
