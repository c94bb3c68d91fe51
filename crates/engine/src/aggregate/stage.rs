//! The stages of a pipeline, parsed.

use super::accumulator::ACCUMULATORS_USED;
use super::bucket::{BucketAuto, parse_bucket};
use super::collection_stats::CollectionStatsOptions;
use super::densify::{Densify, parse_densify};
use super::geo_near::{AddDistance, GeoNear};
use super::group::Group;
use super::join::{GraphLookup, Lookup, UnionWith};
use super::output::{Merge, Out};
use super::own_documents::OwnDocuments;
use super::pipeline::Pipeline;
use super::redact::Redact;
use super::refused::refusal;
use super::replace_root::ReplaceRoot;
use super::stage_options::refuse_doubled;
use super::transform::Transform;
use super::unwind::Unwind;
use super::window::{SetWindowFields, parse_fill, parse_set_window_fields};
use crate::error::{Code, Error, Result};
use crate::expression::FieldSet;
use crate::expression::value::corrupt;
use crate::expression::{MetadataScope, SearchKind, UNAVAILABLE};
use crate::expression::{VariableScope, parse_field_path};
use crate::operation::NameCounts;
use crate::query::exact_integer;
use crate::query::{Filter, Measure, ParseContext, Sort};
use crate::text;
use crate::timeseries::UnpackBucket;
use crate::types::type_name;
use bson::{RawBsonRef, RawDocument, RawDocumentBuf};
use meridian_value::number::Number;
use std::sync::Arc;

/// A stage of a pipeline.
#[derive(Debug, Clone)]
pub enum Stage {
    /// `$match`.
    Match(Filter),
    /// `$project`.
    Project(Transform),
    /// `$set` and `$addFields`.
    Set(Transform),
    /// `$unset`.
    Unset(Transform),
    /// `$replaceRoot` and `$replaceWith`.
    ReplaceRoot(ReplaceRoot),
    /// `$sort`; a `$limit` behind it is part of it, so that only so many are kept.
    Sort {
        /// The order.
        order: Sort,
        /// How many are needed.
        limit: Option<u64>,
    },
    /// `$limit`.
    Limit(u64),
    /// `$skip`.
    Skip(u64),
    /// `$count`: the name of the field.
    Count(String),
    /// `$group`; `$bucket` and `$sortByCount` become one and a `$sort`.
    Group(Arc<Group>),
    /// `$unwind`.
    Unwind(Unwind),
    /// `$geoNear`: the engine plans it, and puts `AddDistance` in its place.
    GeoNear(Box<GeoNear>),
    /// What `$geoNear` adds to the documents that come nearest first.
    AddDistance(Box<AddDistance>),
    /// What the stages behind a `$match` with a `$text` know of its documents.
    AddScore(Box<Measure>),
    /// `$sample`.
    Sample {
        /// How many documents.
        size: u64,
        /// Determines the draw (Meridian's own option).
        seed: Option<i64>,
        /// Whether a stage asks for what was drawn for a document.
        tells_random: bool,
    },
    /// `$setWindowFields`; it and `$fill` become this one behind a `$sort`.
    SetWindowFields(Arc<SetWindowFields>),
    /// `$densify`, which becomes this one behind a `$sort`.
    Densify(Arc<Densify>),
    /// `$_internalUnpackBucket`, with which readers of a time-series collection begin.
    UnpackBucket(Box<UnpackBucket>),
    /// `$bucketAuto`.
    BucketAuto(BucketAuto),
    /// `$facet`: named pipelines.
    Facet(Vec<(String, Pipeline)>),
    /// `$out`: the engine writes.
    Out(Out),
    /// `$merge`: the engine writes.
    Merge(Box<Merge>),
    /// `$redact`.
    Redact(Box<Redact>),
    /// `$lookup`.
    Lookup(Box<Lookup>),
    /// `$graphLookup`.
    GraphLookup(Box<GraphLookup>),
    /// `$unionWith`.
    UnionWith(Box<UnionWith>),
    /// `$documents`: the engine supplies the documents.
    Documents(OwnDocuments),
    /// `$indexStats`: the engine supplies the documents.
    IndexStats,
    /// `$listCatalog`: the engine supplies the documents.
    ListCatalog,
    /// `$planCacheStats`: the engine supplies the documents.
    PlanCacheStats,
    /// `$collStats` with its options: the engine supplies the documents.
    CollectionStats(CollectionStatsOptions),
}

/// Stages that MongoDB has and Meridian does not.
const ABSENT: [&str; 2] = ["$_internalInhibitOptimization", "$_internalSplitPipeline"];

/// How often each stage was written.
pub static STAGES_USED: NameCounts = NameCounts::of(|| {
    vec![
        "$_internalUnpackBucket",
        "$addFields",
        "$bucket",
        "$bucketAuto",
        "$collStats",
        "$count",
        "$currentOp",
        "$densify",
        "$documents",
        "$facet",
        "$fill",
        "$geoNear",
        "$graphLookup",
        "$group",
        "$indexStats",
        "$limit",
        "$listCatalog",
        "$listLocalSessions",
        "$listSessions",
        "$lookup",
        "$match",
        "$merge",
        "$out",
        "$planCacheStats",
        "$project",
        "$redact",
        "$replaceRoot",
        "$replaceWith",
        "$sample",
        "$set",
        "$setWindowFields",
        "$skip",
        "$sort",
        "$sortByCount",
        "$unionWith",
        "$unset",
        "$unwind",
    ]
});

/// Refuses a name that is no stage, whatever the stages before it are.
///
/// # Errors
/// 40324.
pub(super) fn check_known((name, raw): (&str, RawBsonRef<'_>)) -> Result<()> {
    let is_known = STAGES_USED.has(name) || ABSENT.contains(&name) || refusal(name, raw).is_some();
    match is_known {
        true => Ok(()),
        false => Err(unrecognized(name)),
    }
}

fn unrecognized(name: &str) -> Error {
    let message = format!("Unrecognized pipeline stage name: '{name}'");
    Error::location(40324, message)
}

/// Parses one stage; some become two.
///
/// # Errors
/// 40324 for a name that is no stage, `NotImplemented` for one that is not built yet, and
/// the stage's own.
pub(super) fn parse(
    name: &str,
    raw: RawBsonRef<'_>,
    scope: &VariableScope,
    out: &mut Vec<Stage>,
) -> Result<()> {
    refuse_doubled(name, raw)?;
    scope.count(&STAGES_USED, name);
    let stage = match name {
        "$match" => Stage::Match(parse_match(raw, scope)?),
        "$project" => Stage::Project(Transform::project(raw, scope)?),
        "$set" | "$addFields" => Stage::Set(Transform::set(name, raw, scope)?),
        "$unset" => Stage::Unset(Transform::unset(raw)?),
        "$replaceRoot" => Stage::ReplaceRoot(ReplaceRoot::parse_root(raw, scope)?),
        "$replaceWith" => Stage::ReplaceRoot(ReplaceRoot::parse_with(raw, scope)?),
        "$sort" => Stage::Sort {
            order: parse_sort(raw, scope)?,
            limit: None,
        },
        "$limit" => Stage::Limit(parse_limit(raw)?),
        "$skip" => Stage::Skip(whole(name, 5_107_200, raw)?),
        "$count" => {
            // As a `$group` that sums, which it is in MongoDB.
            scope.count(&ACCUMULATORS_USED, "$sum");
            Stage::Count(parse_count(raw)?)
        }
        "$group" => Stage::Group(Arc::new(Group::parse(raw, scope)?)),
        "$sortByCount" => return parse_sort_by_count(raw, scope, out),
        "$bucket" => return parse_bucket(raw, scope, out),
        "$setWindowFields" => return parse_set_window_fields(raw, scope, out),
        "$densify" => return parse_densify(raw, scope, out),
        "$fill" => return parse_fill(raw, scope, out),
        "$bucketAuto" => Stage::BucketAuto(BucketAuto::parse(raw, scope)?),
        "$unwind" => Stage::Unwind(Unwind::parse(raw)?),
        "$_internalUnpackBucket" => Stage::UnpackBucket(Box::new(UnpackBucket::parse(raw)?)),
        "$geoNear" => Stage::GeoNear(Box::new(GeoNear::parse(raw, scope)?)),
        "$sample" => parse_sample(raw)?,
        "$facet" => Stage::Facet(parse_facet(raw, scope)?),
        "$out" => Stage::Out(Out::parse(raw)?),
        "$merge" => Stage::Merge(Box::new(Merge::parse(raw)?)),
        "$redact" => Stage::Redact(Box::new(Redact::parse(raw, scope)?)),
        "$lookup" => Stage::Lookup(Box::new(Lookup::parse(raw, scope)?)),
        "$graphLookup" => Stage::GraphLookup(Box::new(GraphLookup::parse(raw, scope)?)),
        "$unionWith" => Stage::UnionWith(Box::new(UnionWith::parse(raw, scope)?)),
        "$documents" => Stage::Documents(OwnDocuments::parse(raw, scope)?),
        "$indexStats" => parse_empty(raw, Stage::IndexStats, 28_803)?,
        "$listCatalog" => parse_empty(raw, Stage::ListCatalog, 6_200_600)?,
        "$planCacheStats" => parse_plan_cache_stats(raw)?,
        "$collStats" => Stage::CollectionStats(CollectionStatsOptions::parse(raw)?),
        // About the server: whoever takes requests answers those that stand where they may.
        "$currentOp" | "$listLocalSessions" | "$listSessions" => return Err(out_of_place(name)),
        known if ABSENT.contains(&known) => {
            return Err(Error::not_implemented(format!(
                "the pipeline stage {known}"
            )));
        }
        unknown => {
            if let Some(refusal) = refusal(unknown, raw) {
                return Err(refusal);
            }
            return Err(unrecognized(unknown));
        }
    };
    out.push(stage);
    Ok(())
}

fn out_of_place(name: &str) -> Error {
    let message = match name {
        "$currentOp" => "$currentOp must be run against the 'admin' database with {aggregate: 1}",
        "$listLocalSessions" => {
            "$listLocalSessions must be run against the database with {aggregate: 1}, not a collection"
        }
        _ => "$listSessions may only be run against config.system.sessions",
    };
    Error::new(Code::InvalidNamespace, message)
}

impl Stage {
    /// The stage's name, as errors and `explain` give it.
    pub fn name(&self) -> &'static str {
        match self {
            Stage::Match(_) => "$match",
            Stage::Project(_) => "$project",
            Stage::Set(_) => "$addFields",
            Stage::Unset(_) => "$unset",
            Stage::ReplaceRoot(_) => "$replaceRoot",
            Stage::Sort { .. } => "$sort",
            Stage::Limit(_) => "$limit",
            Stage::Skip(_) => "$skip",
            Stage::Count(_) => "$count",
            Stage::Group(_) => "$group",
            Stage::Unwind(_) => "$unwind",
            Stage::GeoNear(_) | Stage::AddDistance(_) => "$geoNear",
            Stage::AddScore(_) => "$match",
            Stage::Sample { .. } => "$sample",
            Stage::SetWindowFields(_) => "$setWindowFields",
            Stage::Densify(_) => "$densify",
            Stage::UnpackBucket(_) => "$_internalUnpackBucket",
            Stage::BucketAuto(_) => "$bucketAuto",
            Stage::Facet(_) => "$facet",
            Stage::Out(_) => "$out",
            Stage::Merge(_) => "$merge",
            Stage::Redact(_) => "$redact",
            Stage::Lookup(_) => "$lookup",
            Stage::GraphLookup(_) => "$graphLookup",
            Stage::UnionWith(_) => "$unionWith",
            Stage::Documents(_) => "$documents",
            Stage::IndexStats => "$indexStats",
            Stage::ListCatalog => "$listCatalog",
            Stage::PlanCacheStats => "$planCacheStats",
            Stage::CollectionStats(_) => "$collStats",
        }
    }

    /// Refuses a join with a collection that has no name.
    ///
    /// # Errors
    /// `InvalidNamespace`.
    pub fn check_foreign_name(&self, database: &str) -> Result<()> {
        let name = match self {
            Stage::Lookup(lookup) => lookup.collection(),
            Stage::GraphLookup(lookup) => Some(lookup.collection()),
            _ => None,
        };
        match name {
            Some("") => Err(Error::new(
                Code::InvalidNamespace,
                format!("invalid {} namespace: {database}.", self.name()),
            )),
            _ => Ok(()),
        }
    }

    /// The other collection that the stage reads, and the pipelines within it.
    pub(super) fn foreign(&self) -> (Option<&str>, Vec<&Pipeline>) {
        match self {
            Stage::Lookup(lookup) => (lookup.collection(), vec![lookup.pipeline()]),
            Stage::GraphLookup(lookup) => (Some(lookup.collection()), Vec::new()),
            Stage::UnionWith(union) => (union.collection(), vec![union.pipeline()]),
            Stage::Facet(parts) => (None, parts.iter().map(|(_, part)| part).collect()),
            _ => (None, Vec::new()),
        }
    }

    /// Whether the stage stands at the end and writes.
    pub fn is_output(&self) -> bool {
        matches!(self, Stage::Out(_) | Stage::Merge(_))
    }

    /// Whether the stage stands at the start and makes its own documents.
    pub fn is_source(&self) -> bool {
        matches!(
            self,
            Stage::Documents(_)
                | Stage::IndexStats
                | Stage::ListCatalog
                | Stage::PlanCacheStats
                | Stage::CollectionStats(_)
        )
    }

    /// The fields of the document that the stage makes anew, or takes away.
    pub fn made_fields(&self) -> Vec<String> {
        match self {
            Stage::Set(transform) | Stage::Unset(transform) => transform.made_fields(),
            Stage::SetWindowFields(windows) => windows.made_fields(),
            _ => Vec::new(),
        }
    }

    /// The fields the stage reads, and whether what follows can read others (it cannot
    /// behind a stage that makes documents anew).
    pub fn dependencies(&self) -> (FieldSet, bool) {
        let all = || {
            let mut set = FieldSet::none();
            set.add_all();
            set
        };
        match self {
            Stage::Project(transform) if transform.is_inclusion() => {
                (transform.dependencies(), false)
            }
            Stage::Set(transform) | Stage::Unset(transform) => (transform.reads(), true),
            Stage::Match(filter) => (filter.needs(), true),
            Stage::AddDistance(add) => (add.needs(), true),
            Stage::AddScore(_) => (all(), true),
            Stage::SetWindowFields(windows) => (windows.dependencies(), true),
            Stage::Densify(densify) => (densify.dependencies(), true),
            Stage::Lookup(lookup) => (lookup.needs(), true),
            Stage::GraphLookup(lookup) => (lookup.needs(), true),
            Stage::Facet(pipelines) => {
                let mut set = FieldSet::none();
                for (_, pipeline) in pipelines {
                    set.merge(pipeline.dependencies());
                }
                (set, false)
            }
            Stage::Group(group) => (group.dependencies(), false),
            Stage::Count(_) => (FieldSet::none(), false),
            Stage::ReplaceRoot(replace) => (replace.dependencies(), false),
            Stage::BucketAuto(bucket) => (bucket.dependencies(), false),
            Stage::Sort { order, .. } => {
                let mut set = FieldSet::none();
                order
                    .fields()
                    .iter()
                    .for_each(|field| set.add(field.path.as_str()));
                (set, true)
            }
            Stage::Limit(_) | Stage::Skip(_) | Stage::Sample { .. } | Stage::UnionWith(_) => {
                (FieldSet::none(), true)
            }
            _ => (all(), false),
        }
    }
}

/// `stage`, whose operand must be empty.
fn parse_empty(raw: RawBsonRef<'_>, stage: Stage, code: i32) -> Result<Stage> {
    match raw {
        RawBsonRef::Document(options) if options.is_empty() => Ok(stage),
        _ => Err(Error::location(
            code,
            format!(
                "The {} stage specification must be an empty object",
                stage.name()
            ),
        )),
    }
}

fn parse_plan_cache_stats(raw: RawBsonRef<'_>) -> Result<Stage> {
    let found = type_name(raw.element_type());
    match raw {
        RawBsonRef::Document(options) if options.is_empty() => Ok(Stage::PlanCacheStats),
        RawBsonRef::Document(_) => Err(Error::failed_to_parse(format!(
            "$planCacheStats parameters object must be empty. Found: {found}"
        ))),
        _ => Err(Error::failed_to_parse(format!(
            "$planCacheStats value must be an object. Found: {found}"
        ))),
    }
}

fn parse_match(raw: RawBsonRef<'_>, scope: &VariableScope) -> Result<Filter> {
    let RawBsonRef::Document(document) = raw else {
        return Err(Error::location(
            15959,
            "the match filter must be an expression in an object",
        ));
    };
    // Even behind a `$geoNear` MongoDB has none for a filter.
    let metadata = match scope.metadata() {
        MetadataScope::Of(_) => MetadataScope::Unavailable,
        other => other,
    };
    let context = ParseContext {
        scope: scope.with_metadata(metadata),
        variables: Some(scope.variables(bson::DateTime::now())),
        allows_near: false,
        allows_where: false,
        allows_text: true,
    };
    Filter::parse_with(document, &context)
}

fn parse_sort(raw: RawBsonRef<'_>, scope: &VariableScope) -> Result<Sort> {
    let RawBsonRef::Document(document) = raw else {
        return Err(Error::location(
            15973,
            "the $sort key specification must be an object",
        ));
    };
    let order = Sort::parse_with(document, scope)?;
    if order.fields().is_empty() {
        return Err(match order.natural() {
            None => Error::location(15976, "$sort stage must have at least one sort key"),
            Some(_) => Error::location(
                16410,
                "FieldPath field names may not start with '$'. Consider using $getField or \
                 $setField.",
            ),
        });
    }
    Ok(order)
}

fn whole(name: &str, code: i32, raw: RawBsonRef<'_>) -> Result<u64> {
    let fail = |reason: &str| {
        let shown = text::element(name, raw);
        Error::location(
            code,
            format!("invalid argument to {name} stage: {reason} {shown}"),
        )
    };
    let value = match exact_integer(name, raw) {
        Ok(value) => value,
        Err(error) => {
            let message = format!("invalid argument to {name} stage: {}", error.message);
            return Err(Error::location(code, message));
        }
    };
    u64::try_from(value).map_err(|_| fail("Expected a non-negative number in:"))
}

fn parse_limit(raw: RawBsonRef<'_>) -> Result<u64> {
    match whole("$limit", 5_107_201, raw)? {
        0 => Err(Error::location(15958, "the limit must be positive")),
        limit => Ok(limit),
    }
}

fn parse_count(raw: RawBsonRef<'_>) -> Result<String> {
    let (code, reason) = match raw {
        RawBsonRef::String("") => (40157, "the count field must be a non-empty string"),
        RawBsonRef::String("_id") => (15948, "a group's _id may only be specified once"),
        RawBsonRef::String(name) if name.starts_with('$') => {
            (40158, "the count field cannot be a $-prefixed path")
        }
        RawBsonRef::String(name) if name.contains('\0') => {
            (40159, "the count field cannot contain a null byte")
        }
        RawBsonRef::String(name) if name.contains('.') => {
            (40160, "the count field cannot contain '.'")
        }
        RawBsonRef::String(name) => return Ok(name.to_owned()),
        _ => (40156, "the count field must be a non-empty string"),
    };
    Err(Error::location(code, reason))
}

fn parse_sample(raw: RawBsonRef<'_>) -> Result<Stage> {
    let RawBsonRef::Document(document) = raw else {
        return Err(Error::location(
            28745,
            "the $sample stage specification must be an object",
        ));
    };
    let (mut size, mut seed) = (None, None);
    for entry in document.iter() {
        let (key, raw) = entry.map_err(corrupt)?;
        if key.as_str() == "seed" {
            seed = Some(parse_sample_seed(raw)?);
            continue;
        }
        if key.as_str() != "size" {
            return Err(Error::location(
                28748,
                format!("unrecognized option to $sample: {}", key.as_str()),
            ));
        }
        let number = Number::from_raw(raw)
            .ok_or_else(|| Error::location(28746, "size argument to $sample must be a number"))?;
        let whole = number.to_i64_truncated().unwrap_or(i64::MAX);
        size = Some(u64::try_from(whole).map_err(|_| {
            Error::location(28747, "size argument to $sample must not be negative")
        })?);
    }
    let size = size.ok_or_else(|| Error::location(28749, "$sample stage must specify a size"))?;
    Ok(Stage::Sample {
        size,
        seed,
        tells_random: false,
    })
}

fn parse_sample_seed(raw: RawBsonRef<'_>) -> Result<i64> {
    Number::from_raw(raw)
        .and_then(|number| number.to_i64_exact())
        .ok_or_else(|| Error::bad_value("seed argument to $sample must be a whole number"))
}

/// `$sortByCount` is a `$group` that counts, and a `$sort`.
fn parse_sort_by_count(
    raw: RawBsonRef<'_>,
    scope: &VariableScope,
    out: &mut Vec<Stage>,
) -> Result<()> {
    const NO_EXPRESSION: &str = "the sortByCount field must be defined as a $-prefixed path or an expression inside an object";
    match raw {
        RawBsonRef::String(path) if path.starts_with('$') => {}
        RawBsonRef::String(_) => return Err(Error::location(40148, NO_EXPRESSION)),
        RawBsonRef::Document(document) => {
            let first = document.iter().flatten().next();
            if !first.is_some_and(|(key, _)| key.as_str().starts_with('$')) {
                return Err(Error::location(40147, NO_EXPRESSION));
            }
        }
        _ => {
            return Err(Error::location(
                40149,
                "the sortByCount field must be specified as a string or as an object",
            ));
        }
    }
    let mut group = RawDocumentBuf::new();
    group.append(bson::raw::cstr!("_id"), raw);
    group.append(bson::raw::cstr!("count"), bson::rawdoc! { "$sum": 1 });
    out.push(Stage::Group(Arc::new(Group::parse(
        RawBsonRef::Document(&group),
        scope,
    )?)));
    out.push(Stage::Sort {
        order: Sort::parse(&bson::rawdoc! { "count": -1 })?,
        limit: None,
    });
    Ok(())
}

fn parse_facet(raw: RawBsonRef<'_>, scope: &VariableScope) -> Result<Vec<(String, Pipeline)>> {
    let specification = match raw {
        RawBsonRef::Document(document) if !document.is_empty() => document,
        _ => {
            return Err(Error::location(
                40169,
                format!(
                    "the $facet specification must be a non-empty object, but found: {}",
                    text::element("$facet", raw)
                ),
            ));
        }
    };
    let mut facets = Vec::new();
    for entry in specification.iter() {
        let (key, raw) = entry.map_err(corrupt)?;
        let name = key.as_str();
        if name.contains('.') {
            return Err(Error::location(
                16412,
                "FieldPath field names may not contain '.'. Consider using $getField or $setField.",
            ));
        }
        if name.is_empty() {
            let message = "FieldPath field names may not be empty strings.";
            return Err(Error::location(15998, message));
        }
        parse_field_path(name)?;
        let RawBsonRef::Array(array) = raw else {
            return Err(Error::location(
                40170,
                format!(
                    "arguments to $facet must be arrays, {name} is type {}",
                    type_name(raw.element_type())
                ),
            ));
        };
        facets.push((name.to_owned(), parse_facet_pipeline(name, array, scope)?));
    }
    Ok(facets)
}

fn parse_facet_pipeline(
    name: &str,
    array: &bson::RawArray,
    scope: &VariableScope,
) -> Result<Pipeline> {
    let mut stages: Vec<&RawDocument> = Vec::new();
    for (place, stage) in array.into_iter().enumerate() {
        match stage.map_err(corrupt)? {
            RawBsonRef::Document(document) => stages.push(document),
            other => {
                return Err(Error::location(
                    40171,
                    format!(
                        "elements of arrays in $facet spec must be non-empty objects, {name} argument contained an element \
                         of type {}: {}",
                        type_name(other.element_type()),
                        text::element(&place.to_string(), other)
                    ),
                ));
            }
        }
    }
    for stage in &stages {
        let name = stage
            .iter()
            .flatten()
            .next()
            .map_or("", |(key, _)| key.as_str());
        if matches!(
            name,
            "$out"
                | "$merge"
                | "$facet"
                | "$indexStats"
                | "$collStats"
                | "$listCatalog"
                | "$planCacheStats"
                | "$geoNear"
                | "$documents"
        ) {
            return Err(Error::location(
                40600,
                format!("{name} is not allowed to be used within a $facet stage"),
            ));
        }
    }
    if SearchKind::of_pipeline(&stages) == Some(SearchKind::Text) {
        return Err(Error::location(
            UNAVAILABLE,
            "query requires text score metadata, but it is not available",
        ));
    }
    Pipeline::parse_with(&stages, scope)
}
