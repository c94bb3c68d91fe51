//! What was drawn, read in the order of its keys and handed out in the order of the draw.

use super::ranks::DrawnEntry;
use crate::error::Result;
use crate::error::corrupt_document;
use crate::exec::cached::PackedEntries;
use crate::exec::row_buffers::{BufferLayout, BufferedBatch, BufferedRows};
use bson::raw::RawDocument;

/// Entries that were drawn: their identifiers and, if they are cached, documents.
#[derive(Default)]
pub(super) struct Drawn {
    buffered: BufferedBatch,
    /// Where each is, in the order of the draw: in which part, and there.
    places: Vec<(usize, DrawnPosition)>,
}

/// Some of the drawn entries in the order in which they were read.
pub(super) struct DrawnPart {
    buffered: BufferedRows,
    /// Which of the draw each is, and where.
    entries: Vec<(usize, DrawnPosition)>,
}

/// Where an entry is in its buffer; its document begins where the identifier ends.
#[derive(Clone, Copy, Default)]
struct DrawnPosition {
    id_at: usize,
    document_at: usize,
    end: usize,
}

impl DrawnPart {
    /// Room for so many entries.
    pub fn new(layout: BufferLayout, entries: usize) -> Self {
        Self {
            buffered: BufferedRows::new(layout, entries),
            entries: Vec::with_capacity(entries),
        }
    }

    /// Adds entries of a range: their identifiers or, where these are cached, documents too.
    pub fn push_all(
        &mut self,
        targets: &[DrawnEntry],
        found: &PackedEntries,
        keeps_documents: bool,
    ) -> Result<()> {
        for target in targets {
            let (id, document) = found.entry(target.offset as usize);
            let document: &[u8] = if keeps_documents { document } else { &[] };
            self.push(target.slot, id, document)?;
        }
        Ok(())
    }

    /// Adds an entry: its identifier and, if these are cached, its document.
    pub fn push(&mut self, slot: usize, id: &[u8], document: &[u8]) -> Result<()> {
        if !document.is_empty() {
            // Here, where it is read anyway: later it would have to be fetched from memory for this alone.
            RawDocument::from_bytes(document).map_err(corrupt_document)?;
        }
        let id = self.buffered.push(slot, id);
        let document = self.buffered.push(slot, document);
        let place = DrawnPosition {
            id_at: id.start,
            document_at: id.end,
            end: document.end,
        };
        self.entries.push((slot, place));
        Ok(())
    }
}

impl Drawn {
    pub fn new(layout: BufferLayout, parts: Vec<DrawnPart>, size: usize) -> Self {
        let mut buffered = BufferedBatch::new(layout);
        let mut places = vec![(0, DrawnPosition::default()); size];
        for part in parts {
            for (slot, place) in part.entries {
                places[slot] = (buffered.parts(), place);
            }
            buffered.add(part.buffered);
        }
        Self { buffered, places }
    }

    /// How many were drawn.
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// The entry of this number is handed out next.
    pub fn fetch(&mut self, number: usize) {
        self.buffered.fetch(number);
    }

    pub fn id(&self, number: usize) -> &[u8] {
        let (part, place) = self.places[number];
        self.buffered
            .get(part, number, place.id_at..place.document_at)
    }

    pub fn document(&self, number: usize) -> &[u8] {
        let (part, place) = self.places[number];
        self.buffered
            .get(part, number, place.document_at..place.end)
    }
}
