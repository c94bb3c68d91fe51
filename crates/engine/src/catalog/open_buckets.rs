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
    by_series: AHashMap<Box<[u8]>, OpenBucket>,
    bytes: usize,
    /// How often the definition of the collection changed.
    definition: u64,
}

#[derive(Debug, Clone, Copy)]
struct OpenBucket {
    id: ObjectId,
    /// The definition by which it was written last.
    definition: u64,
}

impl OpenBuckets {
    /// Of how many series a bucket is open.
    pub fn series(&self) -> usize {
        self.by_series.len()
    }

    /// The open bucket of a series.
    pub fn get(&self, series: &[u8]) -> Option<ObjectId> {
        self.by_series.get(series).map(|open| open.id)
    }

    /// Whether a bucket of a series was written since the definition of the collection changed last: no index refuses the
    /// metadata.
    pub fn is_accepted(&self, series: &[u8]) -> bool {
        let open = self.by_series.get(series);
        open.is_some_and(|open| open.definition == self.definition)
    }

    /// The definition of the collection changes.
    pub fn note_definition(&mut self) {
        self.definition += 1;
    }

    /// Makes a bucket the open one of its series. When too many are open all others are closed.
    pub fn set(&mut self, series: &[u8], id: ObjectId) {
        let open = OpenBucket {
            id,
            definition: self.definition,
        };
        if let Some(known) = self.by_series.get_mut(series) {
            *known = open;
            return;
        }
        let bytes = series.len() + ENTRY_BYTES;
        if self.bytes + bytes > BYTES_MAX {
            self.by_series.clear();
            self.bytes = 0;
        }
        self.bytes += bytes;
        self.by_series.insert(series.into(), open);
    }
}
