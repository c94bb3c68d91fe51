//! Collections and indexes that come, change and go.
//!
//! In: a version of a collection before, and one after ([`Redefined`]). What follows from their difference is derived in one
//! place, and committed as one batch:
//!
//! | derived | from |
//! |---|---|
//! | the catalogue's entries, those of former names removed | names |
//! | the next number of a tree | trees that came |
//! | deletion of trees, with what is saved of their counts | trees that nothing holds any more |
//! | counts: none for what went, exact ones for what came | trees that were counted before and are after |
//! | the versions that the catalogue gives out from now on | all of it |
//!
//! Changes of definitions are serial ([`Writer::define`]). A version is replaced under the write lock of its
//! collection, so that no writer commits for an older one afterwards.

use super::Writer;
use crate::catalog::{
    Catalog, Collection, CollectionOptions, Index, SYSTEM_VIEWS, WriteState,
    delete_collection_entry, delete_totals, delete_tree, has_collection, has_collection_entry,
    no_collection_entry, put_collection_entry, put_next_tree,
};
use crate::error::{Code, Error, Result};
use crate::index::IndexSpec;
use crate::namespace::Namespace;
use crate::rank::RankIndex;
use crate::storage::{Batch, Condition, Family, Outcome, Store, StoreError, TreeKey};
use crate::timeseries::BUCKETS_PREFIX;
use std::sync::Arc;

/// A version of a collection that is being made, and counts for indexes that it makes ready.
pub(super) struct Draft {
    pub collection: Collection,
    /// Those of other trees that become ready are known to be empty.
    pub counts: Vec<(TreeKey, RankIndex)>,
}

/// A collection before and after: one that has nothing before is created, one that has nothing after is dropped.
pub(super) struct Redefined<'l> {
    pub before: Option<(&'l Arc<Collection>, &'l mut WriteState)>,
    pub after: Option<Draft>,
}

impl Draft {
    pub fn of(collection: Collection) -> Self {
        Self {
            collection,
            counts: Vec::new(),
        }
    }
}

impl Writer {
    /// Creates a collection.
    ///
    /// # Errors
    /// `NamespaceExists` (48) when it is there already; storage failures.
    pub fn create_collection(
        &self,
        namespace: &Namespace,
        options: CollectionOptions,
    ) -> Result<Arc<Collection>> {
        self.create(namespace, options, false)
    }

    /// Creates a collection that the next start removes, unless it is renamed before.
    ///
    /// # Errors
    /// As [`Self::create_collection`].
    pub fn create_temporary(
        &self,
        namespace: &Namespace,
        options: CollectionOptions,
    ) -> Result<Arc<Collection>> {
        self.create(namespace, options, true)
    }

    /// The existing collection, or a new one without options.
    ///
    /// # Errors
    /// Storage failures; `DatabaseDifferCase`.
    pub fn get_or_create(&self, namespace: &Namespace) -> Result<Arc<Collection>> {
        if let Some(collection) = self.catalog.get(namespace) {
            return Ok(collection);
        }
        match self.create_collection(namespace, CollectionOptions::default()) {
            Err(error) if error.code == Code::NamespaceExists => self.catalog.require(namespace),
            other => other,
        }
    }

    fn create(
        &self,
        namespace: &Namespace,
        options: CollectionOptions,
        temporary: bool,
    ) -> Result<Arc<Collection>> {
        let _defining = self.defining.lock();
        self.create_locked(namespace, options, temporary)
    }

    /// As [`Self::create`], for who holds `defining`.
    pub(super) fn create_locked(
        &self,
        namespace: &Namespace,
        options: CollectionOptions,
        temporary: bool,
    ) -> Result<Arc<Collection>> {
        self.refuse_taken(namespace)?;
        self.catalog.check_case(&namespace.database)?;
        let compression = options.compression;
        let tree = self.catalog.allocate_tree(Family::Documents, compression)?;
        let cache = self.catalog.range_cache().clone();
        let mut collection = Collection::create(namespace.clone(), tree, options, temporary, cache);
        if collection.options.timeseries.is_some() {
            let delta = self.catalog.allocate_tree(Family::Documents, compression)?;
            collection.delta = Some(delta);
        }
        if collection.options.capped.is_some() {
            let on_id = IndexSpec::id_index().in_collection_with(&collection.options.collation)?;
            let index = self.new_index(&collection, on_id)?.built();
            collection.indexes.push(Arc::new(index));
        }
        self.define(Redefined {
            before: None,
            after: Some(Draft::of(collection)),
        })?;
        self.catalog.require(namespace)
    }

    /// Refuses a name that a collection or view has. The caller holds `defining`.
    pub(super) fn refuse_taken(&self, namespace: &Namespace) -> Result<()> {
        let exists = |message| Err(Error::new(Code::NamespaceExists, message));
        if self.catalog.get(namespace).is_some() {
            return exists(format!("Collection {namespace} already exists."));
        }
        match self.catalog.view(namespace) {
            Some(view) => {
                let what = view
                    .timeseries()
                    .map_or("view", |_| "timeseries collection");
                exists(format!("A {what} already exists. NS: {namespace}"))
            }
            None => Ok(()),
        }
    }

    /// Drops a collection with everything in it. Returns the version that was dropped.
    ///
    /// # Errors
    /// `NamespaceNotFound`; storage failures.
    pub fn drop_collection(&self, namespace: &Namespace) -> Result<Arc<Collection>> {
        let _defining = self.defining.lock();
        let collection = self
            .catalog
            .get(namespace)
            .ok_or_else(|| Error::new(Code::NamespaceNotFound, "ns not found"))?;
        if namespace.collection == SYSTEM_VIEWS {
            let views = self.catalog.views_in(&namespace.database);
            if views.iter().any(|view| view.timeseries().is_some()) {
                return Err(Error::new(
                    Code::CommandFailed,
                    format!(
                        "cannot drop collection {namespace} when time-series collections are present."
                    ),
                ));
            }
        }
        let mut writing = collection.state.lock();
        self.define(Redefined {
            before: Some((&collection, &mut writing)),
            after: None,
        })?;
        drop(writing);
        Ok(collection)
    }

    /// Gives a collection another name, in one step with dropping the one that has it.
    ///
    /// # Errors
    /// `NamespaceNotFound`, `NamespaceExists`; storage failures.
    pub fn rename_collection(
        &self,
        from: &Namespace,
        to: &Namespace,
        drop_target: bool,
    ) -> Result<()> {
        if from == to {
            return Err(Error::new(
                Code::IllegalOperation,
                "Can't rename a collection to itself",
            ));
        }
        if self.catalog.view(from).is_some() {
            let message = format!("cannot rename view: {from}");
            return Err(Error::new(Code::CommandNotSupportedOnView, message));
        }
        if from.collection.starts_with(BUCKETS_PREFIX) {
            let message = "Renaming system.buckets collections is not allowed";
            return Err(Error::new(Code::IllegalOperation, message));
        }
        if self.catalog.get(from).is_none() {
            let message = match from.database == to.database {
                false => "source namespace does not exist".to_owned(),
                true if self.catalog.in_database(&from.database).is_empty() => format!(
                    "Database {} does not exist or is drop pending",
                    from.database
                ),
                true => format!("Source collection {from} does not exist"),
            };
            return Err(Error::new(Code::NamespaceNotFound, message));
        }
        let _defining = self.defining.lock();
        let source = self.catalog.require(from)?;
        let target = self.catalog.get(to);
        if self.catalog.view(to).is_some() {
            let message = format!("a view already exists with that name: {to}");
            return Err(Error::new(Code::NamespaceExists, message));
        }
        if target
            .as_ref()
            .is_some_and(|target| target.options.timeseries.is_some())
        {
            return Err(Error::new(
                Code::IllegalOperation,
                format!("the buckets of a time-series collection cannot be replaced: {to}"),
            ));
        }
        if target.is_some() && !drop_target {
            return Err(Error::new(Code::NamespaceExists, "target namespace exists"));
        }
        self.catalog.check_case(&to.database)?;
        let mut renamed = source.as_ref().clone();
        renamed.namespace = to.clone();
        renamed.temporary = false;
        let mut writing = source.state.lock();
        let mut target_writing = target.as_ref().map(|target| target.state.lock());
        let dropped = target.iter().zip(target_writing.as_deref_mut());
        let dropped = dropped.map(|(target, writing)| Redefined {
            before: Some((target, writing)),
            after: None,
        });
        let mut redefined: Vec<_> = dropped.collect();
        redefined.push(Redefined {
            before: Some((&source, &mut writing)),
            after: Some(Draft::of(renamed)),
        });
        self.define_all(redefined)
    }

    /// Runs `change` on the collection's current version under its write lock and publishes the result.
    ///
    /// # Errors
    /// `NamespaceNotFound`; what `change` returns; storage failures.
    pub fn change_collection<T>(
        &self,
        namespace: &Namespace,
        change: impl FnOnce(&mut Collection) -> Result<T>,
    ) -> Result<T> {
        self.change_draft(namespace, |draft| change(&mut draft.collection))
    }

    /// As [`Self::change_collection`], where indexes become ready that are not empty.
    ///
    /// # Errors
    /// As [`Self::change_collection`].
    pub(super) fn change_draft<T>(
        &self,
        namespace: &Namespace,
        change: impl FnOnce(&mut Draft) -> Result<T>,
    ) -> Result<T> {
        let _defining = self.defining.lock();
        let current = self.catalog.require(namespace)?;
        let mut writing = current.state.lock();
        self.flush_rows_locked(&current, &mut writing)?;
        writing.open_buckets.note_definition();
        let mut draft = Draft::of(current.as_ref().clone());
        let value = change(&mut draft)?;
        self.define(Redefined {
            before: Some((&current, &mut writing)),
            after: Some(draft),
        })?;
        Ok(value)
    }

    /// An index on a tree of its own, not yet part of the collection that it is for.
    ///
    /// # Errors
    /// What the key generator refuses; storage failures.
    pub(super) fn new_index(&self, collection: &Collection, spec: IndexSpec) -> Result<Index> {
        let default = collection.options.index_compression;
        let compression = spec.compression.unwrap_or(default);
        let tree = self.catalog.allocate_tree(Family::Indexes, compression)?;
        Index::new(spec, tree)
    }

    /// Deletes what was put into trees that no definition names any more.
    ///
    /// # Errors
    /// Storage failures.
    pub(super) fn delete_unnamed(&self, trees: impl Iterator<Item = TreeKey>) -> Result<()> {
        let mut batch = self.store.batch();
        trees.for_each(|tree| delete_tree(&mut batch, Family::Indexes, tree));
        match batch.is_empty() {
            true => Ok(()),
            false => Ok(self.store.write(batch)?),
        }
    }

    fn define(&self, redefined: Redefined<'_>) -> Result<()> {
        self.define_all(vec![redefined])
    }

    /// Commits versions together: a kill leaves either all of them as they were, or none. The caller holds
    /// `defining`.
    ///
    /// # Errors
    /// Storage failures; nothing has changed then.
    pub(super) fn define_all(&self, mut all: Vec<Redefined<'_>>) -> Result<()> {
        let mut batch = self.store.batch();
        all.iter()
            .for_each(|one| derive(one, &self.catalog, &mut batch));
        let conditions: Vec<Condition> = all.iter().filter_map(Redefined::condition).collect();
        match self.store.commit(batch, &conditions)? {
            Outcome::Committed => {}
            Outcome::Conflict => {
                return Err(Error::new(
                    Code::NamespaceExists,
                    "a collection of this name was created meanwhile",
                ));
            }
            // Definitions are serial: what the store has now tells which it was.
            Outcome::Unknown => {
                for one in &all {
                    if !one.is_stored(&self.store)? {
                        return Err(StoreError::OutcomeUnknown.into());
                    }
                }
            }
        }
        all.iter_mut().for_each(Redefined::count);
        self.catalog.publish(all.into_iter().map(|one| {
            let before = one.before.map(|(before, _)| before.namespace.clone());
            (before, one.after.map(|draft| draft.collection))
        }));
        Ok(())
    }
}

impl Redefined<'_> {
    /// A name that comes is nobody else's.
    fn condition(&self) -> Option<Condition> {
        let after = self.after.as_ref()?;
        let is_new = self.before.is_none();
        is_new.then(|| no_collection_entry(&after.collection.namespace))
    }

    /// Whether the store has what comes after.
    fn is_stored(&self, store: &Store) -> Result<bool> {
        match (&self.after, &self.before) {
            (Some(after), _) => has_collection_entry(store, &after.collection),
            (None, Some((before, _))) => Ok(!has_collection(store, &before.namespace)?),
            (None, None) => Ok(true),
        }
    }

    /// Trees that are there before and not after.
    fn gone(&self) -> Vec<(Family, TreeKey)> {
        let after = self.after.as_ref();
        let kept = after.map_or_else(Vec::new, |after| after.collection.trees());
        let before = self.before.as_ref();
        let mut trees = before.map_or_else(Vec::new, |(before, _)| before.trees());
        trees.retain(|tree| !kept.contains(tree));
        trees
    }

    /// Makes counts agree with the trees that are there; a dropped collection takes its counts with it.
    fn count(&mut self) {
        let gone = self.gone();
        let Some(after) = &mut self.after else {
            let (_, writing) = self.before.as_mut().expect("there is a before or an after");
            writing.dropped = true;
            return;
        };
        let counted = after.collection.state.ranks();
        gone.iter().for_each(|(_, tree)| counted.remove(*tree));
        let before = self.before.as_ref();
        let before = before.map_or_else(Vec::new, |(before, _)| before.counted_trees());
        for (family, tree) in after.collection.counted_trees() {
            if !before.contains(&(family, tree)) {
                let mut known = after.counts.iter_mut();
                let known = known.find(|(own, _)| *own == tree);
                let ranks = known.map_or_else(RankIndex::empty, |(_, ranks)| {
                    std::mem::replace(ranks, RankIndex::empty())
                });
                counted.insert(family, tree, ranks);
            }
        }
    }
}

/// Adds to the batch what is written for one collection.
fn derive(redefined: &Redefined<'_>, catalog: &Catalog, batch: &mut Batch) {
    let before = redefined.before.as_ref().map(|(before, _)| &***before);
    let after = redefined.after.as_ref().map(|draft| &draft.collection);
    let former =
        before.filter(|before| after.is_none_or(|after| after.namespace != before.namespace));
    if let Some(former) = former {
        delete_collection_entry(batch, &former.namespace);
    }
    for (family, tree) in redefined.gone() {
        if family == Family::Documents {
            delete_totals(batch, tree);
        }
        delete_tree(batch, family, tree);
    }
    let Some(after) = after else { return };
    let known = before.map_or_else(Vec::new, Collection::trees);
    if after.trees().iter().any(|tree| !known.contains(tree)) {
        put_next_tree(batch, catalog.next_tree());
    }
    put_collection_entry(batch, after);
}
