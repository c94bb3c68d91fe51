//! Sets: arrays without order or duplicates.

use super::Value;
use super::node::Node;
use crate::error::{Error, Result};
use crate::expression::value::{Items, compare};
use meridian_value::Collation;
use std::cmp::Ordering;

/// A value in a set, and by what it is compared.
struct SetMember<'a, 'c>(Value<'a>, &'c Collation);

impl PartialEq for SetMember<'_, '_> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for SetMember<'_, '_> {}

impl PartialOrd for SetMember<'_, '_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for SetMember<'_, '_> {
    fn cmp(&self, other: &Self) -> Ordering {
        compare(&self.0, &other.0, self.1)
    }
}

type Set<'a, 'c> = std::collections::BTreeSet<SetMember<'a, 'c>>;

fn set<'a, 'c>(items: &[Value<'a>], collation: &'c Collation) -> Set<'a, 'c> {
    let mut set = Set::new();
    add(&mut set, items, collation);
    set
}

/// Adds items; of equal ones the first stays.
fn add<'a, 'c>(set: &mut Set<'a, 'c>, items: &[Value<'a>], collation: &'c Collation) {
    for item in items {
        set.insert(SetMember(item.clone(), collation));
    }
}

fn from_set<'a>(set: Set<'a, '_>) -> Value<'a> {
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
        let items = value.items()?;
        items.ok_or_else(|| not_of_two(name, code, which, value.type_name()))
    };
    Ok((
        items(&arguments[0], codes.0, "First")?,
        items(&arguments[1], codes.1, "Second")?,
    ))
}

fn not_of_two(name: &str, code: i32, which: &str, found: &str) -> Error {
    Error::location(
        code,
        format!("both operands of {name} must be arrays. {which} argument is of type: {found}"),
    )
}

/// `$setUnion`.
pub fn union<'a>(
    name: &'static str,
    arguments: &mut [Value<'a>],
    collation: &Collation,
) -> Result<Value<'a>> {
    let mut members = Set::new();
    for argument in arguments {
        if argument.is_nullish() {
            return Ok(Value::NULL);
        }
        add(&mut members, &operand(name, 17043, argument)?, collation);
    }
    Ok(from_set(members))
}

/// `$setIntersection`.
pub fn intersection<'a>(
    name: &'static str,
    arguments: &mut [Value<'a>],
    collation: &Collation,
) -> Result<Value<'a>> {
    let mut members: Option<Set<'a, '_>> = None;
    for argument in arguments {
        if argument.is_nullish() {
            return Ok(Value::NULL);
        }
        let mut next = set(&operand(name, 17047, argument)?, collation);
        members = Some(match members {
            None => next,
            Some(mut members) => {
                // Of what is equal MongoDB keeps that of the smaller set.
                if members.len() > next.len() {
                    std::mem::swap(&mut members, &mut next);
                }
                members.retain(|member| next.contains(member));
                members
            }
        });
    }
    Ok(from_set(members.unwrap_or_default()))
}

/// `$setDifference`: in the order of the first operand.
pub fn difference<'a>(
    name: &'static str,
    arguments: &mut [Value<'a>],
    collation: &Collation,
) -> Result<Value<'a>> {
    if arguments.iter().any(Value::is_nullish) {
        return Ok(Value::NULL);
    }
    let (left, right) = pair(name, (17048, 17049), arguments)?;
    let mut seen = set(&right, collation);
    let kept = left
        .iter()
        .filter(|item| seen.insert(SetMember((*item).clone(), collation)));
    Ok(Value::array(kept.cloned().collect()))
}

/// Refuses known operands that are no arrays, which MongoDB's optimizer finds.
pub fn check_known(name: &str, arguments: &[Node]) -> Result<()> {
    let not_array = |node: &Node| match node.constant() {
        Some(value) if !value.is_array() => Some(value.type_name()),
        _ => None,
    };
    match name {
        "$setEquals" => {
            let mut found = arguments.iter().map(not_array).enumerate();
            match found.find_map(|(index, found)| Some((index, found?))) {
                None => Ok(()),
                Some((index, found)) => Err(not_equal(5_887_502, index, found)),
            }
        }
        // Where both are known they are computed.
        "$setIsSubset" if !arguments[0].is_known_part() => match not_array(&arguments[1]) {
            None => Ok(()),
            Some(found) => Err(not_of_two(name, 17311, "Second", found)),
        },
        _ => Ok(()),
    }
}

fn not_equal(code: i32, index: usize, found: &str) -> Error {
    Error::location(
        code,
        format!(
            "All operands of $setEquals must be arrays. {}-th argument is of type: {found}",
            index + 1,
        ),
    )
}

/// `$setEquals`.
pub fn equals<'a>(
    _: &'static str,
    arguments: &mut [Value<'a>],
    collation: &Collation,
) -> Result<Value<'a>> {
    let mut first: Option<Set<'a, '_>> = None;
    for (index, argument) in arguments.iter().enumerate() {
        let items = argument.items()?;
        let items = items.ok_or_else(|| not_equal(17044, index, argument.type_name()))?;
        let next = set(&items, collation);
        match &first {
            None => first = Some(next),
            Some(first) if *first != next => return Ok(Value::boolean(false)),
            Some(_) => {}
        }
    }
    Ok(Value::boolean(true))
}

/// `$setIsSubset`.
pub fn is_subset<'a>(
    name: &'static str,
    arguments: &mut [Value<'a>],
    collation: &Collation,
) -> Result<Value<'a>> {
    let (left, right) = pair(name, (17046, 17042), arguments)?;
    let (left, right) = (set(&left, collation), set(&right, collation));
    Ok(Value::boolean(left.is_subset(&right)))
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
