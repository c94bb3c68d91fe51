//! Draws documents uniformly at random from what an access path matches, by rank.
//!
//! Everything that matches is numbered: first the entries that had to be looked at anyway (pieces of
//! ranges at the ends, an area's border), then those in whole ranges of the summary, by their rank in
//! the tree. A pseudo-random order of these numbers gives the sample; the summary says where the entry
//! of a rank is, and a few steps from the first of its range lead to it. Conditions that entries do
//! not prove are tested on the documents, and the draw goes on until enough passed: what passes is
//! still uniform.

use super::counted::{Pieces, TreeRanges};
use super::permutation::Permutation;
use super::{
    Context, Entries, Entry, FetchRows, FilterRows, LimitRows, Pacer, Row, Rows, corrupt_document,
    corrupt_entry,
};
use super::{counted_area, parallel};
use crate::catalog::{Collection, Index, Moment, Tree};
use crate::error::Result;
use crate::index::summary::{Run, Summary};
use crate::plan::{Access, Plan};
use crate::storage::{Family, Order, Scan, Snapshot, Store};
use bson::raw::RawDocument;
use std::sync::Arc;

/// The next entry is stepped to when it is at most this far; further, it is searched.
const STEPS_BEFORE_SEEK: u64 = 40;
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

/// Everything that a sample may be drawn from, numbered.
struct Population {
    family: Family,
    tree: Tree,
    index: Option<Arc<Index>>,
    /// Encoded `_id`s that were looked at: numbers from 0 on.
    listed: Vec<Vec<u8>>,
    /// First rank of each run of whole ranges, and the number behind its last entry's.
    runs: Vec<(u64, u64)>,
}

impl Population {
    fn of(
        access: &Access,
        collection: &Collection,
        moment: &Moment<'_>,
        context: &Context,
    ) -> Result<Option<Self>> {
        if let Access::Geo(access) = access {
            let Some(taken) = counted_area::take(access, moment) else {
                return Ok(None);
            };
            let mut population = Self::new(
                Family::Indexes,
                access.index.tree,
                Some(access.index.clone()),
            );
            let matches = counted_area::entry_test(access);
            population.list(&taken.pieces, moment, context, &matches)?;
            population.add_runs(&taken.runs);
            return Ok(Some(population));
        }
        let Some(ranges) = TreeRanges::of(access, collection) else {
            return Ok(None);
        };
        let Some((runs, pieces)) = ranges.runs(moment) else {
            return Ok(None);
        };
        let mut population = Self::new(ranges.family, ranges.tree, ranges.index.clone());
        population.list(&pieces, moment, context, &|(), _| true)?;
        population.add_runs(&runs);
        Ok(Some(population))
    }

    fn new(family: Family, tree: Tree, index: Option<Arc<Index>>) -> Self {
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
        pieces: &Pieces<M>,
        moment: &Moment<'_>,
        context: &Context,
        test: &dyn Fn(M, &[u8]) -> bool,
    ) -> Result<()> {
        let (mut listed, mut failed) = (Vec::new(), None);
        pieces.each(&moment.snapshot, context, &mut |mark, key, value| {
            if test(mark, value) {
                match self.id_of(key) {
                    Ok(id) => listed.push(id.to_vec()),
                    Err(error) => failed = Some(error),
                }
            }
        })?;
        self.listed = listed;
        failed.map_or(Ok(()), Err)
    }

    fn add_runs(&mut self, runs: &[Run]) {
        let mut end = self.listed.len() as u64;
        for run in runs.iter().filter(|run| run.entries > 0) {
            end += run.entries;
            self.runs.push((run.first_rank, end));
        }
    }

    fn count(&self) -> u64 {
        self.runs
            .last()
            .map_or(self.listed.len() as u64, |run| run.1)
    }

    /// The rank in the tree of a number; `None` for one of the listed.
    fn rank(&self, number: u64) -> Option<u64> {
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
    fn id_of<'k>(&self, key: &'k [u8]) -> Result<&'k [u8]> {
        let key = &key[4..];
        match &self.index {
            None => Ok(key),
            Some(index) => {
                let at = index.layout.fields_length(key);
                Ok(&key[at.ok_or_else(corrupt_entry)?..])
            }
        }
    }
}

/// Where a drawn entry is.
struct Target {
    /// Which of the batch.
    slot: usize,
    rank: u64,
    /// First key of its range, in a common buffer, and the entries before it there.
    start: std::ops::Range<usize>,
    offset: u32,
}

/// Entries that were drawn: their identifiers and, if they are kept, documents.
#[derive(Default)]
struct Drawn {
    parts: Vec<DrawnPart>,
    /// Where each is, in the order of the draw: which part, and there.
    places: Vec<(usize, Place)>,
}

/// Some of the drawn entries in the order in which they were read.
#[derive(Default)]
struct DrawnPart {
    /// Identifiers and documents, one behind the other.
    bytes: Vec<u8>,
    /// Which of the draw each is, and where.
    entries: Vec<(usize, Place)>,
}

/// Where an entry is in its part; its document ends where the next begins.
#[derive(Clone, Copy, Default)]
struct Place {
    id_at: usize,
    document_at: usize,
    end: usize,
}

impl DrawnPart {
    fn push(&mut self, slot: usize, id: &[u8], document: &[u8]) {
        let id_at = self.bytes.len();
        self.bytes.extend_from_slice(id);
        let document_at = self.bytes.len();
        self.bytes.extend_from_slice(document);
        let place = Place {
            id_at,
            document_at,
            end: self.bytes.len(),
        };
        self.entries.push((slot, place));
    }
}

impl Drawn {
    fn new(parts: Vec<DrawnPart>, size: usize) -> Self {
        let mut places = vec![(0, Place::default()); size];
        for (number, part) in parts.iter().enumerate() {
            for (slot, place) in &part.entries {
                places[*slot] = (number, *place);
            }
        }
        Self { parts, places }
    }

    fn id(&self, number: usize) -> &[u8] {
        let (part, place) = self.places[number];
        &self.parts[part].bytes[place.id_at..place.document_at]
    }

    fn document(&self, number: usize) -> &[u8] {
        let (part, place) = self.places[number];
        &self.parts[part].bytes[place.document_at..place.end]
    }
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
        if self.next >= self.found.places.len() {
            self.found = Drawn::default();
            self.next = 0;
            self.draw_more()?;
        }
        self.next += 1;
        Ok(self.next <= self.found.places.len())
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

    /// The entries of targets, many of them as two halves.
    fn read(&self, keys: &[u8], targets: &[Target]) -> Result<Vec<DrawnPart>> {
        if targets.len() < PARALLEL_TARGETS {
            return Ok(vec![self.read_part(keys, targets)?]);
        }
        let (low, high) = targets.split_at(targets.len() / 2);
        let (a, b) = parallel::join(|| self.read_part(keys, low), || self.read_part(keys, high));
        Ok(vec![a?, b?])
    }

    fn read_part(&self, keys: &[u8], targets: &[Target]) -> Result<DrawnPart> {
        let mut walk = RankWalk::new(self);
        let mut part = DrawnPart::default();
        part.entries.reserve(targets.len());
        if self.keeps_documents {
            // Growing would copy everything several times.
            let each = self.mean_bytes + self.mean_bytes / 16 + ID_BYTES;
            part.bytes.reserve(targets.len() * each);
        }
        for target in targets {
            walk.go_to(target, &keys[target.start.clone()])?;
            let (key, value) = walk.scan.entry();
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

/// A scan that knows the rank of its entry.
struct RankWalk {
    scan: Scan,
    rank: Option<u64>,
    pacer: Pacer,
}

impl RankWalk {
    fn new(entries: &SampledEntries) -> Self {
        let population = &entries.population;
        let (start, end) = population.tree.range();
        let snapshot = &entries.snapshot;
        Self {
            scan: snapshot.scan(population.family, &start, &end, Order::Forward),
            rank: None,
            pacer: Pacer::new(entries.context.clone()),
        }
    }

    /// Moves to a target behind the current entry.
    fn go_to(&mut self, target: &Target, range_start: &[u8]) -> Result<()> {
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
}

/// Where the entries of ascending ranks are; the keys of their ranges lie in one buffer.
fn locate(summary: &Summary, tree: Tree, ranks: &[(u64, usize)]) -> (Vec<u8>, Vec<Target>) {
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
