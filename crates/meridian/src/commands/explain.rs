//! `explain`: how another command would run, and on request how it did.

use super::arguments::{Arguments, elements, field, wrong_type};
use super::build_info::COMPATIBLE_VERSION;
use super::context::Context;
use super::write_reply::check_batch_count;
use super::{aggregate, count, delete, distinct, find, find_and_modify, map_reduce, update};
use crate::service::host_name;
use bson::raw::RawDocument;
use meridian_engine::{Code, Error, ExplainRequest, Namespace, Result, Verbosity};
use meridian_wire::DocumentWriter;

/// What stages may hold in memory, in bytes, by the names that MongoDB has for it.
const LIMITS: [(&str, i32); 8] = [
    ("internalQueryFacetBufferSizeBytes", MEMORY_BYTES_MAX),
    ("internalQueryFacetMaxOutputDocSizeBytes", MEMORY_BYTES_MAX),
    (
        "internalLookupStageIntermediateDocumentMaxSizeBytes",
        MEMORY_BYTES_MAX,
    ),
    (
        "internalDocumentSourceGroupMaxMemoryBytes",
        MEMORY_BYTES_MAX,
    ),
    (
        "internalQueryMaxBlockingSortMemoryUsageBytes",
        MEMORY_BYTES_MAX,
    ),
    ("internalQueryProhibitBlockingMergeOnMongoS", 0),
    ("internalQueryMaxAddToSetBytes", MEMORY_BYTES_MAX),
    (
        "internalDocumentSourceSetWindowFieldsMaxMemoryBytes",
        MEMORY_BYTES_MAX,
    ),
];
const MEMORY_BYTES_MAX: i32 = 100 * 1024 * 1024;

/// Explains the command in its value.
pub fn run(context: &mut Context<'_>, reply: &mut DocumentWriter<'_>) -> Result<()> {
    let arguments = context.arguments("explain", &["verbosity"])?;
    let verbosity = parse_verbosity(&arguments)?;
    let Some(inner) = context.value().as_document() else {
        return Err(wrong_type("explain.explain", context.value(), &["object"]));
    };
    let inner = Context {
        service: context.service,
        client: context.client,
        body: inner,
        sequences: context.sequences,
        generic: context.generic.clone(),
        is_ok_integer: false,
    };
    check_database(&inner)?;
    if matches!(inner.command_name(), "mapReduce" | "mapreduce") {
        return explain_map_reduce(&inner, verbosity, reply);
    }
    let (namespace, request) = parse(&inner)?;
    write(&inner, &namespace, request, verbosity, reply)
}

/// The pipeline that is made of a `mapReduce`.
fn explain_map_reduce(
    inner: &Context<'_>,
    verbosity: Verbosity,
    reply: &mut DocumentWriter<'_>,
) -> Result<()> {
    let parsed = map_reduce::parse(inner)?;
    let request = ExplainRequest::Aggregate(parsed.request(&inner.service.host));
    write(inner, parsed.namespace(), request, verbosity, reply).map_err(map_reduce::within_context)
}

/// What is explained may say its database again.
fn check_database(inner: &Context<'_>) -> Result<()> {
    let own = inner.generic.database;
    match field(inner.body, "$db").and_then(|name| name.as_str()) {
        Some(other) if other != own => Err(Error::new(
            Code::InvalidNamespace,
            format!("Mismatched $db in explain command. Expected {own} but got {other}"),
        )),
        _ => Ok(()),
    }
}

fn parse_verbosity(arguments: &Arguments<'_>) -> Result<Verbosity> {
    match arguments.string("verbosity")? {
        Some("queryPlanner") => Ok(Verbosity::QueryPlanner),
        Some("executionStats") => Ok(Verbosity::ExecutionStats),
        None | Some("allPlansExecution") => Ok(Verbosity::AllPlansExecution),
        Some(other) => Err(Error::bad_value(format!(
            "Enumeration value '{other}' for field 'explain.verbosity' is not a valid value."
        ))),
    }
}

fn parse<'a>(context: &Context<'a>) -> Result<(Namespace, ExplainRequest<'a>)> {
    let name = context.command_name();
    let request = match name {
        "find" => ExplainRequest::Find(find::parse(&find::arguments(context)?)?),
        "count" => ExplainRequest::Count(count::parse(&count::arguments(context)?)?),
        "distinct" => ExplainRequest::Distinct(distinct::parse(&distinct::arguments(context)?)?),
        "aggregate" => {
            refuse_write_concern(context)?;
            let arguments = aggregate::arguments(context)?;
            if arguments.get("explain").is_some() {
                return Err(Error::failed_to_parse(
                    "The 'explain' option is illegal when a explain verbosity is also provided",
                ));
            }
            aggregate::require_cursor(&arguments)?;
            let request = aggregate::parse(&arguments, &context.service.host)?;
            let target = aggregate::target(context, &request.pipeline)?;
            let namespace = aggregate::cursor_namespace(&target);
            return Ok((namespace, ExplainRequest::Aggregate(request)));
        }
        "update" => ExplainRequest::Update(only(parse_updates(context)?)?),
        "delete" => ExplainRequest::Delete(only(parse_deletes(context)?)?),
        "findAndModify" | "findandmodify" => {
            let arguments = find_and_modify::arguments(context)?;
            ExplainRequest::FindAndModify(find_and_modify::parse(&arguments)?)
        }
        "explain" => {
            let message = "Explain cannot explain itself.";
            return Err(Error::new(Code::IllegalOperation, message));
        }
        known if super::table::find(known).is_some() => {
            let message = format!("Cannot explain cmd: {known}");
            return Err(Error::new(Code::IllegalOperation, message));
        }
        other => {
            let message = format!("Explain failed due to unknown command: {other}");
            return Err(Error::new(Code::CommandNotFound, message));
        }
    };
    Ok((context.namespace_or(Code::InvalidNamespace)?, request))
}

/// MongoDB explains no aggregate that says how its writes are acknowledged. Its message lacks a space.
pub fn refuse_write_concern(context: &Context<'_>) -> Result<()> {
    let concern = elements(context.body).find(|(name, _)| *name == "writeConcern");
    match concern {
        Some(_) => Err(Error::failed_to_parse(
            "Aggregation explain does not support the'writeConcern' option",
        )),
        None => Ok(()),
    }
}

fn parse_updates<'a>(context: &Context<'a>) -> Result<Vec<meridian_engine::UpdateStatement<'a>>> {
    let known = ["updates", "ordered", "bypassDocumentValidation", "let"];
    let arguments = context.arguments("update", &known)?;
    update::parse_all(&context.documents(&arguments, "updates")?, &arguments)
}

fn parse_deletes<'a>(context: &Context<'a>) -> Result<Vec<meridian_engine::DeleteStatement<'a>>> {
    let arguments = context.arguments(
        "delete",
        &["deletes", "ordered", "let", "bypassDocumentValidation"],
    )?;
    delete::parse_all(&context.documents(&arguments, "deletes")?, &arguments)
}

fn only<T>(mut statements: Vec<T>) -> Result<T> {
    check_batch_count(statements.len())?;
    match (statements.pop(), statements.is_empty()) {
        (Some(statement), true) => Ok(statement),
        _ => Err(Error::new(
            Code::InvalidLength,
            "explained write batches must be of size 1",
        )),
    }
}

/// Explains `request`, which came as `context.body`.
pub fn write(
    context: &Context<'_>,
    namespace: &Namespace,
    request: ExplainRequest<'_>,
    verbosity: Verbosity,
    reply: &mut DocumentWriter<'_>,
) -> Result<()> {
    let explanation = context.engine().explain(namespace, &request, verbosity)?;
    reply.elements(&explanation);
    write_command(context.body, context.generic.database, reply);
    reply
        .document("serverInfo")
        .string("host", &host_name())
        .int32("port", i32::from(context.service.address.port()))
        .string("version", COMPATIBLE_VERSION)
        .string(
            "gitVersion",
            concat!("meridian-", env!("CARGO_PKG_VERSION")),
        );
    let mut limits = reply.document("serverParameters");
    for (name, value) in LIMITS {
        limits.int32(name, value);
    }
    drop(limits);
    Ok(())
}

fn write_command(body: &RawDocument, database: &str, reply: &mut DocumentWriter<'_>) {
    let mut command = reply.document("command");
    for (name, value) in elements(body).filter(|(name, _)| !matches!(*name, "$db" | "lsid")) {
        command.value(name, value);
    }
    let is_find_and_modify = elements(body)
        .next()
        .is_some_and(|(name, _)| matches!(name, "findAndModify" | "findandmodify"));
    if !is_find_and_modify {
        command.string("$db", database);
    }
}
