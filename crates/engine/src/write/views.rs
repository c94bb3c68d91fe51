//! Views come, change and go with their documents in `system.views`.

use super::{Change, InsertOptions, Target, Writer, encode_id};
use crate::catalog::{CollectionOptions, SYSTEM_VIEWS, ViewDefinition};
use crate::error::{Code, Error, Result};
use crate::namespace::Namespace;
use meridian_value::Collation;
use parking_lot::MutexGuard;

impl Writer {
    /// Adds a view.
    ///
    /// # Errors
    /// `NamespaceExists`; those of `Catalog::check_view`; storage failures.
    pub fn create_view(&self, view: ViewDefinition) -> Result<()> {
        let (holder, _defining) = self.lock_views(&view.namespace.database)?;
        let namespace = &view.namespace;
        if self.catalog.get(namespace).is_some() {
            let message =
                format!("Cannot create collection {namespace} - collection already exists.");
            return Err(Error::new(Code::NamespaceExists, message));
        }
        if self.catalog.view(namespace).is_some() {
            let message = "Namespace already exists";
            return Err(Error::new(Code::NamespaceExists, message));
        }
        self.catalog.check_view(&view)?;
        let options = InsertOptions {
            creates: false,
            ..InsertOptions::default()
        };
        let outcome = self.insert(&holder, &[&view.to_document()], &options)?;
        if let Some(failed) = outcome.errors.into_iter().next() {
            return Err(failed.error);
        }
        self.catalog.publish_view(view);
        Ok(())
    }

    /// Creates a time-series collection: its collection of buckets, of which it is a view.
    ///
    /// # Errors
    /// `NamespaceExists`; storage failures.
    pub fn create_timeseries(
        &self,
        buckets: &Namespace,
        series: &Namespace,
        options: CollectionOptions,
    ) -> Result<()> {
        // MongoDB lists it, since its time series have a document there.
        let (_, _defining) = self.lock_views(&buckets.database)?;
        self.refuse_taken(series)?;
        self.create_locked(buckets, options, false).map(|_| ())
    }

    /// Changes a view that is there.
    ///
    /// # Errors
    /// `NamespaceNotFound`; those of `change` and of `Catalog::check_view`; storage failures.
    pub fn change_view(
        &self,
        namespace: &Namespace,
        change: impl FnOnce(&ViewDefinition) -> Result<ViewDefinition>,
    ) -> Result<()> {
        let (holder, _defining) = self.lock_views(&namespace.database)?;
        let Some(before) = self.catalog.view(namespace) else {
            return Err(Error::new(Code::NamespaceNotFound, "ns does not exist"));
        };
        let after = change(&before)?;
        self.catalog.check_view(&after)?;
        self.write_view(&holder, &before, Change::Replace(after.to_document()))?;
        self.catalog.publish_view(after);
        Ok(())
    }

    /// Takes a view away; false where there was none.
    ///
    /// # Errors
    /// Storage failures.
    pub fn drop_view(&self, namespace: &Namespace) -> Result<bool> {
        let is_view = |view: std::sync::Arc<ViewDefinition>| view.timeseries().is_none();
        if !self.catalog.view(namespace).is_some_and(is_view) {
            return Ok(false);
        }
        let (holder, _defining) = self.lock_views(&namespace.database)?;
        let before = self.catalog.view(namespace);
        let Some(before) = before.filter(|before| before.timeseries().is_none()) else {
            return Ok(false);
        };
        self.write_view(&holder, &before, Change::Remove)?;
        self.catalog.forget_view(namespace);
        Ok(true)
    }

    /// The collection of a database's views, which can neither be dropped nor made by another while the guard lives.
    fn lock_views(&self, database: &str) -> Result<(Namespace, MutexGuard<'_, ()>)> {
        let holder = Namespace::new(database, SYSTEM_VIEWS)?;
        let defining = self.defining.lock();
        if self.catalog.get(&holder).is_none() {
            self.create_locked(&holder, CollectionOptions::default(), false)?;
        }
        Ok((holder, defining))
    }

    fn write_view(&self, holder: &Namespace, view: &ViewDefinition, change: Change) -> Result<()> {
        let document = view.to_document();
        let mut id = Vec::new();
        encode_id(&document, &Collation::SIMPLE, &mut id)?;
        let target = Target { id, document };
        let decide = |_: &bson::RawDocument| Ok(Some(change.clone()));
        let holder = self.catalog.require(holder)?;
        self.modify(&holder, &[target], true, &decide, &mut |_| ())
    }
}
