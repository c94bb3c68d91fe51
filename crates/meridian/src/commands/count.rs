//! `count`: how many documents match.

use super::arguments::Arguments;
use super::context::Context;
use super::find::{EMPTY, hint};
use meridian_engine::{CountRequest, Error, Result};
use meridian_value::number::Number;
use meridian_wire::DocumentWriter;

/// Counts, and answers with the number.
pub fn run(context: &mut Context<'_>, reply: &mut DocumentWriter<'_>) -> Result<()> {
    let arguments = arguments(context)?;
    let request = parse(&arguments)?;
    let namespace = context.read_namespace()?;
    let count = context.engine().count(&namespace, &request)?;
    context.is_ok_integer = context.engine().has_view(&namespace);
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
    let limit = match arguments.get_even_null("limit") {
        None => 0,
        Some(written) if Number::from_raw(written).is_none() => {
            return Err(Error::bad_value("limit value is not a valid number"));
        }
        Some(written) => meridian_engine::query::exact_integer("limit", written)?,
    };
    if limit == i64::MIN {
        return Err(Error::bad_value("limit value for count cannot be min long"));
    }
    // A negative limit means the same as its absolute value; 0 means none.
    let limit = Some(limit.unsigned_abs()).filter(|limit| *limit > 0);
    Ok(CountRequest {
        collation,
        filter: arguments.document("query")?.unwrap_or(&EMPTY),
        skip: arguments.natural("skip")?.unwrap_or(0),
        limit,
        hint: hint(arguments)?,
    })
}
