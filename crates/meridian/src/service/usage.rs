//! How often and how long each collection was used.

use meridian_engine::{Engine, Namespace};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::time::Duration;

/// The kinds of use that are told apart, in the order of the reply of `top`.
pub const KINDS: [&str; 6] = [
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
    by_name: BTreeMap<String, CollectionUse>,
    /// The name of the one that is looked for: every command asks, so it is put together in one place.
    name: String,
}

/// How a collection was used.
#[derive(Debug, Default)]
pub struct CollectionUse {
    /// By commands that only read.
    pub reads: Use,
    /// By the others.
    pub writes: Use,
    /// By each of [`KINDS`].
    pub kinds: [Use; KINDS.len()],
}

/// How long and how often.
#[derive(Debug, Default, Clone, Copy)]
pub struct Use {
    /// Microseconds.
    pub micros: i64,
    /// Commands.
    pub count: i64,
}

impl Use {
    fn add(&mut self, micros: i64) {
        self.micros += micros;
        self.count += 1;
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
    ) -> Option<&mut CollectionUse> {
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
            by_name.insert(name.clone(), CollectionUse::default());
        }
        by_name.get_mut(name)
    }
}

impl Usage {
    /// Counts a command on a collection: which of [`KINDS`] it is, whether it only reads, and how long it took.
    pub fn add(
        &self,
        engine: &Engine,
        (database, collection): (&str, &str),
        kind: usize,
        reads: bool,
        took: Duration,
    ) {
        let micros = i64::try_from(took.as_micros()).unwrap_or(i64::MAX);
        let mut collections = self.0.lock();
        let Some(used) = collections.named(engine, database, collection) else {
            return;
        };
        used.kinds[kind].add(micros);
        match reads {
            true => used.reads.add(micros),
            false => used.writes.add(micros),
        }
    }

    /// Shows each collection's use.
    pub fn for_each(&self, mut show: impl FnMut(&str, &CollectionUse)) {
        for (name, used) in &self.0.lock().by_name {
            show(name, used);
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
