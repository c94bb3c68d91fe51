//! The stages that keep documents until their input has ended: `$sort` and `$sample`.
//!
//! In: documents, one at a time. Out: all of them or the first so many in order, or some of them by
//! chance, each with what was known of it beside its fields.

use super::executor::Limits;
use super::expression::Variables;
use super::metadata::NearMetadata;
use crate::error::Result;
use crate::query::Sort;
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

    /// The memory it takes.
    pub fn size_bytes(&self) -> usize {
        let near = self.near.as_ref().map_or(0, |near| near.size_bytes());
        self.document.as_bytes().len() + near
    }
}

/// The documents of a `$sort`: all of them, or the first so many.
pub(super) struct Sorter {
    order: Sort,
    limit: usize,
    /// The last of those kept on top.
    kept: BinaryHeap<Sorted>,
    arrivals: u64,
    bytes: usize,
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
        let limit = limit.map_or(usize::MAX, |limit| {
            usize::try_from(limit).unwrap_or(usize::MAX)
        });
        Self {
            order,
            limit,
            kept: BinaryHeap::new(),
            arrivals: 0,
            bytes: 0,
            limits: limits.clone(),
        }
    }

    /// Takes one document.
    ///
    /// # Errors
    /// 292 where the documents outgrow their memory; `BadValue` for parallel arrays.
    pub fn push(&mut self, document: Cow<'_, RawDocument>, variables: &Variables) -> Result<()> {
        let distance = variables.near().map(|near| near.distance());
        let key = self.order.key_at(&document, distance)?;
        self.arrivals += 1;
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
        let limit = self.limits.memory_bytes;
        self.limits.check(self.bytes, || {
            format!(
                "Sort exceeded memory limit of {limit} bytes, but did not opt in to external \
                 sorting. Aborting operation. Pass allowDiskUse:true to opt in."
            )
        })
    }

    /// The documents in order.
    pub fn into_documents(self) -> impl Iterator<Item = Kept> + Send {
        let sorted = self.kept.into_sorted_vec().into_iter();
        sorted.map(|sorted| sorted.document)
    }
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

/// The documents of a `$sample`: each of the input as likely as any other (reservoir
/// sampling), in random order.
pub(super) struct Reservoir {
    size: usize,
    seen: u64,
    kept: Vec<Kept>,
    bytes: usize,
    random: StdRng,
    limits: Limits,
}

impl Reservoir {
    /// Draws so many, as a seed says or by chance.
    pub fn new(size: u64, seed: Option<i64>, limits: &Limits) -> Self {
        let size = usize::try_from(size).unwrap_or(usize::MAX);
        Self {
            size,
            seen: 0,
            kept: Vec::new(),
            bytes: 0,
            random: seed.map_or_else(StdRng::from_os_rng, |seed| {
                StdRng::seed_from_u64(seed.cast_unsigned())
            }),
            limits: limits.clone(),
        }
    }

    /// Whether nothing is to be drawn.
    pub fn is_empty(&self) -> bool {
        self.size == 0
    }

    /// Takes one document.
    ///
    /// # Errors
    /// 292 where the documents outgrow their memory.
    pub fn push(&mut self, document: Cow<'_, RawDocument>, variables: &Variables) -> Result<()> {
        self.seen += 1;
        if self.kept.len() < self.size {
            let kept = Kept::new(document, variables);
            self.bytes += kept.size_bytes();
            self.kept.push(kept);
        } else {
            let place = self.random.random_range(0..self.seen);
            let place = usize::try_from(place).unwrap_or(usize::MAX);
            if let Some(old) = self.kept.get_mut(place) {
                let kept = Kept::new(document, variables);
                self.bytes = self.bytes + kept.size_bytes() - old.size_bytes();
                *old = kept;
            }
        }
        let limit = self.limits.memory_bytes;
        self.limits.check(self.bytes, || {
            format!(
                "Sort exceeded memory limit of {limit} bytes, but did not opt in to external \
                 sorting. Aborting operation. Pass allowDiskUse:true to opt in."
            )
        })
    }

    /// The documents that were drawn.
    pub fn into_documents(mut self) -> impl Iterator<Item = Kept> + Send {
        use rand::seq::SliceRandom;
        self.kept.shuffle(&mut self.random);
        self.kept.into_iter()
    }
}
