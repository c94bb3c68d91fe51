//! What an index entry holds beside its key, and how to read both.
//!
//! ```text
//! key:    tree (4) | fields | encoded _id
//! value of an index by value or hash:
//!         type bits (often empty)
//! value of a 2dsphere index, for each 2dsphere field in order:
//!         00                                     no geometry: the field is missing
//!         01 | longitude (8) | latitude (8)      a point: doubles, little-endian, degrees
//!         02                                     another geometry: read the document
//!         then type bits
//! ```
//!
//! Type bits ([`meridian_value::key::TypeBits`]) run to the end of the value.

use super::{IndexField, IndexSpec};
use crate::{Code, Error, Result};
use bson::Bson;
use bson::raw::{CString, RawDocumentBuf};
use meridian_value::key::{Direction, TypeBitsReader, decode, skip};
use smallvec::SmallVec;

const NOWHERE: u8 = 0;
const POINT: u8 = 1;
const IN_DOCUMENT: u8 = 2;
/// Bytes of one point in a value.
pub(super) const PAYLOAD_BYTES_MAX: usize = 17;

/// What an entry knows of a 2dsphere field's geometry.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Located {
    /// The document has no geometry in this field.
    Nowhere,
    /// A point, exactly.
    Point {
        /// Degrees east.
        lon: f64,
        /// Degrees north.
        lat: f64,
    },
    /// A line, polygon or collection: only the document has it.
    InDocument,
}

impl Located {
    pub(super) fn write<A: smallvec::Array<Item = u8>>(self, out: &mut SmallVec<A>) {
        match self {
            Located::Nowhere => out.push(NOWHERE),
            Located::Point { lon, lat } => {
                out.push(POINT);
                out.extend_from_slice(&lon.to_le_bytes());
                out.extend_from_slice(&lat.to_le_bytes());
            }
            Located::InDocument => out.push(IN_DOCUMENT),
        }
    }

    /// Reads one field's part of a value and what follows it.
    #[inline]
    fn read(value: &[u8]) -> Option<(Located, &[u8])> {
        let (kind, rest) = value.split_first()?;
        match *kind {
            NOWHERE => Some((Located::Nowhere, rest)),
            IN_DOCUMENT => Some((Located::InDocument, rest)),
            POINT => {
                let (point, rest) = rest.split_at_checked(16)?;
                let number = |bytes: &[u8]| Some(f64::from_le_bytes(bytes.try_into().ok()?));
                let (lon, lat) = (number(&point[..8])?, number(&point[8..])?);
                Some((Located::Point { lon, lat }, rest))
            }
            _ => None,
        }
    }
}

/// How to read the entries of one index.
#[derive(Debug, Clone)]
pub struct EntryLayout {
    names: Vec<CString>,
    kinds: SmallVec<[IndexField; 4]>,
    sphere_fields: usize,
}

impl EntryLayout {
    /// The layout of an index's entries.
    pub fn new(spec: &IndexSpec) -> Self {
        let name = |path: &str| CString::try_from(path).expect("a key pattern's names hold no NUL");
        EntryLayout {
            names: spec.key.iter().map(|(path, _)| name(path)).collect(),
            kinds: spec.key.iter().map(|(_, kind)| *kind).collect(),
            sphere_fields: spec
                .key
                .iter()
                .filter(|(_, kind)| *kind == IndexField::Sphere2d)
                .count(),
        }
    }

    /// The direction of each field's bytes.
    pub fn directions(&self) -> impl Iterator<Item = Direction> + '_ {
        self.kinds.iter().map(|kind| kind.direction())
    }

    /// The length of the fields at the start of a key without its tree prefix; the encoded
    /// `_id` follows. `None` when the key is corrupt.
    #[inline]
    pub fn fields_length(&self, key: &[u8]) -> Option<usize> {
        let mut at = 0;
        for kind in &self.kinds {
            at += skip(&key[at..], kind.direction())?;
        }
        Some(at)
    }

    /// Where the first 2dsphere field's geometry is. `None` for another index, or a corrupt value.
    #[inline]
    pub fn located(&self, value: &[u8]) -> Option<Located> {
        if self.sphere_fields == 0 {
            return None;
        }
        Located::read(value).map(|(located, _)| located)
    }

    /// Where the geometry of each 2dsphere field is, in order.
    pub fn located_all(&self, value: &[u8]) -> Option<SmallVec<[Located; 1]>> {
        let mut rest = value;
        let mut all = SmallVec::new();
        for _ in 0..self.sphere_fields {
            let (located, behind) = Located::read(rest)?;
            all.push(located);
            rest = behind;
        }
        Some(all)
    }

    /// The type bits of a value.
    ///
    /// # Errors
    /// `InternalError` when the value is corrupt.
    pub fn type_bits<'v>(&self, value: &'v [u8]) -> Result<TypeBitsReader<'v>> {
        let mut rest = value;
        for _ in 0..self.sphere_fields {
            rest = Located::read(rest).ok_or_else(corrupt)?.1;
        }
        Ok(TypeBitsReader::from_bytes(rest))
    }

    /// The fields of an entry exactly as they were: for a covered query, for `returnKey`, and for the
    /// `keyValue` of a duplicate. A hash and a cell are int64.
    ///
    /// # Errors
    /// `InternalError` when the entry is corrupt.
    pub fn decode_fields(&self, fields: &[u8], value: &[u8]) -> Result<SmallVec<[Bson; 2]>> {
        let mut types = self.type_bits(value)?;
        let mut at = 0;
        let mut values = SmallVec::new();
        for kind in &self.kinds {
            let (field, length) =
                decode(&fields[at..], kind.direction(), &mut types).map_err(|_| corrupt())?;
            values.push(field);
            at += length;
        }
        Ok(values)
    }

    /// [`EntryLayout::decode_fields`] with the paths of the key pattern as names.
    ///
    /// # Errors
    /// `InternalError` when the entry is corrupt.
    pub fn key_document(&self, fields: &[u8], value: &[u8]) -> Result<RawDocumentBuf> {
        let mut document = RawDocumentBuf::new();
        for (name, field) in self.names.iter().zip(self.decode_fields(fields, value)?) {
            meridian_value::with_raw(&field, |raw| document.append(name, raw));
        }
        Ok(document)
    }
}

fn corrupt() -> Error {
    Error::new(Code::InternalError, "corrupt index entry")
}
