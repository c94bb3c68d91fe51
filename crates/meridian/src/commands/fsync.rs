//! `fsync`: every write acknowledged before it is durable after it.

use super::context::Context;
use meridian_engine::Result;
use meridian_wire::DocumentWriter;

/// Writes everything to files, so that sizes are true and a start has no log to read.
pub fn run(context: &mut Context<'_>, reply: &mut DocumentWriter<'_>) -> Result<()> {
    let arguments = context.known_arguments("fsync", &["async", "lock"])?;
    // (Who does not want to wait is answered when it is done, as in mongod.)
    arguments.flag("async")?;
    arguments.refuse_flags(&["lock"])?;
    context.engine().checkpoint()?;
    reply.int32("numFiles", 1);
    Ok(())
}
