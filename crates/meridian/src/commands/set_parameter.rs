//! `setParameter`: how often the TTL indexes are swept; nothing else can be set yet.

use super::arguments::{elements, integer};
use super::context::Context;
use super::generic::is_generic;
use meridian_engine::{Error, Result};
use meridian_wire::DocumentWriter;

/// Sets `ttlMonitorSleepSecs`, and refuses others by name.
pub fn run(context: &mut Context<'_>, reply: &mut DocumentWriter<'_>) -> Result<()> {
    let mut own = elements(context.body)
        .skip(1)
        .filter(|(name, _)| !is_generic(name));
    let (name, value) = own.next().ok_or_else(|| {
        Error::without_code("no option found to set, use help:true to see options ")
    })?;
    if name != "ttlMonitorSleepSecs" {
        return Err(Error::without_code(format!(
            "attempted to set unrecognized parameter [{name}], use help:true to see options "
        )));
    }
    let seconds = integer(value).and_then(|seconds| u64::try_from(seconds).ok());
    let Some(seconds) = seconds.filter(|seconds| *seconds > 0) else {
        return Err(Error::bad_value(
            "ttlMonitorSleepSecs must be a number above 0",
        ));
    };
    let engine = context.engine();
    let was = i64::try_from(engine.ttl_sweep_seconds()).unwrap_or(i64::MAX);
    engine.set_ttl_sweep_seconds(seconds);
    reply.count("was", was);
    Ok(())
}
