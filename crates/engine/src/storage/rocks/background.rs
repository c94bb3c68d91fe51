//! What the store does by itself: the log reaches the disk, level 0 is merged at rest, the cache is filled.

use super::families::ColumnFamily;
use super::idle::{BUSY_FILES, IDLE_FILES, IdleChange, IdleDetector};
use super::warm::{FILLED_PERCENT, Warming, fills};
use super::{LEVEL_ZERO_FILES, RocksStore};
use crate::storage::StoreError;
use crate::storage::engine::StorageEngine;
use crate::storage::local::LocalEngine;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// How often buffered writes reach the disk: at most this much is at risk in a power loss.
const SYNC_INTERVAL: Duration = Duration::from_millis(100);
const INTERVALS_A_SECOND: u64 = 10;
/// Without a log all families are written to files so often, if they do not fill up before: as often as
/// mongod makes checkpoints. Each time costs files that must be merged.
const INTERVALS_WITHOUT_LOG: u64 = 60 * INTERVALS_A_SECOND;
/// How often it is seen to that some of the disk is kept for the day when it is full.
const INTERVALS_OF_RESERVE: u64 = 30 * INTERVALS_A_SECOND;
/// Of the thread that fills the cache (the greatest `nice` value there is).
const LEAST_PRIORITY: i32 = 19;

impl RocksStore {
    /// Makes buffered writes durable every 100 ms (without a log: every minute), notes how full level 0 is, and
    /// merges it at rest, until the store is closed or dropped.
    pub(in crate::storage) fn sync_in_background(self: &Arc<Self>) {
        let (store, closed) = (Arc::downgrade(self), self.closed.clone());
        let work = move || {
            let mut idle = IdleDetector::default();
            for interval in 1_u64.. {
                std::thread::sleep(SYNC_INTERVAL);
                let Some(store) = store.upgrade() else { return };
                if closed.load(Ordering::Acquire) {
                    return;
                }
                store.disk.look(&store.directory);
                store.throttle.note_files(store.most_level_zero_files());
                if interval.is_multiple_of(INTERVALS_A_SECOND)
                    && let Some(change) = idle.second(store.written_bytes())
                {
                    store.set_idle(change);
                }
                if interval % INTERVALS_OF_RESERVE == 1 && store.reserve.take().is_err() {
                    tracing::debug!("the disk has no room for the reserve");
                }
                let is_due = store.journal || interval.is_multiple_of(INTERVALS_WITHOUT_LOG);
                if !is_due || !store.dirty.swap(false, Ordering::AcqRel) {
                    continue;
                }
                match store.sync() {
                    Ok(()) => {}
                    // The log could not be written before, which was said.
                    Err(StoreError::OutOfSpace(_)) => store.dirty.store(true, Ordering::Release),
                    Err(error) => {
                        tracing::error!(%error, "the journal could not be made durable; writes are refused from now on");
                        return;
                    }
                }
            }
        };
        std::thread::Builder::new()
            .name("journal-sync".into())
            .spawn(work)
            .expect("a thread can be started when the store is opened");
    }

    /// Of any family.
    pub(super) fn most_level_zero_files(&self) -> u64 {
        let files = |family: &ColumnFamily| self.number_of(family, LEVEL_ZERO_FILES);
        self.families.all().map(files).max().unwrap_or(0)
    }

    /// When the store becomes idle, what is in memory is written to files, and level 0 is compacted soon, so that reads look
    /// into few files. Under load a compaction waits for many, since each rewrites what it meets of the level below.
    pub(super) fn set_idle(&self, change: IdleChange) {
        let begins = change == IdleChange::Begins;
        self.is_idle.store(begins, Ordering::Relaxed);
        self.compact_from(if begins { IDLE_FILES } else { BUSY_FILES });
        // Its success is not waited for; if it fails, writes do, and tell.
        if begins && let Err(error) = self.flush_memtables(false) {
            tracing::warn!(%error, "what is in memory could not be written to files");
        }
    }

    /// From now on so many files of level 0 start a compaction.
    fn compact_from(&self, files: i32) {
        let settings = [("level0_file_num_compaction_trigger", &*files.to_string())];
        for family in self.families.all() {
            if let Err(error) = self.database.set_options_cf(&family.handle, &settings) {
                tracing::warn!(%error, files, "the store's settings could not be changed");
            }
        }
    }

    /// Reads what is new in the files into the cache's free room, whenever writes rest, until the store is
    /// closed or dropped.
    pub(in crate::storage) fn warm_in_background(self: &Arc<Self>) {
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
                if warming.second(store.is_idle(), grows) {
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

    pub(super) fn warm(self: &Arc<Self>, warming: &mut Warming) {
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
        self.percent_filled() < FILLED_PERCENT && self.is_idle() && !is_ending
    }

    /// How full the cache is.
    pub(super) fn percent_filled(&self) -> usize {
        let room = self.cache_bytes - self.room.reserved();
        self.cache.get_usage() / (room / 100)
    }

    pub(super) fn fill_cache(&self, fills: bool) {
        if let Err(error) = self.families.fill_cache(&self.database, fills) {
            tracing::warn!(%error, fills, "the store's settings could not be changed");
        }
    }
}
