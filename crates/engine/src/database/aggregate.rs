//! `aggregate`: what the storage can answer is planned, the stages behind it are run, `$out` and
//! `$merge` are written.

use super::Engine;
use super::read::everything;
use super::requests::{
    AggregateRequest, AggregateTarget, CountRequest, FindRequest, parse_context,
};
use crate::aggregate::{
    Executor, FieldSet, Limits, Merge, Out, Pipeline, Stage, VariableScope, Variables, WhenMatched,
    WhenNotMatched, dependencies,
};
use crate::cursor::{Query, Source};
use crate::error::{Code, Error, Result};
use crate::exec::{Rows, SampleSize};
use crate::namespace::Namespace;
use crate::plan::{Hint, QuerySpec};
use crate::query::{Filter, Sort};
use crate::write::{Change, Durability, InsertOptions};
use bson::oid::ObjectId;
use bson::raw::{CString, RawDocument, RawDocumentBuf};
use bson::{DateTime, cstr, rawdoc};
use std::ops::ControlFlow;
use std::sync::Arc;

/// Documents that `$out` writes in one commit.
const OUT_BATCH: usize = 1_000;
/// Collections that `$out` fills before they take their name begin so; leftovers are removed at start.
pub(super) const OUT_PREFIX: &str = "tmp.agg_out.";

/// A pipeline, split into what is planned and what is run on the rows.
pub(crate) struct Split {
    pub spec: QuerySpec,
    pub stages: Vec<Stage>,
    /// `$out` or `$merge`.
    pub output: Option<Stage>,
    /// The pipeline only counts what the plan finds, and names the result so.
    pub count_as: Option<CountShape>,
    /// The first stage draws from what the plan finds.
    pub sample: Option<SampleSize>,
}

/// How the answer of a counting pipeline looks.
pub(crate) enum CountShape {
    /// `{$count: "name"}`: no document when nothing matches.
    Count(CString),
    /// `{$group: {_id: constant, name: {$sum: 1}}}`, as drivers' `countDocuments` sends it.
    Group(RawDocumentBuf, CString),
}

impl Engine {
    /// Starts an aggregation. With `$out` or `$merge` it runs to its end here.
    ///
    /// # Errors
    /// What the stages refuse; storage failures.
    pub fn aggregate(
        &self,
        target: &AggregateTarget,
        request: &AggregateRequest<'_>,
    ) -> Result<Query> {
        let pipeline = parse(request)?;
        let namespace = match target {
            AggregateTarget::Collection(namespace) => namespace,
            AggregateTarget::Database(_) => {
                return Err(Error::new(
                    Code::InvalidNamespace,
                    "{aggregate: 1} is not valid for this pipeline; give a collection",
                ));
            }
        };
        if let Some(source) = pipeline.stages.first().filter(|stage| stage.is_source()) {
            let documents = self.source_documents(namespace, source)?;
            return run(
                documents,
                pipeline.stages[1..].to_vec(),
                request.allow_disk_use,
            );
        }
        let split = split(pipeline, request)?;
        if let Some(shape) = &split.count_as {
            return self.counted(namespace, &split, shape, request);
        }
        let query = match self.prepare(namespace, split.spec)? {
            Some(prepared) => {
                let drawn = prepared.sample(split.sample)?;
                let (rows, stages) = match drawn {
                    Some(sample) => (sample.rows, &split.stages[1..]),
                    None => (prepared.rows()?, &split.stages[..]),
                };
                over_rows(rows, stages, request.allow_disk_use)?
            }
            None => over_rows(
                crate::exec::nothing(),
                &split.stages,
                request.allow_disk_use,
            )?,
        };
        match split.output {
            None => Ok(query),
            Some(Stage::Out(out)) => self
                .write_out(namespace, &out, query, request)
                .map_err(while_writing),
            Some(Stage::Merge(merge)) => self
                .write_merge(namespace, &merge, query, request)
                .map_err(while_writing),
            Some(other) => Err(Error::not_implemented(format!(
                "the output stage {}",
                other.name()
            ))),
        }
    }

    fn counted(
        &self,
        namespace: &Namespace,
        split: &Split,
        shape: &CountShape,
        request: &AggregateRequest<'_>,
    ) -> Result<Query> {
        let count = self.count(
            namespace,
            &CountRequest {
                filter: &split.spec.filter_source,
                skip: split.spec.skip,
                limit: split.spec.limit,
                hint: request.hint,
            },
        )?;
        if count == 0 {
            return Ok(Query::from_documents(Vec::new()));
        }
        let mut answer = RawDocumentBuf::new();
        let name = match shape {
            CountShape::Count(name) => name,
            CountShape::Group(id, name) => {
                if let Ok(Some(id)) = id.get("_id") {
                    answer.append(cstr!("_id"), id);
                }
                name
            }
        };
        match i32::try_from(count) {
            Ok(count) => answer.append(name, count),
            Err(_) => answer.append(name, count),
        }
        Ok(Query::from_documents(vec![answer]))
    }

    /// Fills a collection of its own and gives it the target's name, indexes and options in one step.
    fn write_out(
        &self,
        source: &Namespace,
        out: &Out,
        mut query: Query,
        request: &AggregateRequest<'_>,
    ) -> Result<Query> {
        let database = out.database.as_deref().unwrap_or(&source.database);
        let target = Namespace::new(database, &out.collection)?;
        let temporary = Namespace::new(database, &format!("{OUT_PREFIX}{}", ObjectId::new()))?;
        let existing = self.catalog.get(&target);
        let options = existing
            .as_ref()
            .map_or_else(Default::default, |old| old.options.as_ref().clone());
        self.catalog.create(&temporary, options)?;
        let filled = (|| {
            if let Some(old) = &existing {
                let specs = old
                    .ready_indexes()
                    .map(|index| index.spec.clone())
                    .collect();
                self.writer.build_indexes(&temporary, specs, &mut |_| ())?;
            }
            self.insert_all(&temporary, &mut query, request.bypass_validation)?;
            self.catalog.rename(&temporary, &target, true)
        })();
        if let Err(error) = filled {
            self.catalog.remove(&temporary)?;
            return Err(error);
        }
        self.cursors.kill_namespace(&target);
        self.writer.settle(request.durability)?;
        Ok(Query::from_documents(Vec::new()))
    }

    fn insert_all(
        &self,
        target: &Namespace,
        query: &mut Query,
        bypass_validation: bool,
    ) -> Result<()> {
        let options = InsertOptions {
            ordered: true,
            bypass_validation,
            durability: Durability::Buffered,
        };
        loop {
            let mut batch: Vec<RawDocumentBuf> = Vec::new();
            let done = query.fill(Some(OUT_BATCH), usize::MAX, &mut |document| {
                batch.push(document.to_owned())
            })?;
            let documents: Vec<&RawDocument> = batch.iter().map(AsRef::as_ref).collect();
            let outcome = self.writer.insert(target, &documents, &options)?;
            if let Some(failure) = outcome.errors.into_iter().next() {
                return Err(failure.error);
            }
            if done {
                return Ok(());
            }
        }
    }

    fn write_merge(
        &self,
        source: &Namespace,
        merge: &Merge,
        mut query: Query,
        request: &AggregateRequest<'_>,
    ) -> Result<Query> {
        let database = merge.database.as_deref().unwrap_or(&source.database);
        let target = Namespace::new(database, &merge.collection)?;
        self.check_merge_fields(&target, merge)?;
        self.catalog.get_or_create(&target)?;
        let variables = Variables::new(DateTime::now());
        let mut found = None;
        while let Some(document) = query.next_document()? {
            let document = document.to_owned();
            let merged = self.merge_one(
                &target,
                merge,
                &document,
                &variables,
                request.bypass_validation,
            );
            match merged {
                // As in MongoDB, the others are inserted all the same.
                Err(error)
                    if error.code == Code::DuplicateKey
                        && matches!(merge.when_matched, WhenMatched::Fail) =>
                {
                    found.get_or_insert(error);
                }
                merged => merged?,
            }
        }
        if let Some(error) = found {
            return Err(error);
        }
        self.writer.settle(request.durability)?;
        Ok(Query::from_documents(Vec::new()))
    }

    /// `on` must be what a unique index guards, or two documents could match.
    fn check_merge_fields(&self, target: &Namespace, merge: &Merge) -> Result<()> {
        let Some(on) = &merge.on else { return Ok(()) };
        let mut wanted: Vec<&str> = on.iter().map(String::as_str).collect();
        wanted.sort_unstable();
        let guarded = wanted == ["_id"]
            || self.catalog.get(target).is_some_and(|collection| {
                collection.ready_indexes().any(|index| {
                    let mut own: Vec<&str> = index
                        .spec
                        .key
                        .iter()
                        .map(|(path, _)| path.as_str())
                        .collect();
                    own.sort_unstable();
                    index.spec.unique && index.spec.partial_filter.is_none() && own == wanted
                })
            });
        if guarded {
            return Ok(());
        }
        Err(Error::location(
            51183,
            "Cannot find index to verify that join fields will be unique",
        ))
    }

    fn merge_one(
        &self,
        target: &Namespace,
        merge: &Merge,
        document: &RawDocument,
        variables: &Variables,
        bypass_validation: bool,
    ) -> Result<()> {
        if matches!(merge.when_matched, WhenMatched::Fail) {
            return self.merge_new(target, document, bypass_validation);
        }
        let filter = merge_filter(merge, document)?;
        let parsed = Filter::parse(&filter)?;
        let find = FindRequest::new(&filter);
        let decide = |existing: &RawDocument| {
            if !parsed.matches(existing)? {
                return Ok(None);
            }
            merged(merge, existing, document, variables).map(Some)
        };
        // A document that appears between the look-up and the insert is merged in the second round.
        for _ in 0..2 {
            let has_key = !filter.is_empty();
            if has_key
                && self
                    .modify_first(target, &find, bypass_validation, &decide)?
                    .is_some()
            {
                return Ok(());
            }
            match merge.when_not_matched {
                WhenNotMatched::Discard => return Ok(()),
                WhenNotMatched::Fail => {
                    return Err(Error::new(
                        Code::MergeStageNoMatchingDocument,
                        "$merge could not find a matching document in the target collection for at least one document in the source collection",
                    ));
                }
                WhenNotMatched::Insert => {}
            }
            let options = InsertOptions {
                bypass_validation,
                ..InsertOptions::default()
            };
            let outcome = self.writer.insert(target, &[document], &options)?;
            match outcome.errors.into_iter().next() {
                None => return Ok(()),
                Some(failure) if failure.error.code == Code::DuplicateKey && has_key => {}
                Some(failure) => return Err(failure.error),
            }
        }
        Err(Error::new(
            Code::DuplicateKey,
            "$merge found another document with the same unique key",
        ))
    }

    /// Inserts a document that must not be there: what `on` names is guarded by a unique index.
    fn merge_new(
        &self,
        target: &Namespace,
        document: &RawDocument,
        bypass_validation: bool,
    ) -> Result<()> {
        const FOUND: &str = "$merge with whenMatched: fail found an existing document with the same values for the 'on' fields";
        let options = InsertOptions {
            bypass_validation,
            ..InsertOptions::default()
        };
        let outcome = self.writer.insert(target, &[document], &options)?;
        match outcome.errors.into_iter().next() {
            None => Ok(()),
            Some(failure) if failure.error.code == Code::DuplicateKey => {
                Err(failure.error.within(FOUND))
            }
            Some(failure) => Err(failure.error),
        }
    }

    fn source_documents(
        &self,
        namespace: &Namespace,
        source: &Stage,
    ) -> Result<Vec<RawDocumentBuf>> {
        match source {
            Stage::IndexStats => {
                let stats = |spec: RawDocumentBuf| {
                    let key = spec
                        .get_document("key")
                        .map(ToOwned::to_owned)
                        .unwrap_or_default();
                    let name = spec.get_str("name").unwrap_or_default().to_owned();
                    let mut document = rawdoc! { "name": name };
                    document.append(cstr!("key"), key);
                    document.append(cstr!("spec"), spec);
                    document
                };
                Ok(self
                    .list_indexes(namespace)?
                    .into_iter()
                    .map(stats)
                    .collect())
            }
            Stage::CollectionStats(options) => self
                .collection_stats_document(namespace, options)
                .map(|one| vec![one]),
            other => Err(Error::not_implemented(format!(
                "the stage {} as a source",
                other.name()
            ))),
        }
    }

    fn collection_stats_document(
        &self,
        namespace: &Namespace,
        options: &RawDocument,
    ) -> Result<RawDocumentBuf> {
        let stats = self.collection_stats(namespace)?;
        let mut answer = rawdoc! { "ns": namespace.to_string(), "localTime": DateTime::now() };
        for (name, _) in options.iter().flatten() {
            match name.as_str() {
                "count" => answer.append(cstr!("count"), stats.count),
                "storageStats" => answer.append(
                    cstr!("storageStats"),
                    rawdoc! {
                        "size": stats.size,
                        "count": stats.count,
                        "avgObjSize": stats.average_object_size,
                        "storageSize": stats.storage_size,
                        "totalIndexSize": stats.total_index_size,
                        "totalSize": stats.storage_size + stats.total_index_size,
                        "nindexes": i32::try_from(stats.index_sizes.len()).unwrap_or(i32::MAX),
                    },
                ),
                other => {
                    return Err(Error::not_implemented(format!(
                        "the option '{other}' of $collStats"
                    )));
                }
            }
        }
        Ok(answer)
    }
}

/// Parses the pipeline with the command's variables.
pub(crate) fn parse(request: &AggregateRequest<'_>) -> Result<Pipeline> {
    match request.variables {
        Some(variables) => {
            Pipeline::parse_with(&request.pipeline, &VariableScope::from_let(variables)?)
        }
        None => Pipeline::parse(&request.pipeline),
    }
}

/// Splits off what the planner can do: leading `$match`es, then `$sort`, `$skip` and `$limit`.
pub(crate) fn split(pipeline: Pipeline, request: &AggregateRequest<'_>) -> Result<Split> {
    let mut stages: std::collections::VecDeque<Stage> = pipeline.stages.into();
    let output = stages.pop_back_if(|stage| stage.is_output());
    let filter_source = leading_match(&mut stages, &request.pipeline)?;
    let context = parse_context(request.variables)?;
    let mut spec = QuerySpec {
        filter: Arc::new(Filter::parse_with(&filter_source, &context)?.simplify()),
        filter_source,
        sort: None,
        skip: 0,
        limit: None,
        projection: None,
        projection_source: None,
        hint: Hint::parse(request.hint)?,
        needs: FieldSet::All,
    };
    let count_as = count_shape(&stages, request);
    if let Some(Stage::Sort { order, limit }) = stages.front() {
        spec.sort = Some(Arc::new(Sort::parse(&order.to_document())?));
        spec.limit = *limit;
        stages.pop_front();
    } else if let Some(Stage::Limit(limit)) = stages.front() {
        spec.limit = Some(*limit);
        stages.pop_front();
    }
    let sample = match stages.front() {
        Some(Stage::Sample { size, seed }) if spec.sort.is_none() && spec.limit.is_none() => {
            Some(SampleSize {
                size: *size,
                seed: seed.map(i64::cast_unsigned),
            })
        }
        _ => None,
    };
    spec.needs = dependencies(&stages);
    Ok(Split {
        sample,
        spec,
        stages: stages.into(),
        output,
        count_as,
    })
}

/// Takes the leading `$match` stages off and returns their conditions as one document.
fn leading_match(
    stages: &mut std::collections::VecDeque<Stage>,
    sources: &[&RawDocument],
) -> Result<RawDocumentBuf> {
    let mut parts: Vec<&RawDocument> = Vec::new();
    for source in sources {
        let (Some(Stage::Match(_)), Ok(condition)) =
            (stages.front(), source.get_document("$match"))
        else {
            break;
        };
        parts.push(condition);
        stages.pop_front();
    }
    Ok(match parts.as_slice() {
        [] => everything().to_owned(),
        [only] => (*only).to_owned(),
        several => {
            let mut all = bson::raw::RawArrayBuf::new();
            several.iter().for_each(|part| all.push((*part).to_owned()));
            rawdoc! { "$and": all }
        }
    })
}

/// Whether what is left only counts.
fn count_shape(
    stages: &std::collections::VecDeque<Stage>,
    request: &AggregateRequest<'_>,
) -> Option<CountShape> {
    if stages.len() != 1 {
        return None;
    }
    let last = request.pipeline.last()?;
    if let Some(Stage::Count(name)) = stages.front() {
        return CString::try_from(name.as_str()).ok().map(CountShape::Count);
    }
    let group = last.get_document("$group").ok()?;
    let fields: Vec<_> = group.iter().flatten().collect();
    let [(id_name, id), (name, sum)] = fields.as_slice() else {
        return None;
    };
    let constant = matches!(
        id,
        bson::RawBsonRef::Null
            | bson::RawBsonRef::Int32(_)
            | bson::RawBsonRef::Int64(_)
            | bson::RawBsonRef::Double(_)
    );
    let one = sum.as_document()?.get_i32("$sum").ok() == Some(1)
        && sum.as_document()?.iter().count() == 1;
    if id_name.as_str() != "_id" || !constant || !one {
        return None;
    }
    let mut id_document = RawDocumentBuf::new();
    id_document.append(cstr!("_id"), *id);
    CString::try_from(name.as_str())
        .ok()
        .map(|name| CountShape::Group(id_document, name))
}

fn over_rows(rows: Box<dyn Rows>, stages: &[Stage], allow_disk_use: bool) -> Result<Query> {
    if stages.is_empty() {
        return Ok(
            Query::from_rows(rows).with_error_context("PlanExecutor error during aggregation")
        );
    }
    let executor = executor(stages, allow_disk_use)?;
    Ok(Query::new(Source::Documents(Box::new(Running {
        rows: Some(rows),
        executor,
    }))))
}

fn run(documents: Vec<RawDocumentBuf>, stages: Vec<Stage>, allow_disk_use: bool) -> Result<Query> {
    let mut executor = executor(&stages, allow_disk_use)?;
    for document in &documents {
        if executor.push(document)?.is_break() {
            break;
        }
    }
    executor.finish()?;
    Ok(Query::new(Source::Documents(Box::new(Running {
        rows: None,
        executor,
    }))))
}

fn executor(stages: &[Stage], allow_disk_use: bool) -> Result<Executor> {
    Executor::new(
        stages,
        Variables::new(DateTime::now()),
        &Limits::new(allow_disk_use),
    )
}

/// Pushes rows into the stages as results are asked for.
struct Running {
    rows: Option<Box<dyn Rows>>,
    executor: Executor,
}

impl Running {
    fn next_result(&mut self) -> Result<Option<RawDocumentBuf>> {
        loop {
            if let Some(document) = self.executor.pull()? {
                return Ok(Some(document));
            }
            let Some(rows) = &mut self.rows else {
                return Ok(None);
            };
            let wants_more = rows.advance()?
                && self.executor.push(rows.row().document)? == ControlFlow::Continue(());
            if !wants_more {
                self.executor.finish()?;
                self.rows = None;
            }
        }
    }
}

impl Iterator for Running {
    type Item = Result<RawDocumentBuf>;

    fn next(&mut self) -> Option<Self::Item> {
        self.next_result().transpose()
    }
}

/// The words MongoDB puts before what `$out` and `$merge` meet while they write.
fn while_writing(error: Error) -> Error {
    // Asked before anything runs.
    if error.code == Code::Location(51183) {
        return error;
    }
    error.within("PlanExecutor error during aggregation")
}

/// The filter that finds the document to merge into; empty when the new one has no `_id` yet.
fn merge_filter(merge: &Merge, document: &RawDocument) -> Result<RawDocumentBuf> {
    let by_id = vec!["_id".to_owned()];
    let mut filter = RawDocumentBuf::new();
    for path in merge.on.as_ref().unwrap_or(&by_id) {
        let value = meridian_value::path::get(document, &meridian_value::path::Path::parse(path));
        match value {
            Some(value)
                if !matches!(value, bson::RawBsonRef::Null | bson::RawBsonRef::Array(_)) =>
            {
                if let Ok(name) = CString::try_from(path.as_str()) {
                    let mut equal = RawDocumentBuf::new();
                    equal.append(cstr!("$eq"), value);
                    filter.append(&*name, equal);
                }
            }
            None if path == "_id" => return Ok(RawDocumentBuf::new()),
            _ => {
                return Err(Error::location(
                    51132,
                    "$merge write error: 'on' field cannot be missing, null, undefined or an array",
                ));
            }
        }
    }
    Ok(filter)
}

fn merged(
    merge: &Merge,
    existing: &RawDocument,
    new: &RawDocument,
    variables: &Variables,
) -> Result<Change> {
    let after = match &merge.when_matched {
        WhenMatched::KeepExisting => return Ok(Change::Keep),
        WhenMatched::Fail => unreachable!("inserted without looking"),
        WhenMatched::Replace => overlay(&with_only_id(existing), new),
        WhenMatched::Merge => overlay(existing, new),
        WhenMatched::Pipeline(stages) => {
            let stages: Vec<&RawDocument> = stages.iter().map(AsRef::as_ref).collect();
            let pipeline = Pipeline::parse_with(&stages, &merge.scope(new, variables)?)?;
            let mut executor =
                Executor::new(&pipeline.stages, variables.clone(), &Limits::new(false))?;
            let _ = executor.push(existing)?;
            executor.finish()?;
            let produced = executor.pull()?.unwrap_or_default();
            overlay(&with_only_id(existing), &produced)
        }
    };
    let same_id = |a: &RawDocument, b: &RawDocument| match (a.get("_id"), b.get("_id")) {
        (Ok(Some(a)), Ok(Some(b))) => meridian_value::compare(a, b).is_eq(),
        _ => true,
    };
    if !same_id(existing, &after) {
        return Err(Error::new(
            Code::ImmutableField,
            "$merge failed to update the matching document, did you attempt to modify the _id or the shard key?",
        ));
    }
    if after.as_bytes() == existing.as_bytes() {
        Ok(Change::Keep)
    } else {
        Ok(Change::Replace(after))
    }
}

fn with_only_id(document: &RawDocument) -> RawDocumentBuf {
    let mut only = RawDocumentBuf::new();
    if let Ok(Some(id)) = document.get("_id") {
        only.append(cstr!("_id"), id);
    }
    only
}

/// `base` with the top-level fields of `over`: replaced in their place, new ones at the end.
fn overlay(base: &RawDocument, over: &RawDocument) -> RawDocumentBuf {
    let mut result = RawDocumentBuf::new();
    for (name, value) in base.iter().flatten() {
        let value = over.get(name.as_str()).ok().flatten().unwrap_or(value);
        result.append(name, value);
    }
    for (name, value) in over.iter().flatten() {
        if !matches!(base.get(name.as_str()), Ok(Some(_))) {
            result.append(name, value);
        }
    }
    result
}
