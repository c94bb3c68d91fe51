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
        /// What finds documents, if it knows more of them than they say.
        search: Option<SearchKind>,
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
    /// `textScore`.
    Score,
    /// `recordId`.
    RecordId,
    /// `indexKey`.
    IndexKey,
    /// `sortKey`.
    SortKey,
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

/// What a search knows of a document that it found.
#[derive(Debug, Clone)]
pub enum SearchMetadata {
    /// How far it is, and which of its locations is so far.
    Near {
        /// As the client is told it.
        distance: f64,
        /// Its only field.
        location: RawDocumentBuf,
    },
    /// How well it answers a `$text`.
    Text {
        /// The sum of the scores of its terms.
        score: f64,
    },
}

/// What finds documents and knows more of them than they say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SearchKind {
    /// `$near` and `$geoNear`.
    Near,
    /// `$text`.
    Text,
}

/// Names that MongoDB knows and Meridian has nothing for.
const ABSENT: [&str; 2] = ["sortKey", "timeseriesBucketMinTime"];

impl SearchKind {
    /// By what the first stage of a pipeline finds documents.
    pub fn of_pipeline(stages: &[&RawDocument]) -> Option<Self> {
        match stages.first()?.iter().flatten().next()? {
            (name, _) if name.as_str() == "$geoNear" => Some(Self::Near),
            (name, RawBsonRef::Document(filter)) if name.as_str() == "$match" => {
                mentions_text(filter).then_some(Self::Text)
            }
            _ => None,
        }
    }
}

impl MetadataScope {
    /// Of a pipeline whose first stage finds documents by this search.
    pub fn of_pipeline(search: Option<SearchKind>) -> Self {
        Self::Of {
            search,
            tells_origin: false,
        }
    }

    /// Of a find by this search.
    pub fn of_find(search: Option<SearchKind>) -> Self {
        Self::Of {
            search,
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
        let (part, of, words) = match name {
            "geoNearDistance" => (
                MetadataPart::Distance,
                SearchKind::Near,
                "$geoNear distance",
            ),
            "geoNearPoint" => (MetadataPart::Point, SearchKind::Near, "$geoNear point"),
            "textScore" => (MetadataPart::Score, SearchKind::Text, "text score"),
            "sortKey" if self.tells_origin() => return Ok(MetadataPart::SortKey),
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
        match self {
            // As in MongoDB, where a filter and an update know of no score.
            Self::Refused if part == MetadataPart::Score => Ok(MetadataPart::Nothing),
            Self::Refused => Err(Error::not_implemented(format!(
                "{{ $meta: \"{name}\" }} in this place"
            ))),
            Self::Of {
                search: Some(own), ..
            } if own == of => Ok(part),
            _ => Err(Error::location(
                UNAVAILABLE,
                format!("query requires {words} metadata, but it is not available"),
            )),
        }
    }
}

/// MongoDB's code for metadata that a query does not have.
pub const UNAVAILABLE: i32 = 40218;

impl SearchMetadata {
    /// Keeps a distance as the client is told it, and a location.
    pub fn near(distance: f64, location: RawBsonRef<'_>) -> Self {
        let mut holder = RawDocumentBuf::new();
        holder.append(cstr!(""), location);
        Self::Near {
            distance,
            location: holder,
        }
    }

    /// The number by which documents are sorted.
    pub fn rank(&self) -> f64 {
        match self {
            Self::Near { distance, .. } => *distance,
            Self::Text { score } => *score,
        }
    }

    /// A part of it, if it has that.
    pub(super) fn part(&self, part: MetadataPart) -> Option<RawBsonRef<'_>> {
        match (self, part) {
            (Self::Near { distance, .. }, MetadataPart::Distance) => {
                Some(RawBsonRef::Double(*distance))
            }
            (Self::Near { location, .. }, MetadataPart::Point) => {
                let location = location.iter().next().and_then(|entry| entry.ok());
                location.map(|(_, value)| value)
            }
            (Self::Text { score }, MetadataPart::Score) => Some(RawBsonRef::Double(*score)),
            _ => None,
        }
    }

    /// Appends the bytes by which it is spilled: the number, the length of the location (0 for none), the location.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let location = match self {
            Self::Near { location, .. } => location.as_bytes(),
            Self::Text { .. } => &[],
        };
        out.extend_from_slice(&self.rank().to_le_bytes());
        let length = u32::try_from(location.len()).unwrap_or(u32::MAX);
        out.extend_from_slice(&length.to_le_bytes());
        out.extend_from_slice(location);
    }

    /// What [`Self::encode`] wrote, and what is behind it.
    ///
    /// # Errors
    /// `InvalidBSON` for anything else.
    pub fn decode(bytes: &[u8]) -> Result<(Self, &[u8])> {
        let too_short = || corrupt("spilled metadata is too short");
        let (rank, rest) = bytes.split_first_chunk().ok_or_else(too_short)?;
        let (length, rest) = rest.split_first_chunk().ok_or_else(too_short)?;
        let length = u32::from_le_bytes(*length) as usize;
        let (location, rest) = rest.split_at_checked(length).ok_or_else(too_short)?;
        let rank = f64::from_le_bytes(*rank);
        let metadata = match location {
            [] => Self::Text { score: rank },
            _ => Self::Near {
                distance: rank,
                location: RawDocumentBuf::from_bytes(location.to_vec()).map_err(corrupt)?,
            },
        };
        Ok((metadata, rest))
    }

    /// The memory it takes.
    pub fn size_bytes(&self) -> usize {
        let location = match self {
            Self::Near { location, .. } => location.as_bytes().len(),
            Self::Text { .. } => 0,
        };
        size_of::<Self>() + location
    }
}

/// Whether a document has a `$meta` anywhere in it.
pub fn mentions_metadata(document: &RawDocument) -> bool {
    mentions(document, &|name, _| name == "$meta")
}

/// Whether a projection asks anywhere by what documents were sorted.
pub fn mentions_sort_key(shape: &RawDocument) -> bool {
    mentions(shape, &|name, own| {
        name == "$meta" && own == RawBsonRef::String("sortKey")
    })
}

/// Whether a filter has a `$text` anywhere in it.
pub fn mentions_text(filter: &RawDocument) -> bool {
    mentions(filter, &|name, _| name == "$text")
}

/// Whether a document asks anywhere in it where documents come from, and whether for the entry by which they were found.
pub fn mentions_origin(document: &RawDocument) -> (bool, bool) {
    let asks = |part: &str| {
        mentions(document, &|name, own| {
            name == "$meta" && own == RawBsonRef::String(part)
        })
    };
    let key = asks("indexKey");
    (key || asks("recordId"), key)
}

fn mentions(document: &RawDocument, is_meant: &dyn Fn(&str, RawBsonRef<'_>) -> bool) -> bool {
    document.iter().flatten().any(|(name, value)| {
        is_meant(name.as_str(), value)
            || match value {
                RawBsonRef::Document(below) => mentions(below, is_meant),
                RawBsonRef::Array(below) => RawDocument::from_bytes(below.as_bytes())
                    .is_ok_and(|below| mentions(below, is_meant)),
                _ => false,
            }
    })
}
