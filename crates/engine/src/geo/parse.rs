//! BSON to geometry, with mongod 6.0's rules and messages.
//!
//! In: a stored value (GeoJSON or a legacy pair), or the coordinates of a query's shape.
//! Out: a [`Geometry`] whose shapes are valid, or `BadValue` with mongod's text.
//! Vertices are compared as unit vectors, not as degrees, because mongod does so: a ring
//! that starts at longitude 180 and ends at -180 is not closed.

use super::geometry::{BigPolygon, Geometry, Line, Polygon, Position, Ring};
use super::text::{array_values, document_text, stream_number, value_text};
use super::validate;
use crate::{Error, Result};
use bson::{RawArray, RawBsonRef, RawDocument};
use s2rst::s2::Point;

const STRICT_WINDING: &str = "urn:x-mongodb:crs:strictwinding:EPSG:4326";

impl Geometry {
    /// Parses a stored value: GeoJSON, `[x, y]` or `{x: .., y: ..}`.
    ///
    /// # Errors
    /// `BadValue` with mongod's message. An index wraps it with [`super::key_error`].
    pub fn parse(value: RawBsonRef<'_>) -> Result<Geometry> {
        parse_stored(value, "")
    }

    /// [`Geometry::parse`] for the value of a field, whose name the message shows.
    ///
    /// # Errors
    /// As [`Geometry::parse`].
    pub fn parse_field(name: &str, value: RawBsonRef<'_>) -> Result<Geometry> {
        parse_stored(value, name)
    }
}

fn parse_stored(value: RawBsonRef<'_>, name: &str) -> Result<Geometry> {
    match value {
        RawBsonRef::Array(array) => stored_pair(array_values(array)),
        RawBsonRef::Document(document) if first_is_number(document) => {
            stored_pair(document_values(document))
        }
        RawBsonRef::Document(document) => parse_geojson(document),
        other => {
            let separator = if name.is_empty() { "" } else { ": " };
            let shown = value_text(other);
            Err(bad(format!(
                "geo element must be an array or object: {name}{separator}{shown}"
            )))
        }
    }
}

fn stored_pair<'a>(values: impl Iterator<Item = RawBsonRef<'a>>) -> Result<Geometry> {
    flat_pair(values, Extra::Allowed).map(Geometry::Point)
}

pub(super) fn bad(message: impl Into<String>) -> Error {
    Error::bad_value(message)
}

pub(super) fn number(value: RawBsonRef<'_>) -> Option<f64> {
    match value {
        RawBsonRef::Double(number) => Some(number),
        RawBsonRef::Int32(number) => Some(f64::from(number)),
        #[allow(clippy::cast_precision_loss)] // mongod's `number()` rounds likewise.
        RawBsonRef::Int64(number) => Some(number as f64),
        RawBsonRef::Decimal128(number) => number.to_string().parse().ok(),
        _ => None,
    }
}

/// Values in order; a corrupt document ends at the first one that cannot be read.
fn document_values(document: &RawDocument) -> impl Iterator<Item = RawBsonRef<'_>> {
    document
        .iter()
        .map_while(std::result::Result::ok)
        .map(|(_, value)| value)
}

fn first_is_number(document: &RawDocument) -> bool {
    matches!(document.iter().next(), Some(Ok((_, value))) if number(value).is_some())
}

/// The elements of an array or the values of a document: mongod iterates both alike.
pub(super) fn elements(value: RawBsonRef<'_>) -> Option<Vec<RawBsonRef<'_>>> {
    match value {
        RawBsonRef::Array(array) => Some(array_values(array).collect()),
        RawBsonRef::Document(document) => Some(document_values(document).collect()),
        _ => None,
    }
}

/// Whether a pair may be followed by further elements (altitude, other fields).
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Extra {
    Allowed,
    Refused,
}

/// Two finite numbers, from an array or a document.
pub(super) fn flat_point(value: Option<RawBsonRef<'_>>, extra: Extra) -> Result<Position> {
    match value {
        Some(RawBsonRef::Array(array)) => flat_pair(array_values(array), extra),
        Some(RawBsonRef::Document(document)) => flat_pair(document_values(document), extra),
        _ => Err(bad("Point must be an array or object")),
    }
}

fn flat_pair<'a>(
    mut values: impl Iterator<Item = RawBsonRef<'a>>,
    extra: Extra,
) -> Result<Position> {
    let mut next = || {
        values
            .next()
            .and_then(number)
            .ok_or_else(|| bad("Point must only contain numeric elements"))
    };
    let (lon, lat) = (next()?, next()?);
    if extra == Extra::Refused && values.next().is_some() {
        return Err(bad("Point must only contain two numeric elements"));
    }
    if !lon.is_finite() || !lat.is_finite() {
        return Err(bad("Point coordinates must be finite numbers"));
    }
    Ok(Position { lon, lat })
}

/// The position if it lies on the sphere.
pub fn on_sphere(position: Position) -> Result<Position> {
    if position.is_on_sphere() {
        return Ok(position);
    }
    let (lon, lat) = (stream_number(position.lon), stream_number(position.lat));
    Err(bad(format!(
        "longitude/latitude is out of bounds, lng: {lon} lat: {lat}"
    )))
}

/// The point of a nearest-first query: only its coordinates are looked at, not its type.
pub(super) fn query_point(document: &RawDocument) -> Result<Position> {
    reference_system(document)?;
    let coordinates = document.get("coordinates").ok().flatten();
    on_sphere(flat_point(coordinates, Extra::Allowed)?)
}

/// Parses a GeoJSON object of any type.
pub(super) fn parse_geojson(document: &RawDocument) -> Result<Geometry> {
    let Some(kind) = geojson_type(document) else {
        return Err(bad(format!(
            "unknown GeoJSON type: {}",
            document_text(document)
        )));
    };
    if kind == "GeometryCollection" {
        return collection(document);
    }
    single(document, kind)
}

fn geojson_type(document: &RawDocument) -> Option<&str> {
    match document.get("type") {
        Ok(Some(RawBsonRef::String(
            kind @ ("Point" | "LineString" | "Polygon" | "MultiPoint" | "MultiLineString"
            | "MultiPolygon" | "GeometryCollection"),
        ))) => Some(kind),
        _ => None,
    }
}

fn single(document: &RawDocument, kind: &str) -> Result<Geometry> {
    let reference = reference_system(document)?;
    if reference == ReferenceSystem::StrictWinding && kind != "Polygon" {
        return Err(bad("Strict winding order is only supported by polygon"));
    }
    let coordinates = document.get("coordinates").ok().flatten();
    Ok(match kind {
        "Point" => Geometry::Point(on_sphere(flat_point(coordinates, Extra::Allowed)?)?),
        "LineString" => Geometry::LineString(line(coordinates)?),
        "Polygon" if reference == ReferenceSystem::StrictWinding => {
            Geometry::BigPolygon(Box::new(big_polygon(coordinates)?))
        }
        "Polygon" => Geometry::Polygon(polygon(coordinates)?),
        "MultiPoint" => Geometry::MultiPoint(non_empty(positions(coordinates)?, "MultiPoint")?),
        "MultiLineString" => {
            Geometry::MultiLineString(several(coordinates, "MultiLineString", line)?)
        }
        _ => Geometry::MultiPolygon(several(coordinates, "MultiPolygon", polygon)?),
    })
}

fn collection(document: &RawDocument) -> Result<Geometry> {
    let Ok(Some(RawBsonRef::Array(members))) = document.get("geometries") else {
        return Err(bad("GeometryCollection geometries must be an array"));
    };
    let members: Vec<_> = array_values(members).collect();
    if members.is_empty() {
        return Err(bad(
            "GeometryCollection geometries must have at least 1 element",
        ));
    }
    members
        .into_iter()
        .enumerate()
        .map(|(index, member)| collected(index, member))
        .collect::<Result<_>>()
        .map(Geometry::Collection)
}

fn collected(index: usize, member: RawBsonRef<'_>) -> Result<Geometry> {
    let RawBsonRef::Document(document) = member else {
        return Err(bad(format!(
            "Element {index} of \"geometries\" is not an object"
        )));
    };
    match geojson_type(document) {
        None => Err(bad(format!(
            "Unknown GeoJSON type: {}",
            document_text(document)
        ))),
        Some("GeometryCollection") => Err(bad(format!(
            "GeometryCollections cannot be nested: {}",
            document_text(document)
        ))),
        Some(kind) => match single(document, kind)? {
            // mongod 6.0.5 crashes here; an error is the better answer.
            Geometry::BigPolygon(_) => Err(bad(
                "Strict winding order is not supported in a GeometryCollection",
            )),
            geometry => Ok(geometry),
        },
    }
}

#[derive(Clone, Copy, PartialEq)]
enum ReferenceSystem {
    Sphere,
    StrictWinding,
}

fn reference_system(document: &RawDocument) -> Result<ReferenceSystem> {
    let Ok(Some(system)) = document.get("crs") else {
        return Ok(ReferenceSystem::Sphere);
    };
    let system = as_document(system).ok_or_else(|| bad("GeoJSON CRS must be an object"))?;
    if !matches!(system.get("type"), Ok(Some(RawBsonRef::String("name")))) {
        return Err(bad("GeoJSON CRS must have field \"type\": \"name\""));
    }
    let properties = system
        .get("properties")
        .ok()
        .flatten()
        .and_then(as_document);
    let properties =
        properties.ok_or_else(|| bad("CRS must have field \"properties\" which is an object"))?;
    match properties.get("name") {
        Ok(Some(RawBsonRef::String("urn:ogc:def:crs:OGC:1.3:CRS84" | "EPSG:4326"))) => {
            Ok(ReferenceSystem::Sphere)
        }
        Ok(Some(RawBsonRef::String(STRICT_WINDING))) => Ok(ReferenceSystem::StrictWinding),
        Ok(Some(RawBsonRef::String(name))) => Err(bad(format!("Unknown CRS name: {name}"))),
        _ => Err(bad("In CRS, \"properties.name\" must be a string")),
    }
}

fn as_document(value: RawBsonRef<'_>) -> Option<&RawDocument> {
    match value {
        RawBsonRef::Document(document) => Some(document),
        RawBsonRef::Array(array) => RawDocument::from_bytes(array.as_bytes()).ok(),
        _ => None,
    }
}

fn non_empty<T>(values: Vec<T>, kind: &str) -> Result<Vec<T>> {
    if values.is_empty() {
        return Err(bad(format!(
            "{kind} coordinates must have at least 1 element"
        )));
    }
    Ok(values)
}

fn several<T>(
    coordinates: Option<RawBsonRef<'_>>,
    kind: &str,
    parse: impl Fn(Option<RawBsonRef<'_>>) -> Result<T>,
) -> Result<Vec<T>> {
    let array =
        array(coordinates).ok_or_else(|| bad(format!("{kind} coordinates must be an array")))?;
    non_empty(
        array_values(array)
            .map(|value| parse(Some(value)))
            .collect::<Result<_>>()?,
        kind,
    )
}

fn array(value: Option<RawBsonRef<'_>>) -> Option<&RawArray> {
    value.and_then(RawBsonRef::as_array)
}

fn positions(coordinates: Option<RawBsonRef<'_>>) -> Result<Vec<Position>> {
    let array = array(coordinates)
        .ok_or_else(|| bad("GeoJSON coordinates must be an array of coordinates"))?;
    array_values(array)
        .map(|value| match value {
            RawBsonRef::Array(_) => on_sphere(flat_point(Some(value), Extra::Allowed)?),
            _ => Err(bad("GeoJSON coordinates must be an array")),
        })
        .collect()
}

fn points(coordinates: Option<RawBsonRef<'_>>) -> Result<Vec<Point>> {
    Ok(positions(coordinates)?
        .into_iter()
        .map(Position::point)
        .collect())
}

fn text(value: Option<RawBsonRef<'_>>) -> String {
    value.map(value_text).unwrap_or_default()
}

fn line(coordinates: Option<RawBsonRef<'_>>) -> Result<Line> {
    let mut vertices = points(coordinates)?;
    vertices.dedup();
    if vertices.len() < 2 {
        return Err(bad(format!(
            "GeoJSON LineString must have at least 2 vertices: {}",
            text(coordinates)
        )));
    }
    validate::line(&vertices).map_err(|reason| {
        bad(format!(
            "GeoJSON LineString is not valid: {reason} {}",
            text(coordinates)
        ))
    })?;
    Ok(Line { vertices })
}

/// The vertices of a closed ring without the repeated last one.
fn ring_vertices(coordinates: RawBsonRef<'_>, shown: RawBsonRef<'_>) -> Result<Vec<Point>> {
    let mut vertices = points(Some(coordinates))?;
    let Some(first) = vertices.first() else {
        return Err(bad(format!(
            "Loop has no vertices: {}",
            value_text(coordinates)
        )));
    };
    if Some(first) != vertices.last() {
        return Err(bad(format!(
            "Loop is not closed: {}",
            value_text(coordinates)
        )));
    }
    vertices.dedup();
    vertices.pop();
    if vertices.len() < 3 {
        return Err(bad(format!(
            "Loop must have at least 3 different vertices: {}",
            value_text(shown)
        )));
    }
    validate::ring(&vertices)
        .map_err(|reason| bad(format!("Loop is not valid: {} {reason}", value_text(shown))))?;
    Ok(vertices)
}

fn polygon(coordinates: Option<RawBsonRef<'_>>) -> Result<Polygon> {
    let array = array(coordinates).ok_or_else(|| bad("Polygon coordinates must be an array"))?;
    let mut rings: Vec<Ring> = Vec::new();
    for value in array_values(array) {
        let mut ring = Ring::new(ring_vertices(value, value)?);
        ring.normalize();
        if rings
            .first()
            .is_some_and(|shell| !super::relate::ring_contains(shell, &ring))
        {
            let first = array_values(array).next();
            return Err(bad(format!(
                "Secondary loops not contained by first exterior loop - secondary loops must be holes: {} first loop: {}",
                value_text(value),
                text(first)
            )));
        }
        rings.push(ring);
    }
    if rings.is_empty() {
        return Err(bad("Polygon has no loops."));
    }
    validate::rings(&rings).map_err(|fault| bad(fault.message(&text(coordinates))))?;
    Ok(Polygon { rings })
}

fn big_polygon(coordinates: Option<RawBsonRef<'_>>) -> Result<BigPolygon> {
    let (Some(all), Some(array)) = (coordinates, array(coordinates)) else {
        return Err(bad("Coordinates of polygon must be an array"));
    };
    let rings: Vec<_> = array_values(array).collect();
    let [ring] = rings[..] else {
        return Err(bad(format!(
            "Only one simple loop is allowed in a big polygon: {}",
            value_text(all)
        )));
    };
    let ring = Ring::new(ring_vertices(ring, all)?);
    let mut boundary = ring.clone();
    boundary.normalize();
    let is_normalized = ring.is_normalized();
    Ok(BigPolygon {
        ring,
        boundary: Polygon {
            rings: vec![boundary],
        },
        is_normalized,
    })
}
