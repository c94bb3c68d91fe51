//! Slows writers down, a little at first, while files come into level 0 faster than merges take them away.
//!
//! The library does so itself, but late and hard: a writer may then wait for seconds. Merges run at low
//! priority, so what a writer waits here is time for them, and mostly a few short waits are enough.
//!
//! In: how many files level 0 has, now and then, and every batch's size. Out: how long a writer that holds
//! no lock should wait before it prepares another one.

use super::idle::BUSY_FILES;
use parking_lot::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// Up to so many files of level 0 nobody waits: those of a merge under way, and as many again.
const FREE_FILES: u32 = 5 * BUSY_FILES as u32 / 2;
/// Bytes a second that all writers together may write with one file more.
const FIRST_RATE: f64 = 64.0 * 1024.0 * 1024.0;
/// So many files more halve it.
const HALVING_FILES: f64 = 4.0;
/// It does not fall below this: from here on the library's own limits are not far.
const LEAST_RATE: f64 = 4.0 * 1024.0 * 1024.0;
/// Values of so many bytes are large, ...
const LARGE_VALUE_BYTES: usize = 2 << 20;
/// ... and may be in memtables for so long.
const LARGE_FOR: Duration = Duration::from_secs(5);
/// Nobody waits longer at once.
const LONGEST_WAIT: Duration = Duration::from_millis(250);

/// What keeps writers from running away from merges.
#[derive(Debug, Default)]
pub(super) struct WriteThrottle {
    level_zero_files: AtomicU32,
    /// When all that was written is paid for.
    paid_at: Mutex<Option<Instant>>,
    /// When a large value was written last.
    large_at: Mutex<Option<Instant>>,
}

impl WriteThrottle {
    /// The greatest number of files that level 0 of any family has now.
    pub(super) fn note_files(&self, files: u64) {
        let files = u32::try_from(files).unwrap_or(u32::MAX);
        self.level_zero_files.store(files, Ordering::Relaxed);
    }

    /// A batch of this size was written.
    pub(super) fn charge(&self, bytes: usize) {
        self.charge_at(bytes, Instant::now());
    }

    /// The largest value of a batch that was written.
    pub(super) fn note_value(&self, bytes: usize) {
        if bytes >= LARGE_VALUE_BYTES {
            *self.large_at.lock() = Some(Instant::now());
        }
    }

    /// Whether large values have been written lately.
    pub(super) fn has_large_values(&self) -> bool {
        let large_at = *self.large_at.lock();
        large_at.is_some_and(|at| at.elapsed() < LARGE_FOR)
    }

    /// How long a writer should wait before it writes more.
    pub(super) fn wait(&self) -> Option<Duration> {
        self.wait_at(Instant::now())
    }

    fn charge_at(&self, bytes: usize, now: Instant) {
        let Some(rate) = rate(self.level_zero_files.load(Ordering::Relaxed)) else {
            return;
        };
        #[allow(clippy::cast_precision_loss)]
        let cost = Duration::from_secs_f64(bytes as f64 / rate).min(LONGEST_WAIT);
        let mut paid_at = self.paid_at.lock();
        let from = paid_at.map_or(now, |paid_at| paid_at.max(now));
        *paid_at = Some(from + cost);
    }

    fn wait_at(&self, now: Instant) -> Option<Duration> {
        rate(self.level_zero_files.load(Ordering::Relaxed))?;
        let paid_at = (*self.paid_at.lock())?;
        let wait = paid_at.checked_duration_since(now)?;
        Some(wait.min(LONGEST_WAIT)).filter(|wait| !wait.is_zero())
    }
}

/// Bytes a second with so many files; none: as many as may come.
fn rate(files: u32) -> Option<f64> {
    let more = files.checked_sub(FREE_FILES + 1)?;
    let halvings = f64::from(more) / HALVING_FILES;
    Some((FIRST_RATE / halvings.exp2()).max(LEAST_RATE))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writers_wait_longer_the_more_files_there_are_and_never_long() {
        let now = Instant::now();
        let mut waits = Vec::new();
        for files in [0, FREE_FILES, 22, 26, 30, 40, 1_000] {
            let throttle = WriteThrottle::default();
            throttle.note_files(files.into());
            throttle.charge_at(512 * 1024, now);
            waits.push(throttle.wait_at(now).unwrap_or_default());
        }
        assert_eq!(waits[..2], [Duration::ZERO; 2]);
        assert!(waits[1..].is_sorted(), "{waits:?}");
        assert!(waits[2] > Duration::from_millis(5), "{waits:?}");
        assert!(waits[6] <= Duration::from_millis(125), "{waits:?}");
    }

    #[test]
    fn writers_pay_together_and_what_is_merged_ends_the_wait() {
        let (throttle, now) = (WriteThrottle::default(), Instant::now());
        throttle.note_files(30);
        throttle.charge_at(512 * 1024, now);
        let one = throttle.wait_at(now).unwrap();
        throttle.charge_at(512 * 1024, now);
        assert!(throttle.wait_at(now).unwrap() > one.mul_f64(1.5));
        throttle.charge_at(usize::MAX, now);
        assert!(throttle.wait_at(now).unwrap() <= LONGEST_WAIT);
        throttle.note_files(8);
        assert_eq!(throttle.wait_at(now), None);
    }
}
