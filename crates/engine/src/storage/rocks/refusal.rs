//! Says once in the log that writes are refused, and why, and once that they are accepted again.
//!
//! The library refuses writes after a failure of its log, a flush or a merge. When a flush or a merge found the
//! disk full, it looks for room every few seconds and goes on by itself. That the log itself finds no room is
//! prevented (see [`super::disk_space`]), unless another process fills the disk within a moment.

use super::error::Failure;
use parking_lot::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// While writes are refused that is said again so often.
const REPEAT: Duration = Duration::from_secs(60);

#[derive(Default)]
pub(super) struct WriteRefusal {
    is_refusing: AtomicBool,
    since: Mutex<Option<Times>>,
}

struct Times {
    first: Instant,
    said: Instant,
    is_for_space: bool,
}

impl WriteRefusal {
    /// Notes that a write failed.
    pub fn refused(&self, error: &rocksdb::Error) {
        self.is_refusing.store(true, Ordering::Relaxed);
        let now = Instant::now();
        let failure = Failure::of(error);
        let is_for_space = failure.is_out_of_space;
        let mut since = self.since.lock();
        match since.as_mut() {
            Some(times) if now.duration_since(times.said) < REPEAT => return,
            Some(times) => times.said = now,
            None => {
                *since = Some(Times {
                    first: now,
                    said: now,
                    is_for_space,
                })
            }
        }
        let hint = match is_for_space && !failure.is_of_log {
            true => "the disk is full: writes resume by themselves when there is room again",
            false => "look for the cause, then restart the server",
        };
        tracing::error!(%error, hint, "writes are refused");
    }

    /// Whether writes are refused now because the disk was full.
    pub fn is_for_space(&self) -> bool {
        let since = self.since.lock();
        since.as_ref().is_some_and(|times| times.is_for_space)
    }

    /// Notes that a write succeeded.
    pub fn accepted(&self) {
        if !self.is_refusing.load(Ordering::Relaxed) {
            return;
        }
        if let Some(times) = self.since.lock().take() {
            let seconds = times.first.elapsed().as_secs();
            tracing::info!(seconds, "writes are accepted again: they resume");
        }
        self.is_refusing.store(false, Ordering::Relaxed);
    }
}
