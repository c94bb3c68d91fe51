//! Who asks: what commands know of the connection that a request came over.

use meridian_wire::Compressor;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

/// One connection, as commands see it.
#[derive(Debug)]
pub struct Client {
    /// Counts up from 1 for each accepted connection.
    pub connection_id: i32,
    /// `address:port` of the other end.
    pub peer: String,
    /// What the latest hello with a list agreed on.
    pub compressors: Vec<Compressor>,
    /// What it is doing now, for `currentOp`.
    pub activity: Arc<Activity>,
}

impl Client {
    /// A connection that has said nothing yet.
    pub fn new(connection_id: i32, peer: String) -> Self {
        let activity = Arc::new(Activity::new(connection_id, peer.clone()));
        Self {
            connection_id,
            peer,
            compressors: Vec::new(),
            activity,
        }
    }
}

/// The command that a connection is running, readable from other threads.
#[derive(Debug)]
pub struct Activity {
    /// As in [`Client`].
    pub connection_id: i32,
    /// As in [`Client`].
    pub peer: String,
    /// Index in the command table plus one; 0 while idle.
    command: AtomicUsize,
    started_micros: AtomicI64,
}

impl Activity {
    fn new(connection_id: i32, peer: String) -> Self {
        let (command, started_micros) = (AtomicUsize::new(0), AtomicI64::new(0));
        Self {
            connection_id,
            peer,
            command,
            started_micros,
        }
    }

    /// Notes the command with this index in the table as running from now.
    pub fn begin(&self, command: usize) {
        self.started_micros.store(now_micros(), Ordering::Relaxed);
        self.command.store(command + 1, Ordering::Relaxed);
    }

    /// Notes that nothing is running.
    pub fn end(&self) {
        self.command.store(0, Ordering::Relaxed);
    }

    /// The running command's index and for how many microseconds it has run.
    pub fn running(&self) -> Option<(usize, i64)> {
        let command = self.command.load(Ordering::Relaxed).checked_sub(1)?;
        Some((
            command,
            (now_micros() - self.started_micros.load(Ordering::Relaxed)).max(0),
        ))
    }
}

fn now_micros() -> i64 {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    i64::try_from(since.as_micros()).unwrap_or(i64::MAX)
}
