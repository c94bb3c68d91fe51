//! One question on one server: its answer checked, its time and the server's processor time taken.

use anyhow::ensure;

use super::{Question, QuestionTarget};
use crate::measure::{Measure, Repeats, Unit, time_runs};
use crate::progress;
use crate::report::TargetReport;

/// The group of the rows about processor time.
const PROCESSOR: &str = "Server's processor time a question";
const PROCESSOR_NOTE: &str = "mean of the runs, in ticks of 10 ms; PostgreSQL's without the workers of parallel plans, which end with the question";

/// Checks the answer and times it: the row of the server's processor time.
///
/// # Errors
/// When the server fails or answers wrongly.
pub fn ask<S: QuestionTarget + ?Sized>(
    store: &mut S,
    database: &str,
    group: &str,
    question: &Question,
    repeats: Repeats,
    report: &mut TargetReport,
) -> anyhow::Result<Option<Measure>> {
    let label = question.label;
    let spinner = progress::spinner(&format!("{}: {label}", report.name));
    let found = store.look(database, question)?;
    ensure!(
        found.agrees_with(question.expected),
        "{}: {}, {label}: answered {found}, right is {}",
        report.name,
        group,
        question.expected
    );
    report.answers_checked += 1;
    // Only the time within the server and of its replies counts; opening a connection does not.
    let mut times = Vec::new();
    let before = store.processor_seconds();
    time_runs(repeats, || {
        times.push(store.fetch(database, question)?.as_secs_f64() * 1e3);
        Ok(())
    })?;
    let spent = store.processor_seconds().zip(before);
    let spent_ms = spent.map(|(after, before)| (after - before) * 1e3 / times.len() as f64);
    times.remove(0);
    spinner.finish_and_clear();
    report.add(Measure::new(group, label, Unit::Milliseconds, times));
    Ok(spent_ms.map(|spent_ms| {
        let row = Measure::single(PROCESSOR, label, Unit::Milliseconds, spent_ms);
        row.noted(PROCESSOR_NOTE)
    }))
}
