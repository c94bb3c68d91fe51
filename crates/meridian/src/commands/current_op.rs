//! `currentOp` and the stage `$currentOp`: the commands that run at this moment, with their
//! connections.

use super::arguments::Arguments;
use super::client::Activity;
use super::context::Context;
use super::service::Service;
use super::table::COMMANDS;
use bson::raw::{RawDocument, RawDocumentBuf};
use meridian_engine::aggregate::{Limits, Pipeline, Variables, run as run_stages};
use meridian_engine::{Query, Result};
use meridian_wire::DocumentWriter;

/// Lists them; `$all: true` also lists idle connections. No other filter exists yet.
pub fn run(context: &mut Context<'_>, reply: &mut DocumentWriter<'_>) -> Result<()> {
    let arguments = context.arguments("currentOp", &["$all", "$ownOps"])?;
    arguments.refuse_flags(&["$ownOps"])?;
    let mut operations = reply.array("inprog");
    for operation in list(context.service, arguments.flag("$all")?) {
        operations.push_document(&operation);
    }
    Ok(())
}

/// A pipeline that begins with `$currentOp`, whose options are `stage`.
pub fn query(
    service: &Service,
    stage: &RawDocument,
    rest: &[&RawDocument],
    allow_disk_use: bool,
) -> Result<Query> {
    let known = [
        "allUsers",
        "idleConnections",
        "idleCursors",
        "idleSessions",
        "localOps",
        "backtrace",
        "targetAllNodes",
        "truncateOps",
    ];
    let arguments = Arguments::parse("$currentOp", stage, &known)?;
    for without_effect in ["allUsers", "idleSessions", "localOps", "truncateOps"] {
        arguments.flag(without_effect)?;
    }
    arguments.refuse_flags(&["idleCursors", "backtrace", "targetAllNodes"])?;
    let operations = list(service, arguments.flag("idleConnections")?);
    let pipeline = Pipeline::parse(rest)?;
    let variables = Variables::new(bson::DateTime::now());
    let input = operations.into_iter().map(Ok);
    let rows = run_stages(
        &pipeline.stages,
        input,
        variables,
        &Limits::new(allow_disk_use),
    )?;
    Ok(Query::from_documents(rows.collect::<Result<_>>()?))
}

fn list(service: &Service, idle_too: bool) -> Vec<RawDocumentBuf> {
    let activities = service.activities();
    let listed = activities
        .iter()
        .filter(|activity| idle_too || activity.running().is_some());
    listed.map(|activity| describe(service, activity)).collect()
}

fn describe(service: &Service, activity: &Activity) -> RawDocumentBuf {
    let mut bytes = Vec::new();
    let mut row = DocumentWriter::new(&mut bytes);
    let running = activity.running();
    row.string(
        "type",
        if running.is_some() {
            "op"
        } else {
            "idleConnection"
        },
    );
    row.string("host", &service.host)
        .string("desc", &format!("conn{}", activity.connection_id));
    row.int32("connectionId", activity.connection_id)
        .string("client", &activity.peer);
    row.boolean("active", running.is_some());
    if let Some((command, micros)) = running {
        row.string("op", "command")
            .int64("secs_running", micros / 1_000_000);
        row.int64("microsecs_running", micros);
        row.document("command").int32(COMMANDS[command].name, 1);
    }
    drop(row);
    RawDocumentBuf::from_bytes(bytes).expect("just written")
}
