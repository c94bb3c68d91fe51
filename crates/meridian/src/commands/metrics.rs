//! `serverStatus.metrics`: what commands and statements did, in running totals.

use super::table::COMMANDS;
use crate::service::{CommandCounts, Counters, Service};
use meridian_engine::aggregate::{ACCUMULATORS_USED, FUNCTIONS_USED, STAGES_USED};
use meridian_engine::{CursorFigures, NameCounts, WorkFigures, expression, query};
use meridian_wire::DocumentWriter;

/// Writes the section.
pub fn write_metrics(service: &Service, section: &mut DocumentWriter<'_>) {
    let stats = service.engine.server_stats();
    write_names(&STAGES_USED, &mut section.document("aggStageCounters"));
    write_commands(service, &mut section.document("commands"));
    write_cursors(&stats.cursors, &mut section.document("cursor"));
    write_documents(
        &service.counters,
        &stats.work,
        &mut section.document("document"),
    );
    section
        .document("operation")
        .int64("scanAndOrder", stats.work.sorts)
        .int64("writeConflicts", stats.work.write_conflicts);
    {
        let mut operators = section.document("operatorCounters");
        for (name, counts) in [
            ("expressions", &expression::OPERATORS_USED),
            ("groupAccumulators", &ACCUMULATORS_USED),
            ("match", &query::OPERATORS_USED),
            ("windowAccumulators", &FUNCTIONS_USED),
        ] {
            write_names(counts, &mut operators.document(name));
        }
    }
    write_executor(&stats.work, &mut section.document("queryExecutor"));
    section
        .document("ttl")
        .int64("deletedDocuments", stats.ttl_deleted)
        .int64("passes", stats.ttl_passes);
}

/// How often each name was written in statements.
fn write_names(counts: &NameCounts, section: &mut DocumentWriter<'_>) {
    for (name, count) in counts.all() {
        section.int64(name, i64::try_from(count).unwrap_or(i64::MAX));
    }
}

/// Total and failures of a command under all its names.
fn under_all_names(counts: &CommandCounts, name: &str) -> (i64, i64) {
    let is_same = |index: &usize| {
        let row = &COMMANDS[*index];
        row.name == name || row.alias_of == Some(name)
    };
    let rows = (0..COMMANDS.len()).filter(is_same);
    rows.map(|row| counts.of(row))
        .fold((0, 0), |(total, failed), row| {
            (total + row.total.get(), failed + row.failed.get())
        })
}

/// By command, each under the first of its names.
fn write_commands(service: &Service, section: &mut DocumentWriter<'_>) {
    section.int64("<UNKNOWN>", service.counters.unknown_commands.get());
    for command in COMMANDS.iter().filter(|row| row.alias_of.is_none()) {
        let (total, failed) = under_all_names(&service.command_counts, command.name);
        section
            .document(command.name)
            .int64("failed", failed)
            .int64("total", total);
    }
}

fn write_cursors(cursors: &CursorFigures, section: &mut DocumentWriter<'_>) {
    section
        .int64("moreThanOneBatch", cursors.continued)
        .int64("timedOut", cursors.timed_out)
        .int64("totalOpened", cursors.opened);
    section
        .document("open")
        .int64("noTimeout", cursors.no_timeout)
        .int64("pinned", cursors.pinned)
        .int64("total", cursors.open);
}

/// Updated are those that an update matched, changed or not, as in MongoDB; upserts count nowhere.
fn write_documents(counters: &Counters, work: &WorkFigures, section: &mut DocumentWriter<'_>) {
    let inserted = counters.documents_inserted.get() + work.inserted_by_output;
    let updated = counters.documents_updated.get() + work.matched_by_output;
    section
        .int64("deleted", counters.documents_deleted.get())
        .int64("inserted", inserted)
        .int64("returned", counters.documents_returned.get())
        .int64("updated", updated);
}

fn write_executor(work: &WorkFigures, section: &mut DocumentWriter<'_>) {
    section
        .int64("scanned", work.keys_examined)
        .int64("scannedObjects", work.documents_examined);
    section
        .document("collectionScans")
        .int64("nonTailable", work.collection_scans)
        .int64("total", work.collection_scans);
}
