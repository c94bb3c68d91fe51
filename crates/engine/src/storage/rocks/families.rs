//! The column families: one for the catalogue, and one for documents and for index entries in every
//! compression that is in use.
//!
//! Those of the default compression are always there; another is made with the first tree that wants it
//! ([`Families::add`]), before the catalogue says so: a kill in between leaves an empty one, which the next
//! start opens with the others. None is ever dropped. Memtables of all of them share one limit, which is
//! charged to the block cache.
#![allow(unsafe_code)]

use super::idle::BUSY_FILES;
use crate::storage::Family;
use crate::storage::compression::{Algorithm, CLASSES, Compression, class_of};
use parking_lot::{Mutex, MutexGuard};
use rocksdb::{
    AsColumnFamilyRef, BlockBasedOptions, BlockBasedTablePinningTier, BoundColumnFamily, Cache,
    ColumnFamilyDescriptor, DBCompressionType, DBWithThreadMode, DataBlockIndexType, Env,
    MultiThreaded, Options,
};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

/// The library's database, which families can be added to while it is used.
pub(super) type Database = DBWithThreadMode<MultiThreaded>;

const MEBIBYTE: usize = 1 << 20;
/// Values of so many bytes and more lie in blob files; the library does not tell which tree's values a blob file holds.
pub const BLOB_BYTES_MIN: u64 = MEBIBYTE as u64;
/// The oldest blob files are rewritten when this share of them is garbage.
const BLOB_GARBAGE_MAX: f64 = 0.5;
/// The library's file that names the present list of families; without it there is no database yet.
pub(super) const CURRENT: &str = "CURRENT";
/// A block's keys lie together at its beginning, its values behind them: a search among long values then
/// reads a few cache lines, where every key it looked at was a miss. (Set by name: the binding has no
/// method for it.)
const KEYS_APART: &str = "block_based_table_factory={separate_key_value_in_data_block=true}";
/// Flushes and merges put what they write into the cache, or not. ([`super::warm`] says when.)
const FILLS: [&str; 2] = [
    "{prepopulate_block_cache=kDisable}",
    "{prepopulate_block_cache=kFlushAndCompaction}",
];
/// Blocks of a file that is gone leave the cache with it, as long as one in twenty that is looked for is
/// there: they would take the place of others until they are old. (The library's documentation names about
/// so much as its future default; also set by name.)
const GONE_FILES_LEAVE: &str = "uncache_aggressiveness=300";

/// The open column families by family and class. Must be dropped before their database.
pub(super) struct Families {
    opened: [[OnceLock<ColumnFamily>; CLASSES]; 3],
    adding: Mutex<()>,
    /// Whether flushes and merges fill the cache.
    fills: AtomicBool,
    environment: Env,
    cache: Cache,
    cache_bytes: usize,
}

/// One open column family.
pub(super) struct ColumnFamily {
    /// What the library calls it by; valid for as long as its database.
    pub handle: Arc<BoundColumnFamily<'static>>,
    /// Its settings, for files that are to become part of it.
    pub options: Options,
    /// Its number in the log.
    pub id: u32,
    /// What lies in it.
    pub family: Family,
}

impl Families {
    pub(super) fn new(environment: Env, cache: &Cache, cache_bytes: usize) -> Self {
        Self {
            opened: Default::default(),
            adding: Mutex::default(),
            fills: AtomicBool::new(true),
            environment,
            cache: cache.clone(),
            cache_bytes,
        }
    }

    /// Opens the database in `directory` with all families that it has, and makes the usual ones.
    pub(super) fn open(
        &self,
        settings: &Options,
        directory: &Path,
    ) -> Result<Database, rocksdb::Error> {
        let usual = [Family::Catalog, Family::Documents, Family::Indexes];
        let mut wanted: Vec<_> = usual.map(|family| (family, Compression::Default)).into();
        if directory.join(CURRENT).exists() {
            // One whose name is not known is left out: the library then refuses to open, and names it.
            let names = Database::list_cf(settings, directory)?;
            wanted.extend(names.iter().filter_map(|name| parse_name(name)));
        }
        wanted.sort_by_key(|(family, compression)| (*family as u8, compression.class()));
        wanted.dedup();
        let descriptors = wanted.iter().map(|&(family, compression)| {
            ColumnFamilyDescriptor::new(
                name(family, compression),
                self.settings(family, compression),
            )
        });
        let database = Database::open_cf_descriptors(settings, directory, descriptors)?;
        for (family, compression) in wanted {
            self.adopt(&database, family, compression);
        }
        Ok(database)
    }

    /// Makes the column family, unless it is there.
    pub(super) fn add(
        &self,
        database: &Database,
        family: Family,
        compression: Compression,
    ) -> Result<(), rocksdb::Error> {
        let is_open = || self.cell(family, compression).get().is_some();
        // First without the lock, which a flush may hold for long.
        if is_open() {
            return Ok(());
        }
        // Held while the family is made: nobody needs it but those who wait for one.
        let _adding = self.adding.lock();
        if is_open() {
            return Ok(());
        }
        let settings = self.settings(family, compression);
        database.create_cf(name(family, compression), &settings)?;
        self.adopt(database, family, compression);
        Ok(())
    }

    /// The column family of the tree that a key begins with.
    #[inline]
    pub(super) fn of_key(&self, family: Family, key: &[u8]) -> &ColumnFamily {
        let class = match family {
            Family::Catalog => 0,
            Family::Documents | Family::Indexes => class_of(key),
        };
        self.opened[family as usize][class]
            .get()
            .expect("a column family is added before the first tree that lies in it")
    }

    /// The open column family of that name.
    pub(super) fn by_name(&self, name: &str) -> Option<&ColumnFamily> {
        let (family, compression) = parse_name(name)?;
        self.cell(family, compression).get()
    }

    /// What families the numbers in the log stand for.
    pub(super) fn by_id(&self) -> Vec<(u32, Family)> {
        self.all().map(|one| (one.id, one.family)).collect()
    }

    /// All that are open.
    pub(super) fn all(&self) -> impl Iterator<Item = &ColumnFamily> {
        self.opened.iter().flatten().filter_map(OnceLock::get)
    }

    /// From now on flushes and merges put what they write into the cache, or not.
    pub(super) fn fill_cache(
        &self,
        database: &Database,
        fills: bool,
    ) -> Result<(), rocksdb::Error> {
        // A family that is made meanwhile follows.
        let _held = self.hold();
        self.fills.store(fills, Ordering::Relaxed);
        let settings = [("block_based_table_factory", FILLS[usize::from(fills)])];
        let mut families = self.all();
        families.try_for_each(|one| database.set_options_cf(&one.handle, &settings))
    }

    /// Keeps the families as they are until the guard is dropped.
    pub(super) fn hold(&self) -> MutexGuard<'_, ()> {
        self.adding.lock()
    }

    fn cell(&self, family: Family, compression: Compression) -> &OnceLock<ColumnFamily> {
        &self.opened[family as usize][usize::from(compression.class())]
    }

    fn adopt(&self, database: &Database, family: Family, compression: Compression) {
        let handle = database
            .cf_handle(&name(family, compression))
            .expect("the column family was just opened");
        // SAFETY: the handle is alive.
        let id = unsafe { librocksdb_sys::rocksdb_column_family_handle_get_id(handle.inner()) };
        // SAFETY: only the lifetime changes. The store drops its families before its database.
        let handle = unsafe {
            std::mem::transmute::<Arc<BoundColumnFamily<'_>>, Arc<BoundColumnFamily<'static>>>(
                handle,
            )
        };
        let options = self.settings(family, compression);
        let adopted = ColumnFamily {
            handle,
            options,
            id,
            family,
        };
        let cell = self.cell(family, compression);
        assert!(cell.set(adopted).is_ok(), "a column family is opened once");
    }

    fn settings(&self, family: Family, compression: Compression) -> Options {
        let mut table = BlockBasedOptions::default();
        table.set_block_cache(&self.cache);
        table.set_cache_index_and_filter_blocks(true);
        table.set_cache_index_and_filter_blocks_with_high_priority(true);
        // They are charged to the cache, and found without asking it.
        table.set_unpartitioned_pinning_tier(BlockBasedTablePinningTier::All);
        table.set_format_version(6);
        table.set_optimize_filters_for_memory(true);
        let mut settings = Options::default();
        // For the files that are to become part of it: those of the database come from its own.
        settings.set_env(&self.environment);
        self.use_blob_files(&mut settings, compression);
        settings.set_level_compaction_dynamic_level_bytes(true);
        compress(&mut settings, compression);
        settings.set_max_write_buffer_number(4);
        settings.set_level_zero_file_num_compaction_trigger(BUSY_FILES);
        // Far beyond what `throttle` lets come: the library slows writers down for seconds.
        settings.set_level_zero_slowdown_writes_trigger(5 * BUSY_FILES);
        settings.set_level_zero_stop_writes_trigger(8 * BUSY_FILES);
        let buffer = (self.cache_bytes / 8).clamp(16 * MEBIBYTE, 128 * MEBIBYTE);
        match family {
            Family::Catalog => settings.set_write_buffer_size(MEBIBYTE),
            Family::Documents => {
                settings.set_write_buffer_size(buffer);
                // Point reads search the file's block index: larger blocks halve it.
                table.set_block_size(32 << 10);
                table.set_bloom_filter(10.0, false);
                // Most reads of an identifier that is not in memory end here.
                settings.set_memtable_whole_key_filtering(true);
                settings.set_memtable_prefix_bloom_ratio(0.02);
                table.set_data_block_index_type(DataBlockIndexType::BinaryAndHash);
                // The hash leads to a restart point, from where keys are stepped over. (A block's hash has
                // room for 253 points, those of 1,000 documents.)
                table.set_block_restart_interval(4);
            }
            Family::Indexes => {
                settings.set_write_buffer_size(buffer);
                table.set_block_size(16 << 10);
                // As much as a merge of level 0 brings: the level is rewritten by each.
                settings.set_max_bytes_for_level_base(BUSY_FILES as u64 * buffer as u64);
            }
        }
        settings.set_block_based_table_factory(&table);
        let fills = FILLS[usize::from(self.fills.load(Ordering::Relaxed))];
        let fills = format!("block_based_table_factory={fills}");
        for named in [KEYS_APART, GONE_FILES_LEAVE, &fills] {
            settings = settings
                .get_options_from_string(named)
                .expect("the library knows the option");
        }
        settings
    }

    /// Large values go to blob files when memtables are flushed. In a table, a compaction would hold one of each file
    /// that it merges in memory, compressed and not, and write all of them again.
    fn use_blob_files(&self, settings: &mut Options, compression: Compression) {
        settings.set_enable_blob_files(true);
        settings.set_min_blob_size(BLOB_BYTES_MIN);
        settings.set_blob_compression_type(compression_type(compression.settled()));
        settings.set_blob_cache(&self.cache);
        settings.set_enable_blob_gc(true);
        settings.set_blob_gc_force_threshold(BLOB_GARBAGE_MAX);
    }
}

fn compression_type(algorithm: Algorithm) -> DBCompressionType {
    match algorithm {
        Algorithm::None => DBCompressionType::None,
        Algorithm::Lz4 => DBCompressionType::Lz4,
        Algorithm::Zstd(_) => DBCompressionType::Zstd,
    }
}

fn compress(settings: &mut Options, compression: Compression) {
    /// The library's own default, as are strategy and dictionary.
    const WINDOW_BITS: i32 = -14;
    let (passing, settled) = (compression.passing(), compression.settled());
    settings.set_compression_type(compression_type(passing));
    if let Some(level) = passing.level() {
        settings.set_compression_options(WINDOW_BITS, level.into(), 0, 0);
    }
    settings.set_bottommost_compression_type(compression_type(settled));
    if let Some(level) = settled.level() {
        settings.set_bottommost_compression_options(WINDOW_BITS, level.into(), 0, 0, true);
    }
}

/// `documents`, `documents.none`, `indexes.lz4`, `indexes.zstd-9`, …
fn name(family: Family, compression: Compression) -> String {
    let base = match family {
        Family::Catalog => "default",
        Family::Documents => "documents",
        Family::Indexes => "indexes",
    };
    match compression {
        Compression::Default => base.to_owned(),
        Compression::Chosen(algorithm) => match algorithm.level() {
            None => format!("{base}.{}", algorithm.name()),
            Some(level) => format!("{base}.{}-{level}", algorithm.name()),
        },
    }
}

fn parse_name(wanted: &str) -> Option<(Family, Compression)> {
    let compressions = (0..=u8::MAX).filter_map(Compression::of_class);
    compressions
        .flat_map(|one| {
            [Family::Catalog, Family::Documents, Family::Indexes].map(|family| (family, one))
        })
        .find(|&(family, one)| name(family, one) == wanted)
}
