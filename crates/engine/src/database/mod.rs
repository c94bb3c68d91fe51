//! The engine's front: everything a command may ask for, over one data directory.
//!
//! Typed requests come in, outcomes and running queries go out. This layer puts meaning, plan,
//! execution and writing together; it holds no logic of theirs.

mod aggregate;
mod background;
mod catalog_figures;
mod collection_stats;
mod counting;
mod data_size;
mod definition;
mod distinct;
mod explain;
mod explain_project;
mod foreign;
mod index_change;
mod index_filters;
mod list_catalog;
mod maintenance;
mod modify;
mod offline;
mod output;
mod plan_cache;
mod read;
mod requests;
mod stage_statistics;
mod statistics;
mod stored;
mod timeseries;
mod verify;
mod view;
mod work;

pub use catalog_figures::{CatalogFigures, IndexFigures};
pub use data_size::{DataSize, DataSizeRequest};
pub use definition::{
    CollModRequest, CollectionInfo, CollectionKind, CreateIndexesOutcome, DatabaseInfo,
    DropIndexes, DropOutcome,
};
pub use index_filters::ShapedStatement;
pub use maintenance::{CollectionHash, DatabaseHashes};
pub use offline::{encrypt_directory, rekey_directory, truncate_log};
pub use requests::*;
pub use statistics::{CollectionStats, DatabaseStats, EngineStats};
pub use verify::{CheckReport, IndexReport, ValidationReport, check_directory};
pub use view::ViewChange;
pub use work::WorkFigures;

use crate::catalog::{Catalog, Collection};
use crate::cursor::CursorRegistry;
use crate::error::Result;
use crate::namespace::Namespace;
use crate::storage::{MasterKey, MemoryOptions, Store, StoreOptions};
use crate::ttl;
use crate::write::{InsertOptions, InsertOutcome, Writer};
use bson::raw::RawDocument;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};

/// Rank indexes are saved each time this much was written: so much log is read after a kill.
const SAVE_RANKS_BYTES: u64 = 256 * 1024 * 1024;
/// ... and at least so many times what the rank indexes take.
const SAVE_RANKS_RATIO: u64 = 8;

/// Settings of an engine.
#[derive(Debug, Clone)]
pub struct EngineOptions {
    /// For a directory that is encrypted, or is to be made so.
    pub master_key: Option<MasterKey>,
    /// Bytes for cached blocks and memtables together.
    pub cache_bytes: u64,
    /// Whether writes go to the write-ahead log. Off is for bulk loads.
    pub journal: bool,
    /// Seconds between two sweeps of the TTL indexes.
    pub ttl_sweep_seconds: u64,
    /// Bytes of memory in which an index build sorts; what does not fit waits in files. `None`: an
    /// eighth of `cache_bytes`, from 16 to 256 MiB.
    pub sort_bytes: Option<u64>,
    /// Whether indexes of kinds that are not there are listed, not built, where they would be refused.
    pub accept_unbuilt_indexes: bool,
}

impl EngineOptions {
    fn sort_bytes(&self) -> usize {
        let share = (self.cache_bytes / 8).clamp(16 << 20, 256 << 20);
        usize::try_from(self.sort_bytes.unwrap_or(share)).unwrap_or(usize::MAX)
    }
}

impl Default for EngineOptions {
    fn default() -> Self {
        Self {
            master_key: None,
            cache_bytes: 1 << 30,
            journal: true,
            ttl_sweep_seconds: 60,
            sort_bytes: None,
            accept_unbuilt_indexes: false,
        }
    }
}

/// A document database in one directory.
pub struct Engine {
    /// Itself, for what may outlive it.
    own_handle: Weak<Self>,
    directory: PathBuf,
    options: EngineOptions,
    store: Store,
    catalog: Arc<Catalog>,
    writer: Writer,
    cursors: CursorRegistry,
    ttl: ttl::TtlCounters,
    work: work::Work,
    ttl_sweep_seconds: AtomicU64,
    sweeps_ttl: AtomicBool,
    /// Once so many bytes were written, the rank indexes are saved.
    save_at_bytes: AtomicU64,
    stopped: AtomicBool,
}

impl Engine {
    /// Opens or creates the database in `directory` and starts its background work.
    ///
    /// # Errors
    /// A directory that another process has open, or that cannot be read.
    pub fn open(directory: &Path, options: EngineOptions) -> Result<Arc<Self>> {
        let store_options = StoreOptions {
            master_key: options.master_key.clone(),
            cache_bytes: options.cache_bytes,
            journal: options.journal,
        };
        let store = Store::open(directory, &store_options)?;
        let engine = Self::over(store, directory.to_owned(), options)?;
        background::start(&engine);
        Ok(engine)
    }

    /// An engine over a store in memory, without background work: for tests.
    ///
    /// # Errors
    /// None in practice; the signature is that of [`Self::open`].
    pub fn in_memory() -> Result<Arc<Self>> {
        Self::over(Store::in_memory(), PathBuf::new(), EngineOptions::default())
    }

    /// As [`Self::in_memory`], over a store with limits, faults or a recording.
    ///
    /// # Errors
    /// None in practice; the signature is that of [`Self::open`].
    pub fn in_memory_with(options: MemoryOptions) -> Result<Arc<Self>> {
        let store = Store::in_memory_with(options);
        Self::over(store, PathBuf::new(), EngineOptions::default())
    }

    fn over(store: Store, directory: PathBuf, options: EngineOptions) -> Result<Arc<Self>> {
        let catalog = Arc::new(Catalog::load(store.clone())?);
        let writer = Writer::new(store.clone(), catalog.clone(), options.sort_bytes());
        let engine = Arc::new_cyclic(|own_handle| Self {
            own_handle: own_handle.clone(),
            directory,
            ttl_sweep_seconds: AtomicU64::new(options.ttl_sweep_seconds),
            sweeps_ttl: AtomicBool::new(true),
            options,
            store,
            catalog,
            writer,
            cursors: CursorRegistry::default(),
            ttl: ttl::TtlCounters::default(),
            work: work::Work::default(),
            save_at_bytes: AtomicU64::new(SAVE_RANKS_BYTES),
            stopped: AtomicBool::new(false),
        });
        engine.remove_unfinished_indexes()?;
        engine.remove_unfinished_outputs()?;
        engine.warn_of_unbuilt_indexes();
        Ok(engine)
    }

    fn own_handle(&self) -> Weak<Self> {
        self.own_handle.clone()
    }

    fn warn_of_unbuilt_indexes(&self) {
        for collection in self.catalog.all() {
            let names = collection.unbuilt.iter().map(|index| index.name.as_str());
            let names: Vec<&str> = names.collect();
            if !names.is_empty() {
                tracing::warn!(namespace = %collection.namespace, ?names, "indexes are listed that are not built: no query uses them");
            }
        }
    }

    /// An index whose build was cut short was never acknowledged: it is taken away.
    fn remove_unfinished_indexes(&self) -> Result<()> {
        for collection in self.catalog.all() {
            let unfinished = collection.indexes.iter().filter(|index| !index.ready);
            let (trees, names): (Vec<_>, Vec<_>) = unfinished
                .map(|index| (index.tree, index.spec.name.as_str()))
                .unzip();
            if !names.is_empty() {
                tracing::warn!(namespace = %collection.namespace, ?names, "removing indexes whose build was interrupted; create them again");
                self.writer.withdraw(&collection.namespace, &trees)?;
            }
        }
        Ok(())
    }

    /// What an interrupted `$out` or `convertToCapped` had filled never took its name: it is taken away.
    fn remove_unfinished_outputs(&self) -> Result<()> {
        for collection in self.catalog.all() {
            if collection.temporary {
                tracing::warn!(namespace = %collection.namespace, "removing what an interrupted $out, convertToCapped or cloneCollectionAsCapped had written");
                self.writer.drop_collection(&collection.namespace)?;
            }
        }
        Ok(())
    }

    /// Saves rank indexes once enough was written since the last time, so that catching up stays short and
    /// saving is a small part of what is written.
    fn save_rank_indexes_when_due(&self) -> Result<()> {
        let written = self.store.written_bytes();
        if written < self.save_at_bytes.load(Ordering::Acquire) {
            return Ok(());
        }
        let ranks = self.catalog.all();
        let bytes = |collection: &Arc<Collection>| collection.state.ranks().figures().bytes;
        let bytes: u64 = ranks.iter().map(bytes).sum();
        let pause = SAVE_RANKS_BYTES.max(SAVE_RANKS_RATIO * bytes);
        self.save_at_bytes.store(written + pause, Ordering::Release);
        self.save_rank_indexes()
    }

    /// Saves the rank indexes that have changed: after a kill only later commits are read from the log.
    ///
    /// # Errors
    /// Storage failures.
    pub fn save_rank_indexes(&self) -> Result<()> {
        self.writer.ranks().save(self.catalog.ranks())
    }

    /// Where the data is.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// The settings the engine was opened with.
    pub fn options(&self) -> &EngineOptions {
        &self.options
    }

    /// The open cursors.
    pub fn cursors(&self) -> &CursorRegistry {
        &self.cursors
    }

    /// Stops background work and makes everything durable; idempotent.
    pub fn shutdown(&self) {
        if self.stopped.swap(true, Ordering::AcqRel) {
            return;
        }
        if let Err(error) = self.save_rank_indexes() {
            tracing::error!(%error, "rank indexes could not be saved; they are built anew at the next start");
        }
        if let Err(error) = self.store.close() {
            tracing::error!(%error, "the store could not be closed cleanly; the journal is replayed at the next start");
        }
    }

    /// Seconds between two sweeps of the TTL indexes.
    pub fn ttl_sweep_seconds(&self) -> u64 {
        self.ttl_sweep_seconds.load(Ordering::Acquire)
    }

    /// Whether the TTL indexes are swept.
    pub fn sweeps_ttl(&self) -> bool {
        self.sweeps_ttl.load(Ordering::Acquire)
    }

    /// Begins or stops to sweep the TTL indexes (`setParameter ttlMonitorEnabled`); a sweep that runs goes on.
    pub fn set_sweeps_ttl(&self, sweeps: bool) {
        self.sweeps_ttl.store(sweeps, Ordering::Release);
    }

    /// Changes the time between two sweeps of the TTL indexes (`setParameter ttlMonitorSleepSecs`).
    pub fn set_ttl_sweep_seconds(&self, seconds: u64) {
        self.ttl_sweep_seconds
            .store(seconds.max(1), Ordering::Release);
    }

    /// Inserts documents, creating the collection when it does not exist.
    ///
    /// # Errors
    /// Storage failures; what is wrong with single documents is in the outcome.
    pub fn insert(
        &self,
        namespace: &Namespace,
        documents: &[&RawDocument],
        options: &InsertOptions,
    ) -> Result<InsertOutcome> {
        if let Some((_, buckets)) = self.catalog.timeseries(namespace) {
            return self
                .writer
                .insert_measurements(&buckets, documents, options);
        }
        self.writer.insert(namespace, documents, options)
    }

    /// Returns once everything written before survives a power loss.
    ///
    /// # Errors
    /// A failed fsync.
    pub fn sync_journal(&self) -> Result<()> {
        Ok(self.store.sync()?)
    }

    /// Saves the rank indexes and writes everything in memory to files (`fsync` command), so that sizes on
    /// disk are true and the next start has little to read from the log.
    ///
    /// # Errors
    /// Storage failures.
    pub fn checkpoint(&self) -> Result<()> {
        for collection in self.catalog.all() {
            self.flush_rows(&collection)?;
        }
        self.save_rank_indexes()?;
        self.store.sync()?;
        Ok(self.store.flush()?)
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.shutdown();
    }
}
