//! A second core for one statement, when one is idle, and several reads at once where it waits for the disk.
//!
//! Large reads are split in two halves. At most as many halves run on borrowed threads as there are
//! other cores, so that many clients at once get no more threads than before. A read that is found to
//! wait mostly is split in more parts than there are cores: a disk answers many questions in the time of
//! one.

use crate::error::Result;
use crate::{operation, storage};
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::ScopedJoinHandle;
use std::time::{Duration, Instant};

static BORROWED: AtomicUsize = AtomicUsize::new(0);
/// Threads that wait for the disk, of all statements.
static WAITING: AtomicUsize = AtomicUsize::new(0);
/// At most so many of them.
const WAITING_MAX: usize = 64;
/// Parts of a read that mostly waits.
const WAITING_PARTS: usize = 16;
/// The part by which it is found out whether a read waits: one in so many, and at least so many items.
const TRIED_SHARE: usize = 64;
const TRIED_MIN: usize = 32;
/// It waits when this many times as much time has passed as it has computed...
const WAITS_RATIO: u32 = 4;
/// ... and it has read a block from a file for so many items at least.
const ITEMS_A_BLOCK: u64 = 16;

/// Works on items in parts, as few as serve. The results come in the items' order, each with the numbers of
/// its items.
///
/// # Errors
/// Those of the work.
pub(super) fn in_parts<T: Sync, R: Send>(
    items: &[T],
    work: impl Fn(&[T]) -> Result<R> + Sync,
) -> Result<Vec<(R, Range<usize>)>> {
    let tried = (items.len() / TRIED_SHARE).max(TRIED_MIN).min(items.len());
    let meter = WorkMeter::begin();
    let first = work(&items[..tried])?;
    let waits = meter.waits(tried);
    let mut done = vec![(first, 0..tried)];
    done.extend(share(items, tried, waits, &work)?);
    Ok(done)
}

/// The items from the first on, in halves or, for a read that waits, in many parts.
fn share<T: Sync, R: Send>(
    items: &[T],
    first: usize,
    waits: bool,
    work: &(impl Fn(&[T]) -> Result<R> + Sync),
) -> Result<Vec<(R, Range<usize>)>> {
    let end = items.len();
    if first == end {
        return Ok(Vec::new());
    }
    let part = |range: Range<usize>| work(&items[range.clone()]).map(|result| (result, range));
    let borrowed = || BorrowedCore::take(&WAITING, WAITING_PARTS, WAITING_MAX);
    let Some(_borrowed) = waits.then(borrowed).flatten() else {
        let middle = usize::midpoint(first, end);
        let (low, high) = join(|| part(first..middle), || part(middle..end));
        return Ok(vec![low?, high?]);
    };
    let each = (end - first).div_ceil(WAITING_PARTS);
    let starts = (first..end).step_by(each);
    let ranges = starts.map(|start| start..(start + each).min(end));
    let operation = operation::current();
    std::thread::scope(|scope| {
        let part = &part;
        let begin = |range| {
            let operation = operation.clone();
            operation::helper(scope, move || operation::run_as(operation, || part(range)))
        };
        let threads: Vec<_> = ranges.map(begin).collect();
        threads.into_iter().map(result_of).collect()
    })
}

/// What a thread does from a moment on.
struct WorkMeter {
    began: Instant,
    computed: Duration,
    blocks: u64,
}

impl WorkMeter {
    fn begin() -> Self {
        Self {
            began: Instant::now(),
            computed: operation::processor_time(),
            blocks: storage::blocks_read(),
        }
    }

    /// Whether reading so many items has mostly waited, and for the disk: not for a processor.
    fn waits(&self, items: usize) -> bool {
        let computed = operation::processor_time().saturating_sub(self.computed);
        let blocks = storage::blocks_read() - self.blocks;
        self.began.elapsed() > computed * WAITS_RATIO && blocks * ITEMS_A_BLOCK > items as u64
    }
}

/// Runs both halves, the second on a core of its own if one may be borrowed.
pub(crate) fn join<A: Send, B: Send>(
    first: impl FnOnce() -> A + Send,
    second: impl FnOnce() -> B + Send,
) -> (A, B) {
    halves(first, second, false)
}

/// As [`join`], for halves that may take long: both take turns with other long statements, so the caller
/// must hold no lock.
pub(crate) fn join_long<A: Send, B: Send>(
    first: impl FnOnce() -> A + Send,
    second: impl FnOnce() -> B + Send,
) -> (A, B) {
    halves(first, second, true)
}

fn halves<A: Send, B: Send>(
    first: impl FnOnce() -> A + Send,
    second: impl FnOnce() -> B + Send,
    are_long: bool,
) -> (A, B) {
    let Some(_borrowed) = BorrowedCore::take(&BORROWED, 1, operation::cores() - 1) else {
        let a = first();
        return (a, second());
    };
    let operation = operation::current();
    std::thread::scope(|scope| {
        let other = operation::helper(scope, || match are_long {
            true => operation::run_long_as(operation, second),
            false => operation::run_as(operation, second),
        });
        let a = first();
        if are_long {
            operation::release_ticket();
        }
        (a, result_of(other))
    })
}

/// What the thread has worked out; its panic goes on here.
fn result_of<T>(thread: ScopedJoinHandle<'_, T>) -> T {
    thread
        .join()
        .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// Threads of a kind that are limited, until it is dropped.
struct BorrowedCore {
    borrowed: &'static AtomicUsize,
    threads: usize,
}

impl BorrowedCore {
    /// So many threads, if there are not more than `most` of the kind then.
    fn take(borrowed: &'static AtomicUsize, threads: usize, most: usize) -> Option<Self> {
        let take = |before: usize| Some(before + threads).filter(|after| *after <= most);
        borrowed
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, take)
            .ok()
            .map(|_| Self { borrowed, threads })
    }
}

impl Drop for BorrowedCore {
    fn drop(&mut self) {
        self.borrowed.fetch_sub(self.threads, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use parking_lot::Mutex;

    /// Held by each test here: they look at what all of them have borrowed.
    static ALONE: Mutex<()> = Mutex::new(());

    #[test]
    fn parts_come_in_order_whether_or_not_they_wait() {
        let _alone = ALONE.lock();
        for items in [1, 31, 33, 1_000, 5_000] {
            let items: Vec<usize> = (0..items).collect();
            let copy = |part: &[usize]| Ok(part.to_vec());
            let parts = [
                in_parts(&items, copy).unwrap(),
                share(&items, 0, false, &copy).unwrap(),
                share(&items, 0, true, &copy).unwrap(),
            ];
            let most = WAITING_PARTS.min(items.len());
            assert_eq!(parts[1].len(), 2);
            assert!((most / 2 + 1..=most).contains(&parts[2].len()));
            for parts in parts {
                let mut seen = Vec::new();
                for (part, range) in parts {
                    assert_eq!(part, items[range]);
                    seen.extend(part);
                }
                assert_eq!(seen, items);
            }
        }
        assert_eq!(WAITING.load(Ordering::Acquire), 0);
    }

    #[test]
    fn the_error_of_a_part_is_told() {
        let _alone = ALONE.lock();
        let items: Vec<u32> = (0..4_000).collect();
        let work = |part: &[u32]| match part.contains(&3_999) {
            true => Err(crate::error::Error::bad_value("the last")),
            false => Ok(()),
        };
        for waits in [false, true] {
            let failed = share(&items, 64, waits, &work);
            assert_eq!(failed.unwrap_err().message, "the last");
        }
    }

    #[test]
    fn halves_run_whether_or_not_a_core_is_free_and_loans_are_returned() {
        let _alone = ALONE.lock();
        let nested = || join(|| 1, || join(|| 2, || 3));
        assert_eq!(join(nested, nested), ((1, (2, 3)), (1, (2, 3))));
        assert_eq!(BORROWED.load(Ordering::Acquire), 0);
    }
}
