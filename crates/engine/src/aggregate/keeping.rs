//! The stages that keep documents until their input has ended: `$sort` and `$sample`.
//!
//! What outgrows its memory is sorted on disk, where that is allowed.
//!
//! In: documents, one at a time. Out: all of them or the first so many in order, or some of them by
//! chance, each with what was known of it beside its fields.

use super::executor::KeptDocuments;
use crate::error::Result;
use crate::expression::value::corrupt;
use crate::expression::{DocumentMetadata, Variables};
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
    pub metadata: Option<Arc<DocumentMetadata>>,
}

impl From<RawDocumentBuf> for Kept {
    fn from(document: RawDocumentBuf) -> Self {
        let metadata = None;
        Self { document, metadata }
    }
}

impl Kept {
    /// A document, with what is known of it here.
    pub fn new(document: Cow<'_, RawDocument>, variables: &Variables) -> Self {
        Self {
            document: document.into_owned(),
            metadata: variables.metadata().cloned(),
        }
    }
}

/// On disk: whether there is metadata, the metadata, the document.
///
/// ```text
/// 0, document
/// 1, metadata (BSON, which begins with its length), document
/// ```
impl Spillable for Kept {
    fn size_bytes(&self) -> usize {
        let metadata = self.metadata.as_ref();
        self.document.as_bytes().len() + metadata.map_or(0, |metadata| metadata.size_bytes())
    }

    fn encode(&self, bytes: &mut Vec<u8>) {
        match &self.metadata {
            None => bytes.push(0),
            Some(metadata) => {
                bytes.push(1);
                bytes.extend_from_slice(metadata.encode().as_bytes());
            }
        }
        bytes.extend_from_slice(self.document.as_bytes());
    }

    fn decode(bytes: &[u8]) -> Result<Self> {
        let too_short = || corrupt("a spilled document is too short");
        let (has_metadata, rest) = bytes.split_first().ok_or_else(too_short)?;
        let (metadata, document) = match has_metadata {
            0 => (None, rest),
            _ => {
                let length = rest.first_chunk().ok_or_else(too_short)?;
                let length = u32::from_le_bytes(*length) as usize;
                let (metadata, document) = rest.split_at_checked(length).ok_or_else(too_short)?;
                let metadata = RawDocument::from_bytes(metadata).map_err(corrupt)?;
                let metadata = DocumentMetadata::decode(metadata)?;
                (Some(Arc::new(metadata)), document)
            }
        };
        let document = RawDocumentBuf::from_bytes(document.to_vec()).map_err(corrupt)?;
        Ok(Self { document, metadata })
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

/// The distance of the doubles from 0 up to 1 that 53 random bits give.
const DOUBLE_STEP: f64 = 1.0 / (1_u64 << 53) as f64;

/// The documents of a `$sample`: each gets a random number, and those with the least are drawn. So each
/// of the input is as likely as any other, and they come in random order.
pub(super) struct Reservoir {
    random: StdRng,
    /// Whether documents know what was drawn for them.
    tells_random: bool,
    drawn: TopSorter<Kept>,
}

impl Reservoir {
    /// Draws so many, as a seed says or by chance.
    pub fn new(size: u64, seed: Option<i64>, limits: &Limits) -> Self {
        Self {
            random: seed.map_or_else(StdRng::from_os_rng, |seed| {
                StdRng::seed_from_u64(seed.cast_unsigned())
            }),
            tells_random: false,
            drawn: TopSorter::new(Some(size), limits, sort_too_large),
        }
    }

    /// The same, where documents know what was drawn for them.
    pub fn telling_random(self, tells_random: bool) -> Self {
        Self {
            tells_random,
            ..self
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
        let number = self.random.random();
        self.push_drawn(number, document, variables)
    }

    /// Draws the numbers of so many documents that come, and returns which of them may be kept, with their numbers.
    pub fn draw(&mut self, documents: u64) -> Vec<(u64, u64)> {
        let numbers = (0..documents).map(|place| (place, self.random.random::<u64>()));
        let drawn = &self.drawn;
        numbers
            .filter(|(_, number)| drawn.may_take(&number.to_be_bytes()))
            .collect()
    }

    /// Takes a document whose number was drawn.
    ///
    /// # Errors
    /// As [`Self::push`].
    pub fn push_drawn(
        &mut self,
        number: u64,
        document: Cow<'_, RawDocument>,
        variables: &Variables,
    ) -> Result<()> {
        let key = number.to_be_bytes().to_vec();
        let tells = self.tells_random;
        self.drawn.push(key, || {
            let mut kept = Kept::new(document, variables);
            if tells {
                let known = kept.metadata.as_deref().cloned().unwrap_or_default();
                let random = Some((number >> 11) as f64 * DOUBLE_STEP);
                kept.metadata = Some(Arc::new(DocumentMetadata { random, ..known }));
            }
            kept
        })
    }

    /// The documents that were drawn.
    ///
    /// # Errors
    /// Storage failures.
    pub fn into_documents(self) -> Result<KeptDocuments> {
        Ok(Box::new(self.drawn.finish()?))
    }
}
