//! Evaluation 3: the maximum throughput of a geospatial workload.
//!
//! Workers ask for the nearest restaurants around random cities, in a closed
//! loop, and ever more of them start until too many requests are slow; or a
//! fixed number of them measures one load. Published by TU Berlin on MongoDB 5, alone and
//! sharded; see [`published`].
//!
//! Each setting of indexes has a server and a directory of its own. [`measure`] measures one,
//! the same way on every [`RestaurantsTarget`]; [`document`] and [`postgres`] are the stores. Workers are threads
//! of client processes ([`client_process`]), ordered by a [`session`].

pub mod answers;
pub mod ask;
pub mod cities;
pub mod client_process;
pub mod document;
pub mod encode;
pub mod index;
pub mod load_levels;
pub mod log;
pub mod measure;
pub mod place;
pub mod postgres;
pub mod published;
pub mod requests;
pub mod restaurant;
pub mod session;
pub mod statistics;

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::ensure;
use clap::Args;

use self::answers::Answers;
use self::ask::Access;
use self::index::Indexing;
use self::requests::{PAGE, Split};
use self::restaurant::Generator;
use crate::arguments::{RunArgs, scale};
use crate::machine::Machine;
use crate::progress;
use crate::report::{Report, TargetReport, grouped};
use crate::size::ByteSize;
use crate::targets::{Journal, LaunchOptions, Server, Target, TargetName};

/// `--help` of the suite.
pub const LONG_ABOUT: &str = "The most requests a second for the nearest restaurants, with ever more workers.\n\n\
Loads the same seeded restaurants around 135,233 real cities (GeoNames, CC BY 4.0) into every target, and lets workers ask \
without pause: for the nearest ten around a random city within 5 to 50 km, then for ten with one more equality, or for the \
next page. Five more workers start every 30 s until more than 2 % of the requests of a level take over 100 ms, or a \
connection fails; --workers measures fixed numbers of them instead. Workers are threads of client processes that encode \
before they send and do not decode what comes, so that the server is measured; what the clients cost is printed. Sixty \
answers are checked by distance against a walk over all restaurants. Throughput is counted in bins of a second, the first \
and last of a level left out. Published figures of the original evaluation are printed beside ours for orientation; a \
result is a ratio between targets of one run.";

const CACHE_DEFAULT: ByteSize = ByteSize(4 << 30);
/// Most workers: PostgreSQL has connections for no more.
const WORKERS_MAX: i64 = 1_000;

/// Arguments of `meridian bench restaurants`.
#[derive(Debug, Args)]
pub struct RestaurantsArgs {
    /// Servers, data and reports
    #[command(flatten)]
    pub run: RunArgs,

    /// How many restaurants: 1 is 13.8 million (published: 14.5 million around more cities), the default 2 million
    #[arg(long, value_name = "X", default_value_t = 0.145, value_parser = scale)]
    pub scale: f64,

    /// Fixed numbers of workers, several with a comma (1,10,100,1000), instead of a ramp
    #[arg(long, value_name = "N", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=WORKERS_MAX))]
    pub workers: Vec<u32>,

    /// Most workers of a ramp
    #[arg(long, value_name = "N", default_value_t = 200, conflicts_with = "workers", value_parser = clap::value_parser!(u32).range(1..=WORKERS_MAX))]
    pub workers_max: u32,

    /// Workers that start with each step of a ramp
    #[arg(long, value_name = "N", default_value_t = 5, conflicts_with = "workers", value_parser = clap::value_parser!(u32).range(1..=WORKERS_MAX))]
    pub step_workers: u32,

    /// Seconds of each step, or of each fixed number of workers
    #[arg(long, value_name = "SECONDS", default_value_t = 30, value_parser = clap::value_parser!(u16).range(measure::STEP_MIN.as_secs() as i64..=3600))]
    pub step_seconds: u16,

    /// Seconds of asking before anything is measured
    #[arg(long, value_name = "SECONDS", default_value_t = 5)]
    pub warm_seconds: u16,

    /// Repeated runs on the same data, whose seconds are put together
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=100))]
    pub runs: u16,

    /// Weights of what follows the nearest ten: nothing, one more equality, the next page (1,3,1 is the published variant)
    #[arg(long, value_name = "A,B,C", default_value = "1,2,2")]
    pub split: Split,

    /// Settings of indexes, several with a comma [default: clustering, plain and compound for
    /// meridian; plain and compound for the others]
    #[arg(
        long = "index",
        value_name = "SETTINGS",
        value_enum,
        value_delimiter = ','
    )]
    pub indexings: Vec<Indexing>,

    /// Client processes that share the workers
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub clients: u32,

    /// Keep the logs of all requests in this directory
    #[arg(long, value_name = "DIR")]
    pub logs: Option<PathBuf>,
}

/// How many workers ask.
#[derive(Debug)]
pub enum Load {
    /// So many more with every level, up to a most.
    Ramp {
        /// More workers with every level.
        step: u32,
        /// Most workers.
        max: u32,
    },
    /// These numbers of them.
    Fixed(Vec<u32>),
}

impl Load {
    /// The numbers of workers, in order.
    pub fn levels(&self) -> Vec<u32> {
        match self {
            Self::Ramp { step, max } => (1..=max.div_ceil(*step))
                .map(|level| (level * step).min(*max))
                .collect(),
            Self::Fixed(levels) => levels.clone(),
        }
    }
}

/// Where logs of requests go.
#[derive(Debug)]
pub enum Logs {
    /// They stay.
    Kept(PathBuf),
    /// They go with the run.
    Temporary(tempfile::TempDir),
}

impl Logs {
    /// The directory.
    pub fn path(&self) -> &Path {
        match self {
            Self::Kept(path) => path,
            Self::Temporary(directory) => directory.path(),
        }
    }
}

/// What a run does, the same for every target.
#[derive(Debug)]
pub struct Plan {
    /// Of how many restaurants.
    pub scale: f64,
    /// How many those are.
    pub total: u32,
    /// Which.
    pub seed: u64,
    /// The mix of questions.
    pub split: Split,
    /// The right answers to some of them.
    pub answers: Answers,
    /// How many workers ask.
    pub load: Load,
    /// How long each level lasts.
    pub step: Duration,
    /// How long is asked before.
    pub warm_up: Duration,
    /// How often all levels are run.
    pub runs: u16,
    /// Client processes.
    pub client_processes: u32,
    /// Where logs go.
    pub logs: Logs,
}

impl Plan {
    fn new(args: &RestaurantsArgs) -> anyhow::Result<Self> {
        let spinner = progress::spinner("generating the restaurants and the right answers");
        let answers = Answers::of(args.scale, args.run.seed, args.split);
        spinner.finish_and_clear();
        let load = match args.workers.as_slice() {
            [] => Load::Ramp {
                step: args.step_workers,
                max: args.workers_max,
            },
            levels => Load::Fixed(levels.to_vec()),
        };
        let logs = match &args.logs {
            Some(directory) => Logs::Kept(directory.clone()),
            None => Logs::Temporary(tempfile::tempdir()?),
        };
        Ok(Self {
            scale: args.scale,
            total: restaurant::total(args.scale),
            seed: args.run.seed,
            split: args.split,
            answers,
            load,
            step: Duration::from_secs(args.step_seconds.into()),
            warm_up: Duration::from_secs(args.warm_seconds.into()),
            runs: args.runs,
            client_processes: args.clients,
            logs,
        })
    }

    /// The restaurants.
    pub fn generate(&self) -> Generator {
        Generator::new(self.scale, self.seed)
    }
}

/// A server with the restaurants' collection or table.
pub trait RestaurantsTarget: Target {
    /// Makes the empty collection and loads all restaurants, without indexes.
    ///
    /// # Errors
    /// When a batch is not taken whole.
    fn load(&mut self, plan: &Plan) -> anyhow::Result<crate::load::Load>;

    /// Builds the indexes. The inner error is the server's refusal of such indexes.
    ///
    /// # Errors
    /// The server's.
    fn build_indexes(&mut self, indexing: Indexing) -> anyhow::Result<Result<(), String>>;

    /// How client processes reach the server.
    ///
    /// # Errors
    /// When they cannot.
    fn access(&self, indexing: Indexing) -> anyhow::Result<Access>;

    /// Adds what the data takes on disk, once the server has come to rest.
    ///
    /// # Errors
    /// The server's.
    fn storage(&mut self, report: &mut TargetReport) -> anyhow::Result<()>;

    /// Drops what a run made.
    ///
    /// # Errors
    /// The server's.
    fn drop_all(&mut self) -> anyhow::Result<()>;
}

fn start(
    target: &TargetName,
    options: &LaunchOptions,
) -> anyhow::Result<Box<dyn RestaurantsTarget>> {
    Ok(match Server::start(target, options)? {
        Server::Document(server) => server,
        Server::Postgres(server) => server,
    })
}

/// Runs the suite on every target and reports.
///
/// # Errors
/// When a target fails, or answers wrongly.
pub fn run(args: RestaurantsArgs) -> anyhow::Result<()> {
    // For the client processes and for mongod, which takes connections for four fifths of them.
    crate::process::raise_file_limit();
    let plan = Plan::new(&args)?;
    let mut targets = Vec::new();
    let mut remarks = REMARKS.map(str::to_owned).to_vec();
    for (server, target) in args.run.targets.iter().enumerate() {
        let indexings = match args.indexings.as_slice() {
            [] => Indexing::of(target),
            given => given,
        };
        for indexing in indexings {
            let options = args.run.launch_options(CACHE_DEFAULT, Journal::On);
            let mut store = start(target, &options)?;
            let mut column = store.report()?;
            column.name = format!("{} {}", column.name, indexing.label());
            column.server = server;
            match measure::run(store.as_mut(), *indexing, &plan, &mut column)? {
                Ok(()) => targets.push(column),
                Err(refusal) => {
                    let remark = format!("{} is left out: {refusal}", column.name);
                    progress::say(&remark);
                    remarks.push(remark);
                }
            }
        }
    }
    ensure!(
        !targets.is_empty(),
        "no target has the indexes that were asked for"
    );
    args.run.publish(&Report {
        suite: "restaurants",
        title: "Evaluation 3, restaurants: the most requests a second for the nearest",
        machine: Machine::read(),
        parameters: parameters(&args, &plan),
        targets,
        remarks,
        published: published::PUBLISHED,
    })
}

const REMARKS: [&str; 5] = [
    "seconds, confidence: of the replies in each second of a level but its first and last, all runs together (Student's t)",
    "the clients run on the same processors as the server: what they take a request, the server cannot have",
    "processor figures are the kernel's, of all processes of the server and of the client processes, from a level's start to its end",
    "cities: GeoNames (geonames.org), CC BY 4.0",
    "PostgreSQL: prepared statements with generic plans, distances on the sphere",
];

fn parameters(args: &RestaurantsArgs, plan: &Plan) -> Vec<(String, String)> {
    let workers = match &plan.load {
        Load::Ramp { step, max } => format!("{step} more with every step, up to {max}"),
        Load::Fixed(levels) => levels
            .iter()
            .map(u32::to_string)
            .collect::<Vec<_>>()
            .join(", "),
    };
    let mut document = Vec::new();
    for restaurant in plan.generate().step_by((plan.total / 1000).max(1) as usize) {
        encode::bson(&restaurant, &mut document);
    }
    let sampled = plan.total.div_ceil((plan.total / 1000).max(1));
    let size = document.len() as f64 / f64::from(sampled);
    [
        ("restaurants", format!("{} around {} cities", grouped(plan.total.into(), 0), grouped(cities::all().len() as f64, 0))),
        ("scale", args.scale.to_string()),
        ("seed", args.run.seed.to_string()),
        ("BSON", format!("{:.1} MB, about {size:.0} bytes a restaurant", size * f64::from(plan.total) / 1e6)),
        ("workers", workers),
        ("step", format!("{} s, after {} s that are not measured", args.step_seconds, args.warm_seconds)),
        ("runs", args.runs.to_string()),
        ("after the nearest ten", plan.split.to_string()),
        ("page", format!("{PAGE} restaurants within 5 to 50 km")),
        ("client processes", args.clients.to_string()),
        ("cache of each server", args.run.cache(CACHE_DEFAULT).to_string()),
        ("indexes", "plain: on the location; compound: the four fields of requests behind it; per filter: plain, and one for each of them; \
          clustering: plain, with the document in the entry".into()),
    ]
    .into_iter()
    .map(|(name, value)| (name.to_owned(), value))
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ramp_ends_at_its_most() {
        let levels = |step, max| Load::Ramp { step, max }.levels();
        assert_eq!(levels(5, 20), [5, 10, 15, 20]);
        assert_eq!(levels(5, 12), [5, 10, 12]);
        assert_eq!(levels(50, 12), [12]);
    }
}
