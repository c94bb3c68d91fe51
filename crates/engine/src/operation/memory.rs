//! The memory budget of the process: what statements, cursors and replies hold beside the block cache.
//!
//! `--cache-size` bounds blocks and memtables. Everything else that a client can make large draws on the
//! one budget here: a [`Reservation`] takes from it in steps and gives back when it is dropped. A
//! reservation may hold as much as it leaves free for others, so that the first large statement gets half of the
//! budget, the next a quarter, and there is always something left for small ones. Whoever is refused
//! spills to disk, or answers with an error; nobody waits for long, so reservations
//! cannot deadlock.
//!
//! Values that expressions make ([`Charged`]) are counted by thread, since one thread evaluates an expression
//! from its beginning to its end.
//!
//! Deliberately absent: the block cache and memtables (see `storage`), which have a budget of their own.

use crate::error::{Code, Error, Result};
use std::cell::RefCell;
use std::ops::Deref;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// The budget. The process may take 400 MiB beside its cache; what is not here is for the program itself,
/// requests that are being read, write batches, compactions, and what the allocator cannot use.
pub const BUDGET_BYTES: usize = 160 << 20;
/// Reservations are taken in steps.
const STEP_BYTES: usize = 256 << 10;
/// A reservation of at most so many bytes is refused only when the whole budget is taken.
const SMALL_BYTES: usize = 1 << 20;
/// How long a statement waits for others to give memory back.
const WAIT_MAX: Duration = Duration::from_millis(500);
/// ... and one that has not begun.
const ADMISSION_WAIT_MAX: Duration = Duration::from_secs(10);
const WAIT_STEP: Duration = Duration::from_millis(5);
/// What the values of one thread may take without a reservation.
const FREE_VALUE_BYTES: usize = 256 << 10;

/// Process-wide on purpose: it bounds what the process takes, whoever asks.
static TAKEN: AtomicUsize = AtomicUsize::new(0);

/// Bytes of the budget that are taken.
pub fn taken_bytes() -> usize {
    TAKEN.load(Ordering::Relaxed)
}

/// Memory taken from the budget; dropping it gives it back.
#[derive(Debug, Default)]
pub struct Reservation {
    bytes: usize,
}

impl Reservation {
    /// None yet.
    pub const fn none() -> Self {
        Self { bytes: 0 }
    }

    /// Bytes it holds.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Makes it hold at least so many bytes; false where that is more than its share.
    #[inline]
    pub fn try_grow(&mut self, bytes: usize) -> bool {
        bytes <= self.bytes || self.take(bytes)
    }

    #[cold]
    fn take(&mut self, bytes: usize) -> bool {
        self.take_if(bytes, |wanted, left| {
            wanted <= left || wanted <= SMALL_BYTES
        })
    }

    /// Takes what is missing if `may` says so of what is wanted and what would be left.
    fn take_if(&mut self, bytes: usize, may: impl Fn(usize, usize) -> bool) -> bool {
        let wanted = bytes.next_multiple_of(STEP_BYTES);
        let more = wanted - self.bytes;
        let take = |taken: usize| {
            let taken = taken.checked_add(more)?;
            let left = BUDGET_BYTES.checked_sub(taken)?;
            may(wanted, left).then_some(taken)
        };
        let order = Ordering::Relaxed;
        let is_taken = TAKEN.fetch_update(order, order, take).is_ok();
        if is_taken {
            self.bytes = wanted;
        }
        is_taken
    }

    /// As [`Self::try_grow`], but waits a little for others to give memory back. The caller holds no
    /// lock.
    ///
    /// # Errors
    /// `ExceededMemoryLimit` when there is not enough; those of `operation::check`.
    pub fn grow(&mut self, bytes: usize) -> Result<()> {
        self.wait_for(bytes, WAIT_MAX)
    }

    /// As [`Self::grow`], for a statement that has not begun and holds little yet: it may wait for longer.
    ///
    /// # Errors
    /// As [`Self::grow`].
    pub fn admit(&mut self, bytes: usize) -> Result<()> {
        self.wait_for(bytes, ADMISSION_WAIT_MAX)
    }

    fn wait_for(&mut self, bytes: usize, wait_max: Duration) -> Result<()> {
        let begun = Instant::now();
        while !self.try_grow(bytes) {
            if bytes > BUDGET_BYTES / 2 || begun.elapsed() >= wait_max {
                return Err(exceeded(bytes));
            }
            crate::operation::check()?;
            std::thread::sleep(WAIT_STEP);
        }
        Ok(())
    }

    /// Just so many bytes, for many small things that are kept for long.
    ///
    /// # Errors
    /// `ExceededMemoryLimit` when there is not enough.
    pub fn exactly(bytes: usize) -> Result<Self> {
        Self::leaving(bytes, bytes).ok_or_else(|| exceeded(bytes))
    }

    /// Just so many bytes, for a cursor that waits for its client: half of the budget stays for what runs.
    ///
    /// # Errors
    /// `ExceededMemoryLimit` when there is not enough.
    pub fn for_suspended(bytes: usize) -> Result<Self> {
        Self::leaving(bytes, BUDGET_BYTES / 2).ok_or_else(|| {
            let message = format!(
                "the cursor would hold {bytes} bytes until its next batch is asked for; {} of {BUDGET_BYTES} bytes are \
                 taken by all statements and cursors: close cursors, read them to their end, or ask for larger batches",
                taken_bytes()
            );
            Error::new(Code::ExceededMemoryLimit, message)
        })
    }

    fn leaving(bytes: usize, left_min: usize) -> Option<Self> {
        let take = |taken: usize| {
            let taken = taken.checked_add(bytes)?;
            (left_min <= BUDGET_BYTES.checked_sub(taken)?).then_some(taken)
        };
        let order = Ordering::Relaxed;
        let is_taken = TAKEN.fetch_update(order, order, take).is_ok();
        // Not `then_some`: what is made is given back.
        is_taken.then(|| Self { bytes })
    }

    /// Makes it hold at least so many bytes, whatever others hold: for little that must be had.
    pub fn force(&mut self, bytes: usize) {
        if bytes > self.bytes {
            TAKEN.fetch_add(bytes - self.bytes, Ordering::Relaxed);
            self.bytes = bytes;
        }
    }

    /// Gives back all but so many bytes.
    pub fn shrink(&mut self, bytes: usize) {
        if bytes < self.bytes {
            TAKEN.fetch_sub(self.bytes - bytes, Ordering::Relaxed);
            self.bytes = bytes;
        }
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.shrink(0);
    }
}

/// A statement cannot have so many bytes.
pub(crate) fn exceeded(bytes: usize) -> Error {
    let message = format!(
        "the statement needs {bytes} bytes of memory and cannot spill to disk; {} of {BUDGET_BYTES} bytes are \
         taken by all statements and cursors",
        taken_bytes()
    );
    Error::new(Code::ExceededMemoryLimit, message)
}

/// Large requests that are being received or answered, all of them.
static RECEIVING: AtomicUsize = AtomicUsize::new(0);

/// Memory for one request, from its first bytes until it has been answered.
#[derive(Debug, Default)]
pub struct RequestMemory {
    memory: Reservation,
    /// Whether it is one of [`RECEIVING`].
    is_large: bool,
}

impl RequestMemory {
    /// None yet.
    pub const fn none() -> Self {
        Self {
            memory: Reservation::none(),
            is_large: false,
        }
    }

    /// Takes memory for a request of so many bytes; false where it must wait for others. A large one may come
    /// if it leaves a quarter of the budget, or if it is the only one; a small one always.
    pub fn try_take(&mut self, bytes: usize) -> bool {
        if bytes <= SMALL_BYTES || self.is_large {
            self.memory.force(bytes);
            return true;
        }
        if RECEIVING.fetch_add(1, Ordering::Relaxed) == 0 {
            self.memory.force(bytes);
        } else if !self
            .memory
            .take_if(bytes, |_, left| left >= BUDGET_BYTES / 4)
        {
            RECEIVING.fetch_sub(1, Ordering::Relaxed);
            return false;
        }
        self.is_large = true;
        true
    }

    /// The request has been answered.
    pub fn give_back(&mut self) {
        self.memory.shrink(0);
        if std::mem::take(&mut self.is_large) {
            RECEIVING.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

impl Drop for RequestMemory {
    fn drop(&mut self) {
        self.give_back();
    }
}

/// The values that a thread's expressions hold.
struct ThreadValues {
    live: usize,
    reservation: Reservation,
}

thread_local! {
    static VALUES: RefCell<ThreadValues> = const {
        RefCell::new(ThreadValues { live: 0, reservation: Reservation::none() })
    };
}

impl ThreadValues {
    fn is_covered(&self) -> bool {
        self.live <= self.reservation.bytes + FREE_VALUE_BYTES
    }
}

/// Something that an expression made, counted as long as it lives.
#[derive(Debug)]
pub struct Charged<T> {
    inner: T,
    bytes: usize,
}

impl<T> Charged<T> {
    /// Counts `inner` as so many bytes. Whether that is too much is found by [`check_values`].
    #[inline]
    pub fn new(inner: T, bytes: usize) -> Self {
        // A thread that ends has no account left; nor has it anything more to evaluate.
        let _ = VALUES.try_with(|values| {
            let mut values = values.borrow_mut();
            values.live += bytes;
            if !values.is_covered() {
                let live = values.live;
                values.reservation.try_grow(live);
            }
        });
        Self { inner, bytes }
    }
}

impl<T> Deref for Charged<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.inner
    }
}

impl<T> Drop for Charged<T> {
    #[inline]
    fn drop(&mut self) {
        let _ = VALUES.try_with(|values| {
            let mut values = values.borrow_mut();
            // A value made on another thread was counted there.
            values.live = values.live.saturating_sub(self.bytes);
            if values.reservation.bytes > 0 {
                let kept = if values.live <= FREE_VALUE_BYTES {
                    0
                } else {
                    (values.live + SMALL_BYTES).next_multiple_of(STEP_BYTES)
                };
                values.reservation.shrink(kept);
            }
        });
    }
}

/// Whether the values that this thread's expressions hold are within their share.
///
/// # Errors
/// `ExceededMemoryLimit`.
#[inline]
pub fn check_values() -> Result<()> {
    if VALUES.with_borrow(ThreadValues::is_covered) {
        Ok(())
    } else {
        expect_values(0)
    }
}

/// Makes sure that values of so many bytes more are within this thread's share, before they are made.
///
/// # Errors
/// `ExceededMemoryLimit`.
pub fn expect_values(bytes: usize) -> Result<()> {
    VALUES.with_borrow_mut(|values| {
        let wanted = values.live.saturating_add(bytes);
        if wanted <= FREE_VALUE_BYTES {
            return Ok(());
        }
        values.reservation.grow(wanted)
    })
}

/// Gives back what this thread had taken beyond what its values hold: its statement has ended.
pub(crate) fn settle_values() {
    let _ = VALUES.try_with(|values| {
        let mut values = values.borrow_mut();
        let live = values.live;
        values.reservation.shrink(live);
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reservation_leaves_as_much_as_it_holds_and_comes_back() {
        let mut first = Reservation::none();
        assert!(!first.try_grow(BUDGET_BYTES));
        assert!(first.grow(BUDGET_BYTES).is_err(), "refused at once");
        assert!(first.try_grow(BUDGET_BYTES / 8));
        assert!(first.try_grow(1), "it has that already");
        assert!(first.bytes() >= BUDGET_BYTES / 8 && taken_bytes() >= first.bytes());
        first.shrink(STEP_BYTES);
        assert_eq!(first.bytes(), STEP_BYTES);
    }

    #[test]
    fn large_requests_wait_for_one_another_and_one_always_comes() {
        let bytes = BUDGET_BYTES / 2;
        let mut hog = Reservation::none();
        hog.force(BUDGET_BYTES);
        let (mut first, mut second) = (RequestMemory::none(), RequestMemory::none());
        assert!(first.try_take(bytes) && !second.try_take(bytes));
        first.give_back();
        assert!(second.try_take(bytes) && !first.try_take(bytes));
        let mut small = RequestMemory::none();
        assert!(small.try_take(SMALL_BYTES), "small ones do not wait");
        drop((hog, second, small));
        assert!(first.try_take(bytes));
    }

    #[test]
    fn values_are_counted_while_they_live() {
        let made = Charged::new(vec![0_u8; 8], 4 << 20);
        assert_eq!(made.len(), 8);
        assert!(check_values().is_ok());
        VALUES.with_borrow(|values| assert!(values.reservation.bytes >= 4 << 20));
        assert!(expect_values(BUDGET_BYTES).is_err());
        let too_large = Charged::new((), BUDGET_BYTES);
        assert_eq!(check_values().unwrap_err().code, Code::ExceededMemoryLimit);
        drop(too_large);
        assert!(check_values().is_ok());
        drop(made);
        VALUES.with_borrow(|values| assert_eq!((values.live, values.reservation.bytes), (0, 0)));
    }
}
