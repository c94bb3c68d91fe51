//! Index filters: which indexes may answer statements of one shape (`planCacheSetFilter`).

use bson::RawDocumentBuf;
use parking_lot::RwLock;
use std::sync::Arc;

/// The index filters of one collection. In memory only, as in MongoDB: a start begins without any, and dropping the
/// collection ends them.
#[derive(Default)]
pub struct IndexFilters(RwLock<Vec<Arc<IndexFilter>>>);

/// Which indexes may answer the statements of a shape.
pub struct IndexFilter {
    /// The shape: equal bytes for statements that differ in values only.
    pub shape: Box<[u8]>,
    /// The statement that it was set by: `query`, `sort`, `projection` and, where there is one, `collation`.
    pub statement: RawDocumentBuf,
    /// By key pattern, in their order.
    pub keys: Vec<RawDocumentBuf>,
    /// By name, in their order.
    pub names: Vec<String>,
}

impl IndexFilter {
    /// Whether an index may be used.
    pub fn allows(&self, name: &str, key: &bson::RawDocument) -> bool {
        let is_key = |own: &RawDocumentBuf| meridian_value::compare_documents(own, key).is_eq();
        self.names.iter().any(|own| own == name) || self.keys.iter().any(is_key)
    }
}

impl IndexFilters {
    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.read().is_empty()
    }

    /// The filter of a shape.
    pub fn of(&self, shape: &[u8]) -> Option<Arc<IndexFilter>> {
        let filters = self.0.read();
        filters.iter().find(|own| *own.shape == *shape).cloned()
    }

    /// All of them, in the order in which they were set first.
    pub fn all(&self) -> Vec<Arc<IndexFilter>> {
        self.0.read().clone()
    }

    /// Sets one in place of another of the same shape.
    pub fn set(&self, filter: IndexFilter) {
        let mut filters = self.0.write();
        let filter = Arc::new(filter);
        match filters.iter_mut().find(|own| own.shape == filter.shape) {
            Some(own) => *own = filter,
            None => filters.push(filter),
        }
    }

    /// Ends the one of a shape, or all.
    pub fn clear(&self, shape: Option<&[u8]>) {
        let mut filters = self.0.write();
        filters.retain(|own| shape.is_some_and(|shape| *own.shape != *shape));
    }
}
