//! `connectionStatus`: nobody is logged in, because there are no users yet.

use super::context::Context;
use meridian_engine::Result;
use meridian_wire::DocumentWriter;

/// Answers with empty lists, as MongoDB does without access control.
pub fn run(context: &mut Context<'_>, reply: &mut DocumentWriter<'_>) -> Result<()> {
    let arguments = context.arguments("connectionStatus", &["showPrivileges"])?;
    let mut info = reply.document("authInfo");
    drop(info.array("authenticatedUsers"));
    drop(info.array("authenticatedUserRoles"));
    if arguments.flag("showPrivileges")? {
        drop(info.array("authenticatedUserPrivileges"));
    }
    Ok(())
}
