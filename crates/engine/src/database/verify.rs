//! Compares every document with every index, both ways: `validate` and `meridian check`.

use super::{Engine, EngineOptions};
use crate::catalog::{Collection, Index, RecordNumber, ValidationAction, ValidationLevel};
use crate::error::Result;
use crate::index::bounds::End;
use crate::index::{ARRAY_MARK, KeySink};
use crate::namespace::Namespace;
use crate::rank::RankIndex;
use crate::storage::{Family, MasterKey, Order, Snapshot, TreeKey};
use crate::write::encode_id;
use bson::Bson;
use bson::raw::RawDocument;
use meridian_value::Collation;
use meridian_value::key::Direction;
use std::collections::HashMap;
use std::path::Path;

/// Problems that are spelled out; the others are only counted.
const PROBLEMS_SHOWN_MAX: usize = 20;

/// What was found in one collection.
#[derive(Debug, Clone, Default)]
pub struct ValidationReport {
    /// `database.collection`.
    pub namespace: String,
    /// Documents read.
    pub documents: i64,
    /// Bytes of BSON in them.
    pub bytes: i64,
    /// The indexes, `_id` first.
    pub indexes: Vec<IndexReport>,
    /// Indexes that are listed and not built, by name; they are among the indexes, without entries.
    pub unbuilt: Vec<String>,
    /// What is wrong, the first few in words.
    pub errors: Vec<String>,
    /// How many things are wrong.
    pub error_count: u64,
    /// Documents that fail the collection's validator, if that is asked of any: allowed, but worth knowing.
    pub invalid_documents: i64,
    /// Whether the validator refuses such documents when they are written.
    pub refuses_invalid: bool,
}

/// What was found in one index.
#[derive(Debug, Clone, Default)]
pub struct IndexReport {
    /// Its name.
    pub name: String,
    /// Its entries.
    pub keys: i64,
}

/// What `meridian check` found.
#[derive(Debug, Clone, Default)]
pub struct CheckReport {
    /// One report a collection.
    pub collections: Vec<ValidationReport>,
}

impl CheckReport {
    /// How many things are wrong in all.
    pub fn error_count(&self) -> u64 {
        self.collections
            .iter()
            .map(|report| report.error_count)
            .sum()
    }
}

impl ValidationReport {
    fn problem(&mut self, text: impl FnOnce() -> String) {
        self.error_count += 1;
        if self.errors.len() < PROBLEMS_SHOWN_MAX {
            self.errors.push(text());
        }
    }
}

/// Opens the data directory and verifies every collection; `report` is told of each when it is done.
///
/// # Errors
/// A directory that does not exist, that another process has open, or that cannot be read.
pub fn check_directory(
    directory: &Path,
    master_key: Option<MasterKey>,
    report: &mut dyn FnMut(&ValidationReport),
) -> Result<CheckReport> {
    super::offline::require_data_directory(directory)?;
    let options = EngineOptions {
        master_key,
        ttl_sweep_seconds: u64::MAX,
        ..EngineOptions::default()
    };
    let engine = Engine::open(directory, options)?;
    let mut found = CheckReport::default();
    for collection in engine.catalog.all() {
        let one = engine.validate(&collection.namespace)?;
        report(&one);
        found.collections.push(one);
    }
    engine.shutdown();
    Ok(found)
}

impl Engine {
    /// Verifies one collection: totals, documents, and every index both ways.
    ///
    /// # Errors
    /// `NamespaceNotFound`; storage failures. What is wrong with the data is in the report.
    pub fn validate(&self, namespace: &Namespace) -> Result<ValidationReport> {
        let collection = self.catalog.require(namespace)?;
        self.flush_rows(&collection)?;
        // Totals and snapshot must belong together, so both are taken under the write lock.
        let writing = collection.state.lock();
        let collection = self.catalog.require(namespace)?;
        let snapshot = self.store.snapshot();
        let totals = (collection.state.documents(), collection.state.bytes());
        let ranks: HashMap<_, _> = collection
            .state
            .ranks()
            .copies(&self.store)
            .1
            .into_iter()
            .collect();
        drop(writing);
        let mut report = ValidationReport {
            namespace: namespace.to_string(),
            ..Default::default()
        };
        let expected = verify_documents(&collection, &snapshot, &mut report)?;
        if (report.documents, report.bytes) != totals {
            let found = (report.documents, report.bytes);
            report.problem(|| {
                format!("the totals say {totals:?} documents and bytes, there are {found:?}")
            });
        }
        if collection.id_index().is_none() && collection.cluster_name().is_none() {
            report.indexes.push(IndexReport {
                name: "_id_".into(),
                keys: report.documents,
            });
        }
        for (index, expected) in collection.indexes.iter().zip(expected) {
            let (entries, keys) = verify_entries(&collection, index, &snapshot, &mut report)?;
            if entries != expected {
                report.problem(|| {
                    format!(
                        "index {} has {entries} entries, the documents call for {expected}",
                        index.spec.name
                    )
                });
            }
            report.indexes.push(IndexReport {
                name: index.spec.name.clone(),
                keys,
            });
        }
        for index in &collection.unbuilt {
            report.unbuilt.push(index.name.clone());
            report.indexes.push(IndexReport {
                name: index.name.clone(),
                keys: 0,
            });
        }
        for (family, tree) in collection.counted_trees() {
            if let Some(ranks) = ranks.get(&tree) {
                verify_rank_index(family, tree, ranks, &snapshot, &mut report)?;
            }
        }
        Ok(report)
    }
}

/// Every document is readable, lies under its `_id`, and has its entries. Returns how many entries
/// the documents call for, by index.
fn verify_documents(
    collection: &Collection,
    snapshot: &Snapshot,
    report: &mut ValidationReport,
) -> Result<Vec<i64>> {
    let (start, end) = collection.documents.range();
    let mut scan = snapshot.scan(Family::Documents, &start, &end, Order::Forward);
    let mut expected = vec![0; collection.indexes.len()];
    let mut sink = KeySink::default();
    while scan.advance()? {
        let (key, value) = scan.entry();
        report.documents += 1;
        report.bytes += value.len() as i64;
        let Ok(document) = RawDocument::from_bytes(value) else {
            report.problem(|| format!("the document under {key:02x?} is not BSON"));
            continue;
        };
        let id = TreeKey::strip(key);
        let mut encoded = Vec::new();
        let by_id = encode_id(document, &collection.options.collation, &mut encoded);
        let is_own = match collection.options.capped {
            Some(_) => id.len() == size_of::<RecordNumber>(),
            None => encoded == id,
        };
        if by_id.is_err() || !is_own {
            report.problem(|| format!("the document under {key:02x?} has another _id"));
        }
        if let Some(validator) = &collection.options.validator
            && validator.level != ValidationLevel::Off
            && !validator.filter.matches(document)?
        {
            report.invalid_documents += 1;
            report.refuses_invalid = validator.action == ValidationAction::Error;
        }
        if let Some(timeseries) = &collection.options.timeseries
            && let Some(longest) = collection.state.longest_bucket_millis()
            && timeseries
                .lasts(document)
                .is_none_or(|lasts| lasts > longest)
        {
            report.problem(|| {
                format!("the bucket under {key:02x?} lasts longer than the longest one is said to")
            });
        }
        for (index, expected) in collection.indexes.iter().zip(&mut expected) {
            *expected += verify_keys(index, document, id, snapshot, &mut sink, report)?;
        }
    }
    Ok(expected)
}

/// Every range of a tree has as many entries as its rank index says.
fn verify_rank_index(
    family: Family,
    tree: TreeKey,
    ranks: &RankIndex,
    snapshot: &Snapshot,
    report: &mut ValidationReport,
) -> Result<()> {
    let (start, end) = tree.range();
    let mut scan = snapshot.scan(family, &start, &end, Order::Forward);
    let mut audit = ranks.audit();
    while scan.advance()? {
        audit.see(TreeKey::strip(scan.entry().0));
    }
    if let Some(wrong) = audit.finish().filter(|wrong| *wrong > 0) {
        report.problem(|| {
            format!(
                "the rank index of tree {} is wrong about {wrong} buckets",
                tree.0
            )
        });
    }
    Ok(())
}

fn verify_keys(
    index: &Index,
    document: &RawDocument,
    id: &[u8],
    snapshot: &Snapshot,
    sink: &mut KeySink,
    report: &mut ValidationReport,
) -> Result<i64> {
    sink.clear();
    let multikey = index.keys.generate(document, sink)?;
    if index.multikey().union(multikey) != index.multikey() {
        report.problem(|| format!("index {} is not marked multikey", index.spec.name));
    }
    let mut entries = 0;
    for (fields, value) in sink.iter() {
        entries += 1;
        let mut key = index.tree.key(fields);
        key.extend_from_slice(id);
        match snapshot.get(Family::Indexes, &key, |stored| stored == value)? {
            Some(true) => {}
            Some(false) => report.problem(|| {
                format!(
                    "an entry of index {} has the wrong value for document {id:02x?}",
                    index.spec.name
                )
            }),
            None => report.problem(|| {
                format!(
                    "index {} lacks an entry for document {id:02x?}",
                    index.spec.name
                )
            }),
        }
    }
    Ok(entries)
}

/// Every entry belongs to a document that exists. Returns the number of entries, and of keys as MongoDB counts them:
/// each array of a wildcard index once, however many documents have it.
fn verify_entries(
    collection: &Collection,
    index: &Index,
    snapshot: &Snapshot,
    report: &mut ValidationReport,
) -> Result<(i64, i64)> {
    let (start, end) = index.tree.range();
    let mut scan = snapshot.scan(Family::Indexes, &start, &end, Order::Forward);
    let mut entries = 0;
    let mark = array_mark();
    let (mut marks, mut arrays, mut last) = (0, 0, Vec::new());
    while scan.advance()? {
        entries += 1;
        let key = TreeKey::strip(scan.entry().0);
        let Some(id_at) = index.layout.fields_length(key) else {
            report.problem(|| {
                format!(
                    "an entry of index {} cannot be read: {key:02x?}",
                    index.spec.name
                )
            });
            continue;
        };
        if index.spec.wildcard.is_some() && key.starts_with(&mark) {
            marks += 1;
            arrays += i64::from(last != key[..id_at]);
            last = key[..id_at].to_vec();
        }
        let document = collection.documents.key(&key[id_at..]);
        if snapshot
            .get(Family::Documents, &document, |_| ())?
            .is_none()
        {
            report.problem(|| {
                format!(
                    "index {} has an entry for document {:02x?}, which does not exist",
                    index.spec.name,
                    &key[id_at..]
                )
            });
        }
    }
    Ok((entries, entries - marks + arrays))
}

/// What entries of wildcard indexes begin with that name arrays.
fn array_mark() -> Vec<u8> {
    let mark = Bson::Int32(ARRAY_MARK);
    End::new(mark, true, &Collation::SIMPLE).key(Direction::Ascending)
}
