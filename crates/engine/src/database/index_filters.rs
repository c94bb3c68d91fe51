//! Index filters: `planCacheSetFilter` and its like. What `$planCacheStats` knows is forgotten here,
//! too.

use super::Engine;
use super::read::query_spec;
use super::requests::FindRequest;
use crate::catalog::{Collection, IndexFilter};
use crate::error::{Error, Result};
use crate::namespace::Namespace;
use crate::plan::QuerySpec;
use bson::raw::{RawDocument, RawDocumentBuf};
use bson::{RawArrayBuf, cstr};
use meridian_value::Collation;
use std::sync::Arc;

/// A statement whose shape is meant.
#[derive(Debug, Clone)]
pub struct ShapedStatement<'a> {
    /// Its filter.
    pub query: &'a RawDocument,
    /// Its order.
    pub sort: Option<&'a RawDocument>,
    /// Its projection.
    pub projection: Option<&'a RawDocument>,
    /// By what it compares texts.
    pub collation: Option<Collation>,
}

impl Engine {
    /// Has the statements of a shape be answered by these indexes only, or by a scan.
    ///
    /// # Errors
    /// `BadValue` for a collection that does not exist, `CommandNotSupportedOnView`, `ExceededMemoryLimit`, and what the
    /// statement would refuse.
    pub fn set_index_filter(
        &self,
        namespace: &Namespace,
        statement: &ShapedStatement<'_>,
        keys: Vec<RawDocumentBuf>,
        names: Vec<String>,
    ) -> Result<()> {
        let collection = self.collection_of_filters(namespace)?;
        let collection = collection.ok_or_else(|| Error::bad_value("no such collection"))?;
        let shape = self.shape_of(namespace, &collection, statement)?;
        let mut listed = RawDocumentBuf::new();
        let empty = RawDocumentBuf::new();
        listed.append(cstr!("query"), statement.query);
        listed.append(cstr!("sort"), statement.sort.unwrap_or(&empty));
        listed.append(cstr!("projection"), statement.projection.unwrap_or(&empty));
        if let Some(collation) = statement
            .collation
            .as_ref()
            .and_then(crate::collation::listing)
        {
            listed.append(cstr!("collation"), collation);
        }
        let filter = IndexFilter::new(listed, keys, names)?;
        collection.state.index_filters().set(shape, filter);
        Ok(())
    }

    /// The index filters of a collection, as `planCacheListFilters` shows them.
    ///
    /// # Errors
    /// `CommandNotSupportedOnView`.
    pub fn index_filters(&self, namespace: &Namespace) -> Result<Vec<RawDocumentBuf>> {
        let Some(collection) = self.collection_of_filters(namespace)? else {
            return Ok(Vec::new());
        };
        let filters = collection.state.index_filters().all();
        let listed = filters.iter().map(|filter| {
            let mut indexes = RawArrayBuf::new();
            filter.keys.iter().for_each(|key| indexes.push(key.clone()));
            filter
                .names
                .iter()
                .for_each(|name| indexes.push(name.as_str()));
            let mut listed = filter.statement.clone();
            listed.append(cstr!("indexes"), indexes);
            listed
        });
        Ok(listed.collect())
    }

    /// Ends the index filter of a shape, or all of the collection.
    ///
    /// # Errors
    /// As [`Engine::set_index_filter`], but that a collection need not exist.
    pub fn clear_index_filters(
        &self,
        namespace: &Namespace,
        statement: Option<&ShapedStatement<'_>>,
    ) -> Result<()> {
        let Some(collection) = self.collection_of_filters(namespace)? else {
            return Ok(());
        };
        let shape = statement.map(|statement| self.shape_of(namespace, &collection, statement));
        let shape = shape.transpose()?;
        collection.state.index_filters().clear(shape.as_deref());
        Ok(())
    }

    /// Forgets what `$planCacheStats` knows of a shape, or of all.
    ///
    /// # Errors
    /// As [`Engine::clear_index_filters`].
    pub fn clear_plan_cache(
        &self,
        namespace: &Namespace,
        statement: Option<&ShapedStatement<'_>>,
    ) -> Result<()> {
        let Some(collection) = self.collection_of_filters(namespace)? else {
            return Ok(());
        };
        let query = statement.map(|statement| self.query_of_shape(namespace, statement));
        let key = query
            .transpose()?
            .map(|query| query.plan_cache_key(&collection));
        collection.state.plan_cache().clear(key.as_deref());
        Ok(())
    }

    fn collection_of_filters(&self, namespace: &Namespace) -> Result<Option<Arc<Collection>>> {
        if self.catalog.resolve_view(namespace)?.is_some() {
            return Err(self.catalog.not_a_collection(namespace));
        }
        Ok(self.catalog.get(namespace))
    }

    fn shape_of(
        &self,
        namespace: &Namespace,
        collection: &Collection,
        statement: &ShapedStatement<'_>,
    ) -> Result<String> {
        Ok(self.query_of_shape(namespace, statement)?.shape(collection))
    }

    fn query_of_shape(
        &self,
        namespace: &Namespace,
        statement: &ShapedStatement<'_>,
    ) -> Result<QuerySpec> {
        query_spec(&FindRequest {
            sort: statement.sort,
            projection: statement.projection,
            collation: Some(self.collation_of(namespace, statement.collation.as_ref())),
            ..FindRequest::new(statement.query)
        })
    }
}
