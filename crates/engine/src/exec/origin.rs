//! Where rows come from: the record ids of their documents, and the entries by which they were found.
//!
//! Rows do not carry entries. An entry is made again from the document: of its entries in the index, the first within
//! the bounds, which is that by which a scan found it.

use super::Row;
use crate::catalog::{Collection, record_number};
use crate::error::{Error, Result};
use crate::expression::{DocumentMetadata, DocumentOrigin, FieldSet};
use crate::index::bounds::{BoundsChecker, FieldBounds, KeyCheck};
use crate::index::{IndexField, KeySink};
use crate::plan::{Access, Branch, GeoAccess, IndexAccess, Plan};
use crate::query::Sort;
use crate::storage::Order;
use bson::raw::{RawArrayBuf, RawBson, RawDocument, RawDocumentBuf};
use bson::spec::BinarySubtype;
use bson::{Binary, cstr};
use meridian_value::key::Direction;
use std::sync::Arc;

/// Tells where the rows of a plan come from.
pub struct Origin {
    access: Access,
    /// By what the rows are sorted, if no index gives their order.
    sort: Option<Arc<Sort>>,
    /// Whether all documents are read, in the order of their `_id`s.
    is_by_id: bool,
    is_capped: bool,
    /// Whether documents are whole, so that entries can be made from them.
    asks_key: bool,
}

impl Origin {
    /// Of the rows of a plan on a collection.
    pub fn new(plan: &Plan, collection: &Collection) -> Self {
        Self {
            access: plan.access.clone(),
            sort: plan.sort.clone(),
            is_by_id: plan.walks_by_id(),
            is_capped: collection.options.capped.is_some(),
            asks_key: matches!(plan.query.needs, FieldSet::All),
        }
    }

    /// What a document lies under: a number in a capped collection, else its encoded `_id`, as in a clustered collection
    /// of MongoDB.
    ///
    /// # Errors
    /// `InternalError` for a key that is no record number.
    pub fn record_id(&self, key: &[u8]) -> Result<RawBson> {
        if self.is_capped {
            let number = record_number(key)?;
            return Ok(RawBson::Int64(i64::try_from(number).unwrap_or(i64::MAX)));
        }
        Ok(RawBson::Binary(Binary {
            subtype: BinarySubtype::Generic,
            bytes: key.to_vec(),
        }))
    }

    /// The entry by which a document was found, if one was used.
    ///
    /// # Errors
    /// `NotImplemented` for indexes of locations where a document has several entries or lies in a plane, and for indexes
    /// that have collations.
    pub fn index_key(&self, document: &RawDocument) -> Result<Option<RawDocumentBuf>> {
        if self
            .access
            .index()
            .is_some_and(|index| index.spec.text.is_some())
        {
            // As in MongoDB: several entries may lead to a document.
            return Ok(None);
        }
        if self.is_by_id {
            return Ok(id_key(document));
        }
        key_in(&self.access, self.sort.as_deref(), document)
    }

    /// Whether one `_id` is asked for, which MongoDB looks up without an entry (IDHACK).
    fn is_of_one_id(&self) -> bool {
        match &self.access {
            Access::Primary(own) => own.bounds.is_single_point(),
            Access::Index(own) => own.is_id_look_up(),
            _ => false,
        }
    }

    /// All that is known of a row.
    ///
    /// # Errors
    /// As above.
    pub fn of(&self, row: Row<'_>) -> Result<DocumentOrigin> {
        Ok(DocumentOrigin {
            record_id: self.record_id(row.id)?,
            index_key: match self.asks_key && !self.is_of_one_id() {
                true => self.index_key(row.document)?,
                false => None,
            },
        })
    }
}

/// Tells the stages of a pipeline what is known of the rows of a plan.
pub struct RowMetadata {
    origin: Option<Origin>,
    sorts: Option<Option<Arc<Sort>>>,
}

impl RowMetadata {
    /// Of the rows of a plan; `None` where nobody asks.
    pub fn new(plan: &Plan, collection: &Collection) -> Option<Self> {
        let asked = plan.query.asked;
        (asked.origin || asked.sort_key).then(|| Self {
            origin: asked.origin.then(|| Origin {
                asks_key: asked.index_key,
                ..Origin::new(plan, collection)
            }),
            sorts: asked.sort_key.then(|| plan.query.sort.clone()),
        })
    }

    /// Of a row. As in MongoDB, the key of no sort has no values.
    ///
    /// # Errors
    /// `NotImplemented` for entries of areas and of indexes with a collation, and for the key of a sort by one.
    pub fn of(&self, row: Row<'_>) -> Result<Arc<DocumentMetadata>> {
        let origin = self.origin.as_ref().map(|origin| origin.of(row));
        let sort_key = self.sorts.as_ref().map(|sort| match sort {
            Some(sort) => sort.values(row.document),
            None => Ok(RawArrayBuf::new()),
        });
        Ok(Arc::new(DocumentMetadata {
            origin: origin.transpose()?,
            sort_key: sort_key.transpose()?,
            ..DocumentMetadata::default()
        }))
    }
}

fn id_key(document: &RawDocument) -> Option<RawDocumentBuf> {
    let id = document.get("_id").ok().flatten()?;
    let mut key = RawDocumentBuf::new();
    key.append(cstr!("_id"), id);
    Some(key)
}

fn key_in(
    access: &Access,
    sort: Option<&Sort>,
    document: &RawDocument,
) -> Result<Option<RawDocumentBuf>> {
    match access {
        Access::Nothing | Access::Collection(_) => Ok(None),
        Access::Primary(access) => {
            let id = document.get("_id").ok().flatten();
            let is_within = id.is_some_and(|id| access.bounds.contains(id));
            Ok(id_key(document).filter(|_| is_within))
        }
        Access::Index(access) => entry_in(access, sort, document),
        Access::Ranked(access) => key_in(&access.branch.access, sort, document),
        Access::Union(union) => {
            for Branch { access, residual } in &union.branches {
                let matches = residual.as_ref();
                let matches = matches.map_or(Ok(true), |filter| filter.matches(document))?;
                if let Some(key) = key_in(access, sort, document)?.filter(|_| matches) {
                    return Ok(Some(key));
                }
            }
            Ok(None)
        }
        // As in MongoDB: a search may come upon a document by several entries.
        Access::Near(_) => Ok(None),
        Access::Geo(access) => location_entry(access, document),
    }
}

/// The entry of a document that has one place. Of a shape MongoDB and we make several entries, and not the same ones.
fn location_entry(access: &GeoAccess, document: &RawDocument) -> Result<Option<RawDocumentBuf>> {
    let index = &access.index;
    let is_on_sphere = index.spec.key[access.position].1 == IndexField::Sphere2d;
    if !is_on_sphere || !index.spec.collation.is_simple() {
        return Err(Error::not_implemented(
            "the index key of an index of locations in a plane, or with a collation",
        ));
    }
    let mut sink = KeySink::new();
    index.keys.generate(document, &mut sink)?;
    let is_asked_for = |key: &[u8]| {
        let mut prefixes = access.prefixes.iter();
        access.prefixes.is_empty() || prefixes.any(|prefix| key.starts_with(prefix))
    };
    let mut entries = sink.iter().filter(|(key, _)| is_asked_for(key));
    match (entries.next(), entries.next()) {
        (Some((key, value)), None) => index.layout.key_document(key, value).map(Some),
        (None, _) => Ok(None),
        (Some(_), Some(_)) => Err(Error::not_implemented(
            "the index key of a document with several entries in an index of locations",
        )),
    }
}

/// The first of a document's entries within bounds, in the order of the scan.
fn entry_in(
    access: &IndexAccess,
    sort: Option<&Sort>,
    document: &RawDocument,
) -> Result<Option<RawDocumentBuf>> {
    let index = &access.index;
    if !index.spec.collation.is_simple() {
        return Err(Error::not_implemented(
            "the index key of an index with a collation",
        ));
    }
    let directions: Vec<Direction> = index.layout.directions().collect();
    let mut checker = BoundsChecker::new(&directions, &access.bounds);
    let mut sink = KeySink::new();
    index.keys.generate(document, &mut sink)?;
    let mut is_within = |key: &[u8]| {
        let within = access.within.as_ref();
        within.is_none_or(|within| within.contains(key))
            && checker.check_forward(key) == KeyCheck::Match
    };
    let entries = sink.iter().filter(|(key, _)| is_within(key));
    let first = match shown_order(access, sort) {
        Order::Forward => entries.min_by_key(|(key, _)| *key),
        Order::Backward => entries.max_by_key(|(key, _)| *key),
    };
    let key = first.map(|(key, value)| index.layout.key_document(key, value));
    key.transpose()
}

/// From which end the entry is taken: MongoDB walks the whole index in the order of a sort where ours sorts rows, since
/// one has several entries.
fn shown_order(access: &IndexAccess, sort: Option<&Sort>) -> Order {
    let first = sort.and_then(|sort| sort.fields().first());
    let (path, kind) = &access.index.spec.key[0];
    match first {
        Some(field)
            if field.path.as_str() == path
                && field.direction != kind.direction()
                && access.bounds.iter().all(FieldBounds::is_all) =>
        {
            Order::Backward
        }
        _ => access.order,
    }
}
