//! What became of the rows: counted, shown, and the failed ones named.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use parking_lot::Mutex;

use super::ImportArgs;

/// Failed rows that are printed; all are counted, and all go to the file of `--rejects`.
const SHOWN_MAX: u64 = 100;
/// How often the rate is worked out anew.
const REFRESH: Duration = Duration::from_millis(200);

/// Shared by the thread that converts and those that send.
pub struct Outcome {
    written: AtomicU64,
    failed: AtomicU64,
    stops_on_error: bool,
    /// No more rows are converted.
    stopped: AtomicBool,
    /// No more batches are sent; rows before one that could not be converted still are.
    writes_stopped: AtomicBool,
    fatal: Mutex<Option<anyhow::Error>>,
    rejects: Mutex<Option<BufWriter<File>>>,
    bar: ProgressBar,
    started: Instant,
    shown: Mutex<Instant>,
    quiet: bool,
}

/// The final numbers.
pub struct Summary {
    /// Documents that the server took.
    pub written: u64,
    /// Rows that failed.
    pub failed: u64,
}

impl Outcome {
    /// Opens the file of failed rows.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn new(args: &ImportArgs) -> anyhow::Result<Self> {
        let rejects = match &args.rejects {
            Some(path) => {
                let file = File::create(path)
                    .with_context(|| format!("cannot write {}", path.display()))?;
                Some(BufWriter::new(file))
            }
            None => None,
        };
        let bar = ProgressBar::no_length();
        if args.quiet {
            bar.set_draw_target(ProgressDrawTarget::hidden());
        }
        Ok(Self {
            written: AtomicU64::new(0),
            failed: AtomicU64::new(0),
            stops_on_error: args.stops_on_error(),
            stopped: AtomicBool::new(false),
            writes_stopped: AtomicBool::new(false),
            fatal: Mutex::new(None),
            rejects: Mutex::new(rejects),
            bar,
            started: Instant::now(),
            shown: Mutex::new(Instant::now()),
            quiet: args.quiet,
        })
    }

    /// Tells how long the input is, for an estimate.
    pub fn set_input_bytes(&self, bytes: Option<u64>) {
        let template = match bytes {
            Some(bytes) => {
                self.bar.set_length(bytes);
                "[{bar:30}] {percent:>3} %  {msg}  eta {eta}"
            }
            None => "{spinner} {bytes} read  {msg}",
        };
        let style =
            ProgressStyle::with_template(template).expect("the template is a constant and valid");
        self.bar.set_style(style.progress_chars("=> "));
    }

    /// Tells how far the input has been read.
    pub fn read_to(&self, position_bytes: u64) {
        self.bar.set_position(position_bytes);
    }

    /// Counts documents that the server took.
    pub fn written(&self, count: u64) {
        let written = self.written.fetch_add(count, Ordering::Relaxed) + count;
        let mut shown = self.shown.lock();
        if shown.elapsed() >= REFRESH {
            *shown = Instant::now();
            let rate = written as f64 / self.started.elapsed().as_secs_f64();
            self.bar
                .set_message(format!("{written} documents, {rate:.0}/s"));
        }
    }

    /// Reports a document that the server refused.
    pub fn refused(&self, line: u64, reason: &str) {
        if self.stops_on_error {
            self.writes_stopped.store(true, Ordering::Relaxed);
        }
        self.failed(line, reason);
    }

    /// Reports a row that failed.
    pub fn failed(&self, line: u64, reason: &str) {
        let number = self.failed.fetch_add(1, Ordering::Relaxed) + 1;
        if let Some(file) = self.rejects.lock().as_mut() {
            // The row is printed or counted in any case; a full disk must not hide that.
            let _ = writeln!(file, "line {line}: {reason}");
        }
        if number <= SHOWN_MAX {
            self.bar.suspend(|| eprintln!("line {line}: {reason}"));
        }
        if number == SHOWN_MAX + 1 {
            self.bar.suspend(|| {
                eprintln!("further failed rows are counted but not shown; --rejects FILE keeps all")
            });
        }
        if self.stops_on_error {
            self.stopped.store(true, Ordering::Relaxed);
        }
    }

    /// Ends the import for a reason that is no row's.
    pub fn abort(&self, error: anyhow::Error) {
        self.fatal.lock().get_or_insert(error);
        self.stopped.store(true, Ordering::Relaxed);
        self.writes_stopped.store(true, Ordering::Relaxed);
    }

    /// Whether no more batches should be sent.
    pub fn are_writes_stopped(&self) -> bool {
        self.writes_stopped.load(Ordering::Relaxed)
    }

    /// Whether no more rows should be converted.
    pub fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }

    /// The reason of [`Outcome::abort`], once.
    pub fn take_fatal(&self) -> Option<anyhow::Error> {
        self.fatal.lock().take()
    }

    /// Prints the summary.
    pub fn finish(&self) -> Summary {
        self.bar.finish_and_clear();
        if let Some(file) = self.rejects.lock().as_mut() {
            let _ = file.flush();
        }
        let summary = Summary {
            written: self.written.load(Ordering::Relaxed),
            failed: self.failed.load(Ordering::Relaxed),
        };
        let seconds = self.started.elapsed().as_secs_f64();
        if !self.quiet || summary.failed > 0 {
            eprintln!(
                "{} documents imported in {seconds:.1} s ({:.0}/s), {} rows failed",
                summary.written,
                summary.written as f64 / seconds,
                summary.failed
            );
        }
        summary
    }
}
