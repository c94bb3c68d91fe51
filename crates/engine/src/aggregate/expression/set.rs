//! Sets: arrays without order or duplicates.

use super::Value;
use crate::aggregate::value::{Items, compare};
use crate::error::{Error, Result};
use std::cmp::Ordering;

/// A value in a set.
struct Member<'a>(Value<'a>);

impl PartialEq for Member<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Member<'_> {}

impl PartialOrd for Member<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Member<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        compare(&self.0, &other.0)
    }
}

type Set<'a> = std::collections::BTreeSet<Member<'a>>;

fn set<'a>(items: &[Value<'a>]) -> Set<'a> {
    items.iter().cloned().map(Member).collect()
}

fn from_set(set: Set<'_>) -> Value<'_> {
    Value::array(set.into_iter().map(|member| member.0).collect())
}

fn operand<'a>(name: &str, code: i32, value: &Value<'a>) -> Result<Items<'a>> {
    value.items()?.ok_or_else(|| {
        Error::location(
            code,
            format!(
                "All operands of {name} must be arrays. One argument is of type: {}",
                value.type_name()
            ),
        )
    })
}

/// The two operands of an operator that takes two.
type Pair<'a> = (Items<'a>, Items<'a>);

fn pair<'a>(name: &str, codes: (i32, i32), arguments: &[Value<'a>]) -> Result<Pair<'a>> {
    let items = |value: &Value<'a>, code, which| {
        value.items()?.ok_or_else(|| {
            Error::location(
                code,
                format!(
                    "both operands of {name} must be arrays. {which} argument is of type: {}",
                    value.type_name()
                ),
            )
        })
    };
    Ok((
        items(&arguments[0], codes.0, "First")?,
        items(&arguments[1], codes.1, "Second")?,
    ))
}

/// `$setUnion`.
pub fn union<'a>(name: &'static str, arguments: &mut [Value<'a>]) -> Result<Value<'a>> {
    let mut members = Set::new();
    for argument in arguments {
        if argument.is_nullish() {
            return Ok(Value::NULL);
        }
        members.extend(operand(name, 17043, argument)?.iter().cloned().map(Member));
    }
    Ok(from_set(members))
}

/// `$setIntersection`.
pub fn intersection<'a>(name: &'static str, arguments: &mut [Value<'a>]) -> Result<Value<'a>> {
    let mut members: Option<Set<'a>> = None;
    for argument in arguments {
        if argument.is_nullish() {
            return Ok(Value::NULL);
        }
        let next = set(&operand(name, 17047, argument)?);
        members = Some(match members {
            None => next,
            Some(mut members) => {
                members.retain(|member| next.contains(member));
                members
            }
        });
    }
    Ok(from_set(members.unwrap_or_default()))
}

/// `$setDifference`: in the order of the first operand.
pub fn difference<'a>(name: &'static str, arguments: &mut [Value<'a>]) -> Result<Value<'a>> {
    if arguments.iter().any(Value::is_nullish) {
        return Ok(Value::NULL);
    }
    let (left, right) = pair(name, (17048, 17049), arguments)?;
    let mut seen = set(&right);
    let kept = left
        .iter()
        .filter(|item| seen.insert(Member((*item).clone())));
    Ok(Value::array(kept.cloned().collect()))
}

/// `$setEquals`.
pub fn equals<'a>(name: &'static str, arguments: &mut [Value<'a>]) -> Result<Value<'a>> {
    let mut sets = Vec::with_capacity(arguments.len());
    for (index, argument) in arguments.iter().enumerate() {
        let items = argument.items()?.ok_or_else(|| {
            Error::location(
                17044,
                format!(
                    "All operands of {name} must be arrays. {}-th argument is of type: {}",
                    index + 1,
                    argument.type_name()
                ),
            )
        })?;
        sets.push(set(&items));
    }
    Ok(Value::boolean(
        sets.windows(2).all(|pair| pair[0] == pair[1]),
    ))
}

/// `$setIsSubset`.
pub fn is_subset<'a>(name: &'static str, arguments: &mut [Value<'a>]) -> Result<Value<'a>> {
    let (left, right) = pair(name, (17046, 17042), arguments)?;
    Ok(Value::boolean(set(&left).is_subset(&set(&right))))
}

fn elements<'a>(name: &str, code: i32, value: &Value<'a>) -> Result<Items<'a>> {
    value.items()?.ok_or_else(|| {
        Error::location(
            code,
            format!(
                "{name}'s argument must be an array, but is {}",
                value.type_name()
            ),
        )
    })
}

/// `$anyElementTrue`.
pub fn any_element_true<'a>(name: &'static str, arguments: &mut [Value<'a>]) -> Result<Value<'a>> {
    Ok(Value::boolean(
        elements(name, 17041, &arguments[0])?
            .iter()
            .any(Value::truthy),
    ))
}

/// `$allElementsTrue`.
pub fn all_elements_true<'a>(name: &'static str, arguments: &mut [Value<'a>]) -> Result<Value<'a>> {
    Ok(Value::boolean(
        elements(name, 17040, &arguments[0])?
            .iter()
            .all(Value::truthy),
    ))
}
