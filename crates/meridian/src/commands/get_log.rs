//! `getLog`: the latest lines of the log, or what someone who connects should be warned of.

use super::context::Context;
use crate::cli::latest_log_lines;
use bson::raw::RawBsonRef;
use meridian_engine::{Code, Error, Result};
use meridian_wire::DocumentWriter;

/// Answers `global`, `startupWarnings`, or `'*'` with the names of the logs.
pub fn run(context: &mut Context<'_>, reply: &mut DocumentWriter<'_>) -> Result<()> {
    context.arguments("getLog", &[])?;
    match context.value().as_str() {
        Some("*") => {
            let mut names = reply.array("names");
            names.push(RawBsonRef::String("global"));
            names.push(RawBsonRef::String("startupWarnings"));
            Ok(())
        }
        Some("global") => {
            write_lines(&latest_log_lines(), reply);
            Ok(())
        }
        Some("startupWarnings") => {
            write_lines(&startup_warnings(context), reply);
            Ok(())
        }
        Some(other) => Err(Error::new(
            Code::OperationFailed,
            format!("No log named '{other}'"),
        )),
        None => Err(Error::type_mismatch(
            "Argument to getLog must be of type String",
        )),
    }
}

fn write_lines(lines: &[String], reply: &mut DocumentWriter<'_>) {
    reply.count(
        "totalLinesWritten",
        lines.len().try_into().unwrap_or(i64::MAX),
    );
    let mut log = reply.array("log");
    for line in lines {
        log.push(RawBsonRef::String(line));
    }
}

/// In the shape of MongoDB's log lines, which shells parse.
fn startup_warnings(context: &Context<'_>) -> Vec<String> {
    let mut warnings = Vec::new();
    let mut warn = |id: i32, message: &str| {
        warnings.push(format!(
            "{{\"t\":{{\"$date\":\"{}\"}},\"s\":\"W\",\"c\":\"CONTROL\",\"id\":{id},\
             \"ctx\":\"initandlisten\",\"msg\":\"{message}\",\"tags\":[\"startupWarnings\"]}}\n",
            bson::DateTime::now()
                .try_to_rfc3339_string()
                .unwrap_or_default()
        ));
    };
    if !context.service.address.ip().is_loopback() {
        warn(
            22120,
            "Access control is not available yet. Read and write access to data is unrestricted \
             for everyone who can reach this address",
        );
    }
    if !context.service.settings.journal {
        warn(22121, "The journal is off: a crash loses the latest writes");
    }
    warnings
}
