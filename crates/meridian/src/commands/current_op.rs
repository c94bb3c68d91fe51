//! `currentOp` and the stage `$currentOp`: the commands that run at this moment, with their
//! connections.

use super::arguments::{Arguments, elements};
use super::context::Context;
use super::generic::is_generic;
use super::server_stages::flag;
use super::table::COMMANDS;
use crate::access::UserName;
use crate::service::Service;
use crate::service::{Activity, Running};
use bson::raw::{RawDocument, RawDocumentBuf};
use bson::{DateTime, rawdoc};
use meridian_engine::aggregate::refuse_doubled_fields;
use meridian_engine::query::Filter;
use meridian_engine::{BuildPhase, BuildProgress, Error, Result};
use meridian_wire::DocumentWriter;

/// Lists them; `$all: true` also lists idle connections. All other fields are a filter on the rows.
pub fn run(context: &mut Context<'_>, reply: &mut DocumentWriter<'_>) -> Result<()> {
    let own = |name: &str| matches!(name, "$all" | "$ownOps");
    let options = elements(context.body).filter(|(name, _)| own(name));
    let arguments = Arguments::collect("currentOp", options, &["$all", "$ownOps"])?;
    let only_own = arguments.flag("$ownOps")?;
    let own_user = context.client.login.name().cloned();
    let mut wanted = Vec::new();
    let mut filter = DocumentWriter::new(&mut wanted);
    for (name, value) in elements(context.body).skip(1) {
        if !own(name) && !is_generic(name) {
            filter.value(name, value);
        }
    }
    drop(filter);
    let filter = Filter::parse(&RawDocumentBuf::from_bytes(wanted).expect("just written"))?;
    let mut operations = reply.array("inprog");
    let wanted = only_own.then_some(&own_user);
    for operation in list(context.service, arguments.flag("$all")?, wanted) {
        if filter.matches(&operation)? {
            operations.push_document(&operation);
        }
    }
    Ok(())
}

/// The rows of the stage `$currentOp`.
pub fn rows(context: &Context<'_>, options: &RawDocument) -> Result<Vec<RawDocumentBuf>> {
    let (mut all_users, mut idle_connections, mut idle_cursors) = (false, false, false);
    refuse_doubled_fields("$currentOp", options)?;
    for (name, value) in elements(options) {
        let set = match name {
            "allUsers" => &mut all_users,
            "idleConnections" => &mut idle_connections,
            "idleCursors" => &mut idle_cursors,
            // Without effect here: a standalone's sessions have no transactions, rows are not cut, locks not traced.
            "idleSessions" | "localOps" | "truncateOps" | "backtrace" => &mut false,
            _ => {
                let message = format!("Unrecognized option '{name}' in $currentOp stage.");
                return Err(Error::failed_to_parse(message));
            }
        };
        *set = flag(name, value)?;
    }
    let (service, user) = (context.service, context.client.login.name().cloned());
    let only_own = (!all_users).then_some(&user);
    let mut rows = list(service, idle_connections, only_own);
    if idle_cursors {
        let owner = user.filter(|_| service.access.is_enabled && !all_users);
        rows.extend(describe_cursors(service, owner.as_ref()));
    }
    Ok(rows)
}

/// Cursors that wait for their clients: all, or those of a user.
fn describe_cursors(service: &Service, only_of: Option<&UserName>) -> Vec<RawDocumentBuf> {
    let only_of = only_of.map(UserName::id);
    let cursors = service.engine.cursors().idle().into_iter();
    let own = cursors.filter(|cursor| only_of.is_none() || cursor.user == only_of);
    let described = own.map(|cursor| {
        let details = rawdoc! {
            "cursorId": cursor.id,
            "lastAccessDate": cursor.last_used,
            "noCursorTimeout": cursor.no_timeout,
            "tailable": cursor.tails,
            "awaitData": cursor.awaits_data,
        };
        rawdoc! {
            "type": "idleCursor",
            "host": service.host.as_str(),
            "ns": cursor.namespace.to_string(),
            "cursor": details,
        }
    });
    described.collect()
}

/// All operations, or those of a user. Without access control all are everybody's.
fn list(
    service: &Service,
    idle_too: bool,
    only_of: Option<&Option<UserName>>,
) -> Vec<RawDocumentBuf> {
    let only_of = only_of.filter(|_| service.access.is_enabled);
    let activities = service.activities();
    let listed = activities
        .iter()
        .filter(|activity| match (activity.running(), only_of) {
            (None, None) => idle_too,
            (None, Some(_)) => false,
            (Some(_), None) => true,
            (Some(running), Some(user)) => {
                running.user.as_ref().map(|user| &user.name) == user.as_ref()
            }
        });
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
    row.string(
        "currentOpTime",
        &DateTime::now().try_to_rfc3339_string().unwrap_or_default(),
    );
    if let Some(running) = running {
        describe_running(&running, &mut row);
    }
    drop(row);
    RawDocumentBuf::from_bytes(bytes).expect("just written")
}

fn describe_running(running: &Running, row: &mut DocumentWriter<'_>) {
    let name = COMMANDS[running.command].name;
    let micros = i64::try_from(running.started.elapsed().as_micros()).unwrap_or(i64::MAX);
    row.boolean("threaded", true)
        .int32("opid", running.operation_id);
    row.int64("secs_running", micros / 1_000_000)
        .int64("microsecs_running", micros);
    row.string("op", kind(name))
        .string("ns", &namespace(name, running.body()));
    match running.body() {
        Some(body) => {
            row.embed("command", body);
        }
        None => {
            row.document("command").int32(name, 1);
        }
    }
    if running.operation.is_killed() {
        row.boolean("killPending", true);
    }
    if let Some(BuildProgress { phase, done, total }) = running.progress {
        let percent = (done * 100).checked_div(total).unwrap_or(100).min(100);
        let phase = phase_text(phase);
        row.string(
            "msg",
            &format!("Index Build: {phase}: {done}/{total} {percent}%"),
        );
        let number = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
        row.document("progress")
            .count("done", number(done))
            .count("total", number(total));
    }
    row.int32("numYields", 0);
    // There are no locks that statements wait for, and nobody slows writers down for a secondary.
    drop(row.document("locks"));
    row.boolean("waitingForFlowControl", false);
    drop(row.document("lockStats"));
    row.boolean("waitingForLock", false);
    drop(row.document("flowControlStats"));
}

/// What MongoDB calls what an index build is at.
fn phase_text(phase: BuildPhase) -> &'static str {
    match phase {
        BuildPhase::Reading => "scanning collection",
        BuildPhase::Loading => "inserting keys from external sorter into index",
        BuildPhase::CatchingUp => "draining writes received during build",
    }
}

/// What MongoDB calls the operation.
pub fn kind(command: &str) -> &'static str {
    match command {
        "find" => "query",
        "getMore" => "getmore",
        "insert" => "insert",
        "update" => "update",
        "delete" => "remove",
        _ => "command",
    }
}

/// The collection that the command names, or the database's commands.
pub fn namespace(name: &str, body: Option<&RawDocument>) -> String {
    let Some(body) = body else {
        return String::new();
    };
    let text = |field: &str| {
        let value = elements(body).find(|(name, _)| *name == field);
        value.and_then(|(_, value)| value.as_str())
    };
    let field = if name == "getMore" {
        "collection"
    } else {
        name
    };
    let database = text("$db").unwrap_or_default();
    match (text(field), name) {
        (Some(collection), _) => format!("{database}.{collection}"),
        (None, "aggregate" | "currentOp") => format!("{database}.$cmd.aggregate"),
        (None, _) => format!("{database}.$cmd"),
    }
}
