//! `{$meta: ...}`: what is known of a document beside its fields: by a nearest-first search, and by the plan that found it.
//!
//! In: the operand, and what the query knows. Out: which part is meant, or MongoDB's error. The
//! parts themselves travel beside the document, in [`Variables`](super::Variables).

use super::value::{corrupt, raw_size_bytes};
use crate::error::{Error, Result};
use bson::cstr;
use bson::raw::{RawArrayBuf, RawBson, RawBsonRef, RawDocument, RawDocumentBuf};

/// What expressions of a place may ask for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum MetadataScope {
    /// Whatever is asked for is missing: an update, the filter of a `find`, documents that a pipeline makes itself.
    #[default]
    Missing,
    /// What MongoDB calls not available: in a `$match`.
    Unavailable,
    /// What documents of a query have, and what this search knows of them.
    Of(Option<SearchKind>),
}

/// What a statement asks for beside fields.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct AskedMetadata {
    /// What a search knows, behind the first stage.
    pub search: bool,
    /// Where documents come from: `recordId` or `indexKey`.
    pub origin: bool,
    /// `indexKey`, for which documents have to be whole.
    pub index_key: bool,
    /// `sortKey`.
    pub sort_key: bool,
    /// `randVal`.
    pub random: bool,
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
    /// `randVal`.
    Random,
    /// What no document has, such as `searchScore`.
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

/// What is known of a document beside its fields.
#[derive(Debug, Clone, Default)]
pub struct DocumentMetadata {
    /// By the search that found it.
    pub search: Option<SearchMetadata>,
    /// By the plan.
    pub origin: Option<DocumentOrigin>,
    /// By what it was sorted.
    pub sort_key: Option<RawArrayBuf>,
    /// What a `$sample` drew for it, from 0 up to 1.
    pub random: Option<f64>,
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
    /// Of the stages of a pipeline.
    pub fn of_pipeline(stages: &[&RawDocument]) -> Self {
        let first = stages
            .first()
            .and_then(|stage| stage.iter().flatten().next());
        match first {
            Some((name, _)) if name.as_str() == "$documents" => Self::Missing,
            _ => Self::Of(SearchKind::of_pipeline(stages)),
        }
    }

    /// Whether documents of a query are meant.
    pub fn is_of_query(self) -> bool {
        matches!(self, Self::Of(_))
    }

    /// The part that the operand of `$meta` names.
    ///
    /// # Errors
    /// 17307 for no string, 17308 for a name that is none, 40218 where the query has no such metadata.
    pub fn part(self, operand: RawBsonRef<'_>) -> Result<MetadataPart> {
        let RawBsonRef::String(name) = operand else {
            return Err(Error::location(
                17307,
                "$meta only supports string arguments",
            ));
        };
        use MetadataPart::{Distance, IndexKey, Nothing, Point, Random, RecordId, Score, SortKey};
        let (part, search, words) = match name {
            "geoNearDistance" => (Distance, Some(SearchKind::Near), "$geoNear distance"),
            "geoNearPoint" => (Point, Some(SearchKind::Near), "$geoNear point"),
            "textScore" => (Score, Some(SearchKind::Text), "text score"),
            "sortKey" => (SortKey, None, "sort key"),
            "recordId" => (RecordId, None, "record ID"),
            "indexKey" => (IndexKey, None, "index key"),
            "randVal" => (Random, None, "rand val"),
            "timeseriesBucketMinTime" => (Nothing, None, "timeseries bucket min time"),
            "searchScore" | "searchHighlights" | "searchScoreDetails" => {
                return Ok(Nothing);
            }
            _ => {
                return Err(Error::location(
                    17308,
                    format!("Unsupported argument to $meta: {name}"),
                ));
            }
        };
        match self {
            Self::Missing => Ok(Nothing),
            Self::Of(own) if search.is_none() || own == search => Ok(part),
            Self::Of(_) | Self::Unavailable => Err(Error::location(
                UNAVAILABLE,
                format!("query requires {words} metadata, but it is not available"),
            )),
        }
    }
}

impl AskedMetadata {
    /// By the stages of a pipeline.
    pub fn by_pipeline(stages: &[&RawDocument]) -> Self {
        let mut asked = Self::default();
        for stage in stages {
            asked = asked.and(Self::by(stage));
        }
        let mut behind = stages.iter().skip(1);
        asked.search = behind.any(|stage| mentions_metadata(stage));
        asked
    }

    /// By a document, anywhere in it.
    pub fn by(document: &RawDocument) -> Self {
        if !mentions_metadata(document) {
            return Self::default();
        }
        let asks = |part: &str| {
            mentions(document, &|name, own| {
                name == "$meta" && own == RawBsonRef::String(part)
            })
        };
        let index_key = asks("indexKey");
        Self {
            search: false,
            origin: index_key || asks("recordId"),
            index_key,
            sort_key: asks("sortKey"),
            random: asks("randVal"),
        }
    }

    /// By either of two.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            search: self.search || other.search,
            origin: self.origin || other.origin,
            index_key: self.index_key || other.index_key,
            sort_key: self.sort_key || other.sort_key,
            random: self.random || other.random,
        }
    }
}

impl DocumentMetadata {
    /// A part of it, if it has that.
    pub(super) fn part(&self, part: MetadataPart) -> Option<RawBsonRef<'_>> {
        let origin = self.origin.as_ref();
        match part {
            MetadataPart::Distance | MetadataPart::Point | MetadataPart::Score => {
                self.search.as_ref().and_then(|search| search.part(part))
            }
            MetadataPart::RecordId => origin.map(|origin| origin.record_id.as_raw_bson_ref()),
            MetadataPart::IndexKey => {
                let key = origin.and_then(|origin| origin.index_key.as_deref());
                key.map(RawBsonRef::Document)
            }
            MetadataPart::SortKey => self.sort_key.as_deref().map(RawBsonRef::Array),
            MetadataPart::Random => self.random.map(RawBsonRef::Double),
            MetadataPart::Nothing => None,
        }
    }

    /// As it is spilled: a field for each part that is known.
    pub fn encode(&self) -> RawDocumentBuf {
        let mut out = RawDocumentBuf::new();
        match &self.search {
            Some(SearchMetadata::Near { distance, location }) => {
                out.append(cstr!("distance"), *distance);
                out.append(cstr!("location"), location.clone());
            }
            Some(SearchMetadata::Text { score }) => out.append(cstr!("score"), *score),
            None => {}
        }
        if let Some(origin) = &self.origin {
            out.append(cstr!("record"), origin.record_id.clone());
            if let Some(key) = &origin.index_key {
                out.append(cstr!("key"), key.clone());
            }
        }
        if let Some(values) = &self.sort_key {
            out.append(cstr!("sorted"), values.clone());
        }
        if let Some(random) = self.random {
            out.append(cstr!("random"), random);
        }
        out
    }

    /// What [`Self::encode`] made.
    ///
    /// # Errors
    /// `InvalidBSON` for anything else.
    pub fn decode(spilled: &RawDocument) -> Result<Self> {
        let mut own = Self::default();
        for field in spilled.iter() {
            let (name, value) = field.map_err(corrupt)?;
            match (name.as_str(), value) {
                ("distance", RawBsonRef::Double(distance)) => {
                    let location = RawDocumentBuf::new();
                    own.search = Some(SearchMetadata::Near { distance, location });
                }
                ("location", RawBsonRef::Document(holder)) => {
                    if let Some(SearchMetadata::Near { location, .. }) = &mut own.search {
                        *location = holder.to_owned();
                    }
                }
                ("score", RawBsonRef::Double(score)) => {
                    own.search = Some(SearchMetadata::Text { score });
                }
                ("record", record) => {
                    let record_id = record.into();
                    let index_key = None;
                    own.origin = Some(DocumentOrigin {
                        record_id,
                        index_key,
                    });
                }
                ("key", RawBsonRef::Document(key)) => {
                    if let Some(origin) = &mut own.origin {
                        origin.index_key = Some(key.to_owned());
                    }
                }
                ("sorted", RawBsonRef::Array(values)) => own.sort_key = Some(values.to_owned()),
                ("random", RawBsonRef::Double(random)) => own.random = Some(random),
                (name, _) => return Err(corrupt(format!("spilled metadata has a field {name}"))),
            }
        }
        Ok(own)
    }

    /// The memory it takes.
    pub fn size_bytes(&self) -> usize {
        let location = match &self.search {
            Some(SearchMetadata::Near { location, .. }) => location.as_bytes().len(),
            _ => 0,
        };
        let origin = self.origin.as_ref().map_or(0, |origin| {
            let key = origin.index_key.as_ref();
            raw_size_bytes(origin.record_id.as_raw_bson_ref())
                + key.map_or(0, |key| key.as_bytes().len())
        });
        let sort_key = self.sort_key.as_ref();
        let sort_key = sort_key.map_or(0, |values| values.as_bytes().len());
        size_of::<Self>() + location + origin + sort_key
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
}

/// Whether a document has a `$meta` anywhere in it.
pub fn mentions_metadata(document: &RawDocument) -> bool {
    mentions(document, &|name, _| name == "$meta")
}

/// Whether a filter has a `$text` anywhere in it.
pub fn mentions_text(filter: &RawDocument) -> bool {
    mentions(filter, &|name, _| name == "$text")
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
