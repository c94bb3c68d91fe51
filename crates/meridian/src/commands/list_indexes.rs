//! `listIndexes`: the indexes of a collection.

use super::context::Context;
use super::cursor_reply::write_complete;
use super::find::parse_cursor_document;
use meridian_engine::Result;
use meridian_wire::DocumentWriter;

/// Lists them, all in the first batch.
pub fn run(context: &mut Context<'_>, reply: &mut DocumentWriter<'_>) -> Result<()> {
    let known = ["cursor", "includeBuildUUIDs", "includeIndexBuildInfo"];
    let arguments = context.arguments("listIndexes", &known)?;
    arguments.refuse_flags(&["includeBuildUUIDs", "includeIndexBuildInfo"])?;
    parse_cursor_document(&arguments)?;
    let namespace = context.namespace()?;
    let indexes = context.engine().list_indexes(&namespace)?;
    write_complete(
        &namespace.to_string(),
        indexes.iter().map(AsRef::as_ref),
        reply,
    );
    Ok(())
}
