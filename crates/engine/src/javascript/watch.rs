//! Whether a call of a client's function may go on.

use crate::error::{Code, Error};
use crate::operation;
use std::cell::{Cell, RefCell};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// How long `sleep` sleeps at once.
const SLEEP_STEP: Duration = Duration::from_millis(5);

/// What the engine asks while a function runs.
#[derive(Default)]
pub(super) struct Watch {
    deadline: Cell<Option<Instant>>,
    /// Why the call had to end. It stays until the host takes it: no function can catch it.
    ended: RefCell<Option<Error>>,
}

impl Watch {
    /// A call begins.
    pub(super) fn begin(&self) {
        let millis = super::CALL_MILLIS_MAX.load(Ordering::Relaxed);
        let limit = Duration::from_millis(u64::try_from(millis).unwrap_or(0));
        self.deadline.set(Instant::now().checked_add(limit));
        self.ended.replace(None);
    }

    /// The call is over: why it had to end, if it had to.
    pub(super) fn finish(&self) -> Option<Error> {
        self.deadline.set(None);
        self.ended.take()
    }

    /// Whether the call has to end now. The statement may wait here for others.
    pub(super) fn is_over(&self) -> bool {
        self.is_over_by(operation::yield_if_due)
    }

    /// As [`Self::is_over`], without waiting.
    pub(super) fn is_over_already(&self) -> bool {
        self.is_over_by(operation::check)
    }

    fn is_over_by(&self, check: impl Fn() -> crate::Result<()>) -> bool {
        if self.ended.borrow().is_some() {
            return true;
        }
        // Between calls the engine starts, is set up and ends: nothing may be refused then.
        let Some(deadline) = self.deadline.get() else {
            return false;
        };
        let is_late = || Instant::now() >= deadline;
        let late = || Error::new(Code::Interrupted, "JavaScript execution interrupted");
        let ended = check().err().or_else(|| is_late().then(late));
        let is_over = ended.is_some();
        *self.ended.borrow_mut() = ended;
        is_over
    }

    /// Waits so long, or until the call has to end: false then.
    pub(super) fn sleep(&self, ms: f64) -> bool {
        operation::release_ticket();
        let begun = Instant::now();
        let length = Duration::from_millis(ms.clamp(0.0, 1e12) as u64);
        loop {
            if self.is_over() {
                return false;
            }
            match length.checked_sub(begun.elapsed()) {
                None | Some(Duration::ZERO) => return true,
                Some(left) => std::thread::sleep(left.min(SLEEP_STEP)),
            }
        }
    }
}
