//! `$unionWith`: behind the documents of the input come those of another collection.

use super::{Foreign, ForeignDocuments, SubPipeline};
use crate::aggregate::pipeline::Pipeline;
use crate::error::{Code, Error, Result};
use crate::expression::value::corrupt;
use crate::expression::{VariableScope, Variables};
use crate::types::type_name;
use bson::raw::{RawBsonRef, RawDocumentBuf};

/// A parsed `$unionWith`.
#[derive(Debug, Clone)]
pub struct UnionWith {
    collection: Option<String>,
    pipeline: SubPipeline,
}

impl UnionWith {
    /// The other collection.
    pub fn collection(&self) -> Option<&str> {
        self.collection.as_deref()
    }

    /// The pipeline that runs on it.
    pub fn pipeline(&self) -> &Pipeline {
        self.pipeline.parsed()
    }

    /// Parses the operand.
    ///
    /// # Errors
    /// `FailedToParse`, `TypeMismatch`, 40415 and 31441, and those of the pipeline.
    pub fn parse(raw: RawBsonRef<'_>, scope: &VariableScope) -> Result<Self> {
        let (mut collection, mut stages) = (None, Vec::new());
        match raw {
            RawBsonRef::String(name) => collection = Some(name.to_owned()),
            RawBsonRef::Document(options) => {
                for entry in options.iter() {
                    let (name, value) = entry.map_err(corrupt)?;
                    match (name.as_str(), value) {
                        ("coll", RawBsonRef::Null) => {}
                        ("coll", RawBsonRef::String(name)) => collection = Some(name.to_owned()),
                        ("coll", other) => return Err(wrong_type("coll", other, "string")),
                        ("pipeline", RawBsonRef::Array(array)) => {
                            for (place, stage) in array.into_iter().enumerate() {
                                match stage.map_err(corrupt)? {
                                    RawBsonRef::Document(stage) => stages.push(stage.to_owned()),
                                    RawBsonRef::Null => {}
                                    other => {
                                        let name = format!("pipeline.{place}");
                                        return Err(wrong_type(&name, other, "object"));
                                    }
                                }
                            }
                        }
                        ("pipeline", RawBsonRef::Null) => {
                            let message = "invalid parameter: expected an object (pipeline)";
                            return Err(Error::location(10065, message));
                        }
                        ("pipeline", other) => return Err(wrong_type("pipeline", other, "array")),
                        (unknown, _) => {
                            return Err(Error::location(
                                40415,
                                format!("BSON field '$unionWith.{unknown}' is an unknown field."),
                            ));
                        }
                    }
                }
            }
            other => {
                return Err(Error::failed_to_parse(format!(
                    "the $unionWith stage specification must be an object or string, but found {}",
                    type_name(other.element_type())
                )));
            }
        }
        Self::checked(collection, stages, scope)
    }

    fn checked(
        collection: Option<String>,
        stages: Vec<RawDocumentBuf>,
        scope: &VariableScope,
    ) -> Result<Self> {
        if let Some(name) = collection.as_ref().filter(|name| name.starts_with('.')) {
            let message = format!("Collection names cannot start with '.': {name}");
            return Err(Error::new(Code::InvalidNamespace, message));
        }
        let pipeline = SubPipeline::parse(stages, scope, (31441, "$unionWith"))?;
        if collection.is_none() && !pipeline.brings_documents() {
            return Err(Error::failed_to_parse(
                "$unionWith stage without explicit collection must have a pipeline with $documents as first stage",
            ));
        }
        Ok(Self {
            collection,
            pipeline,
        })
    }

    /// The documents of the other collection.
    ///
    /// # Errors
    /// As [`Foreign::run`].
    pub fn documents(
        &self,
        foreign: &dyn Foreign,
        variables: &Variables,
    ) -> Result<ForeignDocuments> {
        let pipeline = self.pipeline.parsed().clone();
        foreign.run(self.collection.as_deref(), pipeline, variables)
    }
}

fn wrong_type(name: &str, value: RawBsonRef<'_>, expected: &str) -> Error {
    Error::type_mismatch(format!(
        "BSON field '$unionWith.{name}' is the wrong type '{}', expected type '{expected}'",
        type_name(value.element_type())
    ))
}
