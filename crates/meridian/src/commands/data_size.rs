//! `dataSize`: how large a collection's documents are together, or those of a range of an index's keys.

use super::arguments::{collection_name, truth};
use super::context::Context;
use bson::raw::{RawBsonRef, RawDocument};
use meridian_engine::{Code, DataSizeRequest, Error, Namespace, Result};
use meridian_wire::DocumentWriter;
use std::time::Instant;

/// Answers with bytes and documents.
pub fn run(context: &mut Context<'_>, reply: &mut DocumentWriter<'_>) -> Result<()> {
    let known = [
        "keyPattern",
        "min",
        "max",
        "estimate",
        "maxSize",
        "maxObjects",
    ];
    let arguments = context.known_arguments("dataSize", &known)?;
    // What is no document bounds nothing, as in MongoDB.
    let document = |name: &str| arguments.get(name).and_then(RawBsonRef::as_document);
    let (min, max) = (document("min"), document("max"));
    let is_given = |name: &str, bound: Option<&RawDocument>| {
        bound.is_some_and(|bound| !bound.is_empty())
            || arguments.get_even_null(name).is_some() && bound.is_none()
    };
    match (is_given("min", min), is_given("max", max)) {
        (true, false) => return Err(Error::bad_value("max must be set if min is set")),
        (false, true) => return Err(Error::bad_value("min must be set if max is set")),
        _ => {}
    }
    let request = DataSizeRequest {
        key: document("keyPattern"),
        min,
        max,
        bytes_max: arguments.integer("maxSize")?.filter(|most| *most != 0),
        documents_max: arguments.integer("maxObjects")?.filter(|most| *most != 0),
        is_estimate: arguments.get("estimate").and_then(truth) == Some(true),
    };
    let started = Instant::now();
    let full_name = collection_name(context.value(), Code::BadValue)?;
    let (database, collection) = full_name.split_once('.').unwrap_or((full_name, ""));
    let namespace = Namespace::new(database, collection)?;
    let size = context.engine().data_size(&namespace, &request)?;
    if size.documents > 0 {
        reply.boolean("estimate", request.is_estimate);
    }
    if size.is_reached {
        reply.boolean("maxReached", true);
    }
    reply.count("size", size.bytes);
    reply.count("numObjects", size.documents);
    let millis = started.elapsed().as_millis();
    reply.count("millis", millis.try_into().unwrap_or(i64::MAX));
    Ok(())
}
