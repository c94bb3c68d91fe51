//! `getParameter` and `setParameter`: the parameters that shells and tools ask for, and those that can be changed.

use super::arguments::{Arguments, elements, integer, truth};
use super::context::Context;
use super::generic::is_generic;
use super::hello::SESSION_TIMEOUT_MINUTES;
use crate::access::scram::Mechanism;
use crate::cli::{LOG_LEVEL_MAX, TlsMode, Verbosity};
use bson::raw::RawBsonRef;
use meridian_engine::aggregate::{STAGE_BYTES_MAX, STAGES_MAX};
use meridian_engine::plan::scans_are_forbidden;
use meridian_engine::timeseries::{BUCKET_BYTES_MAX, BUCKET_ROWS_MAX};
use meridian_engine::{Error, Result, javascript, text};
use meridian_value::number::Number;
use meridian_wire::{DocumentWriter, NESTING_LEVELS_MAX};
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicBool, Ordering};

/// Doubles from here on are no 64-bit integers: 2^63.
const I64_BOUND: f64 = 9_223_372_036_854_775_808.0;

/// Writes a value under the name it is given.
type Write = fn(&Context<'_>, &str, &mut DocumentWriter<'_>);
/// Sets the parameter of this name to a value.
type Set = fn(&Context<'_>, &str, RawBsonRef<'_>) -> Result<()>;

struct Parameter {
    name: &'static str,
    /// An option of the command line sets it.
    settable_at_startup: bool,
    write: Write,
    /// Where it can be changed while the server runs.
    set: Option<Set>,
}

/// Whether `find` and `aggregate` may use the disk that do not say.
static USES_DISK: AtomicBool = AtomicBool::new(true);

/// Whether statements may use the disk that do not say.
pub fn uses_disk_by_default() -> bool {
    USES_DISK.load(Ordering::Relaxed)
}

/// Sorted by name: in this order they are set.
const PARAMETERS: &[Parameter] = &[
    changeable(
        "allowDiskUseByDefault",
        |_, name, reply| {
            reply.boolean(name, uses_disk_by_default());
        },
        |_, _, value| {
            USES_DISK.store(is_true(value), Ordering::Relaxed);
            Ok(())
        },
    ),
    // The form of `admin.system.users`: `mongorestore` and `mongodump` of a whole server ask for it first, and go no
    // further without.
    fixed("authSchemaVersion", |_, name, reply| {
        reply.int32(name, 5);
    }),
    fixed("authenticationMechanisms", |_, name, reply| {
        let mut names = reply.array(name);
        for mechanism in ["MONGODB-X509", "SCRAM-SHA-1", "SCRAM-SHA-256"] {
            names.push(RawBsonRef::String(mechanism));
        }
    }),
    fixed("clusterAuthMode", |_, name, reply| {
        reply.string(name, "undefined");
    }),
    changeable(
        "cursorTimeoutMillis",
        |context, name, reply| {
            reply.int64(name, context.engine().cursors().lifetime_ms());
        },
        |context, name, value| {
            let millis = whole(name, value, i64::MIN..=i64::MAX)?;
            context.engine().cursors().set_lifetime_ms(millis);
            Ok(())
        },
    ),
    fixed("enableLocalhostAuthBypass", |_, name, reply| {
        reply.boolean(name, true);
    }),
    fixed("enableTestCommands", |_, name, reply| {
        reply.boolean(name, false);
    }),
    fixed("featureCompatibilityVersion", |_, name, reply| {
        reply.document(name).string("version", "6.0");
    }),
    fixed("internalDocumentSourceDensifyMaxMemoryBytes", stage_bytes),
    fixed(
        "internalDocumentSourceGroupMaxMemoryBytes",
        long_stage_bytes,
    ),
    fixed(
        "internalDocumentSourceSetWindowFieldsMaxMemoryBytes",
        long_stage_bytes,
    ),
    fixed(
        "internalLookupStageIntermediateDocumentMaxSizeBytes",
        long_stage_bytes,
    ),
    fixed("internalPipelineLengthLimit", |_, name, reply| {
        reply.count(name, i64::try_from(STAGES_MAX).unwrap_or(i64::MAX));
    }),
    changeable(
        "internalQueryJavaScriptFnTimeoutMillis",
        |_, name, reply| {
            reply.int32(name, javascript::call_millis_max().load(Ordering::Relaxed));
        },
        |_, name, value| {
            javascript::call_millis_max().store(positive(name, value)?, Ordering::Relaxed);
            Ok(())
        },
    ),
    changeable(
        "internalQueryJavaScriptHeapSizeLimitMB",
        heap_mebibytes,
        set_heap_mebibytes,
    ),
    fixed("internalQueryMaxBlockingSortMemoryUsageBytes", stage_bytes),
    changeable(
        "internalQueryMaxJsEmitBytes",
        |_, name, reply| {
            reply.int32(name, javascript::emit_bytes_max().load(Ordering::Relaxed));
        },
        |_, name, value| {
            javascript::emit_bytes_max().store(positive(name, value)?, Ordering::Relaxed);
            Ok(())
        },
    ),
    // (The same here.)
    changeable("jsHeapLimitMB", heap_mebibytes, set_heap_mebibytes),
    fixed("localLogicalSessionTimeoutMinutes", |_, name, reply| {
        reply.int32(name, SESSION_TIMEOUT_MINUTES);
    }),
    changeable(
        "logLevel",
        |_, name, reply| {
            reply.int32(name, Verbosity::current().level.into());
        },
        |_, name, value| {
            let level = log_level(name, value)?;
            let current = Verbosity::current();
            Verbosity { level, ..current }.apply();
            Ok(())
        },
    ),
    fixed("maxBSONDepth", |_, name, reply| {
        reply.count(name, i64::try_from(NESTING_LEVELS_MAX).unwrap_or(i64::MAX));
    }),
    changeable(
        "notablescan",
        |_, name, reply| {
            reply.boolean(name, scans_are_forbidden().load(Ordering::Relaxed));
        },
        |_, _, value| {
            scans_are_forbidden().store(is_true(value), Ordering::Relaxed);
            Ok(())
        },
    ),
    // Files of a data directory are for their owner alone.
    fixed("processUmask", |_, name, reply| {
        reply.int32(name, 0o077);
    }),
    changeable(
        "quiet",
        |_, name, reply| {
            reply.boolean(name, Verbosity::current().is_quiet);
        },
        |_, _, value| {
            let (is_quiet, current) = (is_true(value), Verbosity::current());
            Verbosity {
                is_quiet,
                ..current
            }
            .apply();
            Ok(())
        },
    ),
    fixed("saslHostName", |context, name, reply| {
        let host = &context.service.host;
        reply.string(
            name,
            host.rsplit_once(':').map_or(&**host, |(name, _)| name),
        );
    }),
    fixed("scramIterationCount", |_, name, reply| {
        reply.count(name, i64::from(Mechanism::Sha1.iterations()));
    }),
    fixed("scramSHA256IterationCount", |_, name, reply| {
        reply.count(name, i64::from(Mechanism::Sha256.iterations()));
    }),
    fixed("sslMode", |context, name, reply| {
        let mode = match context.service.settings.tls_mode {
            TlsMode::Disabled => "disabled",
            TlsMode::Allow => "allowSSL",
            TlsMode::Require => "requireSSL",
        };
        reply.string(name, mode);
    }),
    Parameter {
        settable_at_startup: true,
        ..fixed("storageEngineCacheBytes", |context, name, reply| {
            let bytes = i64::try_from(context.service.settings.cache_bytes).unwrap_or(i64::MAX);
            reply.int64(name, bytes);
        })
    },
    fixed("storageGlobalParams.directoryperdb", |_, name, reply| {
        reply.boolean(name, false);
    }),
    fixed("timeseriesBucketMaxCount", |_, name, reply| {
        reply.count(name, i64::try_from(BUCKET_ROWS_MAX).unwrap_or(i64::MAX));
    }),
    fixed("timeseriesBucketMaxSize", |_, name, reply| {
        reply.count(name, i64::try_from(BUCKET_BYTES_MAX).unwrap_or(i64::MAX));
    }),
    fixed("tlsMode", |context, name, reply| {
        let mode = match context.service.settings.tls_mode {
            TlsMode::Disabled => "disabled",
            TlsMode::Allow => "allowTLS",
            TlsMode::Require => "requireTLS",
        };
        reply.string(name, mode);
    }),
    changeable(
        "ttlMonitorEnabled",
        |context, name, reply| {
            reply.boolean(name, context.engine().sweeps_ttl());
        },
        |context, _, value| {
            context.engine().set_sweeps_ttl(is_true(value));
            Ok(())
        },
    ),
    Parameter {
        settable_at_startup: true,
        ..changeable(
            "ttlMonitorSleepSecs",
            |context, name, reply| {
                let seconds = context.engine().ttl_sweep_seconds();
                reply.count(name, i64::try_from(seconds).unwrap_or(i64::MAX));
            },
            |context, name, value| {
                let seconds = positive(name, value)?;
                context
                    .engine()
                    .set_ttl_sweep_seconds(u64::from(seconds.unsigned_abs()));
                Ok(())
            },
        )
    },
];

/// What a stage may hold in memory before it spills.
fn stage_bytes(_: &Context<'_>, name: &str, reply: &mut DocumentWriter<'_>) {
    reply.count(name, i64::try_from(STAGE_BYTES_MAX).unwrap_or(i64::MAX));
}

fn long_stage_bytes(_: &Context<'_>, name: &str, reply: &mut DocumentWriter<'_>) {
    reply.int64(name, i64::try_from(STAGE_BYTES_MAX).unwrap_or(i64::MAX));
}

const fn fixed(name: &'static str, write: Write) -> Parameter {
    Parameter {
        name,
        settable_at_startup: false,
        write,
        set: None,
    }
}

const fn changeable(name: &'static str, write: Write, set: Set) -> Parameter {
    Parameter {
        set: Some(set),
        ..fixed(name, write)
    }
}

/// A value as MongoDB makes a boolean of any: nothing, null and 0 are false.
fn is_true(value: RawBsonRef<'_>) -> bool {
    match value {
        RawBsonRef::Null | RawBsonRef::Undefined => false,
        value => truth(value).unwrap_or(true),
    }
}

/// A value as an integer in a range, truncated towards zero; a boolean is 0 or 1.
fn whole(name: &str, value: RawBsonRef<'_>, range: RangeInclusive<i64>) -> Result<i64> {
    let refuse = |why: &str| {
        let message = format!("Failed validating {name}: {why}");
        Err(Error::bad_value(message))
    };
    if let RawBsonRef::Boolean(value) = value {
        return Ok(value.into());
    }
    let (Some(number), Some(float)) = (integer(value), Number::from_raw(value)) else {
        return refuse("Unable to coerce value to integral type");
    };
    let float = float.to_f64();
    if !float.is_finite() {
        return refuse("Unable to coerce NaN/Inf to integral type");
    }
    match range.contains(&number) && float.abs() < I64_BOUND {
        true => Ok(number),
        false => refuse("Out of bounds coercing to integral value"),
    }
}

fn heap_mebibytes(_: &Context<'_>, name: &str, reply: &mut DocumentWriter<'_>) {
    reply.int32(
        name,
        javascript::heap_mebibytes_max().load(Ordering::Relaxed),
    );
}

fn set_heap_mebibytes(_: &Context<'_>, name: &str, value: RawBsonRef<'_>) -> Result<()> {
    javascript::heap_mebibytes_max().store(positive(name, value)?, Ordering::Relaxed);
    Ok(())
}

/// A value as a 32-bit integer that is greater than 0.
fn positive(name: &str, value: RawBsonRef<'_>) -> Result<i32> {
    let number = whole(name, value, i64::from(i32::MIN)..=i64::from(i32::MAX))?;
    let positive = i32::try_from(number).ok().filter(|number| *number > 0);
    positive.ok_or_else(|| {
        Error::bad_value(format!(
            "Invalid value for parameter {name}: {number} is not greater than 0"
        ))
    })
}

/// A verbosity; a greater one than there is is the greatest.
fn log_level(name: &str, value: RawBsonRef<'_>) -> Result<u8> {
    let number = Number::from_raw(value).and_then(|_| integer(value));
    let number = number.and_then(|number| i32::try_from(number).ok());
    let level = number.and_then(|number| u8::try_from(number.min(LOG_LEVEL_MAX.into())).ok());
    level.ok_or_else(|| {
        let told = text::element(name, value);
        Error::bad_value(format!("Invalid value for {name}: {told}"))
    })
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
pub fn get(context: &mut Context<'_>, reply: &mut DocumentWriter<'_>) -> Result<()> {
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
    row.boolean("settableAtRuntime", parameter.set.is_some())
        .boolean("settableAtStartup", parameter.settable_at_startup);
}

/// Sets the parameters named, and answers with what the first of them was.
pub fn set(context: &mut Context<'_>, reply: &mut DocumentWriter<'_>) -> Result<()> {
    let own = elements(context.body).skip(1);
    let own: Vec<_> = own.filter(|(name, _)| !is_generic(name)).collect();
    for (name, _) in &own {
        let known = PARAMETERS.iter().find(|known| known.name == *name);
        let message = match known {
            None => format!("attempted to set unrecognized parameter [{name}]"),
            Some(known) if known.set.is_none() => {
                return Err(Error::without_code(format!(
                    "not allowed to change [{name}] at runtime"
                )));
            }
            Some(_) => continue,
        };
        return Err(Error::without_code(format!(
            "{message}, use help:true to see options "
        )));
    }
    let mut is_first = true;
    for parameter in PARAMETERS {
        let given = own.iter().find(|(name, _)| *name == parameter.name);
        if let (Some((name, value)), Some(set)) = (given, parameter.set) {
            if is_first {
                (parameter.write)(context, "was", reply);
            }
            is_first = false;
            set(context, name, *value)?;
        }
    }
    match is_first {
        false => Ok(()),
        true => Err(Error::without_code(
            "no option found to set, use help:true to see options ",
        )),
    }
}
