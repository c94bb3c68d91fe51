//! The shape of a statement, and what index filters make of a collection for statements of one shape.
//!
//! In: a query. Out: bytes that are equal for queries which differ in the values of their conditions only: what
//! MongoDB's query shape is for index filters, as far as its documentation says.

use super::QuerySpec;
use crate::catalog::Collection;
use bson::raw::{RawBsonRef, RawDocument};
use std::borrow::Cow;

impl QuerySpec {
    /// The shape of the query, by its filter, order, projection and collation.
    pub fn shape(&self) -> Vec<u8> {
        let mut shape = conditions(&self.filter.to_document());
        let order = self.sort.as_ref().map(|sort| sort.to_document());
        let order = order.unwrap_or_default();
        let projection = self.projection_source.clone().unwrap_or_default();
        let collation = crate::collation::listing(&self.collation).unwrap_or_default();
        for part in [order, projection, collation] {
            shape.extend_from_slice(part.as_bytes());
        }
        shape
    }

    /// The collection as the planner may see it for this query, whose hint has no say where an index filter has.
    pub(super) fn allowed<'c>(&mut self, collection: &'c Collection) -> Cow<'c, Collection> {
        let filters = collection.state.index_filters();
        let filter = (!filters.is_empty()).then(|| filters.of(&self.shape()));
        let Some(filter) = filter.flatten() else {
            return Cow::Borrowed(collection);
        };
        self.hint = None;
        let mut allowed = collection.clone();
        allowed.indexes.retain(|index| {
            let key = index.spec.original.get_document("key");
            key.is_ok_and(|key| filter.allows(&index.spec.name, key))
        });
        Cow::Owned(allowed)
    }

    /// Whether an index filter has a say.
    pub fn is_filtered(&self, collection: &Collection) -> bool {
        let filters = collection.state.index_filters();
        !filters.is_empty() && filters.of(&self.shape()).is_some()
    }
}

/// The shape of the conditions of a document: fields and operators without their values, those that are joined in one
/// order.
fn conditions(document: &RawDocument) -> Vec<u8> {
    let mut parts: Vec<Vec<u8>> = Vec::new();
    for (name, value) in document.iter().flatten() {
        let name = name.as_str();
        let mut part = name.as_bytes().to_vec();
        part.push(0);
        match (name, value) {
            ("$and" | "$or" | "$nor", RawBsonRef::Array(items)) => {
                let items = items
                    .into_iter()
                    .flatten()
                    .filter_map(RawBsonRef::as_document);
                let mut shapes: Vec<Vec<u8>> = items.map(conditions).collect();
                shapes.sort();
                shapes.iter().for_each(|shape| append(&mut part, shape));
            }
            ("$expr" | "$jsonSchema" | "$text" | "$where", RawBsonRef::Document(operand)) => {
                append(&mut part, operand.as_bytes());
            }
            (_, RawBsonRef::Document(operand)) if is_operators(operand) => {
                append(&mut part, &conditions(operand));
            }
            _ => {}
        }
        parts.push(part);
    }
    parts.sort();
    let mut shape = Vec::new();
    parts.iter().for_each(|part| append(&mut shape, part));
    shape
}

/// With its length before it, so that no two lists have the same bytes.
fn append(out: &mut Vec<u8>, part: &[u8]) {
    out.extend_from_slice(&(part.len() as u64).to_le_bytes());
    out.extend_from_slice(part);
}

/// Whether a document holds operators or conditions of fields, and is no value.
fn is_operators(document: &RawDocument) -> bool {
    let first = document.iter().flatten().next();
    first.is_some_and(|(name, _)| name.as_str().starts_with('$'))
}
