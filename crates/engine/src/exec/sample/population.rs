//! What a sample may be drawn from: everything that an access path matches, numbered.

use crate::catalog::Index;
use crate::error::Result;
use crate::exec::counted::{PartialBuckets, as_planned};
use crate::exec::{Context, corrupt_entry, counted_area};
use crate::plan::Countable;
use crate::rank::RankInterval;
use crate::rank::ReadView;
use crate::storage::{Family, TreeKey};
use std::sync::Arc;

/// Everything that a sample may be drawn from, numbered.
pub(super) struct Population {
    pub family: Family,
    pub tree: TreeKey,
    pub index: Option<Arc<Index>>,
    /// Encoded `_id`s that were looked at: numbers from 0 on.
    pub listed: Vec<Vec<u8>>,
    /// First rank of each run of whole ranges, and the number behind its last entry's.
    runs: Vec<(u64, u64)>,
}

impl Population {
    /// Numbers what a plan found that the rank index counts.
    pub fn of(countable: &Countable, view: &ReadView, context: &Context) -> Result<Self> {
        match countable {
            Countable::Area(access) => {
                let taken = as_planned(counted_area::take(access, view))?;
                let index = &access.index;
                let mut population = Self::new(Family::Indexes, index.tree, Some(index.clone()));
                let matches = counted_area::entry_test(access);
                population.list(&taken.partial, view, context, &matches)?;
                population.add_runs(&taken.runs);
                Ok(population)
            }
            Countable::Ranges(ranges) => {
                let (runs, partial) = as_planned(ranges.runs(view))?;
                view.unpin();
                let mut population = Self::new(ranges.family, ranges.tree, ranges.index.clone());
                population.list(&partial, view, context, &|(), _| true)?;
                population.add_runs(&runs);
                Ok(population)
            }
        }
    }

    fn new(family: Family, tree: TreeKey, index: Option<Arc<Index>>) -> Self {
        Self {
            family,
            tree,
            index,
            listed: Vec::new(),
            runs: Vec::new(),
        }
    }

    fn list<M: Copy + Sync>(
        &mut self,
        partial: &PartialBuckets<M>,
        view: &ReadView,
        context: &Context,
        test: &dyn Fn(M, &[u8]) -> bool,
    ) -> Result<()> {
        let (mut listed, mut failed) = (Vec::new(), None);
        partial.each(view.snapshot(), context, &mut |stamp, key, value| {
            if test(stamp, value) {
                match self.id_of(key) {
                    Ok(id) => listed.push(id.to_vec()),
                    Err(error) => failed = Some(error),
                }
            }
        })?;
        self.listed = listed;
        failed.map_or(Ok(()), Err)
    }

    fn add_runs(&mut self, runs: &[RankInterval]) {
        let mut end = self.listed.len() as u64;
        for run in runs.iter().filter(|run| run.entries > 0) {
            end += run.entries;
            self.runs.push((run.first_rank, end));
        }
    }

    pub fn count(&self) -> u64 {
        self.runs
            .last()
            .map_or(self.listed.len() as u64, |run| run.1)
    }

    /// The rank in the tree of a number; `None` for one of the listed.
    pub fn rank(&self, number: u64) -> Option<u64> {
        if number < self.listed.len() as u64 {
            return None;
        }
        let run = self.runs.partition_point(|run| run.1 <= number);
        let before = match run {
            0 => self.listed.len() as u64,
            _ => self.runs[run - 1].1,
        };
        Some(self.runs[run].0 + number - before)
    }

    /// The encoded `_id` at the end of a key of the tree.
    pub fn id_of<'k>(&self, key: &'k [u8]) -> Result<&'k [u8]> {
        let key = TreeKey::strip(key);
        match &self.index {
            None => Ok(key),
            Some(index) => {
                let at = index.layout.fields_length(key);
                Ok(&key[at.ok_or_else(corrupt_entry)?..])
            }
        }
    }
}
