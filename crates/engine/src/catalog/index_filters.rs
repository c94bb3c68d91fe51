//! Index filters: which indexes may answer statements of one shape (`planCacheSetFilter`).

use crate::error::Result;
use crate::operation::memory::Reservation;
use bson::RawDocumentBuf;
use parking_lot::RwLock;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The index filters of one collection. In memory only, as in MongoDB: a start begins without any, and dropping the
/// collection ends them.
#[derive(Default)]
pub struct IndexFilters(RwLock<BTreeMap<String, Arc<IndexFilter>>>);

/// Which indexes may answer the statements of a shape.
pub struct IndexFilter {
    /// The statement that it was set by: `query`, `sort`, `projection` and, where there is one, `collation`.
    pub statement: RawDocumentBuf,
    /// By key pattern, in their order.
    pub keys: Vec<RawDocumentBuf>,
    /// By name, in their order.
    pub names: Vec<String>,
    _memory: Reservation,
}

impl IndexFilter {
    /// A filter, whose memory is taken as long as it is set.
    ///
    /// # Errors
    /// `ExceededMemoryLimit` when there is not enough.
    pub fn new(
        statement: RawDocumentBuf,
        keys: Vec<RawDocumentBuf>,
        names: Vec<String>,
    ) -> Result<Self> {
        let of_keys: usize = keys.iter().map(|key| key.as_bytes().len()).sum();
        let of_names: usize = names.iter().map(String::len).sum();
        // The shape is no longer than the statement.
        let own = 2 * statement.as_bytes().len() + size_of::<Self>();
        Ok(Self {
            _memory: Reservation::exactly(
                own + of_keys + of_names + 64 * (keys.len() + names.len()),
            )?,
            statement,
            keys,
            names,
        })
    }

    /// Whether an index may be used.
    pub fn allows(&self, name: &str, key: &bson::RawDocument) -> bool {
        let by_name = self.names.binary_search_by(|own| own.as_str().cmp(name));
        let by_key = |own: &RawDocumentBuf| meridian_value::compare_documents(own, key);
        by_name.is_ok() || self.keys.binary_search_by(by_key).is_ok()
    }
}

impl IndexFilters {
    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.read().is_empty()
    }

    /// The filter of a shape.
    pub fn of(&self, shape: &str) -> Option<Arc<IndexFilter>> {
        self.0.read().get(shape).cloned()
    }

    /// All of them.
    pub fn all(&self) -> Vec<Arc<IndexFilter>> {
        self.0.read().values().cloned().collect()
    }

    /// Sets the one of a shape in place of another.
    pub fn set(&self, shape: String, filter: IndexFilter) {
        self.0.write().insert(shape, Arc::new(filter));
    }

    /// Ends the one of a shape, or all.
    pub fn clear(&self, shape: Option<&str>) {
        let mut filters = self.0.write();
        match shape {
            Some(shape) => drop(filters.remove(shape)),
            None => filters.clear(),
        }
    }
}
