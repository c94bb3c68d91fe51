//! A process of workers, each a thread with a connection of its own, asking without pause.
//!
//! In: a line with the [`Task`], then one line for each [`Order`]. Out: after each
//! order one line with [`Counters`]. When its input ends it stops its workers,
//! writes their log and ends. Processes of their own keep the clients' cost apart from
//! the server's, and from that of the process which orders them.

use std::io::{BufRead, Write};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::Context;
use serde::{Deserialize, Serialize};

use super::ask::{Access, Asker};
use super::log::{self, Record, WorkerLog};
use super::requests::{Requests, Split};

/// A request that takes longer is slow.
const SLOW: Duration = Duration::from_millis(100);

/// Connections that are made at the same time.
const CONNECTING: usize = 8;

/// What a process is for.
#[derive(Debug, Serialize, Deserialize)]
pub struct Task {
    /// How the server is reached.
    pub access: Access,
    /// The data's seed, from which the questions' follows.
    pub seed: u64,
    /// The mix of questions.
    pub split: Split,
    /// The number of the first worker; the others follow, this many apart.
    pub first_worker: u64,
    /// How far numbers are apart: other processes have those between.
    pub worker_step: u64,
    /// The run's start, microseconds since 1970.
    pub start_unix_us: u64,
    /// Where the log goes.
    pub log: PathBuf,
}

/// What a process is told.
#[derive(Debug, Serialize, Deserialize)]
pub enum Order {
    /// Have so many workers.
    Workers(u32),
    /// Only report.
    Report,
}

/// What happened since the last order.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Counters {
    /// Replies that came.
    pub requests: u64,
    /// Those that took longer than 100 ms.
    pub slow: u64,
    /// Why a worker had to stop, if one had to.
    pub failure: Option<String>,
}

impl Counters {
    /// Adds those of another process.
    pub fn add(&mut self, other: Self) {
        self.requests += other.requests;
        self.slow += other.slow;
        self.failure = self.failure.take().or(other.failure);
    }
}

#[derive(Default)]
struct Shared {
    stop: AtomicBool,
    requests: AtomicU64,
    slow: AtomicU64,
    failure: Mutex<Option<String>>,
}

impl Shared {
    fn take(&self) -> Counters {
        Counters {
            requests: self.requests.swap(0, Ordering::Relaxed),
            slow: self.slow.swap(0, Ordering::Relaxed),
            failure: self
                .failure
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .clone(),
        }
    }

    fn fail(&self, error: &anyhow::Error) {
        let mut failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        failure.get_or_insert_with(|| format!("{error:#}"));
    }
}

/// Microseconds since the run's start, the same in all processes.
#[derive(Clone, Copy)]
struct Clock {
    from: Instant,
    offset_us: u64,
}

impl Clock {
    fn new(start_unix_us: u64) -> Self {
        Self {
            from: Instant::now(),
            offset_us: unix_us().saturating_sub(start_unix_us),
        }
    }

    fn now_us(self) -> u64 {
        self.offset_us + self.from.elapsed().as_micros() as u64
    }
}

/// Microseconds since 1970.
pub fn unix_us() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_micros() as u64)
}

/// Does what standard input says.
///
/// # Errors
/// When an order is not one, or the log cannot be written.
pub fn run() -> anyhow::Result<()> {
    let mut lines = std::io::stdin().lock().lines();
    let task = lines.next().context("no task on standard input")??;
    let task: Task = serde_json::from_str(&task)?;
    let shared = Arc::new(Shared::default());
    let clock = Clock::new(task.start_unix_us);
    let mut workers: Vec<JoinHandle<WorkerLog>> = Vec::new();
    for line in lines {
        if let Order::Workers(wanted) = serde_json::from_str(&line?)? {
            // All connect before the first of them asks, which would hold up the others.
            let missing = (wanted as usize).saturating_sub(workers.len());
            let askers = connect(&task.access, missing).unwrap_or_else(|error| {
                shared.fail(&error);
                Vec::new()
            });
            for asker in askers {
                let number = task.first_worker + task.worker_step * workers.len() as u64;
                let requests = Requests::new(task.seed, number, task.split);
                let shared = Arc::clone(&shared);
                workers.push(std::thread::spawn(move || {
                    work(asker, requests, &shared, clock)
                }));
            }
        }
        let mut out = std::io::stdout().lock();
        writeln!(out, "{}", serde_json::to_string(&shared.take())?)?;
        out.flush()?;
    }
    shared.stop.store(true, Ordering::Relaxed);
    let logs: Vec<WorkerLog> = workers
        .into_iter()
        .map(|worker| worker.join().expect("a worker does not panic"))
        .collect();
    std::fs::write(&task.log, log::encode(&logs))
        .with_context(|| format!("cannot write {}", task.log.display()))
}

/// So many connections, made several at a time.
fn connect(access: &Access, count: usize) -> anyhow::Result<Vec<Box<dyn Asker>>> {
    let share = |number: usize| (count + number) / CONNECTING;
    let several = |number| (0..share(number)).map(|_| access.connect()).collect();
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..CONNECTING)
            .map(|number| scope.spawn(move || -> anyhow::Result<Vec<_>> { several(number) }))
            .collect();
        let mut askers = Vec::with_capacity(count);
        for thread in threads {
            askers.extend(thread.join().expect("connecting does not panic")?);
        }
        Ok(askers)
    })
}

fn work(
    mut asker: Box<dyn Asker>,
    mut requests: Requests,
    shared: &Shared,
    clock: Clock,
) -> WorkerLog {
    let mut log = WorkerLog::default();
    while !shared.stop.load(Ordering::Relaxed) {
        let request = requests.draw();
        asker.encode(&request);
        let sent_us = clock.now_us();
        if let Err(error) = asker.exchange() {
            shared.fail(&error);
            break;
        }
        let arrived_us = clock.now_us();
        log.push(Record {
            kind: request.wanted.kind(),
            sent_us,
            arrived_us,
        });
        shared.requests.fetch_add(1, Ordering::Relaxed);
        if u128::from(arrived_us - sent_us) > SLOW.as_micros() {
            shared.slow.fetch_add(1, Ordering::Relaxed);
        }
    }
    log
}
