//! The documents of a capped collection, and those that come while a cursor waits.
//!
//! At its end it has no row, and may have one when it is asked again after it was suspended: it goes on behind the document
//! that it read last, on what there is by then. Where that document is gone others may be that it should have read, so it
//! has lost its place and ends.

use super::{Context, Row, Rows, YieldCheck};
use crate::catalog::{Catalog, Collection, record_number};
use crate::error::{Code, Error, Result, corrupt_document};
use crate::storage::{Family, Order, Scan, Store, TreeKey};
use bson::raw::RawDocument;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Documents of a capped collection as they come.
pub struct TailRows {
    store: Store,
    catalog: Arc<Catalog>,
    collection: Arc<Collection>,
    order: Order,
    /// None before the first row, and from a suspension on to the next row.
    scan: Option<Scan>,
    /// Where it goes on.
    place: Option<ReadLast>,
    /// The last time it was asked there was none.
    is_at_end: bool,
    has_begun: Arc<AtomicBool>,
    yield_check: YieldCheck,
}

/// The document that was read last.
struct ReadLast {
    key: Vec<u8>,
    /// Whether it is to be read once more.
    again: bool,
}

impl TailRows {
    /// All documents of a collection.
    pub fn new(
        store: Store,
        catalog: Arc<Catalog>,
        collection: Arc<Collection>,
        order: Order,
        context: Context,
    ) -> Self {
        Self {
            store,
            catalog,
            collection,
            order,
            scan: None,
            place: None,
            is_at_end: false,
            has_begun: Arc::default(),
            yield_check: YieldCheck::new(context),
        }
    }

    /// Whether there was any document. Where there is none to go on behind, a cursor is closed.
    pub fn has_begun(&self) -> Arc<AtomicBool> {
        self.has_begun.clone()
    }

    /// A scan of what is to come, on the present state.
    fn go_on(&self) -> Result<Scan> {
        self.catalog.now(&self.collection)?;
        let (start, end) = self.collection.documents.range();
        let mut left = (start.to_vec(), end.to_vec());
        let snapshot = self.store.snapshot();
        if let Some(ReadLast { key, again }) = &self.place {
            if snapshot.get(Family::Documents, key, |_| ())?.is_none() {
                return Err(self.lost(key)?);
            }
            left = self.order.rest_of(left, key, *again);
        }
        Ok(snapshot.scan(Family::Documents, &left.0, &left.1, self.order))
    }

    fn lost(&self, key: &[u8]) -> Result<Error> {
        let why = match self.is_at_end {
            true => {
                "Executor error during getMore :: caused by :: CollectionScan died due to failure to restore tailable \
                 cursor position"
            }
            false => "CollectionScan died due to position in capped collection being deleted",
        };
        let record = record_number(TreeKey::strip(key))?;
        let message = format!("{why}. Last seen record id: RecordId({record})");
        Ok(Error::new(Code::CappedPositionLost, message))
    }
}

impl Rows for TailRows {
    fn advance(&mut self) -> Result<bool> {
        self.yield_check.step()?;
        let mut scan = match self.scan.take() {
            Some(scan) => scan,
            None => self.go_on()?,
        };
        self.is_at_end = !scan.advance()?;
        if self.is_at_end {
            return Ok(false);
        }
        self.yield_check.context.counters.add_documents(1);
        self.has_begun.store(true, Relaxed);
        let (key, document) = scan.entry();
        RawDocument::from_bytes(document).map_err(corrupt_document)?;
        let key = key.to_vec();
        self.place = Some(ReadLast { key, again: false });
        self.scan = Some(scan);
        Ok(true)
    }

    fn suspend(&mut self, again: bool) -> Result<bool> {
        self.scan = None;
        let place = self.place.as_mut().filter(|_| again);
        Ok(place.map(|place| place.again = true).is_some())
    }

    fn row(&self) -> Row<'_> {
        let scan = self.scan.as_ref().expect("advance returned true");
        let (key, document) = scan.entry();
        Row {
            id: TreeKey::strip(key),
            document: RawDocument::from_bytes(document).expect("advance has checked it"),
        }
    }
}
