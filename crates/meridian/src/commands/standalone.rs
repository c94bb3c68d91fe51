//! What monitors and tools ask of any server, and a standalone has little to say about: connections to other servers,
//! shards, locks, the log.

use super::arguments::array_values;
use super::context::Context;
use bson::raw::RawBsonRef;
use meridian_engine::{Code, Error, Result};
use meridian_wire::DocumentWriter;

/// `connPoolStats`: there are no connections to other servers.
pub fn connection_pools(_: &mut Context<'_>, reply: &mut DocumentWriter<'_>) -> Result<()> {
    for name in [
        "numClientConnections",
        "numAScopedConnections",
        "totalInUse",
        "totalAvailable",
        "totalCreated",
        "totalRefreshing",
        "totalRefreshed",
    ] {
        reply.int32(name, 0);
    }
    drop(reply.document("pools"));
    drop(reply.document("hosts"));
    reply.int32("numReplicaSetMonitorsCreated", 0);
    drop(reply.document("replicaSets"));
    Ok(())
}

/// `connPoolSync`: nothing to do.
pub fn sync_pools(_: &mut Context<'_>, _: &mut DocumentWriter<'_>) -> Result<()> {
    Ok(())
}

/// `dropConnections`: those to other servers, of which there are none.
pub fn drop_connections(context: &mut Context<'_>, _: &mut DocumentWriter<'_>) -> Result<()> {
    let arguments = context.arguments("dropConnections", &["hostAndPort"])?;
    let hosts = arguments.array("hostAndPort")?;
    let hosts = hosts.ok_or_else(|| arguments.missing("hostAndPort"))?;
    for (place, host) in array_values(hosts).enumerate() {
        if !matches!(host, RawBsonRef::String(_)) {
            let path = format!("dropConnections.hostAndPort.{place}");
            return Err(super::arguments::wrong_type(&path, host, &["string"]));
        }
    }
    Ok(())
}

/// `shardingState`: this is no shard.
pub fn sharding(_: &mut Context<'_>, reply: &mut DocumentWriter<'_>) -> Result<()> {
    reply.boolean("enabled", false);
    Ok(())
}

/// `lockInfo`: there is no table of locks; statements read snapshots and writers hold a lock for a commit only.
pub fn locks(_: &mut Context<'_>, reply: &mut DocumentWriter<'_>) -> Result<()> {
    drop(reply.array("lockInfo"));
    Ok(())
}

/// `logRotate`: the log goes to the standard error, which whoever started the server rotates.
pub fn rotate_log(context: &mut Context<'_>, _: &mut DocumentWriter<'_>) -> Result<()> {
    match context.value() {
        RawBsonRef::String("server") => Ok(()),
        RawBsonRef::String(_) => Err(Error::new(
            Code::NoSuchKey,
            "Log rotation failed due to one or more errors",
        )),
        _ => Ok(()),
    }
}

/// `getFreeMonitoringStatus`: nobody was asked.
pub fn free_monitoring(context: &mut Context<'_>, reply: &mut DocumentWriter<'_>) -> Result<()> {
    context.arguments("getFreeMonitoringStatus", &[])?;
    reply.string("state", "undecided");
    Ok(())
}

/// `setFreeMonitoring`: there is no such service to tell anything to.
pub fn set_free_monitoring(context: &mut Context<'_>, _: &mut DocumentWriter<'_>) -> Result<()> {
    let arguments = context.arguments("setFreeMonitoring", &["action"])?;
    let action = arguments
        .string("action")?
        .ok_or_else(|| arguments.missing("action"))?;
    match action {
        "disable" => Ok(()),
        "enable" => Err(Error::not_implemented("free monitoring")),
        _ => Err(Error::bad_value(format!(
            "Enumeration value '{action}' for field 'setFreeMonitoring.action' is not a valid value."
        ))),
    }
}

/// `getnonce`: 64 random bits in hexadecimal, as logins of the oldest drivers began.
pub fn nonce(_: &mut Context<'_>, reply: &mut DocumentWriter<'_>) -> Result<()> {
    reply.string("nonce", &format!("{:016x}", rand::random::<u64>()));
    Ok(())
}

/// `features`: what MongoDB's first drivers asked for.
pub fn features(context: &mut Context<'_>, reply: &mut DocumentWriter<'_>) -> Result<()> {
    context.arguments("features", &["oidReset"])?;
    reply.document("js").boolean("utf8", true);
    // The part of an ObjectId that tells one process from another.
    let bytes = bson::oid::ObjectId::new().bytes();
    let machine = bytes[4..7]
        .iter()
        .fold(0, |number, byte| number << 8 | i32::from(*byte));
    reply.int32("oidMachine", machine);
    Ok(())
}

/// `availableQueryOptions`: the bits of the flags that queries of the old protocol could carry.
pub fn query_options(_: &mut Context<'_>, reply: &mut DocumentWriter<'_>) -> Result<()> {
    reply.int32("options", 246);
    Ok(())
}

/// `driverOIDTest`: an ObjectId and how it is written.
pub fn object_id_test(context: &mut Context<'_>, reply: &mut DocumentWriter<'_>) -> Result<()> {
    let RawBsonRef::ObjectId(id) = context.value() else {
        return Err(Error::without_code("not oid"));
    };
    reply
        .value("oid", RawBsonRef::ObjectId(id))
        .string("str", &id.to_hex());
    Ok(())
}

/// `setFeatureCompatibilityVersion`: it is 6.0 and stays so.
pub fn set_compatibility(context: &mut Context<'_>, _: &mut DocumentWriter<'_>) -> Result<()> {
    context.arguments("setFeatureCompatibilityVersion", &[])?;
    match context.value() {
        RawBsonRef::String("6.0") => Ok(()),
        RawBsonRef::String(older @ ("5.0" | "5.3")) => Err(Error::not_implemented(format!(
            "the feature compatibility version {older}"
        ))),
        RawBsonRef::String(_) => Err(Error::location(
            4_926_900,
            "Invalid feature compatibility version value, expected '5.0' or '5.3' or '6.0. See \
             https://docs.mongodb.com/master/release-notes/5.0-compatibility/#feature-compatibility.",
        )),
        other => Err(super::arguments::wrong_type(
            "setFeatureCompatibilityVersion.setFeatureCompatibilityVersion",
            other,
            &["string"],
        )),
    }
}
