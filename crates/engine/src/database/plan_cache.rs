//! `$planCacheStats`: which shapes of statements had several plans, and what each plan does.
//!
//! Every statement is planned anew, by exact amounts, so no plan is kept. What MongoDB found out when it made a cache
//! entry, a trial of each plan, is made when it is asked for.

use super::Engine;
use super::explain::trial;
use super::read::query_spec;
use super::requests::FindRequest;
use crate::catalog::{Collection, PlannedShape};
use crate::collation;
use crate::error::Result;
use crate::namespace::Namespace;
use crate::operation;
use crate::plan::{Hint, Plan, QuerySpec};
use crate::query::Filter;
use bson::raw::{RawArrayBuf, RawDocument, RawDocumentBuf};
use bson::{cstr, rawdoc};

/// A trial that ends by itself, or gives this many rows, was long enough: MongoDB's bounds.
const TRIAL_ROWS_MAX: u64 = 101;
/// What tells apart plans that are otherwise as good, in MongoDB's score.
const TIE_BREAKER_MAX: f64 = 1e-4;

/// Notes a statement that is carried out, if it had several plans.
pub(super) fn note(plan: &Plan, collection: &Collection) {
    let query = &plan.query;
    // Of an `$or` MongoDB keeps the plans of the branches.
    let is_one = !matches!(*query.filter, Filter::Or(_));
    if plan.rejected.is_empty() || !query.is_cacheable() || !is_one {
        return;
    }
    let is_filtered = query.is_filtered(collection);
    let cache = collection.state.plan_cache();
    cache.note(query.hashes(collection), is_filtered, || {
        query.written(collection)
    });
}

impl Engine {
    /// The documents of `$planCacheStats`.
    ///
    /// # Errors
    /// Storage failures; time limits.
    pub(super) fn plan_cache_stats(
        &self,
        namespace: &Namespace,
        collection: &Collection,
        host: &str,
    ) -> Result<Vec<RawDocumentBuf>> {
        let shapes = collection.state.plan_cache().all();
        let mut entries = Vec::new();
        for shape in shapes {
            match self.cache_entry(namespace, &shape, host) {
                Ok(entry) => entries.push(entry),
                // What cannot be tried any more is left out, unless the time is up.
                Err(error) => {
                    operation::check()?;
                    tracing::debug!(%namespace, %error, "a plan could not be tried");
                }
            }
        }
        Ok(entries)
    }

    fn cache_entry(
        &self,
        namespace: &Namespace,
        shape: &PlannedShape,
        host: &str,
    ) -> Result<RawDocumentBuf> {
        let query = spec_of(&shape.statement)?;
        let mut trials = Trials::default();
        let rejected = trials.add(self, namespace, query.clone())?;
        for name in rejected {
            let hint = Some(Hint::Name(name));
            trials.add(
                self,
                namespace,
                QuerySpec {
                    hint,
                    ..query.clone()
                },
            )?;
        }
        let mut entry = rawdoc! {
            "version": "1",
            "queryHash": shape.hashes.query_hash.as_str(),
            "planCacheKey": shape.hashes.plan_cache_key.as_str(),
            "isActive": shape.is_active,
            "works": trials.works,
            "timeOfCreation": shape.created,
        };
        entry.append(cstr!("createdFromQuery"), shape.statement.clone());
        entry.append(cstr!("cachedPlan"), trials.plan);
        entry.append(cstr!("creationExecStats"), trials.statistics);
        entry.append(cstr!("candidatePlanScores"), trials.scores);
        entry.append(cstr!("indexFilterSet"), shape.is_filtered);
        let bytes = i64::try_from(shape.size_bytes()).unwrap_or(i64::MAX);
        entry.append(cstr!("estimatedSizeBytes"), bytes);
        entry.append(cstr!("host"), host);
        Ok(entry)
    }
}

/// What came of each plan of a statement, the chosen one first.
#[derive(Default)]
struct Trials {
    plan: RawDocumentBuf,
    works: i64,
    statistics: RawArrayBuf,
    scores: RawArrayBuf,
}

impl Trials {
    /// Tries what is planned for a query, and tells the names of the indexes of other plans.
    fn add(
        &mut self,
        engine: &Engine,
        namespace: &Namespace,
        query: QuerySpec,
    ) -> Result<Vec<String>> {
        let Some(tried) = trial(engine, namespace, query, TRIAL_ROWS_MAX)? else {
            return Ok(Vec::new());
        };
        let root = tried.statistics.get_document("executionStages");
        let root = root.map(RawDocument::to_owned).unwrap_or_default();
        let works = root.get_i32("works").unwrap_or_default();
        if self.plan.is_empty() {
            self.plan = tried.stage;
            self.works = works.into();
        }
        self.scores.push(score(&root, works));
        self.statistics.push(tried.statistics);
        Ok(tried.rejected)
    }
}

/// How good a plan is: one, the rows that it gives for a unit of work, one more when it ended, and a little for each of: no
/// document was fetched, nothing was sorted, no entries of several indexes were compared (`plan_ranker.cpp` of MongoDB 6.0).
fn score(root: &RawDocument, works: i32) -> f64 {
    let works = f64::from(works.max(1));
    let productivity = f64::from(root.get_i32("advanced").unwrap_or_default()) / works;
    let tie_breaker = (1.0 / (10.0 * works)).min(TIE_BREAKER_MAX);
    let names = |wanted: &str| has_stage(root, wanted);
    let fetches = names("FETCH") || names("COLLSCAN");
    let bonuses = 1 + u8::from(!fetches) + u8::from(!names("SORT"));
    let is_over = root.get_i32("isEOF").unwrap_or_default();
    1.0 + productivity + f64::from(bonuses) * tie_breaker + f64::from(is_over)
}

fn has_stage(node: &RawDocument, wanted: &str) -> bool {
    let mut node = Some(node);
    while let Some(stage) = node {
        if stage.get_str("stage").is_ok_and(|name| name == wanted) {
            return true;
        }
        node = stage.get_document("inputStage").ok();
    }
    false
}

/// The query of a statement that was noted.
fn spec_of(statement: &RawDocument) -> Result<QuerySpec> {
    let part = |name: &str| {
        statement
            .get_document(name)
            .ok()
            .filter(|part| !part.is_empty())
    };
    let empty = RawDocumentBuf::new();
    let by = part("collation").map(|written| collation::parse("collation", written));
    query_spec(&FindRequest {
        sort: part("sort"),
        projection: part("projection"),
        collation: by.transpose()?,
        ..FindRequest::new(part("query").unwrap_or(&empty))
    })
}
