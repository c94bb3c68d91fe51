//! `$fill`, which becomes a `$setWindowFields` and a `$set`.

use super::push_stages;
use crate::aggregate::stage::Stage;
use crate::aggregate::stage_options::StageOptions;
use crate::aggregate::transform::Transform;
use crate::error::{Error, Result};
use crate::expression::VariableScope;
use crate::expression::value::{corrupt, field_name};
use bson::{RawBson, RawBsonRef, RawDocument, RawDocumentBuf, rawdoc};

/// The stages of a `$fill`.
///
/// # Errors
/// MongoDB's: 40414, 40415 and `TypeMismatch` for its shape, 6050200 to 6050204 for its outputs, and those of the stages.
pub fn parse_fill(raw: RawBsonRef<'_>, scope: &VariableScope, out: &mut Vec<Stage>) -> Result<()> {
    let options = StageOptions {
        stage: "$fill",
        names: &[
            ("partitionBy", &["object"]),
            ("partitionByFields", &["array"]),
            ("sortBy", &["object"]),
            ("output", &["object"]),
        ],
        required: &["output"],
    };
    let fields = options.parse(raw)?;
    let by_fields = match fields[1] {
        Some(RawBsonRef::Array(array)) => {
            let names = options.texts("partitionByFields", array)?;
            Some(partition_of(&names)?)
        }
        _ => None,
    };
    if fields[0].is_some() && by_fields.is_some() {
        return Err(Error::location(
            6_050_204,
            "Maximum one of 'partitionBy' and 'partitionByFields can be specified in '$fill'",
        ));
    }
    let sort = fields[2].and_then(RawBsonRef::as_document);
    let outputs = fields[3].and_then(RawBsonRef::as_document);
    let (functions, values) = parse_outputs(outputs)?;
    if !functions.is_empty() {
        let by_fields = by_fields.as_ref().filter(|fields| !fields.is_empty());
        let partition = fields[0].or(by_fields.map(|fields| RawBsonRef::Document(fields)));
        push_stages(partition, sort, &functions, scope, out)?;
    }
    if !values.is_empty() {
        let set = Transform::set("$addFields", RawBsonRef::Document(&values), scope)?;
        out.push(Stage::Set(set));
    }
    Ok(())
}

/// The object of the fields that are listed.
fn partition_of(names: &[&str]) -> Result<RawDocumentBuf> {
    let mut partition = RawDocumentBuf::new();
    for name in names {
        partition.append(field_name(name)?, format!("${name}"));
    }
    Ok(partition)
}

/// The `output` of the fields with a `method`, and the `$set` of those with a `value`.
fn parse_outputs(outputs: Option<&RawDocument>) -> Result<(RawDocumentBuf, RawDocumentBuf)> {
    let (mut functions, mut values) = (RawDocumentBuf::new(), RawDocumentBuf::new());
    let outputs = outputs.filter(|outputs| !outputs.is_empty());
    let Some(outputs) = outputs else {
        return Err(Error::location(
            6_050_203,
            "The output field in '$fill' must contain an object with at least one element",
        ));
    };
    for entry in outputs.iter() {
        let (path, raw) = entry.map_err(corrupt)?;
        let RawBsonRef::Document(document) = raw else {
            return Err(Error::location(
                6_050_200,
                "Each fill output specification must be an object with exactly one field",
            ));
        };
        let options = StageOptions {
            stage: "$fill",
            names: &[("value", &[]), ("method", &["string"])],
            required: &[],
        };
        let fields = options.parse_document(document)?;
        let field = format!("${}", path.as_str());
        match (fields[0], fields[1]) {
            (Some(_), Some(_)) => {
                return Err(Error::location(
                    6_050_201,
                    "Each fill output specification must have exactly one of 'method' or 'value' fields, not both",
                ));
            }
            (Some(value), None) => {
                let mut operands = bson::RawArrayBuf::new();
                operands.push(field);
                operands.push(RawBson::from(value));
                values.append(path, rawdoc! { "$ifNull": operands });
            }
            (None, Some(RawBsonRef::String("linear"))) => {
                functions.append(path, rawdoc! { "$linearFill": field });
            }
            (None, Some(RawBsonRef::String("locf"))) => {
                functions.append(path, rawdoc! { "$locf": field });
            }
            (None, Some(_)) => {
                return Err(Error::location(
                    6_050_202,
                    "Method must be either locf or linear",
                ));
            }
            (None, None) => {}
        }
    }
    Ok((functions, values))
}
