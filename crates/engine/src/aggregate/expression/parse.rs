//! From BSON to [`Node`]s.

use super::node::{Comparison, Constant, Context, Node};
use super::table::{self, Arity, Entry, Named, Operator};
use super::{Value, Variables, date, folding_error, regex};
use crate::aggregate::value::{corrupt, type_name};
use crate::error::{Code, Error, Result};
use bson::{RawBsonRef, RawDocument, RawDocumentBuf};

/// The variables an expression may name besides the built-in ones: those of the
/// command's `let`, whose values are known when the expression is parsed.
#[derive(Debug, Clone, Default)]
pub struct VariableScope {
    constants: Vec<(String, Constant)>,
}

impl VariableScope {
    /// The variables of a command's `let`: constant expressions, which may use the ones
    /// before them.
    ///
    /// # Errors
    /// `FailedToParse` for a name that is none; whatever an expression answers.
    pub fn from_let(variables: &RawDocument) -> Result<Self> {
        let mut scope = Self::default();
        for entry in variables.iter() {
            let (name, raw) = entry.map_err(corrupt)?;
            let expression = super::Expression::parse(raw, &scope)?;
            let document = RawDocumentBuf::new();
            let variables = Variables::default();
            let value = expression.evaluate_value(&document, &variables)?;
            let constant = Constant::new(&value)?;
            check_user_name(name.as_str())?;
            scope.constants.push((name.as_str().to_owned(), constant));
        }
        Ok(scope)
    }

    /// The scope with one more variable.
    ///
    /// # Errors
    /// `BadValue` where the value cannot be kept (a null byte in a field name).
    pub fn with(mut self, name: &str, value: &Value<'_>) -> Result<Self> {
        self.constants
            .push((name.to_owned(), Constant::new(value)?));
        Ok(self)
    }

    fn find(&self, name: &str) -> Option<&Constant> {
        self.constants
            .iter()
            .rev()
            .find(|(known, _)| known == name)
            .map(|(_, value)| value)
    }
}

/// Turns one expression into nodes; holds the variables in scope on the way down.
pub struct Parser<'s> {
    scope: &'s VariableScope,
    /// Names by slot.
    names: Vec<String>,
}

impl<'s> Parser<'s> {
    /// A parser with no variable of its own.
    pub fn new(scope: &'s VariableScope) -> Self {
        Self {
            scope,
            names: Vec::new(),
        }
    }

    /// Any expression.
    pub fn operand(&mut self, raw: RawBsonRef<'_>) -> Result<Node> {
        match raw {
            RawBsonRef::String(text) if text.starts_with('$') => self.path(text),
            RawBsonRef::Document(document) => self.document(document),
            RawBsonRef::Array(array) => {
                let mut items = Vec::new();
                for item in array {
                    items.push(self.operand(item.map_err(corrupt)?)?);
                }
                fold(Node::Array(items.into()))
            }
            other => Node::known(&Value::Raw(other)),
        }
    }

    fn document(&mut self, document: &RawDocument) -> Result<Node> {
        let mut fields: Vec<(Box<str>, Node)> = Vec::new();
        for entry in document.iter() {
            let (key, raw) = entry.map_err(corrupt)?;
            let key = key.as_str();
            if key.starts_with('$') && fields.is_empty() {
                if document.iter().count() != 1 {
                    return Err(Error::location(
                        15983,
                        format!(
                            "An object representing an expression must have exactly one field: {}",
                            crate::query::text::document_text(document)
                        ),
                    ));
                }
                return self.operator(key, raw);
            }
            check_plain_name(key)?;
            if fields.iter().any(|(known, _)| **known == *key) {
                return Err(Error::location(
                    16406,
                    format!("duplicate field name specified in object literal: {key}"),
                ));
            }
            fields.push((key.into(), self.operand(raw)?));
        }
        fold(Node::Object(fields.into()))
    }

    fn operator(&mut self, name: &str, raw: RawBsonRef<'_>) -> Result<Node> {
        match table::find(name) {
            Some(Entry::Call(operator)) => self.call(operator, raw),
            Some(Entry::Named(operator)) => self.named(operator, raw),
            Some(Entry::Special(parse)) => fold(parse(self, name, raw)?),
            Some(Entry::Absent) => Err(Error::not_implemented(format!("the expression {name}"))),
            None => Err(Error::new(
                Code::InvalidPipelineOperator,
                format!("Unrecognized expression '{name}'"),
            )),
        }
    }

    /// The arguments of an operator: an array's items, or the one operand.
    pub fn arguments(&mut self, raw: RawBsonRef<'_>) -> Result<Vec<Node>> {
        match raw {
            RawBsonRef::Array(array) => array
                .into_iter()
                .map(|item| self.operand(item.map_err(corrupt)?))
                .collect(),
            other => Ok(vec![self.operand(other)?]),
        }
    }

    fn call(&mut self, operator: &'static Operator, raw: RawBsonRef<'_>) -> Result<Node> {
        let arguments = self.arguments(raw)?;
        operator.arity.check(operator.name, arguments.len())?;
        fold(Node::Call {
            operator,
            arguments: arguments.into(),
        })
    }

    fn named(&mut self, operator: &'static Named, raw: RawBsonRef<'_>) -> Result<Node> {
        let RawBsonRef::Document(document) = raw else {
            let shown = crate::query::text::element(operator.name, raw);
            let found = type_name(raw.element_type());
            return Err(operator.not_object.error(operator.name, &shown, found));
        };
        let mut arguments: Vec<Option<Node>> = operator.parameters.iter().map(|_| None).collect();
        for entry in document.iter() {
            let (key, raw) = entry.map_err(corrupt)?;
            let key = key.as_str();
            let place = operator
                .parameters
                .iter()
                .position(|parameter| parameter.name == key);
            let Some(place) = place else {
                return Err(operator.unknown.error(operator.name, key, ""));
            };
            arguments[place] = Some(self.operand(raw)?);
        }
        for (argument, parameter) in arguments.iter().zip(operator.parameters) {
            if let (None, Some(complaint)) = (argument, &parameter.missing) {
                return Err(complaint.error(operator.name, parameter.name, ""));
            }
        }
        compile(operator, arguments)
    }

    fn path(&mut self, text: &str) -> Result<Node> {
        let Some(variable) = text.strip_prefix("$$") else {
            let path = &text[1..];
            if path.is_empty() {
                return Err(Error::location(
                    16872,
                    "'$' by itself is not a valid FieldPath",
                ));
            }
            let path = parse_field_path(path)?;
            return Ok(match self.slot("CURRENT") {
                Some(slot) => Node::Slot { slot, path },
                None => Node::Field {
                    path,
                    prefetched: None,
                },
            });
        };
        let (name, rest) = match variable.split_once('.') {
            Some((name, rest)) => (name, Some(rest)),
            None => (variable, None),
        };
        check_name(name)?;
        let path = rest.map(parse_field_path).transpose()?;
        if let Some(slot) = self.slot(name) {
            return Ok(Node::Slot {
                slot,
                path: path.unwrap_or_default(),
            });
        }
        match (name, path) {
            ("ROOT" | "CURRENT", None) => Ok(Node::Root),
            ("ROOT" | "CURRENT", Some(path)) => Ok(Node::Field {
                path,
                prefetched: None,
            }),
            ("NOW", None) => Ok(Node::Now),
            ("CLUSTER_TIME", _) => Ok(Node::ClusterTime),
            ("NOW" | "REMOVE", _) => Node::known(&Value::Missing),
            (_, path) => match self.scope.find(name) {
                Some(constant) => {
                    let value = constant.value()?;
                    Node::known(&super::evaluate::descend(value, &path.unwrap_or_default())?)
                }
                None => Err(Error::location(
                    17276,
                    format!("Use of undefined variable: {name}"),
                )),
            },
        }
    }

    fn slot(&self, name: &str) -> Option<usize> {
        self.names.iter().rposition(|known| known == name)
    }

    /// Puts variables into scope for the time of `body`.
    pub fn with_names<T>(
        &mut self,
        names: &[&str],
        body: impl FnOnce(&mut Self, usize) -> Result<T>,
    ) -> Result<T> {
        let first = self.names.len();
        self.names
            .extend(names.iter().map(|name| (*name).to_owned()));
        let result = body(self, first);
        self.names.truncate(first);
        result
    }
}

impl Arity {
    fn check(self, name: &str, given: usize) -> Result<()> {
        let (code, text) = match self {
            Arity::Any => return Ok(()),
            Arity::Exactly(count) if given != count => (
                16020,
                format!(
                    "Expression {name} takes exactly {count} arguments. {given} were passed in."
                ),
            ),
            Arity::Between(least, most) if !(least..=most).contains(&given) => (
                28667,
                format!(
                    "Expression {name} takes at least {least} arguments, and at most {most}, but \
                     {given} were passed in."
                ),
            ),
            Arity::Conversion if given != 1 => (
                50723,
                format!("{name} requires a single argument, got {given}"),
            ),
            Arity::Date if given != 1 => (
                40536,
                format!(
                    "{name} accepts exactly one argument if given an array, but was given {given}"
                ),
            ),
            Arity::SetEquality if given < 2 => (
                17045,
                format!("{name} needs at least two arguments had: {given}"),
            ),
            _ => return Ok(()),
        };
        Err(Error::location(code, text))
    }
}

/// Computes a node whose parts are all known.
fn fold(node: Node) -> Result<Node> {
    let mut known = true;
    node.for_each_child(&mut |child| known &= child.is_known_part());
    if !known
        || matches!(
            node,
            Node::Random | Node::Now | Node::ClusterTime | Node::Root
        )
    {
        return Ok(node);
    }
    if matches!(
        node,
        Node::Field { .. } | Node::Slot { .. } | Node::Constant(_)
    ) {
        return Ok(node);
    }
    let document = RawDocumentBuf::new();
    let variables = Variables::new(bson::DateTime::from_millis(0));
    let value = node
        .evaluate(&mut Context::new(&document, &variables))
        .map_err(folding_error)?;
    Node::known(&value)
}

/// What the arguments behind the first one are worth once they are known.
enum Planned {
    Truncation(date::TruncatePlan),
    Regex(regex::Kind, regex::Compiled),
}

impl Planned {
    fn with(self, first: Box<Node>) -> Node {
        match self {
            Planned::Truncation(plan) => Node::DateTruncate { date: first, plan },
            Planned::Regex(kind, pattern) => Node::Regex {
                kind,
                input: first,
                pattern,
            },
        }
    }
}

fn plan(operator: &Named, values: &[Option<Value<'_>>]) -> Result<Option<Planned>> {
    if operator.name == "$dateTrunc" {
        return Ok(date::plan_truncation(values).map(Planned::Truncation));
    }
    let Some(kind) = regex::Kind::of(operator.name) else {
        return Ok(None);
    };
    let pattern = regex::compile(operator.name, values).map_err(folding_error)?;
    Ok(pattern.map(|pattern| Planned::Regex(kind, pattern)))
}

/// Makes the most of arguments that are known: a pattern is compiled, a unit is read.
fn compile(operator: &'static Named, mut arguments: Vec<Option<Node>>) -> Result<Node> {
    let known = |node: &Option<Node>| node.as_ref().is_none_or(Node::is_known_part);
    let rest_known = arguments.iter().skip(1).all(known);
    let planned = |arguments: &[Option<Node>]| {
        let mut values = Vec::with_capacity(arguments.len());
        for argument in &arguments[1..] {
            values.push(argument.as_ref().and_then(Node::constant));
        }
        plan(operator, &values)
    };
    // A pattern is compiled now; MongoDB matches it only at run time, even with a known input.
    let is_regex = regex::Kind::of(operator.name).is_some();
    if rest_known
        && (is_regex || !known(&arguments[0]))
        && let Some(planned) = planned(&arguments)?
    {
        let first = arguments[0].take().expect("a required argument");
        return Ok(planned.with(Box::new(first)));
    }
    fold(Node::Named {
        operator,
        arguments: arguments.into(),
    })
}

/// A dotted path of field names, as after the `$` of a field path.
///
/// # Errors
/// MongoDB's: 40352 empty, 40353 ends with a dot, 15998 empty part, 16410 part that starts
/// with `$`, 16411 null byte.
pub fn parse_field_path(path: &str) -> Result<Box<[Box<str>]>> {
    if path.is_empty() {
        return Err(Error::location(
            40352,
            "FieldPath cannot be constructed with empty string",
        ));
    }
    if path.ends_with('.') {
        return Err(Error::location(40353, "FieldPath must not end with a '.'."));
    }
    path.split('.')
        .map(|part| check_plain_name(part).map(|()| part.into()))
        .collect()
}

fn check_plain_name(name: &str) -> Result<()> {
    let (code, text) = if name.is_empty() {
        (15998, "FieldPath field names may not be empty strings.")
    } else if name.starts_with('$') {
        (
            16410,
            "FieldPath field names may not start with '$'. Consider using $getField or $setField.",
        )
    } else if name.contains('\0') {
        (16411, "FieldPath field names may not contain '\0'.")
    } else if name.contains('.') {
        (
            16412,
            "FieldPath field names may not contain '.'. Consider using $getField or $setField.",
        )
    } else {
        return Ok(());
    };
    Err(Error::location(code, text))
}

fn check_name(name: &str) -> Result<()> {
    let Some(first) = name.chars().next() else {
        return Err(Error::failed_to_parse(
            "empty variable names are not allowed",
        ));
    };
    if !first.is_ascii_alphabetic() && first.is_ascii() {
        return Err(Error::failed_to_parse(format!(
            "'{name}' starts with an invalid character for a variable name"
        )));
    }
    check_name_characters(name)
}

fn check_name_characters(name: &str) -> Result<()> {
    let bad = name
        .chars()
        .find(|c| c.is_ascii() && !c.is_ascii_alphanumeric() && *c != '_');
    match bad {
        Some(bad) => Err(Error::failed_to_parse(format!(
            "'{name}' contains an invalid character for a variable name: '{bad}'"
        ))),
        None => Ok(()),
    }
}

/// Refuses names a user may not give a variable.
pub fn check_user_name(name: &str) -> Result<()> {
    let Some(first) = name.chars().next() else {
        return Err(Error::failed_to_parse(
            "empty variable names are not allowed",
        ));
    };
    if name == "CURRENT" {
        return Ok(());
    }
    if first.is_ascii() && !first.is_ascii_lowercase() {
        return Err(Error::failed_to_parse(format!(
            "'{name}' starts with an invalid character for a user variable name"
        )));
    }
    check_name_characters(name)
}

/// Parsers of the operators that do not evaluate all of their arguments.
pub mod special {
    use super::*;

    /// `$literal` and `$const`.
    pub fn literal(_: &mut Parser<'_>, _: &str, raw: RawBsonRef<'_>) -> Result<Node> {
        Node::known(&Value::Raw(raw))
    }

    /// `$rand`.
    pub fn random(parser: &mut Parser<'_>, name: &str, raw: RawBsonRef<'_>) -> Result<Node> {
        let empty = match raw {
            RawBsonRef::Document(document) => document.is_empty(),
            RawBsonRef::Array(array) => array.is_empty(),
            _ => {
                return Err(Error::location(
                    10065,
                    format!("invalid parameter: expected an object ({name})"),
                ));
            }
        };
        if !empty {
            parser.arguments(raw)?;
            return Err(Error::location(
                3_040_501,
                format!("{name} does not currently accept arguments"),
            ));
        }
        Ok(Node::Random)
    }

    /// The comparisons.
    pub fn comparison(parser: &mut Parser<'_>, name: &str, raw: RawBsonRef<'_>) -> Result<Node> {
        let comparison = match name {
            "$eq" => Comparison::Equal,
            "$ne" => Comparison::NotEqual,
            "$lt" => Comparison::Less,
            "$lte" => Comparison::LessOrEqual,
            "$gt" => Comparison::Greater,
            "$gte" => Comparison::GreaterOrEqual,
            _ => Comparison::Order,
        };
        let operands = parser.arguments(raw)?;
        Arity::Exactly(2).check(name, operands.len())?;
        let operands: Box<[Node; 2]> = operands
            .into_boxed_slice()
            .try_into()
            .map_err(|_| impossible())?;
        Ok(Node::Compare {
            comparison,
            operands,
        })
    }

    /// `$and`.
    pub fn and(parser: &mut Parser<'_>, _: &str, raw: RawBsonRef<'_>) -> Result<Node> {
        Ok(Node::And(parser.arguments(raw)?.into()))
    }

    /// `$or`.
    pub fn or(parser: &mut Parser<'_>, _: &str, raw: RawBsonRef<'_>) -> Result<Node> {
        Ok(Node::Or(parser.arguments(raw)?.into()))
    }

    /// `$cond`, in both forms.
    pub fn condition(parser: &mut Parser<'_>, name: &str, raw: RawBsonRef<'_>) -> Result<Node> {
        let parts = match raw {
            RawBsonRef::Document(document) => {
                let mut parts = [None, None, None];
                for entry in document.iter() {
                    let (key, raw) = entry.map_err(corrupt)?;
                    let place = match key.as_str() {
                        "if" => 0,
                        "then" => 1,
                        "else" => 2,
                        other => {
                            return Err(Error::location(
                                17083,
                                format!("Unrecognized parameter to $cond: {other}"),
                            ));
                        }
                    };
                    parts[place] = Some(parser.operand(raw)?);
                }
                let names = [("if", 17080), ("then", 17081), ("else", 17082)];
                let mut all = Vec::with_capacity(3);
                for (part, (name, code)) in parts.into_iter().zip(names) {
                    all.push(part.ok_or_else(|| {
                        Error::location(code, format!("Missing '{name}' parameter to $cond"))
                    })?);
                }
                all
            }
            other => {
                let parts = parser.arguments(other)?;
                Arity::Exactly(3).check(name, parts.len())?;
                parts
            }
        };
        Ok(Node::Condition(
            parts
                .into_boxed_slice()
                .try_into()
                .map_err(|_| impossible())?,
        ))
    }

    /// `$ifNull`.
    pub fn if_null(parser: &mut Parser<'_>, _: &str, raw: RawBsonRef<'_>) -> Result<Node> {
        let parts = parser.arguments(raw)?;
        if parts.len() < 2 {
            return Err(Error::location(
                1_257_300,
                format!("$ifNull needs at least two arguments, had: {}", parts.len()),
            ));
        }
        Ok(Node::IfNull(parts.into()))
    }

    /// `$switch`.
    pub fn switch(parser: &mut Parser<'_>, _: &str, raw: RawBsonRef<'_>) -> Result<Node> {
        let RawBsonRef::Document(document) = raw else {
            return Err(Error::location(
                40060,
                format!(
                    "$switch requires an object as an argument, found: {}",
                    type_name(raw.element_type())
                ),
            ));
        };
        let mut branches = Vec::new();
        let mut default = None;
        for entry in document.iter() {
            let (key, raw) = entry.map_err(corrupt)?;
            match key.as_str() {
                "branches" => branches = switch_branches(parser, raw)?,
                "default" => default = Some(Box::new(parser.operand(raw)?)),
                other => {
                    return Err(Error::location(
                        40067,
                        format!("$switch found an unknown argument: {other}"),
                    ));
                }
            }
        }
        if branches.is_empty() {
            return Err(Error::location(
                40068,
                "$switch requires at least one branch",
            ));
        }
        let never = |(case, _): &(Node, Node)| case.constant().is_some_and(|value| !value.truthy());
        if default.is_none() && branches.iter().all(never) {
            return Err(folding_error(Error::location(
                40069,
                "Cannot execute a switch statement where all the cases evaluate to false without \
                 a default",
            )));
        }
        Ok(Node::Switch {
            branches: branches.into(),
            default,
        })
    }

    fn switch_branches(parser: &mut Parser<'_>, raw: RawBsonRef<'_>) -> Result<Vec<(Node, Node)>> {
        let RawBsonRef::Array(array) = raw else {
            return Err(Error::location(
                40061,
                format!(
                    "$switch expected an array for 'branches', found: {}",
                    type_name(raw.element_type())
                ),
            ));
        };
        array
            .into_iter()
            .map(|branch| switch_branch(parser, branch.map_err(corrupt)?))
            .collect()
    }

    fn switch_branch(parser: &mut Parser<'_>, raw: RawBsonRef<'_>) -> Result<(Node, Node)> {
        let RawBsonRef::Document(branch) = raw else {
            return Err(Error::location(
                40062,
                format!(
                    "$switch expected each branch to be an object, found: {}",
                    type_name(raw.element_type())
                ),
            ));
        };
        let (mut case, mut then) = (None, None);
        for entry in branch.iter() {
            let (key, raw) = entry.map_err(corrupt)?;
            match key.as_str() {
                "case" => case = Some(parser.operand(raw)?),
                "then" => then = Some(parser.operand(raw)?),
                other => {
                    return Err(Error::location(
                        40063,
                        format!("$switch found an unknown argument to a branch: {other}"),
                    ));
                }
            }
        }
        let case = case.ok_or_else(|| {
            Error::location(
                40064,
                "$switch requires each branch have a 'case' expression",
            )
        })?;
        let then = then.ok_or_else(|| {
            Error::location(
                40065,
                "$switch requires each branch have a 'then' expression.",
            )
        })?;
        Ok((case, then))
    }

    /// The raw parts of an operator that takes an object: `names` in order.
    fn parts<'r, const N: usize>(
        operator: &str,
        raw: RawBsonRef<'r>,
        names: [&str; N],
        not_object: (i32, &str),
        unknown: (i32, &str),
    ) -> Result<[Option<RawBsonRef<'r>>; N]> {
        let RawBsonRef::Document(document) = raw else {
            let text = not_object
                .1
                .replace("{type}", type_name(raw.element_type()));
            return Err(Error::location(not_object.0, text));
        };
        let mut parts = [None; N];
        for entry in document.iter() {
            let (key, raw) = entry.map_err(corrupt)?;
            match names.iter().position(|name| *name == key.as_str()) {
                Some(place) => parts[place] = Some(raw),
                None => {
                    let text = unknown
                        .1
                        .replace("{op}", operator)
                        .replace("{arg}", key.as_str());
                    return Err(Error::location(unknown.0, text));
                }
            }
        }
        Ok(parts)
    }

    fn required<'r>(part: Option<RawBsonRef<'r>>, code: i32, text: &str) -> Result<RawBsonRef<'r>> {
        part.ok_or_else(|| Error::location(code, text))
    }

    /// `$let`.
    pub fn bind(parser: &mut Parser<'_>, name: &str, raw: RawBsonRef<'_>) -> Result<Node> {
        let [vars, body] = parts(
            name,
            raw,
            ["vars", "in"],
            (16874, "$let only supports an object as its argument"),
            (16875, "Unrecognized parameter to $let: {arg}"),
        )?;
        let vars = required(vars, 16876, "Missing 'vars' parameter to $let")?;
        let body = required(body, 16877, "Missing 'in' parameter to $let")?;
        let RawBsonRef::Document(vars) = vars else {
            return Err(Error::location(
                10065,
                "invalid parameter: expected an object (vars)",
            ));
        };
        let (mut names, mut values) = (Vec::new(), Vec::new());
        for entry in vars.iter() {
            let (key, raw) = entry.map_err(corrupt)?;
            check_user_name(key.as_str())?;
            names.push(key.as_str());
            values.push(parser.operand(raw)?);
        }
        parser.with_names(&names, |parser, first| {
            let body = Box::new(parser.operand(body)?);
            let variables = values.into_iter().enumerate();
            let variables = variables
                .map(|(index, node)| (first + index, node))
                .collect();
            Ok(Node::Let { variables, body })
        })
    }

    fn variable_name<'r>(raw: Option<RawBsonRef<'r>>) -> Result<&'r str> {
        let name = match raw {
            None => return Ok("this"),
            Some(RawBsonRef::String(name)) => name,
            Some(_) => "",
        };
        check_user_name(name)?;
        Ok(name)
    }

    /// `$map`.
    pub fn map(parser: &mut Parser<'_>, name: &str, raw: RawBsonRef<'_>) -> Result<Node> {
        let [input, variable, body] = parts(
            name,
            raw,
            ["input", "as", "in"],
            (16878, "$map only supports an object as its argument"),
            (16879, "Unrecognized parameter to $map: {arg}"),
        )?;
        let input = required(input, 16880, "Missing 'input' parameter to $map")?;
        let body = required(body, 16882, "Missing 'in' parameter to $map")?;
        let input = Box::new(parser.operand(input)?);
        parser.with_names(&[variable_name(variable)?], |parser, slot| {
            Ok(Node::Map {
                input,
                slot,
                body: Box::new(parser.operand(body)?),
            })
        })
    }

    /// `$filter`.
    pub fn filter(parser: &mut Parser<'_>, name: &str, raw: RawBsonRef<'_>) -> Result<Node> {
        let [input, variable, condition, limit] = parts(
            name,
            raw,
            ["input", "as", "cond", "limit"],
            (28646, "$filter only supports an object as its argument"),
            (28647, "Unrecognized parameter to $filter: {arg}"),
        )?;
        let input = required(input, 28648, "Missing 'input' parameter to $filter")?;
        let condition = required(condition, 28650, "Missing 'cond' parameter to $filter")?;
        let input = Box::new(parser.operand(input)?);
        let limit = limit
            .map(|limit| parser.operand(limit).map(Box::new))
            .transpose()?;
        parser.with_names(&[variable_name(variable)?], |parser, slot| {
            let condition = Box::new(parser.operand(condition)?);
            Ok(Node::Filter {
                input,
                slot,
                condition,
                limit,
            })
        })
    }

    /// `$reduce`.
    pub fn reduce(parser: &mut Parser<'_>, name: &str, raw: RawBsonRef<'_>) -> Result<Node> {
        let [input, initial, body] = parts(
            name,
            raw,
            ["input", "initialValue", "in"],
            (
                40075,
                "$reduce requires an object as an argument, found: {type}",
            ),
            (40076, "$reduce found an unknown argument: {arg}"),
        )?;
        let input = required(input, 40077, "$reduce requires 'input' to be specified")?;
        let initial = required(
            initial,
            40078,
            "$reduce requires 'initialValue' to be specified",
        )?;
        let body = required(body, 40079, "$reduce requires 'in' to be specified")?;
        let (input, initial) = (parser.operand(input)?, parser.operand(initial)?);
        parser.with_names(&["value", "this"], |parser, value_slot| {
            Ok(Node::Reduce {
                parts: Box::new([input, initial, parser.operand(body)?]),
                value_slot,
            })
        })
    }

    /// `$zip`.
    pub fn zip(parser: &mut Parser<'_>, name: &str, raw: RawBsonRef<'_>) -> Result<Node> {
        let [inputs, defaults, longest] = parts(
            name,
            raw,
            ["inputs", "defaults", "useLongestLength"],
            (
                34460,
                "$zip only supports an object as an argument, found {type}",
            ),
            (34464, "$zip found an unknown argument: {arg}"),
        )?;
        let array = |parser: &mut Parser<'_>, part: Option<RawBsonRef<'_>>, code, what| match part {
            None => Ok(Vec::new()),
            Some(RawBsonRef::Array(_)) => parser.arguments(part.expect("just matched")),
            Some(other) => Err(Error::location(
                code,
                format!(
                    "{what} must be an array of expressions, found {}",
                    type_name(other.element_type())
                ),
            )),
        };
        let inputs = array(parser, inputs, 34461, "inputs")?;
        let defaults = array(parser, defaults, 34462, "defaults")?;
        let longest = match longest {
            None => false,
            Some(RawBsonRef::Boolean(longest)) => longest,
            Some(_) => {
                return Err(Error::location(
                    34463,
                    // MongoDB names the type of the operand around it.
                    "useLongestLength must be a bool, found object",
                ));
            }
        };
        if inputs.is_empty() {
            return Err(Error::location(
                34465,
                "$zip requires at least one input array",
            ));
        }
        if !defaults.is_empty() && !longest {
            return Err(Error::location(
                34466,
                "cannot specify defaults unless useLongestLength is true",
            ));
        }
        if !defaults.is_empty() && defaults.len() != inputs.len() {
            return Err(Error::location(
                34467,
                "defaults and inputs must have the same length",
            ));
        }
        Ok(Node::Zip {
            inputs: inputs.into(),
            defaults: defaults.into(),
            longest,
        })
    }

    fn impossible() -> Error {
        Error::new(Code::InternalError, "the arity was checked")
    }
}
