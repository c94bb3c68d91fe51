//! `getMore`: the next batch of a cursor. Of one that awaits data, `maxTimeMS` tells how long to wait for it.

use super::arguments::wrong_type;
use super::context::Context;
use super::cursor_reply::write_batch;
use crate::service::SessionName;
use base64::prelude::{BASE64_STANDARD, Engine as _};
use bson::raw::RawBsonRef;
use meridian_engine::{Code, CursorOwner, Error, Namespace, Result};
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
    let awaits_data = cursors.awaits_data(id, &namespace)?;
    if let Some(owner) = cursors.owner(id) {
        check_session(id, &owner, context)?;
        check_api(&owner, context)?;
    }
    if until.is_some() && !awaits_data {
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

/// Refuses a cursor that was opened in another session, or in none.
fn check_session(id: i64, owner: &CursorOwner, context: &Context<'_>) -> Result<()> {
    let asking = context.generic.session.map(|id| context.session(id));
    let opened = owner.session.as_deref();
    let asking_key = asking.as_ref().map(SessionName::key);
    if asking_key.as_deref() == opened {
        return Ok(());
    }
    let opened = opened.and_then(SessionName::of_key);
    let cannot = format!("Cannot run getMore on cursor {id}, which was");
    Err(match (opened, asking) {
        (Some(opened), Some(asking)) => Error::location(
            50_738,
            format!(
                "{cannot} created in session {}, in session {}",
                shown(&opened),
                shown(&asking)
            ),
        ),
        (Some(opened), None) => Error::location(
            50_737,
            format!(
                "{cannot} created in session {}, without an lsid",
                shown(&opened)
            ),
        ),
        (None, asking) => Error::location(
            50_736,
            format!(
                "{cannot} not created in a session, in session {}",
                asking.as_ref().map(shown).unwrap_or_default()
            ),
        ),
    })
}

/// A session as MongoDB's messages show it: with whose it is, and what would be those of transactions.
fn shown(session: &SessionName) -> String {
    let id = bson::Uuid::from_bytes(session.id);
    let user = BASE64_STANDARD.encode(session.user_digest());
    format!("{id} - {user} -  - ")
}

/// Refuses a cursor of a statement that asked for another version of the API.
fn check_api(owner: &CursorOwner, context: &Context<'_>) -> Result<()> {
    let asking = context.api_parameters();
    if asking == owner.api {
        return Ok(());
    }
    let shown = |said: &str| {
        if said.is_empty() {
            "{}".to_owned()
        } else {
            said.to_owned()
        }
    };
    let message = format!(
        "API parameter mismatch: getMore used params {}, the cursor-creating command used {}",
        shown(&asking),
        shown(&owner.api)
    );
    Err(Error::new(Code::APIMismatchError, message))
}

/// A cursor's collection may be one that nobody can create: `$cmd.aggregate`.
pub fn cursor_namespace(database: &str, collection: &str) -> Result<Namespace> {
    if collection.is_empty() {
        let message = "Collection names cannot be empty";
        return Err(Error::new(Code::InvalidNamespace, message));
    }
    Ok(Namespace {
        database: database.to_owned(),
        collection: collection.to_owned(),
    })
}
