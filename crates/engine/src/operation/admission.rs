//! Admission control of long statements, so that short ones find a processor.
//!
//! A statement that has kept a processor busy for a [`SLICE`] is long, and needs a ticket to go on. There are a few
//! tickets, however many clients ask; the others wait in a queue, and whoever has used up another slice while somebody
//! waits gives its ticket away and goes to the end. A short request then competes with a few threads and not with
//! hundreds, and long statements are no slower together than before: there are not more processors.
//!
//! Time is that of the processor: a statement that waits for a disk or a client stands in nobody's way.
//! Whoever waits here must hold no lock, since a statement that has a ticket may need it.

use crate::error::Result;
use parking_lot::{Condvar, Mutex};
use rustix::time::{ClockId, clock_gettime};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How long a statement may compute at a time, and how long it may before it is long.
const SLICE: Duration = Duration::from_millis(10);
/// Long statements that run at once, for each core. More than one: some of them wait for the disk.
const RUNNING_PER_CORE: usize = 2;

static TICKETS: TicketQueue = TicketQueue::new();

thread_local! {
    /// None: this thread has no statement, or only helps with one.
    static SLICE_OF_THREAD: RefCell<Option<TimeSlice>> = const { RefCell::new(None) };
    /// How many [`NoYield`] there are.
    static HELD: Cell<u32> = const { Cell::new(0) };
}

/// While it lives this thread waits for no ticket: it holds a lock that those who have one may need.
#[derive(Debug)]
pub(crate) struct NoYield(PhantomData<*const ()>);

impl NoYield {
    /// From now on.
    pub fn begin() -> Self {
        HELD.set(HELD.get() + 1);
        Self(PhantomData)
    }
}

impl Drop for NoYield {
    fn drop(&mut self) {
        HELD.set(HELD.get() - 1);
    }
}

/// How far the thread's statement is in its slice.
struct TimeSlice {
    /// Since when, by the clock on the wall, which costs less to read than the processor's.
    since: Option<Instant>,
    /// The processor's time when the slice began; known once a slice has passed on the wall.
    computed: Option<Duration>,
    ticket: Option<Ticket>,
}

/// The time slices of a statement, from its beginning to its end.
pub(super) struct SlicedStatement {
    outer: Option<TimeSlice>,
}

impl SlicedStatement {
    /// Begins with a fresh slice.
    pub fn begin() -> Self {
        let fresh = TimeSlice {
            since: None,
            computed: None,
            ticket: None,
        };
        Self {
            outer: SLICE_OF_THREAD.replace(Some(fresh)),
        }
    }
}

impl Drop for SlicedStatement {
    fn drop(&mut self) {
        SLICE_OF_THREAD.set(self.outer.take());
    }
}

/// Waits for a ticket if this thread's statement is long and its slice is over. Whether it `may_go_on` is asked at
/// the `deadline` and after [`wake_all`].
///
/// # Errors
/// Those of `may_go_on`.
pub(super) fn yield_if_due(
    deadline: Option<Instant>,
    may_go_on: impl Fn() -> Result<()>,
) -> Result<()> {
    SLICE_OF_THREAD.with_borrow_mut(|slice| {
        if let Some(slice) = slice
            && HELD.get() == 0
            && slice.has_used_its_slice()
        {
            slice.take_ticket(deadline, may_go_on)?;
        }
        Ok(())
    })
}

/// Has every statement in the queue ask whether it may go on: one was killed.
pub(super) fn wake_all() {
    for waiting in &TICKETS.state.lock().waiting {
        waiting.granted.notify_one();
    }
}

/// Gives the ticket away before the statement waits for something else than a processor.
pub(super) fn release_ticket() {
    SLICE_OF_THREAD.with_borrow_mut(|slice| {
        if let Some(slice) = slice {
            slice.ticket = None;
        }
    });
}

impl TimeSlice {
    fn has_used_its_slice(&mut self) -> bool {
        let now = Instant::now();
        if now.duration_since(*self.since.get_or_insert(now)) < SLICE {
            return false;
        }
        let computed = processor_time();
        computed.saturating_sub(*self.computed.get_or_insert(computed)) >= SLICE
    }

    fn take_ticket(
        &mut self,
        deadline: Option<Instant>,
        may_go_on: impl Fn() -> Result<()>,
    ) -> Result<()> {
        if self.ticket.is_none() || TICKETS.has_waiting() {
            self.ticket = None;
            self.ticket = Some(TICKETS.wait(deadline, may_go_on)?);
        }
        self.since = Some(Instant::now());
        self.computed = Some(processor_time());
        Ok(())
    }
}

/// How long this thread has computed.
pub(crate) fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(
        time.tv_sec.try_into().unwrap_or_default(),
        time.tv_nsec.try_into().unwrap_or_default(),
    )
}

/// Long statements: how many have a ticket, and who is next.
struct TicketQueue {
    state: Mutex<AdmissionState>,
}

struct AdmissionState {
    running: usize,
    waiting: VecDeque<Arc<Waiting>>,
}

#[derive(Default)]
struct Waiting {
    is_granted: AtomicBool,
    granted: Condvar,
}

/// The right of a long statement to run; given to the next in the queue when it is dropped.
struct Ticket;

impl TicketQueue {
    const fn new() -> Self {
        Self {
            state: Mutex::new(AdmissionState {
                running: 0,
                waiting: VecDeque::new(),
            }),
        }
    }

    fn has_waiting(&self) -> bool {
        !self.state.lock().waiting.is_empty()
    }

    fn wait(
        &self,
        deadline: Option<Instant>,
        may_go_on: impl Fn() -> Result<()>,
    ) -> Result<Ticket> {
        let mut state = self.state.lock();
        if state.running < running_max() {
            state.running += 1;
            return Ok(Ticket);
        }
        let _queued = super::Queued::begin();
        let own = Arc::new(Waiting::default());
        state.waiting.push_back(Arc::clone(&own));
        loop {
            if let Err(error) = may_go_on() {
                state.waiting.retain(|other| !Arc::ptr_eq(other, &own));
                return Err(error);
            }
            match deadline {
                Some(deadline) => {
                    own.granted.wait_until(&mut state, deadline);
                }
                None => own.granted.wait(&mut state),
            }
            if own.is_granted.load(Ordering::Relaxed) {
                return Ok(Ticket);
            }
        }
    }

    fn hand_on(&self) {
        let mut state = self.state.lock();
        match state.waiting.pop_front() {
            Some(next) => {
                next.is_granted.store(true, Ordering::Relaxed);
                next.granted.notify_one();
            }
            None => state.running -= 1,
        }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        TICKETS.hand_on();
    }
}

fn running_max() -> usize {
    RUNNING_PER_CORE * cores()
}

/// Processors that this process may use.
pub(crate) fn cores() -> usize {
    static CORES: std::sync::OnceLock<usize> = std::sync::OnceLock::new();
    *CORES.get_or_init(|| std::thread::available_parallelism().map_or(1, std::num::NonZero::get))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::{Code, Error};
    use std::sync::Barrier;
    use std::sync::atomic::AtomicUsize;

    /// Computes so many slices, and may be made to wait after each.
    fn compute(slices: usize, inside: &dyn Fn()) {
        for _ in 0..slices {
            let from = processor_time();
            while processor_time() - from < SLICE + Duration::from_millis(1) {
                std::hint::spin_loop();
            }
            yield_if_due(None, || Ok(())).expect("nobody ends it");
            inside();
        }
    }

    fn has_ticket() -> bool {
        SLICE_OF_THREAD
            .with_borrow(|slice| slice.as_ref().is_some_and(|slice| slice.ticket.is_some()))
    }

    #[test]
    fn few_long_statements_run_at_once_and_all_come_to_their_end() {
        static RUNNING: AtomicUsize = AtomicUsize::new(0);
        static MOST: AtomicUsize = AtomicUsize::new(0);
        let all = 3 * running_max();
        let together = Barrier::new(all);
        std::thread::scope(|scope| {
            for _ in 0..all {
                scope.spawn(|| {
                    let statement = SlicedStatement::begin();
                    together.wait();
                    // The clock starts, a slice passes on the wall, and one more makes the statement long.
                    compute(3, &|| ());
                    MOST.fetch_max(RUNNING.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                    while processor_time() < Duration::from_millis(60) {
                        std::hint::spin_loop();
                    }
                    RUNNING.fetch_sub(1, Ordering::SeqCst);
                    compute(2, &|| ());
                    drop(statement);
                });
            }
        });
        assert!(MOST.load(Ordering::SeqCst) <= running_max());
        assert!(!TICKETS.has_waiting());
    }

    #[test]
    fn who_helps_or_is_short_never_waits() {
        compute(3, &|| assert!(SLICE_OF_THREAD.with_borrow(Option::is_none)));
        let statement = SlicedStatement::begin();
        yield_if_due(None, || {
            unreachable!("a short statement does not wait in the queue")
        })
        .expect("it goes on");
        let lock = NoYield::begin();
        compute(4, &|| assert!(!has_ticket()));
        drop(lock);
        compute(3, &|| ());
        assert!(has_ticket());
        drop(statement);
    }

    #[test]
    fn who_is_killed_leaves_the_line() {
        let queue = TicketQueue::new();
        queue.state.lock().running = running_max();
        let killed = || Err(Error::new(Code::Interrupted, "killed"));
        let outcome = queue.wait(None, killed);
        assert_eq!(
            outcome.map(std::mem::forget).unwrap_err().code,
            Code::Interrupted
        );
        assert!(!queue.has_waiting());
    }
}
