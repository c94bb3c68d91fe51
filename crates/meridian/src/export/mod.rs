//! `meridian export`: documents into JSON or CSV, over the wire.
//!
//! In: a query. Out: JSON lines, a JSON array, or CSV rows of chosen fields, to
//! a file or standard output. What [`crate::import`] writes it reads back:
//! points as `POINT(lon lat)`, dates in ISO form, extended JSON elsewhere.

mod csv;

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::PathBuf;

use anyhow::{Context, bail};
use bson::{Bson, Document, RawArray, RawBsonRef, RawDocument, RawDocumentBuf, rawdoc};
use clap::{Args, ValueEnum};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use meridian_bench::client::Client;
use meridian_bench::targets::document::raw_number;

use crate::access::client::LoginArguments;
use crate::import::{connect, server_address};

/// Documents between two looks at the progress.
const PROGRESS_DOCUMENTS: u64 = 1000;

/// Arguments of `meridian export`.
#[derive(Debug, Args)]
#[command(rename_all = "camelCase")]
pub struct ExportArgs {
    /// Server to export from: mongodb://HOST:PORT/DATABASE
    #[arg(long, value_name = "URI", conflicts_with_all = ["host", "port"])]
    uri: Option<String>,

    /// Host of the server, perhaps with :PORT
    #[arg(short = 'H', long, value_name = "HOST", default_value = "127.0.0.1")]
    host: String,

    /// Port of the server
    #[arg(long, value_name = "PORT")]
    port: Option<u16>,

    #[command(flatten)]
    login: LoginArguments,

    /// Database [default: the one in the URI, or `test`]
    #[arg(short, long, value_name = "NAME")]
    db: Option<String>,

    /// Collection
    #[arg(short, long, value_name = "NAME")]
    collection: String,

    /// Format of the output
    #[arg(long = "type", value_name = "FORMAT", value_enum, default_value_t = Format::Json)]
    kind: Format,

    /// File to write [default: standard output]
    #[arg(short, long, value_name = "FILE")]
    out: Option<PathBuf>,

    /// Fields to export, separated by commas (a dot goes into a document); CSV needs them
    #[arg(short, long, value_name = "NAMES", value_delimiter = ',')]
    fields: Vec<String>,

    /// Filter, as extended JSON
    #[arg(short, long, value_name = "JSON", default_value = "{}")]
    query: String,

    /// Order, as extended JSON
    #[arg(long, value_name = "JSON")]
    sort: Option<String>,

    /// Documents to leave out first
    #[arg(long, value_name = "N")]
    skip: Option<i64>,

    /// Most documents
    #[arg(long, value_name = "N")]
    limit: Option<i64>,

    /// One JSON array instead of a document a line
    #[arg(long)]
    json_array: bool,

    /// Extended JSON that keeps every type, or that reads well
    #[arg(long, value_name = "FORM", value_enum, default_value_t = JsonFormat::Relaxed)]
    json_format: JsonFormat,

    /// Write JSON over several lines
    #[arg(long)]
    pretty: bool,

    /// No line of names before CSV rows
    #[arg(long)]
    no_header_line: bool,

    /// No progress
    #[arg(long)]
    quiet: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// Extended JSON
    Json,
    /// Comma-separated values
    Csv,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum JsonFormat {
    /// Reads well; int32 and int64 look alike
    Relaxed,
    /// Keeps every type
    Canonical,
}

/// Exports and prints how many documents there were.
///
/// # Errors
/// When the server refuses the query or the output cannot be written.
pub fn run(args: ExportArgs) -> anyhow::Result<()> {
    let (address, uri_database) = server_address(args.uri.as_deref(), &args.host, args.port)?;
    let database = args
        .db
        .clone()
        .or(uri_database)
        .unwrap_or_else(|| "test".into());
    if args.kind == Format::Csv && args.fields.is_empty() {
        bail!("CSV needs --fields");
    }
    let find = find_command(&args, &database)?;
    let credentials = args.login.credentials(args.uri.as_deref())?;
    let mut client = connect(&address, credentials.as_ref())?;
    let total = count(&mut client, &args, &database)?;
    let mut output = Output::new(&args)?;
    let bar = progress_bar(total, args.quiet);
    let mut written = 0;
    each_document(
        &mut client,
        &find,
        &database,
        &args.collection,
        |document| {
            output.write(document)?;
            written += 1;
            if written % PROGRESS_DOCUMENTS == 0 {
                bar.set_position(written);
            }
            Ok(())
        },
    )?;
    output.finish()?;
    bar.finish_and_clear();
    if !args.quiet {
        eprintln!("{written} documents exported");
    }
    Ok(())
}

fn progress_bar(total: u64, quiet: bool) -> ProgressBar {
    let bar = ProgressBar::new(total);
    if quiet {
        bar.set_draw_target(ProgressDrawTarget::hidden());
    }
    let style =
        ProgressStyle::with_template("[{bar:30}] {human_pos}/{human_len} {per_sec} eta {eta}");
    bar.set_style(
        style
            .expect("the template is a constant and valid")
            .progress_chars("=> "),
    );
    bar
}

fn parse_document(what: &str, text: &str) -> anyhow::Result<RawDocumentBuf> {
    let json: serde_json::Value =
        serde_json::from_str(text).with_context(|| format!("{what} is not JSON"))?;
    match Bson::try_from(json).with_context(|| format!("{what} is not extended JSON"))? {
        Bson::Document(document) => Ok(RawDocumentBuf::try_from(&document)?),
        _ => bail!("{what} is not a document"),
    }
}

fn find_command(args: &ExportArgs, database: &str) -> anyhow::Result<RawDocumentBuf> {
    let mut find = rawdoc! { "find": args.collection.as_str() };
    find.append(
        bson::cstr!("filter"),
        parse_document("--query", &args.query)?,
    );
    if let Some(sort) = &args.sort {
        find.append(bson::cstr!("sort"), parse_document("--sort", sort)?);
    }
    if !args.fields.is_empty() {
        let mut projection: Document = args
            .fields
            .iter()
            .map(|field| (field.clone(), Bson::Int32(1)))
            .collect();
        if args.kind == Format::Csv && !args.fields.iter().any(|field| field == "_id") {
            projection.insert("_id", 0);
        }
        find.append(
            bson::cstr!("projection"),
            RawDocumentBuf::try_from(&projection)?,
        );
    }
    if let Some(skip) = args.skip {
        find.append(bson::cstr!("skip"), skip);
    }
    if let Some(limit) = args.limit {
        find.append(bson::cstr!("limit"), limit);
    }
    find.append(bson::cstr!("batchSize"), 10_000);
    find.append(bson::cstr!("$db"), database);
    Ok(find)
}

/// How many documents will come, for the estimate.
fn count(client: &mut Client, args: &ExportArgs, database: &str) -> anyhow::Result<u64> {
    let mut count = rawdoc! { "count": args.collection.as_str() };
    count.append(
        bson::cstr!("query"),
        parse_document("--query", &args.query)?,
    );
    if let Some(skip) = args.skip {
        count.append(bson::cstr!("skip"), skip);
    }
    if let Some(limit) = args.limit {
        count.append(bson::cstr!("limit"), limit);
    }
    count.append(bson::cstr!("$db"), database);
    Ok(raw_number(&client.command(&count)?, "n").unwrap_or(0))
}

fn each_document(
    client: &mut Client,
    find: &RawDocument,
    database: &str,
    collection: &str,
    mut each: impl FnMut(&RawDocument) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let mut reply = client.command(find)?;
    let mut batch_name = "firstBatch";
    loop {
        let cursor = reply
            .get_document("cursor")
            .context("the reply has no cursor")?;
        let batch: &RawArray = cursor
            .get_array(batch_name)
            .context("the cursor has no batch")?;
        for document in batch {
            if let RawBsonRef::Document(document) = document? {
                each(document)?;
            }
        }
        let id = cursor.get_i64("id").context("the cursor has no id")?;
        if id == 0 {
            return Ok(());
        }
        let more = rawdoc! { "getMore": id, "collection": collection, "batchSize": 10_000, "$db": database };
        reply = client.command(&more)?;
        batch_name = "nextBatch";
    }
}

/// Where documents are written, and how.
struct Output<'a> {
    args: &'a ExportArgs,
    out: BufWriter<Box<dyn Write>>,
    first: bool,
}

impl<'a> Output<'a> {
    fn new(args: &'a ExportArgs) -> anyhow::Result<Self> {
        let writer: Box<dyn Write> = match &args.out {
            Some(path) => Box::new(
                File::create(path).with_context(|| format!("cannot write {}", path.display()))?,
            ),
            None => Box::new(std::io::stdout()),
        };
        let mut out = BufWriter::with_capacity(1 << 20, writer);
        if args.kind == Format::Csv && !args.no_header_line {
            csv::write_names(&args.fields, &mut out)?;
        }
        if args.kind == Format::Json && args.json_array {
            out.write_all(b"[")?;
        }
        Ok(Self {
            args,
            out,
            first: true,
        })
    }

    fn write(&mut self, document: &RawDocument) -> anyhow::Result<()> {
        let document = Document::try_from(document).with_context(|| {
            let id = document.get("_id").ok().flatten();
            let id = id.and_then(|id| Bson::try_from(id).ok());
            format!(
                "the document with _id {} cannot be written as text (mongodump keeps strings that are not valid UTF-8)",
                id.map_or("that is not text".to_owned(), |id| id.to_string())
            )
        })?;
        if self.args.kind == Format::Csv {
            return csv::write_row(&self.args.fields, &document, &mut self.out);
        }
        if self.args.json_array && !self.first {
            self.out.write_all(b",\n")?;
        }
        self.first = false;
        let json = match self.args.json_format {
            JsonFormat::Relaxed => Bson::Document(document).into_relaxed_extjson(),
            JsonFormat::Canonical => Bson::Document(document).into_canonical_extjson(),
        };
        if self.args.pretty {
            serde_json::to_writer_pretty(&mut self.out, &json)?;
        } else {
            serde_json::to_writer(&mut self.out, &json)?;
        }
        if !self.args.json_array {
            self.out.write_all(b"\n")?;
        }
        Ok(())
    }

    fn finish(mut self) -> anyhow::Result<()> {
        if self.args.kind == Format::Json && self.args.json_array {
            self.out.write_all(b"]\n")?;
        }
        self.out.flush().context("the output cannot be written")
    }
}
