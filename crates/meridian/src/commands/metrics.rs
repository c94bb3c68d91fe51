//! `serverStatus.metrics`: what commands and statements did, in running totals.

use super::service::{Counters, Service};
use super::table::COMMANDS;
use meridian_engine::{CursorFigures, WorkFigures};
use meridian_wire::DocumentWriter;

/// Writes the section.
pub fn write_metrics(service: &Service, section: &mut DocumentWriter<'_>) {
    let stats = service.engine.server_stats();
    write_commands(&service.counters, &mut section.document("commands"));
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
    write_executor(&stats.work, &mut section.document("queryExecutor"));
    section
        .document("ttl")
        .int64("deletedDocuments", stats.ttl_deleted)
        .int64("passes", stats.ttl_passes);
}

/// By command, each under the first of its names.
fn write_commands(counters: &Counters, section: &mut DocumentWriter<'_>) {
    section.int64("<UNKNOWN>", counters.unknown_commands.get());
    for command in COMMANDS.iter().filter(|row| row.alias_of.is_none()) {
        let (total, failed) = counters.commands.under_all_names(command.name);
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
