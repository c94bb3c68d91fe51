//! The pages of ranges, for searches and samples on a snapshot.
//!
//! A page holds what its range held at some state of the summary, and is dropped when the range changes.
//! So it is as a snapshot sees the range when that was taken no earlier than the page, or when nothing
//! around the range has changed since the snapshot.

use super::{Place, Summary};
use crate::index::pages::{Page, PageContents, PageKind};
use std::sync::Arc;

/// A range that a part of a tree runs through.
#[derive(Debug)]
pub struct PagedRange<'a> {
    /// Its first key.
    pub start: &'a [u8],
    /// The first key behind it; `None` at the end of the tree.
    pub end: Option<&'a [u8]>,
    /// The number of its entries.
    pub entries: u32,
    /// Its entries, if they are kept.
    pub contents: Option<Arc<PageContents>>,
}

/// A range that was read, and is to be kept.
#[derive(Debug)]
pub struct ReadRange {
    /// Its first key.
    pub start: Vec<u8>,
    /// The first key behind it; `None` at the end of the tree.
    pub end: Option<Vec<u8>>,
    /// The number of its entries.
    pub entries: usize,
    /// What is kept.
    pub page: Arc<Page>,
}

impl Summary {
    /// About how many entries lie in `[start, end)`, infinitely many if there are more than `most`;
    /// otherwise the ranges that hold them are handed out, with their pages as a snapshot of the summary's
    /// state `changes` sees them. `None` when part of it is unknown.
    pub fn paged_ranges(
        &self,
        start: &[u8],
        end: &[u8],
        changes: u64,
        most: f64,
        range: &mut dyn FnMut(PagedRange<'_>),
    ) -> Option<f64> {
        if self.is_unknown_before(Some(end)) {
            return None;
        }
        let first = self.find(Place::FIRST, start);
        let (mut place, mut about) = (first, 0.0);
        while place.block < self.blocks.len() && (place == first || *self.start(place) < *end) {
            let behind = self.end(place);
            let to = behind.as_deref().map_or(end, |behind| behind.min(end));
            if place != first && behind.as_deref() == Some(to) {
                about += f64::from(self.count_at(place));
            } else {
                let first_key = self.start(place);
                self.edge(place, start.max(&first_key), Some(to), &mut |piece| {
                    about += piece.estimate();
                });
            }
            if about > most {
                return Some(f64::INFINITY);
            }
            place = self.next(place);
        }
        let behind = place;
        place = first;
        while place != behind {
            // One that is empty now may have held something then.
            if self.count_at(place) > 0 || self.blocks[place.block].changed_at > changes {
                range(PagedRange {
                    start: &self.start(place),
                    end: self.end(place).as_deref(),
                    entries: self.count_at(place),
                    contents: self.contents(place, PageKind::Points, changes),
                });
            }
            place = self.next(place);
        }
        Some(about)
    }

    /// Keeps what was read; ranges that have changed since `changes` are left out.
    pub fn keep(&mut self, read: Vec<ReadRange>, changes: u64) {
        for range in read {
            let place = self.find(Place::FIRST, &range.start);
            let end = range.end.as_deref();
            if self.is_as_read(place, &range.start, end, range.entries, changes) {
                self.block_mut(place.block)
                    .set_page(place.range, range.page);
            }
        }
    }

    /// The number of entries from the range that holds one key to the range that holds another, which is not
    /// before it; `None` when part of it is unknown.
    pub fn entries_around(&self, first: &[u8], last: &[u8]) -> Option<u64> {
        let from = self.find(Place::FIRST, first);
        let to = self.find_from(from, last);
        let is_known = !self.is_unknown_before(self.end(to).as_deref());
        is_known.then(|| self.sum(from, Some(self.next(to))))
    }

    /// Hands out the ranges that hold these ascending keys, with how many of them each holds, and its page as
    /// a snapshot of the summary's state `changes` sees it.
    pub fn ranges_of<'k>(
        &self,
        keys: impl Iterator<Item = &'k [u8]>,
        kind: PageKind,
        changes: u64,
        found: &mut dyn FnMut(PagedRange<'_>, usize),
    ) {
        let mut keys = keys.peekable();
        let mut place = Place::FIRST;
        while let Some(key) = keys.next() {
            place = self.find_from(place, key);
            let (start, end) = (self.start(place), self.end(place));
            let end = end.as_deref();
            let mut held = 1;
            while keys
                .next_if(|key| end.is_none_or(|end| *key < end))
                .is_some()
            {
                held += 1;
            }
            let range = PagedRange {
                start: &start,
                end,
                entries: self.count_at(place),
                contents: self.contents(place, kind, changes),
            };
            found(range, held);
        }
    }

    /// The entries of a range as they are now, if they are kept.
    pub(super) fn contents_now(&self, place: Place, kind: PageKind) -> Option<Arc<PageContents>> {
        self.contents(place, kind, self.changes)
    }

    /// The entries of a range at an earlier state, if they are kept and have not changed in between.
    fn contents(&self, place: Place, kind: PageKind, changes: u64) -> Option<Arc<PageContents>> {
        let block = &self.blocks[place.block];
        let contents = block.page(place.range)?.contents()?;
        if contents.kind() != kind {
            return None;
        }
        let is_as_then = contents.changes() <= changes || block.changed_at <= changes;
        is_as_then.then_some(contents)
    }
}
