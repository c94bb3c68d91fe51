//! When writes rest, what is in memory is written to files, and level 0 is merged: each is one more place
//! to look in for every read.
//!
//! Under load a merge of few of them would rewrite the level below again and again; at rest nobody
//! waits for it. In: how many bytes have been written so far, once a second. Out: when rest begins and
//! ends.

/// Files of level 0 that start a merge while much is written: each merge rewrites what it meets of the
/// level below, and entries come in random order.
pub(super) const BUSY_FILES: i32 = 8;
/// The same at rest.
pub(super) const IDLE_FILES: i32 = 2;
/// At rest is a store that takes less a second...
const IDLE_BYTES: u64 = 1 << 20;
/// ... for so many seconds.
const IDLE_SECONDS: u32 = 5;

/// What changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum IdleChange {
    /// Writes have become few.
    Begins,
    /// They have become many again.
    Ends,
}

/// What the store has been doing lately.
#[derive(Debug, Default)]
pub(super) struct IdleDetector {
    written: u64,
    quiet_seconds: u32,
}

impl IdleDetector {
    /// To be told once a second.
    pub(super) fn second(&mut self, written: u64) -> Option<IdleChange> {
        let is_quiet = written - std::mem::replace(&mut self.written, written) < IDLE_BYTES;
        let now = if is_quiet {
            (self.quiet_seconds + 1).min(IDLE_SECONDS)
        } else {
            0
        };
        let before = std::mem::replace(&mut self.quiet_seconds, now);
        match (before, now) {
            (IDLE_SECONDS, 0) => Some(IdleChange::Ends),
            (before, IDLE_SECONDS) if before < IDLE_SECONDS => Some(IdleChange::Begins),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rest_begins_after_some_seconds_and_ends_with_the_first_writes() {
        let mut idle = IdleDetector::default();
        let mut written = 0;
        let mut told = Vec::new();
        let seconds = [9, 0, 9, 0, 0, 0, 0, 0, 0, 0, 9, 9, 0, 0, 0, 0, 0];
        for (second, mebibytes) in seconds.into_iter().enumerate() {
            written += mebibytes << 20;
            told.extend(idle.second(written).map(|change| (second, change)));
        }
        assert_eq!(
            told,
            [
                (7, IdleChange::Begins),
                (10, IdleChange::Ends),
                (16, IdleChange::Begins)
            ]
        );
    }
}
