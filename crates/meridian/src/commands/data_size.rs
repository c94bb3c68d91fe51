//! `dataSize`: how large a collection's documents are together.

use super::arguments::collection_name;
use super::context::Context;
use meridian_engine::{Code, Namespace, Result};
use meridian_wire::DocumentWriter;
use std::time::Instant;

/// Answers with bytes and documents of the whole collection.
pub fn run(context: &mut Context<'_>, reply: &mut DocumentWriter<'_>) -> Result<()> {
    let known = ["keyPattern", "min", "max", "estimate"];
    let arguments = context.known_arguments("dataSize", &known)?;
    arguments.refuse_fields(&["keyPattern", "min", "max"])?;
    let estimate = arguments.boolean_or("estimate", false)?;
    let started = Instant::now();
    let full_name = collection_name(context.value(), Code::BadValue)?;
    let (database, collection) = full_name.split_once('.').unwrap_or((full_name, ""));
    let stats = context
        .engine()
        .collection_stats(&Namespace::new(database, collection)?);
    let stats = match stats {
        Err(error) if error.code == Code::NamespaceNotFound => Default::default(),
        other => other?,
    };
    reply
        .boolean("estimate", estimate)
        .count("size", stats.size);
    reply.count("numObjects", stats.count);
    reply.count(
        "millis",
        started.elapsed().as_millis().try_into().unwrap_or(i64::MAX),
    );
    Ok(())
}
