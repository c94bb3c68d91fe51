//! `count`: how many documents match.

use super::arguments::{Arguments, integer};
use super::context::Context;
use super::find::{EMPTY, hint};
use meridian_engine::{CountRequest, Error, Result};
use meridian_wire::DocumentWriter;

/// Counts, and answers with the number.
pub fn run(context: &mut Context<'_>, reply: &mut DocumentWriter<'_>) -> Result<()> {
    let arguments = arguments(context)?;
    let request = parse(&arguments)?;
    let count = context
        .engine()
        .count(&context.read_namespace()?, &request)?;
    reply.count("n", count);
    Ok(())
}

/// The fields of a count, which `explain` shares.
pub fn arguments<'a>(context: &Context<'a>) -> Result<Arguments<'a>> {
    let known = [
        "query",
        "limit",
        "skip",
        "hint",
        "collation",
        "fields",
        "maxTimeMS",
    ];
    context.arguments("count", &known)
}

/// What to count.
pub fn parse<'a>(arguments: &Arguments<'a>) -> Result<CountRequest<'a>> {
    let collation = arguments.collation()?;
    let limit = arguments.get("limit").map(|value| {
        integer(value).ok_or_else(|| Error::bad_value("limit value is not a valid number"))
    });
    // A negative limit means the same as its absolute value; 0 means none.
    let limit = limit
        .transpose()?
        .map(i64::unsigned_abs)
        .filter(|limit| *limit > 0);
    Ok(CountRequest {
        collation,
        filter: arguments.document("query")?.unwrap_or(&EMPTY),
        skip: arguments.natural("skip")?.unwrap_or(0),
        limit,
        hint: hint(arguments),
    })
}
