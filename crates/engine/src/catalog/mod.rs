//! Which collections and indexes exist, in memory and on disk.
//!
//! A collection is immutable once published: a change (an index more, another validator) publishes
//! a new version under the collection's write lock, so that a reader keeps the version it planned
//! with and a writer notices under the lock that it prepared for an older one. Changes are made and committed
//! in `write/definition`; the catalogue reads what is on disk at the start, and gives versions out.
//!
//! On disk, in the catalogue family:
//!
//! ```text
//! 'c' database '.' collection      -> BSON {uuid, tree, options, indexes: [{spec, tree, ready, multikey}],
//!                                     temporary (absent: false), unbuilt: [spec] (absent: none),
//!                                     longestBucketMillis (of buckets; absent: not known)}
//! 's' tree (4 bytes, big-endian)   -> documents (i64 LE), bytes (i64 LE); written with every commit
//! 't'                              -> next free tree number (u32 LE)
//! 'N', 'M'                         -> rank indexes, see `rank::persist`
//! ```
//!
//! A tree is its compression and its number ([`TreeKey`]); numbers are given out once.
//!
//! Documents live at `tree ++ encoded _id`, index entries at `tree ++ encoded fields ++ encoded _id`. In a capped collection
//! a record number (u64, big-endian) stands in the place of the encoded `_id`, and `_id` has an index as other fields have.

mod accesses;
mod capped;
mod capture;
mod collection;
mod delta_store;
mod grow_only;
mod index_filters;
mod open_buckets;
mod options;
mod persist;
mod plan_cache;
mod unbuilt;
mod view_definition;

pub use accesses::Accesses;
pub use capped::{Arrivals, Capped, RecordNumber, record_number, whole};
pub use capture::{CapturedIds, ChangeCapture};
pub use collection::{Collection, CollectionState, Index, WriteState};
pub use delta_store::{
    DeltaStore, PARTITIONS as DELTA_PARTITIONS, partition_range as delta_partition_range,
};
pub use index_filters::{IndexFilter, IndexFilters};
pub use open_buckets::OpenBuckets;
pub use options::{CollectionOptions, ValidationAction, ValidationLevel, Validator};
pub use persist::{
    delete_collection_entry, delete_totals, has_collection, has_collection_entry,
    no_collection_entry, put_collection_entry, put_next_tree, read_totals, statistics_entry,
};
pub use plan_cache::{PlanCache, PlannedShape, ShapeHashes};
pub use unbuilt::{UnbuiltIndex, same_name};
pub use view_definition::{ResolvedView, SYSTEM_VIEWS, ViewDefinition};

use crate::error::{Code, Error, Result};
use crate::namespace::Namespace;
use crate::rank::{CollectionRanks, RangeCache, RanksAtStart, delete_saved, load_saved};
use crate::storage::{Batch, Compression, Family, Store, TreeKey};
use crate::timeseries::{Timeseries, buckets_of};
use parking_lot::RwLock;
use std::collections::BTreeMap;
use std::sync::Arc;
use view_definition::Views;

/// The collections of one data directory.
pub struct Catalog {
    store: Store,
    state: RwLock<CatalogState>,
    range_cache: Arc<RangeCache>,
    ranks_at_start: RanksAtStart,
}

struct CatalogState {
    collections: BTreeMap<Namespace, Arc<Collection>>,
    views: Views,
    next_tree: u32,
}

impl Catalog {
    /// Reads the catalogue of an open store.
    ///
    /// # Errors
    /// Storage failures; `InternalError` when an entry cannot be understood.
    pub fn load(store: Store) -> Result<Self> {
        let range_cache = Arc::new(RangeCache::new(store.cache_budget()));
        let (collections, next_tree) = persist::load(&store, &range_cache)?;
        let ranks_at_start = {
            let ranks = collections.values().map(|one| one.state.ranks().clone());
            load_saved(&store, &ranks.collect::<Vec<_>>())?
        };
        let views = persist::load_views(&store, &collections)?;
        let state = RwLock::new(CatalogState {
            collections,
            views,
            next_tree,
        });
        Ok(Self {
            store,
            state,
            range_cache,
            ranks_at_start,
        })
    }

    /// Where the rank indexes came from when the store was opened.
    pub fn ranks_at_start(&self) -> RanksAtStart {
        self.ranks_at_start
    }

    /// The cache of ranges, one for all collections.
    pub fn range_cache(&self) -> &Arc<RangeCache> {
        &self.range_cache
    }

    /// The rank indexes of all collections.
    pub fn ranks(&self) -> impl Iterator<Item = Arc<CollectionRanks>> {
        let all = self.all().into_iter();
        all.map(|collection| collection.state.ranks().clone())
    }

    /// The present version of a collection.
    ///
    /// # Errors
    /// `QueryPlanKilled` (175) where it was dropped or has another name since.
    pub fn now(&self, collection: &Collection) -> Result<Arc<Collection>> {
        match self.get(&collection.namespace) {
            Some(now) if Arc::ptr_eq(&now.state, &collection.state) => Ok(now),
            _ => Err(self.why_gone(collection)),
        }
    }

    fn why_gone(&self, collection: &Collection) -> Error {
        let mut all = self.all().into_iter();
        match all.find(|other| other.uuid == collection.uuid) {
            Some(other) => collection.renamed(&other.namespace),
            None => collection.dropped(),
        }
    }

    /// The collection's current version, if it exists.
    pub fn get(&self, namespace: &Namespace) -> Option<Arc<Collection>> {
        self.state.read().collections.get(namespace).cloned()
    }

    /// The collection, or `NamespaceNotFound` (26) with MongoDB's message.
    ///
    /// # Errors
    /// `NamespaceNotFound`; `CommandNotSupportedOnView`.
    pub fn require(&self, namespace: &Namespace) -> Result<Arc<Collection>> {
        let missing = || match self.view(namespace) {
            Some(view) => view.refusal(),
            None => Error::new(
                Code::NamespaceNotFound,
                format!("ns does not exist: {namespace}"),
            ),
        };
        self.get(namespace).ok_or_else(missing)
    }

    /// The view of this name, if there is one.
    pub fn view(&self, namespace: &Namespace) -> Option<Arc<ViewDefinition>> {
        self.state.read().views.get(namespace).cloned()
    }

    /// The time-series collection of this name: what makes it one, and where its buckets are.
    pub fn timeseries(&self, namespace: &Namespace) -> Option<(Arc<Timeseries>, Namespace)> {
        let view = self.view(namespace)?;
        let timeseries = view.timeseries()?.clone();
        Some((timeseries, buckets_of(namespace)))
    }

    /// Refuses what cannot be done to a view.
    ///
    /// # Errors
    /// `CommandNotSupportedOnView`.
    pub fn refuse_view(&self, namespace: &Namespace) -> Result<()> {
        match self.view(namespace) {
            Some(view) => Err(view.refusal()),
            None => Ok(()),
        }
    }

    /// The refusal of what cannot be done to the view of this name.
    pub fn not_a_collection(&self, namespace: &Namespace) -> Error {
        let refused = self.refuse_view(namespace).err();
        // It is dropped meanwhile.
        refused.unwrap_or_else(|| Error::new(Code::NamespaceNotFound, "ns not found"))
    }

    /// What a view comes to; `None` where there is none of this name.
    ///
    /// # Errors
    /// `ViewDepthLimitExceeded`.
    pub fn resolve_view(&self, namespace: &Namespace) -> Result<Option<ResolvedView>> {
        view_definition::resolve(&self.state.read().views, namespace)
    }

    /// The views of one database, by name.
    pub fn views_in(&self, database: &str) -> Vec<Arc<ViewDefinition>> {
        let state = self.state.read();
        let views = state.views.values();
        let own = views.filter(|view| view.namespace.database == database);
        own.cloned().collect()
    }

    /// All views, time-series collections among them.
    pub fn views(&self) -> Vec<Arc<ViewDefinition>> {
        self.state.read().views.values().cloned().collect()
    }

    /// Checks that a view can be added or changed.
    ///
    /// # Errors
    /// `GraphContainsCycle`, `ViewDepthLimitExceeded`, `ViewPipelineMaxSizeExceeded`.
    pub fn check_view(&self, view: &ViewDefinition) -> Result<()> {
        view_definition::check_graph(&self.state.read().views, view)
    }

    /// Makes a view that was written known, instead of the one of its name.
    pub fn publish_view(&self, view: ViewDefinition) {
        let namespace = view.namespace.clone();
        self.state.write().views.insert(namespace, Arc::new(view));
    }

    /// Forgets a view whose document was deleted.
    pub fn forget_view(&self, namespace: &Namespace) {
        self.state.write().views.remove(namespace);
    }

    /// All collections of all databases, by name.
    pub fn all(&self) -> Vec<Arc<Collection>> {
        self.state.read().collections.values().cloned().collect()
    }

    /// The collections of one database, by name.
    pub fn in_database(&self, database: &str) -> Vec<Arc<Collection>> {
        let state = self.state.read();
        state
            .collections
            .values()
            .filter(|each| each.namespace.database == database)
            .cloned()
            .collect()
    }

    /// Replaces versions, each named before and given as it is from now on: without a name it is new, without
    /// a version it is gone. The caller holds the write lock of each that is replaced, so that no writer commits for
    /// the old version afterwards, and has written all of them.
    pub fn publish(&self, versions: impl Iterator<Item = (Option<Namespace>, Option<Collection>)>) {
        let versions = versions.map(|(before, after)| (before, after.map(Collection::compiled)));
        let versions: Vec<_> = versions.collect();
        let mut state = self.state.write();
        for (before, after) in versions {
            if let Some(before) = before {
                if before.collection == SYSTEM_VIEWS && after.is_none() {
                    let database = &before.database;
                    let keeps = |view: &ViewDefinition| view.timeseries().is_some();
                    let views = &mut state.views;
                    views.retain(|name, view| name.database != *database || keeps(view));
                }
                let was = state.collections.remove(&before);
                let series = was.and_then(|was| ViewDefinition::of_buckets(&before, &was.options));
                if let Some(series) = series {
                    state.views.remove(&series.namespace);
                }
            }
            if let Some(after) = after {
                after.state.plan_cache().clear(None);
                let namespace = after.namespace.clone();
                if let Some(series) = ViewDefinition::of_buckets(&namespace, &after.options) {
                    state
                        .views
                        .insert(series.namespace.clone(), Arc::new(series));
                }
                state.collections.insert(namespace, Arc::new(after));
            }
        }
    }

    /// Refuses a database whose name differs from another's only in case, as MongoDB does: on some
    /// file systems their directories would be one.
    ///
    /// # Errors
    /// `DatabaseDifferCase`.
    pub fn check_case(&self, database: &str) -> Result<()> {
        let state = self.state.read();
        let mut names = state.collections.keys().map(|own| own.database.as_str());
        let other = names.find(|own| *own != database && own.eq_ignore_ascii_case(database));
        match other {
            None => Ok(()),
            Some(other) => Err(Error::new(
                Code::DatabaseDifferCase,
                format!(
                    "db already exists with different case already have: [{other}] trying to create [{database}]"
                ),
            )),
        }
    }

    /// The number of the tree that will be given out next.
    pub fn next_tree(&self) -> u32 {
        self.state.read().next_tree
    }

    /// A tree of its own. Its number is taken for good when [`Self::next_tree`] is written.
    ///
    /// # Errors
    /// Storage failures; `InternalError` when there are no more numbers.
    pub fn allocate_tree(&self, family: Family, compression: Compression) -> Result<TreeKey> {
        self.store.add_compression(family, compression)?;
        let mut state = self.state.write();
        if state.next_tree >= TreeKey::NUMBERS_END {
            return Err(Error::new(
                Code::InternalError,
                format!(
                    "all {} numbers of collections and indexes have been given out in the life of this data \
                     directory; export its data and import it into a new one",
                    TreeKey::NUMBERS_END
                ),
            ));
        }
        let tree = TreeKey::new(state.next_tree, compression);
        state.next_tree += 1;
        Ok(tree)
    }
}

/// Deletes the whole range of a tree in its family, and its saved rank index.
pub fn delete_tree(batch: &mut Batch, family: Family, tree: TreeKey) {
    let (start, end) = tree.range();
    batch.delete_range(family, &start, &end);
    delete_saved(batch, tree);
}
