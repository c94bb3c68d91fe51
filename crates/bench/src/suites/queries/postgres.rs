//! The suite on PostgreSQL through its ordinary driver, as an expert there would do it.
//!
//! Tables have typed columns and are loaded by one binary COPY each; sorts and hash tables have the
//! memory to stay off the disk; statistics are fresh.

use super::part::{Index, Table};
use super::{DATABASE as SCHEMA, QueriesTarget};
use crate::load::{Load, ahead, copy_at_once, copy_pieces};
use crate::report::TargetReport;
use crate::storage;
use crate::targets::Target;
use crate::targets::postgres::PostgresServer;

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
        let names = tables.iter().map(|table| full_name(table));
        let [data, indexes] = storage::settle_tables(self, names)?;
        report.storage(data, indexes, self.observe());
        Ok(())
    }

    fn drop_all(&mut self) -> anyhow::Result<()> {
        self.client.batch_execute("RESET ALL")?;
        self.drop_schema(SCHEMA)
    }
}

fn full_name(table: &Table) -> String {
    format!("{SCHEMA}.{}", table.name)
}
