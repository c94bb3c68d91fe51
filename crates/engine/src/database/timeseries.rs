//! Statements on time-series collections that are not reads: each becomes one on the collection of buckets. Reads are
//! those of a view.

use super::aggregate::first_stage;
use super::collection_stats::compact;
use super::requests::AggregateRequest;
use super::{
    CollModRequest, CollectionStats, CreateIndexesOutcome, DeleteStatement, DropIndexes,
    DropOutcome, Engine, UpdateOutcome, UpdateStatement,
};
use crate::catalog::CollectionOptions;
use crate::error::{Code, Error, Result};
use crate::namespace::Namespace;
use crate::plan::bucket_partial_filter;
use crate::timeseries::{BUCKETS_PREFIX, Timeseries, buckets_of, series_of};
use crate::write::BuildProgress;
use bson::raw::{RawBsonRef, RawDocument, RawDocumentBuf};
use bson::{cstr, rawdoc};

impl Engine {
    /// What makes a collection a time series, if it is one.
    pub fn timeseries(&self, namespace: &Namespace) -> Option<std::sync::Arc<Timeseries>> {
        self.catalog
            .timeseries(namespace)
            .map(|(timeseries, _)| timeseries)
    }

    /// Whether a collection holds the buckets of a time series.
    pub fn holds_buckets(&self, namespace: &Namespace) -> bool {
        let collection = self.catalog.get(namespace);
        collection.is_some_and(|collection| collection.options.timeseries.is_some())
    }

    /// Creates a time-series collection: its collection of buckets.
    ///
    /// # Errors
    /// `InvalidOptions`; `NamespaceExists`.
    pub(super) fn create_timeseries(
        &self,
        namespace: &Namespace,
        options: &CollectionOptions,
        timeseries: &Timeseries,
    ) -> Result<()> {
        timeseries.check(namespace)?;
        if namespace.collection.starts_with(BUCKETS_PREFIX) {
            return Err(Error::new(
                Code::InvalidNamespace,
                format!("a collection of buckets cannot be a time series itself: {namespace}"),
            ));
        }
        options.check_expiry()?;
        let own = options.of_buckets(timeseries)?;
        self.writer
            .create_timeseries(&buckets_of(namespace), namespace, own)
    }

    /// Drops a time-series collection, named by its own name or by that of its buckets; `None` where it is none.
    pub(super) fn drop_timeseries(&self, namespace: &Namespace) -> Result<Option<DropOutcome>> {
        let series = series_of(namespace).unwrap_or_else(|| namespace.clone());
        let Some((_, buckets)) = self.catalog.timeseries(&series) else {
            return Ok(None);
        };
        let dropped = self.writer.drop_collection(&buckets)?;
        let why = dropped.dropped();
        self.cursors.kill_namespace(&buckets, &why);
        self.cursors.kill_namespace(&series, &why);
        Ok(Some(DropOutcome {
            indexes_was: Some(i32::try_from(dropped.definitions().count()).unwrap_or(i32::MAX)),
            name: Some(series),
        }))
    }

    /// An update of the metadata of measurements.
    pub(super) fn update_measurements(
        &self,
        timeseries: &Timeseries,
        buckets: &Namespace,
        statement: &UpdateStatement<'_>,
    ) -> Result<UpdateOutcome> {
        let refused = |what: &str| {
            let message = format!("Cannot perform {what} on a time-series collection");
            Err(Error::new(Code::InvalidOptions, message))
        };
        timeseries.check_updatable()?;
        if !statement.multi {
            return refused("a non-multi update");
        }
        if statement.upsert {
            return refused("an upsert");
        }
        let update = timeseries.bucket_update(statement.update)?;
        let filter = timeseries.bucket_filter(statement.filter)?;
        let hint = bucket_hint(timeseries, statement.hint);
        let statement = UpdateStatement {
            filter: &filter,
            update: RawBsonRef::Document(&update),
            hint: hint.as_deref().map(RawBsonRef::Document).or(statement.hint),
            ..statement.clone()
        };
        self.update_counting(buckets, &statement, &|bucket| {
            timeseries.measurements_of(bucket) as i64
        })
    }

    /// A delete of all measurements with some metadata.
    pub(super) fn delete_measurements(
        &self,
        timeseries: &Timeseries,
        buckets: &Namespace,
        statement: &DeleteStatement<'_>,
    ) -> Result<i64> {
        if statement.limit_one {
            let message = "Cannot perform a non-multi delete on a time-series collection";
            return Err(Error::new(Code::IllegalOperation, message));
        }
        let filter = timeseries.bucket_filter(statement.filter)?;
        let hint = bucket_hint(timeseries, statement.hint);
        let statement = DeleteStatement {
            filter: &filter,
            hint: hint.as_deref().map(RawBsonRef::Document).or(statement.hint),
            ..*statement
        };
        self.delete_counting(buckets, &statement, &|bucket| {
            timeseries.measurements_of(bucket) as i64
        })
    }

    /// Creates indexes of a time-series collection: on its buckets.
    pub(super) fn create_timeseries_indexes(
        &self,
        timeseries: &Timeseries,
        buckets: &Namespace,
        specs: &[&RawDocument],
        progress: &mut dyn FnMut(BuildProgress),
    ) -> Result<CreateIndexesOutcome> {
        let partial = |filter: &RawDocument| bucket_partial_filter(timeseries, filter);
        let own = specs
            .iter()
            .map(|spec| timeseries.bucket_index(spec, &partial));
        let own: Vec<RawDocumentBuf> = own.collect::<Result<_>>()?;
        let own: Vec<&RawDocument> = own.iter().map(|spec| &**spec).collect();
        let outcome = self.create_indexes(buckets, &own, progress)?;
        Ok(CreateIndexesOutcome {
            created_collection: false,
            ..outcome
        })
    }

    /// The indexes of a time-series collection, as users say them.
    pub(super) fn list_timeseries_indexes(
        &self,
        timeseries: &Timeseries,
        buckets: &Namespace,
    ) -> Result<Vec<RawDocumentBuf>> {
        let listed = self.list_indexes(buckets)?;
        let own = listed.iter().filter_map(|spec| timeseries.user_index(spec));
        Ok(own.collect())
    }

    /// Which indexes of buckets to drop.
    pub(super) fn drop_timeseries_indexes(
        &self,
        timeseries: &Timeseries,
        buckets: &Namespace,
        which: &DropIndexes,
    ) -> Result<i32> {
        match which {
            DropIndexes::Key(key) => {
                let key = timeseries
                    .bucket_key(key)
                    .map_err(|error| match error.code {
                        Code::CannotCreateIndex => Error::new(Code::IndexNotFound, error.message),
                        _ => error,
                    })?;
                self.drop_indexes(buckets, &DropIndexes::Key(key))
            }
            which => self.drop_indexes(buckets, which),
        }
    }

    /// Changes what a time-series collection may be changed in.
    pub(super) fn modify_timeseries(
        &self,
        timeseries: &Timeseries,
        buckets: &Namespace,
        request: &CollModRequest,
    ) -> Result<RawDocumentBuf> {
        let mut request = request.clone();
        if let Some(index) = &request.index {
            if matches!(index.get("expireAfterSeconds"), Ok(Some(_))) {
                return Err(Error::new(
                    Code::InvalidOptions,
                    "TTL indexes are not supported for time-series collections. Please refer to the documentation and \
                     use the top-level 'expireAfterSeconds' option instead",
                ));
            }
            let mut own = RawDocumentBuf::new();
            for (name, value) in index.iter().flatten() {
                match (name.as_str(), value) {
                    ("keyPattern", RawBsonRef::Document(key)) => {
                        own.append(name, timeseries.bucket_key(key)?)
                    }
                    _ => own.append(name, value),
                }
            }
            request.index = Some(own);
        }
        self.modify_collection(buckets, &request)
    }

    /// Figures of the buckets of a time-series collection, and what `collStats` shows of them besides.
    pub fn bucket_figures(
        &self,
        namespace: &Namespace,
    ) -> Option<(CollectionStats, RawDocumentBuf)> {
        let (_, buckets) = self.catalog.timeseries(namespace)?;
        let mut stats = self.collection_stats(&buckets).ok()?;
        stats.index_sizes.retain(|(name, _)| name != "_id_");
        let mut figures = rawdoc! { "bucketsNs": buckets.to_string() };
        figures.append(cstr!("bucketCount"), compact(stats.count));
        if stats.count > 0 {
            figures.append(cstr!("avgBucketSize"), compact(stats.average_object_size));
        }
        Some((stats, figures))
    }

    /// Whether a pipeline begins with a stage that tells about a time series itself, and not about its measurements.
    pub(super) fn asks_for_figures_of_series(
        &self,
        namespace: &Namespace,
        request: &AggregateRequest<'_>,
    ) -> bool {
        let first = first_stage(request);
        matches!(first, Some("$collStats" | "$indexStats")) && self.timeseries(namespace).is_some()
    }

    /// The rows of `$indexStats` of a time series, as users say its indexes.
    pub(super) fn timeseries_index_stats(
        &self,
        timeseries: &Timeseries,
        buckets: &Namespace,
        host: &str,
    ) -> Vec<RawDocumentBuf> {
        let rows = self.index_stats(buckets, host).into_iter();
        rows.filter_map(|row| {
            let spec = timeseries.user_index(row.get_document("spec").ok()?)?;
            let key = spec.get_document("key").ok()?.to_owned();
            let mut own = RawDocumentBuf::new();
            for (name, value) in row.iter().flatten() {
                match name.as_str() {
                    "key" => own.append(name, key.clone()),
                    "spec" => own.append(name, spec.clone()),
                    _ => own.append(name, value),
                }
            }
            Some(own)
        })
        .collect()
    }
}

/// A hint by key pattern in the words of buckets; `None` for one that stays as it is, and then names no index.
pub(super) fn bucket_hint(
    timeseries: &Timeseries,
    hint: Option<RawBsonRef<'_>>,
) -> Option<RawDocumentBuf> {
    let key = hint?.as_document()?;
    let is_natural = key
        .iter()
        .flatten()
        .any(|(name, _)| name.as_str() == "$natural");
    timeseries.bucket_key(key).ok().filter(|_| !is_natural)
}
