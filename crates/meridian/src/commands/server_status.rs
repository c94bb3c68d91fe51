//! `serverStatus`: counters of the running server, in MongoDB's places where it has one.

use super::build_info::{COMPATIBLE_VERSION, write_own_version};
use super::context::Context;
use super::metrics::write_metrics;
use super::standalone_sections;
use crate::service::Compression;
use crate::service::OperationClass;
use crate::service::Service;
use meridian_engine::Result;
use meridian_wire::DocumentWriter;

/// Answers with all sections. A section's name set to 0 or 1 is accepted; all are sent anyway
/// unless it is 0.
pub fn run(context: &mut Context<'_>, reply: &mut DocumentWriter<'_>) -> Result<()> {
    let wanted = |name: &str| {
        let wanted = context.body.get(name).ok().flatten();
        wanted.and_then(super::arguments::truth).unwrap_or(true)
    };
    write_sections(context.service, wanted, reply);
    Ok(())
}

/// `getDiagnosticData`: the same as `data.serverStatus`, with the times of its beginning and end. mongod takes it
/// once a second and answers with the latest; the Prometheus exporter asks for nothing else.
pub fn run_diagnostic(context: &mut Context<'_>, reply: &mut DocumentWriter<'_>) -> Result<()> {
    let now = bson::DateTime::now;
    let mut data = reply.document("data");
    data.date("start", now());
    {
        let mut status = data.document("serverStatus");
        status.date("start", now());
        write_sections(context.service, |_| true, &mut status);
        status.double("ok", 1.0).date("end", now());
    }
    data.date("end", now());
    Ok(())
}

fn write_sections(
    service: &Service,
    wanted: impl Fn(&str) -> bool,
    reply: &mut DocumentWriter<'_>,
) {
    write_process(service, reply);
    for (name, write) in SECTIONS {
        if wanted(name) {
            write(service, &mut reply.document(name));
        }
    }
    // As MongoDB's: only where data is encrypted.
    if wanted("encryptionAtRest") && service.settings.key.is_given() {
        reply
            .document("encryptionAtRest")
            .boolean("encryptionEnabled", true)
            .string("encryptionCipherMode", "AES256-CTR");
    }
    write_own_version(reply);
}

type Section = (&'static str, fn(&Service, &mut DocumentWriter<'_>));

/// In MongoDB's order.
const SECTIONS: &[Section] = &[
    ("activeIndexBuilds", write_index_builds),
    ("asserts", write_asserts),
    ("batchedDeletes", standalone_sections::write_batched_deletes),
    ("catalogStats", write_catalog),
    ("connections", write_connections),
    ("electionMetrics", standalone_sections::write_elections),
    ("extra_info", write_extra_info),
    ("flowControl", standalone_sections::write_flow_control),
    ("freeMonitoring", standalone_sections::write_free_monitoring),
    ("globalLock", write_global_lock),
    ("indexStats", write_indexes),
    ("locks", standalone_sections::write_locks),
    ("logicalSessionRecordCache", write_sessions),
    ("network", write_network),
    ("opLatencies", write_latencies),
    ("opcounters", write_operations),
    ("opcountersRepl", write_replicated),
    ("storageEngine", write_storage_engine),
    (
        "tenantMigrations",
        standalone_sections::write_tenant_migrations,
    ),
    (
        "trafficRecording",
        standalone_sections::write_traffic_recording,
    ),
    ("transactions", standalone_sections::write_transactions),
    (
        "twoPhaseCommitCoordinator",
        standalone_sections::write_two_phase_commits,
    ),
    ("mem", write_memory),
    ("metrics", write_metrics),
    ("rankIndexes", write_rank_indexes),
];

fn write_process(service: &Service, reply: &mut DocumentWriter<'_>) {
    let uptime = service.started.elapsed();
    let uptime_seconds = i64::try_from(uptime.as_secs()).unwrap_or(i64::MAX);
    reply
        .string("host", &service.host)
        .string("version", COMPATIBLE_VERSION);
    reply
        .string("process", "meridian")
        .int64("pid", i64::from(std::process::id()));
    reply.double("uptime", uptime.as_secs_f64().floor());
    reply.int64(
        "uptimeMillis",
        i64::try_from(uptime.as_millis()).unwrap_or(i64::MAX),
    );
    reply
        .int64("uptimeEstimate", uptime_seconds)
        .date("localTime", bson::DateTime::now());
}

fn write_asserts(service: &Service, section: &mut DocumentWriter<'_>) {
    let counters = &service.counters;
    section.int32("regular", 0).int32("warning", 0);
    section
        .count("msg", counters.panics.get())
        .count("user", counters.user_errors.get());
    section.int32("tripwire", 0).int32("rollovers", 0);
}

fn write_connections(service: &Service, section: &mut DocumentWriter<'_>) {
    let counters = &service.counters;
    let current = counters.connections_current.get();
    let available = i64::from(service.settings.max_connections) - current;
    let active = service
        .activities()
        .iter()
        .filter(|each| each.running().is_some())
        .count();
    section
        .count("current", current)
        .count("available", available.max(0));
    section.count("totalCreated", counters.connections_created.get());
    section.count("rejected", counters.connections_refused.get());
    section
        .count("active", active.try_into().unwrap_or(i64::MAX))
        .count("threaded", current);
    // Nobody is told of changes of the topology, since there are none, so no hello waits for one.
    section
        .int32("exhaustIsMaster", 0)
        .int32("exhaustHello", 0)
        .int32("awaitingTopologyChanges", 0);
}

/// Index builds that statements wait for: each scans its collection.
fn write_index_builds(service: &Service, section: &mut DocumentWriter<'_>) {
    let activities = service.activities();
    let running = activities.iter().filter_map(|each| each.running());
    let builds = running.filter(|running| running.progress.is_some()).count();
    let builds = i64::try_from(builds).unwrap_or(i64::MAX);
    section.count("total", builds);
    let mut phases = section.document("phases");
    phases.count("scanCollection", builds);
    for name in [
        "drainSideWritesTable",
        "drainSideWritesTablePreCommit",
        "waitForCommitQuorum",
        "drainSideWritesTableOnCommit",
        "processConstraintsViolatonTableOnCommit",
        "commit",
    ] {
        phases.int32(name, 0);
    }
}

fn write_catalog(service: &Service, section: &mut DocumentWriter<'_>) {
    let figures = service.engine.catalog_figures();
    section
        .count("collections", figures.collections)
        .count("capped", figures.capped)
        .count("clustered", figures.clustered)
        .count("timeseries", figures.timeseries)
        .count("views", figures.views)
        .count("internalCollections", figures.internal)
        .int32("internalViews", 0);
}

fn write_indexes(service: &Service, section: &mut DocumentWriter<'_>) {
    let figures = service.engine.index_figures();
    section.int64("count", figures.indexes);
    let mut features = section.document("features");
    for (name, count, accesses) in figures.features {
        features
            .document(name)
            .int64("count", count)
            .int64("accesses", accesses);
    }
}

/// Sessions are kept in memory, and written nowhere.
fn write_sessions(service: &Service, section: &mut DocumentWriter<'_>) {
    let sessions = i64::try_from(service.sessions.count()).unwrap_or(i64::MAX);
    section.count("activeSessionsCount", sessions);
    for name in [
        "sessionsCollectionJobCount",
        "lastSessionsCollectionJobDurationMillis",
        "lastSessionsCollectionJobEntriesRefreshed",
        "lastSessionsCollectionJobEntriesEnded",
        "lastSessionsCollectionJobCursorsClosed",
        "transactionReaperJobCount",
        "lastTransactionReaperJobDurationMillis",
        "lastTransactionReaperJobEntriesCleanedUp",
        "sessionCatalogSize",
    ] {
        section.int32(name, 0);
    }
}

/// What the process used, from `/proc/self`; what cannot be read is absent.
fn write_extra_info(_: &Service, section: &mut DocumentWriter<'_>) {
    let read = |name: &str| std::fs::read_to_string(format!("/proc/self/{name}"));
    let read = |name: &str| read(name).unwrap_or_default();
    let (stat, status, io) = (read("stat"), read("status"), read("io"));
    section.string("note", "fields vary by platform");
    let of_stat = |field: usize| stat_field(&stat, field);
    let of_status = |name: &str| number_of(&status, name);
    let of_io = |name: &str| number_of(&io, name).map(|bytes| bytes / 512);
    let micros = |field: usize| of_stat(field).map(|ticks| ticks * MICROS_A_TICK);
    let rows = [
        ("user_time_us", micros(14)),
        ("system_time_us", micros(15)),
        ("maximum_resident_set_kb", of_status("VmHWM:")),
        ("input_blocks", of_io("read_bytes:")),
        ("output_blocks", of_io("write_bytes:")),
        ("page_reclaims", of_stat(10)),
        ("page_faults", of_stat(12)),
        (
            "voluntary_context_switches",
            of_status("voluntary_ctxt_switches:"),
        ),
        (
            "involuntary_context_switches",
            of_status("nonvoluntary_ctxt_switches:"),
        ),
    ];
    for (name, value) in rows {
        if let Some(value) = value {
            section.int64(name, value);
        }
    }
}

/// Linux counts a process's time in hundredths of a second.
const MICROS_A_TICK: i64 = 10_000;

/// A field of `/proc/self/stat`, counted from 1. The second, the program's name in brackets, may hold blanks, so fields
/// are counted from behind it.
fn stat_field(stat: &str, field: usize) -> Option<i64> {
    let (_, behind_name) = stat.rsplit_once(')')?;
    behind_name.split_whitespace().nth(field - 3)?.parse().ok()
}

/// The number behind a name at the beginning of a line.
fn number_of(lines: &str, name: &str) -> Option<i64> {
    let rest = lines.lines().find_map(|line| line.strip_prefix(name))?;
    rest.split_whitespace().next()?.parse().ok()
}

/// There is no lock of the whole server. Who runs a command is active, and queued while it waits for its turn among
/// long statements. `insert`, `update`, `delete`, `findAndModify` and pipelines with `$out` or `$merge` count as writers,
/// all others as readers.
fn write_global_lock(service: &Service, section: &mut DocumentWriter<'_>) {
    let micros = i64::try_from(service.started.elapsed().as_micros()).unwrap_or(i64::MAX);
    section.int64("totalTime", micros);
    let (mut queued, mut active) = ([0, 0], [0, 0]);
    for each in service.activities() {
        if let Some(running) = each.running() {
            let group = match running.operation.is_waiting() {
                true => &mut queued,
                false => &mut active,
            };
            group[usize::from(running.writes)] += 1;
        }
    }
    for (name, [readers, writers]) in [("currentQueue", queued), ("activeClients", active)] {
        section
            .document(name)
            .count("total", readers + writers)
            .count("readers", readers)
            .count("writers", writers);
    }
}

/// What came from other members of a replica set: nothing, since there are none.
fn write_replicated(_: &Service, section: &mut DocumentWriter<'_>) {
    for kind in ["insert", "query", "update", "delete", "getmore", "command"] {
        section.int64(kind, 0);
    }
}

fn write_network(service: &Service, section: &mut DocumentWriter<'_>) {
    let counters = &service.counters;
    section
        .int64("bytesIn", counters.bytes_in.get())
        .int64("bytesOut", counters.bytes_out.get());
    section
        .int64("physicalBytesIn", counters.physical_bytes_in.get())
        .int64("physicalBytesOut", counters.physical_bytes_out.get());
    section.int64("numRequests", counters.requests.get());
    let mut compression = section.document("compression");
    for compressor in Compression::COMPRESSORS {
        let Some((replies, requests)) = counters.compression.of(compressor) else {
            continue;
        };
        let mut own = compression.document(compressor.name());
        for (name, conversion) in [("compressor", replies), ("decompressor", requests)] {
            own.document(name)
                .int64("bytesIn", conversion.bytes_in.get())
                .int64("bytesOut", conversion.bytes_out.get());
        }
    }
}

/// Microseconds and numbers of operations; there are no transactions.
fn write_latencies(service: &Service, section: &mut DocumentWriter<'_>) {
    let classes = [
        ("reads", Some(OperationClass::Read)),
        ("writes", Some(OperationClass::Write)),
        ("commands", Some(OperationClass::Command)),
        ("transactions", None),
    ];
    for (name, class) in classes {
        let latency = class.map(|class| service.counters.latencies.of(class));
        let (micros, operations) =
            latency.map_or((0, 0), |own| (own.micros.get(), own.operations.get()));
        section
            .document(name)
            .int64("latency", micros)
            .int64("ops", operations);
    }
}

fn write_operations(service: &Service, section: &mut DocumentWriter<'_>) {
    let counters = &service.counters;
    let work = service.engine.server_stats().work;
    section
        .int64("insert", counters.insert.get() + work.inserted_by_output)
        .int64("query", counters.query.get());
    section
        .int64("update", counters.update.get() + work.updated_by_output)
        .int64("delete", counters.delete.get());
    section.int64("getmore", counters.get_more.get());
    section.int64("command", counters.command.get());
}

fn write_memory(_: &Service, section: &mut DocumentWriter<'_>) {
    let (virtual_bytes, resident_bytes) = process_memory();
    let mebibytes = |bytes: i64| bytes / (1024 * 1024);
    section
        .int32("bits", 64)
        .count("resident", mebibytes(resident_bytes));
    section
        .count("virtual", mebibytes(virtual_bytes))
        .boolean("supported", true);
}

/// Virtual and resident size in bytes, from `/proc/self/statm`, which counts pages.
fn process_memory() -> (i64, i64) {
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let mut sizes = pages
        .split_whitespace()
        .map(|pages| pages.parse::<i64>().unwrap_or(0) * 4096);
    (sizes.next().unwrap_or(0), sizes.next().unwrap_or(0))
}

/// Meridian's own: what counts entries without scanning them.
fn write_rank_indexes(service: &Service, section: &mut DocumentWriter<'_>) {
    let stats = service.engine.server_stats();
    let number = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
    section
        .int64("trees", number(stats.ranks.trees))
        .int64("beingBuilt", number(stats.ranks.incomplete))
        .int64("entries", number(stats.ranks.entries))
        .int64("memoryBytes", number(stats.ranks.bytes))
        .int64("cachedRangesBytes", number(stats.range_cache_bytes))
        .string("atStart", stats.ranks_at_start);
    section
        .document("audit")
        .int64("entries", number(stats.audit.entries))
        .int64("rounds", number(stats.audit.rounds))
        .int64("disagreements", number(stats.audit.disagreements));
}

fn write_storage_engine(service: &Service, section: &mut DocumentWriter<'_>) {
    let stats = service.engine.server_stats();
    section
        .string("name", "rocksdb")
        .boolean("persistent", true);
    section.boolean("supportsCommittedReads", true);
    for (name, value) in &stats.storage {
        section.int64(name, i64::try_from(*value).unwrap_or(i64::MAX));
    }
    section.boolean("journal", service.settings.journal);
}
