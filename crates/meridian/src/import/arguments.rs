//! The command line, after mongoimport's.

use std::path::PathBuf;

use crate::access::client::{Credentials, LoginArguments, without_login};
use anyhow::{Context, bail};
use clap::{Args, ValueEnum};
use meridian_bench::client::Client;
use meridian_bench::targets::document::plain_address;

const LONG_ABOUT: &str = "Imports CSV, TSV or JSON into a collection.

Types of CSV and TSV columns. With --columnsHaveTypes each name carries its type: name.int32(), name.int64(), \
name.double(), name.decimal(), name.boolean(), name.string(), name.binary(base64|hex), \
name.date(LAYOUT) with Go's reference time (2006-01-02 15:04:05) or name.date() for the usual forms, \
name.point() for POINT(lon lat), name.auto().
Without it types are inferred for each column from the first 10,000 rows: int32, int64 or double when every \
value is such a number (numbers written with leading zeros or a plus stay text); a date when every value is \
2017-12-01, 2017-12-01 10:20:30[.123][Z|+01:00], the same with T, or DB2's 2017-12-01-10.20.30.123456, UTC unless \
it says otherwise; a GeoJSON Point when every value is POINT(lon lat); else a string. A later value that \
does not fit makes its row a failed one; nothing is guessed twice.

A row that fails is reported with its line and the reason, and the exit code is 1.";

/// Arguments of `meridian import`.
#[derive(Debug, Clone, Args)]
#[command(long_about = LONG_ABOUT, rename_all = "camelCase")]
pub struct ImportArgs {
    /// Server to import into: mongodb://HOST:PORT/DATABASE
    #[arg(long, value_name = "URI", conflicts_with_all = ["host", "port"])]
    pub uri: Option<String>,

    /// Host of the server, perhaps with :PORT
    #[arg(short = 'H', long, value_name = "HOST", default_value = "127.0.0.1")]
    pub host: String,

    /// Port of the server
    #[arg(long, value_name = "PORT")]
    pub port: Option<u16>,

    #[command(flatten)]
    pub login: LoginArguments,

    /// Database [default: the one in the URI, or `test`]
    #[arg(short, long, value_name = "NAME")]
    pub db: Option<String>,

    /// Collection [default: the file's name without its ending]
    #[arg(short, long, value_name = "NAME")]
    pub collection: Option<String>,

    /// Format of the input [default: by the file's ending, else json]
    #[arg(long = "type", value_name = "FORMAT", value_enum)]
    pub kind: Option<Format>,

    /// File to read [default: standard input]
    #[arg(long, value_name = "FILE")]
    pub file: Option<PathBuf>,

    /// The same as --file
    #[arg(value_name = "FILE", conflicts_with = "file")]
    pub path: Option<PathBuf>,

    /// The input is one JSON array of documents
    #[arg(long)]
    pub json_array: bool,

    /// The first row names the columns
    #[arg(long, conflicts_with = "fields")]
    pub headerline: bool,

    /// Names of the columns, separated by commas (a dot nests: a.b)
    #[arg(short, long, value_name = "NAMES")]
    pub fields: Option<String>,

    /// The names carry types: name.int32(),when.date(2006-01-02)
    #[arg(long)]
    pub columns_have_types: bool,

    /// Leave empty columns out of documents
    #[arg(long)]
    pub ignore_blanks: bool,

    /// Drop the collection first
    #[arg(long)]
    pub drop: bool,

    /// What to do with each document
    #[arg(long, value_enum, default_value_t = Mode::Insert)]
    pub mode: Mode,

    /// Fields that identify a document for upsert, merge and delete, separated by commas
    #[arg(
        long,
        value_name = "NAMES",
        default_value = "_id",
        value_delimiter = ','
    )]
    pub upsert_fields: Vec<String>,

    /// Documents in one message
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub batch_size: u32,

    /// Connections that insert at the same time
    #[arg(short = 'j', long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=64))]
    pub num_insertion_workers: u8,

    /// Stop at the first row that fails
    #[arg(long)]
    pub stop_on_error: bool,

    /// Insert in the input's order: one connection, stop at the first row that fails
    #[arg(long)]
    pub maintain_insertion_order: bool,

    /// Store documents that the collection's validator would refuse
    #[arg(long)]
    pub bypass_document_validation: bool,

    /// Write every failed row's line and reason to this file
    #[arg(long, value_name = "FILE")]
    pub rejects: Option<PathBuf>,

    /// No progress
    #[arg(long)]
    pub quiet: bool,
}

/// What the input is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Documents one after the other, or with --jsonArray one array; extended JSON
    Json,
    /// Comma-separated values
    Csv,
    /// Tab-separated values, without quoting
    Tsv,
}

/// What is done with each document.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Mode {
    /// Insert it
    Insert,
    /// Replace the document with the same upsertFields, or insert it
    Upsert,
    /// Set its fields in the document with the same upsertFields, or insert it
    Merge,
    /// Delete a document with the same upsertFields
    Delete,
}

/// Where the documents go.
#[derive(Clone)]
pub struct Target {
    /// `host:port`.
    pub address: String,
    /// Who logs in there.
    pub credentials: Option<Credentials>,
    /// The database.
    pub database: String,
    /// The collection.
    pub collection: String,
}

impl Target {
    /// One more connection there.
    ///
    /// # Errors
    /// When nobody listens, or the login fails.
    pub fn connect(&self) -> anyhow::Result<Client> {
        connect(&self.address, self.credentials.as_ref())
    }
}

/// A connection to `host:port`, logged in.
///
/// # Errors
/// When nobody listens, or the login fails.
pub fn connect(address: &str, credentials: Option<&Credentials>) -> anyhow::Result<Client> {
    let mut client = Client::connect(address)?;
    if let Some(credentials) = credentials {
        credentials.log_in(&mut client)?;
    }
    Ok(client)
}

impl ImportArgs {
    /// Where the documents go.
    ///
    /// # Errors
    /// When the URI cannot be used, or no collection is named.
    pub fn target(&self) -> anyhow::Result<Target> {
        let (address, uri_database) = server_address(self.uri.as_deref(), &self.host, self.port)?;
        let database = self
            .db
            .clone()
            .or(uri_database)
            .unwrap_or_else(|| "test".into());
        let from_file = || Some(self.input_path()?.file_stem()?.to_str()?.to_owned());
        let collection = self
            .collection
            .clone()
            .or_else(from_file)
            .context("name the collection with --collection")?;
        Ok(Target {
            credentials: self.login.credentials(self.uri.as_deref())?,
            address,
            database,
            collection,
        })
    }

    /// The file to read, if it is not standard input.
    pub fn input_path(&self) -> Option<&std::path::Path> {
        self.file.as_deref().or(self.path.as_deref())
    }

    /// The input's format.
    ///
    /// # Errors
    /// When columns of a CSV have no names.
    pub fn format(&self) -> anyhow::Result<Format> {
        let ending = self
            .input_path()
            .and_then(|path| path.extension()?.to_str());
        let format = self.kind.unwrap_or(match ending {
            Some("csv") => Format::Csv,
            Some("tsv") => Format::Tsv,
            _ => Format::Json,
        });
        if format == Format::Json {
            if self.headerline
                || self.fields.is_some()
                || self.columns_have_types
                || self.ignore_blanks
            {
                bail!(
                    "--headerline, --fields, --columnsHaveTypes and --ignoreBlanks are for CSV and TSV"
                );
            }
        } else if !self.headerline && self.fields.is_none() {
            bail!("CSV and TSV need --headerline or --fields");
        } else if self.json_array {
            bail!("--jsonArray is for JSON");
        }
        Ok(format)
    }

    /// Whether the first failure ends the import.
    pub fn stops_on_error(&self) -> bool {
        self.stop_on_error || self.maintain_insertion_order
    }

    /// Connections to use.
    pub fn workers(&self) -> usize {
        if self.maintain_insertion_order {
            1
        } else {
            self.num_insertion_workers.into()
        }
    }
}

/// `host:port` and perhaps the database of the connection flags.
///
/// # Errors
/// When the URI cannot be used by a plain client.
pub fn server_address(
    uri: Option<&str>,
    host: &str,
    port: Option<u16>,
) -> anyhow::Result<(String, Option<String>)> {
    let Some(uri) = uri else {
        let address = match port {
            Some(port) => format!("{host}:{port}"),
            None => plain_address(&format!("mongodb://{host}"))?,
        };
        return Ok((address, None));
    };
    let path = uri
        .trim_start_matches("mongodb://")
        .split_once('/')
        .map_or("", |(_, path)| path);
    let database = path.split('?').next().filter(|name| !name.is_empty());
    let address = plain_address(&without_login(uri))?;
    Ok((address, database.map(str::to_owned)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_database_comes_from_the_uri() {
        for uri in [
            "mongodb://h:1/weather?w=1",
            "mongodb://ann:p%40@h:1/weather",
        ] {
            let parsed = server_address(Some(uri), "x", None).expect("ok");
            assert_eq!(parsed, ("h:1".into(), Some("weather".into())));
        }
        assert_eq!(
            server_address(None, "h", Some(7)).expect("ok"),
            ("h:7".into(), None)
        );
        assert_eq!(
            server_address(None, "h", None).expect("ok"),
            ("h:27017".into(), None)
        );
    }
}
