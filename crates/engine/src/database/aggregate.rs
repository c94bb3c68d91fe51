//! `aggregate`: what the storage can answer is planned, or counted (see `counting`), the stages behind it
//! are run, and what `$out` and `$merge` are to write is written (see `output`).

use super::Engine;
use super::output::check_output;
use super::read::{Opened, everything};
use super::requests::{AggregateRequest, AggregateTarget, CountRequest, parse_context};
use crate::aggregate::{Executor, Limits, Pipeline, Stage, dependencies};
use crate::catalog::Collection;
use crate::cursor::{Query, Source};
use crate::error::{Code, Error, Result};
use crate::exec::{Rows, SampleSize, parallel};
use crate::expression::{FieldSet, MetadataScope, VariableScope, Variables, mentions_metadata};
use crate::index::IndexField;
use crate::namespace::Namespace;
use crate::plan::{Hint, QuerySpec};
use crate::query::{Filter, Sort};
use crate::sorter::SpillSpace;
use bson::raw::{CString, RawDocument, RawDocumentBuf};
use bson::{DateTime, cstr, rawdoc};
use std::ops::ControlFlow;
use std::sync::Arc;

/// A pipeline, split into what is planned and what is run on the rows.
pub(crate) struct Split {
    pub spec: QuerySpec,
    pub stages: Vec<Stage>,
    /// `$out` or `$merge`.
    pub output: Option<Stage>,
    /// The pipeline only counts what the plan finds, and names the result so.
    pub count_as: Option<CountShape>,
    /// The first stage draws from what the plan finds.
    pub sample: Option<SampleSize>,
}

/// How the answer of a counting pipeline looks.
pub(crate) enum CountShape {
    /// `{$count: "name"}`: no document when nothing matches.
    Count(CString),
    /// `{$group: {_id: constant, name: {$sum: 1}}}`, as drivers' `countDocuments` sends it.
    Group(RawDocumentBuf, CString),
}

impl Engine {
    /// Starts an aggregation. With `$out` or `$merge` it runs to its end here.
    ///
    /// # Errors
    /// What the stages refuse; storage failures.
    pub fn aggregate(
        &self,
        target: &AggregateTarget,
        request: &AggregateRequest<'_>,
    ) -> Result<Query> {
        let pipeline = parse(request)?;
        let namespace = match target {
            AggregateTarget::Collection(namespace) => namespace,
            AggregateTarget::Database(_) => {
                return Err(Error::new(
                    Code::InvalidNamespace,
                    "{aggregate: 1} is not valid for this pipeline; give a collection",
                ));
            }
        };
        if let Some(source) = pipeline.stages.first().filter(|stage| stage.is_source()) {
            let documents = self.source_documents(namespace, source, request.host)?;
            let limits = self.limits(request.allow_disk_use);
            return run(documents, &pipeline.stages[1..], &limits);
        }
        let split = self.split(namespace, pipeline, request)?;
        if let Some(shape) = &split.count_as {
            return self.counted(namespace, &split, shape, request);
        }
        let Split {
            spec,
            stages,
            output,
            sample,
            ..
        } = split;
        let limits = self.limits(request.allow_disk_use);
        let query = match self.open_view(namespace) {
            None => over_rows(crate::exec::nothing(), &stages, &limits)?,
            Some(opened) => match self.count_groups(&opened, &spec, &stages, &limits)? {
                Some(counted) => counted,
                None => self.stream(opened, spec, &stages, sample, &limits)?,
            },
        };
        match output {
            None => Ok(query),
            Some(output) => self.write_output(namespace, &output, query, request),
        }
    }

    /// What the stages of a statement may hold in memory; they spill to the data directory.
    pub(super) fn limits(&self, allow_disk_use: bool) -> Limits {
        Limits::new(allow_disk_use).with_space(SpillSpace::of(&self.store))
    }

    /// Runs the stages over what the plan finds.
    fn stream(
        &self,
        opened: Opened,
        spec: QuerySpec,
        stages: &[Stage],
        sample: Option<SampleSize>,
        limits: &Limits,
    ) -> Result<Query> {
        let prepared = self.prepare_measured(opened, spec)?;
        let (plan, collection) = (&prepared.plan, &prepared.collection);
        let sorts = |stage: &Stage| matches!(stage, Stage::Sort { .. });
        if plan.sort.is_none() && stages.iter().any(sorts) {
            self.work.add_sort();
        }
        match prepared.sample(sample)? {
            Some(sample) => {
                self.work.add_total(&plan.access, collection);
                over_rows(sample.rows, &stages[1..], limits)
            }
            None => {
                self.work.add_plan(plan, collection);
                over_rows(prepared.rows()?, stages, limits)
            }
        }
    }

    /// Splits a pipeline, once it is known at which path a `$geoNear` measures.
    pub(super) fn split(
        &self,
        namespace: &Namespace,
        mut pipeline: Pipeline,
        request: &AggregateRequest<'_>,
    ) -> Result<Split> {
        if let Some(last) = pipeline.stages.last() {
            check_output(namespace, last)?;
        }
        let Some(Stage::GeoNear(geo_near)) = pipeline.stages.first_mut() else {
            return split(pipeline, request);
        };
        let collection = self.catalog.get(namespace).ok_or_else(|| {
            Error::new(
                Code::NamespaceNotFound,
                format!("$geoNear requires a geo index to run, but {namespace} does not exist"),
            )
        })?;
        if geo_near.key.is_none() {
            geo_near.key = Some(only_geo_path(&collection)?);
        }
        split(pipeline, request)
    }

    fn counted(
        &self,
        namespace: &Namespace,
        split: &Split,
        shape: &CountShape,
        request: &AggregateRequest<'_>,
    ) -> Result<Query> {
        let count = self.count(
            namespace,
            &CountRequest {
                filter: &split.spec.filter_source,
                skip: split.spec.skip,
                limit: split.spec.limit,
                hint: request.hint,
            },
        )?;
        if count == 0 {
            return Ok(Query::empty());
        }
        let mut answer = RawDocumentBuf::new();
        let name = match shape {
            CountShape::Count(name) => name,
            CountShape::Group(id, name) => {
                if let Ok(Some(id)) = id.get("_id") {
                    answer.append(cstr!("_id"), id);
                }
                name
            }
        };
        match i32::try_from(count) {
            Ok(count) => answer.append(name, count),
            Err(_) => answer.append(name, count),
        }
        Ok(Query::from_documents(vec![answer]))
    }

    fn source_documents(
        &self,
        namespace: &Namespace,
        source: &Stage,
        host: &str,
    ) -> Result<Vec<RawDocumentBuf>> {
        match source {
            Stage::IndexStats => Ok(self.index_stats(namespace, host)),
            Stage::CollectionStats(options) => self
                .collection_stats_document(namespace, options)
                .map(|one| vec![one]),
            other => Err(Error::not_implemented(format!(
                "the stage {} as a source",
                other.name()
            ))),
        }
    }

    fn collection_stats_document(
        &self,
        namespace: &Namespace,
        options: &RawDocument,
    ) -> Result<RawDocumentBuf> {
        let stats = self.collection_stats(namespace)?;
        let mut answer = rawdoc! { "ns": namespace.to_string(), "localTime": DateTime::now() };
        for (name, _) in options.iter().flatten() {
            match name.as_str() {
                "count" => answer.append(cstr!("count"), stats.count),
                "storageStats" => answer.append(
                    cstr!("storageStats"),
                    rawdoc! {
                        "size": stats.size,
                        "count": stats.count,
                        "avgObjSize": stats.average_object_size,
                        "storageSize": stats.storage_size,
                        "totalIndexSize": stats.total_index_size,
                        "totalSize": stats.storage_size + stats.total_index_size,
                        "nindexes": i32::try_from(stats.index_sizes.len()).unwrap_or(i32::MAX),
                    },
                ),
                other => {
                    return Err(Error::not_implemented(format!(
                        "the option '{other}' of $collStats"
                    )));
                }
            }
        }
        Ok(answer)
    }
}

/// Parses the pipeline with the command's variables.
pub(crate) fn parse(request: &AggregateRequest<'_>) -> Result<Pipeline> {
    let scope = match request.variables {
        Some(variables) => VariableScope::from_let(variables)?,
        None => VariableScope::default(),
    };
    let first = request
        .pipeline
        .first()
        .and_then(|stage| stage.iter().next());
    let is_nearest_first = matches!(first, Some(Ok((name, _))) if name.as_str() == "$geoNear");
    let metadata = MetadataScope::of_query(is_nearest_first);
    Pipeline::parse_with(&request.pipeline, &scope.with_metadata(metadata))
}

/// Splits off what the planner can do: leading `$match`es, then `$sort`, `$skip` and `$limit`.
fn split(pipeline: Pipeline, request: &AggregateRequest<'_>) -> Result<Split> {
    let mut stages: std::collections::VecDeque<Stage> = pipeline.stages.into();
    let output = stages.pop_back_if(|stage| stage.is_output());
    let geo_near = match stages.pop_front_if(|stage| matches!(stage, Stage::GeoNear(_))) {
        Some(Stage::GeoNear(geo_near)) => Some(geo_near),
        _ => None,
    };
    let filter_source = match &geo_near {
        Some(geo_near) => geo_near.filter(),
        None => leading_match(&mut stages, &request.pipeline)?,
    };
    let context = parse_context(request.variables)?;
    let filter = Filter::parse_with(&filter_source, &context)?.simplify();
    let mut spec = QuerySpec {
        nearest: filter.nearest()?,
        filter: Arc::new(filter),
        filter_source,
        sort: None,
        skip: 0,
        limit: None,
        projection: None,
        projection_source: None,
        hint: Hint::parse(request.hint)?,
        needs: FieldSet::All,
        allow_disk_use: request.allow_disk_use,
    };
    let count_as = count_shape(&stages, request).filter(|_| geo_near.is_none());
    if let (Some(Stage::Sort { order, limit }), None) = (stages.front(), &geo_near) {
        spec.sort = Some(Arc::new(Sort::parse(&order.to_document())?));
        spec.limit = *limit;
        stages.pop_front();
    } else if let Some(Stage::Limit(limit)) = stages.front() {
        spec.limit = Some(*limit);
        stages.pop_front();
    }
    let sample = match stages.front() {
        Some(Stage::Sample { size, seed }) if spec.sort.is_none() && spec.limit.is_none() => {
            Some(SampleSize {
                size: *size,
                seed: seed.map(i64::cast_unsigned),
            })
        }
        _ => None,
    };
    if let (Some(geo_near), Some(nearest)) = (geo_near, &spec.nearest) {
        let behind = &request.pipeline[1..];
        let keeps_metadata = behind.iter().any(|stage| mentions_metadata(stage));
        let add = geo_near.add_distance(nearest.clone(), keeps_metadata);
        stages.push_front(Stage::AddDistance(Box::new(add)));
    }
    spec.needs = dependencies(&stages);
    Ok(Split {
        sample,
        spec,
        stages: stages.into(),
        output,
        count_as,
    })
}

/// The path of the only geo index: planar ones are asked first, as in MongoDB.
fn only_geo_path(collection: &Collection) -> Result<String> {
    for (kind, name) in [
        (IndexField::Plane2d, "2d"),
        (IndexField::Sphere2d, "2dsphere"),
    ] {
        let paths: Vec<&String> = collection
            .ready_indexes()
            .filter_map(|index| index.spec.key.iter().find(|(_, field)| *field == kind))
            .map(|(path, _)| path)
            .collect();
        match paths.as_slice() {
            [] => {}
            [only] => return Ok((*only).clone()),
            _ => {
                let namespace = &collection.namespace;
                return Err(Error::new(
                    Code::IndexNotFound,
                    format!(
                        "There is more than one {name} index on {namespace}; unsure which to use for $geoNear"
                    ),
                ));
            }
        }
    }
    Err(Error::new(
        Code::IndexNotFound,
        "$geoNear requires a 2d or 2dsphere index, but none were found",
    ))
}

/// Takes the leading `$match` stages off and returns their conditions as one document.
fn leading_match(
    stages: &mut std::collections::VecDeque<Stage>,
    sources: &[&RawDocument],
) -> Result<RawDocumentBuf> {
    let mut parts: Vec<&RawDocument> = Vec::new();
    for source in sources {
        let (Some(Stage::Match(_)), Ok(condition)) =
            (stages.front(), source.get_document("$match"))
        else {
            break;
        };
        parts.push(condition);
        stages.pop_front();
    }
    Ok(match parts.as_slice() {
        [] => everything().to_owned(),
        [only] => (*only).to_owned(),
        several => {
            let mut all = bson::raw::RawArrayBuf::new();
            several.iter().for_each(|part| all.push((*part).to_owned()));
            rawdoc! { "$and": all }
        }
    })
}

/// Whether what is left only counts.
fn count_shape(
    stages: &std::collections::VecDeque<Stage>,
    request: &AggregateRequest<'_>,
) -> Option<CountShape> {
    if stages.len() != 1 {
        return None;
    }
    let last = request.pipeline.last()?;
    if let Some(Stage::Count(name)) = stages.front() {
        return CString::try_from(name.as_str()).ok().map(CountShape::Count);
    }
    let group = last.get_document("$group").ok()?;
    let fields: Vec<_> = group.iter().flatten().collect();
    let [(id_name, id), (name, sum)] = fields.as_slice() else {
        return None;
    };
    let constant = matches!(
        id,
        bson::RawBsonRef::Null
            | bson::RawBsonRef::Int32(_)
            | bson::RawBsonRef::Int64(_)
            | bson::RawBsonRef::Double(_)
    );
    let one = sum.as_document()?.get_i32("$sum").ok() == Some(1)
        && sum.as_document()?.iter().count() == 1;
    if id_name.as_str() != "_id" || !constant || !one {
        return None;
    }
    let mut id_document = RawDocumentBuf::new();
    id_document.append(cstr!("_id"), *id);
    CString::try_from(name.as_str())
        .ok()
        .map(|name| CountShape::Group(id_document, name))
}

fn over_rows(rows: Box<dyn Rows>, stages: &[Stage], limits: &Limits) -> Result<Query> {
    if stages.is_empty() {
        return Ok(
            Query::from_rows(rows).with_error_context("PlanExecutor error during aggregation")
        );
    }
    let executor = executor(stages, limits)?;
    Ok(Query::new(Source::Documents(Box::new(Running {
        rows: Some(rows),
        executor,
        is_shared: false,
    }))))
}

/// Runs stages over documents that are there already.
pub(super) fn run(
    documents: Vec<RawDocumentBuf>,
    stages: &[Stage],
    limits: &Limits,
) -> Result<Query> {
    if stages.is_empty() {
        return Ok(Query::from_documents(documents));
    }
    let mut executor = executor(stages, limits)?;
    for document in &documents {
        if executor.push(document)?.is_break() {
            break;
        }
    }
    executor.finish()?;
    Ok(Query::new(Source::Documents(Box::new(Running {
        rows: None,
        executor,
        is_shared: true,
    }))))
}

pub(super) fn executor(stages: &[Stage], limits: &Limits) -> Result<Executor> {
    Executor::new(stages, Variables::new(DateTime::now()), limits)
}

/// Pushes rows into the stages as results are asked for.
struct Running {
    rows: Option<Box<dyn Rows>>,
    executor: Executor,
    /// Whether it was tried to share the rows between two cores.
    is_shared: bool,
}

impl Running {
    /// Pushes many rows at once, half of them on another core, where the first stages that keep anything
    /// can be merged.
    fn share(&mut self) -> Result<()> {
        if std::mem::replace(&mut self.is_shared, true) {
            return Ok(());
        }
        let Some(rows) = &mut self.rows else {
            return Ok(());
        };
        let Some(mut fork) = self.executor.fork() else {
            return Ok(());
        };
        let Some(mut other) = rows.split_off() else {
            return Ok(());
        };
        let (first, second) = parallel::join_long(
            || push_all(rows.as_mut(), &mut self.executor),
            || push_all(other.as_mut(), &mut fork),
        );
        first?;
        second?;
        self.rows = None;
        self.executor.merge(fork)?;
        self.executor.finish()
    }

    fn next_result(&mut self) -> Result<Option<RawDocumentBuf>> {
        self.share()?;
        loop {
            if let Some(document) = self.executor.pull()? {
                return Ok(Some(document));
            }
            let Some(rows) = &mut self.rows else {
                return Ok(None);
            };
            let wants_more = rows.advance()?
                && self.executor.push(rows.row().document)? == ControlFlow::Continue(());
            if !wants_more {
                self.executor.finish()?;
                self.rows = None;
            }
        }
    }
}

fn push_all(rows: &mut dyn Rows, executor: &mut Executor) -> Result<()> {
    while rows.advance()? {
        let _ = executor.push(rows.row().document)?;
    }
    Ok(())
}

impl Iterator for Running {
    type Item = Result<RawDocumentBuf>;

    fn next(&mut self) -> Option<Self::Item> {
        self.next_result().transpose()
    }
}
