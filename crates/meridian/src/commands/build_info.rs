//! `buildInfo`: the version of MongoDB that we answer like, and our own.

use super::context::Context;
use super::hello::DOCUMENT_BYTES_MAX;
use bson::raw::RawBsonRef;
use meridian_engine::Result;
use meridian_wire::DocumentWriter;

/// The version whose behaviour we follow; drivers and tools switch features on it.
pub const COMPATIBLE_VERSION: &str = "6.0.5";
const COMPATIBLE_VERSION_PARTS: [i32; 4] = [6, 0, 5, 0];

/// Answers with versions and build options.
pub fn run(_: &mut Context<'_>, reply: &mut DocumentWriter<'_>) -> Result<()> {
    reply.string("version", COMPATIBLE_VERSION);
    reply.string(
        "gitVersion",
        concat!("meridian-", env!("CARGO_PKG_VERSION")),
    );
    drop(reply.array("modules"));
    reply
        .string("allocator", "jemalloc")
        .string("javascriptEngine", "none");
    reply.string("sysInfo", "deprecated");
    {
        let mut parts = reply.array("versionArray");
        for part in COMPATIBLE_VERSION_PARTS {
            parts.push(RawBsonRef::Int32(part));
        }
    }
    reply
        .document("openssl")
        .string("running", "disabled")
        .string("compiled", "disabled");
    reply
        .document("buildEnvironment")
        .string("target_arch", std::env::consts::ARCH)
        .string("target_os", std::env::consts::OS);
    reply
        .int32("bits", 64)
        .boolean("debug", cfg!(debug_assertions));
    reply.int32("maxBsonObjectSize", DOCUMENT_BYTES_MAX);
    reply
        .array("storageEngines")
        .push(RawBsonRef::String("rocksdb"));
    write_own_version(reply);
    Ok(())
}

/// Meridian's own version, as `buildInfo` and `serverStatus` show it.
pub fn write_own_version(reply: &mut DocumentWriter<'_>) {
    reply
        .document("meridian")
        .string("version", env!("CARGO_PKG_VERSION"));
}
