//! A filter written out as a document: what `explain` shows as `parsedQuery`.
//!
//! The form is MongoDB's serialisation after its rewrites: every comparison with its operator,
//! `$ne` as `$not: { $eq }`, types as codes, siblings sorted by kind of operator and path.

use super::filter::{Comparison, Filter, Predicate};
use super::validation::is_operators;
use crate::types::{TypeSet, type_code};
use bson::raw::{CString, RawBsonRef};
use bson::{RawArrayBuf, RawBson, RawDocumentBuf, Regex};
use std::borrow::Cow;

impl Comparison {
    /// The operator's name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Eq => "$eq",
            Self::Lt => "$lt",
            Self::Lte => "$lte",
            Self::Gt => "$gt",
            Self::Gte => "$gte",
        }
    }
}

impl Filter {
    /// The filter as a document that parses to an equal filter.
    pub fn to_document(&self) -> RawDocumentBuf {
        match self {
            Self::Always => RawDocumentBuf::new(),
            Self::Never => one("$alwaysFalse", 1),
            Self::And(children) => one("$and", documents(children)),
            Self::Or(children) => one("$or", documents(children)),
            Self::Nor(children) => one("$nor", documents(children)),
            Self::Field { path, predicate } => field(path.as_str(), predicate),
            Self::Expr(condition) => one("$expr", RawBson::from(condition.expression().source())),
            Self::Where(condition) => one("$where", condition.source()),
            Self::Schema(schema) => one("$jsonSchema", schema.source().to_owned()),
            Self::Text(condition) => one("$text", condition.to_document()),
        }
    }

    /// The filter as a client might have written it: `{ a: 1, b: { $gt: 2 } }`.
    pub fn to_written(&self) -> RawDocumentBuf {
        let mut fields: Vec<(String, RawBson)> = Vec::new();
        for part in self.conjuncts() {
            let part = match part {
                Self::Field {
                    path,
                    predicate: Predicate::Compare(Comparison::Eq, operand),
                } => one(path.as_str(), RawBson::clone(operand)),
                other => other.to_document(),
            };
            for (name, value) in part.iter().flatten() {
                let known = fields.iter_mut().find(|(known, _)| known == name.as_str());
                match (known, value) {
                    (None, value) => fields.push((name.as_str().to_owned(), value.into())),
                    (Some((_, RawBson::Document(operators))), RawBsonRef::Document(further))
                        if is_operators(operators) && is_operators(further) =>
                    {
                        further
                            .iter()
                            .flatten()
                            .for_each(|(name, value)| operators.append(name, value));
                    }
                    // What cannot stand beside each other is joined.
                    _ => return self.to_document(),
                }
            }
        }
        let mut written = RawDocumentBuf::new();
        for (name, value) in fields {
            super::append(&mut written, &name, value);
        }
        written
    }

    /// Where siblings of different kinds stand: MongoDB's order of match types.
    pub(super) fn rank(&self) -> (u8, Cow<'_, str>) {
        match self {
            Self::And(_) => (0, "".into()),
            Self::Or(_) => (1, "".into()),
            Self::Field { path, predicate } => (predicate.rank(), path.as_str().into()),
            Self::Nor(_) => (22, "".into()),
            Self::Always | Self::Never => (30, "".into()),
            Self::Expr(_) => (31, "".into()),
            Self::Where(_) => (33, "".into()),
            Self::Schema(_) => (32, "".into()),
            Self::Text(_) => (34, "".into()),
        }
    }
}

impl Predicate {
    pub(super) fn rank(&self) -> u8 {
        match self {
            Self::ElemMatchObject(_) => 2,
            Self::ElemMatchValue(_) => 3,
            Self::Size(_) => 4,
            Self::Compare(Comparison::Eq, _) => 5,
            Self::Compare(Comparison::Lte, _) => 6,
            Self::Compare(Comparison::Lt, _) => 7,
            Self::Compare(Comparison::Gt, _) => 8,
            Self::Compare(Comparison::Gte, _) => 9,
            Self::Regex(_) => 10,
            Self::Mod(_) => 11,
            Self::Exists(true) => 12,
            Self::In(_) => 13,
            Self::Bits(_) => 14,
            Self::Not(_) | Self::Exists(false) => 21,
            Self::And(_) => 22,
            Self::Type(_) => 23,
            Self::GeoWithin(_) | Self::GeoIntersects(_) | Self::BucketGeo(_) => 24,
            Self::Near(_) => 25,
        }
    }

    /// The operators, `{ $gt: 1 }`.
    fn operators(&self) -> RawDocumentBuf {
        match self {
            Self::Compare(comparison, operand) => {
                one(comparison.name(), bson::RawBson::clone(operand))
            }
            Self::In(list) => {
                let patterns = list
                    .patterns()
                    .iter()
                    .map(|pattern| regex(pattern.source(), pattern.options()));
                let values: RawArrayBuf = list.values().iter().cloned().chain(patterns).collect();
                one("$in", values)
            }
            Self::Exists(true) => one("$exists", true),
            Self::Exists(false) => one("$not", one("$exists", true)),
            Self::Type(types) => one("$type", type_codes(*types)),
            Self::Mod(divisor) => {
                let operands = [divisor.divisor, divisor.remainder];
                one("$mod", operands.into_iter().collect::<RawArrayBuf>())
            }
            Self::Regex(pattern) => {
                let mut document = one("$regex", pattern.source());
                if !pattern.options().is_empty() {
                    super::append(&mut document, "$options", pattern.options());
                }
                document
            }
            Self::Size(size) => one("$size", whole(*size)),
            Self::ElemMatchObject(filter) => one("$elemMatch", filter.to_document()),
            Self::ElemMatchValue(predicates) => one("$elemMatch", merged(predicates)),
            Self::Bits(test) => {
                let positions: RawArrayBuf = test
                    .positions()
                    .iter()
                    .map(|position| *position as i32)
                    .collect();
                one(test.mask().name(), positions)
            }
            Self::GeoWithin(region) => one("$geoWithin", region.operand().clone()),
            Self::GeoIntersects(region) => one("$geoIntersects", region.operand().clone()),
            Self::BucketGeo(own) => {
                let mut operand = one("withinRegion", own.region.operand().clone());
                let path = own.path.as_str();
                let path = path.strip_prefix("data.").unwrap_or(path);
                super::append(&mut operand, "field", path);
                one("$_internalBucketGeoWithin", operand)
            }
            Self::Near(near) => near.operators().to_owned(),
            Self::And(predicates) => merged(predicates),
            Self::Not(inner) => one("$not", inner.operators()),
        }
    }
}

/// A negated conjunction is written as MongoDB writes it: `$nor` over `$and`.
fn field(path: &str, predicate: &Predicate) -> RawDocumentBuf {
    match predicate {
        Predicate::BucketGeo(_) => predicate.operators(),
        Predicate::Not(inner) => match &**inner {
            Predicate::And(predicates) => {
                let children: Vec<Filter> = predicates
                    .iter()
                    .map(|predicate| Filter::field(path, predicate.clone()))
                    .collect();
                let conjunction = Filter::And(children).to_document();
                one("$nor", [conjunction].into_iter().collect::<RawArrayBuf>())
            }
            _ => one(path, predicate.operators()),
        },
        _ => one(path, predicate.operators()),
    }
}

fn documents(children: &[Filter]) -> RawArrayBuf {
    let mut sorted: Vec<&Filter> = children.iter().collect();
    sorted.sort_by(|a, b| a.rank().cmp(&b.rank()));
    sorted.into_iter().map(Filter::to_document).collect()
}

fn merged(predicates: &[Predicate]) -> RawDocumentBuf {
    let mut sorted: Vec<&Predicate> = predicates.iter().collect();
    sorted.sort_by_key(|predicate| predicate.rank());
    let mut document = RawDocumentBuf::new();
    for predicate in sorted {
        for (name, value) in predicate.operators().iter().flatten() {
            super::append(&mut document, name.as_str(), value);
        }
    }
    document
}

fn type_codes(types: TypeSet) -> RawArrayBuf {
    let mut codes = RawArrayBuf::new();
    if types.is_number() {
        codes.push("number");
    }
    for kind in types.kinds() {
        if !(types.is_number() && TypeSet::NUMBER.contains(kind)) {
            codes.push(type_code(kind));
        }
    }
    codes
}

/// An int32 where it fits, as MongoDB stores these operands.
fn whole(number: i64) -> RawBson {
    i32::try_from(number).map_or(RawBson::Int64(number), RawBson::Int32)
}

fn regex(source: &str, options: &str) -> RawBson {
    match (CString::try_from(source), CString::try_from(options)) {
        (Ok(pattern), Ok(options)) => RawBson::RegularExpression(Regex { pattern, options }),
        _ => RawBson::String(source.to_owned()),
    }
}

fn one(name: &str, value: impl Into<RawBson>) -> RawDocumentBuf {
    let mut document = RawDocumentBuf::new();
    super::append(&mut document, name, value.into());
    document
}
