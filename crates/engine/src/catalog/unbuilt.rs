//! Indexes that are listed and not built: of kinds that Meridian does not have.
//!
//! A server that is told to accept them (`--accept-unbuilt-indexes`) keeps their definitions as they came, so that a
//! restore of a whole server goes through and a later dump has them again. They have no tree and no entries; no plan
//! uses them, and a hint that names one is refused.

use super::Accesses;
use crate::error::{Code, Error, Result};
use crate::text::document_text;
use bson::cstr;
use bson::raw::{RawBsonRef, RawDocument, RawDocumentBuf};
use std::sync::Arc;

/// The largest definition: the catalogue's entry of its collection is written anew with every change.
const DEFINITION_BYTES_MAX: usize = 64 * 1024;
/// MongoDB's limit of a key pattern.
const PATTERN_BYTES_MAX: usize = 2048;
/// What a definition of such a kind may say. `unique` and `expireAfterSeconds` are not among it: they promise what an
/// index that is not built cannot keep.
const FIELDS: [&str; 14] = [
    "v",
    "key",
    "name",
    "ns",
    "background",
    "sparse",
    "hidden",
    "collation",
    "partialFilterExpression",
    "weights",
    "default_language",
    "language_override",
    "textIndexVersion",
    "storageEngine",
];

/// An index that is listed and not built.
#[derive(Clone)]
pub struct UnbuiltIndex {
    /// Its name, unique in the collection.
    pub name: String,
    /// Its definition as given, with a version.
    pub original: RawDocumentBuf,
    /// Nothing uses it; this is since when.
    pub accesses: Arc<Accesses>,
}

impl UnbuiltIndex {
    /// The index of a definition that was refused with `error`, if it is of a kind that may be listed.
    ///
    /// # Errors
    /// `error` itself for every other definition; `CannotCreateIndex` for one that is wrong.
    pub fn accept(definition: &RawDocument, error: Error) -> Result<Self> {
        let is_known = |name: &str| FIELDS.contains(&name);
        let has_promise = definition
            .iter()
            .flatten()
            .any(|(name, _)| !is_known(name.as_str()));
        if error.code != Code::NotImplemented || has_promise || !is_of_a_kind_to_list(definition) {
            return Err(error);
        }
        let refuse = |reason: &str| Err(Error::new(Code::CannotCreateIndex, reason));
        let (Ok(key), Ok(name)) = (definition.get_document("key"), definition.get_str("name"))
        else {
            return Err(error);
        };
        if key.as_bytes().len() > PATTERN_BYTES_MAX {
            return refuse("Index key pattern too large.");
        }
        if definition.as_bytes().len() > DEFINITION_BYTES_MAX {
            return refuse("the definition of the index is too large");
        }
        if name.is_empty() || name == "*" || name == "_id_" || name.contains('\0') {
            return refuse("the name of the index is empty, reserved or holds a NUL byte");
        }
        Ok(Self::of(definition))
    }

    /// The index of a definition that was accepted before.
    pub(super) fn of(definition: &RawDocument) -> Self {
        let mut original = RawDocumentBuf::new();
        if !matches!(definition.get("v"), Ok(Some(_))) {
            original.append(cstr!("v"), 2);
        }
        for (name, value) in definition.iter().flatten() {
            original.append(name, value);
        }
        Self {
            name: definition.get_str("name").unwrap_or_default().to_owned(),
            original,
            accesses: Arc::default(),
        }
    }

    /// Its key pattern.
    pub fn key_pattern(&self) -> Option<&RawDocument> {
        self.original.get_document("key").ok()
    }

    /// Whether it has this key pattern.
    pub fn has_key(&self, key: &RawDocument) -> bool {
        let own = self.key_pattern();
        own.is_some_and(|own| meridian_value::compare_documents(own, key).is_eq())
    }

    /// Whether this request is for an index that is there; `others` are the definitions of all indexes of the
    /// collection, by name.
    ///
    /// # Errors
    /// `IndexKeySpecsConflict` and `IndexOptionsConflict`, as for indexes that are built.
    pub fn is_among<'a>(
        &self,
        others: impl Iterator<Item = (&'a str, &'a RawDocument)>,
    ) -> Result<bool> {
        for (name, other) in others {
            let same_key = other.get_document("key").is_ok_and(|key| self.has_key(key));
            match (name == self.name, same_key) {
                (true, _) if same_fields(&self.original, other) => return Ok(true),
                (true, _) => return Err(same_name(&self.original, other)),
                (false, true) => {
                    return Err(Error::new(
                        Code::IndexOptionsConflict,
                        format!("Index already exists with a different name: {name}"),
                    ));
                }
                (false, false) => {}
            }
        }
        Ok(false)
    }
}

/// Text, and any kind with a collation, whose rules may not be at hand.
fn is_of_a_kind_to_list(definition: &RawDocument) -> bool {
    let key = definition.get_document("key");
    let by_key = key.is_ok_and(|key| {
        let mut fields = key.iter().flatten();
        fields.any(|(_, kind)| kind == RawBsonRef::String("text"))
    });
    by_key || definition.get_document("collation").is_ok()
}

/// Whether both have the same fields, in whatever order.
fn same_fields(one: &RawDocument, other: &RawDocument) -> bool {
    let fields = |document: &RawDocument| {
        let mut fields: Vec<String> = document
            .iter()
            .flatten()
            .map(|(name, value)| crate::text::element(name.as_str(), value))
            .collect();
        fields.sort();
        fields
    };
    fields(one) == fields(other)
}

/// The error for a second index of a name.
pub fn same_name(requested: &RawDocument, existing: &RawDocument) -> Error {
    let message = format!(
        "An existing index has the same name as the requested index. When index names are not specified, \
         they are auto generated and can cause conflicts. Please refer to our documentation. Requested \
         index: {}, existing index: {}",
        document_text(requested),
        document_text(existing)
    );
    Error::new(Code::IndexKeySpecsConflict, message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use bson::rawdoc;

    fn refused() -> Error {
        Error::not_implemented("it")
    }

    #[test]
    fn kinds_that_are_absent_are_accepted_as_given() {
        for definition in [
            rawdoc! { "key": { "a": "text" }, "name": "a" },
            rawdoc! { "v": 2, "key": { "_fts": "text", "_ftsx": 1 }, "name": "a", "weights": { "a": 1 } },
            rawdoc! { "key": { "$**": "text" }, "name": "a", "default_language": "none" },
            rawdoc! { "key": { "b": 1 }, "name": "a", "collation": { "locale": "de" } },
        ] {
            let index = UnbuiltIndex::accept(&definition, refused()).unwrap();
            assert_eq!(index.name, "a");
            let given = definition.iter().flatten().count();
            let had_version = definition.get("v").unwrap().is_some();
            let listed = index.original.iter().flatten().count();
            assert_eq!(listed, given + usize::from(!had_version));
        }
    }

    #[test]
    fn promises_and_wrong_definitions_are_refused() {
        for definition in [
            rawdoc! { "key": { "a": "text" }, "name": "a", "unique": true },
            rawdoc! { "key": { "a": 1 }, "name": "a", "collation": { "locale": "de" }, "expireAfterSeconds": 1 },
            rawdoc! { "key": { "a": 1 }, "name": "a", "prepareUnique": true },
            rawdoc! { "key": { "a": "2dsphere" }, "name": "a" },
            rawdoc! { "key": { "$**": 1 }, "name": "a", "wildcardProjection": { "a": 1 } },
            rawdoc! { "key": { "a": "text" }, "name": "" },
            rawdoc! { "key": { "a": "text" }, "name": "*" },
            rawdoc! { "key": { "a": "text" }, "name": "_id_" },
            rawdoc! { "key": { "a": "text", "b": "x".repeat(3000) }, "name": "a" },
            rawdoc! { "key": { "a": "text" }, "name": "a", "weights": { "a": "x".repeat(100_000) } },
            rawdoc! { "key": { "a": "text" } },
        ] {
            assert!(UnbuiltIndex::accept(&definition, refused()).is_err());
        }
        let text = rawdoc! { "key": { "a": "text" }, "name": "a" };
        let error = Error::new(Code::CannotCreateIndex, "wrong");
        let refused = UnbuiltIndex::accept(&text, error).map(|_| ()).unwrap_err();
        assert_eq!(refused.message, "wrong");
    }
}
