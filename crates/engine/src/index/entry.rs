//! What an index entry holds beside its key, and how to read both.
//!
//! ```text
//! key:    tree (4) | fields | encoded _id
//! value:  points | carried document | type bits
//!
//! points, for each 2dsphere or 2d field in order (none in other indexes):
//!         00                                     no geometry: the field is missing
//!         01 | longitude (8) | latitude (8)      a point: doubles, little-endian, degrees
//!         02                                     another geometry: read the document
//!         03 | longitude (8) | latitude (8)      a point whose field holds just this, exactly:
//!                                                {type: "Point", coordinates: [longitude, latitude]}
//! carried document, BSON, which begins with its length:
//!         clustering: true                       the whole document
//!         include: [...]                         the parts of it that were asked for
//!         neither                                nothing, not even a length
//! type bits, to the end of the value, for each field of the key in order and then for _id:
//!         those of its value (meridian_value::key::TypeBits)
//!         behind a null one bit more: 0 the field is missing, 1 it is null
//! ```
//!
//! Zero bits at the end are not stored, so that most entries by value have an empty value.

use super::{IndexField, IndexSpec};
use crate::{Code, Error, Result};
use bson::Bson;
use bson::raw::{RawDocument, RawDocumentBuf};
use bson::spec::ElementType;
use meridian_value::DocumentBuilder;
use meridian_value::key::{Direction, TypeBitsReader, decode, skip, transcode};
use smallvec::SmallVec;

const NOWHERE: u8 = 0;
const POINT: u8 = 1;
const IN_DOCUMENT: u8 = 2;
const PLAIN_POINT: u8 = 3;
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
        /// Whether the field is `{type: "Point", coordinates: [lon, lat]}` and nothing else.
        plain: bool,
    },
    /// A line, polygon or collection: only the document has it.
    InDocument,
}

impl Located {
    pub(super) fn write<A: smallvec::Array<Item = u8>>(self, out: &mut SmallVec<A>) {
        match self {
            Located::Nowhere => out.push(NOWHERE),
            Located::Point { lon, lat, plain } => {
                out.push(if plain { PLAIN_POINT } else { POINT });
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
            POINT | PLAIN_POINT => {
                let (point, rest) = rest.split_at_checked(16)?;
                let number = |bytes: &[u8]| Some(f64::from_le_bytes(bytes.try_into().ok()?));
                let (lon, lat) = (number(&point[..8])?, number(&point[8..])?);
                let plain = *kind == PLAIN_POINT;
                Some((Located::Point { lon, lat, plain }, rest))
            }
            _ => None,
        }
    }
}

/// How to read the entries of one index.
#[derive(Debug, Clone)]
pub struct EntryLayout {
    names: Vec<Box<str>>,
    kinds: SmallVec<[IndexField; 4]>,
    sphere_fields: usize,
    carries: bool,
}

/// A value's parts; see the module's drawing.
#[derive(Debug, Clone)]
pub struct EntryValue<'v> {
    /// Where each 2dsphere field's geometry is.
    pub points: SmallVec<[Located; 1]>,
    /// What the entry carries of the document, if its index carries anything.
    pub carried: Option<&'v RawDocument>,
    /// The type bits.
    pub types: TypeBitsReader<'v>,
}

/// A value of an entry, written out as BSON has it.
#[derive(Debug, Clone, Copy)]
pub struct FieldValue {
    /// Its type.
    pub kind: ElementType,
    /// Where its bytes begin in what it was written to.
    pub start: usize,
    /// Where they end.
    pub end: usize,
}

impl EntryLayout {
    /// The layout of an index's entries.
    pub fn new(spec: &IndexSpec) -> Self {
        if spec.has(IndexField::Wildcard) {
            return EntryLayout {
                names: vec!["$_path".into(), "".into()],
                kinds: smallvec::smallvec![IndexField::Ascending; 2],
                sphere_fields: 0,
                carries: spec.clustering || !spec.include.is_empty(),
            };
        }
        EntryLayout {
            names: spec
                .key
                .iter()
                .map(|(path, _)| path.as_str().into())
                .collect(),
            kinds: spec.key.iter().map(|(_, kind)| *kind).collect(),
            sphere_fields: spec
                .key
                .iter()
                .filter(|(_, kind)| kind.is_located())
                .count(),
            carries: spec.clustering || !spec.include.is_empty(),
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

    /// The parts of a value.
    ///
    /// # Errors
    /// `InternalError` when the value is corrupt.
    pub fn split<'v>(&self, value: &'v [u8]) -> Result<EntryValue<'v>> {
        let mut rest = value;
        let mut points = SmallVec::new();
        for _ in 0..self.sphere_fields {
            let (located, behind) = Located::read(rest).ok_or_else(corrupt)?;
            points.push(located);
            rest = behind;
        }
        let mut carried = None;
        if self.carries {
            let (document, behind) = split_document(rest).ok_or_else(corrupt)?;
            (carried, rest) = (Some(document), behind);
        }
        Ok(EntryValue {
            points,
            carried,
            types: TypeBitsReader::from_bytes(rest),
        })
    }

    /// How many fields the key has.
    pub fn fields(&self) -> usize {
        self.kinds.len()
    }

    /// Reads one field of the key exactly as it was, and how long its bytes are; `None` for a missing
    /// one. A hash and a cell are int64.
    ///
    /// # Errors
    /// `InternalError` when the entry is corrupt.
    pub fn decode_field(
        &self,
        position: usize,
        bytes: &[u8],
        types: &mut TypeBitsReader<'_>,
    ) -> Result<(Option<Bson>, usize)> {
        let direction = self.kinds[position].direction();
        let (value, length) = decode(bytes, direction, types).map_err(|_| corrupt())?;
        let missing = value == Bson::Null && !types.read_bit();
        Ok(((!missing).then_some(value), length))
    }

    /// As [`Self::decode_field`], but the value is written to the end of `out`.
    ///
    /// # Errors
    /// `InternalError` when the entry is corrupt.
    #[inline]
    pub fn transcode_field(
        &self,
        position: usize,
        bytes: &[u8],
        types: &mut TypeBitsReader<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(Option<FieldValue>, usize)> {
        let direction = self.kinds[position].direction();
        let (value, length) = write_out(bytes, direction, types, out)?;
        let missing = value.kind == ElementType::Null && !types.read_bit();
        Ok(((!missing).then_some(value), length))
    }

    /// As [`Self::transcode_field`], for the `_id` behind the fields.
    ///
    /// # Errors
    /// `InternalError` when the entry is corrupt.
    #[inline]
    pub fn transcode_id(
        &self,
        bytes: &[u8],
        types: &mut TypeBitsReader<'_>,
        out: &mut Vec<u8>,
    ) -> Result<FieldValue> {
        Ok(write_out(bytes, Direction::Ascending, types, out)?.0)
    }

    /// The length of one field of the key.
    ///
    /// # Errors
    /// `InternalError` when the entry is corrupt.
    pub fn field_length(&self, position: usize, bytes: &[u8]) -> Result<usize> {
        skip(bytes, self.kinds[position].direction()).ok_or_else(corrupt)
    }

    /// The fields of an entry with the paths of the key pattern as names: for `returnKey`, and for the
    /// `keyValue` of a duplicate. Missing ones are null, as mongod shows them.
    ///
    /// # Errors
    /// `InternalError` when the entry is corrupt.
    pub fn key_document(&self, fields: &[u8], value: &[u8]) -> Result<RawDocumentBuf> {
        let mut types = self.split(value)?.types;
        let mut at = 0;
        let mut document = DocumentBuilder::default();
        let mut written = Vec::new();
        for (position, name) in self.names.iter().enumerate() {
            written.clear();
            let (field, length) =
                self.transcode_field(position, &fields[at..], &mut types, &mut written)?;
            let kind = field.map_or(ElementType::Null, |field| field.kind);
            document.field(kind, name.as_bytes(), &written);
            at += length;
        }
        Ok(document.finish())
    }
}

#[inline]
fn write_out(
    bytes: &[u8],
    direction: Direction,
    types: &mut TypeBitsReader<'_>,
    out: &mut Vec<u8>,
) -> Result<(FieldValue, usize)> {
    let start = out.len();
    let (kind, length) = transcode(bytes, direction, types, out).map_err(|_| corrupt())?;
    let end = out.len();
    Ok((FieldValue { kind, start, end }, length))
}

/// A BSON document at the start of `bytes`, and what follows it.
fn split_document(bytes: &[u8]) -> Option<(&RawDocument, &[u8])> {
    let length = i32::from_le_bytes(bytes.get(..4)?.try_into().ok()?);
    let (document, rest) = bytes.split_at_checked(usize::try_from(length).ok()?)?;
    Some((RawDocument::from_bytes(document).ok()?, rest))
}

/// The error of an entry that cannot be read.
pub(crate) fn corrupt() -> Error {
    Error::new(Code::InternalError, "corrupt index entry")
}
