//! Commands that only a replica set has, refused in MongoDB's words.

use super::context::Context;
use meridian_engine::{Code, Error, Result};
use meridian_wire::DocumentWriter;

/// Refuses `commitTransaction` and `abortTransaction`.
pub fn transaction(context: &mut Context<'_>, _: &mut DocumentWriter<'_>) -> Result<()> {
    let name = super::arguments::elements(context.body)
        .next()
        .map_or("", |(name, _)| name);
    let message = format!("{name} must be run within a transaction");
    Err(Error::new(Code::CommandFailed, message))
}

/// Refuses `replSetGetStatus`, which tools ask to find out what they talk to.
pub fn replica_set(_: &mut Context<'_>, _: &mut DocumentWriter<'_>) -> Result<()> {
    Err(Error::new(
        Code::NoReplicationEnabled,
        "not running with --replSet",
    ))
}
