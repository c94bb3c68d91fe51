//! What the statements of an engine did, as running totals for `serverStatus`.
//!
//! A statement is counted when it begins to run; `explain`, which plans and runs one for its own sake, is not, and
//! neither are the sweeps of TTL indexes.

use super::Engine;
use super::plan_cache;
use super::read::{Opened, PreparedPlan};
use crate::catalog::Collection;
use crate::error::Result;
use crate::exec::{Context, Counters, Examined};
use crate::namespace::Namespace;
use crate::operation;
use crate::plan::{Access, CountBy, Goal, Method, Plan, QuerySpec, Used};
use crate::query::Filter;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

/// The totals since the engine was opened.
#[derive(Default)]
pub(super) struct Work {
    examined: Arc<Examined>,
    collection_scans: AtomicI64,
    sorts: AtomicI64,
    inserted_by_output: AtomicI64,
    updated_by_output: AtomicI64,
    matched_by_output: AtomicI64,
}

/// What the statements of an engine did since it was opened.
#[derive(Debug, Clone, Default)]
pub struct WorkFigures {
    /// Index entries examined.
    pub keys_examined: i64,
    /// Documents examined.
    pub documents_examined: i64,
    /// Statements that walked all documents of a collection.
    pub collection_scans: i64,
    /// Statements that sorted what no index gave in order.
    pub sorts: i64,
    /// Documents that were changed by another writer between being found and being written.
    pub write_conflicts: i64,
    /// Documents that `$out` wrote, and `$merge` with `whenMatched: 'fail'`.
    pub inserted_by_output: i64,
    /// Documents that `$merge` looked up to change them.
    pub updated_by_output: i64,
    /// Of these, documents that were there.
    pub matched_by_output: i64,
}

impl Work {
    /// What the nodes of a statement share.
    pub(super) fn context(&self) -> Context {
        Context {
            counters: Arc::new(self.counters()),
            ..Context::default()
        }
    }

    fn counters(&self) -> Counters {
        Counters::of_statement(self.examined.clone())
    }

    /// Counts a statement that looked a document up by its `_id`.
    pub(super) fn add_point_read(&self, collection: &Collection, found: bool) {
        collection.id_accesses().add();
        operation::note(|profile| profile.add_plan(|| "IDHACK".to_owned()));
        self.examined.add(u64::from(found), u64::from(found));
    }

    /// Counts a statement that sorts.
    pub(super) fn add_sort(&self) {
        self.sorts.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts documents that `$out` wrote.
    pub(super) fn add_output(&self, documents: usize) {
        let documents = i64::try_from(documents).unwrap_or(i64::MAX);
        self.inserted_by_output
            .fetch_add(documents, Ordering::Relaxed);
    }

    /// Counts a document of `$merge`, and whether there was one to merge it into.
    pub(super) fn add_merge(&self, matched: bool) {
        self.updated_by_output.fetch_add(1, Ordering::Relaxed);
        self.matched_by_output
            .fetch_add(i64::from(matched), Ordering::Relaxed);
    }

    /// Counts a statement that goes by this plan.
    pub(super) fn add_plan(&self, plan: &Plan, collection: &Collection) {
        operation::note(|profile| {
            profile.add_plan(|| plan.summary());
            // MongoDB looks a document up by its `_id`, and tells how many there are, without a query.
            let is_look_up = match &plan.access {
                Access::Primary(own) => own.bounds.is_single_point(),
                _ => {
                    matches!(plan.method, Method::Count(_))
                        && matches!(*plan.query.filter, Filter::Always)
                }
            };
            if !is_look_up {
                let hash = || plan.query.query_hash(collection);
                profile.query_hash.get_or_insert_with(hash);
            }
            if !is_look_up && plan.query.is_cacheable() {
                let key = || plan.query.plan_cache_key(collection);
                profile.plan_cache_key.get_or_insert_with(key);
            }
            profile.sorts |= plan.sort.is_some();
        });
        plan_cache::note(plan, collection);
        let access = &plan.access;
        match plan.method {
            Method::Count(CountBy::Metadata) => {}
            Method::Count(CountBy::RankIndex(_)) | Method::SampleByRank(..) => {
                add_uses(collection, &plan.used());
            }
            // All documents, from one `_id` to the next.
            Method::SkipScan(_) | Method::CountGroups(..)
                if matches!(access, Access::Collection(_)) =>
            {
                add_uses(collection, &[Used::Id]);
            }
            Method::SkipScan(_) | Method::CountGroups(..) => add_uses(collection, &access.used()),
            Method::Rows | Method::Count(CountBy::Entries | CountBy::Rows) => {
                self.add_rows(plan, collection);
            }
        }
    }

    fn add_rows(&self, plan: &Plan, collection: &Collection) {
        if plan.sort.is_some() {
            self.add_sort();
        }
        let used = plan.used();
        if used.is_empty() && matches!(plan.access, Access::Collection(_)) {
            self.collection_scans.fetch_add(1, Ordering::Relaxed);
            collection.state.note_scan(plan.query.tailable);
        }
        add_uses(collection, &used);
    }

    pub(super) fn figures(&self, write_conflicts: u64) -> WorkFigures {
        let number = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
        let total = |of: &AtomicI64| of.load(Ordering::Relaxed);
        WorkFigures {
            keys_examined: number(self.examined.keys()),
            documents_examined: number(self.examined.documents()),
            collection_scans: total(&self.collection_scans),
            sorts: total(&self.sorts),
            write_conflicts: number(write_conflicts),
            inserted_by_output: total(&self.inserted_by_output),
            updated_by_output: total(&self.updated_by_output),
            matched_by_output: total(&self.matched_by_output),
        }
    }
}

/// Each index that a statement uses counts once, however many entries it reads.
fn add_uses(collection: &Collection, used: &[Used<'_>]) {
    for one in used {
        match one {
            Used::Id => collection.id_accesses().add(),
            Used::Index(index) => index.accesses.add(),
        }
    }
}

impl Engine {
    /// Plans a statement that will run, as [`Self::prepare`] does, and counts it.
    pub(super) fn start(
        &self,
        namespace: &Namespace,
        spec: QuerySpec,
        goal: &Goal,
    ) -> Result<Option<PreparedPlan>> {
        let prepared = self.prepare(namespace, spec, goal)?;
        Ok(prepared.map(|prepared| self.started(prepared)))
    }

    /// Makes the plan of a statement ready to run, and counts it.
    pub(super) fn start_plan(&self, opened: Opened, plan: Plan) -> PreparedPlan {
        self.started(self.prepare_plan(opened, plan))
    }

    fn started(&self, mut prepared: PreparedPlan) -> PreparedPlan {
        prepared.context.counters = Arc::new(self.work.counters());
        self.work.add_plan(&prepared.plan, &prepared.collection);
        prepared
    }
}
