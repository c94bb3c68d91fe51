//! Runs plans: pull iterators over one snapshot.
//!
//! A node is asked to [`Rows::advance`] and then lends its current row; nothing is copied on the way
//! from the storage to the reply. Nodes that must hold rows (sorts, de-duplication) count their bytes
//! against a limit. Deliberately absent: choosing the plan, writing.

mod area_points;
mod build;
mod cached;
mod collection;
mod counted;
mod counted_area;
mod counted_groups;
mod covered;
mod distinct;
mod entry_filter;
mod fetch;
mod filter;
mod geo;
mod index;
mod key_runs;
mod limit;
mod near;
mod origin;
pub(crate) mod parallel;
mod prefilter;
mod project;
mod ranked;
mod row_buffers;
mod sample;
mod scored;
mod seen;
mod sort;
mod tail;
mod union;

pub use build::{
    count, entries_between, entries_by_rank, entries_up_to, nothing, rows, rows_of_tail,
};
pub use collection::{CollectionRows, IdRows};
pub use counted::{Total, as_planned};
pub use counted_groups::{CountedGroups, GroupEntries};
pub use covered::CoveredRows;
pub use distinct::distinct_values;
pub use entry_filter::FilterEntries;
pub use fetch::FetchRows;
pub use filter::FilterRows;
pub use geo::GeoEntries;
pub use index::IndexEntries;
pub use limit::LimitRows;
pub use near::NearEntries;
pub use origin::RowMetadata;
pub use ranked::RankedRows;
pub use sample::{Sample, sample};
pub use sort::SortRows;
pub use tail::TailRows;
pub use union::{MergedRows, UnionRows};

use crate::error::{Code, Error, Result};
use crate::index::EntryLayout;
use crate::sorter::Limits;
use bson::raw::RawDocument;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// A search in a tree costs as much as about so many steps to the next entry.
const STEPS_BEFORE_SEEK: u64 = 40;

/// What a node gives, borrowed: a document and the encoded `_id` it is stored under.
#[derive(Debug, Clone, Copy)]
pub struct Row<'a> {
    /// The encoded `_id`.
    pub id: &'a [u8],
    /// The document, or what a projection made of it.
    pub document: &'a RawDocument,
}

/// What waits for its client holds so many bytes without a reservation.
pub const SUSPENDED_BYTES_FREE: usize = 16 * 1024;

/// A source of documents.
pub trait Rows: Send {
    /// Moves to the next row; false at the end.
    ///
    /// # Errors
    /// Storage failures, evaluation errors, memory and time limits.
    fn advance(&mut self) -> Result<bool>;

    /// The current row; only after [`Self::advance`] returned true.
    fn row(&self) -> Row<'_>;

    /// The cursor waits for its client: gives up memory that can be had again, and scans, which keep memtables and blocks
    /// from being freed. There is no current row after it; where it shall come `again`, true says that it is the next.
    ///
    /// # Errors
    /// `ExceededMemoryLimit` when what must be held is more than waiting cursors may hold.
    fn suspend(&mut self, _again: bool) -> Result<bool> {
        Ok(false)
    }

    /// Gives away the second half of the rows, before the first of them was asked for, when there are so
    /// many that two cores should share them and it is known where that half begins.
    fn split_off(&mut self) -> Option<Box<dyn Rows>> {
        None
    }
}

/// One index entry without its tree prefix.
#[derive(Debug, Clone, Copy)]
pub struct Entry<'a> {
    /// Encoded fields and, behind them, the encoded `_id`.
    pub key: &'a [u8],
    /// The entry's value.
    pub value: &'a [u8],
    /// How to read both; `None` when the key is the `_id` alone.
    pub layout: Option<&'a EntryLayout>,
}

impl<'a> Entry<'a> {
    /// Where the encoded `_id` begins in the key.
    ///
    /// # Errors
    /// `InternalError` when the key cannot be read.
    pub fn id_at(&self) -> Result<usize> {
        let fields = |layout: &EntryLayout| layout.fields_length(self.key);
        self.layout
            .map_or(Some(0), fields)
            .ok_or_else(corrupt_entry)
    }

    /// The encoded `_id`.
    ///
    /// # Errors
    /// As [`Self::id_at`].
    pub fn id(&self) -> Result<&'a [u8]> {
        Ok(&self.key[self.id_at()?..])
    }
}

/// A source of index entries, each document at most once.
pub trait Entries: Send {
    /// Moves to the next entry; false at the end.
    ///
    /// # Errors
    /// Storage failures, time limits.
    fn advance(&mut self) -> Result<bool>;

    /// The current entry; only after [`Self::advance`] returned true.
    fn entry(&self) -> Entry<'_>;

    /// Whether the current entry alone proves that its document matches the part of the filter that
    /// this source answers. Otherwise the document must be tested.
    fn is_certain(&self) -> bool {
        true
    }

    /// As [`Rows::suspend`]; the next entry is the one behind the current one.
    fn suspend(&mut self);

    /// The number of documents from here to the end, when no document needs to be tested.
    ///
    /// # Errors
    /// As [`Self::advance`].
    fn count(&mut self) -> Result<u64> {
        let mut entries = 0;
        while self.advance()? {
            entries += 1;
        }
        Ok(entries)
    }
}

/// What all statements examined, for `serverStatus`. A statement adds to it when its last node is gone: an atomic
/// addition to what all cores share would cost as much as a step of a scan.
#[derive(Debug, Default)]
pub struct Examined {
    keys: AtomicU64,
    documents: AtomicU64,
}

impl Examined {
    /// Adds what one statement examined.
    pub fn add(&self, keys: u64, documents: u64) {
        crate::operation::note(|profile| {
            profile.keys += keys;
            profile.documents += documents;
        });
        self.keys.fetch_add(keys, Ordering::Relaxed);
        self.documents.fetch_add(documents, Ordering::Relaxed);
    }

    /// Index entries examined.
    pub fn keys(&self) -> u64 {
        self.keys.load(Ordering::Relaxed)
    }

    /// Documents read.
    pub fn documents(&self) -> u64 {
        self.documents.load(Ordering::Relaxed)
    }
}

/// What a statement examined; shared by the nodes of one plan and shown by `explain`.
#[derive(Debug, Default)]
pub struct Counters {
    keys: AtomicU64,
    documents: AtomicU64,
    sorted: AtomicU64,
    /// Added to at the end of the statement.
    all: Option<Arc<Examined>>,
}

impl Counters {
    /// Those of a statement that counts among all others.
    pub fn of_statement(all: Arc<Examined>) -> Self {
        Self {
            keys: AtomicU64::default(),
            documents: AtomicU64::default(),
            sorted: AtomicU64::default(),
            all: Some(all),
        }
    }

    /// Index entries examined.
    pub fn keys_examined(&self) -> u64 {
        self.keys.load(Ordering::Relaxed)
    }

    /// Documents read.
    pub fn documents_examined(&self) -> u64 {
        self.documents.load(Ordering::Relaxed)
    }

    /// Rows that were sorted.
    pub fn rows_sorted(&self) -> u64 {
        self.sorted.load(Ordering::Relaxed)
    }

    fn add_sorted(&self, rows: u64) {
        self.sorted.fetch_add(rows, Ordering::Relaxed);
    }

    fn add_keys(&self, keys: u64) {
        self.keys.fetch_add(keys, Ordering::Relaxed);
    }

    fn add_documents(&self, documents: u64) {
        self.documents.fetch_add(documents, Ordering::Relaxed);
    }
}

impl Drop for Counters {
    fn drop(&mut self) {
        if let Some(all) = &self.all {
            all.add(self.keys_examined(), self.documents_examined());
        }
    }
}

/// What every node of a plan shares.
#[derive(Clone, Default)]
pub struct Context {
    /// What was examined.
    pub counters: Arc<Counters>,
    /// What a sort may hold in memory, and where it spills to.
    pub limits: Limits,
}

/// Asks once in a while whether the statement may go on, and whether it has to wait for others: a clock read costs as
/// much as a step of a scan. Counts examined
/// entries in between, since an atomic addition costs a tenth of one.
struct YieldCheck {
    context: Context,
    steps: u32,
    /// Steps from one check to the next: more and more, unless they take long.
    steps_between: u32,
    checked: Option<Instant>,
    keys: u64,
}

const STEPS_BETWEEN_CHECKS_MAX: u32 = 256;
/// Steps before the first check.
const STEPS_AT_FIRST: u32 = 16;
/// When so much time has passed since the last check, the next comes sooner.
const BETWEEN_CHECKS_MAX: Duration = Duration::from_millis(2);

impl YieldCheck {
    fn new(context: Context) -> Self {
        Self {
            context,
            steps: 0,
            steps_between: STEPS_AT_FIRST,
            checked: None,
            keys: 0,
        }
    }

    /// As [`Self::step`], for an index entry.
    #[inline]
    fn step_key(&mut self) -> Result<()> {
        self.keys += 1;
        self.step()
    }

    /// As [`Self::step`], for so many index entries in memory.
    fn step_keys(&mut self, entries: usize) -> Result<()> {
        self.keys += entries as u64;
        self.step()
    }

    #[inline]
    fn step(&mut self) -> Result<()> {
        self.steps += 1;
        if self.steps < self.steps_between {
            return Ok(());
        }
        self.check()
    }

    #[cold]
    fn check(&mut self) -> Result<()> {
        self.steps = 0;
        let took = self.checked.map(|checked| checked.elapsed());
        let wanted = match took {
            Some(took) if took > BETWEEN_CHECKS_MAX => self.steps_between / 4,
            _ => self.steps_between * 2,
        };
        self.steps_between = wanted.clamp(1, STEPS_BETWEEN_CHECKS_MAX);
        let may_go_on = crate::operation::yield_if_due();
        self.checked = Some(Instant::now());
        may_go_on
    }
}

impl Drop for YieldCheck {
    fn drop(&mut self) {
        self.context.counters.add_keys(self.keys);
    }
}

/// An index entry does not have the shape its index gives it.
fn corrupt_entry() -> Error {
    Error::new(
        Code::InternalError,
        "an index entry cannot be read; run `meridian check` on the data directory",
    )
}
