//! `explain`: plans a statement, runs its reading part when asked to, changes nothing.

use super::Engine;
use super::aggregate::{Split, parse};
use super::counting::{Counting, Figures, Part, What};
use super::distinct::distinct_spec;
use super::read::{Opened, Prepared, count_spec, query_spec};
use super::requests::{Action, AggregateRequest, ExplainRequest, FindRequest, Verbosity};
use crate::aggregate::{Limits, Stage};
use crate::catalog::Collection;
use crate::error::Result;
use crate::exec::{Context, Rows, SampleSize, entries_by_rank};
use crate::namespace::Namespace;
use crate::plan::{
    Access, Amount, QuerySpec, above, access_document, count_document, counted_document,
    plan_document,
};
use crate::query::Filter;
use crate::rank::ReadView;
use bson::raw::{CString, RawArrayBuf, RawDocument, RawDocumentBuf};
use bson::{cstr, rawdoc};
use std::time::{Duration, Instant};

/// How the rows of a plan are used.
enum Use<'a> {
    Rows,
    Count,
    Wrapped(&'static str),
    /// For the distinct values at a path.
    Distinct(&'a str),
    Sample(SampleSize),
}

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
        let mut answer = rawdoc! { "explainVersion": "1" };
        let opened = || self.open_view(namespace);
        match request {
            ExplainRequest::Find(find) => self.explain_one(
                namespace,
                opened(),
                query_spec(find)?,
                &Use::Rows,
                verbosity,
                &mut answer,
            )?,
            ExplainRequest::Count(count) => {
                let mut spec = count_spec(count)?;
                (spec.skip, spec.limit) = (count.skip, count.limit);
                self.explain_one(
                    namespace,
                    opened(),
                    spec,
                    &Use::Count,
                    verbosity,
                    &mut answer,
                )?;
            }
            ExplainRequest::Distinct(distinct) => {
                self.explain_one(
                    namespace,
                    opened(),
                    distinct_spec(distinct)?,
                    &Use::Distinct(distinct.key),
                    verbosity,
                    &mut answer,
                )?;
            }
            ExplainRequest::Aggregate(aggregate) => {
                let split = self.split(namespace, parse(aggregate)?, aggregate)?;
                self.explain_pipeline(namespace, split, aggregate, verbosity, &mut answer)?;
            }
            ExplainRequest::Update(update) => {
                let find = FindRequest {
                    hint: update.hint,
                    variables: update.variables,
                    ..FindRequest::new(update.filter)
                };
                self.explain_one(
                    namespace,
                    opened(),
                    query_spec(&find)?,
                    &Use::Wrapped("UPDATE"),
                    verbosity,
                    &mut answer,
                )?;
            }
            ExplainRequest::Delete(delete) => {
                let find = FindRequest {
                    hint: delete.hint,
                    variables: delete.variables,
                    ..FindRequest::new(delete.filter)
                };
                self.explain_one(
                    namespace,
                    opened(),
                    query_spec(&find)?,
                    &Use::Wrapped("DELETE"),
                    verbosity,
                    &mut answer,
                )?;
            }
            ExplainRequest::FindAndModify(modify) => {
                let find = FindRequest {
                    hint: modify.hint,
                    variables: modify.variables,
                    sort: modify.sort,
                    limit: Some(1),
                    ..FindRequest::new(modify.filter)
                };
                let stage = if matches!(modify.action, Action::Remove) {
                    "DELETE"
                } else {
                    "UPDATE"
                };
                self.explain_one(
                    namespace,
                    opened(),
                    query_spec(&find)?,
                    &Use::Wrapped(stage),
                    verbosity,
                    &mut answer,
                )?;
            }
        }
        Ok(answer)
    }

    fn explain_one(
        &self,
        namespace: &Namespace,
        opened: Option<Opened>,
        spec: QuerySpec,
        usage: &Use<'_>,
        verbosity: Verbosity,
        answer: &mut RawDocumentBuf,
    ) -> Result<()> {
        let source = spec.filter.to_document();
        let has_nothing_to_ask = matches!(*spec.filter, Filter::Always) && spec.hint.is_none();
        let fast_count = matches!(usage, Use::Count) && has_nothing_to_ask;
        let prepared = opened
            .map(|opened| self.prepare_on(opened, spec))
            .transpose()?;
        let rejected = prepared.as_ref().map(rejected_plans).unwrap_or_default();
        let run = match &prepared {
            None => Run::nothing(),
            Some(_) if fast_count => Run::of(above(
                rawdoc! { "stage": "COUNT" },
                rawdoc! { "stage": "RECORD_STORE_FAST_COUNT" },
            )),
            Some(prepared) => run(prepared, usage, verbosity)?,
        };
        let planner = query_planner(namespace, &source, &run.stage, rejected);
        answer.append(cstr!("queryPlanner"), planner);
        if verbosity.runs() {
            let context = prepared.map(|prepared| prepared.context);
            let stats = execution_stats(run, &context.unwrap_or_default(), verbosity);
            answer.append(cstr!("executionStats"), stats);
        }
        Ok(())
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
            spec,
            mut stages,
            output,
            count_as,
            sample,
        } = split;
        if stages.is_empty() && output.is_none() {
            let opened = self.open_view(namespace);
            return self.explain_one(namespace, opened, spec, &Use::Rows, verbosity, answer);
        }
        let mut cursor = RawDocumentBuf::new();
        let opened = self.open_view(namespace);
        let counting = match (&opened, &count_as) {
            (Some(opened), None) => opened.counting(&spec, &stages)?,
            _ => None,
        };
        let (mut is_counted, mut why_not) = (false, None);
        if let (Some(counting), Some(opened)) = (&counting, &opened) {
            let limits = self.limits(request.allow_disk_use);
            let own = explain_counting(counting, opened, &limits, &spec, verbosity, &mut cursor);
            is_counted = own?;
            why_not = (!is_counted).then(|| match counting.can_count(opened) {
                true => "a group's key cannot be computed",
                false => "a rank index is still being built",
            });
        }
        let usage = match (&count_as, sample) {
            (Some(_), _) => Use::Count,
            (None, Some(size)) => Use::Sample(size),
            (None, None) => Use::Rows,
        };
        if is_counted || matches!(usage, Use::Sample(_)) {
            stages.remove(0);
        }
        if !is_counted {
            self.explain_one(namespace, opened, spec, &usage, verbosity, &mut cursor)?;
            if let Some(why) = why_not {
                cursor.append(cstr!("notCounted"), why);
            }
        }
        let mut list = RawArrayBuf::new();
        list.push(rawdoc! { "$cursor": cursor });
        let run: Vec<&'static str> = stages.iter().chain(&output).map(Stage::name).collect();
        let sources = &request.pipeline;
        let first = sources.len().saturating_sub(run.len());
        for (position, name) in run.into_iter().enumerate() {
            match sources.get(first + position) {
                Some(source) => list.push((*source).to_owned()),
                None => list.push(rawdoc! { "stage": name }),
            }
        }
        answer.append(cstr!("stages"), list);
        Ok(())
    }
}

/// A pipeline that is answered by counting: what is counted of which index, and, when it was run, how.
/// False, and nothing added, where it cannot be counted now.
fn explain_counting(
    counting: &Counting,
    opened: &Opened,
    limits: &Limits,
    spec: &QuerySpec,
    verbosity: Verbosity,
    answer: &mut RawDocumentBuf,
) -> Result<bool> {
    if !counting.can_count(opened) {
        return Ok(false);
    }
    let Opened { collection, view } = opened;
    let amounts = |access: &Access| amount(access, collection, view);
    let scan = |part: &Part| counted_document("COUNT_SCAN", &part.access, &amounts);
    let scans: Vec<RawDocumentBuf> = counting.parts.iter().map(scan).collect();
    let context = Context::default();
    let started = Instant::now();
    let found = match verbosity.runs() {
        false => None,
        true => match counting.count(opened, limits, &context)? {
            Some(found) => Some(found),
            None => return Ok(false),
        },
    };
    let elapsed = started.elapsed();
    let parts = counting.parts.iter().zip(scans).enumerate();
    let mut documents = parts.map(|(number, (part, scan))| {
        let figures = found.as_ref().map(|found| found[number].figures);
        (part.name.as_str(), part_document(part, figures, scan))
    });
    let stage = if counting.is_facet {
        let mut facets = RawDocumentBuf::new();
        for (name, document) in documents {
            if let Ok(name) = CString::try_from(name) {
                facets.append(&*name, document);
            }
        }
        let mut stage = rawdoc! { "stage": "COUNTED_FACET" };
        stage.append(cstr!("facets"), facets);
        stage
    } else {
        documents.next().map(|one| one.1).unwrap_or_default()
    };
    let source = spec.filter.to_document();
    let rejected = RawArrayBuf::new();
    let planner = query_planner(&collection.namespace, &source, &stage, rejected);
    answer.append(cstr!("queryPlanner"), planner);
    if let Some(found) = found {
        let run = Run {
            stage,
            returned: found.iter().map(|one| one.figures.groups).sum(),
            elapsed,
            rejected: None,
        };
        let stats = execution_stats(run, &context, verbosity);
        answer.append(cstr!("executionStats"), stats);
    }
    Ok(true)
}

/// A part of a counting pipeline, with what came of it when it was run.
fn part_document(part: &Part, figures: Option<Figures>, scan: RawDocumentBuf) -> RawDocumentBuf {
    let mut stage = match &part.what {
        What::Total(_) => rawdoc! { "stage": "COUNT" },
        What::Groups(group) => rawdoc! { "stage": "COUNTED_GROUP", "groupBy": group.path() },
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
struct Run {
    /// The root of its stages.
    stage: RawDocumentBuf,
    returned: u64,
    elapsed: Duration,
    /// Documents that were drawn for a sample and did not match.
    rejected: Option<u64>,
}

impl Run {
    fn nothing() -> Self {
        Self::of(rawdoc! { "stage": "EOF" })
    }

    /// One that has not been run.
    fn of(stage: RawDocumentBuf) -> Self {
        Self {
            stage,
            returned: 0,
            elapsed: Duration::ZERO,
            rejected: None,
        }
    }
}

/// Explains a plan, and runs it unless only the plan is asked for.
fn run(prepared: &Prepared, usage: &Use<'_>, verbosity: Verbosity) -> Result<Run> {
    let started = Instant::now();
    let run = match usage {
        Use::Rows => run_rows(prepared, verbosity),
        Use::Wrapped(stage) => run_rows(prepared, verbosity).map(|run| Run {
            stage: above(rawdoc! { "stage": *stage }, run.stage),
            ..run
        }),
        Use::Count => run_count(prepared, verbosity),
        Use::Distinct(key) => run_distinct(prepared, key, verbosity),
        Use::Sample(size) => run_sample(prepared, *size, verbosity),
    };
    Ok(Run {
        elapsed: started.elapsed(),
        ..run?
    })
}

// What the rank indexes know is asked for before a plan runs: it ends the view's counts.

fn run_rows(prepared: &Prepared, verbosity: Verbosity) -> Result<Run> {
    let run = Run::of(plan_document(&prepared.plan, &amounts(prepared)));
    let returned = match verbosity.runs() {
        true => drain(prepared.rows()?)?,
        false => 0,
    };
    Ok(Run { returned, ..run })
}

fn run_count(prepared: &Prepared, verbosity: Verbosity) -> Result<Run> {
    let by = match prepared.is_counted_by_rank() {
        true => "rankIndex",
        false => "scan",
    };
    let stage = rawdoc! { "stage": "COUNT", "countedBy": by };
    let run = Run::of(count_document(&prepared.plan, stage, &amounts(prepared)));
    if verbosity.runs() {
        prepared.count()?;
    }
    Ok(run)
}

/// By the index that leads from value to value, or by rows where there is none.
fn run_distinct(prepared: &Prepared, key: &str, verbosity: Verbosity) -> Result<Run> {
    let Some(access) = prepared.distinct_access(key) else {
        return run_rows(prepared, verbosity);
    };
    let scan = counted_document("DISTINCT_SCAN", &access, &amounts(prepared));
    let returned = match verbosity.runs() {
        true => prepared.distinct_values(&access, key)?,
        false => 0,
    };
    let mut shape = RawDocumentBuf::new();
    if let Ok(name) = CString::try_from(key) {
        shape.append(&*name, 1);
    }
    shape.append(cstr!("_id"), 0);
    let mut stage = rawdoc! { "stage": "PROJECTION_COVERED" };
    stage.append(cstr!("transformBy"), shape);
    Ok(Run {
        returned,
        ..Run::of(above(stage, scan))
    })
}

/// By rank, or from all rows where entries cannot be numbered.
fn run_sample(prepared: &Prepared, wanted: SampleSize, verbosity: Verbosity) -> Result<Run> {
    let input = access_document(&prepared.plan.access, None, &amounts(prepared));
    let size = if verbosity.runs() { wanted.size } else { 0 };
    let drawn = prepared.sample(Some(SampleSize { size, ..wanted }))?;
    let Some(sample) = drawn else {
        let run = run_rows(prepared, verbosity)?;
        let stage = rawdoc! { "stage": "SAMPLE", "drawnBy": "reading all that matches" };
        return Ok(Run {
            stage: above(stage, run.stage),
            ..run
        });
    };
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
    Ok(Run {
        returned,
        rejected,
        ..Run::of(above(stage, input))
    })
}

fn drain(mut rows: Box<dyn Rows>) -> Result<u64> {
    let mut returned = 0;
    while rows.advance()? {
        returned += 1;
    }
    Ok(returned)
}

fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// What the rank indexes know of the access paths of a plan.
fn amounts(prepared: &Prepared) -> impl Fn(&Access) -> Amount {
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
fn rejected_plans(prepared: &Prepared) -> RawArrayBuf {
    prepared.view.unpin_with_all();
    let mut rejected = RawArrayBuf::new();
    for access in &prepared.plan.rejected {
        rejected.push(access_document(access, None, &amounts(prepared)));
    }
    rejected
}

fn query_planner(
    namespace: &Namespace,
    source: &RawDocument,
    winning: &RawDocument,
    rejected: RawArrayBuf,
) -> RawDocumentBuf {
    let mut planner = rawdoc! { "namespace": namespace.to_string(), "indexFilterSet": false };
    planner.append(cstr!("parsedQuery"), source.to_owned());
    planner.append(cstr!("maxIndexedOrSolutionsReached"), false);
    planner.append(cstr!("maxIndexedAndSolutionsReached"), false);
    planner.append(cstr!("maxScansToExplodeReached"), false);
    planner.append(cstr!("winningPlan"), winning.to_owned());
    planner.append(cstr!("rejectedPlans"), rejected);
    planner
}

fn execution_stats(run: Run, context: &Context, verbosity: Verbosity) -> RawDocumentBuf {
    let millis = i32::try_from(run.elapsed.as_millis()).unwrap_or(i32::MAX);
    let number = |count: u64| i32::try_from(count).unwrap_or(i32::MAX);
    let mut stats = rawdoc! {
        "executionSuccess": true,
        "nReturned": number(run.returned),
        "executionTimeMillis": millis,
        "totalKeysExamined": number(context.counters.keys_examined()),
        "totalDocsExamined": number(context.counters.documents_examined()),
    };
    let mut stage = run.stage;
    if let Some(rejected) = run.rejected {
        stage.append(cstr!("rejected"), signed(rejected));
    }
    stats.append(cstr!("executionStages"), stage);
    if verbosity == Verbosity::AllPlansExecution {
        stats.append(cstr!("allPlansExecution"), RawArrayBuf::new());
    }
    stats
}
