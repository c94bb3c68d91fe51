//! One load, measured the same way on every store: inserts, range queries meanwhile, checks.

use std::sync::atomic::Ordering;
use std::time::Duration;

use anyhow::Context;

use super::answers::{PAGE, RANGES};
use super::encode::DOCUMENT_BYTES;
use super::reader::{Progress, read_meanwhile};
use super::recorder::Recorder;
use super::{IndexingTarget, Kind, Plan};
use crate::load::Load;
use crate::measure::{Measure, Series, Unit};
use crate::progress;
use crate::report::TargetReport;
use crate::targets::{Journal, ResourceUse};

/// Whether a second thread asks while documents are inserted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Queries {
    /// Inserts alone.
    None,
    /// A range query every few seconds.
    Meanwhile,
}

/// One load: how it is done.
#[derive(Debug, Clone, Copy)]
pub struct Pass {
    /// Whether a second thread asks.
    pub queries: Queries,
    /// Whether the server writes a journal.
    pub journal: Journal,
}

impl Pass {
    /// The group of its rows.
    fn group(self) -> &'static str {
        match (self.queries, self.journal) {
            (Queries::None, Journal::On) => "Part 1: inserts alone",
            (Queries::None, Journal::Off) => "Part 1: inserts alone, no journal",
            (Queries::Meanwhile, Journal::On) => "Parts 2 and 3: inserts with range queries",
            (Queries::Meanwhile, Journal::Off) => {
                "Parts 2 and 3: inserts with range queries, no journal"
            }
        }
    }
}

/// What a load left behind beside its rows.
struct Outcome {
    load: Load,
    recorder: Recorder,
    queries: Vec<(f64, f64)>,
    memory_bytes: Option<u64>,
}

/// Loads, checks, and adds all rows but those of the storage.
///
/// # Errors
/// When the server fails or answers wrongly.
pub fn measure(
    store: &mut dyn IndexingTarget,
    kind: Kind,
    pass: Pass,
    plan: &Plan,
    report: &mut TargetReport,
) -> anyhow::Result<()> {
    let before = store.observe().and_then(|seen| seen.written_bytes);
    let what = match pass.queries {
        Queries::None => "inserts alone",
        Queries::Meanwhile => "inserts with queries",
    };
    let what = format!("{}, {what}", kind.label());
    let mut outcome = load_and_read(store, kind, pass.queries, plan, &what)?;
    add_rates(&mut outcome, pass, report);
    let spinner = progress::spinner(&format!("{}: coming to rest", report.name));
    store.flush()?;
    spinner.finish_and_clear();
    let after = store.observe().and_then(|seen| seen.written_bytes);
    add_written(before, after, pass, plan, report);
    check(store, kind, plan, report)?;
    if pass.queries == Queries::Meanwhile {
        query_at_rest(store, kind, pass, plan, report)?;
    }
    Ok(())
}

fn load_and_read(
    store: &dyn IndexingTarget,
    kind: Kind,
    queries: Queries,
    plan: &Plan,
    what: &str,
) -> anyhow::Result<Outcome> {
    let progress = Progress::default();
    let mut pages = store.pages(kind)?;
    let mut recorder = Recorder::new(plan.window);
    let mut memory_bytes = None;
    let (load, queries) = std::thread::scope(|scope| {
        let reader = (queries == Queries::Meanwhile)
            .then(|| scope.spawn(|| read_meanwhile(pages.as_mut(), &progress, plan)));
        let load = store.insert(plan, what, &mut |documents, wait| {
            let inserted = documents as u64;
            progress.documents.fetch_add(inserted, Ordering::Release);
            if recorder.inserted(documents, wait) {
                let seen = store.observe();
                let most = |seen: ResourceUse| seen.memory_bytes.max(seen.memory_peak_bytes);
                memory_bytes = memory_bytes.max(seen.and_then(most));
            }
        });
        progress.ended.store(true, Ordering::Release);
        let queries = reader.map(|reader| reader.join().expect("the reader does not panic"));
        (load, queries)
    });
    Ok(Outcome {
        load: load?,
        recorder,
        queries: queries
            .transpose()
            .context("range query")?
            .unwrap_or_default(),
        memory_bytes,
    })
}

fn add_rates(outcome: &mut Outcome, pass: Pass, report: &mut TargetReport) {
    let group = pass.group();
    report.add(Measure::single(
        group,
        "whole run",
        Unit::PerSecond,
        outcome.load.rate(),
    ));
    let rates = outcome.recorder.rates().to_vec();
    let ends = [
        ("first window", rates.first()),
        ("exit rate (last window)", rates.last()),
    ];
    for (name, rate) in ends {
        if let Some((_, rate)) = rate {
            report.add(Measure::single(group, name, Unit::PerSecond, *rate));
        }
    }
    let waits = [
        ("longest wait of an insert", 1.0),
        ("99 % of inserts wait at most", 0.99),
    ];
    for (name, share) in waits {
        if let Some(wait_ms) = outcome.recorder.wait_ms(share) {
            report.add(Measure::single(group, name, Unit::Milliseconds, wait_ms));
        }
    }
    report.series.push(Series {
        name: format!("Insert rate, {}", group.to_lowercase()),
        over: "documents".into(),
        unit: Unit::PerSecond,
        points: rates,
    });
    if let Some(bytes) = outcome.memory_bytes {
        report.add(Measure::megabytes(
            group,
            "most memory during the load",
            bytes,
        ));
    }
    add_queries(&outcome.queries, pass, report);
}

fn add_queries(samples: &[(f64, f64)], pass: Pass, report: &mut TargetReport) {
    if pass.queries == Queries::None {
        return;
    }
    let name = "range query during the load";
    let times = samples
        .iter()
        .map(|(_, milliseconds)| *milliseconds)
        .collect();
    let row = Measure::new(pass.group(), name, Unit::Milliseconds, times);
    let note = match samples.len() {
        0 => "the load ended before the first query: shorten --query-seconds".to_owned(),
        queries => format!("{queries} queries"),
    };
    report.add(row.noted(note));
    report.series.push(Series {
        name: "Range query during the load".into(),
        over: "documents".into(),
        unit: Unit::Milliseconds,
        points: samples.to_vec(),
    });
}

fn add_written(
    before: Option<u64>,
    after: Option<u64>,
    pass: Pass,
    plan: &Plan,
    report: &mut TargetReport,
) {
    let (Some(before), Some(after)) = (before, after) else {
        return;
    };
    let written = after.saturating_sub(before) as f64;
    let amplification = written / (f64::from(plan.docs) * DOCUMENT_BYTES as f64);
    report.add(Measure::single(
        pass.group(),
        "write amplification",
        Unit::Times,
        amplification,
    ));
}

/// All documents are there, on every index, and the URI index has them in order.
fn check(
    store: &mut dyn IndexingTarget,
    kind: Kind,
    plan: &Plan,
    report: &mut TargetReport,
) -> anyhow::Result<()> {
    for (range, expected) in RANGES.iter().zip(plan.answers.counts) {
        let found = store.count(*range)?;
        report.answer(&format!("count of {range:?}"), found, expected)?;
    }
    let (_, uris) = store.pages(kind)?.page(&plan.answers.start)?;
    let right = uris.iter().zip(&plan.answers.page).filter(|(a, b)| a == b);
    let what = "documents of the range query in their places";
    report.answer(what, right.count() as u64, plan.answers.page.len() as u64)?;
    report.answer(
        "documents of the range query",
        uris.len() as u64,
        PAGE.min(plan.answers.page.len()) as u64,
    )
}

fn query_at_rest(
    store: &dyn IndexingTarget,
    kind: Kind,
    pass: Pass,
    plan: &Plan,
    report: &mut TargetReport,
) -> anyhow::Result<()> {
    let mut pages = store.pages(kind)?;
    let mut starts = super::generator::Starts::new(plan.seed ^ 2);
    let mut times = Vec::new();
    let mut spent = Duration::ZERO;
    for run in 0..=plan.repeats.runs {
        let (took, _) = pages.page(&starts.draw())?;
        spent += took;
        if run > 0 {
            times.push(took.as_secs_f64() * 1e3);
        }
        if run >= 3 && spent > plan.repeats.patience {
            break;
        }
    }
    let name = "range query after the load";
    report.add(Measure::new(pass.group(), name, Unit::Milliseconds, times));
    Ok(())
}
