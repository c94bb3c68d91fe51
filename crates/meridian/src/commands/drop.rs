//! `drop`: removes a collection with its indexes.

use super::context::Context;
use super::profile::SYSTEM_PROFILE;
use meridian_engine::{Code, Error, Result};
use meridian_wire::DocumentWriter;

/// Drops it, and answers with how many indexes it had.
pub fn run(context: &mut Context<'_>, reply: &mut DocumentWriter<'_>) -> Result<()> {
    let arguments = context.arguments("drop", &["collectionUUID"])?;
    arguments.refuse_fields(&["collectionUUID"])?;
    let namespace = context.namespace()?;
    if namespace.is_oplog() && !context.exists(&namespace) {
        let message = "can't drop oplog on storage engines that support replSetResizeOplog command";
        return Err(Error::location(5_255_001, message));
    }
    let is_profile = namespace.collection == SYSTEM_PROFILE;
    if is_profile && context.service.profiler.is_on(&namespace.database) {
        let message = "turn off profiling before dropping system.profile collection";
        return Err(Error::new(Code::IllegalOperation, message));
    }
    if context.exists(&namespace) {
        namespace.check_droppable()?;
    }
    let outcome = context.engine().drop_collection(&namespace)?;
    context.service.usage.forget(&namespace);
    if let Some(indexes_was) = outcome.indexes_was {
        reply.int32("nIndexesWas", indexes_was);
    }
    let name = outcome.name.unwrap_or(namespace);
    reply.string("ns", &name.to_string());
    Ok(())
}
