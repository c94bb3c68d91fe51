//! `meridian bench`: published evaluations, run again on Meridian and its peers.
//!
//! In: a suite's name and one or more targets. Out: a table in the terminal
//! and, if asked for, JSON and a self-contained page. Every target is spoken to
//! through its public protocol with the official Rust driver or a plain socket;
//! nothing here knows Meridian's inside. Absolute figures belong to the machine
//! they were taken on: what counts is the ratio between targets of one run.
//!
//! [`suites`] say what is asked, [`targets`] start and observe the servers,
//! [`load`] fills them, [`questions`] are asked with their answers, [`report`] prints. [`client`] is the plain-socket
//! client, which `meridian import` uses too; [`postgres_client`] is its like for PostgreSQL.

pub mod arguments;
pub mod client;
pub mod encode;
pub mod load;
pub mod machine;
pub mod measure;
pub mod postgres_client;
pub mod process;
pub mod progress;
pub mod questions;
pub mod report;
pub mod seeded;
pub mod size;
pub mod storage;
pub mod suites;
pub mod targets;

use clap::{Args, Subcommand};

/// Arguments of `meridian bench`.
#[derive(Debug, Args)]
pub struct BenchArgs {
    /// The evaluation to run.
    #[command(subcommand)]
    pub suite: Suite,
}

/// The evaluations that can be run.
#[derive(Debug, Subcommand)]
pub enum Suite {
    /// Which index a context broker needs: queries, creations and updates of single entities
    #[command(long_about = suites::entities::LONG_ABOUT)]
    Entities(suites::entities::EntitiesArgs),
    /// Secondary indexes that are written at random places, larger than the cache
    #[command(long_about = suites::indexing::LONG_ABOUT)]
    Indexing(suites::indexing::IndexingArgs),
    /// Joins, windows, groups and texts: questions that read much and return what was worked out
    #[command(long_about = suites::queries::LONG_ABOUT)]
    Queries(suites::queries::QueriesArgs),
    /// The most requests a second for the nearest restaurants, with ever more workers
    #[command(long_about = suites::restaurants::LONG_ABOUT)]
    Restaurants(suites::restaurants::RestaurantsArgs),
    /// A client process of `restaurants`, told by its standard input what to do
    #[command(hide = true)]
    RestaurantsClient,
    /// A year of New York's taxi trips, explored in a browser that shows a random sample
    #[command(long_about = suites::taxi::LONG_ABOUT)]
    Taxi(suites::taxi::TaxiArgs),
    /// Readings of sensors with places: ingest, disk, last readings, averages, downsampling
    #[command(long_about = suites::timeseries::LONG_ABOUT)]
    Timeseries(suites::timeseries::TimeseriesArgs),
    /// An operations centre's map: 1,692,000 events with a place and times
    #[command(long_about = suites::weather::LONG_ABOUT)]
    Weather(suites::weather::WeatherArgs),
}

/// Runs one suite.
///
/// # Errors
/// When a target cannot be started or reached, or answers wrongly.
pub fn run(args: BenchArgs) -> anyhow::Result<()> {
    match args.suite {
        Suite::Entities(args) => suites::entities::run(args),
        Suite::Indexing(args) => suites::indexing::run(args),
        Suite::Queries(args) => suites::queries::run(args),
        Suite::Restaurants(args) => suites::restaurants::run(args),
        Suite::RestaurantsClient => suites::restaurants::client_process::run(),
        Suite::Taxi(args) => suites::taxi::run(args),
        Suite::Timeseries(args) => suites::timeseries::run(args),
        Suite::Weather(args) => suites::weather::run(args),
    }
}
