//! `top`: how often and how long each collection was used.

use super::arguments::elements;
use super::context::Context;
use super::table::Command;
use crate::service::{CollectionUse, KINDS, LATENCIES, Service, Use};
use bson::raw::{RawDocument, RawDocumentBuf};
use meridian_engine::{Namespace, Result};
use meridian_wire::DocumentWriter;
use std::time::Duration;

/// Counts a command that took this long, if it is about a collection.
pub fn count(
    service: &Service,
    command: &Command,
    database: &str,
    body: &RawDocument,
    took: Duration,
) {
    if let Some(collection) = collection_of(command, body) {
        let reads = !command.writes || command.name == "aggregate";
        let namespace = (database, collection);
        let usage = &service.usage;
        let (kind, class) = (kind_of(command), command.class);
        usage.add(&service.engine, namespace, kind, class, reads, took);
    }
}

/// The collection that a command names.
fn collection_of<'a>(command: &Command, body: &'a RawDocument) -> Option<&'a str> {
    let mut fields = elements(body);
    let (_, first) = fields.next()?;
    if command.name == "getMore" {
        return fields.find(|(name, _)| *name == "collection")?.1.as_str();
    }
    first.as_str()
}

fn kind_of(command: &Command) -> usize {
    match command.name {
        "find" => 0,
        "getMore" => 1,
        "insert" => 2,
        "update" => 3,
        "delete" => 4,
        _ => 5,
    }
}

/// What `latencyStats` of `$collStats` tells of a collection, with histograms or without.
pub fn latencies(service: &Service, namespace: &Namespace, histograms: bool) -> RawDocumentBuf {
    let describe = |used: &CollectionUse| {
        let mut bytes = Vec::new();
        let mut stats = DocumentWriter::new(&mut bytes);
        for (name, own) in LATENCIES.iter().zip(&used.latencies) {
            let mut row = stats.document(name);
            if histograms {
                let mut list = row.array("histogram");
                for (micros, count) in own.buckets() {
                    list.document()
                        .int64("micros", micros)
                        .int64("count", count);
                }
            }
            row.int64("latency", own.all.micros)
                .int64("ops", own.all.count);
        }
        // A standalone has no transactions.
        let mut row = stats.document("transactions");
        if histograms {
            drop(row.array("histogram"));
        }
        row.int64("latency", 0).int64("ops", 0);
        drop(row);
        drop(stats);
        RawDocumentBuf::from_bytes(bytes).unwrap_or_default()
    };
    let known = service.usage.of(namespace, describe);
    known.unwrap_or_else(|| describe(&CollectionUse::default()))
}

/// Lists them, all times in microseconds.
pub fn run(context: &mut Context<'_>, reply: &mut DocumentWriter<'_>) -> Result<()> {
    let mut totals = reply.document("totals");
    totals.string("note", "all times in microseconds");
    context.service.usage.for_each(|name, used| {
        let mut row = totals.document(name);
        let total = Use {
            micros: used.reads.micros + used.writes.micros,
            count: used.reads.count + used.writes.count,
        };
        write(total, "total", &mut row);
        write(used.reads, "readLock", &mut row);
        write(used.writes, "writeLock", &mut row);
        for (kind, own) in KINDS.iter().zip(used.kinds) {
            write(own, kind, &mut row);
        }
    });
    Ok(())
}

fn write(used: Use, name: &str, row: &mut DocumentWriter<'_>) {
    row.document(name)
        .count("time", used.micros)
        .count("count", used.count);
}
