//! `whatsmyuri`: the client's own address as the server sees it.

use super::context::Context;
use meridian_engine::Result;
use meridian_wire::DocumentWriter;

/// Answers with `address:port`.
pub fn run(context: &mut Context<'_>, reply: &mut DocumentWriter<'_>) -> Result<()> {
    reply.string("you", &context.client.peer);
    Ok(())
}
