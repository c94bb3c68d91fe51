//! Structured logs on stderr, of which the latest lines stay in memory for `getLog`.

use super::settings::LogFormat;
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::io::{self, IsTerminal, Write};
use tracing_subscriber::EnvFilter;

/// The environment variable that chooses what is logged, as `info` or `meridian=debug`.
const FILTER_VARIABLE: &str = "MERIDIAN_LOG";
/// As many lines as MongoDB keeps.
const LINES_KEPT_MAX: usize = 1024;

static LATEST: Mutex<VecDeque<String>> = Mutex::new(VecDeque::new());

/// Starts logging for the rest of the process.
pub fn start(format: LogFormat) {
    let filter = EnvFilter::try_from_env(FILTER_VARIABLE).unwrap_or_else(|_| "info".into());
    let lines = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(|| Line)
        .with_target(false);
    match format {
        LogFormat::Text => lines.with_ansi(io::stderr().is_terminal()).init(),
        LogFormat::Json => lines.json().flatten_event(true).init(),
    }
}

/// The latest lines, oldest first.
pub fn latest() -> Vec<String> {
    LATEST.lock().iter().cloned().collect()
}

/// Writes one line to stderr and keeps it. The formatter hands over whole lines.
struct Line;

impl Write for Line {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut latest = LATEST.lock();
        if latest.len() == LINES_KEPT_MAX {
            latest.pop_front();
        }
        latest.push_back(String::from_utf8_lossy(bytes).trim_end().to_owned());
        drop(latest);
        // Nobody to tell if stderr is closed; the server goes on.
        let _ = io::stderr().write_all(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}
