//! `meridian import`: rows and JSON into documents, over the wire.
//!
//! In: CSV, TSV, JSON lines or JSON arrays from a file or standard input. Out:
//! `insert` (or `update`, `delete`) messages on plain connections, a batch
//! being converted while the ones before it are under way. Rows are converted
//! straight into BSON bytes, no tree between. A row that cannot be converted or
//! that the server refuses is reported with its line and the reason, counted,
//! and makes the exit code non-zero; it is never dropped silently.
//!
//! [`columns`] and [`value`] say what a CSV column becomes, [`infer`] guesses
//! types, [`json`] finds documents in text, [`statement`] turns documents into
//! messages, [`sender`] sends them, [`outcome`] counts and reports.

mod arguments;
mod columns;
mod csv;
mod infer;
mod input;
mod json;
mod outcome;
mod sender;
mod statement;
mod time;
mod value;

pub use arguments::{ImportArgs, connect, server_address};

use std::sync::Arc;

use anyhow::{Context, bail};
use bson::rawdoc;

use arguments::{Format, Target};
use outcome::Outcome;

/// Imports, prints a summary and fails when any row failed.
///
/// # Errors
/// When arguments contradict each other, the input or the server cannot be
/// reached, or at least one row failed.
pub fn run(args: ImportArgs) -> anyhow::Result<()> {
    let target = args.target()?;
    let format = args.format()?;
    let outcome = Arc::new(Outcome::new(&args)?);
    prepare_collection(&args, &target)?;
    let input = input::open(args.input_path(), &outcome)?;
    let sender = sender::Sender::start(&args, &target, &outcome)?;
    let writer = statement::Writer::new(&args, &target, sender);
    let converted = match format {
        Format::Json => json::import(&args, input, writer, &outcome),
        Format::Csv | Format::Tsv => csv::import(&args, format, input, writer, &outcome),
    };
    let summary = outcome.finish();
    converted?;
    if summary.failed > 0 {
        bail!(
            "{} of {} rows were not imported",
            summary.failed,
            summary.failed + summary.written
        );
    }
    Ok(())
}

/// Checks that the server answers, and drops the collection if asked to.
fn prepare_collection(args: &ImportArgs, target: &Target) -> anyhow::Result<()> {
    let mut client = target.connect()?;
    client
        .command(&rawdoc! { "ping": 1, "$db": "admin" })
        .with_context(|| format!("{} does not answer", target.address))?;
    if args.drop {
        let dropped = client.command(
            &rawdoc! { "drop": target.collection.as_str(), "$db": target.database.as_str() },
        );
        match dropped {
            Err(error) if !error.to_string().contains("ns not found") => return Err(error),
            _ => {}
        }
    }
    Ok(())
}
