//! One layout on one server, measured the same way on every store.

use anyhow::ensure;

use super::layout::Layout;
use super::{DATABASE, Plan, TimeseriesTarget};
use crate::measure::{Measure, Unit};
use crate::questions::measure;
use crate::report::TargetReport;

const LOAD: &str = "Load";
const STORAGE: &str = "Storage";
const QUESTIONS: &str = "Questions";

/// Loads, asks, and fills a column.
///
/// # Errors
/// When the server fails or answers wrongly.
pub fn run(
    store: &mut dyn TimeseriesTarget,
    layout: Layout,
    plan: &Plan,
) -> anyhow::Result<TargetReport> {
    let mut report = store.report()?;
    report.name = format!("{} {}", report.name, layout.name());
    store.drop_all()?;
    store.create(layout, &plan.readings)?;
    load(store, plan, &mut report)?;
    settle(store, plan, &mut report)?;
    let mut processor = Vec::new();
    for question in &plan.questions {
        let repeats = plan.repeats;
        let row = measure::ask(store, DATABASE, QUESTIONS, question, repeats, &mut report)?;
        processor.extend(row);
    }
    processor.into_iter().for_each(|row| report.add(row));
    if let Some(bytes) = store.observe().and_then(|seen| seen.memory_bytes) {
        let row = Measure::megabytes(STORAGE, "memory after the questions", bytes);
        report.add(row.noted("all processes, shared pages once"));
    }
    store.drop_all()?;
    Ok(report)
}

fn load(
    store: &mut dyn TimeseriesTarget,
    plan: &Plan,
    report: &mut TargetReport,
) -> anyhow::Result<()> {
    let before = store.processor_seconds();
    let load = store.load(&plan.readings)?;
    let spent = store.processor_seconds().zip(before);
    let total = plan.readings.total();
    ensure!(
        load.documents == u64::from(total),
        "{}: loaded {} of {total} readings",
        report.name,
        load.documents
    );
    let rate = load.rate();
    report.add(Measure::single(
        LOAD,
        "readings, with indexes",
        Unit::PerSecond,
        rate,
    ));
    if let Some((after, before)) = spent {
        let name = "server's processor time";
        let seconds = after - before;
        report.add(Measure::single(LOAD, name, Unit::Seconds, seconds));
    }
    let seen = store.observe();
    report.peak_during_load(seen.and_then(|seen| seen.memory_peak_bytes.max(seen.memory_bytes)));
    Ok(())
}

fn settle(
    store: &mut dyn TimeseriesTarget,
    plan: &Plan,
    report: &mut TargetReport,
) -> anyhow::Result<()> {
    store.settle(report)?;
    if let Some(megabytes) = report.median(STORAGE, "data + indexes") {
        let bytes = megabytes * 1e6 / f64::from(plan.readings.total());
        let name = "data + indexes, a reading";
        report.add(Measure::single(STORAGE, name, Unit::Bytes, bytes));
    }
    Ok(())
}
