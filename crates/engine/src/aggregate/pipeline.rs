//! A whole pipeline: parse, order of stages, and the few rewrites worth having.

use super::stage::{self, Stage};
use crate::error::{Error, Result};
use crate::expression::value::corrupt;
use crate::expression::{AskedMetadata, FieldSet, VariableScope};
use bson::raw::{RawBsonRef, RawDocument};
use std::collections::BTreeSet;

/// MongoDB's `internalPipelineLengthLimit`.
pub const STAGES_MAX: usize = 1000;

/// A parsed pipeline.
///
/// ```
/// use bson::rawdoc;
/// use meridian_engine::aggregate::{Pipeline, Stage};
///
/// let pipeline = Pipeline::parse(&[&rawdoc! { "$limit": 5 }]).unwrap();
/// assert!(matches!(pipeline.stages[..], [Stage::Limit(5)]));
/// ```
#[derive(Debug, Clone, Default)]
pub struct Pipeline {
    /// In order.
    pub stages: Vec<Stage>,
    /// What they ask for beside fields.
    pub asked: AskedMetadata,
}

impl Pipeline {
    /// Parses the documents of a `pipeline` array.
    ///
    /// # Errors
    /// 40323 where a document is not one stage, 40324 where it is no stage, 40601 and 40602
    /// where a stage stands in the wrong place, and the stages' own.
    pub fn parse(documents: &[&RawDocument]) -> Result<Self> {
        Self::parse_with(documents, &VariableScope::default())
    }

    /// As [`Pipeline::parse`], with the variables of the command's `let`.
    ///
    /// # Errors
    /// As [`Pipeline::parse`].
    pub fn parse_with(documents: &[&RawDocument], scope: &VariableScope) -> Result<Self> {
        let mut stages = Vec::new();
        for document in documents {
            stage::check_known(name_and_operand(document)?)?;
        }
        for document in documents {
            let (name, operand) = name_and_operand(document)?;
            stage::parse(name, operand, scope, &mut stages)?;
        }
        check_length(documents.len())?;
        Self::from_stages(stages, AskedMetadata::by_pipeline(documents))
    }

    /// Checks the places of stages, and applies the rewrites that need nothing but the stages.
    ///
    /// # Errors
    /// 40601, 40602 and 40603.
    fn from_stages(mut stages: Vec<Stage>, asked: AskedMetadata) -> Result<Self> {
        check_places(&stages)?;
        for stage in &mut stages {
            if let Stage::Sample { tells_random, .. } = stage {
                *tells_random = asked.random;
            }
        }
        Ok(Self {
            stages: take_unwinds(keep_only_needed(drop_overruled_sorts(stages))),
            asked,
        })
    }

    /// The pipeline behind the stages of another one.
    ///
    /// # Errors
    /// 40602 and 40603 where a stage must be the first.
    pub fn behind(self, mut before: Self) -> Result<Self> {
        before.stages.extend(self.stages);
        Self::from_stages(before.stages, before.asked.and(self.asked))
    }

    /// Hands the name of each other collection that the stages read to `visit`, those of nested pipelines too.
    pub fn for_each_foreign<'s>(&'s self, visit: &mut impl FnMut(&'s str)) {
        for stage in &self.stages {
            let (collection, pipelines) = stage.foreign();
            collection.into_iter().for_each(&mut *visit);
            for pipeline in pipelines {
                pipeline.for_each_foreign(visit);
            }
        }
    }

    /// The fields of the input that the pipeline reads.
    pub fn dependencies(&self) -> FieldSet {
        dependencies(&self.stages)
    }

    /// The last stage, where it writes.
    pub fn output(&self) -> Option<&Stage> {
        self.stages.last().filter(|stage| stage.is_output())
    }
}

/// The one field of a stage.
fn name_and_operand(stage: &RawDocument) -> Result<(&str, RawBsonRef<'_>)> {
    let mut entries = stage.iter();
    let (Some(entry), None) = (entries.next(), entries.next()) else {
        return Err(Error::location(
            40323,
            "A pipeline stage specification object must contain exactly one field.",
        ));
    };
    let (name, operand) = entry.map_err(corrupt)?;
    Ok((name.as_str(), operand))
}

/// The fields of the input that stages read.
pub fn dependencies<'s>(stages: impl IntoIterator<Item = &'s Stage>) -> FieldSet {
    let mut set = FieldSet::none();
    // Those that a stage made are not fields of the input.
    let mut made = BTreeSet::new();
    // Whether stages have added fields to the documents.
    let mut adds = false;
    for stage in stages {
        let (read, goes_on) = stage.dependencies();
        set.merge_without(read, &made);
        made.extend(stage.made_fields());
        if !goes_on {
            if adds && matches!(stage, Stage::Project(_)) {
                // Old and new fields stay in their order, which an index does not have.
                set.add_all();
            }
            return set;
        }
        adds |= !matches!(
            stage,
            Stage::Match(_)
                | Stage::Sort { .. }
                | Stage::Limit(_)
                | Stage::Skip(_)
                | Stage::Sample { .. }
        );
    }
    // What comes out is what came in.
    set.add_all();
    set
}

/// A document passes through the stages of a list one inside the other, so that their number bounds the stack.
fn check_length(stages: usize) -> Result<()> {
    if stages > STAGES_MAX {
        return Err(Error::failed_to_parse(format!(
            "Pipeline length must be no longer than {STAGES_MAX} stages"
        )));
    }
    Ok(())
}

fn check_places(stages: &[Stage]) -> Result<()> {
    for (index, stage) in stages.iter().enumerate() {
        if stage.is_output() && index + 1 != stages.len() {
            return Err(Error::location(
                40601,
                format!(
                    "{} can only be the final stage in the pipeline",
                    stage.name()
                ),
            ));
        }
        let is_first = || match index {
            0 => true,
            1 => matches!(stages[0], Stage::UnpackBucket(_)),
            _ => false,
        };
        if matches!(stage, Stage::GeoNear(_)) && !is_first() {
            return Err(Error::location(
                40603,
                "$geoNear is only valid as the first stage in an optimized pipeline",
            ));
        }
        if let (Stage::Match(filter), true) = (stage, index != 0)
            && filter.text().is_some()
        {
            return Err(Error::location(
                17313,
                "$match with $text is only allowed as the first pipeline stage",
            ));
        }
        if stage.is_source() && index != 0 {
            return Err(Error::location(
                40602,
                format!(
                    "{} is only valid as the first stage in a pipeline",
                    stage.name()
                ),
            ));
        }
    }
    Ok(())
}

/// A `$sort` right before another one has no say, as in MongoDB.
fn drop_overruled_sorts(stages: Vec<Stage>) -> Vec<Stage> {
    let mut kept: Vec<Stage> = Vec::with_capacity(stages.len());
    for stage in stages {
        if matches!(stage, Stage::Sort { .. }) {
            kept.pop_if(|before| matches!(before, Stage::Sort { .. }));
        }
        kept.push(stage);
    }
    kept
}

/// Tells a `$sort` how many documents the `$skip` and `$limit` behind it leave.
fn keep_only_needed(mut stages: Vec<Stage>) -> Vec<Stage> {
    for index in 0..stages.len() {
        let mut skipped = 0_u64;
        let mut needed = None;
        if !matches!(stages[index], Stage::Sort { .. }) {
            continue;
        }
        for behind in &stages[index + 1..] {
            match behind {
                Stage::Skip(skip) => skipped = skipped.saturating_add(*skip),
                Stage::Limit(limit) => {
                    needed = Some(limit.saturating_add(skipped));
                    break;
                }
                _ => break,
            }
        }
        if let Stage::Sort { limit, .. } = &mut stages[index] {
            *limit = needed;
        }
    }
    stages
}

/// Has a `$lookup` unwind what it finds, where a `$unwind` of it stands right behind.
fn take_unwinds(stages: Vec<Stage>) -> Vec<Stage> {
    let mut kept: Vec<Stage> = Vec::with_capacity(stages.len());
    for stage in stages {
        if let (Some(Stage::Lookup(lookup)), Stage::Unwind(unwind)) = (kept.last_mut(), &stage)
            && lookup.take_unwind(unwind)
        {
            continue;
        }
        kept.push(stage);
    }
    kept
}
