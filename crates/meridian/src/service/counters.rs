//! Running totals, and groups of them: by command, by what a command does, by compressor.

use meridian_wire::Compressor;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

/// One running total.
#[derive(Debug, Default)]
pub struct Counter(AtomicI64);

impl Counter {
    /// Adds to it.
    pub fn add(&self, amount: i64) {
        self.0.fetch_add(amount, Ordering::Relaxed);
    }

    /// Adds a size or a number of things to it.
    pub fn add_size(&self, amount: usize) {
        self.add(i64::try_from(amount).unwrap_or(i64::MAX));
    }

    /// Reads it.
    pub fn get(&self) -> i64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// How often each command ran, and how often it ended in an error reply.
#[derive(Debug)]
pub struct CommandCounts(Box<[CommandCount]>);

/// That of one command.
#[derive(Debug, Default)]
pub struct CommandCount {
    /// All.
    pub total: Counter,
    /// Those with an error reply.
    pub failed: Counter,
}

impl CommandCounts {
    /// Of so many commands.
    pub fn new(commands: usize) -> Self {
        Self((0..commands).map(|_| CommandCount::default()).collect())
    }

    /// That of the command with this index in the table.
    pub fn of(&self, command: usize) -> &CommandCount {
        &self.0[command]
    }
}

/// `serverStatus` adds latencies up by these.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OperationClass {
    /// Reads documents.
    Read,
    /// Writes documents.
    Write,
    /// All others.
    Command,
}

/// How many operations there were, and how long they took together.
#[derive(Debug, Default)]
pub struct Latency {
    /// Microseconds.
    pub micros: Counter,
    /// Operations.
    pub operations: Counter,
}

/// The latencies of operations by what they do.
#[derive(Debug, Default)]
pub struct Latencies {
    reads: Latency,
    writes: Latency,
    commands: Latency,
}

impl Latencies {
    /// Those of one class.
    pub fn of(&self, class: OperationClass) -> &Latency {
        match class {
            OperationClass::Read => &self.reads,
            OperationClass::Write => &self.writes,
            OperationClass::Command => &self.commands,
        }
    }

    /// Adds an operation that took this long.
    pub fn add(&self, class: OperationClass, took: Duration) {
        let latency = self.of(class);
        let micros = i64::try_from(took.as_micros()).unwrap_or(i64::MAX);
        latency.micros.add(micros);
        latency.operations.add(1);
    }
}

/// Bytes before and after.
#[derive(Debug, Default)]
pub struct Conversion {
    /// Before.
    pub bytes_in: Counter,
    /// After.
    pub bytes_out: Counter,
}

impl Conversion {
    /// Adds one message.
    pub fn add(&self, bytes_in: usize, bytes_out: usize) {
        self.bytes_in.add_size(bytes_in);
        self.bytes_out.add_size(bytes_out);
    }
}

/// What compressors made of messages, without headers.
#[derive(Debug, Default)]
pub struct Compression([(Conversion, Conversion); 3]);

impl Compression {
    /// In the order of the reply.
    pub const COMPRESSORS: [Compressor; 3] =
        [Compressor::Snappy, Compressor::Zstd, Compressor::Zlib];

    /// Replies compressed, and requests decompressed; `None` for the compressor that does nothing.
    pub fn of(&self, compressor: Compressor) -> Option<&(Conversion, Conversion)> {
        let position = Self::COMPRESSORS.iter().position(|own| *own == compressor);
        position.map(|position| &self.0[position])
    }
}
