//! What readers of a time series can skip: conditions on measurements become conditions on their buckets.
//!
//! A condition on the metadata holds for all measurements of a bucket or for none, so it moves before the stage that
//! unpacks. Bounds of the time tell which buckets may hold a measurement within them: the stage's span, and the least
//! and greatest time of each bucket, say so; the stage itself leaves out measurements of other times. So do bounds of
//! other fields, which stay behind the stage as well.
//!
//! Buckets lie in the order of their starts, and none lasts longer than the longest that there is: how far before a time a
//! scan begins is decided by that, which mostly is less than the span.

use super::candidate::IndexableCondition;
use super::pipeline::Split;
use crate::aggregate::{Stage, dependencies};
use crate::catalog::Collection;
use crate::error::{Error, Result};
use crate::index::IndexField;
use crate::index::bounds::FieldBounds;
use crate::query::{BucketRegion, Comparison, Filter, Operand, Predicate};
use crate::text::document_text;
use crate::timeseries::{TimeRange, Timeseries, UnpackBucket, bucket_id};
use bson::oid::ObjectId;
use bson::raw::{RawBsonRef, RawDocument, RawDocumentBuf};
use bson::{DateTime, RawBson};
use meridian_value::Collation;
use meridian_value::path::Path;
use std::sync::Arc;

/// Moves what can be asked of buckets before the stage that unpacks them, and has it make only what is read.
pub(super) fn take_bucket_conditions(split: &mut Split) {
    let Some(Stage::UnpackBucket(unpack)) = split
        .stages
        .pop_front_if(|one| matches!(one, Stage::UnpackBucket(_)))
    else {
        return;
    };
    let mut unpack = unpack;
    let (mut before, mut behind) = (Vec::new(), Vec::new());
    while let Some(Stage::Match(filter)) = split
        .stages
        .pop_front_if(|one| matches!(one, Stage::Match(_)))
    {
        let conditions = match filter.simplify() {
            Filter::And(conditions) => conditions,
            other => vec![other],
        };
        for condition in conditions {
            match of_metadata(&condition, unpack.meta_field.as_deref()) {
                Some(moved) => before.push(moved),
                None => {
                    before.extend(of_comparison(&condition, &unpack));
                    before.extend(of_region(&condition, &unpack));
                    match time_range(&condition, &unpack.time_field) {
                        Some(range) => unpack.times = unpack.times.and(range),
                        None => behind.push(condition),
                    }
                }
            }
        }
    }
    if !behind.is_empty() {
        split
            .stages
            .push_front(Stage::Match(Filter::And(behind).simplify()));
    }
    let read = dependencies(&split.stages);
    unpack.wanted = read.paths().map(|paths| {
        let first = |path: &String| path.split('.').next().unwrap_or_default().to_owned();
        paths.iter().map(first).collect()
    });
    split.stages.push_front(Stage::UnpackBucket(unpack));
    if !before.is_empty() {
        split
            .stages
            .push_front(Stage::Match(Filter::And(before).simplify()));
    }
}

/// What is said of buckets is up to fifty times as long.
const PARTIAL_FILTER_BYTES_MAX: usize = 64 * 1024;

/// The filter of a partial index of a time series, as one on buckets: each bucket with a measurement that matches does. What is
/// asked of buckets for a statement's comparison is implied by the same for another one as these are, so that the planner finds
/// out as for other partial indexes which statements stay within it.
///
/// # Errors
/// Code 5916301 for what cannot be said of buckets, `BadValue` for more than 64 KiB; a malformed filter.
pub fn bucket_partial_filter(
    timeseries: &Timeseries,
    filter: &RawDocument,
) -> Result<RawDocumentBuf> {
    if filter.as_bytes().len() > PARTIAL_FILTER_BYTES_MAX {
        return Err(Error::bad_value(format!(
            "a partialFilterExpression that asks for other fields of a time series than its metadata must not have more \
             than {PARTIAL_FILTER_BYTES_MAX} bytes"
        )));
    }
    let filter = Filter::parse(filter)?;
    let own = partial_of(&filter, &UnpackBucket::of(timeseries))?;
    Ok(own.simplify().to_document())
}

fn partial_of(condition: &Filter, unpack: &UnpackBucket) -> Result<Filter> {
    if let Some(own) = of_metadata(condition, unpack.meta_field.as_deref()) {
        return Ok(own);
    }
    let refused = |why: &str| {
        let condition = document_text(&condition.to_document());
        let message = format!(
            "Error translating non-metadata time-series predicate to operate on buckets: {why}: {condition}"
        );
        Err(Error::location(5_916_301, message))
    };
    let all = |parts: &[Filter]| {
        let parts = parts.iter().map(|part| partial_of(part, unpack));
        parts.collect::<Result<Vec<_>>>()
    };
    match condition {
        Filter::Always => Ok(Filter::Always),
        Filter::And(parts) => all(parts).map(Filter::And),
        Filter::Or(parts) => all(parts).map(Filter::Or),
        Filter::Field { path, predicate } => match predicate {
            Predicate::Compare(_, operand) => match operand.value() {
                RawBsonRef::Null => refused("can't handle {$eq: null}"),
                RawBsonRef::Document(_) | RawBsonRef::Array(_) => {
                    refused("operand can't be an object or array")
                }
                value if path.as_str() == unpack.time_field && value.as_datetime().is_none() => {
                    refused(
                        "This predicate will never be true, because the time field always contains a Date",
                    )
                }
                _ => Ok(Filter::And(of_comparison(condition, unpack))),
            },
            Predicate::In(list) if list.has_null() => {
                refused("can't handle {$eq: null} predicate (inside $in predicate)")
            }
            Predicate::In(list) if list.patterns().is_empty() => {
                let equal = |value: &RawBson| Filter::Field {
                    path: path.clone(),
                    predicate: Predicate::Compare(Comparison::Eq, list.operand(value.clone())),
                };
                let parts: Vec<Filter> = list.values().iter().map(equal).collect();
                all(&parts).map(Filter::Or)
            }
            Predicate::Exists(true) => Ok(Filter::Field {
                path: Path::parse(&format!("control.max.{}", path.as_str())),
                predicate: predicate.clone(),
            }),
            // All buckets.
            Predicate::GeoWithin(_) => Ok(Filter::Always),
            _ => refused("can't handle this predicate"),
        },
        _ => refused("can't handle this predicate"),
    }
}

/// A condition on nothing but the metadata, as one on buckets.
fn of_metadata(condition: &Filter, meta: Option<&str>) -> Option<Filter> {
    let meta = meta?;
    let all = |parts: &[Filter]| {
        let parts = parts.iter();
        parts
            .map(|part| of_metadata(part, Some(meta)))
            .collect::<Option<Vec<_>>>()
    };
    match condition {
        Filter::And(parts) => all(parts).map(Filter::And),
        Filter::Or(parts) => all(parts).map(Filter::Or),
        Filter::Nor(parts) => all(parts).map(Filter::Nor),
        Filter::Field { path, predicate } if path.first() == meta => {
            let rest = path.as_str().strip_prefix(meta)?;
            Some(Filter::Field {
                path: Path::parse(&format!("meta{rest}")),
                predicate: predicate.clone(),
            })
        }
        _ => None,
    }
}

/// The times that a comparison of the time asks for; `None` for other conditions. Each measurement has one date as its
/// time, so that nothing else is to be tested.
fn time_range(condition: &Filter, time_field: &str) -> Option<TimeRange> {
    let Filter::Field {
        path,
        predicate: Predicate::Compare(comparison, operand),
    } = condition
    else {
        return None;
    };
    let RawBsonRef::DateTime(time) = operand.value() else {
        return None;
    };
    if path.as_str() != time_field {
        return None;
    }
    let time = time.timestamp_millis();
    let until = |until| TimeRange {
        until,
        ..TimeRange::ALL
    };
    let from = |from| TimeRange {
        from,
        ..TimeRange::ALL
    };
    Some(match comparison {
        Comparison::Eq => from(time).and(until(time)),
        Comparison::Gte => from(time),
        Comparison::Lte => until(time),
        // Nothing is beyond the last.
        Comparison::Gt => from(time.checked_add(1)?),
        Comparison::Lt => until(time.checked_sub(1)?),
    })
}

/// What holds for each bucket that has a measurement for which a comparison holds; nothing for other conditions.
fn of_comparison(condition: &Filter, unpack: &UnpackBucket) -> Vec<Filter> {
    let Filter::Field {
        path,
        predicate: Predicate::Compare(comparison, operand),
    } = condition
    else {
        return Vec::new();
    };
    match operand.value() {
        RawBsonRef::DateTime(time) if path.as_str() == unpack.time_field => {
            of_time(*comparison, time, unpack)
        }
        _ if path.first() == unpack.time_field => Vec::new(),
        _ => of_field(path, *comparison, operand),
    }
}

/// What holds for each bucket that has a measurement in a region; nothing for other conditions.
fn of_region(condition: &Filter, unpack: &UnpackBucket) -> Option<Filter> {
    let Filter::Field {
        path,
        predicate: Predicate::GeoWithin(region) | Predicate::GeoIntersects(region),
    } = condition
    else {
        return None;
    };
    if path.first() == unpack.time_field {
        return None;
    }
    let own = BucketRegion {
        region: region.clone(),
        path: Path::parse(&format!("data.{}", path.as_str())),
    };
    Some(Filter::Field {
        path: Path::parse(&format!("data.{}", path.first())),
        predicate: Predicate::BucketGeo(Arc::new(own)),
    })
}

/// The same of a comparison of the time.
fn of_time(comparison: Comparison, time: DateTime, unpack: &UnpackBucket) -> Vec<Filter> {
    let time = time.timestamp_millis();
    let ends = |end: &str, comparison: Comparison, millis: i64| Filter::Field {
        path: Path::parse(&format!("control.{end}.{}", unpack.time_field)),
        predicate: Predicate::Compare(
            comparison,
            constant(RawBson::DateTime(DateTime::from_millis(millis))),
        ),
    };
    // Buckets lie in the order of their starts.
    let named = |comparison: Comparison, id: ObjectId| Filter::Field {
        path: Path::parse("_id"),
        predicate: Predicate::Compare(comparison, constant(RawBson::ObjectId(id))),
    };
    let from = |comparison| {
        let earliest = time.saturating_sub(unpack.span_millis);
        [
            named(Comparison::Gte, bucket_id(earliest, false)),
            ends("max", comparison, time),
            ends("min", Comparison::Gte, earliest),
        ]
    };
    let until = |comparison| {
        let latest = time.saturating_add(unpack.span_millis);
        [
            named(Comparison::Lte, bucket_id(time, true)),
            ends("min", comparison, time),
            ends("max", Comparison::Lte, latest),
        ]
    };
    match comparison {
        Comparison::Gt | Comparison::Gte => from(comparison).into(),
        Comparison::Lt | Comparison::Lte => until(comparison).into(),
        Comparison::Eq => [from(Comparison::Gte), until(Comparison::Lte)].concat(),
    }
}

/// The same of a comparison of another field: the bucket's greatest value, or its least, is beyond the bound. A column's
/// values are of one type, so that comparisons within types tell; where they are documents or arrays the extremes have their
/// shape, and are compared part by part as the values are.
fn of_field(path: &Path, comparison: Comparison, operand: &Operand) -> Vec<Filter> {
    let is_ordered = match operand.value() {
        // Extremes are those of texts without a collation.
        RawBsonRef::String(_) => operand.collation().is_simple(),
        RawBsonRef::Double(number) => !number.is_nan(),
        RawBsonRef::Int32(_)
        | RawBsonRef::Int64(_)
        | RawBsonRef::DateTime(_)
        | RawBsonRef::ObjectId(_) => true,
        _ => false,
    };
    if !is_ordered {
        return Vec::new();
    }
    let beyond = |end: &str, comparison: Comparison| Filter::Field {
        path: Path::parse(&format!("control.{end}.{}", path.as_str())),
        predicate: Predicate::Compare(comparison, operand.clone()),
    };
    let from = || beyond("max", Comparison::Gte);
    // NaN is less than all numbers where extremes are found, and not compared with them where values are asked for.
    let until = || {
        let nan = constant(RawBson::Double(f64::NAN));
        let is_nan = Filter::Field {
            path: Path::parse(&format!("control.min.{}", path.as_str())),
            predicate: Predicate::Compare(Comparison::Eq, nan),
        };
        Filter::Or(vec![beyond("min", Comparison::Lte), is_nan])
    };
    match comparison {
        Comparison::Gt | Comparison::Gte => vec![from()],
        Comparison::Lt | Comparison::Lte => vec![until()],
        Comparison::Eq => vec![from(), until()],
    }
}

/// Within which `_id`s buckets lie for which conditions of their last time hold; nothing for other conditions and collections.
pub(super) fn starts<'c>(
    collection: &Collection,
    conditions: impl Iterator<Item = &'c IndexableCondition<'c>>,
) -> Vec<FieldBounds> {
    let timeseries = collection.options.timeseries.as_ref();
    let longest = collection.state.longest_bucket_millis();
    let (Some(timeseries), Some(longest)) = (timeseries, longest) else {
        return Vec::new();
    };
    let last = format!("control.max.{}", timeseries.time_field);
    let own = conditions.filter(|condition| condition.path() == last);
    let start = |condition: &IndexableCondition<'_>| {
        let Predicate::Compare(Comparison::Eq | Comparison::Gt | Comparison::Gte, operand) =
            condition.predicate()
        else {
            return None;
        };
        let time = operand.value().as_datetime()?.timestamp_millis();
        let earliest = bucket_id(time.saturating_sub(longest), false);
        let from = Predicate::Compare(Comparison::Gte, constant(RawBson::ObjectId(earliest)));
        FieldBounds::from_predicate(&from, IndexField::Ascending)
    };
    own.filter_map(start).collect()
}

fn constant(value: RawBson) -> Operand {
    Operand::new(value, Collation::SIMPLE)
}
