//! `$near`, `$nearSphere` and `$geoNear` from BSON, in both of their forms.
//!
//! The old form has its distances beside the operator (`{$near: [x, y], $maxDistance: d}`, or a GeoJSON
//! point in place of the pair), the new one in it (`{$near: {$geometry: .., $maxDistance: d}}`). The
//! order of checks and the words are those of `GeoNearExpression` in MongoDB 6.0.

use super::geometry::Position;
use super::near::{EARTH_RADIUS_METERS, Metric, Near};
use super::parse::{Extra, bad, elements, flat_point, number, query_point};
use super::text::{document_text, value_text};
use crate::{Error, Result};
use bson::{RawBsonRef, RawDocument};
use std::f64::consts::PI;

/// A point of a query, and whether it was GeoJSON.
#[derive(Clone, Copy)]
struct QueryPoint {
    position: Position,
    is_geojson: bool,
}

/// What was read of the operators.
struct NearOperators {
    point: QueryPoint,
    on_sphere: bool,
    distance_min: f64,
    distance_max: f64,
}

impl Near {
    /// Parses the operators on a field, the first of which is `$near`, `$nearSphere` or `$geoNear`.
    ///
    /// # Errors
    /// `BadValue` and mongod's numbered codes with its messages.
    pub fn parse(operators: &RawDocument) -> Result<Near> {
        let parsed = match parse_old(operators)? {
            Some(parsed) => parsed,
            None => parse_new(operators)?,
        };
        let QueryPoint {
            position,
            is_geojson,
        } = parsed.point;
        let metric = if parsed.on_sphere || is_geojson {
            Metric::Sphere
        } else {
            Metric::Plane
        };
        if metric == Metric::Sphere && !position.is_on_sphere() {
            return Err(bad("Legacy point is out of bounds for spherical query"));
        }
        let in_radians = metric == Metric::Sphere && !is_geojson;
        let scale = if in_radians { EARTH_RADIUS_METERS } else { 1.0 };
        let farthest = match metric {
            Metric::Sphere => PI * EARTH_RADIUS_METERS,
            Metric::Plane => f64::INFINITY,
        };
        Ok(Near {
            center: position,
            point: position.point(),
            metric,
            is_geojson,
            in_radians,
            distance_min: (parsed.distance_min * scale).min(farthest),
            distance_max: (parsed.distance_max * scale).min(farthest),
            operators: operators.to_owned(),
        })
    }
}

fn is_near(name: &str) -> bool {
    matches!(name, "$near" | "$nearSphere" | "$geoNear")
}

/// The old form; `None` when it is none.
fn parse_old(operators: &RawDocument) -> Result<Option<NearOperators>> {
    let mut point = None;
    let mut on_sphere = false;
    let (mut distance_min, mut distance_max) = (0.0, f64::MAX);
    for entry in operators.iter() {
        let (name, value) = entry.map_err(|error| bad(error.to_string()))?;
        match name.as_str() {
            near if is_near(near) => {
                if !matches!(value, RawBsonRef::Array(_) | RawBsonRef::Document(_)) {
                    return Ok(None);
                }
                if let Some((found, limit)) = old_point(value) {
                    if let Some(limit) = limit {
                        distance_max = limit;
                    }
                    if !matches!(distance_max.partial_cmp(&0.0), Some(order) if order.is_ge()) {
                        return Err(Error::location(18522, "max distance must be non-negative"));
                    }
                    point = Some(found);
                    on_sphere = near == "$nearSphere";
                }
            }
            "$minDistance" => {
                distance_min = distance("$minDistance", value, [16893, 16894])?;
            }
            "$maxDistance" => {
                distance_max = distance("$maxDistance", value, [16895, 16896])?;
            }
            "$uniqueDocs" => {}
            other => {
                return Err(Error::location(
                    34413,
                    format!("invalid argument in geo near query: {other}"),
                ));
            }
        }
    }
    Ok(point.map(|point| NearOperators {
        point,
        on_sphere,
        distance_min,
        distance_max,
    }))
}

/// `[x, y]`, `{x: .., y: ..}` or a GeoJSON point; or a pair with its greatest distance behind it.
fn old_point(value: RawBsonRef<'_>) -> Option<(QueryPoint, Option<f64>)> {
    if let Ok(point) = parse_point(value) {
        return Some((point, None));
    }
    let numbers: Vec<f64> = elements(value)?
        .into_iter()
        .map(number)
        .collect::<Option<_>>()?;
    let [lon, lat, limit] = numbers[..] else {
        return None;
    };
    let point = QueryPoint {
        position: Position { lon, lat },
        is_geojson: false,
    };
    (lon.is_finite() && lat.is_finite()).then_some((point, Some(limit)))
}

fn parse_point(value: RawBsonRef<'_>) -> Result<QueryPoint> {
    let first = elements(value).and_then(|all| all.first().copied());
    match value {
        RawBsonRef::Document(document) if first.and_then(number).is_none() => Ok(QueryPoint {
            position: query_point(document)?,
            is_geojson: true,
        }),
        _ => Ok(QueryPoint {
            position: flat_point(Some(value), Extra::Refused)?,
            is_geojson: false,
        }),
    }
}

/// A distance that must be a number and not negative. In the old form its errors are numbered, and it may
/// be infinite.
fn distance(name: &str, value: RawBsonRef<'_>, codes: [i32; 2]) -> Result<f64> {
    let is_old = codes[1] != 0;
    let fail = |code: i32, what: &str| match code {
        0 => bad(format!("{name} must be {what}")),
        code => Error::location(code, format!("{name} must be {what}")),
    };
    let distance = number(value).ok_or_else(|| fail(codes[0], "a number"))?;
    let is_accepted = distance >= 0.0 && (is_old || distance.is_finite());
    if !is_accepted {
        return Err(fail(codes[1], "non-negative"));
    }
    Ok(distance)
}

fn parse_new(operators: &RawDocument) -> Result<NearOperators> {
    let mut entries = operators.iter().flatten();
    let (name, argument) = entries
        .next()
        .ok_or_else(|| bad("empty geo near query object"))?;
    if let Some((extra, value)) = entries.next() {
        let shown = format!("{}: {}", extra.as_str(), value_text(value));
        return Err(bad(format!(
            "geo near accepts just one argument when querying for a GeoJSON point. Extra field found: {shown}"
        )));
    }
    let argument = match argument {
        RawBsonRef::Document(document) => document,
        RawBsonRef::Array(array) => {
            RawDocument::from_bytes(array.as_bytes()).map_err(|error| bad(error.to_string()))?
        }
        _ => return Err(bad("geo near query argument is not an object")),
    };
    let mut point = None;
    let (mut distance_min, mut distance_max) = (0.0, f64::MAX);
    for (name, value) in argument.iter().flatten() {
        match name.as_str() {
            "$geometry" => point = geometry_point(value)?.or(point),
            "$minDistance" => distance_min = distance("$minDistance", value, [0, 0])?,
            "$maxDistance" => distance_max = distance("$maxDistance", value, [0, 0])?,
            other => return Err(bad(format!("invalid argument in geo near query: {other}"))),
        }
    }
    let point = point.ok_or_else(|| bad("$geometry is required for geo near query"))?;
    Ok(NearOperators {
        point,
        on_sphere: name.as_str() == "$nearSphere",
        distance_min,
        distance_max,
    })
}

/// The point of `$geometry`; `None` when it is no object at all.
fn geometry_point(value: RawBsonRef<'_>) -> Result<Option<QueryPoint>> {
    if !matches!(value, RawBsonRef::Document(_) | RawBsonRef::Array(_)) {
        return Ok(None);
    }
    let point = parse_point(value).map_err(|error| {
        let (shown, reason) = (as_document_text(value), error.message);
        bad(format!(
            "invalid point in geo near query $geometry argument: {shown}  {reason}"
        ))
    })?;
    if !point.is_geojson {
        let shown = as_document_text(value);
        return Err(bad(format!("$near requires geojson point, given {shown}")));
    }
    Ok(Some(point))
}

/// An array is shown as a document with numbers for names.
fn as_document_text(value: RawBsonRef<'_>) -> String {
    match value {
        RawBsonRef::Array(array) => RawDocument::from_bytes(array.as_bytes())
            .map(document_text)
            .unwrap_or_default(),
        other => value_text(other),
    }
}
