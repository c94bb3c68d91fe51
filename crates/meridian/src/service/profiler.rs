//! The database profiler: whose statements are recorded in `system.profile`, and which of them.
//!
//! Levels and filters are those of a database, the bounds those of the server, as in MongoDB. Nothing of it survives a
//! restart.

use bson::RawDocument;
use bson::raw::RawDocumentBuf;
use meridian_engine::query::Filter;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

/// A statement that takes so many milliseconds is slow, if nobody says another number.
const SLOW_MS: i64 = 100;
/// So many databases have settings at most: they are made by who may switch the profiler.
const DATABASES_MAX: usize = 10_000;

/// What is recorded of a database's statements.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ProfileLevel {
    /// None.
    #[default]
    Off,
    /// Slow ones, or those that a filter wants.
    Slow,
    /// All.
    All,
}

/// The settings of a database.
#[derive(Debug, Clone, Default)]
pub struct DatabaseProfile {
    pub level: ProfileLevel,
    pub filter: Option<Arc<Filter>>,
}

/// All settings.
#[derive(Debug)]
pub struct Profiler {
    /// Whether any database has another level than off: asked for every command.
    is_any_on: AtomicBool,
    databases: Mutex<HashMap<String, DatabaseProfile>>,
    slow_ms: AtomicI64,
    /// Which share of slow statements is recorded: the bits of a double.
    sample_rate: AtomicU64,
}

impl Default for Profiler {
    fn default() -> Self {
        Self {
            is_any_on: AtomicBool::new(false),
            databases: Mutex::default(),
            slow_ms: AtomicI64::new(SLOW_MS),
            sample_rate: AtomicU64::new(1.0_f64.to_bits()),
        }
    }
}

impl ProfileLevel {
    /// As MongoDB numbers them.
    pub fn number(self) -> i32 {
        match self {
            Self::Off => 0,
            Self::Slow => 1,
            Self::All => 2,
        }
    }

    /// The level with this number.
    pub fn numbered(number: i64) -> Option<Self> {
        match number {
            0 => Some(Self::Off),
            1 => Some(Self::Slow),
            2 => Some(Self::All),
            _ => None,
        }
    }
}

impl Profiler {
    /// The settings of a database.
    pub fn of(&self, database: &str) -> DatabaseProfile {
        let databases = self.databases.lock();
        databases.get(database).cloned().unwrap_or_default()
    }

    /// Sets those of a database; false where too many have some.
    pub fn set(&self, database: &str, profile: DatabaseProfile) -> bool {
        let mut databases = self.databases.lock();
        let is_default = profile.level == ProfileLevel::Off && profile.filter.is_none();
        if is_default {
            databases.remove(database);
        } else if databases.len() < DATABASES_MAX || databases.contains_key(database) {
            databases.insert(database.to_owned(), profile);
        } else {
            return false;
        }
        let mut all = databases.values();
        let is_any_on = all.any(|own| own.level != ProfileLevel::Off);
        self.is_any_on.store(is_any_on, Ordering::Relaxed);
        true
    }

    /// Whether statements on a database may be recorded.
    pub fn is_on(&self, database: &str) -> bool {
        self.is_any_on.load(Ordering::Relaxed) && self.of(database).level != ProfileLevel::Off
    }

    /// How many milliseconds make a statement slow.
    pub fn slow_ms(&self) -> i64 {
        self.slow_ms.load(Ordering::Relaxed)
    }

    /// Sets how many milliseconds make a statement slow.
    pub fn set_slow_ms(&self, slow_ms: i64) {
        self.slow_ms.store(slow_ms, Ordering::Relaxed);
    }

    /// Which share of slow statements is recorded.
    pub fn sample_rate(&self) -> f64 {
        f64::from_bits(self.sample_rate.load(Ordering::Relaxed))
    }

    /// Sets which share of slow statements is recorded.
    pub fn set_sample_rate(&self, rate: f64) {
        self.sample_rate.store(rate.to_bits(), Ordering::Relaxed);
    }

    /// Whether a statement that took so long is slow.
    pub fn is_slow(&self, took: Duration) -> bool {
        // Below 0 everything is.
        u64::try_from(self.slow_ms()).map_or(true, |most| took > Duration::from_millis(most))
    }

    /// Whether a statement is recorded that took so long, and whose record `describe` makes.
    pub fn records(
        &self,
        database: &str,
        took: Duration,
        describe: impl FnOnce() -> RawDocumentBuf,
    ) -> Option<RawDocumentBuf> {
        let profile = self.of(database);
        match (profile.level, profile.filter) {
            (ProfileLevel::Off, _) => None,
            (ProfileLevel::All, _) => Some(describe()),
            (ProfileLevel::Slow, Some(filter)) => {
                let record = describe();
                let is_wanted = |record: &RawDocument| filter.matches(record).unwrap_or(false);
                is_wanted(&record).then_some(record)
            }
            (ProfileLevel::Slow, None) => {
                let is_drawn = || rand::random::<f64>() < self.sample_rate();
                (self.is_slow(took) && is_drawn()).then(describe)
            }
        }
    }
}
