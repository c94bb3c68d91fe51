//! Statements wait in line, so that many at once are no slower than few.
//!
//! When hundreds of clients ask at once, [`BEGUN_PER_CORE`] statements run and the others wait in the order
//! in which they came: the processor's caches serve few threads, and no request is overtaken by hundreds.
//! To wait and to be called costs as much as a short request, so up to [`BEGUN_UNTIL_A_LINE_PER_CORE`]
//! statements begin at once as long as nobody waits. Who has not come to an end after a [`SLICE`] gives the place to the next.
//!
//! Long statements take turns, so that short ones find a processor. A statement that has kept a processor
//! busy for a slice is long. At most a few long statements run at once, however many clients ask for them;
//! the others stand in line, and whoever has used up another slice goes to its end. A short request then
//! competes with a few threads and not with hundreds, and long statements are no slower together than
//! before: there are not more processors.
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
const LONG_PER_CORE: usize = 2;
/// Statements that have begun and are not long yet, for each core, while others wait. Some of them wait for
/// the disk.
const BEGUN_PER_CORE: usize = 8;
/// Of these, when nobody waits.
const BEGUN_UNTIL_A_LINE_PER_CORE: usize = 64;

static LONG: Line = Line::new(LONG_PER_CORE, LONG_PER_CORE);
static BEGUN: Line = Line::new(BEGUN_PER_CORE, BEGUN_UNTIL_A_LINE_PER_CORE);

thread_local! {
    /// None: this thread has no statement, or only helps with one.
    static PACE: RefCell<Option<Pace>> = const { RefCell::new(None) };
    /// How many [`Unpaced`] there are.
    static HELD: Cell<u32> = const { Cell::new(0) };
}

/// While it lives this thread waits for no turn: it holds a lock that others need for theirs.
#[derive(Debug)]
pub(crate) struct Unpaced(PhantomData<*const ()>);

impl Unpaced {
    /// From now on.
    pub fn begin() -> Self {
        HELD.set(HELD.get() + 1);
        Self(PhantomData)
    }
}

impl Drop for Unpaced {
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
    /// Among those that have begun, or those that are long.
    turn: Option<Turn>,
    is_long: bool,
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
            is_long: false,
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

/// Waits until few enough statements have begun; the rest is as for [`pace`].
///
/// # Errors
/// Those of `may_go_on`.
pub(super) fn begin(deadline: Option<Instant>, may_go_on: impl Fn() -> Result<()>) -> Result<()> {
    let turn = BEGUN.wait(deadline, may_go_on)?;
    PACE.with_borrow_mut(|pace| {
        if let Some(pace) = pace {
            pace.turn = Some(turn);
        }
    });
    Ok(())
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
            && pace.has_lasted_a_slice()
        {
            pace.leave_the_begun();
            if pace.has_computed_a_slice() {
                pace.take_turn(deadline, may_go_on)?;
            }
        }
        Ok(())
    })
}

/// Has every statement in line ask whether it may go on: one was killed.
pub(super) fn look_up() {
    for line in [&LONG, &BEGUN] {
        for waiting in &line.state.lock().waiting {
            waiting.called.notify_one();
        }
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
    fn has_lasted_a_slice(&mut self) -> bool {
        let now = Instant::now();
        now.duration_since(*self.since.get_or_insert(now)) >= SLICE
    }

    /// It computes, and is long soon, or it waits for the disk: others may begin.
    fn leave_the_begun(&mut self) {
        if !self.is_long {
            self.turn = None;
        }
    }

    fn has_computed_a_slice(&mut self) -> bool {
        let computed = processor_time();
        computed.saturating_sub(*self.computed.get_or_insert(computed)) >= SLICE
    }

    fn take_turn(
        &mut self,
        deadline: Option<Instant>,
        may_go_on: impl Fn() -> Result<()>,
    ) -> Result<()> {
        let may_keep_it = self.is_long && self.turn.is_some() && !LONG.is_waited_in();
        if !may_keep_it {
            self.turn = None;
            self.is_long = true;
            self.turn = Some(LONG.wait(deadline, may_go_on)?);
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

/// Statements of a kind: how many run, and who is next.
struct Line {
    /// How many run at once while others wait, for each core.
    per_core: usize,
    /// How many may run until others have to wait.
    until_a_line_per_core: usize,
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

/// The right to run; given to the next in its line when it is dropped.
struct Turn(&'static Line);

impl Line {
    const fn new(per_core: usize, until_a_line_per_core: usize) -> Self {
        Self {
            per_core,
            until_a_line_per_core,
            state: Mutex::new(State {
                running: 0,
                waiting: VecDeque::new(),
            }),
        }
    }

    /// How many run at once.
    fn most(&self) -> usize {
        self.until_a_line_per_core * cores()
    }

    fn is_waited_in(&self) -> bool {
        !self.state.lock().waiting.is_empty()
    }

    fn wait(
        &'static self,
        deadline: Option<Instant>,
        may_go_on: impl Fn() -> Result<()>,
    ) -> Result<Turn> {
        let mut state = self.state.lock();
        if state.waiting.is_empty() && state.running < self.most() {
            state.running += 1;
            return Ok(Turn(self));
        }
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
                return Ok(Turn(self));
            }
        }
    }

    fn call_next(&self) {
        let mut state = self.state.lock();
        state.running -= 1;
        if state.running < self.per_core * cores()
            && let Some(next) = state.waiting.pop_front()
        {
            state.running += 1;
            next.is_called.store(true, Ordering::Relaxed);
            next.called.notify_one();
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.0.call_next();
    }
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
    use crate::operation::Operation;
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
        let all = 3 * LONG.most();
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
        assert!(MOST.load(Ordering::SeqCst) <= LONG.most());
        assert!(!LONG.is_waited_in());
    }

    #[test]
    fn so_many_begin_and_the_others_follow_in_the_order_in_which_they_came() {
        static LINE: Line = Line::new(1, 4);
        let mut running: Vec<Turn> = (0..LINE.most())
            .map(|_| LINE.wait(None, || Ok(())).unwrap())
            .collect();
        let begun = Mutex::new(Vec::new());
        std::thread::scope(|scope| {
            for number in 0..3 {
                let begun = &begun;
                scope.spawn(move || {
                    let turn = LINE.wait(None, || Ok(())).unwrap();
                    begun.lock().push(number);
                    drop(turn);
                });
                while LINE.state.lock().waiting.len() <= number {
                    std::thread::yield_now();
                }
            }
            // Now that there is a line, none of them is called before few enough run.
            while running.len() > cores() {
                running.pop();
            }
            assert!(begun.lock().is_empty());
            // One place for all three: each is called when the one before it has ended.
            running.pop();
        });
        assert_eq!(begun.into_inner(), [0, 1, 2]);
    }

    #[test]
    fn statements_in_line_all_come_to_their_end_unless_they_are_ended_there() {
        static RUNNING: AtomicUsize = AtomicUsize::new(0);
        static MOST: AtomicUsize = AtomicUsize::new(0);
        let work = || {
            MOST.fetch_max(RUNNING.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            std::thread::sleep(Duration::from_millis(1));
            RUNNING.fetch_sub(1, Ordering::SeqCst);
            Ok(())
        };
        // Others may have been quicker, and its place have come before its end.
        let ends_with = |operation: &Arc<Operation>, code| {
            if let Err(error) = operation.run_in_line(work) {
                assert_eq!(error.code, code);
            }
        };
        let killed = Operation::new(None);
        killed.kill();
        std::thread::scope(|scope| {
            for _ in 0..200 {
                scope.spawn(|| {
                    let run = || Operation::new(None).run_in_line(work);
                    (0..5).for_each(|_| run().expect("its place comes"));
                    let late = Operation::new(Some(Instant::now() + Duration::from_micros(100)));
                    ends_with(&late, Code::MaxTimeMSExpired);
                    ends_with(&killed, Code::Interrupted);
                });
            }
        });
        assert!(MOST.load(Ordering::SeqCst) <= BEGUN.most());
        // Other tests have places, too, for a moment.
        let given_back = (0..1_000).any(|_| {
            std::thread::sleep(Duration::from_millis(5));
            BEGUN.state.lock().running == 0
        });
        assert!(given_back, "every place");
    }

    #[test]
    fn who_becomes_long_leaves_its_place_to_others() {
        let paced = Paced::begin();
        begin(None, || Ok(())).unwrap();
        let begun = || PACE.with_borrow(|pace| pace.as_ref().is_some_and(|pace| !pace.is_long));
        assert!(has_turn() && begun());
        // Asked for the first time it notes the time only.
        pace(None, || Ok(())).unwrap();
        std::thread::sleep(SLICE);
        pace(None, || Ok(())).unwrap();
        assert!(!has_turn(), "it has not computed, but lasted");
        compute(3, &|| ());
        assert!(has_turn() && !begun());
        drop(paced);
    }

    #[test]
    fn who_helps_or_is_short_never_waits() {
        compute(3, &|| assert!(PACE.with_borrow(Option::is_none)));
        let paced = Paced::begin();
        pace(None, || {
            unreachable!("a short statement does not stand in line")
        })
        .expect("it goes on");
        let lock = Unpaced::begin();
        compute(4, &|| assert!(!has_turn()));
        drop(lock);
        compute(3, &|| ());
        assert!(has_turn());
        drop(paced);
    }

    #[test]
    fn who_is_killed_leaves_the_line() {
        static LINE: Line = Line::new(1, 1);
        LINE.state.lock().running = LINE.most();
        let killed = || Err(Error::new(Code::Interrupted, "killed"));
        let outcome = LINE.wait(None, killed);
        assert_eq!(
            outcome.map(std::mem::forget).unwrap_err().code,
            Code::Interrupted
        );
        assert!(!LINE.is_waited_in());
    }
}
