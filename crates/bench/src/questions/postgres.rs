//! Questions to PostgreSQL through its ordinary driver, fetched by a binary COPY.
//!
//! Sorts and hash tables have the memory to stay off the disk.

use std::io::Read;
use std::time::{Duration, Instant};

use anyhow::Context;
use postgres::Row as ServerRow;
use postgres::fallible_iterator::FallibleIterator;

use super::answer::{Answer, Column, Kind, Row};
use super::{Question, QuestionTarget};
use crate::targets::postgres::PostgresServer;

/// Enough for two million readings to be sorted in memory.
const MEMORY: &str = "RESET ALL; SET work_mem = '512MB';";

impl QuestionTarget for PostgresServer {
    fn fetch(&mut self, schema: &str, question: &Question) -> anyhow::Result<Duration> {
        set(self, question)?;
        let copy = format!(
            "COPY ({}) TO STDOUT (FORMAT binary)",
            select(schema, question)
        );
        let mut rows = Vec::new();
        let started = Instant::now();
        self.client.copy_out(&copy)?.read_to_end(&mut rows)?;
        std::hint::black_box(rows);
        Ok(started.elapsed())
    }

    fn look(&mut self, schema: &str, question: &Question) -> anyhow::Result<Answer> {
        set(self, question)?;
        let select = select(schema, question);
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
}

fn select(schema: &str, question: &Question) -> String {
    question.sql.select.replace("{schema}", schema)
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
                Kind::Rounded => row.rounded(found.try_get(place).with_context(context)?),
                Kind::Text => row.text(found.try_get(place).with_context(context)?),
            })
        })
}
