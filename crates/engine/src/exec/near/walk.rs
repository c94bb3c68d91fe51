//! A walk over ranges of cells of one index in any order, with as few seeks as can be.
//!
//! In: ranges of cells under a prefix. Out: the entries in them. Where a walk stepped from one entry to
//! the next, no cell between them has an entry: later ranges inside such a gap need no seek, and a range
//! that begins in one begins where it ends, which often is where the scan stands.

use super::{ShortKey, keys};
use crate::error::Result;
use crate::storage::{Family, Order, Scan, Snapshot};
use meridian_value::key::{Direction, decode_cell, encode_cell};

/// Gaps that are remembered.
const GAPS_MAX: usize = 32;

/// Cells without an entry, `from` and `to` included.
#[derive(Debug, Clone, Copy)]
struct Gap {
    prefix: u32,
    from: u64,
    to: u64,
}

/// What the walk has come to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WalkStep {
    /// An entry in this cell.
    Entry(u64),
    /// The end of the range.
    End,
}

pub(super) struct CellWalk {
    snapshot: Snapshot,
    /// Begun when it is needed: all of it may be cached.
    scan: Option<Scan>,
    /// `tree ++ encoded leading fields`, ascending.
    prefixes: Vec<Vec<u8>>,
    gaps: Vec<Gap>,
    oldest_gap: usize,
    /// Where the scan stands, if it stands on an entry that is not yet walked over.
    at: Option<(u32, u64)>,
    prefix: u32,
    /// Cells from here on have not been looked at.
    from: u64,
    last: u64,
    key: Vec<u8>,
}

impl CellWalk {
    pub(super) fn new(snapshot: &Snapshot, prefixes: Vec<Vec<u8>>) -> Self {
        Self {
            snapshot: snapshot.clone(),
            scan: None,
            prefixes,
            gaps: Vec::new(),
            oldest_gap: 0,
            at: None,
            prefix: 0,
            from: 0,
            last: 0,
            key: Vec::new(),
        }
    }

    pub(super) fn prefixes(&self) -> u32 {
        u32::try_from(self.prefixes.len()).expect("a search has at most a thousand prefixes")
    }

    /// First key of a range of cells, and a key behind it.
    pub(super) fn keys(&self, prefix: u32, first: u64, last: u64) -> (ShortKey, ShortKey) {
        keys(&self.prefixes[prefix as usize], first, last)
    }

    /// Whether earlier steps have shown that there is no entry in a range.
    pub(super) fn is_known_empty(&self, prefix: u32, first: u64, last: u64) -> bool {
        self.behind_gaps(prefix, first)
            .is_none_or(|cell| cell > last)
    }

    /// The first cell from `cell` on that is in no gap.
    fn behind_gaps(&self, prefix: u32, mut cell: u64) -> Option<u64> {
        let around = |cell: u64| {
            self.gaps
                .iter()
                .find(|gap| gap.prefix == prefix && gap.from <= cell && cell <= gap.to)
        };
        while let Some(gap) = around(cell) {
            cell = gap.to.checked_add(1)?;
        }
        Some(cell)
    }

    /// Begins a range of cells, both ends included.
    pub(super) fn enter(&mut self, prefix: u32, first: u64, last: u64) -> Result<WalkStep> {
        let Some(first) = self
            .behind_gaps(prefix, first)
            .filter(|first| *first <= last)
        else {
            return Ok(WalkStep::End);
        };
        (self.prefix, self.from, self.last) = (prefix, first, last);
        if self.at == Some((prefix, first)) {
            return Ok(self.arrive(first));
        }
        self.key.clear();
        self.key.extend_from_slice(&self.prefixes[prefix as usize]);
        encode_cell(first, Direction::Ascending, &mut self.key);
        let (snapshot, prefixes) = (&self.snapshot, &self.prefixes);
        let scan = self.scan.get_or_insert_with(|| scan(snapshot, prefixes));
        scan.seek(&self.key);
        self.next()
    }

    /// Moves to the next entry of the range.
    pub(super) fn next(&mut self) -> Result<WalkStep> {
        self.at = None;
        let prefix = &self.prefixes[self.prefix as usize];
        let scan = self.scan.as_mut().expect("a range was entered");
        let cell = if scan.advance()? {
            let key = scan.entry().0.strip_prefix(prefix.as_slice());
            key.and_then(|rest| decode_cell(rest, Direction::Ascending))
        } else {
            None
        };
        match cell {
            Some(cell) => Ok(self.arrive(cell)),
            None => {
                self.note_gap(u64::MAX);
                Ok(WalkStep::End)
            }
        }
    }

    fn arrive(&mut self, cell: u64) -> WalkStep {
        if cell > self.last {
            // The gaps before it, between entries of the range, nobody will ask for again.
            self.note_gap(cell - 1);
            self.at = Some((self.prefix, cell));
            return WalkStep::End;
        }
        self.from = cell.saturating_add(1);
        WalkStep::Entry(cell)
    }

    /// There is nothing from where the walk was to `to`.
    fn note_gap(&mut self, to: u64) {
        let gap = Gap {
            prefix: self.prefix,
            from: self.from,
            to,
        };
        if gap.to < gap.from {
            return;
        }
        if self.gaps.len() < GAPS_MAX {
            self.gaps.push(gap);
        } else {
            self.gaps[self.oldest_gap] = gap;
            self.oldest_gap = (self.oldest_gap + 1) % GAPS_MAX;
        }
    }

    /// Gives the range up in the middle: what was seen of it will be walked again.
    pub(super) fn leave(&mut self) {
        self.at = None;
    }

    /// Gives the scan up; no range is being walked.
    pub(super) fn suspend(&mut self) {
        (self.scan, self.at) = (None, None);
    }

    /// Key and value of the entry that was come to.
    pub(super) fn entry(&self) -> (&[u8], &[u8]) {
        self.scan.as_ref().expect("a range was entered").entry()
    }
}

/// A scan of everything under prefixes, which ascend.
fn scan(snapshot: &Snapshot, prefixes: &[Vec<u8>]) -> Scan {
    let (start, _) = keys(prefixes.first().map_or(&[], Vec::as_slice), 0, 0);
    let (_, end) = keys(prefixes.last().map_or(&[], Vec::as_slice), 0, u64::MAX);
    snapshot.scan(Family::Indexes, &start, &end, Order::Forward)
}
