//! `getCmdLineOpts`: how the server was started.

use super::context::Context;
use bson::raw::RawBsonRef;
use meridian_engine::Result;
use meridian_wire::DocumentWriter;

/// Answers with the arguments as given and as understood.
pub fn run(context: &mut Context<'_>, reply: &mut DocumentWriter<'_>) -> Result<()> {
    context.arguments("getCmdLineOpts", &[])?;
    {
        let mut arguments = reply.array("argv");
        for argument in std::env::args() {
            arguments.push(RawBsonRef::String(&argument));
        }
    }
    let service = context.service;
    let mut parsed = reply.document("parsed");
    parsed
        .document("net")
        .string("bindIp", &service.address.ip().to_string())
        .int32("port", i32::from(service.address.port()))
        .count(
            "maxIncomingConnections",
            service.settings.max_connections.into(),
        );
    let mut storage = parsed.document("storage");
    storage.string("dbPath", &service.settings.data.display().to_string());
    storage
        .document("journal")
        .boolean("enabled", service.settings.journal);
    let cache_bytes = i64::try_from(service.settings.cache_bytes).unwrap_or(i64::MAX);
    storage.int64("cacheSizeBytes", cache_bytes);
    Ok(())
}
