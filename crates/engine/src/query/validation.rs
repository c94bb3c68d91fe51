//! Why a document fails a validator: the `errInfo` of error 121.
//!
//! In: the validator as the client wrote it and a document that fails it. Out: the report that
//! MongoDB 6.0 gives, `{ failingDocumentId, details }`, for `$jsonSchema` and for validators that
//! are plain queries. Source of shapes and wording: `doc_validation_error.cpp`. This runs only for
//! documents that failed, so it reads the validator again and builds documents freely.

use super::filter::Filter;
use super::parse::elements;
use super::schema::Schema;
use crate::error::{Error, Result};
use crate::expression::{Expression, VariableScope};
use crate::text::element;
use crate::types::type_name;
use bson::raw::RawBsonRef;
use bson::spec::ElementType;
use bson::{RawBson, RawDocument, RawDocumentBuf};
use meridian_value::Collation;
use meridian_value::path::{LeafArrays, Path, visit};
use std::ops::ControlFlow;

/// More values than this are cut off in the report.
const VALUES_MAX: usize = 10;

/// The `errInfo` of a document that fails the validator.
pub fn validation_failure(
    validator: &RawDocument,
    filter: &Filter,
    document: &RawDocument,
    id: RawBsonRef<'_>,
    collation: &Collation,
) -> RawDocumentBuf {
    let mut report = RawDocumentBuf::new();
    super::append(&mut report, "failingDocumentId", id);
    let details = match filter {
        Filter::Schema(schema) => Ok(schema.explain_failure(document)),
        _ => clauses(validator, collation)
            .and_then(|clauses| joined(clauses).explain(document, ReportSide::Failed)),
    };
    let details = details.unwrap_or_else(|error| {
        super::append(
            &mut report,
            "note",
            "failed to generate document validation error",
        );
        error_document(&error)
    });
    super::append(&mut report, "details", details);
    report
}

fn error_document(error: &Error) -> RawDocumentBuf {
    ReportDetails::default()
        .with("code", error.code.number())
        .with("codeName", &*error.code.name())
        .with("errmsg", error.message.as_str())
        .0
}

/// Whether the report is about a clause that failed, or (below `$not` and `$nor`) one that held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ReportSide {
    Failed,
    Held,
}

impl ReportSide {
    fn other(self) -> Self {
        if self == Self::Failed {
            Self::Held
        } else {
            Self::Failed
        }
    }
}

/// A validator's clauses as they were written: nothing is simplified away.
enum Clause<'a> {
    /// `$and`, `$or`, `$nor`, and several conditions side by side.
    Tree(&'static str, Vec<Clause<'a>>),
    Not(Box<Clause<'a>>),
    Schema(Schema),
    Expression(RawBsonRef<'a>, Collation),
    Leaf(PathClause<'a>),
    /// `$alwaysTrue` and the like, which MongoDB cannot report on.
    Silent(String),
}

/// One operator over one path.
struct PathClause<'a> {
    operator: &'a str,
    path: &'a str,
    operand: RawBsonRef<'a>,
    /// `{ path: { operator: operand } }`, or `{ path: value }`.
    specified: RawDocumentBuf,
    filter: Filter,
}

/// The clauses of a query document, those over one path side by side with the others.
fn clauses<'a>(query: &'a RawDocument, collation: &Collation) -> Result<Vec<Clause<'a>>> {
    let mut found = Vec::new();
    for (name, value) in elements(query)? {
        match (name, value) {
            ("$comment", _) => {}
            ("$and", RawBsonRef::Array(_)) => {
                found.push(Clause::Tree("$and", branches(value, collation)?))
            }
            ("$or", RawBsonRef::Array(_)) => {
                found.push(Clause::Tree("$or", branches(value, collation)?))
            }
            ("$nor", RawBsonRef::Array(_)) => {
                found.push(Clause::Tree("$nor", branches(value, collation)?))
            }
            ("$jsonSchema", RawBsonRef::Document(schema)) => {
                found.push(Clause::Schema(Schema::parse(schema)?));
            }
            ("$expr", expression) => {
                found.push(Clause::Expression(expression, collation.clone()));
            }
            ("$id" | "$ref" | "$db", value) => {
                found.push(Clause::Silent(format!(
                    "{{ {name}: {{ {} }} }}",
                    element("$eq", value)
                )));
            }
            (_, value) if name.starts_with('$') => {
                found.push(Clause::Silent(format!("{{ {} }}", element(name, value))));
            }
            (path, RawBsonRef::Document(operators)) if is_operators(operators) => {
                found.extend(path_clauses(path, operators, collation)?);
            }
            (path, value) => {
                let operator = if value.as_regex().is_some() {
                    "$regex"
                } else {
                    "$eq"
                };
                let mut specified = RawDocumentBuf::new();
                super::append(&mut specified, path, value);
                let filter = Filter::parse_by(&specified, collation)?;
                found.push(Clause::Leaf(PathClause {
                    operator,
                    path,
                    operand: value,
                    specified,
                    filter,
                }));
            }
        }
    }
    Ok(found)
}

fn branches<'a>(value: RawBsonRef<'a>, collation: &Collation) -> Result<Vec<Clause<'a>>> {
    let RawBsonRef::Array(array) = value else {
        return Ok(Vec::new());
    };
    let mut found = Vec::new();
    for entry in array {
        if let RawBsonRef::Document(query) = entry.map_err(crate::error::malformed)? {
            found.push(joined(clauses(query, collation)?));
        }
    }
    Ok(found)
}

/// Whether a document is of operators, and no value: a reference is one.
pub(super) fn is_operators(document: &RawDocument) -> bool {
    let names: Vec<&str> = document
        .iter()
        .flatten()
        .map(|(name, _)| name.as_str())
        .collect();
    let is_reference = names.contains(&"$ref") && names.contains(&"$id");
    names.first().is_some_and(|name| name.starts_with('$')) && !is_reference
}

/// One clause for several conditions side by side.
fn joined(mut clauses: Vec<Clause<'_>>) -> Clause<'_> {
    if clauses.len() == 1 {
        clauses.remove(0)
    } else {
        Clause::Tree("$and", clauses)
    }
}

fn path_clauses<'a>(
    path: &'a str,
    operators: &'a RawDocument,
    collation: &Collation,
) -> Result<Vec<Clause<'a>>> {
    let mut found = Vec::new();
    for (operator, operand) in elements(operators)? {
        match (operator, operand) {
            ("$options", _) => continue,
            ("$not", RawBsonRef::Document(inner)) => {
                found.push(Clause::Not(Box::new(joined(path_clauses(
                    path, inner, collation,
                )?))));
                continue;
            }
            ("$not", regex) => {
                let mut specified = RawDocumentBuf::new();
                super::append(&mut specified, path, regex);
                let filter = Filter::parse_by(&specified, collation)?;
                let leaf = PathClause {
                    operator: "$regex",
                    path,
                    operand: regex,
                    specified,
                    filter,
                };
                found.push(Clause::Not(Box::new(Clause::Leaf(leaf))));
                continue;
            }
            _ => {}
        }
        let mut inner = RawDocumentBuf::new();
        super::append(&mut inner, operator, operand);
        if operator == "$regex"
            && let Ok(Some(options)) = operators.get("$options")
        {
            super::append(&mut inner, "$options", options);
        }
        let mut specified = RawDocumentBuf::new();
        super::append(&mut specified, path, inner);
        let filter = Filter::parse_by(&specified, collation)?;
        found.push(Clause::Leaf(PathClause {
            operator,
            path,
            operand,
            specified,
            filter,
        }));
    }
    Ok(found)
}

impl Clause<'_> {
    fn holds(&self, document: &RawDocument) -> bool {
        match self {
            Self::Tree("$and", children) => children.iter().all(|child| child.holds(document)),
            Self::Tree("$or", children) => children.iter().any(|child| child.holds(document)),
            Self::Tree(_, children) => !children.iter().any(|child| child.holds(document)),
            Self::Not(child) => !child.holds(document),
            Self::Schema(schema) => schema.matches(document),
            Self::Expression(expression, by) => {
                evaluate(*expression, document, by).is_ok_and(|value| is_true(&value))
            }
            Self::Leaf(leaf) => leaf.filter.matches(document).unwrap_or(false),
            Self::Silent(_) => false,
        }
    }

    /// What there is to say about a clause that is on this side.
    fn explain(&self, document: &RawDocument, side: ReportSide) -> Result<RawDocumentBuf> {
        match self {
            Self::Tree(operator, children) => {
                // Below $nor the interesting children are those on the other side.
                let child_side = if *operator == "$nor" {
                    side.other()
                } else {
                    side
                };
                let key = match child_side {
                    ReportSide::Failed => "clausesNotSatisfied",
                    ReportSide::Held => "clausesSatisfied",
                };
                let mut entries = Vec::new();
                for (index, child) in children.iter().enumerate() {
                    let is_silent = matches!(child, Self::Silent(_));
                    if is_silent || child.holds(document) == (child_side == ReportSide::Held) {
                        let details = child.explain(document, child_side)?;
                        let entry = ReportDetails::default()
                            .with("index", index as i32)
                            .with("details", details);
                        entries.push(RawBson::Document(entry.0));
                    }
                }
                let entries = RawBson::Array(entries.into_iter().collect());
                Ok(ReportDetails::of(operator).with(key, entries).0)
            }
            Self::Not(child) => Ok(ReportDetails::of("$not")
                .with("details", child.explain(document, side.other())?)
                .0),
            Self::Schema(schema) if side == ReportSide::Failed => {
                Ok(schema.explain_failure(document))
            }
            Self::Schema(_) => Ok(ReportDetails::of("$jsonSchema")
                .with("reason", "schema matched")
                .0),
            Self::Expression(expression, by) => {
                Ok(explain_expression(*expression, document, side, by))
            }
            Self::Leaf(leaf) => Ok(leaf.explain(document, side)),
            Self::Silent(text) => Err(Error::location(
                4_994_600,
                format!(
                    "Cannot generate validation error details: no annotation found for expression {text}"
                ),
            )),
        }
    }
}

fn evaluate(
    expression: RawBsonRef<'_>,
    document: &RawDocument,
    collation: &Collation,
) -> Result<RawBson> {
    let scope = VariableScope::new(collation.clone());
    let parsed = Expression::parse(expression, &scope)?;
    let value = parsed.evaluate_raw(document, &scope.variables(bson::DateTime::now()))?;
    Ok(value.unwrap_or(RawBson::Null))
}

fn is_true(value: &RawBson) -> bool {
    super::parse::truthy(value.as_raw_bson_ref())
}

fn explain_expression(
    expression: RawBsonRef<'_>,
    document: &RawDocument,
    side: ReportSide,
    collation: &Collation,
) -> RawDocumentBuf {
    let mut specified = RawDocumentBuf::new();
    super::append(&mut specified, "$expr", expression);
    let details = ReportDetails::of("$expr").with("specifiedAs", specified);
    match (evaluate(expression, document, collation), side) {
        (Err(error), _) => details
            .with("reason", "failed to evaluate aggregation expression")
            .with("details", error_document(&error)),
        (Ok(value), ReportSide::Failed) => details
            .with("reason", "expression did not match")
            .with("expressionResult", value),
        (Ok(value), ReportSide::Held) => details
            .with("reason", "expression did match")
            .with("expressionResult", value),
    }
    .0
}

impl PathClause<'_> {
    fn explain(&self, document: &RawDocument, side: ReportSide) -> RawDocumentBuf {
        let details = ReportDetails::of(self.operator).with("specifiedAs", self.specified.clone());
        if self.operator == "$exists" {
            let is_wanted = super::parse::truthy(self.operand);
            let exists = is_wanted == (side == ReportSide::Held);
            let reason = if exists {
                "path does exist"
            } else {
                "path does not exist"
            };
            return details.with("reason", reason).0;
        }
        let is_empty_list = self
            .operand
            .as_array()
            .is_some_and(|array| array.is_empty());
        if self.operator == "$all" && is_empty_list {
            return details
                .with("reason", "expression always evaluates to false")
                .0;
        }
        let Some(values) = self.considered(document) else {
            return details.with("reason", "field was missing").0;
        };
        if let Some(expected) = expected_types(self.operator)
            && values
                .iter()
                .all(|value| !expected.contains(&value.element_type()))
        {
            return type_mismatch(details, expected, &values);
        }
        let details = details
            .with("reason", self.reason(side, &values))
            .considered(&values);
        if self.operator == "$type" {
            details.types(&values).0
        } else {
            details.0
        }
    }

    /// The values the operator looked at; `None` when the path leads nowhere.
    fn considered<'d>(&self, document: &'d RawDocument) -> Option<Vec<RawBsonRef<'d>>> {
        let keeps_arrays = matches!(self.operator, "$size" | "$elemMatch" | "$all");
        let mut values = Vec::new();
        let mut found = false;
        let _ = visit(
            document,
            &Path::parse(self.path),
            LeafArrays::Keep,
            &mut |visited| {
                match visited.value {
                    Some(RawBsonRef::Array(array)) if !keeps_arrays => {
                        found = true;
                        values.extend(array.into_iter().flatten());
                    }
                    Some(value) => {
                        found = true;
                        values.push(value);
                    }
                    None => {}
                }
                ControlFlow::Continue(())
            },
        );
        found.then_some(values)
    }

    fn reason(&self, side: ReportSide, values: &[RawBsonRef<'_>]) -> &'static str {
        // $ne and $nin are reported as the negation they are.
        let held = match self.operator {
            "$ne" | "$nin" => side == ReportSide::Failed,
            _ => side == ReportSide::Held,
        };
        let (failed_text, held_text) = match self.operator {
            "$in" | "$nin" => (
                "no matching value found in array",
                "matching value found in array",
            ),
            "$type" => ("type did not match", "type did match"),
            "$mod" => (
                "$mod did not evaluate to expected remainder",
                "$mod did evaluate to expected remainder",
            ),
            "$regex" => (
                "regular expression did not match",
                "regular expression did match",
            ),
            "$size" => (
                "array length was not equal to given size",
                "array length was equal to given size",
            ),
            "$all" => (
                "array did not contain all specified values",
                "array did contain all specified values",
            ),
            "$elemMatch" => (
                "array did not satisfy the child predicate",
                "array did satisfy the child predicate",
            ),
            "$bitsAllSet" | "$bitsAllClear" | "$bitsAnySet" | "$bitsAnyClear" => (
                "bitwise operator failed to match",
                "bitwise operator matched successfully",
            ),
            "$geoWithin" | "$within" | "$geoIntersects" => geo_reasons(self.operator, values),
            _ => ("comparison failed", "comparison succeeded"),
        };
        if held { held_text } else { failed_text }
    }
}

fn geo_reasons(operator: &str, values: &[RawBsonRef<'_>]) -> (&'static str, &'static str) {
    let any_geometry = values.iter().any(|value| {
        matches!(
            value.element_type(),
            ElementType::EmbeddedDocument
                | ElementType::Array
                | ElementType::Int32
                | ElementType::Int64
                | ElementType::Double
                | ElementType::Decimal128
        )
    });
    if !any_geometry {
        let reason = "could not find a valid geometry at the given path";
        return (reason, reason);
    }
    if operator == "$geoIntersects" {
        return (
            "none of the considered geometries intersected the expression’s geometry",
            "at least one of considered geometries intersected the expression’s geometry",
        );
    }
    (
        "none of the considered geometries were contained within the expression’s geometry",
        "at least one of considered geometries was contained within the expression’s geometry",
    )
}

/// The types an operator can say something about, by name.
fn expected_types(operator: &str) -> Option<&'static [ElementType]> {
    use ElementType::{
        Array, Binary, Decimal128, Double, Int32, Int64, RegularExpression, String, Symbol,
    };
    Some(match operator {
        "$mod" => &[Decimal128, Double, Int32, Int64],
        "$regex" => &[RegularExpression, String, Symbol],
        "$size" | "$elemMatch" => &[Array],
        "$bitsAllSet" | "$bitsAllClear" | "$bitsAnySet" | "$bitsAnyClear" => {
            &[Binary, Decimal128, Double, Int32, Int64]
        }
        _ => return None,
    })
}

fn type_mismatch(
    details: ReportDetails,
    expected: &[ElementType],
    values: &[RawBsonRef<'_>],
) -> RawDocumentBuf {
    let details = details.with("reason", "type did not match").types(values);
    let details = match expected {
        [only] => details.with("expectedType", type_name(*only)),
        several => {
            let names = several
                .iter()
                .map(|kind| RawBson::String(type_name(*kind).into()));
            details.with("expectedTypes", RawBson::Array(names.collect()))
        }
    };
    details.considered(values).0
}

/// Builds one entry of the report.
#[derive(Default)]
struct ReportDetails(RawDocumentBuf);

impl ReportDetails {
    fn of(operator: &str) -> Self {
        Self::default().with("operatorName", operator)
    }

    fn with(mut self, name: &str, value: impl Into<RawBson>) -> Self {
        super::append(&mut self.0, name, value.into());
        self
    }

    fn considered(self, values: &[RawBsonRef<'_>]) -> Self {
        if let [only] = values {
            return self.with("consideredValue", RawBson::from(*only));
        }
        let shown = values
            .iter()
            .take(VALUES_MAX)
            .map(|value| RawBson::from(*value));
        let details = self.with("consideredValues", RawBson::Array(shown.collect()));
        if values.len() > VALUES_MAX {
            return details.with("consideredValuesTruncated", true);
        }
        details
    }

    fn types(self, values: &[RawBsonRef<'_>]) -> Self {
        let mut names: Vec<&str> = values
            .iter()
            .map(|value| type_name(value.element_type()))
            .collect();
        names.sort_unstable();
        names.dedup();
        match names[..] {
            [only] => self.with("consideredType", only),
            _ => {
                let names = names.into_iter().map(|name| RawBson::String(name.into()));
                self.with("consideredTypes", RawBson::Array(names.collect()))
            }
        }
    }
}
