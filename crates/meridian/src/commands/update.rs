//! `update`: a list of statements, each a filter and what to change.

use super::arguments::Arguments;
use super::context::Context;
use super::write_reply::{check_batch_count, ends_command, write_errors};
use bson::Bson;
use bson::raw::{RawBson, RawBsonRef, RawDocument};
use meridian_engine::update::Update;
use meridian_engine::{Durability, Error, Result, UpdateStatement, WriteError};
use meridian_wire::DocumentWriter;

#[derive(Default)]
struct Totals {
    matched: i64,
    modified: i64,
    upserted: Vec<(usize, Bson)>,
    errors: Vec<WriteError>,
}

/// Updates, and answers with what matched, what changed, what was inserted and the errors.
pub fn run(context: &mut Context<'_>, reply: &mut DocumentWriter<'_>) -> Result<()> {
    let known = [
        "updates",
        "ordered",
        "bypassDocumentValidation",
        "let",
        "stmtId",
        "stmtIds",
    ];
    let arguments = context.arguments("update", &known)?;
    let documents = context.documents(&arguments, "updates")?;
    let ordered = arguments.boolean_or("ordered", true)?;
    let statements = parse_all(&documents, &arguments)?;
    let namespace = context.write_namespace()?;
    check_batch_count(statements.len())?;
    let mut totals = Totals::default();
    for (index, statement) in statements.iter().enumerate() {
        context.service.counters.update.add(1);
        match context.engine().update(&namespace, statement) {
            Ok(outcome) => {
                totals.matched += outcome.matched;
                totals.modified += outcome.modified;
                totals
                    .upserted
                    .extend(outcome.upserted_id.map(|id| (index, id)));
            }
            Err(error) if ends_command(&error) => return Err(error),
            Err(error) => totals.errors.push(WriteError { index, error }),
        }
        if ordered && !totals.errors.is_empty() {
            break;
        }
    }
    write_totals(&totals, reply)
}

fn write_totals(totals: &Totals, reply: &mut DocumentWriter<'_>) -> Result<()> {
    let upserted = i64::try_from(totals.upserted.len()).unwrap_or(i64::MAX);
    reply.count("n", totals.matched + upserted);
    write_errors(&totals.errors, reply);
    if !totals.upserted.is_empty() {
        let mut list = reply.array("upserted");
        for (index, id) in &totals.upserted {
            let id = RawBson::try_from(id.clone())
                .map_err(|error| Error::bad_value(error.to_string()))?;
            let index = i64::try_from(*index).unwrap_or(i64::MAX);
            list.document()
                .count("index", index)
                .value("_id", id.as_raw_bson_ref());
        }
    }
    reply.count("nModified", totals.modified);
    Ok(())
}

/// All statements are checked before the first runs.
pub fn parse_all<'a>(
    documents: &[&'a RawDocument],
    command: &Arguments<'a>,
) -> Result<Vec<UpdateStatement<'a>>> {
    let bypass_validation = command.flag("bypassDocumentValidation")?;
    let variables = command.document("let")?;
    let parse = |document: &&'a RawDocument| parse(document, bypass_validation, variables);
    documents.iter().map(parse).collect()
}

fn parse<'a>(
    document: &'a RawDocument,
    bypass_validation: bool,
    variables: Option<&'a RawDocument>,
) -> Result<UpdateStatement<'a>> {
    let known = [
        "q",
        "u",
        "c",
        "multi",
        "upsert",
        "collation",
        "arrayFilters",
        "hint",
        "upsertSupplied",
    ];
    let arguments = Arguments::parse("update.updates", document, &known)?;
    arguments.refuse_collation()?;
    arguments.refuse_flags(&["upsertSupplied"])?;
    let filter = arguments
        .document("q")?
        .ok_or_else(|| arguments.missing("q"))?;
    let update = arguments.get("u").ok_or_else(|| arguments.missing("u"))?;
    Ok(UpdateStatement {
        filter,
        update: check_update(update)?,
        multi: arguments.boolean_or("multi", false)?,
        upsert: arguments.boolean_or("upsert", false)?,
        array_filters: arguments.documents("arrayFilters")?.unwrap_or_default(),
        hint: arguments.get("hint"),
        variables,
        constants: arguments.document("c")?,
        bypass_validation,
        durability: Durability::Buffered,
    })
}

/// A replacement, operators, or a pipeline of documents.
pub fn check_update(update: RawBsonRef<'_>) -> Result<RawBsonRef<'_>> {
    Update::check_shape(update)?;
    Ok(update)
}
