//! The threads that sweep TTL indexes and close idle cursors, and that keep summaries fine. They end
//! with the engine.

use super::Engine;
use crate::catalog::Collection;
use crate::error::Result;
use crate::namespace::Namespace;
use crate::ttl::{self, Sweepable};
use crate::write::{Target, Writer};
use bson::DateTime;
use bson::raw::RawDocument;
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
    start_learning(engine);
}

fn start_learning(engine: &Arc<Engine>) {
    let queue = engine.writer.summary_queue();
    engine.writer.queue_unlearnt();
    let mut rests = engine.store.rests();
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
            if let Err(error) = engine.save_summaries_when_due() {
                tracing::error!(%error, "summaries could not be saved; after a kill they are learnt anew");
            }
            let did_rest = std::mem::replace(&mut rests, engine.store.rests());
            if rests && !did_rest {
                engine.writer.queue_unlearnt();
            }
            if let Err(error) = engine.writer.learn_queued() {
                tracing::error!(%error, "a summary could not be learnt; counts walk entries meanwhile");
            }
            let interval = match rests {
                true => AUDIT_INTERVAL_IDLE,
                false => AUDIT_INTERVAL,
            };
            if audited.elapsed() >= interval {
                audited = Instant::now();
                if let Err(error) = engine.writer.audit_next() {
                    tracing::error!(%error, "counts could not be compared with what is stored");
                }
            }
        }
    };
    std::thread::Builder::new()
        .name("summaries".into())
        .spawn(work)
        .expect("a thread can be started when the engine is opened");
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
            if last.elapsed() >= Duration::from_secs(engine.ttl_sweep_seconds()) {
                last = Instant::now();
                ttl::sweep(engine.as_ref(), &engine.ttl, DateTime::now());
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
        count_max: usize,
    ) -> Result<Vec<Target>> {
        self.find_targets(namespace, filter, count_max)
    }

    fn writer(&self) -> &Writer {
        &self.writer
    }

    fn is_stopped(&self) -> bool {
        self.stopped.load(std::sync::atomic::Ordering::Acquire)
    }
}
