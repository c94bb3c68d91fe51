//! What the catalogue holds, by kind: `catalogStats` and `indexStats` of `serverStatus`.

use super::Engine;
use crate::catalog::{Accesses, Collection, Index};
use crate::index::IndexField;
use crate::namespace::Namespace;

/// Numbers of collections and views.
#[derive(Debug, Default)]
pub struct CatalogFigures {
    /// Of users, without time-series collections.
    pub collections: i64,
    /// Of them.
    pub capped: i64,
    /// Of them.
    pub clustered: i64,
    /// Time-series collections.
    pub timeseries: i64,
    /// Other views.
    pub views: i64,
    /// The server's own.
    pub internal: i64,
}

/// Numbers of indexes of users' collections.
#[derive(Debug)]
pub struct IndexFigures {
    /// All of them.
    pub indexes: i64,
    /// How many indexes have a feature, and how often statements used them.
    pub features: Vec<(&'static str, i64, i64)>,
}

/// In MongoDB's order.
const FEATURES: [&str; 15] = [
    "2d",
    "2dsphere",
    "2dsphere_bucket",
    "collation",
    "compound",
    "hashed",
    "id",
    "normal",
    "partial",
    "single",
    "sparse",
    "text",
    "ttl",
    "unique",
    "wildcard",
];

impl Engine {
    /// Which collections and views there are.
    pub fn catalog_figures(&self) -> CatalogFigures {
        let mut figures = CatalogFigures::default();
        for view in self.catalog.views() {
            match view.timeseries() {
                Some(_) => figures.timeseries += 1,
                None => figures.views += 1,
            }
        }
        for collection in self.catalog.all() {
            if is_internal(&collection.namespace) {
                figures.internal += 1;
                continue;
            }
            figures.collections += 1;
            figures.capped += i64::from(collection.options.capped.is_some());
            figures.clustered += i64::from(collection.options.clustered_index.is_some());
        }
        figures
    }

    /// Which indexes there are, and how often they were used.
    pub fn index_figures(&self) -> IndexFigures {
        let mut figures = IndexFigures {
            indexes: 0,
            features: FEATURES.map(|name| (name, 0, 0)).to_vec(),
        };
        for collection in self.catalog.all() {
            let name = &collection.namespace;
            if !is_internal(name) || name.collection.starts_with("system.buckets.") {
                figures.add(&collection);
            }
        }
        figures
    }
}

impl IndexFigures {
    fn add(&mut self, collection: &Collection) {
        // (Buckets lie by their `_id` in mongod, which counts an index for it all the same.)
        let is_clustered = collection.options.clustered_index.is_some();
        if !is_clustered || collection.options.timeseries.is_some() {
            self.add_index(&["id"], collection.id_accesses());
        }
        let ready = collection.secondary_indexes().iter();
        for index in ready.filter(|index| index.ready) {
            self.add_index(&features(index), &index.accesses);
        }
    }

    fn add_index(&mut self, features: &[&str], accesses: &Accesses) {
        self.indexes += 1;
        for (name, count, operations) in &mut self.features {
            if features.contains(name) {
                *count += 1;
                *operations += accesses.operations();
            }
        }
    }
}

fn is_internal(namespace: &Namespace) -> bool {
    let own = ["admin", "config", "local"].contains(&namespace.database.as_str());
    own || namespace.is_system()
}

fn features(index: &Index) -> Vec<&'static str> {
    let spec = &index.spec;
    let special = spec.key.iter().find_map(|(_, field)| match field {
        IndexField::Ascending | IndexField::Descending => None,
        IndexField::Hashed => Some("hashed"),
        IndexField::Sphere2d => Some("2dsphere"),
        IndexField::SphereBucket => Some("2dsphere_bucket"),
        IndexField::Plane2d => Some("2d"),
        IndexField::Wildcard => Some("wildcard"),
        IndexField::Text => Some("text"),
    });
    // The terms of a text index and their weights are one field of the client's.
    let own_fields = spec.key.len() - usize::from(special == Some("text"));
    let is_compound = own_fields > 1;
    let has = [
        (special.unwrap_or("normal"), true),
        (if is_compound { "compound" } else { "single" }, true),
        ("collation", !spec.collation.is_simple()),
        ("partial", spec.partial_filter.is_some()),
        ("sparse", spec.sparse),
        ("ttl", spec.expire_after_seconds.is_some()),
        ("unique", spec.unique),
    ];
    let had = has.into_iter().filter(|(_, has)| *has);
    had.map(|(name, _)| name).collect()
}
