//! Questions to a server that speaks MongoDB's protocol.

use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use bson::{RawArray, RawBsonRef, RawDocument, RawDocumentBuf};

use super::answer::{Answer, Column, Kind, Row};
use super::{Question, QuestionTarget};
use crate::client::REPLY_BYTES;
use crate::targets::document::DocumentServer;

impl QuestionTarget for DocumentServer {
    fn fetch(&mut self, database: &str, question: &Question) -> anyhow::Result<Duration> {
        let command = encoded(database, question)?;
        let mut client = self.plain_client()?;
        client.make_room(REPLY_BYTES);
        let started = Instant::now();
        client.each_batch(&command, |batch| {
            std::hint::black_box(batch.as_bytes());
            Ok(())
        })?;
        Ok(started.elapsed())
    }

    fn look(&mut self, database: &str, question: &Question) -> anyhow::Result<Answer> {
        let mut answer = Answer::default();
        let command = encoded(database, question)?;
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
}

fn encoded(database: &str, question: &Question) -> anyhow::Result<RawDocumentBuf> {
    let mut command = question.command.clone();
    command.insert("$db", database);
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
            (Kind::Rounded, Some(RawBsonRef::Double(value))) => row.rounded(value),
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
    use crate::questions::answer::column;
    use bson::rawdoc;

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
