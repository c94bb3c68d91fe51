//! `profile`, and what the profiler records of each command in `system.profile`.

use super::arguments::{array_values, elements, integer, truth, wrong_type};
use super::context::Context;
use super::current_op::{kind, namespace};
use super::table::Command;
use crate::access::UserName;
use crate::service::{Client, DatabaseProfile, ProfileLevel, Service};
use bson::raw::{RawBsonRef, RawDocument, RawDocumentBuf};
use bson::{DateTime, cstr, rawdoc};
use meridian_engine::query::Filter;
use meridian_engine::text::document_text;
use meridian_engine::{
    CollectionOptions, Engine, Error, InsertOptions, Namespace, Operation, Result, StatementProfile,
};
use meridian_value::number::Number;
use meridian_wire::{DocumentWriter, Sequence};
use std::sync::Arc;
use std::time::Duration;

/// The collection of records.
pub const SYSTEM_PROFILE: &str = "system.profile";
/// How much of a database's past it holds: MongoDB's size.
const PROFILE_BYTES: i32 = 1 << 20;
/// A command is recorded whole up to this size, as in MongoDB; of a larger one, how its text begins.
const COMMAND_BYTES_MAX: usize = 50 * 1024;
const NOTE: &str = "When a filter expression is set, slowms and sampleRate are not used for profiling and slow-query \
                    log lines.";

/// Sets what is recorded, and answers with what was.
pub fn run(context: &mut Context<'_>, reply: &mut DocumentWriter<'_>) -> Result<()> {
    let known = ["slowms", "sampleRate", "filter"];
    let arguments = context.known_arguments("profile", &known)?;
    if context.value() == RawBsonRef::Null {
        let message = "BSON field 'profile.profile' is missing but a required field";
        return Err(Error::location(40414, message));
    }
    let level = integer(context.value()).ok_or_else(|| {
        let expected = ["long", "int", "decimal", "double"];
        wrong_type("profile.profile", context.value(), &expected)
    })?;
    let slow_ms = arguments.integer("slowms")?;
    let sample_rate = match arguments.get("sampleRate") {
        None => None,
        Some(value) => {
            let expected = ["long", "int", "decimal", "double"];
            let rate = Number::from_raw(value);
            let rate = rate.ok_or_else(|| arguments.wrong_type("sampleRate", value, &expected))?;
            Some(rate.to_f64())
        }
    };
    if sample_rate.is_some_and(|rate| !(0.0..=1.0).contains(&rate)) {
        let message = "'sampleRate' must be between 0.0 and 1.0 inclusive";
        return Err(Error::bad_value(message));
    }
    let filter = match arguments.get_even_null("filter") {
        None => None,
        Some(RawBsonRef::Document(filter)) => Some(Some(Arc::new(Filter::parse(filter)?))),
        Some(RawBsonRef::String("unset")) => Some(None),
        Some(_) => {
            let message = "Expected an object, or the string 'unset'.";
            return Err(Error::bad_value(message));
        }
    };
    let (profiler, database) = (&context.service.profiler, context.generic.database);
    let was = profiler.of(database);
    reply
        .int32("was", was.level.number())
        .count("slowms", profiler.slow_ms())
        .double("sampleRate", profiler.sample_rate());
    if let Some(filter) = &was.filter {
        reply.embed("filter", &filter.to_document());
    }
    let now = DatabaseProfile {
        level: ProfileLevel::numbered(level).unwrap_or(was.level),
        filter: filter.unwrap_or_else(|| was.filter.clone()),
    };
    if was.filter.is_some() || now.filter.is_some() {
        reply.string("note", NOTE);
    }
    if now.level != ProfileLevel::Off {
        make_collection(context.engine(), database)?;
    }
    if let Some(slow_ms) = slow_ms {
        profiler.set_slow_ms(slow_ms);
    }
    if let Some(rate) = sample_rate {
        profiler.set_sample_rate(rate);
    }
    match profiler.set(database, now) {
        true => Ok(()),
        false => Err(Error::bad_value(
            "too many databases are profiled; switch the profiler off for some",
        )),
    }
}

/// A command that has run.
pub struct Ran<'a> {
    pub command: &'a Command,
    pub database: &'a str,
    pub body: &'a RawDocument,
    pub sequences: &'a [Sequence<'a>],
    pub operation: &'a Operation,
    pub took: Duration,
}

/// Records a command, if its database's statements are recorded. It has answered with the reply, or with an error.
pub fn record(
    service: &Service,
    client: &Client,
    ran: &Ran<'_>,
    outcome: std::result::Result<&RawDocument, &Error>,
) {
    let target = elements(ran.body).next().map(|(_, value)| value);
    let is_of_collection = matches!(target, Some(RawBsonRef::String(_)))
        || matches!(ran.command.name, "getMore" | "aggregate");
    if !is_of_collection {
        return;
    }
    let describe = || describe(client, ran, outcome);
    let Some(record) = service.profiler.records(ran.database, ran.took, describe) else {
        return;
    };
    let written = make_collection(&service.engine, ran.database).and_then(|namespace| {
        let options = InsertOptions {
            creates: false,
            ..InsertOptions::default()
        };
        service.engine.insert(&namespace, &[&record], &options)
    });
    if let Err(error) = written {
        tracing::warn!(database = ran.database, %error, "a statement could not be recorded in system.profile");
    }
}

/// The collection of records, which is made where there is none.
fn make_collection(engine: &Engine, database: &str) -> Result<Namespace> {
    let namespace = Namespace::new(database, SYSTEM_PROFILE)?;
    if !engine.has_collection(&namespace) {
        let options = rawdoc! { "capped": true, "size": PROFILE_BYTES };
        let made = engine.create_collection(&namespace, CollectionOptions::parse(&options)?);
        match made {
            // Another was faster.
            Err(_) if engine.has_collection(&namespace) => {}
            made => made?,
        }
    }
    Ok(namespace)
}

fn describe(
    client: &Client,
    ran: &Ran<'_>,
    outcome: std::result::Result<&RawDocument, &Error>,
) -> RawDocumentBuf {
    let name = ran.command.name;
    let mut record = rawdoc! { "op": kind(name), "ns": namespace(name, Some(ran.body)) };
    record.append(cstr!("command"), shown_command(ran));
    let profile = ran.operation.profile().unwrap_or_default();
    match outcome {
        Ok(reply) => describe_reply(name, reply, &profile, &mut record),
        Err(error) => {
            record.append(cstr!("numYield"), 0);
            record.append(cstr!("ok"), 0.0);
            record.append(cstr!("errMsg"), error.message.as_str());
            record.append(cstr!("errName"), &*error.code.name());
            record.append(cstr!("errCode"), error.code.number());
        }
    }
    if let Some(query) = &profile.query_hash {
        record.append(cstr!("queryHash"), query.as_str());
    }
    if let Some(plan) = &profile.plan_cache_key {
        record.append(cstr!("planCacheKey"), plan.as_str());
    }
    // A change is recorded, not the message that it came in.
    let is_change = matches!(name, "update" | "delete");
    if !is_change {
        record.append(cstr!("protocol"), "op_msg");
    }
    let millis = i64::try_from(ran.took.as_millis()).unwrap_or(i64::MAX);
    match i32::try_from(millis) {
        Ok(millis) => record.append(cstr!("millis"), millis),
        Err(_) => record.append(cstr!("millis"), millis),
    }
    if !profile.plans.is_empty() {
        record.append(cstr!("planSummary"), profile.plans.join(", "));
    }
    record.append(cstr!("ts"), DateTime::now());
    let address = client.peer.rsplit_once(':');
    record.append(cstr!("client"), address.map_or(&*client.peer, |(ip, _)| ip));
    describe_user(client.login.name(), &mut record);
    record
}

fn describe_user(user: Option<&UserName>, record: &mut RawDocumentBuf) {
    let mut all = bson::RawArrayBuf::new();
    if let Some(user) = user {
        all.push(rawdoc! { "user": user.user.as_str(), "db": user.database.as_str() });
    }
    record.append(cstr!("allUsers"), all);
    let name = user.map(|user| format!("{}@{}", user.user, user.database));
    record.append(cstr!("user"), name.unwrap_or_default());
}

/// What the reply tells. What was examined is known where the statement has ended: a cursor that stays open counts at its
/// end.
fn describe_reply(
    name: &str,
    reply: &RawDocument,
    profile: &StatementProfile,
    record: &mut RawDocumentBuf,
) {
    let number = |name: &str| {
        let value = reply.get(name).ok().flatten();
        value.and_then(integer).unwrap_or(0)
    };
    let cursor = reply.get_document("cursor").ok();
    let id = cursor.and_then(|cursor| cursor.get_i64("id").ok());
    if let Some(id) = id.filter(|id| *id != 0) {
        record.append(cstr!("cursorid"), id);
    }
    let has_ended = id.is_none_or(|id| id == 0) && name != "getMore";
    if has_ended && !(name == "insert" || profile.plans.is_empty()) {
        let count = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
        record.append(cstr!("keysExamined"), count(profile.keys));
        record.append(cstr!("docsExamined"), count(profile.documents));
    }
    if profile.sorts {
        record.append(cstr!("hasSortStage"), true);
    }
    if id == Some(0) {
        record.append(cstr!("cursorExhausted"), true);
    }
    match name {
        "insert" => record.append(cstr!("ninserted"), number("n")),
        "delete" => record.append(cstr!("ndeleted"), number("n")),
        "update" => {
            let upserted = reply.get_array("upserted");
            let upserted = upserted.map_or(0, |upserted| upserted.into_iter().count());
            let upserted = i64::try_from(upserted).unwrap_or(i64::MAX);
            record.append(cstr!("nMatched"), number("n") - upserted);
            record.append(cstr!("nModified"), number("nModified"));
            record.append(cstr!("nUpserted"), upserted);
        }
        _ => {}
    }
    record.append(cstr!("numYield"), 0);
    let batch = cursor.and_then(|cursor| {
        let batch = cursor.get_array("firstBatch");
        batch.or_else(|_| cursor.get_array("nextBatch")).ok()
    });
    if let Some(batch) = batch {
        let returned = i64::try_from(batch.into_iter().count()).unwrap_or(i64::MAX);
        record.append(cstr!("nreturned"), returned);
    }
    if matches!(name, "update" | "delete") {
        return;
    }
    // The message around the document: its header, its flags, the kind of its section.
    let length = reply.as_bytes().len() + 16 + 4 + 1;
    record.append(
        cstr!("responseLength"),
        i64::try_from(length).unwrap_or(i64::MAX),
    );
}

/// The command without what was sent beside it; of a single change, the change itself, as MongoDB records it.
fn shown_command(ran: &Ran<'_>) -> RawDocumentBuf {
    let shown = match ran.command.name {
        "update" | "delete" => only_change(ran),
        _ => None,
    };
    let shown = shown.unwrap_or_else(|| ran.body.to_owned());
    if shown.as_bytes().len() <= COMMAND_BYTES_MAX {
        return shown;
    }
    let text = document_text(&shown);
    let text = &text[..text.floor_char_boundary(COMMAND_BYTES_MAX)];
    rawdoc! { "$truncated": format!("{text}...") }
}

/// The only statement of an update or a delete.
fn only_change(ran: &Ran<'_>) -> Option<RawDocumentBuf> {
    let (field, is_update) = match ran.command.name {
        "update" => ("updates", true),
        _ => ("deletes", false),
    };
    let listed = elements(ran.body).find(|(name, _)| *name == field);
    let listed = listed.and_then(|(_, value)| value.as_array());
    let listed = listed.into_iter().flat_map(array_values);
    let listed = listed.filter_map(|value| value.as_document());
    let sent = ran.sequences.iter().filter(|one| one.identifier == field);
    let mut all = listed.chain(sent.flat_map(|one| one.documents()));
    let (only, None) = (all.next()?, all.next()) else {
        return None;
    };
    let mut shown = only.to_owned();
    for flag in ["multi", "upsert"] {
        let said = elements(only).any(|(name, value)| name == flag && truth(value).is_some());
        if is_update && !said {
            shown.append(bson::raw::CString::try_from(flag).ok()?, false);
        }
    }
    Some(shown)
}
