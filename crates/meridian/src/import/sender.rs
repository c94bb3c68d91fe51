//! Batches on their way to the server, two at a time on each connection.

use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use anyhow::{Context, anyhow};
use bson::{Bson, Document, RawBsonRef, RawDocument};
use meridian_bench::client::{Client, reply_document};
use meridian_bench::targets::document::raw_number;

use super::ImportArgs;
use super::arguments::Target;
use super::outcome::Outcome;

/// Messages sent before the first reply is waited for, so that the server never waits for the client.
const PIPELINE_DEPTH: usize = 2;
/// Converted batches that may wait for a connection.
const QUEUE_LENGTH: usize = 3;

/// One message and where its documents came from.
pub struct Batch {
    /// The whole message.
    pub message: Vec<u8>,
    /// The line of each document.
    pub lines: Vec<u64>,
}

/// Threads that send batches; ends when finished.
pub struct Sender {
    queue: Option<SyncSender<Batch>>,
    threads: Vec<JoinHandle<()>>,
    outcome: Arc<Outcome>,
}

impl Sender {
    /// Opens the connections.
    ///
    /// # Errors
    /// When the server cannot be reached.
    pub fn start(
        args: &ImportArgs,
        target: &Target,
        outcome: &Arc<Outcome>,
    ) -> anyhow::Result<Self> {
        let (queue, batches) = sync_channel(QUEUE_LENGTH);
        let batches = Arc::new(Mutex::new(batches));
        // When the first failure must be the last write, nothing may be under way behind it.
        let depth = if args.stops_on_error() {
            1
        } else {
            PIPELINE_DEPTH
        };
        let threads = (0..args.workers())
            .map(|_| {
                let client = target.connect()?;
                let (batches, outcome) = (Arc::clone(&batches), Arc::clone(outcome));
                Ok(std::thread::spawn(move || {
                    if let Err(error) = work(client, &batches, &outcome, depth) {
                        outcome.abort(error);
                    }
                }))
            })
            .collect::<anyhow::Result<Vec<_>>>()?;
        Ok(Self {
            queue: Some(queue),
            threads,
            outcome: Arc::clone(outcome),
        })
    }

    /// Hands a batch to a connection; waits while enough are queued.
    ///
    /// # Errors
    /// When sending has ended for another reason.
    pub fn send(&self, batch: Batch) -> anyhow::Result<()> {
        let queue = self
            .queue
            .as_ref()
            .context("batches are sent before the sender is finished")?;
        queue.send(batch).map_err(|_| self.reason())
    }

    /// Waits until everything is acknowledged.
    ///
    /// # Errors
    /// What ended a connection.
    pub fn finish(mut self) -> anyhow::Result<()> {
        self.queue = None;
        for thread in self.threads.drain(..) {
            thread
                .join()
                .map_err(|_| anyhow!("a sending thread panicked"))?;
        }
        self.outcome.take_fatal().map_or(Ok(()), Err)
    }

    fn reason(&self) -> anyhow::Error {
        self.outcome
            .take_fatal()
            .unwrap_or_else(|| anyhow!("all connections have ended"))
    }
}

fn work(
    mut client: Client,
    batches: &Mutex<Receiver<Batch>>,
    outcome: &Outcome,
    depth: usize,
) -> anyhow::Result<()> {
    let mut under_way: VecDeque<Vec<u64>> = VecDeque::with_capacity(depth);
    loop {
        if under_way.len() < depth
            && let Some(batch) = next_batch(batches, under_way.is_empty())
        {
            if outcome.are_writes_stopped() {
                continue;
            }
            client.send(&batch.message)?;
            under_way.push_back(batch.lines);
            continue;
        }
        let Some(lines) = under_way.pop_front() else {
            return Ok(());
        };
        account(reply_document(client.receive()?)?, &lines, outcome)?;
    }
}

/// The next batch; waits for one only where nothing else is to be done.
fn next_batch(batches: &Mutex<Receiver<Batch>>, wait: bool) -> Option<Batch> {
    let batches = batches.lock().unwrap_or_else(PoisonError::into_inner);
    if wait {
        return batches.recv().ok();
    }
    batches.try_recv().ok()
}

/// Counts what a reply acknowledges and reports what it refuses.
fn account(reply: &RawDocument, lines: &[u64], outcome: &Outcome) -> anyhow::Result<()> {
    let ok = matches!(
        reply.get("ok")?,
        Some(RawBsonRef::Double(1.0) | RawBsonRef::Int32(1))
    );
    if !ok {
        return Err(anyhow!(
            "the server refused a batch from line {} on: {}",
            lines.first().copied().unwrap_or(0),
            reply.get_str("errmsg").unwrap_or("no message")
        ));
    }
    outcome.written(raw_number(reply, "n").unwrap_or(0));
    if let Ok(Some(RawBsonRef::Array(errors))) = reply.get("writeErrors") {
        for error in errors {
            let RawBsonRef::Document(error) = error? else {
                continue;
            };
            let index = raw_number(error, "index").unwrap_or(0) as usize;
            let line = lines.get(index).copied().unwrap_or(0);
            outcome.refused(line, &reason(error));
        }
    }
    if let Ok(Some(RawBsonRef::Document(concern))) = reply.get("writeConcernError") {
        return Err(anyhow!(
            "written, but not as safely as asked: {}",
            concern.get_str("errmsg").unwrap_or("no message")
        ));
    }
    Ok(())
}

fn reason(error: &RawDocument) -> String {
    let message = error
        .get_str("errmsg")
        .unwrap_or("refused without a message");
    match error.get_document("errInfo").map(Document::try_from) {
        Ok(Ok(info)) => format!("{message}: {}", Bson::Document(info).into_relaxed_extjson()),
        _ => message.to_owned(),
    }
}
