//! The stages that keep documents until their input has ended: `$sort` and `$sample`.
//!
//! What outgrows its memory is sorted on disk, where that is allowed.
//!
//! In: documents, one at a time. Out: all of them or the first so many in order, or some of them by
//! chance, each with what was known of it beside its fields.

use super::executor::{Documents, Limits};
use crate::error::Result;
use crate::expression::NearMetadata;
use crate::expression::Variables;
use crate::expression::value::corrupt;
use crate::operation::memory::Reservation;
use crate::query::Sort;
use crate::sorter::{SpillSort, SpillSpace};
use bson::{RawDocument, RawDocumentBuf};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::borrow::Cow;
use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::sync::Arc;

/// A document that a step kept, and what was known of it beside its fields.
pub(super) struct Kept {
    pub document: RawDocumentBuf,
    pub near: Option<Arc<NearMetadata>>,
}

impl From<RawDocumentBuf> for Kept {
    fn from(document: RawDocumentBuf) -> Self {
        let near = None;
        Self { document, near }
    }
}

impl Kept {
    /// A document, with what is known of it here.
    pub fn new(document: Cow<'_, RawDocument>, variables: &Variables) -> Self {
        Self {
            document: document.into_owned(),
            near: variables.near().cloned(),
        }
    }

    /// The bytes by which it is spilled: whether there is metadata, the metadata, the document.
    ///
    /// ```text
    /// 0, document
    /// 1, distance (f64 LE), length of the location (u32 LE), location, document
    /// ```
    pub fn encode(&self) -> Vec<u8> {
        let document = self.document.as_bytes();
        let mut bytes = Vec::with_capacity(document.len() + 1);
        match &self.near {
            None => bytes.push(0),
            Some(near) => {
                bytes.push(1);
                near.encode(&mut bytes);
            }
        }
        bytes.extend_from_slice(document);
        bytes
    }

    /// What [`Self::encode`] wrote.
    ///
    /// # Errors
    /// `InvalidBSON` for anything else.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let (near, document) = match bytes.split_first() {
            Some((0, rest)) => (None, rest),
            Some((_, rest)) => {
                let (near, rest) = NearMetadata::decode(rest)?;
                (Some(Arc::new(near)), rest)
            }
            None => return Err(corrupt("a spilled document is empty")),
        };
        let document = RawDocumentBuf::from_bytes(document.to_vec()).map_err(corrupt)?;
        Ok(Self { document, near })
    }

    /// The memory it takes.
    pub fn size_bytes(&self) -> usize {
        let near = self.near.as_ref().map_or(0, |near| near.size_bytes());
        self.document.as_bytes().len() + near
    }
}

/// The documents of a `$sort`: all of them, or the first so many.
pub(super) struct Sorter {
    order: Sort,
    top: Top,
}

/// Documents by key: all of them, or the first so many. Those that outgrow their memory are spilled.
struct Top {
    limit: usize,
    /// The last of those kept on top.
    kept: BinaryHeap<Sorted>,
    arrivals: u64,
    bytes: usize,
    memory: Reservation,
    spilled: Option<SpillSort>,
    limits: Limits,
}

struct Sorted {
    key: Vec<u8>,
    /// Equal keys stay in order of arrival.
    arrival: u64,
    document: Kept,
}

impl Sorter {
    /// Sorts, and keeps the first so many.
    pub fn new(order: Sort, limit: Option<u64>, limits: &Limits) -> Self {
        let limit = limit.unwrap_or(u64::MAX);
        Self {
            order,
            top: Top::new(limit, limits),
        }
    }

    /// Takes one document.
    ///
    /// # Errors
    /// 292 where the documents outgrow their memory and cannot be spilled; `BadValue` for parallel arrays.
    pub fn push(&mut self, document: Cow<'_, RawDocument>, variables: &Variables) -> Result<()> {
        let distance = variables.near().map(|near| near.distance());
        let key = self.order.key_at(&document, distance)?;
        self.top.push(key, document, variables)
    }

    /// The documents in order.
    ///
    /// # Errors
    /// Storage failures.
    pub fn into_documents(self) -> Result<Documents> {
        self.top.into_documents()
    }
}

impl Top {
    fn new(limit: u64, limits: &Limits) -> Self {
        Self {
            limit: usize::try_from(limit).unwrap_or(usize::MAX),
            kept: BinaryHeap::new(),
            arrivals: 0,
            bytes: 0,
            memory: Reservation::none(),
            spilled: None,
            limits: limits.clone(),
        }
    }

    fn push(
        &mut self,
        key: Vec<u8>,
        document: Cow<'_, RawDocument>,
        variables: &Variables,
    ) -> Result<()> {
        self.arrivals += 1;
        if let Some(spilled) = &mut self.spilled {
            let document = Kept::new(document, variables);
            return spilled.push(&key, self.arrivals, &document.encode());
        }
        if self.kept.len() == self.limit {
            if self.kept.peek().is_none_or(|last| last.key <= key) {
                return Ok(());
            }
            if let Some(last) = self.kept.pop() {
                self.bytes -= last.size_bytes();
            }
        }
        let sorted = Sorted {
            key,
            arrival: self.arrivals,
            document: Kept::new(document, variables),
        };
        self.bytes += sorted.size_bytes();
        self.kept.push(sorted);
        let limits = &self.limits;
        if let Some(store) = limits.hold(&mut self.memory, self.bytes, sort_too_large)? {
            self.spilled = Some(spill(&mut self.kept, store)?);
            self.memory.shrink(0);
        }
        Ok(())
    }

    fn into_documents(self) -> Result<Documents> {
        let Some(spilled) = self.spilled else {
            let (sorted, memory) = (self.kept.into_sorted_vec(), self.memory);
            return Ok(Box::new(sorted.into_iter().map(move |sorted| {
                // Held until the last is handed out.
                let _ = &memory;
                Ok(sorted.document)
            })));
        };
        let mut rows = spilled.finish()?;
        let next = move || rows.next_with(|_, value| Kept::decode(value)).transpose();
        Ok(Box::new(std::iter::from_fn(next).take(self.limit)))
    }
}

fn spill(kept: &mut BinaryHeap<Sorted>, space: &SpillSpace) -> Result<SpillSort> {
    let mut spilled = SpillSort::new(space);
    for sorted in std::mem::take(kept) {
        spilled.push(&sorted.key, sorted.arrival, &sorted.document.encode())?;
    }
    Ok(spilled)
}

/// What MongoDB says of a sort that may not use the disk.
pub(super) fn sort_too_large(limit: usize) -> String {
    format!("Sort exceeded memory limit of {limit} bytes, but did not opt in to external sorting.")
}

impl Sorted {
    fn size_bytes(&self) -> usize {
        self.key.len() + self.document.size_bytes() + size_of::<Self>()
    }
}

impl PartialEq for Sorted {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Sorted {}

impl PartialOrd for Sorted {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Sorted {
    fn cmp(&self, other: &Self) -> Ordering {
        let keys = self.key.cmp(&other.key);
        keys.then_with(|| self.arrival.cmp(&other.arrival))
    }
}

/// The documents of a `$sample`: each gets a random number, and those with the least are drawn. So each
/// of the input is as likely as any other, and they come in random order.
pub(super) struct Reservoir {
    random: StdRng,
    drawn: Top,
}

impl Reservoir {
    /// Draws so many, as a seed says or by chance.
    pub fn new(size: u64, seed: Option<i64>, limits: &Limits) -> Self {
        Self {
            random: seed.map_or_else(StdRng::from_os_rng, |seed| {
                StdRng::seed_from_u64(seed.cast_unsigned())
            }),
            drawn: Top::new(size, limits),
        }
    }

    /// Whether nothing is to be drawn.
    pub fn is_empty(&self) -> bool {
        self.drawn.limit == 0
    }

    /// Takes one document.
    ///
    /// # Errors
    /// 292 where the documents outgrow their memory and cannot be spilled.
    pub fn push(&mut self, document: Cow<'_, RawDocument>, variables: &Variables) -> Result<()> {
        let number: u64 = self.random.random();
        self.drawn
            .push(number.to_be_bytes().to_vec(), document, variables)
    }

    /// The documents that were drawn.
    ///
    /// # Errors
    /// Storage failures.
    pub fn into_documents(self) -> Result<Documents> {
        self.drawn.into_documents()
    }
}
