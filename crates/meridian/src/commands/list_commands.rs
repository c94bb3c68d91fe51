//! `listCommands`: the command table.

use super::context::Context;
use super::table::COMMANDS;
use bson::raw::RawBsonRef;
use meridian_engine::Result;
use meridian_wire::DocumentWriter;

/// Answers with every command and what it does.
pub fn run(context: &mut Context<'_>, reply: &mut DocumentWriter<'_>) -> Result<()> {
    context.arguments("listCommands", &[])?;
    let mut commands = reply.document("commands");
    for command in COMMANDS {
        let mut row = commands.document(command.name);
        row.string("help", command.help)
            .boolean("requiresAuth", false);
        row.boolean("secondaryOk", false)
            .boolean("adminOnly", command.admin_only);
        let mut versions = row.array("apiVersions");
        if command.stable_api {
            versions.push(RawBsonRef::String("1"));
        }
        drop(versions);
        drop(row.array("deprecatedApiVersions"));
    }
    Ok(())
}
