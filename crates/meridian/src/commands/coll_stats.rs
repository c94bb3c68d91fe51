//! `collStats`: counts and sizes of a collection.

use super::arguments::Arguments;
use super::context::Context;
use meridian_engine::{Code, Error, Result};
use meridian_wire::DocumentWriter;

/// Answers with them, divided by `scale`.
pub fn run(context: &mut Context<'_>, reply: &mut DocumentWriter<'_>) -> Result<()> {
    let arguments = context.arguments("collStats", &["scale"])?;
    let scale = parse_scale(&arguments)?;
    let namespace = context.namespace_or(Code::InvalidNamespace)?;
    reply.string("ns", &namespace.to_string());
    let stats = context.engine().collection_stats(&namespace)?;
    reply
        .count("size", stats.size / scale)
        .count("count", stats.count);
    if stats.count > 0 {
        reply.count("avgObjSize", stats.average_object_size);
    }
    reply.int32("numOrphanDocs", 0);
    reply.count("storageSize", stats.storage_size / scale);
    let exists = context.exists(&namespace);
    if exists {
        reply.int32("freeStorageSize", 0).boolean("capped", false);
    }
    reply.count(
        "nindexes",
        stats.index_sizes.len().try_into().unwrap_or(i64::MAX),
    );
    drop(reply.document("indexDetails"));
    if exists {
        drop(reply.array("indexBuilds"));
    }
    reply.count("totalIndexSize", stats.total_index_size / scale);
    reply.count(
        "totalSize",
        (stats.storage_size + stats.total_index_size) / scale,
    );
    {
        let mut sizes = reply.document("indexSizes");
        for (name, size) in &stats.index_sizes {
            sizes.count(name, size / scale);
        }
    }
    reply.count("scaleFactor", scale);
    Ok(())
}

/// `scale`: at least 1.
pub fn parse_scale(arguments: &Arguments<'_>) -> Result<i64> {
    match arguments.integer("scale")? {
        None => Ok(1),
        Some(scale) if scale >= 1 => Ok(scale),
        Some(scale) => {
            let message = format!("BSON field 'scale' value must be >= 1, actual value '{scale}'");
            Err(Error::location(51024, message))
        }
    }
}
