//! `hello`, `isMaster`: what this server is and can do. Every driver's first request.
//!
//! No `setName` and no `msg` make it a standalone, so drivers send no transaction numbers;
//! no `topologyVersion` makes them poll.

use super::arguments::{array_values, elements, field, wrong_type};
use super::context::Context;
use super::sasl;
use bson::raw::RawBsonRef;
use meridian_engine::{Error, Result};
use meridian_wire::{Compressor, DocumentWriter, MESSAGE_BYTES_MAX};

/// MongoDB 6.0's.
pub const WIRE_VERSION_MAX: i32 = 17;
/// The largest document.
pub const DOCUMENT_BYTES_MAX: i32 = 16 * 1024 * 1024;
/// The most statements in one write command.
pub const WRITE_BATCH_COUNT_MAX: usize = 100_000;
/// How long MongoDB's drivers think a session lives.
pub const SESSION_TIMEOUT_MINUTES: i32 = 30;

/// Answers `hello`.
pub fn run(context: &mut Context<'_>, reply: &mut DocumentWriter<'_>) -> Result<()> {
    answer(context, reply, "isWritablePrimary")
}

/// Answers `isMaster` and `ismaster`.
pub fn run_legacy(context: &mut Context<'_>, reply: &mut DocumentWriter<'_>) -> Result<()> {
    answer(context, reply, "ismaster")
}

fn answer(
    context: &mut Context<'_>,
    reply: &mut DocumentWriter<'_>,
    primary_field: &str,
) -> Result<()> {
    let mut speculative = None;
    // Fields of later versions are ignored on purpose: this is how versions are negotiated.
    for (name, value) in elements(context.body).skip(1) {
        match name {
            "helloOk" => {
                reply.boolean("helloOk", true);
            }
            "compression" => context.client.compressors = negotiate(value)?,
            "client" => log_client(context, value),
            "saslSupportedMechs" => sasl::write_mechanisms(context, value, reply)?,
            "speculativeAuthenticate" => speculative = Some(value),
            "maxAwaitTimeMS" if field(context.body, "topologyVersion").is_none() => {
                let message = "A request with 'maxAwaitTimeMS' must include a 'topologyVersion'";
                return Err(Error::location(31368, message));
            }
            _ => {}
        }
    }
    reply.boolean(primary_field, true);
    reply.int32("maxBsonObjectSize", DOCUMENT_BYTES_MAX);
    reply.count(
        "maxMessageSizeBytes",
        MESSAGE_BYTES_MAX.try_into().unwrap_or(i64::MAX),
    );
    reply.count(
        "maxWriteBatchSize",
        WRITE_BATCH_COUNT_MAX.try_into().unwrap_or(i64::MAX),
    );
    reply.date("localTime", bson::DateTime::now());
    reply.int32("logicalSessionTimeoutMinutes", SESSION_TIMEOUT_MINUTES);
    reply.int32("connectionId", context.client.connection_id);
    reply
        .int32("minWireVersion", 0)
        .int32("maxWireVersion", WIRE_VERSION_MAX);
    reply.boolean("readOnly", false);
    if !context.client.compressors.is_empty() {
        let mut names = reply.array("compression");
        for compressor in &context.client.compressors {
            names.push(RawBsonRef::String(compressor.name()));
        }
    }
    if let Some(login) = speculative {
        sasl::speculate(context, login, reply);
    }
    Ok(())
}

/// Those of the client's compressors that we speak, in the client's order.
fn negotiate(offered: RawBsonRef<'_>) -> Result<Vec<Compressor>> {
    let Some(offered) = offered.as_array() else {
        return Err(wrong_type("hello.compression", offered, &["array"]));
    };
    let mut agreed = Vec::new();
    for (place, name) in array_values(offered).enumerate() {
        let Some(text) = name.as_str() else {
            let path = format!("hello.compression.{place}");
            return Err(wrong_type(&path, name, &["string"]));
        };
        let Some(compressor) = Compressor::from_name(text) else {
            continue;
        };
        // A name that comes again says nothing new, and the connection keeps the list.
        if !agreed.contains(&compressor) {
            agreed.push(compressor);
        }
    }
    Ok(agreed)
}

fn log_client(context: &Context<'_>, metadata: RawBsonRef<'_>) {
    let text = |part: &str| -> Option<String> {
        let part = metadata.as_document()?.get_document(part).ok()?;
        let (name, version) = (
            part.get_str("name").ok()?,
            part.get_str("version").unwrap_or(""),
        );
        Some(format!("{name} {version}").trim_end().to_owned())
    };
    let (driver, application) = (text("driver"), text("application"));
    tracing::debug!(
        connection = context.client.connection_id,
        driver,
        application,
        "client metadata"
    );
}
