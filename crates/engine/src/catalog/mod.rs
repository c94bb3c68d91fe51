//! Which collections and indexes exist, in memory and on disk.
//!
//! A collection is immutable once published: a change (an index more, another validator) publishes
//! a new version under the collection's write lock, so that a reader keeps the version it planned
//! with and a writer notices under the lock that it prepared for an older one.
//!
//! On disk, in the catalogue family:
//!
//! ```text
//! 'c' database '.' collection      -> BSON {uuid, tree, options, indexes: [{spec, tree, ready, multikey}],
//!                                     temporary (absent: false), unbuilt: [spec] (absent: none)}
//! 's' tree (4 bytes, big-endian)   -> documents (i64 LE), bytes (i64 LE); written with every commit
//! 't'                              -> next free tree number (u32 LE)
//! 'N', 'M'                         -> summaries, see `saved`
//! ```
//!
//! A tree is its compression and its number ([`Tree`]); numbers are given out once.
//!
//! Documents live at `tree ++ encoded _id`, index entries at `tree ++ encoded fields ++ encoded _id`.

mod accesses;
mod changed;
mod collection;
mod counted;
mod deferred;
mod options;
mod persist;
mod saved;
mod unbuilt;

pub use accesses::Accesses;
pub use changed::{ChangedIds, Watchers};
pub use collection::{Collection, CollectionState, Index, Tree, WriteState};
pub use counted::{Counted, Mark, Marks, Moment, Summaries, SummaryFigures, Walk};
pub use options::{CollectionOptions, ValidationAction, ValidationLevel, Validator};
pub use persist::statistics_entry;
pub use saved::{SummariesAtStart, forget as forget_saved_counts};
pub use unbuilt::{UnbuiltIndex, same_name};

use crate::error::{Code, Error, Result};
use crate::index::IndexSpec;
use crate::namespace::Namespace;
use crate::storage::{Batch, Compression, Family, Store};
use parking_lot::{Mutex, RwLock};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The collections of one data directory.
pub struct Catalog {
    store: Store,
    state: RwLock<State>,
    summaries_at_start: SummariesAtStart,
    /// Serialises changes; never taken while a collection's write lock is held.
    changes: Mutex<()>,
    /// Serialises saving counts: of two at once, one could say that all is saved up to a sequence number
    /// while the other has taken a collection and not written it yet.
    saving: Mutex<()>,
}

struct State {
    collections: BTreeMap<Namespace, Arc<Collection>>,
    next_tree: u32,
}

impl Catalog {
    /// Reads the catalogue of an open store.
    ///
    /// # Errors
    /// Storage failures; `InternalError` when an entry cannot be understood.
    pub fn load(store: Store) -> Result<Self> {
        let (collections, next_tree) = persist::load(&store)?;
        let summaries_at_start = saved::load(&store, collections.values())?;
        let state = RwLock::new(State {
            collections,
            next_tree,
        });
        Ok(Self {
            store,
            state,
            summaries_at_start,
            changes: Mutex::default(),
            saving: Mutex::default(),
        })
    }

    /// Where the summaries came from when the store was opened.
    pub fn summaries_at_start(&self) -> SummariesAtStart {
        self.summaries_at_start
    }

    /// Saves the summaries that have changed, so that a start need not read their trees. Called now and
    /// then, and at the end.
    ///
    /// # Errors
    /// Storage failures.
    pub fn save_summaries(&self) -> Result<()> {
        let _saving = self.saving.lock();
        saved::save(&self.store, &self.all())
    }

    /// The collection's current version, if it exists.
    pub fn get(&self, namespace: &Namespace) -> Option<Arc<Collection>> {
        self.state.read().collections.get(namespace).cloned()
    }

    /// The collection, or `NamespaceNotFound` (26) with MongoDB's message.
    ///
    /// # Errors
    /// `NamespaceNotFound`.
    pub fn require(&self, namespace: &Namespace) -> Result<Arc<Collection>> {
        self.get(namespace).ok_or_else(|| {
            Error::new(
                Code::NamespaceNotFound,
                format!("ns does not exist: {namespace}"),
            )
        })
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

    /// The existing collection, or a new one without options.
    ///
    /// # Errors
    /// Storage failures; `NamespaceExists`-like conflicts of database case.
    pub fn get_or_create(&self, namespace: &Namespace) -> Result<Arc<Collection>> {
        if let Some(collection) = self.get(namespace) {
            return Ok(collection);
        }
        match self.create(namespace, CollectionOptions::default()) {
            Err(error) if error.code == Code::NamespaceExists => self.require(namespace),
            other => other,
        }
    }

    /// Creates a collection.
    ///
    /// # Errors
    /// `NamespaceExists` (48) when it is there already; storage failures.
    pub fn create(
        &self,
        namespace: &Namespace,
        options: CollectionOptions,
    ) -> Result<Arc<Collection>> {
        self.create_as(namespace, options, |collection| collection)
    }

    /// Creates a collection that the next start removes, unless it is renamed before.
    ///
    /// # Errors
    /// As [`Self::create`].
    pub fn create_temporary(
        &self,
        namespace: &Namespace,
        options: CollectionOptions,
    ) -> Result<Arc<Collection>> {
        self.create_as(namespace, options, |collection| Collection {
            temporary: true,
            ..collection
        })
    }

    fn create_as(
        &self,
        namespace: &Namespace,
        options: CollectionOptions,
        finish: impl FnOnce(Collection) -> Collection,
    ) -> Result<Arc<Collection>> {
        let _changes = self.changes.lock();
        if self.get(namespace).is_some() {
            return Err(Error::new(
                Code::NamespaceExists,
                format!("Collection {namespace} already exists."),
            ));
        }
        self.check_case(&namespace.database)?;
        let mut batch = self.store.batch();
        let tree = self.allocate_tree(Family::Documents, options.compression, &mut batch)?;
        let collection = finish(Collection::create(namespace.clone(), tree, options));
        let collection = Arc::new(collection);
        persist::put_collection(&mut batch, &collection);
        self.store.write(batch)?;
        self.state
            .write()
            .collections
            .insert(namespace.clone(), collection.clone());
        Ok(collection)
    }

    /// Publishes a changed version of a collection. The caller holds the collection's write lock,
    /// so that no writer commits for the old version afterwards.
    ///
    /// # Errors
    /// Storage failures; nothing is published then.
    pub fn publish(&self, collection: Collection, mut batch: Batch) -> Result<Arc<Collection>> {
        let collection = Arc::new(collection.compiled());
        persist::put_collection(&mut batch, &collection);
        self.store.write(batch)?;
        self.state
            .write()
            .collections
            .insert(collection.namespace.clone(), collection.clone());
        Ok(collection)
    }

    /// The catalogue entry of `collection` as an operation of `batch`: for facts that change with a
    /// document's commit, such as an index becoming multikey.
    pub fn put_entry(&self, batch: &mut Batch, collection: &Collection) {
        persist::put_collection(batch, collection);
    }

    /// Removes a collection with everything in it. Returns the version that was dropped.
    ///
    /// # Errors
    /// `NamespaceNotFound`; storage failures.
    pub fn remove(&self, namespace: &Namespace) -> Result<Arc<Collection>> {
        let _changes = self.changes.lock();
        let collection = self
            .get(namespace)
            .ok_or_else(|| Error::new(Code::NamespaceNotFound, "ns not found"))?;
        let mut writing = collection.state.lock();
        let mut batch = self.store.batch();
        persist::delete_collection(&mut batch, &collection);
        self.store.write(batch)?;
        writing.dropped = true;
        self.state.write().collections.remove(namespace);
        Ok(collection.clone())
    }

    /// Gives a collection another name.
    ///
    /// # Errors
    /// `NamespaceNotFound`, `NamespaceExists`; storage failures.
    pub fn rename(&self, from: &Namespace, to: &Namespace, drop_target: bool) -> Result<()> {
        if from == to {
            return Err(Error::new(
                Code::IllegalOperation,
                "Can't rename a collection to itself",
            ));
        }
        if self.get(from).is_none() {
            return Err(Error::new(
                Code::NamespaceNotFound,
                format!("Source collection {from} does not exist"),
            ));
        }
        let _changes = self.changes.lock();
        let source = self.require(from)?;
        let target = self.get(to);
        if target.is_some() && !drop_target {
            return Err(Error::new(Code::NamespaceExists, "target namespace exists"));
        }
        self.check_case(&to.database)?;
        // One batch: a kill leaves either both collections as they were or the renamed one.
        let mut batch = self.store.batch();
        let _source_writing = source.state.lock();
        let mut target_writing = target.as_ref().map(|target| target.state.lock());
        if let Some(target) = &target {
            persist::delete_collection(&mut batch, target);
        }
        persist::delete_entry(&mut batch, from);
        let renamed = Collection {
            namespace: to.clone(),
            temporary: false,
            ..source.as_ref().clone()
        };
        self.publish(renamed, batch)?;
        if let Some(writing) = &mut target_writing {
            writing.dropped = true;
        }
        self.state.write().collections.remove(from);
        Ok(())
    }

    /// Runs `change` on the collection's current version under its write lock and publishes the result.
    ///
    /// # Errors
    /// `NamespaceNotFound`; what `change` returns; storage failures.
    pub fn change<T>(
        &self,
        namespace: &Namespace,
        change: impl FnOnce(&mut Collection, &mut Batch) -> Result<T>,
    ) -> Result<T> {
        let _changes = self.changes.lock();
        let current = self.require(namespace)?;
        let _writing = current.state.lock();
        let mut next = current.as_ref().clone();
        let mut batch = self.store.batch();
        let value = change(&mut next, &mut batch)?;
        self.publish(next, batch)?;
        Ok(value)
    }

    /// An index on a tree of its own, not yet part of the collection that it is for; the number is taken
    /// in `batch`.
    ///
    /// # Errors
    /// What the key generator refuses; storage failures.
    pub fn new_index(
        &self,
        collection: &Collection,
        spec: IndexSpec,
        batch: &mut Batch,
    ) -> Result<Index> {
        let default = collection.options.index_compression;
        let compression = spec.compression.unwrap_or(default);
        let tree = self.allocate_tree(Family::Indexes, compression, batch)?;
        Index::new(spec, tree)
    }

    /// Refuses a database whose name differs from another's only in case, as MongoDB does: on some
    /// file systems their directories would be one.
    fn check_case(&self, database: &str) -> Result<()> {
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

    fn allocate_tree(
        &self,
        family: Family,
        compression: Compression,
        batch: &mut Batch,
    ) -> Result<Tree> {
        self.store.add_compression(family, compression)?;
        let mut state = self.state.write();
        if state.next_tree >= Tree::NUMBERS_END {
            return Err(Error::new(
                Code::InternalError,
                format!(
                    "all {} numbers of collections and indexes have been given out in the life of this data \
                     directory; export its data and import it into a new one",
                    Tree::NUMBERS_END
                ),
            ));
        }
        let tree = Tree::new(state.next_tree, compression);
        state.next_tree += 1;
        persist::put_next_tree(batch, state.next_tree);
        Ok(tree)
    }
}

/// Deletes the whole range of a tree in its family, and its saved summary.
pub fn delete_tree(batch: &mut Batch, family: Family, tree: Tree) {
    let (start, end) = tree.range();
    batch.delete_range(family, &start, &end);
    let (start, end) = saved::saved_range(tree);
    batch.delete_range(Family::Catalog, &start, &end);
}
