//! `findAndModify`: changes, replaces or removes one document, and returns it.

use super::arguments::Arguments;
use super::context::Context;
use super::find::{EMPTY, hint};
use super::update::check_update;
use bson::raw::{RawBson, RawBsonRef};
use meridian_engine::{
    Error, FindAndModifyAction, FindAndModifyOutcome, FindAndModifyRequest, Result,
};
use meridian_wire::DocumentWriter;

/// Answers with the document before or after, and what was done.
pub fn run(context: &mut Context<'_>, reply: &mut DocumentWriter<'_>) -> Result<()> {
    let arguments = arguments(context)?;
    let request = parse(&arguments)?;
    let namespace = context.write_namespace()?;
    let outcome = context.engine().find_and_modify(&namespace, &request)?;
    let counters = &context.service.counters;
    match (&request.action, outcome.updated_existing) {
        (FindAndModifyAction::Remove, _) => counters.documents_deleted.add(outcome.n.into()),
        (FindAndModifyAction::Update { .. }, Some(true)) => counters.documents_updated.add(1),
        // An upsert counts as neither an update nor an insert, as in MongoDB.
        (FindAndModifyAction::Update { .. }, _) => {}
    }
    write_outcome(outcome, reply)
}

/// The fields of a findAndModify, which `explain` shares.
pub fn arguments<'a>(context: &Context<'a>) -> Result<Arguments<'a>> {
    let known = [
        "query",
        "fields",
        "sort",
        "hint",
        "collation",
        "arrayFilters",
        // (Which mongod takes no notice of.)
        "batchSize",
        "remove",
        "update",
        "upsert",
        "new",
        "bypassDocumentValidation",
        "let",
        "singleBatch",
        "stmtId",
    ];
    context.arguments("findAndModify", &known)
}

/// What to do to which document.
pub fn parse<'a>(arguments: &Arguments<'a>) -> Result<FindAndModifyRequest<'a>> {
    let collation = arguments.collation()?;
    Ok(FindAndModifyRequest {
        collation,
        filter: arguments.document("query")?.unwrap_or(&EMPTY),
        sort: arguments.document("sort")?.filter(|sort| !sort.is_empty()),
        action: parse_action(arguments)?,
        fields: arguments
            .document("fields")?
            .filter(|fields| !fields.is_empty()),
        hint: hint(arguments)?,
        variables: arguments.document("let")?,
        bypass_validation: arguments.flag("bypassDocumentValidation")?,
    })
}

fn parse_action<'a>(arguments: &Arguments<'a>) -> Result<FindAndModifyAction<'a>> {
    let (upsert, return_new) = (arguments.flag("upsert")?, arguments.flag("new")?);
    let array_filters = arguments.documents("arrayFilters")?;
    let failed = |message| Err(Error::failed_to_parse(message));
    match (arguments.flag("remove")?, arguments.get("update")) {
        (true, Some(_)) => failed("Cannot specify both an update and remove=true"),
        (true, None) if upsert => failed("Cannot specify both upsert=true and remove=true "),
        (true, None) if return_new => failed(
            "Cannot specify both new=true and remove=true; 'remove' always returns the deleted \
             document",
        ),
        (true, None) if array_filters.is_some() => {
            failed("Cannot specify arrayFilters and remove=true")
        }
        (true, None) => Ok(FindAndModifyAction::Remove),
        (false, None) => failed("Either an update or remove=true must be specified"),
        (false, Some(RawBsonRef::Array(_))) if array_filters.is_some() => {
            failed("Cannot specify arrayFilters and a pipeline update")
        }
        (false, Some(update)) => Ok(FindAndModifyAction::Update {
            update: check_update(update)?,
            array_filters: array_filters.unwrap_or_default(),
            upsert,
            return_new,
        }),
    }
}

fn write_outcome(outcome: FindAndModifyOutcome, reply: &mut DocumentWriter<'_>) -> Result<()> {
    let mut last = reply.document("lastErrorObject");
    last.int32("n", outcome.n);
    if let Some(existing) = outcome.updated_existing {
        last.boolean("updatedExisting", existing);
    }
    if let Some(id) = outcome.upserted {
        let id = RawBson::try_from(id).map_err(|error| Error::bad_value(error.to_string()))?;
        last.value("upserted", id.as_raw_bson_ref());
    }
    drop(last);
    match &outcome.value {
        Some(document) => reply.embed("value", document),
        None => reply.value("value", bson::RawBsonRef::Null),
    };
    Ok(())
}
