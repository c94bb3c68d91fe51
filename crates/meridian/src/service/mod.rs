//! What the server's side of every request shares: the engine, the settings, who is connected, what was counted.
//!
//! Deliberately absent: what commands mean (`commands`), and sockets (`server`).

mod audit;
mod client;
mod counters;
mod profiler;
mod reply_memory;
mod sessions;
mod startup_warning;
mod usage;

pub use audit::{AuditLog, without_secrets};
pub use client::{Activity, Client, Running};
pub use counters::{CommandCounts, Compression, OperationClass};
pub use profiler::{DatabaseProfile, ProfileLevel, Profiler};
pub use reply_memory::{BATCH_BYTES_MAX, ReplyMemory};
pub use sessions::{SessionName, Sessions};
pub use startup_warning::StartupWarning;
pub use usage::{CollectionUse, KINDS, LATENCIES, Use};

use crate::access::Access;
use crate::cli::Settings;
use counters::{Counter, Latencies};
use meridian_engine::Engine;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;
use usage::Usage;

/// Reads certificates again.
pub type RotateCertificates = Box<dyn Fn() -> anyhow::Result<()> + Send + Sync>;

/// The server's side of every request.
pub struct Service {
    /// The database.
    pub engine: Arc<Engine>,
    /// As given on the command line and in the config file.
    pub settings: Settings,
    /// Where the server listens; the port is the real one even if 0 was asked for.
    pub address: SocketAddr,
    /// `host:port` as MongoDB reports it.
    pub host: String,
    /// What whoever connects should be told.
    pub startup_warnings: Vec<StartupWarning>,
    /// When the service began.
    pub started: Instant,
    /// What was counted since.
    pub counters: Counters,
    /// How often each command ran.
    pub command_counts: CommandCounts,
    /// How long commands took, by collection.
    pub usage: Usage,
    /// Writes that wait until they are on disk.
    pub syncing: Counter,
    /// What replies under way have taken.
    pub reply_memory: Arc<ReplyMemory>,
    /// Who may do what.
    pub access: Access,
    /// Which statements are recorded.
    pub profiler: Profiler,
    /// Which sessions are used.
    pub sessions: Sessions,
    /// The record of who did what, if one is kept.
    pub audit: Option<AuditLog>,
    /// Has new connections use what the files of certificates hold now; none where nothing is encrypted.
    pub rotate_certificates: Option<RotateCertificates>,
    activities: Mutex<BTreeMap<i32, Arc<Activity>>>,
}

impl Service {
    /// A service of so many commands that has answered nothing yet.
    pub fn new(
        engine: Arc<Engine>,
        settings: Settings,
        address: SocketAddr,
        commands: usize,
    ) -> Self {
        let host = format!("{}:{}", host_name(), address.port());
        let (started, counters) = (Instant::now(), Counters::default());
        let access = Access::new(settings.auth, settings.max_connections_per_user);
        let activities = Mutex::default();
        let startup_warnings = StartupWarning::all(&settings, address);
        Self {
            engine,
            settings,
            address,
            host,
            startup_warnings,
            started,
            counters,
            command_counts: CommandCounts::new(commands),
            usage: Usage::default(),
            syncing: Counter::default(),
            reply_memory: Arc::default(),
            access,
            profiler: Profiler::default(),
            sessions: Sessions::default(),
            audit: None,
            rotate_certificates: None,
            activities,
        }
    }

    /// Makes a connection's activity visible to `currentOp`.
    pub fn register(&self, activity: &Arc<Activity>) {
        self.activities
            .lock()
            .insert(activity.connection_id, Arc::clone(activity));
    }

    /// The opposite of [`Self::register`].
    pub fn unregister(&self, activity: &Activity) {
        self.activities.lock().remove(&activity.connection_id);
    }

    /// Every open connection's activity.
    pub fn activities(&self) -> Vec<Arc<Activity>> {
        self.activities.lock().values().cloned().collect()
    }
}

/// Running totals for `serverStatus`.
#[derive(Debug, Default)]
#[allow(missing_docs, reason = "named after the fields of serverStatus")]
pub struct Counters {
    pub connections_current: Counter,
    pub connections_created: Counter,
    pub connections_refused: Counter,
    pub bytes_in: Counter,
    pub bytes_out: Counter,
    pub physical_bytes_in: Counter,
    pub physical_bytes_out: Counter,
    pub requests: Counter,
    pub insert: Counter,
    pub query: Counter,
    pub update: Counter,
    pub delete: Counter,
    pub get_more: Counter,
    pub command: Counter,
    pub user_errors: Counter,
    pub panics: Counter,
    pub documents_inserted: Counter,
    pub documents_updated: Counter,
    pub documents_deleted: Counter,
    pub documents_returned: Counter,
    pub unknown_commands: Counter,
    pub latencies: Latencies,
    pub compression: Compression,
}

/// The machine's name.
pub fn host_name() -> String {
    std::fs::read_to_string("/proc/sys/kernel/hostname")
        .map_or_else(|_| "localhost".to_owned(), |name| name.trim().to_owned())
}
