//! The statement that a thread is running: its time limit, and whether somebody wants it ended.
//!
//! One thread runs a statement from its beginning to its end, so it belongs to its thread, as MongoDB's
//! operation context does to a client. Every long loop (scans, batches of writes, pages of an index build) asks [`check`] once
//! in a while; threads that help with a scan run as the statement. A thread without one, such as the
//! TTL sweep, is never interrupted. Where such a loop holds no lock it asks [`yield_if_due`], which also makes long
//! statements take turns.

mod admission;
pub mod memory;
mod stored;
mod usage;

pub use stored::{StoredFunctions, StoredGlobals};
pub use usage::NameCounts;

pub(crate) use admission::{NoYield, cores, processor_time};

use crate::error::{Code, Error, Result};
use bson::RawDocument;
use parking_lot::Mutex;
use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::{Scope, ScopedJoinHandle};
use std::time::{Duration, Instant};

/// To find a field takes longer than to ask whether the statement may go on, from documents of so many bytes on.
const WALKED_BYTES: usize = 16 << 10;

/// The stack of a thread that runs statements. Filters, expressions and updates recurse once a level of what a
/// client sent (200 levels), values under construction are walked once a level (at most
/// `VALUE_LEVELS_MAX` and what one expression adds), and each `$unwind` of a pipeline (1,000 stages) is a call inside the one
/// before it. Pages that nothing touches cost nothing.
pub const STACK_BYTES: usize = 4 << 20;

thread_local! {
    static CURRENT: RefCell<Option<Arc<Operation>>> = const { RefCell::new(None) };
}

/// One statement, shared with whoever may end it.
#[derive(Debug, Default)]
pub struct Operation {
    killed: AtomicBool,
    /// Threads of the statement that wait for a ticket.
    waiting: AtomicUsize,
    deadline: Mutex<Option<Instant>>,
    /// What it tells of how it goes, if somebody wants to know.
    profile: Option<Mutex<StatementProfile>>,
    /// What its functions find as globals.
    stored: OnceLock<StoredGlobals>,
}

/// So many plans are told of a statement, which may run one for each of a million documents.
const PLANS_MAX: usize = 32;

/// How a statement went.
#[derive(Debug, Clone, Default)]
pub struct StatementProfile {
    /// By which plans, the first of them where they are many, in MongoDB's words: `IXSCAN { a: 1 }`.
    pub plans: Vec<String>,
    /// Whether rows were sorted, since no index gave their order.
    pub sorts: bool,
    /// The hash of the first statement's shape.
    pub query_hash: Option<String>,
    /// The same with what the indexes can do for it.
    pub plan_cache_key: Option<String>,
    /// Index entries examined.
    pub keys: u64,
    /// Documents read.
    pub documents: u64,
}

impl StatementProfile {
    /// The statement goes by this plan.
    pub(crate) fn add_plan(&mut self, summary: impl FnOnce() -> String) {
        if self.plans.len() < PLANS_MAX {
            self.plans.push(summary());
        }
    }
}

impl Operation {
    /// A statement that must have ended at `deadline`.
    pub fn new(deadline: Option<Instant>) -> Arc<Self> {
        Arc::new(Self {
            deadline: Mutex::new(deadline),
            ..Self::default()
        })
    }

    /// A statement that is asked how it went.
    pub fn profiled(deadline: Option<Instant>) -> Arc<Self> {
        Arc::new(Self {
            deadline: Mutex::new(deadline),
            profile: Some(Mutex::default()),
            ..Self::default()
        })
    }

    /// Gives its functions globals, once.
    pub fn provide(&self, stored: StoredGlobals) {
        let _ = self.stored.set(stored);
    }

    /// What its functions find as globals, if there are any.
    pub(crate) fn stored(&self) -> Option<&StoredGlobals> {
        self.stored.get()
    }

    /// How it went until now, if it was asked.
    pub fn profile(&self) -> Option<StatementProfile> {
        self.profile.as_ref().map(|profile| profile.lock().clone())
    }

    /// Runs `work` as this statement.
    pub fn run<T>(self: &Arc<Self>, work: impl FnOnce() -> T) -> T {
        let _slices = admission::SlicedStatement::begin();
        run_as(Some(Arc::clone(self)), work)
    }

    /// Asks the statement to end: soon it answers `Interrupted` (11601).
    pub fn kill(&self) {
        self.killed.store(true, Ordering::Release);
        admission::wake_all();
    }

    /// Whether it was asked to end.
    pub fn is_killed(&self) -> bool {
        self.killed.load(Ordering::Acquire)
    }

    /// Whether it waits for a ticket among long statements.
    pub fn is_waiting(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) > 0
    }

    /// What is left of the time limit.
    pub(crate) fn time_left(&self) -> Option<Duration> {
        let deadline = *self.deadline.lock();
        deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()))
    }

    /// Sets the time limit to this much from now.
    pub(crate) fn limit(&self, left: Option<Duration>) {
        *self.deadline.lock() = left.and_then(|left| Instant::now().checked_add(left));
    }

    fn check(&self) -> Result<()> {
        if self.is_killed() {
            return Err(Error::new(Code::Interrupted, "operation was interrupted"));
        }
        match *self.deadline.lock() {
            Some(deadline) if Instant::now() >= deadline => Err(Error::new(
                Code::MaxTimeMSExpired,
                "operation exceeded time limit",
            )),
            _ => Ok(()),
        }
    }
}

/// The statement that this thread is running.
pub(crate) fn current() -> Option<Arc<Operation>> {
    CURRENT.with_borrow(Clone::clone)
}

/// Has the statement of this thread tell something of how it goes, if it is asked.
pub(crate) fn note(tell: impl FnOnce(&mut StatementProfile)) {
    // A thread that ends may have none any more.
    let _ = CURRENT.try_with(|current| {
        let current = current.borrow();
        if let Some(profile) = current.as_ref().and_then(|own| own.profile.as_ref()) {
            tell(&mut profile.lock());
        }
    });
}

/// Runs `work` as `operation` on this thread, which may be one that helps.
pub(crate) fn run_as<T>(operation: Option<Arc<Operation>>, work: impl FnOnce() -> T) -> T {
    let before = CURRENT.replace(operation);
    let _restore = Restore(before);
    work()
}

/// Starts a thread that helps with a statement, on a stack as large as the statement's own.
pub(crate) fn helper<'scope, T: Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    work: impl FnOnce() -> T + Send + 'scope,
) -> ScopedJoinHandle<'scope, T> {
    std::thread::Builder::new()
        .stack_size(STACK_BYTES)
        .spawn_scoped(scope, work)
        .expect("the system has room for one more thread")
}

/// As [`run_as`], for work that may take long: the thread needs a ticket among other long statements.
pub(crate) fn run_long_as<T>(operation: Option<Arc<Operation>>, work: impl FnOnce() -> T) -> T {
    let _slices = admission::SlicedStatement::begin();
    run_as(operation, work)
}

/// Whether this thread's statement may go on.
///
/// # Errors
/// `Interrupted` when it was killed, `MaxTimeMSExpired` when its time is over.
pub(crate) fn check() -> Result<()> {
    CURRENT.with_borrow(|current| {
        current
            .as_ref()
            .map_or(Ok(()), |operation| operation.check())
    })
}

/// As [`check`], for a walk over a document's fields: clients look for a hundred thousand names in documents of as many.
///
/// # Errors
/// As [`check`].
#[inline]
pub(crate) fn check_walk(document: &RawDocument) -> Result<()> {
    match document.as_bytes().len() < WALKED_BYTES {
        true => Ok(()),
        false => check(),
    }
}

/// As [`check`], and waits for a ticket where other long statements have them all. The caller holds no lock.
///
/// # Errors
/// As [`check`].
pub(crate) fn yield_if_due() -> Result<()> {
    check()?;
    let deadline =
        CURRENT.with_borrow(|current| current.as_ref().and_then(|of| *of.deadline.lock()));
    admission::yield_if_due(deadline, check)
}

/// While it lives the statement of this thread waits for a ticket.
struct Queued(Option<Arc<Operation>>);

impl Queued {
    fn begin() -> Self {
        let operation = current();
        if let Some(operation) = &operation {
            operation.waiting.fetch_add(1, Ordering::Relaxed);
        }
        Self(operation)
    }
}

impl Drop for Queued {
    fn drop(&mut self) {
        if let Some(operation) = &self.0 {
            operation.waiting.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// Lets other long statements go on while this one waits for something else than a processor.
pub(crate) fn release_ticket() {
    admission::release_ticket();
}

/// Also when `work` panics: the connection's next statement is another one.
struct Restore(Option<Arc<Operation>>);

impl Drop for Restore {
    fn drop(&mut self) {
        memory::settle_values();
        CURRENT.set(self.0.take());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_statement_ends_when_it_is_killed_or_its_time_is_over() {
        assert!(check().is_ok(), "no statement, no limit");
        let operation = Operation::new(None);
        operation.run(|| {
            assert!(check().is_ok());
            operation.kill();
            assert_eq!(check().unwrap_err().code, Code::Interrupted);
        });
        assert!(check().is_ok(), "the statement has ended");
        let late = Operation::new(Some(Instant::now()));
        late.run(|| assert_eq!(check().unwrap_err().code, Code::MaxTimeMSExpired));
        late.limit(Some(Duration::from_hours(1)));
        late.run(|| assert!(check().is_ok()));
        assert!(late.time_left() > Some(Duration::from_mins(59)));
    }

    #[test]
    fn a_panic_leaves_no_statement_behind() {
        let operation = Operation::new(None);
        operation.kill();
        let work = std::panic::AssertUnwindSafe(|| operation.run(|| panic!("as asked")));
        let panicked = std::panic::catch_unwind(work);
        assert!(panicked.is_err() && check().is_ok());
    }
}
