//! PostgreSQL with PostGIS: a private cluster, tuned for the job, or one by URI.

use std::ffi::OsString;
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, bail};
use postgres::{Client, NoTls};

use super::{LaunchOptions, Owned, ResourceUse, Target};
use crate::machine::Machine;
use crate::postgres_client::PlainAddress;
use crate::process::{Account, Launch, ServerProcess, free_port};
use crate::report::TargetReport;

const HOW_TO_GET_POSTGRES: &str = "no PostgreSQL found: install `postgresql` and `postgresql-15-postgis-3`, \
     or name its directory of programs in the environment variable MERIDIAN_POSTGRES_BIN";

/// A running PostgreSQL.
pub struct PostgresServer {
    /// How the server is called in reports.
    pub name: String,
    /// Settings that matter and differ from the defaults.
    pub settings: Vec<(String, String)>,
    /// A connection.
    pub client: Client,
    /// What further connections are made with.
    parameters: String,
    owned: Option<Owned>,
}

impl PostgresServer {
    /// Makes a cluster on a temporary directory and starts it.
    ///
    /// # Errors
    /// When PostgreSQL or PostGIS is not installed or does not start.
    pub fn start(options: &LaunchOptions) -> anyhow::Result<Self> {
        let programs = programs_directory()?;
        let directory = options.temporary_directory("postgres")?;
        let account = unprivileged_account()?;
        if let Some(Account { user, group }) = account {
            chown(directory.path(), Some(user), Some(group))?;
        }
        let data = directory.path().join("data");
        initialise(&programs, &data, account.as_ref())?;
        let port = free_port()?;
        let settings = tuned_settings(options);
        let mut arguments: Vec<OsString> = vec!["-D".into(), data.clone().into()];
        arguments.extend(["-p".into(), port.to_string().into()]);
        arguments.extend(["-h".into(), "127.0.0.1".into()]);
        arguments.extend(["-k".into(), directory.path().into()]);
        for (name, value) in &settings {
            arguments.extend(["-c".into(), format!("{name}={value}").into()]);
        }
        let log = directory.path().join("log");
        let process = ServerProcess::start(Launch {
            directory: Some(directory.path().to_owned()),
            account,
            // A polite stop (SIGTERM) would wait until the clients have gone.
            stop_signal: "INT",
            ..Launch::new(programs.join("postgres"), arguments, &log, port)
        })?;
        let parameters = format!("host=127.0.0.1 port={port} user=postgres dbname=postgres");
        let mut client = connect_patiently(&parameters)?;
        client
            .batch_execute("CREATE EXTENSION postgis")
            .context("PostGIS is not installed (postgresql-15-postgis-3)")?;
        let owned = Owned {
            process,
            data,
            _directory: Some(directory),
        };
        Ok(Self {
            name: "postgres".into(),
            settings,
            client,
            parameters,
            owned: Some(owned),
        })
    }

    /// Connects to a running server; its settings are left alone.
    ///
    /// # Errors
    /// When it cannot be reached or has no PostGIS.
    pub fn connect_uri(uri: &str) -> anyhow::Result<Self> {
        let mut client = Client::connect(uri, NoTls).context("cannot connect to PostgreSQL")?;
        client
            .batch_execute("CREATE EXTENSION IF NOT EXISTS postgis")
            .context("the server has no PostGIS")?;
        let name = uri
            .rsplit_once('@')
            .map_or(uri, |(_, host)| host)
            .to_owned();
        Ok(Self {
            name: format!("postgres {name}"),
            settings: Vec::new(),
            client,
            parameters: uri.to_owned(),
            owned: None,
        })
    }

    /// Versions of both.
    ///
    /// # Errors
    /// The server's.
    pub fn version(&mut self) -> anyhow::Result<String> {
        let row = self.client.query_one(
            "SELECT current_setting('server_version'), postgis_lib_version(), \
             (pg_size_bytes(current_setting('shared_buffers')) / 1048576)::bigint",
            &[],
        )?;
        let server: String = row.get(0);
        let server = server.split(' ').next().unwrap_or(&server).to_owned();
        Ok(format!(
            "PostgreSQL {server} + PostGIS {}",
            row.get::<_, String>(1)
        ))
    }

    /// Another connection.
    ///
    /// # Errors
    /// The server's.
    pub fn another_client(&self) -> anyhow::Result<Client> {
        connect_patiently(&self.parameters)
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
        self.client = self.another_client()?;
        Ok(true)
    }

    /// What a plain client connects with.
    ///
    /// # Errors
    /// For what a plain client cannot do: passwords, sockets.
    pub fn plain_address(&self) -> anyhow::Result<PlainAddress> {
        PlainAddress::of(&self.parameters)
    }

    /// Rows of a table that match a `WHERE` clause, or all where it is empty.
    ///
    /// # Errors
    /// The server's.
    pub fn count_rows(&mut self, table: &str, condition: &str) -> anyhow::Result<u64> {
        let sql = format!("SELECT count(*) FROM {table} {condition}");
        let count: i64 = self.client.query_one(&sql, &[])?.get(0);
        u64::try_from(count).context("a count is not negative")
    }

    /// Drops a schema with all in it, if there is one.
    ///
    /// # Errors
    /// The server's.
    pub fn drop_schema(&mut self, schema: &str) -> anyhow::Result<()> {
        let drop = format!("DROP SCHEMA IF EXISTS {schema} CASCADE");
        Ok(self.client.batch_execute(&drop)?)
    }
}

impl Target for PostgresServer {
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

fn programs_directory() -> anyhow::Result<PathBuf> {
    if let Some(directory) = std::env::var_os("MERIDIAN_POSTGRES_BIN") {
        return Ok(PathBuf::from(directory));
    }
    let newest = (13..=18)
        .rev()
        .map(|version| PathBuf::from(format!("/usr/lib/postgresql/{version}/bin")));
    newest
        .into_iter()
        .find(|directory| directory.join("initdb").is_file())
        .context(HOW_TO_GET_POSTGRES)
}

/// `postgres` when this process is root; nothing otherwise.
fn unprivileged_account() -> anyhow::Result<Option<Account>> {
    use std::os::unix::fs::MetadataExt;
    if std::fs::metadata("/proc/self")?.uid() != 0 {
        return Ok(None);
    }
    let accounts = std::fs::read_to_string("/etc/passwd")?;
    let line = accounts
        .lines()
        .find(|line| line.starts_with("postgres:"))
        .context("PostgreSQL does not run as root and there is no account `postgres`")?;
    let fields: Vec<&str> = line.split(':').collect();
    Ok(Some(Account {
        user: fields.get(2).context("account without id")?.parse()?,
        group: fields.get(3).context("account without group")?.parse()?,
    }))
}

fn initialise(programs: &Path, data: &Path, account: Option<&Account>) -> anyhow::Result<()> {
    let mut command = Command::new(programs.join("initdb"));
    command
        .arg("-D")
        .arg(data)
        .args(["-A", "trust", "-U", "postgres", "-E", "UTF8", "--locale=C"]);
    command
        .current_dir(data.parent().unwrap_or(Path::new("/")))
        .stdin(Stdio::null());
    if let Some(Account { user, group }) = account {
        command.uid(*user).gid(*group);
    }
    let output = command.output().context("cannot run initdb")?;
    if !output.status.success() {
        bail!(
            "initdb failed:\n{}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
    Ok(())
}

/// What an expert sets for this job on this machine.
fn tuned_settings(options: &LaunchOptions) -> Vec<(String, String)> {
    let memory_mib = Machine::read().memory_mib;
    [
        ("shared_buffers", format!("{}MB", options.cache.mebibytes())),
        ("effective_cache_size", format!("{}MB", memory_mib * 3 / 4)),
        ("max_connections", "1100".into()),
        ("work_mem", "64MB".into()),
        ("maintenance_work_mem", "1GB".into()),
        ("jit", "off".into()),
        ("random_page_cost", "1.1".into()),
        ("effective_io_concurrency", "200".into()),
        ("synchronous_commit", "off".into()),
        ("max_wal_size", "16GB".into()),
        ("checkpoint_timeout", "30min".into()),
        ("wal_compression", "on".into()),
        ("timezone", "UTC".into()),
    ]
    .into_iter()
    .map(|(name, value)| (name.to_owned(), value))
    .collect()
}

/// The port answers before the server lets anyone in.
fn connect_patiently(parameters: &str) -> anyhow::Result<Client> {
    for _ in 0..200 {
        match Client::connect(parameters, NoTls) {
            Ok(client) => return Ok(client),
            Err(_) => std::thread::sleep(std::time::Duration::from_millis(50)),
        }
    }
    Client::connect(parameters, NoTls).context("PostgreSQL does not let us in")
}
