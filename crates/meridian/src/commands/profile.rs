//! `profile`: there is no profiler; asking is answered, switching it on is refused.

use super::arguments::integer;
use super::context::Context;
use meridian_engine::{Error, Result};
use meridian_wire::DocumentWriter;

/// Answers that the profiler is off.
pub fn run(context: &mut Context<'_>, reply: &mut DocumentWriter<'_>) -> Result<()> {
    let arguments = context.arguments("profile", &["slowms", "sampleRate", "filter"])?;
    arguments.refuse_fields(&["slowms", "sampleRate", "filter"])?;
    match integer(context.value()) {
        Some(-1 | 0) => {
            reply
                .int32("was", 0)
                .int32("slowms", 100)
                .double("sampleRate", 1.0);
            Ok(())
        }
        _ => Err(Error::not_implemented("the database profiler")),
    }
}
