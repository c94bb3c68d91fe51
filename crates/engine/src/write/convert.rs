//! Capped collections that are made from others: the newest documents of a collection, in the order in which they lie.

use super::Writer;
use super::definition::{Draft, Redefined};
use super::insert::InsertOptions;
use super::prepare::DOCUMENT_BYTES_MAX;
use crate::catalog::{Capped, Collection, CollectionOptions};
use crate::error::{Code, Error, Result, corrupt_document};
use crate::namespace::Namespace;
use crate::operation;
use crate::storage::{Family, Order, Snapshot};
use bson::oid::ObjectId;
use bson::raw::{RawDocument, RawDocumentBuf};
use std::sync::Arc;

/// A batch of documents that are copied has so many bytes, but for the last of them.
const COPY_BYTES: usize = DOCUMENT_BYTES_MAX;

impl Writer {
    /// Makes a collection capped in one step, with the newest of its documents and without its indexes. Nobody else
    /// writes to it meanwhile, or changes definitions. Returns what it was before.
    ///
    /// # Errors
    /// `NamespaceNotFound`; storage failures. The collection is as it was then.
    pub fn convert_to_capped(
        &self,
        namespace: &Namespace,
        size: Capped,
    ) -> Result<Arc<Collection>> {
        let _defining = self.defining.lock();
        let source = self.source(namespace)?;
        let copy = temporary_name(namespace)?;
        let copy = self.create_locked(&copy, capped_options(&source, size)?, true)?;
        let mut writing = source.state.lock();
        let copied = self.copy_newest(&source, &copy);
        let mut copy_writing = copy.state.lock();
        let before = Some((&copy, &mut *copy_writing));
        if let Err(error) = copied {
            let after = None;
            self.define_all(vec![Redefined { before, after }])?;
            return Err(error);
        }
        let mut converted = copy.as_ref().clone();
        converted.namespace = namespace.clone();
        converted.temporary = false;
        let dropped = Redefined {
            before: Some((&source, &mut writing)),
            after: None,
        };
        let after = Some(Draft::of(converted));
        self.define_all(vec![dropped, Redefined { before, after }])?;
        drop(writing);
        Ok(source)
    }

    /// Copies the newest documents of a collection to a new capped one, which is there when it has them all.
    ///
    /// # Errors
    /// `NamespaceNotFound`; `NamespaceExists`; storage failures.
    pub fn clone_as_capped(&self, from: &Namespace, to: &Namespace, size: Capped) -> Result<()> {
        let source = self.source(from)?;
        let taken = || {
            Error::new(
                Code::NamespaceExists,
                format!(
                    "cloneCollectionAsCapped failed - destination collection {to} already exists. source \
                     collection: {from}"
                ),
            )
        };
        if self.catalog.get(to).is_some() {
            return Err(taken());
        }
        self.refuse_taken(to)?;
        let name = temporary_name(to)?;
        let copy = self.create_temporary(&name, capped_options(&source, size)?)?;
        let cloned = self
            .copy_newest(&source, &copy)
            .and_then(|()| self.rename_collection(&name, to, false));
        cloned.map_err(|error| {
            // Where it is gone already, that is the error.
            let dropped = self.drop_collection(&name);
            match (error.code, dropped) {
                (Code::NamespaceExists, _) => taken(),
                _ => error,
            }
        })
    }

    fn source(&self, namespace: &Namespace) -> Result<Arc<Collection>> {
        if let Some(view) = self.catalog.view(namespace) {
            return Err(view.refusal());
        }
        let source = self.catalog.get(namespace).ok_or_else(|| {
            let database = &namespace.database;
            let message = match self.catalog.in_database(database).is_empty() {
                true => format!("database {database} not found"),
                false => format!("source collection {namespace} does not exist"),
            };
            Error::new(Code::NamespaceNotFound, message)
        })?;
        match source.options.timeseries {
            None => Ok(source),
            Some(_) => Err(Error::bad_value(format!(
                "Invalid namespace: the buckets of a time series cannot be capped: {namespace}"
            ))),
        }
    }

    /// Copies as many of a collection's newest documents as the other one holds.
    fn copy_newest(&self, source: &Collection, copy: &Collection) -> Result<()> {
        let limits = copy.options.capped.expect("the copy is capped");
        let snapshot = self.store.snapshot();
        let Some(first) = first_within(source, &snapshot, limits)? else {
            return Ok(());
        };
        let (_, end) = source.documents.range();
        let mut scan = snapshot.scan(Family::Documents, &first, &end, Order::Forward);
        let (mut batch, mut bytes) = (Vec::new(), 0);
        while scan.advance()? {
            let document = scan.entry().1.to_vec();
            bytes += document.len();
            batch.push(RawDocumentBuf::from_bytes(document).map_err(corrupt_document)?);
            if bytes >= COPY_BYTES {
                self.insert_copies(&copy.namespace, &batch)?;
                (batch, bytes) = (Vec::new(), 0);
            }
        }
        self.insert_copies(&copy.namespace, &batch)
    }

    fn insert_copies(&self, copy: &Namespace, documents: &[RawDocumentBuf]) -> Result<()> {
        let options = InsertOptions {
            ordered: true,
            bypass_validation: true,
            creates: false,
        };
        let documents: Vec<&RawDocument> = documents.iter().map(AsRef::as_ref).collect();
        let outcome = self.insert(copy, &documents, &options)?;
        let failed = outcome.errors.into_iter().next();
        failed.map_or(Ok(()), |failed| Err(failed.error))
    }
}

/// The key of the first of the newest documents that fit together; the newest one always does.
fn first_within(
    source: &Collection,
    snapshot: &Snapshot,
    limits: Capped,
) -> Result<Option<Vec<u8>>> {
    let (start, end) = source.documents.range();
    let mut scan = snapshot.scan(Family::Documents, &start, &end, Order::Backward);
    let (mut first, mut documents, mut bytes) = (None, 0, 0);
    while scan.advance()? {
        operation::check()?;
        let (key, document) = scan.entry();
        (documents, bytes) = (documents + 1, bytes + document.len() as i64);
        if first.is_some() && limits.is_exceeded(documents, bytes) {
            break;
        }
        first = Some(key.to_vec());
    }
    Ok(first)
}

/// The options of the source, capped.
fn capped_options(source: &Collection, size: Capped) -> Result<CollectionOptions> {
    let mut options = size.listing();
    for (name, value) in source.options.original.iter().flatten() {
        let is_other = [
            "capped",
            "size",
            "max",
            "clusteredIndex",
            "expireAfterSeconds",
        ]
        .iter()
        .all(|own| name != *own);
        if is_other {
            options.append(name, value);
        }
    }
    CollectionOptions::parse(&options)
}

fn temporary_name(namespace: &Namespace) -> Result<Namespace> {
    let name = format!("tmp.convertToCapped.{}", ObjectId::new());
    Namespace::new(&namespace.database, &name)
}
