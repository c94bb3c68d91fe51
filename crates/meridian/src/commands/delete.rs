//! `delete`: a list of statements, each a filter and whether one or all go.

use super::arguments::Arguments;
use super::context::Context;
use super::find::hint;
use super::write_reply::{check_batch_count, ends_command, write_errors};
use bson::raw::RawDocument;
use meridian_engine::text::general;
use meridian_engine::{DeleteStatement, Error, ErrorBytes, Result, WriteError};
use meridian_value::number::Number;
use meridian_wire::DocumentWriter;

/// Deletes, and answers with the number deleted and the errors.
pub fn run(context: &mut Context<'_>, reply: &mut DocumentWriter<'_>) -> Result<()> {
    let known = [
        "deletes",
        "ordered",
        "let",
        "stmtId",
        "stmtIds",
        "bypassDocumentValidation",
    ];
    let arguments = context.arguments("delete", &known)?;
    let documents = context.documents(&arguments, "deletes")?;
    let ordered = arguments.boolean_or("ordered", true)?;
    let statements = parse_all(&documents, &arguments)?;
    let namespace = context.write_namespace()?;
    check_batch_count(statements.len())?;
    let (mut deleted, mut errors, mut error_bytes) = (0, Vec::new(), ErrorBytes::default());
    let counters = &context.service.counters;
    for (index, statement) in statements.iter().enumerate() {
        counters.delete.add(1);
        match context.engine().delete(&namespace, statement) {
            Ok(count) => {
                deleted += count;
                counters.documents_deleted.add(count);
            }
            Err(error) if ends_command(&error) => return Err(error),
            Err(error) => errors.push(WriteError {
                index,
                error: error_bytes.bound(error),
            }),
        }
        if ordered && !errors.is_empty() {
            break;
        }
    }
    if context.generic.write_concern.is_unacknowledged {
        reply.int32("n", 0);
        return Ok(());
    }
    reply.count("n", deleted);
    write_errors(&errors, reply);
    Ok(())
}

/// All statements are checked before the first runs.
pub fn parse_all<'a>(
    documents: &[&'a RawDocument],
    command: &Arguments<'a>,
) -> Result<Vec<DeleteStatement<'a>>> {
    // Nothing is validated when it is deleted, so there is nothing to pass by.
    command.flag("bypassDocumentValidation")?;
    let variables = command.document("let")?;
    documents
        .iter()
        .map(|document| parse(document, variables))
        .collect()
}

fn parse<'a>(
    document: &'a RawDocument,
    variables: Option<&'a RawDocument>,
) -> Result<DeleteStatement<'a>> {
    let known = ["q", "limit", "collation", "hint"];
    let arguments = Arguments::parse("delete.deletes", document, &known)?;
    let filter = arguments
        .document("q")?
        .ok_or_else(|| arguments.missing("q"))?;
    let limit = arguments
        .get_even_null("limit")
        .ok_or_else(|| arguments.missing("limit"))?;
    // What is no number is 0.
    let number = Number::from_raw(limit).unwrap_or(Number::Int32(0));
    let limit_one = match number.to_i64_exact() {
        Some(0) => false,
        Some(1) => true,
        _ => {
            let shown = general(number.to_f64(), 6);
            return Err(Error::failed_to_parse(format!(
                "The limit field in delete objects must be 0 or 1. Got {shown}"
            )));
        }
    };
    Ok(DeleteStatement {
        collation: arguments.written_collation()?,
        filter,
        limit_one,
        hint: hint(&arguments)?,
        variables,
    })
}
