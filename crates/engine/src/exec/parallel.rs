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
    let Some(_loan) = Loan::take() else {
        let a = first();
        return (a, second());
    };
    let operation = operation::current();
    std::thread::scope(|scope| {
        let other = scope.spawn(|| operation::lend(operation, second));
        let a = first();
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
