//! Running a pipeline's stages over documents. Of the storage they know only where to spill.
//!
//! In: documents, pushed one at a time and borrowed, so that `$match`, `$group`, `$count`
//! and `$sort` of a scan copy only what they keep. Out: documents, pulled one at a time, so
//! that a cursor can take a batch and come back. Between them each stage passes a document
//! on, changed or not, or keeps it until the input has ended.
//!
//! Deliberately absent: `$out`, `$merge` and the stages that make their own documents; the
//! engine does those around an [`Executor`].

use super::bucket::Bucketed;
use super::densify::Densified;
use super::geo_near::AddDistance;
use super::group::Groups;
use super::join::{Foreign, GraphLookup, LookupRun, UnionWith};
use super::keeping::{Kept, Reservoir, Sorting};
use super::pipeline::Pipeline;
use super::redact::Redact;
use super::replace_root::ReplaceRoot;
use super::stage::Stage;
use super::transform::Transform;
use super::unwind::Unwind;
use super::window::Windows;
use crate::error::{Code, Error, Result};
use crate::expression::value::{field_name, within_levels};
use crate::expression::{DocumentMetadata, Variables};
use crate::operation;
use crate::operation::memory::{BUDGET_BYTES, Reservation};
use crate::query::{Filter, Measure};
use crate::sorter::{Limits, STAGE_BYTES_MAX};
use crate::timeseries::UnpackBucket;
use bson::{RawArrayBuf, RawDocument, RawDocumentBuf};
use std::borrow::Cow;
use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::sync::Arc;

/// A pipeline at work.
///
/// ```
/// use bson::rawdoc;
/// use meridian_engine::aggregate::{Executor, Limits, Pipeline};
/// use meridian_engine::expression::Variables;
///
/// let pipeline = Pipeline::parse(&[&rawdoc! { "$count": "n" }]).unwrap();
/// let mut executor = Executor::new(&pipeline.stages, Variables::default(), &Limits::new(false)).unwrap();
/// executor.push(&rawdoc! { "a": 1 }).unwrap();
/// executor.push(&rawdoc! { "a": 2 }).unwrap();
/// executor.finish().unwrap();
/// assert_eq!(executor.pull().unwrap(), Some(rawdoc! { "n": 2 }));
/// assert_eq!(executor.pull().unwrap(), None);
/// ```
pub struct Executor {
    steps: Vec<Step>,
    variables: Variables,
    ready: ReadyDocuments,
    /// Steps before this one have nothing left; none while the input goes on.
    drained: Option<usize>,
    context: StageContext,
}

/// Documents that have come out and wait to be pulled. Few, but that a stage may make many of one at once: those take
/// memory.
#[derive(Default)]
struct ReadyDocuments {
    documents: VecDeque<RawDocumentBuf>,
    bytes: usize,
    memory: Reservation,
}

/// So much may wait without a reservation, which grows by so much.
const READY_BYTES_STEP: usize = 1 << 20;

impl ReadyDocuments {
    fn push(&mut self, document: RawDocumentBuf) -> Result<()> {
        self.bytes += document.as_bytes().len();
        if self.bytes > READY_BYTES_STEP {
            self.memory
                .grow(self.bytes.next_multiple_of(READY_BYTES_STEP))?;
        }
        self.documents.push_back(document);
        Ok(())
    }

    fn pop(&mut self) -> Option<RawDocumentBuf> {
        let document = self.documents.pop_front()?;
        self.bytes -= document.as_bytes().len();
        if self.documents.is_empty() {
            self.memory.shrink(0);
        }
        Some(document)
    }
}

/// What stages have beside documents: what they may hold in memory, and other collections.
#[derive(Clone)]
pub struct StageContext {
    /// What a stage may hold in memory, and where it spills.
    pub limits: Limits,
    /// The other collections of the database, where there are any.
    pub foreign: Option<Arc<dyn Foreign>>,
    /// Whether what comes out goes to a stage of another pipeline.
    pub is_within: bool,
}

impl From<&Limits> for StageContext {
    fn from(limits: &Limits) -> Self {
        Self {
            limits: limits.clone(),
            foreign: None,
            is_within: false,
        }
    }
}

impl From<&StageContext> for StageContext {
    fn from(context: &StageContext) -> Self {
        context.clone()
    }
}

impl StageContext {
    fn foreign(&self) -> Result<Arc<dyn Foreign>> {
        self.foreign
            .clone()
            .ok_or_else(|| Error::internal("a stage reads another collection, and there is none"))
    }
}

pub(super) type KeptDocuments = Box<dyn Iterator<Item = Result<Kept>> + Send>;

enum Step {
    Match(Filter),
    Transform(Transform),
    AddDistance(Box<AddDistance>),
    AddScore(Box<Measure>),
    ReplaceRoot(ReplaceRoot),
    Unwind(Unwind),
    UnpackBucket(Box<UnpackBucket>),
    Redact(Box<Redact>),
    Lookup(Box<LookupRun>),
    SetWindowFields(Box<Windows>),
    Densify(Box<Densified>),
    GraphLookup(Box<GraphLookup>, Arc<dyn Foreign>),
    UnionWith(Box<UnionWith>, Arc<dyn Foreign>),
    Limit {
        left: u64,
    },
    Skip {
        left: u64,
    },
    Count {
        field: String,
        count: i64,
    },
    Group(Box<Groups>),
    Sort(Box<Sorting>),
    Sample(Box<Reservoir>),
    BucketAuto(Box<Bucketed>),
    Facet {
        names: Vec<String>,
        executors: Vec<Executor>,
    },
    /// A step that kept documents, after the end of its input.
    Draining(KeptDocuments),
    /// Nothing more to come.
    Done,
}

impl Executor {
    /// Makes the stages ready for their first document.
    ///
    /// # Errors
    /// `InternalError` for a stage that the engine must do itself.
    pub fn new(
        stages: &[Stage],
        variables: Variables,
        context: impl Into<StageContext>,
    ) -> Result<Self> {
        let context = context.into();
        let steps: Result<Vec<Step>> = stages
            .iter()
            .map(|stage| Step::new(stage, &variables, &context))
            .collect();
        let mut steps = steps?;
        for place in 1..steps.len() {
            let (before, behind) = steps.split_at_mut(place);
            if let (Some(Step::UnpackBucket(unpack)), Some(Step::Group(groups))) =
                (before.last(), behind.first_mut())
            {
                groups.expect_buckets(unpack);
            }
        }
        Ok(Self {
            steps,
            variables,
            ready: ReadyDocuments::default(),
            drained: None,
            context,
        })
    }

    /// Takes one document of the input. `Break` says that no more is needed.
    ///
    /// # Errors
    /// Those of the stages, with MongoDB's prefix for errors at run time.
    pub fn push(&mut self, document: &RawDocument) -> Result<ControlFlow<()>> {
        self.push_knowing(document, None)
    }

    /// As [`Executor::push`], for a document of which more is known.
    ///
    /// # Errors
    /// As [`Executor::push`].
    pub fn push_knowing(
        &mut self,
        document: &RawDocument,
        metadata: Option<Arc<DocumentMetadata>>,
    ) -> Result<ControlFlow<()>> {
        let known = metadata.map(|metadata| self.variables.knowing(Some(metadata)));
        let variables = known.as_ref().unwrap_or(&self.variables);
        let document = Cow::Borrowed(document);
        pass(&mut self.steps, document, variables, &mut self.ready).map_err(at_run_time)
    }

    /// An executor of the same stages for the second half of the input, to be merged later; `None` when the
    /// stages cannot take the input in two halves.
    pub fn fork(&self) -> Option<Self> {
        let mut steps = Vec::new();
        for step in &self.steps {
            let (step, keeps) = step.fork()?;
            steps.push(step);
            if keeps {
                return Some(Self {
                    steps,
                    variables: self.variables.clone(),
                    ready: ReadyDocuments::default(),
                    drained: None,
                    context: self.context.clone(),
                });
            }
        }
        None
    }

    /// Takes what a fork has made of the second half, once this one has seen the first.
    ///
    /// # Errors
    /// Those of the stages.
    pub fn merge(&mut self, mut fork: Self) -> Result<()> {
        let keeps = fork.steps.len() - 1;
        match (&mut self.steps[keeps], fork.steps.pop()) {
            (Step::Group(groups), Some(Step::Group(later))) => {
                groups.merge(*later).map_err(at_run_time)
            }
            (Step::Count { count, .. }, Some(Step::Count { count: more, .. })) => {
                *count += more;
                Ok(())
            }
            (
                Step::Facet { executors, .. },
                Some(Step::Facet {
                    executors: later, ..
                }),
            ) => {
                let mut pairs = executors.iter_mut().zip(later);
                pairs.try_for_each(|(own, later)| own.merge(later))
            }
            _ => unreachable!("a fork ends with the stage that keeps what it has seen"),
        }
    }

    /// Says that the input has ended (or that no more of it is wanted).
    ///
    /// # Errors
    /// Those of the stages.
    pub fn finish(&mut self) -> Result<()> {
        if self.drained.is_none() {
            self.drained = Some(0);
            self.end_step(0).map_err(at_run_time)?;
        }
        Ok(())
    }

    /// The next document that is ready. None before [`Executor::finish`] means that more
    /// input is needed; after it, that there is none left.
    ///
    /// # Errors
    /// Those of the stages.
    pub fn pull(&mut self) -> Result<Option<RawDocumentBuf>> {
        self.pull_inner().map_err(at_run_time)
    }

    fn pull_inner(&mut self) -> Result<Option<RawDocumentBuf>> {
        loop {
            if let Some(document) = self.ready.pop() {
                if !self.context.is_within {
                    check_size(&document)?;
                }
                return Ok(Some(document));
            }
            if self.go_on()? {
                continue;
            }
            let Some(place) = self.drained.filter(|place| *place < self.steps.len()) else {
                return Ok(None);
            };
            let next = match &mut self.steps[place] {
                Step::Draining(documents) => documents.next().transpose()?,
                _ => None,
            };
            let flow = match next {
                Some(kept) => {
                    let behind = &mut self.steps[place + 1..];
                    pass_kept(kept, &self.variables, behind, &mut self.ready)?
                }
                None => ControlFlow::Break(()),
            };
            if flow.is_break() {
                self.steps[place] = Step::Done;
                self.drained = Some(place + 1);
                self.end_step(place + 1)?;
            }
        }
    }

    /// Takes one more document of a step that has more to come of what it was given; false where none has.
    fn go_on(&mut self) -> Result<bool> {
        for place in (0..self.steps.len()).rev() {
            let (before, behind) = self.steps.split_at_mut(place + 1);
            let Some(Step::Densify(densified)) = before.last_mut() else {
                continue;
            };
            if !densified.is_pending() {
                continue;
            }
            if let Some(kept) = densified.next(&self.variables)?
                && pass_kept(kept, &self.variables, behind, &mut self.ready)?.is_break()
            {
                self.steps[place] = Step::Done;
            }
            return Ok(true);
        }
        Ok(false)
    }

    /// Turns a step that kept documents into one that gives them back.
    fn end_step(&mut self, place: usize) -> Result<()> {
        if let Some(step) = self.steps.get_mut(place) {
            let ended = std::mem::replace(step, Step::Done);
            *step = ended.end(&self.variables)?;
        }
        Ok(())
    }
}

/// MongoDB's limit of documents that it makes itself, its `BSONObjMaxInternalSize`.
const RESULT_BYTES_MAX: usize = (16 << 20) + (16 << 10);

/// What MongoDB says an error was met in that comes up while a pipeline runs.
pub const RUNNING: &str = "PlanExecutor error during aggregation";

/// An error that running a pipeline met.
pub fn at_run_time(error: Error) -> Error {
    error.within(RUNNING)
}

/// Sends a document through steps; what comes out at the end is ready.
///
/// Steps that make one document of one are gone through in a loop; those that make several of one, of which a
/// pipeline has at most a thousand, are a call inside another.
fn pass(
    mut steps: &mut [Step],
    mut document: Cow<'_, RawDocument>,
    variables: &Variables,
    ready: &mut ReadyDocuments,
) -> Result<ControlFlow<()>> {
    // Whether a `$limit` on the way has had its last document.
    let mut flow = ControlFlow::Continue(());
    loop {
        let Some((step, behind)) = std::mem::take(&mut steps).split_first_mut() else {
            ready.push(document.into_owned())?;
            return Ok(flow);
        };
        match step {
            Step::Match(filter) => {
                if !filter.matches(&document)? {
                    return Ok(flow);
                }
            }
            Step::Transform(transform) => {
                document = Cow::Owned(transform.apply(&document, variables)?);
            }
            Step::ReplaceRoot(replace) => {
                document = Cow::Owned(replace.apply(&document, variables)?);
            }
            several @ (Step::AddDistance(_)
            | Step::AddScore(_)
            | Step::Unwind(_)
            | Step::UnpackBucket(_)
            | Step::Lookup(..)
            | Step::SetWindowFields(_)
            | Step::Densify(_)) => {
                let further = pass_several(several, &document, variables, behind, ready)?;
                return Ok(sooner(flow, further));
            }
            Step::Redact(redact) => match redact.apply(&document, variables)? {
                Some(left) => document = Cow::Owned(left),
                None => return Ok(flow),
            },
            Step::GraphLookup(lookup, foreign) => {
                document = Cow::Owned(lookup.apply(&document, &**foreign, variables)?);
            }
            // Its own documents come at the end.
            Step::UnionWith(..) => {}
            Step::Limit { left: 0 } | Step::Done | Step::Draining(_) => {
                return Ok(ControlFlow::Break(()));
            }
            Step::Limit { left } => {
                *left -= 1;
                if *left == 0 {
                    flow = ControlFlow::Break(());
                }
            }
            Step::Skip { left: 0 } => {}
            Step::Skip { left } => {
                *left -= 1;
                return Ok(flow);
            }
            keeping => {
                let further = keep(keeping, document, variables)?;
                return Ok(sooner(flow, further));
            }
        }
        steps = behind;
    }
}

/// Whether a step only counts the documents that come to it.
fn counts(step: Option<&Step>) -> bool {
    match step {
        Some(Step::Count { .. }) => true,
        Some(Step::Group(groups)) => groups.counts_all(),
        _ => false,
    }
}

/// Whether a step takes measurements bucket by bucket.
fn knows_buckets(step: Option<&Step>) -> bool {
    matches!(step, Some(Step::Group(groups)) if groups.knows_buckets())
}

/// Gives a `$group` the measurements of a bucket.
fn group_bucket(
    unpack: &UnpackBucket,
    bucket: &RawDocument,
    step: &mut Step,
    variables: &Variables,
) -> Result<ControlFlow<()>> {
    let Step::Group(groups) = step else {
        return Ok(ControlFlow::Continue(()));
    };
    if groups.begin_bucket(unpack, bucket, variables)? {
        return Ok(ControlFlow::Continue(()));
    }
    unpack.apply(bucket, &mut |measured| {
        operation::check()?;
        groups.push_measurement(measured, variables)?;
        Ok(ControlFlow::Continue(()))
    })
}

/// A sample draws from so many measurements of a bucket at once.
const DRAWN_MAX: u64 = 65_536;

/// Gives a `$sample` the measurements of a bucket, of which only those are made that it may keep.
fn sample_bucket(
    unpack: &UnpackBucket,
    bucket: &RawDocument,
    step: &mut Step,
    variables: &Variables,
) -> Result<ControlFlow<()>> {
    let Step::Sample(reservoir) = step else {
        return Ok(ControlFlow::Continue(()));
    };
    let measurements = unpack.count(bucket)?;
    if measurements > DRAWN_MAX || reservoir.is_empty() {
        return unpack.apply(bucket, &mut |measured| {
            operation::check()?;
            keep(step, Cow::Borrowed(measured), variables)
        });
    }
    let mut drawn = reservoir.draw(measurements).into_iter().peekable();
    if drawn.peek().is_none() {
        return Ok(ControlFlow::Continue(()));
    }
    let mut place = 0;
    let _ = unpack.apply(bucket, &mut |measured| {
        operation::check()?;
        if let Some((_, number)) = drawn.next_if(|(own, _)| *own == place) {
            reservoir.push_drawn(number, Cow::Borrowed(measured), variables)?;
        }
        place += 1;
        Ok(match drawn.peek() {
            Some(_) => ControlFlow::Continue(()),
            None => ControlFlow::Break(()),
        })
    })?;
    Ok(ControlFlow::Continue(()))
}

/// Gives a step that only counts so many documents at once.
fn count_measurements(
    measurements: u64,
    step: &mut Step,
    variables: &Variables,
) -> Result<ControlFlow<()>> {
    match step {
        Step::Count { count, .. } => *count += measurements.cast_signed(),
        Step::Group(groups) if measurements > 0 => {
            groups.push_times(&RawDocumentBuf::new(), measurements, variables)?;
        }
        _ => {}
    }
    Ok(ControlFlow::Continue(()))
}

/// Sends what a step makes of a document, which may be several documents, through the steps behind it.
fn pass_several(
    step: &mut Step,
    document: &RawDocument,
    variables: &Variables,
    behind: &mut [Step],
    ready: &mut ReadyDocuments,
) -> Result<ControlFlow<()>> {
    match step {
        Step::AddDistance(add) => {
            let (changed, search) = add.apply(document)?;
            let known = search.map(|search| variables.with_search(Some(search)));
            let variables = known.as_ref().unwrap_or(variables);
            pass(behind, Cow::Owned(changed), variables, ready)
        }
        Step::AddScore(measure) => {
            let variables = variables.with_search(measure.metadata(document));
            pass(behind, Cow::Borrowed(document), &variables, ready)
        }
        Step::Unwind(unwind) => {
            let mut further = ControlFlow::Continue(());
            unwind.apply(document, &mut |item| {
                operation::check()?;
                if further.is_continue() {
                    further = pass(behind, Cow::Owned(item), variables, ready)?;
                }
                Ok(())
            })?;
            Ok(further)
        }
        Step::UnpackBucket(unpack) if unpack.is_counted() && counts(behind.first()) => {
            count_measurements(unpack.count(document)?, &mut behind[0], variables)
        }
        Step::UnpackBucket(unpack) if knows_buckets(behind.first()) => {
            group_bucket(unpack, document, &mut behind[0], variables)
        }
        Step::UnpackBucket(unpack) if matches!(behind.first(), Some(Step::Sample(_))) => {
            sample_bucket(unpack, document, &mut behind[0], variables)
        }
        Step::UnpackBucket(unpack) => unpack.apply(document, &mut |measured| {
            operation::check()?;
            pass(behind, Cow::Borrowed(measured), variables, ready)
        }),
        Step::Lookup(lookup) => lookup.apply(document, variables, &mut |found| {
            pass(behind, Cow::Owned(found), variables, ready)
        }),
        Step::Densify(densified) => {
            densified.push(Kept::new(Cow::Borrowed(document), variables))?;
            // What else there is comes when it is asked for.
            match densified.next(variables)? {
                Some(kept) => pass_kept(kept, variables, behind, ready),
                None => Ok(ControlFlow::Continue(())),
            }
        }
        Step::SetWindowFields(windows) => windows.push(document, variables, &mut |finished| {
            pass_kept(finished, variables, behind, ready)
        }),
        _ => unreachable!("the other steps make one document of one"),
    }
}

/// Sends a document that a step has kept through the steps behind it.
fn pass_kept(
    kept: Kept,
    variables: &Variables,
    behind: &mut [Step],
    ready: &mut ReadyDocuments,
) -> Result<ControlFlow<()>> {
    let Kept { document, metadata } = kept;
    // What is known here may be known of another document.
    let is_same = metadata.is_none() && variables.metadata().is_none();
    let known = (!is_same).then(|| variables.knowing(metadata));
    let variables = known.as_ref().unwrap_or(variables);
    pass(behind, Cow::Owned(document), variables, ready)
}

/// What a document may take that leaves the pipeline; between stages it may be larger.
fn check_size(document: &RawDocument) -> Result<()> {
    let bytes = document.as_bytes().len();
    if bytes <= RESULT_BYTES_MAX {
        return Ok(());
    }
    let first = document.iter().flatten().next();
    let first = first.map_or_else(String::new, |(name, value)| {
        crate::text::element(name.as_str(), value)
    });
    Err(Error::new(
        Code::BSONObjectTooLarge,
        format!(
            "BSONObj size: {bytes} (0x{bytes:X}) is invalid. Size must be between 0 and {RESULT_BYTES_MAX}(16MB) \
             First element: {first}"
        ),
    ))
}

/// `Break` where one of the two is.
fn sooner(one: ControlFlow<()>, other: ControlFlow<()>) -> ControlFlow<()> {
    if one.is_break() { one } else { other }
}

/// What the pipelines of a `$facet` know of a document: what a search does, as in MongoDB.
fn known_to_facets(variables: &Variables) -> Option<Arc<DocumentMetadata>> {
    let search = Some(variables.search()?.clone());
    Some(Arc::new(DocumentMetadata {
        search,
        ..DocumentMetadata::default()
    }))
}

/// Gives a document to a step that keeps what it needs of it until the end of its input.
fn keep(
    step: &mut Step,
    document: Cow<'_, RawDocument>,
    variables: &Variables,
) -> Result<ControlFlow<()>> {
    match step {
        Step::Count { count, .. } => *count += 1,
        Step::Group(groups) => groups.push(&document, variables)?,
        Step::Sort(sorting) => sorting.push(document, variables)?,
        Step::Sample(reservoir) => {
            reservoir.push(document, variables)?;
            if reservoir.is_empty() {
                return Ok(ControlFlow::Break(()));
            }
        }
        Step::BucketAuto(bucketed) => {
            bucketed.push(Kept::new(document, variables), variables)?;
        }
        Step::Facet { executors, .. } => {
            let known = known_to_facets(variables);
            for executor in executors {
                if executor.drained.is_none()
                    && executor.push_knowing(&document, known.clone())?.is_break()
                {
                    executor.finish()?;
                }
            }
        }
        Step::Match(_)
        | Step::Transform(_)
        | Step::AddDistance(_)
        | Step::AddScore(_)
        | Step::ReplaceRoot(_)
        | Step::Unwind(_)
        | Step::UnpackBucket(_)
        | Step::Redact(_)
        | Step::Lookup(..)
        | Step::SetWindowFields(_)
        | Step::Densify(_)
        | Step::GraphLookup(..)
        | Step::UnionWith(..)
        | Step::Limit { .. }
        | Step::Skip { .. }
        | Step::Draining(_)
        | Step::Done => unreachable!("these steps pass documents on"),
    }
    Ok(ControlFlow::Continue(()))
}

impl Step {
    fn new(stage: &Stage, variables: &Variables, context: &StageContext) -> Result<Self> {
        let limits = &context.limits;
        Ok(match stage {
            Stage::Match(filter) => Step::Match(filter.clone()),
            Stage::Project(transform) | Stage::Set(transform) | Stage::Unset(transform) => {
                Step::Transform(transform.clone())
            }
            Stage::AddDistance(add) => Step::AddDistance(add.clone()),
            Stage::AddScore(measure) => Step::AddScore(measure.clone()),
            Stage::ReplaceRoot(replace) => Step::ReplaceRoot(replace.clone()),
            Stage::Unwind(unwind) => Step::Unwind(unwind.clone()),
            Stage::UnpackBucket(unpack) => Step::UnpackBucket(unpack.clone()),
            Stage::Redact(redact) => Step::Redact(redact.clone()),
            Stage::Lookup(lookup) => {
                let run = LookupRun::new((**lookup).clone(), context.foreign()?);
                Step::Lookup(Box::new(run))
            }
            Stage::GraphLookup(lookup) => Step::GraphLookup(lookup.clone(), context.foreign()?),
            Stage::UnionWith(union) => Step::UnionWith(union.clone(), context.foreign()?),
            Stage::Limit(limit) => Step::Limit { left: *limit },
            Stage::Skip(skip) => Step::Skip { left: *skip },
            Stage::Count(field) => Step::Count {
                field: field.clone(),
                count: 0,
            },
            Stage::Group(group) => Step::Group(Box::new(Groups::new(group.clone(), limits))),
            Stage::Sort { order, limit } => {
                Step::Sort(Box::new(Sorting::new(order.clone(), *limit, limits)))
            }
            Stage::Sample {
                size,
                seed,
                tells_random,
            } => Step::Sample(Box::new(
                Reservoir::new(*size, *seed, limits).telling_random(*tells_random),
            )),
            Stage::SetWindowFields(stage) => {
                Step::SetWindowFields(Box::new(Windows::new(stage.clone(), limits)))
            }
            Stage::Densify(stage) => Step::Densify(Box::new(Densified::new(stage.clone(), limits))),
            Stage::BucketAuto(bucket) => {
                Step::BucketAuto(Box::new(Bucketed::new(bucket.clone(), limits)))
            }
            Stage::Facet(facets) => Self::facets(facets, variables, context)?,
            Stage::Out(_)
            | Stage::Merge(_)
            | Stage::GeoNear(_)
            | Stage::Documents(_)
            | Stage::IndexStats
            | Stage::ListCatalog
            | Stage::PlanCacheStats
            | Stage::CollectionStats(_) => {
                return Err(Error::new(
                    Code::InternalError,
                    format!("{} reached the executor", stage.name()),
                ));
            }
        })
    }

    fn facets(
        facets: &[(String, Pipeline)],
        variables: &Variables,
        context: &StageContext,
    ) -> Result<Self> {
        let pipelines = facets.iter().map(|(_, pipeline)| &pipeline.stages);
        let executors = pipelines.map(|stages| Executor::new(stages, variables.clone(), context));
        Ok(Step::Facet {
            names: facets.iter().map(|(name, _)| name.clone()).collect(),
            executors: executors.collect::<Result<_>>()?,
        })
    }

    /// The same step at its beginning, and whether it is one that keeps all it needs of its input and can
    /// be merged; `None` for one that cannot be asked about half of the input.
    fn fork(&self) -> Option<(Self, bool)> {
        Some(match self {
            Step::Match(filter) => (Step::Match(filter.clone()), false),
            Step::Transform(transform) => (Step::Transform(transform.clone()), false),
            Step::ReplaceRoot(replace) => (Step::ReplaceRoot(replace.clone()), false),
            Step::Unwind(unwind) => (Step::Unwind(unwind.clone()), false),
            Step::UnpackBucket(unpack) => (Step::UnpackBucket(unpack.clone()), false),
            Step::Redact(redact) => (Step::Redact(redact.clone()), false),
            Step::Group(groups) if groups.merges() => (Step::Group(Box::new(groups.fresh())), true),
            Step::Count { field, .. } => {
                let field = field.clone();
                (Step::Count { field, count: 0 }, true)
            }
            Step::Facet { names, executors } => {
                let forks: Option<Vec<Executor>> = executors.iter().map(Executor::fork).collect();
                let names = names.clone();
                let executors = forks?;
                (Step::Facet { names, executors }, true)
            }
            _ => return None,
        })
    }

    fn end(self, variables: &Variables) -> Result<Self> {
        let one = |document: RawDocumentBuf| {
            Step::Draining(Box::new(std::iter::once(Ok(Kept::from(document)))))
        };
        Ok(match self {
            // MongoDB counts nothing as no document at all.
            Step::Count { count: 0, .. } => Step::Done,
            Step::Count { field, count } => {
                let mut document = RawDocumentBuf::new();
                match i32::try_from(count) {
                    Ok(count) => document.append(field_name(&field)?, count),
                    Err(_) => document.append(field_name(&field)?, count),
                }
                one(document)
            }
            Step::Group(groups) => Step::Draining(Box::new(
                groups.into_documents()?.map(|made| made.map(Kept::from)),
            )),
            Step::Sort(sorting) => Step::Draining(sorting.into_documents()?),
            Step::Sample(reservoir) => Step::Draining(reservoir.into_documents()?),
            Step::SetWindowFields(windows) => {
                Step::Draining(Box::new(windows.into_documents(variables.clone())?))
            }
            Step::Densify(densified) => {
                Step::Draining(Box::new(densified.into_documents(variables.clone())))
            }
            Step::BucketAuto(bucketed) => Step::Draining(Box::new(
                bucketed
                    .finish(variables)?
                    .map(|bucket| bucket.map(Kept::from)),
            )),
            Step::Facet { names, executors } => one(facet_document(names, executors)?),
            Step::UnionWith(union, foreign) => {
                let documents = union.documents(&*foreign, variables)?;
                Step::Draining(Box::new(documents.map(|one| one.map(Kept::from))))
            }
            _ => Step::Done,
        })
    }
}

/// The largest document a `$facet` may make, as any other.
const DOCUMENT_BYTES_MAX: usize = 16 << 20;

/// What all pipelines of a `$facet` may give together: MongoDB's limit, where there is so much memory. While the
/// document is made, its last array is there twice.
const FACET_BYTES_MAX: usize = if BUDGET_BYTES / 4 < STAGE_BYTES_MAX {
    BUDGET_BYTES / 4
} else {
    STAGE_BYTES_MAX
};

/// The document of a `$facet`: what each executor still gives, by name.
///
/// # Errors
/// 4031700 and 10334 when it is too large, and those of the stages.
pub fn facet_document(names: Vec<String>, executors: Vec<Executor>) -> Result<RawDocumentBuf> {
    let mut document = RawDocumentBuf::new();
    let mut memory = Reservation::none();
    for (name, mut executor) in names.into_iter().zip(executors) {
        executor.finish()?;
        let mut items = RawArrayBuf::new();
        while let Some(item) = executor.pull()? {
            items.push(item);
            let bytes = document.as_bytes().len() + items.as_bytes().len();
            if bytes > FACET_BYTES_MAX {
                return Err(Error::location(
                    4_031_700,
                    format!(
                        "document constructed by $facet is {bytes} bytes, which exceeds the limit of \
                         {FACET_BYTES_MAX} bytes"
                    ),
                ));
            }
            memory.grow(2 * bytes)?;
        }
        document.append(field_name(&name)?, items);
    }
    let bytes = document.as_bytes().len();
    if bytes > DOCUMENT_BYTES_MAX {
        return Err(Error::new(
            Code::BSONObjectTooLarge,
            format!("BSONObj size: {bytes} is invalid. Size must be between 0 and 16793600(16MB)"),
        ));
    }
    within_levels(document)
}

/// Runs stages over an iterator: what tests and small inputs use. The engine pushes a
/// scan's documents into an [`Executor`] itself and saves their copies.
///
/// # Errors
/// As [`Executor::new`]; the iterator yields those of the stages.
pub fn run<'a>(
    stages: &[Stage],
    input: impl Iterator<Item = Result<RawDocumentBuf>> + 'a,
    variables: Variables,
    context: impl Into<StageContext>,
) -> Result<Box<dyn Iterator<Item = Result<RawDocumentBuf>> + 'a>> {
    let executor = Executor::new(stages, variables, context)?;
    Ok(Box::new(PipelineRun {
        executor,
        input,
        failed: false,
    }))
}

struct PipelineRun<I> {
    executor: Executor,
    input: I,
    failed: bool,
}

impl<I: Iterator<Item = Result<RawDocumentBuf>>> PipelineRun<I> {
    fn advance(&mut self) -> Result<Option<RawDocumentBuf>> {
        loop {
            if let Some(document) = self.executor.pull()? {
                return Ok(Some(document));
            }
            if self.executor.drained.is_some() {
                return Ok(None);
            }
            let more = match self.input.next() {
                Some(document) => self.executor.push(&document?)?.is_continue(),
                None => false,
            };
            if !more {
                self.executor.finish()?;
            }
        }
    }
}

impl<I: Iterator<Item = Result<RawDocumentBuf>>> Iterator for PipelineRun<I> {
    type Item = Result<RawDocumentBuf>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.failed {
            return None;
        }
        let next = self.advance();
        self.failed = next.is_err();
        next.transpose()
    }
}
