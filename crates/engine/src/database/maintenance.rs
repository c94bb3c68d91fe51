//! Maintenance of collections: `compact`, and the hashes by which `dbHash` and `filemd5` compare data.

use super::Engine;
use super::read::query_spec;
use super::requests::FindRequest;
use crate::error::{Code, Error, Result};
use crate::exec;
use crate::expression::value::corrupt;
use crate::namespace::{Namespace, check_database_name};
use crate::operation;
use crate::plan::Goal;
use crate::storage::Family;
use bson::{RawBsonRef, cstr, rawdoc};
use md5::{Digest, Md5};

/// A hash as hexadecimal digits.
fn digits(hash: Md5) -> String {
    let bytes = hash.finalize();
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// By what the data of two servers is compared: MD5, as hexadecimal digits.
#[derive(Debug)]
pub struct DatabaseHashes {
    /// By name.
    pub collections: Vec<CollectionHash>,
    /// Of the hashes of all collections.
    pub whole: String,
}

/// The hash of a collection's documents.
#[derive(Debug)]
pub struct CollectionHash {
    /// Its name.
    pub name: String,
    /// Its identity.
    pub uuid: [u8; 16],
    /// The hash.
    pub hash: String,
    /// Whether it is capped.
    pub is_capped: bool,
}

impl Engine {
    /// Writes the files of a collection and its indexes anew, without what was deleted or replaced; by how many bytes
    /// they shrank, as far as the storage can tell.
    ///
    /// # Errors
    /// `NamespaceNotFound`; `CommandNotSupportedOnView`.
    pub fn compact(&self, namespace: &Namespace) -> Result<i64> {
        if self.catalog.resolve_view(namespace)?.is_some() {
            return Err(Error::new(
                Code::CommandNotSupportedOnView,
                "can't compact a view",
            ));
        }
        let missing = || Error::new(Code::NamespaceNotFound, "collection does not exist");
        let collection = self.catalog.get(namespace).ok_or_else(missing)?;
        self.flush_rows(&collection)?;
        let indexes = collection
            .indexes
            .iter()
            .map(|index| (Family::Indexes, index.tree));
        let trees = [(Family::Documents, collection.documents)];
        let mut freed = 0;
        for (family, tree) in trees.into_iter().chain(indexes) {
            operation::check()?;
            let before = self.tree_bytes(family, tree);
            let (start, end) = tree.range();
            self.store.compact(family, &start, &end);
            freed += (before - self.tree_bytes(family, tree)).max(0);
        }
        Ok(freed)
    }

    /// Which indexes are not of the Stable API in MongoDB 6.0's view, sparse ones and those of texts: in one database or
    /// all, in one collection or all.
    pub fn indexes_beyond_stable_api(
        &self,
        database: Option<&str>,
        collection: Option<&str>,
    ) -> Vec<(Namespace, String)> {
        let mut found = Vec::new();
        for one in self.catalog.all() {
            let namespace = &one.namespace;
            let is_meant = database.is_none_or(|database| namespace.database == database)
                && collection.is_none_or(|collection| namespace.collection == collection);
            if !is_meant {
                continue;
            }
            let ready = one.indexes.iter().map(|index| &index.spec.original);
            let listed = one.unbuilt.iter().map(|index| &index.original);
            for specification in ready.chain(listed) {
                let is_sparse = specification.get_bool("sparse").unwrap_or(false);
                let kinds = specification
                    .get_document("key")
                    .into_iter()
                    .flatten()
                    .flatten();
                let mut kinds = kinds.map(|(_, kind)| kind);
                let is_beyond =
                    kinds.any(|kind| matches!(kind, RawBsonRef::String("text" | "geoHaystack")));
                if is_sparse || is_beyond {
                    let name = specification.get_str("name").unwrap_or_default();
                    found.push((namespace.clone(), name.to_owned()));
                }
            }
        }
        found
    }

    /// The MD5 of the documents of each collection of a database, in the order of their `_id`s: of all collections, or of
    /// those that are named.
    ///
    /// # Errors
    /// `InvalidNamespace`; storage failures.
    pub fn hashes(&self, database: &str, only: &[&str]) -> Result<DatabaseHashes> {
        check_database_name(database)?;
        let (mut collections, mut whole) = (Vec::new(), Md5::new());
        for collection in self.catalog.in_database(database) {
            let name = &collection.namespace.collection;
            if !only.is_empty() && !only.contains(&name.as_str()) {
                continue;
            }
            let mut hash = Md5::new();
            let (empty, order) = (rawdoc! {}, rawdoc! { "_id": 1 });
            let all = query_spec(&FindRequest {
                sort: Some(&order),
                collation: Some(collection.options.collation.clone()),
                ..FindRequest::new(&empty)
            })?;
            // Not a statement that counts as using an index.
            let prepared = self.prepare(&collection.namespace, all, &Goal::Rows)?;
            let mut rows = prepared.map_or_else(|| Ok(exec::nothing()), |all| all.rows())?;
            while rows.advance()? {
                operation::check()?;
                hash.update(rows.row().document.as_bytes());
            }
            let hash = digits(hash);
            whole.update(hash.as_bytes());
            collections.push(CollectionHash {
                name: name.clone(),
                uuid: collection.uuid,
                hash,
                is_capped: collection.options.capped.is_some(),
            });
        }
        Ok(DatabaseHashes {
            collections,
            whole: digits(whole),
        })
    }

    /// How many chunks a GridFS file has, and the MD5 of its data.
    ///
    /// # Errors
    /// 10040 for chunks that are missing, 50848 and 50849 for data that is not binary.
    pub fn file_hash(&self, chunks: &Namespace, file: RawBsonRef<'_>) -> Result<(i32, String)> {
        if self.catalog.resolve_view(chunks)?.is_some() {
            return Err(self.catalog.not_a_collection(chunks));
        }
        let mut filter = rawdoc! {};
        filter.append(cstr!("files_id"), file);
        let order = rawdoc! { "files_id": 1, "n": 1 };
        let find = FindRequest {
            sort: Some(&order),
            ..FindRequest::new(&filter)
        };
        let mut query = self.find(chunks, &find)?;
        let (mut hash, mut count) = (Md5::new(), 0);
        let refused = |code, what: String| {
            let message = format!("Executor error during filemd5 command :: caused by :: {what}");
            Err(Error::location(code, message))
        };
        while let Some(chunk) = query.next_document()? {
            operation::check()?;
            let number = chunk.get("n").map_err(corrupt)?;
            let number = number.and_then(meridian_value::number::Number::from_raw);
            if number
                .and_then(|number| number.to_i64_truncated())
                .unwrap_or(0)
                != i64::from(count)
            {
                return refused(10040, "chunks out of order".into());
            }
            match chunk.get("data").map_err(corrupt)? {
                Some(RawBsonRef::Binary(data)) => hash.update(data.bytes),
                None => {
                    return refused(
                        50848,
                        "The element that calls binDataClean() must be type of BinData, but type of misisng found. \
                         Field name is required"
                            .into(),
                    );
                }
                Some(other) => {
                    return refused(
                        50849,
                        format!(
                            "The element that calls binDataClean() must be type of BinData, but type of {} found.",
                            crate::types::type_name(other.element_type())
                        ),
                    );
                }
            }
            count += 1;
        }
        Ok((count, digits(hash)))
    }
}
