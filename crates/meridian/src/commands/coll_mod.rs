//! `collMod`: changes a collection's validator, or an index's expiry or visibility.

use super::arguments::{Arguments, integer};
use super::context::Context;
use bson::raw::RawBsonRef;
use meridian_engine::{CollModRequest, Error, Result};
use meridian_wire::DocumentWriter;

/// Changes it, and answers with the old and new values.
pub fn run(context: &mut Context<'_>, reply: &mut DocumentWriter<'_>) -> Result<()> {
    let known = [
        "index",
        "validator",
        "validationLevel",
        "validationAction",
        "viewOn",
        "pipeline",
        "expireAfterSeconds",
        "timeseries",
        "changeStreamPreAndPostImages",
        "dryRun",
        "cappedSize",
        "cappedMax",
        "recordPreImages",
    ];
    let arguments = context.arguments("collMod", &known)?;
    arguments.refuse_fields(&[
        "viewOn",
        "pipeline",
        "timeseries",
        "changeStreamPreAndPostImages",
        "cappedSize",
        "cappedMax",
        "recordPreImages",
    ])?;
    arguments.refuse_flags(&["dryRun"])?;
    let change = CollModRequest {
        index: arguments.document("index")?.map(ToOwned::to_owned),
        validator: arguments.document("validator")?.map(ToOwned::to_owned),
        validation_level: choice(
            &arguments,
            "validationLevel",
            &["off", "strict", "moderate"],
        )?,
        validation_action: choice(&arguments, "validationAction", &["error", "warn"])?,
        expire_after_seconds: parse_expiry(&arguments)?,
    };
    let fields = context
        .engine()
        .modify_collection(&context.namespace()?, &change)?;
    reply.elements(&fields);
    Ok(())
}

/// A number of seconds, or `"off"`.
fn parse_expiry(arguments: &Arguments<'_>) -> Result<Option<Option<i64>>> {
    match arguments.get("expireAfterSeconds") {
        None => Ok(None),
        Some(RawBsonRef::String("off")) => Ok(Some(None)),
        Some(value) => match integer(value) {
            Some(seconds) => Ok(Some(Some(seconds))),
            None => Err(arguments.wrong_type("expireAfterSeconds", value, &["string", "long"])),
        },
    }
}

/// One of a few words.
fn choice(arguments: &Arguments<'_>, name: &str, words: &[&str]) -> Result<Option<String>> {
    match arguments.string(name)? {
        Some(word) if !words.contains(&word) => Err(Error::bad_value(format!(
            "Enumeration value '{word}' for field 'collMod.{name}' is not a valid value."
        ))),
        word => Ok(word.map(str::to_owned)),
    }
}
