//! A pipeline as an update: `[{$set: {...}}, {$unset: ...}]`.

use super::ApplyMode;
use crate::error::{Error, Result};
use bson::raw::{RawArray, RawDocument, RawDocumentBuf};

/// A parsed pipeline of the stages that an update may have.
#[derive(Debug)]
pub struct PipelineUpdate {}

impl PipelineUpdate {
    /// Parses the stages.
    pub(super) fn parse(_stages: &RawArray, _variables: Option<&RawDocument>) -> Result<Self> {
        Err(Error::not_implemented("a pipeline as an update"))
    }

    /// The document that the stages make of another one.
    pub(super) fn apply(&self, _old: &RawDocument, _mode: ApplyMode) -> Result<RawDocumentBuf> {
        Err(Error::not_implemented("a pipeline as an update"))
    }
}
