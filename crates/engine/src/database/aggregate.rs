//! `aggregate`: what the storage can answer is planned, or counted (see `counting`), the stages behind it
//! are run, and what `$out` and `$merge` are to write is written (see `output`).

use super::Engine;
use super::counting::{count, count_documents};
use super::foreign::ForeignCollections;
use super::list_catalog::NO_COLLECTION;
use super::output::check_output;
use super::read::{Opened, ends_after};
use super::requests::{AggregateRequest, AggregateTarget, parse_context, scope};
use super::view::other_collation;
use crate::aggregate::{
    CollectionStatsOptions, Executor, Limits, Pipeline, RUNNING, Stage, StageContext, at_run_time,
};
use crate::catalog::Collection;
use crate::cursor::{Documents, Query, Source};
use crate::error::{Code, Error, Result};
use crate::exec::{RowMetadata, Rows, parallel};
use crate::expression::{MetadataScope, Variables};
use crate::index::IndexField;
use crate::namespace::Namespace;
use crate::plan::{
    Answer, Hint, Method, PipelinePlan, PipelineSource, QuerySpec, Split, refuse_without_collection,
};
use crate::query::ParseContext;
use crate::sorter::SpillSpace;
use bson::DateTime;
use bson::raw::RawDocumentBuf;
use meridian_value::Collation;
use parking_lot::Mutex;
use std::collections::VecDeque;

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
        if let AggregateTarget::Collection(namespace) = target
            && !self.asks_for_figures_of_series(namespace, request)
            && let Some(view) = self.catalog.resolve_view(namespace)?
            && !self.asks_for_figures_of_view(namespace, request)?
        {
            let target = AggregateTarget::Collection(view.namespace.clone());
            let hint = view.hint(request.hint);
            return self.aggregate(&target, &view.before(request, hint.as_deref())?);
        }
        let collation = match target {
            AggregateTarget::Collection(namespace) => {
                self.collation_of(namespace, request.collation.as_ref())
            }
            AggregateTarget::Database(_) => request.collation.clone().unwrap_or_default(),
        };
        let request = &AggregateRequest {
            collation: Some(collation.clone()),
            ..request.clone()
        };
        let mut pipeline = parse(request)?;
        let namespace = target_namespace(target, &pipeline)?;
        let namespace = &namespace;
        for stage in &pipeline.stages {
            stage.check_foreign_name(&namespace.database)?;
        }
        self.check_foreign_views(namespace, &pipeline, &collation)?;
        let foreign = ForeignCollections::new(
            self,
            &namespace.database,
            request.host,
            request.allow_disk_use,
        );
        let running = Running {
            context: StageContext {
                limits: self.limits(request.allow_disk_use),
                foreign: Some(foreign),
                is_within: false,
            },
            variables: Variables::new(DateTime::now()).with_collation(collation.clone()),
            host: request.host,
            latencies: request.latencies.clone(),
        };
        let (answer, output) = if begins_with_source(&pipeline) {
            let output = pipeline.stages.pop_if(|stage| stage.is_output());
            if let Some(output) = &output {
                check_output(namespace, output)?;
            }
            let answer = self.run_source(namespace, &pipeline, &running)?;
            (answer, output)
        } else {
            let mut split = self.split(namespace, pipeline, request)?;
            let output = split.output.take();
            let opened = self.open_view(namespace)?;
            (self.run_split(namespace, opened, split, &running)?, output)
        };
        match output {
            None => Ok(answer.of_pipeline()),
            Some(output) => self.write_output(namespace, &output, answer, request),
        }
    }

    /// Whether a pipeline on a view begins with a `$collStats` about the view itself.
    fn asks_for_figures_of_view(
        &self,
        namespace: &Namespace,
        request: &AggregateRequest<'_>,
    ) -> Result<bool> {
        match stats_options(request)? {
            Some(options) if options.first_of_collection().is_some() => {
                Err(at_run_time(self.catalog.not_a_collection(namespace)))
            }
            options => Ok(options.is_some()),
        }
    }

    /// Refuses to join views that compare texts otherwise than the statement.
    pub(super) fn check_foreign_views(
        &self,
        namespace: &Namespace,
        pipeline: &Pipeline,
        collation: &Collation,
    ) -> Result<()> {
        let mut refused = Ok(());
        pipeline.for_each_foreign(&mut |name| {
            let name = Namespace {
                database: namespace.database.clone(),
                collection: name.to_owned(),
            };
            let view = self.catalog.view(&name);
            if view.is_some_and(|view| view.collation != *collation) {
                refused = Err(other_collation(&name.to_string()));
            }
        });
        refused
    }

    /// Runs a pipeline that a stage of another one asks for, on a view that is that one's.
    pub(super) fn run_foreign(
        &self,
        namespace: &Namespace,
        opened: Option<Opened>,
        pipeline: Pipeline,
        query: QuerySpec,
        running: &Running<'_>,
    ) -> Result<Query> {
        if begins_with_source(&pipeline) {
            return self.run_source(namespace, &pipeline, running);
        }
        let mut context = parse_context(None, running.variables.collation())?;
        context.scope = context.scope.counting(false);
        let split = self.split_query(namespace, pipeline, query, &context)?;
        self.run_split(namespace, opened, split, running)
    }

    fn run_source(
        &self,
        namespace: &Namespace,
        pipeline: &Pipeline,
        running: &Running<'_>,
    ) -> Result<Query> {
        let source = pipeline.stages.first().expect("a stage that is a source");
        let documents = self.source_documents(namespace, source, running)?;
        run(documents, &pipeline.stages[1..], running)
    }

    fn run_split(
        &self,
        namespace: &Namespace,
        opened: Option<Opened>,
        split: Split,
        running: &Running<'_>,
    ) -> Result<Query> {
        let Split { query, stages, .. } = split;
        match opened {
            None => {
                refuse_without_collection(namespace, &query.filter)?;
                over_rows(crate::exec::nothing(), None, &Vec::from(stages), running)
            }
            Some(opened) => self.run_pipeline(opened, query, stages, running),
        }
    }

    /// What the stages of a statement may hold in memory; they spill to the data directory.
    pub(super) fn limits(&self, allow_disk_use: bool) -> Limits {
        Limits::new(allow_disk_use).with_space(SpillSpace::of(&self.store))
    }

    /// Plans a pipeline on a view, and runs it.
    fn run_pipeline(
        &self,
        opened: Opened,
        query: QuerySpec,
        stages: VecDeque<Stage>,
        running: &Running<'_>,
    ) -> Result<Query> {
        let limits = &running.context.limits;
        let PipelinePlan { source, stages } = opened.plan_pipeline(query, stages)?;
        let answer = match source {
            PipelineSource::Plan(answer) => answer,
            PipelineSource::Facets(facets) => {
                return self.count_facets(&opened, &facets, &stages, running);
            }
        };
        if let Method::CountGroups(..) = answer.plan.method {
            self.work.add_plan(&answer.plan, &opened.collection);
            let counted = count(&[&answer], &opened, limits, &self.work.context())?;
            let documents = counted.into_iter().flat_map(|one| one.documents).collect();
            return run(documents, &stages, running);
        }
        let Answer { plan, shape } = *answer;
        let sorts = |stage: &Stage| matches!(stage, Stage::Sort { .. });
        if plan.sort.is_none() && stages.iter().any(sorts) {
            self.work.add_sort();
        }
        let prepared = self.start_plan(opened, plan);
        match &prepared.plan.method {
            Method::Count(by) => {
                let documents = count_documents(shape.as_ref(), prepared.count(by)?, limits)?;
                run(documents, &stages, running)
            }
            Method::SampleByRank(size, countable) => {
                let sample = prepared.sample(*size, countable)?;
                over_rows(sample.rows, None, &stages, running)
            }
            _ => {
                let rows = over_rows(prepared.rows()?, prepared.metadata(), &stages, running)?;
                Ok(rows.ending_after(
                    stages
                        .is_empty()
                        .then(|| ends_after(&prepared.plan))
                        .flatten(),
                ))
            }
        }
    }

    /// Splits the pipeline of a request.
    pub(super) fn split(
        &self,
        namespace: &Namespace,
        pipeline: Pipeline,
        request: &AggregateRequest<'_>,
    ) -> Result<Split> {
        if let Some(last) = pipeline.stages.last() {
            check_output(namespace, last)?;
        }
        let collation = request.collation.clone().unwrap_or_default();
        // (Stages were counted with the pipeline.)
        let mut context = parse_context(request.variables, &collation)?;
        context.scope = context.scope.counting(false);
        let query = QuerySpec {
            collation,
            hint: Hint::parse(request.hint)?,
            allow_disk_use: request.allow_disk_use,
            ..QuerySpec::everything()
        };
        self.split_query(namespace, pipeline, query, &context)
    }

    /// Splits a pipeline, once it is known at which path a `$geoNear` measures.
    fn split_query(
        &self,
        namespace: &Namespace,
        mut pipeline: Pipeline,
        query: QuerySpec,
        context: &ParseContext,
    ) -> Result<Split> {
        if let Some(Stage::GeoNear(geo_near)) = pipeline.stages.first_mut() {
            let collection = self.catalog.get(namespace).ok_or_else(|| {
                Error::new(
                    Code::NamespaceNotFound,
                    format!("$geoNear requires a geo index to run, but {namespace} does not exist"),
                )
            })?;
            if geo_near.key.is_none() {
                geo_near.key = Some(only_geo_path(&collection)?);
            }
        }
        Split::new(pipeline, query, context)
    }

    fn source_documents(
        &self,
        namespace: &Namespace,
        source: &Stage,
        running: &Running<'_>,
    ) -> Result<Vec<RawDocumentBuf>> {
        match source {
            Stage::Documents(own) => own.documents(&running.variables).map_err(at_run_time),
            Stage::IndexStats => Ok(self.index_stats(namespace, running.host)),
            Stage::ListCatalog => self.catalog_entries(namespace),
            Stage::PlanCacheStats => match self.catalog.get(namespace) {
                None => Err(at_run_time(Error::location(
                    50933,
                    format!("collection '{namespace}' does not exist"),
                ))),
                Some(own) => self.plan_cache_stats(namespace, &own, running.host),
            },
            Stage::CollectionStats(options) => self
                .collection_stats_document(
                    namespace,
                    *options,
                    running.latencies.as_deref(),
                    running.host,
                )
                .map(|one| vec![one]),
            other => Err(Error::not_implemented(format!(
                "the stage {} as a source",
                other.name()
            ))),
        }
    }
}

/// What all stages of a statement share.
pub(super) struct Running<'a> {
    pub context: StageContext,
    pub variables: Variables,
    /// What `$indexStats` calls this server.
    pub host: &'a str,
    /// What `$collStats` tells of latencies.
    pub latencies: Option<RawDocumentBuf>,
}

/// The options of `$collStats`, where a pipeline begins with it.
fn stats_options(request: &AggregateRequest<'_>) -> Result<Option<CollectionStatsOptions>> {
    let first = request.pipeline.first();
    let first = first.and_then(|stage| stage.get("$collStats").ok().flatten());
    first.map(CollectionStatsOptions::parse).transpose()
}

/// The name of the first stage.
pub(super) fn first_stage<'r>(request: &AggregateRequest<'r>) -> Option<&'r str> {
    let first = request.pipeline.first()?;
    let (name, _) = first.iter().flatten().next()?;
    Some(name.as_str())
}

pub(crate) fn begins_with_source(pipeline: &Pipeline) -> bool {
    pipeline.stages.first().is_some_and(Stage::is_source)
}

/// The collection that a pipeline reads first; one without a name for a pipeline that brings its own documents.
fn target_namespace(target: &AggregateTarget, pipeline: &Pipeline) -> Result<Namespace> {
    let brings_documents = matches!(pipeline.stages.first(), Some(Stage::Documents(_)));
    let lists_catalog = matches!(pipeline.stages.first(), Some(Stage::ListCatalog));
    let refused = |message| Err(Error::new(Code::InvalidNamespace, message));
    match target {
        AggregateTarget::Collection(_) if brings_documents => {
            refused("'$documents' can only be run with {aggregate: 1}")
        }
        AggregateTarget::Collection(namespace) => Ok(namespace.clone()),
        AggregateTarget::Database(database) if brings_documents => Ok(Namespace {
            database: database.clone(),
            collection: String::new(),
        }),
        AggregateTarget::Database(database) if lists_catalog && database != "admin" => refused(
            "Collectionless $listCatalog must be run against the 'admin' database with {aggregate: 1}",
        ),
        AggregateTarget::Database(database) if lists_catalog => Ok(Namespace {
            database: database.clone(),
            collection: NO_COLLECTION.to_owned(),
        }),
        AggregateTarget::Database(_) => {
            refused("{aggregate: 1} is not valid for this pipeline; give a collection")
        }
    }
}

/// Parses the pipeline with the command's variables.
pub(crate) fn parse(request: &AggregateRequest<'_>) -> Result<Pipeline> {
    let collation = request.collation.clone().unwrap_or_default();
    let scope = scope(request.variables, &collation)?;
    let metadata = MetadataScope::of_pipeline(&request.pipeline);
    Pipeline::parse_with(&request.pipeline, &scope.with_metadata(metadata))
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

fn over_rows(
    rows: Box<dyn Rows>,
    metadata: Option<RowMetadata>,
    stages: &[Stage],
    running: &Running<'_>,
) -> Result<Query> {
    if stages.is_empty() {
        return Ok(Query::from_rows(rows).with_error_context(RUNNING));
    }
    let executor = executor(stages, running)?;
    let is_shared = metadata.is_some();
    Ok(Query::new(Source::Documents(Box::new(Pushing {
        rows: Some(rows),
        metadata,
        executor,
        // What is told of rows is told on one core.
        is_shared,
    }))))
}

/// Runs stages over documents that are there already.
pub(super) fn run(
    documents: Vec<RawDocumentBuf>,
    stages: &[Stage],
    running: &Running<'_>,
) -> Result<Query> {
    if stages.is_empty() {
        return Ok(Query::from_documents(documents));
    }
    let mut executor = executor(stages, running)?;
    for document in &documents {
        if executor.push(document)?.is_break() {
            break;
        }
    }
    executor.finish()?;
    Ok(Query::new(Source::Documents(Box::new(Pushing {
        rows: None,
        metadata: None,
        executor,
        is_shared: true,
    }))))
}

pub(super) fn executor(stages: &[Stage], running: &Running<'_>) -> Result<Executor> {
    Executor::new(stages, running.variables.clone(), &running.context)
}

/// Pushes rows into the stages as results are asked for.
struct Pushing {
    rows: Option<Box<dyn Rows>>,
    /// What the stages are told of each row.
    metadata: Option<RowMetadata>,
    executor: Executor,
    /// Whether it was tried to share the rows between two cores.
    is_shared: bool,
}

impl Pushing {
    /// Pushes many rows at once, parts of them on another core, where the first stages that keep anything
    /// can be merged.
    fn share(&mut self) -> Result<()> {
        if std::mem::replace(&mut self.is_shared, true) {
            return Ok(());
        }
        let Some(rows) = &mut self.rows else {
            return Ok(());
        };
        if self.executor.fork().is_none() {
            return Ok(());
        }
        let mut others = later_parts(rows.as_mut());
        if others.is_empty() {
            return Ok(());
        }
        let forks = others.iter().map(|_| self.executor.fork());
        let forks: Option<Vec<Executor>> = forks.collect();
        let mut forks = forks.ok_or_else(|| Error::internal("stages that cannot be shared"))?;
        let parts = others.iter_mut().map(|rows| rows.as_mut());
        let own = std::iter::once((rows.as_mut(), &mut self.executor));
        let parts = Mutex::new(own.chain(parts.zip(&mut forks)));
        let work = || -> Result<()> {
            loop {
                let next = parts.lock().next();
                match next {
                    Some((rows, executor)) => push_all(rows, executor)?,
                    None => return Ok(()),
                }
            }
        };
        let (first, second) = parallel::join_long(work, work);
        first.and(second)?;
        self.rows = None;
        for fork in forks {
            self.executor.merge(fork)?;
        }
        self.executor.finish()
    }
}

/// Parts of rows, at most.
const PARTS_MAX: usize = 8;

/// Gives away all but the first part of rows, in their order. Where many a part has little to do, several of them keep both
/// cores at work.
fn later_parts(rows: &mut dyn Rows) -> Vec<Box<dyn Rows>> {
    let mut others: Vec<Box<dyn Rows>> = Vec::new();
    while 2 * (others.len() + 1) <= PARTS_MAX {
        let before = others.len();
        let mut halved = Vec::new();
        halved.extend(rows.split_off());
        for mut part in others {
            let rest = part.split_off();
            halved.push(part);
            halved.extend(rest);
        }
        if halved.len() == before {
            return halved;
        }
        others = halved;
    }
    others
}

fn push_all(rows: &mut dyn Rows, executor: &mut Executor) -> Result<()> {
    while rows.advance()? {
        let _ = executor.push(rows.row().document)?;
    }
    Ok(())
}

impl Documents for Pushing {
    fn next(&mut self) -> Result<Option<RawDocumentBuf>> {
        self.share()?;
        loop {
            if let Some(document) = self.executor.pull()? {
                return Ok(Some(document));
            }
            let Some(rows) = &mut self.rows else {
                return Ok(None);
            };
            let mut wants_more = rows.advance()?;
            if wants_more {
                let row = rows.row();
                let metadata = self.metadata.as_ref().map(|metadata| metadata.of(row));
                let metadata = metadata.transpose().map_err(at_run_time)?;
                wants_more = self
                    .executor
                    .push_knowing(row.document, metadata)?
                    .is_continue();
            }
            if !wants_more {
                self.executor.finish()?;
                self.rows = None;
            }
        }
    }

    /// The current row has been pushed into the stages.
    fn suspend(&mut self) -> Result<()> {
        if let Some(rows) = &mut self.rows {
            rows.suspend(false)?;
        }
        Ok(())
    }
}
