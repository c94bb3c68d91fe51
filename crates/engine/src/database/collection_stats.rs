//! The documents of `collStats` and `$collStats`.

use super::Engine;
use super::statistics::CollectionStats;
use crate::aggregate::{CollectionStatsOptions, at_run_time};
use crate::error::{Code, Error, Result};
use crate::expression::value::field_name;
use crate::namespace::Namespace;
use crate::storage::{Algorithm, Compression};
use bson::raw::{RawArrayBuf, RawBson, RawDocument, RawDocumentBuf};
use bson::{DateTime, cstr, rawdoc};

impl Engine {
    /// The figures of a collection in MongoDB's order, all but its name; sizes are divided by `scale`. Those of a time
    /// series are of its buckets.
    ///
    /// # Errors
    /// `CommandNotSupportedOnView`; storage failures.
    pub fn storage_stats(&self, namespace: &Namespace, scale: i64) -> Result<RawDocumentBuf> {
        let figures = self.bucket_figures(namespace);
        let (stats, buckets) = match &figures {
            Some((stats, buckets)) => (stats.clone(), Some(&**buckets)),
            None => (self.collection_stats(namespace)?, None),
        };
        let exists = buckets.is_some() || self.has_collection(namespace);
        describe(&stats, buckets, exists, scale)
    }

    /// The one document of `$collStats`.
    pub(super) fn collection_stats_document(
        &self,
        namespace: &Namespace,
        options: CollectionStatsOptions,
        latencies: Option<&RawDocument>,
        host: &str,
    ) -> Result<RawDocumentBuf> {
        let is_series = self.timeseries(namespace).is_some();
        if (options.counts || options.queries) && is_series {
            return Err(at_run_time(self.catalog.not_a_collection(namespace)));
        }
        let collection = self.catalog.get(namespace);
        if let Some(what) = options.first_of_collection()
            && collection.is_none()
            && !is_series
        {
            let message = format!(
                "Unable to retrieve {what} in $collStats stage :: caused by :: Collection [{namespace}] not found."
            );
            return Err(at_run_time(Error::new(Code::NamespaceNotFound, message)));
        }
        let mut answer =
            rawdoc! { "ns": namespace.to_string(), "host": host, "localTime": DateTime::now() };
        if options.latencies.is_some() {
            let latencies = latencies.map_or_else(RawDocumentBuf::new, ToOwned::to_owned);
            answer.append(cstr!("latencyStats"), latencies);
        }
        if let Some(scale) = options.storage {
            answer.append(cstr!("storageStats"), self.storage_stats(namespace, scale)?);
        }
        let Some(collection) = collection else {
            return Ok(answer);
        };
        if options.counts {
            answer.append(cstr!("count"), compact(collection.state.documents()));
        }
        if options.queries {
            let (total, not_tailable) = collection.state.scans();
            let scans = rawdoc! { "total": total, "nonTailable": not_tailable };
            answer.append(
                cstr!("queryExecStats"),
                rawdoc! { "collectionScans": scans },
            );
        }
        Ok(answer)
    }
}

fn describe(
    stats: &CollectionStats,
    buckets: Option<&RawDocument>,
    exists: bool,
    scale: i64,
) -> Result<RawDocumentBuf> {
    let mut out = rawdoc! { "size": compact(stats.size / scale) };
    if let Some(buckets) = buckets {
        out.append(cstr!("timeseries"), buckets.to_owned());
    } else {
        out.append(cstr!("count"), compact(stats.count));
        if stats.count > 0 {
            out.append(cstr!("avgObjSize"), compact(stats.average_object_size));
        }
    }
    out.append(cstr!("numOrphanDocs"), 0_i32);
    out.append(cstr!("storageSize"), compact(stats.storage_size / scale));
    if exists {
        out.append(cstr!("freeStorageSize"), 0_i32);
        out.append(cstr!("capped"), stats.capped.is_some());
        if let Some(capped) = stats.capped {
            out.append(cstr!("max"), compact(capped.max.unwrap_or(0)));
            out.append(cstr!("maxSize"), compact(capped.size / scale));
        }
    }
    // Documents lie in the order of `_id`, which comes first.
    if let Some((_, compression)) = stats.compression.first() {
        out.append(cstr!("meridian"), compression_of(*compression));
    }
    let indexes = i64::try_from(stats.index_sizes.len()).unwrap_or(i64::MAX);
    out.append(cstr!("nindexes"), compact(indexes));
    let mut details = RawDocumentBuf::new();
    for (name, compression) in &stats.compression {
        details.append(field_name(name)?, compression_of(*compression));
    }
    for name in &stats.unbuilt {
        details.append(field_name(name)?, rawdoc! { "unbuilt": true });
    }
    out.append(cstr!("indexDetails"), details);
    if exists {
        out.append(cstr!("indexBuilds"), RawArrayBuf::new());
    }
    let (documents, indexes) = (stats.storage_size, stats.total_index_size);
    out.append(cstr!("totalIndexSize"), compact(indexes / scale));
    out.append(cstr!("totalSize"), compact((documents + indexes) / scale));
    let mut sizes = RawDocumentBuf::new();
    for (name, size) in &stats.index_sizes {
        sizes.append(field_name(name)?, compact(size / scale));
    }
    out.append(cstr!("indexSizes"), sizes);
    out.append(cstr!("scaleFactor"), compact(scale));
    Ok(out)
}

/// How most bytes are compressed, and those in files that have not reached the lowest level, if differently.
fn compression_of(compression: Compression) -> RawDocumentBuf {
    let (settled, passing) = (compression.settled(), compression.passing());
    let mut out = algorithm(settled);
    if passing != settled {
        out.append(cstr!("upperLevels"), algorithm(passing));
    }
    out
}

fn algorithm(algorithm: Algorithm) -> RawDocumentBuf {
    let mut out = rawdoc! { "compression": algorithm.name() };
    if let Some(level) = algorithm.level() {
        out.append(cstr!("compressionLevel"), i32::from(level));
    }
    out
}

/// A number as MongoDB's statistics have it: 32 bits where it fits.
pub(super) fn compact(number: i64) -> RawBson {
    i32::try_from(number).map_or(RawBson::Int64(number), RawBson::Int32)
}
