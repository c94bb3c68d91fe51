//! Removes documents whose time has come.
//!
//! A sweep walks every TTL index from its oldest entry up to the present less `expireAfterSeconds`
//! and deletes what it finds, each document re-checked under the write lock. Clustered collections
//! with `expireAfterSeconds` are swept by `_id`.

use crate::catalog::Collection;
use crate::error::Result;
use crate::namespace::Namespace;
use crate::write::{Change, Target, Writer};
use bson::raw::{RawBsonRef, RawDocument};
use bson::{DateTime, rawdoc};
use meridian_value::path::{LeafArrays, Path, visit};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

/// Documents deleted in one commit.
const BATCH_DOCUMENTS: usize = 500;

/// What the sweeps have done.
#[derive(Debug, Default)]
pub struct Counters {
    passes: AtomicI64,
    deleted: AtomicI64,
}

impl Counters {
    /// Sweeps since the start.
    pub fn passes(&self) -> i64 {
        self.passes.load(Ordering::Relaxed)
    }

    /// Documents deleted since the start.
    pub fn deleted(&self) -> i64 {
        self.deleted.load(Ordering::Relaxed)
    }
}

/// What a sweep needs of the engine.
pub(crate) trait Sweepable {
    /// All collections.
    fn collections(&self) -> Vec<Arc<Collection>>;

    /// The first documents that match.
    ///
    /// # Errors
    /// Storage failures.
    fn find_expired(
        &self,
        namespace: &Namespace,
        filter: &RawDocument,
        count_max: usize,
    ) -> Result<Vec<Target>>;

    /// Commits the deletions.
    fn writer(&self) -> &Writer;

    /// Whether the engine is being stopped.
    fn is_stopped(&self) -> bool;
}

/// One pass over all TTL indexes; failures are logged, the next pass tries again.
pub(crate) fn sweep(engine: &dyn Sweepable, counters: &Counters, now: DateTime) {
    for collection in engine.collections() {
        for (path, seconds) in expiries(&collection) {
            match sweep_path(engine, &collection, &path, seconds, now) {
                Ok(deleted) => {
                    counters.deleted.fetch_add(deleted, Ordering::Relaxed);
                }
                Err(error) => {
                    tracing::error!(namespace = %collection.namespace, path, %error, "a TTL sweep failed");
                }
            }
        }
    }
    counters.passes.fetch_add(1, Ordering::Relaxed);
}

fn expiries(collection: &Collection) -> Vec<(String, i64)> {
    let mut expiries: Vec<(String, i64)> = collection
        .ready_indexes()
        .filter_map(|index| {
            Some((
                index.spec.key.first()?.0.clone(),
                index.spec.expire_after_seconds?,
            ))
        })
        .collect();
    expiries.extend(
        collection
            .options
            .expire_after_seconds
            .map(|seconds| ("_id".to_owned(), seconds)),
    );
    expiries
}

fn sweep_path(
    engine: &dyn Sweepable,
    collection: &Collection,
    path: &str,
    seconds: i64,
    now: DateTime,
) -> Result<i64> {
    let limit = DateTime::from_millis(
        now.timestamp_millis()
            .saturating_sub(seconds.saturating_mul(1000)),
    );
    let parsed = Path::parse(path);
    let decide = |document: &RawDocument| {
        Ok(has_expired(document, &parsed, limit).then_some(Change::Remove))
    };
    let mut deleted = 0;
    loop {
        let name = bson::raw::CString::try_from(path).map_err(|_| {
            crate::Error::new(
                crate::Code::InternalError,
                "an indexed path holds a NUL byte",
            )
        })?;
        let mut filter = bson::RawDocumentBuf::new();
        filter.append(&*name, rawdoc! { "$lte": limit });
        let targets = engine.find_expired(&collection.namespace, &filter, BATCH_DOCUMENTS)?;
        let found = targets.len();
        let writer = engine.writer();
        let report = &mut |_| deleted += 1;
        writer.modify(&collection.namespace, &targets, true, &decide, report)?;
        if found < BATCH_DOCUMENTS || engine.is_stopped() {
            return Ok(deleted);
        }
    }
}

/// Whether the earliest date at the path is not after the limit: MongoDB's rule for arrays of dates.
fn has_expired(document: &RawDocument, path: &Path, limit: DateTime) -> bool {
    let mut expired = false;
    let _ = visit(document, path, LeafArrays::Traverse, &mut |visited| {
        expired |= matches!(visited.value, Some(RawBsonRef::DateTime(date)) if date <= limit);
        if expired {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    });
    expired
}
