//! The threads that sweep TTL indexes and close idle cursors, and that keep rank indexes fine. They end
//! with the engine.

use super::Engine;
use crate::catalog::Collection;
use crate::error::Result;
use crate::namespace::Namespace;
use crate::rank::Disagreement;
use crate::storage::TreeKey;
use crate::ttl::{self, Sweepable};
use crate::write::{Target, Writer};
use bson::DateTime;
use bson::raw::RawDocument;
use meridian_value::Collation;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How often a part of the counts is compared with what is stored.
const AUDIT_INTERVAL: Duration = Duration::from_secs(1);
/// The same while little is written.
const AUDIT_INTERVAL_IDLE: Duration = TICK;
/// How soon a changed interval, a shutdown or an idle cursor is noticed.
const TICK: Duration = Duration::from_millis(250);

/// Starts the threads.
pub(super) fn start(engine: &Arc<Engine>) {
    start_sweeping(engine);
    start_building(engine);
}

fn start_building(engine: &Arc<Engine>) {
    let queue = engine.writer.ranks().build_queue();
    let queue_unbuilt =
        |engine: &Engine| engine.writer.ranks().queue_unbuilt(engine.catalog.ranks());
    queue_unbuilt(engine);
    let mut is_idle = engine.store.is_idle();
    let mut audited = Instant::now();
    let engine = Arc::downgrade(engine);
    let work = move || {
        loop {
            queue.wait(TICK);
            let Some(engine) = engine.upgrade() else {
                return;
            };
            if engine.is_stopped() {
                return;
            }
            if let Err(error) = engine.save_rank_indexes_when_due() {
                tracing::error!(%error, "rank indexes could not be saved; after a kill they are built anew");
            }
            let was_idle = std::mem::replace(&mut is_idle, engine.store.is_idle());
            if is_idle && !was_idle {
                queue_unbuilt(&engine);
            }
            if let Err(error) = engine.writer.ranks().build_queued() {
                tracing::error!(%error, "a rank index could not be built; counts scan entries meanwhile");
            }
            let interval = match is_idle {
                true => AUDIT_INTERVAL_IDLE,
                false => AUDIT_INTERVAL,
            };
            if audited.elapsed() >= interval {
                audited = Instant::now();
                engine.audit();
            }
        }
    };
    std::thread::Builder::new()
        .name("rank-indexes".into())
        .spawn(work)
        .expect("a thread can be started when the engine is opened");
}

impl Engine {
    /// Compares some counts with what is stored.
    fn audit(&self) {
        let is_there = |tree| {
            let all = self.catalog.all();
            let holder = all.iter().find(|one| holds(one, tree));
            holder.is_some_and(|holder| {
                // Who drops a tree holds the lock until its collection is published without it.
                let _writing = holder.state.lock();
                let now = self.catalog.all();
                now.iter().any(|one| holds(one, tree))
            })
        };
        let audited = self
            .writer
            .ranks()
            .audit_next(self.catalog.ranks(), &is_there);
        match audited {
            Ok(None) => {}
            Ok(Some(wrong)) => self.report(wrong),
            Err(error) => {
                tracing::error!(%error, "counts could not be compared with what is stored");
            }
        }
    }

    /// Puts rows of time series into buckets where no others have come for a while, so that readers need not.
    fn flush_idle_rows(&self) {
        for collection in self.catalog.all() {
            let has_rows =
                collection.options.timeseries.is_some() && collection.state.has_delta_rows();
            if has_rows && let Err(error) = self.writer.flush_idle_rows(&collection.namespace) {
                tracing::warn!(namespace = %collection.namespace, %error, "rows of a time series could not be put into buckets yet");
            }
        }
    }

    fn report(&self, Disagreement { tree, buckets }: Disagreement) {
        let all = self.catalog.all();
        let collection = all.iter().find(|one| holds(one, tree));
        let namespace = collection.map(|one| one.namespace.to_string());
        let index = collection.and_then(|one| one.indexes.iter().find(|own| own.tree == tree));
        tracing::error!(
            namespace = namespace.unwrap_or_default(),
            index = index.map_or("_id_", |index| index.spec.name.as_str()),
            buckets,
            "counts disagreed with what is stored; the index is counted anew. Please report this"
        );
    }
}

fn holds(collection: &Collection, tree: TreeKey) -> bool {
    collection.trees().iter().any(|(_, own)| *own == tree)
}

fn start_sweeping(engine: &Arc<Engine>) {
    let engine = Arc::downgrade(engine);
    let work = move || {
        let mut last = Instant::now();
        loop {
            std::thread::sleep(TICK);
            let Some(engine) = engine.upgrade() else {
                return;
            };
            if engine.is_stopped() {
                return;
            }
            engine.cursors.expire(Instant::now());
            engine.flush_idle_rows();
            if last.elapsed() >= Duration::from_secs(engine.ttl_sweep_seconds()) {
                last = Instant::now();
                if engine.sweeps_ttl() {
                    ttl::sweep(engine.as_ref(), &engine.ttl, DateTime::now());
                }
            }
        }
    };
    std::thread::Builder::new()
        .name("background".into())
        .spawn(work)
        .expect("a thread can be started when the engine is opened");
}

impl Sweepable for Engine {
    fn collections(&self) -> Vec<Arc<Collection>> {
        self.catalog.all()
    }

    fn find_expired(
        &self,
        namespace: &Namespace,
        filter: &RawDocument,
        collation: &Collation,
        count_max: usize,
    ) -> Result<Vec<Target>> {
        self.find_targets(namespace, filter, collation, count_max)
    }

    fn now(&self, collection: &Collection) -> Option<Arc<Collection>> {
        self.catalog.now(collection).ok()
    }

    fn writer(&self) -> &Writer {
        &self.writer
    }

    fn is_stopped(&self) -> bool {
        self.stopped.load(std::sync::atomic::Ordering::Acquire)
    }
}
