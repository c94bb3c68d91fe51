//! Whether a requested index already exists, or gets in the way of one that does.
//!
//! Two definitions are equivalent when their entries would be the same: key pattern,
//! uniqueness, sparseness, partial filter and what entries carry agree. mongod refuses a second equivalent
//! index, and a second index of the same name, with messages that this module repeats.

use super::{IndexSpec, cannot_create};
use crate::text::document_text;
use crate::{Code, Error, Result};
use bson::raw::{RawDocument, RawDocumentBuf};
use std::cmp::Ordering;

/// The outcome for a request that does not conflict.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExistingIndex {
    /// No such index yet.
    New,
    /// The same index exists: nothing to do.
    Identical,
}

impl IndexSpec {
    /// Compares a requested index with those that exist.
    ///
    /// # Errors
    /// `IndexKeySpecsConflict` (86) and `IndexOptionsConflict` (85) with mongod's text; `CannotCreateIndex` for a second
    /// text index.
    pub fn compare_with<'a>(
        &self,
        existing: impl IntoIterator<Item = &'a IndexSpec>,
    ) -> Result<ExistingIndex> {
        let mut outcome = ExistingIndex::New;
        // One of the same name is looked at first.
        let (named, others): (Vec<_>, Vec<_>) = existing
            .into_iter()
            .partition(|other| other.name == self.name);
        let mut another_text = None;
        for other in named.into_iter().chain(others) {
            if self.text.is_some() && other.text.is_some() {
                another_text = Some(&other.name);
            }
            match (other.name == self.name, self.is_equivalent(other)) {
                (true, false) => return Err(self.same_name(other)),
                (true, true) if self.has_same_options(other) => {
                    outcome = ExistingIndex::Identical;
                }
                (true, true) => {
                    return Err(self.equivalent(other, "with the same name but different options"));
                }
                (false, true) if self.has_same_options(other) => {
                    return Err(Error::new(
                        Code::IndexOptionsConflict,
                        format!("Index already exists with a different name: {}", other.name),
                    ));
                }
                (false, true) => {
                    return Err(self.equivalent(other, "with a different name and options"));
                }
                (false, false) => {}
            }
        }
        match another_text {
            Some(name) if outcome == ExistingIndex::New => Err(cannot_create(format!(
                "only one text index per collection allowed, found existing text index \"{name}\""
            ))),
            _ => Ok(outcome),
        }
    }

    /// Whether options agree that change no entry.
    fn has_same_options<'a>(&'a self, other: &'a IndexSpec) -> bool {
        self.expire_after_seconds == other.expire_after_seconds
            && self.compression == other.compression
            && self.text == other.text
            && self.prepare_unique == other.prepare_unique
            && ["bits", "min", "max"].iter().all(|option| {
                let given = |spec: &'a IndexSpec| spec.original.get(option).ok().flatten();
                match (given(self), given(other)) {
                    (Some(own), Some(its)) => meridian_value::compare(own, its).is_eq(),
                    (None, None) => true,
                    _ => false,
                }
            })
    }

    fn is_equivalent(&self, other: &IndexSpec) -> bool {
        let equal = |a: &RawDocument, b: &RawDocument| {
            meridian_value::compare_documents(a, b) == Ordering::Equal
        };
        let written_out = |spec: &IndexSpec| {
            let filter = spec.filter().ok().flatten();
            filter.map(|filter| filter.to_document())
        };
        let same_filter = match (&self.partial_filter, &other.partial_filter) {
            (Some(a), Some(b)) => equal(a, b) || written_out(self) == written_out(other),
            (None, None) => true,
            _ => false,
        };
        equal(self.key_pattern(), other.key_pattern())
            && self.unique == other.unique
            && self.sparse == other.sparse
            && self.collation == other.collation
            && self.clustering == other.clustering
            && self.include == other.include
            && self.wildcard == other.wildcard
            && same_filter
    }

    fn same_name(&self, existing: &IndexSpec) -> Error {
        Error::new(
            Code::IndexKeySpecsConflict,
            format!(
                "An existing index has the same name as the requested index. When index names \
                 are not specified, they are auto generated and can cause conflicts. Please refer \
                 to our documentation. Requested index: {}, existing index: {}",
                self.requested_text(),
                existing.conflict_text()
            ),
        )
    }

    fn equivalent(&self, existing: &IndexSpec, how: &str) -> Error {
        Error::new(
            Code::IndexOptionsConflict,
            format!(
                "An equivalent index already exists {how}. Requested index: {}, existing index: {}",
                self.requested_text(),
                existing.conflict_text()
            ),
        )
    }

    /// The definition as mongod prints it in these messages: `unique` and `hidden` right behind `v`.
    pub(crate) fn conflict_text(&self) -> String {
        self.text_in_order(&[])
    }

    /// The same of one that is asked for: its options as the client wrote them.
    fn requested_text(&self) -> String {
        self.text_in_order(&self.written)
    }

    fn text_in_order(&self, written: &[Box<str>]) -> String {
        const FIRST: [&str; 6] = ["v", "hidden", "prepareUnique", "unique", "key", "name"];
        let place = |field: &str| {
            let first = FIRST.iter().position(|own| *own == field);
            let own = || written.iter().position(|own| **own == *field);
            let behind = || FIRST.len() + own().unwrap_or(written.len());
            first.unwrap_or_else(behind)
        };
        let mut fields: Vec<_> = self.original.iter().flatten().collect();
        fields.sort_by_key(|(field, _)| place(field.as_str()));
        let mut document = RawDocumentBuf::new();
        for (field, value) in fields {
            document.append(field, value);
        }
        document_text(&document)
    }
}
