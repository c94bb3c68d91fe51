//! `getMore`: the next batch of a cursor. Of one that awaits data, `maxTimeMS` tells how long to wait for it.

use super::arguments::wrong_type;
use super::context::Context;
use super::cursor_reply::write_batch;
use bson::raw::RawBsonRef;
use meridian_engine::{Error, Namespace, Result};
use meridian_wire::DocumentWriter;

/// Answers with the batch, and with the cursor's id while anything is left.
pub fn run(context: &mut Context<'_>, reply: &mut DocumentWriter<'_>) -> Result<()> {
    let known = [
        "collection",
        "batchSize",
        "term",
        "lastKnownCommittedOpTime",
    ];
    let arguments = context.arguments("getMore", &known)?;
    let RawBsonRef::Int64(id) = context.value() else {
        return Err(wrong_type("getMore.getMore", context.value(), &["long"]));
    };
    let collection = arguments
        .string("collection")?
        .ok_or_else(|| arguments.missing("collection"))?;
    let batch_count = arguments.natural("batchSize")?;
    // 0 means as many as fit, unlike in a first batch.
    let batch_count = batch_count
        .filter(|count| *count > 0)
        .map(|count| usize::try_from(count).unwrap_or(usize::MAX));
    let namespace = cursor_namespace(context.generic.database, collection)?;
    let cursors = context.engine().cursors();
    let until = context.generic.deadline;
    if until.is_some() && !cursors.awaits_data(id, &namespace)? {
        let message = "cannot set maxTimeMS on getMore command for a non-awaitData cursor";
        return Err(Error::bad_value(message));
    }
    let mut cursor = reply.document("cursor");
    let mut fits = |bytes| context.client.reply_share.fits(bytes);
    let exhausted = write_batch(context.service, &mut cursor, "nextBatch", |sink| {
        cursors.get_more(id, &namespace, batch_count, until, &mut fits, sink)
    })?;
    cursor
        .int64("id", if exhausted { 0 } else { id })
        .string("ns", &namespace.to_string());
    Ok(())
}

/// A cursor's collection may be one that nobody can create: `$cmd.aggregate`.
pub fn cursor_namespace(database: &str, collection: &str) -> Result<Namespace> {
    if collection.is_empty() {
        return Err(Error::bad_value(
            "the collection of a cursor must not be empty",
        ));
    }
    Ok(Namespace {
        database: database.to_owned(),
        collection: collection.to_owned(),
    })
}
