//! `mapReduce`: two or three functions of a client over a collection, run as the pipeline that MongoDB makes of them.

use super::arguments::{Arguments, field, integer};
use super::context::Context;
use super::privileges::Request;
use crate::access::{ActionSet, Resource};
use bson::raw::{RawBsonRef, RawDocument, RawDocumentBuf, cstr};
use bson::{RawArrayBuf, RawBson};
use meridian_engine::{AggregateRequest, AggregateTarget, Code, Error, Namespace, Result};
use meridian_value::Collation;
use meridian_wire::DocumentWriter;

const KNOWN: &[&str] = &[
    "map",
    "reduce",
    "out",
    "query",
    "sort",
    "collation",
    "limit",
    "finalize",
    "scope",
    "jsMode",
    "verbose",
    "bypassDocumentValidation",
];

/// What the errors of the pipeline begin with.
const CONTEXT: &str = "MapReduce internal error";

/// Results in a reply, as a document may have.
const INLINE_BYTES_MAX: usize = 16 << 20;

/// Where results go.
enum Output<'a> {
    /// Into the reply.
    Inline,
    /// Into a collection.
    Collection {
        mode: Mode,
        /// The database, where it is another one.
        database: Option<&'a str>,
        name: &'a str,
    },
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    Replace,
    Merge,
    Reduce,
}

/// The functions, by their names.
struct Functions<'a> {
    map: RawBsonRef<'a>,
    reduce: RawBsonRef<'a>,
    finalize: Option<RawBsonRef<'a>>,
    scope: Option<&'a RawDocument>,
}

/// The command as a pipeline.
pub struct ParsedMapReduce<'a> {
    namespace: Namespace,
    stages: Vec<RawDocumentBuf>,
    collation: Option<Collation>,
    bypass_validation: bool,
    output: Output<'a>,
}

impl ParsedMapReduce<'_> {
    /// What it is run on.
    pub fn namespace(&self) -> &Namespace {
        &self.namespace
    }

    /// The pipeline.
    pub fn request<'s>(&'s self, host: &'s str) -> AggregateRequest<'s> {
        AggregateRequest {
            collation: self.collation.clone(),
            pipeline: self.stages.iter().map(|stage| &**stage).collect(),
            hint: None,
            variables: None,
            allow_disk_use: true,
            bypass_validation: self.bypass_validation,
            host,
            latencies: None,
        }
    }
}

/// Reads the command.
pub fn parse<'a>(context: &Context<'a>) -> Result<ParsedMapReduce<'a>> {
    let namespace = namespace(context)?;
    let arguments = context.arguments("mapReduce", KNOWN)?;
    let (functions, output) = (functions(&arguments)?, output(&arguments)?);
    check_output(&output, &namespace.database)?;
    let limit = limit(&arguments)?;
    for flag in ["jsMode", "verbose", "bypassDocumentValidation"] {
        if let Some(value) = arguments
            .get(flag)
            .filter(|value| value.as_bool().is_none())
        {
            return Err(arguments.wrong_type(flag, value, &["bool"]));
        }
    }
    if arguments
        .document("sort")?
        .is_some_and(RawDocument::is_empty)
    {
        let message = "The mapReduce sort option must have at least one sort key";
        return Err(Error::location(15976, message));
    }
    if context.engine().has_view(&namespace) {
        return Err(Error::new(
            Code::CommandNotSupportedOnView,
            "mapReduce on a view is not supported",
        ));
    }
    Ok(ParsedMapReduce {
        stages: pipeline(&arguments, &functions, &output, limit, &namespace)?,
        namespace,
        collation: arguments.collation()?,
        bypass_validation: arguments.flag("bypassDocumentValidation")?,
        output,
    })
}

/// Runs the functions, and answers with the results or where they are.
pub fn run(context: &mut Context<'_>, reply: &mut DocumentWriter<'_>) -> Result<()> {
    let parsed = parse(context)?;
    let request = parsed.request(&context.service.host);
    let target = AggregateTarget::Collection(parsed.namespace.clone());
    let results = results(context, &target, &request).map_err(within_context)?;
    match parsed.output {
        Output::Inline => {
            reply.embed_array("results", &results);
        }
        Output::Collection {
            database: Some(database),
            name,
            ..
        } => {
            let mut place = RawDocumentBuf::new();
            place.append(cstr!("db"), database);
            place.append(cstr!("collection"), name);
            reply.embed("result", &place);
        }
        Output::Collection { name, .. } => {
            reply.string("result", name);
        }
    }
    Ok(())
}

/// An error of the pipeline as one of the command; that of a plan stays what it is.
pub fn within_context(mut error: Error) -> Error {
    if error.code == Code::NoQueryExecutionPlans {
        return error;
    }
    let prefix = "PlanExecutor error during aggregation :: caused by :: ";
    if let Some(rest) = error.message.strip_prefix(prefix) {
        error.message = rest.to_owned();
    }
    error.within(CONTEXT)
}

fn results(
    context: &Context<'_>,
    target: &AggregateTarget,
    request: &AggregateRequest<'_>,
) -> Result<RawArrayBuf> {
    let mut query = context.engine().aggregate(target, request)?;
    let (mut results, mut bytes) = (RawArrayBuf::new(), 0);
    while let Some(document) = query.next_document()? {
        bytes += document.as_bytes().len();
        if bytes > INLINE_BYTES_MAX {
            let message = "the results of mapReduce are too large for one reply; write them into a collection by `out`";
            return Err(Error::new(Code::BSONObjectTooLarge, message));
        }
        results.push(document);
    }
    Ok(results)
}

fn namespace(context: &Context<'_>) -> Result<Namespace> {
    let value = context.value();
    if value.as_str().is_none() {
        let found = super::arguments::type_name(value);
        let message = format!("collection name has invalid type {found}");
        return Err(Error::bad_value(message));
    }
    context.namespace()
}

fn functions<'a>(arguments: &Arguments<'a>) -> Result<Functions<'a>> {
    let function = |name: &str, is_required: bool| match arguments.get_even_null(name) {
        None => Ok(None),
        Some(RawBsonRef::Null) if !is_required => Ok(None),
        Some(code @ (RawBsonRef::String(_) | RawBsonRef::JavaScriptCode(_))) => Ok(Some(code)),
        Some(_) => Err(Error::bad_value(format!(
            "'{name}' must be of string or code type"
        ))),
    };
    let scope = match arguments.get("scope") {
        None => None,
        Some(RawBsonRef::Document(scope)) => Some(scope),
        Some(_) => return Err(Error::bad_value("'scope' must be an object")),
    };
    Ok(Functions {
        map: function("map", true)?.ok_or_else(|| arguments.missing("map"))?,
        reduce: function("reduce", true)?.ok_or_else(|| arguments.missing("reduce"))?,
        finalize: function("finalize", false)?,
        scope,
    })
}

fn output<'a>(arguments: &Arguments<'a>) -> Result<Output<'a>> {
    let bad = |message: &str| Err(Error::bad_value(message));
    let document = match arguments.get_even_null("out") {
        None => return Err(arguments.missing("out")),
        Some(RawBsonRef::String(name)) => {
            return Ok(Output::Collection {
                mode: Mode::Replace,
                database: None,
                name,
            });
        }
        Some(RawBsonRef::Document(document)) => document,
        Some(_) => return bad("'out' must be either a string or an object"),
    };
    let get = |name: &str| field(document, name);
    if let Some(inline) = get("inline") {
        if integer(inline) != Some(1) {
            return bad("'inline' takes only numeric '1'");
        }
        if document.iter().count() > 1 {
            return Err(Error::new(
                Code::InvalidOptions,
                "'inline' must be specified alone",
            ));
        }
        return Ok(Output::Inline);
    }
    let Some((word, mode, value)) = mode(document) else {
        return bad("'out' requires 'replace', 'merge' or 'reduce'");
    };
    let Some(name) = value.as_str() else {
        return bad(&format!(
            "'{word}' supports only string consisting of output collection name"
        ));
    };
    let known = [word, "db", "sharded", "nonAtomic"];
    if document
        .iter()
        .flatten()
        .any(|(name, _)| !known.contains(&name.as_str()))
    {
        return bad(
            "'out' supports only output type with collection name, optional 'sharded' and optional 'db'",
        );
    }
    for flag in ["sharded", "nonAtomic"] {
        if let Some(value) = get(flag).filter(|value| value.as_bool() != Some(true)) {
            let expected = if value.as_bool().is_some() {
                "true"
            } else {
                "boolean"
            };
            return bad(&format!("{flag} field value must be {expected}"));
        }
    }
    if get("db").is_some_and(|value| value.as_str().is_none()) {
        return bad("db field value must be string");
    }
    if get("sharded").is_some() && mode == Mode::Replace {
        let message = "Combination of 'out.sharded' and 'replace' output mode is not supported. Cannot replace an \
                       existing sharded collection or create a new sharded collection. Please create the sharded \
                       collection first and use a different output mode or consider using an unsharded collection.";
        return Err(Error::new(Code::InvalidOptions, message).within(CONTEXT));
    }
    let database = get("db").and_then(|value| value.as_str());
    Ok(Output::Collection {
        mode,
        database,
        name,
    })
}

/// What is done with results, where that is said.
fn mode(document: &RawDocument) -> Option<(&'static str, Mode, RawBsonRef<'_>)> {
    let modes = [
        ("replace", Mode::Replace),
        ("merge", Mode::Merge),
        ("reduce", Mode::Reduce),
    ];
    modes
        .into_iter()
        .find_map(|(name, mode)| Some((name, mode, field(document, name)?)))
}

/// Whether who asks may read the collection, and write where results go.
pub fn is_allowed(request: &Request<'_>) -> bool {
    if !request.may(&request.collection(), "find") {
        return false;
    }
    let (mode, database, name) = match request.get("out") {
        Some(RawBsonRef::String(name)) => (Mode::Replace, request.database, name),
        Some(RawBsonRef::Document(document)) if field(document, "inline").is_none() => {
            let Some((_, mode, value)) = mode(document) else {
                return true;
            };
            let database = field(document, "db").and_then(|value| value.as_str());
            (
                mode,
                database.unwrap_or(request.database),
                value.as_str().unwrap_or_default(),
            )
        }
        _ => return true,
    };
    let target = Resource::Collection(database.to_owned(), name.to_owned());
    let actions = match mode {
        Mode::Replace => ActionSet::of(&["insert", "remove"]),
        _ => ActionSet::of(&["insert", "update"]),
    };
    request.on(&target, actions) && request.bypasses(&target)
}

fn check_output(output: &Output<'_>, own: &str) -> Result<()> {
    let Output::Collection {
        mode,
        database,
        name,
    } = output
    else {
        return Ok(());
    };
    let is_bad =
        |database: &str| database.is_empty() || database.contains(['/', '\\', '.', ' ', '"', '$']);
    if name.is_empty() || database.is_some_and(is_bad) {
        let message = format!(
            "Invalid output namespace {}.{name} for MapReduce",
            database.unwrap_or(own)
        );
        return Err(Error::new(Code::InvalidNamespace, message));
    }
    if name.starts_with("system.") {
        let message = format!("Can't output mapReduce results to special collection {name}");
        let code = if *mode == Mode::Replace { 17385 } else { 31319 };
        return Err(Error::location(code, message));
    }
    if name.contains('$') {
        let message = format!("error with target namespace: Invalid collection name: {name}");
        return Err(Error::new(Code::IllegalOperation, message).within(CONTEXT));
    }
    if matches!(database.unwrap_or(own), "admin" | "local" | "config") {
        let message = "cannot target internal database as output";
        return Err(Error::new(Code::CommandNotSupported, message));
    }
    Ok(())
}

fn limit(arguments: &Arguments<'_>) -> Result<Option<i64>> {
    match arguments.get("limit") {
        None => Ok(None),
        Some(value) => {
            let limit = integer(value).ok_or_else(|| {
                arguments.wrong_type("limit", value, &["long", "int", "decimal", "double"])
            })?;
            match limit > 0 {
                true => Ok(Some(limit)),
                false => Err(Error::location(
                    15958,
                    "The limit specified to mapReduce must be positive",
                )),
            }
        }
    }
}

/// The stages, as MongoDB makes them: emit, unwind, group by key, finalize, write.
fn pipeline(
    arguments: &Arguments<'_>,
    functions: &Functions<'_>,
    output: &Output<'_>,
    limit: Option<i64>,
    own: &Namespace,
) -> Result<Vec<RawDocumentBuf>> {
    let mut stages = Vec::new();
    for (field, stage) in [("query", "$match"), ("sort", "$sort")] {
        let given = arguments.document(field)?.filter(|given| !given.is_empty());
        stages.extend(given.map(|given| one(stage, given.to_owned())));
    }
    stages.extend(limit.map(|limit| one("$limit", limit)));
    let mut emit = one("eval", functions.map);
    emit.append(cstr!("this"), "$$ROOT");
    add_scope(&mut emit, functions.scope);
    let mut emits = one("emits", one("$_internalJsEmit", emit));
    emits.append(cstr!("_id"), false);
    stages.push(one("$project", emits));
    stages.push(one("$unwind", one("path", "$emits")));
    let mut reduce = one("data", "$emits");
    reduce.append(cstr!("eval"), functions.reduce);
    add_scope(&mut reduce, functions.scope);
    let mut group = one("_id", "$emits.k");
    group.append(cstr!("value"), one("$_internalJsReduce", reduce));
    stages.push(one("$group", group));
    if let Some(finalize) = functions.finalize {
        stages.push(finalizing(finalize, functions.scope));
    }
    stages.extend(output_stage(output, functions, own));
    Ok(stages)
}

fn output_stage(
    output: &Output<'_>,
    functions: &Functions<'_>,
    own: &Namespace,
) -> Option<RawDocumentBuf> {
    let Output::Collection {
        mode,
        database,
        name,
    } = output
    else {
        return None;
    };
    let mut place = one("db", database.unwrap_or(&own.database));
    place.append(cstr!("coll"), *name);
    if *mode == Mode::Replace {
        return Some(one("$out", place));
    }
    let mut merge = one("into", place);
    merge.append(cstr!("on"), "_id");
    if *mode == Mode::Reduce {
        merge.append(cstr!("let"), one("new", "$$ROOT"));
    }
    match mode {
        Mode::Reduce => {
            let values = array(["$value".into(), "$$new.value".into()]);
            let mut stages = RawArrayBuf::new();
            stages.push(merging(functions.reduce, values, functions.scope));
            if let Some(finalize) = functions.finalize {
                stages.push(merging(finalize, "$value".into(), functions.scope));
            }
            merge.append(cstr!("whenMatched"), stages);
        }
        _ => merge.append(cstr!("whenMatched"), "replace"),
    }
    merge.append(cstr!("whenNotMatched"), "insert");
    Some(one("$merge", merge))
}

/// The stage that finalizes results.
fn finalizing(function: RawBsonRef<'_>, scope: Option<&RawDocument>) -> RawDocumentBuf {
    let mut call = one("body", function);
    call.append(cstr!("args"), array(["$_id".into(), "$value".into()]));
    call.append(cstr!("lang"), "js");
    add_scope(&mut call, scope);
    let mut stage = one("_id", true);
    stage.append(cstr!("value"), one("$function", call));
    one("$project", stage)
}

/// A stage that works on results beside those that were there. (What there is keeps its `_id`.)
fn merging(
    function: RawBsonRef<'_>,
    value: RawBson,
    scope: Option<&RawDocument>,
) -> RawDocumentBuf {
    let mut call = one("args", array(["$_id".into(), value]));
    call.append(cstr!("body"), function);
    call.append(cstr!("lang"), "js");
    add_scope(&mut call, scope);
    one("$project", one("value", one("$function", call)))
}

fn add_scope(call: &mut RawDocumentBuf, scope: Option<&RawDocument>) {
    if let Some(scope) = scope {
        call.append(cstr!("scope"), scope);
    }
}

fn array<const N: usize>(items: [RawBson; N]) -> RawBson {
    let mut array = RawArrayBuf::new();
    items.into_iter().for_each(|item| array.push(item));
    RawBson::Array(array)
}

/// A document of one field.
fn one(name: &str, value: impl Into<RawBson>) -> RawDocumentBuf {
    let mut document = RawDocumentBuf::new();
    let name = bson::raw::CString::try_from(name).expect("names here hold no zero byte");
    document.append(name, value.into());
    document
}
