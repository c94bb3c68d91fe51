//! `update`, `delete` and `findAndModify`: which documents, and what becomes of them.

use super::read::{FoundRows, query_spec};
use super::requests::{parse_context, written};
use super::{
    DeleteStatement, Engine, ExplainRequest, FindAndModifyAction, FindAndModifyOutcome,
    FindAndModifyRequest, FindRequest, UpdateOutcome, UpdateStatement,
};
use crate::error::malformed;
use crate::error::{Code, Error, Result};
use crate::exec::Rows;
use crate::expression::{BUILTIN_VARIABLES, MetadataScope, Value, VariableScope};
use crate::namespace::Namespace;
use crate::operation;
use crate::plan::{Goal, refuse_without_collection, resolve_text};
use crate::query::{Filter, Measure, Projection, Sort};
use crate::update::{
    Applied as UpdateResult, ApplyMode, Update, check_upsert_filter, upsert_document,
};
use crate::write::{AppliedChange, Change, InsertOptions, Target};
use bson::Bson;
use bson::cstr;
use bson::oid::ObjectId;
use bson::raw::{RawBsonRef, RawDocument, RawDocumentBuf};
use meridian_value::Collation;

/// Documents changed in one commit of a multi-document statement.
const BATCH_DOCUMENTS: usize = 500;
const BATCH_BYTES: usize = 8 * 1024 * 1024;
/// How often a single-document statement looks again when others keep changing what it found.
const ATTEMPTS_MAX: usize = 1_000;

impl Engine {
    /// Carries one update statement out.
    ///
    /// # Errors
    /// What the filter, the update and the validator refuse; duplicate keys; storage failures.
    pub fn update(
        &self,
        namespace: &Namespace,
        statement: &UpdateStatement<'_>,
    ) -> Result<UpdateOutcome> {
        match self.catalog.timeseries(namespace) {
            Some((timeseries, buckets)) => {
                self.update_measurements(&timeseries, &buckets, statement)
            }
            None => self.update_counting(namespace, statement, &|_| 1),
        }
    }

    fn parse_statement(
        &self,
        namespace: &Namespace,
        statement: &UpdateStatement<'_>,
    ) -> Result<(Modification, Collation)> {
        let collation = self.collation_of(namespace, written(statement.collation)?.as_ref());
        let change = Modification::parse(
            statement.filter,
            statement.update,
            &statement.array_filters,
            Names {
                collation: &collation,
                variables: statement.variables,
                constants: statement.constants,
            },
        )?;
        self.resolve_text(namespace, &change.filter)?;
        if statement.multi {
            change.update.check_multi()?;
        }
        if statement.upsert {
            check_upsert_filter(&change.filter)?;
        }
        Ok((change, collation))
    }

    /// Refuses what an update refuses before it reads anything.
    ///
    /// # Errors
    /// Those of the update.
    pub(super) fn check_change(
        &self,
        namespace: &Namespace,
        request: &ExplainRequest<'_>,
    ) -> Result<()> {
        match request {
            ExplainRequest::Update(statement) => {
                self.parse_statement(namespace, statement).map(drop)
            }
            ExplainRequest::FindAndModify(request) => {
                let collation = self.collation_of(namespace, request.collation.as_ref());
                let context = parse_context(request.variables, &collation)?;
                let filter = Filter::parse_with(request.filter, &context)?;
                answer_shape(request, &filter, &context.scope)?;
                let FindAndModifyAction::Update {
                    update,
                    array_filters,
                    ..
                } = &request.action
                else {
                    return Ok(());
                };
                let names = Names {
                    collation: &collation,
                    variables: request.variables,
                    constants: None,
                };
                Modification::parse(request.filter, *update, array_filters, names).map(drop)
            }
            _ => Ok(()),
        }
    }

    /// As [`Self::update`]; `weight` says for how many a document counts, as it was before.
    pub(super) fn update_counting(
        &self,
        namespace: &Namespace,
        statement: &UpdateStatement<'_>,
        weight: &dyn Fn(&RawDocument) -> i64,
    ) -> Result<UpdateOutcome> {
        let (change, collation) = self.parse_statement(namespace, statement)?;
        let mut outcome = UpdateOutcome::default();
        let find = FindRequest {
            counts: false,
            collation: Some(collation.clone()),
            hint: statement.hint,
            variables: statement.variables,
            ..FindRequest::new(statement.filter)
        };
        let decide = |document: &RawDocument| change.decide(document);
        for _ in 0..ATTEMPTS_MAX {
            if statement.multi {
                self.modify_all(
                    namespace,
                    &find,
                    statement.bypass_validation,
                    &decide,
                    &mut |applied| {
                        let counted = weight(&applied.before);
                        outcome.matched += counted;
                        if applied.change != Change::Keep {
                            outcome.modified += counted;
                        }
                    },
                )?;
            } else if let Some(applied) =
                self.modify_first(namespace, &find, statement.bypass_validation, &decide)?
            {
                outcome.matched = 1;
                outcome.modified = i64::from(applied.change != Change::Keep);
            }
            if outcome.matched > 0 || !statement.upsert {
                break;
            }
            if let Some(inserted) = self.upsert(namespace, &change, statement.bypass_validation)? {
                outcome.upserted_id = id_of(&inserted);
                break;
            }
        }
        Ok(outcome)
    }

    /// Carries one delete statement out; returns the number of documents deleted.
    ///
    /// # Errors
    /// What the filter refuses; storage failures.
    pub fn delete(&self, namespace: &Namespace, statement: &DeleteStatement<'_>) -> Result<i64> {
        match self.catalog.timeseries(namespace) {
            Some((timeseries, buckets)) => {
                self.delete_measurements(&timeseries, &buckets, statement)
            }
            None => self.delete_counting(namespace, statement, &|_| 1),
        }
    }

    /// As [`Self::delete`]; `weight` says for how many a document counts.
    pub(super) fn delete_counting(
        &self,
        namespace: &Namespace,
        statement: &DeleteStatement<'_>,
        weight: &dyn Fn(&RawDocument) -> i64,
    ) -> Result<i64> {
        let collation = self.collation_of(namespace, written(statement.collation)?.as_ref());
        let context = parse_context(statement.variables, &collation)?;
        let filter = Filter::parse_with(statement.filter, &context)?;
        self.resolve_text(namespace, &filter)?;
        let decide =
            |document: &RawDocument| Ok(filter.matches(document)?.then_some(Change::Remove));
        let find = FindRequest {
            counts: false,
            collation: Some(collation.clone()),
            hint: statement.hint,
            variables: statement.variables,
            ..FindRequest::new(statement.filter)
        };
        let mut deleted = 0;
        if statement.limit_one {
            deleted += i64::from(
                self.modify_first(namespace, &find, true, &decide)?
                    .is_some(),
            );
        } else {
            self.modify_all(namespace, &find, true, &decide, &mut |applied| {
                deleted += weight(&applied.before);
            })?;
        }
        Ok(deleted)
    }

    /// Tells the `$text` of a filter that documents are tested by, besides the plan's own, what to look for.
    fn resolve_text(&self, namespace: &Namespace, filter: &Filter) -> Result<()> {
        match self.catalog.get(namespace) {
            Some(collection) => resolve_text(&collection, filter),
            None => refuse_without_collection(namespace, filter),
        }
    }

    /// Finds one document, changes or removes it, and answers with it.
    ///
    /// # Errors
    /// As [`Self::update`] and [`Self::delete`].
    pub fn find_and_modify(
        &self,
        namespace: &Namespace,
        request: &FindAndModifyRequest<'_>,
    ) -> Result<FindAndModifyOutcome> {
        let collation = self.collation_of(namespace, request.collation.as_ref());
        let find = FindRequest {
            counts: false,
            collation: Some(collation.clone()),
            sort: request.sort,
            hint: request.hint,
            variables: request.variables,
            limit: Some(1),
            ..FindRequest::new(request.filter)
        };
        let mut context = parse_context(request.variables, &collation)?;
        // An update parses its filter again.
        let is_last = matches!(request.action, FindAndModifyAction::Remove);
        context.scope = context.scope.counting(is_last);
        let filter = Filter::parse_with(request.filter, &context)?;
        self.resolve_text(namespace, &filter)?;
        let projection = answer_shape(request, &filter, &context.scope)?;
        self.catalog.refuse_view(namespace)?;
        let outcome = match &request.action {
            FindAndModifyAction::Remove => self.find_and_remove(namespace, &find, &filter),
            FindAndModifyAction::Update {
                update,
                array_filters,
                upsert,
                return_new,
            } => {
                let names = Names {
                    collation: &collation,
                    variables: request.variables,
                    constants: None,
                };
                let change = Modification::parse(request.filter, *update, array_filters, names)?;
                self.resolve_text(namespace, &change.filter)?;
                if *upsert {
                    check_upsert_filter(&change.filter)?;
                }
                self.find_and_update(
                    namespace,
                    &find,
                    &change,
                    *upsert,
                    *return_new,
                    request.bypass_validation,
                )
            }
        };
        let outcome = outcome.and_then(|outcome| project(outcome, projection.as_ref()));
        let outcome = outcome.map_err(while_running)?;
        Ok(outcome)
    }

    fn find_and_remove(
        &self,
        namespace: &Namespace,
        find: &FindRequest<'_>,
        filter: &Filter,
    ) -> Result<FindAndModifyOutcome> {
        let decide =
            |document: &RawDocument| Ok(filter.matches(document)?.then_some(Change::Remove));
        let removed = self.modify_first(namespace, find, true, &decide)?;
        Ok(FindAndModifyOutcome {
            n: i32::from(removed.is_some()),
            value: removed.map(|applied| applied.before),
            ..FindAndModifyOutcome::default()
        })
    }

    fn find_and_update(
        &self,
        namespace: &Namespace,
        find: &FindRequest<'_>,
        change: &Modification,
        upsert: bool,
        return_new: bool,
        bypass_validation: bool,
    ) -> Result<FindAndModifyOutcome> {
        let decide = |document: &RawDocument| change.decide(document);
        for _ in 0..ATTEMPTS_MAX {
            if let Some(applied) = self.modify_first(namespace, find, bypass_validation, &decide)? {
                let value = match (return_new, applied.change) {
                    (true, Change::Replace(after)) => after,
                    _ => applied.before,
                };
                return Ok(FindAndModifyOutcome {
                    value: Some(value),
                    n: 1,
                    updated_existing: Some(true),
                    upserted: None,
                });
            }
            if !upsert {
                break;
            }
            if let Some(inserted) = self.upsert(namespace, change, bypass_validation)? {
                return Ok(FindAndModifyOutcome {
                    upserted: id_of(&inserted),
                    value: return_new.then_some(inserted),
                    n: 1,
                    updated_existing: Some(false),
                });
            }
        }
        Ok(FindAndModifyOutcome {
            updated_existing: Some(false),
            ..FindAndModifyOutcome::default()
        })
    }

    /// The first documents that match, as they are now: what a background job works on.
    pub(crate) fn find_targets(
        &self,
        namespace: &Namespace,
        filter: &RawDocument,
        collation: &Collation,
        count_max: usize,
    ) -> Result<Vec<Target>> {
        let find = FindRequest {
            counts: false,
            collation: Some(collation.clone()),
            limit: Some(count_max as u64),
            ..FindRequest::new(filter)
        };
        match self.prepare(namespace, query_spec(&find)?, &Goal::Rows)? {
            Some(prepared) => next_targets(prepared.rows()?.as_mut(), count_max),
            None => Ok(Vec::new()),
        }
    }

    /// Changes the first document that matches. Looks again when it vanished or changed in between.
    pub(super) fn modify_first(
        &self,
        namespace: &Namespace,
        find: &FindRequest<'_>,
        bypass_validation: bool,
        decide: &dyn Fn(&RawDocument) -> Result<Option<Change>>,
    ) -> Result<Option<AppliedChange>> {
        for _ in 0..ATTEMPTS_MAX {
            operation::check()?;
            // Given back before the write: its snapshot would only keep old versions.
            let first = FindRequest {
                limit: Some(1),
                ..find.clone()
            };
            let Some(found) = self.rows_for_write(namespace, &first)? else {
                return Ok(None);
            };
            let FoundRows {
                collection,
                mut rows,
            } = found;
            let targets = next_targets(rows.as_mut(), 1)?;
            drop(rows);
            if targets.is_empty() {
                return Ok(None);
            }
            let mut found = None;
            let report = &mut |applied| found = Some(applied);
            let modified =
                self.writer
                    .modify(&collection, &targets, bypass_validation, decide, report);
            match modified {
                // Nothing was changed: what has the name now is looked at.
                Err(error) if error.code == Code::QueryPlanKilled => {}
                modified => modified?,
            }
            if found.is_some() {
                return Ok(found);
            }
        }
        Err(Error::new(
            Code::WriteConflict,
            "the document was changed by others again and again; try once more",
        ))
    }

    /// Changes every document that matches in one snapshot, batch by batch.
    fn modify_all(
        &self,
        namespace: &Namespace,
        find: &FindRequest<'_>,
        bypass_validation: bool,
        decide: &dyn Fn(&RawDocument) -> Result<Option<Change>>,
        report: &mut dyn FnMut(&AppliedChange),
    ) -> Result<()> {
        let Some(mut found) = self.rows_for_write(namespace, find)? else {
            return Ok(());
        };
        loop {
            operation::check()?;
            let targets = next_targets(found.rows.as_mut(), BATCH_DOCUMENTS)?;
            if targets.is_empty() {
                return Ok(());
            }
            let report = &mut |applied| report(&applied);
            self.writer.modify(
                &found.collection,
                &targets,
                bypass_validation,
                decide,
                report,
            )?;
        }
    }

    /// Inserts the document that an upsert makes. `None` when another writer was faster, so that the
    /// statement must look again.
    fn upsert(
        &self,
        namespace: &Namespace,
        change: &Modification,
        bypass_validation: bool,
    ) -> Result<Option<RawDocumentBuf>> {
        let document = with_id(upsert_document(&change.filter, &change.update)?);
        let options = InsertOptions {
            ordered: true,
            bypass_validation,
            ..InsertOptions::default()
        };
        let outcome = self.writer.insert(namespace, &[&document], &options)?;
        let Some(failure) = outcome.errors.into_iter().next() else {
            return Ok(Some(document));
        };
        let raced = failure.error.code == Code::DuplicateKey && {
            let find = FindRequest {
                counts: false,
                collation: Some(change.collation.clone()),
                ..FindRequest::new(&change.filter_source)
            };
            match self.rows_for_write(namespace, &find)? {
                Some(mut found) => found.rows.advance()?,
                None => false,
            }
        };
        if raced { Ok(None) } else { Err(failure.error) }
    }
}

/// What the expressions of an update may name.
#[derive(Clone, Copy)]
struct Names<'a> {
    /// By what they compare texts.
    collation: &'a Collation,
    /// The command's `let`.
    variables: Option<&'a RawDocument>,
    /// The statement's `c`.
    constants: Option<&'a RawDocument>,
}

fn with_constants(mut scope: VariableScope, constants: &RawDocument) -> Result<VariableScope> {
    for constant in constants.iter() {
        let (name, value) = constant.map_err(malformed)?;
        if BUILTIN_VARIABLES.contains(&name.as_str()) {
            let message = "Can't redefine a non-user-writable variable";
            return Err(Error::location(17275, message));
        }
        scope = scope.with(name.as_str(), &Value::from(value))?;
    }
    Ok(scope)
}

/// What MongoDB writes before an error that comes up while `findAndModify` runs. What the planner
/// refuses has words of its own.
fn while_running(mut error: Error) -> Error {
    let of_planner =
        error.message.starts_with("error processing query") || error.message.contains("$natural");
    if !of_planner {
        error.message.insert_str(
            0,
            "Plan executor error during findAndModify :: caused by :: ",
        );
    }
    error
}

/// The shape of the document in the answer of a `findAndModify`, whose order is checked with it.
fn answer_shape(
    request: &FindAndModifyRequest<'_>,
    filter: &Filter,
    scope: &VariableScope,
) -> Result<Option<Projection>> {
    let measure = Measure::of(filter, filter.nearest()?.as_ref());
    let search = measure.as_ref().map(Measure::search);
    let of_query = scope.with_metadata(MetadataScope::Of(search));
    let of_fields = if search.is_some() { &of_query } else { scope };
    let projection = request.fields.map(|fields| {
        let projection = Projection::parse_with(fields, Some(filter), of_fields)?;
        Ok::<_, Error>(projection.located_by(filter).measured_by(measure))
    });
    let projection = projection.transpose()?;
    // Refused before anything runs, so without the words of a running plan.
    refuse_position_after(&request.action, projection.as_ref())?;
    let sort = request.sort.map(|sort| Sort::parse_with(sort, &of_query));
    sort.transpose()?;
    Ok(projection)
}

/// A parsed filter and update.
struct Modification {
    filter: Filter,
    filter_source: RawDocumentBuf,
    collation: Collation,
    update: Update,
}

impl Modification {
    fn parse(
        filter: &RawDocument,
        update: RawBsonRef<'_>,
        array_filters: &[&RawDocument],
        names: Names<'_>,
    ) -> Result<Self> {
        let context = parse_context(names.variables, names.collation)?;
        let filter_parsed = Filter::parse_with(filter, &context)?;
        let is_pipeline = matches!(update, RawBsonRef::Array(_));
        let scope = match names.constants {
            None => context.scope,
            Some(_) if !is_pipeline => {
                return Err(Error::location(
                    51198,
                    "Constant values may only be specified for pipeline updates",
                ));
            }
            Some(constants) => with_constants(context.scope, constants)?,
        };
        Ok(Self {
            update: Update::parse(update, array_filters, &scope)?,
            filter: filter_parsed,
            filter_source: filter.to_owned(),
            collation: names.collation.clone(),
        })
    }

    fn decide(&self, document: &RawDocument) -> Result<Option<Change>> {
        if !self.filter.matches(document)? {
            return Ok(None);
        }
        let position = if self.update.needs_array_position() {
            self.filter.array_position(document)?
        } else {
            None
        };
        Ok(Some(
            match self.update.apply(document, position, ApplyMode::Update)? {
                UpdateResult::Unchanged => Change::Keep,
                UpdateResult::Changed(after) => Change::Replace(after),
            },
        ))
    }
}

fn next_targets(rows: &mut dyn Rows, count_max: usize) -> Result<Vec<Target>> {
    let mut targets = Vec::new();
    let mut bytes = 0;
    while targets.len() < count_max && bytes < BATCH_BYTES && rows.advance()? {
        let row = rows.row();
        bytes += row.document.as_bytes().len();
        targets.push(Target {
            id: row.id.to_vec(),
            document: row.document.to_owned(),
        });
    }
    Ok(targets)
}

fn with_id(document: RawDocumentBuf) -> RawDocumentBuf {
    if matches!(document.get("_id"), Ok(Some(_))) {
        return document;
    }
    let mut identified = RawDocumentBuf::new();
    identified.append(cstr!("_id"), ObjectId::new());
    for (key, value) in document.iter().flatten() {
        identified.append(key, value);
    }
    identified
}

fn id_of(document: &RawDocument) -> Option<Bson> {
    document
        .get("_id")
        .ok()
        .flatten()
        .and_then(|id| Bson::try_from(id).ok())
}

/// Refuses `a.$` of the new document: the filter matched an element of the old one.
fn refuse_position_after(
    action: &FindAndModifyAction<'_>,
    projection: Option<&Projection>,
) -> Result<()> {
    let returns_new = matches!(
        action,
        FindAndModifyAction::Update {
            return_new: true,
            ..
        }
    );
    if returns_new && projection.is_some_and(Projection::is_positional) {
        return Err(Error::bad_value(
            "cannot use a positional projection and return the new document",
        ));
    }
    Ok(())
}

fn project(
    mut outcome: FindAndModifyOutcome,
    projection: Option<&Projection>,
) -> Result<FindAndModifyOutcome> {
    if let (Some(projection), Some(value)) = (projection, &outcome.value) {
        let position = projection.array_position(value)?;
        outcome.value = Some(projection.apply(value, position)?);
    }
    Ok(outcome)
}
