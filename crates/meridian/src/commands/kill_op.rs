//! `killOp`: asks a running command to end.

use super::arguments::{elements, type_name};
use super::context::Context;
use meridian_engine::{Code, Error, Result};
use meridian_value::number::Number;
use meridian_wire::DocumentWriter;

/// Asks the command with the number `op` (see `currentOp`) to end; one that has ended is no error.
pub fn run(context: &mut Context<'_>, reply: &mut DocumentWriter<'_>) -> Result<()> {
    let operation_id = operation_id(context)?;
    for activity in context.service.activities() {
        activity.kill(operation_id);
    }
    reply.string("info", "attempting to kill op");
    Ok(())
}

fn operation_id(context: &Context<'_>) -> Result<i32> {
    let value = elements(context.body).find(|(name, _)| *name == "op");
    let Some((_, value)) = value else {
        let message = "Missing expected field \"op\"";
        return Err(Error::new(Code::NoSuchKey, message));
    };
    let Some(number) = Number::from_raw(value) else {
        return Err(Error::type_mismatch(format!(
            "Expected field \"op\" to have numeric type, but found {}",
            type_name(value)
        )));
    };
    let Some(whole) = number.to_i64_exact() else {
        return Err(Error::bad_value(format!(
            "Expected field \"op\" to have a value exactly representable as a 64-bit integer, but found op: {}",
            meridian_engine::text::text(value)
        )));
    };
    i32::try_from(whole).map_err(|_| {
        let message = format!("invalid op : {whole}. Op ID cannot be represented with 32 bits");
        Error::location(26823, message)
    })
}
