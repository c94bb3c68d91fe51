//! `$listCatalog`: what the catalogue holds of collections and views.

use super::Engine;
use super::definition::id_index;
use crate::catalog::{Collection, Index, ViewDefinition};
use crate::error::Result;
use crate::expression::value::field_name;
use crate::index::IndexField;
use crate::namespace::Namespace;
use crate::storage::TreeKey;
use bson::raw::{RawArrayBuf, RawDocument, RawDocumentBuf};
use bson::spec::BinarySubtype;
use bson::{Binary, cstr, rawdoc};

/// What a pipeline without a collection reads.
pub(super) const NO_COLLECTION: &str = "$cmd.aggregate";

impl Engine {
    /// What the catalogue holds of a collection; of all, and behind them of all views, where the pipeline has none.
    ///
    /// # Errors
    /// Names that no document can have.
    pub(super) fn catalog_entries(&self, namespace: &Namespace) -> Result<Vec<RawDocumentBuf>> {
        if namespace.collection != NO_COLLECTION {
            let collection = self.catalog.get(namespace);
            return collection.iter().map(|own| collection_entry(own)).collect();
        }
        let mut collections = self.catalog.all();
        collections.sort_by(|one, other| one.namespace.cmp(&other.namespace));
        let databases = collections.iter().map(|own| &own.namespace.database);
        let mut databases: Vec<&String> = databases.collect();
        databases.dedup();
        let views = databases
            .into_iter()
            .flat_map(|database| self.catalog.views_in(database));
        let views = views.map(|view| Ok(view_entry(&view)));
        let collections = collections.iter().map(|own| collection_entry(own));
        collections.chain(views).collect()
    }
}

fn view_entry(view: &ViewDefinition) -> RawDocumentBuf {
    let kind = match view.timeseries() {
        Some(_) => "timeseries",
        None => "view",
    };
    let mut row = begin(&view.namespace, kind);
    let name = view.namespace.to_string();
    row.append(cstr!("ns"), name.as_str());
    row.append(cstr!("_id"), name.as_str());
    extend(&mut row, &view.definition());
    row
}

fn collection_entry(collection: &Collection) -> Result<RawDocumentBuf> {
    let mut row = begin(&collection.namespace, "collection");
    let (indexes, idents) = index_entries(collection)?;
    let name = collection.namespace.to_string();
    let place = rawdoc! { "ns": name.as_str(), "ident": ident("collection", collection.documents) };
    let mut metadata = rawdoc! { "ns": name };
    metadata.append(cstr!("options"), options(collection));
    metadata.append(cstr!("indexes"), indexes);
    if collection.options.timeseries.is_some() {
        metadata.append(cstr!("timeseriesBucketsMayHaveMixedSchemaData"), false);
    }
    // As in mongod: it merges what it keeps of the collection with what it keeps of its indexes.
    if idents.is_empty() {
        extend(&mut row, &place);
        row.append(cstr!("md"), metadata);
    } else {
        row.append(cstr!("md"), metadata);
        row.append(cstr!("idxIdent"), idents);
        extend(&mut row, &place);
    }
    Ok(row)
}

fn options(collection: &Collection) -> RawDocumentBuf {
    let uuid = Binary {
        subtype: BinarySubtype::Uuid,
        bytes: collection.uuid.to_vec(),
    };
    let mut options = rawdoc! { "uuid": uuid };
    extend(&mut options, &collection.options.original);
    options
}

/// The indexes, and what each of their trees is called.
fn index_entries(collection: &Collection) -> Result<(RawArrayBuf, RawDocumentBuf)> {
    let (mut entries, mut idents) = (RawArrayBuf::new(), RawDocumentBuf::new());
    if collection.options.clustered_index.is_none() {
        let mut paths = RawDocumentBuf::new();
        paths.append(cstr!("_id"), components(&[0]));
        entries.push(index_entry(&id_index(collection), false, Some(paths)));
        // Documents lie in its order, but in a capped collection.
        let own = collection.id_index();
        let tree = own.map_or(collection.documents, |index| index.tree);
        idents.append(cstr!("_id_"), ident("index", tree));
    }
    let ready = collection.secondary_indexes().iter();
    for index in ready.filter(|index| index.ready) {
        let is_multikey = index.multikey().is_multikey();
        let paths = multikey_paths(index)?;
        entries.push(index_entry(&index.spec.original, is_multikey, paths));
        idents.append(field_name(&index.spec.name)?, ident("index", index.tree));
    }
    Ok((entries, idents))
}

fn index_entry(
    spec: &RawDocument,
    is_multikey: bool,
    paths: Option<RawDocumentBuf>,
) -> RawDocumentBuf {
    let mut entry = rawdoc! { "spec": stored(spec), "ready": true, "multikey": is_multikey };
    if let Some(paths) = paths {
        entry.append(cstr!("multikeyPaths"), paths);
    }
    entry.append(cstr!("head"), 0_i64);
    entry.append(cstr!("backgroundSecondary"), false);
    entry
}

/// The fields of an index in the order in which mongod keeps them.
fn stored(spec: &RawDocument) -> RawDocumentBuf {
    const FIRST: [&str; 3] = ["v", "unique", "hidden"];
    let mut ordered = RawDocumentBuf::new();
    for name in FIRST {
        let fields = spec.iter().flatten();
        fields
            .filter(|(own, _)| *own == name)
            .for_each(|(own, value)| ordered.append(own, value));
    }
    for (own, value) in spec.iter().flatten() {
        if !FIRST.contains(&own.as_str()) {
            ordered.append(own, value);
        }
    }
    ordered
}

/// A byte for each component of each path: whether it is an array in some document. None where that is not known, which is
/// so of kinds of which mongod does not know it either, and of arrays at paths with several components.
fn multikey_paths(index: &Index) -> Result<Option<RawDocumentBuf>> {
    let (mut paths, multikey) = (RawDocumentBuf::new(), index.multikey());
    for (position, (path, kind)) in index.spec.key.iter().enumerate() {
        let is_known = kind.is_by_value() || *kind == IndexField::Sphere2d;
        let count = path.split('.').count();
        let is_array = multikey.field(position);
        if !is_known || is_array && count > 1 {
            return Ok(None);
        }
        let bytes = vec![u8::from(is_array); count];
        paths.append(field_name(path)?, components(&bytes));
    }
    Ok(Some(paths))
}

fn components(bytes: &[u8]) -> Binary {
    Binary {
        subtype: BinarySubtype::Generic,
        bytes: bytes.to_vec(),
    }
}

fn ident(kind: &str, tree: TreeKey) -> String {
    format!("{kind}-{}", u32::from_be_bytes(tree.prefix()))
}

fn begin(namespace: &Namespace, kind: &str) -> RawDocumentBuf {
    rawdoc! { "db": namespace.database.as_str(), "name": namespace.collection.as_str(), "type": kind }
}

fn extend(row: &mut RawDocumentBuf, fields: &RawDocument) {
    for (name, value) in fields.iter().flatten() {
        row.append(name, value);
    }
}
