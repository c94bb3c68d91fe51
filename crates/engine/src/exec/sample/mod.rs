//! Draws documents uniformly at random from what an access path matches, by rank.
//!
//! Everything that matches is numbered: first the entries that had to be looked at anyway (pieces of
//! ranges at the ends, an area's border), then those in whole ranges of the summary, by their rank in
//! the tree. A pseudo-random order of these numbers gives the sample; the summary says where the entry
//! of a rank is, and a few steps from the first of its range lead to it. Conditions that entries do
//! not prove are tested on the documents, and the draw goes on until enough passed: what passes is
//! still uniform.

mod drawn;
mod permutation;
mod population;
mod ranks;

use super::{
    Context, Entries, Entry, FetchRows, FilterRows, LimitRows, Row, Rows, corrupt_document,
    parallel,
};
use crate::catalog::Collection;
use crate::error::Result;
use crate::index::summary::Summary;
use crate::plan::Plan;
use crate::storage::{Family, Snapshot, Store};
use bson::raw::RawDocument;
use drawn::{Drawn, DrawnPart};
use permutation::Permutation;
use population::Population;
use ranks::{RankWalk, Target, locate};

/// Entries looked for at once; half of them on another core.
const BATCH: u64 = 65_536;
const PARALLEL_TARGETS: usize = 512;
/// Documents that a walk over them meets are kept, when they are not more than this.
const KEPT_BYTES_MAX: u64 = 64 * 1024 * 1024;
/// Bytes of an identifier, about.
const ID_BYTES: usize = 16;

/// What a `$sample` asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SampleSize {
    /// Documents wanted.
    pub size: u64,
    /// Determines the draw; without it every draw differs.
    pub seed: Option<u64>,
}

/// A sample that is about to be read.
pub struct Sample {
    /// The documents, in random order.
    pub rows: Box<dyn Rows>,
    /// How many documents, or entries that are still to be tested, it was drawn from.
    pub population: u64,
}

/// Draws from what a plan without sort, skip and limit matches; `None` when its entries cannot be
/// numbered (no summary yet, entries to be de-duplicated): then everything must be read.
///
/// # Errors
/// Storage failures, time limits.
pub fn sample(
    plan: &Plan,
    wanted: SampleSize,
    collection: &Collection,
    store: &Store,
    context: &Context,
) -> Result<Option<Sample>> {
    let moment = collection.state.counted().moment(store);
    let Some(population) = Population::of(&plan.access, collection, &moment, context)? else {
        return Ok(None);
    };
    let Some(summary) = moment.summary(population.tree) else {
        return Ok(None);
    };
    let count = population.count();
    let seed = wanted.seed.unwrap_or_else(rand::random);
    let unproven = plan.unproven();
    let tests_documents = unproven.is_some();
    let state = &collection.state;
    let mean_bytes = usize::try_from(state.bytes() / state.documents().max(1)).unwrap_or(0);
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
        summary: None,
        snapshot: moment.snapshot.clone(),
        context: context.clone(),
        population,
    };
    if !tests_documents && wanted.size <= BATCH {
        entries.draw(summary, wanted.size)?;
        entries.batch = 0;
    } else {
        // What else may be drawn later has to be drawn from the same point in time.
        entries.summary = Some(Box::new(summary.clone()));
    }
    let snapshot = moment.snapshot.clone();
    drop(moment);
    if keeps_documents {
        return Ok(Some(Sample {
            rows: Box::new(LimitRows::new(Box::new(entries), 0, Some(wanted.size))),
            population: count,
        }));
    }
    let mut rows: Box<dyn Rows> = Box::new(FetchRows::new(
        Box::new(entries),
        snapshot,
        collection.documents,
        None,
        (!tests_documents).then_some(wanted.size),
        mean_bytes,
        context.clone(),
    ));
    if let Some(unproven) = unproven {
        rows = Box::new(FilterRows::new(rows, unproven));
    }
    Ok(Some(Sample {
        rows: Box::new(LimitRows::new(rows, 0, Some(wanted.size))),
        population: count,
    }))
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
    summary: Option<Box<Summary>>,
    snapshot: Snapshot,
    context: Context,
}

impl SampledEntries {
    /// Moves to the next entry of the draw.
    fn next_found(&mut self) -> Result<bool> {
        if self.next >= self.found.len() {
            self.found = Drawn::default();
            self.next = 0;
            self.draw_more()?;
        }
        self.next += 1;
        Ok(self.next <= self.found.len())
    }

    fn draw_more(&mut self) -> Result<()> {
        let Some(summary) = self.summary.take() else {
            return Ok(());
        };
        let batch = self.batch;
        self.batch = (batch * 2).min(BATCH);
        let drawn = self.draw(&summary, batch);
        self.summary = Some(summary);
        drawn
    }

    /// Finds the next `size` entries of the order.
    fn draw(&mut self, summary: &Summary, size: u64) -> Result<()> {
        let end = (self.drawn + size).min(self.population.count());
        let numbers: Vec<u64> = (self.drawn..end)
            .map(|place| self.order.at(place))
            .collect();
        self.drawn = end;
        let mut ranks = Vec::with_capacity(numbers.len());
        let size = numbers.len();
        self.next = 0;
        let mut listed = DrawnPart::default();
        for (slot, number) in numbers.into_iter().enumerate() {
            match self.population.rank(number) {
                Some(rank) => ranks.push((rank, slot)),
                None => self.read_listed(number as usize, slot, &mut listed)?,
            }
        }
        ranks.sort_unstable();
        let (keys, targets) = locate(summary, self.population.tree, &ranks);
        let mut parts = self.read(&keys, &targets)?;
        parts.push(listed);
        self.found = Drawn::new(parts, size);
        Ok(())
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
        part.push(slot, id, &document);
        Ok(())
    }

    /// The entries of targets, many of them in parts.
    fn read(&self, keys: &[u8], targets: &[Target]) -> Result<Vec<DrawnPart>> {
        if targets.len() < PARALLEL_TARGETS {
            return Ok(vec![self.read_part(keys, targets)?]);
        }
        let parts = parallel::in_parts(targets, |targets| self.read_part(keys, targets))?;
        Ok(parts.into_iter().map(|(part, _)| part).collect())
    }

    fn read_part(&self, keys: &[u8], targets: &[Target]) -> Result<DrawnPart> {
        let mut walk = RankWalk::new(&self.population, &self.snapshot, &self.context);
        let mut part = DrawnPart::default();
        // Growing would copy everything several times.
        let each = match self.keeps_documents {
            true => self.mean_bytes + self.mean_bytes / 16 + ID_BYTES,
            false => 0,
        };
        part.reserve(targets.len(), each);
        for target in targets {
            walk.go_to(target, &keys[target.start.clone()])?;
            let (key, value) = walk.entry();
            let id = self.population.id_of(key)?;
            if self.keeps_documents {
                RawDocument::from_bytes(value).map_err(corrupt_document)?;
                part.push(target.slot, id, value);
            } else {
                part.push(target.slot, id, &[]);
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

    fn entry(&self) -> Result<Entry<'_>> {
        Ok(Entry {
            key: self.found.id(self.next - 1),
            id_at: 0,
            value: &[],
        })
    }
}
