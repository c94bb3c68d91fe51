//! `$redact`: keeps, prunes or goes down into documents, as an expression says for each level.

use crate::error::{Error, Result};
use crate::expression::value::{Value, corrupt};
use crate::expression::{LevelExpression, VariableScope, Variables, display};
use bson::raw::{RawArray, RawArrayBuf, RawDocument, RawDocumentBuf};
use bson::{RawBson, RawBsonRef};

const KEEP: &str = "keep";
const PRUNE: &str = "prune";
const DESCEND: &str = "descend";

/// A parsed `$redact`.
#[derive(Debug, Clone)]
pub struct Redact {
    expression: LevelExpression,
}

impl Redact {
    /// Parses the operand.
    ///
    /// # Errors
    /// Those of the expression.
    pub fn parse(raw: RawBsonRef<'_>, scope: &VariableScope) -> Result<Self> {
        let mut scope = scope.clone();
        for (name, value) in [("KEEP", KEEP), ("PRUNE", PRUNE), ("DESCEND", DESCEND)] {
            scope = scope.with(name, &Value::string(value))?;
        }
        let expression = LevelExpression::parse(raw, &scope)?;
        Ok(Self { expression })
    }

    /// What is left of a document; `None` when it is pruned.
    ///
    /// # Errors
    /// 17053 where the expression is none of the three words, and the expression's own.
    pub fn apply(
        &self,
        document: &RawDocument,
        variables: &Variables,
    ) -> Result<Option<RawDocumentBuf>> {
        self.level(document, document, variables)
    }

    fn level(
        &self,
        root: &RawDocument,
        current: &RawDocument,
        variables: &Variables,
    ) -> Result<Option<RawDocumentBuf>> {
        let value = self.expression.evaluate_value(root, current, variables)?;
        match value.as_str() {
            Some(KEEP) => Ok(Some(current.to_owned())),
            Some(PRUNE) => Ok(None),
            Some(DESCEND) => self.below(root, current, variables).map(Some),
            _ => {
                let shown = match value.is_missing() {
                    true => "MISSING".to_owned(),
                    false => display(&value),
                };
                Err(Error::location(
                    17053,
                    format!(
                        "$redact's expression should not return anything aside from the variables $$KEEP, \
                         $$DESCEND, and $$PRUNE, but returned {shown}"
                    ),
                ))
            }
        }
    }

    fn below(
        &self,
        root: &RawDocument,
        current: &RawDocument,
        variables: &Variables,
    ) -> Result<RawDocumentBuf> {
        let mut left = RawDocumentBuf::new();
        for entry in current.iter() {
            let (name, value) = entry.map_err(corrupt)?;
            match self.value(root, value, variables)? {
                None => {}
                Some(None) => left.append(name, value),
                Some(Some(changed)) => left.append(name, changed),
            }
        }
        Ok(left)
    }

    /// What is left of a value: nothing, the value itself, or another.
    fn value(
        &self,
        root: &RawDocument,
        value: RawBsonRef<'_>,
        variables: &Variables,
    ) -> Result<Option<Option<RawBson>>> {
        match value {
            RawBsonRef::Document(inner) => {
                let left = self.level(root, inner, variables)?;
                Ok(left.map(|left| Some(RawBson::Document(left))))
            }
            RawBsonRef::Array(items) => {
                let left = self.items(root, items, variables)?;
                Ok(Some(Some(RawBson::Array(left))))
            }
            _ => Ok(Some(None)),
        }
    }

    fn items(
        &self,
        root: &RawDocument,
        items: &RawArray,
        variables: &Variables,
    ) -> Result<RawArrayBuf> {
        let mut left = RawArrayBuf::new();
        for item in items {
            let item = item.map_err(corrupt)?;
            match self.value(root, item, variables)? {
                None => {}
                Some(None) => left.push(item),
                Some(Some(changed)) => left.push(changed),
            }
        }
        Ok(left)
    }
}
