//! Evaluation 5: secondary indexes that are written at random places.
//!
//! One client inserts documents whose four indexed fields are random, until the
//! indexes are far larger than the cache: alone (part 1), and while a second
//! thread reads 1,000 documents from a random URI on, every few seconds, through
//! a plain or clustering index (part 2) or a covering one (part 3). Published by
//! the makers of Fractal Tree indexes in MongoDB 2.2; see [`published`].
//!
//! Each load has a server and a directory of its own. [`load`] measures one,
//! the same way on every [`IndexingTarget`]; [`document`] and [`postgres`] are the stores.

pub mod answers;
pub mod document;
pub mod encode;
pub mod generator;
pub mod load;
pub mod postgres;
pub mod published;
pub mod reader;
pub mod recorder;

use std::time::Duration;

use clap::{Args, ValueEnum};

use self::answers::{Answers, Range};
use self::generator::Generator;
use self::load::{Pass, Queries};
use crate::arguments::RunArgs;
use crate::load::{BATCH, Load};
use crate::machine::Machine;
use crate::measure::Repeats;
use crate::progress;
use crate::report::{Report, TargetReport, grouped};
use crate::size::ByteSize;
use crate::targets::{Journal, LaunchOptions, Server, Target, TargetName};

/// `--help` of the suite.
pub const LONG_ABOUT: &str = "Secondary indexes that are written at random places, larger than the cache.\n\n\
Inserts the same seeded documents of 234 bytes, 1,000 at a time from one client, into every target with indexes \
on four random fields, and measures the insert rate as the indexes grow, the longest wait of an insert, disk, \
memory and write amplification: alone (part 1), and while a second thread reads 1,000 documents from a random \
URI on (part 2 through a plain or clustering index, part 3 through a covering one). PostgreSQL loads by COPY of \
1,000 rows a commit, asynchronously. Answers are checked against the generator's own. Published figures of the \
original evaluation are printed beside ours for orientation; a result is a ratio between targets of one run.";

const CACHE_DEFAULT: ByteSize = ByteSize(256 << 20);
/// Windows of a run, unless their size is given.
const WINDOWS: u64 = 20;
/// No query at rest is repeated for longer than this, beyond three times.
const PATIENCE: Duration = Duration::from_secs(30);

/// Arguments of `meridian bench indexing`. The cache is 256 MiB unless it is given.
#[derive(Debug, Args)]
pub struct IndexingArgs {
    /// Servers, data and reports
    #[command(flatten)]
    pub run: RunArgs,

    /// Documents in each load
    #[arg(long, value_name = "N", default_value_t = 1_000_000, value_parser = clap::value_parser!(u32).range(10_000..=1_000_000_000))]
    pub docs: u32,

    /// Parts to run: inserts alone (1), with range queries through plain and clustering indexes (2),
    /// through covering ones (3)
    #[arg(long = "part", value_name = "PARTS", value_delimiter = ',', default_values = ["1", "2", "3"], value_parser = clap::value_parser!(u8).range(1..=3))]
    pub parts: Vec<u8>,

    /// Journal in part 1, several with a comma; parts 2 and 3 have the first. `off` is `--journal off`
    /// for Meridian, `--nojournal` for mongod, unlogged tables for PostgreSQL
    #[arg(long, value_enum, value_delimiter = ',', default_value = "on")]
    pub journal: Vec<Journal>,

    /// Pause between two range queries, in seconds (published: 60)
    #[arg(long, value_name = "SECONDS", default_value_t = 5.0, value_parser = seconds)]
    pub query_seconds: f64,

    /// Documents in one window of the insert rate [default: a 20th of all]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1000..))]
    pub window: Option<u64>,

    /// Timed runs of the range query after a load, after one that is not timed
    #[arg(long, value_name = "N", default_value_t = 7, value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub runs: u16,
}

fn seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(seconds) if (0.01..=3600.0).contains(&seconds) => Ok(seconds),
        _ => Err("a number of seconds from 0.01 to 3600 is wanted".into()),
    }
}

/// What the URI index is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Kind {
    /// Carries the whole document (`clustering: true`).
    Clustering,
    /// Refers to the documents.
    Plain,
    /// Carries the fields that the query returns.
    Covering,
}

impl Kind {
    /// Its name in reports.
    pub fn label(self) -> &'static str {
        match self {
            Self::Clustering => "clustering",
            Self::Plain => "plain",
            Self::Covering => "covering",
        }
    }

    /// Those that a target has or may have. The first is what Meridian is for, so it comes first.
    fn of(target: &TargetName) -> &'static [Self] {
        match target {
            TargetName::Meridian | TargetName::MongodbUri(_) => {
                &[Self::Clustering, Self::Plain, Self::Covering]
            }
            TargetName::Mongod | TargetName::Postgres | TargetName::PostgresUri(_) => {
                &[Self::Plain, Self::Covering]
            }
        }
    }

    /// The part that asks range queries of such an index.
    fn part(self) -> u8 {
        match self {
            Self::Clustering | Self::Plain => 2,
            Self::Covering => 3,
        }
    }
}

/// What a run does, the same for every target.
#[derive(Debug)]
pub struct Plan {
    /// Documents.
    pub docs: u32,
    /// Which.
    pub seed: u64,
    /// Documents in one window of the insert rate.
    pub window: u64,
    /// Pause between two range queries.
    pub query_pause: Duration,
    /// How often the query at rest is timed.
    pub repeats: Repeats,
    /// The right answers.
    pub answers: Answers,
}

impl Plan {
    fn new(args: &IndexingArgs) -> Self {
        let spinner = progress::spinner("generating the documents and the right answers");
        let answers = Answers::of(args.docs, args.run.seed);
        spinner.finish_and_clear();
        Self {
            docs: args.docs,
            seed: args.run.seed,
            window: args.window.unwrap_or(u64::from(args.docs) / WINDOWS),
            query_pause: Duration::from_secs_f64(args.query_seconds),
            repeats: Repeats {
                runs: args.runs.into(),
                patience: PATIENCE,
            },
            answers,
        }
    }

    /// The documents.
    pub fn generate(&self) -> Generator {
        Generator::new(self.docs, self.seed)
    }
}

/// A server with the documents' collection or table.
pub trait IndexingTarget: Target {
    /// Makes the empty collection with its indexes. The inner error is the server's refusal of
    /// the kind of index.
    ///
    /// # Errors
    /// The server's.
    fn create(&mut self, kind: Kind, journal: Journal) -> anyhow::Result<Result<(), String>>;

    /// Inserts all documents.
    ///
    /// # Errors
    /// When a batch is not taken whole.
    fn insert(
        &self,
        plan: &Plan,
        what: &str,
        watch: &mut dyn FnMut(usize, Duration),
    ) -> anyhow::Result<Load>;

    /// A connection that reads pages of documents by URI.
    ///
    /// # Errors
    /// The server's.
    fn pages(&self, kind: Kind) -> anyhow::Result<Box<dyn reader::Pages>>;

    /// Documents in a range of one index.
    ///
    /// # Errors
    /// The server's.
    fn count(&mut self, range: Range) -> anyhow::Result<u64>;

    /// Brings everything to disk and waits until the server has come to rest.
    ///
    /// # Errors
    /// The server's.
    fn flush(&mut self) -> anyhow::Result<()>;

    /// Adds what the data takes on disk.
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

fn start(target: &TargetName, options: &LaunchOptions) -> anyhow::Result<Box<dyn IndexingTarget>> {
    Ok(match Server::start(target, options)? {
        Server::Document(server) => server,
        Server::Postgres(server) => server,
    })
}

/// Runs the suite on every target and reports.
///
/// # Errors
/// When a target fails, or answers wrongly.
pub fn run(args: IndexingArgs) -> anyhow::Result<()> {
    let plan = Plan::new(&args);
    let mut targets = Vec::new();
    let mut remarks = REMARKS.map(str::to_owned).to_vec();
    for (server, target) in args.run.targets.iter().enumerate() {
        for kind in Kind::of(target) {
            match run_column(&args, &plan, target, *kind)? {
                Column::Measured(mut column) => {
                    column.server = server;
                    targets.push(*column);
                }
                Column::Refused(remark) => {
                    progress::say(&remark);
                    remarks.push(remark);
                }
                Column::NothingToDo => {}
            }
        }
    }
    args.run.publish(&Report {
        suite: "indexing",
        title: "Evaluation 5, indexing: secondary indexes written at random places",
        machine: Machine::read(),
        parameters: parameters(&args, &plan),
        targets,
        remarks,
        published: published::PUBLISHED,
    })
}

const REMARKS: [&str; 3] = [
    "the operating system's file cache comes on top of each server's own",
    "most memory: of the main process, or of all processes with shared pages once, looked at once a window",
    "write amplification: bytes that the server's processes wrote to disk until it came to rest, as the kernel counts \
     them, by bytes of BSON",
];

/// What became of one index kind on one target.
enum Column {
    Measured(Box<TargetReport>),
    Refused(String),
    NothingToDo,
}

/// The loads of one column, in order.
fn passes(args: &IndexingArgs, kind: Kind) -> Vec<Pass> {
    let mut passes = Vec::new();
    if kind == Kind::Plain && args.parts.contains(&1) {
        passes.extend(args.journal.iter().map(|journal| Pass {
            queries: Queries::None,
            journal: *journal,
        }));
    }
    if args.parts.contains(&kind.part()) {
        passes.push(Pass {
            queries: Queries::Meanwhile,
            journal: args.journal[0],
        });
    }
    passes
}

fn run_column(
    args: &IndexingArgs,
    plan: &Plan,
    target: &TargetName,
    kind: Kind,
) -> anyhow::Result<Column> {
    let passes = passes(args, kind);
    // Disk is looked at once, after the last load with the first journal setting.
    let on_disk = passes
        .iter()
        .rposition(|pass| pass.journal == args.journal[0]);
    let mut column: Option<Box<TargetReport>> = None;
    for (number, pass) in passes.into_iter().enumerate() {
        let options = args.run.launch_options(CACHE_DEFAULT, pass.journal);
        let mut store = start(target, &options)?;
        let report = match &mut column {
            Some(report) => report,
            None => column.insert(Box::new(named(store.report()?, kind))),
        };
        if let Err(refusal) = store.create(kind, pass.journal)? {
            return Ok(Column::Refused(format!(
                "{} is left out: {refusal}",
                report.name
            )));
        }
        load::measure(store.as_mut(), kind, pass, plan, report)?;
        if on_disk == Some(number) {
            store.storage(report)?;
        }
        store.drop_all()?;
    }
    Ok(column.map_or(Column::NothingToDo, Column::Measured))
}

fn named(mut report: TargetReport, kind: Kind) -> TargetReport {
    report.name = format!("{} {}", report.name, kind.label());
    report
}

fn parameters(args: &IndexingArgs, plan: &Plan) -> Vec<(String, String)> {
    let bson_bytes = f64::from(plan.docs) * encode::DOCUMENT_BYTES as f64;
    let range_matches = plan
        .answers
        .counts
        .map(|matches| grouped(matches as f64, 0));
    [
        ("documents", grouped(plan.docs.into(), 0)),
        ("seed", plan.seed.to_string()),
        ("BSON", format!("{:.1} MB, {} bytes a document", bson_bytes / 1e6, encode::DOCUMENT_BYTES)),
        ("batch", format!("{BATCH} documents, 1 client; made by a thread that runs a few batches ahead")),
        ("window", format!("{} documents", grouped(plan.window as f64, 0))),
        ("pause between queries", format!("{} s (published: 60 s)", args.query_seconds)),
        ("timed runs at rest", args.runs.to_string()),
        ("cache of each server", args.run.cache(CACHE_DEFAULT).to_string()),
        ("indexes", "URI, name, origin, creation, beside the key's own".into()),
        ("clustering, covering", "the URI index carries the document; or creation, name and origin, which the query then returns (PostgreSQL: INCLUDE)".into()),
        ("no journal", "Meridian --journal off, mongod --nojournal, PostgreSQL unlogged tables".into()),
        ("ranges match", range_matches.join(", ")),
    ]
    .into_iter()
    .map(|(name, value)| (name.to_owned(), value))
    .collect()
}
