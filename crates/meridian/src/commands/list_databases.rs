//! `listDatabases`: the databases, as many as a filter lets through.

use super::context::Context;
use crate::access::{ActionSet, Resource};
use bson::RawDocumentBuf;
use meridian_engine::query::Filter;
use meridian_engine::{DatabaseInfo, Result};
use meridian_wire::DocumentWriter;

/// Lists them with their sizes.
pub fn run(context: &mut Context<'_>, reply: &mut DocumentWriter<'_>) -> Result<()> {
    let known = ["filter", "nameOnly", "authorizedDatabases"];
    let arguments = context.arguments("listDatabases", &known)?;
    let only_own = arguments.boolean_or("authorizedDatabases", false)?;
    // Who may not list all sees those that it may do something in.
    let privileges = context.privileges()?.filter(|privileges| {
        let lists = ActionSet::of(&["listDatabases"]);
        only_own || !privileges.allow(&Resource::Cluster, &lists)
    });
    let name_only = arguments.flag("nameOnly")?;
    let filter = arguments
        .document("filter")?
        .map(Filter::parse)
        .transpose()?;
    // What a row has is what a filter sees: with `nameOnly` a condition on a size meets a missing field.
    let describe = match name_only {
        true => describe_name,
        false => describe,
    };
    let mut total_size = 0;
    {
        let mut databases = reply.array("databases");
        for info in with_built_in(context.engine().list_databases()?) {
            let row = describe(&info);
            let is_seen = privileges
                .as_ref()
                .is_none_or(|privileges| privileges.touch_database(&info.name));
            if !is_seen
                || !filter
                    .as_ref()
                    .map_or(Ok(true), |filter| filter.matches(&row))?
            {
                continue;
            }
            total_size += info.size_on_disk;
            databases.push_document(&row);
        }
    }
    if !name_only {
        reply
            .int64("totalSize", total_size)
            .int64("totalSizeMb", total_size / (1024 * 1024));
    }
    Ok(())
}

fn describe(info: &DatabaseInfo) -> RawDocumentBuf {
    let mut bytes = Vec::new();
    DocumentWriter::new(&mut bytes)
        .string("name", &info.name)
        .int64("sizeOnDisk", info.size_on_disk)
        .boolean("empty", info.empty);
    RawDocumentBuf::from_bytes(bytes).expect("just written")
}

fn describe_name(info: &DatabaseInfo) -> RawDocumentBuf {
    let mut bytes = Vec::new();
    DocumentWriter::new(&mut bytes).string("name", &info.name);
    RawDocumentBuf::from_bytes(bytes).expect("just written")
}

/// The databases that every MongoDB server has, which tools look for; here they hold nothing at first.
const BUILT_IN: [&str; 3] = ["admin", "config", "local"];

fn with_built_in(mut databases: Vec<DatabaseInfo>) -> Vec<DatabaseInfo> {
    for name in BUILT_IN {
        if !databases.iter().any(|info| info.name == name) {
            databases.push(DatabaseInfo {
                name: name.to_owned(),
                size_on_disk: 0,
                empty: true,
            });
        }
    }
    databases.sort_by(|one, other| one.name.cmp(&other.name));
    databases
}
