//! What was drawn, read in the order of its keys and handed out in the order of the draw.

/// Entries that were drawn: their identifiers and, if they are kept, documents.
#[derive(Default)]
pub(super) struct Drawn {
    parts: Vec<DrawnPart>,
    /// Where each is, in the order of the draw: which part, and there.
    places: Vec<(usize, Place)>,
}

/// Some of the drawn entries in the order in which they were read.
#[derive(Default)]
pub(super) struct DrawnPart {
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
    /// Room for so many entries and so many bytes of each.
    pub fn reserve(&mut self, entries: usize, bytes_each: usize) {
        self.entries.reserve(entries);
        self.bytes.reserve(entries * bytes_each);
    }

    pub fn push(&mut self, slot: usize, id: &[u8], document: &[u8]) {
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
    pub fn new(parts: Vec<DrawnPart>, size: usize) -> Self {
        let mut places = vec![(0, Place::default()); size];
        for (number, part) in parts.iter().enumerate() {
            for (slot, place) in &part.entries {
                places[*slot] = (number, *place);
            }
        }
        Self { parts, places }
    }

    /// How many were drawn.
    pub fn len(&self) -> usize {
        self.places.len()
    }

    pub fn id(&self, number: usize) -> &[u8] {
        let (part, place) = self.places[number];
        &self.parts[part].bytes[place.id_at..place.document_at]
    }

    pub fn document(&self, number: usize) -> &[u8] {
        let (part, place) = self.places[number];
        &self.parts[part].bytes[place.document_at..place.end]
    }
}
