//! Questions that read much and return what was worked out: joins, windows, groups and texts.
//!
//! No evaluation published them; they are what people ask of a document database beside
//! places and times. Each [`part`] has seeded tables and questions with answers that its generator
//! knows: [`lookup`], [`window`], [`group`], [`text`].
//!
//! [`measure`] measures one server, the same way on every [`QueriesTarget`]; [`document`] and
//! [`postgres`] are the stores.

pub mod document;
pub mod group;
pub mod lookup;
pub mod measure;
pub mod part;
pub mod postgres;
pub mod text;
pub mod window;

use std::time::Duration;

use clap::Args;

use self::part::{Contents, Index, Part, Table};
use crate::arguments::{RunArgs, scale};
use crate::load::{BATCH, Load};
use crate::machine::Machine;
use crate::measure::Repeats;
use crate::progress;
use crate::questions::QuestionTarget;
use crate::report::{Published, Report, TargetReport, grouped};
use crate::seeded::Size;
use crate::size::ByteSize;
use crate::targets::{Journal, LaunchOptions, Server, TargetName};

/// `--help` of the suite.
pub const LONG_ABOUT: &str = "Joins, windows, groups and texts: questions that read much and return what was worked out.\n\n\
Loads the same seeded documents into every target and asks, at full size: 100,000 taxi trips joined to 14,000 \
medallions by an indexed field ($lookup); the average over the hour before each of 2 million readings of 1,000 \
sensors ($setWindowFields), without an index and along one; 5 million orders grouped without an index into 60, \
100,000 and 720 groups ($group); 1 million short texts by their words ($text), listed, counted, and the best 20. \
PostgreSQL joins, has window functions over a RANGE of an hour, groups, and searches a tsvector by a GIN index. Every \
answer is compared, row by row, with the generator's own; scores of texts are MongoDB's, so of PostgreSQL's best \
texts only the number is compared. A target that refuses a text index is shown as refusing it. A result is a ratio \
between targets of one run.";

/// The database, or the schema, of a run.
const DATABASE: &str = "meridian_bench_queries";
const CACHE_DEFAULT: ByteSize = ByteSize(4 << 30);
/// No question is repeated for longer than this, beyond three times.
const PATIENCE: Duration = Duration::from_secs(30);

/// Arguments of `meridian bench queries`.
#[derive(Debug, Args)]
pub struct QueriesArgs {
    /// Servers, data and reports
    #[command(flatten)]
    pub run: RunArgs,

    /// How much data: 1 is the full size, 8 million documents
    #[arg(long, value_name = "X", default_value_t = 1.0, value_parser = scale)]
    pub scale: f64,

    /// Parts to run, several with a comma
    #[arg(long = "part", value_name = "PARTS", value_enum, value_delimiter = ',', default_values = ["lookup", "window", "group", "text"])]
    pub parts: Vec<Part>,

    /// Timed runs of each question, after two that are not timed
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub runs: u16,
}

/// What a run does, the same for every target.
pub struct Plan {
    /// Tables and questions of each part.
    pub parts: Vec<(Part, Contents)>,
    /// How often each question is timed.
    pub repeats: Repeats,
}

impl Plan {
    fn new(args: &QueriesArgs) -> Self {
        let spinner = progress::spinner("generating the documents and the right answers");
        let size = Size {
            seed: args.run.seed,
            scale: args.scale,
        };
        let parts = args.parts.iter();
        let parts = parts.map(|part| (*part, part.contents(size))).collect();
        spinner.finish_and_clear();
        Self {
            parts,
            repeats: Repeats {
                runs: args.runs.into(),
                patience: PATIENCE,
            },
        }
    }

    fn tables(&self) -> impl Iterator<Item = &Table> {
        self.parts.iter().flat_map(|(_, contents)| &contents.tables)
    }
}

/// A server with the suite's collections or tables.
pub trait QueriesTarget: QuestionTarget {
    /// Makes an empty collection or table without its index. The inner error is the server's
    /// refusal of such an index.
    ///
    /// # Errors
    /// The server's.
    fn create(&mut self, table: &Table) -> anyhow::Result<Result<(), String>>;

    /// Loads all documents.
    ///
    /// # Errors
    /// When a batch is not taken whole.
    fn load(&mut self, table: &Table) -> anyhow::Result<Load>;

    /// Builds the index.
    ///
    /// # Errors
    /// The server's.
    fn build_index(&mut self, table: &Table, index: &Index) -> anyhow::Result<()>;

    /// Waits until the server has come to rest and adds what all tables take on disk.
    ///
    /// # Errors
    /// The server's.
    fn settle(&mut self, tables: &[&Table], report: &mut TargetReport) -> anyhow::Result<()>;

    /// Drops what a run made.
    ///
    /// # Errors
    /// The server's.
    fn drop_all(&mut self) -> anyhow::Result<()>;
}

fn start(target: &TargetName, options: &LaunchOptions) -> anyhow::Result<Box<dyn QueriesTarget>> {
    Ok(match Server::start(target, options)? {
        Server::Document(server) => server,
        Server::Postgres(server) => server,
    })
}

/// Runs the suite on every target and reports.
///
/// # Errors
/// When a target fails, or answers wrongly.
pub fn run(args: QueriesArgs) -> anyhow::Result<()> {
    let plan = Plan::new(&args);
    let options = args.run.launch_options(CACHE_DEFAULT, Journal::On);
    let mut targets = Vec::new();
    let mut remarks = REMARKS.map(str::to_owned).to_vec();
    for (server, target) in args.run.targets.iter().enumerate() {
        let mut store = start(target, &options)?;
        let (mut column, refusals) = measure::run(store.as_mut(), &plan)?;
        column.server = server;
        targets.push(column);
        remarks.extend(refusals);
    }
    args.run.publish(&Report {
        suite: "queries",
        title: "Queries: joins, windows, groups and texts",
        machine: Machine::read(),
        parameters: parameters(&args, &plan),
        targets,
        remarks,
        published: Published {
            legend: "What is asked is our own choice, so there are no published figures",
            columns: &[],
            rows: &[],
        },
    })
}

const REMARKS: [&str; 3] = [
    "times include fetching the whole answer raw over a plain socket; PostgreSQL's is fetched by a binary COPY",
    "PostgreSQL has 512 MB of work_mem; mongod's sorts and groups have its own 100 MB and spill beyond",
    "text scores are MongoDB's: of PostgreSQL's best texts (by ts_rank) only the number is compared",
];

fn parameters(args: &QueriesArgs, plan: &Plan) -> Vec<(String, String)> {
    let tables = plan.tables();
    let tables = tables.map(|table| format!("{} {}", grouped(table.count.into(), 0), table.name));
    let tables: Vec<String> = tables.collect();
    [
        ("documents", tables.join(", ")),
        ("scale", args.scale.to_string()),
        ("seed", args.run.seed.to_string()),
        ("batch", format!("{BATCH} documents, 1 client")),
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
            "indexes",
            "medallions: the medallion, unique; readings: sensor, time and value; texts: the text; orders: none".into(),
        ),
    ]
    .into_iter()
    .map(|(name, value)| (name.to_owned(), value))
    .collect()
}
