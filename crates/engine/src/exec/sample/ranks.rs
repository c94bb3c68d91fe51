//! From ranks to entries: the ranges of the rank index they lie in, and a walk to those that are not kept.

use super::Population;
use crate::error::Result;
use crate::exec::cached::PackedEntries;
use crate::exec::{Context, STEPS_BEFORE_SEEK, YieldCheck, corrupt_entry};
use crate::rank::{BucketBounds, RankIndex, SelectedEntry};
use crate::storage::{Order, Scan, Snapshot, TreeKey};
use std::ops::Range;
use std::sync::Arc;

/// A drawn entry.
pub(super) struct DrawnEntry {
    /// Which of the batch.
    pub slot: usize,
    /// Entries before it in its range.
    pub offset: u32,
}

/// A range of the rank index in which drawn entries lie.
pub(super) struct TargetRange {
    /// All its entries, if they are cached.
    pub cached: Option<Arc<PackedEntries>>,
    pub entries: u32,
    /// Rank of its first entry.
    rank: u64,
    /// Its first key, with the tree's prefix, and the first key behind it, without, in a common buffer.
    start: Range<usize>,
    end: Option<Range<usize>>,
    /// Which of the targets.
    targets: Range<usize>,
}

/// Drawn entries by rank.
pub(super) struct Targets {
    keys: Vec<u8>,
    targets: Vec<DrawnEntry>,
    pub ranges: Vec<TargetRange>,
    /// Whether they are so near to one another that a walk meets all entries between them.
    pub are_neighbours: bool,
}

impl Targets {
    /// Where the entries of ascending ranks are, each with its slot.
    pub fn locate(index: &RankIndex, population: &Population, ranks: &[(u64, usize)]) -> Self {
        let (first, last) = (ranks.first(), ranks.last());
        let span = last.zip(first).map_or(0, |(last, first)| last.0 - first.0);
        let mut located = Self {
            keys: Vec::new(),
            targets: Vec::with_capacity(ranks.len()),
            ranges: Vec::new(),
            are_neighbours: span <= STEPS_BEFORE_SEEK * ranks.len() as u64,
        };
        let wanted: Vec<u64> = ranks.iter().map(|rank| rank.0).collect();
        index.select(&wanted, &mut |selected| {
            let (rank, slot) = ranks[located.targets.len()];
            let first_rank = rank - u64::from(selected.offset);
            if located
                .ranges
                .last()
                .is_none_or(|last| last.rank != first_rank)
            {
                located.add_range(&selected, population, first_rank);
            }
            located.targets.push(DrawnEntry {
                slot,
                offset: selected.offset,
            });
            if let Some(range) = located.ranges.last_mut() {
                range.targets.end += 1;
            }
        });
        located
    }

    fn add_range(&mut self, selected: &SelectedEntry<'_>, population: &Population, rank: u64) {
        let mut add = |parts: &[&[u8]]| {
            let start = self.keys.len();
            parts
                .iter()
                .for_each(|part| self.keys.extend_from_slice(part));
            start..self.keys.len()
        };
        self.ranges.push(TargetRange {
            cached: selected.bucket.cached(),
            entries: selected.bucket.entries(),
            rank,
            start: add(&[&population.tree.prefix()[..], &selected.bucket.start()]),
            end: selected.bucket.end().map(|end| add(&[&end])),
            targets: self.targets.len()..self.targets.len(),
        });
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.targets.len()
    }

    /// Those in a range.
    pub fn within(&self, range: &TargetRange) -> &[DrawnEntry] {
        &self.targets[range.targets.clone()]
    }

    /// Where a range begins and ends.
    pub fn bounds(&self, range: &TargetRange) -> BucketBounds {
        let end = range.end.clone().map(|end| self.keys[end].to_vec());
        BucketBounds {
            start: TreeKey::strip(&self.keys[range.start.clone()]).to_vec(),
            end,
            entries: range.entries,
        }
    }
}

/// A scan that knows the rank of its entry.
pub(super) struct RankWalk<'p> {
    population: &'p Population,
    targets: &'p Targets,
    scan: Scan,
    rank: Option<u64>,
    yield_check: YieldCheck,
}

impl<'p> RankWalk<'p> {
    pub fn new(
        population: &'p Population,
        targets: &'p Targets,
        snapshot: &Snapshot,
        context: &Context,
    ) -> Self {
        let (start, end) = population.tree.range();
        Self {
            population,
            targets,
            scan: snapshot.scan(population.family, &start, &end, Order::Forward),
            rank: None,
            yield_check: YieldCheck::new(context.clone()),
        }
    }

    /// Moves to an entry of a range, which is behind the current one.
    pub fn go_to(&mut self, range: &TargetRange, offset: u32) -> Result<()> {
        let wanted = range.rank + u64::from(offset);
        let near = self
            .rank
            .map(|rank| wanted - rank)
            .filter(|steps| *steps <= STEPS_BEFORE_SEEK);
        let steps = match near {
            Some(steps) => steps,
            None => {
                self.scan.seek(&self.targets.keys[range.start.clone()]);
                u64::from(offset) + 1
            }
        };
        for _ in 0..steps {
            self.yield_check.step_key()?;
            if !self.scan.advance()? {
                return Err(corrupt_entry());
            }
        }
        self.rank = Some(wanted);
        Ok(())
    }

    /// Identifier and value of the entry moved to.
    pub fn entry(&self) -> Result<(&[u8], &[u8])> {
        let (key, value) = self.scan.entry();
        Ok((self.population.id_of(key)?, value))
    }

    /// Counts entries that were found without it.
    pub fn note_found(&mut self, entries: usize) -> Result<()> {
        self.yield_check.step_keys(entries)
    }
}
