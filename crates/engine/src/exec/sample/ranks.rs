//! From ranks to entries: where the summary says that they are, and a walk to them.

use super::Population;
use crate::catalog::Tree;
use crate::error::Result;
use crate::exec::{Context, Pacer, corrupt_entry};
use crate::index::summary::Summary;
use crate::storage::{Order, Scan, Snapshot};

/// The next entry is stepped to when it is at most this far; further, it is searched.
const STEPS_BEFORE_SEEK: u64 = 40;

/// Where a drawn entry is.
pub(super) struct Target {
    /// Which of the batch.
    pub slot: usize,
    pub rank: u64,
    /// First key of its range, in a common buffer, and the entries before it there.
    pub start: std::ops::Range<usize>,
    offset: u32,
}

/// A scan that knows the rank of its entry.
pub(super) struct RankWalk {
    scan: Scan,
    rank: Option<u64>,
    pacer: Pacer,
}

impl RankWalk {
    pub fn new(population: &Population, snapshot: &Snapshot, context: &Context) -> Self {
        let (start, end) = population.tree.range();
        Self {
            scan: snapshot.scan(population.family, &start, &end, Order::Forward),
            rank: None,
            pacer: Pacer::new(context.clone()),
        }
    }

    /// Moves to a target behind the current entry.
    pub fn go_to(&mut self, target: &Target, range_start: &[u8]) -> Result<()> {
        let near = self
            .rank
            .map(|rank| target.rank - rank)
            .filter(|steps| *steps <= STEPS_BEFORE_SEEK);
        let steps = match near {
            Some(steps) => steps,
            None => {
                self.scan.seek(range_start);
                u64::from(target.offset) + 1
            }
        };
        for _ in 0..steps {
            self.pacer.step_key()?;
            if !self.scan.advance()? {
                return Err(corrupt_entry());
            }
        }
        self.rank = Some(target.rank);
        Ok(())
    }

    /// Key and value of the entry moved to.
    pub fn entry(&self) -> (&[u8], &[u8]) {
        self.scan.entry()
    }
}

/// Where the entries of ascending ranks are; the keys of their ranges lie in one buffer.
pub(super) fn locate(
    summary: &Summary,
    tree: Tree,
    ranks: &[(u64, usize)],
) -> (Vec<u8>, Vec<Target>) {
    let mut keys: Vec<u8> = Vec::new();
    let mut last = 0..0;
    let mut targets = Vec::with_capacity(ranks.len());
    let wanted: Vec<u64> = ranks.iter().map(|rank| rank.0).collect();
    summary.select(&wanted, &mut |selected| {
        let is_same = last.len() >= 4 && keys[last.start + 4..last.end] == *selected.start;
        if !is_same {
            last = keys.len()..keys.len() + 4 + selected.start.len();
            keys.extend_from_slice(&tree.prefix());
            keys.extend_from_slice(selected.start);
        }
        let (rank, slot) = ranks[targets.len()];
        targets.push(Target {
            slot,
            rank,
            start: last.clone(),
            offset: selected.offset,
        });
    });
    (keys, targets)
}
