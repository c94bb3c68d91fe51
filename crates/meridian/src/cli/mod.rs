//! The command line: what each subcommand takes, and where it goes.

mod check;
mod encryption;
mod log;
mod repair;
mod serve;
mod settings;
mod size;
mod user;

pub use log::{LEVEL_MAX as LOG_LEVEL_MAX, Verbosity, latest as latest_log_lines};
pub use settings::{Settings, TlsMode};

use clap::{Parser, Subcommand};
use rustix::fs::Mode;
use rustix::process::umask;

/// A document database for places and times that speaks MongoDB's wire protocol.
#[derive(Debug, Parser)]
#[command(name = "meridian", version, about, max_term_width = 100)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Serves a data directory to MongoDB's drivers, shells and tools.
    Serve(serve::ServeArguments),
    /// Runs a published evaluation on Meridian and its peers, side by side.
    Bench(meridian_bench::BenchArgs),
    /// Verifies a data directory that no server uses: every document against every index, both ways.
    Check(check::CheckArguments),
    /// Makes a data directory with a damaged write-ahead log one that can be served again.
    Repair(repair::RepairArguments),
    /// Makes users of a server that nobody can log in to.
    User(user::UserArguments),
    /// Encrypts a data directory that no server uses.
    Encrypt(encryption::EncryptArguments),
    /// Turns the master key of an encrypted data directory over, without rewriting data.
    Rekey(encryption::RekeyArguments),
    /// Loads the weather evaluation, asks, prints the table, and serves until Ctrl-C.
    Demo(crate::demo::DemoArgs),
    /// Imports CSV, TSV or JSON.
    Import(crate::import::ImportArgs),
    /// Exports JSON or CSV.
    Export(crate::export::ExportArgs),
}

impl Cli {
    /// Runs the subcommand.
    ///
    /// # Errors
    /// Whatever it could not do, for the operator to read.
    pub fn run(self) -> anyhow::Result<()> {
        if !matches!(
            self.command,
            Command::Bench(_) | Command::Export(_) | Command::Import(_)
        ) {
            // The data is its owner's: directories are made 0700 and files 0600.
            umask(Mode::RWXG | Mode::RWXO);
        }
        match self.command {
            Command::Serve(arguments) => serve::run(arguments),
            Command::Bench(arguments) => meridian_bench::run(arguments),
            Command::Check(arguments) => check::run(&arguments),
            Command::Repair(arguments) => repair::run(&arguments),
            Command::User(arguments) => user::run(&arguments),
            Command::Encrypt(arguments) => encryption::encrypt(&arguments),
            Command::Rekey(arguments) => encryption::rekey(&arguments),
            Command::Demo(arguments) => crate::demo::run(arguments),
            Command::Import(arguments) => crate::import::run(arguments),
            Command::Export(arguments) => crate::export::run(arguments),
        }
    }
}
