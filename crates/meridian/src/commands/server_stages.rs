//! Pipelines that begin with a stage about the server and not about data: `$currentOp`, `$listLocalSessions`,
//! `$listSessions`.

use super::arguments::{Arguments, array_values, elements, type_name};
use super::context::Context;
use super::{current_op, sessions};
use crate::access::UserName;
use bson::raw::{RawArray, RawBsonRef, RawDocument, RawDocumentBuf};
use bson::spec::BinarySubtype;
use bson::{Binary, cstr, rawdoc};
use meridian_engine::aggregate::{Limits, Pipeline, STAGES_USED, run as run_stages};
use meridian_engine::expression::Variables;
use meridian_engine::{AggregateRequest, AggregateTarget, Code, Error, Query, Result};
use std::collections::HashSet;

/// What a pipeline on a target answers that begins with one of them; `None` for others, also for one that may not stand
/// there, which the engine refuses.
pub fn query(
    context: &Context<'_>,
    target: &AggregateTarget,
    request: &AggregateRequest<'_>,
) -> Result<Option<Query>> {
    let mut stages = request.pipeline.iter();
    let Some((name, options)) = stages.next().and_then(|stage| elements(stage).next()) else {
        return Ok(None);
    };
    if request
        .pipeline
        .first()
        .is_some_and(|stage| elements(stage).count() > 1)
    {
        // Refused where it is parsed.
        return Ok(None);
    }
    if !may_stand(name, target) {
        return check_places(&request.pipeline, target).map(|()| None);
    }
    check_places(&request.pipeline[1..], target)?;
    let Some(options) = options.as_document() else {
        return Err(Error::type_mismatch(format!(
            "{name} options must be specified in an object, but found: {}",
            type_name(options)
        )));
    };
    STAGES_USED.add(name);
    let rows = match name {
        "$currentOp" => current_op::rows(context, options)?,
        _ => list_sessions(context, name, options)?,
    };
    let rest = &request.pipeline[1..];
    refuse_output(rest, target)?;
    let pipeline = Pipeline::parse(rest)?;
    let variables = Variables::new(bson::DateTime::now());
    let limits = Limits::new(request.allow_disk_use);
    let input = rows.into_iter().map(Ok);
    let rows = run_stages(&pipeline.stages, input, variables, &limits)?;
    Ok(Some(Query::from_documents(rows.collect::<Result<_>>()?)))
}

/// Whether a stage is one of these, and the target is what it is about.
fn may_stand(name: &str, target: &AggregateTarget) -> bool {
    match (name, target) {
        ("$currentOp", AggregateTarget::Database(database)) => database == "admin",
        ("$listLocalSessions", AggregateTarget::Database(_)) => true,
        ("$listSessions", AggregateTarget::Collection(namespace)) => {
            namespace.database == "config" && namespace.collection == "system.sessions"
        }
        _ => false,
    }
}

/// Refuses these stages behind others, and within a `$facet`.
fn check_places(stages: &[&RawDocument], target: &AggregateTarget) -> Result<()> {
    for stage in stages {
        let Some((name, options)) = elements(stage).next() else {
            continue;
        };
        if may_stand(name, target) {
            let message = format!("{name} is only valid as the first stage in a pipeline");
            return Err(Error::location(40602, message));
        }
        if name == "$facet"
            && let Some(facets) = options.as_document()
        {
            check_facets(facets, target)?;
        }
    }
    Ok(())
}

/// Refuses these stages within a `$facet` on what they are about.
pub fn check_facets(facets: &RawDocument, target: &AggregateTarget) -> Result<()> {
    let pipelines = elements(facets).filter_map(|(_, pipeline)| pipeline.as_array());
    let stages = pipelines.flat_map(array_values);
    let mut names = stages
        .filter_map(|stage| elements(stage.as_document()?).next())
        .map(|(name, _)| name);
    match names.find(|name| may_stand(name, target)) {
        None => Ok(()),
        Some(name) => Err(Error::location(
            40600,
            format!("{name} is not allowed to be used within a $facet stage"),
        )),
    }
}

fn refuse_output(stages: &[&RawDocument], target: &AggregateTarget) -> Result<()> {
    let last = stages.last().and_then(|stage| elements(stage).next());
    let Some((name @ ("$out" | "$merge"), _)) = last else {
        return Ok(());
    };
    match (name, target) {
        ("$out", AggregateTarget::Database(database)) if database == "admin" => {
            let message = "Can't $out to internal database: admin";
            Err(Error::location(31321, message))
        }
        _ => Err(Error::not_implemented(format!(
            "{name} of what a server tells of itself"
        ))),
    }
}

/// Whose sessions are listed.
struct Listed {
    all: bool,
    users: Option<HashSet<UserName>>,
}

impl Listed {
    fn parse(scope: &'static str, users: &'static str, options: &RawDocument) -> Result<Self> {
        let fields = Arguments::parse(scope, options, &["allUsers", "users"])?;
        let all = fields.boolean_or("allUsers", false)?;
        if fields.get_even_null("users") == Some(RawBsonRef::Null) {
            let message = "invalid parameter: expected an object (users)";
            return Err(Error::location(10065, message));
        }
        let listed: Option<&RawArray> = fields.array("users")?;
        if all && listed.is_some_and(|users| !users.is_empty()) {
            return Err(Error::new(
                Code::UnsupportedFormat,
                format!(
                    "{scope} may not specify {{allUsers:true}} and {{users:[...]}} at the same time"
                ),
            ));
        }
        let parse = |list: &RawArray| {
            let names = sessions::documents(list, users);
            names
                .map(|name| sessions::parse_user(users, name?))
                .collect()
        };
        let users: Option<HashSet<UserName>> = listed.map(parse).transpose()?;
        Ok(Self {
            all,
            users: users.filter(|users| !users.is_empty()),
        })
    }
}

/// The rows of `$listLocalSessions` and of `$listSessions`, which is the same on one server.
fn list_sessions(
    context: &Context<'_>,
    name: &str,
    options: &RawDocument,
) -> Result<Vec<RawDocumentBuf>> {
    let listed = match name {
        "$listSessions" => Listed::parse("$listSessions", "$listSessions.users", options)?,
        _ => Listed::parse("$listLocalSessions", "$listLocalSessions.users", options)?,
    };
    let own = context.client.login.name();
    let is_wanted = |user: Option<&UserName>| match &listed.users {
        Some(users) => user.is_some_and(|user| users.contains(user)),
        None => listed.all || !context.service.access.is_enabled || user == own,
    };
    let mut rows = Vec::new();
    for session in context.service.sessions.list() {
        if !is_wanted(session.name.user.as_ref()) {
            continue;
        }
        let binary = |subtype, bytes: &[u8]| Binary {
            subtype,
            bytes: bytes.to_vec(),
        };
        let name = rawdoc! {
            "id": binary(BinarySubtype::Uuid, &session.name.id),
            "uid": binary(BinarySubtype::Generic, &session.name.user_digest()),
        };
        let mut row = rawdoc! { "_id": name };
        row.append(cstr!("lastUse"), session.last_use);
        if let Some(user) = &session.name.user {
            row.append(cstr!("user"), format!("{}@{}", user.user, user.database));
        }
        rows.push(row);
    }
    Ok(rows)
}

/// A flag of `$currentOp`, which is a boolean and nothing else.
pub fn flag(name: &str, value: RawBsonRef<'_>) -> Result<bool> {
    value.as_bool().ok_or_else(|| {
        let message = format!(
            "The '{name}' parameter of the $currentOp stage must be a boolean value, but found: {}",
            type_name(value)
        );
        let code = match name {
            "allUsers" | "localOps" => Code::TypeMismatch,
            _ => Code::FailedToParse,
        };
        Error::new(code, message)
    })
}
