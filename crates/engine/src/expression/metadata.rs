//! `{$meta: ...}`: what a nearest-first search knows of a document beside its fields.
//!
//! In: the operand, and whether there is such a search. Out: which part is meant, or MongoDB's error. The
//! parts themselves travel beside the document, in [`Variables`](super::Variables).

use super::value::corrupt;
use crate::error::{Error, Result};
use bson::cstr;
use bson::raw::{RawBsonRef, RawDocument, RawDocumentBuf};

/// Whether expressions may ask for metadata.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum MetadataScope {
    /// Not in this place (an update, a filter): refused by name.
    #[default]
    Refused,
    /// The query has none: no `$near` or `$geoNear`.
    Unavailable,
    /// Documents come with a distance and a location.
    Available,
}

/// A part of the metadata.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetadataPart {
    /// `geoNearDistance`.
    Distance,
    /// `geoNearPoint`.
    Point,
}

/// How far a document is, and which of its locations is so far.
#[derive(Debug, Clone)]
pub struct NearMetadata {
    distance: f64,
    /// Its only field.
    location: RawDocumentBuf,
}

/// Names that MongoDB knows and Meridian has nothing for.
const ABSENT: [&str; 7] = [
    "indexKey",
    "randVal",
    "recordId",
    "searchHighlights",
    "searchScore",
    "sortKey",
    "timeseriesBucketMinTime",
];

impl MetadataScope {
    /// The scope of a query that comes nearest first, or of one that does not.
    pub fn of_query(is_nearest_first: bool) -> Self {
        if is_nearest_first {
            Self::Available
        } else {
            Self::Unavailable
        }
    }

    /// The part that the operand of `$meta` names.
    ///
    /// # Errors
    /// 17307 for no string, 17308 for a name that is none, 40218 where the query has no such metadata,
    /// `NotImplemented` for other parts and places.
    pub fn part(self, operand: RawBsonRef<'_>) -> Result<MetadataPart> {
        let RawBsonRef::String(name) = operand else {
            return Err(Error::location(
                17307,
                "$meta only supports string arguments",
            ));
        };
        let (part, words) = match name {
            "geoNearDistance" => (Some(MetadataPart::Distance), "$geoNear distance"),
            "geoNearPoint" => (Some(MetadataPart::Point), "$geoNear point"),
            // Without text indexes no query has a score.
            "textScore" => (None, "text score"),
            _ if ABSENT.contains(&name) => {
                return Err(Error::not_implemented(format!("{{ $meta: \"{name}\" }}")));
            }
            _ => {
                return Err(Error::location(
                    17308,
                    format!("Unsupported argument to $meta: {name}"),
                ));
            }
        };
        match (self, part) {
            (Self::Refused, _) => Err(Error::not_implemented(format!(
                "{{ $meta: \"{name}\" }} in this place"
            ))),
            (Self::Available, Some(part)) => Ok(part),
            _ => Err(Error::location(
                UNAVAILABLE,
                format!("query requires {words} metadata, but it is not available"),
            )),
        }
    }
}

/// MongoDB's code for metadata that a query does not have.
pub const UNAVAILABLE: i32 = 40218;

impl NearMetadata {
    /// Keeps a distance as the client is told it, and a location.
    pub fn new(distance: f64, location: RawBsonRef<'_>) -> Self {
        let mut holder = RawDocumentBuf::new();
        holder.append(cstr!(""), location);
        Self {
            distance,
            location: holder,
        }
    }

    /// The distance.
    pub fn distance(&self) -> f64 {
        self.distance
    }

    /// Appends the bytes by which it is spilled.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let location = self.location.as_bytes();
        out.extend_from_slice(&self.distance.to_le_bytes());
        out.extend_from_slice(
            &u32::try_from(location.len())
                .unwrap_or(u32::MAX)
                .to_le_bytes(),
        );
        out.extend_from_slice(location);
    }

    /// What [`Self::encode`] wrote, and what is behind it.
    ///
    /// # Errors
    /// `InvalidBSON` for anything else.
    pub fn decode(bytes: &[u8]) -> Result<(Self, &[u8])> {
        let too_short = || corrupt("spilled metadata is too short");
        let (distance, rest) = bytes.split_first_chunk().ok_or_else(too_short)?;
        let (length, rest) = rest.split_first_chunk().ok_or_else(too_short)?;
        let length = u32::from_le_bytes(*length) as usize;
        let (location, rest) = rest.split_at_checked(length).ok_or_else(too_short)?;
        let near = Self {
            distance: f64::from_le_bytes(*distance),
            location: RawDocumentBuf::from_bytes(location.to_vec()).map_err(corrupt)?,
        };
        Ok((near, rest))
    }

    /// The memory it takes.
    pub fn size_bytes(&self) -> usize {
        size_of::<Self>() + self.location.as_bytes().len()
    }

    /// A part's value.
    pub fn value(&self, part: MetadataPart) -> RawBsonRef<'_> {
        match part {
            MetadataPart::Distance => RawBsonRef::Double(self.distance),
            MetadataPart::Point => {
                let location = self.location.iter().next().and_then(|entry| entry.ok());
                location.map_or(RawBsonRef::Null, |(_, value)| value)
            }
        }
    }
}

/// Whether a document has a `$meta` anywhere in it.
pub fn mentions_metadata(document: &RawDocument) -> bool {
    document.iter().flatten().any(|(name, value)| {
        name.as_str() == "$meta"
            || match value {
                RawBsonRef::Document(below) => mentions_metadata(below),
                RawBsonRef::Array(below) => {
                    RawDocument::from_bytes(below.as_bytes()).is_ok_and(mentions_metadata)
                }
                _ => false,
            }
    })
}
