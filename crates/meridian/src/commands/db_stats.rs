//! `dbStats`: counts and sizes of a database.

use super::arguments::{Arguments, truth};
use super::context::Context;
use meridian_engine::{Code, Error, Result, whole};
use meridian_value::number::Number;
use meridian_wire::DocumentWriter;

/// Answers with them, divided by `scale`. Sizes are doubles, as MongoDB's are.
#[expect(clippy::cast_precision_loss, reason = "MongoDB answers in doubles")]
pub fn run(context: &mut Context<'_>, reply: &mut DocumentWriter<'_>) -> Result<()> {
    let arguments = context.known_arguments("dbStats", &["scale", "freeStorage"])?;
    let free = arguments
        .get("freeStorage")
        .is_some_and(|value| truth(value) != Some(false));
    let scale = parse_scale(&arguments)? as f64;
    if let Some(name) = context.value().as_str() {
        let message = format!("Invalid db name: {}.{name}", context.generic.database);
        return Err(Error::new(Code::InvalidNamespace, message));
    }
    let stats = context.engine().database_stats(context.generic.database)?;
    reply.string("db", context.generic.database);
    reply
        .count("collections", stats.collections)
        .count("views", stats.views);
    reply
        .count("objects", stats.objects)
        .double("avgObjSize", stats.average_object_size);
    reply.double("dataSize", stats.data_size as f64 / scale);
    reply.double("storageSize", stats.storage_size as f64 / scale);
    // Files have no free space within them: what is written anew goes to other files.
    if free {
        reply.double("freeStorageSize", 0.0);
    }
    reply.count("indexes", stats.indexes);
    reply.double("indexSize", stats.index_size as f64 / scale);
    if free {
        reply.double("indexFreeStorageSize", 0.0);
    }
    reply.double(
        "totalSize",
        (stats.storage_size + stats.index_size) as f64 / scale,
    );
    if free {
        reply.double("totalFreeStorageSize", 0.0);
    }
    reply.double("scaleFactor", scale);
    if let Ok(disk) = rustix::fs::statvfs(context.engine().directory()) {
        let used = (disk.f_blocks - disk.f_bfree) * disk.f_frsize;
        reply.double("fsUsedSize", used as f64 / scale);
        reply.double(
            "fsTotalSize",
            (disk.f_blocks * disk.f_frsize) as f64 / scale,
        );
    }
    Ok(())
}

/// What sizes are divided by.
fn parse_scale(arguments: &Arguments<'_>) -> Result<i64> {
    match arguments.get("scale").map(Number::from_raw) {
        None => Ok(1),
        Some(None) => Err(Error::without_code("scale has to be a number > 0")),
        Some(Some(scale)) => match whole(scale) {
            ..1 => Err(Error::without_code("scale has to be > 0")),
            scale => Ok(scale),
        },
    }
}
