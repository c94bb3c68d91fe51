//! A short run on one server whose data stays: what `meridian demo` shows.

use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};

use bson::rawdoc;

use super::dataset::Dataset;
use super::document::{areas, counts, create_with_indexes, memory, pages, roll_ups};
use super::encode::Key;
use super::published;
use super::queries::EVENTS;
use super::{Plan, TITLE};
use crate::load;
use crate::machine::Machine;
use crate::report::{self, Report, TargetReport, grouped};
use crate::storage;
use crate::targets::document::DocumentServer;

/// The database that stays.
pub const DATABASE: &str = "weather";
const RUNS: usize = 5;
const SEED: u64 = 1;

/// Part of a demonstration, on a database.
type Step = fn(&DocumentServer, &str, &Plan, &mut TargetReport) -> anyhow::Result<()>;

/// Loads `events` events, asks, and prints the table to `out`; ends early when `stopped`.
///
/// # Errors
/// When the server fails or answers wrongly.
pub fn demonstrate(
    server: &DocumentServer,
    events: u64,
    stopped: &AtomicBool,
    out: &mut impl Write,
) -> anyhow::Result<()> {
    let dataset = Dataset {
        events,
        seed: SEED,
        key: Key::ObjectId,
    };
    let plan = Plan::new(dataset, RUNS, false);
    let mut target = TargetReport::new(&server.name, server.version()?, server.settings.clone());
    server.drop_database(DATABASE)?;
    create_with_indexes(server, DATABASE, dataset.key)?;
    let encoded = dataset.messages(&rawdoc! { "insert": EVENTS, "ordered": true, "$db": DATABASE });
    writeln!(
        out,
        "Loading {} events with validator and five secondary indexes …",
        grouped(events as f64, 0)
    )?;
    out.flush()?;
    let load = load::insert(
        server,
        encoded.batches.iter(),
        events,
        "loading events",
        load::unwatched,
    )?;
    let name = "with indexes and validator, best client";
    target.add(load.measure(name, encoded.seconds));
    drop(encoded);
    let steps: [Step; 6] = [
        |server, database, _, target| storage::of_collection(server, database, EVENTS, target),
        counts,
        areas,
        pages,
        roll_ups,
        |server, _, _, target| {
            memory(server, target);
            Ok(())
        },
    ];
    for step in steps {
        if stopped.load(Ordering::Relaxed) {
            return Ok(());
        }
        step(server, DATABASE, &plan, &mut target)?;
    }
    let report = Report {
        suite: "weather",
        title: TITLE,
        machine: Machine::read(),
        parameters: vec![
            ("events".into(), grouped(events as f64, 0)),
            ("timed runs".into(), RUNS.to_string()),
        ],
        targets: vec![target],
        remarks: Vec::new(),
        published: published::PUBLISHED,
    };
    report::table::print(&report, out)?;
    Ok(())
}
