//! What `$out` and `$merge` write.

use super::Engine;
use super::requests::{AggregateRequest, FindRequest};
use crate::aggregate::{
    Executor, Limits, Merge, Out, Pipeline, Stage, WhenMatched, WhenNotMatched, at_run_time,
};
use crate::cursor::Query;
use crate::error::{Code, Error, Result};
use crate::expression::Variables;
use crate::namespace::Namespace;
use crate::query::Filter;
use crate::update::{Update, compare_names};
use crate::write::{Change, InsertOptions};
use bson::oid::ObjectId;
use bson::raw::{CString, RawDocument, RawDocumentBuf};
use bson::{DateTime, cstr};
use meridian_value::{ByName, Collation};

/// Databases that MongoDB keeps for itself.
const INTERNAL_DATABASES: [&str; 3] = ["admin", "config", "local"];
/// Documents that `$out` writes in one commit.
const OUT_BATCH: usize = 1_000;
/// ... of so many bytes.
const OUT_BATCH_BYTES: usize = 8 << 20;
/// Collections that `$out` fills before they take their name begin so, as in mongod. Users' collections may
/// too: what is removed at the next start is told by [`Collection::temporary`](crate::catalog::Collection).
const OUT_PREFIX: &str = "tmp.agg_out.";

impl Engine {
    /// Writes what a pipeline makes, as its last stage says.
    ///
    /// # Errors
    /// What the stage refuses, with MongoDB's words before it.
    pub(super) fn write_output(
        &self,
        source: &Namespace,
        stage: &Stage,
        query: Query,
        request: &AggregateRequest<'_>,
    ) -> Result<Query> {
        match stage {
            Stage::Out(out) => self
                .write_out(source, out, query, request)
                .map_err(while_writing),
            Stage::Merge(merge) => self
                .write_merge(source, merge, query, request)
                .map_err(while_writing),
            other => Err(Error::not_implemented(format!(
                "the output stage {}",
                other.name()
            ))),
        }
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
        self.catalog.refuse_view(&target)?;
        let existing = self.catalog.get(&target);
        if existing
            .as_ref()
            .is_some_and(|old| old.options.capped.is_some())
        {
            let message = format!("namespace '{target}' is capped so it can't be used for $out");
            return Err(Error::location(17152, message));
        }
        let options = existing
            .as_ref()
            .map_or_else(Default::default, |old| old.options.as_ref().clone());
        self.writer.create_temporary(&temporary, options)?;
        let filled = (|| {
            if let Some(old) = &existing {
                let specs = old
                    .ready_indexes()
                    .map(|index| index.spec.clone())
                    .collect();
                self.writer.build_indexes(&temporary, specs, &mut |_| ())?;
                let listed = old.unbuilt.clone();
                self.writer.change_collection(&temporary, |collection| {
                    collection.unbuilt = listed;
                    Ok(())
                })?;
            }
            self.insert_all(&temporary, &mut query, request.bypass_validation)?;
            self.writer.rename_collection(&temporary, &target, true)
        })();
        if let Err(error) = filled {
            // Where it is gone, that is the error.
            if self.catalog.get(&temporary).is_some() {
                self.writer.drop_collection(&temporary)?;
            }
            return Err(error);
        }
        if let Some(old) = &existing {
            let why = old.dropped();
            self.cursors.kill_namespace(&target, &why);
        }
        Ok(Query::empty())
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
            // It was made before: whoever renames or drops it ends this.
            creates: false,
        };
        loop {
            let mut batch: Vec<RawDocumentBuf> = Vec::new();
            let done = query.fill(Some(OUT_BATCH), OUT_BATCH_BYTES, &mut |document| {
                batch.push(document.to_owned())
            })?;
            if batch.is_empty() {
                return Ok(());
            }
            let documents: Vec<&RawDocument> = batch.iter().map(AsRef::as_ref).collect();
            let outcome = self.writer.insert(target, &documents, &options)?;
            self.work.add_output(outcome.inserted);
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
        self.catalog.refuse_view(&target)?;
        self.check_merge_fields(&target, merge, request.collation.as_ref())?;
        self.writer.get_or_create(&target)?;
        // Documents are told as the collection compares that they go to, whatever the pipeline does.
        let collation = self.collation_of(&target, None);
        let variables = Variables::new(DateTime::now()).with_collation(collation);
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
        Ok(Query::empty())
    }

    /// `on` must be what a unique index guards, or two documents could match.
    fn check_merge_fields(
        &self,
        target: &Namespace,
        merge: &Merge,
        collation: Option<&Collation>,
    ) -> Result<()> {
        let Some(on) = &merge.on else { return Ok(()) };
        let collation = collation.cloned().unwrap_or_default();
        let mut wanted: Vec<&str> = on.iter().map(String::as_str).collect();
        wanted.sort_unstable();
        let collection = self.catalog.get(target);
        let guarded = match (&collection, wanted == ["_id"]) {
            (None, is_id) => is_id,
            (Some(collection), true) => collection.options.collation == collation,
            (Some(collection), false) => collection.ready_indexes().any(|index| {
                let mut own: Vec<&str> = index
                    .spec
                    .key
                    .iter()
                    .map(|(path, _)| path.as_str())
                    .collect();
                own.sort_unstable();
                index.spec.unique
                    && index.spec.partial_filter.is_none()
                    && index.spec.collation == collation
                    && own == wanted
            }),
        };
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
        let filter = merge_filter(merge, document)?;
        match &merge.when_matched {
            WhenMatched::Fail => return self.merge_new(target, document, bypass_validation),
            WhenMatched::Pipeline(stages) => Update::check_stages(stages)?,
            _ => {}
        }
        let parsed = Filter::parse_by(&filter, variables.collation())?;
        let find = FindRequest {
            collation: Some(variables.collation().clone()),
            ..FindRequest::new(&filter)
        };
        let decide = |existing: &RawDocument| {
            if !parsed.matches(existing)? {
                return Ok(None);
            }
            merged(merge, existing, document, variables).map(Some)
        };
        // A document that appears between the look-up and the insert is merged in the second round.
        for _ in 0..2 {
            let has_key = !filter.is_empty();
            let found = match has_key {
                true => self.modify_first(target, &find, bypass_validation, &decide)?,
                false => None,
            };
            self.work.add_merge(found.is_some());
            if found.is_some() {
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
        self.work.add_output(outcome.inserted);
        match outcome.errors.into_iter().next() {
            None => Ok(()),
            Some(failure) if failure.error.code == Code::DuplicateKey => {
                Err(failure.error.within(FOUND))
            }
            Some(failure) => Err(failure.error),
        }
    }
}

/// Checks that `$out` and `$merge` may write where a pipeline over `source` wants to, before anything runs.
///
/// # Errors
/// MongoDB's, for its own databases and for `system.` collections.
pub(super) fn check_output(source: &Namespace, stage: &Stage) -> Result<()> {
    let (database, collection, [to_internal, to_special], refusal) = match stage {
        Stage::Out(out) => (&out.database, &out.collection, [31321, 17385], "Can't $out"),
        Stage::Merge(merge) => (
            &merge.database,
            &merge.collection,
            [31320, 31319],
            "Cannot $merge",
        ),
        _ => return Ok(()),
    };
    let database = database.as_deref().unwrap_or(&source.database);
    if INTERNAL_DATABASES.contains(&database) {
        let message = format!("{refusal} to internal database: {database}");
        return Err(Error::location(to_internal, message));
    }
    if collection.starts_with("system.") {
        let message = format!("{refusal} to special collection: {collection}");
        return Err(Error::location(to_special, message));
    }
    Ok(())
}

/// The words MongoDB puts before what `$out` and `$merge` meet while they write.
fn while_writing(error: Error) -> Error {
    // Asked before anything runs.
    if error.code == Code::Location(51183) {
        return error;
    }
    at_run_time(error)
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
            Some(bson::RawBsonRef::Array(_)) => {
                let message = format!("$merge write error: 'on' field '{path}' is an array");
                return Err(Error::location(51185, message));
            }
            _ => {
                return Err(Error::location(
                    51132,
                    format!(
                        "$merge write error: 'on' field '{path}' cannot be missing, null, undefined or an array"
                    ),
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
        WhenMatched::Replace => overlay(&with_only_id(existing), new, false),
        WhenMatched::Merge => overlay(existing, new, true),
        WhenMatched::Pipeline(stages) => {
            let stages: Vec<&RawDocument> = stages.iter().map(AsRef::as_ref).collect();
            let pipeline = Pipeline::parse_with(&stages, &merge.scope(new, variables)?)?;
            let mut executor =
                Executor::new(&pipeline.stages, variables.clone(), &Limits::new(false))?;
            let _ = executor.push(existing)?;
            executor.finish()?;
            let produced = executor.pull()?.unwrap_or_default();
            overlay(&with_only_id(existing), &produced, false)
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

/// `base` with the top-level fields of `over`: replaced in their place, new ones at the end; `sorts_new` tells that those
/// come in the order in which an update makes fields.
fn overlay(base: &RawDocument, over: &RawDocument, sorts_new: bool) -> RawDocumentBuf {
    let mut new = ByName::default();
    for (name, value) in over.iter().flatten() {
        if new.place(name.as_str().as_bytes()).is_none() {
            new.push(name.as_str(), (name, value, true));
        }
    }
    let mut result = RawDocumentBuf::new();
    for (name, value) in base.iter().flatten() {
        match new.get_mut(name.as_str().as_bytes()) {
            Some((_, value, is_left)) => {
                result.append(name, *value);
                *is_left = false;
            }
            None => result.append(name, value),
        }
    }
    let entries = new.into_entries().into_iter();
    let mut left: Vec<_> = entries
        .map(|(_, entry)| entry)
        .filter(|(_, _, is_left)| *is_left)
        .collect();
    if sorts_new {
        left.sort_by(|(one, ..), (other, ..)| compare_names(one.as_str(), other.as_str()));
    }
    for (name, value, _) in left {
        result.append(name, value);
    }
    result
}
