//! The stages that keep documents until their input has ended: `$sort` and `$sample`.
//!
//! What outgrows its memory is sorted on disk, where that is allowed.
//!
//! In: documents, one at a time. Out: all of them or the first so many in order, or some of them by
//! chance, each with what was known of it beside its fields.

use super::executor::KeptDocuments;
use crate::error::Result;
use crate::expression::SearchMetadata;
use crate::expression::Variables;
use crate::expression::value::corrupt;
use crate::query::Sort;
use crate::sorter::{Limits, Spillable, TopSorter, sort_too_large};
use bson::{RawDocument, RawDocumentBuf};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::borrow::Cow;
use std::sync::Arc;

/// A document that a step kept, and what was known of it beside its fields.
pub(super) struct Kept {
    pub document: RawDocumentBuf,
    pub search: Option<Arc<SearchMetadata>>,
}

impl From<RawDocumentBuf> for Kept {
    fn from(document: RawDocumentBuf) -> Self {
        let search = None;
        Self { document, search }
    }
}

impl Kept {
    /// A document, with what is known of it here.
    pub fn new(document: Cow<'_, RawDocument>, variables: &Variables) -> Self {
        Self {
            document: document.into_owned(),
            search: variables.search().cloned(),
        }
    }
}

/// On disk: whether there is metadata, the metadata, the document.
///
/// ```text
/// 0, document
/// 1, distance or score (f64 LE), length of the location (u32 LE, 0 for none), location, document
/// ```
impl Spillable for Kept {
    fn size_bytes(&self) -> usize {
        let search = self.search.as_ref().map_or(0, |search| search.size_bytes());
        self.document.as_bytes().len() + search
    }

    fn encode(&self, bytes: &mut Vec<u8>) {
        match &self.search {
            None => bytes.push(0),
            Some(search) => {
                bytes.push(1);
                search.encode(bytes);
            }
        }
        bytes.extend_from_slice(self.document.as_bytes());
    }

    fn decode(bytes: &[u8]) -> Result<Self> {
        let (search, document) = match bytes.split_first() {
            Some((0, rest)) => (None, rest),
            Some((_, rest)) => {
                let (search, rest) = SearchMetadata::decode(rest)?;
                (Some(Arc::new(search)), rest)
            }
            None => return Err(corrupt("a spilled document is empty")),
        };
        let document = RawDocumentBuf::from_bytes(document.to_vec()).map_err(corrupt)?;
        Ok(Self { document, search })
    }
}

/// The documents of a `$sort`: all of them, or the first so many.
pub(super) struct Sorting {
    order: Sort,
    sorter: TopSorter<Kept>,
}

impl Sorting {
    /// Sorts, and keeps the first so many.
    pub fn new(order: Sort, keep: Option<u64>, limits: &Limits) -> Self {
        let sorter = TopSorter::new(keep, limits, sort_too_large);
        Self { order, sorter }
    }

    /// Takes one document.
    ///
    /// # Errors
    /// 292 where the documents outgrow their memory and cannot be spilled; `BadValue` for parallel arrays.
    pub fn push(&mut self, document: Cow<'_, RawDocument>, variables: &Variables) -> Result<()> {
        let rank = variables.search().map(|search| search.rank());
        let key = self.order.key_at(&document, rank)?;
        self.sorter.push(key, || Kept::new(document, variables))
    }

    /// The documents in order.
    ///
    /// # Errors
    /// Storage failures.
    pub fn into_documents(self) -> Result<KeptDocuments> {
        Ok(Box::new(self.sorter.finish()?))
    }
}

/// The documents of a `$sample`: each gets a random number, and those with the least are drawn. So each
/// of the input is as likely as any other, and they come in random order.
pub(super) struct Reservoir {
    random: StdRng,
    drawn: TopSorter<Kept>,
}

impl Reservoir {
    /// Draws so many, as a seed says or by chance.
    pub fn new(size: u64, seed: Option<i64>, limits: &Limits) -> Self {
        Self {
            random: seed.map_or_else(StdRng::from_os_rng, |seed| {
                StdRng::seed_from_u64(seed.cast_unsigned())
            }),
            drawn: TopSorter::new(Some(size), limits, sort_too_large),
        }
    }

    /// Whether nothing is to be drawn.
    pub fn is_empty(&self) -> bool {
        self.drawn.wants_none()
    }

    /// Takes one document.
    ///
    /// # Errors
    /// 292 where the documents outgrow their memory and cannot be spilled.
    pub fn push(&mut self, document: Cow<'_, RawDocument>, variables: &Variables) -> Result<()> {
        let number: u64 = self.random.random();
        let key = number.to_be_bytes().to_vec();
        self.drawn.push(key, || Kept::new(document, variables))
    }

    /// The documents that were drawn.
    ///
    /// # Errors
    /// Storage failures.
    pub fn into_documents(self) -> Result<KeptDocuments> {
        Ok(Box::new(self.drawn.finish()?))
    }
}
