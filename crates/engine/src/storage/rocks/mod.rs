//! The store on disk: one RocksDB, its column families in [`families`].
//!
//! Settings follow from the job: many small index entries written in random order and read in
//! ranges. Memtables are charged to the block cache, so that one number (`cache_bytes`) bounds the
//! process.
//!
//! What is read from it is in [`snapshot`] and [`log`], what it does by itself in [`background`]. The engine's
//! only unsafe code is in [`snapshot`] and, for the same reason, in [`families`], and in [`environment`].

mod background;
mod batch;
mod disk_space;
mod encrypt;
mod environment;
mod error;
mod families;
mod group_sync;
mod idle;
mod load;
mod lock;
mod log;
mod log_check;
mod refusal;
mod reserve;
mod row_cache;
mod snapshot;
#[cfg(test)]
mod tests;
mod throttle;
mod warm;

pub(super) use error::failed;
pub use families::BLOB_BYTES_MIN;
pub(super) use snapshot::RocksScan;

use batch::RocksBatch;
use disk_space::DiskSpace;
use error::{Failure, open_failed};
use refusal::WriteRefusal;
use reserve::Reserve;
use snapshot::RocksView;

use super::budget::CacheBudget;
use super::encryption::{DataKey, MasterKey};
use super::engine::{Capabilities, Condition, Outcome, ReadValue, StorageEngine, View, WriteBatch};
use super::local::{Loader, LocalEngine};
use super::{Compression, Family, Scratch, StoreError, VisitLogged};
use families::{ColumnFamily, Database, Families};
use group_sync::{GroupSync, SyncFailure};
use load::{Files, Finished};
use parking_lot::{Mutex, RwLock};
use rocksdb::perf::{PerfContext, PerfMetric};
use rocksdb::{
    Cache, Env, FlushOptions, IngestExternalFileOptions, Options, Range, ReadOptions,
    WaitForCompactOptions, WriteBufferManager, WriteOptions,
};
use row_cache::{CacheLookup, PRESENT, RowCache};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use throttle::WriteThrottle;

const MEBIBYTE: usize = 1 << 20;

/// The library's name of the number of files in level 0.
const LEVEL_ZERO_FILES: &str = "rocksdb.num-files-at-level0";
/// Of all memtables that are not flushed.
const MEMTABLE_BYTES: &str = "rocksdb.cur-size-all-mem-tables";

/// Log files that the store no longer needs are kept until [`RocksStore::forget_log_before`]: their age
/// plays no part.
const LOG_KEPT_SECONDS: u64 = 100 * 365 * 24 * 3600;

/// Loaded files wait so often, ...
const MERGE_WAITS_MAX: u32 = 100;
/// ... and so long each time, for a merge to end.
const MERGE_WAIT: Duration = Duration::from_millis(50);
/// The library holds a key's length in 32 bits, and blocks are read whole. A document's longest key, 16 MiB of
/// zeros of which each is written as two bytes, is far below.
const KEY_BYTES_MAX: usize = 64 << 20;
/// The library's FAQ names 3 GB for a value; no document comes near.
const VALUE_BYTES_MAX: usize = 1 << 30;

/// Settings of the store.
#[derive(Debug, Clone)]
pub struct StoreOptions {
    /// For a directory that is encrypted, or is to be made so.
    pub master_key: Option<MasterKey>,
    /// Bytes for cached blocks, memtables and what [`CacheBudget`] lends together.
    pub cache_bytes: u64,
    /// Whether writes go to the log first. Off is for bulk loads: a kill then loses what was not flushed.
    pub journal: bool,
}

impl Default for StoreOptions {
    fn default() -> Self {
        Self {
            master_key: None,
            cache_bytes: 1 << 30,
            journal: true,
        }
    }
}

pub(super) struct RocksStore {
    // Dropped before `database`: its handles are the database's.
    families: Families,
    database: Database,
    cache: Cache,
    cache_bytes: usize,
    room: Arc<CacheBudget>,
    /// Documents that are asked for often.
    rows: RowCache,
    /// For reads of the present state.
    read_options: ReadOptions,
    /// For batches of keys in order; and for those that remove ranges, see [`write_options`].
    write_options: [WriteOptions; 2],
    journal: bool,
    group: GroupSync,
    refusal: WriteRefusal,
    reserve: Reserve,
    /// Of the disk.
    disk: DiskSpace,
    dirty: AtomicBool,
    /// Written by commits that have conditions.
    commits: RwLock<()>,
    closed: Arc<AtomicBool>,
    written_bytes: AtomicU64,
    throttle: WriteThrottle,
    /// Whether writes rest.
    is_idle: AtomicBool,
    /// Whether files were loaded that [`Warming`] has not been told of.
    loaded: AtomicBool,
    /// Held while files are read into the cache.
    warming: Mutex<()>,
    directory: PathBuf,
    /// Of a directory that is encrypted.
    key: Option<Arc<DataKey>>,
}

impl RocksStore {
    pub(super) fn open(directory: &Path, options: &StoreOptions) -> Result<Self, StoreError> {
        std::fs::create_dir_all(directory).map_err(|error| {
            StoreError::Failed(format!("cannot create {}: {error}", directory.display()))
        })?;
        let cache_bytes = usize::try_from(options.cache_bytes)
            .unwrap_or(usize::MAX)
            .max(64 * MEBIBYTE);
        let _opening = lock::opening(directory)?;
        let key = encrypt::data_key(directory, options.master_key.as_ref())?;
        let environment = environment::environment(key.as_ref()).map_err(failed)?;
        let cache = Cache::new_hyper_clock_cache(cache_bytes, 0);
        let settings = database_options(options, &environment, &cache, cache_bytes);
        let families = Families::new(environment, &cache, cache_bytes);
        let cut_off = log_check::examine_and_cut(directory, key.as_deref())?;
        let reserve = Reserve::of(directory);
        let database = families
            .open(&settings, directory)
            .or_else(|error| open_without_room(&families, settings, directory, &reserve, error))
            .map_err(|error| open_failed(directory, error))?;
        for log_check::CutOff { path, bytes, .. } in cut_off {
            let log = path.display();
            tracing::warn!(%log, bytes, "the end of the write-ahead log was never completely written, as after a power loss: writes in its last bytes are not there");
        }
        let room = CacheBudget::new(cache_bytes, Some(cache.clone()));
        let store = Self {
            families,
            database,
            rows: RowCache::new(cache_bytes, &room),
            room,
            cache,
            cache_bytes,
            read_options: ReadOptions::default(),
            write_options: [false, true].map(|removes| write_options(options.journal, removes)),
            journal: options.journal,
            group: GroupSync::default(),
            refusal: WriteRefusal::default(),
            reserve,
            disk: DiskSpace::default(),
            dirty: AtomicBool::new(false),
            commits: RwLock::new(()),
            closed: Arc::default(),
            written_bytes: AtomicU64::new(0),
            throttle: WriteThrottle::default(),
            is_idle: AtomicBool::new(false),
            loaded: AtomicBool::new(false),
            warming: Mutex::default(),
            directory: directory.to_owned(),
            key,
        };
        Scratch::remove_leftovers(directory)?;
        store.disk.look(directory);
        Ok(store)
    }

    /// Gives up what cannot be replayed of a damaged log, see [`log_check::truncate`].
    pub(super) fn truncate_log(
        directory: &Path,
        master: Option<&MasterKey>,
    ) -> Result<Vec<String>, StoreError> {
        let key = encrypt::data_key(directory, master)?;
        log_check::truncate(directory, key.as_deref())
    }

    /// See [`encrypt::encrypt`].
    pub(super) fn encrypt(
        directory: &Path,
        master: &MasterKey,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<(), StoreError> {
        encrypt::encrypt(directory, master, progress)
    }

    /// See [`encrypt::rekey`].
    pub(super) fn rekey(
        directory: &Path,
        old: &MasterKey,
        new: &MasterKey,
    ) -> Result<(), StoreError> {
        encrypt::rekey(directory, old, new)
    }

    /// The column family in which the tree lies that `key` begins with.
    fn family(&self, family: Family, key: &[u8]) -> &ColumnFamily {
        self.families.of_key(family, key)
    }

    /// Commits with conditions come alone, so that no other commit changes what they compare.
    fn commit(&self, batch: RocksBatch, conditions: &[Condition]) -> Result<Outcome, StoreError> {
        if conditions.is_empty() {
            let _beside_others = self.commits.read();
            return self.write(batch).map(|()| Outcome::Committed);
        }
        let _alone = self.commits.write();
        for condition in conditions {
            if !condition.holds(self)? {
                return Ok(Outcome::Conflict);
            }
        }
        self.write(batch).map(|()| Outcome::Committed)
    }

    fn write(&self, batch: RocksBatch) -> Result<(), StoreError> {
        self.group.check()?;
        self.disk.check(batch.removes_ranges)?;
        let bytes = batch.operations.size_in_bytes() as u64;
        self.rows.enter(&batch.changed);
        let written = self.database.write_opt(
            batch.operations,
            &self.write_options[usize::from(batch.removes_ranges)],
        );
        self.rows.leave(&batch.changed, self.latest_sequence());
        if let Err(error) = written {
            self.refusal.refused(&error);
            return Err(failed(error));
        }
        self.refusal.accepted();
        self.dirty.store(true, Ordering::Release);
        self.written_bytes.fetch_add(bytes, Ordering::Relaxed);
        self.throttle.charge(bytes as usize);
        self.throttle.note_value(batch.largest);
        Ok(())
    }

    /// Makes finished files, which do not overlap, part of their column families; they are moved away.
    fn take_over(&self, files: Finished<'_>) -> Result<(), StoreError> {
        self.group.check()?;
        self.disk.check(false)?;
        for (family, paths) in files.paths {
            self.take_over_of(family, &paths)?;
        }
        self.loaded.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// The library gives files a sequence number while a merge runs whose keys they lie among. The log would
    /// lack it, and rank indexes could not be brought up to date from there (see `catalog::saved`): so the end of
    /// the merge is waited for, unless it takes long.
    fn take_over_of(&self, family: &ColumnFamily, paths: &[PathBuf]) -> Result<(), StoreError> {
        let mut options = IngestExternalFileOptions::default();
        options.set_move_files(true);
        // The keys are new, so older snapshots need no protection, which would take a number too.
        options.set_snapshot_consistency(false);
        for waits in 0..=MERGE_WAITS_MAX {
            let is_last = waits == MERGE_WAITS_MAX;
            options.set_allow_global_seqno(is_last);
            let (handle, paths) = (&family.handle, paths.iter().collect());
            let taken = self
                .database
                .ingest_external_file_cf_opts(handle, &options, paths);
            match taken {
                Err(error) if !is_last && Failure::of(&error).needs_sequence => {
                    std::thread::sleep(MERGE_WAIT);
                }
                taken => return taken.map_err(failed),
            }
        }
        unreachable!("the last try returns")
    }

    /// The library does not try to sync a log that could not be written before: when the disk was full for it,
    /// the library begins another log once there is room. Every other failure is one of the fsync itself.
    fn sync_failure(&self, error: rocksdb::Error) -> SyncFailure {
        let was_not_tried = !Failure::of(&error).is_of_fsync;
        match was_not_tried && self.refusal.is_for_space() {
            true => SyncFailure::NotTried(StoreError::OutOfSpace(error.into_string())),
            false => SyncFailure::Failed(error.into_string()),
        }
    }

    fn number_of(&self, family: &ColumnFamily, property: &str) -> u64 {
        let value = self
            .database
            .property_int_value_cf(&family.handle, property);
        value.ok().flatten().unwrap_or(0)
    }

    fn flush_memtables(&self, waits: bool) -> Result<(), StoreError> {
        // Held while files are written: without a log all families must reach the disk together, so none
        // may be added that this flush does not know of.
        let _held = self.families.hold();
        let families: Vec<_> = self.families.all().map(|one| &one.handle).collect();
        let mut options = FlushOptions::default();
        options.set_wait(waits);
        self.database
            .flush_cfs_opt(&families, &options)
            .map_err(failed)
    }
}

impl StorageEngine for RocksStore {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            key_bytes_max: KEY_BYTES_MAX,
            value_bytes_max: VALUE_BYTES_MAX,
        }
    }

    fn begin(self: Arc<Self>) -> Arc<dyn View> {
        Arc::new(RocksView::new(self))
    }

    fn batch(self: Arc<Self>) -> Box<dyn WriteBatch> {
        Box::new(RocksBatch::new(self))
    }

    fn get(&self, family: Family, key: &[u8], read: &mut ReadValue<'_>) -> Result<(), StoreError> {
        let handle = &self.family(family, key).handle;
        let value = self
            .database
            .get_pinned_cf_opt(handle, key, &self.read_options)
            .map_err(failed)?;
        if let Some(value) = value {
            read(&value);
        }
        Ok(())
    }

    /// From its row where there is one.
    fn get_document(&self, key: &[u8], read: &mut ReadValue<'_>) -> Result<(), StoreError> {
        let is_wanted = match self.rows.find(key, PRESENT) {
            CacheLookup::Row(row) => {
                read(row.value());
                return Ok(());
            }
            CacheLookup::Missing { is_wanted } => is_wanted,
        };
        let begun = self.latest_sequence();
        self.get(Family::Documents, key, &mut |value| {
            if is_wanted {
                self.rows.keep(key, value, begun, self.latest_sequence());
            }
            read(value);
        })
    }

    fn size_of_range(&self, family: Family, start: &[u8], end: &[u8]) -> u64 {
        let sizes = self.database.get_approximate_sizes_cf(
            &self.family(family, start).handle,
            &[Range::new(start, end)],
        );
        sizes.first().copied().unwrap_or(0)
    }

    fn compact(&self, family: Family, start: &[u8], end: &[u8]) {
        let family = self.family(family, start);
        self.database
            .compact_range_cf(&family.handle, Some(start), Some(end));
    }

    fn sync(&self) -> Result<(), StoreError> {
        if !self.journal {
            return self.flush();
        }
        self.group.wait(|| {
            let synced = self.database.flush_wal(true);
            synced.map_err(|error| self.sync_failure(error))
        })
    }

    fn statistics(&self) -> Vec<(&'static str, u64)> {
        let total = |property: &str| {
            let families = self.families.all();
            families
                .map(|one| self.number_of(one, property))
                .sum::<u64>()
        };
        vec![
            ("cacheBytesUsed", self.cache.get_usage() as u64),
            ("cacheBytesPinned", self.cache.get_pinned_usage() as u64),
            ("rowCacheBytes", self.rows.bytes()),
            ("rowCacheRows", self.rows.rows() as u64),
            ("memtableBytes", total(MEMTABLE_BYTES)),
            (
                "pendingCompactionBytes",
                total("rocksdb.estimate-pending-compaction-bytes"),
            ),
            ("liveFileBytes", total("rocksdb.live-sst-files-size")),
            ("levelZeroFiles", total(LEVEL_ZERO_FILES)),
            (
                "runningCompactions",
                total("rocksdb.num-running-compactions"),
            ),
            ("runningFlushes", total("rocksdb.num-running-flushes")),
        ]
    }

    fn close(&self) -> Result<(), StoreError> {
        if self.closed.swap(true, Ordering::AcqRel) {
            return Ok(());
        }
        // Whoever reads files sees it and ends.
        drop(self.warming.lock());
        self.sync()?;
        self.flush()?;
        let mut options = WaitForCompactOptions::default();
        options.set_abort_on_pause(true);
        options.set_timeout(1);
        // Running compactions are abandoned: their inputs stay, nothing is lost.
        let _ = self.database.wait_for_compact(&options);
        self.database.cancel_all_background_work(true);
        Ok(())
    }

    fn local(&self) -> Option<&dyn LocalEngine> {
        Some(self)
    }
}

impl LocalEngine for RocksStore {
    fn scratch(&self) -> Result<Scratch, StoreError> {
        Scratch::create(&self.directory, self.key.clone())
    }

    fn is_idle(&self) -> bool {
        self.is_idle.load(Ordering::Relaxed)
    }

    fn add_compression(&self, family: Family, compression: Compression) -> Result<(), StoreError> {
        self.families
            .add(&self.database, family, compression)
            .map_err(failed)
    }

    fn loader(&self, family: Family) -> Result<Box<dyn Loader + '_>, StoreError> {
        Ok(Box::new(Files::new(self, family, self.scratch()?)))
    }

    fn latest_sequence(&self) -> u64 {
        self.database.latest_sequence_number()
    }

    fn replay(&self, sequence: u64, visit: &mut VisitLogged<'_>) -> Result<bool, StoreError> {
        self.read_log(sequence, visit)
    }

    fn forget_log_before(&self, sequence: u64) {
        self.remove_log_before(sequence);
    }

    fn wait_for_merges(&self) -> Option<Duration> {
        self.throttle.wait()
    }

    /// Whether so much of large values waits for flushes that writers must let them go on.
    fn is_behind(&self) -> bool {
        if !self.throttle.has_large_values() {
            return false;
        }
        let families = self.families.all();
        let unflushed: u64 = families
            .map(|one| self.number_of(one, MEMTABLE_BYTES))
            .sum();
        unflushed > 2 * memtable_bytes(self.cache_bytes) as u64
    }

    fn written_bytes(&self) -> u64 {
        self.written_bytes.load(Ordering::Relaxed)
    }

    fn flush(&self) -> Result<(), StoreError> {
        self.flush_memtables(true)
    }

    fn cache_budget(&self) -> Arc<CacheBudget> {
        self.room.clone()
    }
}

impl Drop for RocksStore {
    fn drop(&mut self) {
        self.closed.store(true, Ordering::Release);
    }
}

/// What memtables may take together before they are flushed.
fn memtable_bytes(cache_bytes: usize) -> usize {
    (cache_bytes / 3).clamp(32 * MEBIBYTE, 512 * MEBIBYTE)
}

fn database_options(
    options: &StoreOptions,
    environment: &Env,
    cache: &Cache,
    cache_bytes: usize,
) -> Options {
    let mut settings = Options::default();
    settings.set_env(environment);
    settings.create_if_missing(true);
    settings.create_missing_column_families(true);
    settings.set_write_buffer_manager(&WriteBufferManager::new_write_buffer_manager_with_cache(
        memtable_bytes(cache_bytes),
        false,
        cache.clone(),
    ));
    settings.set_max_open_files(open_files_max());
    settings.set_max_background_jobs(3);
    settings.set_max_subcompactions(2);
    settings.set_bytes_per_sync(MEBIBYTE as u64);
    settings.set_wal_bytes_per_sync(MEBIBYTE as u64);
    settings.set_max_total_wal_size(1 << 30);
    settings.set_wal_ttl_seconds(LOG_KEPT_SECONDS);
    settings.set_keep_log_file_num(4);
    settings.set_max_log_file_size(16 * MEBIBYTE);
    settings.set_enable_pipelined_write(options.journal);
    // Without a log the families must reach the disk together, or a kill could leave entries without documents.
    settings.set_atomic_flush(!options.journal);
    settings
}

/// Keys of a batch are inserted from where the last one went. The library (11.8) would look there for removed
/// ranges too, which are kept elsewhere, when two batches are written at once: neither would be sound.
fn write_options(journal: bool, removes_ranges: bool) -> WriteOptions {
    let mut options = WriteOptions::default();
    options.disable_wal(!journal);
    options.set_memtable_insert_hint_per_batch(!removes_ranges);
    options
}

/// How many files are kept open: all of them, unless the process may have so few that connections, which
/// take four fifths at most, and files could use them up. Out of descriptors, compactions would fail.
fn open_files_max() -> i32 {
    const FEW: u64 = 32 * 1024;
    match rustix::process::getrlimit(rustix::process::Resource::Nofile).current {
        Some(limit) if limit < FEW => i32::try_from(limit / 8).unwrap_or(i32::MAX).max(16),
        _ => -1,
    }
}

/// Opens a directory that could not be opened, if that was for lack of space: with the space that was kept for
/// it, and without writing out what the log holds.
fn open_without_room(
    families: &Families,
    mut settings: Options,
    directory: &Path,
    reserve: &Reserve,
    error: rocksdb::Error,
) -> Result<Database, rocksdb::Error> {
    if !Failure::of(&error).is_out_of_space {
        return Err(error);
    }
    let has_reserve = reserve.give_up();
    tracing::warn!(%error, has_reserve, "the disk is full: trying to open the directory for reading");
    let settings = settings.get_options_from_string("avoid_flush_during_recovery=true")?;
    families.open(&settings, directory)
}

/// Counted by the library for each thread, whatever store it is.
pub(super) fn blocks_read() -> u64 {
    PerfContext::default().metric(PerfMetric::BlockReadCount)
}
