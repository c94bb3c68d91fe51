//! `find` and `count`: parse, plan, run.

use super::Engine;
use super::requests::{CountRequest, FindRequest, parse_context};
use super::view::ViewStatement;
use crate::aggregate::Stage;
use crate::catalog::Collection;
use crate::cursor::{Query, Tail};
use crate::error::{Error, Result};
use crate::exec::{self, Context, RowMetadata, Rows, Sample, TailRows};
use crate::expression::{
    AskedMetadata, FieldSet, MetadataScope, SearchKind, VariableScope, mentions_metadata,
    mentions_text,
};
use crate::namespace::Namespace;
use crate::operation;
use crate::plan::{
    self, CountBy, Countable, FieldRanges, Goal, Hint, KeyBounds, Method, PipelinePlan, Plan,
    QuerySpec, SampleSize, Sizes, refuse_without_collection,
};
use crate::query::{Filter, Measure, Projection, Sort};
use crate::rank::ReadView;
use crate::storage::TreeKey;
use bson::raw::{RawDocument, RawDocumentBuf};
use bson::{RawBsonRef, cstr, rawdoc};
use meridian_value::key::{Direction, TypeBits};
use meridian_value::{Collation, holds_text};
use std::collections::VecDeque;
use std::sync::Arc;

/// A collection, and the view of it that a statement has from its beginning to its end.
pub(crate) struct Opened {
    pub collection: Arc<Collection>,
    pub view: ReadView,
}

/// A plan together with what it runs on.
pub(crate) struct PreparedPlan {
    pub collection: Arc<Collection>,
    pub view: ReadView,
    pub plan: Plan,
    pub context: Context,
}

/// Rows, and the collection that they are found in.
pub(crate) struct FoundRows {
    pub collection: Arc<Collection>,
    pub rows: Box<dyn Rows>,
}

impl Opened {
    /// Plans a query.
    pub(crate) fn plan(&self, query: QuerySpec, goal: &Goal) -> Result<Plan> {
        let Self { collection, view } = self;
        plan::plan(collection, query, goal, &SizesOfView { collection, view })
    }

    /// Plans a pipeline.
    pub(crate) fn plan_pipeline(
        &self,
        query: QuerySpec,
        stages: VecDeque<Stage>,
    ) -> Result<PipelinePlan> {
        let Self { collection, view } = self;
        plan::plan_pipeline(collection, query, stages, &SizesOfView { collection, view })
    }
}

impl PreparedPlan {
    pub(crate) fn rows(&self) -> Result<Box<dyn Rows>> {
        exec::rows(&self.plan, &self.collection, &self.view, &self.context)
    }

    /// What the stages of a pipeline are told of each row.
    pub(crate) fn metadata(&self) -> Option<RowMetadata> {
        RowMetadata::new(&self.plan, &self.collection)
    }

    /// Draws from what the plan finds.
    pub(crate) fn sample(&self, wanted: SampleSize, countable: &Countable) -> Result<Sample> {
        let (plan, collection, view) = (&self.plan, &self.collection, &self.view);
        exec::sample(plan, wanted, countable, collection, view, &self.context)
    }

    /// Hands the distinct values of a field to `visit`.
    pub(crate) fn distinct_values(
        &self,
        field: &FieldRanges,
        visit: &mut dyn FnMut(&bson::Bson) -> Result<()>,
    ) -> Result<()> {
        exec::distinct_values(field, &self.view, &self.context, visit)
    }

    pub(crate) fn count(&self, by: &CountBy) -> Result<u64> {
        exec::count(&self.plan, by, &self.collection, &self.view, &self.context)
    }
}

/// Answers the planner's questions from a view.
struct SizesOfView<'a> {
    collection: &'a Collection,
    view: &'a ReadView,
}

impl SizesOfView<'_> {
    /// The view as it is before anything is read: commits go on, and all candidates can be asked about.
    fn before_reads(&self) -> &ReadView {
        self.view.unpin_with_all();
        self.view
    }
}

impl Sizes for SizesOfView<'_> {
    fn documents(&self) -> u64 {
        u64::try_from(self.collection.state.documents()).unwrap_or(0)
    }

    fn known(&self, access: &plan::Access) -> Result<Option<u64>> {
        exec::entries_by_rank(access, self.collection, self.before_reads())
    }

    fn between(&self, access: &plan::Access) -> Option<(u64, u64)> {
        exec::entries_between(access, self.collection, self.view)
    }

    fn counted(&self, access: &plan::Access, at_most: u64) -> Result<u64> {
        exec::entries_up_to(access, self.collection, self.before_reads(), at_most)
    }

    fn is_built(&self, tree: TreeKey, end: Option<&[u8]>) -> bool {
        let ranks = self.view.ranks(tree);
        ranks.is_some_and(|ranks| !ranks.is_unbuilt_before(end))
    }
}

impl Engine {
    /// Starts a query.
    ///
    /// # Errors
    /// What the filter, projection, sort and hint refuse.
    pub fn find(&self, namespace: &Namespace, request: &FindRequest<'_>) -> Result<Query> {
        if self.catalog.view(namespace).is_some() {
            // What no find may say is refused in the words of a find.
            refuse_without_collection(namespace, &query_spec(request)?.filter)?;
            return self.run_on_view(namespace, &ViewStatement::find(request));
        }
        if let Some(id) = only_id(request)
            && let Some(query) = self.find_by_id(namespace, id, request)?
        {
            return Ok(query);
        }
        let collation = self.collation_of(namespace, request.collation.as_ref());
        let spec = query_spec(&FindRequest {
            collation: Some(collation),
            ..request.clone()
        })?;
        let Some(prepared) = self.start(namespace, spec, &Goal::Rows)? else {
            return Ok(Query::empty());
        };
        let query = match request.tailable {
            true => self.tail(prepared, request.await_data),
            false => {
                let finds_one = finds_one(request, &prepared.collection);
                let end = finds_one.then_some(1).or(ends_after(&prepared.plan));
                Query::from_rows(prepared.rows()?).ending_after(end)
            }
        };
        Ok(query.with_error_context("Executor error during find command"))
    }

    /// A query that goes on where it ended, once there are further documents.
    fn tail(&self, prepared: PreparedPlan, awaits_data: bool) -> Query {
        let PreparedPlan {
            collection,
            plan,
            context,
            ..
        } = prepared;
        let plan::Access::Collection(order) = plan.access else {
            return Query::empty();
        };
        let (store, catalog) = (self.store.clone(), self.catalog.clone());
        let documents = TailRows::new(store, catalog, collection.clone(), order, context);
        let tail = Tail {
            has_begun: documents.has_begun(),
            collection,
            awaits_data,
        };
        Query::from_rows(exec::rows_of_tail(&plan, &tail.collection, documents)).tailing(tail)
    }

    /// By what a statement on a collection compares texts: as it says itself, or as the collection does.
    pub(super) fn collation_of(
        &self,
        namespace: &Namespace,
        requested: Option<&Collation>,
    ) -> Collation {
        let own = || {
            self.catalog
                .get(namespace)
                .map(|own| own.options.collation.clone())
        };
        requested.cloned().or_else(own).unwrap_or_default()
    }

    /// The document with this `_id`: one read of the present state needs neither plan nor snapshot. None where documents
    /// do not lie by their `_id`s, or these are compared otherwise than it is asked for.
    fn find_by_id(
        &self,
        namespace: &Namespace,
        id: RawBsonRef<'_>,
        request: &FindRequest<'_>,
    ) -> Result<Option<Query>> {
        let requested = request.collation.as_ref();
        let limit = request.limit.filter(|limit| *limit > 0);
        let Some(collection) = self.catalog.get(namespace) else {
            return Ok(Some(Query::empty()));
        };
        let Some(ids) = collection.id_order() else {
            return Ok(None);
        };
        self.flush_rows(&collection)?;
        if requested.is_some_and(|requested| requested != ids && holds_text(id)) {
            return Ok(None);
        }
        let mut key = collection.documents.prefix().to_vec();
        ids.encode(id, Direction::Ascending, &mut key, &mut TypeBits::default());
        let read = |bytes: &[u8]| RawDocumentBuf::from_bytes(bytes.to_vec());
        let found = self.store.get_document(&key, read)?;
        self.work.add_point_read(&collection, found.is_some());
        operation::note(|profile| {
            let query = query_spec(request).ok();
            profile.query_hash = query.map(|query| query.query_hash(&collection));
        });
        match found {
            Some(document) => {
                let document = document.map_err(crate::error::corrupt_document)?;
                let ends_after = match finds_one(request, &collection) {
                    true => Some(1),
                    false => limit,
                };
                Ok(Some(
                    Query::from_document(document).ending_after(ends_after),
                ))
            }
            None => Ok(Some(Query::from_documents(Vec::new()))),
        }
    }

    /// The exact number of documents that match.
    ///
    /// # Errors
    /// As [`Self::find`].
    pub fn count(&self, namespace: &Namespace, request: &CountRequest<'_>) -> Result<i64> {
        if self.catalog.view(namespace).is_some() {
            return self.count_on_view(namespace, request);
        }
        let collation = self.collation_of(namespace, request.collation.as_ref());
        let spec = count_spec(&CountRequest {
            collation: Some(collation),
            ..request.clone()
        })?;
        let Some(prepared) = self.start(namespace, spec, &Goal::Count)? else {
            return Ok(0);
        };
        let Method::Count(by) = &prepared.plan.method else {
            unreachable!("the plan of a count counts");
        };
        let total = i64::try_from(prepared.count(by)?).unwrap_or(i64::MAX);
        Ok(window(total, request))
    }

    /// The collection as it is now, and a view of it; `None` when it does not exist.
    ///
    /// # Errors
    /// Rows of a time series that cannot be put into buckets.
    pub(crate) fn open_view(&self, namespace: &Namespace) -> Result<Option<Opened>> {
        let Some(collection) = self.catalog.get(namespace) else {
            return Ok(None);
        };
        self.flush_rows(&collection)?;
        // Taken before the plan is made: what it takes for granted, such as that no entry repeats a
        // document, was known before it was committed.
        let view = ReadView::open(collection.state.ranks(), &self.store);
        Ok(Some(Opened { collection, view }))
    }

    /// Puts the rows of a time series that wait for their buckets into them; of another collection there are none.
    ///
    /// # Errors
    /// Storage failures.
    pub(super) fn flush_rows(&self, collection: &Collection) -> Result<()> {
        match &collection.options.timeseries {
            Some(_) => self.writer.flush_rows(&collection.namespace),
            None => Ok(()),
        }
    }

    /// Plans a query on the collection as it is now; `None` when the collection does not exist.
    pub(crate) fn prepare(
        &self,
        namespace: &Namespace,
        spec: QuerySpec,
        goal: &Goal,
    ) -> Result<Option<PreparedPlan>> {
        let Some(opened) = self.open_view(namespace)? else {
            if !matches!(goal, Goal::Count) {
                refuse_without_collection(namespace, &spec.filter)?;
            }
            return Ok(None);
        };
        let plan = opened.plan(spec, goal)?;
        Ok(Some(self.prepare_plan(opened, plan)))
    }

    /// Makes a plan ready to run on the view on which it was made.
    pub(crate) fn prepare_plan(&self, opened: Opened, plan: Plan) -> PreparedPlan {
        let Opened { collection, view } = opened;
        let context = Context {
            limits: self.limits(plan.query.allow_disk_use),
            ..Context::default()
        };
        PreparedPlan {
            collection,
            view,
            plan,
            context,
        }
    }

    /// The rows of a find without projection, for statements that change what they find; `None` where there is no
    /// collection.
    pub(crate) fn rows_for_write(
        &self,
        namespace: &Namespace,
        request: &FindRequest<'_>,
    ) -> Result<Option<FoundRows>> {
        self.catalog.refuse_view(namespace)?;
        let collation = self.collation_of(namespace, request.collation.as_ref());
        let spec = query_spec(&FindRequest {
            collation: Some(collation),
            ..request.clone()
        })?;
        let Some(prepared) = self.start(namespace, spec, &Goal::Rows)? else {
            return Ok(None);
        };
        Ok(Some(FoundRows {
            rows: prepared.rows()?,
            collection: prepared.collection,
        }))
    }
}

/// After how many documents a plan knows that there are no more: it stops at its limit, unless it has sorted them first.
pub(super) fn ends_after(plan: &Plan) -> Option<u64> {
    let limit = plan.query.limit.filter(|limit| *limit > 0);
    limit.filter(|_| plan.sort.is_none())
}

/// Whether a find asks for one `_id`, so that mongod's plan (IDHACK) knows that there is no second document.
fn finds_one(request: &FindRequest<'_>, collection: &Collection) -> bool {
    let bounds = request.min.or(request.max);
    let own = &collection.options;
    let compares_otherwise = request
        .collation
        .as_ref()
        .is_some_and(|asked| *asked != own.collation);
    if compares_otherwise || own.clustered_index.is_some() {
        return false;
    }
    if request.hint.is_some() || request.skip > 0 || request.return_key || bounds.is_some() {
        return false;
    }
    let mut fields = request.filter.iter();
    let (Some(Ok((name, id))), None) = (fields.next(), fields.next()) else {
        return false;
    };
    name.as_str() == "_id"
        && match id {
            RawBsonRef::Document(document) => {
                let first = document.iter().next();
                !first.is_some_and(|field| {
                    field.is_ok_and(|(name, _)| name.as_str().starts_with('$'))
                })
            }
            RawBsonRef::Array(_)
            | RawBsonRef::RegularExpression(_)
            | RawBsonRef::Null
            | RawBsonRef::Undefined => false,
            _ => true,
        }
}

/// The `_id` of a find for one document and nothing else; `None` where an operator may be meant, or more
/// is to be done than to read it.
fn only_id<'a>(request: &FindRequest<'a>) -> Option<RawBsonRef<'a>> {
    let asks_more = request.projection.is_some()
        || request.sort.is_some()
        || request.hint.is_some()
        || request.variables.is_some()
        || request.tailable
        || request.return_key
        || request.show_record_id
        || request.min.or(request.max).is_some()
        || request.skip > 0;
    let mut fields = request.filter.iter();
    let (name, id) = fields.next()?.ok()?;
    if asks_more || name.as_str() != "_id" || fields.next().is_some() {
        return None;
    }
    let is_plain = matches!(
        id,
        RawBsonRef::ObjectId(_)
            | RawBsonRef::String(_)
            | RawBsonRef::Int32(_)
            | RawBsonRef::Int64(_)
            | RawBsonRef::Double(_)
            | RawBsonRef::DateTime(_)
            | RawBsonRef::Binary(_)
    );
    is_plain.then_some(id)
}

/// What a find asks for, parsed.
pub(crate) fn query_spec(request: &FindRequest<'_>) -> Result<QuerySpec> {
    let collation = request.collation.clone().unwrap_or_default();
    let mut context = parse_context(request.variables, &collation)?;
    context.scope = context.scope.counting(request.counts);
    let filter = Filter::parse_with(request.filter, &context)?.simplify();
    let nearest = filter.nearest()?;
    if request.tailable && nearest.is_some() {
        let message = "Tailable cursors and geo $near cannot be used together";
        return Err(Error::bad_value(message));
    }
    let measure = Measure::of(&filter, nearest.as_ref());
    // A condition that is never fulfilled may have taken the search with it.
    let search = measure.as_ref().map(Measure::search);
    let search = search.or_else(|| mentions_text(request.filter).then_some(SearchKind::Text));
    let metadata = MetadataScope::Of(search);
    let scope = context.scope.with_metadata(metadata);
    let projection = request.projection.filter(|shape| !shape.is_empty());
    let projection =
        projection.map(|shape| projection_of(shape, &filter, measure.as_ref(), &scope));
    let projection = projection.transpose()?;
    let sort = request
        .sort
        .map(|order| Sort::parse_with(order, &scope))
        .transpose()?
        .filter(|sort| !sort.is_empty());
    let is_as_they_lie = |sort: &Sort| sort.natural() == Some(Direction::Ascending);
    if request.tailable && !sort.as_ref().is_none_or(is_as_they_lie) {
        return Err(Error::bad_value(
            "cannot use tailable option with a sort other than {$natural: 1}",
        ));
    }
    let sort = sort.map(|sort| Arc::new(sort.measured_by(measure.as_ref())));
    let projection = told_sort(projection, request.projection, sort.as_ref())?;
    let mut needs = projection.as_ref().map_or(FieldSet::All, Projection::needs);
    let asks = request.projection.map(AskedMetadata::by);
    let asks_key = asks.is_some_and(|asks| asks.index_key);
    if request.return_key || asks_key {
        needs.add_all();
    }
    let is_sorted = sort.as_ref().is_some_and(|sort| sort.is_by_metadata());
    if let Some(measure) = measure.filter(|_| is_sorted) {
        measure.add_needs(&mut needs);
    }
    Ok(QuerySpec {
        distinct: None,
        needs,
        nearest,
        filter: Arc::new(filter.with_implied()),
        sort,
        skip: request.skip,
        limit: request.limit.filter(|limit| *limit > 0),
        projection: projection.map(Arc::new),
        projection_source: projection_source(request),
        collation,
        ids: Some(Collation::SIMPLE),
        tailable: request.tailable,
        key_bounds: KeyBounds::parse(request.min, request.max)?,
        return_key: request.return_key,
        asked: AskedMetadata::default(),
        show_record_id: request.show_record_id && !request.return_key,
        hint: Hint::parse(request.hint)?,
        allow_disk_use: request.allow_disk_use,
        may_scan: false,
    })
}

/// The projection of a find with this filter.
fn projection_of(
    shape: &RawDocument,
    filter: &Filter,
    measure: Option<&Measure>,
    scope: &VariableScope,
) -> Result<Projection> {
    let projection = Projection::parse_with(shape, Some(filter), scope)?.located_by(filter);
    if projection.is_positional() && filter.text().is_some() {
        return Err(Error::bad_value("$text is not allowed in this context"));
    }
    let measures = measure.filter(|_| mentions_metadata(shape));
    let projection = projection.measured_by(measures.cloned());
    Ok(projection.asking_origin(AskedMetadata::by(shape).origin))
}

/// The projection, told by what rows are sorted if it asks for that.
fn told_sort(
    projection: Option<Projection>,
    shape: Option<&RawDocument>,
    sort: Option<&Arc<Sort>>,
) -> Result<Option<Projection>> {
    if !shape.is_some_and(|shape| AskedMetadata::by(shape).sort_key) {
        return Ok(projection);
    }
    let Some(sort) = sort else {
        return Err(Error::bad_value(
            "cannot use sortKey $meta projection without a sort",
        ));
    };
    Ok(projection.map(|projection| projection.sorted_by(Some(sort.clone()))))
}

/// The projection as `explain` shows it.
fn projection_source(request: &FindRequest<'_>) -> Option<RawDocumentBuf> {
    let source = request.projection.map(ToOwned::to_owned);
    if !request.show_record_id {
        return source;
    }
    let mut source = source.unwrap_or_default();
    source.append(cstr!("$recordId"), rawdoc! { "$meta": "recordId" });
    Some(source)
}

pub(crate) fn count_spec(request: &CountRequest<'_>) -> Result<QuerySpec> {
    let spec = query_spec(&FindRequest {
        collation: request.collation.clone(),
        hint: request.hint,
        ..FindRequest::new(request.filter)
    })?;
    Ok(QuerySpec {
        needs: FieldSet::none(),
        ..spec
    })
}

/// A total after `skip` and `limit`.
fn window(total: i64, request: &CountRequest<'_>) -> i64 {
    let skipped = total
        .saturating_sub(i64::try_from(request.skip).unwrap_or(i64::MAX))
        .max(0);
    match request.limit {
        Some(limit) if limit > 0 => skipped.min(i64::try_from(limit).unwrap_or(i64::MAX)),
        _ => skipped,
    }
}
