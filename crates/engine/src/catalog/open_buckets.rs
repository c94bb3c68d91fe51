//! Which buckets of a time series take further measurements.

use ahash::AHashMap;
use bson::oid::ObjectId;

/// Bytes of the metadata of open buckets of one collection, about.
const BYTES_MAX: usize = 8 * 1024 * 1024;
/// What one takes besides.
const ENTRY_BYTES: usize = 64;

/// One bucket for each series, by its metadata. In memory only: it is a hint, which the writer checks against the
/// stored bucket; after a restart new buckets are begun.
#[derive(Debug, Default)]
pub struct OpenBuckets {
    by_series: AHashMap<Box<[u8]>, ObjectId>,
    bytes: usize,
}

impl OpenBuckets {
    /// The open bucket of a series.
    pub fn get(&self, series: &[u8]) -> Option<ObjectId> {
        self.by_series.get(series).copied()
    }

    /// Makes a bucket the open one of its series. When too many are open all others are closed.
    pub fn set(&mut self, series: &[u8], id: ObjectId) {
        if let Some(known) = self.by_series.get_mut(series) {
            *known = id;
            return;
        }
        let bytes = series.len() + ENTRY_BYTES;
        if self.bytes + bytes > BYTES_MAX {
            *self = Self::default();
        }
        self.bytes += bytes;
        self.by_series.insert(series.into(), id);
    }
}
