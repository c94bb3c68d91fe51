//! `listCommands`: the command table.

use super::context::Context;
use super::privileges::Needs;
use super::table::COMMANDS;
use bson::raw::RawBsonRef;
use meridian_engine::Result;
use meridian_wire::DocumentWriter;

/// Commands that read data: of a replica set, secondaries would answer those whose read preference allows it.
const OVERRIDES: [&str; 14] = [
    "aggregate",
    "count",
    "distinct",
    "explain",
    "find",
    "listCollections",
    "listDatabases",
    "listIndexes",
    "planCacheClear",
    "planCacheClearFilters",
    "planCacheListFilters",
    "planCacheSetFilter",
    "rolesInfo",
    "usersInfo",
];

/// Answers with every command and what it does.
pub fn run(_: &mut Context<'_>, reply: &mut DocumentWriter<'_>) -> Result<()> {
    let mut commands = reply.document("commands");
    for command in COMMANDS.iter().filter(|command| command.alias_of.is_none()) {
        let mut row = commands.document(command.name);
        let is_for_all = matches!(command.needs, Needs::Nothing) && command.name != "logout";
        row.string("help", command.help)
            .boolean("requiresAuth", !is_for_all);
        let overrides = OVERRIDES.contains(&command.name);
        row.boolean("secondaryOk", !command.writes && !overrides);
        if overrides {
            row.boolean("secondaryOverrideOk", true);
        }
        row.boolean("adminOnly", command.admin_only);
        let mut versions = row.array("apiVersions");
        if command.stable_api {
            versions.push(RawBsonRef::String("1"));
        }
        drop(versions);
        drop(row.array("deprecatedApiVersions"));
    }
    Ok(())
}
