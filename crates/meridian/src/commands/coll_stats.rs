//! `collStats`: counts and sizes of a collection.

use super::arguments::Arguments;
use super::context::Context;
use meridian_engine::{Code, Error, Result};
use meridian_wire::DocumentWriter;

/// Answers with them, divided by `scale`.
pub fn run(context: &mut Context<'_>, reply: &mut DocumentWriter<'_>) -> Result<()> {
    let arguments = context.known_arguments("collStats", &["scale"])?;
    let scale = parse_scale(&arguments)?;
    let namespace = context.namespace_or(Code::InvalidNamespace)?;
    reply.string("ns", &namespace.to_string());
    let stats = context.engine().storage_stats(&namespace, scale)?;
    reply.elements(&stats);
    Ok(())
}

/// `scale`: at least 1.
pub fn parse_scale(arguments: &Arguments<'_>) -> Result<i64> {
    match arguments.integer("scale")? {
        None => Ok(1),
        Some(scale) if scale >= 1 => Ok(scale),
        Some(scale) => {
            let message = format!("BSON field 'scale' value must be >= 1, actual value '{scale}'");
            Err(Error::location(51024, message))
        }
    }
}
