//! `$replaceRoot` and `$replaceWith`: a document that an expression makes.

use crate::error::{Error, Result};
use crate::expression::FieldSet;
use crate::expression::value::{Value, build_document, corrupt, within_levels};
use crate::expression::{Expression, VariableScope, Variables, display};
use crate::types::type_name;
use bson::{RawBsonRef, RawDocument, RawDocumentBuf};

/// A `$replaceRoot` or `$replaceWith`.
#[derive(Debug, Clone)]
pub struct ReplaceRoot {
    expression: Expression,
    /// How MongoDB calls the operand in its errors.
    called: &'static str,
}

impl ReplaceRoot {
    /// Parses the operand of `$replaceRoot`.
    ///
    /// # Errors
    /// 40229, 40414, 40415, and those of the expression.
    pub fn parse_root(raw: RawBsonRef<'_>, scope: &VariableScope) -> Result<Self> {
        let RawBsonRef::Document(document) = raw else {
            return Err(Error::location(
                40229,
                format!(
                    "expected an object as specification for $replaceRoot stage, got {}",
                    type_name(raw.element_type())
                ),
            ));
        };
        let mut root = None;
        for entry in document.iter() {
            let (key, raw) = entry.map_err(corrupt)?;
            if key.as_str() != "newRoot" {
                return Err(Error::location(
                    40415,
                    format!(
                        "BSON field '$replaceRoot.{}' is an unknown field.",
                        key.as_str()
                    ),
                ));
            }
            root = Some(raw);
        }
        let Some(root) = root else {
            return Err(Error::location(
                40414,
                "BSON field '$replaceRoot.newRoot' is missing but a required field",
            ));
        };
        Ok(Self {
            expression: Expression::parse(root, scope)?,
            called: "'newRoot' expression",
        })
    }

    /// Parses the operand of `$replaceWith`.
    ///
    /// # Errors
    /// Those of the expression.
    pub fn parse_with(raw: RawBsonRef<'_>, scope: &VariableScope) -> Result<Self> {
        Ok(Self {
            expression: Expression::parse(raw, scope)?,
            called: "'replacement document'",
        })
    }

    /// The new document.
    ///
    /// # Errors
    /// 40228 where the expression is no document, and the expression's own.
    pub fn apply(&self, document: &RawDocument, variables: &Variables) -> Result<RawDocumentBuf> {
        let value = self.expression.evaluate_value(document, variables)?;
        match &value {
            Value::Raw(RawBsonRef::Document(document)) => return Ok((*document).to_owned()),
            Value::Document(fields) => return within_levels(build_document(fields)?),
            _ => {}
        }
        let needed = self.expression.dependencies();
        let mut input = Vec::new();
        for entry in document.iter() {
            let (key, value) = entry.map_err(corrupt)?;
            let key = key.as_str();
            let read = |paths: &std::collections::BTreeSet<String>| {
                paths.iter().any(|path| path.split('.').next() == Some(key))
            };
            if needed.paths().is_none_or(read) {
                input.push((key.into(), Value::Raw(value)));
            }
        }
        Err(Error::location(
            40228,
            format!(
                "{}  must evaluate to an object, but resulting value was: {}. Type of resulting \
                 value: '{}'. Input document: {}",
                self.called,
                display(&value),
                value.type_name(),
                display(&Value::document(input))
            ),
        ))
    }

    /// The fields read.
    pub fn dependencies(&self) -> FieldSet {
        self.expression.dependencies()
    }
}
