//! What every suite is told on the command line.

use std::path::PathBuf;

use clap::Args;

use crate::report::{self, Report};
use crate::size::ByteSize;
use crate::targets::{Journal, LaunchOptions, TargetName};

/// Servers, data and reports of a run.
#[derive(Debug, Clone, Args)]
pub struct RunArgs {
    /// Server to measure, repeatable: meridian, mongod and postgres are started for the run on
    /// temporary directories; mongodb://HOST:PORT and postgres://… are used as they are
    #[arg(long = "target", value_name = "TARGET", default_value = "meridian")]
    pub targets: Vec<TargetName>,

    /// Seed of the data
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,

    /// Cache of each server that is started (PostgreSQL: shared_buffers) [default: 4GiB; indexing: 256MiB]
    #[arg(long, value_name = "SIZE")]
    pub cache_size: Option<ByteSize>,

    /// Where temporary data directories go [default: the system's]
    #[arg(long, value_name = "DIR")]
    pub directory: Option<PathBuf>,

    /// Also write all samples as JSON
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,

    /// Also write a page with tables and plots that opens offline
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
}

impl RunArgs {
    /// Each server's cache: what was asked for, or the suite's own.
    pub fn cache(&self, default: ByteSize) -> ByteSize {
        self.cache_size.unwrap_or(default)
    }

    /// How servers are started.
    pub fn launch_options(&self, cache_default: ByteSize, journal: Journal) -> LaunchOptions {
        LaunchOptions {
            cache: self.cache(cache_default),
            directory: self.directory.clone(),
            journal,
        }
    }

    /// Prints the table and writes the files that were asked for.
    ///
    /// # Errors
    /// When a file cannot be written.
    pub fn publish(&self, report: &Report) -> anyhow::Result<()> {
        report::table::print(report, &mut std::io::stdout().lock())?;
        if let Some(path) = &self.json {
            report::json::write(report, path)?;
        }
        if let Some(path) = &self.html {
            report::html::write(report, path)?;
        }
        Ok(())
    }
}
/// Reads a share of the full size.
///
/// # Errors
/// What is no number from 0.0005 to 10.
pub fn scale(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(scale) if (0.0005..=10.0).contains(&scale) => Ok(scale),
        _ => Err("a number from 0.0005 to 10 is wanted".into()),
    }
}
