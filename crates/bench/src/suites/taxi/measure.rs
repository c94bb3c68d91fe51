//! One layout on one server, measured the same way on every store.

use std::time::{Duration, Instant};

use anyhow::{Context, ensure};

use super::layout::Layout;
use super::questions::{Question, check_sample};
use super::{Plan, TaxiTarget};
use crate::measure::{Measure, Unit, time_runs};
use crate::process::drop_file_cache;
use crate::progress;
use crate::report::TargetReport;

/// The group of the rows that answer with trips.
pub const QUERIES: &str = "Queries";
/// The group of the rows about loading.
pub const LOAD: &str = "Load";

/// Loads, asks, and fills a column.
///
/// # Errors
/// When the server fails or answers wrongly.
pub fn run<S: TaxiTarget>(
    store: &mut S,
    layout: Layout,
    plan: &Plan,
) -> anyhow::Result<TargetReport> {
    let mut report = store.report()?;
    let name = format!("{} {}", report.name, layout.letter());
    store.drop_all()?;
    load(store, layout, plan, &name, &mut report)?;
    store.storage(&mut report)?;
    counts(store, layout, plan, &name, &mut report)?;
    let ways = warm(store, layout, plan, &name, &mut report)?;
    if let Some(bytes) = store.observe().and_then(|seen| seen.memory_bytes) {
        let row = Measure::megabytes("Storage", "memory after the warm queries", bytes);
        report.add(row.noted("all processes, shared pages once"));
    }
    cold(store, &ways, plan, &name, &mut report)?;
    store.drop_all()?;
    Ok(report)
}

fn load<S: TaxiTarget>(
    store: &mut S,
    layout: Layout,
    plan: &Plan,
    name: &str,
    report: &mut TargetReport,
) -> anyhow::Result<()> {
    let load = store.load(plan, layout)?;
    plan.trips.check_read()?;
    let total = plan.trips.total();
    ensure!(
        load.documents == u64::from(total),
        "{name}: loaded {} of {total} trips",
        load.documents
    );
    report.add(Measure::single(
        LOAD,
        "load, without indexes",
        Unit::PerSecond,
        load.rate(),
    ));
    let spinner = progress::spinner(&format!("{name}: building the indexes"));
    let started = Instant::now();
    store.build_indexes(layout)?;
    let index_seconds = started.elapsed().as_secs_f64();
    spinner.finish_and_clear();
    let seconds = [
        ("load", load.seconds),
        ("index build", index_seconds),
        ("load + indexes", load.seconds + index_seconds),
    ];
    for (name, seconds) in seconds {
        report.add(Measure::single(LOAD, name, Unit::Seconds, seconds));
    }
    let seen = store.observe();
    report.peak_during_load(seen.and_then(|seen| seen.memory_peak_bytes.max(seen.memory_bytes)));
    Ok(())
}

fn counts<S: TaxiTarget>(
    store: &mut S,
    layout: Layout,
    plan: &Plan,
    name: &str,
    report: &mut TargetReport,
) -> anyhow::Result<()> {
    for question in &plan.questions {
        let label = question.label;
        let spinner = progress::spinner(&format!("{name}: counting {label}"));
        let mut found = 0;
        let samples = time_runs(plan.repeats, || {
            found = store.count(question, layout)?;
            Ok(())
        })?;
        spinner.finish_and_clear();
        report.add(Measure::new("Counts", label, Unit::Milliseconds, samples));
        report.answer(&format!("count, {label}"), found, question.matches)?;
    }
    Ok(())
}

/// The way to ask each question that was fastest, for the cold runs.
type Ways<S> = Vec<(&'static str, <S as TaxiTarget>::Way)>;

fn warm<S: TaxiTarget>(
    store: &mut S,
    layout: Layout,
    plan: &Plan,
    name: &str,
    report: &mut TargetReport,
) -> anyhow::Result<Ways<S>> {
    let spinner = progress::spinner(&format!("{name}: reading every trip once"));
    store.read_all()?;
    spinner.finish_and_clear();
    let mut best_ways = Vec::new();
    for question in plan.questions.iter().filter(|question| question.sampled) {
        let label = question.label;
        let spinner = progress::spinner(&format!("{name}: {label}, warm"));
        let (way_name, way) = fastest(store, question, layout, plan)?;
        let returned = store.look(&way, layout)?;
        let uneven = check_sample(question, plan.limit.into(), &returned)
            .with_context(|| format!("{name}, {way_name}"))?;
        report.answers_checked += 1;
        // Only the time within the server counts; opening a connection does not.
        let mut times = Vec::new();
        time_runs(plan.repeats, || {
            times.push(store.fetch(&way)?.as_secs_f64() * 1e3);
            Ok(())
        })?;
        times.remove(0);
        spinner.finish_and_clear();
        let row = Measure::new(
            QUERIES,
            &format!("{label}, warm"),
            Unit::Milliseconds,
            times,
        );
        report.add(row.noted(match uneven {
            None => format!("by {way_name}"),
            Some(uneven) => format!("by {way_name}; {uneven}"),
        }));
        best_ways.push((label, way));
    }
    Ok(best_ways)
}

/// The way that was fastest, asked twice each.
fn fastest<S: TaxiTarget>(
    store: &mut S,
    question: &Question,
    layout: Layout,
    plan: &Plan,
) -> anyhow::Result<(String, S::Way)> {
    let mut ways = store.ways(question, layout, plan);
    if ways.len() == 1 {
        return ways.pop().context("one way");
    }
    let mut best: Option<(Duration, String, S::Way)> = None;
    let tried: Vec<String> = ways.iter().map(|(name, _)| name.clone()).collect();
    for (name, way) in ways {
        let time = store.fetch(&way)?.min(store.fetch(&way)?);
        if best.as_ref().is_none_or(|(least, ..)| time < *least) {
            best = Some((time, name, way));
        }
    }
    let (_, name, way) = best.context("there is at least one way")?;
    let others: Vec<String> = tried.into_iter().filter(|other| *other != name).collect();
    Ok((format!("{name} (slower: {})", others.join("; ")), way))
}

fn cold<S: TaxiTarget>(
    store: &mut S,
    ways: &Ways<S>,
    plan: &Plan,
    name: &str,
    report: &mut TargetReport,
) -> anyhow::Result<()> {
    for (label, way) in ways {
        let spinner = progress::spinner(&format!("{name}: {label}, cold"));
        let mut samples = Vec::new();
        let mut dropped = true;
        for _ in 0..plan.cold_runs {
            if !store.restart(&mut || dropped &= drop_file_cache())? {
                progress::say(&format!("{name}: not ours to restart, so no cold runs"));
                return Ok(());
            }
            samples.push(store.fetch(way)?.as_secs_f64() * 1e3);
        }
        spinner.finish_and_clear();
        if samples.is_empty() {
            return Ok(());
        }
        let row_name = format!("{label}, cold");
        let row = Measure::new(QUERIES, &row_name, Unit::Milliseconds, samples);
        report.add(row.noted(if dropped {
            "first query after the server was stopped, the file cache dropped and the server started"
        } else {
            "first query after a restart; this machine does not let us drop the file cache"
        }));
    }
    Ok(())
}
