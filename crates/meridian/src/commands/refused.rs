//! Commands that only a replica set has, refused in MongoDB's words.

use super::context::Context;
use meridian_engine::{Code, Error, Result};
use meridian_wire::DocumentWriter;

/// Refuses `commitTransaction` and `abortTransaction`.
pub fn transaction(context: &mut Context<'_>, _: &mut DocumentWriter<'_>) -> Result<()> {
    let name = context.command_name();
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

/// Refuses `replSetInitiate`.
pub fn replica_set_to_begin(_: &mut Context<'_>, _: &mut DocumentWriter<'_>) -> Result<()> {
    Err(Error::new(
        Code::NoReplicationEnabled,
        "This node was not started with replication enabled.",
    ))
}

/// Refuses `appendOplogNote`.
pub fn oplog_note(context: &mut Context<'_>, _: &mut DocumentWriter<'_>) -> Result<()> {
    let message = format!(
        "Must have replication set up to run \"{}\"",
        context.command_name()
    );
    Err(Error::new(Code::NoReplicationEnabled, message))
}

/// Refuses `replSetResizeOplog`.
pub fn oplog(_: &mut Context<'_>, _: &mut DocumentWriter<'_>) -> Result<()> {
    Err(Error::new(Code::NamespaceNotFound, "oplog does not exist"))
}

/// Refuses `getDefaultRWConcern` and `setDefaultRWConcern`.
pub fn default_concern(context: &mut Context<'_>, _: &mut DocumentWriter<'_>) -> Result<()> {
    let message = format!(
        "'{}' is not supported on standalone nodes.",
        context.command_name()
    );
    Err(Error::location(51300, message))
}

/// Refuses `getLastError`, which MongoDB does since 5.1.
pub fn last_error(_: &mut Context<'_>, _: &mut DocumentWriter<'_>) -> Result<()> {
    Err(Error::location(
        5_739_000,
        "getLastError command is not supported",
    ))
}

/// Refuses `fsyncUnlock`: no lock is ever held.
pub fn unlock(_: &mut Context<'_>, _: &mut DocumentWriter<'_>) -> Result<()> {
    Err(Error::new(
        Code::IllegalOperation,
        "fsyncUnlock called when not locked",
    ))
}
