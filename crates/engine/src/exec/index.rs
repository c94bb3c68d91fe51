//! Index entries in key order.
//!
//! Bounds on the leading fields become byte ranges; bounds on later fields are checked on each entry's
//! bytes without decoding them.

use super::{Context, Entries, Entry, Pacer, corrupt_entry};
use crate::catalog::Index;
use crate::error::Result;
use crate::plan::{ByteRange, IndexAccess};
use crate::storage::{Family, Order, Scan, Snapshot};
use ahash::AHashSet;
use meridian_value::key::{Direction, skip};
use std::sync::Arc;

/// Combinations of leading values that are walked as ranges of their own; beyond, fields are checked.
const RANGES_MAX: usize = 10_000;

/// The entries of an index within bounds, each document once.
pub struct IndexEntries {
    snapshot: Snapshot,
    index: Arc<Index>,
    order: Order,
    /// Ranges of `tree ++ fields` still to walk; the last is next.
    ranges: Vec<(Vec<u8>, Vec<u8>)>,
    checks: Vec<FieldCheck>,
    scan: Option<Scan>,
    seen: Option<AHashSet<Vec<u8>>>,
    pacer: Pacer,
}

/// What one field's bytes must lie in; fields without a check are stepped over.
struct FieldCheck {
    direction: Direction,
    allowed: Option<Vec<ByteRange>>,
}

impl IndexEntries {
    /// The entries that `access` asks for.
    pub fn new(snapshot: &Snapshot, access: &IndexAccess, context: Context) -> Self {
        let index = access.index.clone();
        let (parts, ranged) = byte_ranges(access);
        let mut ranges: Vec<(Vec<u8>, Vec<u8>)> = parts
            .iter()
            .map(|range| (index.tree.key(&range.start), index.tree.key(&range.end)))
            .collect();
        if access.order == Order::Forward {
            ranges.reverse();
        }
        Self {
            snapshot: snapshot.clone(),
            order: access.order,
            ranges,
            checks: checks(access, ranged),
            scan: None,
            seen: index.multikey().is_multikey().then(AHashSet::new),
            pacer: Pacer::new(context),
            index,
        }
    }

    /// Moves to the next entry within the byte ranges.
    #[inline]
    fn next_in_ranges(&mut self) -> Result<bool> {
        loop {
            if let Some(scan) = &mut self.scan {
                if scan.advance()? {
                    return Ok(true);
                }
                self.scan = None;
            }
            let Some((start, end)) = self.ranges.pop() else {
                return Ok(false);
            };
            self.scan = Some(
                self.snapshot
                    .scan(Family::Indexes, &start, &end, self.order),
            );
        }
    }

    fn passes_checks(&self) -> Result<bool> {
        let mut rest = &self.scan.as_ref().expect("there is an entry").entry().0[4..];
        for check in &self.checks {
            let length = skip(rest, check.direction).ok_or_else(corrupt_entry)?;
            if let Some(allowed) = &check.allowed {
                let field = &rest[..length];
                if !allowed
                    .iter()
                    .any(|range| range.start.as_slice() <= field && field < range.end.as_slice())
                {
                    return Ok(false);
                }
            }
            rest = &rest[length..];
        }
        Ok(true)
    }

    fn is_new(&mut self) -> Result<bool> {
        if self.seen.is_none() {
            return Ok(true);
        }
        let id = self.entry()?.id().to_vec();
        Ok(self.seen.as_mut().is_none_or(|seen| seen.insert(id)))
    }
}

impl Entries for IndexEntries {
    #[inline]
    fn advance(&mut self) -> Result<bool> {
        while self.next_in_ranges()? {
            self.pacer.step_key()?;
            if (self.checks.is_empty() || self.passes_checks()?) && self.is_new()? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn entry(&self) -> Result<Entry<'_>> {
        let (key, value) = self
            .scan
            .as_ref()
            .expect("entry is read after advance returned true")
            .entry();
        let key = &key[4..];
        let id_at = self
            .index
            .layout
            .fields_length(key)
            .ok_or_else(corrupt_entry)?;
        Ok(Entry { key, id_at, value })
    }
}

/// The ranges of field bytes, ascending and disjoint, and how many fields they settle.
fn byte_ranges(access: &IndexAccess) -> (Vec<ByteRange>, usize) {
    let mut prefixes = vec![Vec::new()];
    for (position, (bounds, (_, field))) in
        access.bounds.iter().zip(&access.index.spec.key).enumerate()
    {
        let ranges = bounds.ranges(field.direction());
        if bounds.is_all() || prefixes.len() * ranges.len() > RANGES_MAX {
            return (prefixes.into_iter().map(whole).collect(), position);
        }
        let points = bounds.points().is_some();
        let combined = prefixes
            .iter()
            .flat_map(|prefix| ranges.iter().map(move |range| below(prefix, range)));
        let combined: Vec<ByteRange> = combined.collect();
        if !points {
            return (combined, position + 1);
        }
        prefixes = combined.into_iter().map(|range| range.start).collect();
    }
    let settled = access.bounds.len();
    (prefixes.into_iter().map(whole).collect(), settled)
}

fn whole(prefix: Vec<u8>) -> ByteRange {
    ByteRange {
        end: super::build::after(prefix.clone()),
        start: prefix,
    }
}

fn below(prefix: &[u8], range: &ByteRange) -> ByteRange {
    let join = |rest: &[u8]| [prefix, rest].concat();
    ByteRange {
        start: join(&range.start),
        end: join(&range.end),
    }
}

/// Checks for the fields behind those that the ranges settle; none when those are not bounded.
fn checks(access: &IndexAccess, settled: usize) -> Vec<FieldCheck> {
    let last = access.bounds.iter().rposition(|bounds| !bounds.is_all());
    let Some(last) = last.filter(|last| *last >= settled) else {
        return Vec::new();
    };
    let check = |position: usize| {
        let direction = access.index.spec.key[position].1.direction();
        let bounds = &access.bounds[position];
        let checked = position >= settled && !bounds.is_all();
        FieldCheck {
            direction,
            allowed: checked.then(|| bounds.ranges(direction)),
        }
    };
    (0..=last).map(check).collect()
}
