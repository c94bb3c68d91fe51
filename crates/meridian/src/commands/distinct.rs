//! `distinct`: the distinct values of a field among the documents that match.

use super::arguments::Arguments;
use super::context::Context;
use super::find::EMPTY;
use meridian_engine::{DistinctRequest, Error, Result};
use meridian_wire::DocumentWriter;

/// Answers with the values.
pub fn run(context: &mut Context<'_>, reply: &mut DocumentWriter<'_>) -> Result<()> {
    let arguments = arguments(context)?;
    let request = parse(&arguments)?;
    let namespace = context.read_namespace()?;
    let values = context.engine().distinct(&namespace, &request)?;
    context.is_ok_integer = context.engine().has_view(&namespace);
    reply.embed_array("values", &values);
    Ok(())
}

/// The fields of a distinct, which `explain` shares.
pub fn arguments<'a>(context: &Context<'a>) -> Result<Arguments<'a>> {
    context.arguments("distinct", &["key", "query", "collation"])
}

/// Which field of which documents.
pub fn parse<'a>(arguments: &Arguments<'a>) -> Result<DistinctRequest<'a>> {
    let collation = arguments.collation()?;
    let key = arguments
        .string("key")?
        .ok_or_else(|| arguments.missing("key"))?;
    if key.is_empty() {
        let message = "FieldPath cannot be constructed with empty string";
        return Err(Error::location(40352, message));
    }
    Ok(DistinctRequest {
        collation,
        key,
        filter: arguments.document("query")?.unwrap_or(&EMPTY),
        hint: None,
    })
}
