//! `{$meta: ...}`: what is known of a document beside its fields: by a nearest-first search, and by the plan that found it.
//!
//! In: the operand, and what the query knows. Out: which part is meant, or MongoDB's error. The
//! parts themselves travel beside the document, in [`Variables`](super::Variables).

use super::value::corrupt;
use crate::error::{Error, Result};
use bson::cstr;
use bson::raw::{RawBson, RawBsonRef, RawDocument, RawDocumentBuf};

/// Whether expressions may ask for metadata.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum MetadataScope {
    /// Not in this place (an update, a filter): refused by name.
    #[default]
    Refused,
    /// In a query.
    Of {
        /// Whether documents come with a distance and a location: by `$near` or `$geoNear`.
        is_nearest_first: bool,
        /// Whether it is known where documents come from: in a `find`.
        tells_origin: bool,
    },
}

/// A part of the metadata.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetadataPart {
    /// `geoNearDistance`.
    Distance,
    /// `geoNearPoint`.
    Point,
    /// `recordId`.
    RecordId,
    /// `indexKey`.
    IndexKey,
    /// What no document has here, such as `randVal`, which only `$sample` gives.
    Nothing,
}

/// Where a document comes from.
#[derive(Debug, Clone)]
pub struct DocumentOrigin {
    /// What it lies under.
    pub record_id: RawBson,
    /// The entry by which it was found.
    pub index_key: Option<RawDocumentBuf>,
}

/// How far a document is, and which of its locations is so far.
#[derive(Debug, Clone)]
pub struct NearMetadata {
    distance: f64,
    /// Its only field.
    location: RawDocumentBuf,
}

/// Names that MongoDB knows and Meridian has nothing for.
const ABSENT: [&str; 2] = ["sortKey", "timeseriesBucketMinTime"];

impl MetadataScope {
    /// Of a pipeline that comes nearest first, or of one that does not.
    pub fn of_pipeline(is_nearest_first: bool) -> Self {
        Self::Of {
            is_nearest_first,
            tells_origin: false,
        }
    }

    /// Of a find that comes nearest first, or of one that does not.
    pub fn of_find(is_nearest_first: bool) -> Self {
        Self::Of {
            is_nearest_first,
            tells_origin: true,
        }
    }

    /// Whether it is known where documents come from.
    pub fn tells_origin(self) -> bool {
        matches!(
            self,
            Self::Of {
                tells_origin: true,
                ..
            }
        )
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
            "recordId" if self.tells_origin() => return Ok(MetadataPart::RecordId),
            "indexKey" if self.tells_origin() => return Ok(MetadataPart::IndexKey),
            "randVal" | "searchScore" | "searchHighlights" if self.tells_origin() => {
                return Ok(MetadataPart::Nothing);
            }
            "recordId" | "indexKey" | "randVal" | "searchScore" | "searchHighlights" => {
                return Err(Error::not_implemented(format!("{{ $meta: \"{name}\" }}")));
            }
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
            (
                Self::Of {
                    is_nearest_first: true,
                    ..
                },
                Some(part),
            ) => Ok(part),
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

    /// The location that is so far away.
    pub fn location(&self) -> RawBsonRef<'_> {
        let location = self.location.iter().next().and_then(|entry| entry.ok());
        location.map_or(RawBsonRef::Null, |(_, value)| value)
    }
}

/// Whether a document has a `$meta` anywhere in it.
pub fn mentions_metadata(document: &RawDocument) -> bool {
    mentions(document, &|_| true)
}

/// Whether a document asks anywhere in it where documents come from, and whether for the entry by which they were found.
pub fn mentions_origin(document: &RawDocument) -> (bool, bool) {
    let asks = |part: &str| mentions(document, &|own| own == RawBsonRef::String(part));
    let key = asks("indexKey");
    (key || asks("recordId"), key)
}

fn mentions(document: &RawDocument, is_meant: &dyn Fn(RawBsonRef<'_>) -> bool) -> bool {
    document.iter().flatten().any(|(name, value)| {
        (name.as_str() == "$meta" && is_meant(value))
            || match value {
                RawBsonRef::Document(below) => mentions(below, is_meant),
                RawBsonRef::Array(below) => RawDocument::from_bytes(below.as_bytes())
                    .is_ok_and(|below| mentions(below, is_meant)),
                _ => false,
            }
    })
}
