//! `aggregate`: a pipeline over a collection or over none.

use super::arguments::{Arguments, array_values, elements, field, integer};
use super::context::Context;
use super::cursor_reply::write_first_batch;
use super::find::{boolean_or, hint, parse_cursor_document};
use super::parameters::uses_disk_by_default;
use super::{explain, server_stages, top};
use bson::raw::{RawBsonRef, RawDocument, RawDocumentBuf};
use meridian_engine::aggregate::CollectionStatsOptions;
use meridian_engine::{
    AggregateRequest, AggregateTarget, Code, Error, ExplainRequest, Namespace, Result, Verbosity,
};
use meridian_wire::DocumentWriter;

const KNOWN: &[&str] = &[
    "pipeline",
    "explain",
    "allowDiskUse",
    "cursor",
    "hint",
    "let",
    "collation",
    "bypassDocumentValidation",
    "needsMerge",
    "fromMongos",
    "exchange",
    "isMapReduceCommand",
    "collectionUUID",
    "requestReshardingResumeToken",
];

/// Runs the pipeline, and answers with the first batch.
pub fn run(context: &mut Context<'_>, reply: &mut DocumentWriter<'_>) -> Result<()> {
    let arguments = arguments(context)?;
    let request = parse(&arguments, &context.service.host)?;
    let target = target(context, &request.pipeline)?;
    let explain = arguments.get_even_null("explain");
    let is_explained = match explain {
        None => false,
        Some(RawBsonRef::Boolean(value)) => value,
        Some(_) => return Err(Error::type_mismatch("explain must be a boolean")),
    };
    if is_explained {
        explain::refuse_write_concern(context)?;
        let request = ExplainRequest::Aggregate(request);
        let verbosity = Verbosity::QueryPlanner;
        return explain::write(
            context,
            &cursor_namespace(&target),
            request,
            verbosity,
            reply,
        );
    }
    // As in mongod, whoever says anything of it need not say the other.
    if explain.is_none() {
        require_cursor(&arguments)?;
    }
    let options = parse_cursor_document(&arguments)?;
    let latencies = latencies(context, &target, &request);
    let request = AggregateRequest {
        latencies,
        ..request
    };
    let query = match server_stages::query(context, &target, &request)? {
        Some(query) => query,
        None => context.engine().aggregate(&target, &request)?,
    };
    write_first_batch(context, query, cursor_namespace(&target), options, reply)
}

/// How long operations on the collection took, where `$collStats` asks for it.
fn latencies(
    context: &Context<'_>,
    target: &AggregateTarget,
    request: &AggregateRequest<'_>,
) -> Option<RawDocumentBuf> {
    let AggregateTarget::Collection(namespace) = target else {
        return None;
    };
    let options = field(request.pipeline.first()?, "$collStats")?;
    // What is wrong with them is told by the stage.
    let histograms = CollectionStatsOptions::parse(options).ok()?.latencies?;
    Some(top::latencies(context.service, namespace, histograms))
}

/// Refuses an aggregate without `cursor`.
///
/// # Errors
/// `FailedToParse`.
pub fn require_cursor(arguments: &Arguments<'_>) -> Result<()> {
    match arguments.get_even_null("cursor") {
        Some(_) => Ok(()),
        None => Err(Error::failed_to_parse(
            "The 'cursor' option is required, except for aggregate with the explain argument",
        )),
    }
}

/// Whether a command is a pipeline that ends with `$out` or `$merge`.
pub fn has_output(command: &str, body: &RawDocument) -> bool {
    let last_stage = || {
        let (_, pipeline) = elements(body).find(|(name, _)| *name == "pipeline")?;
        let last = array_values(pipeline.as_array()?).last()?;
        elements(last.as_document()?).next().map(|(name, _)| name)
    };
    command == "aggregate" && matches!(last_stage(), Some("$out" | "$merge"))
}

/// The fields of an aggregate, which `explain` shares.
pub fn arguments<'a>(context: &Context<'a>) -> Result<Arguments<'a>> {
    context.arguments("aggregate", KNOWN)
}

/// What to run, on a server of this name.
pub fn parse<'a>(arguments: &Arguments<'a>, host: &'a str) -> Result<AggregateRequest<'a>> {
    let collation = arguments.collation()?;
    arguments.refuse_flags(&["needsMerge", "fromMongos", "isMapReduceCommand"])?;
    arguments.refuse_fields(&["exchange", "collectionUUID", "requestReshardingResumeToken"])?;
    Ok(AggregateRequest {
        collation,
        pipeline: parse_pipeline(arguments)?,
        hint: hint(arguments)?,
        variables: arguments.document("let")?,
        allow_disk_use: boolean_or(arguments, "allowDiskUse", uses_disk_by_default())?,
        bypass_validation: arguments.flag("bypassDocumentValidation")?,
        host,
        latencies: None,
    })
}

fn parse_pipeline<'a>(arguments: &Arguments<'a>) -> Result<Vec<&'a RawDocument>> {
    let pipeline = arguments
        .get_even_null("pipeline")
        .ok_or_else(|| arguments.missing("pipeline"))?;
    let Some(stages) = pipeline.as_array() else {
        return Err(Error::type_mismatch(
            "'pipeline' option must be specified as an array",
        ));
    };
    array_values(stages)
        .map(|stage| {
            stage.as_document().ok_or_else(|| {
                Error::type_mismatch("Each element of the 'pipeline' array must be an object")
            })
        })
        .collect()
}

/// A collection's name, or 1 for a pipeline that brings its own documents.
pub fn target(context: &Context<'_>, pipeline: &[&RawDocument]) -> Result<AggregateTarget> {
    let value = context.value();
    if value.as_str().is_some() {
        return Ok(AggregateTarget::Collection(context.namespace()?));
    }
    match integer(value) {
        Some(1) => {}
        Some(_) => {
            let message = "Invalid command format: the 'aggregate' field must specify a \
                           collection name or 1";
            return Err(Error::failed_to_parse(message));
        }
        None => {
            return context
                .namespace_or(Code::TypeMismatch)
                .map(AggregateTarget::Collection);
        }
    }
    let stage = pipeline.first().and_then(|stage| elements(stage).next());
    let invalid = |message| Err(Error::new(Code::InvalidNamespace, message));
    match stage {
        None => invalid("{aggregate: 1} is not valid for an empty pipeline.".to_owned()),
        Some(("$listSessions", _)) => {
            invalid("$listSessions may only be run against config.system.sessions".to_owned())
        }
        Some((
            "$documents" | "$currentOp" | "$listCatalog" | "$listLocalSessions" | "$changeStream",
            _,
        )) => Ok(AggregateTarget::Database(
            context.generic.database.to_owned(),
        )),
        Some(("$facet", RawBsonRef::Document(facets))) => {
            let target = AggregateTarget::Database(context.generic.database.to_owned());
            server_stages::check_facets(facets, &target)?;
            let message = "{aggregate: 1} is not valid for '$facet'; a collection is required.";
            invalid(message.to_owned())
        }
        Some((name, _)) => invalid(format!(
            "{{aggregate: 1}} is not valid for '{name}'; a collection is required."
        )),
    }
}

/// What cursors of this target are called.
pub fn cursor_namespace(target: &AggregateTarget) -> Namespace {
    match target {
        AggregateTarget::Collection(namespace) => namespace.clone(),
        AggregateTarget::Database(database) => Namespace {
            database: database.clone(),
            collection: "$cmd.aggregate".to_owned(),
        },
    }
}
