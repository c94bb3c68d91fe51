//! `$documents`: documents that the pipeline brings along.

use crate::error::{Error, Result};
use crate::expression::value::{Value, build_document, within_levels};
use crate::expression::{Expression, FOLDING_PREFIX, VariableScope, Variables, display};
use bson::raw::{RawBsonRef, RawDocumentBuf};

/// A parsed `$documents`.
#[derive(Debug, Clone)]
pub struct OwnDocuments {
    expression: Expression,
}

impl OwnDocuments {
    /// Parses the operand.
    ///
    /// # Errors
    /// Those of the expression.
    pub fn parse(raw: RawBsonRef<'_>, scope: &VariableScope) -> Result<Self> {
        let invalid = |error: Error| match error.message.starts_with(FOLDING_PREFIX) {
            true => error,
            false => error.within("Invalid $documents"),
        };
        let expression = Expression::parse(raw, scope).map_err(invalid)?;
        Ok(Self { expression })
    }

    /// The documents.
    ///
    /// # Errors
    /// 5858203 where the expression is no array, 40228 where an element is no document, and the expression's own.
    pub fn documents(&self, variables: &Variables) -> Result<Vec<RawDocumentBuf>> {
        let nothing = RawDocumentBuf::new();
        let value = self.expression.evaluate_value(&nothing, variables)?;
        let Some(items) = value.items()? else {
            return Err(Error::location(5_858_203, "an array is expected"));
        };
        let mut documents = Vec::new();
        for item in items.iter() {
            documents.push(match item {
                Value::Raw(RawBsonRef::Document(document)) => (*document).to_owned(),
                Value::Document(fields) => within_levels(build_document(fields)?)?,
                other => return Err(no_document(other)),
            });
        }
        Ok(documents)
    }
}

fn no_document(value: &Value<'_>) -> Error {
    // MongoDB puts the elements one by one into a field of this kind of name.
    let field = bson::Uuid::new().to_string();
    let input = Value::document(vec![(field.into(), value.clone())]);
    Error::location(
        40228,
        format!(
            "elements within the array passed to $documents must evaluate to an object, but resulting value was: \
             {}. Type of resulting value: '{}'. Input document: {}",
            display(value),
            value.type_name(),
            display(&input)
        ),
    )
}
