//! Index entries whose cells a region may match.
//!
//! The covering's ranges of cells are walked in order, stepping from one to the next without a seek
//! where they touch. A point in an `Inside` range matches without a test; in a `Boundary` range it is
//! tested on the exact coordinates in its entry. Lines and polygons are candidates: their documents
//! are tested.

use super::seen::SeenIds;
use super::{Context, Entries, Entry, YieldCheck, corrupt_entry};
use crate::catalog::Index;
use crate::error::Result;
use crate::geo::{CellRelation, CoverLimits, Region, ancestors};
use crate::index::entry::Located;
use crate::plan::GeoAccess;
use crate::storage::{Family, Order, Scan, Snapshot, TreeKey, behind};
use meridian_value::key::{ABOVE_ALL, Direction, decode_cell, encode_cell};
use std::sync::Arc;

/// Cells from `first` to `last`, both included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct CellSpan {
    first: u64,
    last: u64,
    inside: bool,
}

/// The entries of a geo index that a region may match, each document once.
pub struct GeoEntries {
    snapshot: Snapshot,
    index: Arc<Index>,
    region: Arc<Region>,
    spans: Arc<[CellSpan]>,
    /// `tree ++ equality fields` of the key's leading fields, still to walk; the last is next.
    prefixes: Vec<Vec<u8>>,
    prefix: Vec<u8>,
    /// Where the walk under the next prefix begins, if it had begun before.
    resumed_at: Option<Vec<u8>>,
    scan: Option<Scan>,
    span: usize,
    /// The candidate's cell.
    cell: u64,
    certain: bool,
    seen: Option<SeenIds>,
    yield_check: YieldCheck,
}

impl GeoEntries {
    /// The entries of an access path.
    pub fn new(snapshot: &Snapshot, access: &GeoAccess, context: Context) -> Self {
        let index = access.index.clone();
        let prefixes = access.prefixes.iter().rev();
        let prefixes = prefixes.map(|prefix| index.tree.key(prefix)).collect();
        Self {
            snapshot: snapshot.clone(),
            region: access.region.clone(),
            spans: spans(access),
            prefixes,
            prefix: Vec::new(),
            resumed_at: None,
            scan: None,
            span: 0,
            cell: 0,
            certain: true,
            seen: index.multikey().is_multikey().then(SeenIds::new),
            yield_check: YieldCheck::new(context),
            index,
        }
    }

    /// Begins the walk under the next prefix.
    fn next_prefix(&mut self) -> bool {
        let (Some(prefix), Some(first), Some(last)) =
            (self.prefixes.pop(), self.spans.first(), self.spans.last())
        else {
            return false;
        };
        let start = self.resumed_at.take().unwrap_or_else(|| {
            let mut start = prefix.clone();
            encode_cell(first.first, Direction::Ascending, &mut start);
            start
        });
        let mut end = prefix.clone();
        encode_cell(last.last, Direction::Ascending, &mut end);
        end.push(ABOVE_ALL);
        self.scan = Some(
            self.snapshot
                .scan(Family::Indexes, &start, &end, Order::Forward),
        );
        self.prefix = prefix;
        self.span = 0;
        true
    }

    /// Moves to the next entry in some span; its cell is in `spans[span]` then.
    fn next_candidate(&mut self) -> Result<bool> {
        loop {
            let Some(scan) = &mut self.scan else {
                if !self.next_prefix() {
                    return Ok(false);
                }
                continue;
            };
            if !scan.advance()? {
                self.scan = None;
                continue;
            }
            self.yield_check.step_key()?;
            let key = scan.entry().0;
            let cell = decode_cell(&key[self.prefix.len()..], Direction::Ascending)
                .ok_or_else(corrupt_entry)?;
            while cell > self.spans[self.span].last {
                // The scan ends with the last span, so there is a next one.
                self.span += 1;
            }
            let span = self.spans[self.span];
            if cell >= span.first {
                self.cell = cell;
                return Ok(true);
            }
            let mut target = self.prefix.clone();
            encode_cell(span.first, Direction::Ascending, &mut target);
            scan.seek(&target);
        }
    }

    /// Whether the current candidate's point, if its entry holds one, matches.
    fn accept(&mut self) -> bool {
        let (_, value) = self.scan.as_ref().expect("there is a candidate").entry();
        let located = self.index.layout.located(value);
        self.certain = matches!(located, Some(Located::Point { .. }));
        match located {
            Some(Located::Point { lon, lat, .. }) => {
                self.spans[self.span].inside || self.region.matches_entry(self.cell, lon, lat)
            }
            Some(Located::Nowhere) => false,
            _ => true,
        }
    }

    fn is_new(&mut self) -> Result<bool> {
        if self.seen.is_none() {
            return Ok(true);
        }
        let id = self.entry().id()?.to_vec();
        // A document with several shapes must not be settled by an uncertain entry alone and then
        // skipped for its certain one: the uncertain one is tested on the whole document.
        match &mut self.seen {
            Some(seen) => seen.insert(&id),
            None => Ok(true),
        }
    }
}

impl Entries for GeoEntries {
    fn advance(&mut self) -> Result<bool> {
        while self.next_candidate()? {
            if self.accept() && self.is_new()? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn entry(&self) -> Entry<'_> {
        let (key, value) = self
            .scan
            .as_ref()
            .expect("entry is read after advance returned true")
            .entry();
        Entry {
            key: TreeKey::strip(key),
            value,
            layout: Some(&self.index.layout),
        }
    }

    fn suspend(&mut self) {
        if let Some(scan) = self.scan.take() {
            self.resumed_at = Some(behind(scan.key().to_vec()));
            self.prefixes.push(std::mem::take(&mut self.prefix));
        }
    }

    fn is_certain(&self) -> bool {
        self.certain
    }
}

/// The covering's ranges with, between them, the coarser cells that lines and polygons may lie under, if
/// there are any: points lie in leaf cells.
fn spans(access: &GeoAccess) -> Arc<[CellSpan]> {
    let ranges = access.cover(CoverLimits::default());
    let coarser = if access.index.multikey().holds_shapes() && !access.is_plane() {
        ancestors(&ranges)
    } else {
        Vec::new()
    };
    let mut spans: Vec<CellSpan> = ranges
        .iter()
        .map(|range| CellSpan {
            first: range.first,
            last: range.last,
            inside: range.relation == CellRelation::Inside,
        })
        .collect();
    let covered = |cell: u64| {
        let next = ranges.partition_point(|range| range.last < cell);
        ranges.get(next).is_some_and(|range| range.first <= cell)
    };
    spans.extend(
        coarser
            .into_iter()
            .filter(|cell| !covered(*cell))
            .map(|cell| CellSpan {
                first: cell,
                last: cell,
                inside: false,
            }),
    );
    spans.sort_by_key(|span| span.first);
    spans.into()
}
