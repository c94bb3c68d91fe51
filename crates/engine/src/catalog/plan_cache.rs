//! Which statements had several plans, for `$planCacheStats`: a record of their shapes. No plan is taken from it.

use crate::operation::memory::Reservation;
use bson::{DateTime, RawDocumentBuf};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Shapes of one collection, at most; the one that was not seen for longest goes first.
const SHAPES_MAX: usize = 200;
/// A statement that is written in more bytes than this is not recorded.
const STATEMENT_BYTES_MAX: usize = 64 * 1024;

/// The shapes of one collection. In memory only, as in MongoDB, and until its indexes change.
#[derive(Default)]
pub struct PlanCache(Mutex<PlannedShapes>);

#[derive(Default)]
struct PlannedShapes {
    shapes: BTreeMap<String, (Arc<PlannedShape>, u64)>,
    /// Counts what was noted, to tell which shape was not seen for longest.
    clock: u64,
}

/// A shape of statements that had several plans.
pub struct PlannedShape {
    /// What tells it from others.
    pub hashes: ShapeHashes,
    /// A statement of the shape: `query`, `sort`, `projection` and, where there is one, `collation`.
    pub statement: RawDocumentBuf,
    /// When that was.
    pub created: DateTime,
    /// Whether it was seen again.
    pub is_active: bool,
    /// Whether an index filter had a say.
    pub is_filtered: bool,
    memory: Reservation,
}

impl PlannedShape {
    /// Bytes that it takes.
    pub fn size_bytes(&self) -> usize {
        self.memory.bytes()
    }
}

/// What a statement says of its shape.
pub struct ShapeHashes {
    /// The hash of the shape.
    pub query_hash: String,
    /// The hash of the shape and of what the indexes can do for it.
    pub plan_cache_key: String,
}

impl PlanCache {
    /// Notes a statement; `statement` writes it down where it is the first or the second one of its shape. Where memory
    /// is short it is forgotten.
    pub fn note(
        &self,
        hashes: ShapeHashes,
        is_filtered: bool,
        statement: impl FnOnce() -> RawDocumentBuf,
    ) {
        let known = self.0.lock().see(&hashes.plan_cache_key);
        if known == Some(true) {
            return;
        }
        let is_active = known.is_some();
        // It may be long: nobody waits for it.
        let statement = statement();
        let bytes = statement.as_bytes().len();
        if bytes > STATEMENT_BYTES_MAX {
            return;
        }
        let own_bytes = size_of::<PlannedShape>() + 128;
        let Ok(memory) = Reservation::exactly(bytes + own_bytes) else {
            return;
        };
        let shape = PlannedShape {
            hashes,
            statement,
            created: DateTime::now(),
            is_active,
            is_filtered,
            memory,
        };
        self.0.lock().insert(shape);
    }

    /// All of them.
    pub fn all(&self) -> Vec<Arc<PlannedShape>> {
        let own = self.0.lock();
        own.shapes
            .values()
            .map(|(shape, _)| shape.clone())
            .collect()
    }

    /// Forgets one by its key, or all.
    pub fn clear(&self, plan_cache_key: Option<&str>) {
        let mut own = self.0.lock();
        match plan_cache_key {
            Some(key) => drop(own.shapes.remove(key)),
            None => own.shapes.clear(),
        }
    }
}

impl PlannedShapes {
    /// A statement of a shape came: whether it is active, if it is known.
    fn see(&mut self, plan_cache_key: &str) -> Option<bool> {
        self.clock += 1;
        let (shape, seen) = self.shapes.get_mut(plan_cache_key)?;
        *seen = self.clock;
        Some(shape.is_active)
    }

    fn insert(&mut self, shape: PlannedShape) {
        let key = shape.hashes.plan_cache_key.clone();
        if self.shapes.len() >= SHAPES_MAX && !self.shapes.contains_key(&key) {
            let seen = |(_, (_, seen)): &(&String, &(Arc<PlannedShape>, u64))| *seen;
            let oldest = self.shapes.iter().min_by_key(seen);
            if let Some(key) = oldest.map(|(key, _)| key.clone()) {
                self.shapes.remove(&key);
            }
        }
        self.shapes.insert(key, (Arc::new(shape), self.clock));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(cache: &PlanCache, key: usize) {
        let hashes = ShapeHashes {
            query_hash: String::new(),
            plan_cache_key: key.to_string(),
        };
        cache.note(hashes, false, RawDocumentBuf::new);
    }

    fn keys(cache: &PlanCache) -> Vec<usize> {
        let mut keys: Vec<usize> = cache
            .all()
            .iter()
            .map(|shape| shape.hashes.plan_cache_key.parse().unwrap())
            .collect();
        keys.sort_unstable();
        keys
    }

    #[test]
    fn the_shape_that_was_not_seen_for_longest_goes_first() {
        let cache = PlanCache::default();
        (0..SHAPES_MAX).for_each(|key| note(&cache, key));
        assert_eq!(keys(&cache).len(), SHAPES_MAX);
        note(&cache, 0);
        note(&cache, SHAPES_MAX);
        assert_eq!(keys(&cache).len(), SHAPES_MAX);
        assert!(keys(&cache).contains(&0) && !keys(&cache).contains(&1));
        (0..1_000 * SHAPES_MAX).for_each(|key| note(&cache, key));
        assert_eq!(keys(&cache).len(), SHAPES_MAX);
        cache.clear(None);
        assert!(keys(&cache).is_empty());
    }

    #[test]
    fn a_shape_is_active_when_it_was_seen_again() {
        let cache = PlanCache::default();
        note(&cache, 1);
        assert!(!cache.all()[0].is_active);
        note(&cache, 1);
        assert!(cache.all()[0].is_active);
    }
}
