//! From a projection document to a [`Projection`].
//!
//! The order of checks follows `projection_parser.cpp` of MongoDB 6.0.

use super::Projection;
use super::slice::Slice;
use super::tree::{FieldAction, FieldTree, Rest};
use crate::error::{Code, Error, Result};
use crate::expression::{
    Expression, FOLDING_PREFIX, VariableScope, check_path_length, parse_field_path,
};
use crate::query::filter::{Filter, Predicate};
use crate::query::parse::{elements, truthy};
use crate::text::{document_text, element};
use crate::types::type_name;
use bson::raw::RawBsonRef;
use bson::{RawDocument, RawDocumentBuf};
use meridian_value::number::Number;
use meridian_value::path::Path;

impl Projection {
    /// Parses the projection of a `find`.
    ///
    /// # Errors
    /// MongoDB's codes for mixed inclusion and exclusion (31253, 31254), colliding paths (31249,
    /// 31250), misplaced positional operators (31276, 31394, 31395) and bad operands.
    ///
    /// ```
    /// use meridian_engine::query::Projection;
    /// let projection = Projection::parse(&bson::rawdoc! { "a": 1, "_id": 0 }, None).unwrap();
    /// let projected = projection.apply(&bson::rawdoc! { "_id": 1, "a": 2, "b": 3 }, None).unwrap();
    /// assert_eq!(projected, bson::rawdoc! { "a": 2 });
    /// ```
    pub fn parse(projection: &RawDocument, filter: Option<&Filter>) -> Result<Self> {
        Self::parse_with(projection, filter, &VariableScope::default())
    }

    /// Parses the projection of a `find` with variables in scope.
    ///
    /// # Errors
    /// As [`Projection::parse`].
    pub fn parse_with(
        projection: &RawDocument,
        filter: Option<&Filter>,
        scope: &VariableScope,
    ) -> Result<Self> {
        let parser = ProjectionParser::new(Dialect::Find, scope).fields(projection)?;
        if parser.positional.is_some() && filter.is_some_and(Filter::has_expression) {
            // A position comes from the query operators that matched; an expression has none.
            return Err(Error::new(
                Code::QueryFeatureNotAllowed,
                "$expr is not allowed in this context",
            ));
        }
        let positional = parser.positional.as_deref().map(Path::parse);
        let (tree, rest) = parser.finish();
        Ok(Self {
            tree,
            rest,
            positional,
            locator: None,
            variables: scope.variables(bson::DateTime::now()),
            measure: None,
            sort: None,
            asks_origin: false,
        })
    }
}

/// Parses the operand of the stage `$project`.
///
/// # Errors
/// MongoDB's, without the stage's name before them.
pub(crate) fn parse_stage(
    document: &RawDocument,
    scope: &VariableScope,
) -> Result<(FieldTree, Rest)> {
    if document.is_empty() {
        return Err(Error::location(
            51272,
            "projection specification must have at least one field",
        ));
    }
    Ok(ProjectionParser::new(Dialect::Stage, scope)
        .fields(document)?
        .finish())
}

/// Whose projection it is: a `find`'s has `$slice`, `$elemMatch` and positions of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Dialect {
    Find,
    Stage,
}

struct ProjectionParser<'s> {
    dialect: Dialect,
    scope: &'s VariableScope,
    tree: FieldTree,
    /// Set by the first field that decides; `_id` does not.
    mode: Option<Rest>,
    /// What is said of `_id` itself.
    id: Option<bool>,
    positional: Option<String>,
    has_first_match: bool,
    has_slice: bool,
    has_metadata: bool,
}

impl<'s> ProjectionParser<'s> {
    fn new(dialect: Dialect, scope: &'s VariableScope) -> Self {
        Self {
            dialect,
            scope,
            tree: FieldTree::default(),
            mode: None,
            id: None,
            positional: None,
            has_first_match: false,
            has_slice: false,
            has_metadata: false,
        }
    }

    fn fields(mut self, projection: &RawDocument) -> Result<Self> {
        for (name, value) in elements(projection)? {
            self.field(&[], name, value)?;
        }
        Ok(self)
    }

    fn field(&mut self, parents: &[&str], name: &str, value: RawBsonRef<'_>) -> Result<()> {
        let path = if parents.is_empty() {
            name.to_owned()
        } else {
            format!("{}.{name}", parents.join("."))
        };
        if self.dialect == Dialect::Stage && (path.ends_with(".$") || path.contains(".$.")) {
            return Err(Error::location(
                31324,
                "Cannot use positional projection in aggregation projection",
            ));
        }
        if let Some(array) = path.strip_suffix(".$") {
            return self.positional(array, name, value);
        }
        if path.contains(".$.") {
            return Err(Error::location(
                31394,
                "As of 4.4, it's illegal to specify positional operator in the middle of a \
                 path.Positional projection may only be used at the end, for example: a.b.$. If the \
                 query previously used a form like a.b.$.d, remove the parts following the '$' and \
                 the results will be equivalent.",
            ));
        }
        parse_field_path(name)?;
        check_path_length(path.split('.').count())?;
        match value {
            RawBsonRef::Document(document) => self.document(parents, name, &path, document),
            RawBsonRef::Boolean(_)
            | RawBsonRef::Int32(_)
            | RawBsonRef::Int64(_)
            | RawBsonRef::Double(_)
            | RawBsonRef::Decimal128(_) => self.flag(&path, name, truthy(value)),
            literal => {
                let expression = Expression::parse(literal, self.scope)?;
                self.insert_named(name, &path, FieldAction::Compute(Box::new(expression)))?;
                self.set_mode_for_expression(name, literal)
            }
        }
    }

    fn flag(&mut self, path: &str, name: &str, is_kept: bool) -> Result<()> {
        let action = if is_kept {
            FieldAction::Keep
        } else {
            FieldAction::Drop
        };
        if path == "_id" {
            self.id = Some(is_kept);
            return self.insert_named(name, path, action);
        }
        self.insert_named(name, path, action)?;
        self.set_mode(name, if is_kept { Rest::Drop } else { Rest::Keep })
    }

    fn set_mode(&mut self, name: &str, mode: Rest) -> Result<()> {
        match (self.mode, mode) {
            (Some(Rest::Drop), Rest::Keep) => Err(Error::location(
                31254,
                format!("Cannot do exclusion on field {name} in inclusion projection"),
            )),
            (Some(Rest::Keep), Rest::Drop) => Err(Error::location(
                31253,
                format!("Cannot do inclusion on field {name} in exclusion projection"),
            )),
            _ => {
                self.mode = Some(mode);
                Ok(())
            }
        }
    }

    fn set_mode_for_expression(&mut self, name: &str, value: RawBsonRef<'_>) -> Result<()> {
        if self.mode == Some(Rest::Keep) {
            return Err(match value {
                RawBsonRef::Document(_) => Error::location(
                    31252,
                    "Cannot use expression other than $meta in exclusion projection",
                ),
                _ => Error::location(
                    31310,
                    format!(
                        "Cannot use an expression {} in an exclusion projection",
                        element(name, value)
                    ),
                ),
            });
        }
        self.mode = Some(Rest::Drop);
        Ok(())
    }

    fn document(
        &mut self,
        parents: &[&str],
        name: &str,
        path: &str,
        document: &RawDocument,
    ) -> Result<()> {
        let entries = elements(document)?;
        let Some((first, operand)) = entries.first() else {
            return Err(Error::location(
                51270,
                "An empty sub-projection is not a valid value. Found empty object at path",
            ));
        };
        if !first.starts_with('$') || entries.len() > 1 {
            let below: Vec<&str> = parents.iter().copied().chain([name]).collect();
            for (inner, value) in entries {
                self.field(&below, inner, value)?;
            }
            return Ok(());
        }
        match *first {
            "$slice" if self.dialect == Dialect::Find => self.slice(name, path, document, *operand),
            "$elemMatch" if self.dialect == Dialect::Stage => Err(Error::new(
                Code::InvalidPipelineOperator,
                "Cannot use $elemMatch in this context",
            )),
            "$elemMatch" => self.first_match(path, document, *operand),
            "$meta" => self.metadata(path, document),
            _ => self.expression(name, path, document),
        }
    }

    fn expression(&mut self, name: &str, path: &str, document: &RawDocument) -> Result<()> {
        let value = RawBsonRef::Document(document);
        let expression = Expression::parse(value, self.scope).map_err(|error| {
            let error = unknown_expression(error, document);
            match self.dialect {
                Dialect::Find => without_folding_prefix(error),
                Dialect::Stage => error,
            }
        })?;
        self.insert_named(name, path, FieldAction::Compute(Box::new(expression)))?;
        self.set_mode_for_expression(name, value)
    }

    /// Metadata goes with an inclusion and with an exclusion.
    fn metadata(&mut self, path: &str, document: &RawDocument) -> Result<()> {
        let expression = Expression::parse(RawBsonRef::Document(document), self.scope)?;
        self.has_metadata = true;
        self.insert(path, FieldAction::Compute(Box::new(expression)))
    }

    fn slice(
        &mut self,
        name: &str,
        path: &str,
        document: &RawDocument,
        operand: RawBsonRef<'_>,
    ) -> Result<()> {
        let refused = match Slice::parse(operand) {
            Ok(Some(slice)) => match self.insert(path, FieldAction::Slice(slice)) {
                Ok(()) => {
                    self.has_slice = true;
                    return Ok(());
                }
                Err(collision) => format!("{}: {}", collision.code.name(), collision.message),
            },
            // `[1, 0]` may still be an expression, and says so itself.
            Ok(None) => return self.expression(name, path, document),
            Err(refused) => refused,
        };
        self.expression(name, path, document).map_err(|mut error| {
            error.message = format!(
                "Invalid $slice syntax. The given syntax {} did not match the find() syntax because \
                 :: {refused} :: The given syntax did not match the expression $slice syntax. :: \
                 caused by :: {}",
                document_text(document),
                error.message
            );
            error
        })
    }

    fn first_match(
        &mut self,
        path: &str,
        document: &RawDocument,
        operand: RawBsonRef<'_>,
    ) -> Result<()> {
        let RawBsonRef::Document(_) = operand else {
            return Err(Error::location(
                31274,
                format!(
                    "elemMatch: Invalid argument, object required, but got {}",
                    type_name(operand.element_type())
                ),
            ));
        };
        if self.positional.is_some() {
            return Err(positional_and_first_match());
        }
        if path.contains('.') {
            return Err(Error::location(
                31275,
                "Cannot use $elemMatch projection on a nested field.",
            ));
        }
        if operand
            .as_document()
            .is_some_and(|operand| matches!(operand.get("$where"), Ok(Some(_))))
        {
            return Err(Error::bad_value("$where is not allowed in this context"));
        }
        let mut filter = RawDocumentBuf::new();
        crate::query::append(&mut filter, path, document);
        let predicate = match Filter::parse_by(&filter, self.scope.collation())? {
            Filter::Field { predicate, .. } => predicate,
            // An `$elemMatch` that simplifies away matches nothing.
            _ => Predicate::Exists(false),
        };
        self.has_first_match = true;
        self.insert(path, FieldAction::FirstMatch(Box::new(predicate)))
    }

    fn positional(&mut self, array: &str, name: &str, value: RawBsonRef<'_>) -> Result<()> {
        let is_kept = match value {
            RawBsonRef::Document(_) => {
                return Err(Error::location(
                    31271,
                    "positional projection cannot be used with an expression or sub object",
                ));
            }
            RawBsonRef::Boolean(flag) => flag,
            other => match Number::from_raw(other) {
                Some(number) => !number.is_zero(),
                None => {
                    return Err(Error::location(
                        31308,
                        "positional projection cannot be used with a literal",
                    ));
                }
            },
        };
        if !is_kept {
            return Err(Error::location(
                31395,
                "positional projection cannot be used with exclusion",
            ));
        }
        if self.positional.is_some() {
            return Err(Error::location(
                31276,
                "Cannot specify more than one positional projection per query.",
            ));
        }
        if self.has_first_match {
            return Err(positional_and_first_match());
        }
        parse_field_path(array)?;
        self.set_mode(name, Rest::Drop)?;
        self.positional = Some(array.to_owned());
        self.insert(array, FieldAction::Keep)
    }

    fn insert(&mut self, path: &str, action: FieldAction) -> Result<()> {
        self.insert_named(path, path, action)
    }

    /// A collision is told by the name that the field has within its object.
    fn insert_named(&mut self, name: &str, path: &str, action: FieldAction) -> Result<()> {
        let parts: Vec<Box<str>> = path.split('.').map(Box::from).collect();
        self.tree.insert_named(&parts, name, action)
    }

    fn finish(mut self) -> (FieldTree, Rest) {
        let rest = self.mode.unwrap_or(match (self.dialect, self.id) {
            (_, Some(true)) => Rest::Drop,
            // `{_id: 0}` alone excludes, metadata alone includes.
            (Dialect::Stage, id) if id.is_none() || self.has_metadata => Rest::Drop,
            (Dialect::Find, _) if self.has_first_match && !self.has_slice => Rest::Drop,
            _ => Rest::Keep,
        });
        if rest == Rest::Drop && self.tree.fields.place(b"_id").is_none() {
            self.tree.fields.push("_id".into(), FieldAction::Keep);
        }
        (self.tree, rest)
    }
}

fn positional_and_first_match() -> Error {
    Error::location(31255, "Cannot specify positional operator and $elemMatch.")
}

/// In a projection an unknown operator has a code of its own, unless it is an operand.
fn unknown_expression(error: Error, expression: &RawDocument) -> Error {
    let unknown = error.message.strip_prefix("Unrecognized expression '");
    let own = expression.iter().flatten().next();
    match (unknown.map(|name| name.trim_end_matches('\'')), own) {
        (Some(unknown), Some((own, _)))
            if error.code == Code::InvalidPipelineOperator && own.as_str() == unknown =>
        {
            Error::location(31325, format!("Unknown expression {unknown}"))
        }
        _ => error,
    }
}

/// A projection is no pipeline: what computing its constants raises stands alone.
fn without_folding_prefix(mut error: Error) -> Error {
    if let Some(own) = error.message.strip_prefix(FOLDING_PREFIX) {
        error.message = own.to_owned();
    }
    error
}
