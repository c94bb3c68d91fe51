//! `collMod`: changes a collection's validator, or an index's expiry or visibility.

use super::arguments::{Arguments, elements, integer, type_name, wrong_type};
use super::context::Context;
use super::create::view_pipeline;
use bson::raw::{RawBsonRef, RawDocument};
use meridian_engine::{Capped, Code, CollModRequest, Error, Result, ViewChange, whole};
use meridian_value::number::Number;
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
    let namespace = context.namespace()?;
    let is_timeseries = context.engine().timeseries(&namespace).is_some();
    if is_timeseries || context.engine().holds_buckets(&namespace) {
        check_timeseries(&arguments)?;
    } else if context.engine().has_view(&namespace) {
        return modify_view(context, &arguments);
    }
    if let Some(name) = ["pipeline", "viewOn"]
        .into_iter()
        .find(|name| arguments.get(name).is_some())
        && context.exists(&namespace)
    {
        let message = format!("option only supported on a view: {name}");
        return Err(Error::new(Code::InvalidOptions, message));
    }
    let granularity = match arguments.document("timeseries")? {
        Some(options) => meridian_engine::timeseries::parse_change(options)?,
        None => None,
    };
    if arguments.get("timeseries").is_some() && !is_timeseries && context.exists(&namespace) {
        let message = "option only supported on a time-series collection: isTimeseriesNamespace";
        return Err(Error::new(Code::InvalidOptions, message));
    }
    arguments.refuse_fields(&["changeStreamPreAndPostImages", "recordPreImages"])?;
    let change = CollModRequest {
        dry_run: arguments.flag("dryRun")?,
        index: arguments.document("index")?.map(ToOwned::to_owned),
        validator: arguments.document("validator")?.map(ToOwned::to_owned),
        validation_level: choice(
            &arguments,
            "validationLevel",
            &["off", "strict", "moderate"],
        )?,
        validation_action: choice(&arguments, "validationAction", &["error", "warn"])?,
        expire_after_seconds: parse_expiry(&arguments)?,
        granularity,
        capped_size: limit(&arguments, "cappedSize")?,
        capped_max: limit(&arguments, "cappedMax")?,
    };
    if change.dry_run && change.index.is_none() {
        let message = "dry run mode requires an valid index modification.";
        return Err(Error::new(Code::InvalidOptions, message));
    }
    check_limits(&change)?;
    if change
        .validator
        .as_ref()
        .is_some_and(|validator| !validator.is_empty())
    {
        namespace.check_validatable()?;
    }
    if let Some(index) = &change.index {
        check_index_change(index)?;
    }
    let changed = context.engine().modify_collection(&namespace, &change);
    let fields = changed.map_err(|error| match error.code {
        Code::NamespaceNotFound => Error::new(Code::NamespaceNotFound, "ns does not exist"),
        _ => error,
    })?;
    reply.elements(&fields);
    Ok(())
}

/// A limit of a capped collection; a number is cut to a whole one.
fn limit(arguments: &Arguments<'_>, name: &str) -> Result<Option<i64>> {
    let Some(value) = arguments.get(name) else {
        return Ok(None);
    };
    let number = Number::from_raw(value)
        .ok_or_else(|| arguments.wrong_type(name, value, &["long", "int", "decimal", "double"]))?;
    Ok(Some(whole(number)))
}

fn check_limits(change: &CollModRequest) -> Result<()> {
    if let Some(size) = change.capped_size {
        Capped::with_size("cappedSize", size)?;
    }
    if let Some(max) = change.capped_max {
        Capped::holding(1).with_max("cappedMax", max)?;
    }
    Ok(())
}

/// What a time series may not be changed in.
const NOT_OF_TIMESERIES: [&str; 5] = [
    "validator",
    "validationLevel",
    "validationAction",
    "recordPreImages",
    "changeStreamPreAndPostImages",
];

fn check_timeseries(arguments: &Arguments<'_>) -> Result<()> {
    let mut unsupported = NOT_OF_TIMESERIES.into_iter();
    match unsupported.find(|name| arguments.get(name).is_some()) {
        Some(name) => Err(Error::new(
            Code::InvalidOptions,
            format!("option not supported on a time-series collection: {name}"),
        )),
        None => Ok(()),
    }
}

/// What a view may not be changed in.
const NOT_OF_VIEWS: [&str; 9] = [
    "index",
    "validator",
    "validationLevel",
    "validationAction",
    "expireAfterSeconds",
    "changeStreamPreAndPostImages",
    "recordPreImages",
    "cappedSize",
    "cappedMax",
];

fn modify_view(context: &Context<'_>, arguments: &Arguments<'_>) -> Result<()> {
    let invalid = |message: String| Err(Error::new(Code::InvalidOptions, message));
    if let Some(name) = NOT_OF_VIEWS
        .into_iter()
        .find(|name| arguments.get(name).is_some())
    {
        return invalid(format!("option not supported on a view: {name}"));
    }
    if arguments.get("timeseries").is_some() {
        let option = "isTimeseriesNamespace";
        return invalid(format!(
            "option only supported on a time-series collection: {option}"
        ));
    }
    if arguments.flag("dryRun")? {
        return invalid("dry run mode requires an valid index modification.".to_owned());
    }
    let pipeline = arguments.get_even_null("pipeline");
    let change = ViewChange {
        view_on: arguments.string("viewOn")?.map(str::to_owned),
        pipeline: pipeline
            .map(|value| view_pipeline("collMod", value))
            .transpose()?,
    };
    context.engine().modify_view(&context.namespace()?, change)
}

/// Which index, and that something is to change.
fn check_index_change(index: &RawDocument) -> Result<()> {
    let has = |field: &str| elements(index).any(|(name, _)| name == field);
    // A null is as good as nothing.
    let sets = |field: &str| {
        elements(index).any(|(name, value)| name == field && value != RawBsonRef::Null)
    };
    let known = [
        "name",
        "keyPattern",
        "expireAfterSeconds",
        "hidden",
        "unique",
        "prepareUnique",
    ];
    if let Some((unknown, _)) = elements(index).find(|(name, _)| !known.contains(name)) {
        return Err(Error::location(
            40415,
            format!("BSON field 'collMod.index.{unknown}' is an unknown field."),
        ));
    }
    for (field, kind) in [("name", "string"), ("keyPattern", "object")] {
        let mut given = elements(index).filter(|(name, _)| *name == field);
        let path = format!("collMod.index.{field}");
        match given.next() {
            Some((_, value)) if type_name(value) != kind => {
                return Err(wrong_type(&path, value, &[kind]));
            }
            _ => {}
        }
    }
    let invalid = |message| Err(Error::new(Code::InvalidOptions, message));
    match (has("name"), has("keyPattern")) {
        (true, true) => return invalid("Cannot specify both key pattern and name."),
        (false, false) => return invalid("Must specify either index name or key pattern."),
        _ => {}
    }
    match ["expireAfterSeconds", "hidden", "unique", "prepareUnique"]
        .into_iter()
        .any(sets)
    {
        true => Ok(()),
        false => invalid("no expireAfterSeconds, hidden, unique, or prepareUnique field"),
    }
}

/// A number of seconds, or `"off"`.
fn parse_expiry(arguments: &Arguments<'_>) -> Result<Option<Option<i64>>> {
    match arguments.get("expireAfterSeconds") {
        None => Ok(None),
        Some(RawBsonRef::String("off")) => Ok(Some(None)),
        Some(RawBsonRef::Double(number)) if number.is_nan() => Err(Error::bad_value(
            "'collMod.expireAfterSeconds' cannot be NaN",
        )),
        Some(RawBsonRef::String(word)) => Err(Error::new(
            Code::InvalidOptions,
            format!(
                "Invalid string value for the 'clusteredIndex::expireAfterSeconds' option. Got: \
                 '{word}'. Accepted value is 'off'"
            ),
        )),
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
