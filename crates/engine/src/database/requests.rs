//! The typed requests that commands make of the engine.

use crate::expression::VariableScope;
use crate::query::ParseContext;
use bson::raw::{RawBsonRef, RawDocument, RawDocumentBuf};
use bson::{Bson, DateTime};
use meridian_value::Collation;

/// `find`.
#[derive(Debug, Clone)]
pub struct FindRequest<'a> {
    /// By what texts are compared, if not as the collection says.
    pub collation: Option<Collation>,
    /// What must match.
    pub filter: &'a RawDocument,
    /// The shape of the answer.
    pub projection: Option<&'a RawDocument>,
    /// The order of the answer.
    pub sort: Option<&'a RawDocument>,
    /// Rows to leave out at the beginning.
    pub skip: u64,
    /// Rows to return at most; 0 means no limit, as `None` does.
    pub limit: Option<u64>,
    /// The index to use, by name or key.
    pub hint: Option<RawBsonRef<'a>>,
    /// Whether a sort may use temporary files. Without them a sort beyond its memory is refused.
    pub allow_disk_use: bool,
    /// Variables of the command (`let`).
    pub variables: Option<&'a RawDocument>,
    /// All that match of a capped collection, and those that come later.
    pub tailable: bool,
    /// A tailable cursor that has no more waits for a while.
    pub await_data: bool,
    /// The first key of the hinted index, ...
    pub min: Option<&'a RawDocument>,
    /// ... and the first one behind those that are wanted.
    pub max: Option<&'a RawDocument>,
    /// Answers with the entries by which documents are found, in their place.
    pub return_key: bool,
    /// Adds what each document lies under.
    pub show_record_id: bool,
    /// Whether its operators are counted: not those of a statement that was parsed before.
    pub counts: bool,
}

impl<'a> FindRequest<'a> {
    /// Everything that matches, in any order.
    pub fn new(filter: &'a RawDocument) -> Self {
        Self {
            collation: None,
            filter,
            projection: None,
            sort: None,
            skip: 0,
            limit: None,
            hint: None,
            allow_disk_use: true,
            variables: None,
            tailable: false,
            await_data: false,
            min: None,
            max: None,
            return_key: false,
            show_record_id: false,
            counts: true,
        }
    }
}

/// `count`.
#[derive(Debug, Clone)]
pub struct CountRequest<'a> {
    /// By what texts are compared, if not as the collection says.
    pub collation: Option<Collation>,
    /// What must match.
    pub filter: &'a RawDocument,
    /// Documents not to count at the beginning.
    pub skip: u64,
    /// The greatest answer.
    pub limit: Option<u64>,
    /// The index to use, by name or key.
    pub hint: Option<RawBsonRef<'a>>,
}

/// `distinct`.
#[derive(Debug, Clone)]
pub struct DistinctRequest<'a> {
    /// By what texts are compared, if not as the collection says.
    pub collation: Option<Collation>,
    /// The path whose values are asked for.
    pub key: &'a str,
    /// Which documents.
    pub filter: &'a RawDocument,
    /// The index to use, by name or key.
    pub hint: Option<RawBsonRef<'a>>,
}

/// Where an aggregation reads.
#[derive(Debug, Clone)]
pub enum AggregateTarget {
    /// A collection.
    Collection(crate::Namespace),
    /// A whole database (`aggregate: 1`), for stages that make their own documents.
    Database(String),
}

/// `aggregate`.
#[derive(Debug, Clone)]
pub struct AggregateRequest<'a> {
    /// By what texts are compared, if not as the collection says.
    pub collation: Option<Collation>,
    /// The stages.
    pub pipeline: Vec<&'a RawDocument>,
    /// The index to use, by name or key.
    pub hint: Option<RawBsonRef<'a>>,
    /// Variables of the command (`let`).
    pub variables: Option<&'a RawDocument>,
    /// Whether blocking stages may use more than their memory limit.
    pub allow_disk_use: bool,
    /// Whether `$out` and `$merge` skip validators.
    pub bypass_validation: bool,
    /// What `$indexStats` calls this server.
    pub host: &'a str,
    /// What `$collStats` tells of latencies, where it is asked.
    pub latencies: Option<RawDocumentBuf>,
}

impl<'a> AggregateRequest<'a> {
    /// A pipeline without options.
    pub fn new(pipeline: impl IntoIterator<Item = &'a RawDocumentBuf>) -> Self {
        Self {
            collation: None,
            pipeline: pipeline.into_iter().map(AsRef::as_ref).collect(),
            hint: None,
            variables: None,
            allow_disk_use: true,
            bypass_validation: false,
            host: "",
            latencies: None,
        }
    }
}

/// One statement of `update`.
#[derive(Debug, Clone)]
pub struct UpdateStatement<'a> {
    /// By what texts are compared, if not as the collection says: as it was written, since what is wrong with it
    /// is the statement's own error.
    pub collation: Option<&'a RawDocument>,
    /// Which documents.
    pub filter: &'a RawDocument,
    /// Operators, a replacement or a pipeline.
    pub update: RawBsonRef<'a>,
    /// All that match, or only the first.
    pub multi: bool,
    /// Insert a document when none matches.
    pub upsert: bool,
    /// Conditions of `$[identifier]`.
    pub array_filters: Vec<&'a RawDocument>,
    /// The index to use, by name or key.
    pub hint: Option<RawBsonRef<'a>>,
    /// Variables of the command (`let`).
    pub variables: Option<&'a RawDocument>,
    /// Values that a pipeline may name as variables (`c`).
    pub constants: Option<&'a RawDocument>,
    /// Skip the collection's validator.
    pub bypass_validation: bool,
}

impl<'a> UpdateStatement<'a> {
    /// Updates all that match, inserts nothing.
    pub fn new(filter: &'a RawDocument, update: &'a RawDocument) -> Self {
        Self {
            collation: None,
            filter,
            update: RawBsonRef::Document(update),
            multi: true,
            upsert: false,
            array_filters: Vec::new(),
            hint: None,
            variables: None,
            constants: None,
            bypass_validation: false,
        }
    }
}

/// What an update did.
#[derive(Debug, Clone, Default)]
pub struct UpdateOutcome {
    /// Documents that matched.
    pub matched: i64,
    /// Documents that are different now.
    pub modified: i64,
    /// The `_id` of the document that was inserted because none matched.
    pub upserted_id: Option<Bson>,
}

/// One statement of `delete`.
#[derive(Debug, Clone, Copy)]
pub struct DeleteStatement<'a> {
    /// By what texts are compared, if not as the collection says: as it was written, since what is wrong with it
    /// is the statement's own error.
    pub collation: Option<&'a RawDocument>,
    /// Which documents.
    pub filter: &'a RawDocument,
    /// Only the first that matches.
    pub limit_one: bool,
    /// The index to use, by name or key.
    pub hint: Option<RawBsonRef<'a>>,
    /// Variables of the command (`let`).
    pub variables: Option<&'a RawDocument>,
}

impl<'a> DeleteStatement<'a> {
    /// Deletes all that match.
    pub fn new(filter: &'a RawDocument) -> Self {
        Self {
            collation: None,
            filter,
            limit_one: false,
            hint: None,
            variables: None,
        }
    }
}

/// `findAndModify`.
#[derive(Debug, Clone)]
pub struct FindAndModifyRequest<'a> {
    /// By what texts are compared, if not as the collection says.
    pub collation: Option<Collation>,
    /// Which document.
    pub filter: &'a RawDocument,
    /// Which one, when several match: the first in this order.
    pub sort: Option<&'a RawDocument>,
    /// What becomes of it.
    pub action: FindAndModifyAction<'a>,
    /// The shape of the document in the answer.
    pub fields: Option<&'a RawDocument>,
    /// The index to use, by name or key.
    pub hint: Option<RawBsonRef<'a>>,
    /// Variables of the command (`let`).
    pub variables: Option<&'a RawDocument>,
    /// Skip the collection's validator.
    pub bypass_validation: bool,
}

/// What `findAndModify` does with the document it finds.
#[derive(Debug, Clone)]
pub enum FindAndModifyAction<'a> {
    /// Deletes it.
    Remove,
    /// Changes it.
    Update {
        /// Operators, a replacement or a pipeline.
        update: RawBsonRef<'a>,
        /// Conditions of `$[identifier]`.
        array_filters: Vec<&'a RawDocument>,
        /// Insert a document when none matches.
        upsert: bool,
        /// Answer with the document after the change, not before.
        return_new: bool,
    },
}

/// What `findAndModify` did.
#[derive(Debug, Clone, Default)]
pub struct FindAndModifyOutcome {
    /// The document before or after, projected.
    pub value: Option<RawDocumentBuf>,
    /// Documents changed: 0 or 1.
    pub n: i32,
    /// Whether a document that existed was updated; `None` for a removal.
    pub updated_existing: Option<bool>,
    /// The `_id` of the document that was inserted.
    pub upserted: Option<Bson>,
}

/// A statement to explain.
#[derive(Debug, Clone)]
pub enum ExplainRequest<'a> {
    /// `find`.
    Find(FindRequest<'a>),
    /// `count`.
    Count(CountRequest<'a>),
    /// `distinct`.
    Distinct(DistinctRequest<'a>),
    /// `aggregate`.
    Aggregate(AggregateRequest<'a>),
    /// `update`, its first statement.
    Update(UpdateStatement<'a>),
    /// `delete`, its first statement.
    Delete(DeleteStatement<'a>),
    /// `findAndModify`.
    FindAndModify(FindAndModifyRequest<'a>),
}

impl ExplainRequest<'_> {
    /// By what the statement says texts are compared.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(crate) fn collation(&self) -> crate::Result<Option<Collation>> {
        Ok(match self {
            Self::Find(request) => request.collation.clone(),
            Self::Count(request) => request.collation.clone(),
            Self::Distinct(request) => request.collation.clone(),
            Self::Aggregate(request) => request.collation.clone(),
            Self::FindAndModify(request) => request.collation.clone(),
            Self::Update(statement) => written(statement.collation)?,
            Self::Delete(statement) => written(statement.collation)?,
        })
    }
}

/// The collation of a statement that writes.
///
/// # Errors
/// What is wrong with it.
pub(crate) fn written(collation: Option<&RawDocument>) -> crate::Result<Option<Collation>> {
    let said = collation.filter(|written| !written.is_empty());
    said.map(|written| crate::collation::parse("collation", written))
        .transpose()
}

/// How much `explain` tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verbosity {
    /// The plan.
    QueryPlanner,
    /// The plan, and what running it examined.
    ExecutionStats,
    /// As `ExecutionStats`; Meridian makes no trial runs.
    AllPlansExecution,
}

impl Verbosity {
    /// Whether the plan is run.
    pub fn runs(self) -> bool {
        self != Self::QueryPlanner
    }
}

/// The variables of a command's `let`, and by what its expressions compare texts.
///
/// # Errors
/// What a variable's expression is refused with.
pub(crate) fn scope(
    variables: Option<&RawDocument>,
    collation: &Collation,
) -> crate::Result<VariableScope> {
    let scope = match variables {
        None => VariableScope::new(collation.clone()),
        Some(variables) => VariableScope::from_let(variables, collation.clone())?,
    };
    Ok(scope.counting(true))
}

/// What the expressions of a command may refer to: the variables of its `let`, and one time for
/// `$$NOW`.
///
/// # Errors
/// What a variable's expression is refused with.
pub(crate) fn parse_context(
    variables: Option<&RawDocument>,
    collation: &Collation,
) -> crate::Result<ParseContext> {
    let scope = scope(variables, collation)?;
    Ok(ParseContext {
        variables: Some(scope.variables(DateTime::now())),
        scope,
        allows_near: true,
        allows_where: true,
        allows_text: true,
    })
}
