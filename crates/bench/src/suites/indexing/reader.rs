//! The second thread: a range query every few seconds while documents are inserted.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::ensure;

use super::Plan;
use super::answers::PAGE;
use super::generator::Starts;

/// From so many documents on, 1,000 follow any start (about 1,560 are expected).
const FULL_PAGES_FROM: u64 = 50_000;
/// How often a pausing reader looks whether the load has ended.
const TICK: Duration = Duration::from_millis(20);

/// A connection that reads the first 1,000 documents from a URI on, in its order.
pub trait Pages: Send {
    /// How long the query took, and the URIs read; decoding is not timed.
    ///
    /// # Errors
    /// The server's.
    fn page(&mut self, start: &str) -> anyhow::Result<(Duration, Vec<String>)>;
}

/// How far a load is, seen from the other thread.
#[derive(Debug, Default)]
pub struct Progress {
    /// Documents acknowledged.
    pub documents: AtomicU64,
    /// No more will come.
    pub ended: AtomicBool,
}

/// Reads at a random URI, pauses, and again until the load ends: the documents there were and the
/// milliseconds of each query.
///
/// # Errors
/// The server's, and when a page is wrong.
pub fn read_meanwhile(
    pages: &mut dyn Pages,
    progress: &Progress,
    plan: &Plan,
) -> anyhow::Result<Vec<(f64, f64)>> {
    let mut starts = Starts::new(plan.seed);
    let mut samples = Vec::new();
    while pause(plan.query_pause, progress) {
        let start = starts.draw();
        let documents = progress.documents.load(Ordering::Acquire);
        let (took, uris) = pages.page(&start)?;
        check(&start, &uris, documents)?;
        samples.push((documents as f64, took.as_secs_f64() * 1e3));
    }
    Ok(samples)
}

/// `false` when the load ended meanwhile.
fn pause(pause: Duration, progress: &Progress) -> bool {
    let since = Instant::now();
    while since.elapsed() < pause {
        if progress.ended.load(Ordering::Acquire) {
            return false;
        }
        std::thread::sleep(TICK.min(pause));
    }
    !progress.ended.load(Ordering::Acquire)
}

fn check(start: &str, uris: &[String], documents: u64) -> anyhow::Result<()> {
    ensure!(
        uris.is_sorted() && uris.first().is_none_or(|first| first.as_str() >= start),
        "a page of documents from {start} on is not in order"
    );
    ensure!(
        uris.len() == PAGE || documents < FULL_PAGES_FROM,
        "a page of documents from {start} on has {} of {PAGE} while there are {documents}",
        uris.len()
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_out_of_order_before_the_start_or_too_short_are_found() {
        let page = |uris: &[&str]| uris.iter().map(|uri| (*uri).to_owned()).collect::<Vec<_>>();
        assert!(check("b", &page(&["b", "c"]), 10).is_ok());
        assert!(check("b", &page(&["c", "b"]), 10).is_err());
        assert!(check("b", &page(&["a", "c"]), 10).is_err());
        assert!(check("b", &page(&["b", "c"]), FULL_PAGES_FROM).is_err());
    }
}
