//! The catalogue's entries on disk; their layout is drawn in the parent module.

use super::view_definition::{SYSTEM_VIEWS, ViewDefinition, Views};
use super::{Collection, CollectionOptions, CollectionState, Index, UnbuiltIndex};
use crate::error::{Code, Error, Result};
use crate::index::{CollectionKeys, IndexSpec, Multikey};
use crate::namespace::Namespace;
use crate::rank::{RangeCache, RankIndex};
use crate::storage::{Batch, Condition, Family, Order, Store, TreeKey};
use bson::raw::{RawArrayBuf, RawBsonRef, RawDocument, RawDocumentBuf};
use bson::{Binary, cstr, rawdoc, spec::BinarySubtype};
use std::collections::BTreeMap;
use std::sync::Arc;

const COLLECTION: u8 = b'c';
const STATISTICS: u8 = b's';
const NEXT_TREE: &[u8] = b"t";
/// TreeKey 0 is never given out, so that a zeroed prefix is recognisably wrong.
const FIRST_TREE: u32 = 1;

pub(super) fn load(
    store: &Store,
    range_cache: &Arc<RangeCache>,
) -> Result<(BTreeMap<Namespace, Arc<Collection>>, u32)> {
    let snapshot = store.snapshot();
    let next_tree = snapshot
        .get(Family::Catalog, NEXT_TREE, |value| {
            value.try_into().map(u32::from_le_bytes).ok()
        })?
        .map_or(Ok(FIRST_TREE), |number| {
            number.ok_or_else(|| corrupt("the tree counter"))
        })?;
    let mut collections = BTreeMap::new();
    let mut scan = snapshot.scan(
        Family::Catalog,
        &[COLLECTION],
        &[COLLECTION + 1],
        Order::Forward,
    );
    while scan.advance()? {
        let (key, value) = scan.entry();
        let name = String::from_utf8_lossy(&key[1..]).into_owned();
        let (database, collection) = name.split_once('.').ok_or_else(|| corrupt(&name))?;
        let namespace = Namespace::new(database, collection)?;
        let document = RawDocument::from_bytes(value).map_err(|_| corrupt(&name))?;
        let collection = decode_collection(store, namespace.clone(), document, range_cache)?;
        collections.insert(namespace, Arc::new(collection));
    }
    Ok((collections, next_tree))
}

/// Reads the views of all databases.
pub(super) fn load_views(
    store: &Store,
    collections: &BTreeMap<Namespace, Arc<Collection>>,
) -> Result<Views> {
    let mut views = Views::new();
    for buckets in collections.values() {
        if let Some(series) = ViewDefinition::of_buckets(&buckets.namespace, &buckets.options) {
            views.insert(series.namespace.clone(), Arc::new(series));
        }
    }
    let holders = collections.values();
    for holder in holders.filter(|one| one.namespace.collection == SYSTEM_VIEWS) {
        let (start, end) = holder.documents.range();
        let mut scan = store
            .snapshot()
            .scan(Family::Documents, &start, &end, Order::Forward);
        while scan.advance()? {
            let document = RawDocument::from_bytes(scan.entry().1);
            let document = document.map_err(crate::error::corrupt_document)?;
            match ViewDefinition::decode(&holder.namespace.database, document) {
                Some(view) => {
                    views.insert(view.namespace.clone(), Arc::new(view));
                }
                None => {
                    tracing::warn!(namespace = %holder.namespace, "a document that defines no view is left out");
                }
            }
        }
    }
    Ok(views)
}

fn corrupt(what: &str) -> Error {
    Error::new(
        Code::InternalError,
        format!("the catalogue entry of {what} cannot be read"),
    )
}

/// Writes which number the next tree has.
pub fn put_next_tree(batch: &mut Batch, next_tree: u32) {
    batch.put(Family::Catalog, NEXT_TREE, &next_tree.to_le_bytes());
}

/// Writes a collection's entry.
pub fn put_collection_entry(batch: &mut Batch, collection: &Collection) {
    batch.put(
        Family::Catalog,
        &collection_key(&collection.namespace),
        encode_collection(collection).as_bytes(),
    );
}

/// That no collection has this name.
pub fn no_collection_entry(namespace: &Namespace) -> Condition {
    Condition {
        family: Family::Catalog,
        key: collection_key(namespace),
        value: None,
    }
}

/// Whether the store has this collection as it is.
///
/// # Errors
/// Storage failures.
pub fn has_collection_entry(store: &Store, collection: &Collection) -> Result<bool> {
    let expected = encode_collection(collection);
    let key = collection_key(&collection.namespace);
    let is_same = store.get(Family::Catalog, &key, |value| value == expected.as_bytes())?;
    Ok(is_same == Some(true))
}

/// Whether the store has a collection of this name.
///
/// # Errors
/// Storage failures.
pub fn has_collection(store: &Store, namespace: &Namespace) -> Result<bool> {
    let found = store.get(Family::Catalog, &collection_key(namespace), |_| ())?;
    Ok(found.is_some())
}

/// Documents and bytes of the collection whose documents lie in this tree, as the store has them.
///
/// # Errors
/// Storage failures.
pub fn read_totals(store: &Store, tree: TreeKey) -> Result<Option<(i64, i64)>> {
    let totals = store.get(Family::Catalog, &statistics_key(tree), decode_totals)?;
    Ok(totals.flatten())
}

/// Deletes the entry of the collection with this name.
pub fn delete_collection_entry(batch: &mut Batch, namespace: &Namespace) {
    batch.delete(Family::Catalog, &collection_key(namespace));
}

/// Deletes the totals of the collection whose documents lay in this tree.
pub fn delete_totals(batch: &mut Batch, tree: TreeKey) {
    batch.delete(Family::Catalog, &statistics_key(tree));
}

/// The key and value that hold a collection's totals; they are part of every commit.
pub fn statistics_entry(tree: TreeKey, documents: i64, bytes: i64) -> ([u8; 5], [u8; 16]) {
    let mut value = [0; 16];
    value[..8].copy_from_slice(&documents.to_le_bytes());
    value[8..].copy_from_slice(&bytes.to_le_bytes());
    (statistics_key(tree), value)
}

fn statistics_key(tree: TreeKey) -> [u8; 5] {
    let [a, b, c, d] = tree.prefix();
    [STATISTICS, a, b, c, d]
}

fn collection_key(namespace: &Namespace) -> Vec<u8> {
    let mut key = vec![COLLECTION];
    key.extend_from_slice(namespace.to_string().as_bytes());
    key
}

fn encode_collection(collection: &Collection) -> RawDocumentBuf {
    let mut indexes = RawArrayBuf::new();
    for index in &collection.indexes {
        indexes.push(rawdoc! {
            "spec": index.spec.original.clone(),
            "tree": i64::from(index.tree.0),
            "ready": index.ready,
            "multikey": index.multikey().bits().cast_signed(),
        });
    }
    let uuid = Binary {
        subtype: BinarySubtype::Uuid,
        bytes: collection.uuid.to_vec(),
    };
    let mut document = RawDocumentBuf::new();
    document.append(cstr!("uuid"), uuid);
    document.append(cstr!("tree"), i64::from(collection.documents.0));
    if let Some(delta) = collection.delta {
        document.append(cstr!("delta"), i64::from(delta.0));
    }
    if collection.options.timeseries.is_some()
        && let Some(millis) = collection.state.longest_bucket_millis()
    {
        document.append(cstr!("longestBucketMillis"), millis);
    }
    document.append(cstr!("options"), collection.options.original.clone());
    document.append(cstr!("indexes"), indexes);
    if collection.temporary {
        document.append(cstr!("temporary"), true);
    }
    if !collection.unbuilt.is_empty() {
        let mut unbuilt = RawArrayBuf::new();
        for index in &collection.unbuilt {
            unbuilt.push(index.original.clone());
        }
        document.append(cstr!("unbuilt"), unbuilt);
    }
    document
}

fn decode_collection(
    store: &Store,
    namespace: Namespace,
    document: &RawDocument,
    range_cache: &Arc<RangeCache>,
) -> Result<Collection> {
    let name = namespace.to_string();
    let bad = |_| corrupt(&name);
    let documents = decode_tree(document, "tree").ok_or_else(|| corrupt(&name))?;
    // Absent where there are no buckets, and in those of earlier releases.
    let delta = match document.get("delta") {
        Ok(None) => None,
        _ => Some(decode_tree(document, "delta").ok_or_else(|| corrupt(&name))?),
    };
    let uuid = document
        .get_binary("uuid")
        .map_err(bad)?
        .bytes
        .try_into()
        .map_err(|_| corrupt(&name))?;
    let options = CollectionOptions::parse(document.get_document("options").map_err(bad)?)?;
    // Absent in all other entries, and in those of earlier releases.
    let temporary = matches!(
        document.get("temporary"),
        Ok(Some(RawBsonRef::Boolean(true)))
    );
    let indexes = decode_indexes(document).ok_or_else(|| corrupt(&name))??;
    let unbuilt = match document.get("unbuilt") {
        Ok(Some(RawBsonRef::Array(listed))) => listed
            .into_iter()
            .flatten()
            .filter_map(|one| one.as_document().map(UnbuiltIndex::of))
            .collect(),
        _ => Vec::new(),
    };
    let totals = store.get(Family::Catalog, &statistics_key(documents), decode_totals)?;
    let (count, bytes) = totals
        .unwrap_or(Some((0, 0)))
        .ok_or_else(|| corrupt(&name))?;
    // Absent where there are no buckets, and in those of earlier releases.
    let longest = document.get_i64("longestBucketMillis").ok();
    let longest = longest.map_or(u64::MAX, i64::cast_unsigned);
    let state = Arc::new(CollectionState::new(
        count,
        bytes,
        longest,
        range_cache.clone(),
    ));

    let (options, keys) = (Arc::new(options), CollectionKeys::default());
    let collection = Collection {
        namespace,
        uuid,
        temporary,
        documents,
        delta,
        options,
        indexes,
        unbuilt,
        keys,
        state,
    };
    for (family, tree) in collection.counted_trees() {
        let counted = collection.state.ranks();
        counted.insert(family, tree, RankIndex::unbuilt());
    }
    Ok(collection.compiled())
}

/// `None` for what cannot be read.
fn decode_indexes(document: &RawDocument) -> Option<Result<Vec<Arc<Index>>>> {
    let mut indexes = Vec::new();
    for element in document.get_array("indexes").ok()? {
        let entry = element.ok()?.as_document()?;
        let (spec, tree) = (
            entry.get_document("spec").ok()?,
            decode_tree(entry, "tree")?,
        );
        let index = IndexSpec::parse_stored(spec).and_then(|spec| Index::new(spec, tree));
        let mut index = match index {
            Ok(index) => index,
            Err(error) => return Some(Err(error)),
        };
        index.ready = entry.get_bool("ready").ok()?;
        let multikey = entry.get_i64("multikey").ok()?.cast_unsigned();
        let multikey = Multikey::from_bits(multikey);
        indexes.push(Arc::new(index.with_stored_multikey(multikey)));
    }
    Some(Ok(indexes))
}

fn decode_tree(document: &RawDocument, name: &str) -> Option<TreeKey> {
    document
        .get_i64(name)
        .ok()
        .and_then(|number| u32::try_from(number).ok())
        .map(TreeKey)
        .filter(|tree| tree.known_compression().is_some())
}

fn decode_totals(value: &[u8]) -> Option<(i64, i64)> {
    let documents = value.get(..8)?.try_into().ok()?;
    let bytes = value.get(8..16)?.try_into().ok()?;
    Some((i64::from_le_bytes(documents), i64::from_le_bytes(bytes)))
}
