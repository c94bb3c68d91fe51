//! All parts on one server, measured the same way on every store.

use std::time::Instant;

use anyhow::ensure;

use super::part::{Contents, Part, Table};
use super::{DATABASE, Plan, QueriesTarget};
use crate::measure::{Measure, Unit};
use crate::progress;
use crate::questions::measure;
use crate::report::{TargetReport, grouped};

/// The group of the rows about loading.
const LOAD: &str = "Load";

/// A server's column, and what was left out since the server refused it.
pub type Column = (TargetReport, Vec<String>);

/// Loads, asks, and fills a column.
///
/// # Errors
/// When the server fails or answers wrongly.
pub fn run(store: &mut dyn QueriesTarget, plan: &Plan) -> anyhow::Result<Column> {
    let mut report = store.report()?;
    store.drop_all()?;
    let mut remarks = Vec::new();
    let mut loaded: Vec<&(Part, Contents)> = Vec::new();
    for part in &plan.parts {
        match load(store, &part.1, &mut report)? {
            Ok(()) => loaded.push(part),
            Err(refusal) => remarks.push(format!("{}: {refusal}", report.name)),
        }
    }
    settle(store, &loaded, &mut report)?;
    let mut processor = Vec::new();
    for (part, contents) in loaded {
        for question in &contents.questions {
            let row = measure::ask(
                store,
                DATABASE,
                part.group(),
                question,
                plan.repeats,
                &mut report,
            )?;
            processor.extend(row);
        }
    }
    processor.into_iter().for_each(|row| report.add(row));
    if let Some(seen) = store.observe() {
        let bytes = seen.memory_bytes.unwrap_or_default();
        let row = Measure::megabytes("Storage", "memory after the queries", bytes);
        report.add(row.noted("all processes, shared pages once"));
    }
    store.drop_all()?;
    Ok((report, remarks))
}

/// Loads the tables of a part, or says what the server refuses of it.
fn load(
    store: &mut dyn QueriesTarget,
    contents: &Contents,
    report: &mut TargetReport,
) -> anyhow::Result<Result<(), String>> {
    for table in &contents.tables {
        if let Err(refusal) = store.create(table)? {
            return Ok(Err(format!("{} are left out: {refusal}", table.name)));
        }
    }
    for table in &contents.tables {
        fill(store, table, report)?;
    }
    Ok(Ok(()))
}

fn fill(
    store: &mut dyn QueriesTarget,
    table: &Table,
    report: &mut TargetReport,
) -> anyhow::Result<()> {
    let load = store.load(table)?;
    ensure!(
        load.documents == u64::from(table.count),
        "{}: loaded {} of {} {}",
        report.name,
        load.documents,
        table.count,
        table.name
    );
    let count = grouped(table.count.into(), 0);
    let name = format!("{count} {}", table.name);
    report.add(Measure::single(LOAD, &name, Unit::PerSecond, load.rate()));
    let Some(index) = &table.index else {
        return Ok(());
    };
    let spinner = progress::spinner(&format!("{}: index of {}", report.name, table.name));
    let started = Instant::now();
    store.build_index(table, index)?;
    let seconds = started.elapsed().as_secs_f64();
    spinner.finish_and_clear();
    let name = format!("index of {}", table.name);
    report.add(Measure::single(LOAD, &name, Unit::Seconds, seconds));
    Ok(())
}

fn settle(
    store: &mut dyn QueriesTarget,
    loaded: &[&(Part, Contents)],
    report: &mut TargetReport,
) -> anyhow::Result<()> {
    let tables: Vec<&Table> = loaded
        .iter()
        .flat_map(|(_, contents)| &contents.tables)
        .collect();
    let spinner = progress::spinner(&format!("{}: settling", report.name));
    store.settle(&tables, report)?;
    spinner.finish_and_clear();
    Ok(())
}
