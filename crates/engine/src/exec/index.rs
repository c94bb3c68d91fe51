//! Index entries in key order.
//!
//! Bounds on the leading fields become byte ranges; bounds on later fields are checked on each entry's
//! bytes without decoding them, and what lies between is skipped.

use super::seen::SeenIds;
use super::{Context, Entries, Entry, YieldCheck, corrupt_entry, parallel};
use crate::catalog::Index;
use crate::error::Result;
use crate::index::bounds::{BoundsChecker, KeyCheck};
use crate::plan::{IndexAccess, walked_ranges};
use crate::storage::{Family, Order, Scan, Snapshot, TreeKey};
use bson::raw::RawBsonRef;
use meridian_value::key::{ABOVE_ALL, Direction, TypeBits, encode};
use std::sync::Arc;

/// Entries that a count walks alone before it is worth a second core.
const ENTRIES_ALONE: u64 = 4_096;

/// The entries of an index within bounds, each document once.
pub struct IndexEntries {
    snapshot: Snapshot,
    index: Arc<Index>,
    order: Order,
    /// Ranges of `tree ++ fields` still to walk; the last is next.
    ranges: Vec<(Vec<u8>, Vec<u8>)>,
    checker: Option<BoundsChecker>,
    scan: Option<Scan>,
    /// The range that `scan` walks.
    scanned: (Vec<u8>, Vec<u8>),
    seen: Option<SeenIds>,
    leaps: Option<Leaps>,
    yield_check: YieldCheck,
}

/// From the first entry of each value of a field to that of the next.
struct Leaps {
    /// The field's position in the key.
    position: usize,
    /// Null, as the key has it: it stands for documents without the field as well, which an expression may tell apart.
    null: Vec<u8>,
    /// The first key, with the tree's prefix, that may come next; empty where it is the next entry's.
    next: Vec<u8>,
}

/// What the checker says of the current key.
enum Verdict {
    Inside,
    Outside,
    RangeDone,
}

impl IndexEntries {
    /// The entries that `access` asks for.
    pub fn new(snapshot: &Snapshot, access: &IndexAccess, context: Context) -> Self {
        let index = access.index.clone();
        let found = walked_ranges(access);
        let key = |bytes: &[u8]| index.tree.key(bytes);
        let mut ranges: Vec<_> = found
            .ranges
            .iter()
            .map(|range| (key(&range.start), key(&range.end)))
            .collect();
        if access.order == Order::Forward {
            ranges.reverse();
        }
        let unsettled = access.bounds[found.settled..]
            .iter()
            .any(|bounds| !bounds.is_all());
        Self {
            snapshot: snapshot.clone(),
            order: access.order,
            ranges,
            checker: unsettled.then(|| {
                let directions: Vec<Direction> = index.layout.directions().collect();
                BoundsChecker::new(&directions, &access.bounds)
            }),
            scan: None,
            scanned: (Vec::new(), Vec::new()),
            seen: access.repeats().then(SeenIds::new),
            leaps: access
                .first_of
                .map(|position| Leaps::over(position, &index)),
            yield_check: YieldCheck::new(context),
            index,
        }
    }

    /// As [`Self::new`], each document as often as it has entries.
    pub fn repeated(snapshot: &Snapshot, access: &IndexAccess, context: Context) -> Self {
        Self {
            seen: None,
            ..Self::new(snapshot, access, context)
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
            self.scanned = (start, end);
        }
    }

    /// Checks the current key; when it is outside, the scan is moved to where it may go on.
    fn check(&mut self) -> Result<Verdict> {
        let Some(checker) = &mut self.checker else {
            return Ok(Verdict::Inside);
        };
        let scan = self.scan.as_mut().expect("there is an entry to check");
        let key = TreeKey::strip(scan.entry().0);
        let verdict = match self.order {
            Order::Forward => checker.check_forward(key),
            Order::Backward => checker.check_backward(key),
        };
        match verdict {
            KeyCheck::Match => Ok(Verdict::Inside),
            KeyCheck::Done => Ok(Verdict::RangeDone),
            KeyCheck::Corrupt => Err(corrupt_entry()),
            KeyCheck::Seek => {
                scan.seek(&self.index.tree.key(checker.target()));
                Ok(Verdict::Outside)
            }
        }
    }

    /// Goes behind the other entries of the value that the last entry was the first of.
    fn leap(&mut self) {
        let Some(leaps) = self.leaps.as_mut().filter(|leaps| !leaps.next.is_empty()) else {
            return;
        };
        match &mut self.scan {
            Some(scan) => scan.seek(&leaps.next),
            None => {
                if let Some((start, _)) = self
                    .ranges
                    .last_mut()
                    .filter(|(start, _)| *start < leaps.next)
                {
                    start.clone_from(&leaps.next);
                }
            }
        }
        leaps.next.clear();
    }

    fn is_new(&mut self) -> Result<bool> {
        let (Some(seen), Some(scan)) = (&mut self.seen, &self.scan) else {
            return Ok(true);
        };
        seen.insert(entry_of(scan, &self.index).id()?)
    }

    /// Counts what is left when every entry in the ranges counts: alone for a while, then the rest of a
    /// long range as two halves.
    fn count_plain(&mut self) -> Result<u64> {
        let mut entries = 0;
        while self.next_in_ranges()? {
            self.yield_check.step_key()?;
            entries += 1;
            if entries % ENTRIES_ALONE == 0
                && let Some(middle) = self.middle_of_rest()
            {
                entries += self.count_halves(&middle)?;
            }
        }
        Ok(entries)
    }

    /// A key about half way between the current one and the end of its range.
    fn middle_of_rest(&self) -> Option<Vec<u8>> {
        if self.order == Order::Backward {
            return None;
        }
        let (key, _) = self.scan.as_ref()?.entry();
        midpoint(key, &self.scanned.1)
    }

    /// Counts the rest of the current range after the current entry, and ends the range.
    fn count_halves(&mut self, middle: &[u8]) -> Result<u64> {
        let scan = self.scan.take().expect("a range is being walked");
        let (snapshot, end, context) = (&self.snapshot, &self.scanned.1, &self.yield_check.context);
        let count = |mut scan: Scan, until: &[u8]| {
            let mut yield_check = YieldCheck::new(context.clone());
            let mut entries = 0_u64;
            while scan.advance()? && scan.entry().0 < until {
                yield_check.step_key()?;
                entries += 1;
            }
            Ok(entries)
        };
        let second = snapshot.scan(Family::Indexes, middle, end, Order::Forward);
        let (a, b): (Result<u64>, Result<u64>) =
            parallel::join(|| count(scan, middle), || count(second, end));
        Ok(a? + b?)
    }
}

impl Entries for IndexEntries {
    #[inline]
    fn advance(&mut self) -> Result<bool> {
        self.leap();
        while self.next_in_ranges()? {
            self.yield_check.step_key()?;
            match self.check()? {
                Verdict::Outside => {}
                Verdict::RangeDone => self.scan = None,
                Verdict::Inside => {
                    if self.is_new()? {
                        if let (Some(leaps), Some(scan)) = (&mut self.leaps, &self.scan) {
                            leaps.note(scan.entry().0, &self.index)?;
                        }
                        return Ok(true);
                    }
                }
            }
        }
        Ok(false)
    }

    #[inline]
    fn entry(&self) -> Entry<'_> {
        let scan = self
            .scan
            .as_ref()
            .expect("entry is read after advance returned true");
        entry_of(scan, &self.index)
    }

    fn suspend(&mut self) {
        if let Some(scan) = self.scan.take() {
            let scanned = std::mem::take(&mut self.scanned);
            let left = self.order.rest_of(scanned, scan.key(), false);
            self.ranges.push(left);
        }
    }

    fn count(&mut self) -> Result<u64> {
        if self.checker.is_none() && self.seen.is_none() && self.leaps.is_none() {
            return self.count_plain();
        }
        let mut entries = 0;
        while self.advance()? {
            entries += 1;
        }
        Ok(entries)
    }
}

impl Leaps {
    fn over(position: usize, index: &Index) -> Self {
        let direction = index.spec.key[position].1.direction();
        let mut null = Vec::new();
        encode(RawBsonRef::Null, direction, &mut null, &mut TypeBits::new());
        Self {
            position,
            null,
            next: Vec::new(),
        }
    }

    /// Notes where the value ends that this entry is the first of.
    fn note(&mut self, key: &[u8], index: &Index) -> Result<()> {
        let prefix = key.len() - TreeKey::strip(key).len();
        let (mut start, mut end) = (prefix, prefix);
        for position in 0..=self.position {
            start = end;
            end += index.layout.field_length(position, &key[end..])?;
        }
        if key[start..end] != self.null[..] {
            self.next.extend_from_slice(&key[..end]);
            self.next.push(ABOVE_ALL);
        }
        Ok(())
    }
}

fn entry_of<'a>(scan: &'a Scan, index: &'a Index) -> Entry<'a> {
    let (key, value) = scan.entry();
    Entry {
        key: TreeKey::strip(key),
        value,
        layout: Some(&index.layout),
    }
}

/// A key between two others, half way in the eight bytes behind what they share; `None` when they
/// leave no room. Where entries really lie decides how even the halves are, not whether they are right.
fn midpoint(low: &[u8], high: &[u8]) -> Option<Vec<u8>> {
    let shared = low.iter().zip(high).take_while(|(a, b)| a == b).count();
    let word = |bytes: &[u8]| {
        let mut word = [0; 8];
        let rest = &bytes[shared.min(bytes.len())..];
        let length = rest.len().min(8);
        word[..length].copy_from_slice(&rest[..length]);
        u64::from_be_bytes(word)
    };
    let (a, b) = (word(low), word(high));
    let middle = a + b.checked_sub(a)? / 2;
    let mut key = low[..shared].to_vec();
    key.extend_from_slice(&middle.to_be_bytes());
    (key.as_slice() > low && key.as_slice() < high).then_some(key)
}

#[cfg(test)]
mod tests {
    use super::midpoint;

    #[test]
    fn midpoints_lie_between() {
        for (low, high) in [
            (&b"aa"[..], &b"ab"[..]),
            (b"a", b"b"),
            (b"abc\x01", b"abc\xff"),
            (b"\0", b"\xff"),
        ] {
            let middle = midpoint(low, high).unwrap();
            assert!(low < middle.as_slice() && middle.as_slice() < high);
        }
        assert_eq!(midpoint(b"a", b"a"), None);
        assert_eq!(midpoint(b"b", b"a"), None);
    }
}
