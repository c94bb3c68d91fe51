//! Structured logs on stderr.

use super::settings::LogFormat;
use std::io::IsTerminal;
use tracing_subscriber::EnvFilter;

/// The environment variable that chooses what is logged, as `info` or `meridian=debug`.
const FILTER_VARIABLE: &str = "MERIDIAN_LOG";

/// Starts logging for the rest of the process.
pub fn start(format: LogFormat) {
    let filter = EnvFilter::try_from_env(FILTER_VARIABLE).unwrap_or_else(|_| "info".into());
    let lines = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_target(false);
    match format {
        LogFormat::Text => lines.with_ansi(std::io::stderr().is_terminal()).init(),
        LogFormat::Json => lines.json().flatten_event(true).init(),
    }
}
