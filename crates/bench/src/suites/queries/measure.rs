//! All parts on one server, measured the same way on every store.

use std::time::Instant;

use anyhow::ensure;

use super::part::{Contents, Part, Question, Table};
use super::{Plan, QueriesTarget};
use crate::measure::{Measure, Unit, time_runs};
use crate::progress;
use crate::report::{TargetReport, grouped};

/// The group of the rows about loading.
const LOAD: &str = "Load";

/// The group of the rows about processor time.
const PROCESSOR: &str = "Server's processor time a question";
const PROCESSOR_NOTE: &str = "mean of the runs; PostgreSQL's without the workers of parallel plans, which end with the question";

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
            processor.extend(ask(store, *part, question, plan, &mut report)?);
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

/// Checks the answer and times it: the row of the server's processor time.
fn ask(
    store: &mut dyn QueriesTarget,
    part: Part,
    question: &Question,
    plan: &Plan,
    report: &mut TargetReport,
) -> anyhow::Result<Option<Measure>> {
    let label = question.label;
    let spinner = progress::spinner(&format!("{}: {label}", report.name));
    let found = store.look(question)?;
    ensure!(
        found.agrees_with(question.expected),
        "{}: {}, {label}: answered {found}, right is {}",
        report.name,
        part.group(),
        question.expected
    );
    report.answers_checked += 1;
    // Only the time within the server and of its replies counts; opening a connection does not.
    let mut times = Vec::new();
    let before = store.processor_seconds();
    time_runs(plan.repeats, || {
        times.push(store.fetch(question)?.as_secs_f64() * 1e3);
        Ok(())
    })?;
    let spent = store.processor_seconds().zip(before);
    let spent_ms = spent.map(|(after, before)| (after - before) * 1e3 / times.len() as f64);
    times.remove(0);
    spinner.finish_and_clear();
    report.add(Measure::new(part.group(), label, Unit::Milliseconds, times));
    Ok(spent_ms.map(|spent_ms| {
        let row = Measure::single(PROCESSOR, label, Unit::Milliseconds, spent_ms);
        row.noted(PROCESSOR_NOTE)
    }))
}
