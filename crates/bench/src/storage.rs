//! What a collection or table takes on disk once the server has come to rest.

use std::time::{Duration, Instant};

use anyhow::Context;
use bson::{Document, doc};

use crate::progress;
use crate::report::TargetReport;
use crate::targets::Target;
use crate::targets::document::{DocumentServer, number};
use crate::targets::postgres::PostgresServer;

/// How long a server may take until its sizes stand still.
const SETTLE_TIMEOUT: Duration = Duration::from_secs(300);
/// Sizes stand still when they have not changed for so long: a server may begin to tidy up some seconds after
/// its last write, Meridian after five.
const STILL_SECONDS: u32 = 10;

/// Flushes a document server, waits until the collection's sizes stand still, and adds the rows.
///
/// # Errors
/// The server's.
pub fn of_collection(
    server: &DocumentServer,
    database: &str,
    collection: &str,
    report: &mut TargetReport,
) -> anyhow::Result<()> {
    let spinner = progress::spinner(&format!("{}: settling", server.name));
    let [data, indexes] = settle(server, database, collection)?;
    spinner.finish_and_clear();
    report.storage(
        data.context("collStats has no storageSize")?,
        indexes.context("collStats has no totalIndexSize")?,
        server.observe(),
    );
    Ok(())
}

/// Flushes and waits until the sizes of data and indexes stand still.
///
/// # Errors
/// The server's.
pub fn settle(
    server: &DocumentServer,
    database: &str,
    collection: &str,
) -> anyhow::Result<[Option<u64>; 2]> {
    settle_all(server, database, &[collection])
}

/// The same of several collections: the sums of their sizes.
///
/// # Errors
/// The server's.
pub fn settle_all(
    server: &DocumentServer,
    database: &str,
    collections: &[&str],
) -> anyhow::Result<[Option<u64>; 2]> {
    server.command("admin", doc! { "fsync": 1 })?;
    let sizes_now = || {
        let one = |collection: &&str| {
            Ok(sizes(
                &server.command(database, doc! { "collStats": *collection })?,
            ))
        };
        let each: anyhow::Result<Vec<_>> = collections.iter().map(one).collect();
        let each = each?;
        anyhow::Ok([0, 1].map(|size| each.iter().map(|sizes| sizes[size]).sum()))
    };
    let started = Instant::now();
    let mut last = sizes_now()?;
    let mut still = 0;
    while still < STILL_SECONDS && started.elapsed() < SETTLE_TIMEOUT {
        std::thread::sleep(Duration::from_secs(1));
        let now = sizes_now()?;
        still = if now == last { still + 1 } else { 0 };
        last = now;
    }
    Ok(last)
}

fn sizes(statistics: &Document) -> [Option<u64>; 2] {
    [
        number(statistics, "storageSize"),
        number(statistics, "totalIndexSize"),
    ]
}

/// Lets PostgreSQL do its housekeeping and adds the rows.
///
/// # Errors
/// The server's.
pub fn of_table(
    server: &mut PostgresServer,
    table: &str,
    report: &mut TargetReport,
) -> anyhow::Result<()> {
    tidy(server, table)?;
    let [data, indexes] = table_sizes(server, table)?;
    report.storage(data, indexes, server.observe());
    Ok(())
}

/// Lets PostgreSQL do its housekeeping.
///
/// # Errors
/// The server's.
pub fn tidy(server: &mut PostgresServer, table: &str) -> anyhow::Result<()> {
    let spinner = progress::spinner(&format!("{}: VACUUM ANALYZE", server.name));
    server
        .client
        .batch_execute(&format!("VACUUM ANALYZE {table}"))?;
    server.client.batch_execute("CHECKPOINT")?;
    spinner.finish_and_clear();
    Ok(())
}

/// Tidies tables and adds what they take: bytes of data and of indexes.
///
/// # Errors
/// The server's.
pub fn settle_tables(
    server: &mut PostgresServer,
    names: impl IntoIterator<Item = String>,
) -> anyhow::Result<[u64; 2]> {
    let mut sizes = [0, 0];
    for name in names {
        tidy(server, &name)?;
        for (sum, size) in sizes.iter_mut().zip(table_sizes(server, &name)?) {
            *sum += size;
        }
    }
    Ok(sizes)
}

/// Bytes of a table's data and of its indexes, those of its partitions included.
///
/// # Errors
/// The server's.
pub fn table_sizes(server: &mut PostgresServer, table: &str) -> anyhow::Result<[u64; 2]> {
    let row = server.client.query_one(
        "SELECT sum(pg_table_size(part))::bigint, sum(pg_indexes_size(part))::bigint FROM \
         (SELECT $1::text::regclass AS part UNION SELECT relid FROM pg_partition_tree($1::text::regclass)) parts",
        &[&table],
    )?;
    Ok([row.get::<_, i64>(0) as u64, row.get::<_, i64>(1) as u64])
}
