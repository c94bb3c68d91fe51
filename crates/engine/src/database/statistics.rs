//! Figures about collections, databases and the engine.

use super::{Engine, WorkFigures};
use crate::catalog::{Capped, Collection, Index};
use crate::cursor::CursorFigures;
use crate::error::Result;
use crate::namespace::{Namespace, check_database_name};
use crate::rank::{AuditFigures, RankFigures};
use crate::storage::{BLOB_BYTES_MIN, Compression, Family, Order, TreeKey};

/// Entries of an index of which the size is known only when they are read: so many are.
const MEASURED_ENTRIES: i64 = 1_000;

/// `collStats`.
#[derive(Debug, Clone, Default)]
pub struct CollectionStats {
    /// Number of documents, exact.
    pub count: i64,
    /// Bytes of BSON in them, exact.
    pub size: i64,
    /// Bytes on disk of the documents, approximately.
    pub storage_size: i64,
    /// Bytes on disk of all secondary indexes, approximately.
    pub total_index_size: i64,
    /// Bytes on disk by index. `_id` has none of its own: documents lie in its order.
    pub index_sizes: Vec<(String, i64)>,
    /// How documents and, by index, entries are compressed; `_id` as the documents. Empty when the
    /// collection does not exist.
    pub compression: Vec<(String, Compression)>,
    /// Indexes that are listed and not built, of size 0, by name.
    pub unbuilt: Vec<String>,
    /// Mean bytes of BSON.
    pub average_object_size: i64,
    /// Whether the collection was created as clustered.
    pub clustered: bool,
    /// What a capped collection holds.
    pub capped: Option<Capped>,
}

/// `dbStats`.
#[derive(Debug, Clone, Default)]
pub struct DatabaseStats {
    /// Views.
    pub views: i64,
    /// Number of collections.
    pub collections: i64,
    /// Number of documents.
    pub objects: i64,
    /// Mean bytes of BSON.
    pub average_object_size: f64,
    /// Bytes of BSON.
    pub data_size: i64,
    /// Bytes on disk of documents.
    pub storage_size: i64,
    /// Number of indexes, `_id` included.
    pub indexes: i64,
    /// Bytes on disk of indexes.
    pub index_size: i64,
}

/// `serverStatus`.
#[derive(Debug, Clone, Default)]
pub struct EngineStats {
    /// TTL sweeps since the start.
    pub ttl_passes: i64,
    /// Documents that the sweeps deleted.
    pub ttl_deleted: i64,
    /// The cursors.
    pub cursors: CursorFigures,
    /// What statements did.
    pub work: WorkFigures,
    /// Figures of the storage by name.
    pub storage: Vec<(&'static str, u64)>,
    /// Figures of the rank indexes that count ranges.
    pub ranks: RankFigures,
    /// What the comparison of counts with what is stored has found.
    pub audit: AuditFigures,
    /// Bytes of memory of the cache of ranges.
    pub range_cache_bytes: u64,
    /// Where they came from at the start: `saved`, `caughtUp` or `built`.
    pub ranks_at_start: &'static str,
}

impl Engine {
    /// Figures about one collection; zeros when it does not exist, as MongoDB answers.
    ///
    /// # Errors
    /// None today; storage failures are possible.
    pub fn collection_stats(&self, namespace: &Namespace) -> Result<CollectionStats> {
        let Some(collection) = self.catalog.get(namespace) else {
            self.catalog.refuse_view(namespace)?;
            return Ok(CollectionStats::default());
        };
        self.flush_rows(&collection)?;
        let (count, size) = (collection.state.documents(), collection.state.bytes());
        let mut index_sizes = Vec::new();
        let mut compression = Vec::new();
        if collection.id_index().is_none() && collection.cluster_name().is_none() {
            index_sizes.push(("_id_".to_owned(), 0));
            compression.push(("_id_".to_owned(), collection.documents.compression()));
        }
        index_sizes.extend(collection.indexes.iter().map(|index| {
            (
                index.spec.name.clone(),
                self.index_tree_bytes(&collection, index),
            )
        }));
        compression.extend(
            collection
                .indexes
                .iter()
                .map(|index| (index.spec.name.clone(), index.tree.compression())),
        );
        let unbuilt = collection.unbuilt.iter().map(|index| index.name.clone());
        let unbuilt: Vec<String> = unbuilt.collect();
        index_sizes.extend(unbuilt.iter().map(|name| (name.clone(), 0)));
        Ok(CollectionStats {
            compression,
            unbuilt,
            count,
            size,
            storage_size: self.storage_bytes(&collection),
            total_index_size: index_sizes.iter().map(|(_, bytes)| bytes).sum(),
            index_sizes,
            average_object_size: if count > 0 { size / count } else { 0 },
            clustered: collection.options.clustered_index.is_some(),
            capped: collection.options.capped,
        })
    }

    /// Figures about one database.
    ///
    /// # Errors
    /// `InvalidNamespace`.
    pub fn database_stats(&self, database: &str) -> Result<DatabaseStats> {
        check_database_name(database)?;
        let views = self.catalog.views_in(database).len();
        let mut stats = DatabaseStats {
            views: i64::try_from(views).unwrap_or(i64::MAX),
            ..DatabaseStats::default()
        };
        for collection in self.catalog.in_database(database) {
            self.flush_rows(&collection)?;
            stats.collections += 1;
            stats.objects += collection.state.documents();
            stats.data_size += collection.state.bytes();
            stats.storage_size += self.storage_bytes(&collection);
            let of_id = i64::from(collection.cluster_name().is_none());
            stats.indexes += collection.definitions().count() as i64 + of_id;
            stats.index_size += self.index_bytes(&collection);
        }
        if stats.objects > 0 {
            #[allow(clippy::cast_precision_loss)]
            let average = stats.data_size as f64 / stats.objects as f64;
            stats.average_object_size = average;
        }
        Ok(stats)
    }

    /// Figures about the engine as a whole.
    pub fn server_stats(&self) -> EngineStats {
        EngineStats {
            ttl_passes: self.ttl.passes(),
            ttl_deleted: self.ttl.deleted(),
            cursors: self.cursors.figures(),
            work: self.work.figures(self.writer.conflicts()),
            storage: self.store.statistics(),
            ranks: self.rank_figures(),
            range_cache_bytes: self.catalog.range_cache().bytes() as u64,
            audit: self.writer.ranks().audit_figures(),
            ranks_at_start: self.catalog.ranks_at_start().name(),
        }
    }

    fn rank_figures(&self) -> RankFigures {
        let mut all = RankFigures::default();
        for collection in self.catalog.all() {
            let one = collection.state.ranks().figures();
            all.trees += one.trees;
            all.incomplete += one.incomplete;
            all.entries += one.entries;
            all.bytes += one.bytes;
        }
        all
    }

    pub(super) fn storage_bytes(&self, collection: &Collection) -> i64 {
        match self.tree_bytes(Family::Documents, collection.documents) {
            // RocksDB estimates what lies in files. What lies in memtables alone is there as it is, so
            // before the first flush a collection is as large as its documents.
            0 => collection.state.bytes(),
            in_tables => with_blobs(collection, in_tables),
        }
    }

    pub(super) fn index_bytes(&self, collection: &Collection) -> i64 {
        let indexes = collection.indexes.iter();
        indexes
            .map(|index| self.index_tree_bytes(collection, index))
            .sum()
    }

    /// As [`Self::storage_bytes`]: before the first flush an index is as large as its entries.
    fn index_tree_bytes(&self, collection: &Collection, index: &Index) -> i64 {
        match self.tree_bytes(Family::Indexes, index.tree) {
            0 => self
                .unflushed_bytes(collection, index.tree)
                .unwrap_or_else(|error| {
                    tracing::warn!(%error, index = index.spec.name, "entries could not be measured");
                    0
                }),
            in_tables if index.spec.clustering => with_blobs(collection, in_tables),
            in_tables => in_tables,
        }
    }

    /// Bytes of an index's entries, of which the first few are measured.
    fn unflushed_bytes(&self, collection: &Collection, tree: TreeKey) -> Result<i64> {
        let (start, end) = tree.range();
        let snapshot = self.store.snapshot();
        let mut scan = snapshot.scan(Family::Indexes, &start, &end, Order::Forward);
        let (mut measured, mut bytes) = (0, 0);
        while measured < MEASURED_ENTRIES {
            if !scan.advance()? {
                return Ok(bytes);
            }
            let (key, value) = scan.entry();
            bytes += i64::try_from(key.len() + value.len()).unwrap_or(i64::MAX);
            measured += 1;
        }
        let counted = collection.state.ranks();
        let entries = counted.peek(tree, |own| own.is_complete().then(|| own.entries()));
        let entries = entries.and_then(|entries| i64::try_from(entries).ok());
        let entries = entries.unwrap_or_else(|| collection.state.documents());
        Ok(bytes / measured * entries.max(measured))
    }

    pub(super) fn tree_bytes(&self, family: Family, tree: TreeKey) -> i64 {
        let (start, end) = tree.range();
        i64::try_from(self.store.size_of_range(family, &start, &end)).unwrap_or(i64::MAX)
    }
}

/// Bytes of a tree that holds all documents and has so many in tables. Of blob files only the size of all together
/// is known: where documents lie there, the tree is as large as they are.
fn with_blobs(collection: &Collection, in_tables: i64) -> i64 {
    let (documents, bytes) = (collection.state.documents(), collection.state.bytes());
    match bytes / documents.max(1) >= BLOB_BYTES_MIN as i64 {
        true => in_tables.max(bytes),
        false => in_tables,
    }
}
