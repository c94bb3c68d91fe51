//! `update`: a list of statements, each a filter and what to change.

use super::arguments::Arguments;
use super::context::Context;
use super::find::hint;
use super::write_reply::{check_batch_count, ends_command, write_errors};
use bson::Bson;
use bson::raw::{RawBson, RawBsonRef, RawDocument, RawDocumentBuf};
use meridian_engine::update::Update;
use meridian_engine::{Code, Error, ErrorBytes, Result, UpdateStatement, WriteError};
use meridian_wire::DocumentWriter;

#[derive(Default)]
struct Totals {
    matched: i64,
    modified: i64,
    upserted: Vec<(usize, RawDocumentBuf)>,
    upserted_bytes: usize,
    errors: Vec<WriteError>,
    error_bytes: ErrorBytes,
}

/// Identifiers of upserted documents are reported until they take so many bytes, the size of a document; later upserts are
/// refused. (A mongod whose reply becomes too large closes the connection.)
const UPSERTED_BYTES_MAX: usize = 16 * 1024 * 1024;

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
        let updated = totals
            .check_upsert(statement)
            .and_then(|()| context.engine().update(&namespace, statement));
        match updated {
            Ok(outcome) => {
                totals.matched += outcome.matched;
                context
                    .service
                    .counters
                    .documents_updated
                    .add(outcome.matched);
                totals.modified += outcome.modified;
                if let Some(id) = outcome.upserted_id {
                    totals.add_upserted(index, id)?;
                }
            }
            Err(error) if ends_command(&error) => return Err(error),
            Err(error) => {
                let error = totals.error_bytes.bound(error);
                totals.errors.push(WriteError { index, error });
            }
        }
        if ordered && !totals.errors.is_empty() {
            break;
        }
    }
    if context.generic.write_concern.is_unacknowledged {
        reply.int32("n", 0).int32("nModified", 0);
        return Ok(());
    }
    write_totals(&totals, reply)
}

impl Totals {
    fn check_upsert(&self, statement: &UpdateStatement<'_>) -> Result<()> {
        if !statement.upsert || self.upserted_bytes <= UPSERTED_BYTES_MAX {
            return Ok(());
        }
        let message = format!(
            "the identifiers of the documents upserted by this command take {} bytes, more than a reply \
             holds: {UPSERTED_BYTES_MAX}",
            self.upserted_bytes
        );
        Err(Error::new(Code::BSONObjectTooLarge, message))
    }

    fn add_upserted(&mut self, index: usize, id: Bson) -> Result<()> {
        let id = RawBson::try_from(id).map_err(|error| Error::bad_value(error.to_string()))?;
        let mut upserted = RawDocumentBuf::new();
        upserted.append(bson::cstr!("_id"), id);
        self.upserted_bytes += upserted.as_bytes().len();
        self.upserted.push((index, upserted));
        Ok(())
    }
}

fn write_totals(totals: &Totals, reply: &mut DocumentWriter<'_>) -> Result<()> {
    let upserted = i64::try_from(totals.upserted.len()).unwrap_or(i64::MAX);
    reply.count("n", totals.matched + upserted);
    write_errors(&totals.errors, reply);
    if !totals.upserted.is_empty() {
        let mut list = reply.array("upserted");
        for (index, id) in &totals.upserted {
            let index = i64::try_from(*index).unwrap_or(i64::MAX);
            list.document().count("index", index).elements(id);
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
    arguments.refuse_flags(&["upsertSupplied"])?;
    let filter = arguments
        .document("q")?
        .ok_or_else(|| arguments.missing("q"))?;
    let update = arguments.get("u").ok_or_else(|| arguments.missing("u"))?;
    Ok(UpdateStatement {
        collation: arguments.written_collation()?,
        filter,
        update: check_update(update)?,
        multi: arguments.boolean_or("multi", false)?,
        upsert: arguments.boolean_or("upsert", false)?,
        array_filters: arguments.documents("arrayFilters")?.unwrap_or_default(),
        hint: hint(&arguments)?,
        variables,
        constants: arguments.document("c")?,
        bypass_validation,
    })
}

/// A replacement, operators, or a pipeline of documents.
pub fn check_update(update: RawBsonRef<'_>) -> Result<RawBsonRef<'_>> {
    Update::check_shape(update)?;
    Ok(update)
}
