//! Sessions: an identifier that a client makes up or asks for. All that a standalone keeps
//! under it are cursors, which end with it.

use super::context::Context;
use super::generic::parse_sessions;
use super::hello::SESSION_TIMEOUT_MINUTES;
use bson::spec::BinarySubtype;
use bson::{RawBinaryRef, RawBsonRef};
use meridian_engine::Result;
use meridian_wire::DocumentWriter;

/// Answers `startSession` with a random identifier.
pub fn start(context: &mut Context<'_>, reply: &mut DocumentWriter<'_>) -> Result<()> {
    context.arguments("startSession", &[])?;
    let bytes = bson::Uuid::new().bytes();
    let id = RawBinaryRef {
        subtype: BinarySubtype::Uuid,
        bytes: &bytes,
    };
    reply.document("id").value("id", RawBsonRef::Binary(id));
    reply.int32("timeoutMinutes", SESSION_TIMEOUT_MINUTES);
    Ok(())
}

/// Answers `endSessions`.
pub fn end(context: &mut Context<'_>, _: &mut DocumentWriter<'_>) -> Result<()> {
    close_cursors(context, "endSessions", "endSessions.endSessions")
}

/// Answers `refreshSessions`.
pub fn refresh(context: &mut Context<'_>, _: &mut DocumentWriter<'_>) -> Result<()> {
    context.arguments("refreshSessions", &[])?;
    parse_sessions(context.value(), "refreshSessions.refreshSessions").map(drop)
}

/// Answers `killSessions`.
pub fn kill(context: &mut Context<'_>, _: &mut DocumentWriter<'_>) -> Result<()> {
    close_cursors(context, "KillSessionsCmd", "KillSessionsCmd.killSessions")
}

fn close_cursors(context: &Context<'_>, scope: &'static str, path: &str) -> Result<()> {
    context.arguments(scope, &[])?;
    for session in parse_sessions(context.value(), path)? {
        let session = context.session_key(session);
        context.engine().cursors().kill_session(&session);
    }
    Ok(())
}
