//! Where generated entries go: one buffer for all of them, reused from document to document.

use crate::{Code, Error, Result};
use bson::RawBsonRef;
use bson::raw::RawDocument;
use meridian_value::Collation;
use meridian_value::field::{Field, fields};
use meridian_value::key::{Direction, TypeBits, encode};

/// Which fields of an index were reached through arrays, so that a document may have
/// several entries. Unions of it are kept with the index.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Multikey(u64);

impl Multikey {
    /// No array was met.
    pub const NONE: Multikey = Multikey(0);
    /// Set when a geometry has several cells: several entries without any array.
    const CELLS: u64 = 1 << 63;
    /// Set when a geometry is no point: its entries may lie in coarse cells. Says nothing about how
    /// many entries there are.
    const SHAPES: u64 = 1 << 62;

    /// Every field may have several values: what is assumed where nothing is known.
    pub const ALL: Multikey = Multikey(u64::MAX);

    /// Notes that this field's values may come from arrays.
    pub(crate) fn set_field(&mut self, field: usize) {
        self.0 |= 1 << field;
    }

    pub(super) fn set_cells(&mut self) {
        self.0 |= Self::CELLS;
    }

    pub(super) fn set_shapes(&mut self) {
        self.0 |= Self::SHAPES;
    }

    /// True when documents may have several entries.
    pub fn is_multikey(self) -> bool {
        self.0 & !Self::SHAPES != 0
    }

    /// True when a geometry may have several cells, and so several entries.
    pub fn holds_cells(self) -> bool {
        self.0 & Self::CELLS != 0
    }

    /// True when some geometry may be no point.
    pub fn holds_shapes(self) -> bool {
        self.0 & Self::SHAPES != 0
    }

    /// True when the values of this field (by position in the key pattern) may come from an array.
    pub fn field(self, field: usize) -> bool {
        self.0 & (1 << field) != 0
    }

    /// What either has met.
    #[must_use]
    pub fn union(self, other: Multikey) -> Multikey {
        Multikey(self.0 | other.0)
    }

    /// The bits, for storing.
    pub fn bits(self) -> u64 {
        self.0
    }

    /// What [`Multikey::bits`] gave.
    pub fn from_bits(bits: u64) -> Multikey {
        Multikey(bits)
    }
}

/// The entries of documents, as many as were generated since [`KeySink::clear`].
///
/// Nothing is allocated once the buffers have grown to a document's need.
#[derive(Debug, Default)]
pub struct KeySink {
    pub(super) bytes: Vec<u8>,
    types: TypeBits,
    /// Type bits of the document's `_id`, which every entry ends with.
    id_types: TypeBits,
    /// What every entry carries of the document.
    pub(super) carried: Vec<u8>,
    entries: Vec<EntrySpan>,
    index: u32,
    is_full: bool,
}

/// Bytes that the entries of one document may take. Only documents that an index carries in many
/// entries come near.
const BYTES_MAX: usize = 256 * 1024 * 1024;

/// Bytes of each buffer that are kept for the next documents.
const KEPT_BYTES_MAX: usize = 1024 * 1024;

/// Where one entry lies in the buffer.
#[derive(Debug, Clone, Copy)]
struct EntrySpan {
    index: u32,
    start: u32,
    fields_end: u32,
    end: u32,
}

impl EntrySpan {
    fn fields<'b>(&self, bytes: &'b [u8]) -> &'b [u8] {
        &bytes[self.start as usize..self.fields_end as usize]
    }
}

impl KeySink {
    /// An empty sink.
    pub fn new() -> Self {
        Self::default()
    }

    /// Forgets all entries; keeps the memory, unless a long array made it large.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.entries.clear();
        self.bytes.shrink_to(KEPT_BYTES_MAX);
        self.entries
            .shrink_to(KEPT_BYTES_MAX / size_of::<EntrySpan>());
        self.index = 0;
        self.is_full = false;
    }

    /// The number of entries.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Bytes of all entries, fields and values.
    pub fn size_bytes(&self) -> usize {
        self.bytes.len()
    }

    /// True without entries.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// `(fields, value)` of every entry.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.iter_indexed()
            .map(|(_, fields, value)| (fields, value))
    }

    /// `(position of the index, fields, value)` of every entry that a
    /// [`super::CollectionKeys`] made; by index, ascending.
    pub fn iter_indexed(&self) -> impl Iterator<Item = (usize, &[u8], &[u8])> {
        self.entries.iter().map(|span| {
            let fields = span.fields(&self.bytes);
            let value = &self.bytes[span.fields_end as usize..span.end as usize];
            (span.index as usize, fields, value)
        })
    }

    pub(super) fn set_index(&mut self, index: usize) {
        self.index = index as u32;
    }

    /// Notes the document that the next entries belong to.
    #[inline]
    pub(super) fn set_document(&mut self, document: &RawDocument) {
        self.id_types.clear();
        // Stored documents begin with their `_id`; of most, the key says everything.
        let id = fields(document)
            .next()
            .filter(|field| field.name() == b"_id");
        if let Some(value) = id.filter(has_types).and_then(|field| field.value()) {
            encode(
                value,
                Direction::Ascending,
                &mut Vec::new(),
                &mut self.id_types,
            );
        }
    }

    /// Starts an entry: its fields follow with [`KeySink::push_field`].
    #[inline]
    pub(super) fn begin(&mut self) -> Pending {
        self.types.clear();
        Pending {
            start: self.bytes.len(),
        }
    }

    /// Appends one field; a missing one counts as null, but can be told from it.
    #[inline]
    pub(super) fn push_field(
        &mut self,
        value: Option<RawBsonRef<'_>>,
        direction: Direction,
        collation: &Collation,
    ) {
        let kept = value.unwrap_or(RawBsonRef::Null);
        collation.encode(kept, direction, &mut self.bytes, &mut self.types);
        if matches!(kept, RawBsonRef::Null) {
            self.types.push_bit(value.is_some());
        }
    }

    /// Ends an entry whose value begins with `points`.
    #[inline]
    pub(super) fn finish(&mut self, pending: Pending, points: &[u8]) {
        if self.bytes.len() + self.carried.len() > BYTES_MAX {
            self.is_full = true;
            return self.abandon(pending);
        }
        let fields_end = self.bytes.len();
        self.types.extend(&self.id_types);
        self.bytes.extend_from_slice(points);
        self.bytes.extend_from_slice(&self.carried);
        self.bytes.extend_from_slice(self.types.as_bytes());
        self.entries.push(EntrySpan {
            index: self.index,
            start: offset(pending.start),
            fields_end: offset(fields_end),
            end: offset(self.bytes.len()),
        });
    }

    /// Drops the last entry if the one before it, which is not before position `first`, has the same fields: an
    /// array of a million nulls needs no million entries until [`Self::deduplicate`].
    pub(super) fn drop_repeated(&mut self, first: usize) {
        if let [.., before, last] = &self.entries[first..]
            && before.fields(&self.bytes) == last.fields(&self.bytes)
        {
            self.bytes.truncate(last.start as usize);
            self.entries.pop();
        }
    }

    /// Whether all entries found room.
    ///
    /// # Errors
    /// `BSONObjectTooLarge` when they did not.
    pub(super) fn check_room(&self) -> Result<()> {
        if !self.is_full {
            return Ok(());
        }
        let message = format!("the index entries of the document exceed {BYTES_MAX} bytes");
        Err(Error::new(Code::BSONObjectTooLarge, message))
    }

    /// Drops an entry that was begun.
    pub(super) fn abandon(&mut self, pending: Pending) {
        self.bytes.truncate(pending.start);
    }

    /// Sorts the entries from position `first` on and keeps one of each: a document has an
    /// entry once, however often its arrays repeat a value.
    pub(super) fn deduplicate(&mut self, first: usize) {
        if self.entries.len() - first < 2 {
            return;
        }
        let bytes = &self.bytes;
        self.entries[first..].sort_by(|a, b| a.fields(bytes).cmp(b.fields(bytes)));
        let mut kept = first + 1;
        for next in first + 1..self.entries.len() {
            if self.entries[next].fields(bytes) != self.entries[kept - 1].fields(bytes) {
                self.entries[kept] = self.entries[next];
                kept += 1;
            }
        }
        self.entries.truncate(kept);
    }

    /// Keeps the first `count` entries.
    pub(super) fn truncate(&mut self, count: usize) {
        self.entries.truncate(count);
    }
}

/// Whether encoding a value of this type may leave type bits.
fn has_types(field: &Field<'_>) -> bool {
    // Object ids, strings, int32, dates, binary data and booleans never do.
    !matches!(field.kind(), 0x02 | 0x05 | 0x07 | 0x08 | 0x09 | 0x10)
}

/// An entry that has been begun.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pending {
    start: usize,
}

/// A sink is cleared long before 4 GiB: it is full earlier.
fn offset(length: usize) -> u32 {
    u32::try_from(length).expect("the entries of a batch stay below 4 GiB")
}
