//! The server's settings: from flags, else from the config file, else the defaults.

use super::encryption::KeyArguments;
use super::size::parse_size;
use anyhow::Context as _;
use clap::{Args, ValueEnum};
use serde::Deserialize;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

const DEFAULT_DATA: &str = "meridian-data";
const DEFAULT_LISTEN: &str = "127.0.0.1:27017";
const DEFAULT_CACHE_BYTES: u64 = 1 << 30;
const DEFAULT_MAX_CONNECTIONS: u32 = 10_000;

/// What a server runs with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// The data directory.
    pub data: PathBuf,
    /// Where to listen.
    pub listen: SocketAddr,
    /// Memory for blocks, filters and write buffers.
    pub cache_bytes: u64,
    /// Whether writes go to a write-ahead log.
    pub journal: bool,
    /// How log lines look.
    pub log_format: LogFormat,
    /// Connections past this many are refused.
    pub max_connections: u32,
    /// As are those of one address past this many.
    pub max_connections_per_address: Option<u32>,
    /// As are logins of one user past this many connections.
    pub max_connections_per_user: Option<u32>,
    /// The time limit of reads that have none of their own.
    pub default_max_time: Option<Duration>,
    /// Seconds between two sweeps of the TTL indexes.
    pub ttl_sweep_seconds: u64,
    /// Whether indexes of kinds that are not there are listed, not built, where they would be refused.
    pub accept_unbuilt_indexes: bool,
    /// Whether clients may have JavaScript run.
    pub javascript: bool,
    /// Which connections are encrypted.
    pub tls_mode: TlsMode,
    /// The server's certificate and key, in one PEM file.
    pub tls_certificate_key_file: Option<PathBuf>,
    /// Clients must have a certificate that one of these signed.
    pub tls_ca_file: Option<PathBuf>,
    /// Where the master key of an encrypted data directory is.
    pub key: KeyArguments,
    /// Whether clients have to log in, and may do what their roles allow.
    pub auth: bool,
    /// Where the record of who did what is kept.
    pub audit_log: Option<PathBuf>,
    /// Which events it has: a query in JSON.
    pub audit_filter: Option<String>,
    /// Whether each event is on disk before its reply is sent.
    pub audit_sync: bool,
}

/// Which connections are encrypted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TlsMode {
    /// None.
    Disabled,
    /// Those of clients that ask for it.
    Allow,
    /// All.
    Require,
}

/// How log lines look.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

/// Whether something is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Switch {
    /// It is.
    On,
    /// It is not.
    Off,
}

/// Whether the write-ahead log is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Journal {
    /// An acknowledged write survives the process being killed.
    On,
    /// For bulk loads that can be started over: a crash loses the writes of the last minute.
    Off,
}

/// The settings that may be given on the command line; the config file has the same names.
#[derive(Debug, Default, Clone, Args, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct SettingArguments {
    /// Directory that holds the data; created if it is not there [default: meridian-data]
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Address and port to listen on; port 0 picks a free one [default: 127.0.0.1:27017]
    #[arg(long, value_name = "ADDR:PORT")]
    listen: Option<SocketAddr>,
    /// Memory for blocks and write buffers [default: 1GiB]
    #[arg(long, value_name = "SIZE")]
    cache_size: Option<String>,
    /// Write-ahead log: off only for bulk loads that can be started over [default: on]
    #[arg(long, value_name = "on|off")]
    journal: Option<Journal>,
    /// How log lines look [default: text]
    #[arg(long, value_name = "text|json")]
    log_format: Option<LogFormat>,
    /// Connections past this many are refused [default: 10000]
    #[arg(long, value_name = "N")]
    max_connections: Option<u32>,
    /// Connections of one address past this many are refused [default: no limit]
    #[arg(long, value_name = "N")]
    max_connections_per_address: Option<u32>,
    /// Logins of one user past this many connections are refused [default: no limit]
    #[arg(long, value_name = "N")]
    max_connections_per_user: Option<u32>,
    /// Milliseconds that a find, aggregate, count or distinct without a maxTimeMS of its own may take [default: no limit]
    #[arg(long, value_name = "MILLISECONDS")]
    default_max_time_ms: Option<u64>,
    /// Seconds between two sweeps of the TTL indexes [default: 60]
    #[arg(long, value_name = "SECONDS")]
    ttl_sweep_seconds: Option<u64>,
    /// List text indexes of old versions and those of absent collations, without building them, where they would be refused:
    /// so that a restore of a whole server goes through [default: false]
    #[arg(long, value_name = "true|false", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    accept_unbuilt_indexes: Option<bool>,
    /// Whether clients may have JavaScript run: $where, $function, $accumulator, mapReduce [default: on]
    #[arg(long, value_name = "on|off")]
    javascript: Option<Switch>,
    /// Encryption: allow serves plain connections too [default: require with a certificate, else disabled]
    #[arg(long, value_name = "disabled|allow|require")]
    tls_mode: Option<TlsMode>,
    /// PEM file with the server's certificate and private key
    #[arg(long, value_name = "FILE")]
    tls_certificate_key_file: Option<PathBuf>,
    /// PEM file: clients must have a certificate signed by one of these
    #[arg(long, value_name = "FILE")]
    tls_ca_file: Option<PathBuf>,
    /// Encryption at rest: a file with the master key, 32 bytes in base64, readable by its owner alone. A new data
    /// directory becomes encrypted; `meridian encrypt` encrypts one that is not
    #[arg(long, value_name = "FILE")]
    encryption_key_file: Option<PathBuf>,
    /// The same, by a command that prints the master key, for a key manager; run by sh
    #[arg(long, value_name = "COMMAND")]
    encryption_key_command: Option<String>,
    /// Access control: clients log in, and may do what their roles allow. Without a word, off on a loopback address;
    /// to listen elsewhere needs it on, or off in words
    #[arg(long, value_name = "on|off")]
    auth: Option<Switch>,
    /// Record who did what: logins, what was refused, changes of users, roles, collections, indexes and databases; a line
    /// of JSON each, in the shape of MongoDB's audit messages. SIGHUP begins the file anew after it was moved
    #[arg(long, value_name = "FILE")]
    audit_log: Option<PathBuf>,
    /// Record only events that this query matches, e.g. '{"atype": "authCheck"}'
    #[arg(long, value_name = "JSON")]
    audit_filter: Option<String>,
    /// Whether each event is on disk before its reply is sent [default: off]
    #[arg(long, value_name = "on|off")]
    audit_sync: Option<Switch>,
}

impl SettingArguments {
    /// Reads a config file.
    ///
    /// # Errors
    /// If it cannot be read, or has a setting that does not exist.
    pub fn from_file(path: &Path) -> anyhow::Result<Self> {
        let text = std::fs::read_to_string(path)
            .with_context(|| format!("cannot read the config file {}", path.display()))?;
        toml::from_str(&text).map_err(|error| {
            let (path, error) = (path.display(), error.to_string());
            anyhow::anyhow!("the config file {path} is wrong: {}", error.trim_end())
        })
    }

    /// These settings, and `others` where these say nothing.
    #[must_use]
    pub fn or(self, others: Self) -> Self {
        Self {
            data: self.data.or(others.data),
            listen: self.listen.or(others.listen),
            cache_size: self.cache_size.or(others.cache_size),
            journal: self.journal.or(others.journal),
            log_format: self.log_format.or(others.log_format),
            max_connections: self.max_connections.or(others.max_connections),
            max_connections_per_address: self
                .max_connections_per_address
                .or(others.max_connections_per_address),
            max_connections_per_user: self
                .max_connections_per_user
                .or(others.max_connections_per_user),
            default_max_time_ms: self.default_max_time_ms.or(others.default_max_time_ms),
            ttl_sweep_seconds: self.ttl_sweep_seconds.or(others.ttl_sweep_seconds),
            accept_unbuilt_indexes: self
                .accept_unbuilt_indexes
                .or(others.accept_unbuilt_indexes),
            javascript: self.javascript.or(others.javascript),
            tls_mode: self.tls_mode.or(others.tls_mode),
            tls_certificate_key_file: self
                .tls_certificate_key_file
                .or(others.tls_certificate_key_file),
            tls_ca_file: self.tls_ca_file.or(others.tls_ca_file),
            encryption_key_file: self.encryption_key_file.or(others.encryption_key_file),
            encryption_key_command: self
                .encryption_key_command
                .or(others.encryption_key_command),
            auth: self.auth.or(others.auth),
            audit_log: self.audit_log.or(others.audit_log),
            audit_filter: self.audit_filter.or(others.audit_filter),
            audit_sync: self.audit_sync.or(others.audit_sync),
        }
    }

    /// Fills in the defaults.
    ///
    /// # Errors
    /// If the cache size is not a size, clients are to have certificates where nothing is encrypted, or whoever is on
    /// the network is let in without a word.
    pub fn complete(self) -> anyhow::Result<Settings> {
        anyhow::ensure!(
            self.tls_ca_file.is_none() || self.tls_certificate_key_file.is_some(),
            "tls-ca-file needs tls-certificate-key-file: without a certificate of the server's own nothing is \
             encrypted, and no client would be asked for its certificate"
        );
        anyhow::ensure!(
            self.tls_ca_file.is_none() || self.tls_mode != Some(TlsMode::Disabled),
            "tls-ca-file has no effect with tls-mode disabled: no client would be asked for its certificate"
        );
        let cache_bytes = match self.cache_size.as_deref().map(parse_size) {
            None => DEFAULT_CACHE_BYTES,
            Some(size) => size.map_err(anyhow::Error::msg).context("cache-size")?,
        };
        let default_tls = match self.tls_certificate_key_file {
            Some(_) => TlsMode::Require,
            None => TlsMode::Disabled,
        };
        anyhow::ensure!(
            self.audit_log.is_some() || (self.audit_filter.is_none() && self.audit_sync.is_none()),
            "audit-filter and audit-sync need audit-log: without it nothing is recorded"
        );
        let default_listen = || DEFAULT_LISTEN.parse().expect("the default is an address");
        let listen = self.listen.unwrap_or_else(default_listen);
        anyhow::ensure!(
            listen.ip().is_loopback() || self.auth.is_some(),
            "{listen} can be reached from other machines: say --auth on, so that clients log in, or --auth off, if \
             whoever reaches it may do everything"
        );
        Ok(Settings {
            data: self.data.unwrap_or_else(|| DEFAULT_DATA.into()),
            listen,
            cache_bytes,
            journal: self.journal != Some(Journal::Off),
            log_format: self.log_format.unwrap_or(LogFormat::Text),
            max_connections: self.max_connections.unwrap_or(DEFAULT_MAX_CONNECTIONS),
            max_connections_per_address: self.max_connections_per_address,
            max_connections_per_user: self.max_connections_per_user,
            default_max_time: self.default_max_time_ms.map(Duration::from_millis),
            ttl_sweep_seconds: self.ttl_sweep_seconds.unwrap_or(60).max(1),
            accept_unbuilt_indexes: self.accept_unbuilt_indexes.unwrap_or(false),
            javascript: self.javascript != Some(Switch::Off),
            tls_mode: self.tls_mode.unwrap_or(default_tls),
            tls_certificate_key_file: self.tls_certificate_key_file,
            tls_ca_file: self.tls_ca_file,
            key: KeyArguments {
                encryption_key_file: self.encryption_key_file,
                encryption_key_command: self.encryption_key_command,
            },
            auth: self.auth == Some(Switch::On),
            audit_log: self.audit_log,
            audit_filter: self.audit_filter,
            audit_sync: self.audit_sync == Some(Switch::On),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_win_over_the_file_and_the_file_over_the_defaults() {
        let file: SettingArguments =
            toml::from_str("cache-size = \"2GiB\"\njournal = \"off\"\nmax-connections = 5")
                .expect("valid");
        let flags = SettingArguments {
            journal: Some(Journal::On),
            ..SettingArguments::default()
        };
        let settings = flags.or(file).complete().expect("valid");
        assert_eq!(settings.cache_bytes, 2 << 30);
        assert!(settings.journal);
        assert_eq!(settings.max_connections, 5);
        assert_eq!(settings.listen.to_string(), DEFAULT_LISTEN);
        assert_eq!(settings.tls_mode, TlsMode::Disabled);
    }

    #[test]
    fn a_certificate_turns_encryption_on() {
        let file = "tls-certificate-key-file = \"server.pem\"";
        let given: SettingArguments = toml::from_str(file).expect("valid");
        assert_eq!(
            given.clone().complete().expect("valid").tls_mode,
            TlsMode::Require
        );
        let flags = SettingArguments {
            tls_mode: Some(TlsMode::Allow),
            ..SettingArguments::default()
        };
        assert_eq!(
            flags.or(given).complete().expect("valid").tls_mode,
            TlsMode::Allow
        );
    }

    #[test]
    fn clients_certificates_are_not_asked_for_in_vain() {
        let complete = |text: &str| {
            let given: SettingArguments = toml::from_str(text).expect("valid");
            given.complete().map_err(|error| error.to_string())
        };
        let (ca, key) = ("tls-ca-file = 'a'", "tls-certificate-key-file = 'b'");
        for without in [ca.to_owned(), format!("{ca}\ntls-mode = 'require'")] {
            let error = complete(&without).expect_err("no certificate");
            assert!(error.contains("needs tls-certificate-key-file"), "{error}");
        }
        let error = complete(&format!("{ca}\n{key}\ntls-mode = 'disabled'"));
        assert!(error.expect_err("not encrypted").contains("tls-mode"));
        assert!(complete(&format!("{ca}\n{key}")).is_ok());
        assert!(complete(&format!("{ca}\n{key}\ntls-mode = 'allow'")).is_ok());
    }

    #[test]
    fn a_setting_that_does_not_exist_is_refused() {
        assert!(toml::from_str::<SettingArguments>("cash-size = \"1GiB\"").is_err());
    }
}
