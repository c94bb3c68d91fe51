//! The servers that a suite is run on: found or started, described, observed, stopped.

pub mod document;
pub mod postgres;

use std::path::{Path, PathBuf};
use std::str::FromStr;

use crate::process::{self, ServerProcess};
use crate::report::TargetReport;
use crate::size::ByteSize;

/// A server to measure, as named on the command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TargetName {
    /// Our own, started for the run.
    Meridian,
    /// A real mongod, started for the run.
    Mongod,
    /// A private PostgreSQL cluster with PostGIS, started for the run.
    Postgres,
    /// A running server that speaks MongoDB's protocol.
    MongodbUri(String),
    /// A running PostgreSQL.
    PostgresUri(String),
}

impl FromStr for TargetName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "meridian" => Ok(Self::Meridian),
            "mongod" => Ok(Self::Mongod),
            "postgres" => Ok(Self::Postgres),
            uri if uri.starts_with("mongodb://") => Ok(Self::MongodbUri(uri.to_owned())),
            uri if uri.starts_with("postgres://") || uri.starts_with("postgresql://") => {
                Ok(Self::PostgresUri(uri.to_owned()))
            }
            _ => Err(format!(
                "unknown target {text:?}: use meridian, mongod, postgres, mongodb://HOST:PORT or postgres://…"
            )),
        }
    }
}

/// How servers are started.
#[derive(Debug, Clone)]
pub struct LaunchOptions {
    /// Cache of each server (PostgreSQL: shared buffers).
    pub cache: ByteSize,
    /// Where the temporary data directories go.
    pub directory: Option<PathBuf>,
    /// Whether document servers write a journal. PostgreSQL has no such switch: a suite makes
    /// its tables `UNLOGGED` instead.
    pub journal: Journal,
}

/// Whether a server writes a journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Journal {
    /// Acknowledged writes survive the process being killed
    On,
    /// A crash loses the latest writes
    Off,
}

impl LaunchOptions {
    /// A data directory that goes away with the value returned.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn temporary_directory(&self, name: &str) -> anyhow::Result<tempfile::TempDir> {
        let mut builder = tempfile::Builder::new();
        let prefix = format!("meridian-bench-{name}-");
        builder.prefix(&prefix);
        Ok(match &self.directory {
            Some(parent) => {
                std::fs::create_dir_all(parent)?;
                builder.tempdir_in(parent)?
            }
            None => builder.tempdir()?,
        })
    }
}

/// A target's server, by the protocol that it speaks.
pub enum Server {
    /// MongoDB's.
    Document(Box<document::DocumentServer>),
    /// PostgreSQL's.
    Postgres(Box<postgres::PostgresServer>),
}

impl Server {
    /// Starts the target, or connects to it where it is given by its address.
    ///
    /// # Errors
    /// When it cannot be started or reached.
    pub fn start(target: &TargetName, options: &LaunchOptions) -> anyhow::Result<Self> {
        use document::DocumentServer;
        use postgres::PostgresServer;
        let document = |server| Self::Document(Box::new(server));
        let postgres = |server| Self::Postgres(Box::new(server));
        Ok(match target {
            TargetName::Meridian => document(DocumentServer::start_meridian(options)?),
            TargetName::Mongod => document(DocumentServer::start_mongod(options)?),
            TargetName::MongodbUri(uri) => document(DocumentServer::connect_uri(uri)?),
            TargetName::Postgres => postgres(PostgresServer::start(options)?),
            TargetName::PostgresUri(uri) => postgres(PostgresServer::connect_uri(uri)?),
        })
    }
}

/// What every suite asks of a server, whatever it speaks.
pub trait Target {
    /// An empty column with the server's name, version and settings.
    ///
    /// # Errors
    /// The server's.
    fn report(&mut self) -> anyhow::Result<TargetReport>;

    /// What the operating system says, when the server is ours.
    fn observe(&self) -> Option<ResourceUse>;

    /// Processor seconds that the server and its living backends have spent, when it is ours.
    fn processor_seconds(&self) -> Option<f64>;
}

/// A server process that the bench started, and its data.
pub struct Owned {
    // Dropped in this order: the server before its directory.
    /// The process.
    pub process: ServerProcess,
    /// Where its data lies.
    pub data: PathBuf,
    pub(crate) _directory: Option<tempfile::TempDir>,
}

impl Owned {
    /// Processor seconds since the start.
    pub fn processor_seconds(&self) -> f64 {
        process::processor_seconds(self.process.id())
    }

    /// Memory, most memory, disk and processor time as the operating system sees them.
    pub fn observe(&self) -> ResourceUse {
        let id = self.process.id();
        ResourceUse {
            memory_bytes: process::memory_bytes(id),
            memory_peak_bytes: process::memory_peak_bytes(id),
            disk_bytes: process::disk_bytes(&self.data),
            processor_seconds: process::processor_seconds(id),
            written_bytes: process::written_bytes(id),
        }
    }
}

/// What the operating system says about a server.
#[derive(Debug, Clone, Copy)]
pub struct ResourceUse {
    /// Memory now, shared pages counted once.
    pub memory_bytes: Option<u64>,
    /// The most that was ever resident in the main process.
    pub memory_peak_bytes: Option<u64>,
    /// Allocated blocks of the data directory.
    pub disk_bytes: u64,
    /// Processor seconds since the start.
    pub processor_seconds: f64,
    /// Bytes written to disk since the start, by all processes of the server.
    pub written_bytes: Option<u64>,
}

/// Looks for a file that an environment variable or a default path names.
pub(crate) fn find_program(variable: &str, default: Option<PathBuf>) -> Option<PathBuf> {
    let named = std::env::var_os(variable).map(PathBuf::from);
    named.or(default).filter(|path| Path::is_file(path))
}
