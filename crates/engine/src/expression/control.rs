//! Operators that decide which of their parts to evaluate, or evaluate one many times.

use super::Value;
use super::convert::display;
use super::node::{EvaluationContext, Node};
use crate::error::{Error, Result};
use crate::expression::value::items_bytes;
use crate::operation::memory;
use meridian_value::number::Number;

/// The value, with null in the place of missing.
pub fn or_null(value: Value<'_>) -> Value<'_> {
    if value.is_missing() {
        Value::NULL
    } else {
        value
    }
}

/// `$ifNull`: the first part that is neither null nor missing, or the last part.
pub fn if_null<'a>(parts: &'a [Node], context: &mut EvaluationContext<'a>) -> Result<Value<'a>> {
    let (last, first) = parts.split_last().expect("the parser asks for two parts");
    for part in first {
        let value = part.evaluate(context)?;
        if !value.is_nullish() {
            return Ok(value);
        }
    }
    last.evaluate(context)
}

/// `$switch`.
pub fn switch<'a>(
    branches: &'a [(Node, Node)],
    default: Option<&'a Node>,
    context: &mut EvaluationContext<'a>,
) -> Result<Value<'a>> {
    for (case, then) in branches {
        if case.evaluate(context)?.truthy() {
            return then.evaluate(context);
        }
    }
    match default {
        Some(default) => default.evaluate(context),
        None => Err(Error::location(
            40066,
            "$switch could not find a matching branch for an input, and no default was specified.",
        )),
    }
}

/// `$map`.
pub fn map<'a>(
    input: &'a Node,
    slot: usize,
    body: &'a Node,
    context: &mut EvaluationContext<'a>,
) -> Result<Value<'a>> {
    let input = input.evaluate(context)?;
    if input.is_nullish() {
        return Ok(Value::NULL);
    }
    let Some(items) = input.items()? else {
        return Err(Error::location(
            16883,
            format!("input to $map must be an array not {}", input.type_name()),
        ));
    };
    memory::expect_values(items_bytes(items.len()))?;
    let mut mapped = Vec::with_capacity(items.len());
    for item in items.iter() {
        context.count_work(1)?;
        context.set(slot, item.clone())?;
        mapped.push(or_null(body.evaluate(context)?));
        memory::check_values()?;
    }
    Ok(Value::array(mapped))
}

/// `$filter`.
pub fn filter<'a>(
    input: &'a Node,
    slot: usize,
    condition: &'a Node,
    limit: Option<&'a Node>,
    context: &mut EvaluationContext<'a>,
) -> Result<Value<'a>> {
    let input = input.evaluate(context)?;
    if input.is_nullish() {
        return Ok(Value::NULL);
    }
    let Some(items) = input.items()? else {
        return Err(Error::location(
            28651,
            format!(
                "input to $filter must be an array not {}",
                input.type_name()
            ),
        ));
    };
    let limit = match limit {
        Some(limit) => filter_limit(&limit.evaluate(context)?)?,
        None => usize::MAX,
    };
    let mut kept = Vec::new();
    for item in items.iter() {
        context.count_work(1)?;
        context.set(slot, item.clone())?;
        if condition.evaluate(context)?.truthy() {
            kept.push(item.clone());
            if kept.len() == limit {
                break;
            }
        }
    }
    Ok(Value::array(kept))
}

fn filter_limit(limit: &Value<'_>) -> Result<usize> {
    if limit.is_nullish() {
        return Ok(usize::MAX);
    }
    let whole = number(limit)
        .and_then(Number::to_i64_exact)
        .and_then(|whole| i32::try_from(whole).ok());
    match whole {
        None => Err(Error::location(
            327_391,
            format!(
                "$filter: limit must be represented as a 32-bit integral value: {}",
                display(limit)
            ),
        )),
        Some(whole) if whole <= 0 => Err(Error::location(
            327_392,
            format!("$filter: limit must be greater than 0: {whole}"),
        )),
        Some(whole) => Ok(whole.unsigned_abs() as usize),
    }
}

/// `$reduce`.
pub fn reduce<'a>(
    parts: &'a [Node; 3],
    value_slot: usize,
    context: &mut EvaluationContext<'a>,
) -> Result<Value<'a>> {
    let [input, initial, body] = parts;
    let input = input.evaluate(context)?;
    if input.is_nullish() {
        return Ok(Value::NULL);
    }
    let Some(items) = input.items()? else {
        return Err(Error::location(
            40080,
            format!(
                "$reduce requires that 'input' be an array, found: {}",
                display(&input)
            ),
        ));
    };
    let mut accumulated = initial.evaluate(context)?;
    for item in items.iter() {
        context.count_work(1)?;
        context.set(value_slot, accumulated)?;
        context.set(value_slot + 1, item.clone())?;
        accumulated = body.evaluate(context)?;
        memory::check_values()?;
    }
    accumulated.check_extent()?;
    Ok(accumulated)
}

/// `$zip`.
pub fn zip<'a>(
    inputs: &'a [Node],
    defaults: &'a [Node],
    longest: bool,
    context: &mut EvaluationContext<'a>,
) -> Result<Value<'a>> {
    let mut arrays = Vec::with_capacity(inputs.len());
    for input in inputs {
        let value = input.evaluate(context)?;
        if value.is_nullish() {
            return Ok(Value::NULL);
        }
        arrays.push(value.items()?.ok_or_else(|| {
            Error::location(
                34468,
                format!(
                    "$zip found a non-array expression in input: {}",
                    display(&value)
                ),
            )
        })?);
    }
    let mut fills = Vec::with_capacity(inputs.len());
    let lengths = arrays.iter().map(|array| array.len());
    // MongoDB evaluates the defaults only where one is needed.
    let is_even = lengths.clone().min() == lengths.max();
    for default in defaults.iter().filter(|_| !is_even) {
        fills.push(or_null(default.evaluate(context)?));
    }
    fills.resize(inputs.len(), Value::NULL);
    context.count_work(arrays.iter().map(|array| array.len()).sum())?;
    let lengths = arrays.iter().map(|array| array.len());
    let rows = if longest {
        lengths.max()
    } else {
        lengths.min()
    }
    .unwrap_or(0);
    let row_bytes = items_bytes(inputs.len()) + items_bytes(1);
    memory::expect_values(rows.saturating_mul(row_bytes))?;
    let row = |index: usize| {
        let cells = arrays.iter().zip(&fills);
        Value::array(
            cells
                .map(|(array, fill)| array.get(index).unwrap_or(fill).clone())
                .collect(),
        )
    };
    Ok(Value::array((0..rows).map(row).collect()))
}

/// The number, where the value is one.
pub fn number(value: &Value<'_>) -> Option<Number> {
    match value {
        Value::Raw(raw) => Number::from_raw(*raw),
        _ => None,
    }
}
