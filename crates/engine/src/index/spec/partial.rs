//! Which filters a partial index may have.
//!
//! mongod 6.0 allows comparisons, `$in`, `$exists: true`, `$type`, geo and the connectives
//! `$and` and `$or`, because only of those it can tell whether a query implies them.

use super::cannot_create;
use crate::query::{Comparison, Filter, Predicate};
use crate::text::text;
use crate::{Code, Error, Result};
use bson::raw::{RawBsonRef, RawDocument};

/// Refuses operators that mongod refuses here before it reads their operands.
pub(super) fn check_allowed_here(filter: &RawDocument) -> Result<()> {
    for (name, value) in filter.iter().flatten() {
        let refusal = |code| {
            Err(Error::new(
                code,
                format!("{} is not allowed in this context", name.as_str()),
            ))
        };
        match name.as_str() {
            "$expr" | "$jsonSchema" => return refusal(Code::QueryFeatureNotAllowed),
            "$text" | "$where" => return refusal(Code::BadValue),
            "$and" | "$or" | "$nor" => {
                let members = value.as_array().into_iter().flatten().flatten();
                members
                    .filter_map(RawBsonRef::as_document)
                    .try_for_each(check_allowed_here)?;
            }
            _ => check_operators(value)?,
        }
    }
    Ok(())
}

fn check_operators(value: RawBsonRef<'_>) -> Result<()> {
    let operators = value.as_document().into_iter().flatten().flatten();
    for (name, _) in operators {
        if matches!(name.as_str(), "$near" | "$nearSphere" | "$geoNear") {
            return Err(Error::location(
                5626500,
                "$geoNear, $near, and $nearSphere are not allowed in this context",
            ));
        }
    }
    Ok(())
}

/// Refuses what says nothing of documents.
///
/// # Errors
/// `CannotCreateIndex`.
pub(super) fn check_constants(filter: &RawDocument) -> Result<()> {
    let mut names = filter.iter().flatten().map(|(name, _)| name);
    match names.find(|name| matches!(name.as_str(), "$alwaysTrue" | "$alwaysFalse")) {
        None => Ok(()),
        Some(name) => Err(cannot_create(format!(
            "Expression not supported in partial index: {}: 1\n",
            name.as_str()
        ))),
    }
}

/// Refuses what a partial index cannot have.
///
/// # Errors
/// `CannotCreateIndex` with mongod's text, which ends in a drawing of the refused part.
pub(super) fn check(filter: &Filter) -> Result<()> {
    match filter {
        Filter::And(children) | Filter::Or(children) => children.iter().try_for_each(check),
        Filter::Always => Ok(()),
        Filter::Field { predicate, .. } if is_supported(predicate) => Ok(()),
        refused => Err(cannot_create(format!(
            "Expression not supported in partial index: {}",
            drawing(refused, 0)
        ))),
    }
}

fn is_supported(predicate: &Predicate) -> bool {
    match predicate {
        Predicate::And(children) => children.iter().all(is_supported),
        Predicate::Exists(exists) => *exists,
        Predicate::Mod(_)
        | Predicate::Regex(_)
        | Predicate::Size(_)
        | Predicate::ElemMatchObject(_)
        | Predicate::ElemMatchValue(_)
        | Predicate::Bits(_)
        | Predicate::Not(_) => false,
        _ => true,
    }
}

/// `MatchExpression::debugString` of the parts that are refused.
fn drawing(filter: &Filter, depth: usize) -> String {
    let indent = "    ".repeat(depth);
    match filter {
        Filter::And(children) => branch(&indent, "$and", children, depth),
        Filter::Or(children) => branch(&indent, "$or", children, depth),
        Filter::Nor(children) => branch(&indent, "$nor", children, depth),
        Filter::Field { path, predicate } => predicate_drawing(path.as_str(), predicate, depth),
        _ => format!("{indent}$alwaysFalse: 1\n"),
    }
}

fn branch(indent: &str, name: &str, children: &[Filter], depth: usize) -> String {
    let children: String = children
        .iter()
        .map(|child| drawing(child, depth + 1))
        .collect();
    format!("{indent}{name}\n{children}")
}

fn predicate_drawing(path: &str, predicate: &Predicate, depth: usize) -> String {
    let indent = "    ".repeat(depth);
    match predicate {
        Predicate::Not(inner) => {
            // `$ne` and `$nin` negate directly, `$not` a list of operators.
            let direct = matches!(
                **inner,
                Predicate::Compare(Comparison::Eq, _) | Predicate::In(_) | Predicate::And(_)
            );
            let (list, depth) = match direct {
                true => (String::new(), depth + 1),
                false => (format!("{indent}    $and\n"), depth + 2),
            };
            format!(
                "{indent}$not\n{list}{}",
                predicate_drawing(path, inner, depth)
            )
        }
        Predicate::Exists(false) => format!("{indent}$not\n{indent}    {path} exists\n"),
        Predicate::Exists(true) => format!("{indent}{path} exists\n"),
        Predicate::And(children) => {
            let inner: String = children
                .iter()
                .map(|child| predicate_drawing(path, child, depth + 1))
                .collect();
            format!("{indent}$and\n{inner}")
        }
        Predicate::Compare(comparison, value) => {
            let operator = match comparison {
                Comparison::Eq => "$eq",
                Comparison::Lt => "$lt",
                Comparison::Lte => "$lte",
                Comparison::Gt => "$gt",
                Comparison::Gte => "$gte",
            };
            format!("{indent}{path} {operator} {}\n", text(value.value()))
        }
        Predicate::In(list) => {
            let values: String = list
                .values()
                .iter()
                .map(|value| text(value.as_raw_bson_ref()) + " ")
                .collect();
            format!("{indent}{path} $in [ {values}]\n")
        }
        Predicate::Regex(pattern) => {
            format!(
                "{indent}{path} regex /{}/{}\n",
                pattern.source(),
                pattern.options()
            )
        }
        Predicate::Mod(divisor) => {
            format!(
                "{indent}{path} mod {} % x == {}\n",
                divisor.divisor, divisor.remainder
            )
        }
        Predicate::Size(size) => format!("{indent}{path} $size : {size}\n"),
        Predicate::ElemMatchObject(filter) => {
            format!(
                "{indent}{path} $elemMatch (obj)\n{}",
                drawing(filter, depth + 1)
            )
        }
        Predicate::ElemMatchValue(_) => format!("{indent}{path} $elemMatch (value)\n"),
        Predicate::Bits(test) => {
            let positions: Vec<String> = test.positions().iter().map(u32::to_string).collect();
            format!(
                "{indent}{path} {}: [{}]",
                test.mask().name(),
                positions.join(", ")
            )
        }
        _ => format!("{indent}{path}\n"),
    }
}
