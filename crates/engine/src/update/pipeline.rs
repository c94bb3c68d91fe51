//! A pipeline as an update: `[{$set: {...}}, {$unset: ...}]`.
//!
//! In: stages that make one document of one document. Out: the document they make, under the
//! old `_id` where they make none.

use super::{Applied, ApplyMode, id};
use crate::aggregate::{Pipeline, Stage, VariableScope, Variables};
use crate::error::{Code, Error, Result};
use crate::query::malformed;
use bson::raw::{RawArray, RawBsonRef, RawDocument};
use std::borrow::Cow;

/// The stages an update may have.
const ALLOWED: [&str; 6] = [
    "$addFields",
    "$project",
    "$replaceRoot",
    "$replaceWith",
    "$set",
    "$unset",
];
/// MongoDB's code for a stage that it does not know.
const UNKNOWN_STAGE: Code = Code::Location(40324);

/// A parsed pipeline of the stages that an update may have.
#[derive(Debug)]
pub struct PipelineUpdate {
    stages: Vec<Stage>,
    /// `$$NOW` is one time for the whole update.
    variables: Variables,
}

impl PipelineUpdate {
    /// Parses the stages, which may name the command's variables.
    ///
    /// # Errors
    /// `TypeMismatch` where a stage is not a document, `InvalidOptions` for a stage that is
    /// not for updates, and the stages' own.
    pub(super) fn parse(stages: &RawArray, variables: Option<&RawDocument>) -> Result<Self> {
        let mut documents = Vec::new();
        for stage in stages {
            let RawBsonRef::Document(stage) = stage.map_err(malformed)? else {
                return Err(Error::type_mismatch(
                    "Each element of the 'pipeline' array must be an object",
                ));
            };
            documents.push(stage);
        }
        documents
            .iter()
            .try_for_each(|stage| check_allowed(stage))?;
        let scope =
            variables.map_or_else(|| Ok(VariableScope::default()), VariableScope::from_let)?;
        let stages = Pipeline::parse_with(&documents, &scope)?.stages;
        Ok(Self {
            stages,
            variables: Variables::default(),
        })
    }

    /// The document that the stages make of another one.
    pub(super) fn apply(&self, old: &RawDocument, mode: ApplyMode) -> Result<Applied> {
        let mut document = Cow::Borrowed(old);
        for stage in &self.stages {
            document = Cow::Owned(match stage {
                Stage::Set(transform) | Stage::Unset(transform) | Stage::Project(transform) => {
                    transform.apply(&document, &self.variables)?
                }
                Stage::ReplaceRoot(replace) => replace.apply(&document, &self.variables)?,
                other => return Err(not_allowed(other.name())),
            });
        }
        super::check_depth(&document)?;
        id::under_old_id(old, document, mode)
    }
}

/// Refuses a stage that is not for updates; what is wrong in another way is the parser's.
fn check_allowed(stage: &RawDocument) -> Result<()> {
    let Some(first) = stage.iter().next() else {
        return Ok(());
    };
    let name = first.map_err(malformed)?.0.as_str();
    if ALLOWED.contains(&name) {
        return Ok(());
    }
    match Pipeline::parse(&[stage]) {
        Err(error) if error.code == UNKNOWN_STAGE => Err(error),
        _ => Err(not_allowed(name)),
    }
}

fn not_allowed(name: &str) -> Error {
    Error::new(
        Code::InvalidOptions,
        format!("{name} is not allowed to be used within an update"),
    )
}
