//! Statements on views: each becomes a pipeline, behind the stages of the view.

use super::Engine;
use super::distinct::{DistinctValues, values_of};
use super::requests::{
    AggregateRequest, AggregateTarget, CountRequest, DistinctRequest, ExplainRequest, FindRequest,
};
use super::timeseries::bucket_hint;
use crate::catalog::{ResolvedView, ViewDefinition};
use crate::cursor::Query;
use crate::error::{Code, Error, Result};
use crate::expression::parse_field_path;
use crate::namespace::Namespace;
use bson::raw::{RawArrayBuf, RawBsonRef, RawDocument, RawDocumentBuf};
use bson::rawdoc;
use meridian_value::Collation;
use meridian_value::path::Path;

/// A change of a view: what is `None` stays as it is.
#[derive(Debug, Clone, Default)]
pub struct ViewChange {
    /// What it reads.
    pub view_on: Option<String>,
    /// What it makes of it.
    pub pipeline: Option<Vec<RawDocumentBuf>>,
}

/// A statement as a pipeline.
pub(super) struct ViewStatement<'a> {
    pipeline: Vec<RawDocumentBuf>,
    collation: Option<Collation>,
    hint: Option<RawBsonRef<'a>>,
    variables: Option<&'a RawDocument>,
    allow_disk_use: bool,
}

impl Engine {
    /// Makes a view.
    ///
    /// # Errors
    /// `NamespaceExists`; what is wrong with its definition.
    pub fn create_view(
        &self,
        namespace: &Namespace,
        view_on: &str,
        pipeline: Vec<RawDocumentBuf>,
        collation: Collation,
    ) -> Result<()> {
        let (namespace, view_on) = (namespace.clone(), view_on.to_owned());
        let view = ViewDefinition::new(namespace, view_on, pipeline, collation)?;
        self.writer.create_view(view)
    }

    /// Changes a view.
    ///
    /// # Errors
    /// `NamespaceNotFound`; what is wrong with its new definition.
    pub fn modify_view(&self, namespace: &Namespace, change: ViewChange) -> Result<()> {
        self.writer.change_view(namespace, |view| {
            let view_on = change.view_on.unwrap_or_else(|| view.view_on.clone());
            let pipeline = change.pipeline.unwrap_or_else(|| view.pipeline.clone());
            ViewDefinition::new(namespace.clone(), view_on, pipeline, view.collation.clone())
        })
    }

    /// Whether there is a view of this name.
    pub fn has_view(&self, namespace: &Namespace) -> bool {
        self.catalog.view(namespace).is_some()
    }

    /// Runs a statement on a view.
    pub(super) fn run_on_view(
        &self,
        view: &Namespace,
        statement: &ViewStatement<'_>,
    ) -> Result<Query> {
        let target = AggregateTarget::Collection(view.clone());
        self.aggregate(&target, &statement.request())
    }

    /// A count on a view.
    pub(super) fn count_on_view(
        &self,
        view: &Namespace,
        request: &CountRequest<'_>,
    ) -> Result<i64> {
        let mut query = self.run_on_view(view, &ViewStatement::count(request))?;
        let counted = query.next_document()?;
        let count = counted.and_then(|document| document.get("count").ok().flatten());
        Ok(match count {
            Some(RawBsonRef::Int32(count)) => count.into(),
            Some(RawBsonRef::Int64(count)) => count,
            _ => 0,
        })
    }

    fn values_of_view(&self, view: &Namespace, asked: Option<&Collation>) -> DistinctValues {
        let view = self.catalog.view(view);
        let own = view.map(|view| view.collation.clone());
        // Of a view itself no other one is taken.
        DistinctValues::new(asked.cloned().or(own).unwrap_or_default())
    }

    /// The distinct values of a path in a view.
    pub(super) fn distinct_on_view(
        &self,
        view: &Namespace,
        request: &DistinctRequest<'_>,
    ) -> Result<RawArrayBuf> {
        parse_field_path(request.key)?;
        let mut query = self.run_on_view(view, &ViewStatement::distinct(request))?;
        let (path, mut values) = (
            Path::parse(request.key),
            self.values_of_view(view, request.collation.as_ref()),
        );
        while let Some(document) = query.next_document()? {
            values_of(document, &path, &mut values)?;
        }
        Ok(values.into_array())
    }
}

/// Readers of a view compare texts as it says; MongoDB puts the view's name right behind.
pub(super) fn other_collation(view: &str) -> Error {
    let message = format!("Cannot override a view's default collation{view}");
    Error::new(Code::OptionNotSupportedOnView, message)
}

impl ResolvedView {
    /// A request on what the view reads, with the stages of the view before it.
    ///
    /// # Errors
    /// `OptionNotSupportedOnView` for another collation than the view's.
    pub(super) fn before<'r>(
        &'r self,
        request: &AggregateRequest<'r>,
        hint: Option<&'r RawDocument>,
    ) -> Result<AggregateRequest<'r>> {
        let asked = request.collation.as_ref();
        // A time series is read by any collation, as a collection is.
        let collation = match asked {
            Some(asked) if self.timeseries.is_some() => asked,
            Some(asked) if *asked != self.collation => return Err(other_collation("")),
            _ => &self.collation,
        };
        let stages = self.pipeline.iter().map(|stage| &**stage);
        Ok(AggregateRequest {
            pipeline: stages.chain(request.pipeline.iter().copied()).collect(),
            collation: Some(collation.clone()),
            hint: hint.map(RawBsonRef::Document).or(request.hint),
            ..request.clone()
        })
    }

    /// A hint as the collection that is read understands it; `None` where it stays as it is.
    pub(super) fn hint(&self, hint: Option<RawBsonRef<'_>>) -> Option<RawDocumentBuf> {
        bucket_hint(self.timeseries.as_ref()?, hint)
    }
}

impl<'a> ViewStatement<'a> {
    /// As mongod rewrites it.
    pub fn find(request: &FindRequest<'a>) -> Self {
        let mut pipeline = Self::matching(request.filter);
        let (mut hint, sort) = (request.hint, request.sort);
        let natural = |sort: &&RawDocument| matches!(sort.get("$natural"), Ok(Some(_)));
        match sort.filter(|sort| !sort.is_empty()) {
            Some(sort) if natural(&sort) && hint.is_none() => {
                hint = Some(RawBsonRef::Document(sort));
            }
            Some(sort) if natural(&sort) => {}
            Some(sort) => pipeline.push(rawdoc! { "$sort": sort.to_owned() }),
            None => {}
        }
        pipeline.extend(skipped(request.skip));
        pipeline.extend(limited(request.limit));
        if let Some(shape) = request.projection.filter(|shape| !shape.is_empty()) {
            pipeline.push(rawdoc! { "$project": shape.to_owned() });
        }
        Self {
            pipeline,
            collation: request.collation.clone(),
            hint,
            variables: request.variables,
            allow_disk_use: request.allow_disk_use,
        }
    }

    fn count(request: &CountRequest<'a>) -> Self {
        let mut pipeline = Self::matching(request.filter);
        pipeline.extend(skipped(request.skip));
        pipeline.extend(limited(request.limit));
        pipeline.push(rawdoc! { "$count": "count" });
        Self::plain(pipeline, request.collation.clone(), request.hint)
    }

    fn distinct(request: &DistinctRequest<'a>) -> Self {
        let pipeline = Self::matching(request.filter);
        Self::plain(pipeline, request.collation.clone(), request.hint)
    }

    /// The statement of an `explain`; `None` for one that writes.
    pub fn explained(request: &ExplainRequest<'a>) -> Option<Self> {
        match request {
            ExplainRequest::Find(find) => Some(Self::find(find)),
            ExplainRequest::Count(count) => Some(Self::count(count)),
            ExplainRequest::Distinct(distinct) => Some(Self::distinct(distinct)),
            _ => None,
        }
    }

    fn plain(
        pipeline: Vec<RawDocumentBuf>,
        collation: Option<Collation>,
        hint: Option<RawBsonRef<'a>>,
    ) -> Self {
        Self {
            pipeline,
            collation,
            hint,
            variables: None,
            allow_disk_use: true,
        }
    }

    fn matching(filter: &RawDocument) -> Vec<RawDocumentBuf> {
        match filter.is_empty() {
            true => Vec::new(),
            false => vec![rawdoc! { "$match": filter.to_owned() }],
        }
    }

    pub fn request(&self) -> AggregateRequest<'_> {
        AggregateRequest {
            collation: self.collation.clone(),
            hint: self.hint,
            variables: self.variables,
            allow_disk_use: self.allow_disk_use,
            ..AggregateRequest::new(&self.pipeline)
        }
    }
}

fn skipped(skip: u64) -> Option<RawDocumentBuf> {
    let skip = i64::try_from(skip).unwrap_or(i64::MAX);
    (skip > 0).then(|| rawdoc! { "$skip": skip })
}

fn limited(limit: Option<u64>) -> Option<RawDocumentBuf> {
    let limit = limit.map(|limit| i64::try_from(limit).unwrap_or(i64::MAX));
    let limit = limit.filter(|limit| *limit > 0);
    limit.map(|limit| rawdoc! { "$limit": limit })
}
