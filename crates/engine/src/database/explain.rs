//! `explain`: plans a statement, runs its reading part when asked to, changes nothing.

use super::Engine;
use super::aggregate::{begins_with_source, parse};
use super::counting::{Counted, Figures, count};
use super::distinct::distinct_spec;
use super::explain_project;
use super::read::{Opened, PreparedPlan, count_spec, query_spec};
use super::requests::{
    AggregateRequest, ExplainRequest, FindAndModifyAction, FindRequest, Verbosity,
};
use super::stage_statistics::{Executed, with_statistics};
use super::view::ViewStatement;
use crate::aggregate::{Limits, Stage};
use crate::catalog::{Collection, ResolvedView, ShapeHashes};
use crate::error::{Error, Result};
use crate::exec::{Context, Rows, entries_by_rank};
use crate::namespace::Namespace;
use crate::plan::{
    Access, Amount, Answer, CountBy, Countable, FacetPlan, FieldRanges, Goal, Method, PipelinePlan,
    PipelineSource, Plan, QuerySpec, SampleSize, Split, above, access_document, count_document,
    counted_document, plan_document,
};
use crate::query::Filter;
use crate::rank::ReadView;
use bson::raw::{CString, RawArrayBuf, RawDocumentBuf};
use bson::{cstr, rawdoc};
use meridian_value::Collation;
use std::sync::Arc;
use std::time::{Duration, Instant};

impl Engine {
    /// The plan of a statement in MongoDB's shape: `explainVersion`, `queryPlanner`, and with a higher
    /// verbosity `executionStats`. The caller adds `command` and `serverInfo`.
    ///
    /// # Errors
    /// What the statement itself would refuse.
    pub fn explain(
        &self,
        namespace: &Namespace,
        request: &ExplainRequest<'_>,
        verbosity: Verbosity,
    ) -> Result<RawDocumentBuf> {
        if let Some(view) = self.catalog.resolve_view(namespace)? {
            return self.explain_on_view(namespace, &view, request, verbosity);
        }
        let mut answer = rawdoc! { "explainVersion": "1" };
        let collation = self.collation_of(namespace, request.collation()?.as_ref());
        if let ExplainRequest::Aggregate(aggregate) = request {
            let mut aggregate = aggregate.clone();
            aggregate.collation = Some(collation);
            let pipeline = parse(&aggregate)?;
            if begins_with_source(&pipeline) {
                append_stages(written(&pipeline.stages, None, &aggregate), &mut answer);
                return Ok(answer);
            }
            let split = self.split(namespace, pipeline, &aggregate)?;
            self.explain_pipeline(namespace, split, &aggregate, verbosity, &mut answer)?;
            return Ok(answer);
        }
        self.check_change(namespace, request)?;
        let (query, goal, write) = query_of(request.clone(), collation)?;
        let mut explained = self.explained(namespace, &query, verbosity);
        match self.prepare(namespace, query, &goal)? {
            None => {
                explained.is_canonical = write.is_none() && !matches!(goal, Goal::Count);
                explained.append(ExplainedRun::nothing(), &Context::default(), &mut answer);
            }
            Some(prepared) => {
                explained.is_canonical = is_canonical(&prepared.plan, write);
                let mut run = run(&prepared, verbosity)?;
                if let Some(stage) = write {
                    run.stage = above(rawdoc! { "stage": stage }, run.stage);
                    if !matches!(request, ExplainRequest::FindAndModify(_)) {
                        run.counted = std::mem::take(&mut run.returned);
                    }
                }
                explained.append(run, &prepared.context, &mut answer);
            }
        }
        Ok(answer)
    }

    /// What is said of a query whatever its plan is.
    fn explained<'n>(
        &self,
        namespace: &'n Namespace,
        query: &QuerySpec,
        verbosity: Verbosity,
    ) -> Explained<'n> {
        let collection = self.catalog.get(namespace);
        let collection = collection.as_deref();
        Explained {
            filter: query.filter.clone(),
            collation: query.collation.clone(),
            is_filtered: collection.is_some_and(|collection| query.is_filtered(collection)),
            hashes: collection.map(|collection| query.hashes(collection)),
            is_canonical: true,
            project: None,
            is_whole_pipeline: false,
            namespace,
            verbosity,
        }
    }

    /// As a pipeline on what the view reads.
    fn explain_on_view(
        &self,
        namespace: &Namespace,
        view: &ResolvedView,
        request: &ExplainRequest<'_>,
        verbosity: Verbosity,
    ) -> Result<RawDocumentBuf> {
        if let ExplainRequest::Aggregate(aggregate) = request {
            let hint = view.hint(aggregate.hint);
            let request = ExplainRequest::Aggregate(view.before(aggregate, hint.as_deref())?);
            return self.explain(&view.namespace, &request, verbosity);
        }
        let statement = ViewStatement::explained(request);
        let statement = statement.ok_or_else(|| self.catalog.not_a_collection(namespace))?;
        let statement = statement.request();
        let hint = view.hint(statement.hint);
        let request = ExplainRequest::Aggregate(view.before(&statement, hint.as_deref())?);
        self.explain(&view.namespace, &request, verbosity)
    }

    /// A pipeline that is planned as a whole looks like a find; others are a `$cursor` and stages.
    fn explain_pipeline(
        &self,
        namespace: &Namespace,
        split: Split,
        request: &AggregateRequest<'_>,
        verbosity: Verbosity,
        answer: &mut RawDocumentBuf,
    ) -> Result<()> {
        let Split {
            query,
            stages,
            output,
        } = split;
        let mut explained = self.explained(namespace, &query, verbosity);
        explained.is_whole_pipeline = stages.is_empty() && output.is_none();
        let mut cursor = RawDocumentBuf::new();
        let may_take = query.limit.is_none();
        let mut behind = match self.open_view(namespace)? {
            None => {
                let mut stages = Vec::from(stages);
                if may_take {
                    explained.take_project(&stages, output.as_ref(), request);
                }
                // Nothing stands above nothing.
                if explained.project.take().is_some() {
                    stages.remove(0);
                }
                explained.append(ExplainedRun::nothing(), &Context::default(), &mut cursor);
                stages
            }
            Some(opened) => {
                let PipelinePlan { source, stages } = opened.plan_pipeline(query, stages)?;
                if may_take {
                    explained.take_project(&stages, output.as_ref(), request);
                }
                let limits = self.limits(request.allow_disk_use);
                self.explain_source(opened, source, &limits, &explained, &mut cursor)?;
                stages
            }
        };
        if explained.project.is_some() {
            behind.remove(0);
        }
        if explained.is_whole_pipeline {
            cursor
                .iter()
                .flatten()
                .for_each(|(name, value)| answer.append(name, value));
            return Ok(());
        }
        let cursor = rawdoc! { "$cursor": cursor };
        let stages = written(&behind, output.as_ref(), request);
        append_stages(std::iter::once(cursor).chain(stages), answer);
        Ok(())
    }

    /// What the stages of a pipeline run on.
    fn explain_source(
        &self,
        opened: Opened,
        source: PipelineSource,
        limits: &Limits,
        explained: &Explained<'_>,
        cursor: &mut RawDocumentBuf,
    ) -> Result<()> {
        let verbosity = explained.verbosity;
        let answer = match source {
            PipelineSource::Facets(facets) => {
                let context = Context::default();
                let run = run_facets(&opened, &facets, limits, &context, verbosity)?;
                explained.append(run, &context, cursor);
                return Ok(());
            }
            PipelineSource::Plan(answer) => answer,
        };
        if let Method::CountGroups(..) = answer.plan.method {
            let context = Context::default();
            let mut run = run_counted(&opened, &[&answer], limits, &context, verbosity)?;
            let root = run.stages.pop().unwrap_or_default();
            explained.append(run.into_run(root), &context, cursor);
            return Ok(());
        }
        let waits = answer.plan.waits_for_rank_index;
        let is_rows = matches!(answer.plan.method, Method::Rows);
        let prepared = self.prepare_plan(opened, answer.plan);
        explained.append(run(&prepared, verbosity)?, &prepared.context, cursor);
        if waits && is_rows {
            cursor.append(cstr!("notCounted"), "a rank index is still being built");
        }
        Ok(())
    }
}

fn append_stages(stages: impl IntoIterator<Item = RawDocumentBuf>, answer: &mut RawDocumentBuf) {
    let mut list = RawArrayBuf::new();
    stages.into_iter().for_each(|stage| list.push(stage));
    answer.append(cstr!("stages"), list);
}

/// Stages as they were written in the request, of which they are the last.
fn written(
    stages: &[Stage],
    output: Option<&Stage>,
    request: &AggregateRequest<'_>,
) -> Vec<RawDocumentBuf> {
    let names = |stage: &Stage| match stage {
        Stage::Lookup(lookup) if lookup.unwinds() => vec![stage.name(), "$unwind"],
        // It belongs to the `$match` that the plan took.
        Stage::AddScore(_) => Vec::new(),
        _ => vec![stage.name()],
    };
    let run: Vec<&'static str> = stages.iter().chain(output).flat_map(names).collect();
    let sources = &request.pipeline;
    let first = sources.len().saturating_sub(run.len());
    let stage = |(position, name): (usize, &'static str)| match sources.get(first + position) {
        Some(source) => (*source).to_owned(),
        None => rawdoc! { "stage": name },
    };
    run.into_iter().enumerate().map(stage).collect()
}

/// Whether MongoDB parses the query: not to count a whole collection, and not to change one document by its `_id`.
fn is_canonical(plan: &Plan, write: Option<&str>) -> bool {
    match &plan.access {
        Access::Primary(primary) => write.is_none() || !primary.bounds.is_single_point(),
        _ => !matches!(plan.method, Method::Count(CountBy::Metadata)),
    }
}

/// The query of a statement that compares texts by a collation, what it is for, and the stage that writes what it
/// finds.
fn query_of(
    request: ExplainRequest<'_>,
    collation: Collation,
) -> Result<(QuerySpec, Goal, Option<&'static str>)> {
    let by = Some(collation);
    Ok(match request {
        ExplainRequest::Find(mut find) => {
            find.collation = by;
            (query_spec(&find)?, Goal::Rows, None)
        }
        ExplainRequest::Count(mut count) => {
            count.collation = by;
            (count_spec(&count)?, Goal::Count, None)
        }
        ExplainRequest::Distinct(mut distinct) => {
            distinct.collation = by;
            let goal = Goal::Distinct(distinct.key.to_owned());
            (distinct_spec(&distinct)?, goal, None)
        }
        ExplainRequest::Aggregate(_) => unreachable!("a pipeline has no query of its own"),
        ExplainRequest::Update(update) => {
            let find = FindRequest {
                collation: by,
                hint: update.hint,
                variables: update.variables,
                ..FindRequest::new(update.filter)
            };
            (query_spec(&find)?, Goal::Rows, Some("UPDATE"))
        }
        ExplainRequest::Delete(delete) => {
            let find = FindRequest {
                collation: by,
                hint: delete.hint,
                variables: delete.variables,
                ..FindRequest::new(delete.filter)
            };
            (query_spec(&find)?, Goal::Rows, Some("DELETE"))
        }
        ExplainRequest::FindAndModify(modify) => {
            let find = FindRequest {
                collation: by,
                hint: modify.hint,
                variables: modify.variables,
                sort: modify.sort,
                limit: Some(1),
                ..FindRequest::new(modify.filter)
            };
            let stage = match modify.action {
                FindAndModifyAction::Remove => "DELETE",
                _ => "UPDATE",
            };
            (query_spec(&find)?, Goal::Rows, Some(stage))
        }
    })
}

/// What all answers to `explain` say.
struct Explained<'a> {
    /// The filter.
    filter: Arc<Filter>,
    collation: Collation,
    /// Whether an index filter has a say.
    is_filtered: bool,
    /// `queryHash` and `planCacheKey`, where there is a collection.
    hashes: Option<ShapeHashes>,
    /// Whether MongoDB would make a query of it that it parses, and does not go to the collection at once.
    is_canonical: bool,
    /// A stage of the pipeline that is shown above the plan's.
    project: Option<RawDocumentBuf>,
    /// Whether a pipeline has no stages but the plan's.
    is_whole_pipeline: bool,
    namespace: &'a Namespace,
    verbosity: Verbosity,
}

impl Explained<'_> {
    /// Takes a `$project` that comes first behind the plan.
    fn take_project(
        &mut self,
        stages: &[Stage],
        output: Option<&Stage>,
        request: &AggregateRequest<'_>,
    ) {
        let written = written(stages, output, request);
        let first = stages.first().zip(written.first());
        self.project = first.and_then(|(stage, source)| explain_project::taken(stage, source));
        self.is_whole_pipeline |= self.project.is_some() && stages.len() == 1 && output.is_none();
    }

    /// Appends what was planned, and what came of it if it was run.
    fn append(&self, mut run: ExplainedRun, context: &Context, answer: &mut RawDocumentBuf) {
        if let Some(project) = &self.project {
            run.stage = above(project.clone(), run.stage);
        }
        let mut planner =
            rawdoc! { "namespace": self.namespace.to_string(), "indexFilterSet": self.is_filtered };
        if self.is_canonical {
            planner.append(cstr!("parsedQuery"), self.filter.to_document());
        }
        if let Some(collation) = crate::collation::listing(&self.collation) {
            planner.append(cstr!("collation"), collation);
        }
        if let (Some(hashes), true) = (&self.hashes, self.is_canonical) {
            planner.append(cstr!("queryHash"), hashes.query_hash.as_str());
            planner.append(cstr!("planCacheKey"), hashes.plan_cache_key.as_str());
        }
        if self.is_whole_pipeline {
            planner.append(cstr!("optimizedPipeline"), true);
        }
        planner.append(cstr!("maxIndexedOrSolutionsReached"), false);
        planner.append(cstr!("maxIndexedAndSolutionsReached"), false);
        planner.append(cstr!("maxScansToExplodeReached"), false);
        planner.append(cstr!("winningPlan"), run.stage.clone());
        planner.append(cstr!("rejectedPlans"), run.rejected_plans.clone());
        answer.append(cstr!("queryPlanner"), planner);
        if self.verbosity.runs() {
            let stats = execution_stats(run, context, self.verbosity);
            answer.append(cstr!("executionStats"), stats);
        }
    }
}

/// What rank indexes counted.
struct CountedRun {
    /// Of each answer.
    stages: Vec<RawDocumentBuf>,
    returned: u64,
    elapsed: Duration,
}

impl CountedRun {
    fn into_run(self, stage: RawDocumentBuf) -> ExplainedRun {
        ExplainedRun {
            returned: self.returned,
            elapsed: self.elapsed,
            ..ExplainedRun::of(stage)
        }
    }
}

/// Explains answers that rank indexes count, and counts them unless only the plan is asked for.
fn run_counted(
    opened: &Opened,
    answers: &[&Answer],
    limits: &Limits,
    context: &Context,
    verbosity: Verbosity,
) -> Result<CountedRun> {
    let Opened { collection, view } = opened;
    let amounts = |access: &Access| amount(access, collection, view);
    let scan = |answer: &&Answer| counted_document("COUNT_SCAN", &answer.plan.access, &amounts);
    let scans: Vec<RawDocumentBuf> = answers.iter().map(scan).collect();
    let started = Instant::now();
    let counted = match verbosity.runs() {
        true => count(answers, opened, limits, context)?,
        false => Vec::new(),
    };
    let elapsed = started.elapsed();
    let figures = |number: usize| counted.get(number).map(|one: &Counted| one.figures);
    let parts = answers.iter().zip(scans).enumerate();
    let stages = parts
        .map(|(number, (answer, scan))| answer_document(answer, figures(number), scan))
        .collect();
    Ok(CountedRun {
        stages,
        returned: counted.iter().map(|one| one.figures.groups).sum(),
        elapsed,
    })
}

/// Explains a `$facet` whose parts are counted.
fn run_facets(
    opened: &Opened,
    facets: &[FacetPlan],
    limits: &Limits,
    context: &Context,
    verbosity: Verbosity,
) -> Result<ExplainedRun> {
    let answers: Vec<&Answer> = facets.iter().map(|facet| &facet.answer).collect();
    let mut run = run_counted(opened, &answers, limits, context, verbosity)?;
    let mut parts = RawDocumentBuf::new();
    for (facet, document) in facets.iter().zip(run.stages.drain(..)) {
        if let Ok(name) = CString::try_from(facet.name.as_str()) {
            parts.append(&*name, document);
        }
    }
    let mut stage = rawdoc! { "stage": "COUNTED_FACET" };
    stage.append(cstr!("facets"), parts);
    Ok(run.into_run(stage))
}

/// An answer that rank indexes count, with what came of it when it was run.
fn answer_document(
    answer: &Answer,
    figures: Option<Figures>,
    scan: RawDocumentBuf,
) -> RawDocumentBuf {
    let mut stage = match &answer.plan.method {
        Method::CountGroups(group, _) => {
            rawdoc! { "stage": "COUNTED_GROUP", "groupBy": group.path() }
        }
        _ => rawdoc! { "stage": "COUNT" },
    };
    stage.append(cstr!("countedBy"), "rankIndex");
    if let Some(figures) = figures {
        let number = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
        stage.append(cstr!("groups"), number(figures.groups));
        stage.append(cstr!("keyRuns"), number(figures.key_runs));
        stage.append(cstr!("entriesCounted"), number(figures.entries));
        stage.append(cstr!("entriesNotScanned"), number(figures.not_scanned));
    }
    above(stage, scan)
}

/// A plan that was explained, and what came of running it.
struct ExplainedRun {
    /// The root of its stages.
    stage: RawDocumentBuf,
    returned: u64,
    /// What a count counted, or how many documents are to be changed.
    counted: u64,
    elapsed: Duration,
    /// Documents that were drawn for a sample and did not match.
    rejected: Option<u64>,
    /// The plans that were not chosen.
    rejected_plans: RawArrayBuf,
    /// Whether it was stopped before it knew of its end.
    is_stopped: bool,
}

impl ExplainedRun {
    fn nothing() -> Self {
        Self::of(rawdoc! { "stage": "EOF" })
    }

    /// One that has not been run.
    fn of(stage: RawDocumentBuf) -> Self {
        Self {
            stage,
            returned: 0,
            counted: 0,
            elapsed: Duration::ZERO,
            rejected: None,
            rejected_plans: RawArrayBuf::new(),
            is_stopped: false,
        }
    }
}

/// Explains a plan, and runs it unless only the plan is asked for.
fn run(prepared: &PreparedPlan, verbosity: Verbosity) -> Result<ExplainedRun> {
    // What the rank indexes know is asked for before a plan runs, which ends the view's counts.
    let rejected_plans = rejected_plans(prepared);
    let started = Instant::now();
    let run = match &prepared.plan.method {
        Method::Rows => run_rows(prepared, verbosity)?,
        Method::Count(by) => run_count(prepared, by, verbosity)?,
        Method::SkipScan(field) => run_skip_scan(prepared, field, verbosity)?,
        Method::SampleByRank(size, countable) => run_sample(prepared, *size, countable, verbosity)?,
        Method::CountGroups(..) => return Err(Error::internal("groups are explained elsewhere")),
    };
    Ok(ExplainedRun {
        elapsed: started.elapsed(),
        rejected_plans,
        ..run
    })
}

fn run_rows(prepared: &PreparedPlan, verbosity: Verbosity) -> Result<ExplainedRun> {
    let run = ExplainedRun::of(plan_document(&prepared.plan, &amounts(prepared)));
    let returned = match verbosity.runs() {
        true => drain(prepared.rows()?)?,
        false => 0,
    };
    Ok(ExplainedRun { returned, ..run })
}

fn run_count(prepared: &PreparedPlan, by: &CountBy, verbosity: Verbosity) -> Result<ExplainedRun> {
    let counted_by = match by {
        CountBy::Metadata => {
            let input = rawdoc! { "stage": "RECORD_STORE_FAST_COUNT" };
            return Ok(ExplainedRun {
                counted: prepared.count(by)?,
                ..ExplainedRun::of(input)
            });
        }
        CountBy::RankIndex(_) => "rankIndex",
        CountBy::Entries | CountBy::Rows => "scan",
    };
    let stage = rawdoc! { "stage": "COUNT", "countedBy": counted_by };
    let run = ExplainedRun::of(count_document(&prepared.plan, stage, &amounts(prepared)));
    let counted = match verbosity.runs() {
        true => prepared.count(by)?,
        false => 0,
    };
    Ok(ExplainedRun { counted, ..run })
}

/// From value to value of an index.
fn run_skip_scan(
    prepared: &PreparedPlan,
    field: &FieldRanges,
    verbosity: Verbosity,
) -> Result<ExplainedRun> {
    let access = &prepared.plan.access;
    let scan = counted_document("DISTINCT_SCAN", access, &amounts(prepared));
    let mut returned = 0;
    if verbosity.runs() {
        prepared.distinct_values(field, &mut |_| {
            returned += 1;
            Ok(())
        })?;
    }
    let path = match access.index() {
        Some(index) => index.spec.key[field.position].0.as_str(),
        None => {
            return Ok(ExplainedRun {
                returned,
                ..ExplainedRun::of(scan)
            });
        }
    };
    let mut shape = RawDocumentBuf::new();
    if let Ok(name) = CString::try_from(path) {
        shape.append(&*name, 1);
    }
    shape.append(cstr!("_id"), 0);
    let mut stage = rawdoc! { "stage": "PROJECTION_COVERED" };
    stage.append(cstr!("transformBy"), shape);
    Ok(ExplainedRun {
        returned,
        ..ExplainedRun::of(above(stage, scan))
    })
}

fn run_sample(
    prepared: &PreparedPlan,
    wanted: SampleSize,
    countable: &Countable,
    verbosity: Verbosity,
) -> Result<ExplainedRun> {
    let input = access_document(&prepared.plan.access, None, &amounts(prepared));
    let size = if verbosity.runs() { wanted.size } else { 0 };
    let sample = prepared.sample(SampleSize { size, ..wanted }, countable)?;
    let mut stage = rawdoc! { "stage": "SAMPLE", "drawnBy": "rank" };
    stage.append(cstr!("size"), signed(wanted.size));
    stage.append(cstr!("population"), signed(sample.population));
    if let Some(tested) = prepared.plan.unproven() {
        stage.append(cstr!("rejectsUnless"), tested.to_document());
    }
    let (mut returned, mut rejected) = (0, None);
    if verbosity.runs() {
        returned = drain(sample.rows)?;
        let examined = prepared.context.counters.documents_examined();
        rejected = Some(examined.saturating_sub(returned));
    }
    Ok(ExplainedRun {
        returned,
        rejected,
        ..ExplainedRun::of(above(stage, input))
    })
}

fn drain(mut rows: Box<dyn Rows>) -> Result<u64> {
    let mut returned = 0;
    while rows.advance()? {
        returned += 1;
    }
    Ok(returned)
}

/// What came of a plan that was tried.
pub(super) struct Trial {
    /// Its stages.
    pub stage: RawDocumentBuf,
    /// What they did, as `executionStats` tells it.
    pub statistics: RawDocumentBuf,
    /// The names of the indexes of other plans.
    pub rejected: Vec<String>,
}

/// Tries what is planned for a query until it has given so many rows; `None` where there is no collection.
///
/// # Errors
/// Storage failures; time limits.
pub(super) fn trial(
    engine: &Engine,
    namespace: &Namespace,
    query: QuerySpec,
    rows_max: u64,
) -> Result<Option<Trial>> {
    let Some(prepared) = engine.prepare(namespace, query, &Goal::Rows)? else {
        return Ok(None);
    };
    let indexes = prepared.plan.rejected.iter().filter_map(Access::index);
    let rejected = indexes.map(|index| index.spec.name.clone()).collect();
    let stage = plan_document(&prepared.plan, &amounts(&prepared));
    let mut run = ExplainedRun::of(stage.clone());
    let mut rows = prepared.rows()?;
    while run.returned < rows_max && rows.advance()? {
        run.returned += 1;
    }
    run.is_stopped = run.returned == rows_max;
    drop(rows);
    let executed = execution_stats(run, &prepared.context, Verbosity::ExecutionStats);
    let mut statistics = RawDocumentBuf::new();
    for (name, value) in executed.iter().flatten() {
        match name.as_str() {
            "executionSuccess" => {}
            "executionTimeMillis" => statistics.append(cstr!("executionTimeMillisEstimate"), value),
            _ => statistics.append(name, value),
        }
    }
    Ok(Some(Trial {
        stage,
        statistics,
        rejected,
    }))
}

fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// What the rank indexes know of the access paths of a plan.
fn amounts(prepared: &PreparedPlan) -> impl Fn(&Access) -> Amount {
    |access| amount(access, &prepared.collection, &prepared.view)
}

/// What the rank indexes know of the number of entries that an access path walks.
fn amount(access: &Access, collection: &Collection, view: &ReadView) -> Amount {
    let is_area = matches!(access, Access::Geo(_));
    match entries_by_rank(access, collection, view) {
        Ok(Some(entries)) if is_area => Amount::Estimated(entries),
        Ok(Some(entries)) => Amount::Exact(entries),
        Ok(None) => Amount::Building,
        Err(_) => Amount::None,
    }
}

/// The plans that were not chosen, and what is known of their amounts. Asked for first: all their trees.
fn rejected_plans(prepared: &PreparedPlan) -> RawArrayBuf {
    prepared.view.unpin_with_all();
    let mut rejected = RawArrayBuf::new();
    for access in &prepared.plan.rejected {
        rejected.push(access_document(access, None, &amounts(prepared)));
    }
    rejected
}

fn execution_stats(run: ExplainedRun, context: &Context, verbosity: Verbosity) -> RawDocumentBuf {
    let millis = i32::try_from(run.elapsed.as_millis()).unwrap_or(i32::MAX);
    let number = |count: u64| i32::try_from(count).unwrap_or(i32::MAX);
    let mut stats = rawdoc! {
        "executionSuccess": true,
        "nReturned": number(run.returned),
        "executionTimeMillis": millis,
        "totalKeysExamined": number(context.counters.keys_examined()),
        "totalDocsExamined": number(context.counters.documents_examined()),
    };
    let executed = Executed {
        returned: run.returned,
        counted: run.counted,
        keys: context.counters.keys_examined(),
        documents: context.counters.documents_examined(),
        sorted: context.counters.rows_sorted(),
        is_stopped: run.is_stopped,
        millis,
    };
    let mut stage = with_statistics(&run.stage, &executed);
    if let Some(rejected) = run.rejected {
        stage.append(cstr!("rejected"), signed(rejected));
    }
    stats.append(cstr!("executionStages"), stage);
    if verbosity == Verbosity::AllPlansExecution {
        stats.append(cstr!("allPlansExecution"), RawArrayBuf::new());
    }
    stats
}
