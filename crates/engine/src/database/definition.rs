//! Databases, collections and indexes: creating, listing, changing, dropping.

use super::Engine;
use super::index_change::modify_index;
use crate::catalog::{
    Accesses, Capped, Collection, CollectionOptions, UnbuiltIndex, ViewDefinition, same_name,
};
use crate::error::{Code, Error, Result};
use crate::index::{ExistingIndex, IndexSpec};
use crate::namespace::{Namespace, check_database_name};
use crate::text::document_text;
use crate::timeseries::Granularity;
use crate::write::BuildProgress;
use bson::raw::{RawDocument, RawDocumentBuf};
use bson::{cstr, rawdoc};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Indexes a collection may have, `_id` included: MongoDB's limit.
pub const INDEXES_MAX: usize = 64;

/// One database, for `listDatabases`.
#[derive(Debug, Clone)]
pub struct DatabaseInfo {
    /// Its name.
    pub name: String,
    /// Bytes on disk, approximately.
    pub size_on_disk: i64,
    /// Whether it has no documents' bytes.
    pub empty: bool,
}

/// One collection, for `listCollections`.
#[derive(Debug, Clone)]
pub struct CollectionInfo {
    /// Its name, without the database.
    pub name: String,
    /// What it is.
    pub kind: CollectionKind,
    /// The options it was created with, and those changed since.
    pub options: RawDocumentBuf,
}

/// What `listCollections` lists.
#[derive(Debug, Clone)]
pub enum CollectionKind {
    /// A collection.
    Collection {
        /// Its identity.
        uuid: [u8; 16],
        /// The `_id` index; `None` for clustered collections.
        id_index: Option<RawDocumentBuf>,
    },
    /// A view.
    View,
    /// A time-series collection.
    Timeseries,
}

/// What was dropped.
#[derive(Debug, Clone)]
pub struct DropOutcome {
    /// Indexes the collection had, `_id` included; `None` for a view.
    pub indexes_was: Option<i32>,
    /// What it is called, where it was named otherwise: a time series by its buckets.
    pub name: Option<Namespace>,
}

/// What `createIndexes` did.
#[derive(Debug, Clone)]
pub struct CreateIndexesOutcome {
    /// Whether the collection did not exist before.
    pub created_collection: bool,
    /// Indexes before, `_id` included.
    pub before: i32,
    /// Indexes after.
    pub after: i32,
    /// How many of those that were asked for were there.
    pub existing: usize,
    /// Of the new ones, those that are listed and not built, by name.
    pub unbuilt: Vec<String>,
}

/// An index that was asked for.
enum Requested {
    Built(Box<IndexSpec>),
    Unbuilt(UnbuiltIndex),
}

impl Requested {
    /// Whether documents expire by it.
    fn expires(&self) -> bool {
        matches!(self, Self::Built(spec) if spec.expire_after_seconds.is_some())
    }

    /// The same with the collation of the collection, if it says none itself.
    fn in_collection(self, collection: &Collection) -> Result<Self> {
        let own = &collection.options.collation;
        let Self::Built(spec) = self else {
            return Ok(self);
        };
        let spec = spec.in_collection_with(own)?;
        if spec.is_id_index() && spec.collation != *own {
            let shown = |collation| {
                let listed = crate::collation::listing(collation);
                document_text(&listed.unwrap_or_else(|| rawdoc! { "locale": "simple" }))
            };
            return Err(Error::bad_value(format!(
                "The _id index must have the same collation as the collection. Index collation: {}, collection \
                 collation: {}",
                shown(&spec.collation),
                shown(own)
            )));
        }
        Ok(Self::Built(Box::new(spec)))
    }
}

/// Which indexes to drop.
#[derive(Debug, Clone)]
pub enum DropIndexes {
    /// All but `_id`.
    All,
    /// Those with these names.
    Names(Vec<String>),
    /// The one with this key pattern.
    Key(RawDocumentBuf),
}

/// The changes that `collMod` may ask for.
#[derive(Debug, Clone, Default)]
pub struct CollModRequest {
    /// Whether only it is to be found out whether an index could be made unique.
    pub dry_run: bool,
    /// `index: {name | keyPattern, expireAfterSeconds, hidden, unique, prepareUnique}`.
    pub index: Option<RawDocumentBuf>,
    /// A new validator; an empty one removes it.
    pub validator: Option<RawDocumentBuf>,
    /// A new `validationLevel`.
    pub validation_level: Option<String>,
    /// A new `validationAction`.
    pub validation_action: Option<String>,
    /// A new TTL of a clustered collection, in seconds; `None` inside means off.
    pub expire_after_seconds: Option<Option<i64>>,
    /// A new granularity of a time series.
    pub granularity: Option<Granularity>,
    /// How many bytes of documents a capped collection holds from now on, ...
    pub capped_size: Option<i64>,
    /// ... and how many documents.
    pub capped_max: Option<i64>,
}

impl Engine {
    /// All databases that have collections, by name.
    ///
    /// # Errors
    /// None today; storage failures are possible.
    pub fn list_databases(&self) -> Result<Vec<DatabaseInfo>> {
        let mut sizes: BTreeMap<String, (i64, i64)> = BTreeMap::new();
        for collection in self.catalog.all() {
            let entry = sizes
                .entry(collection.namespace.database.clone())
                .or_default();
            entry.0 += self.storage_bytes(&collection) + self.index_bytes(&collection);
            entry.1 += collection.state.bytes();
        }
        let info = |(name, (size_on_disk, bytes))| DatabaseInfo {
            name,
            size_on_disk,
            empty: bytes == 0,
        };
        Ok(sizes.into_iter().map(info).collect())
    }

    /// The collections of a database, by name.
    ///
    /// # Errors
    /// `InvalidNamespace`.
    pub fn list_collections(&self, database: &str) -> Result<Vec<CollectionInfo>> {
        check_database_name(database)?;
        let info = |collection: Arc<Collection>| CollectionInfo {
            name: collection.namespace.collection.clone(),
            options: collection.options.original.clone(),
            kind: CollectionKind::Collection {
                uuid: collection.uuid,
                id_index: (collection.options.clustered_index.is_none())
                    .then(|| id_index(&collection)),
            },
        };
        let view = |view: Arc<ViewDefinition>| CollectionInfo {
            name: view.namespace.collection.clone(),
            options: view.options(),
            kind: match view.timeseries() {
                Some(_) => CollectionKind::Timeseries,
                None => CollectionKind::View,
            },
        };
        let collections = self.catalog.in_database(database).into_iter();
        let views = self.catalog.views_in(database).into_iter();
        let mut listed: Vec<_> = collections.map(info).chain(views.map(view)).collect();
        listed.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(listed)
    }

    /// Creates a collection.
    ///
    /// # Errors
    /// `NamespaceExists` (48).
    pub fn create_collection(
        &self,
        namespace: &Namespace,
        options: CollectionOptions,
    ) -> Result<()> {
        if let Some(timeseries) = options.timeseries.clone() {
            return self.create_timeseries(namespace, &options, &timeseries);
        }
        options.check_expiry()?;
        self.writer
            .create_collection(namespace, options)
            .map(|_| ())
    }

    /// Makes a collection capped, with the newest of its documents and without its indexes.
    ///
    /// # Errors
    /// `NamespaceNotFound` (26); `CommandNotSupportedOnView` (166).
    pub fn convert_to_capped(&self, namespace: &Namespace, size: Capped) -> Result<()> {
        let dropped = self.writer.convert_to_capped(namespace, size)?;
        let why = dropped.dropped();
        self.cursors.kill_namespace(namespace, &why);
        Ok(())
    }

    /// Copies the newest documents of a collection to a new capped one.
    ///
    /// # Errors
    /// As [`Self::convert_to_capped`]; `NamespaceExists` (48).
    pub fn clone_as_capped(&self, from: &Namespace, to: &Namespace, size: Capped) -> Result<()> {
        self.writer.clone_as_capped(from, to, size)
    }

    /// Drops a collection with its indexes, or a view.
    ///
    /// # Errors
    /// `NamespaceNotFound` (26).
    pub fn drop_collection(&self, namespace: &Namespace) -> Result<DropOutcome> {
        if self.writer.drop_view(namespace)? {
            return Ok(DropOutcome {
                indexes_was: None,
                name: None,
            });
        }
        if let Some(dropped) = self.drop_timeseries(namespace)? {
            return Ok(dropped);
        }
        let dropped = self.writer.drop_collection(namespace)?;
        let why = dropped.dropped();
        self.cursors.kill_namespace(namespace, &why);
        Ok(DropOutcome {
            indexes_was: Some(index_count(&dropped)),
            name: None,
        })
    }

    /// Drops all collections of a database; false when there was none.
    ///
    /// # Errors
    /// `InvalidNamespace`; storage failures.
    pub fn drop_database(&self, database: &str) -> Result<bool> {
        check_database_name(database)?;
        let collections = self.catalog.in_database(database);
        let existed = !collections.is_empty();
        // By name, so that the buckets of time series go before `system.views`, which stays while there are any.
        for collection in collections {
            match self.drop_collection(&collection.namespace) {
                Err(error) if error.code != Code::NamespaceNotFound => return Err(error),
                _ => {}
            }
        }
        Ok(existed)
    }

    /// Gives a collection another name, possibly in another database.
    ///
    /// # Errors
    /// `NamespaceNotFound`, `NamespaceExists`.
    pub fn rename_collection(
        &self,
        from: &Namespace,
        to: &Namespace,
        drop_target: bool,
    ) -> Result<()> {
        let (source, target) = (self.catalog.get(from), self.catalog.get(to));
        self.writer.rename_collection(from, to, drop_target)?;
        if let Some(source) = source {
            let why = source.renamed(to);
            self.cursors.kill_namespace(from, &why);
        }
        if let Some(target) = target {
            let why = target.dropped();
            self.cursors.kill_namespace(to, &why);
        }
        Ok(())
    }

    /// Creates indexes, and the collection when it does not exist. Indexes that are there already are
    /// left alone. Returns when they are built.
    ///
    /// # Errors
    /// A specification that is wrong, or conflicts with an existing index; documents that cannot be
    /// indexed.
    pub fn create_indexes(
        &self,
        namespace: &Namespace,
        specs: &[&RawDocument],
        progress: &mut dyn FnMut(BuildProgress),
    ) -> Result<CreateIndexesOutcome> {
        if let Some((timeseries, buckets)) = self.catalog.timeseries(namespace) {
            return self.create_timeseries_indexes(&timeseries, &buckets, specs, progress);
        }
        let asked = specs.len();
        let (clustered, specs): (Vec<&RawDocument>, Vec<&RawDocument>) =
            specs.iter().partition(|spec| is_of_cluster_key(spec));
        if let Some(spec) = clustered.first() {
            self.check_cluster_key(namespace, spec)?;
        }
        let specs = specs
            .iter()
            .map(|spec| self.requested(spec))
            .collect::<Result<Vec<_>>>()?;
        let created_collection = self.catalog.get(namespace).is_none();
        if created_collection {
            check_among_themselves(&specs)?;
        }
        let collection = self.writer.get_or_create(namespace)?;
        let before = index_count(&collection);
        let (mut new, mut unbuilt) = (Vec::new(), Vec::new());
        for spec in specs {
            let spec = spec.in_collection(&collection)?;
            if collection.options.capped.is_some() && spec.expires() {
                let message = "Cannot create TTL index on a capped collection";
                return Err(Error::new(Code::CannotCreateIndex, message));
            }
            match spec {
                Requested::Built(spec) if is_new(&spec, &collection, &new, &unbuilt)? => {
                    new.push(*spec);
                }
                Requested::Unbuilt(index) if !is_listed(&index, &collection, &new, &unbuilt)? => {
                    unbuilt.push(index);
                }
                _ => {}
            }
        }
        let keys = new.iter().map(IndexSpec::key_pattern);
        let keys = keys.chain(unbuilt.iter().filter_map(UnbuiltIndex::key_pattern));
        check_count(namespace, before, keys)?;
        let after = before + i32::try_from(new.len() + unbuilt.len()).unwrap_or(i32::MAX);
        if !new.is_empty() {
            self.writer.build_indexes(namespace, new, progress)?;
        }
        Ok(CreateIndexesOutcome {
            created_collection,
            before,
            after,
            existing: asked.saturating_sub(usize::try_from(after - before).unwrap_or(0)),
            unbuilt: self.list_unbuilt(namespace, unbuilt)?,
        })
    }

    /// Builds the secondary indexes of a collection anew from its documents; each takes the place of the former one when it
    /// is ready.
    ///
    /// # Errors
    /// `NamespaceNotFound`; `CommandNotSupportedOnView`; those of building indexes.
    pub fn rebuild_indexes(
        &self,
        namespace: &Namespace,
        progress: &mut dyn FnMut(BuildProgress),
    ) -> Result<()> {
        if let Some(view) = self.catalog.view(namespace) {
            return Err(view.refusal());
        }
        let collection = self
            .catalog
            .get(namespace)
            .ok_or_else(|| Error::new(Code::NamespaceNotFound, "collection does not exist"))?;
        let ready = collection
            .secondary_indexes()
            .iter()
            .filter(|index| index.ready);
        let specs: Vec<IndexSpec> = ready.map(|index| index.spec.clone()).collect();
        match specs.is_empty() {
            true => Ok(()),
            false => self.writer.build_indexes(namespace, specs, progress),
        }
    }

    /// Refuses the index of a cluster key that the collection does not have.
    fn check_cluster_key(&self, namespace: &Namespace, spec: &RawDocument) -> Result<()> {
        let collection = self.catalog.get(namespace);
        if collection.is_some_and(|collection| collection.cluster_name().is_some()) {
            return Ok(());
        }
        let mut whole = spec.to_owned();
        if spec.get("v").is_ok_and(|version| version.is_none()) {
            whole.append(cstr!("v"), 2);
        }
        let message = format!(
            "Error in specification {} :: caused by :: Cannot create index with option 'clustered' that does not match an \
             existing clustered index",
            document_text(&whole)
        );
        Err(Error::location(6_243_700, message))
    }

    fn requested(&self, definition: &RawDocument) -> Result<Requested> {
        match IndexSpec::parse(definition) {
            Ok(spec) => Ok(Requested::Built(Box::new(spec))),
            Err(error) if self.options.accept_unbuilt_indexes => {
                UnbuiltIndex::accept(definition, error).map(Requested::Unbuilt)
            }
            Err(error) => Err(error),
        }
    }

    /// Adds indexes to the list without building them; returns their names.
    fn list_unbuilt(
        &self,
        namespace: &Namespace,
        indexes: Vec<UnbuiltIndex>,
    ) -> Result<Vec<String>> {
        if indexes.is_empty() {
            return Ok(Vec::new());
        }
        let names: Vec<String> = indexes.iter().map(|index| index.name.clone()).collect();
        tracing::warn!(%namespace, ?names, "indexes are accepted that are not built: no query uses them");
        self.writer.change_collection(namespace, |collection| {
            for index in indexes {
                // Another client may have been faster.
                if collection.definitions().all(|(name, _)| name != index.name) {
                    collection.unbuilt.push(index);
                }
            }
            Ok(())
        })?;
        Ok(names)
    }

    /// Whether a collection or view exists.
    pub fn has_collection(&self, namespace: &Namespace) -> bool {
        self.catalog.get(namespace).is_some() || self.has_view(namespace)
    }

    /// The specifications of a collection's indexes, `_id` first.
    ///
    /// # Errors
    /// `NamespaceNotFound`.
    pub fn list_indexes(&self, namespace: &Namespace) -> Result<Vec<RawDocumentBuf>> {
        if let Some((timeseries, buckets)) = self.catalog.timeseries(namespace) {
            return self.list_timeseries_indexes(&timeseries, &buckets);
        }
        let collection = self.catalog.require(namespace)?;
        let of_id = match &collection.options.clustered_index {
            Some(_) if collection.options.timeseries.is_some() => None,
            Some(clustered) => {
                let mut listed = clustered.clone();
                if let Some(collation) = crate::collation::listing(&collection.options.collation) {
                    listed.append(cstr!("collation"), collation);
                }
                listed.append(cstr!("clustered"), true);
                Some(listed)
            }
            None => Some(id_index(&collection)),
        };
        let mut listed: Vec<RawDocumentBuf> = of_id.into_iter().collect();
        listed.extend(
            collection
                .secondary_indexes()
                .iter()
                .filter(|index| index.ready)
                .map(|index| index.spec.original.clone()),
        );
        let unbuilt = collection.unbuilt.iter();
        listed.extend(unbuilt.map(|index| index.original.clone()));
        Ok(listed)
    }

    /// The rows of `$indexStats`: how often statements used each index, `_id` first, of a server of this name. None
    /// for a collection that does not exist.
    pub(super) fn index_stats(&self, namespace: &Namespace, host: &str) -> Vec<RawDocumentBuf> {
        if let Some((timeseries, buckets)) = self.catalog.timeseries(namespace) {
            return self.timeseries_index_stats(&timeseries, &buckets, host);
        }
        let Some(collection) = self.catalog.get(namespace) else {
            return Vec::new();
        };
        let row = |spec: &RawDocument, accesses: &Accesses| {
            let key = spec.get_document("key").map(ToOwned::to_owned);
            let mut row = rawdoc! { "name": spec.get_str("name").unwrap_or_default() };
            row.append(cstr!("key"), key.unwrap_or_default());
            row.append(cstr!("host"), host);
            let (operations, since) = (accesses.operations(), accesses.since());
            row.append(
                cstr!("accesses"),
                rawdoc! { "ops": operations, "since": since },
            );
            row.append(cstr!("spec"), spec.to_owned());
            row
        };
        let mut rows = Vec::new();
        if collection.options.clustered_index.is_none() {
            rows.push(row(&id_index(&collection), collection.id_accesses()));
        }
        let ready = collection.secondary_indexes().iter();
        let ready = ready.filter(|index| index.ready);
        rows.extend(ready.map(|index| row(&index.spec.original, &index.accesses)));
        rows.extend(collection.unbuilt.iter().map(|index| {
            let mut row = row(&index.original, &index.accesses);
            row.append(cstr!("unbuilt"), true);
            row
        }));
        rows
    }

    /// Drops indexes; returns how many there were before, `_id` included.
    ///
    /// # Errors
    /// `NamespaceNotFound`, `IndexNotFound`, `InvalidOptions` for the `_id` index.
    pub fn drop_indexes(&self, namespace: &Namespace, which: &DropIndexes) -> Result<i32> {
        if let Some((timeseries, buckets)) = self.catalog.timeseries(namespace) {
            return self.drop_timeseries_indexes(&timeseries, &buckets, which);
        }
        self.catalog.refuse_view(namespace)?;
        if self.catalog.get(namespace).is_none() {
            return Err(Error::new(
                Code::NamespaceNotFound,
                format!("ns not found {namespace}"),
            ));
        }
        self.writer.change_collection(namespace, |collection| {
            let before = index_count(collection);
            let names = names_to_drop(collection, which)?;
            collection
                .indexes
                .retain(|index| !names.contains(&index.spec.name));
            collection
                .unbuilt
                .retain(|index| !names.contains(&index.name));
            Ok(before)
        })
    }

    /// Changes a collection's options; returns the old and new values that `collMod` replies with.
    ///
    /// # Errors
    /// `NamespaceNotFound`, `IndexNotFound`, `InvalidOptions`, and the validator's own errors.
    pub fn modify_collection(
        &self,
        namespace: &Namespace,
        request: &CollModRequest,
    ) -> Result<RawDocumentBuf> {
        if let Some((timeseries, buckets)) = self.catalog.timeseries(namespace) {
            return self.modify_timeseries(&timeseries, &buckets, request);
        }
        self.writer.change_collection(namespace, |collection| {
            let mut reply = RawDocumentBuf::new();
            if let Some(change) = &request.index {
                let snapshot = self.store.snapshot();
                modify_index(collection, change, request, &snapshot, &mut reply)?;
            }
            let options = changed_options(&collection.options, request)?;
            collection.options = Arc::new(options);
            Ok(reply)
        })
    }
}

pub(super) fn id_index(collection: &Collection) -> RawDocumentBuf {
    let mut listed = rawdoc! { "v": 2, "key": { "_id": 1 }, "name": "_id_" };
    if let Some(collation) = crate::collation::listing(&collection.options.collation) {
        listed.append(cstr!("collation"), collation);
    }
    listed
}

/// Whether an index is asked for that a collection has by its cluster key.
fn is_of_cluster_key(spec: &RawDocument) -> bool {
    let is_id = spec.get_document("key").is_ok_and(is_id_key);
    let says = |name: &str| spec.get_bool(name).is_ok_and(|flag| flag);
    is_id && says("clustered") && says("unique") && spec.get_str("name").is_ok()
}

/// Whether a key pattern is that of `_id`, as messages show it.
pub(super) fn is_id_key(key: &RawDocument) -> bool {
    document_text(key) == "{ _id: 1 }"
}

fn index_count(collection: &Collection) -> i32 {
    // Buckets have none on `_id`, and documents in the order of a cluster key no other.
    let options = &collection.options;
    let of_id = i32::from(options.timeseries.is_none() && options.clustered_index.is_none());
    i32::try_from(collection.definitions().count()).unwrap_or(i32::MAX - 1) + of_id
}

/// Refuses definitions that cannot be in one collection, before there is one.
fn check_among_themselves(specs: &[Requested]) -> Result<()> {
    let built = specs.iter().filter_map(|spec| match spec {
        Requested::Built(spec) => Some(&**spec),
        Requested::Unbuilt(_) => None,
    });
    let built: Vec<&IndexSpec> = built.collect();
    for (position, spec) in built.iter().enumerate() {
        match spec.compare_with(built[..position].iter().copied())? {
            ExistingIndex::New => {}
            ExistingIndex::Identical => return Err(identical(spec, 0)),
        }
    }
    Ok(())
}

/// The refusal of two definitions of one index in one command.
fn identical(spec: &IndexSpec, documents: i64) -> Error {
    match documents {
        0 => Error::new(
            Code::IndexAlreadyExists,
            format!("Identical index already exists: {}", spec.name),
        ),
        _ => Error::new(
            Code::OperationFailed,
            "Cannot build two identical indexes. Try again without duplicate indexes.",
        ),
    }
}

/// Whether an index is to be built: none like it is there, and none of its name.
fn is_new(
    spec: &IndexSpec,
    collection: &Collection,
    new: &[IndexSpec],
    unbuilt: &[UnbuiltIndex],
) -> Result<bool> {
    let mut listed = collection.unbuilt.iter().chain(unbuilt);
    if let Some(other) = listed.find(|other| other.name == spec.name) {
        return Err(same_name(spec.listing(), &other.original));
    }
    if spec.is_id_index() {
        return Ok(false);
    }
    let others = collection.indexes.iter().map(|index| &index.spec);
    let is_new = spec.compare_with(others.chain(new))? == ExistingIndex::New;
    if !is_new && spec.compare_with(new)? == ExistingIndex::Identical {
        return Err(identical(spec, collection.state.documents()));
    }
    Ok(is_new)
}

/// Whether an index that will not be built is listed already.
fn is_listed(
    index: &UnbuiltIndex,
    collection: &Collection,
    new: &[IndexSpec],
    unbuilt: &[UnbuiltIndex],
) -> Result<bool> {
    let built = new.iter().map(|spec| (spec.name.as_str(), spec.listing()));
    let listed = unbuilt.iter();
    let listed = listed.map(|other| (other.name.as_str(), &*other.original));
    index.is_among(collection.definitions().chain(built).chain(listed))
}

/// Refuses the first key pattern that would be one index too many.
fn check_count<'a>(
    namespace: &Namespace,
    before: i32,
    mut new: impl Iterator<Item = &'a RawDocument>,
) -> Result<()> {
    match new.nth(INDEXES_MAX.saturating_sub(before as usize)) {
        None => Ok(()),
        Some(first_too_many) => Err(Error::new(
            Code::CannotCreateIndex,
            format!(
                "add index fails, too many indexes for {namespace} key:{}",
                document_text(first_too_many)
            ),
        )),
    }
}

/// The first two definitions with a key pattern.
pub(super) fn conflicting(collection: &Collection, key: &RawDocument) -> String {
    let definitions = collection.definitions();
    let matching = definitions.filter(|(_, definition)| has_key(definition, key));
    let shown = matching.take(2).map(|(name, definition)| {
        let index = collection.index(name);
        index.map_or_else(
            || document_text(definition),
            |index| index.spec.conflict_text(),
        )
    });
    shown.collect::<Vec<_>>().join(", ")
}

fn names_to_drop(collection: &Collection, which: &DropIndexes) -> Result<Vec<String>> {
    let id_name = collection.cluster_name().unwrap_or("_id_");
    let is_id = |name: &str| name == id_name;
    let no_id = || match collection.options.clustered_index {
        None => Error::new(Code::InvalidOptions, "cannot drop _id index"),
        Some(_) => Error::location(5_979_800, "It is illegal to drop the clusteredIndex"),
    };
    match which {
        DropIndexes::All => Ok(collection
            .definitions()
            .map(|(name, _)| name.to_owned())
            .collect()),
        DropIndexes::Names(names) => {
            for (at, name) in names.iter().enumerate() {
                if is_id(name) {
                    return Err(no_id());
                }
                let is_gone = names[..at].contains(name);
                if is_gone || collection.definitions().all(|(own, _)| own != name) {
                    return Err(Error::new(
                        Code::IndexNotFound,
                        format!("index not found with name [{name}]"),
                    ));
                }
            }
            Ok(names.clone())
        }
        DropIndexes::Key(key) => {
            if is_id_key(key) {
                return Err(no_id());
            }
            let found: Vec<String> = collection
                .definitions()
                .filter(|(_, definition)| has_key(definition, key))
                .map(|(name, _)| name.to_owned())
                .collect();
            match found.as_slice() {
                [] => Err(Error::new(
                    Code::IndexNotFound,
                    format!("can't find index with key: {}", document_text(key)),
                )),
                [_] => Ok(found),
                _ => Err(Error::new(
                    Code::AmbiguousIndexKeyPattern,
                    format!(
                        "{} indexes found for key: {}, identify by name instead. Conflicting indexes: {}",
                        found.len(),
                        document_text(key),
                        conflicting(collection, key)
                    ),
                )),
            }
        }
    }
}

/// Whether the index has this key pattern; `1` and `1.0` are the same direction.
pub(super) fn has_key(definition: &RawDocument, key: &RawDocument) -> bool {
    definition
        .get_document("key")
        .is_ok_and(|own| meridian_value::compare_documents(own, key).is_eq())
}

/// The document with one field set, in its place when it was there and last when not.
fn with_field(
    document: &RawDocument,
    name: &str,
    value: bson::raw::RawBsonRef<'_>,
) -> RawDocumentBuf {
    let mut changed = RawDocumentBuf::new();
    let mut present = false;
    for element in document.iter().flatten() {
        let (key, old) = element;
        let replaced = key.as_str() == name;
        present |= replaced;
        changed.append(key, if replaced { value } else { old });
    }
    if !present && let Ok(key) = bson::raw::CString::try_from(name) {
        changed.append(&*key, value);
    }
    changed
}

fn changed_options(
    options: &CollectionOptions,
    request: &CollModRequest,
) -> Result<CollectionOptions> {
    let mut original = options.original.clone();
    if let Some(validator) = &request.validator {
        original = with_field(
            &original,
            "validator",
            bson::raw::RawBsonRef::Document(validator),
        );
        if validator.is_empty() {
            original = without_field(&original, "validator");
        }
    }
    let changes_validation = request.validator.is_some()
        || request.validation_level.is_some()
        || request.validation_action.is_some();
    // From the first change on, the listing shows the settings also where they are the default.
    for (name, wanted, default) in [
        ("validationLevel", &request.validation_level, "strict"),
        ("validationAction", &request.validation_action, "error"),
    ] {
        let absent = !matches!(original.get(name), Ok(Some(_)));
        let wanted = wanted.as_deref().or_else(|| absent.then_some(default));
        if let Some(wanted) = wanted.filter(|_| changes_validation) {
            original = with_field(&original, name, bson::raw::RawBsonRef::String(wanted));
        }
    }
    match request.expire_after_seconds {
        Some(Some(seconds)) => {
            original = with_field(
                &original,
                "expireAfterSeconds",
                bson::raw::RawBsonRef::Int64(seconds),
            );
        }
        Some(None) => original = without_field(&original, "expireAfterSeconds"),
        None => {}
    }
    if request.capped_size.or(request.capped_max).is_some() && options.capped.is_none() {
        let message = "Collection must be capped.";
        return Err(Error::new(Code::InvalidOptions, message));
    }
    for (name, changed) in [("size", request.capped_size), ("max", request.capped_max)] {
        if let Some(changed) = changed {
            original = with_field(&original, name, bson::raw::RawBsonRef::Int64(changed));
        }
    }
    if let (Some(granularity), Some(timeseries)) = (request.granularity, &options.timeseries) {
        let listed = timeseries.with_granularity(granularity)?.listing();
        original = with_field(
            &original,
            "timeseries",
            bson::raw::RawBsonRef::Document(&listed),
        );
    }
    if let Some(validator) = &request.validator {
        crate::query::Filter::parse(validator)
            .and_then(|filter| filter.refuse_script())
            .map_err(|error| error.within("Parsing of collection validator failed"))?;
    }
    let options = CollectionOptions::parse(&original)?;
    if request.expire_after_seconds.is_some() {
        options.check_expiry()?;
    }
    Ok(options)
}

fn without_field(document: &RawDocument, name: &str) -> RawDocumentBuf {
    let mut changed = RawDocumentBuf::new();
    for (key, value) in document
        .iter()
        .flatten()
        .filter(|(key, _)| key.as_str() != name)
    {
        changed.append(key, value);
    }
    changed
}
