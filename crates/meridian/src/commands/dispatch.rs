//! From a message to a reply document: find the command, check what all commands may carry,
//! run it, and turn whatever went wrong into an error reply.

use super::aggregate::has_output;
use super::arguments::elements;
use super::audited;
use super::context::Context;
use super::find::EMPTY;
use super::generic::Generic;
use super::table::{self, Command, Kind};
use super::{privileges, profile, top};
use crate::service::Client;
use crate::service::OperationClass;
use crate::service::Service;
use bson::raw::{RawBsonRef, RawDocument};
use meridian_engine::{Code, Error, Operation, Result, StoredGlobals};
use meridian_wire::{
    DocumentWriter, InvalidDocument, InvalidKind, LegacyQuery, MESSAGE_BYTES_MAX, Message,
    Sequence, is_whole,
};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The longest message of an error. Some repeat what the client sent, which may be much.
const ERROR_MESSAGE_BYTES_MAX: usize = 64 * 1024;
/// The largest reply: a message without its header and, perhaps, a checksum.
const REPLY_BYTES_MAX: usize = MESSAGE_BYTES_MAX - 64;

/// Appends the reply to a message.
pub fn answer_message(
    service: &Service,
    client: &mut Client,
    message: &Message<'_>,
    out: &mut Vec<u8>,
) {
    reply(service, out, |out| {
        let command = find_command(service, message.body)?;
        let generic = Generic::parse(command, message.body, &service.settings)?;
        let (body, sequences) = (message.body, message.sequences.as_slice());
        run(
            command,
            Parts {
                service,
                client,
                body,
                sequences,
                generic,
            },
            out,
        )
    });
}

/// Appends the reply to a legacy query: only a hello may still come this way.
pub fn answer_query(
    service: &Service,
    client: &mut Client,
    query: &LegacyQuery<'_>,
    out: &mut Vec<u8>,
) {
    let Some(database) = query.namespace.strip_suffix(".$cmd") else {
        let mut reply = DocumentWriter::new(out);
        let message = "OP_QUERY is no longer supported. The client driver may require an \
                       upgrade. For more details see \
                       https://dochub.mongodb.org/core/legacy-opcode-removal";
        reply
            .string("$err", message)
            .int32("code", 5_739_101)
            .double("ok", 0.0);
        return;
    };
    reply(service, out, |out| {
        let body = unwrap_query(query.document);
        let command = find_command(service, body)?;
        if !command.legacy {
            let message = format!(
                "Unsupported OP_QUERY command: {}. The client driver may require an upgrade. For \
                 more details see https://dochub.mongodb.org/core/legacy-opcode-removal",
                command.name
            );
            return Err(Error::new(Code::UnsupportedOpQueryCommand, message));
        }
        let generic = Generic::legacy(database);
        run(
            command,
            Parts {
                service,
                client,
                body,
                sequences: &[],
                generic,
            },
            out,
        )
    });
}

/// Appends the reply to a message whose BSON is wrong.
pub fn answer_invalid_document(service: &Service, invalid: &InvalidDocument, out: &mut Vec<u8>) {
    let code = match invalid.kind {
        InvalidKind::Malformed => Code::InvalidBSON,
        InvalidKind::TooDeep => Code::Overflow,
        InvalidKind::TooLarge => Code::BSONObjectTooLarge,
    };
    reply(service, out, |_| Err(Error::new(code, invalid.to_string())));
}

/// Old drivers wrap a command that has a read preference.
fn unwrap_query(document: &RawDocument) -> &RawDocument {
    match elements(document).next() {
        Some(("$query" | "query", RawBsonRef::Document(inner))) => inner,
        _ => document,
    }
}

fn find_command(service: &Service, body: &RawDocument) -> Result<&'static Command> {
    let name = elements(body).next().map_or("", |(name, _)| name);
    table::find(name).ok_or_else(|| {
        service.counters.unknown_commands.add(1);
        service
            .counters
            .latencies
            .add(OperationClass::Command, Duration::ZERO);
        Error::new(Code::CommandNotFound, format!("no such command: '{name}'"))
    })
}

/// Whatever `write` appended stays if it succeeds; otherwise an error document takes its place.
fn reply(service: &Service, out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>) -> Result<()>) {
    let start = out.len();
    service.counters.requests.add(1);
    let written = catch_unwind(AssertUnwindSafe(|| write(out)));
    let outcome = written.unwrap_or_else(|panic| {
        service.counters.panics.add(1);
        let cause = panic_message(panic.as_ref());
        tracing::error!(cause, "a command panicked; please report this");
        Err(Error::new(
            Code::InternalError,
            format!("internal error: {cause}"),
        ))
    });
    if let Err(error) = outcome.and_then(|()| check_reply(&out[start..])) {
        service.counters.user_errors.add(1);
        out.truncate(start);
        write_error(&error, out);
    }
}

/// That a reply is BSON, and one that a client takes.
fn check_reply(reply: &[u8]) -> Result<()> {
    if reply.len() > REPLY_BYTES_MAX {
        let message = format!(
            "BSONObj size: {} is invalid. The reply must not be larger than {REPLY_BYTES_MAX} bytes",
            reply.len()
        );
        return Err(Error::new(Code::BSONObjectTooLarge, message));
    }
    match is_whole(reply) {
        true => Ok(()),
        false => Err(Error::new(
            Code::InternalError,
            "the reply would not be BSON: one of its names holds a NUL byte",
        )),
    }
}

fn panic_message(panic: &(dyn std::any::Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("a panic without a message")
}

struct Parts<'a> {
    service: &'a Service,
    client: &'a mut Client,
    body: &'a RawDocument,
    sequences: &'a [Sequence<'a>],
    generic: Generic<'a>,
}

fn run(command: &'static Command, parts: Parts<'_>, out: &mut Vec<u8>) -> Result<()> {
    let Parts {
        service,
        client,
        body,
        sequences,
        generic,
    } = parts;
    let started = Instant::now();
    let activity = Arc::clone(&client.activity);
    let operation = match service.profiler.is_on(generic.database) {
        true => Operation::profiled(generic.deadline),
        false => Operation::new(generic.deadline),
    };
    operation.provide(StoredGlobals {
        source: service.engine.clone(),
        database: generic.database.to_owned(),
        for_all: matches!(command.name, "mapReduce" | "mapreduce"),
    });
    let index = table::index_of(command);
    let writes = command.class == OperationClass::Write || has_output(command.name, body);
    let user = client
        .login
        .user(&service.access, &service.engine)?
        .cloned();
    let shown = Some(body).filter(|_| !holds_secrets(command, body));
    activity.begin(index, writes, shown, user, Arc::clone(&operation));
    let _idle = Finally(|| activity.end());
    count(service, command.kind);
    let synced = generic.write_concern.is_synced;
    let database = generic.database;
    let mut context = Context {
        service,
        client,
        body,
        sequences,
        generic,
        is_ok_integer: false,
    };
    let begin = out.len();
    let mut reply = DocumentWriter::new(out);
    let work = || {
        privileges::check(command, &mut context)?;
        context.note_session();
        (command.run)(&mut context, &mut reply)?;
        note_change(&context, command);
        Ok(())
    };
    let outcome = operation.run(work);
    // The one place where acknowledged writes are made durable; also after a partial failure,
    // because a reply that lists write errors acknowledges the other writes.
    let durable = match synced {
        true => sync(service),
        false => Ok(()),
    };
    let outcome = outcome.and(durable);
    match (&outcome, context.is_ok_integer) {
        (Ok(()), true) => _ = reply.int32("ok", 1),
        (Ok(()), false) => _ = reply.double("ok", 1.0),
        (Err(_), _) => {}
    }
    audited::record(service, context.client, command, (database, body), &outcome);
    let took = started.elapsed();
    count_end(service, index, took, outcome.is_ok());
    top::count(service, command, database, body, took);
    if service.profiler.is_slow(took) {
        log_slow(command, database, body, took);
    }
    drop(reply);
    if operation.profile().is_some() && shown.is_some() {
        let ran = profile::Ran {
            command,
            database,
            body,
            sequences,
            operation: &operation,
            took,
        };
        let reply = RawDocument::from_bytes(&out[begin..]).unwrap_or(&EMPTY);
        profile::record(
            service,
            context.client,
            &ran,
            outcome.as_ref().map(|()| reply),
        );
    }
    outcome
}

/// Users and roles are documents too, and commands that write documents may change them.
fn note_change(context: &Context<'_>, command: &Command) {
    let may_reach = context.generic.database == "admin" || has_output(command.name, context.body);
    if command.writes && may_reach {
        context.service.access.changed();
    }
}

fn sync(service: &Service) -> Result<()> {
    service.syncing.add(1);
    let _synced = Finally(|| service.syncing.add(-1));
    service.engine.sync_journal()
}

struct Finally<F: Fn()>(F);

impl<F: Fn()> Drop for Finally<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

/// Whether a command's document, or that of the command that it explains, is shown to nobody.
fn holds_secrets(command: &Command, body: &RawDocument) -> bool {
    let explained = || {
        let inner = body.get_document("explain").ok()?;
        let (name, _) = inner.iter().next()?.ok()?;
        table::find(name.as_str())
    };
    command.is_secret || explained().is_some_and(|command| command.is_secret)
}

fn count(service: &Service, kind: Kind) {
    let counters = &service.counters;
    match kind {
        Kind::Query => counters.query.add(1),
        Kind::GetMore => counters.get_more.add(1),
        // Writes count documents and statements; they do it themselves.
        Kind::Write => {}
        Kind::Other => counters.command.add(1),
    }
}

fn count_end(service: &Service, index: usize, took: Duration, succeeded: bool) {
    let own = service.command_counts.of(index);
    own.total.add(1);
    if !succeeded {
        own.failed.add(1);
    }
    let latencies = &service.counters.latencies;
    latencies.add(table::COMMANDS[index].class, took);
}

fn log_slow(command: &Command, database: &str, body: &RawDocument, took: Duration) {
    let target = elements(body)
        .next()
        .and_then(|(_, value)| value.as_str())
        .unwrap_or("");
    let took_ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
    tracing::info!(
        command = command.name,
        database,
        collection = target,
        took_ms,
        "slow command"
    );
}

fn write_error(error: &Error, out: &mut Vec<u8>) {
    let mut reply = DocumentWriter::new(out);
    let message = &error.message;
    let message = &message[..message.floor_char_boundary(ERROR_MESSAGE_BYTES_MAX)];
    reply.double("ok", 0.0).string("errmsg", message);
    if error.code != Code::Location(0) {
        reply
            .int32("code", error.code.number())
            .string("codeName", &error.code.name());
    }
    if let Some(fields) = &error.fields {
        reply.elements(fields);
    }
}
