//! Loading: ready-made batches, one client, one batch after the other.
//!
//! In: an iterator of batches, encoded before ([`Encoded`]) or by a thread that
//! runs a few batches ahead ([`ahead`]) where the data is larger than memory.
//! Out: how long it took, and every batch's wait to whoever [`Watch`]es.
//! Deliberately absent: several clients, retries.

use std::borrow::Borrow;
use std::io::Write;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use bson::RawDocumentBuf;
use postgres::Client;

use crate::client::{SequenceMessage, check_ok};
use crate::encode::{COPY_HEADER, COPY_TRAILER};
use crate::measure::{Measure, Unit};
use crate::process::own_processor_seconds;
use crate::progress;
use crate::targets::document::{DocumentServer, raw_number};

/// Documents or rows in one write.
pub const BATCH: usize = 1000;
/// Batches that [`ahead`] holds at most.
const BATCHES_AHEAD: usize = 8;

/// A ready-made write: an `insert` message, or rows of a binary COPY without header and trailer.
#[derive(Debug)]
pub struct Batch {
    /// The bytes.
    pub bytes: Vec<u8>,
    /// Documents or rows in it.
    pub count: usize,
}

/// Batches that were made before the load.
pub struct Encoded {
    /// The batches.
    pub batches: Vec<Batch>,
    /// What generating and encoding cost, outside the measured time.
    pub seconds: f64,
}

impl Encoded {
    /// Makes all batches.
    pub fn collect(batches: impl Iterator<Item = Batch>) -> Self {
        let started = Instant::now();
        Self {
            batches: batches.collect(),
            seconds: started.elapsed().as_secs_f64(),
        }
    }

    /// Documents or rows in all batches.
    pub fn count(&self) -> u64 {
        self.batches.iter().map(|batch| batch.count as u64).sum()
    }
}

/// `insert` messages of [`BATCH`] documents, each about `document_bytes` long.
pub fn insert_messages<T>(
    mut items: impl Iterator<Item = T>,
    body: RawDocumentBuf,
    document_bytes: usize,
    encode: impl Fn(&T, &mut Vec<u8>),
) -> impl Iterator<Item = Batch> {
    std::iter::from_fn(move || {
        let mut message = SequenceMessage::new(&body, "documents", BATCH * document_bytes);
        for item in items.by_ref().take(BATCH) {
            let appended = message.append(|out| {
                encode(&item, out);
                Ok::<_, std::convert::Infallible>(())
            });
            match appended {
                Ok(()) => {}
                Err(never) => match never {},
            }
        }
        let count = message.count();
        (count > 0).then(|| Batch {
            bytes: message.finish(),
            count,
        })
    })
}

/// Rows of a binary COPY, [`BATCH`] to a piece, each about `row_bytes` long.
pub fn copy_pieces<T>(
    mut items: impl Iterator<Item = T>,
    row_bytes: usize,
    encode: impl Fn(&T, &mut Vec<u8>),
) -> impl Iterator<Item = Batch> {
    std::iter::from_fn(move || {
        let mut bytes = Vec::with_capacity(BATCH * row_bytes);
        let mut count = 0;
        for item in items.by_ref().take(BATCH) {
            encode(&item, &mut bytes);
            count += 1;
        }
        (count > 0).then_some(Batch { bytes, count })
    })
}

/// The same batches, made by a thread that runs a few of them ahead.
pub fn ahead(batches: impl Iterator<Item = Batch> + Send + 'static) -> impl Iterator<Item = Batch> {
    let (sender, receiver) = mpsc::sync_channel(BATCHES_AHEAD);
    std::thread::spawn(move || {
        // The receiver goes away when a load fails; then there is nobody to make batches for.
        let _ = batches.map(|batch| sender.send(batch)).find(Result::is_err);
    });
    receiver.into_iter()
}

/// Called after each batch with its documents and how long the client waited for it.
pub trait Watch: FnMut(usize, Duration) {}
impl<F: FnMut(usize, Duration)> Watch for F {}

/// For who is not interested in single batches.
pub fn unwatched(_: usize, _: Duration) {}

/// What a load took.
#[derive(Debug, Clone, Copy)]
pub struct Load {
    /// Wall-clock seconds.
    pub seconds: f64,
    /// Processor seconds of this client; of batches made [`ahead`], without making them.
    pub client_seconds: f64,
    /// Documents or rows loaded.
    pub documents: u64,
}

impl Load {
    /// Documents or rows a second.
    pub fn rate(&self) -> f64 {
        self.documents as f64 / self.seconds
    }

    /// The row of an ingest rate, with what the client cost.
    pub fn measure(&self, name: &str, encode_seconds: f64) -> Measure {
        let per_document = |seconds: f64| seconds * 1e6 / self.documents as f64;
        Measure::single("Ingest", name, Unit::PerSecond, self.rate()).noted(format!(
            "client {:.2} µs of processor a document while it ran; generating and encoding, {:.2} µs a document, was done before",
            per_document(self.client_seconds),
            per_document(encode_seconds),
        ))
    }
}

/// Times `write` over all batches.
fn run<B: Borrow<Batch>>(
    batches: impl Iterator<Item = B>,
    total: u64,
    what: &str,
    mut watch: impl Watch,
    mut write: impl FnMut(&Batch) -> anyhow::Result<()>,
) -> anyhow::Result<Load> {
    let bar = progress::bar(total, what);
    let processor_before = own_processor_seconds();
    let started = Instant::now();
    let mut documents = 0;
    for batch in batches {
        let batch = batch.borrow();
        let sent = Instant::now();
        write(batch)?;
        watch(batch.count, sent.elapsed());
        documents += batch.count as u64;
        bar.inc(batch.count as u64);
    }
    let seconds = started.elapsed().as_secs_f64();
    bar.finish_and_clear();
    Ok(Load {
        seconds,
        client_seconds: own_processor_seconds() - processor_before,
        documents,
    })
}

/// Sends ready-made messages one after the other on one connection.
///
/// # Errors
/// When a batch is not taken whole.
pub fn insert<B: Borrow<Batch>>(
    server: &DocumentServer,
    batches: impl Iterator<Item = B>,
    total: u64,
    what: &str,
    watch: impl Watch,
) -> anyhow::Result<Load> {
    let mut client = server.plain_client()?;
    let what = format!("{}: {what}", server.name);
    run(batches, total, &what, watch, |batch| {
        let reply = client.call(&batch.bytes)?;
        let taken = raw_number(reply, "n");
        if taken == Some(batch.count as u64) {
            return Ok(());
        }
        check_ok(reply)?;
        anyhow::bail!("the server took {taken:?} of {} documents", batch.count)
    })
}

/// Copies batches with one commit for each.
///
/// # Errors
/// The server's.
pub fn copy_by_batch<B: Borrow<Batch>>(
    client: &mut Client,
    copy: &str,
    batches: impl Iterator<Item = B>,
    total: u64,
    what: &str,
    watch: impl Watch,
) -> anyhow::Result<Load> {
    let copy = client.prepare(copy)?;
    run(batches, total, what, watch, |batch| {
        let mut writer = client.copy_in(&copy)?;
        writer.write_all(COPY_HEADER)?;
        writer.write_all(&batch.bytes)?;
        writer.write_all(COPY_TRAILER)?;
        writer.finish()?;
        Ok(())
    })
}

/// Copies all batches in one commit.
///
/// # Errors
/// The server's.
pub fn copy_at_once<B: Borrow<Batch>>(
    client: &mut Client,
    copy: &str,
    batches: impl Iterator<Item = B>,
    total: u64,
    what: &str,
) -> anyhow::Result<Load> {
    let processor_before = own_processor_seconds();
    let started = Instant::now();
    let mut writer = client.copy_in(copy)?;
    writer.write_all(COPY_HEADER)?;
    let load = run(batches, total, what, unwatched, |batch| {
        Ok(writer.write_all(&batch.bytes)?)
    })?;
    writer.write_all(COPY_TRAILER)?;
    writer.finish()?;
    Ok(Load {
        seconds: started.elapsed().as_secs_f64(),
        client_seconds: own_processor_seconds() - processor_before,
        documents: load.documents,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(pieces: impl Iterator<Item = Batch>) -> Vec<usize> {
        pieces.map(|batch| batch.count).collect()
    }

    #[test]
    fn the_last_batch_is_smaller_and_there_is_no_empty_one() {
        let pieces = |total: u32| copy_pieces(0..total, 4, |n, out| out.extend(n.to_be_bytes()));
        assert_eq!(numbers(pieces(2500)), [1000, 1000, 500]);
        assert_eq!(numbers(pieces(2000)), [1000, 1000]);
        assert_eq!(numbers(pieces(0)), [] as [usize; 0]);
        let body = bson::rawdoc! { "insert": "events", "$db": "weather" };
        let messages = insert_messages(0..1001, body, 5, |_, out| {
            crate::encode::document(out, |_| ())
        });
        assert_eq!(numbers(messages), [1000, 1]);
    }

    #[test]
    fn batches_made_ahead_come_in_order_and_the_maker_ends_when_nobody_listens() {
        let pieces = || copy_pieces(0..50_000u32, 4, |n, out| out.extend(n.to_be_bytes()));
        let plain: Vec<u8> = pieces().flat_map(|batch| batch.bytes).collect();
        let made: Vec<u8> = ahead(pieces()).flat_map(|batch| batch.bytes).collect();
        assert_eq!(made, plain);
        assert_eq!(ahead(pieces()).next().map(|batch| batch.count), Some(1000));
    }
}
