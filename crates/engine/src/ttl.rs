//! Removes documents whose time has come.
//!
//! A sweep walks every TTL index from its oldest entry up to the present less `expireAfterSeconds`
//! and deletes what it finds, each document re-checked under the write lock. A document that the
//! index's partial filter leaves out has no entry in it and never expires by it. Clustered
//! collections with `expireAfterSeconds` are swept by `_id`.

use crate::catalog::Collection;
use crate::error::{Code, Result};
use crate::index::IndexSpec;
use crate::namespace::Namespace;
use crate::query::Filter;
use crate::timeseries::bucket_id;
use crate::write::{Change, Target, Writer};
use bson::raw::{RawArrayBuf, RawBsonRef, RawDocument, RawDocumentBuf};
use bson::{DateTime, cstr, rawdoc};
use meridian_value::Collation;
use meridian_value::path::{LeafArrays, Path, visit};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

/// Documents deleted in one commit.
const BATCH_DOCUMENTS: usize = 500;

/// What the sweeps have done.
#[derive(Debug, Default)]
pub struct TtlCounters {
    passes: AtomicI64,
    deleted: AtomicI64,
}

impl TtlCounters {
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
        collation: &Collation,
        count_max: usize,
    ) -> Result<Vec<Target>>;

    /// The present version of a collection; `None` where it is gone.
    fn now(&self, collection: &Collection) -> Option<Arc<Collection>>;

    /// Commits the deletions.
    fn writer(&self) -> &Writer;

    /// Whether the engine is being stopped.
    fn is_stopped(&self) -> bool;
}

/// What expires in a collection by one of its indexes, or by `_id`.
#[derive(PartialEq)]
struct Expiry {
    path: String,
    seconds: i64,
    /// Only documents that match it expire.
    partial_filter: Option<RawDocumentBuf>,
    /// By what that filter compares texts.
    collation: Collation,
}

impl Expiry {
    /// That of an index, if it is a TTL index. Only a field's own values can be dates, and mongod ignores
    /// compound indexes of old releases that have `expireAfterSeconds`.
    fn of_index(spec: &IndexSpec) -> Option<Self> {
        let [(path, field)] = spec.key.as_slice() else {
            return None;
        };
        if !field.is_by_value() {
            return None;
        }
        Some(Self {
            path: path.clone(),
            seconds: spec.expire_after_seconds?,
            partial_filter: spec.partial_filter.clone(),
            collation: spec.collation.clone(),
        })
    }

    /// Matches what has expired at `limit`.
    fn filter(&self, limit: DateTime) -> Result<RawDocumentBuf> {
        let name = bson::raw::CString::try_from(self.path.as_str()).map_err(|_| {
            crate::Error::new(
                crate::Code::InternalError,
                "an indexed path holds a NUL byte",
            )
        })?;
        let mut expired = RawDocumentBuf::new();
        expired.append(&*name, rawdoc! { "$lte": limit });
        let Some(partial) = self.partial_filter.as_ref().filter(|own| !own.is_empty()) else {
            return Ok(expired);
        };
        let mut both = RawArrayBuf::new();
        both.push(expired);
        both.push(partial.clone());
        let mut filter = RawDocumentBuf::new();
        filter.append(cstr!("$and"), both);
        Ok(filter)
    }
}

/// One pass over all TTL indexes; failures are logged, the next pass tries again.
pub(crate) fn sweep(engine: &dyn Sweepable, counters: &TtlCounters, now: DateTime) {
    for collection in engine.collections() {
        for expiry in expiries(&collection, now) {
            match sweep_path(engine, &collection, &expiry, now) {
                Ok(deleted) => {
                    counters.deleted.fetch_add(deleted, Ordering::Relaxed);
                }
                Err(error) => {
                    let path = expiry.path;
                    tracing::error!(namespace = %collection.namespace, path, %error, "a TTL sweep failed");
                }
            }
        }
    }
    counters.passes.fetch_add(1, Ordering::Relaxed);
}

fn expiries(collection: &Collection, now: DateTime) -> Vec<Expiry> {
    let indexes = collection.ready_indexes();
    let mut expiries: Vec<Expiry> = indexes
        .filter_map(|index| Expiry::of_index(&index.spec))
        .collect();
    let clustered = collection.options.expire_after_seconds;
    if let (Some(seconds), Some(timeseries)) = (clustered, &collection.options.timeseries) {
        // A bucket expires with its last measurement. Where it is kept is said by its start.
        expiries.push(Expiry {
            path: format!("control.max.{}", timeseries.time_field),
            seconds,
            partial_filter: Some(buckets_before(now, seconds)),
            collation: Collation::SIMPLE,
        });
        return expiries;
    }
    expiries.extend(clustered.map(|seconds| Expiry {
        path: "_id".to_owned(),
        seconds,
        partial_filter: None,
        collation: Collation::SIMPLE,
    }));
    expiries
}

/// The `_id`s that buckets of measurements so many seconds ago can have.
fn buckets_before(now: DateTime, seconds: i64) -> RawDocumentBuf {
    let limit = now
        .timestamp_millis()
        .saturating_sub(seconds.saturating_mul(1_000));
    rawdoc! { "_id": { "$lte": bucket_id(limit, true) } }
}

fn sweep_path(
    engine: &dyn Sweepable,
    collection: &Collection,
    expiry: &Expiry,
    now: DateTime,
) -> Result<i64> {
    let limit = DateTime::from_millis(
        now.timestamp_millis()
            .saturating_sub(expiry.seconds.saturating_mul(1000)),
    );
    let filter = expiry.filter(limit)?;
    let path = Path::parse(&expiry.path);
    let partial = expiry.partial_filter.as_deref();
    let partial = partial
        .map(|partial| Filter::parse_by(partial, &expiry.collation))
        .transpose()?;
    let decide = |document: &RawDocument| {
        let inside = match &partial {
            Some(partial) => partial.matches(document)?,
            None => true,
        };
        Ok((inside && has_expired(document, &path, limit)).then_some(Change::Remove))
    };
    let mut deleted = 0;
    loop {
        // Whoever drops the index, or gives it another expiry, wants what is left to stay.
        let current = engine.now(collection);
        if !current.is_some_and(|current| expiries(&current, now).contains(expiry)) {
            return Ok(deleted);
        }
        let targets = engine.find_expired(
            &collection.namespace,
            &filter,
            &expiry.collation,
            BATCH_DOCUMENTS,
        )?;
        let found = targets.len();
        let before = deleted;
        let report = &mut |_| deleted += 1;
        let writer = engine.writer();
        match writer.modify(collection, &targets, true, &decide, report) {
            // What has its name now may expire otherwise, or not at all.
            Err(error) if error.code == Code::QueryPlanKilled => return Ok(deleted),
            modified => modified?,
        }
        // When none of a batch is removed the next one would hold the same documents.
        if found < BATCH_DOCUMENTS || deleted == before || engine.is_stopped() {
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
