//! Ordered walks over one range of one view.
//!
//! A local engine lends each entry from its own memory ([`rocks::RocksScan`]); every other engine is asked for pages, each
//! larger than the one before, so that whoever wants one entry does not pay for hundreds.

use super::engine::View;
use super::rocks;
use super::{Family, Order, StoreError};
use std::sync::Arc;

/// Entries of the first page, ...
const FIRST_ENTRIES: usize = 4;
/// ... of a page at most, ...
const ENTRIES_MAX: usize = 512;
/// ... and bytes of keys and values in a page at most, beside the first entry.
const PAGE_BYTES_MAX: usize = 1 << 20;

/// How much a page holds.
#[derive(Debug, Clone, Copy)]
pub struct PageLimit {
    /// Entries at most; at least one.
    pub entries: usize,
    /// After how many bytes of keys and values no entry is added.
    pub bytes: usize,
}

/// Entries in the order of a scan.
#[derive(Debug, Default)]
pub struct Page {
    bytes: Vec<u8>,
    /// Where the key and the value of each entry end.
    ends: Vec<(usize, usize)>,
}

impl Page {
    /// Forgets its entries, and keeps its memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }

    /// Adds an entry.
    pub fn push(&mut self, key: &[u8], value: &[u8]) {
        self.bytes.extend_from_slice(key);
        let key_end = self.bytes.len();
        self.bytes.extend_from_slice(value);
        self.ends.push((key_end, self.bytes.len()));
    }

    /// Number of entries.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether it holds no entry.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Whether another entry would pass the limit.
    pub fn is_full(&self, limit: PageLimit) -> bool {
        self.ends.len() >= limit.entries || self.bytes.len() >= limit.bytes
    }

    /// Key and value of an entry.
    ///
    /// # Panics
    /// When there are not so many.
    pub fn entry(&self, position: usize) -> (&[u8], &[u8]) {
        let start = position
            .checked_sub(1)
            .map_or(0, |before| self.ends[before].1);
        let (key_end, end) = self.ends[position];
        (&self.bytes[start..key_end], &self.bytes[key_end..end])
    }
}

/// An ordered walk over one range of one snapshot.
pub struct Scan(ScanEntries);

enum ScanEntries {
    Lent(rocks::RocksScan),
    Paged(PagedScan),
}

impl Scan {
    /// A scan whose entries the engine lends.
    pub(super) fn lent(scan: rocks::RocksScan) -> Self {
        Self(ScanEntries::Lent(scan))
    }

    /// A scan that asks the view for pages.
    pub fn of_pages(
        view: Arc<dyn View>,
        family: Family,
        start: &[u8],
        end: &[u8],
        order: Order,
    ) -> Self {
        Self(ScanEntries::Paged(PagedScan {
            view,
            family,
            order,
            range: (start.to_vec(), end.to_vec()),
            rest: (start.to_vec(), end.to_vec()),
            page: Page::default(),
            next: 0,
            entries: FIRST_ENTRIES,
            is_last: false,
        }))
    }

    /// Moves to the next entry; false at the end of the range.
    ///
    /// # Errors
    /// [`StoreError::Failed`] on I/O failure or corruption.
    #[inline]
    pub fn advance(&mut self) -> Result<bool, StoreError> {
        match &mut self.0 {
            ScanEntries::Lent(scan) => scan.advance(),
            ScanEntries::Paged(scan) => scan.advance(),
        }
    }

    /// Moves so that the next [`Self::advance`] yields the first entry at or after `key` (at or
    /// before it when the scan goes backward). Never leaves the range.
    pub fn seek(&mut self, key: &[u8]) {
        match &mut self.0 {
            ScanEntries::Lent(scan) => scan.seek(key),
            ScanEntries::Paged(scan) => scan.seek(key),
        }
    }

    /// Key and value of the current entry; only after [`Self::advance`] returned true.
    #[inline]
    pub fn entry(&self) -> (&[u8], &[u8]) {
        match &self.0 {
            ScanEntries::Lent(scan) => scan.entry(),
            ScanEntries::Paged(scan) => scan.entry(),
        }
    }

    /// The key of the current entry; only after [`Self::advance`] returned true.
    #[inline]
    pub fn key(&self) -> &[u8] {
        match &self.0 {
            ScanEntries::Lent(scan) => scan.key(),
            ScanEntries::Paged(scan) => scan.entry().0,
        }
    }
}

struct PagedScan {
    view: Arc<dyn View>,
    family: Family,
    order: Order,
    range: (Vec<u8>, Vec<u8>),
    /// What of the range comes behind the page.
    rest: (Vec<u8>, Vec<u8>),
    page: Page,
    /// The entry of the page that comes next; the current one is before it.
    next: usize,
    /// Entries of the next page.
    entries: usize,
    /// Whether nothing comes behind the page.
    is_last: bool,
}

impl PagedScan {
    fn advance(&mut self) -> Result<bool, StoreError> {
        if self.next == self.page.len() {
            self.read_page()?;
        }
        let has_next = self.next < self.page.len();
        self.next += usize::from(has_next);
        Ok(has_next)
    }

    fn read_page(&mut self) -> Result<(), StoreError> {
        self.page.clear();
        self.next = 0;
        let (start, end) = (&self.rest.0, &self.rest.1);
        if self.is_last || start >= end {
            return Ok(());
        }
        let limit = PageLimit {
            entries: self.entries,
            bytes: PAGE_BYTES_MAX,
        };
        let (family, order) = (self.family, self.order);
        self.view
            .scan_page(family, (start, end), order, limit, &mut self.page)?;
        self.entries = (2 * self.entries).min(ENTRIES_MAX);
        match self.page.len().checked_sub(1) {
            None => self.is_last = true,
            Some(last) => {
                let last = self.page.entry(last).0.to_vec();
                match self.order {
                    Order::Forward => self.rest.0 = behind(last),
                    Order::Backward => self.rest.1 = last,
                }
            }
        }
        Ok(())
    }

    fn seek(&mut self, key: &[u8]) {
        self.page.clear();
        self.next = 0;
        self.is_last = false;
        self.rest = self.range.clone();
        match self.order {
            Order::Forward if key > self.rest.0.as_slice() => self.rest.0 = key.to_vec(),
            Order::Backward if key < self.rest.1.as_slice() => self.rest.1 = behind(key.to_vec()),
            _ => {}
        }
    }

    fn entry(&self) -> (&[u8], &[u8]) {
        self.page.entry(self.next - 1)
    }
}

/// The first key behind another.
pub fn behind(mut key: Vec<u8>) -> Vec<u8> {
    key.push(0);
    key
}
