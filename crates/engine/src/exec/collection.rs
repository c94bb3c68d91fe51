//! Documents as they lie, mostly in `_id` order: whole collections, ranges of `_id`, single identifiers.

use super::prefilter::Prefilter;
use super::{Context, Row, Rows, YieldCheck};
use crate::catalog::{Collection, CollectionState};
use crate::error::{Result, corrupt_document};
use crate::query::Filter;
use crate::storage::{Family, Order, Scan, Snapshot, TreeKey};
use bson::raw::RawDocument;
use meridian_value::Collation;
use std::sync::Arc;

/// Fewer documents are scanned before a second core has begun to help, ...
const SPLIT_DOCUMENTS_MIN: u64 = 20_000;
/// ... and fewer buckets of a time series are unpacked, of which each has up to a thousand measurements.
const SPLIT_BUCKETS_MIN: u64 = 100;

/// Scans documents whose `tree ++ _id` lies in one of several ranges.
pub struct CollectionRows {
    snapshot: Snapshot,
    /// Where the scan may be split, if it may.
    split: Option<RangeSplit>,
    order: Order,
    /// Ranges still to scan; the last is next.
    ranges: Vec<(Vec<u8>, Vec<u8>)>,
    scan: Option<Scan>,
    /// The range that `scan` walks.
    scanned: (Vec<u8>, Vec<u8>),
    /// Leaves out what whoever tests the rows would.
    prefilter: Option<Prefilter>,
    yield_check: YieldCheck,
}

/// What tells where about the middle of a range of documents lies.
#[derive(Clone)]
struct RangeSplit {
    state: Arc<CollectionState>,
    tree: TreeKey,
    /// As few are worth a second core.
    documents_min: u64,
    /// Whether halves may be split again: what buckets hold may be wanted of some of them only.
    is_of_buckets: bool,
}

impl CollectionRows {
    /// The documents of ranges `[start, end)`, ascending and disjoint, all with the tree prefix.
    pub fn new(
        snapshot: &Snapshot,
        mut ranges: Vec<(Vec<u8>, Vec<u8>)>,
        order: Order,
        context: Context,
    ) -> Self {
        if order == Order::Forward {
            ranges.reverse();
        }
        Self {
            snapshot: snapshot.clone(),
            split: None,
            order,
            ranges,
            scan: None,
            scanned: (Vec::new(), Vec::new()),
            prefilter: None,
            yield_check: YieldCheck::new(context),
        }
    }

    /// All documents of a collection.
    pub fn all(
        collection: &Collection,
        snapshot: &Snapshot,
        order: Order,
        context: Context,
    ) -> Self {
        let (start, end) = collection.documents.range();
        let all = vec![(start.to_vec(), end.to_vec())];
        Self::new(snapshot, all, order, context).splitting(collection)
    }

    /// The same, which may be split in two.
    pub fn splitting(self, collection: &Collection) -> Self {
        let is_of_buckets = collection.options.timeseries.is_some();
        let split = Some(RangeSplit {
            state: collection.state.clone(),
            tree: collection.documents,
            is_of_buckets,
            documents_min: match is_of_buckets {
                true => SPLIT_BUCKETS_MIN,
                false => SPLIT_DOCUMENTS_MIN,
            },
        });
        Self { split, ..self }
    }

    /// The same without some of the documents that do not match `filter`.
    pub fn prefiltered(mut self, filter: Option<&Filter>, ids: Option<&Collation>) -> Self {
        self.prefilter = filter.and_then(|filter| Prefilter::new(filter, ids));
        self
    }
}

impl RangeSplit {
    /// The key of a document about in the middle of a range, as the rank index has it now.
    fn middle(&self, (start, end): &(Vec<u8>, Vec<u8>)) -> Option<Vec<u8>> {
        let (start, end) = (TreeKey::strip(start), TreeKey::strip(end));
        self.state.ranks().peek(self.tree, |ranks| {
            if !ranks.is_complete() {
                return None;
            }
            // The parts of buckets at both ends do not matter.
            let before = ranks.count(&[], Some(start), &mut |_| {})?;
            let documents = ranks.count(start, (!end.is_empty()).then_some(end), &mut |_| {})?;
            if documents < self.documents_min {
                return None;
            }
            let mut middle = None;
            ranks.select(&[before + documents / 2], &mut |selected| {
                middle = Some(self.tree.key(&selected.bucket.start()));
            });
            middle
        })
    }
}

impl Rows for CollectionRows {
    fn advance(&mut self) -> Result<bool> {
        loop {
            self.yield_check.step()?;
            if let Some(scan) = &mut self.scan {
                if scan.advance()? {
                    self.yield_check.context.counters.add_documents(1);
                    let id = || TreeKey::strip(scan.key());
                    if self
                        .prefilter
                        .as_ref()
                        .is_some_and(|one| one.excludes(id()))
                    {
                        continue;
                    }
                    RawDocument::from_bytes(scan.entry().1).map_err(corrupt_document)?;
                    return Ok(true);
                }
                self.scan = None;
            }
            let Some((start, end)) = self.ranges.pop() else {
                return Ok(false);
            };
            self.scan = Some(
                self.snapshot
                    .scan(Family::Documents, &start, &end, self.order),
            );
            self.scanned = (start, end);
        }
    }

    /// The scan begins again at the current document or behind it.
    fn suspend(&mut self, again: bool) -> Result<bool> {
        let Some(scan) = self.scan.take() else {
            return Ok(false);
        };
        let scanned = std::mem::take(&mut self.scanned);
        let left = self.order.rest_of(scanned, scan.key(), again);
        self.ranges.push(left);
        Ok(again)
    }

    fn split_off(&mut self) -> Option<Box<dyn Rows>> {
        let split = self.split.take()?;
        let (Order::Forward, [range], None) = (self.order, &mut self.ranges[..], &self.scan) else {
            return None;
        };
        let is_within = |middle: &Vec<u8>| *middle > range.0 && *middle < range.1;
        let middle = split.middle(range).filter(is_within)?;
        let end = std::mem::replace(&mut range.1, middle.clone());
        let mut other = Self::new(
            &self.snapshot,
            vec![(middle, end)],
            self.order,
            self.yield_check.context.clone(),
        );
        other.prefilter = self.prefilter.clone();
        if split.is_of_buckets {
            other.split = Some(split.clone());
            self.split = Some(split);
        }
        Some(Box::new(other))
    }

    fn row(&self) -> Row<'_> {
        let scan = self
            .scan
            .as_ref()
            .expect("row is read after advance returned true");
        let (key, value) = scan.entry();
        let document = RawDocument::from_bytes(value).expect("advance has checked the document");
        Row {
            id: TreeKey::strip(key),
            document,
        }
    }
}

/// Reads documents by their encoded `_id`s, in the given order.
pub struct IdRows {
    snapshot: Snapshot,
    tree: TreeKey,
    ids: std::vec::IntoIter<Vec<u8>>,
    id: Vec<u8>,
    document: Vec<u8>,
    context: Context,
}

impl IdRows {
    /// The documents with these encoded `_id`s that exist.
    pub fn new(snapshot: Snapshot, tree: TreeKey, ids: Vec<Vec<u8>>, context: Context) -> Self {
        Self {
            snapshot,
            tree,
            ids: ids.into_iter(),
            id: Vec::new(),
            document: Vec::new(),
            context,
        }
    }
}

impl Rows for IdRows {
    fn suspend(&mut self, _: bool) -> Result<bool> {
        self.document = Vec::new();
        Ok(false)
    }

    fn advance(&mut self) -> Result<bool> {
        for id in self.ids.by_ref() {
            let document = &mut self.document;
            let read = |bytes: &[u8]| {
                document.clear();
                document.extend_from_slice(bytes);
            };
            self.context.counters.add_keys(1);
            if self
                .snapshot
                .get(Family::Documents, &self.tree.key(&id), read)?
                .is_some()
            {
                self.context.counters.add_documents(1);
                RawDocument::from_bytes(&self.document).map_err(corrupt_document)?;
                self.id = id;
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn row(&self) -> Row<'_> {
        let document =
            RawDocument::from_bytes(&self.document).expect("advance has checked the document");
        Row {
            id: &self.id,
            document,
        }
    }
}
