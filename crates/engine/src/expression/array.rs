//! Arrays.

use super::control::number;
use super::convert::{display, general};
use super::node::Node;
use super::parse::ExpressionParser;
use super::string::search_bound;
use super::{Value, object};
use crate::error::{Code, Error, Result};
use crate::expression::value::{Items, compare, corrupt, items_bytes};
use crate::operation::memory;
use crate::types::type_name;
use bson::RawBsonRef;
use meridian_value::Collation;
use meridian_value::number::Number;
use std::cmp::Ordering;

/// The items of an array, or the error that it is none.
fn items_or<'a>(value: &Value<'a>, error: impl FnOnce(&str) -> Error) -> Result<Items<'a>> {
    value.items()?.ok_or_else(|| error(value.type_name()))
}

fn int32(value: &Value<'_>) -> Option<i32> {
    number(value)
        .and_then(Number::to_i64_exact)
        .and_then(|whole| i32::try_from(whole).ok())
}

/// `$size`.
pub fn size<'a>(name: &'static str, arguments: &mut [Value<'a>]) -> Result<Value<'a>> {
    let items = items_or(&arguments[0], |found| {
        Error::location(
            17124,
            format!("The argument to {name} must be an array, but was of type: {found}"),
        )
    })?;
    Ok(Value::int_or_long(items.len() as i64))
}

/// `$isArray`.
pub fn is_array<'a>(_: &'static str, arguments: &mut [Value<'a>]) -> Result<Value<'a>> {
    Ok(Value::boolean(arguments[0].is_array()))
}

fn at<'a>(items: &[Value<'a>], index: i64) -> Value<'a> {
    let place = if index < 0 {
        items.len() as i64 + index
    } else {
        index
    };
    usize::try_from(place)
        .ok()
        .and_then(|place| items.get(place))
        .cloned()
        .unwrap_or(Value::Missing)
}

/// `$arrayElemAt`.
pub fn element_at<'a>(name: &'static str, arguments: &mut [Value<'a>]) -> Result<Value<'a>> {
    let [array, index] = &*arguments else {
        unreachable!("arity 2")
    };
    if array.is_nullish() || index.is_nullish() {
        return Ok(Value::NULL);
    }
    let items = items_or(array, |found| {
        Error::location(
            28689,
            format!("{name}'s first argument must be an array, but is {found}"),
        )
    })?;
    if !index.is_number() {
        return Err(Error::location(
            28690,
            format!(
                "{name}'s second argument must be a numeric value, but is {}",
                index.type_name()
            ),
        ));
    }
    let Some(index) = int32(index) else {
        return Err(Error::location(
            28691,
            format!(
                "{name}'s second argument must be representable as a 32-bit integer: {}",
                number(index).map_or_else(String::new, |index| general(index.to_f64(), 6))
            ),
        ));
    };
    Ok(at(&items, i64::from(index)))
}

/// `$first` and `$last`.
pub fn first_or_last<'a>(name: &'static str, arguments: &mut [Value<'a>]) -> Result<Value<'a>> {
    if arguments[0].is_nullish() {
        return Ok(Value::NULL);
    }
    let items = items_or(&arguments[0], |found| {
        Error::location(
            28689,
            format!("{name}'s argument must be an array, but is {found}"),
        )
    })?;
    Ok(at(&items, if name == "$first" { 0 } else { -1 }))
}

/// `$slice`.
pub fn slice<'a>(_: &'static str, arguments: &mut [Value<'a>]) -> Result<Value<'a>> {
    if arguments[0].is_nullish() || arguments[1].is_nullish() {
        return Ok(Value::NULL);
    }
    let items = items_or(&arguments[0], |found| {
        Error::location(
            28724,
            format!("First argument to $slice must be an array, but is of type: {found}"),
        )
    })?;
    if !arguments[1].is_number() {
        return Err(Error::location(
            28725,
            format!(
                "Second argument to $slice must be a numeric value, but is of type: {}",
                arguments[1].type_name()
            ),
        ));
    }
    let Some(second) = int32(&arguments[1]) else {
        return Err(Error::location(
            28726,
            format!(
                "Second argument to $slice can't be represented as a 32-bit integer: {}",
                display(&arguments[1])
            ),
        ));
    };
    let length = items.len() as i64;
    let second = i64::from(second);
    let from_end = |index: i64| {
        if index < 0 {
            (length + index).max(0)
        } else {
            index.min(length)
        }
    };
    let (start, count) = match arguments.get(2) {
        None if second < 0 => (from_end(second), length),
        None => (0, second),
        Some(third) if third.is_nullish() => return Ok(Value::NULL),
        Some(third) => (from_end(second), slice_count(third)?),
    };
    let end = (start + count).min(length);
    Ok(Value::array(items[start as usize..end as usize].to_vec()))
}

fn slice_count(third: &Value<'_>) -> Result<i64> {
    if !third.is_number() {
        return Err(Error::location(
            28727,
            format!(
                "Third argument to $slice must be numeric, but is of type: {}",
                third.type_name()
            ),
        ));
    }
    let Some(count) = int32(third) else {
        return Err(Error::location(
            28728,
            format!(
                "Third argument to $slice can't be represented as a 32-bit integer: {}",
                display(third)
            ),
        ));
    };
    if count <= 0 {
        return Err(Error::location(
            28729,
            format!("Third argument to $slice must be positive: {count}"),
        ));
    }
    Ok(i64::from(count))
}

/// `$concatArrays`.
pub fn concat<'a>(_: &'static str, arguments: &mut [Value<'a>]) -> Result<Value<'a>> {
    let mut joined = Vec::new();
    for argument in arguments {
        if argument.is_nullish() {
            return Ok(Value::NULL);
        }
        memory::check_values()?;
        let items = items_or(argument, |found| {
            Error::location(
                28664,
                format!("$concatArrays only supports arrays, not {found}"),
            )
        })?;
        // Growing may double the memory.
        memory::expect_values(2 * items_bytes(joined.len() + items.len()))?;
        joined.extend(items.iter().cloned());
    }
    Ok(Value::array(joined))
}

/// `$in`.
pub fn contains<'a>(
    _: &'static str,
    arguments: &mut [Value<'a>],
    collation: &Collation,
) -> Result<Value<'a>> {
    let [wanted, array] = &*arguments else {
        unreachable!("arity 2")
    };
    let items = items_or(array, |found| {
        Error::location(
            40081,
            format!("$in requires an array as a second argument, found: {found}"),
        )
    })?;
    let mut items = items.iter();
    let found = items.any(|item| compare(item, wanted, collation).is_eq());
    Ok(Value::boolean(found))
}

/// `$indexOfArray`: the array, the bounds, and what is searched for.
pub fn index_of<'a>(
    name: &'static str,
    arguments: &mut [Value<'a>],
    collation: &Collation,
) -> Result<Value<'a>> {
    if arguments[0].is_nullish() {
        return Ok(Value::NULL);
    }
    let items = items_or(&arguments[0], |found| {
        Error::location(
            40090,
            format!("{name} requires an array as a first argument, found: {found}"),
        )
    })?;
    let [_, bounds @ .., wanted] = &*arguments else {
        unreachable!("arity 2 to 4")
    };
    let start = bounds
        .first()
        .map_or(Ok(0), |value| search_bound(name, value, "starting"))?;
    let end = bounds
        .get(1)
        .map_or(Ok(items.len()), |value| search_bound(name, value, "ending"))?;
    let end = end.min(items.len());
    let found = (start..end).find(|index| compare(&items[*index], wanted, collation).is_eq());
    Ok(Value::int_or_long(found.map_or(-1, |index| index as i64)))
}

/// What `$range` may use, as in MongoDB.
const RANGE_BYTES_MAX: i64 = 100 << 20;

/// `$range`.
pub fn range<'a>(_: &'static str, arguments: &mut [Value<'a>]) -> Result<Value<'a>> {
    let bound = |value: &Value<'_>, codes: (i32, i32), numeric: &str, whole: &str| {
        if !value.is_number() {
            return Err(Error::location(
                codes.0,
                format!("$range requires a numeric {numeric}{}", value.type_name()),
            ));
        }
        int32(value).map(i64::from).ok_or_else(|| {
            Error::location(
                codes.1,
                format!(
                    "$range requires {whole} that can be represented as a 32-bit integer, found \
                     value: {}",
                    display(value)
                ),
            )
        })
    };
    let start = bound(
        &arguments[0],
        (34443, 34444),
        "starting value, found value of type: ",
        "a starting value",
    )?;
    let end = bound(
        &arguments[1],
        (34445, 34446),
        "ending value, found value of type: ",
        "an ending value",
    )?;
    let step = match arguments.get(2) {
        None => 1,
        Some(step) => bound(
            step,
            (34447, 34448),
            "step value, found value of type:",
            "a step value",
        )?,
    };
    if step == 0 {
        return Err(Error::location(
            34449,
            "$range requires a non-zero step value",
        ));
    }
    let distance = if step > 0 { end - start } else { start - end };
    let count = if distance > 0 {
        (distance + step.abs() - 1) / step.abs()
    } else {
        0
    };
    let bytes = 40 + count * 16;
    if bytes > RANGE_BYTES_MAX {
        return Err(Error::new(
            Code::ExceededMemoryLimit,
            format!(
                "$range would use too much memory ({bytes} bytes) and cannot spill to disk. \
                 Memory limit: {RANGE_BYTES_MAX} bytes"
            ),
        ));
    }
    memory::expect_values(items_bytes(usize::try_from(count).unwrap_or(usize::MAX)))?;
    Ok(Value::array(
        (0..count)
            .map(|index| Value::int32((start + index * step) as i32))
            .collect(),
    ))
}

/// `$reverseArray`.
pub fn reverse<'a>(name: &'static str, arguments: &mut [Value<'a>]) -> Result<Value<'a>> {
    if arguments[0].is_nullish() {
        return Ok(Value::NULL);
    }
    let items = items_or(&arguments[0], |found| {
        Error::location(
            34435,
            format!("The argument to {name} must be an array, but was of type: {found}"),
        )
    })?;
    Ok(Value::array(items.iter().rev().cloned().collect()))
}

/// The `n` of `$firstN` and its like.
pub fn several_count(n: &Value<'_>) -> Result<usize> {
    let whole = number(n).map(Number::to_i64_exact);
    match whole {
        None => Err(Error::location(
            5_787_902,
            format!(
                "Value for 'n' must be of integral type, but found {}",
                display(n)
            ),
        )),
        Some(None) => Err(Error::location(
            5_787_903,
            format!(
                "Value for 'n' must be of integral type, but found {}",
                display(n)
            ),
        )),
        Some(Some(whole)) if whole <= 0 => Err(Error::location(
            5_787_908,
            format!("'n' must be greater than 0, found {whole}"),
        )),
        Some(Some(whole)) => Ok(usize::try_from(whole).unwrap_or(usize::MAX)),
    }
}

/// `$firstN`, `$lastN`, `$minN`, `$maxN` over an array.
pub fn several<'a>(
    name: &'static str,
    arguments: &mut [Option<Value<'a>>],
    collation: &Collation,
) -> Result<Value<'a>> {
    let count = several_count(arguments[0].as_ref().expect("a required argument"))?;
    let input = arguments[1].as_ref().expect("a required argument");
    let items = items_or(input, |_| {
        Error::location(5_788_200, "Input must be an array")
    })?;
    let mut items = items.to_vec();
    match name {
        "$firstN" => items.truncate(count),
        "$lastN" => drop(items.drain(..items.len().saturating_sub(count))),
        _ => {
            items.retain(|item| !item.is_nullish());
            if name == "$minN" {
                items.sort_by(|a, b| compare(a, b, collation));
            } else {
                items.sort_by(|a, b| compare(b, a, collation));
            }
            items.truncate(count);
        }
    }
    Ok(Value::array(items))
}

/// The order `$sortArray` asks for: paths (none for the whole item) and directions.
type SortBy = Vec<(Box<[Box<str>]>, bool)>;

/// `$sortArray`: its order is part of the expression, so it becomes a `$reduce`-like
/// node of its own through a constant second argument.
pub fn parse_sort_array(
    parser: &mut ExpressionParser<'_>,
    name: &str,
    raw: RawBsonRef<'_>,
) -> Result<Node> {
    let RawBsonRef::Document(document) = raw else {
        return Err(Error::location(
            2_942_500,
            format!(
                "{name} requires an object as an argument, found: {}",
                type_name(raw.element_type())
            ),
        ));
    };
    let (mut input, mut sort_by) = (None, None);
    for entry in document.iter() {
        let (key, raw) = entry.map_err(corrupt)?;
        match key.as_str() {
            "input" => input = Some(parser.operand(raw)?),
            "sortBy" => sort_by = Some(raw),
            other => {
                return Err(Error::location(
                    2_942_501,
                    format!("{name} found an unknown argument: {other}"),
                ));
            }
        }
    }
    let input = input.ok_or_else(|| {
        Error::location(
            2_942_502,
            format!("{name} requires 'input' to be specified"),
        )
    })?;
    let sort_by = sort_by.ok_or_else(|| {
        Error::location(
            2_942_503,
            format!("{name} requires 'sortBy' to be specified"),
        )
    })?;
    parse_sort_by(sort_by)?;
    let arguments = Box::new([input, Node::known(&Value::Raw(sort_by))?]);
    Ok(Node::Call {
        operator: &SORT_ARRAY,
        arguments,
    })
}

static SORT_ARRAY: super::table::Operator = super::table::Operator {
    name: "$sortArray",
    arity: super::table::Arity::Exactly(2),
    function: super::table::Function::Comparing(sort_array),
};

fn parse_sort_by(raw: RawBsonRef<'_>) -> Result<SortBy> {
    if let RawBsonRef::Document(document) = raw {
        let mut order = Vec::new();
        for entry in document.iter() {
            let (key, direction) = entry.map_err(corrupt)?;
            let path = super::parse_field_path(key.as_str())?;
            let descending = direction_of(direction).ok_or_else(|| {
                Error::location(
                    2_942_505,
                    "BadValue: The sort element value must be either 1 or -1",
                )
            })?;
            order.push((path, descending));
        }
        if order.is_empty() {
            return Err(Error::location(
                2_942_505,
                "BadValue: The sort pattern is empty when it should be a set of fields.",
            ));
        }
        return Ok(order);
    }
    if Number::from_raw(raw).is_none() {
        return Err(Error::location(
            2_942_507,
            "The $sort is invalid: use 1/-1 to sort the whole element, or {field:1/-1} to sort \
             embedded fields",
        ));
    }
    let descending = direction_of(raw).ok_or_else(|| {
        Error::location(2_942_506, "The $sort element value must be either 1 or -1")
    })?;
    Ok(vec![(Box::default(), descending)])
}

fn direction_of(raw: RawBsonRef<'_>) -> Option<bool> {
    match Number::from_raw(raw)?.to_i64_exact()? {
        1 => Some(false),
        -1 => Some(true),
        _ => None,
    }
}

fn sort_array<'a>(
    name: &'static str,
    arguments: &mut [Value<'a>],
    collation: &Collation,
) -> Result<Value<'a>> {
    let [input, sort_by] = &*arguments else {
        unreachable!("arity 2")
    };
    if input.is_nullish() {
        return Ok(Value::NULL);
    }
    let items = items_or(input, |found| {
        Error::location(
            2_942_504,
            format!("The input argument to {name} must be an array, but was of type: {found}"),
        )
    })?;
    let order = match sort_by {
        Value::Raw(raw) => parse_sort_by(*raw)?,
        _ => Vec::new(),
    };
    let mut items = items.to_vec();
    let mut failure = None;
    items.sort_by(|a, b| {
        sort_array_order(&order, a, b, collation).unwrap_or_else(|error| {
            failure = Some(error);
            Ordering::Equal
        })
    });
    failure.map_or(Ok(Value::array(items)), Err)
}

/// The order of two items under `$sortArray`'s paths and directions.
pub fn sort_array_order(
    order: &[(Box<[Box<str>]>, bool)],
    left: &Value<'_>,
    right: &Value<'_>,
    collation: &Collation,
) -> Result<Ordering> {
    for (path, descending) in order {
        let a = object::sort_key(left, path, *descending, collation)?;
        let b = object::sort_key(right, path, *descending, collation)?;
        let found = compare(&a, &b, collation);
        if found.is_ne() {
            return Ok(if *descending { found.reverse() } else { found });
        }
    }
    Ok(Ordering::Equal)
}
