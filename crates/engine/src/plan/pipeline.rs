//! Plans pipelines: what the planner takes over of their first stages, and the stages that are left.
//!
//! In: a parsed pipeline. Out: a [`Split`], by an ordered list of rewrites that need no collection; and then, on a
//! collection, a [`PipelinePlan`]: one plan, or one for each part of a `$facet` that only counts, and the stages that run on
//! what comes of it. Deliberately absent: running stages, `$out` and `$merge` (see `database`).

use super::buckets::take_bucket_conditions;
use super::choose::Sizes;
use super::first::first_of_groups;
use super::method::{CountBy, Goal, Method, SampleSize, plan};
use super::{Plan, QuerySpec};
use crate::aggregate::{CountingGroup, Group, Pipeline, Stage, dependencies};
use crate::catalog::Collection;
use crate::error::{Error, Result};
use crate::query::{Filter, Measure, ParseContext};
use std::collections::VecDeque;
use std::sync::Arc;

/// A pipeline, split into what is planned and what is run on the rows.
pub struct Split {
    /// What the first stages ask for.
    pub query: QuerySpec,
    /// The stages that follow.
    pub stages: VecDeque<Stage>,
    /// `$out` or `$merge`.
    pub output: Option<Stage>,
}

/// The rewrites, in their order: each takes stages from the front of what those before it have left.
const REWRITES: [fn(&mut Split); 3] = [take_bucket_conditions, take_matches, take_order_and_limit];

/// How a pipeline is carried out.
pub struct PipelinePlan {
    /// What comes first.
    pub source: PipelineSource,
    /// The stages that run on what it gives.
    pub stages: Vec<Stage>,
}

/// What the stages of a pipeline run on.
pub enum PipelineSource {
    /// What one plan answers.
    Plan(Box<Answer>),
    /// The one document of a `$facet` whose parts only count.
    Facets(Vec<FacetPlan>),
}

/// A plan, and how its answer looks.
pub struct Answer {
    /// The plan.
    pub plan: Plan,
    /// For a count.
    pub shape: Option<CountShape>,
}

/// A part of a `$facet`.
pub struct FacetPlan {
    /// Its name.
    pub name: String,
    /// What is counted.
    pub answer: Answer,
    /// The stages that follow in the part.
    pub stages: Vec<Stage>,
}

/// The stage that a count answers: there is no document when there is nothing to count.
#[derive(Clone)]
pub enum CountShape {
    /// `{$count: name}`.
    Count(String),
    /// A `$group` with a constant key that only counts, as drivers' `countDocuments` sends it.
    Group(Arc<Group>),
}

impl Split {
    /// Splits off what the planner can do. `query` asks for everything.
    ///
    /// # Errors
    /// What the `query` of a `$geoNear` refuses.
    pub fn new(pipeline: Pipeline, query: QuerySpec, context: &ParseContext) -> Result<Self> {
        let query = QuerySpec {
            asked: pipeline.asked,
            ..query
        };
        let mut stages: VecDeque<Stage> = pipeline.stages.into();
        let output = stages.pop_back_if(|stage| stage.is_output());
        let mut split = Self {
            query,
            stages,
            output,
        };
        split.take_measured_nearest(context)?;
        let mut measured = split.take_nearest(context)?;
        REWRITES.iter().for_each(|rewrite| rewrite(&mut split));
        if let Some(text @ Measure::Text(_)) = Measure::of(&split.query.filter, None)
            && split.query.asked.search
        {
            measured = Some(Stage::AddScore(Box::new(text)));
        }
        if let Some(measured) = measured {
            split.stages.push_front(measured);
        }
        split.query.filter = Arc::new(Filter::clone(&split.query.filter).with_implied());
        split.query.needs = dependencies(&split.stages);
        let sort = split.query.sort.as_ref();
        if split.query.asked.index_key || sort.is_some_and(|sort| sort.is_by_metadata()) {
            split.query.needs.add_all();
        }
        if split.query.asked.sort_key {
            split.check_sort_key()?;
        }
        Ok(split)
    }

    /// Has the fields read by which documents are sorted. A `$project` right behind the plan, which MongoDB has the plan
    /// do, may ask only for the key of a sort that there is.
    fn check_sort_key(&mut self) -> Result<()> {
        let Some(sort) = &self.query.sort else {
            return match self.stages.front() {
                Some(Stage::Project(transform)) if transform.asks_sort_key() => Err(
                    Error::bad_value("cannot use sortKey $meta projection without a sort"),
                ),
                _ => Ok(()),
            };
        };
        for field in sort.fields() {
            self.query.needs.add(field.path.as_str());
        }
        Ok(())
    }

    /// Takes a leading `$geoNear`; what it adds to the documents.
    fn take_nearest(&mut self, context: &ParseContext) -> Result<Option<Stage>> {
        let is_nearest = |stage: &mut Stage| matches!(stage, Stage::GeoNear(_));
        let Some(Stage::GeoNear(geo_near)) = self.stages.pop_front_if(is_nearest) else {
            return Ok(None);
        };
        let filter = Filter::parse_with(&geo_near.filter(), context)?.simplify();
        self.query.nearest = filter.nearest()?;
        self.query.filter = Arc::new(filter);
        let nearest = self.query.nearest.clone();
        let keeps_metadata = self.query.asked.search;
        let add = nearest.map(|nearest| geo_near.add_distance(nearest, keeps_metadata));
        Ok(add.map(|add| Stage::AddDistance(Box::new(add))))
    }
}

/// Leading `$match`es become the filter.
fn take_matches(split: &mut Split) {
    if split.query.nearest.is_some() {
        return;
    }
    let is_match = |stage: &mut Stage| matches!(stage, Stage::Match(_));
    let mut conditions = Vec::new();
    while let Some(Stage::Match(filter)) = split.stages.pop_front_if(is_match) {
        conditions.push(filter);
    }
    split.query = narrowed(&split.query, conditions);
}

/// A leading `$sort`, with the number of documents that are needed of it, or `$limit`.
fn take_order_and_limit(split: &mut Split) {
    let is_first = |stage: &mut Stage| matches!(stage, Stage::Limit(_) | Stage::Sort { .. });
    if split.query.nearest.is_some() && !matches!(split.stages.front(), Some(Stage::Limit(_))) {
        return;
    }
    match split.stages.pop_front_if(is_first) {
        Some(Stage::Sort { order, limit }) => {
            let order = order.measured_by(Measure::of(&split.query.filter, None).as_ref());
            (split.query.sort, split.query.limit) = (Some(Arc::new(order)), limit);
            // What it says is done.
            let is_done =
                |stage: &mut Stage| matches!(stage, Stage::Limit(most) if Some(*most) == limit);
            split.stages.pop_front_if(is_done);
        }
        Some(Stage::Limit(limit)) => split.query.limit = Some(limit),
        _ => {}
    }
}

/// A query with conditions added.
fn narrowed(query: &QuerySpec, mut conditions: Vec<Filter>) -> QuerySpec {
    if !matches!(*query.filter, Filter::Always) {
        conditions.insert(0, (*query.filter).clone());
    }
    let filter = match conditions.len() {
        0 => query.filter.clone(),
        1 => Arc::new(conditions.remove(0).simplify()),
        _ => Arc::new(Filter::And(conditions).simplify()),
    };
    QuerySpec {
        filter,
        ..query.clone()
    }
}

/// The plan of a pipeline on a collection.
///
/// # Errors
/// `BadValue` for a hint that names no usable index; storage failures while sizes are asked for.
pub fn plan_pipeline(
    collection: &Collection,
    query: QuerySpec,
    mut stages: VecDeque<Stage>,
    sizes: &dyn Sizes,
) -> Result<PipelinePlan> {
    let mut query = query.on(collection);
    let collection = &*query.allowed(collection);
    let mut waits_for_rank_index = false;
    if let (Some(Stage::Facet(facets)), true) = (stages.front(), takes_all(&query)) {
        let planned = facet_plans(collection, &query, facets, sizes, &mut waits_for_rank_index)?;
        if let Some(facets) = planned {
            stages.pop_front();
            return Ok(PipelinePlan {
                source: PipelineSource::Facets(facets),
                stages: stages.into(),
            });
        }
    }
    if let Some(plan) = first_of_groups(collection, &query, &mut stages) {
        return Ok(PipelinePlan {
            source: PipelineSource::Plan(Box::new(Answer { plan, shape: None })),
            stages: stages.into(),
        });
    }
    let (goal, shape) = goal(&query, stages.front(), Goal::Count);
    let mut plan = plan(collection, query, &goal, sizes)?;
    plan.waits_for_rank_index |= waits_for_rank_index;
    if !matches!(plan.method, Method::Rows) {
        stages.pop_front();
    }
    Ok(PipelinePlan {
        source: PipelineSource::Plan(Box::new(Answer { plan, shape })),
        stages: stages.into(),
    })
}

/// Whether a query has neither order nor window.
fn takes_all(query: &QuerySpec) -> bool {
    query.sort.is_none() && query.limit.is_none() && query.skip == 0
}

/// What a stage wants to know of the documents of a query. `count` is how a count is asked for.
fn goal(query: &QuerySpec, stage: Option<&Stage>, count: Goal) -> (Goal, Option<CountShape>) {
    let goal = match stage.filter(|_| takes_all(query)) {
        Some(Stage::Count(name)) => return (count, Some(CountShape::Count(name.clone()))),
        Some(Stage::Group(group)) if group.counts_all() => {
            return (count, Some(CountShape::Group(group.clone())));
        }
        Some(Stage::Group(group)) => CountingGroup::new(group).map(Goal::Groups),
        // What is drawn by rank has no number of its own.
        Some(Stage::Sample { size, seed, .. }) if !query.asked.random => {
            Some(Goal::Sample(SampleSize {
                size: *size,
                seed: seed.map(i64::cast_unsigned),
            }))
        }
        _ => None,
    };
    (goal.unwrap_or(Goal::Rows), None)
}

/// Plans the parts of a `$facet`, if rank indexes count all of them. All are read in one view.
fn facet_plans(
    collection: &Collection,
    query: &QuerySpec,
    facets: &[(String, Pipeline)],
    sizes: &dyn Sizes,
    waits_for_rank_index: &mut bool,
) -> Result<Option<Vec<FacetPlan>>> {
    let mut plans = Vec::with_capacity(facets.len());
    for (name, pipeline) in facets {
        let stages = &pipeline.stages;
        let matched = |stage: &Stage| match stage {
            Stage::Match(filter) => Some(filter.clone()),
            _ => None,
        };
        let conditions: Vec<Filter> = stages.iter().map_while(matched).collect();
        let first = conditions.len();
        let query = narrowed(query, conditions);
        let (goal, shape) = goal(&query, stages.get(first), Goal::CountInView);
        if !matches!(goal, Goal::CountInView | Goal::Groups(_)) {
            return Ok(None);
        }
        let plan = plan(collection, query, &goal, sizes)?;
        *waits_for_rank_index |= plan.waits_for_rank_index;
        if !is_by_rank(&plan.method) {
            return Ok(None);
        }
        plans.push(FacetPlan {
            name: name.clone(),
            answer: Answer { plan, shape },
            stages: stages[first + 1..].to_vec(),
        });
    }
    Ok(Some(plans))
}

fn is_by_rank(method: &Method) -> bool {
    let is_count = matches!(method, Method::Count(CountBy::RankIndex(_)));
    is_count || matches!(method, Method::CountGroups(..))
}
