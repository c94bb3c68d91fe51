//! The suite on a server that speaks MongoDB's protocol.

use anyhow::Context;
use bson::{Document, doc, rawdoc};

use super::part::{Index, Table};
use super::{DATABASE, QueriesTarget};
use crate::load::{self, Load, ahead, insert_messages, unwatched};
use crate::report::TargetReport;
use crate::storage;
use crate::targets::Target;
use crate::targets::document::{DocumentServer, server_words};

impl QueriesTarget for DocumentServer {
    fn create(&mut self, table: &Table) -> anyhow::Result<Result<(), String>> {
        self.command(DATABASE, doc! { "create": table.name })?;
        let Some(index) = &table.index else {
            return Ok(Ok(()));
        };
        if let Err(refusal) = self.command(DATABASE, create_index(table, index)) {
            self.command(DATABASE, doc! { "drop": table.name })?;
            return Ok(Err(server_words(&refusal)));
        }
        self.command(DATABASE, doc! { "dropIndexes": table.name, "index": "*" })?;
        Ok(Ok(()))
    }

    fn load(&mut self, table: &Table) -> anyhow::Result<Load> {
        let body = rawdoc! { "insert": table.name, "ordered": true, "$db": DATABASE };
        let write = table.document.clone();
        let encode = move |number: &u32, out: &mut Vec<u8>| write(number, out);
        let batches = insert_messages(0..table.count, body, table.document_bytes, encode);
        let what = format!("load of {}", table.name);
        load::insert(self, ahead(batches), table.count.into(), &what, unwatched)
    }

    fn build_index(&mut self, table: &Table, index: &Index) -> anyhow::Result<()> {
        self.command(DATABASE, create_index(table, index))?;
        Ok(())
    }

    fn settle(&mut self, tables: &[&Table], report: &mut TargetReport) -> anyhow::Result<()> {
        let names: Vec<&str> = tables.iter().map(|table| table.name).collect();
        let [data, indexes] = storage::settle_all(self, DATABASE, &names)?;
        report.storage(
            data.context("collStats has no storageSize")?,
            indexes.context("collStats has no totalIndexSize")?,
            self.observe(),
        );
        Ok(())
    }

    fn drop_all(&mut self) -> anyhow::Result<()> {
        self.drop_database(DATABASE)
    }
}

fn create_index(table: &Table, index: &Index) -> Document {
    let fields: Vec<&str> = index.key.keys().map(String::as_str).collect();
    let mut definition = doc! { "key": index.key.clone(), "name": fields.join("_") };
    if index.unique {
        definition.insert("unique", true);
    }
    doc! { "createIndexes": table.name, "indexes": [definition] }
}
