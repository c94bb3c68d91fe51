//! Consistent views and the scans over them.
//!
//! The library's snapshots and iterators borrow the database. Cursors outlive the request that made them, so
//! here each holds the database by reference count and the borrow is widened to `'static`; the fields' order
//! makes the borrower drop first.
#![allow(unsafe_code)]

use super::families::Database;
use super::row_cache::CacheLookup;
use super::{RocksStore, failed};
use crate::storage::engine::{ReadValue, ReadValues, View};
use crate::storage::{Family, Order, Page, PageLimit, Scan, StoreError};
use rocksdb::{DBPinnableSlice, DBRawIteratorWithThreadMode, ReadOptions, SnapshotWithThreadMode};
use smallvec::SmallVec;
use std::sync::Arc;

/// More keys are not looked for among the rows: whoever asks for so many, a large sample for one, is not asking
/// again for the same. A page on a map or the trips of a taxi may be asked for again.
const ROWS_AT_ONCE: usize = 4_096;

pub(super) struct RocksView {
    // Dropped before `store`: it borrows the database inside.
    view: SnapshotWithThreadMode<'static, Database>,
    store: Arc<RocksStore>,
}

impl RocksView {
    pub(super) fn new(store: Arc<RocksStore>) -> Self {
        // SAFETY: `store` is kept beside the view and dropped after it, and an `Arc`'s content
        // does not move, so the borrow stays valid for as long as the view exists.
        let database: &'static Database = unsafe { &*std::ptr::from_ref(&store.database) };
        Self {
            view: database.snapshot(),
            store,
        }
    }

    fn read_options(&self) -> ReadOptions {
        let mut options = ReadOptions::default();
        options.set_snapshot(&self.view);
        options
    }

    fn get_stored(
        &self,
        family: Family,
        key: &[u8],
    ) -> Result<Option<DBPinnableSlice<'_>>, StoreError> {
        let store = &self.store;
        let handle = &store.family(family, key).handle;
        let value = store
            .database
            .get_pinned_cf_opt(handle, key, &self.read_options());
        value.map_err(failed)
    }

    /// The library's own walk of a range, not yet anywhere.
    fn entries(
        &self,
        family: Family,
        start: &[u8],
        end: &[u8],
    ) -> DBRawIteratorWithThreadMode<'_, Database> {
        let mut options = self.read_options();
        options.set_iterate_lower_bound(start);
        options.set_iterate_upper_bound(end);
        options.set_auto_readahead_size(true);
        let handle = &self.store.family(family, start).handle;
        self.store.database.raw_iterator_cf_opt(handle, options)
    }

    fn multi_get_stored(
        &self,
        family: Family,
        keys: &[&[u8]],
    ) -> impl Iterator<Item = Result<Option<DBPinnableSlice<'_>>, StoreError>> {
        let store = &self.store;
        let values = keys.first().map(|first| {
            store.database.batched_multi_get_cf_opt(
                &store.family(family, first).handle,
                keys.iter().copied(),
                true,
                &self.read_options(),
            )
        });
        let values = values.into_iter().flatten();
        values.map(|value| value.map_err(failed))
    }
}

impl View for RocksView {
    fn sequence(&self) -> u64 {
        self.view.sequence_number()
    }

    fn get(&self, family: Family, key: &[u8], read: &mut ReadValue<'_>) -> Result<(), StoreError> {
        let (rows, sequence) = (&self.store.rows, self.view.sequence_number());
        let mut is_wanted = false;
        if family == Family::Documents {
            is_wanted = match rows.find(key, sequence) {
                CacheLookup::Row(row) => {
                    read(row.value());
                    return Ok(());
                }
                CacheLookup::Missing { is_wanted } => is_wanted,
            };
        }
        if let Some(value) = self.get_stored(family, key)? {
            if is_wanted {
                rows.keep(key, &value, sequence, sequence);
            }
            read(&value);
        }
        Ok(())
    }

    fn multi_get(
        &self,
        family: Family,
        keys: &[&[u8]],
        read: &mut ReadValues<'_>,
    ) -> Result<(), StoreError> {
        if family != Family::Documents || keys.len() > ROWS_AT_ONCE {
            for (position, value) in self.multi_get_stored(family, keys).enumerate() {
                read(position, value?.as_deref());
            }
            return Ok(());
        }
        let (rows, sequence) = (&self.store.rows, self.view.sequence_number());
        let found = keys.iter().map(|key| rows.find(key, sequence));
        let found: SmallVec<[CacheLookup; 16]> = found.collect();
        let missing = keys.iter().zip(&found);
        let missing = missing.filter(|(_, found)| matches!(found, CacheLookup::Missing { .. }));
        let missing: SmallVec<[&[u8]; 16]> = missing.map(|(key, _)| *key).collect();
        let mut stored = self.multi_get_stored(family, &missing);
        for (position, (key, found)) in keys.iter().zip(&found).enumerate() {
            let is_wanted = match found {
                CacheLookup::Row(row) => {
                    read(position, Some(row.value()));
                    continue;
                }
                CacheLookup::Missing { is_wanted } => *is_wanted,
            };
            let value = stored.next().expect("a value for each key")?;
            if let (Some(value), true) = (&value, is_wanted) {
                rows.keep(key, value, sequence, sequence);
            }
            read(position, value.as_deref());
        }
        Ok(())
    }

    fn scan_page(
        &self,
        family: Family,
        (start, end): (&[u8], &[u8]),
        order: Order,
        limit: PageLimit,
        page: &mut Page,
    ) -> Result<(), StoreError> {
        if start >= end {
            return Ok(());
        }
        let mut entries = self.entries(family, start, end);
        match order {
            Order::Forward => entries.seek_to_first(),
            Order::Backward => entries.seek_to_last(),
        }
        while let Some((key, value)) = entries.item() {
            page.push(key, value);
            if page.is_full(limit) {
                break;
            }
            match order {
                Order::Forward => entries.next(),
                Order::Backward => entries.prev(),
            }
        }
        entries.status().map_err(failed)
    }

    fn scan(self: Arc<Self>, family: Family, start: &[u8], end: &[u8], order: Order) -> Scan {
        Scan::lent(RocksScan::new(self, family, start, end, order))
    }
}

pub(in crate::storage) struct RocksScan {
    // Dropped before `_view`: it borrows the database inside.
    iterator: DBRawIteratorWithThreadMode<'static, Database>,
    order: Order,
    state: ScanState,
    _view: Arc<RocksView>,
}

enum ScanState {
    Unpositioned,
    Positioned,
    OnEntry,
}

impl RocksScan {
    fn new(view: Arc<RocksView>, family: Family, start: &[u8], end: &[u8], order: Order) -> Self {
        // SAFETY: the view, and through it the store, is kept beside the iterator and dropped after it, and an
        // `Arc`'s content does not move.
        let lender: &'static RocksView = unsafe { &*Arc::as_ptr(&view) };
        let iterator = lender.entries(family, start, end);
        Self {
            iterator,
            order,
            state: ScanState::Unpositioned,
            _view: view,
        }
    }

    pub(in crate::storage) fn seek(&mut self, key: &[u8]) {
        match self.order {
            Order::Forward => self.iterator.seek(key),
            Order::Backward => self.iterator.seek_for_prev(key),
        }
        self.state = ScanState::Positioned;
    }

    #[inline]
    pub(in crate::storage) fn advance(&mut self) -> Result<bool, StoreError> {
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
    pub(in crate::storage) fn entry(&self) -> (&[u8], &[u8]) {
        self.iterator
            .item()
            .expect("entry is read after advance returned true")
    }

    #[inline]
    pub(in crate::storage) fn key(&self) -> &[u8] {
        self.iterator
            .key()
            .expect("the key is read after advance returned true")
    }
}
