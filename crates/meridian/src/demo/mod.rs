//! `meridian demo`: the main job in one go.
//!
//! Starts a server on a data directory of its own, loads the weather events
//! through the wire, counts and pages them, prints the figures beside the
//! published ones, says how to connect, and serves until Ctrl-C. The loading,
//! asking and printing are `meridian bench weather`'s.

use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use meridian_bench::size::ByteSize;
use meridian_bench::suites::weather::demonstrate::{DATABASE, demonstrate};
use meridian_bench::targets::document::DocumentServer;
use meridian_bench::targets::{Journal, LaunchOptions};

/// Arguments of `meridian demo`.
#[derive(Debug, Args)]
pub struct DemoArgs {
    /// Events to load: the evaluation has 1,692,000
    #[arg(long, value_name = "N", default_value_t = 1_692_000, value_parser = clap::value_parser!(u64).range(1000..=16_000_000))]
    events: u64,

    /// Keep the data here [default: a temporary directory, removed at the end]
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,

    /// Where the server listens
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:27017")]
    listen: String,

    /// The server's cache
    #[arg(long, value_name = "SIZE", default_value = "1GiB")]
    cache_size: ByteSize,

    /// End after the table instead of serving until Ctrl-C
    #[arg(long)]
    once: bool,
}

/// Runs the demonstration.
///
/// # Errors
/// When the server does not start, or answers wrongly.
pub fn run(args: DemoArgs) -> anyhow::Result<()> {
    let stopped = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        // The second time ends this process at once, whatever it does.
        signal_hook::flag::register_conditional_shutdown(signal, 1, Arc::clone(&stopped))?;
        signal_hook::flag::register(signal, Arc::clone(&stopped))?;
    }
    let temporary = match &args.data {
        Some(_) => None,
        None => Some(tempfile_directory()?),
    };
    let data = args
        .data
        .clone()
        .or_else(|| temporary.as_ref().map(|directory| directory.0.clone()));
    let data = data.context("there is a data directory, given or temporary")?;
    let options = LaunchOptions {
        cache: args.cache_size,
        directory: None,
        journal: Journal::On,
    };
    println!("Meridian demo: {} in {}", args.listen, data.display());
    let mut server = DocumentServer::start_meridian_at(&data, &args.listen, &options)?;
    let shown = demonstrate(
        &server,
        args.events,
        &stopped,
        &mut std::io::stdout().lock(),
    );
    if stopped.load(Ordering::Relaxed) {
        // Ctrl-C reaches the server too: what failed for that reason is no failure.
        return Ok(());
    }
    shown?;
    if args.once {
        println!("\n{}", what_next(&args, &server));
        return std::io::stdout().flush().context("cannot print");
    }
    print_commands(&server)?;
    println!("\nServing until Ctrl-C.");
    std::io::stdout().flush()?;
    while !stopped.load(Ordering::Relaxed) && server.is_running() {
        std::thread::sleep(Duration::from_millis(100));
    }
    Ok(())
}

/// How to go on when the server has ended with the table.
fn what_next(args: &DemoArgs, server: &DocumentServer) -> String {
    let kept = args.data.as_ref().and(server.data_directory());
    match kept {
        Some(data) => format!(
            "The server has ended. To go on with its data: meridian serve --data {} --listen {}",
            data.display(),
            args.listen
        ),
        None => "The server has ended and its data is removed. Without --once it goes on, and says how to connect; \
                 with --data DIR the data stays."
            .to_owned(),
    }
}

/// A directory that is removed when dropped.
struct Temporary(PathBuf);

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn tempfile_directory() -> anyhow::Result<Temporary> {
    let path = std::env::temp_dir().join(format!("meridian-demo-{}", std::process::id()));
    std::fs::create_dir(&path).with_context(|| format!("cannot make {}", path.display()))?;
    Ok(Temporary(path))
}

fn print_commands(server: &DocumentServer) -> anyhow::Result<()> {
    let uri = format!("{}{DATABASE}", server.uri);
    println!(
        "\nConnect with any MongoDB driver, shell or tool:\n\n  mongosh {uri}\n\n\
         and try\n\n  \
         db.events.findOne()\n  \
         db.events.countDocuments({{startdatetime: {{$gt: ISODate('2017-12-23'), $lt: ISODate('2017-12-25')}}}})\n  \
         db.events.find({{location: {{$geoIntersects: {{$geometry: {{type: 'Polygon', coordinates: [[[2.55, 45.88], \
         [3.05, 45.88], [3.05, 46.03], [2.55, 46.03], [2.55, 45.88]]]}}}}}}}}).limit(5)\n  \
         db.events.aggregate([{{$group: {{_id: {{$dateTrunc: {{date: '$startdatetime', unit: 'day'}}}}, \
         events: {{$sum: 1}}}}}}, {{$sort: {{_id: 1}}}}])\n  \
         db.events.explain().count({{indexnum: {{$gt: 10, $lt: 20}}}})\n\n\
         Your own data: meridian import --uri {uri} -c places --headerline FILE.csv"
    );
    std::io::stdout().flush().context("cannot print")
}
