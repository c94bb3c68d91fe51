//! One server with one setting of indexes, measured the same way on every store.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Context;

use super::ask::Access;
use super::index::Indexing;
use super::load_levels::{self, End, Level};
use super::requests::Wanted;
use super::session::Setting;
use super::statistics::Summary;
use super::{Load, Plan, RestaurantsTarget};
use crate::measure::{Measure, Series, Unit};
use crate::progress;
use crate::report::TargetReport;

/// The group of the level with the most requests a second of a ramp.
pub const RAMP: &str = "Ramp, best level";

/// Loads, builds the indexes, checks answers, asks, and fills a column. The inner error is the
/// server's refusal of the indexes.
///
/// # Errors
/// When the server fails or answers wrongly.
pub fn run(
    store: &mut dyn RestaurantsTarget,
    indexing: Indexing,
    plan: &Plan,
    report: &mut TargetReport,
) -> anyhow::Result<Result<(), String>> {
    store.drop_all()?;
    let load = store.load(plan)?;
    report.add(Measure::single(
        "Load",
        "load, without indexes",
        Unit::PerSecond,
        load.rate(),
    ));
    let spinner = progress::spinner(&format!("{}: building the indexes", report.name));
    let started = Instant::now();
    if let Err(refusal) = store.build_indexes(indexing)? {
        return Ok(Err(refusal));
    }
    let seconds = started.elapsed().as_secs_f64();
    spinner.finish_and_clear();
    report.add(Measure::single(
        "Load",
        "index build",
        Unit::Seconds,
        seconds,
    ));
    store.storage(report)?;
    let access = store.access(indexing)?;
    check_answers(&access, plan, report)?;
    let logs = plan.logs.path();
    std::fs::create_dir_all(logs).with_context(|| format!("cannot make {}", logs.display()))?;
    let names = logs.join(
        report
            .name
            .replace(|letter: char| !letter.is_ascii_alphanumeric(), "-"),
    );
    match &plan.load {
        Load::Ramp { .. } => ramp(store, &access, plan, &names, report)?,
        Load::Fixed(levels) => {
            let mut curves = Curves::default();
            for workers in levels {
                fixed(store, &access, *workers, plan, &names, report, &mut curves)?;
            }
            report.series.extend(curves.into_series());
        }
    }
    if let Some(bytes) = store.observe().and_then(|seen| seen.memory_bytes) {
        let row = Measure::megabytes("Storage", "memory after the requests", bytes);
        report.add(row.noted("all processes, shared pages once"));
    }
    store.drop_all()?;
    Ok(Ok(()))
}

fn check_answers(access: &Access, plan: &Plan, report: &mut TargetReport) -> anyhow::Result<()> {
    let mut asker = access.connect()?;
    for (number, request) in plan.answers.requests().enumerate() {
        let places = asker
            .ask(request)
            .with_context(|| format!("{}: {request:?}", report.name))?;
        plan.answers
            .check(number, &places)
            .with_context(|| report.name.clone())?;
        report.answers_checked += 1;
    }
    Ok(())
}

/// Runs sessions through `levels`, after one that only warms up; the same levels of all runs together.
fn levels_of_runs(
    store: &dyn RestaurantsTarget,
    access: &Access,
    plan: &Plan,
    levels: &[u32],
    names: &Path,
    name: &str,
) -> anyhow::Result<(Vec<Level>, End)> {
    let mut setting = Setting {
        access,
        seed: plan.seed,
        split: plan.split,
        run: 0,
        processes: plan.client_processes,
        logs: names.to_owned(),
    };
    let server_seconds = || store.processor_seconds();
    if !plan.warm_up.is_zero() {
        let spinner = progress::spinner(&format!("{name}: warming up"));
        let first = levels.iter().copied().take(1);
        load_levels::run(&setting, first, plan.warm_up, server_seconds, |_| ())?;
        spinner.finish_and_clear();
    }
    let mut all: Vec<Level> = Vec::new();
    let mut last = End::AllLevels;
    for run in 1..=plan.runs {
        setting.run = run.into();
        setting.logs = names.with_file_name(format!("{}-run-{run}", file_name(names)));
        let spinner = progress::spinner(&format!("{name}: run {run}"));
        let (of_run, end) = load_levels::run(
            &setting,
            levels.iter().copied(),
            plan.step,
            server_seconds,
            |level| {
                let rate = level.requests as f64 / plan.step.as_secs_f64();
                spinner.set_message(format!(
                    "{name}: run {run}: {} workers: {rate:.0}/s",
                    level.workers
                ));
            },
        )?;
        spinner.finish_and_clear();
        for level in of_run {
            match all.iter_mut().find(|other| other.workers == level.workers) {
                Some(same) => same.absorb(level),
                None => all.push(level),
            }
        }
        last = end;
    }
    Ok((all, last))
}

fn file_name(path: &Path) -> String {
    path.file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned()
}

fn fixed(
    store: &dyn RestaurantsTarget,
    access: &Access,
    workers: u32,
    plan: &Plan,
    names: &Path,
    report: &mut TargetReport,
    curves: &mut Curves,
) -> anyhow::Result<()> {
    let name = format!("{}: {workers} workers", report.name);
    let names = names.with_file_name(format!("{}-{workers}", file_name(names)));
    let (levels, end) = levels_of_runs(store, access, plan, &[workers], &names, &name)?;
    if let End::Failed(words) = end {
        anyhow::bail!("{name}: {words}");
    }
    let group = if workers == 1 {
        "1 worker".to_owned()
    } else {
        format!("{workers} workers")
    };
    for level in levels {
        add_rows(&group, curves.add(level), report);
    }
    Ok(())
}

fn ramp(
    store: &dyn RestaurantsTarget,
    access: &Access,
    plan: &Plan,
    names: &Path,
    report: &mut TargetReport,
) -> anyhow::Result<()> {
    let levels: Vec<u32> = plan.load.levels();
    let (levels, end) = levels_of_runs(store, access, plan, &levels, names, &report.name)?;
    let tried = levels.last().map_or(0, |level| level.workers);
    let mut curves = Curves::default();
    let seen: Vec<Figures> = levels.into_iter().map(|level| curves.add(level)).collect();
    let best = seen
        .into_iter()
        .filter(|figures| !figures.is_too_slow)
        .max_by(|one, other| one.rates.mean.total_cmp(&other.rates.mean));
    if let Some(best) = best {
        report.add(Measure::single(
            RAMP,
            "workers",
            Unit::Count,
            best.workers.into(),
        ));
        add_rows(RAMP, best, report);
    }
    let why = match end {
        End::AllLevels => "no more were to be tried".to_owned(),
        End::Slow => "more than 2 % of the requests took over 100 ms".to_owned(),
        End::Failed(words) => format!("a worker had to stop: {words}"),
    };
    let row = Measure::single(
        RAMP,
        "workers when the ramp ended",
        Unit::Count,
        tried.into(),
    );
    report.add(row.noted(format!("it ended there as {why}")));
    report.series.extend(curves.into_series());
    Ok(())
}

/// A level's figures.
struct Figures {
    workers: u32,
    is_too_slow: bool,
    rates: Summary,
    mean_ms: Option<f64>,
    p50_ms: Option<f64>,
    p98_ms: Option<f64>,
    kinds_p50_ms: Vec<Option<f64>>,
    server_ms: Option<f64>,
    client_us: f64,
}

/// Figures over the number of workers.
#[derive(Default)]
struct Curves([Vec<(f64, f64)>; 3]);

impl Curves {
    /// Works a level's figures out and notes them. A level too short to have a whole second has rate 0.
    fn add(&mut self, level: Level) -> Figures {
        let rates: Vec<f64> = level.window.rates().collect();
        let nothing = Summary {
            mean: 0.0,
            min: 0.0,
            max: 0.0,
            confidence: (0.0, 0.0),
        };
        let is_too_slow = level.is_too_slow();
        let requests = level.requests.max(1) as f64;
        let (all, kinds) = level.window.into_latencies();
        let figures = Figures {
            workers: level.workers,
            is_too_slow,
            rates: Summary::of(&rates).unwrap_or(nothing),
            mean_ms: all.mean_ms(),
            p50_ms: all.percentile_ms(0.5),
            p98_ms: all.percentile_ms(0.98),
            kinds_p50_ms: kinds.iter().map(|kind| kind.percentile_ms(0.5)).collect(),
            server_ms: level.server_seconds.map(|seconds| seconds * 1e3 / requests),
            client_us: level.client_seconds * 1e6 / requests,
        };
        let points = [Some(figures.rates.mean), figures.mean_ms, figures.p98_ms];
        for (curve, point) in self.0.iter_mut().zip(points) {
            curve.extend(point.map(|point| (f64::from(figures.workers), point)));
        }
        figures
    }

    fn into_series(self) -> impl Iterator<Item = Series> {
        let names = [
            ("Requests a second over workers", Unit::PerSecond),
            ("Mean latency over workers", Unit::Milliseconds),
            (
                "98th percentile of the latency over workers",
                Unit::Milliseconds,
            ),
        ];
        names
            .into_iter()
            .zip(self.0)
            .map(|((name, unit), points)| Series {
                name: name.into(),
                over: "workers".into(),
                unit,
                points,
            })
    }
}

fn add_rows(group: &str, figures: Figures, report: &mut TargetReport) {
    let Summary {
        mean,
        min,
        max,
        confidence: (from, to),
    } = figures.rates;
    for (name, rate) in [
        ("requests/s, mean", mean),
        ("requests/s, least second", min),
        ("requests/s, greatest second", max),
        ("requests/s, 95 % confidence, from", from),
        ("requests/s, 95 % confidence, to", to),
    ] {
        report.add(Measure::single(group, name, Unit::PerSecond, rate));
    }
    let kinds = Wanted::KINDS.iter().zip(figures.kinds_p50_ms);
    let latencies = [
        ("latency, mean".to_owned(), figures.mean_ms),
        ("latency, p50".to_owned(), figures.p50_ms),
        ("latency, p98".to_owned(), figures.p98_ms),
    ];
    let by_kind = kinds.map(|(kind, p50_ms)| (format!("latency, p50, {kind}"), p50_ms));
    for (name, latency_ms) in latencies.into_iter().chain(by_kind) {
        if let Some(latency_ms) = latency_ms {
            report.add(Measure::single(
                group,
                &name,
                Unit::Milliseconds,
                latency_ms,
            ));
        }
    }
    if let Some(server_ms) = figures.server_ms {
        let name = "server processor a request";
        report.add(Measure::single(group, name, Unit::Milliseconds, server_ms));
    }
    report.add(Measure::single(
        group,
        "client processor a request, µs",
        Unit::Count,
        figures.client_us,
    ));
}

/// How long a step lasts at least: its first and last second are left out.
pub const STEP_MIN: Duration = Duration::from_secs(3);
