//! Evaluation of the tree.

use super::node::{ComparisonOperator, EvaluationContext, Node};
use super::table::{Named, Operator, looks_in_turn};
use super::{Value, control, date_math, regex};
use crate::error::{Error, Result};
use crate::expression::value::{self, raw_field};
use crate::operation::memory;
use bson::RawBsonRef;
use meridian_value::Collation;
use smallvec::SmallVec;
use std::borrow::Cow;
use std::cmp::Ordering;

impl Node {
    /// The value of this part of an expression.
    pub fn evaluate<'a>(&'a self, context: &mut EvaluationContext<'a>) -> Result<Value<'a>> {
        match self {
            Node::Constant(constant) => constant.value(),
            Node::Field { path, prefetched } => field(path, *prefetched, context),
            Node::Slot { slot, path } => {
                let value = context.slots[*slot].clone();
                if !path.is_empty() {
                    context.count_work(value.work())?;
                }
                descend(value, path)
            }
            Node::Root => Ok(Value::Raw(RawBsonRef::Document(context.document))),
            Node::Now => Ok(Value::Raw(RawBsonRef::DateTime(context.variables.now()))),
            Node::ClusterTime => Err(Error::location(
                51144,
                "Builtin variable '$$CLUSTER_TIME' is not available",
            )),
            Node::Random => Ok(Value::double(rand::random())),
            Node::Metadata(part) => {
                let value = context.variables.metadata_part(*part);
                Ok(value.map_or(Value::Missing, Value::Raw))
            }
            Node::Script(call) => call.evaluate(context),
            Node::Object(fields) => object(fields, context),
            Node::Array(items) => array(items, context),
            Node::Call {
                operator,
                arguments,
            } => {
                let mut values = ArgumentValues::with_capacity(arguments.len());
                for argument in arguments {
                    match argument.evaluate(context) {
                        Ok(value) => values.push(value),
                        Err(fault) => {
                            let collation = context.variables.collation();
                            return before(fault, operator, &values, arguments.len(), collation);
                        }
                    }
                }
                context.count_work(values.iter().map(Value::work).sum())?;
                memory::check_values()?;
                let collation = context.variables.collation();
                operator
                    .function
                    .call(operator.name, &mut values, collation)
            }
            Node::Named {
                operator,
                arguments,
            } => named(operator, arguments, context),
            Node::Compare {
                comparison,
                operands,
            } => {
                let left = operands[0].evaluate(context)?;
                let right = operands[1].evaluate(context)?;
                context.count_work(left.work().min(right.work()))?;
                let order = value::compare(&left, &right, context.variables.collation());
                Ok(compared(*comparison, order))
            }
            Node::And(parts) => {
                for part in parts {
                    if !part.evaluate(context)?.truthy() {
                        return Ok(Value::boolean(false));
                    }
                }
                Ok(Value::boolean(true))
            }
            Node::Or(parts) => {
                for part in parts {
                    if part.evaluate(context)?.truthy() {
                        return Ok(Value::boolean(true));
                    }
                }
                Ok(Value::boolean(false))
            }
            Node::Condition(parts) => {
                let [condition, then, otherwise] = &**parts;
                let branch = if condition.evaluate(context)?.truthy() {
                    then
                } else {
                    otherwise
                };
                branch.evaluate(context)
            }
            Node::IfNull(parts) => control::if_null(parts, context),
            Node::Switch { branches, default } => {
                control::switch(branches, default.as_deref(), context)
            }
            Node::Let { variables, body } => {
                // All before any is set: each may use the same slots for variables of its own.
                let mut values = ArgumentValues::with_capacity(variables.len());
                for (_, node) in variables {
                    values.push(node.evaluate(context)?);
                }
                for ((slot, _), value) in variables.iter().zip(values) {
                    context.set(*slot, value)?;
                }
                body.evaluate(context)
            }
            Node::Map { input, slot, body } => control::map(input, *slot, body, context),
            Node::Filter {
                input,
                slot,
                condition,
                limit,
            } => control::filter(input, *slot, condition, limit.as_deref(), context),
            Node::Reduce { parts, value_slot } => control::reduce(parts, *value_slot, context),
            Node::Zip {
                inputs,
                defaults,
                longest,
            } => control::zip(inputs, defaults, *longest, context),
            Node::DateTruncate { date, plan } => {
                let date = date.evaluate(context)?;
                date_math::truncate_planned(&date, plan)
            }
            Node::Regex {
                kind,
                input,
                pattern,
            } => {
                let input = input.evaluate(context)?;
                context.count_work(input.work())?;
                regex::run(*kind, &input, pattern)
            }
        }
    }
}

type ArgumentValues<'a> = SmallVec<[Value<'a>; 3]>;

/// What an operator answers without a look at some of its arguments; none where it looks at them. Other values are put in
/// their place by `answer`: a missing one, one that is of no use to any operator, and an array.
fn unseen<'a>(answer: impl FnMut(Value<'a>) -> Result<Value<'a>>) -> Option<Result<Value<'a>>> {
    let others = [
        Value::Missing,
        Value::Raw(RawBsonRef::MinKey),
        Value::array(Vec::new()),
    ];
    let [first, second, third] = others.map(answer);
    (same(&first, &second) && same(&first, &third)).then_some(first)
}

fn same(one: &Result<Value<'_>>, other: &Result<Value<'_>>) -> bool {
    match (one, other) {
        (Ok(one), Ok(other)) => value::compare(one, other, &Collation::SIMPLE).is_eq(),
        (Err(one), Err(other)) => one.code == other.code && one.message == other.message,
        _ => false,
    }
}

/// The answer where the argument behind these `values` is at fault: null or false, or the error of a value before it,
/// where MongoDB looks at each argument before it evaluates the next; else the fault.
#[cold]
fn before<'a>(
    fault: Error,
    operator: &Operator,
    values: &ArgumentValues<'a>,
    count: usize,
    collation: &Collation,
) -> Result<Value<'a>> {
    if !looks_in_turn(operator.name, values.len()) {
        return Err(fault);
    }
    let answer = unseen(|other| {
        let mut all = values.clone();
        all.resize(count, other);
        operator.function.call(operator.name, &mut all, collation)
    });
    match answer {
        // What is searched for is looked at, though none of the other values may be found.
        Some(Ok(value)) if value.truthy() => Err(fault),
        Some(answer) => answer,
        None => Err(fault),
    }
}

/// The value of an operator with named arguments, which stand in the order in which they are looked at. What stands in
/// for an input that cannot be used (`onNull`, `onError`) is at fault only where it is taken.
fn named<'a>(
    operator: &Named,
    arguments: &'a [Option<Node>],
    context: &mut EvaluationContext<'a>,
) -> Result<Value<'a>> {
    let mut values = SmallVec::<[Option<Value<'a>>; 5]>::with_capacity(arguments.len());
    let (mut fault, mut unknown) = (None, SmallVec::<[usize; 4]>::new());
    let mut is_stopped = false;
    for (argument, parameter) in arguments.iter().zip(operator.parameters) {
        let Some(node) = argument else {
            values.push(None);
            continue;
        };
        let is_fallback = matches!(parameter.name, "onNull" | "onError");
        let value = match is_stopped && !is_fallback {
            true => None,
            false => match node.evaluate(context) {
                Ok(value) => Some(value),
                Err(error) if is_fallback || looks_in_turn(operator.name, values.len()) => {
                    is_stopped |= !is_fallback;
                    fault.get_or_insert(date_math::fault_of(operator.name, parameter.name, error));
                    None
                }
                Err(error) => return Err(error),
            },
        };
        if value.is_none() {
            unknown.push(values.len());
        }
        values.push(Some(value.unwrap_or(Value::Missing)));
    }
    context.count_work(values.iter().flatten().map(Value::work).sum())?;
    memory::check_values()?;
    let collation = context.variables.collation();
    let Some(fault) = fault else {
        return operator
            .function
            .call(operator.name, &mut values, collation);
    };
    let answer = unseen(|other| {
        let mut all = values.clone();
        for place in &unknown {
            all[*place] = Some(other.clone());
        }
        operator.function.call(operator.name, &mut all, collation)
    });
    answer.unwrap_or(Err(fault))
}

fn compared<'a>(comparison: ComparisonOperator, order: Ordering) -> Value<'a> {
    Value::boolean(match comparison {
        ComparisonOperator::Equal => order.is_eq(),
        ComparisonOperator::NotEqual => order.is_ne(),
        ComparisonOperator::Less => order.is_lt(),
        ComparisonOperator::LessOrEqual => order.is_le(),
        ComparisonOperator::Greater => order.is_gt(),
        ComparisonOperator::GreaterOrEqual => order.is_ge(),
        ComparisonOperator::Order => return Value::int32(order as i32),
    })
}

#[inline]
fn field<'a>(
    path: &'a [Box<str>],
    prefetched: Option<usize>,
    context: &mut EvaluationContext<'a>,
) -> Result<Value<'a>> {
    let first = match prefetched.and_then(|place| context.prefetched.get(place)) {
        Some(value) => value.clone(),
        None => raw_field(context.document, &path[0])?,
    };
    if path.len() == 1 {
        Ok(first)
    } else {
        descend(first, &path[1..])
    }
}

/// What lies at a path below a value. A path through an array gives the array of what
/// lies below each of its documents; numbers in a path are field names, never indexes.
pub fn descend<'a>(value: Value<'a>, path: &[Box<str>]) -> Result<Value<'a>> {
    let Some((name, rest)) = path.split_first() else {
        return Ok(value);
    };
    if value.is_document() {
        return descend(value.field(name)?, rest);
    }
    let Some(items) = value.items()? else {
        return Ok(Value::Missing);
    };
    let mut found = Vec::new();
    for item in items.iter().filter(|item| item.is_document()) {
        let below = descend(item.clone(), path)?;
        if !below.is_missing() {
            found.push(below);
        }
        memory::check_values()?;
    }
    Ok(Value::array(found))
}

fn object<'a>(
    fields: &'a [(Box<str>, Node)],
    context: &mut EvaluationContext<'a>,
) -> Result<Value<'a>> {
    let mut built = Vec::with_capacity(fields.len());
    for (name, node) in fields {
        let value = node.evaluate(context)?;
        if !value.is_missing() {
            built.push((Cow::Borrowed(&**name), value));
        }
        memory::check_values()?;
    }
    Ok(Value::document(built))
}

fn array<'a>(items: &'a [Node], context: &mut EvaluationContext<'a>) -> Result<Value<'a>> {
    let mut built = Vec::with_capacity(items.len());
    for item in items {
        built.push(control::or_null(item.evaluate(context)?));
        memory::check_values()?;
    }
    Ok(Value::array(built))
}
