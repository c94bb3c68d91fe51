//! The documents of a small collection by the values of a field, for a `$lookup` of many documents.
//!
//! What may be found by a value is found here by its key. Where that is not all that a condition asks (a null is also
//! what is not there, an array is compared whole), the condition itself is asked of what was found.

use super::{Foreign, ForeignDocuments, Pipeline, encoded};
use crate::error::Result;
use crate::expression::Variables;
use crate::operation::memory::Reservation;
use crate::query::Filter;
use crate::sorter::STAGE_BYTES_MAX;
use ahash::AHashMap;
use bson::raw::{RawBsonRef, RawDocument, RawDocumentBuf};
use meridian_value::Collation;
use meridian_value::path::{self, LeafArrays, Path};
use std::ops::ControlFlow;
use std::sync::Arc;

/// Documents, and where those lie that may match a value.
pub struct HashedDocuments {
    documents: Arc<Vec<RawDocumentBuf>>,
    by_key: AHashMap<Vec<u8>, Vec<u32>>,
    collation: Collation,
    _memory: Reservation,
}

impl HashedDocuments {
    /// Reads a collection; `None` when it takes more memory than a stage may hold.
    ///
    /// # Errors
    /// Those of the storage.
    pub fn read(
        foreign: &dyn Foreign,
        collection: &str,
        field: &Path,
        variables: &Variables,
    ) -> Result<Option<Self>> {
        let mut memory = Reservation::none();
        let (mut documents, mut bytes) = (Vec::new(), 0);
        let mut by_key: AHashMap<Vec<u8>, Vec<u32>> = AHashMap::default();
        for found in foreign.run(Some(collection), Pipeline::default(), variables)? {
            let found = found?;
            let place = u32::try_from(documents.len()).unwrap_or(u32::MAX);
            bytes += found.as_bytes().len() + size_of::<RawDocumentBuf>();
            for key in keys(&found, field, variables.collation()) {
                bytes += key.len() + 64;
                let places = by_key.entry(key).or_default();
                if places.last() != Some(&place) {
                    places.push(place);
                }
            }
            documents.push(found);
            if bytes > STAGE_BYTES_MAX || !memory.try_grow(bytes) {
                return Ok(None);
            }
        }
        Ok(Some(Self {
            documents: Arc::new(documents),
            by_key,
            collation: variables.collation().clone(),
            _memory: memory,
        }))
    }

    /// The documents that have one of the values; `filter` says so of those that the values do not tell.
    ///
    /// # Errors
    /// Those of the filter.
    pub fn find<'v>(
        &self,
        values: impl Iterator<Item = RawBsonRef<'v>>,
        filter: impl FnOnce() -> Result<Filter>,
    ) -> Result<ForeignDocuments> {
        let (mut places, mut is_exact, mut count) = (Vec::new(), true, 0);
        for value in values {
            count += 1;
            is_exact &= is_told_by_key(value);
            let found = self.by_key.get(&encoded(value, &self.collation));
            places.extend(found.into_iter().flatten().copied());
        }
        if count > 1 {
            places.sort_unstable();
            places.dedup();
        }
        let documents = Arc::clone(&self.documents);
        let filter = match is_exact {
            true => Filter::Always,
            false => filter()?,
        };
        Ok(Box::new(places.into_iter().filter_map(move |place| {
            let candidate = &documents[place as usize];
            let matches = filter.matches(candidate);
            matches
                .map(|matches| matches.then(|| candidate.clone()))
                .transpose()
        })))
    }
}

/// The keys of all that a condition on the field would look at; that of null where there is nothing.
fn keys(document: &RawDocument, field: &Path, collation: &Collation) -> Vec<Vec<u8>> {
    let mut keys = Vec::new();
    let _ = path::visit(document, field, LeafArrays::Traverse, &mut |visited| {
        keys.push(encoded(
            visited.value.unwrap_or(RawBsonRef::Null),
            collation,
        ));
        ControlFlow::Continue(())
    });
    if keys.is_empty() {
        keys.push(encoded(RawBsonRef::Null, collation));
    }
    keys
}

fn is_told_by_key(value: RawBsonRef<'_>) -> bool {
    matches!(
        value,
        RawBsonRef::String(_)
            | RawBsonRef::Boolean(_)
            | RawBsonRef::Int32(_)
            | RawBsonRef::Int64(_)
            | RawBsonRef::DateTime(_)
            | RawBsonRef::ObjectId(_)
    )
}
