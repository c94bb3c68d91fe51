//! Readings of sensors with places, one a minute from each: written as they come, and asked about.
//!
//! No evaluation published it; its data are of the shape of the Time Series Benchmark Suite's. Each
//! [`layout`] has a server and a directory of its own. [`generator`] makes the readings; [`questions`] are
//! about what [`asked`] names, and [`answers`] knows the right answers; [`measure`] measures one layout, the same way on every [`TimeseriesTarget`]; [`document`] and [`postgres`]
//! are the stores.

pub mod answers;
pub mod asked;
pub mod document;
pub mod generator;
pub mod layout;
pub mod measure;
pub mod postgres;
pub mod questions;

use std::time::Duration;

use anyhow::ensure;
use clap::{Args, ValueEnum};

use self::asked::Asked;
use self::generator::{READINGS_EACH, Readings};
use self::layout::Layout;
use crate::arguments::{RunArgs, scale};
use crate::load::{BATCH, Load};
use crate::machine::Machine;
use crate::measure::Repeats;
use crate::progress;
use crate::questions::{Question, QuestionTarget};
use crate::report::{Published, Report, TargetReport, grouped};
use crate::seeded::Size;
use crate::size::ByteSize;
use crate::targets::{Journal, LaunchOptions, Server, TargetName};

/// `--help` of the suite.
pub const LONG_ABOUT: &str = "Readings of sensors with places: ingest, disk, last readings, averages, downsampling.\n\n\
Loads the same seeded readings into every target in each layout that it has: at full size 2,000 of each of 10,000 \
sensors, one a minute, in the order of time, with the indexes in place. Meridian and mongod have them as a time series \
(the sensor with its model and place is the metaField) and as a plain collection; PostgreSQL, which has the sensors in \
a table of their own, under a BRIN index on the time and partitioned by six hours. Then it asks for the last reading of \
each sensor, one sensor's readings of a day, hourly averages of a day in an area of the map (one degree by one, 1 % of \
the sensors), each sensor's average, least and greatest temperature of each of six hours, the highest temperature of an \
hour, and the number of readings of a day. Every answer is compared, row by row, with the generator's own; averages to \
six decimals. A result is a ratio between targets of one run.";

/// The database, or the schema, of a run.
const DATABASE: &str = "meridian_bench_timeseries";
const CACHE_DEFAULT: ByteSize = ByteSize(4 << 30);
/// No question is repeated for longer than this, beyond three times.
const PATIENCE: Duration = Duration::from_secs(30);

/// Arguments of `meridian bench timeseries`.
#[derive(Debug, Args)]
pub struct TimeseriesArgs {
    /// Servers, data and reports
    #[command(flatten)]
    pub run: RunArgs,

    /// How many sensors: 1 is the full size, 10,000 with 20 million readings; at least 20
    #[arg(long, value_name = "X", default_value_t = 1.0, value_parser = scale)]
    pub scale: f64,

    /// Layouts, several with a comma [default: all that a server has]
    #[arg(
        long = "layout",
        value_name = "LAYOUTS",
        value_enum,
        value_delimiter = ','
    )]
    pub layouts: Vec<Layout>,

    /// Timed runs of each question, after two that are not timed
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub runs: u16,
}

/// What a run does, the same for every target.
pub struct Plan {
    /// The data.
    pub readings: Readings,
    /// What is asked, with the right answers.
    pub questions: Vec<Question>,
    /// How often each question is timed.
    pub repeats: Repeats,
}

impl Plan {
    fn new(args: &TimeseriesArgs) -> Self {
        let spinner = progress::spinner("working out the right answers");
        let readings = Readings::new(Size {
            seed: args.run.seed,
            scale: args.scale,
        });
        let questions = questions::questions(&readings);
        spinner.finish_and_clear();
        Self {
            readings,
            questions,
            repeats: Repeats {
                runs: args.runs.into(),
                patience: PATIENCE,
            },
        }
    }
}

/// A server with the readings in one layout.
pub trait TimeseriesTarget: QuestionTarget {
    /// Makes the empty collection or tables with their indexes, and the sensors where they are apart.
    ///
    /// # Errors
    /// The server's.
    fn create(&mut self, layout: Layout, readings: &Readings) -> anyhow::Result<()>;

    /// Loads all readings in the order of time.
    ///
    /// # Errors
    /// When a batch is not taken whole.
    fn load(&mut self, readings: &Readings) -> anyhow::Result<Load>;

    /// Waits until the server has come to rest and adds what everything takes on disk.
    ///
    /// # Errors
    /// The server's.
    fn settle(&mut self, report: &mut TargetReport) -> anyhow::Result<()>;

    /// Drops what a run made.
    ///
    /// # Errors
    /// The server's.
    fn drop_all(&mut self) -> anyhow::Result<()>;
}

fn start(
    target: &TargetName,
    options: &LaunchOptions,
) -> anyhow::Result<Box<dyn TimeseriesTarget>> {
    Ok(match Server::start(target, options)? {
        Server::Document(server) => server,
        Server::Postgres(server) => server,
    })
}

/// Runs the suite on every target and reports.
///
/// # Errors
/// When a target fails, or answers wrongly, and when no target has the layouts.
pub fn run(args: TimeseriesArgs) -> anyhow::Result<()> {
    let servers = args.run.targets.iter().enumerate();
    let columns: Vec<_> = servers
        .flat_map(|(server, target)| {
            let layouts = layouts(&args, target).into_iter();
            layouts.map(move |layout| (server, target, layout))
        })
        .collect();
    ensure!(!columns.is_empty(), "no target has the layouts");
    let plan = Plan::new(&args);
    let options = args.run.launch_options(CACHE_DEFAULT, Journal::On);
    let mut targets = Vec::new();
    for (server, target, layout) in columns {
        let mut store = start(target, &options)?;
        let mut column = measure::run(store.as_mut(), layout, &plan)?;
        column.server = server;
        targets.push(column);
    }
    args.run.publish(&Report {
        suite: "timeseries",
        title: "Time series: readings of sensors with places",
        machine: Machine::read(),
        parameters: parameters(&args, &plan),
        targets,
        remarks: REMARKS.map(str::to_owned).to_vec(),
        published: Published {
            legend: "What is asked is our own choice, so there are no published figures",
            columns: &[],
            rows: &[],
        },
    })
}

const REMARKS: [&str; 5] = [
    "times include fetching the whole answer raw over a plain socket; PostgreSQL's is fetched by a binary COPY",
    "a document carries its sensor with model and place, and an _id; PostgreSQL keeps a sensor once, and its rows refer to it by number",
    "PostgreSQL takes each 1,000 rows by a binary COPY of their own, committed with synchronous_commit off; it has 512 MB of work_mem",
    "time series have granularity minutes; their index on the place is of buckets, that of plain collections has the time too",
    "plain collections have no index on the time alone",
];

fn layouts(args: &TimeseriesArgs, target: &TargetName) -> Vec<Layout> {
    let wanted = |layout: &Layout| args.layouts.is_empty() || args.layouts.contains(layout);
    let layouts = Layout::value_variants().iter().copied();
    layouts
        .filter(|layout| layout.fits(target) && wanted(layout))
        .collect()
}

fn parameters(args: &TimeseriesArgs, plan: &Plan) -> Vec<(String, String)> {
    let readings = &plan.readings;
    let sensors = readings.sensors().len();
    [
        (
            "readings",
            format!(
                "{}: {} of each of {} sensors, one a minute",
                grouped(readings.total().into(), 0),
                grouped(READINGS_EACH.into(), 0),
                grouped(sensors as f64, 0)
            ),
        ),
        ("scale", args.scale.to_string()),
        ("seed", args.run.seed.to_string()),
        ("batch", format!("{BATCH} readings, unordered, 1 client")),
        (
            "timed runs",
            format!(
                "{} after two untimed (no new one after 30 s and 3 runs)",
                args.runs
            ),
        ),
        (
            "cache of each server",
            args.run.cache(CACHE_DEFAULT).to_string(),
        ),
        (
            "area",
            format!(
                "one degree by one with {} of the sensors",
                Asked::of(readings).sensors_in_area(readings)
            ),
        ),
        (
            "indexes",
            "sensor and time; place; PostgreSQL: also BRIN on the time, or partitions of 6 hours"
                .into(),
        ),
    ]
    .into_iter()
    .map(|(name, value)| (name.to_owned(), value))
    .collect()
}
