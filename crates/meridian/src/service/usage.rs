//! How often and how long each collection was used.

use super::OperationClass;
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

/// The classes whose latencies `$collStats` tells, in its order.
pub const LATENCIES: [&str; 3] = ["reads", "writes", "commands"];

/// Where the buckets of a histogram begin, in microseconds: as MongoDB has them.
const BOUNDS: [i64; 51] = bounds();

const fn bounds() -> [i64; 51] {
    // 0, powers of two up to 1,024, then also what lies halfway up to 2^21, then powers of two again.
    let mut bounds = [0; 51];
    let (mut number, mut power) = (1, 2);
    while number < bounds.len() {
        bounds[number] = power;
        number += 1;
        if power >= 1_024 && power < 1 << 20 && number < bounds.len() {
            bounds[number] = power + power / 2;
            number += 1;
        }
        power *= 2;
    }
    bounds
}

/// How long operations took.
#[derive(Debug)]
pub struct Histogram {
    /// Of all together.
    pub all: Use,
    counts: [i64; BOUNDS.len()],
}

impl Default for Histogram {
    fn default() -> Self {
        Self {
            all: Use::default(),
            counts: [0; BOUNDS.len()],
        }
    }
}

impl Histogram {
    fn add(&mut self, micros: i64) {
        self.all.add(micros);
        let bucket = BOUNDS.partition_point(|bound| *bound <= micros);
        self.counts[bucket.saturating_sub(1)] += 1;
    }

    /// The buckets that hold any: from how many microseconds, and how many operations.
    pub fn buckets(&self) -> impl Iterator<Item = (i64, i64)> {
        let all = BOUNDS.iter().copied().zip(self.counts.iter().copied());
        all.filter(|(_, count)| *count > 0)
    }
}

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
    /// By class of operation, in the order of [`LATENCIES`].
    pub latencies: [Histogram; LATENCIES.len()],
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
    /// Shows how one collection was used; none where it was not.
    pub fn of<T>(
        &self,
        namespace: &Namespace,
        show: impl FnOnce(&CollectionUse) -> T,
    ) -> Option<T> {
        let collections = self.0.lock();
        collections.by_name.get(&namespace.to_string()).map(show)
    }

    /// Counts a command on a collection: which of [`KINDS`] it is, its class, whether it only reads, and how long it took.
    pub fn add(
        &self,
        engine: &Engine,
        (database, collection): (&str, &str),
        kind: usize,
        class: OperationClass,
        reads: bool,
        took: Duration,
    ) {
        let micros = i64::try_from(took.as_micros()).unwrap_or(i64::MAX);
        let mut collections = self.0.lock();
        let Some(used) = collections.named(engine, database, collection) else {
            return;
        };
        used.kinds[kind].add(micros);
        let class = match class {
            OperationClass::Read => 0,
            OperationClass::Write => 1,
            OperationClass::Command => 2,
        };
        used.latencies[class].add(micros);
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
