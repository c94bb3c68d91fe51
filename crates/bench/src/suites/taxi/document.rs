//! The evaluation on a server that speaks MongoDB's protocol.

use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use bson::{Bson, DateTime, Document, RawBsonRef, RawDocumentBuf, doc, rawdoc};

use super::layout::{self, Layout};
use super::questions::{Question, Returned, Wanted};
use super::trip::{Trip, name};
use super::{Plan, TaxiTarget};
use crate::client::REPLY_BYTES;
use crate::load::{self, Load, ahead, insert_messages};
use crate::report::TargetReport;
use crate::storage;
use crate::targets::document::DocumentServer;

const DATABASE: &str = "meridian_bench_taxi";
const COLLECTION: &str = "trips";

impl TaxiTarget for DocumentServer {
    /// The first command of a cursor.
    type Way = RawDocumentBuf;

    fn load(&mut self, plan: &Plan, layout: Layout) -> anyhow::Result<Load> {
        self.command(DATABASE, doc! { "create": COLLECTION })?;
        match layout {
            Layout::A | Layout::B => insert(self, plan, layout, plan.trips.in_order()),
            Layout::C => insert(self, plan, layout, plan.trips.shuffled()?),
        }
    }

    fn build_indexes(&mut self, layout: Layout) -> anyhow::Result<()> {
        let indexes: Vec<Document> = index_keys(layout)
            .into_iter()
            .map(|key| {
                let fields: Vec<&str> = key.keys().map(String::as_str).collect();
                let name = format!("{}_1", fields.join("_1_"));
                doc! { "key": key, "name": name }
            })
            .collect();
        self.command(
            DATABASE,
            doc! { "createIndexes": COLLECTION, "indexes": indexes },
        )?;
        Ok(())
    }

    fn count(&mut self, question: &Question, layout: Layout) -> anyhow::Result<u64> {
        let query = filter(question.wanted, layout);
        self.count_documents(DATABASE, COLLECTION, query)
    }

    fn read_all(&mut self) -> anyhow::Result<()> {
        let by_no_index = doc! { "no_trip_has_this": 1 };
        let found = self.count_documents(DATABASE, COLLECTION, by_no_index)?;
        ensure!(found == 0, "{found} trips have a field that none has");
        Ok(())
    }

    fn ways(&self, question: &Question, layout: Layout, plan: &Plan) -> Vec<(String, Self::Way)> {
        let commands = match layout {
            Layout::A => vec![("$match and $sample", sample(question.wanted, plan.limit))],
            Layout::B => sorted(
                question.wanted,
                layout,
                plan.limit,
                "random",
                &by_random(question.wanted),
            ),
            Layout::C => sorted(
                question.wanted,
                layout,
                plan.limit,
                "_id",
                &by_id(question.wanted),
            ),
        };
        commands
            .into_iter()
            .map(|(name, mut command)| {
                command.insert("$db", DATABASE);
                let raw = RawDocumentBuf::try_from(&command);
                (name.to_owned(), raw.expect("the command is valid BSON"))
            })
            .collect()
    }

    fn fetch(&mut self, way: &Self::Way) -> anyhow::Result<Duration> {
        let mut client = self.plain_client()?;
        client.make_room(REPLY_BYTES);
        let started = Instant::now();
        client.each_batch(way, |batch| {
            std::hint::black_box(batch.as_bytes());
            Ok(())
        })?;
        Ok(started.elapsed())
    }

    fn look(&mut self, way: &Self::Way, _: Layout) -> anyhow::Result<Vec<Returned>> {
        let mut returned = Vec::new();
        self.plain_client()?.each_batch(way, |batch| {
            for document in batch {
                returned.push(look_at(document?)?);
            }
            Ok(())
        })?;
        Ok(returned)
    }

    fn restart(&mut self, between: &mut dyn FnMut()) -> anyhow::Result<bool> {
        DocumentServer::restart(self, between)
    }

    fn storage(&mut self, report: &mut TargetReport) -> anyhow::Result<()> {
        storage::of_collection(self, DATABASE, COLLECTION, report)
    }

    fn drop_all(&mut self) -> anyhow::Result<()> {
        self.drop_database(DATABASE)
    }
}

fn insert(
    server: &DocumentServer,
    plan: &Plan,
    layout: Layout,
    trips: impl Iterator<Item = Trip> + Send + 'static,
) -> anyhow::Result<Load> {
    let body = rawdoc! { "insert": COLLECTION, "ordered": true, "$db": DATABASE };
    let numbered = (0u32..).zip(trips);
    let batches = insert_messages(
        numbered,
        body,
        layout::DOCUMENT_BYTES,
        move |(position, trip), out| layout::bson(trip, *position, layout, out),
    );
    let total = plan.trips.total().into();
    let what = format!("{}: load", layout.letter());
    load::insert(server, ahead(batches), total, &what, load::unwatched)
}

/// B's compound index lets a range be sorted by the random number from entries alone.
fn index_keys(layout: Layout) -> Vec<Document> {
    match layout {
        Layout::A | Layout::C => vec![doc! { "pickup_datetime": 1 }, doc! { "medallion": 1 }],
        Layout::B => vec![
            doc! { "pickup_datetime": 1, "random": 1 },
            doc! { "random": 1 },
            doc! { "medallion": 1 },
        ],
    }
}

fn filter(wanted: Wanted, layout: Layout) -> Document {
    let time = |unix_ms: i64| {
        if layout.has_dates() {
            Bson::from(DateTime::from_millis(unix_ms))
        } else {
            Bson::from(unix_ms)
        }
    };
    match wanted {
        Wanted::Time(from, until) => {
            doc! { "pickup_datetime": { "$gte": time(from), "$lt": time(until) } }
        }
        Wanted::Medallion(name) => doc! { "medallion": name.as_str() },
        Wanted::Everything => doc! {},
    }
}

fn sample(wanted: Wanted, limit: u32) -> Document {
    let filter = filter(wanted, Layout::A);
    let mut pipeline = vec![doc! { "$sample": { "size": i64::from(limit) } }];
    if !filter.is_empty() {
        pipeline.insert(0, doc! { "$match": filter });
    }
    doc! { "aggregate": COLLECTION, "pipeline": pipeline, "cursor": { "batchSize": limit } }
}

/// Indexes that may lead to trips in the order of their random numbers; none leaves the choice
/// to the server.
type Hints = Vec<(&'static str, Option<Document>)>;

fn by_random(wanted: Wanted) -> Hints {
    let own = ("the server's choice", None);
    let walk = ("walking the index on random", Some(doc! { "random": 1 }));
    let range = (
        "sorting the range's entries by random",
        Some(doc! { "pickup_datetime": 1, "random": 1 }),
    );
    match wanted {
        Wanted::Medallion(_) => vec![own],
        Wanted::Everything => vec![walk],
        Wanted::Time(..) => vec![own, range, walk],
    }
}

fn by_id(wanted: Wanted) -> Hints {
    let own = ("the server's choice", None);
    let walk = ("walking _id", Some(doc! { "_id": 1 }));
    let range = (
        "sorting the range by _id",
        Some(doc! { "pickup_datetime": 1 }),
    );
    match wanted {
        Wanted::Medallion(_) => vec![own],
        Wanted::Everything => vec![walk],
        Wanted::Time(..) => vec![own, range, walk],
    }
}

fn sorted(
    wanted: Wanted,
    layout: Layout,
    limit: u32,
    by: &str,
    hints: &[(&'static str, Option<Document>)],
) -> Vec<(&'static str, Document)> {
    let way = |(name, hint): &(&'static str, Option<Document>)| {
        let mut find = doc! {
            "find": COLLECTION,
            "filter": filter(wanted, layout),
            "sort": { by: 1 },
            "limit": i64::from(limit),
            "batchSize": limit,
        };
        if let Some(hint) = hint {
            find.insert("hint", hint.clone());
        }
        (*name, find)
    };
    hints.iter().map(way).collect()
}

fn look_at(trip: RawBsonRef<'_>) -> anyhow::Result<Returned> {
    let trip = trip.as_document().context("a batch holds documents")?;
    let mut id = [0; 16];
    id[4..].copy_from_slice(&trip.get_object_id("_id")?.bytes());
    let pickup_ms = match trip.get("pickup_datetime")? {
        Some(RawBsonRef::DateTime(time)) => time.timestamp_millis(),
        Some(RawBsonRef::Int64(unix_ms)) => unix_ms,
        other => anyhow::bail!("a trip's pick-up time is {other:?}"),
    };
    Ok(Returned {
        id: u128::from_be_bytes(id),
        pickup_ms,
        medallion: name(trip.get_str("medallion")?)?,
    })
}
