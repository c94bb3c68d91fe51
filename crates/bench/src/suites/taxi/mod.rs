//! Evaluation 2: exploring a year of New York's taxi trips in a browser.
//!
//! The page shows at most a fixed number of trips that must look like a random
//! sample of what matches: a week, February, everything, one medallion. Published
//! by a team that laid the data out in three ways to get there; see [`layout`]
//! and [`published`]. Here every layout is measured on the servers that need it,
//! cold and warm, beside Meridian on the plain one.
//!
//! Each layout has a server and a directory of its own. [`measure`] measures one,
//! the same way on every [`Store`]; [`document`] and [`postgres`] are the stores.

pub mod demand;
pub mod document;
pub mod layout;
pub mod measure;
pub mod postgres;
pub mod published;
pub mod questions;
pub mod trip;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::ensure;
use clap::Args;

use self::layout::Layout;
use self::questions::{Answers, Question, Returned};
use self::trip::Trips;
use crate::arguments::RunArgs;
use crate::load::Load;
use crate::machine::Machine;
use crate::measure::Repeats;
use crate::progress;
use crate::report::{Report, TargetReport, grouped};
use crate::size::ByteSize;
use crate::targets::{Journal, Observation, Server, TargetName};

/// `--help` of the suite.
pub const LONG_ABOUT: &str = "A year of New York's taxi trips, explored in a browser that shows a random sample.\n\n\
Loads the same seeded trips into every target, in each layout that it needs (A: dates as dates, in time order; B: \
milliseconds and a stored random number to sort by; C: as B, loaded in shuffled order; Meridian needs A only, which it \
samples by rank), builds the indexes, and fetches up to 50,000 trips of a week, of February, of everything and of one \
medallion, warm and cold (server stopped, file cache dropped where the machine allows it, server started). Where there \
are several ways to ask, the fastest counts and is named. Counts are checked against the generator's, samples for size, \
range and distinctness; one that is not spread as a random one would be is named. Published figures of the original evaluation are printed beside ours for orientation; a \
result is a ratio between targets of one run.";

const CACHE_DEFAULT: ByteSize = ByteSize(4 << 30);
/// No query is repeated for longer than this, beyond three times.
const PATIENCE: Duration = Duration::from_secs(30);

/// Arguments of `meridian bench taxi`.
#[derive(Debug, Args)]
pub struct TaxiArgs {
    /// Servers, data and reports
    #[command(flatten)]
    pub run: RunArgs,

    /// Trips in the year (published: 14.4 and 173 million)
    #[arg(long, value_name = "N", default_value_t = 3_000_000, value_parser = clap::value_parser!(u32).range(1000..=200_000_000))]
    pub trips: u32,

    /// Most trips that a query returns
    #[arg(long, value_name = "N", default_value_t = 50_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub limit: u32,

    /// Layouts, several with a comma [default: A for meridian; A, B and C for the others]
    #[arg(
        long = "layout",
        value_name = "LAYOUTS",
        value_enum,
        value_delimiter = ',',
        ignore_case = true
    )]
    pub layouts: Vec<Layout>,

    /// Timed warm runs of each query, after one that is not timed
    #[arg(long, value_name = "N", default_value_t = 7, value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub runs: u16,

    /// Cold runs of each query, each after a restart of the server; 0 leaves them out
    #[arg(long, value_name = "N", default_value_t = 3)]
    pub cold_runs: u16,

    /// The city's published trip records instead of generated trips (not implemented: refused)
    #[arg(long, value_name = "FILES", num_args = 1..)]
    pub parquet: Vec<PathBuf>,
}

/// What a run does, the same for every target.
#[derive(Debug)]
pub struct Plan {
    /// The data.
    pub trips: Trips,
    /// The right answers.
    pub answers: Answers,
    /// Most trips that a query returns.
    pub limit: u32,
    /// How often each query is timed warm.
    pub repeats: Repeats,
    /// How often each query is timed cold.
    pub cold_runs: u16,
}

impl Plan {
    fn new(args: &TaxiArgs) -> Self {
        let trips = Trips::new(args.trips, args.run.seed);
        let spinner = progress::spinner("generating the trips and the right answers");
        let answers = Answers::of(&trips);
        spinner.finish_and_clear();
        Self {
            trips,
            answers,
            limit: args.limit,
            repeats: Repeats {
                runs: args.runs.into(),
                patience: PATIENCE,
            },
            cold_runs: args.cold_runs,
        }
    }
}

/// A server with the trips' collection or table in one layout.
pub trait Store {
    /// A way to ask a question.
    type Way;

    /// An empty column with the server's name, version and settings.
    ///
    /// # Errors
    /// The server's.
    fn report(&mut self) -> anyhow::Result<TargetReport>;

    /// Makes the empty collection and loads all trips, without indexes.
    ///
    /// # Errors
    /// When a batch is not taken whole.
    fn load(&mut self, plan: &Plan, layout: Layout) -> anyhow::Result<Load>;

    /// Builds the layout's indexes.
    ///
    /// # Errors
    /// The server's.
    fn build_indexes(&mut self, layout: Layout) -> anyhow::Result<()>;

    /// Trips that match.
    ///
    /// # Errors
    /// The server's.
    fn count(&mut self, question: Question, layout: Layout) -> anyhow::Result<u64>;

    /// The ways to get a random sample, each with its name.
    fn ways(&self, question: Question, layout: Layout, plan: &Plan) -> Vec<(String, Self::Way)>;

    /// Fetches the trips raw and throws them away: how long it took.
    ///
    /// # Errors
    /// The server's.
    fn fetch(&mut self, way: &Self::Way) -> anyhow::Result<Duration>;

    /// Fetches the trips and looks at them.
    ///
    /// # Errors
    /// The server's.
    fn look(&mut self, way: &Self::Way, layout: Layout) -> anyhow::Result<Vec<Returned>>;

    /// Stops the server, runs `between`, starts it again; `false` when it is not ours.
    ///
    /// # Errors
    /// When it does not come back.
    fn restart(&mut self, between: &mut dyn FnMut()) -> anyhow::Result<bool>;

    /// Adds what the data takes on disk, once the server has come to rest.
    ///
    /// # Errors
    /// The server's.
    fn storage(&mut self, report: &mut TargetReport) -> anyhow::Result<()>;

    /// What the operating system says, when the server is ours.
    fn observe(&self) -> Option<Observation>;

    /// Drops what a run made.
    ///
    /// # Errors
    /// The server's.
    fn drop_all(&mut self) -> anyhow::Result<()>;
}

/// Runs the suite on every target and reports.
///
/// # Errors
/// When a target fails, or answers wrongly.
pub fn run(args: TaxiArgs) -> anyhow::Result<()> {
    ensure!(
        args.parquet.is_empty(),
        "--parquet is not implemented: the city's records of today have neither medallions nor positions, \
         which this evaluation asks for; leave it out to use generated trips"
    );
    let plan = Plan::new(&args);
    let mut targets = Vec::new();
    for (server, target) in args.run.targets.iter().enumerate() {
        for layout in layouts(&args, target) {
            let mut column = run_layout(&args, &plan, target, layout)?;
            column.name = format!("{} {}", column.name, layout.letter());
            column.server = server;
            targets.push(column);
        }
    }
    args.run.publish(&Report {
        suite: "taxi",
        title: "Evaluation 2, taxi: a year of trips, sampled for a browser",
        machine: Machine::read(),
        parameters: parameters(&args, &plan),
        targets,
        remarks: REMARKS.map(str::to_owned).to_vec(),
        published: published::PUBLISHED,
    })
}

const REMARKS: [&str; 2] = [
    "warm: the data is in the server's cache or the operating system's",
    "published figures are seconds; ours are milliseconds",
];

fn layouts(args: &TaxiArgs, target: &TargetName) -> Vec<Layout> {
    match target {
        _ if !args.layouts.is_empty() => args.layouts.clone(),
        TargetName::Meridian => vec![Layout::A],
        _ => Layout::ALL.to_vec(),
    }
}

fn run_layout(
    args: &TaxiArgs,
    plan: &Plan,
    target: &TargetName,
    layout: Layout,
) -> anyhow::Result<TargetReport> {
    let options = args.run.launch_options(CACHE_DEFAULT, Journal::On);
    match Server::start(target, &options)? {
        Server::Document(mut server) => measure::run(&mut *server, layout, plan),
        Server::Postgres(mut server) => measure::run(&mut *server, layout, plan),
    }
}

fn parameters(args: &TaxiArgs, plan: &Plan) -> Vec<(String, String)> {
    let matches = Question::COUNTED.map(|question| {
        let matches = plan.answers.to(question).matches as f64;
        format!("{} {}", question.label(), grouped(matches, 0))
    });
    let mut document = Vec::new();
    layout::bson(&plan.trips.trip(0), 0, Layout::A, &mut document);
    let size = document.len();
    [
        ("trips", grouped(args.trips.into(), 0)),
        ("seed", args.run.seed.to_string()),
        (
            "BSON",
            format!(
                "{:.1} MB, {size} bytes a trip (layout A)",
                size as f64 * f64::from(args.trips) / 1e6
            ),
        ),
        ("limit", format!("{} trips", grouped(args.limit.into(), 0))),
        (
            "timed runs",
            format!(
                "{} warm after one untimed (no new one after 30 s and 3 runs), {} cold",
                args.runs, args.cold_runs
            ),
        ),
        (
            "cache of each server",
            args.run.cache(CACHE_DEFAULT).to_string(),
        ),
        (
            "layouts",
            "A dates in time order; B milliseconds and a random number; C as B, shuffled".into(),
        ),
        ("matches", matches.join(", ")),
    ]
    .into_iter()
    .map(|(name, value)| (name.to_owned(), value))
    .collect()
}
