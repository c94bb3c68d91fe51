//! `insert`: documents go from the receive buffer to the engine as they are.

use super::context::Context;
use super::write_reply::{check_batch_count, write_errors};
use meridian_engine::{Code, Error, InsertOptions, InsertOutcome, Result};
use meridian_wire::DocumentWriter;

/// Inserts, and answers with the number inserted and the errors.
pub fn run(context: &mut Context<'_>, reply: &mut DocumentWriter<'_>) -> Result<()> {
    let known = [
        "documents",
        "ordered",
        "bypassDocumentValidation",
        "stmtId",
        "stmtIds",
    ];
    let arguments = context.arguments("insert", &known)?;
    let documents = context.documents(&arguments, "documents")?;
    let options = InsertOptions {
        ordered: arguments.boolean_or("ordered", true)?,
        bypass_validation: arguments.flag("bypassDocumentValidation")?,
        // The dispatcher syncs once for the whole command.
        ..InsertOptions::default()
    };
    let namespace = context.write_namespace()?;
    check_batch_count(documents.len())?;
    let outcome = match context.engine().insert(&namespace, &documents, &options) {
        Err(error) if is_each_documents(&error) => {
            let failed = if options.ordered { 1 } else { documents.len() };
            InsertOutcome::refused(&error, failed)
        }
        outcome => outcome?,
    };
    let counters = &context.service.counters;
    // Operations, as in MongoDB, are the documents that it was tried to insert.
    counters
        .insert
        .add_size(outcome.inserted + outcome.errors.len());
    counters.documents_inserted.add_size(outcome.inserted);
    if context.generic.write_concern.is_unacknowledged {
        reply.int32("n", 0);
        return Ok(());
    }
    reply.count("n", outcome.inserted.try_into().unwrap_or(i64::MAX));
    write_errors(&outcome.errors, reply);
    Ok(())
}

/// Whether an error about the collection's name is told for each document, as mongod does.
fn is_each_documents(error: &Error) -> bool {
    matches!(
        error.code,
        Code::CommandNotSupportedOnView | Code::DatabaseDifferCase
    )
}
