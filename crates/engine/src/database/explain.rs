//! `explain`: plans a statement, runs its reading part when asked to, changes nothing.

use super::Engine;
use super::aggregate::{Split, parse, split};
use super::distinct::distinct_spec;
use super::read::{Prepared, count_spec, query_spec};
use super::requests::{Action, ExplainRequest, FindRequest, Verbosity};
use crate::aggregate::Stage;
use crate::error::Result;
use crate::namespace::Namespace;
use crate::plan::{self, QuerySpec, above, access_document, count_document, plan_document};
use crate::query::Filter;
use bson::raw::{RawArrayBuf, RawDocument, RawDocumentBuf};
use bson::{cstr, rawdoc};
use std::time::Instant;

/// How the rows of a plan are used.
enum Use {
    Rows,
    Count,
    Wrapped(&'static str),
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
        match request {
            ExplainRequest::Find(find) => self.explain_one(
                namespace,
                query_spec(find)?,
                &Use::Rows,
                verbosity,
                &mut answer,
            )?,
            ExplainRequest::Count(count) => {
                let mut spec = count_spec(count)?;
                (spec.skip, spec.limit) = (count.skip, count.limit);
                self.explain_one(namespace, spec, &Use::Count, verbosity, &mut answer)?;
            }
            ExplainRequest::Distinct(distinct) => {
                self.explain_one(
                    namespace,
                    distinct_spec(distinct)?,
                    &Use::Rows,
                    verbosity,
                    &mut answer,
                )?;
            }
            ExplainRequest::Aggregate(aggregate) => {
                let split = split(parse(aggregate)?, aggregate)?;
                self.explain_pipeline(
                    namespace,
                    split,
                    &aggregate.pipeline,
                    verbosity,
                    &mut answer,
                )?;
            }
            ExplainRequest::Update(update) => {
                let find = FindRequest {
                    hint: update.hint,
                    variables: update.variables,
                    ..FindRequest::new(update.filter)
                };
                self.explain_one(
                    namespace,
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
        spec: QuerySpec,
        usage: &Use,
        verbosity: Verbosity,
        answer: &mut RawDocumentBuf,
    ) -> Result<()> {
        let source = spec.filter.to_document();
        let fast_count = matches!(usage, Use::Count)
            && matches!(*spec.filter, Filter::Always)
            && spec.hint.is_none();
        let prepared = self.prepare(namespace, spec)?;
        let winning = match &prepared {
            None => rawdoc! { "stage": "EOF" },
            Some(_) if fast_count => above(
                rawdoc! { "stage": "COUNT" },
                rawdoc! { "stage": "RECORD_STORE_FAST_COUNT" },
            ),
            Some(prepared) => winning_plan(&prepared.plan, usage),
        };
        answer.append(
            cstr!("queryPlanner"),
            query_planner(namespace, &source, &winning, prepared.as_ref()),
        );
        if verbosity != Verbosity::QueryPlanner {
            let stats = execution_stats(prepared.as_ref(), usage, fast_count, winning, verbosity)?;
            answer.append(cstr!("executionStats"), stats);
        }
        Ok(())
    }

    /// A pipeline that is planned as a whole looks like a find; others are a `$cursor` and stages.
    fn explain_pipeline(
        &self,
        namespace: &Namespace,
        split: Split,
        sources: &[&RawDocument],
        verbosity: Verbosity,
        answer: &mut RawDocumentBuf,
    ) -> Result<()> {
        let Split {
            spec,
            stages,
            output,
            count_as,
            sample: _,
        } = split;
        if stages.is_empty() && output.is_none() {
            return self.explain_one(namespace, spec, &Use::Rows, verbosity, answer);
        }
        let usage = if count_as.is_some() {
            Use::Count
        } else {
            Use::Rows
        };
        let mut cursor = RawDocumentBuf::new();
        self.explain_one(namespace, spec, &usage, verbosity, &mut cursor)?;
        let mut list = RawArrayBuf::new();
        list.push(rawdoc! { "$cursor": cursor });
        let run: Vec<&'static str> = stages.iter().chain(&output).map(Stage::name).collect();
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

fn winning_plan(plan: &plan::Plan, usage: &Use) -> RawDocumentBuf {
    match usage {
        Use::Rows => plan_document(plan),
        Use::Count => count_document(plan),
        Use::Wrapped(stage) => above(rawdoc! { "stage": *stage }, plan_document(plan)),
    }
}

fn query_planner(
    namespace: &Namespace,
    source: &RawDocument,
    winning: &RawDocument,
    prepared: Option<&Prepared>,
) -> RawDocumentBuf {
    let mut planner = rawdoc! { "namespace": namespace.to_string(), "indexFilterSet": false };
    planner.append(cstr!("parsedQuery"), source.to_owned());
    planner.append(cstr!("maxIndexedOrSolutionsReached"), false);
    planner.append(cstr!("maxIndexedAndSolutionsReached"), false);
    planner.append(cstr!("maxScansToExplodeReached"), false);
    planner.append(cstr!("winningPlan"), winning.to_owned());
    let mut rejected = RawArrayBuf::new();
    for access in prepared.iter().flat_map(|prepared| &prepared.plan.rejected) {
        rejected.push(access_document(access, None));
    }
    planner.append(cstr!("rejectedPlans"), rejected);
    planner
}

fn execution_stats(
    prepared: Option<&Prepared>,
    usage: &Use,
    fast_count: bool,
    winning: RawDocumentBuf,
    verbosity: Verbosity,
) -> Result<RawDocumentBuf> {
    let started = Instant::now();
    let mut returned = 0;
    if let Some(prepared) = prepared.filter(|_| !fast_count) {
        if matches!(usage, Use::Count) {
            prepared.count()?;
        } else {
            let mut rows = prepared.rows()?;
            while rows.advance()? {
                returned += 1;
            }
        }
    }
    let millis = i64::try_from(started.elapsed().as_millis()).unwrap_or(i64::MAX);
    let counters = prepared
        .map(|prepared| prepared.context.counters.clone())
        .unwrap_or_default();
    let number = |count: u64| i32::try_from(count).unwrap_or(i32::MAX);
    let mut stats = rawdoc! {
        "executionSuccess": true,
        "nReturned": number(returned),
        "executionTimeMillis": i32::try_from(millis).unwrap_or(i32::MAX),
        "totalKeysExamined": number(counters.keys_examined()),
        "totalDocsExamined": number(counters.documents_examined()),
    };
    stats.append(cstr!("executionStages"), winning);
    if verbosity == Verbosity::AllPlansExecution {
        stats.append(cstr!("allPlansExecution"), RawArrayBuf::new());
    }
    Ok(stats)
}
