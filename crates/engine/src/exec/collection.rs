//! Documents in `_id` order: whole collections, ranges of `_id`, single identifiers.

use super::{Context, Pacer, Row, Rows, corrupt_document};
use crate::catalog::Tree;
use crate::error::Result;
use crate::storage::{Family, Order, Scan, Snapshot};
use bson::raw::RawDocument;

/// Scans documents whose `tree ++ _id` lies in one of several ranges.
pub struct CollectionRows {
    snapshot: Snapshot,
    order: Order,
    /// Ranges still to scan; the last is next.
    ranges: Vec<(Vec<u8>, Vec<u8>)>,
    scan: Option<Scan>,
    pacer: Pacer,
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
            order,
            ranges,
            scan: None,
            pacer: Pacer::new(context),
        }
    }
}

impl Rows for CollectionRows {
    fn advance(&mut self) -> Result<bool> {
        self.pacer.step()?;
        loop {
            if let Some(scan) = &mut self.scan {
                if scan.advance()? {
                    self.pacer.context.counters.add_documents(1);
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
        }
    }

    fn row(&self) -> Row<'_> {
        let scan = self
            .scan
            .as_ref()
            .expect("row is read after advance returned true");
        let (key, value) = scan.entry();
        let document = RawDocument::from_bytes(value).expect("advance has checked the document");
        Row {
            id: &key[4..],
            document,
        }
    }
}

/// Reads documents by their encoded `_id`s, in the given order.
pub struct IdRows {
    snapshot: Snapshot,
    tree: Tree,
    ids: std::vec::IntoIter<Vec<u8>>,
    id: Vec<u8>,
    document: Vec<u8>,
    context: Context,
}

impl IdRows {
    /// The documents with these encoded `_id`s that exist.
    pub fn new(snapshot: Snapshot, tree: Tree, ids: Vec<Vec<u8>>, context: Context) -> Self {
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
