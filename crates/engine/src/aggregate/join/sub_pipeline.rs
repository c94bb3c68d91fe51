//! The pipeline within a `$lookup` or a `$unionWith`.

use crate::aggregate::pipeline::Pipeline;
use crate::aggregate::stage::Stage;
use crate::error::{Code, Error, Result};
use crate::expression::{MetadataScope, VariableScope};
use bson::raw::{RawDocument, RawDocumentBuf};

/// MongoDB's `internalMaxSubPipelineViewDepth`; it bounds the stack, too.
const DEPTH_MAX: usize = 20;

/// Stages as they were given, and the variables that they may name.
#[derive(Debug, Clone)]
pub struct SubPipeline {
    documents: Vec<RawDocumentBuf>,
    scope: VariableScope,
    /// What it comes to where it depends on no variable of its own.
    parsed: Pipeline,
}

impl SubPipeline {
    /// Parses stages, in a scope that has at least the names of all variables. `refusal` is the code and the stage of which
    /// a stage that writes is refused.
    ///
    /// # Errors
    /// `MaxSubPipelineDepthExceeded`; those of the stages.
    pub fn parse(
        documents: Vec<RawDocumentBuf>,
        scope: &VariableScope,
        refusal: (i32, &str),
    ) -> Result<Self> {
        let scope = scope.within_pipeline();
        if scope.depth() > DEPTH_MAX {
            return Err(Error::new(
                Code::MaxSubPipelineDepthExceeded,
                format!("Maximum number of nested sub-pipelines exceeded. Limit is {DEPTH_MAX}"),
            ));
        }
        let stages: Vec<&RawDocument> = documents.iter().map(|one| &**one).collect();
        for stage in &stages {
            let name = stage.iter().flatten().next();
            if let Some(name @ ("$out" | "$merge")) = name.as_ref().map(|(name, _)| name.as_str()) {
                let (code, outer) = refusal;
                let message = format!("{name} is not allowed within a {outer}'s sub-pipeline");
                return Err(Error::location(code, message));
            }
        }
        let metadata = MetadataScope::of_pipeline(&stages);
        let scope = scope.with_metadata(metadata);
        let parsed = Pipeline::parse_with(&stages, &scope)?;
        Ok(Self {
            documents,
            scope,
            parsed,
        })
    }

    /// Whether the first stage brings its own documents.
    pub fn brings_documents(&self) -> bool {
        matches!(self.parsed.stages.first(), Some(Stage::Documents(_)))
    }

    /// The stages, where they name no variable of their own.
    pub fn parsed(&self) -> &Pipeline {
        &self.parsed
    }

    /// The stages with the values of their own variables.
    ///
    /// # Errors
    /// Those of the stages: what is constant now is computed.
    pub fn with_values(&self, values: VariableScope) -> Result<Pipeline> {
        let scope = self.scope.with_values(values);
        let stages: Vec<&RawDocument> = self.documents.iter().map(|one| &**one).collect();
        Pipeline::parse_with(&stages, &scope)
    }
}
