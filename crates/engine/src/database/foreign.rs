//! Other collections, as the stages of a pipeline read them.

use super::Engine;
use super::aggregate::Running;
use super::read::Opened;
use super::view::other_collation;
use crate::aggregate::{Foreign, ForeignDocuments, Pipeline, StageContext};
use crate::catalog::{Collection, Index};
use crate::cursor::Query;
use crate::error::{Code, Error, Result};
use crate::expression::{VariableScope, Variables};
use crate::namespace::Namespace;
use crate::plan::QuerySpec;
use crate::rank::{FixedView, ReadView};
use bson::raw::{RawDocument, RawDocumentBuf};
use meridian_value::Collation;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::{Arc, Weak};

/// The collections of a database, each as it was when the statement first read it.
#[derive(Clone)]
pub(super) struct ForeignCollections {
    /// A cursor may outlive the engine.
    engine: Weak<Engine>,
    database: String,
    host: String,
    allow_disk_use: bool,
    /// In how many pipelines within others the stages stand that read them.
    depth: usize,
    views: Arc<Mutex<HashMap<String, Option<Seen>>>>,
}

#[derive(Clone)]
struct Seen {
    collection: Arc<Collection>,
    view: Arc<FixedView>,
}

impl ForeignCollections {
    pub fn new(engine: &Engine, database: &str, host: &str, allow_disk_use: bool) -> Arc<Self> {
        Arc::new(Self {
            engine: engine.own_handle(),
            database: database.to_owned(),
            host: host.to_owned(),
            allow_disk_use,
            depth: 0,
            views: Arc::default(),
        })
    }

    /// What the stages of a view may name, which stand as deep as those that read it: views that join views are
    /// bounded together.
    fn scope_of_view(&self, collation: &Collation) -> VariableScope {
        let outermost = VariableScope::new(collation.clone());
        (0..self.depth).fold(outermost, |scope, _| scope.within_pipeline())
    }

    /// A collection on the view that the statement has of it; `None` when it does not exist.
    fn open(&self, engine: &Engine, namespace: &Namespace) -> Result<Option<Opened>> {
        let mut views = self.views.lock();
        let seen = match views.get(&namespace.collection) {
            Some(seen) => seen.clone(),
            None => {
                let opened = engine.open_view(namespace)?;
                let seen = opened.map(|opened| Seen {
                    view: Arc::new(opened.view.fixed()),
                    collection: opened.collection,
                });
                views.insert(namespace.collection.clone(), seen.clone());
                seen
            }
        };
        drop(views);
        Ok(seen.map(|seen| Opened {
            view: ReadView::again(&seen.view),
            collection: seen.collection,
        }))
    }
}

impl Foreign for ForeignCollections {
    fn run(
        &self,
        collection: Option<&str>,
        pipeline: Pipeline,
        variables: &Variables,
    ) -> Result<ForeignDocuments> {
        let gone = || Error::new(Code::InterruptedAtShutdown, "the server is shutting down");
        let engine = self.engine.upgrade().ok_or_else(gone)?;
        // A name that no collection can have is that of one that is not there.
        let namespace = Namespace {
            database: self.database.clone(),
            collection: collection.unwrap_or_default().to_owned(),
        };
        if collection == Some("") {
            return Err(Error::new(
                Code::InvalidNamespace,
                format!("Namespace {namespace} is not a valid collection name"),
            ));
        }
        let within = Self {
            depth: self.depth + 1,
            ..self.clone()
        };
        let (namespace, pipeline) = match engine.catalog.resolve_view(&namespace)? {
            None => (namespace, pipeline),
            Some(view) => {
                if view.collation != *variables.collation() {
                    return Err(other_collation(&namespace.to_string()));
                }
                let stages: Vec<&RawDocument> = view.pipeline.iter().map(|one| &**one).collect();
                let before =
                    Pipeline::parse_with(&stages, &within.scope_of_view(variables.collation()))?;
                (view.namespace, pipeline.behind(before)?)
            }
        };
        let opened = match collection {
            Some(_) => self.open(&engine, &namespace)?,
            None => None,
        };
        let running = Running {
            // Stages within see the same.
            context: StageContext {
                limits: engine.limits(self.allow_disk_use),
                foreign: Some(Arc::new(within)),
                is_within: true,
            },
            // What is known of the document outside is not known of those within.
            variables: variables.knowing(None),
            host: &self.host,
            latencies: None,
        };
        let query = QuerySpec {
            collation: variables.collation().clone(),
            allow_disk_use: self.allow_disk_use,
            may_scan: true,
            ..QuerySpec::everything()
        };
        let query = engine.run_foreign(&namespace, opened, pipeline, query, &running)?;
        Ok(Box::new(Found(query)))
    }

    fn size(&self, collection: &str, field: &str, collation: &Collation) -> (u64, bool) {
        let namespace = Namespace {
            database: self.database.clone(),
            collection: collection.to_owned(),
        };
        let engine = self.engine.upgrade();
        let Some(found) = engine.and_then(|engine| engine.catalog.get(&namespace)) else {
            return (0, false);
        };
        let begins = |index: &Arc<Index>| {
            let first = index.spec.key.first();
            first.is_some_and(|(own, _)| own == field) && index.spec.collation == *collation
        };
        let documents = u64::try_from(found.state.documents()).unwrap_or(0);
        (
            documents,
            (field == "_id" && found.options.collation == *collation)
                || found.ready_indexes().any(begins),
        )
    }
}

struct Found(Query);

impl Iterator for Found {
    type Item = Result<RawDocumentBuf>;

    fn next(&mut self) -> Option<Self::Item> {
        let next = self.0.next_document();
        next.map(|document| document.map(ToOwned::to_owned))
            .transpose()
    }
}
