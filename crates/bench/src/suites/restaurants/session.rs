//! The client processes of one run: started, ordered, ended, their logs read.

use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::{Context, ensure};

use super::ask::Access;
use super::client_process::{Counters, Order, Task, unix_us};
use super::log::{self, Record};
use super::requests::Split;
use crate::process::processor_seconds;

/// Numbers of workers in one run; the next run's follow.
const WORKERS_PER_RUN: u64 = 1 << 20;

/// What all processes of a session do.
#[derive(Debug, Clone)]
pub struct Setting<'a> {
    /// How the server is reached.
    pub access: &'a Access,
    /// The data's seed.
    pub seed: u64,
    /// The mix of questions.
    pub split: Split,
    /// Which run it is: each has workers of its own.
    pub run: u64,
    /// How many processes.
    pub processes: u32,
    /// What each log file's name starts with.
    pub logs: PathBuf,
}

struct ClientProcess {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    log: PathBuf,
}

impl ClientProcess {
    fn start(task: &Task) -> anyhow::Result<Self> {
        let mut child = Command::new(std::env::current_exe()?)
            .args(["bench", "restaurants-client"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("cannot start a client process")?;
        let output = child.stdout.take().context("its output is piped")?;
        let mut client = Self {
            input: child.stdin.take(),
            output: BufReader::new(output),
            child,
            log: task.log.clone(),
        };
        client.tell(&serde_json::to_string(task)?)?;
        Ok(client)
    }

    fn tell(&mut self, line: &str) -> anyhow::Result<()> {
        let input = self.input.as_mut().context("the input is open")?;
        writeln!(input, "{line}").context("a client process has ended")
    }

    fn order(&mut self, order: &Order) -> anyhow::Result<()> {
        self.tell(&serde_json::to_string(order)?)
    }

    fn counters(&mut self) -> anyhow::Result<Counters> {
        let mut line = String::new();
        self.output.read_line(&mut line)?;
        serde_json::from_str(&line).context("a client process has ended")
    }
}

impl Drop for ClientProcess {
    fn drop(&mut self) {
        // Harmless when it has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Running client processes.
pub struct Session {
    clients: Vec<ClientProcess>,
    start_unix_us: u64,
}

impl Session {
    /// Starts the processes; they have no workers yet.
    ///
    /// # Errors
    /// When one cannot be started.
    pub fn start(setting: &Setting<'_>) -> anyhow::Result<Self> {
        let start_unix_us = unix_us();
        let client = |number: u32| {
            ClientProcess::start(&Task {
                access: setting.access.clone(),
                seed: setting.seed,
                split: setting.split,
                first_worker: setting.run * WORKERS_PER_RUN + u64::from(number),
                worker_step: setting.processes.into(),
                start_unix_us,
                log: setting.logs.with_extension(format!("{number}.log")),
            })
        };
        let clients = (0..setting.processes)
            .map(client)
            .collect::<anyhow::Result<_>>()?;
        Ok(Self {
            clients,
            start_unix_us,
        })
    }

    /// Sets the number of workers in all; there are never fewer than before.
    ///
    /// # Errors
    /// When a process has ended.
    pub fn set_workers(&mut self, workers: u32) -> anyhow::Result<Counters> {
        let processes = self.clients.len() as u32;
        self.order(|number| Order::Workers((workers + processes - 1 - number) / processes))
    }

    /// What happened since the last order.
    ///
    /// # Errors
    /// When a process has ended.
    pub fn report(&mut self) -> anyhow::Result<Counters> {
        self.order(|_| Order::Report)
    }

    fn order(&mut self, order: impl Fn(u32) -> Order) -> anyhow::Result<Counters> {
        for (number, client) in (0..).zip(&mut self.clients) {
            client.order(&order(number))?;
        }
        let mut sum = Counters::default();
        for client in &mut self.clients {
            sum.add(client.counters()?);
        }
        Ok(sum)
    }

    /// Microseconds since the session's start.
    pub fn now_us(&self) -> u64 {
        unix_us() - self.start_unix_us
    }

    /// Processor seconds that the processes have spent.
    pub fn processor_seconds(&self) -> f64 {
        let processes = self.clients.iter();
        processes
            .map(|client| processor_seconds(client.child.id()))
            .sum()
    }

    /// Ends the processes and calls `each` with every request of their logs.
    ///
    /// # Errors
    /// When a process failed, or its log cannot be read.
    pub fn finish(mut self, mut each: impl FnMut(Record)) -> anyhow::Result<()> {
        for client in &mut self.clients {
            client.input = None;
        }
        for client in &mut self.clients {
            let status = client.child.wait()?;
            ensure!(status.success(), "a client process failed: {status}");
            log::decode(&std::fs::read(&client.log)?, &mut each)?;
        }
        Ok(())
    }
}
