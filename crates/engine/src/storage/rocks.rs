//! The store on disk: one RocksDB, its column families in [`super::families`].
//!
//! Settings follow from the job: many small index entries written in random order and read in
//! ranges. Memtables are charged to the block cache, so that one number (`cache_bytes`) bounds the
//! process.
//!
//! The library's snapshots and iterators borrow the database. Cursors outlive the request that
//! made them, so here each holds the database by reference count and the borrow is widened to
//! `'static`; the fields' order makes the borrower drop first. The engine's only unsafe code is here and,
//! for the same reason, in [`super::families`].
#![allow(unsafe_code)]

use super::families::{ColumnFamily, Database, Families};
use super::group_sync::GroupSync;
use super::load::Finished;
use super::pressure::Pressure;
use super::rest::{BUSY_FILES, Change, REST_FILES, Rest};
use super::room::CacheRoom;
use super::warm::{FILLED_PERCENT, Warming, fills};
use super::{Compression, Family, Logged, Order, Scratch, StoreError};
use parking_lot::Mutex;
use rocksdb::perf::{PerfContext, PerfMetric};
use rocksdb::{
    Cache, DBPinnableSlice, DBRawIteratorWithThreadMode, Env, FlushOptions,
    IngestExternalFileOptions, Options, Range, ReadOptions, SnapshotWithThreadMode,
    WaitForCompactOptions, WriteBatch, WriteBatchIteratorCf, WriteBufferManager, WriteOptions,
};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

const MEBIBYTE: usize = 1 << 20;

/// The library's name of the number of files in level 0.
const LEVEL_ZERO_FILES: &str = "rocksdb.num-files-at-level0";

/// How often buffered writes reach the disk: at most this much is at risk in a power loss.
const SYNC_INTERVAL: Duration = Duration::from_millis(100);
const INTERVALS_A_SECOND: u64 = 10;
/// Without a log all families are written to files so often, if they do not fill up before: as often as
/// mongod makes checkpoints. Each time costs files that must be merged.
const INTERVALS_WITHOUT_LOG: u64 = 60 * INTERVALS_A_SECOND;

/// Log files that the store no longer needs are kept until [`RocksStore::forget_log_before`]: their age
/// plays no part.
const LOG_KEPT_SECONDS: u64 = 100 * 365 * 24 * 3600;

/// Of the thread that fills the cache (the greatest `nice` value there is).
const LEAST_PRIORITY: i32 = 19;

/// Loaded files wait so often, ...
const MERGE_WAITS_MAX: u32 = 100;
/// ... and so long each time, for a merge to end.
const MERGE_WAIT: Duration = Duration::from_millis(50);
/// What the library says then.
const NUMBER_NEEDED: &str = "Global seqno is required";

/// Settings of the store.
#[derive(Debug, Clone)]
pub struct StoreOptions {
    /// Bytes for cached blocks, memtables and what [`CacheRoom`] lends together.
    pub cache_bytes: u64,
    /// Whether writes go to the log first. Off is for bulk loads: a kill then loses what was not flushed.
    pub journal: bool,
}

impl Default for StoreOptions {
    fn default() -> Self {
        Self {
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
    room: Arc<CacheRoom>,
    /// For reads of the present state.
    read_options: ReadOptions,
    write_options: WriteOptions,
    journal: bool,
    group: GroupSync,
    dirty: AtomicBool,
    closed: Arc<AtomicBool>,
    written_bytes: AtomicU64,
    pressure: Pressure,
    /// Whether writes rest.
    rests: AtomicBool,
    /// Whether files were loaded that [`Warming`] has not been told of.
    loaded: AtomicBool,
    /// Held while files are read into the cache.
    warming: Mutex<()>,
    directory: PathBuf,
}

impl RocksStore {
    pub(super) fn open(directory: &Path, options: &StoreOptions) -> Result<Self, StoreError> {
        std::fs::create_dir_all(directory).map_err(|error| {
            StoreError::Failed(format!("cannot create {}: {error}", directory.display()))
        })?;
        let cache_bytes = usize::try_from(options.cache_bytes)
            .unwrap_or(usize::MAX)
            .max(64 * MEBIBYTE);
        let cache = Cache::new_hyper_clock_cache(cache_bytes, 0);
        let families = Families::new(&cache, cache_bytes);
        let settings = database_options(options, &cache, cache_bytes);
        let database = families
            .open(&settings, directory)
            .map_err(|error| open_error(directory, &error))?;
        let mut write_options = WriteOptions::default();
        write_options.disable_wal(!options.journal);
        write_options.set_memtable_insert_hint_per_batch(true);
        let store = Self {
            families,
            database,
            room: CacheRoom::new(cache_bytes, Some(cache.clone())),
            cache,
            cache_bytes,
            read_options: ReadOptions::default(),
            write_options,
            journal: options.journal,
            group: GroupSync::default(),
            dirty: AtomicBool::new(false),
            closed: Arc::default(),
            written_bytes: AtomicU64::new(0),
            pressure: Pressure::default(),
            rests: AtomicBool::new(false),
            loaded: AtomicBool::new(false),
            warming: Mutex::default(),
            directory: directory.to_owned(),
        };
        Scratch::remove_leftovers(directory)?;
        Ok(store)
    }

    pub(super) fn room(&self) -> Arc<CacheRoom> {
        self.room.clone()
    }

    /// The column family in which the tree lies that `key` begins with.
    pub(super) fn family(&self, family: Family, key: &[u8]) -> &ColumnFamily {
        self.families.of_key(family, key)
    }

    pub(super) fn add_compression(
        &self,
        family: Family,
        compression: Compression,
    ) -> Result<(), StoreError> {
        self.families
            .add(&self.database, family, compression)
            .map_err(failed)
    }

    pub(super) fn write(&self, batch: RocksBatch) -> Result<(), StoreError> {
        self.group.check()?;
        let bytes = batch.operations.size_in_bytes() as u64;
        self.database
            .write_opt(batch.operations, &self.write_options)
            .map_err(failed)?;
        self.dirty.store(true, Ordering::Release);
        self.written_bytes.fetch_add(bytes, Ordering::Relaxed);
        self.pressure.charge(bytes as usize);
        Ok(())
    }

    /// Where the store is.
    pub(super) fn directory(&self) -> &Path {
        &self.directory
    }

    /// Makes finished files, which do not overlap, part of their column families; they are moved away.
    pub(super) fn take_over(&self, files: Finished<'_>) -> Result<(), StoreError> {
        self.group.check()?;
        for (family, paths) in files.paths {
            self.take_over_of(family, &paths)?;
        }
        self.loaded.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// The library gives files a sequence number while a merge runs whose keys they lie among. The log would
    /// lack it, and summaries could not be brought up to date from there (see `catalog::saved`): so the end of
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
                Err(error) if !is_last && error.to_string().contains(NUMBER_NEEDED) => {
                    std::thread::sleep(MERGE_WAIT);
                }
                taken => return taken.map_err(failed),
            }
        }
        unreachable!("the last try returns")
    }

    pub(super) fn latest_sequence(&self) -> u64 {
        self.database.latest_sequence_number()
    }

    pub(super) fn wait_for_merges(&self) -> Option<Duration> {
        self.pressure.wait()
    }

    pub(super) fn written_bytes(&self) -> u64 {
        self.written_bytes.load(Ordering::Relaxed)
    }

    pub(super) fn replay(
        &self,
        sequence: u64,
        visit: &mut dyn FnMut(u64, u64, &[Logged]),
    ) -> Result<bool, StoreError> {
        // The library refuses numbers whose log is gone; then there is nothing to read.
        let Ok(batches) = self.database.get_updates_since(sequence) else {
            return Ok(false);
        };
        let mut operations = LoggedOperations {
            families: self.families.by_id(),
            logged: Vec::new(),
        };
        for batch in batches {
            let (first, batch) = batch.map_err(failed)?;
            operations.logged.clear();
            batch.iterate_cf(&mut operations);
            visit(first, batch.len() as u64, &operations.logged);
        }
        Ok(true)
    }

    /// Removes archived log files older than the oldest file that is still written or needed, if all
    /// their operations are: an archived file ends where the next one begins.
    pub(super) fn forget_log_before(&self, sequence: u64) {
        let mut logs = log_files(&self.directory.join("archive"));
        logs.extend(log_files(&self.directory));
        logs.sort();
        let begins_by =
            |path: &Path| first_sequence(path).is_some_and(|first| first <= sequence + 1);
        for pair in logs.windows(2) {
            let is_archived = pair[0]
                .1
                .parent()
                .is_some_and(|parent| parent.ends_with("archive"));
            if !is_archived || !begins_by(&pair[1].1) {
                return;
            }
            if let Err(error) = std::fs::remove_file(&pair[0].1) {
                tracing::warn!(path = %pair[0].1.display(), %error, "an old log file could not be removed");
                return;
            }
        }
    }

    pub(super) fn sync(&self) -> Result<(), StoreError> {
        if !self.journal {
            return self.flush();
        }
        self.group.wait(|| {
            self.database
                .flush_wal(true)
                .map_err(|error| error.to_string())
        })
    }

    /// Makes buffered writes durable every 100 ms (without a log: every minute), notes how full level 0 is, and
    /// merges it at rest, until the store is closed or dropped.
    pub(super) fn sync_in_background(self: &Arc<Self>) {
        let (store, closed) = (Arc::downgrade(self), self.closed.clone());
        let work = move || {
            let mut rest = Rest::default();
            for interval in 1_u64.. {
                std::thread::sleep(SYNC_INTERVAL);
                let Some(store) = store.upgrade() else { return };
                if closed.load(Ordering::Acquire) {
                    return;
                }
                store.pressure.note_files(store.most_level_zero_files());
                if interval.is_multiple_of(INTERVALS_A_SECOND)
                    && let Some(change) = rest.second(store.written_bytes())
                {
                    store.rest(change);
                }
                let is_due = store.journal || interval.is_multiple_of(INTERVALS_WITHOUT_LOG);
                if is_due
                    && store.dirty.swap(false, Ordering::AcqRel)
                    && let Err(error) = store.sync()
                {
                    tracing::error!(%error, "the journal could not be made durable; writes are refused from now on");
                    return;
                }
            }
        };
        std::thread::Builder::new()
            .name("journal-sync".into())
            .spawn(work)
            .expect("a thread can be started when the store is opened");
    }

    /// Of any family.
    fn most_level_zero_files(&self) -> u64 {
        let files = |family: &ColumnFamily| self.number_of(family, LEVEL_ZERO_FILES);
        self.families.all().map(files).max().unwrap_or(0)
    }

    fn number_of(&self, family: &ColumnFamily, property: &str) -> u64 {
        let value = self
            .database
            .property_int_value_cf(&family.handle, property);
        value.ok().flatten().unwrap_or(0)
    }

    /// At rest reads shall find few places to look in.
    fn rest(&self, change: Change) {
        self.rests
            .store(change == Change::Begins, Ordering::Relaxed);
        match change {
            Change::Ends => self.merge_from(BUSY_FILES),
            Change::Begins => {
                self.merge_from(REST_FILES);
                // Its success is not waited for; if it fails, writes do, and tell.
                if let Err(error) = self.flush_memtables(false) {
                    tracing::warn!(%error, "what is in memory could not be written to files");
                }
            }
        }
    }

    /// Reads what is new in the files into the cache's free room, whenever writes rest, until the store is
    /// closed or dropped.
    pub(super) fn warm_in_background(self: &Arc<Self>) {
        let (store, closed) = (Arc::downgrade(self), self.closed.clone());
        let work = move || {
            // For this thread alone; without it requests would share the processors evenly with it.
            if let Err(error) = rustix::process::nice(LEAST_PRIORITY) {
                tracing::debug!(%error, "the thread that fills the cache has the usual priority");
            }
            let mut warming = Warming::default();
            let mut did_fill = true;
            while !closed.load(Ordering::Acquire) {
                std::thread::sleep(Duration::from_secs(1));
                let Some(store) = store.upgrade() else { return };
                let fills = fills(did_fill, store.percent_filled());
                if std::mem::replace(&mut did_fill, fills) != fills {
                    store.fill_cache(fills);
                }
                let grows = store.loaded.swap(false, Ordering::Relaxed) || store.makes_files();
                if warming.second(store.rests.load(Ordering::Relaxed), grows) {
                    store.warm(&mut warming);
                }
            }
        };
        std::thread::Builder::new()
            .name("cache-warming".into())
            .spawn(work)
            .expect("a thread can be started when the store is opened");
    }

    /// Whether flushes or merges run or are about to.
    fn makes_files(&self) -> bool {
        let running = [
            "rocksdb.num-running-flushes",
            "rocksdb.num-running-compactions",
            "rocksdb.compaction-pending",
            "rocksdb.mem-table-flush-pending",
        ];
        let runs = |family| running.iter().any(|name| self.number_of(family, name) > 0);
        self.families.all().any(runs)
    }

    fn warm(self: &Arc<Self>, warming: &mut Warming) {
        let _held = self.warming.lock();
        let before = self.cache.get_usage();
        let may_go_on = || self.may_warm();
        match warming.read_new(&self.database, &self.families, &may_go_on) {
            Ok(files) => {
                let bytes = self.cache.get_usage().saturating_sub(before);
                tracing::debug!(files, bytes, "files were read into the cache");
            }
            Err(error) => tracing::warn!(%error, "the cache could not be filled"),
        }
    }

    /// Whether the cache has room, nobody waits for the store to be closed, and writes rest.
    fn may_warm(self: &Arc<Self>) -> bool {
        let is_ending = self.closed.load(Ordering::Acquire) || Arc::strong_count(self) == 1;
        self.percent_filled() < FILLED_PERCENT && self.rests.load(Ordering::Relaxed) && !is_ending
    }

    /// How full the cache is.
    fn percent_filled(&self) -> usize {
        let room = self.cache_bytes - self.room.lent();
        self.cache.get_usage() / (room / 100)
    }

    fn fill_cache(&self, fills: bool) {
        if let Err(error) = self.families.fill_cache(&self.database, fills) {
            tracing::warn!(%error, fills, "the store's settings could not be changed");
        }
    }

    /// From now on so many files of level 0 start a merge.
    fn merge_from(&self, files: i32) {
        let settings = [("level0_file_num_compaction_trigger", &*files.to_string())];
        for family in self.families.all() {
            if let Err(error) = self.database.set_options_cf(&family.handle, &settings) {
                tracing::warn!(%error, files, "the store's settings could not be changed");
            }
        }
    }

    pub(super) fn get<T>(
        &self,
        family: Family,
        key: &[u8],
        read: impl FnOnce(&[u8]) -> T,
    ) -> Result<Option<T>, StoreError> {
        let handle = &self.family(family, key).handle;
        let value = self
            .database
            .get_pinned_cf_opt(handle, key, &self.read_options)
            .map_err(failed)?;
        Ok(value.map(|value| read(&value)))
    }

    pub(super) fn size_of_range(&self, family: Family, start: &[u8], end: &[u8]) -> u64 {
        let sizes = self.database.get_approximate_sizes_cf(
            &self.family(family, start).handle,
            &[Range::new(start, end)],
        );
        sizes.first().copied().unwrap_or(0)
    }

    pub(super) fn flush(&self) -> Result<(), StoreError> {
        self.flush_memtables(true)
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

    pub(super) fn statistics(&self) -> Vec<(&'static str, u64)> {
        let total = |property: &str| {
            let families = self.families.all();
            families
                .map(|one| self.number_of(one, property))
                .sum::<u64>()
        };
        vec![
            ("cacheBytesUsed", self.cache.get_usage() as u64),
            ("cacheBytesPinned", self.cache.get_pinned_usage() as u64),
            ("memtableBytes", total("rocksdb.cur-size-all-mem-tables")),
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

    pub(super) fn close(&self) -> Result<(), StoreError> {
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
}

impl Drop for RocksStore {
    fn drop(&mut self) {
        self.closed.store(true, Ordering::Release);
    }
}

fn database_options(options: &StoreOptions, cache: &Cache, cache_bytes: usize) -> Options {
    let mut settings = Options::default();
    if let Ok(mut environment) = Env::new() {
        // Merges take what requests leave: they catch up before anybody must wait for them.
        environment.lower_thread_pool_cpu_priority();
        settings.set_env(&environment);
    }
    settings.create_if_missing(true);
    settings.create_missing_column_families(true);
    let memtables = (cache_bytes / 3).clamp(32 * MEBIBYTE, 512 * MEBIBYTE);
    settings.set_write_buffer_manager(&WriteBufferManager::new_write_buffer_manager_with_cache(
        memtables,
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

/// How many files are kept open: all of them, unless the process may have so few that connections, which
/// take four fifths at most, and files could use them up. Out of descriptors, compactions would fail.
fn open_files_max() -> i32 {
    const FEW: u64 = 32 * 1024;
    match rustix::process::getrlimit(rustix::process::Resource::Nofile).current {
        Some(limit) if limit < FEW => i32::try_from(limit / 8).unwrap_or(i32::MAX).max(16),
        _ => -1,
    }
}

fn failed(error: rocksdb::Error) -> StoreError {
    StoreError::Failed(error.into_string())
}

fn open_error(directory: &Path, error: &rocksdb::Error) -> StoreError {
    let message = error.to_string();
    let place = directory.display().to_string();
    if message.contains("lock") && (message.contains("LOCK") || message.contains("temporarily")) {
        return StoreError::Locked(place);
    }
    StoreError::Failed(format!("cannot open {place}: {message}"))
}

pub(super) struct RocksBatch {
    store: Arc<RocksStore>,
    operations: WriteBatch,
}

impl RocksBatch {
    pub(super) fn new(store: Arc<RocksStore>) -> Self {
        Self {
            store,
            operations: WriteBatch::default(),
        }
    }

    pub(super) fn put(&mut self, family: Family, key: &[u8], value: &[u8]) {
        self.operations
            .put_cf(&self.store.family(family, key).handle, key, value);
    }

    pub(super) fn delete(&mut self, family: Family, key: &[u8]) {
        self.operations
            .delete_cf(&self.store.family(family, key).handle, key);
    }

    pub(super) fn delete_range(&mut self, family: Family, start: &[u8], end: &[u8]) {
        self.operations
            .delete_range_cf(&self.store.family(family, start).handle, start, end);
    }

    pub(super) fn len(&self) -> usize {
        self.operations.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.operations.is_empty()
    }
}

/// Collects the operations of a batch read from the log.
struct LoggedOperations {
    families: Vec<(u32, Family)>,
    logged: Vec<Logged>,
}

impl LoggedOperations {
    fn push(&mut self, family_id: u32, key: &[u8], put: Option<&[u8]>) {
        let mut families = self.families.iter();
        let (_, family) = *families
            .find(|(id, _)| *id == family_id)
            .expect("no column family is ever dropped, and all are open");
        let kept = |value: &[u8]| match family {
            Family::Catalog => value.to_vec(),
            Family::Documents | Family::Indexes => Vec::new(),
        };
        self.logged.push(Logged {
            family,
            key: key.to_vec(),
            put: put.map(kept),
        });
    }
}

impl WriteBatchIteratorCf for LoggedOperations {
    fn put_cf(&mut self, family_id: u32, key: &[u8], value: &[u8]) {
        self.push(family_id, key, Some(value));
    }

    fn delete_cf(&mut self, family_id: u32, key: &[u8]) {
        self.push(family_id, key, None);
    }

    fn merge_cf(&mut self, _: u32, _: &[u8], _: &[u8]) {}
}

/// Counted by the library for each thread, whatever store it is.
pub(super) fn blocks_read() -> u64 {
    PerfContext::default().metric(PerfMetric::BlockReadCount)
}

/// The log files in a directory by number.
fn log_files(directory: &Path) -> Vec<(u64, PathBuf)> {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let paths = entries.map(|entry| entry.path());
    let logs = paths.filter(|path| path.extension().is_some_and(|end| end == "log"));
    logs.filter_map(|path| Some((path.file_stem()?.to_str()?.parse().ok()?, path)))
        .collect()
}

/// The number of the first operation in a log file, `None` when it holds none yet. A record begins with
/// checksum (4 bytes), length (2) and kind (1); its payload, a batch, with that number (u64 LE). See the
/// library's description of its log format.
fn first_sequence(path: &Path) -> Option<u64> {
    use std::io::Read;
    let mut head = [0; 15];
    std::fs::File::open(path).ok()?.read_exact(&mut head).ok()?;
    head[7..].try_into().ok().map(u64::from_le_bytes)
}

#[derive(Clone)]
pub(super) struct RocksSnapshot(Arc<SnapshotInner>);

struct SnapshotInner {
    // Dropped before `store`: it borrows the database inside.
    view: SnapshotWithThreadMode<'static, Database>,
    store: Arc<RocksStore>,
}

impl RocksSnapshot {
    pub(super) fn new(store: Arc<RocksStore>) -> Self {
        // SAFETY: `store` is kept beside the view and dropped after it, and an `Arc`'s content
        // does not move, so the borrow stays valid for as long as the view exists.
        let database: &'static Database = unsafe { &*std::ptr::from_ref(&store.database) };
        Self(Arc::new(SnapshotInner {
            view: database.snapshot(),
            store,
        }))
    }

    fn read_options(&self) -> ReadOptions {
        let mut options = ReadOptions::default();
        options.set_snapshot(&self.0.view);
        options
    }

    pub(super) fn get<T>(
        &self,
        family: Family,
        key: &[u8],
        read: impl FnOnce(&[u8]) -> T,
    ) -> Result<Option<T>, StoreError> {
        let store = &self.0.store;
        let value = store
            .database
            .get_pinned_cf_opt(&store.family(family, key).handle, key, &self.read_options())
            .map_err(failed)?;
        Ok(value.map(|value| read(&value)))
    }

    pub(super) fn multi_get(
        &self,
        family: Family,
        keys: &[&[u8]],
        read: &mut dyn FnMut(usize, Option<&[u8]>),
    ) -> Result<(), StoreError> {
        let store = &self.0.store;
        let Some(first) = keys.first() else {
            return Ok(());
        };
        let values = store.database.batched_multi_get_cf_opt(
            &store.family(family, first).handle,
            keys.iter().copied(),
            true,
            &self.read_options(),
        );
        for (position, value) in values.into_iter().enumerate() {
            let value: Option<DBPinnableSlice<'_>> = value.map_err(failed)?;
            read(position, value.as_deref());
        }
        Ok(())
    }
}

pub(super) struct RocksScan {
    // Dropped before `snapshot`: it borrows the database inside.
    iterator: DBRawIteratorWithThreadMode<'static, Database>,
    order: Order,
    state: ScanState,
    _snapshot: RocksSnapshot,
}

enum ScanState {
    Unpositioned,
    Positioned,
    OnEntry,
}

impl RocksScan {
    pub(super) fn new(
        snapshot: RocksSnapshot,
        family: Family,
        start: &[u8],
        end: &[u8],
        order: Order,
    ) -> Self {
        let mut options = snapshot.read_options();
        options.set_iterate_lower_bound(start);
        options.set_iterate_upper_bound(end);
        options.set_auto_readahead_size(true);
        // SAFETY: the snapshot, and through it the store, is kept beside the iterator and dropped after it.
        let store: &'static RocksStore = unsafe { &*Arc::as_ptr(&snapshot.0.store) };
        let iterator = store
            .database
            .raw_iterator_cf_opt(&store.family(family, start).handle, options);
        Self {
            iterator,
            order,
            state: ScanState::Unpositioned,
            _snapshot: snapshot,
        }
    }

    pub(super) fn seek(&mut self, key: &[u8]) {
        match self.order {
            Order::Forward => self.iterator.seek(key),
            Order::Backward => self.iterator.seek_for_prev(key),
        }
        self.state = ScanState::Positioned;
    }

    #[inline]
    pub(super) fn advance(&mut self) -> Result<bool, StoreError> {
        match (&self.state, self.order) {
            (ScanState::OnEntry, Order::Forward) => self.iterator.next(),
            (ScanState::OnEntry, Order::Backward) => self.iterator.prev(),
            (ScanState::Unpositioned, Order::Forward) => self.iterator.seek_to_first(),
            (ScanState::Unpositioned, Order::Backward) => self.iterator.seek_to_last(),
            (ScanState::Positioned, _) => {}
        }
        if self.iterator.valid() {
            self.state = ScanState::OnEntry;
            return Ok(true);
        }
        self.state = ScanState::Positioned;
        self.iterator.status().map_err(failed)?;
        Ok(false)
    }

    #[inline]
    pub(super) fn entry(&self) -> (&[u8], &[u8]) {
        self.iterator
            .item()
            .expect("entry is read after advance returned true")
    }

    #[inline]
    pub(super) fn key(&self) -> &[u8] {
        self.iterator
            .key()
            .expect("the key is read after advance returned true")
    }
}

#[cfg(test)]
mod tests {
    use super::super::load::Files;
    use super::*;
    use rand::{RngCore, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    fn store_in(directory: &Path) -> Arc<RocksStore> {
        let options = StoreOptions {
            cache_bytes: 64 * MEBIBYTE as u64,
            journal: true,
        };
        let store = RocksStore::open(directory, &options).expect("a new store");
        Arc::new(store)
    }

    /// As summaries are saved: loaded files take no sequence numbers, though merges, which begin with two
    /// files of level 0, run among their keys.
    #[test]
    fn the_log_has_all_that_has_a_number() {
        const TREES: u32 = 6;
        const KEYS: u32 = 20_000;
        let directory = tempfile::tempdir().expect("a directory");
        let store = store_in(directory.path());
        store.rest(Change::Begins);
        let key = |tree: u32, round: u32, number: u32| -> Vec<u8> {
            [tree, round, number].map(u32::to_be_bytes).concat()
        };
        // A file of the lowest level that spans all keys, so that others must stay above it.
        for _ in 0..2 {
            let mut batch = RocksBatch::new(store.clone());
            batch.put(Family::Catalog, &key(0, 0, 0), b"first");
            batch.put(Family::Catalog, &key(TREES, 0, 0), b"last");
            store.write(batch).expect("there is room on the disk");
            store.flush().expect("there is room on the disk");
        }
        let merged = store
            .database
            .wait_for_compact(&WaitForCompactOptions::default());
        merged.expect("there is room on the disk");
        let mut operations = store.latest_sequence();
        let mut random = ChaCha8Rng::seed_from_u64(1);
        for round in 1..5 {
            for tree in 0..TREES {
                let scratch = Scratch::create(directory.path()).expect("a directory");
                let mut files = Files::new(&store, Family::Catalog, scratch);
                for number in 0..KEYS {
                    let mut value = [0; 100];
                    random.fill_bytes(&mut value);
                    let added = files.add(&key(tree, round, number), &value);
                    added.expect("keys ascend");
                }
                let files = files.finish().expect("there is room on the disk");
                store.take_over(files).expect("there is room on the disk");
                let mut batch = RocksBatch::new(store.clone());
                batch.delete_range(Family::Catalog, &key(tree, 0, 0), &key(tree, round, 0));
                batch.put(Family::Catalog, &key(tree, round, KEYS), b"head");
                store.write(batch).expect("there is room on the disk");
                operations += 2;
                assert_eq!(store.latest_sequence(), operations, "round {round}");
            }
        }
        let live = store.database.iterator_cf(
            &store.family(Family::Catalog, b"").handle,
            rocksdb::IteratorMode::Start,
        );
        assert_eq!(live.count() as u32, TREES * (KEYS + 1) + 1);
    }

    #[test]
    fn new_files_are_read_into_the_cache_while_writes_rest() {
        let directory = tempfile::tempdir().expect("a directory");
        let store = store_in(directory.path());
        let mut random = ChaCha8Rng::seed_from_u64(1);
        store.fill_cache(false);
        let mut add = |first: u32, documents: u32| {
            let mut batch = RocksBatch::new(store.clone());
            for number in first..first + documents {
                let mut value = [0; 4 * 1024];
                random.fill_bytes(&mut value);
                let key = [1, number].map(u32::to_be_bytes).concat();
                batch.put(Family::Documents, &key, &value);
            }
            store.write(batch).expect("there is room on the disk");
            store.flush().expect("there is room on the disk");
        };
        // The thread that reads holds the store too; were it the only one, it would end.
        let _other = store.clone();
        let mut warming = Warming::default();
        let mut grows_by = |what: &str| {
            let before = store.cache.get_usage();
            store.warm(&mut warming);
            let grown = store.cache.get_usage() - before;
            println!("{what}: {grown} bytes more than {before}");
            grown / MEBIBYTE
        };
        add(0, 2_048);
        assert_eq!(grows_by("under load"), 0);
        store.rests.store(true, Ordering::Relaxed);
        assert_eq!(grows_by("at rest"), 8);
        assert_eq!(grows_by("nothing new"), 0);
        add(2_048, 1_024);
        assert_eq!(grows_by("one file more"), 4);
        for file in 2..8 {
            add(file * 2_048, 2_048);
            grows_by("more than there is room for");
        }
        let percent = store.percent_filled();
        assert!((65..=80).contains(&percent), "{percent} percent");
    }

    #[test]
    fn what_is_flushed_is_in_the_cache_as_long_as_that_is_wanted() {
        let directory = tempfile::tempdir().expect("a directory");
        let store = store_in(directory.path());
        let mut random = ChaCha8Rng::seed_from_u64(1);
        for (number, fills) in (0_u32..).zip([true, false, true]) {
            store.fill_cache(fills);
            let before = store.cache.get_usage();
            let mut value = vec![0; 4 * MEBIBYTE];
            random.fill_bytes(&mut value);
            let mut batch = RocksBatch::new(store.clone());
            let key = [1, number].map(u32::to_be_bytes).concat();
            batch.put(Family::Documents, &key, &value);
            store.write(batch).expect("there is room on the disk");
            store.flush().expect("there is room on the disk");
            let grown = store.cache.get_usage().saturating_sub(before) / MEBIBYTE;
            assert_eq!(grown, if fills { 4 } else { 0 }, "document {number}");
        }
    }
}
