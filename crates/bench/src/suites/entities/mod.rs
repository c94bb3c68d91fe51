//! Evaluation 4: which index does a context broker need?
//!
//! A broker keeps entities under a compound `_id` and looks each up by the parts
//! of it. Several clients query, create, and create or update one entity a
//! transaction, under five index settings and for several numbers of entities.
//! Published by a team that ran FIWARE's Orion on MongoDB; see [`published`].
//!
//! [`measure`] measures one server, the same way on every [`EntitiesTarget`]; [`drive`]
//! is the closed loop of the clients; [`document`] and [`postgres`] are the stores.

pub mod document;
pub mod drive;
pub mod encode;
pub mod generator;
pub mod measure;
pub mod postgres;
pub mod published;

use std::time::Duration;

use clap::{Args, ValueEnum};

use self::drive::EntityClient;
use self::generator::Entities;
use crate::arguments::RunArgs;
use crate::machine::Machine;
use crate::report::{Report, grouped};
use crate::size::ByteSize;
use crate::targets::{Journal, LaunchOptions, Server, Target, TargetName};

/// `--help` of the suite.
pub const LONG_ABOUT: &str = "Which index does a context broker need, and what does it cost?\n\n\
Loads the same seeded entities of 594 bytes, {_id: {id, type, servicePath}, attrs, creDate, modDate}, into every \
target under each of five index settings (none, _id.id, _id.type, both separately, compound), and measures \
transactions a second, latency, the server's processor time a transaction, and the size of the indexes. A transaction \
touches one entity: query looks it up by id, type and service path; creation looks it up, and inserts it since it is \
not there; creation and update looks it up, and updates it or inserts it. Several clients, each with one transaction \
under way, send ready-made messages over plain sockets; PostgreSQL is driven with prepared statements. Every reply is \
checked, and what was written is counted and looked at afterwards. Published figures of the original evaluation are \
printed beside ours for orientation; a result is a ratio between targets of one run.";

const CACHE_DEFAULT: ByteSize = ByteSize(4 << 30);

/// Arguments of `meridian bench entities`.
#[derive(Debug, Args)]
pub struct EntitiesArgs {
    /// Servers, data and reports
    #[command(flatten)]
    pub run: RunArgs,

    /// Numbers of entities, several with a comma (published: 10000,100000,1000000)
    #[arg(long, value_name = "NUMBERS", value_delimiter = ',', default_values = ["10000", "100000"], value_parser = clap::value_parser!(u32).range(1000..=100_000_000))]
    pub entities: Vec<u32>,

    /// Clients, each with one transaction under way
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=256))]
    pub clients: u32,

    /// Seconds of each case; one that does nothing but scan ends after three transactions
    #[arg(long, value_name = "SECONDS", default_value_t = 3.0, value_parser = seconds)]
    pub seconds: f64,

    /// Index settings, several with a comma
    #[arg(long, value_name = "SETTINGS", value_enum, value_delimiter = ',', default_values = ["none", "id", "type", "separate", "compound"])]
    pub indexes: Vec<Setting>,

    /// Cases, several with a comma
    #[arg(long, value_name = "CASES", value_enum, value_delimiter = ',', default_values = ["query", "creation", "both"])]
    pub cases: Vec<Case>,
}

fn seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(seconds) if (0.1..=3600.0).contains(&seconds) => Ok(seconds),
        _ => Err("a number of seconds from 0.1 to 3600 is wanted".into()),
    }
}

/// Which indexes there are beside the one that every collection has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Setting {
    /// No further one
    None,
    /// One on _id.id
    Id,
    /// One on _id.type
    Type,
    /// One on _id.id and one on _id.type
    Separate,
    /// One on both: {_id.id, _id.type}
    Compound,
}

impl Setting {
    /// Its name in reports.
    pub fn label(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Id => "_id.id",
            Self::Type => "_id.type",
            Self::Separate => "separate",
            Self::Compound => "compound",
        }
    }

    /// The parts of the key that each of its indexes is on.
    pub fn indexes(self) -> &'static [&'static [&'static str]] {
        match self {
            Self::None => &[],
            Self::Id => &[&["id"]],
            Self::Type => &[&["type"]],
            Self::Separate => &[&["id"], &["type"]],
            Self::Compound => &[&["id", "type"]],
        }
    }
}

/// What a transaction does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Case {
    /// Looks an entity up
    Query,
    /// Looks a new entity up and inserts it
    Creation,
    /// Looks an entity up, and updates it or, every other time, inserts it
    Both,
}

impl Case {
    /// Its name in reports.
    pub fn label(self) -> &'static str {
        match self {
            Self::Query => "query",
            Self::Creation => "creation",
            Self::Both => "creation and update",
        }
    }
}

/// What a run does, the same for every target.
#[derive(Debug)]
pub struct Plan {
    /// The data.
    pub entities: Entities,
    /// Numbers of entities to start with.
    pub sizes: Vec<u32>,
    /// Index settings.
    pub settings: Vec<Setting>,
    /// Cases.
    pub cases: Vec<Case>,
    /// Clients.
    pub clients: u32,
    /// How long a case is measured.
    pub length: Duration,
    /// What clients draw from.
    pub seed: u64,
}

/// Bytes on disk.
#[derive(Debug, Clone, Copy)]
pub struct Sizes {
    /// Of the entities.
    pub data: u64,
    /// Of all indexes.
    pub indexes: u64,
}

/// Which entities are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Counted {
    /// All.
    All,
    /// Those changed after they were made.
    Modified,
}

/// A server with the entities' collection or table.
pub trait EntitiesTarget: Target {
    /// Makes the collection anew with the first `size` entities and a setting's indexes.
    ///
    /// # Errors
    /// The server's.
    fn fill(&mut self, entities: Entities, size: u32, setting: Setting) -> anyhow::Result<()>;

    /// What lies on disk, once the server has come to rest.
    ///
    /// # Errors
    /// The server's.
    fn sizes(&mut self) -> anyhow::Result<Sizes>;

    /// A connection of its own.
    ///
    /// # Errors
    /// The server's.
    fn client(&self) -> anyhow::Result<Box<dyn EntityClient>>;

    /// Counts entities.
    ///
    /// # Errors
    /// The server's.
    fn count(&mut self, counted: Counted) -> anyhow::Result<u64>;

    /// Drops what a run made.
    ///
    /// # Errors
    /// The server's.
    fn drop_all(&mut self) -> anyhow::Result<()>;
}

fn start(target: &TargetName, options: &LaunchOptions) -> anyhow::Result<Box<dyn EntitiesTarget>> {
    Ok(match Server::start(target, options)? {
        Server::Document(server) => server,
        Server::Postgres(server) => server,
    })
}

/// Runs the suite on every target and reports.
///
/// # Errors
/// When a target fails, or answers wrongly.
pub fn run(args: EntitiesArgs) -> anyhow::Result<()> {
    let plan = Plan {
        entities: Entities::new(args.run.seed),
        sizes: args.entities.clone(),
        settings: args.indexes.clone(),
        cases: args.cases.clone(),
        clients: args.clients,
        length: Duration::from_secs_f64(args.seconds),
        seed: args.run.seed,
    };
    let options = args.run.launch_options(CACHE_DEFAULT, Journal::On);
    let mut targets = Vec::new();
    for (server, target) in args.run.targets.iter().enumerate() {
        let mut store = start(target, &options)?;
        let mut column = measure::run(store.as_mut(), &plan)?;
        column.server = server;
        targets.push(column);
    }
    args.run.publish(&Report {
        suite: "entities",
        title: "Evaluation 4, entities: which index does a context broker need?",
        machine: Machine::read(),
        parameters: parameters(&args),
        targets,
        remarks: REMARKS.map(str::to_owned).to_vec(),
        published: published::PUBLISHED,
    })
}

const REMARKS: [&str; 5] = [
    "transactions: the middle of ten windows, or of all where there were few; clients and server share the machine",
    "a creation looks for the entity first, as the broker does: without an index on its id that is a scan",
    "creation starts from the number of entities given and adds to it; creation and update starts from that number again",
    "index sizes: MongoDB's include the index on the whole _id, Meridian keeps documents in the order of _id and has none; \
     PostgreSQL's include that of its surrogate key",
    "PostgreSQL has columns id, type and service_path, where b-trees are smallest and their statistics known, attrs as \
     jsonb, and a surrogate bigint as primary key, so that the five settings differ as they do elsewhere; who is free \
     there makes (id, type, service_path) the primary key, which does what compound does; synchronous_commit is off, as \
     w: 1 without j is",
];

fn parameters(args: &EntitiesArgs) -> Vec<(String, String)> {
    let sizes: Vec<String> = args
        .entities
        .iter()
        .map(|size| grouped(f64::from(*size), 0))
        .collect();
    [
        ("entities", sizes.join("; ")),
        ("seed", args.run.seed.to_string()),
        (
            "BSON",
            format!(
                "{} bytes an entity, 5 types, 4 service paths",
                encode::ENTITY_BYTES
            ),
        ),
        (
            "clients",
            format!(
                "{}, each a thread and a connection, one transaction under way",
                args.clients
            ),
        ),
        ("seconds a case", args.seconds.to_string()),
        (
            "query",
            "{\"_id.id\": …, \"_id.type\": …, \"_id.servicePath\": …}".into(),
        ),
        (
            "cache of each server",
            args.run.cache(CACHE_DEFAULT).to_string(),
        ),
    ]
    .into_iter()
    .map(|(name, value)| (name.to_owned(), value))
    .collect()
}
