//! `collStats`: counts and sizes of a collection.

use super::arguments::Arguments;
use super::context::Context;
use meridian_engine::{Algorithm, Code, Compression, Error, Result};
use meridian_wire::DocumentWriter;

/// Answers with them, divided by `scale`.
pub fn run(context: &mut Context<'_>, reply: &mut DocumentWriter<'_>) -> Result<()> {
    let arguments = context.arguments("collStats", &["scale"])?;
    let scale = parse_scale(&arguments)?;
    let namespace = context.namespace_or(Code::InvalidNamespace)?;
    reply.string("ns", &namespace.to_string());
    let figures = context.engine().bucket_figures(&namespace);
    let stats = match &figures {
        Some((stats, _)) => stats.clone(),
        None => context.engine().collection_stats(&namespace)?,
    };
    reply.count("size", stats.size / scale);
    if let Some((_, figures)) = &figures {
        reply.embed("timeseries", figures);
    } else {
        reply.count("count", stats.count);
        if stats.count > 0 {
            reply.count("avgObjSize", stats.average_object_size);
        }
    }
    reply.int32("numOrphanDocs", 0);
    reply.count("storageSize", stats.storage_size / scale);
    let exists = context.exists(&namespace);
    if exists {
        reply
            .int32("freeStorageSize", 0)
            .boolean("capped", stats.capped.is_some());
        if let Some(capped) = stats.capped {
            reply
                .count("max", capped.max.unwrap_or(0))
                .count("maxSize", capped.size / scale);
        }
    }
    // Documents lie in the order of `_id`, which comes first.
    if let Some((_, compression)) = stats.compression.first() {
        describe(*compression, &mut reply.document("meridian"));
    }
    reply.count(
        "nindexes",
        stats.index_sizes.len().try_into().unwrap_or(i64::MAX),
    );
    {
        let mut details = reply.document("indexDetails");
        for (name, compression) in &stats.compression {
            describe(*compression, &mut details.document(name));
        }
        for name in &stats.unbuilt {
            details.document(name).boolean("unbuilt", true);
        }
    }
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

/// How most bytes are compressed, and those in files that have not reached the lowest level, if differently.
fn describe(compression: Compression, reply: &mut DocumentWriter<'_>) {
    let (settled, passing) = (compression.settled(), compression.passing());
    write_algorithm(settled, reply);
    if passing != settled {
        write_algorithm(passing, &mut reply.document("upperLevels"));
    }
}

fn write_algorithm(algorithm: Algorithm, reply: &mut DocumentWriter<'_>) {
    reply.string("compression", algorithm.name());
    if let Some(level) = algorithm.level() {
        reply.int32("compressionLevel", level.into());
    }
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
