//! A pipeline as an update: `[{$set: {...}}, {$unset: ...}]`.
//!
//! In: stages that make one document of one document. Out: the document they make, under the
//! old `_id` where they make none.

use super::{Applied, ApplyMode, id};
use crate::aggregate::{Pipeline, Stage};
use crate::error::malformed;
use crate::error::{Code, Error, Result};
use crate::expression::{VariableScope, Variables};
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
/// MongoDB's codes for a stage that is not one field, and for one that it does not know.
const FAULTS_OF_SHAPE: [Code; 2] = [Code::Location(40323), Code::Location(40324)];

/// A parsed pipeline of the stages that an update may have.
#[derive(Debug)]
pub struct PipelineUpdate {
    stages: Vec<Stage>,
    /// `$$NOW` is one time for the whole update.
    variables: Variables,
}

impl PipelineUpdate {
    /// Parses the stages, which may name the variables in scope.
    ///
    /// # Errors
    /// Those of [`check_shape`], `InvalidOptions` for a stage that is not for updates, and the
    /// stages' own.
    pub(super) fn parse(stages: &RawArray, scope: &VariableScope) -> Result<Self> {
        check_shape(stages)?;
        let documents = documents(stages)?;
        documents
            .iter()
            .try_for_each(|stage| check_allowed(stage))?;
        let stages = Pipeline::parse_with(&documents, &scope.clone().deferring_faults())?.stages;
        Ok(Self {
            stages,
            variables: scope.variables(bson::DateTime::now()),
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

/// Refuses what is not a list of stages, whatever they do.
///
/// # Errors
/// `TypeMismatch`, 40323 or 40324.
pub(super) fn check_shape(stages: &RawArray) -> Result<()> {
    for stage in documents(stages)? {
        let is_allowed = stage_name(stage)?.is_some_and(|name| ALLOWED.contains(&name));
        if is_allowed && stage.iter().nth(1).is_none() {
            continue;
        }
        match Pipeline::parse(&[stage]) {
            Err(error) if FAULTS_OF_SHAPE.contains(&error.code) => return Err(error),
            _ => (),
        }
    }
    Ok(())
}

fn documents(stages: &RawArray) -> Result<Vec<&RawDocument>> {
    stages
        .into_iter()
        .map(|stage| match stage.map_err(malformed)? {
            RawBsonRef::Document(stage) => Ok(stage),
            _ => Err(Error::type_mismatch(
                "Each element of the 'pipeline' array must be an object",
            )),
        })
        .collect()
}

fn stage_name(stage: &RawDocument) -> Result<Option<&str>> {
    let first = stage.iter().next().transpose().map_err(malformed)?;
    Ok(first.map(|(name, _)| name.as_str()))
}

/// Refuses a stage that an update may not have.
pub(super) fn check_allowed(stage: &RawDocument) -> Result<()> {
    match stage_name(stage)?.filter(|name| !ALLOWED.contains(name)) {
        Some(name) => Err(not_allowed(name)),
        None => Ok(()),
    }
}

fn not_allowed(name: &str) -> Error {
    Error::new(
        Code::InvalidOptions,
        format!("{name} is not allowed to be used within an update"),
    )
}
