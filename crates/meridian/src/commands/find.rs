//! `find`: the documents that match, and a cursor for the rest of them.

use super::arguments::{Arguments, integer, type_name};
use super::context::Context;
use super::cursor_reply::{CursorOptions, write_complete, write_first_batch};
use super::parameters::uses_disk_by_default;
use bson::raw::{RawBsonRef, RawDocument, RawDocumentBuf};
use meridian_engine::{Code, Error, FindRequest, Result};
use meridian_wire::DocumentWriter;
use std::sync::LazyLock;

const SCOPE: &str = "FindCommandRequest";

const KNOWN: &[&str] = &[
    "filter",
    "sort",
    "projection",
    "hint",
    "skip",
    "limit",
    "batchSize",
    "singleBatch",
    "noCursorTimeout",
    "allowDiskUse",
    "min",
    "max",
    "returnKey",
    "showRecordId",
    "let",
    "collation",
    "tailable",
    "awaitData",
    "oplogReplay",
    "allowPartialResults",
    "allowSpeculativeMajorityRead",
    "term",
    "readOnce",
    "ntoreturn",
    "requestResumeToken",
    "resumeAfter",
    "maxScan",
    "snapshot",
];

/// The empty document: no filter.
pub static EMPTY: LazyLock<RawDocumentBuf> = LazyLock::new(RawDocumentBuf::new);

/// Finds, and answers with the first batch.
pub fn run(context: &mut Context<'_>, reply: &mut DocumentWriter<'_>) -> Result<()> {
    let arguments = arguments(context)?;
    let request = parse(&arguments)?;
    let options = parse_cursor_options(&arguments)?;
    let namespace = context.read_namespace()?;
    let query = context.engine().find(&namespace, &request)?;
    if query.is_over() && !context.exists(&namespace) {
        // MongoDB's reply has its fields in another order then.
        write_complete(&namespace.to_string(), std::iter::empty(), reply);
        return Ok(());
    }
    write_first_batch(context, query, namespace, options, reply)
}

/// The fields of a find that `explain` shares.
pub fn arguments<'a>(context: &Context<'a>) -> Result<Arguments<'a>> {
    let arguments = context.arguments(SCOPE, KNOWN)?;
    if context
        .namespace()
        .is_ok_and(|name| context.engine().has_view(&name))
    {
        refuse_on_view(&arguments)?;
    }
    Ok(arguments)
}

/// Refuses what a pipeline cannot do.
fn refuse_on_view(arguments: &Arguments<'_>) -> Result<()> {
    let refused = |message: String| Err(Error::new(Code::InvalidPipelineOperator, message));
    let flags = [
        "singleBatch",
        "noCursorTimeout",
        "allowPartialResults",
        "returnKey",
        "showRecordId",
        "readOnce",
    ];
    // The one document that drivers ask for by `findOne`.
    let is_one = arguments.get("limit").and_then(integer) == Some(1);
    for name in flags {
        if boolean(arguments, name)? && !(name == "singleBatch" && is_one) {
            return refused(format!("Option {name} not supported in aggregation."));
        }
    }
    for name in ["min", "max"] {
        if document(arguments, name)?.is_some_and(|bound| !bound.is_empty()) {
            return refused(format!("Option {name} not supported in aggregation."));
        }
    }
    match boolean(arguments, "tailable")? {
        true => refused("Tailable cursors are not supported in aggregation.".to_owned()),
        false => Ok(()),
    }
}

/// What to find.
pub fn parse<'a>(arguments: &Arguments<'a>) -> Result<FindRequest<'a>> {
    let collation = document(arguments, "collation")?.filter(|written| !written.is_empty());
    let collation =
        collation.map(|written| meridian_engine::collation::parse("collation", written));
    let (tailable, await_data) = cursor_kind(arguments)?;
    arguments.refuse_fields(&["resumeAfter", "ntoreturn", "maxScan", "snapshot"])?;
    arguments.refuse_flags(&["requestResumeToken", "readOnce"])?;
    Ok(FindRequest {
        collation: collation.transpose()?,
        filter: document(arguments, "filter")?.unwrap_or(&EMPTY),
        projection: non_empty(document(arguments, "projection")?),
        sort: non_empty(document(arguments, "sort")?),
        skip: arguments.natural("skip")?.unwrap_or(0),
        limit: arguments.natural("limit")?.filter(|limit| *limit > 0),
        hint: hint(arguments)?,
        allow_disk_use: boolean_or(arguments, "allowDiskUse", uses_disk_by_default())?,
        variables: arguments.document("let")?,
        tailable,
        await_data,
        min: non_empty(document(arguments, "min")?),
        max: non_empty(document(arguments, "max")?),
        return_key: boolean(arguments, "returnKey")?,
        counts: true,
        show_record_id: boolean(arguments, "showRecordId")?,
    })
}

fn parse_cursor_options(arguments: &Arguments<'_>) -> Result<CursorOptions> {
    Ok(CursorOptions {
        single_batch: boolean(arguments, "singleBatch")?,
        no_timeout: boolean(arguments, "noCursorTimeout")?,
        ..CursorOptions::with_batch(arguments.natural("batchSize")?)
    })
}

/// Whether the cursor is tailable, and whether it awaits data. Two flags say nothing here, as in MongoDB.
fn cursor_kind(arguments: &Arguments<'_>) -> Result<(bool, bool)> {
    boolean(arguments, "oplogReplay")?;
    boolean(arguments, "allowPartialResults")?;
    let (tailable, await_data) = (
        boolean(arguments, "tailable")?,
        boolean(arguments, "awaitData")?,
    );
    if await_data && !tailable {
        let message = "Cannot set 'awaitData' without also setting 'tailable'";
        return Err(Error::failed_to_parse(message));
    }
    if tailable && boolean(arguments, "singleBatch")? {
        let message = "cannot use tailable option with the 'singleBatch' option";
        return Err(Error::bad_value(message));
    }
    Ok((tailable, await_data))
}

/// A hint; MongoDB takes an empty document for none.
///
/// # Errors
/// Other types than a name or a key pattern, null as well.
pub fn hint<'a>(arguments: &Arguments<'a>) -> Result<Option<RawBsonRef<'a>>> {
    match arguments.get_even_null("hint") {
        None => Ok(None),
        Some(RawBsonRef::Document(key)) if key.is_empty() => Ok(None),
        Some(hint @ (RawBsonRef::Document(_) | RawBsonRef::String(_))) => Ok(Some(hint)),
        Some(_) => Err(Error::failed_to_parse("Hint must be a string or an object")),
    }
}

fn non_empty(document: Option<&RawDocument>) -> Option<&RawDocument> {
    document.filter(|document| !document.is_empty())
}

/// A document; `find` words its type error in its own way, without the space.
fn document<'a>(arguments: &Arguments<'a>, name: &str) -> Result<Option<&'a RawDocument>> {
    match arguments.get_even_null(name) {
        None => Ok(None),
        Some(RawBsonRef::Document(document)) => Ok(Some(document)),
        Some(_) => Err(Error::type_mismatch(format!(
            "Expected field {name}to be of type object"
        ))),
    }
}

/// A boolean; `find` words its type error in its own way.
fn boolean(arguments: &Arguments<'_>, name: &str) -> Result<bool> {
    boolean_or(arguments, name, false)
}

/// As [`boolean`]; absent means `default`. Null is no boolean.
///
/// # Errors
/// `TypeMismatch`.
pub fn boolean_or(arguments: &Arguments<'_>, name: &str, default: bool) -> Result<bool> {
    match arguments.get_even_null(name) {
        None => Ok(default),
        Some(RawBsonRef::Boolean(value)) => Ok(value),
        Some(value) => Err(Error::type_mismatch(format!(
            "Field '{name}' should be a boolean value, but found: {}",
            type_name(value)
        ))),
    }
}

/// The `cursor` of the list commands: everything comes at once unless a batch is asked for.
pub fn list_options(arguments: &Arguments<'_>, scope: &'static str) -> Result<CursorOptions> {
    let batch_count = match batch_size(arguments.document("cursor")?, scope)? {
        Some(size) => usize::try_from(size).unwrap_or(usize::MAX),
        None => usize::MAX,
    };
    Ok(CursorOptions {
        batch_count,
        ..CursorOptions::with_batch(None)
    })
}

/// The `cursor` sub-document of `aggregate`.
pub fn parse_cursor_document(arguments: &Arguments<'_>) -> Result<CursorOptions> {
    let cursor = match arguments.get_even_null("cursor") {
        None => None,
        Some(RawBsonRef::Document(cursor)) => Some(cursor),
        Some(_) => {
            let message = "cursor field must be missing or an object";
            return Err(Error::type_mismatch(message));
        }
    };
    Ok(CursorOptions::with_batch(batch_size(cursor, "cursor")?))
}

/// The `batchSize` of a `cursor` document, which errors call so.
fn batch_size(cursor: Option<&RawDocument>, scope: &'static str) -> Result<Option<u64>> {
    let Some(cursor) = cursor else {
        return Ok(None);
    };
    Arguments::parse(scope, cursor, &["batchSize"])?.natural("batchSize")
}
