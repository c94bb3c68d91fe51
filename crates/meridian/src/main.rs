//! The `meridian` binary: the server, and the tools around it.

mod cli;
mod commands;
mod demo;
mod export;
mod import;
mod server;

use clap::Parser as _;
use std::process::ExitCode;

fn main() -> ExitCode {
    match cli::Cli::parse().run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("meridian: {error:#}");
            ExitCode::FAILURE
        }
    }
}
