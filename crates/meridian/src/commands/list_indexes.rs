//! `listIndexes`: the indexes of a collection.

use super::context::Context;
use super::cursor_reply::write_list;
use super::find::list_options;
use meridian_engine::Result;
use meridian_wire::DocumentWriter;

/// Lists them, in the first batch unless it is to be smaller.
pub fn run(context: &mut Context<'_>, reply: &mut DocumentWriter<'_>) -> Result<()> {
    let known = ["cursor", "includeBuildUUIDs", "includeIndexBuildInfo"];
    let arguments = context.arguments("listIndexes", &known)?;
    // (Those that are listed are built.)
    arguments.flag("includeBuildUUIDs")?;
    arguments.refuse_flags(&["includeIndexBuildInfo"])?;
    let options = list_options(&arguments, "listIndexes.cursor")?;
    let namespace = context.namespace()?;
    let indexes = context.engine().list_indexes(&namespace)?;
    write_list(context, indexes, namespace, options, reply)
}
