//! Index definitions: validated as mongod 6.0 validates them, listed as it lists them.
//!
//! In: one document of `createIndexes`, or one that was listed before. Out: an
//! [`IndexSpec`], or mongod's error. `clustering`, `include` and
//! what `storageEngine` may hold are Meridian's own.

mod conflict;
mod include;
mod key_pattern;
mod options;
mod partial;
mod wildcard;

pub use conflict::ExistingIndex;
pub use wildcard::{InScope, WildcardScope, is_wildcard};

use crate::geo::PlaneGrid;
use crate::query::Filter;
use crate::storage::Compression;
use crate::text::document_text;
use crate::textsearch::TextIndexSpec;
use crate::{Code, Error, Result};
use bson::raw::{RawDocument, RawDocumentBuf};
use bson::{RawBsonRef, cstr};
use meridian_value::Collation;
use meridian_value::key::Direction;
use options::Options;
use std::sync::Arc;

/// The version in which mongod 6.0 lists its 2dsphere indexes.
const SPHERE_VERSION: i32 = 3;
/// The most fields of a compound index, as mongod's.
pub const FIELDS_MAX: usize = 32;
/// The name of the index on `_id`.
pub const ID_INDEX_NAME: &str = "_id_";

/// How an index keeps one field.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum IndexField {
    /// By value, smallest first.
    Ascending,
    /// By value, largest first.
    Descending,
    /// By a 64-bit hash of the value.
    Hashed,
    /// By the S2 cells of a geometry.
    Sphere2d,
    /// By S2 cells that hold the points of a bucket's measurements.
    SphereBucket,
    /// By the square cells of a pair in the plane.
    Plane2d,
    /// Each path below it, with its value.
    Wildcard,
    /// By the terms of texts.
    Text,
}

impl IndexField {
    /// The direction of the encoded bytes.
    pub fn direction(self) -> Direction {
        match self {
            IndexField::Descending => Direction::Descending,
            _ => Direction::Ascending,
        }
    }

    /// True when entries tell where the field's point is.
    pub fn is_located(self) -> bool {
        matches!(
            self,
            IndexField::Sphere2d | IndexField::SphereBucket | IndexField::Plane2d
        )
    }

    /// True when the field's own values are in the key.
    pub fn is_by_value(self) -> bool {
        matches!(self, IndexField::Ascending | IndexField::Descending)
    }
}

/// What `collMod` changes of an index.
#[derive(Debug, Clone, Default)]
pub struct IndexChange {
    /// Whether queries do not use it.
    pub hidden: Option<bool>,
    /// When documents expire.
    pub expire_after_seconds: Option<i64>,
    /// Whether it becomes unique.
    pub unique: Option<bool>,
    /// Whether it is prepared to become unique.
    pub prepare_unique: Option<bool>,
}

/// A validated index definition.
#[derive(Debug, Clone)]
pub struct IndexSpec {
    /// Its name, unique in the collection.
    pub name: String,
    /// Dotted path and kind of each field, in order.
    pub key: Vec<(String, IndexField)>,
    /// By what texts are ordered, and which are the same.
    pub collation: Collation,
    /// Whether the definition says no collation, so that it is that of the collection.
    inherits_collation: bool,
    /// Refuses a second document with the same fields.
    pub unique: bool,
    /// Refuses new documents with the fields of others, as it will when it is unique.
    pub prepare_unique: bool,
    /// Has no entry for documents without any of the fields.
    pub sparse: bool,
    /// Maintained, but not used by queries.
    pub hidden: bool,
    /// Has entries only for documents that match this filter.
    pub partial_filter: Option<RawDocumentBuf>,
    /// TTL: documents expire this long after the date in the field.
    pub expire_after_seconds: Option<i64>,
    /// Entries carry these fields of their document (dotted paths).
    pub include: Vec<String>,
    /// Entries carry their whole document.
    pub clustering: bool,
    /// How entries are compressed, if it is said.
    pub compression: Option<Compression>,
    /// `2dsphereIndexVersion` of a 2dsphere index.
    pub sphere_version: Option<i32>,
    /// The plane of a 2d index; others have the default.
    pub grid: PlaneGrid,
    /// What a wildcard index reads of documents.
    pub wildcard: Option<Arc<WildcardScope>>,
    /// What a text index reads of documents.
    pub text: Option<Arc<TextIndexSpec>>,
    /// The definition as `listIndexes` shows it.
    pub original: RawDocumentBuf,
    /// The names of its options in the order of the client, in which messages show them.
    written: Arc<[Box<str>]>,
}

impl IndexSpec {
    /// Validates the definition of a new index.
    ///
    /// # Errors
    /// mongod's: `CannotCreateIndex`, `TypeMismatch`, `InvalidIndexSpecificationOption`, …;
    /// `NotImplemented` for what Meridian does not have.
    pub fn parse(document: &RawDocument) -> Result<IndexSpec> {
        Self::read(document, true)
    }

    /// Validates the definition of an index that is there: earlier releases took some that are refused now.
    ///
    /// # Errors
    /// As [`Self::parse`].
    pub fn parse_stored(document: &RawDocument) -> Result<IndexSpec> {
        Self::read(document, false)
    }

    fn read(document: &RawDocument, is_new: bool) -> Result<IndexSpec> {
        let mut options =
            Options::parse(document).map_err(|error| in_specification(document, error))?;
        options.check_ttl(document)?;
        let versioned = with_version(document);
        options.check_names(&versioned)?;
        options
            .check_combination()
            .map_err(|error| in_specification(&versioned, error))?;
        options.check_plugin()?;
        if is_new {
            options.check_new(&versioned)?;
        }
        if !options.is_text() {
            options.check_length()?;
        }
        options.read_collation(&versioned)?;
        options
            .read_text()
            .map_err(|error| in_specification(&versioned, error))?;
        options.check_length()?;
        Ok(options.into_spec())
    }

    /// The definition of the index on `_id`.
    pub fn id_index() -> IndexSpec {
        let mut document = RawDocumentBuf::new();
        let mut key = RawDocumentBuf::new();
        key.append(cstr!("_id"), 1);
        document.append(cstr!("key"), &key);
        document.append(cstr!("name"), ID_INDEX_NAME);
        IndexSpec::parse(&document).expect("the definition of the _id index is valid")
    }

    /// True for `{_id: 1}`: the documents themselves are that index.
    pub fn is_id_index(&self) -> bool {
        key_pattern::is_id(self.key_pattern())
    }

    /// The key pattern as given, such as `{a: 1, "b.c": -1}`.
    pub fn key_pattern(&self) -> &RawDocument {
        self.original
            .get_document("key")
            .expect("a validated definition has a key pattern")
    }

    /// The definition as `listIndexes` shows it.
    pub fn listing(&self) -> &RawDocument {
        &self.original
    }

    /// This definition of a wildcard index as that of an index on one path: `{$_path: 1, path: 1}`.
    pub(crate) fn at_path(&self, path: &str) -> IndexSpec {
        let mut original = RawDocumentBuf::new();
        for (name, value) in self.original.iter().flatten() {
            let first = value
                .as_document()
                .and_then(|key| key.iter().flatten().next());
            match (name.as_str(), first) {
                ("key", Some((_, number))) => {
                    original.append(name, super::wildcard::pattern_of_path(number, path));
                }
                _ => original.append(name, value),
            }
        }
        IndexSpec {
            key: vec![
                ("$_path".to_owned(), IndexField::Ascending),
                (path.to_owned(), IndexField::Ascending),
            ],
            original,
            ..self.clone()
        }
    }

    /// The parsed partial filter.
    ///
    /// # Errors
    /// None for a specification that [`IndexSpec::parse`] accepted.
    pub fn filter(&self) -> Result<Option<Filter>> {
        self.partial_filter
            .as_deref()
            .map(|filter| Filter::parse_by(filter, &self.collation))
            .transpose()
    }

    /// True when one of the fields is of this kind.
    pub fn has(&self, kind: IndexField) -> bool {
        self.key.iter().any(|(_, field)| *field == kind)
    }

    /// This definition with the collection's collation, if it says none itself.
    ///
    /// # Errors
    /// As [`IndexSpec::parse`].
    pub fn in_collection_with(self, collation: &Collation) -> Result<IndexSpec> {
        let Some(listed) = crate::collation::listing(collation).filter(|_| self.inherits_collation)
        else {
            return Ok(self);
        };
        // In mongod's order, which its messages show.
        let mut document = RawDocumentBuf::new();
        for (name, value) in self
            .original
            .iter()
            .flatten()
            .filter(|(name, _)| *name != "v")
        {
            document.append(name, value);
        }
        if let Ok(Some(version)) = self.original.get("v") {
            document.append(cstr!("v"), version);
        }
        document.append(cstr!("collation"), listed);
        IndexSpec::parse(&document)
    }

    /// Whether a document is refused that has the fields of another one.
    pub fn refuses_duplicates(&self) -> bool {
        self.unique || self.prepare_unique
    }

    /// This definition with changes, as `collMod` makes them.
    ///
    /// # Errors
    /// As [`IndexSpec::parse`].
    pub fn modified(&self, change: &IndexChange) -> Result<IndexSpec> {
        let mut document = RawDocumentBuf::new();
        let makes_unique = change.unique == Some(true);
        for (name, value) in self.original.iter().flatten() {
            let replaced = match name.as_str() {
                "hidden" => change.hidden.is_some(),
                "expireAfterSeconds" => change.expire_after_seconds.is_some(),
                "unique" => makes_unique,
                "prepareUnique" => makes_unique || change.prepare_unique.is_some(),
                _ => false,
            };
            if !replaced {
                document.append(name, value);
            }
        }
        if let Some(hidden) = change.hidden {
            document.append(cstr!("hidden"), hidden);
        }
        if let Some(seconds) = change.expire_after_seconds {
            document.append(cstr!("expireAfterSeconds"), seconds);
        }
        match (makes_unique, change.prepare_unique) {
            (true, _) => document.append(cstr!("unique"), true),
            // A unique index is prepared for it.
            (false, Some(prepared)) if !self.unique => {
                document.append(cstr!("prepareUnique"), prepared);
            }
            _ => {}
        }
        IndexSpec::parse(&document)
    }
}

/// The name that shells and drivers give: `a_1_b.c_-1`.
pub fn default_name(key: &RawDocument) -> String {
    let parts = key.iter().flatten().map(|(path, kind)| match kind {
        RawBsonRef::String(plugin) => format!("{}_{plugin}", path.as_str()),
        RawBsonRef::Double(number) => format!("{}_{number}", path.as_str()),
        other => format!("{}_{}", path.as_str(), crate::text::text(other)),
    });
    parts.collect::<Vec<_>>().join("_")
}

/// mongod adds the version before its second round of checks, and prints it.
fn with_version(document: &RawDocument) -> RawDocumentBuf {
    let mut versioned = document.to_owned();
    if !matches!(document.get("v"), Ok(Some(_))) {
        versioned.append(cstr!("v"), 2);
    }
    versioned
}

fn in_specification(document: &RawDocument, error: Error) -> Error {
    if error.code == Code::NotImplemented {
        return error;
    }
    let specification = document_text(document);
    let message = format!(
        "Error in specification {specification} :: caused by :: {}",
        error.message
    );
    Error { message, ..error }
}

fn cannot_create(message: impl Into<String>) -> Error {
    Error::new(Code::CannotCreateIndex, message)
}
