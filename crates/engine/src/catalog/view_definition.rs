//! Views: names under which readers find what a pipeline makes of a collection, or of another view.
//!
//! A view is a document `{_id: "database.view", viewOn, pipeline}` of the collection `system.views` of its database, as
//! in MongoDB. The catalogue keeps all of them in memory; only `write/views` changes them.

use super::CollectionOptions;
use crate::aggregate::Pipeline;
use crate::error::{Code, Error, Result};
use crate::expression::VariableScope;
use crate::namespace::Namespace;
use crate::timeseries::{Timeseries, series_of};
use bson::raw::{RawArrayBuf, RawDocument, RawDocumentBuf};
use bson::{cstr, rawdoc};
use meridian_value::Collation;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

/// The collection of a database that holds its views.
pub const SYSTEM_VIEWS: &str = "system.views";
/// Views that may lie one on the other: MongoDB's `ViewGraph::kMaxViewDepth`.
const DEPTH_MAX: usize = 20;
/// Bytes of the pipelines of views that lie one on the other: MongoDB's `kMaxViewPipelineSizeBytes`.
const PIPELINE_BYTES_MAX: usize = 16_000_000;

/// The views of a catalogue, by name.
pub(super) type Views = BTreeMap<Namespace, Arc<ViewDefinition>>;

/// A view.
#[derive(Debug, Clone)]
pub struct ViewDefinition {
    /// Its name.
    pub namespace: Namespace,
    /// The collection or view that it reads, in the same database.
    pub view_on: String,
    /// What it makes of it.
    pub pipeline: Vec<RawDocumentBuf>,
    /// By what its readers compare texts.
    pub collation: Collation,
    /// What makes it a time-series collection, and its options as they are listed; then it lies in no `system.views`.
    timeseries: Option<(Arc<Timeseries>, RawDocumentBuf)>,
    /// All collections and views that it reads.
    references: Vec<String>,
}

/// What a view comes to.
#[derive(Debug, Clone)]
pub struct ResolvedView {
    /// The collection that is read; it need not exist.
    pub namespace: Namespace,
    /// The stages of the view and of those below it, in the order in which they run.
    pub pipeline: Vec<RawDocumentBuf>,
    /// By what its readers compare texts.
    pub collation: Collation,
    /// Of what time series the collection holds buckets.
    pub timeseries: Option<Arc<Timeseries>>,
}

impl ViewDefinition {
    /// Checks a definition and makes a view of it.
    ///
    /// # Errors
    /// `BadValue` and `InvalidNamespace` for what it reads; those of the stages; `OptionNotSupportedOnView` where one writes.
    pub fn new(
        namespace: Namespace,
        view_on: String,
        pipeline: Vec<RawDocumentBuf>,
        collation: Collation,
    ) -> Result<Self> {
        check_view_on(&namespace, &view_on)?;
        let stages: Vec<&RawDocument> = pipeline.iter().map(|stage| &**stage).collect();
        let within = |error: Error| error.within(&format!("Invalid pipeline for view {namespace}"));
        let parsed = Pipeline::parse_with(&stages, &VariableScope::new(collation.clone()));
        let parsed = parsed.map_err(|error| match error.code {
            // What is no stage at all is met before the view is thought of.
            Code::Location(40323 | 40324) => error,
            _ => within(error),
        })?;
        check_stages(&namespace, &parsed)?;
        let mut references = vec![view_on.clone()];
        parsed.for_each_foreign(&mut |name| references.push(name.to_owned()));
        Ok(Self {
            namespace,
            view_on,
            pipeline,
            collation,
            timeseries: None,
            references,
        })
    }

    /// The time-series collection whose buckets a collection holds, if it does.
    pub(super) fn of_buckets(buckets: &Namespace, options: &CollectionOptions) -> Option<Self> {
        let timeseries = options.timeseries.clone()?;
        Some(Self {
            namespace: series_of(buckets)?,
            view_on: buckets.collection.clone(),
            pipeline: vec![timeseries.unpack_stage()],
            collation: options.collation.clone(),
            timeseries: Some((timeseries, options.of_series())),
            references: vec![buckets.collection.clone()],
        })
    }

    /// What makes it a time-series collection.
    pub fn timeseries(&self) -> Option<&Arc<Timeseries>> {
        self.timeseries.as_ref().map(|(timeseries, _)| timeseries)
    }

    /// The refusal of what cannot be done to it.
    pub fn refusal(&self) -> Error {
        let (namespace, what) = (
            &self.namespace,
            match self.timeseries {
                Some(_) => "timeseries collection",
                None => "view, not a collection",
            },
        );
        let message = format!("Namespace {namespace} is a {what}");
        Error::new(Code::CommandNotSupportedOnView, message)
    }

    /// Reads a document of `system.views`; `None` where it is no view.
    pub(super) fn decode(database: &str, document: &RawDocument) -> Option<Self> {
        let (prefix, name) = document.get_str("_id").ok()?.split_once('.')?;
        let namespace = (prefix == database).then(|| Namespace::new(database, name).ok())??;
        let stages = document.get_array("pipeline").ok()?.into_iter();
        let stages = stages.map(|stage| Some(stage.ok()?.as_document()?.to_owned()));
        let view_on = document.get_str("viewOn").ok()?.to_owned();
        let collation = match document.get_document("collation") {
            Ok(written) => crate::collation::parse("collation", written).ok()?,
            Err(_) => Collation::SIMPLE,
        };
        Self::new(
            namespace,
            view_on,
            stages.collect::<Option<_>>()?,
            collation,
        )
        .ok()
    }

    /// As it lies in `system.views`.
    pub fn to_document(&self) -> RawDocumentBuf {
        let mut document = rawdoc! { "_id": self.namespace.to_string() };
        for (name, value) in self.options().iter().flatten() {
            document.append(name, value);
        }
        document
    }

    /// Its options, as `listCollections` shows them.
    pub fn options(&self) -> RawDocumentBuf {
        match &self.timeseries {
            Some((_, listed)) => listed.clone(),
            None => self.definition(),
        }
    }

    /// What it reads, by what stages and by what collation: as `system.views` has it.
    pub fn definition(&self) -> RawDocumentBuf {
        let mut options = rawdoc! { "viewOn": self.view_on.as_str(), "pipeline": self.stages() };
        if let Some(collation) = crate::collation::listing(&self.collation) {
            options.append(cstr!("collation"), collation);
        }
        options
    }

    fn stages(&self) -> RawArrayBuf {
        let mut stages = RawArrayBuf::new();
        for stage in &self.pipeline {
            stages.push(stage.clone());
        }
        stages
    }

    fn pipeline_bytes(&self) -> usize {
        self.pipeline.iter().map(|one| one.as_bytes().len()).sum()
    }
}

/// What a view may read: any name that a collection of its database could have.
fn check_view_on(namespace: &Namespace, view_on: &str) -> Result<()> {
    if view_on.is_empty() {
        return Err(Error::bad_value("'viewOn' cannot be empty"));
    }
    if view_on.contains('$') {
        return Err(Error::new(
            Code::InvalidNamespace,
            format!("invalid name for 'viewOn': {view_on}"),
        ));
    }
    Namespace::new(&namespace.database, view_on).map(|_| ())
}

/// MongoDB refuses what writes, and what brings its own documents.
fn check_stages(namespace: &Namespace, pipeline: &Pipeline) -> Result<()> {
    let refused = |code, message: String| {
        let error = Error::new(code, message);
        Err(error.within(&format!("Invalid pipeline for view {namespace}")))
    };
    for (place, stage) in pipeline.stages.iter().enumerate() {
        let name = stage.name();
        if stage.is_output() {
            return refused(
                Code::OptionNotSupportedOnView,
                format!(
                    "The aggregation stage {name} in location {place} of the pipeline cannot be used in the view \
                     definition of {namespace} because it writes to disk"
                ),
            );
        }
        if name == "$documents" {
            let message = format!("'{name}' cannot be used in a view definition");
            return refused(Code::InvalidNamespace, message);
        }
    }
    Ok(())
}

/// What a view comes to; `None` where there is none of this name.
pub(super) fn resolve(views: &Views, namespace: &Namespace) -> Result<Option<ResolvedView>> {
    let Some(view) = views.get(namespace) else {
        return Ok(None);
    };
    let collation = view.collation.clone();
    let mut namespace = namespace.clone();
    let mut path: Vec<&ViewDefinition> = Vec::new();
    while let Some(view) = views.get(&namespace) {
        path.push(view);
        // One fewer than may be made, as in MongoDB.
        if path.len() >= DEPTH_MAX {
            return Err(Error::new(
                Code::ViewDepthLimitExceeded,
                format!("View depth too deep or view cycle detected; maximum depth is {DEPTH_MAX}"),
            ));
        }
        namespace.collection.clone_from(&view.view_on);
    }
    let stages = path.iter().rev().flat_map(|view| &view.pipeline);
    Ok(Some(ResolvedView {
        timeseries: path.last().and_then(|last| last.timeseries().cloned()),
        namespace,
        pipeline: stages.cloned().collect(),
        collation,
    }))
}

/// Checks that with a new or changed view no view reads itself, and that not too many lie one on the other.
///
/// # Errors
/// `GraphContainsCycle`, `ViewDepthLimitExceeded`, `ViewPipelineMaxSizeExceeded`.
pub(super) fn check_graph(views: &Views, changed: &ViewDefinition) -> Result<()> {
    let database = &changed.namespace.database;
    let mut graph: HashMap<&str, &ViewDefinition> = HashMap::new();
    for view in views.values().map(|view| &**view) {
        if view.namespace.database == *database {
            graph.insert(&view.namespace.collection, view);
        }
    }
    graph.insert(&changed.namespace.collection, changed);
    let mut path = vec![changed.namespace.collection.as_str()];
    if reaches_itself(&graph, changed, &mut path) {
        let names = path.iter().map(|name| format!("{database}.{name}"));
        let names = names.collect::<Vec<_>>().join(" => ");
        let message = format!("View cycle detected: {} => {names}", changed.namespace);
        return Err(Error::new(Code::GraphContainsCycle, message));
    }
    for view in graph.values() {
        check_collations(&graph, view)?;
    }
    let mut known = HashMap::new();
    for view in graph.values() {
        let (depth, bytes) = extent(&graph, view, &mut known);
        if depth > DEPTH_MAX {
            return Err(Error::new(
                Code::ViewDepthLimitExceeded,
                format!("View depth limit exceeded; maximum depth is {DEPTH_MAX}"),
            ));
        }
        if bytes > PIPELINE_BYTES_MAX {
            return Err(Error::new(
                Code::ViewPipelineMaxSizeExceeded,
                format!(
                    "Operation would result in a resolved view pipeline that exceeds the maximum size of \
                     {PIPELINE_BYTES_MAX} bytes"
                ),
            ));
        }
    }
    Ok(())
}

/// A view and those that it reads compare texts alike.
fn check_collations(graph: &HashMap<&str, &ViewDefinition>, view: &ViewDefinition) -> Result<()> {
    let mut below = view
        .references
        .iter()
        .filter_map(|name| graph.get(name.as_str()));
    match below.find(|below| below.collation != view.collation) {
        None => Ok(()),
        Some(below) => Err(Error::new(
            Code::OptionNotSupportedOnView,
            format!(
                "View {} has conflicting collation with view {}",
                view.namespace, below.namespace
            ),
        )),
    }
}

/// Whether a view reads the first one of `path`, which then is the way to it. The views below were checked when
/// they were made, so none of them reads itself, and none lies deeper than `DEPTH_MAX`.
fn reaches_itself<'v>(
    graph: &HashMap<&str, &'v ViewDefinition>,
    view: &'v ViewDefinition,
    path: &mut Vec<&'v str>,
) -> bool {
    let mut visited = HashSet::new();
    reaches(graph, view, path, &mut visited)
}

fn reaches<'v>(
    graph: &HashMap<&str, &'v ViewDefinition>,
    view: &'v ViewDefinition,
    path: &mut Vec<&'v str>,
    visited: &mut HashSet<&'v str>,
) -> bool {
    for name in &view.references {
        let is_first = path.first() == Some(&name.as_str());
        path.push(name);
        if is_first {
            return true;
        }
        if let Some(below) = graph.get(name.as_str())
            && visited.insert(name)
            && reaches(graph, below, path, visited)
        {
            return true;
        }
        path.pop();
    }
    false
}

/// The views on the longest way down from a view, itself included, and the bytes of their pipelines on the largest.
fn extent<'v>(
    graph: &HashMap<&str, &'v ViewDefinition>,
    view: &'v ViewDefinition,
    known: &mut HashMap<&'v str, (usize, usize)>,
) -> (usize, usize) {
    if let Some(known) = known.get(view.namespace.collection.as_str()) {
        return *known;
    }
    let below = view.references.iter();
    let below = below.filter_map(|name| graph.get(name.as_str()));
    let (mut depth, mut bytes) = (0, 0);
    for view in below {
        let (its_depth, its_bytes) = extent(graph, view, known);
        (depth, bytes) = (depth.max(its_depth), bytes.max(its_bytes));
    }
    let found = (depth + 1, bytes + view.pipeline_bytes());
    known.insert(&view.namespace.collection, found);
    found
}
