//! Draws documents uniformly at random from what an access path matches, by rank.
//!
//! Everything that matches is numbered: first the entries that had to be looked at anyway (partial buckets
//! at the ends, an area's boundary), then those in whole buckets, by their rank in
//! the tree. A pseudo-random order of these numbers gives the sample; the rank index says where the entry
//! of a rank is, and a few steps from the first of its range lead to it. Ranges of an index, and those of
//! the documents, that a sample walks from end to end are cached in memory, so that the next one needs no
//! steps there. Conditions that entries do not prove are tested on the documents, and the draw goes on
//! until enough passed: what passes is still uniform.

mod drawn;
mod permutation;
mod population;
mod ranks;

use super::cached::{CachedTree, ReadDocuments, ReadIdentifiers};
use super::counted::as_planned;
use super::row_buffers::BufferLayout;
use super::{Context, Entries, Entry, FetchRows, FilterRows, LimitRows, Row, Rows, parallel};
use crate::catalog::{Collection, CollectionState};
use crate::error::Result;
use crate::plan::{Access, Countable, Plan, SampleSize};
use crate::rank::{CACHED_ENTRIES_MAX, RankIndex, ReadView};
use crate::storage::{Family, Snapshot};
use bson::raw::RawDocument;
use drawn::{Drawn, DrawnPart};
use permutation::Permutation;
use population::Population;
use ranks::{RankWalk, TargetRange, Targets};
use std::sync::Arc;

/// Entries looked for at once; half of them on another core.
const BATCH: u64 = 65_536;
const PARALLEL_TARGETS: usize = 512;
/// Documents that a walk over them meets are cached, when they are not more than this.
const KEPT_BYTES_MAX: u64 = 64 * 1024 * 1024;
/// Bytes of an identifier, about.
const ID_BYTES: usize = 16;

/// A sample that is about to be read.
pub struct Sample {
    /// The documents, in random order.
    pub rows: Box<dyn Rows>,
    /// How many documents, or entries that are still to be tested, it was drawn from.
    pub population: u64,
}

/// Draws from what a plan matches whose entries a rank index numbers.
///
/// # Errors
/// Storage failures, time limits.
pub fn sample(
    plan: &Plan,
    wanted: SampleSize,
    countable: &Countable,
    collection: &Collection,
    view: &ReadView,
    context: &Context,
) -> Result<Sample> {
    // Asked for now, since what the population needs is read when commits go on.
    view.stamp(collection.documents);
    let population = Population::of(countable, view, context)?;
    let ranks = as_planned(view.ranks(population.tree))?;
    let count = population.count();
    let seed = wanted.seed.unwrap_or_else(rand::random);
    let unproven = plan.unproven();
    let tests_documents = unproven.is_some();
    let state = &collection.state;
    let mean_bytes = state.mean_document_bytes();
    let is_small = wanted.size.saturating_mul(mean_bytes as u64) <= KEPT_BYTES_MAX;
    let keeps_documents = population.index.is_none() && !tests_documents && is_small;
    let mut entries = SampledEntries {
        order: Permutation::new(count, seed),
        drawn: 0,
        found: Drawn::default(),
        keeps_documents,
        mean_bytes,
        next: 0,
        batch: wanted.size.clamp(1, BATCH),
        ranks: None,
        snapshot: view.snapshot().clone(),
        context: context.clone(),
        population,
    };
    let snapshot = view.snapshot().clone();
    let documents = CachedTree::of(Family::Documents, collection.documents, view, state);
    if !tests_documents && wanted.size <= BATCH {
        let located = entries.locate(&ranks, wanted.size);
        let cached = entries.cached_tree(&plan.access, view, state);
        // What is cached now changes the rank index: nobody here holds it.
        drop(ranks);
        view.end_counts();
        entries.read(&located, cached.as_ref())?;
        entries.batch = 0;
    } else {
        // What else may be drawn later has to be drawn from the same point in time.
        entries.ranks = Some(ranks);
        view.end_counts();
    }
    let first_wanted = |rows| Sample {
        rows: Box::new(LimitRows::new(rows, 0, Some(wanted.size))),
        population: count,
    };
    if keeps_documents {
        return Ok(first_wanted(Box::new(entries)));
    }
    let fetched = FetchRows::new(
        Box::new(entries),
        snapshot,
        collection.documents,
        None,
        (!tests_documents).then_some(wanted.size),
        mean_bytes,
        context.clone(),
    );
    let mut rows: Box<dyn Rows> = Box::new(fetched.cached(documents));
    if let Some(unproven) = unproven {
        rows = Box::new(FilterRows::new(rows, unproven));
    }
    Ok(first_wanted(rows))
}

/// The places of a batch of the order.
struct LocatedBatch {
    size: usize,
    /// Of entries that were looked at: their numbers and which of the batch they are.
    listed: Vec<(usize, usize)>,
    targets: Targets,
}

/// Entries in the order of the draw.
struct SampledEntries {
    population: Population,
    order: Permutation,
    drawn: u64,
    found: Drawn,
    /// Whether the entries are documents, which need not be read again.
    keeps_documents: bool,
    /// Of a document.
    mean_bytes: usize,
    /// Behind the current entry in `found`.
    next: usize,
    /// Size of the next batch; 0 when all is drawn.
    batch: u64,
    ranks: Option<Arc<RankIndex>>,
    snapshot: Snapshot,
    context: Context,
}

impl SampledEntries {
    /// The tree that is drawn from, where what is read of it is worth caching.
    fn cached_tree(
        &self,
        access: &Access,
        view: &ReadView,
        state: &Arc<CollectionState>,
    ) -> Option<CachedTree> {
        let Population { family, tree, .. } = self.population;
        let cached = CachedTree::of(family, tree, view, state)?;
        let is_cached = match access {
            // What is cached of a geo index is for areas and searches.
            Access::Geo(_) => false,
            _ if self.population.index.is_some() => true,
            // Documents cost more to cache than identifiers.
            _ => {
                let bytes = self
                    .population
                    .count()
                    .saturating_mul(self.mean_bytes as u64);
                self.keeps_documents && cached.cache().admits(bytes)
            }
        };
        is_cached.then_some(cached)
    }

    /// Moves to the next entry of the draw.
    fn next_found(&mut self) -> Result<bool> {
        if self.next >= self.found.len() {
            self.found = Drawn::default();
            self.next = 0;
            self.draw_more()?;
        }
        let is_found = self.next < self.found.len();
        if is_found {
            self.found.fetch(self.next);
            self.next += 1;
        }
        Ok(is_found)
    }

    fn draw_more(&mut self) -> Result<()> {
        let Some(ranks) = self.ranks.take() else {
            return Ok(());
        };
        let batch = self.batch;
        self.batch = (batch * 2).min(BATCH);
        let located = self.locate(&ranks, batch);
        self.ranks = Some(ranks);
        self.read(&located, None)
    }

    /// Where the next `size` entries of the order are.
    fn locate(&mut self, index: &RankIndex, size: u64) -> LocatedBatch {
        let end = (self.drawn + size).min(self.population.count());
        let numbers = (self.drawn..end).map(|place| self.order.at(place));
        let size = (end - self.drawn) as usize;
        let (mut ranks, mut listed) = (Vec::with_capacity(size), Vec::new());
        for (slot, number) in numbers.enumerate() {
            match self.population.rank(number) {
                Some(rank) => ranks.push((rank, slot)),
                None => listed.push((number as usize, slot)),
            }
        }
        // No two are the same.
        ranks.sort_unstable_by_key(|(rank, _)| *rank);
        self.drawn = end;
        LocatedBatch {
            size,
            listed,
            targets: Targets::locate(index, &self.population, &ranks),
        }
    }

    /// Reads these entries: they are handed out next.
    fn read(&mut self, located: &LocatedBatch, cached: Option<&CachedTree>) -> Result<()> {
        let layout = self.layout(located.size);
        let mut listed = DrawnPart::new(layout, located.listed.len());
        for (number, slot) in &located.listed {
            self.read_listed(*number, *slot, &mut listed)?;
        }
        let mut parts = self.read_targets(&located.targets, layout, cached)?;
        parts.push(listed);
        self.found = Drawn::new(layout, parts, located.size);
        self.next = 0;
        Ok(())
    }

    /// How so many entries are put into buffers.
    fn layout(&self, entries: usize) -> BufferLayout {
        let document = if self.keeps_documents {
            self.mean_bytes
        } else {
            0
        };
        BufferLayout::of(entries, ID_BYTES + document)
    }

    /// Adds one of the entries that were looked at.
    fn read_listed(&self, number: usize, slot: usize, part: &mut DrawnPart) -> Result<()> {
        let id = &self.population.listed[number];
        let mut document = Vec::new();
        if self.keeps_documents {
            let key = self.population.tree.key(id);
            let read = |bytes: &[u8]| document.extend_from_slice(bytes);
            self.snapshot.get(Family::Documents, &key, read)?;
        }
        part.push(slot, id, &document)
    }

    /// The entries of targets, many of them in parts.
    fn read_targets(
        &self,
        targets: &Targets,
        layout: BufferLayout,
        cached: Option<&CachedTree>,
    ) -> Result<Vec<DrawnPart>> {
        // What lies apart is not walked from end to end.
        let cached = cached.filter(|_| targets.are_neighbours);
        if targets.len() < PARALLEL_TARGETS {
            let all = &targets.ranges;
            return Ok(vec![self.read_part(targets, all, layout, cached)?]);
        }
        let read = |ranges: &[TargetRange]| self.read_part(targets, ranges, layout, cached);
        let parts = parallel::in_parts(&targets.ranges, read)?;
        Ok(parts.into_iter().map(|(part, _)| part).collect())
    }

    fn read_part(
        &self,
        targets: &Targets,
        ranges: &[TargetRange],
        layout: BufferLayout,
        cached: Option<&CachedTree>,
    ) -> Result<DrawnPart> {
        let mut walk = RankWalk::new(&self.population, targets, &self.snapshot, &self.context);
        let entries = ranges.iter().map(|range| targets.within(range).len());
        let mut part = DrawnPart::new(layout, entries.sum());
        let mut reader = cached.map(|cached| cached.reader(&self.context));
        for range in ranges {
            let wanted = targets.within(range);
            let mut found = range.cached.clone();
            if let (None, Some(reader)) = (&found, &mut reader)
                && range.entries <= CACHED_ENTRIES_MAX
            {
                let bounds = targets.bounds(range);
                found = match &self.population.index {
                    Some(index) => reader.read(&bounds, ReadIdentifiers::new(&index.layout))?,
                    None => {
                        reader.read(&bounds, ReadDocuments::new(range.entries, self.mean_bytes))?
                    }
                };
            }
            if let Some(found) = found {
                walk.note_found(wanted.len())?;
                part.push_all(wanted, &found, self.keeps_documents)?;
                continue;
            }
            for target in wanted {
                walk.go_to(range, target.offset)?;
                let (id, value) = walk.entry()?;
                let document: &[u8] = if self.keeps_documents { value } else { &[] };
                part.push(target.slot, id, document)?;
            }
        }
        Ok(part)
    }
}

impl Rows for SampledEntries {
    fn advance(&mut self) -> Result<bool> {
        let found = self.next_found()?;
        self.context.counters.add_documents(u64::from(found));
        Ok(found)
    }

    fn row(&self) -> Row<'_> {
        let number = self.next - 1;
        Row {
            id: self.found.id(number),
            document: RawDocument::from_bytes(self.found.document(number))
                .expect("documents are checked when they are kept"),
        }
    }
}

impl Entries for SampledEntries {
    fn advance(&mut self) -> Result<bool> {
        self.next_found()
    }

    fn entry(&self) -> Entry<'_> {
        Entry {
            key: self.found.id(self.next - 1),
            value: &[],
            layout: None,
        }
    }

    /// All that was drawn has been read.
    fn suspend(&mut self) {}
}
