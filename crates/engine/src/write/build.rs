//! Builds indexes on existing documents while others read and write.
//!
//! The new index is published first, not ready: from then on every write keeps it. Then the documents
//! are walked page by page, each page under the write lock, so that what is added is the documents'
//! newest state. At the end the index is published as ready. A failure takes it away again.

use super::Writer;
use super::entries::{Entry, EntrySet};
use super::unique::UniqueChecker;
use crate::catalog::{Collection, delete_tree};
use crate::error::{Code, Error, Result};
use crate::index::IndexSpec;
use crate::index::summary::Summary;
use crate::namespace::Namespace;
use crate::operation;
use crate::storage::{Family, Order};
use bson::raw::RawDocument;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Documents indexed under one hold of the write lock: a few milliseconds.
const PAGE_DOCUMENTS: usize = 1_000;
const PAGE_BYTES: usize = 4 * 1024 * 1024;
const REPORT_INTERVAL: Duration = Duration::from_secs(2);

/// How far an index build is.
#[derive(Debug, Clone, Copy)]
pub struct BuildProgress {
    /// Documents that have their entries.
    pub done: u64,
    /// Documents there were when the build began.
    pub total: u64,
}

impl Writer {
    /// Creates indexes on a collection that exists, all or none.
    ///
    /// # Errors
    /// A document that an index refuses, `DuplicateKey` for unique ones, storage failures.
    pub fn build_indexes(
        &self,
        namespace: &Namespace,
        specs: Vec<IndexSpec>,
        progress: &mut dyn FnMut(BuildProgress),
    ) -> Result<()> {
        let names: Vec<String> = specs.iter().map(|spec| spec.name.clone()).collect();
        let empty = self.publish_unready(namespace, specs)?;
        if empty {
            return Ok(());
        }
        let built = self.backfill(namespace, &names, progress);
        let published = match built {
            Ok(()) => self
                .publish_ready(namespace, &names)
                .and_then(|()| self.learn_all(&self.catalog.require(namespace)?.state)),
            Err(error) => {
                self.withdraw(namespace, &names)?;
                Err(error)
            }
        };
        match published {
            Err(error) if error.code == Code::NamespaceNotFound => Err(Error::new(
                Code::IndexBuildAborted,
                format!("Index build failed: collection {namespace} was dropped meanwhile"),
            )),
            other => other,
        }
    }

    /// Publishes the new indexes; true when there is nothing to build because no document exists.
    fn publish_unready(&self, namespace: &Namespace, specs: Vec<IndexSpec>) -> Result<bool> {
        self.catalog.change(namespace, |collection, batch| {
            let empty = collection.state.documents() == 0;
            for spec in specs {
                let mut index = self.catalog.new_index(spec, batch)?;
                index.ready = empty;
                if empty {
                    let counted = collection.state.counted();
                    counted.insert(Family::Indexes, index.tree, Summary::empty());
                }
                collection.indexes.push(Arc::new(index));
            }
            Ok(empty)
        })
    }

    fn publish_ready(&self, namespace: &Namespace, names: &[String]) -> Result<()> {
        self.catalog.change(namespace, |collection, _| {
            for index in &mut collection.indexes {
                if names.contains(&index.spec.name) {
                    *index = Arc::new(index.built());
                    let counted = collection.state.counted();
                    counted.insert(Family::Indexes, index.tree, Summary::unknown());
                }
            }
            Ok(())
        })
    }

    /// Takes indexes away with all their entries.
    ///
    /// # Errors
    /// Storage failures.
    pub fn withdraw(&self, namespace: &Namespace, names: &[String]) -> Result<()> {
        let withdrawn = self.catalog.change(namespace, |collection, batch| {
            collection.indexes.retain(|index| {
                let doomed = names.contains(&index.spec.name);
                if doomed {
                    delete_tree(batch, Family::Indexes, index.tree);
                    collection.state.counted().remove(index.tree);
                }
                !doomed
            });
            Ok(())
        });
        match withdrawn {
            Err(error) if error.code == Code::NamespaceNotFound => Ok(()),
            other => other,
        }
    }

    fn backfill(
        &self,
        namespace: &Namespace,
        names: &[String],
        progress: &mut dyn FnMut(BuildProgress),
    ) -> Result<()> {
        let started = Instant::now();
        let mut reported = started;
        let mut entries = EntrySet::default();
        let mut next: Option<Vec<u8>> = None;
        let mut done = 0;
        loop {
            operation::check()?;
            let collection = self.catalog.require(namespace)?;
            let total = u64::try_from(collection.state.documents()).unwrap_or(0);
            let page = self.backfill_page(&collection, names, next.as_deref(), &mut entries);
            let (documents, continue_at) = page.map_err(|error| build_error(&collection, error))?;
            done += documents;
            progress(BuildProgress { done, total });
            if reported.elapsed() >= REPORT_INTERVAL {
                reported = Instant::now();
                let rate = done as f64 / started.elapsed().as_secs_f64();
                tracing::info!(%namespace, ?names, done, total, rate, "building indexes");
            }
            match continue_at {
                Some(key) => next = Some(key),
                None => return Ok(()),
            }
        }
    }

    /// Indexes one page of documents from `start` on; returns how many, and where the next page begins.
    fn backfill_page(
        &self,
        collection: &Arc<Collection>,
        names: &[String],
        start: Option<&[u8]>,
        entries: &mut EntrySet,
    ) -> Result<(u64, Option<Vec<u8>>)> {
        let _writing = collection.state.lock();
        let current = self.catalog.require(&collection.namespace)?;
        let snapshot = self.store.snapshot();
        let (first, end) = current.documents.range();
        let mut scan = snapshot.scan(Family::Documents, &first, &end, Order::Forward);
        scan.seek(start.unwrap_or(&first));
        entries.clear(current.indexes.len());
        let positions: Vec<usize> = (0..current.indexes.len())
            .filter(|position| names.contains(&current.indexes[*position].spec.name))
            .collect();
        let mut unique = UniqueChecker::new(&current, &snapshot);
        let mut documents = 0_u64;
        let mut bytes = 0;
        let mut continue_at = None;
        while scan.advance()? {
            let (key, value) = scan.entry();
            if documents as usize == PAGE_DOCUMENTS || bytes > PAGE_BYTES {
                continue_at = Some(key.to_vec());
                break;
            }
            let document = RawDocument::from_bytes(value).map_err(crate::exec::corrupt_document)?;
            let number = u32::try_from(documents).expect("a page holds few documents");
            for position in &positions {
                entries.add_for_index(&current, *position, number, document, &key[4..])?;
            }
            let added = entries_of(entries, current.indexes.len(), &positions, number);
            unique.check(&current, entries, &added)?;
            documents += 1;
            bytes += value.len();
        }
        entries.sort();
        let mut batch = self.store.batch();
        for position in positions {
            for entry in entries.list(position) {
                batch.put(Family::Indexes, entries.key(entry), entries.value(entry));
            }
        }
        self.note_multikey(&current, entries, &mut batch);
        if !batch.is_empty() {
            self.store.write(batch)?;
        }
        Ok((documents, continue_at))
    }
}

/// The entries just added for one document: the tail of each list.
fn entries_of(
    entries: &EntrySet,
    indexes: usize,
    positions: &[usize],
    number: u32,
) -> Vec<Vec<Entry>> {
    let mut added = vec![Vec::new(); indexes];
    for position in positions {
        let list = entries.list(*position);
        let first = list.partition_point(|entry| entry.document < number);
        added[*position] = list[first..].to_vec();
    }
    added
}

fn build_error(collection: &Collection, error: Error) -> Error {
    let uuid = bson::Uuid::from_bytes(collection.uuid);
    let message = format!(
        "Index build failed: {uuid}: Collection {} ( {uuid} ) :: caused by :: {}",
        collection.namespace, error.message
    );
    Error { message, ..error }
}
