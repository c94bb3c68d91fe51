//! What a client asks to change, parsed once: replacements, operators, pipelines.
//!
//! In: the `u` of an update and its `arrayFilters`. Out: an [`Update`] that is applied to raw
//! documents, and the document that an upsert inserts. Operators become a tree of path parts
//! that is walked beside each document; bytes of what does not change are copied.
//! Nothing here reads storage or knows indexes. Semantics, order of new fields, codes and
//! messages are MongoDB 6.0's (`answers.jsonl` holds what a real one answered).
//!
//! The way through: `parse` and `path` → `tree` → `apply` → `operators` → `raw`.

#[cfg(test)]
mod answers;
mod apply;
mod array_filters;
mod id;
mod operators;
mod parse;
mod path;
mod pipeline;
mod raw;
mod replace;
mod tree;
mod upsert;

pub(crate) use id::check_names as check_id_names;
pub use operators::next_timestamp;
pub use pipeline::PipelineUpdate;
pub use replace::Replacement;
pub use tree::compare_names;
pub use upsert::{check_upsert_filter, upsert_document};

use crate::error::malformed;
use crate::error::{Code, Error, Result};
use crate::expression::VariableScope;
use bson::raw::{RawBsonRef, RawDocument, RawDocumentBuf};

/// The largest document, in bytes: 16 MiB.
pub const SIZE_MAX: usize = 16 * 1024 * 1024;
/// How many levels of fields a stored document may have.
pub const DEPTH_MAX: usize = 180;

/// A parsed update.
#[derive(Debug)]
pub enum Update {
    /// A whole new document.
    Replacement(Replacement),
    /// `$set` and its kin.
    Operators(Operators),
    /// Aggregation stages over the document.
    Pipeline(PipelineUpdate),
}

/// Update operators, as a tree by path.
#[derive(Debug)]
pub struct Operators {
    tree: tree::FieldsNode,
    filters: array_filters::ArrayFilters,
    is_positional: bool,
}

/// What an update is applied to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ApplyMode {
    /// A stored document.
    Update,
    /// The document that an upsert is about to insert: `$setOnInsert` counts.
    InsertOnUpsert,
}

/// The result of an update.
#[derive(Debug, Clone, PartialEq)]
pub enum Applied {
    /// The document stays as it is: matched, not modified.
    Unchanged,
    /// The new document. MongoDB counts a modification even where its bytes are the old ones.
    Changed(RawDocumentBuf),
}

impl Update {
    /// Parses the `u` of an update with its `arrayFilters`; `scope` holds the variables that a
    /// pipeline may name (`let`, `c`).
    ///
    /// # Errors
    /// MongoDB's, `FailedToParse` (9) and `BadValue` (2) mostly.
    pub fn parse(
        update: RawBsonRef<'_>,
        array_filters: &[&RawDocument],
        scope: &VariableScope,
    ) -> Result<Self> {
        match update {
            RawBsonRef::Document(document) => {
                let first = document.iter().next().transpose().map_err(malformed)?;
                if first.is_some_and(|(name, _)| name.as_str().starts_with('$')) {
                    Ok(Self::Operators(parse::parse_operators(
                        document,
                        array_filters,
                        scope.collation(),
                    )?))
                } else {
                    // (It has no use for them, but what is wrong with them is told.)
                    array_filters::ArrayFilters::parse(array_filters, scope.collation())?;
                    Ok(Self::Replacement(Replacement::parse(document)?))
                }
            }
            RawBsonRef::Array(_) if !array_filters.is_empty() => Err(Error::failed_to_parse(
                "arrayFilters may not be specified for pipeline-style updates",
            )),
            RawBsonRef::Array(stages) => Ok(Self::Pipeline(PipelineUpdate::parse(stages, scope)?)),
            _ => Err(Error::failed_to_parse(
                "Update argument must be either an object or an array",
            )),
        }
    }

    /// Refuses an update whose fault fails the whole command and not only its statement: neither
    /// document nor pipeline, a stage that is not one document, or an unknown stage.
    ///
    /// # Errors
    /// `FailedToParse`, `TypeMismatch`, 40323 or 40324.
    pub fn check_shape(update: RawBsonRef<'_>) -> Result<()> {
        match update {
            RawBsonRef::Document(_) => Ok(()),
            RawBsonRef::Array(stages) => pipeline::check_shape(stages),
            _ => Err(Error::failed_to_parse(
                "Update argument must be either an object or an array",
            )),
        }
    }

    /// Refuses stages that an update may not have.
    ///
    /// # Errors
    /// `InvalidOptions`.
    pub fn check_stages(stages: &[RawDocumentBuf]) -> Result<()> {
        stages
            .iter()
            .try_for_each(|stage| pipeline::check_allowed(stage))
    }

    /// Refuses `multi: true` for a replacement.
    ///
    /// # Errors
    /// `FailedToParse`.
    pub fn check_multi(&self) -> Result<()> {
        match self {
            Self::Replacement(_) => Err(Error::failed_to_parse(
                "multi update is not supported for replacement-style update",
            )),
            Self::Operators(_) | Self::Pipeline(_) => Ok(()),
        }
    }

    /// Whether a path has `$`, so that [`apply`](Self::apply) wants the matched array position.
    pub fn needs_array_position(&self) -> bool {
        matches!(self, Self::Operators(operators) if operators.is_positional)
    }

    /// Applies the update to a document. `array_position` is the index, in the outermost array,
    /// of the element that the query matched.
    ///
    /// # Errors
    /// MongoDB's: values of a wrong type, paths that lead nowhere, an altered `_id`, a document
    /// that would be larger than [`SIZE_MAX`] (17419) or deeper than [`DEPTH_MAX`].
    pub fn apply(
        &self,
        document: &RawDocument,
        array_position: Option<usize>,
        mode: ApplyMode,
    ) -> Result<Applied> {
        let applied = self.apply_unbounded(document, array_position, mode)?;
        match &applied {
            Applied::Changed(new) if new.as_bytes().len() > SIZE_MAX => Err(Error::location(
                17419,
                format!("Resulting document after update is larger than {SIZE_MAX}"),
            )),
            _ => Ok(applied),
        }
    }

    fn apply_unbounded(
        &self,
        old: &RawDocument,
        array_position: Option<usize>,
        mode: ApplyMode,
    ) -> Result<Applied> {
        match self {
            Self::Operators(Operators { tree, filters, .. }) => {
                match apply::apply(tree, filters, old, array_position, mode)? {
                    Some(bytes) => Ok(Applied::Changed(document(bytes)?)),
                    None => Ok(Applied::Unchanged),
                }
            }
            Self::Replacement(replacement) => replacement.apply(old, mode),
            Self::Pipeline(pipeline) => pipeline.apply(old, mode),
        }
    }
}

/// Bytes that were written here, as a document.
fn document(bytes: Vec<u8>) -> Result<RawDocumentBuf> {
    RawDocumentBuf::from_bytes(bytes)
        .map_err(|error| Error::new(Code::InternalError, error.to_string()))
}

/// Refuses a document that is nested too deeply.
fn check_depth(document: &RawDocument) -> Result<()> {
    if raw::depth(RawBsonRef::Document(document)) > DEPTH_MAX {
        Err(too_deep())
    } else {
        Ok(())
    }
}

fn too_deep() -> Error {
    Error::new(
        Code::Overflow,
        format!("Document exceeds maximum nesting depth of {DEPTH_MAX}"),
    )
}

/// The refusal of a top-level field whose name begins with a dollar sign.
fn dollar_field(name: &str) -> Error {
    Error::new(
        Code::DollarPrefixedFieldName,
        format!(
            "The dollar ($) prefixed field '{name}' in '{name}' is not allowed in the context of an update's replacement document. Consider using an aggregation pipeline with $replaceWith."
        ),
    )
}
