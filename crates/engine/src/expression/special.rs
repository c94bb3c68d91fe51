//! Parsers of the operators that are nodes of their own: those that do not evaluate all of
//! their arguments, or bind variables.

use super::node::{ComparisonOperator, Node};
use super::parse::{ExpressionParser, check_user_name};
use super::table::Arity;
use super::{Value, folding_error};
use crate::error::{Code, Error, Result};
use crate::expression::value::corrupt;
use crate::types::type_name;
use bson::RawBsonRef;

/// `$literal` and `$const`.
pub fn literal(_: &mut ExpressionParser<'_>, _: &str, raw: RawBsonRef<'_>) -> Result<Node> {
    Node::known(&Value::Raw(raw))
}

/// `$meta`.
pub fn metadata(parser: &mut ExpressionParser<'_>, _: &str, raw: RawBsonRef<'_>) -> Result<Node> {
    parser.metadata().part(raw).map(Node::Metadata)
}

/// `$rand`.
pub fn random(parser: &mut ExpressionParser<'_>, name: &str, raw: RawBsonRef<'_>) -> Result<Node> {
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
pub fn comparison(
    parser: &mut ExpressionParser<'_>,
    name: &str,
    raw: RawBsonRef<'_>,
) -> Result<Node> {
    let comparison = match name {
        "$eq" => ComparisonOperator::Equal,
        "$ne" => ComparisonOperator::NotEqual,
        "$lt" => ComparisonOperator::Less,
        "$lte" => ComparisonOperator::LessOrEqual,
        "$gt" => ComparisonOperator::Greater,
        "$gte" => ComparisonOperator::GreaterOrEqual,
        _ => ComparisonOperator::Order,
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
pub fn and(parser: &mut ExpressionParser<'_>, _: &str, raw: RawBsonRef<'_>) -> Result<Node> {
    connective(parser, raw, false, Node::And)
}

/// `$or`.
pub fn or(parser: &mut ExpressionParser<'_>, _: &str, raw: RawBsonRef<'_>) -> Result<Node> {
    connective(parser, raw, true, Node::Or)
}

/// The parts of `$and` or `$or`. One that is known to decide is the answer, wherever it stands, as MongoDB's optimizer has it.
fn connective(
    parser: &mut ExpressionParser<'_>,
    raw: RawBsonRef<'_>,
    deciding: bool,
    node: fn(Box<[Node]>) -> Node,
) -> Result<Node> {
    let parts = parser.arguments(raw)?;
    let decides = |part: &Node| {
        part.constant()
            .is_some_and(|value| value.truthy() == deciding)
    };
    if !parser.defers_faults() && parts.iter().any(decides) {
        return Node::known(&Value::boolean(deciding));
    }
    Ok(node(parts.into()))
}

/// `$cond`, in both forms.
pub fn condition(
    parser: &mut ExpressionParser<'_>,
    name: &str,
    raw: RawBsonRef<'_>,
) -> Result<Node> {
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
pub fn if_null(parser: &mut ExpressionParser<'_>, _: &str, raw: RawBsonRef<'_>) -> Result<Node> {
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
pub fn switch(parser: &mut ExpressionParser<'_>, _: &str, raw: RawBsonRef<'_>) -> Result<Node> {
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
    if !parser.defers_faults() {
        branches.retain(|(case, _)| case_is(case) != Some(false));
    }
    // Where nothing is computed ahead, a switch without a match is found out by running it.
    if default.is_none() && branches.is_empty() {
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

fn switch_branches(
    parser: &mut ExpressionParser<'_>,
    raw: RawBsonRef<'_>,
) -> Result<Vec<(Node, Node)>> {
    let RawBsonRef::Array(array) = raw else {
        return Err(Error::location(
            40061,
            format!(
                "$switch expected an array for 'branches', found: {}",
                type_name(raw.element_type())
            ),
        ));
    };
    let mut branches = Vec::new();
    let mut settled = false;
    for branch in array {
        let (case, then) = switch_parts(branch.map_err(corrupt)?)?;
        // MongoDB drops what a constant case rules out before it computes constants in it.
        if settled {
            parser.unreachable(case)?;
            parser.unreachable(then)?;
            continue;
        }
        let case = parser.operand(case)?;
        let known = case_is(&case).filter(|_| !parser.defers_faults());
        let then = match known {
            Some(false) => parser.unreachable(then)?,
            _ => parser.operand(then)?,
        };
        settled = known == Some(true);
        branches.push((case, then));
    }
    Ok(branches)
}

/// Whether a case holds, where that is known without a document.
fn case_is(case: &Node) -> Option<bool> {
    case.constant().map(|value| value.truthy())
}

/// The case and the result of a branch.
fn switch_parts(raw: RawBsonRef<'_>) -> Result<(RawBsonRef<'_>, RawBsonRef<'_>)> {
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
            "case" => case = Some(raw),
            "then" => then = Some(raw),
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
pub fn bind(parser: &mut ExpressionParser<'_>, name: &str, raw: RawBsonRef<'_>) -> Result<Node> {
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
pub fn map(parser: &mut ExpressionParser<'_>, name: &str, raw: RawBsonRef<'_>) -> Result<Node> {
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
pub fn filter(parser: &mut ExpressionParser<'_>, name: &str, raw: RawBsonRef<'_>) -> Result<Node> {
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
pub fn reduce(parser: &mut ExpressionParser<'_>, name: &str, raw: RawBsonRef<'_>) -> Result<Node> {
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
pub fn zip(parser: &mut ExpressionParser<'_>, name: &str, raw: RawBsonRef<'_>) -> Result<Node> {
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
    let array =
        |parser: &mut ExpressionParser<'_>, part: Option<RawBsonRef<'_>>, code, what| match part {
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
