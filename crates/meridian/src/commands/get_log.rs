//! `getLog`: the latest lines of the log, or what someone who connects should be warned of.

use super::context::Context;
use crate::cli::latest_log_lines;
use crate::service::StartupWarning;
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
            let warnings = context.service.startup_warnings.iter();
            let lines: Vec<String> = warnings.map(StartupWarning::line).collect();
            write_lines(&lines, reply);
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
