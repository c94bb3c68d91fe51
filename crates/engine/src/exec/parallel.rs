//! A second core for one statement, when one is idle.
//!
//! Large reads are split in two halves. At most as many halves run on borrowed threads as there are
//! other cores, so that many clients at once get no more threads than before.

use crate::operation;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

static BORROWED: AtomicUsize = AtomicUsize::new(0);

/// Runs both halves, the second on a core of its own if one may be borrowed.
pub(super) fn join<A: Send, B: Send>(
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
    let Some(_loan) = Loan::take() else {
        let a = first();
        return (a, second());
    };
    let operation = operation::current();
    std::thread::scope(|scope| {
        let other = scope.spawn(|| match are_long {
            true => operation::lend_for_long(operation, second),
            false => operation::lend(operation, second),
        });
        let a = first();
        if are_long {
            operation::step_aside();
        }
        match other.join() {
            Ok(b) => (a, b),
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })
}

struct Loan;

impl Loan {
    fn take() -> Option<Self> {
        static SPARE: OnceLock<usize> = OnceLock::new();
        let spare = *SPARE.get_or_init(|| {
            std::thread::available_parallelism().map_or(0, |cores| cores.get() - 1)
        });
        let take = |borrowed: usize| (borrowed < spare).then_some(borrowed + 1);
        BORROWED
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, take)
            .ok()
            .map(|_| Loan)
    }
}

impl Drop for Loan {
    fn drop(&mut self) {
        BORROWED.fetch_sub(1, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_run_whether_or_not_a_core_is_free_and_loans_are_returned() {
        let nested = || join(|| 1, || join(|| 2, || 3));
        assert_eq!(join(nested, nested), ((1, (2, 3)), (1, (2, 3))));
        assert_eq!(BORROWED.load(Ordering::Acquire), 0);
    }
}
