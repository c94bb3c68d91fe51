//! `getParameter`: the few parameters that shells and tools ask for.

use super::arguments::elements;
use super::context::Context;
use super::generic::is_generic;
use meridian_engine::{Error, Result};
use meridian_wire::DocumentWriter;

type Parameter = (&'static str, fn(&Context<'_>, &mut DocumentWriter<'_>));

/// Sorted by name.
const PARAMETERS: &[Parameter] = &[
    ("authenticationMechanisms", |_, reply| {
        drop(reply.array("authenticationMechanisms"))
    }),
    ("enableTestCommands", |_, reply| {
        reply.boolean("enableTestCommands", false);
    }),
    ("featureCompatibilityVersion", |_, reply| {
        reply
            .document("featureCompatibilityVersion")
            .string("version", "6.0");
    }),
    ("quiet", |_, reply| {
        reply.boolean("quiet", false);
    }),
    ("storageEngineCacheBytes", |context, reply| {
        let bytes = i64::try_from(context.service.settings.cache_bytes).unwrap_or(i64::MAX);
        reply.int64("storageEngineCacheBytes", bytes);
    }),
    ("ttlMonitorSleepSecs", |context, reply| {
        let seconds = i64::try_from(context.engine().ttl_sweep_seconds()).unwrap_or(i64::MAX);
        reply.count("ttlMonitorSleepSecs", seconds);
    }),
];

/// Answers with the parameters named, or all for `'*'` and `{allParameters: true}`.
pub fn run(context: &mut Context<'_>, reply: &mut DocumentWriter<'_>) -> Result<()> {
    let value = context.value();
    let all = value.as_str() == Some("*")
        || value
            .as_document()
            .is_some_and(|options| options.get_bool("allParameters").unwrap_or(false));
    let names = || elements(context.body).skip(1).map(|(name, _)| name);
    let mut found = 0;
    for (name, write) in PARAMETERS {
        if all || names().any(|asked| asked == *name) {
            write(context, reply);
            found += 1;
        }
    }
    let asked = names().filter(|name| !is_generic(name)).count();
    match found {
        0 if asked > 0 || !all => Err(Error::without_code("no option found to get")),
        _ => Ok(()),
    }
}
