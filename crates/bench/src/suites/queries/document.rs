//! The suite on a server that speaks MongoDB's protocol.

use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use bson::{Document, RawArray, RawBsonRef, RawDocument, RawDocumentBuf, doc, rawdoc};

use super::QueriesTarget;
use super::answer::{Answer, Column, Kind, Row};
use super::part::{Index, Question, Table};
use crate::client::REPLY_BYTES;
use crate::load::{self, Load, ahead, insert_messages, unwatched};
use crate::report::TargetReport;
use crate::storage;
use crate::targets::Target;
use crate::targets::document::{DocumentServer, server_words};

const DATABASE: &str = "meridian_bench_queries";

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

    fn fetch(&mut self, question: &Question) -> anyhow::Result<Duration> {
        let command = encoded(question)?;
        let mut client = self.plain_client()?;
        client.make_room(REPLY_BYTES);
        let started = Instant::now();
        client.each_batch(&command, |batch| {
            std::hint::black_box(batch.as_bytes());
            Ok(())
        })?;
        Ok(started.elapsed())
    }

    fn look(&mut self, question: &Question) -> anyhow::Result<Answer> {
        let mut answer = Answer::default();
        let command = encoded(question)?;
        self.plain_client()?.each_batch(&command, |batch| {
            for document in batch {
                let document = document?;
                let document = document.as_document().context("a batch holds documents")?;
                answer.add(row(document, question.columns)?);
            }
            Ok(())
        })?;
        Ok(answer)
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

fn encoded(question: &Question) -> anyhow::Result<RawDocumentBuf> {
    let mut command = question.command.clone();
    command.insert("$db", DATABASE);
    Ok(RawDocumentBuf::try_from(&command)?)
}

/// What is compared of a document.
fn row(document: &RawDocument, columns: &[Column]) -> anyhow::Result<Row> {
    columns.iter().try_fold(Row::new(), |row, column| {
        let value = at_path(document, column.path)?;
        Ok(match (column.kind, value) {
            (Kind::Whole, Some(RawBsonRef::Int32(value))) => row.whole(value.into()),
            (Kind::Whole, Some(RawBsonRef::Int64(value))) => row.whole(value),
            (Kind::Number, Some(RawBsonRef::Double(value))) => row.number(value),
            (Kind::Score, Some(RawBsonRef::Double(value))) => row.score(value),
            (Kind::Text, Some(RawBsonRef::String(value))) => row.text(value),
            (Kind::Time, Some(RawBsonRef::DateTime(value))) => row.whole(value.timestamp_millis()),
            (kind, value) => bail!("{} is {value:?}, {kind:?} is wanted", column.path),
        })
    })
}

fn at_path<'a>(document: &'a RawDocument, path: &str) -> anyhow::Result<Option<RawBsonRef<'a>>> {
    let (first, rest) = path.split_once('.').unwrap_or((path, ""));
    let mut value = document.get(first)?;
    for name in rest.split('.').filter(|name| !name.is_empty()) {
        value = match value {
            Some(RawBsonRef::Document(inner)) => inner.get(name)?,
            Some(RawBsonRef::Array(inner)) => place(inner, name)?,
            _ => None,
        };
    }
    Ok(value)
}

fn place<'a>(array: &'a RawArray, name: &str) -> anyhow::Result<Option<RawBsonRef<'a>>> {
    Ok(array.get(name.parse()?)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suites::queries::answer::column;

    #[test]
    fn paths_lead_through_documents_and_arrays() {
        let document = rawdoc! { "_id": { "a": 1 }, "taxi": [{ "owner": "b" }], "score": 0.5 };
        let columns = [
            column("_id.a", Kind::Whole),
            column("taxi.0.owner", Kind::Text),
            column("score", Kind::Number),
        ];
        let found: Answer = [row(&document, &columns).expect("a row")]
            .into_iter()
            .collect();
        let expected = Row::new().whole(1).text("b").number(0.5);
        assert_eq!(found, [expected].into_iter().collect());
        for wrong in ["_id", "_id.b", "taxi.1.owner", "none.at.all", "score"] {
            assert!(
                row(&document, &[column(wrong, Kind::Whole)]).is_err(),
                "{wrong}"
            );
        }
    }
}
