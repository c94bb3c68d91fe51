//! Evaluation 1: an operations centre's map.
//!
//! 1,692,000 events with a place, three times and a number are loaded under a
//! validator and five secondary indexes, counted by time, number and area at
//! four zoom levels, fetched a page at a time, rolled up and aged out. Published
//! by a team that compared IBM's Intelligent Operations Center on DB2 with
//! MongoDB 3.4; see [`published`].

pub mod ageing;
pub mod dataset;
pub mod demonstrate;
pub mod document;
pub mod encode;
pub mod generator;
pub mod postgres;
pub mod published;
pub mod queries;
pub mod rectangle;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::Context;
use clap::Args;

use self::dataset::{Answers, Dataset};
use self::encode::Key;
use crate::arguments::RunArgs;
use crate::load::BATCH;
use crate::machine::Machine;
use crate::measure::Repeats;
use crate::progress;
use crate::report::{self, Report, TargetReport};
use crate::size::ByteSize;
use crate::targets::{Journal, LaunchOptions, Server, TargetName};

/// The suite's full name.
const TITLE: &str = "Evaluation 1, weather: an operations centre's map";

/// `--help` of the suite.
pub const LONG_ABOUT: &str = "An operations centre's map: 1,692,000 events with a place and times.\n\n\
Loads the same seeded events into every target, with a validator and five secondary indexes, and measures \
ingest, storage, counts by date, number and area (four zoom levels), pages of 5,000, roll-ups and ageing. \
Answers are checked against the generator's own. Published figures of the original evaluation are printed \
beside ours for orientation; a result is a ratio between targets of one run.";

const CACHE_DEFAULT: ByteSize = ByteSize(4 << 30);
/// No query is repeated for longer than this, beyond three times.
const PATIENCE: Duration = Duration::from_secs(30);

/// Arguments of `meridian bench weather`.
#[derive(Debug, Args)]
pub struct WeatherArgs {
    /// Servers, data and reports
    #[command(flatten)]
    pub run: RunArgs,

    /// Events in all, spread over 40 days
    #[arg(long, value_name = "N", default_value_t = rectangle::EVENTS_PUBLISHED, value_parser = clap::value_parser!(u64).range(1000..=16_000_000))]
    pub events: u64,

    /// Timed runs of each query, after one that is not timed
    #[arg(long, value_name = "N", default_value_t = 7, value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub runs: u16,

    /// What a document's `_id` is: `indexnum` saves one index
    #[arg(long, value_enum, default_value_t = Key::ObjectId)]
    pub key: Key,

    /// Leave out the ageing tests, which wait for the servers' sweeps
    #[arg(long)]
    pub skip_ageing: bool,

    /// Write the events as CSV (as `meridian import` takes it) and measure nothing
    #[arg(long, value_name = "FILE", conflicts_with_all = ["json", "html"])]
    pub write_csv: Option<PathBuf>,

    /// With --write-csv: put mongoimport's types into the header
    #[arg(long, requires = "write_csv")]
    pub typed_header: bool,
}

/// What a run does, the same for every target.
#[derive(Debug, Clone, Copy)]
pub struct Plan {
    /// The data.
    pub dataset: Dataset,
    /// The right answers.
    pub answers: Answers,
    /// How often each query is timed.
    pub repeats: Repeats,
    /// Whether ageing is tested.
    pub ageing: bool,
}

impl Plan {
    /// Works out the right answers for a data set.
    pub fn new(dataset: Dataset, runs: usize, ageing: bool) -> Self {
        let spinner = progress::spinner("generating the events and the right answers");
        let answers = dataset.answers();
        spinner.finish_and_clear();
        Self {
            dataset,
            answers,
            repeats: Repeats {
                runs,
                patience: PATIENCE,
            },
            ageing,
        }
    }
}

/// Runs the suite on every target and reports.
///
/// # Errors
/// When a target fails, or answers wrongly.
pub fn run(args: WeatherArgs) -> anyhow::Result<()> {
    let dataset = Dataset {
        events: args.events,
        seed: args.run.seed,
        key: args.key,
    };
    if let Some(path) = &args.write_csv {
        return write_csv(&dataset, path, args.typed_header);
    }
    let plan = Plan::new(dataset, args.runs.into(), !args.skip_ageing);
    let options = args.run.launch_options(CACHE_DEFAULT, Journal::On);
    let mut targets = Vec::with_capacity(args.run.targets.len());
    for (server, target) in args.run.targets.iter().enumerate() {
        let mut column = run_target(target, &options, &plan)?;
        column.server = server;
        targets.push(column);
    }
    args.run.publish(&Report {
        suite: "weather",
        title: TITLE,
        machine: Machine::read(),
        parameters: parameters(&args, &plan),
        targets,
        remarks: Vec::new(),
        published: published::PUBLISHED,
    })
}

fn run_target(
    target: &TargetName,
    options: &LaunchOptions,
    plan: &Plan,
) -> anyhow::Result<TargetReport> {
    match Server::start(target, options)? {
        Server::Document(server) => document::run(&server, plan),
        Server::Postgres(mut server) => postgres::run(&mut server, plan),
    }
}

fn parameters(args: &WeatherArgs, plan: &Plan) -> Vec<(String, String)> {
    let Answers {
        date,
        number,
        number_wide,
        zooms,
        bson_bytes,
    } = plan.answers;
    [
        ("events", report::grouped(args.events as f64, 0)),
        ("seed", args.run.seed.to_string()),
        ("BSON", format!("{:.1} MB", bson_bytes as f64 / 1e6)),
        ("batch", format!("{} events, 1 client", BATCH)),
        ("timed runs", format!("{} after one untimed (no new one after 30 s and 3 runs)", args.runs)),
        ("cache of each server", args.run.cache(CACHE_DEFAULT).to_string()),
        ("key", format!("{:?}", args.key).to_lowercase()),
        ("date range matches", report::grouped(date as f64, 0)),
        ("number ranges match", format!("{number} and {}", report::grouped(number_wide as f64, 0))),
        ("areas match", zooms.map(|matches| report::grouped(matches as f64, 0)).join(", ")),
        (
            "edges",
            "no event lies between an edge read as a great circle (MongoDB) and as a straight line (PostGIS), \
             so answers must be equal"
                .into(),
        ),
    ]
    .into_iter()
    .map(|(name, value)| (name.to_owned(), value))
    .collect()
}

/// Writes the events as CSV.
///
/// # Errors
/// When the file cannot be written.
pub fn write_csv(dataset: &Dataset, path: &Path, typed_header: bool) -> anyhow::Result<()> {
    let started = Instant::now();
    let file =
        std::fs::File::create(path).with_context(|| format!("cannot write {}", path.display()))?;
    let mut out = std::io::BufWriter::with_capacity(1 << 20, file);
    writeln!(
        out,
        "{}",
        if typed_header {
            encode::CSV_TYPED_HEADER
        } else {
            encode::CSV_HEADER
        }
    )?;
    let bar = progress::bar(dataset.events, "writing events");
    for event in dataset.generate() {
        encode::csv_line(&event, &mut out)?;
        bar.inc(1);
    }
    out.into_inner()?.sync_all()?;
    bar.finish_and_clear();
    progress::say(&format!(
        "{} events in {:.1} s: {}",
        report::grouped(dataset.events as f64, 0),
        started.elapsed().as_secs_f64(),
        path.display()
    ));
    Ok(())
}
