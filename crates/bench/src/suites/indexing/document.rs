//! The evaluation on a server that speaks MongoDB's protocol.

use std::time::{Duration, Instant};

use anyhow::Context;
use bson::{DateTime, Document, RawDocumentBuf, cstr, doc, rawdoc};

use super::answers::{PAGE, Range};
use super::reader::Pages;
use super::{IndexingTarget, Kind, Plan, encode};
use crate::client::{Client, check_ok, command_message, reply_document};
use crate::load::{self, Load, ahead, insert_messages};
use crate::report::TargetReport;
use crate::storage;
use crate::targets::Journal;
use crate::targets::document::{DocumentServer, server_words};

const DATABASE: &str = "meridian_bench_indexing";
const COLLECTION: &str = "documents";

impl IndexingTarget for DocumentServer {
    fn create(&mut self, kind: Kind, _: Journal) -> anyhow::Result<Result<(), String>> {
        self.drop_all()?;
        self.command(DATABASE, doc! { "create": COLLECTION })?;
        let others = ["name", "origin", "creation"];
        let mut indexes: Vec<Document> = others
            .iter()
            .map(|field| doc! { "key": { *field: 1 }, "name": format!("{field}_1") })
            .collect();
        indexes.push(uri_index(kind));
        let create = doc! { "createIndexes": COLLECTION, "indexes": indexes };
        match self.command(DATABASE, create) {
            Ok(_) => Ok(Ok(())),
            Err(error) if kind == Kind::Clustering => Ok(Err(format!(
                "the server refused the clustering index: {}",
                server_words(&error)
            ))),
            Err(error) => Err(error),
        }
    }

    fn insert(
        &self,
        plan: &Plan,
        what: &str,
        watch: &mut dyn FnMut(usize, Duration),
    ) -> anyhow::Result<Load> {
        let body = rawdoc! { "insert": COLLECTION, "ordered": true, "$db": DATABASE };
        let batches = insert_messages(plan.generate(), body, encode::DOCUMENT_BYTES, encode::bson);
        load::insert(self, ahead(batches), plan.docs.into(), what, watch)
    }

    fn pages(&self, kind: Kind) -> anyhow::Result<Box<dyn Pages>> {
        let client = self.plain_client()?;
        Ok(Box::new(DocumentPages { client, kind }))
    }

    fn count(&mut self, range: Range) -> anyhow::Result<u64> {
        let query = match range {
            Range::Text(field, low, high) => doc! { field: { "$gte": low, "$lt": high } },
            Range::Creation(low, high) => {
                doc! { "creation": { "$gte": DateTime::from_millis(low), "$lt": DateTime::from_millis(high) } }
            }
        };
        self.count_documents(DATABASE, COLLECTION, query)
    }

    fn flush(&mut self) -> anyhow::Result<()> {
        storage::settle(self, DATABASE, COLLECTION).map(|_| ())
    }

    fn storage(&mut self, report: &mut TargetReport) -> anyhow::Result<()> {
        storage::of_collection(self, DATABASE, COLLECTION, report)
    }

    fn drop_all(&mut self) -> anyhow::Result<()> {
        self.drop_database(DATABASE)
    }
}

fn uri_index(kind: Kind) -> Document {
    match kind {
        Kind::Plain => doc! { "key": { "URI": 1 }, "name": "URI_1" },
        Kind::Clustering => doc! { "key": { "URI": 1 }, "name": "URI_1", "clustering": true },
        Kind::Covering => {
            doc! { "key": { "URI": 1, "creation": 1, "name": 1, "origin": 1 }, "name": "URI_covering" }
        }
    }
}

/// Pages over a plain connection.
struct DocumentPages {
    client: Client,
    kind: Kind,
}

impl DocumentPages {
    fn find(&self, start: &str) -> RawDocumentBuf {
        let mut find = rawdoc! {
            "find": COLLECTION,
            "filter": { "URI": { "$gte": start } },
            "sort": { "URI": 1 },
            "limit": PAGE as i32,
            "batchSize": PAGE as i32,
        };
        if self.kind == Kind::Covering {
            let fields = rawdoc! { "_id": 0, "URI": 1, "creation": 1, "name": 1, "origin": 1 };
            find.append(cstr!("projection"), fields);
        }
        find.append(cstr!("$db"), DATABASE);
        find
    }
}

impl Pages for DocumentPages {
    fn page(&mut self, start: &str) -> anyhow::Result<(Duration, Vec<String>)> {
        let message = command_message(&self.find(start));
        let started = Instant::now();
        self.client.send(&message)?;
        let reply = self.client.receive()?;
        let took = started.elapsed();
        let reply = reply_document(reply)?;
        check_ok(reply)?;
        let mut uris = Vec::with_capacity(PAGE);
        for document in reply.get_document("cursor")?.get_array("firstBatch")? {
            let document = document?.as_document().context("a page holds documents")?;
            uris.push(document.get_str("URI")?.to_owned());
        }
        Ok((took, uris))
    }
}
