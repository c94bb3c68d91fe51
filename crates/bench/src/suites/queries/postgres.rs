//! The suite on PostgreSQL through its ordinary driver, as an expert there would do it.
//!
//! Tables have typed columns and are loaded by one binary COPY each; sorts and hash tables have the
//! memory to stay off the disk; statistics are fresh.

use std::io::Read;
use std::time::{Duration, Instant};

use anyhow::Context;
use postgres::Row as ServerRow;
use postgres::fallible_iterator::FallibleIterator;

use super::QueriesTarget;
use super::answer::{Answer, Column, Kind, Row};
use super::part::{Index, Question, Table};
use crate::load::{Load, ahead, copy_at_once, copy_pieces};
use crate::report::TargetReport;
use crate::storage;
use crate::targets::Target;
use crate::targets::postgres::PostgresServer;

const SCHEMA: &str = "meridian_bench_queries";
/// Enough for two million readings to be sorted in memory.
const MEMORY: &str = "RESET ALL; SET work_mem = '512MB';";

impl QueriesTarget for PostgresServer {
    fn create(&mut self, table: &Table) -> anyhow::Result<Result<(), String>> {
        let name = full_name(table);
        self.client.batch_execute(&format!(
            "CREATE SCHEMA IF NOT EXISTS {SCHEMA}; CREATE TABLE {name} {}",
            table.columns
        ))?;
        Ok(Ok(()))
    }

    fn load(&mut self, table: &Table) -> anyhow::Result<Load> {
        let (name, loaded) = (full_name(table), table.loaded);
        let write = table.row.clone();
        let encode = move |number: &u32, out: &mut Vec<u8>| write(number, out);
        let pieces = ahead(copy_pieces(0..table.count, table.document_bytes, encode));
        let copy = format!("COPY {name} {loaded} FROM STDIN (FORMAT binary)");
        let what = format!("{}: load of {}", self.name, table.name);
        copy_at_once(&mut self.client, &copy, pieces, table.count.into(), &what)
    }

    fn build_index(&mut self, table: &Table, index: &Index) -> anyhow::Result<()> {
        let unique = if index.unique { "UNIQUE" } else { "" };
        let create = format!(
            "CREATE {unique} INDEX ON {} {}",
            full_name(table),
            index.sql
        );
        Ok(self.client.batch_execute(&create)?)
    }

    fn settle(&mut self, tables: &[&Table], report: &mut TargetReport) -> anyhow::Result<()> {
        let (mut data, mut indexes) = (0, 0);
        for table in tables {
            let name = full_name(table);
            storage::tidy(self, &name)?;
            let sizes = storage::table_sizes(self, &name)?;
            data += sizes[0];
            indexes += sizes[1];
        }
        report.storage(data, indexes, self.observe());
        Ok(())
    }

    fn fetch(&mut self, question: &Question) -> anyhow::Result<Duration> {
        set(self, question)?;
        let copy = format!("COPY ({}) TO STDOUT (FORMAT binary)", select(question));
        let mut rows = Vec::new();
        let started = Instant::now();
        self.client.copy_out(&copy)?.read_to_end(&mut rows)?;
        std::hint::black_box(rows);
        Ok(started.elapsed())
    }

    fn look(&mut self, question: &Question) -> anyhow::Result<Answer> {
        set(self, question)?;
        let select = select(question);
        let cells = question.sql.cells;
        let compared = format!("SELECT {cells} FROM ({select}) answer");
        let parameters: [&str; 0] = [];
        let mut rows = self.client.query_raw(&compared, parameters)?;
        if cells.is_empty() {
            let count = rows.count()? as u64;
            return Ok(Answer {
                rows: count,
                fingerprint: None,
            });
        }
        let mut answer = Answer::default();
        while let Some(found) = rows.next()? {
            answer.add(row(&found, question.columns)?);
        }
        Ok(answer)
    }

    fn drop_all(&mut self) -> anyhow::Result<()> {
        self.client.batch_execute("RESET ALL")?;
        self.drop_schema(SCHEMA)
    }
}

fn full_name(table: &Table) -> String {
    format!("{SCHEMA}.{}", table.name)
}

fn select(question: &Question) -> String {
    question.sql.select.replace("{schema}", SCHEMA)
}

fn set(server: &mut PostgresServer, question: &Question) -> anyhow::Result<()> {
    let settings = format!("{MEMORY} {}", question.sql.settings);
    Ok(server.client.batch_execute(&settings)?)
}

fn row(found: &ServerRow, columns: &[Column]) -> anyhow::Result<Row> {
    columns
        .iter()
        .enumerate()
        .try_fold(Row::new(), |row, (place, column)| {
            let context = || format!("{} as PostgreSQL returns it", column.path);
            Ok(match column.kind {
                Kind::Whole | Kind::Time => row.whole(found.try_get(place).with_context(context)?),
                Kind::Number => row.number(found.try_get(place).with_context(context)?),
                Kind::Score => row.score(found.try_get(place).with_context(context)?),
                Kind::Text => row.text(found.try_get(place).with_context(context)?),
            })
        })
}
