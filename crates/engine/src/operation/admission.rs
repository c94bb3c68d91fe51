//! Long statements take turns, so that short ones find a processor.
//!
//! A statement that has kept a processor busy for a [`SLICE`] is long. At most a few long statements run
//! at once, however many clients ask for them; the others stand in line, and whoever has used up another
//! slice goes to its end. A short request then competes with a few threads and not with hundreds, and
//! long statements are no slower together than before: there are not more processors.
//!
//! Time is that of the processor: a statement that waits for a disk or a client stands in nobody's way.
//! Whoever waits here must hold no lock, since a statement that has its turn may need it.

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

static LINE: Line = Line::new();

thread_local! {
    /// None: this thread has no statement, or only helps with one.
    static PACE: RefCell<Option<Pace>> = const { RefCell::new(None) };
    /// How many [`NoYield`] there are.
    static HELD: Cell<u32> = const { Cell::new(0) };
}

/// While it lives this thread waits for no turn: it holds a lock that others need for theirs.
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
struct Pace {
    /// Since when, by the clock on the wall, which costs less to read than the processor's.
    since: Option<Instant>,
    /// The processor's time when the slice began; known once a slice has passed on the wall.
    computed: Option<Duration>,
    turn: Option<Turn>,
}

/// A statement's pace, from its beginning to its end.
pub(super) struct Paced {
    outer: Option<Pace>,
}

impl Paced {
    /// Begins with a fresh slice.
    pub fn begin() -> Self {
        let fresh = Pace {
            since: None,
            computed: None,
            turn: None,
        };
        Self {
            outer: PACE.replace(Some(fresh)),
        }
    }
}

impl Drop for Paced {
    fn drop(&mut self) {
        PACE.set(self.outer.take());
    }
}

/// Waits for a turn if this thread's statement is long and its slice is over. Whether it `may_go_on` is asked at
/// the `deadline` and after [`look_up`].
///
/// # Errors
/// Those of `may_go_on`.
pub(super) fn pace(deadline: Option<Instant>, may_go_on: impl Fn() -> Result<()>) -> Result<()> {
    PACE.with_borrow_mut(|pace| {
        if let Some(pace) = pace
            && HELD.get() == 0
            && pace.has_used_its_slice()
        {
            pace.take_turn(deadline, may_go_on)?;
        }
        Ok(())
    })
}

/// Has every statement in line ask whether it may go on: one was killed.
pub(super) fn look_up() {
    for waiting in &LINE.state.lock().waiting {
        waiting.called.notify_one();
    }
}

/// Gives the turn away before the statement waits for something else than a processor.
pub(super) fn step_aside() {
    PACE.with_borrow_mut(|pace| {
        if let Some(pace) = pace {
            pace.turn = None;
        }
    });
}

impl Pace {
    fn has_used_its_slice(&mut self) -> bool {
        let now = Instant::now();
        if now.duration_since(*self.since.get_or_insert(now)) < SLICE {
            return false;
        }
        let computed = processor_time();
        computed.saturating_sub(*self.computed.get_or_insert(computed)) >= SLICE
    }

    fn take_turn(
        &mut self,
        deadline: Option<Instant>,
        may_go_on: impl Fn() -> Result<()>,
    ) -> Result<()> {
        if self.turn.is_none() || LINE.is_waited_in() {
            self.turn = None;
            self.turn = Some(LINE.wait(deadline, may_go_on)?);
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

/// Long statements: how many run, and who is next.
struct Line {
    state: Mutex<State>,
}

struct State {
    running: usize,
    waiting: VecDeque<Arc<Waiting>>,
}

#[derive(Default)]
struct Waiting {
    is_called: AtomicBool,
    called: Condvar,
}

/// The right to run; given to the next in line when it is dropped.
struct Turn;

impl Line {
    const fn new() -> Self {
        Self {
            state: Mutex::new(State {
                running: 0,
                waiting: VecDeque::new(),
            }),
        }
    }

    fn is_waited_in(&self) -> bool {
        !self.state.lock().waiting.is_empty()
    }

    fn wait(&self, deadline: Option<Instant>, may_go_on: impl Fn() -> Result<()>) -> Result<Turn> {
        let mut state = self.state.lock();
        if state.running < running_max() {
            state.running += 1;
            return Ok(Turn);
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
                    own.called.wait_until(&mut state, deadline);
                }
                None => own.called.wait(&mut state),
            }
            if own.is_called.load(Ordering::Relaxed) {
                return Ok(Turn);
            }
        }
    }

    fn call_next(&self) {
        let mut state = self.state.lock();
        match state.waiting.pop_front() {
            Some(next) => {
                next.is_called.store(true, Ordering::Relaxed);
                next.called.notify_one();
            }
            None => state.running -= 1,
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        LINE.call_next();
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

    /// Computes until it was asked for its pace so often after slices that were used up.
    fn compute(slices: usize, inside: &dyn Fn()) {
        for _ in 0..slices {
            let from = processor_time();
            while processor_time() - from < SLICE + Duration::from_millis(1) {
                std::hint::spin_loop();
            }
            pace(None, || Ok(())).expect("nobody ends it");
            inside();
        }
    }

    fn has_turn() -> bool {
        PACE.with_borrow(|pace| pace.as_ref().is_some_and(|pace| pace.turn.is_some()))
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
                    let paced = Paced::begin();
                    together.wait();
                    // The clock starts, a slice passes on the wall, and one more makes the statement long.
                    compute(3, &|| ());
                    MOST.fetch_max(RUNNING.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                    while processor_time() < Duration::from_millis(60) {
                        std::hint::spin_loop();
                    }
                    RUNNING.fetch_sub(1, Ordering::SeqCst);
                    compute(2, &|| ());
                    drop(paced);
                });
            }
        });
        assert!(MOST.load(Ordering::SeqCst) <= running_max());
        assert!(!LINE.is_waited_in());
    }

    #[test]
    fn who_helps_or_is_short_never_waits() {
        compute(3, &|| assert!(PACE.with_borrow(Option::is_none)));
        let paced = Paced::begin();
        pace(None, || {
            unreachable!("a short statement does not stand in line")
        })
        .expect("it goes on");
        let lock = NoYield::begin();
        compute(4, &|| assert!(!has_turn()));
        drop(lock);
        compute(3, &|| ());
        assert!(has_turn());
        drop(paced);
    }

    #[test]
    fn who_is_killed_leaves_the_line() {
        let line = Line::new();
        line.state.lock().running = running_max();
        let killed = || Err(Error::new(Code::Interrupted, "killed"));
        let outcome = line.wait(None, killed);
        assert_eq!(
            outcome.map(std::mem::forget).unwrap_err().code,
            Code::Interrupted
        );
        assert!(!line.is_waited_in());
    }
}
