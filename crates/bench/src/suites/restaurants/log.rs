//! When each request was sent and its reply had come, four to six bytes a request.
//!
//! A client process writes one file, worker after worker:
//!
//! ```text
//! "MRR1"                          once
//! for each worker:
//!   varint                        bytes of its records
//!   for each request, in order:
//!     varint                      kind (0 nearest ten, 1 with an equality, 2 next page)
//!     varint                      microseconds from the last reply (first: from the run's start) until sent
//!     varint                      microseconds from sent until the reply was whole
//! ```
//!
//! All processes count from the same moment, so that their files can be merged.

use anyhow::Context;

use super::cities::{put_varint, varint};

const MAGIC: &[u8; 4] = b"MRR1";

/// One request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Record {
    /// Its kind's number.
    pub kind: u8,
    /// Microseconds from the run's start until it was sent.
    pub sent_us: u64,
    /// Microseconds from the run's start until its reply was whole.
    pub arrived_us: u64,
}

/// The requests of one worker.
#[derive(Debug, Default)]
pub struct WorkerLog {
    records: Vec<u8>,
    last_us: u64,
}

impl WorkerLog {
    /// Notes a request, which was sent after the last one's reply.
    pub fn push(&mut self, record: Record) {
        put_varint(record.kind.into(), &mut self.records);
        put_varint(record.sent_us - self.last_us, &mut self.records);
        put_varint(record.arrived_us - record.sent_us, &mut self.records);
        self.last_us = record.arrived_us;
    }
}

/// A file's bytes.
pub fn encode(workers: &[WorkerLog]) -> Vec<u8> {
    let mut out = MAGIC.to_vec();
    for worker in workers {
        put_varint(worker.records.len() as u64, &mut out);
        out.extend_from_slice(&worker.records);
    }
    out
}

/// Calls `each` with every record of a file, worker after worker.
///
/// # Errors
/// When the file is not one of ours, or cut off.
pub fn decode(bytes: &[u8], mut each: impl FnMut(Record)) -> anyhow::Result<()> {
    let mut rest = bytes.strip_prefix(MAGIC).context("not a log of requests")?;
    while !rest.is_empty() {
        let length = usize::try_from(varint(&mut rest)?)?;
        let (mut records, after) = rest
            .split_at_checked(length)
            .context("the log is cut off")?;
        rest = after;
        let mut last_us = 0;
        while !records.is_empty() {
            let kind = u8::try_from(varint(&mut records)?)?;
            let sent_us = last_us + varint(&mut records)?;
            last_us = sent_us + varint(&mut records)?;
            each(Record {
                kind,
                sent_us,
                arrived_us: last_us,
            });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_come_back_and_take_few_bytes() {
        let record = |number: u64| Record {
            kind: (number % 3) as u8,
            sent_us: 1_000_000 + number * 2_000,
            arrived_us: 1_000_000 + number * 2_000 + 1_900 + number % 50,
        };
        let mut workers = [
            WorkerLog::default(),
            WorkerLog::default(),
            WorkerLog::default(),
        ];
        for number in 0..1000 {
            workers[(number % 2) as usize].push(record(number));
        }
        let bytes = encode(&workers);
        assert!(bytes.len() < 6 * 1000, "{}", bytes.len());
        let mut records = Vec::new();
        decode(&bytes, |record| records.push(record)).expect("decodes");
        records.sort_by_key(|record| record.sent_us);
        assert!(records.into_iter().eq((0..1000).map(record)));
        assert!(decode(&bytes[..bytes.len() - 3], |_| ()).is_err());
        assert!(decode(b"MRR2", |_| ()).is_err());
    }
}
