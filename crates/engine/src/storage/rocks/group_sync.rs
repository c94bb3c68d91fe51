//! Group fsync: callers that come while one fsync runs share the next one.
//!
//! A failed fsync poisons the group for good: pages that could not be written may have been
//! dropped by the kernel, so a later fsync that succeeds proves nothing ("fsyncgate", 2018).

use crate::storage::StoreError;
use parking_lot::{Condvar, Mutex};

/// Why an fsync did not succeed.
pub(super) enum SyncFailure {
    /// It was not tried, since the log could not be written before: nothing acknowledged as durable is at risk.
    NotTried(StoreError),
    /// It failed: what it was to write may be gone.
    Failed(String),
}

#[derive(Default)]
pub(super) struct GroupSync {
    state: Mutex<SyncState>,
    finished: Condvar,
}

#[derive(Default)]
struct SyncState {
    started: u64,
    completed: u64,
    running: bool,
    failure: Option<String>,
}

impl GroupSync {
    /// Returns once an fsync that began after the call has succeeded.
    ///
    /// # Errors
    /// What `fsync` says of one that was not tried; [`StoreError::Poisoned`] from the first failed one on.
    pub(super) fn wait(
        &self,
        fsync: impl Fn() -> Result<(), SyncFailure>,
    ) -> Result<(), StoreError> {
        let mut state = self.state.lock();
        let ticket = state.started + 1;
        loop {
            if let Some(failure) = &state.failure {
                return Err(StoreError::Poisoned(failure.clone()));
            }
            if state.completed >= ticket {
                return Ok(());
            }
            if state.running {
                self.finished.wait(&mut state);
                continue;
            }
            state.running = true;
            state.started += 1;
            let number = state.started;
            drop(state);
            let result = fsync();
            state = self.state.lock();
            state.running = false;
            self.finished.notify_all();
            match result {
                Ok(()) => state.completed = number,
                Err(SyncFailure::Failed(message)) => state.failure = Some(message),
                // Others who wait try for themselves.
                Err(SyncFailure::NotTried(error)) => return Err(error),
            }
        }
    }

    /// The failure that stopped writes, if any.
    pub(super) fn check(&self) -> Result<(), StoreError> {
        match &self.state.lock().failure {
            Some(failure) => Err(StoreError::Poisoned(failure.clone())),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering};

    #[test]
    fn callers_share_fsyncs_but_never_an_older_one() {
        let group = GroupSync::default();
        let (written, synced) = (AtomicU64::new(0), AtomicU64::new(0));
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..200 {
                        let mine = written.fetch_add(1, Ordering::SeqCst) + 1;
                        group
                            .wait(|| {
                                let seen = written.load(Ordering::SeqCst);
                                std::thread::yield_now();
                                synced.fetch_max(seen, Ordering::SeqCst);
                                Ok(())
                            })
                            .unwrap();
                        assert!(synced.load(Ordering::SeqCst) >= mine);
                    }
                });
            }
        });
    }

    #[test]
    fn an_fsync_that_was_not_tried_is_tried_again() {
        let group = GroupSync::default();
        let full = || Err(SyncFailure::NotTried(StoreError::OutOfSpace("full".into())));
        let error = group.wait(full).unwrap_err();
        assert!(matches!(error, StoreError::OutOfSpace(_)), "{error}");
        assert!(group.check().is_ok() && group.wait(|| Ok(())).is_ok());
    }

    #[test]
    fn a_failed_fsync_is_never_retried() {
        let group = GroupSync::default();
        let lost = || Err(SyncFailure::Failed("disk gone".into()));
        assert!(group.wait(lost).is_err());
        let error = group.wait(|| Ok(())).unwrap_err();
        assert!(error.to_string().contains("disk gone"));
        assert!(group.check().is_err());
    }
}
