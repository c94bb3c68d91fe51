//! `top`: how often and how long each collection was used.

use super::arguments::elements;
use super::context::Context;
use super::table::Command;
use bson::raw::RawDocument;
use meridian_engine::{Engine, Namespace, Result};
use meridian_wire::DocumentWriter;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::time::Duration;

/// The kinds of use that are told apart, in the order of the reply.
const KINDS: [&str; 6] = [
    "queries", "getmore", "insert", "update", "remove", "commands",
];

/// Collections beyond this number are not counted.
const COLLECTIONS_MAX: usize = 10_000;
/// Longer names are no collection's ([`Namespace::new`]), and not worth putting together.
const NAME_BYTES_MAX: usize = 255;

/// What was used since the server began.
#[derive(Debug, Default)]
pub struct Usage(Mutex<Collections>);

#[derive(Debug, Default)]
struct Collections {
    by_name: BTreeMap<String, Collection>,
    /// The name of the one that is looked for: every command asks, so it is put together in one place.
    name: String,
}

#[derive(Debug, Default)]
struct Collection {
    reads: Use,
    writes: Use,
    kinds: [Use; KINDS.len()],
}

#[derive(Debug, Default, Clone, Copy)]
struct Use {
    micros: i64,
    count: i64,
}

impl Use {
    fn add(&mut self, micros: i64) {
        self.micros += micros;
        self.count += 1;
    }

    fn write(self, name: &str, row: &mut DocumentWriter<'_>) {
        row.document(name)
            .count("time", self.micros)
            .count("count", self.count);
    }
}

impl Collections {
    /// The collection with this name; none when there is none, or when it is not known and there are too many.
    /// Names come from clients, who may call anything a collection: only those that exist are remembered.
    fn named(
        &mut self,
        engine: &Engine,
        database: &str,
        collection: &str,
    ) -> Option<&mut Collection> {
        let Self { by_name, name } = self;
        if database.len() + 1 + collection.len() > NAME_BYTES_MAX {
            return None;
        }
        name.clear();
        for part in [database, ".", collection] {
            name.push_str(part);
        }
        if !by_name.contains_key(name) {
            let namespace = Namespace::new(database, collection).ok()?;
            // Under the lock: whoever drops it forgets it here afterwards.
            if by_name.len() >= COLLECTIONS_MAX || !engine.has_collection(&namespace) {
                return None;
            }
            by_name.insert(name.clone(), Collection::default());
        }
        by_name.get_mut(name)
    }
}

impl Usage {
    /// Counts a command that took this long, if it is about a collection.
    pub fn add(
        &self,
        engine: &Engine,
        command: &Command,
        database: &str,
        body: &RawDocument,
        took: Duration,
    ) {
        let Some(collection) = collection_of(command, body) else {
            return;
        };
        let micros = i64::try_from(took.as_micros()).unwrap_or(i64::MAX);
        let mut collections = self.0.lock();
        let Some(used) = collections.named(engine, database, collection) else {
            return;
        };
        used.kinds[kind_of(command)].add(micros);
        if command.writes && command.name != "aggregate" {
            used.writes.add(micros);
        } else {
            used.reads.add(micros);
        }
    }

    /// Forgets a collection that was dropped, or has another name now.
    pub fn forget(&self, namespace: &Namespace) {
        self.0.lock().by_name.remove(&namespace.to_string());
    }

    /// Forgets the collections of a database that was dropped.
    pub fn forget_database(&self, database: &str) {
        let is_other = |name: &str| name.split_once('.').is_none_or(|(own, _)| own != database);
        self.0.lock().by_name.retain(|name, _| is_other(name));
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

/// Lists them, all times in microseconds.
pub fn run(context: &mut Context<'_>, reply: &mut DocumentWriter<'_>) -> Result<()> {
    let mut totals = reply.document("totals");
    totals.string("note", "all times in microseconds");
    for (name, used) in context.service.usage.0.lock().by_name.iter() {
        let mut row = totals.document(name);
        let total = Use {
            micros: used.reads.micros + used.writes.micros,
            count: used.reads.count + used.writes.count,
        };
        total.write("total", &mut row);
        used.reads.write("readLock", &mut row);
        used.writes.write("writeLock", &mut row);
        for (kind, own) in KINDS.iter().zip(used.kinds) {
            own.write(kind, &mut row);
        }
    }
    Ok(())
}
