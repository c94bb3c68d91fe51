//! Goes through the entries of a tree by key runs of one field (a skip scan).
//!
//! In: an access path whose entries are the documents that match, each once, and lie in the order of the
//! field (alone, or behind fields that are fixed). Out: entry after entry, its field's bytes and value. The
//! caller says where the key run of an entry ends, and a [`EntryWalk`] goes there: entry by entry over a short one, by one
//! search over a long one, whose entries the rank index counts without scanning them.

use super::{Context, STEPS_BEFORE_SEEK, YieldCheck, corrupt_entry};
use crate::catalog::Index;
use crate::error::{Result, corrupt_document};
use crate::index::bounds::ByteRange;
use crate::plan::{FieldRanges, TreeRanges};
use crate::rank::{PartialBucket, RankIndex, SearchHint};
use crate::storage::{Family, Order, Scan, Snapshot, TreeKey};
use bson::Bson;
use bson::raw::RawDocument;
use meridian_value::key::{Direction, skip};
use std::sync::Arc;

/// The entries of an access path, in the order of one field's values.
pub(super) struct FieldEntries {
    family: Family,
    tree: TreeKey,
    index: Option<Arc<Index>>,
    /// The field's position in the key.
    position: usize,
    pub ranges: Vec<ByteRange>,
}

/// The field of an entry.
pub(super) struct EntryField {
    /// Where its bytes lie in the key with the tree's prefix.
    pub bytes: std::ops::Range<usize>,
    /// Its value; none when the document does not have it.
    pub value: Option<Bson>,
}

impl FieldEntries {
    /// The entries of a plan that found them to lie so.
    pub fn new(planned: &FieldRanges) -> Self {
        let TreeRanges {
            family,
            tree,
            index,
            ranges,
        } = planned.ranges.clone();
        Self {
            family,
            tree,
            index,
            position: planned.position,
            ranges,
        }
    }

    /// The order of the field's values.
    pub fn direction(&self) -> Direction {
        match &self.index {
            None => Direction::Ascending,
            Some(index) => index.spec.key[self.position].1.direction(),
        }
    }

    /// The field of an entry.
    pub fn field(&self, key: &[u8], value: &[u8]) -> Result<EntryField> {
        let Some(index) = &self.index else {
            return id_field(key, value);
        };
        let mut types = index.layout.split(value)?.types;
        let mut at = 4;
        for position in 0..self.position {
            at += match types.is_spent() {
                true => index.layout.field_length(position, &key[at..])?,
                false => {
                    index
                        .layout
                        .decode_field(position, &key[at..], &mut types)?
                        .1
                }
            };
        }
        let (value, length) = index
            .layout
            .decode_field(self.position, &key[at..], &mut types)?;
        Ok(EntryField {
            bytes: at..at + length,
            value,
        })
    }
}

/// The `_id` of a document.
fn id_field(key: &[u8], value: &[u8]) -> Result<EntryField> {
    let length = skip(TreeKey::strip(key), Direction::Ascending).ok_or_else(corrupt_entry)?;
    let document = RawDocument::from_bytes(value).map_err(corrupt_document)?;
    let id = document.get("_id").map_err(corrupt_document)?;
    let id = id.ok_or_else(corrupt_entry)?;
    Ok(EntryField {
        bytes: 4..4 + length,
        value: Some(Bson::try_from(id).map_err(corrupt_document)?),
    })
}

/// A walk over the entries of all ranges.
pub(super) struct EntryWalk<'w> {
    entries: &'w FieldEntries,
    scan: Scan,
    is_on_entry: bool,
    /// The next range, and the end of the current one.
    next_range: usize,
    range_end: Vec<u8>,
    /// Whether the last key run was long enough to leap over most of it.
    has_jumped: bool,
    yield_check: YieldCheck,
}

impl<'w> EntryWalk<'w> {
    pub fn new(entries: &'w FieldEntries, snapshot: &Snapshot, context: &Context) -> Self {
        let (start, end) = entries.tree.range();
        Self {
            entries,
            scan: snapshot.scan(entries.family, &start, &end, Order::Forward),
            is_on_entry: false,
            next_range: 0,
            range_end: Vec::new(),
            has_jumped: false,
            yield_check: YieldCheck::new(context.clone()),
        }
    }

    /// Moves to the first entry of the next range that has one, unless the current one goes on; false at the
    /// end.
    pub fn find_entry(&mut self) -> Result<bool> {
        while !self.is_before(&self.range_end) {
            let Some(range) = self.entries.ranges.get(self.next_range) else {
                return Ok(false);
            };
            self.next_range += 1;
            let start = self.entries.tree.key(&range.start);
            self.range_end = self.entries.tree.key(&range.end).to_vec();
            if !self.is_on_entry || self.scan.entry().0 < &start[..] {
                self.seek(&start)?;
            }
        }
        Ok(true)
    }

    /// The current entry, its key with the tree's prefix.
    pub fn entry(&self) -> (&[u8], &[u8]) {
        self.scan.entry()
    }

    /// Makes `limit` the end of the range if it lies behind that.
    pub fn clamp(&self, limit: &mut Vec<u8>) {
        if self.range_end < *limit {
            limit.clone_from(&self.range_end);
        }
    }

    /// Whether the walk is on an entry before `limit`.
    pub fn is_before(&self, limit: &[u8]) -> bool {
        self.is_on_entry && self.scan.entry().0 < limit
    }

    /// Goes to the next entry.
    pub fn step(&mut self) -> Result<()> {
        self.yield_check.step_key()?;
        self.is_on_entry = self.scan.advance()?;
        Ok(())
    }

    /// Goes to the first entry from `limit` on.
    pub fn pass(&mut self, limit: &[u8]) -> Result<()> {
        for _ in 0..STEPS_BEFORE_SEEK {
            self.step()?;
            if !self.is_before(limit) {
                return Ok(());
            }
        }
        self.seek(limit)
    }

    /// Goes to the first entry from `limit` on; the number of entries passed, and how many of them the
    /// rank index counted.
    pub fn count_to(&mut self, limit: &[u8], known: &Known<'_>) -> Result<(u64, u64)> {
        let mut passed = 0;
        // Behind a long key run another one is likely: the rank index is asked at once.
        let patience = if self.has_jumped {
            0
        } else {
            STEPS_BEFORE_SEEK
        };
        for _ in 0..patience {
            self.step()?;
            passed += 1;
            if !self.is_before(limit) {
                return Ok((passed, 0));
            }
        }
        let jump = known.jump(self.scan.entry().0, limit);
        let jump = jump.filter(|jump| jump.entries > STEPS_BEFORE_SEEK);
        self.has_jumped = jump.is_some();
        let Some(jump) = jump else {
            return Ok((passed + self.step_to(limit)?, 0));
        };
        passed += self.step_to(&jump.from)? + jump.entries;
        self.seek(&jump.to)?;
        passed += self.step_to(limit)?;
        Ok((passed, jump.entries))
    }

    fn step_to(&mut self, limit: &[u8]) -> Result<u64> {
        let mut steps = 0;
        while self.is_before(limit) {
            self.step()?;
            steps += 1;
        }
        Ok(steps)
    }

    fn seek(&mut self, key: &[u8]) -> Result<()> {
        self.scan.seek(key);
        self.is_on_entry = self.scan.advance()?;
        Ok(())
    }
}

/// What a rank index knows of the entries of a walk.
pub(super) struct Known<'s> {
    pub tree: TreeKey,
    pub ranks: &'s RankIndex,
}

/// Entries that need not be read: those from `from` up to `to`.
struct Jump {
    from: Vec<u8>,
    to: Vec<u8>,
    entries: u64,
}

impl Known<'_> {
    /// The whole buckets between two keys, which have the tree's prefix.
    fn jump(&self, start: &[u8], end: &[u8]) -> Option<Jump> {
        let (mut from, mut to) = (start.to_vec(), end.to_vec());
        let key = |bytes: &[u8]| self.tree.key(bytes).to_vec();
        let (start, end) = (TreeKey::strip(start), TreeKey::strip(end));
        let mut partial = |partial: PartialBucket<'_>| match partial.end {
            Some(behind) if partial.start == start => from = key(behind),
            _ => to = key(partial.start),
        };
        let entries =
            self.ranks
                .count_from(&mut SearchHint::default(), start, Some(end), &mut partial)?;
        Some(Jump { from, to, entries })
    }
}
