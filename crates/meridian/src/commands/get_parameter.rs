//! `getParameter`: the few parameters that shells and tools ask for.

use super::arguments::{Arguments, elements};
use super::context::Context;
use super::generic::is_generic;
use meridian_engine::{Error, Result};
use meridian_wire::DocumentWriter;

struct Parameter {
    name: &'static str,
    /// `setParameter` changes it.
    settable_at_runtime: bool,
    /// An option of the command line sets it.
    settable_at_startup: bool,
    /// Writes the value under the name it is given.
    write: fn(&Context<'_>, &str, &mut DocumentWriter<'_>),
}

/// Sorted by name.
const PARAMETERS: &[Parameter] = &[
    // The form of `admin.system.users`, of which there are none: `mongorestore` and `mongodump` of a
    // whole server ask for it first, and go no further without.
    fixed("authSchemaVersion", |_, name, reply| {
        reply.int32(name, 5);
    }),
    fixed("authenticationMechanisms", |_, name, reply| {
        drop(reply.array(name))
    }),
    fixed("enableTestCommands", |_, name, reply| {
        reply.boolean(name, false);
    }),
    fixed("featureCompatibilityVersion", |_, name, reply| {
        reply.document(name).string("version", "6.0");
    }),
    fixed("quiet", |_, name, reply| {
        reply.boolean(name, false);
    }),
    Parameter {
        name: "storageEngineCacheBytes",
        settable_at_runtime: false,
        settable_at_startup: true,
        write: |context, name, reply| {
            let bytes = i64::try_from(context.service.settings.cache_bytes).unwrap_or(i64::MAX);
            reply.int64(name, bytes);
        },
    },
    Parameter {
        name: "ttlMonitorSleepSecs",
        settable_at_runtime: true,
        settable_at_startup: true,
        write: |context, name, reply| {
            let seconds = i64::try_from(context.engine().ttl_sweep_seconds()).unwrap_or(i64::MAX);
            reply.count(name, seconds);
        },
    },
];

const fn fixed(
    name: &'static str,
    write: fn(&Context<'_>, &str, &mut DocumentWriter<'_>),
) -> Parameter {
    Parameter {
        name,
        settable_at_runtime: false,
        settable_at_startup: false,
        write,
    }
}

/// Which parameters are asked for, and how they are told.
#[derive(Default)]
struct Wanted {
    all: bool,
    details: bool,
}

fn parse(context: &Context<'_>) -> Result<Wanted> {
    let value = context.value();
    let Some(options) = value.as_document() else {
        let all = value.as_str() == Some("*");
        return Ok(Wanted {
            all,
            details: false,
        });
    };
    let known = ["allParameters", "showDetails"];
    let options = Arguments::parse("getParameter", options, &known)?;
    Ok(Wanted {
        all: options.flag("allParameters")?,
        details: options.flag("showDetails")?,
    })
}

/// Answers with the parameters named, or all for `'*'` and `{allParameters: true}`; with
/// `{showDetails: true}` also with how each can be set.
pub fn run(context: &mut Context<'_>, reply: &mut DocumentWriter<'_>) -> Result<()> {
    let wanted = parse(context)?;
    let names = || {
        let own = elements(context.body).skip(1).map(|(name, _)| name);
        own.filter(|name| !is_generic(name))
    };
    let mut found = false;
    for parameter in PARAMETERS {
        if wanted.all || names().any(|asked| asked == parameter.name) {
            write(context, parameter, wanted.details, reply);
            found = true;
        }
    }
    match found {
        true => Ok(()),
        false => Err(Error::without_code("no option found to get")),
    }
}

fn write(
    context: &Context<'_>,
    parameter: &Parameter,
    details: bool,
    reply: &mut DocumentWriter<'_>,
) {
    if !details {
        return (parameter.write)(context, parameter.name, reply);
    }
    let mut row = reply.document(parameter.name);
    (parameter.write)(context, "value", &mut row);
    row.boolean("settableAtRuntime", parameter.settable_at_runtime)
        .boolean("settableAtStartup", parameter.settable_at_startup);
}
