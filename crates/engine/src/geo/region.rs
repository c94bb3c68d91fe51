//! The right-hand side of `$geoWithin` and `$geoIntersects`, parsed and prepared once.
//!
//! In: the operator's argument. Out: a [`Region`] that answers for points (hot), for
//! geometries and for raw values. The rules follow mongod 6.0: `$geoWithin` looks at the
//! region's polygons only and accepts a point whose leaf cell meets one; planar shapes
//! match points only, by the document's plain numbers; `$geoIntersects` with
//! `$centerSphere` is accepted and never matches.

use super::boundary::{Boundary, PointRule};
use super::cap::SphericalCap;
use super::geometry::{BigPolygon, Geometry, GeometryPart, Line, Polygon, Position};
use super::grid::GridTarget;
use super::parse::{Extra, bad, elements, flat_point, number, on_sphere, parse_geojson};
use super::planar::Planar;
use super::relate;
use super::text::{document_text, value_text};
use crate::Result;
use bson::{RawBson, RawBsonRef, RawDocument};
use s2rst::s2::{Cell, CellId};

/// Which of the two questions a region answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GeoOperator {
    /// `$geoWithin` (and the old `$within`).
    Within,
    /// `$geoIntersects`.
    Intersects,
}

/// A parsed and prepared query region.
#[derive(Debug)]
pub struct Region {
    operator: GeoOperator,
    operand: RawBson,
    shape: Shape,
}

#[derive(Debug)]
enum Shape {
    /// GeoJSON, or a legacy point.
    Parts(Vec<PreparedShape>),
    Cap(SphericalCap),
    Planar(Planar),
}

/// A simple shape of the region with what its tests need.
#[derive(Debug)]
enum PreparedShape {
    Point(CellId),
    Line(Line, Boundary),
    Polygon(Polygon, Boundary),
    Big(BigPolygon, Boundary),
}

impl PreparedShape {
    fn new(part: GeometryPart<'_>) -> Self {
        match part {
            GeometryPart::Point(position) => PreparedShape::Point(position.leaf()),
            GeometryPart::Line(line) => PreparedShape::Line(line.clone(), Boundary::line(line)),
            GeometryPart::Polygon(polygon) => {
                PreparedShape::Polygon(polygon.clone(), Boundary::polygon(polygon))
            }
            GeometryPart::Big(big) => PreparedShape::Big(big.clone(), Boundary::big(big)),
        }
    }

    fn intersects_point(&self, position: Position) -> bool {
        match self {
            PreparedShape::Point(leaf) => position.leaf() == *leaf,
            PreparedShape::Line(_, boundary)
            | PreparedShape::Polygon(_, boundary)
            | PreparedShape::Big(_, boundary) => boundary.matches(position, PointRule::Leaf),
        }
    }

    fn contains_point(&self, position: Position, rule: PointRule) -> bool {
        match self {
            PreparedShape::Point(_) | PreparedShape::Line(..) => false,
            PreparedShape::Polygon(_, boundary) | PreparedShape::Big(_, boundary) => {
                boundary.matches(position, rule)
            }
        }
    }

    /// Whether points in a leaf cell match; `None` where the shape's boundary is near.
    fn matches_leaf(&self, operator: GeoOperator, leaf: CellId) -> Option<bool> {
        match (self, operator) {
            (PreparedShape::Point(_) | PreparedShape::Line(..), GeoOperator::Within) => Some(false),
            (PreparedShape::Point(own), GeoOperator::Intersects) => Some(leaf == *own),
            (
                PreparedShape::Line(_, boundary)
                | PreparedShape::Polygon(_, boundary)
                | PreparedShape::Big(_, boundary),
                _,
            ) => boundary.matches_leaf(leaf),
        }
    }

    fn contains(&self, part: GeometryPart<'_>) -> bool {
        match (self, part) {
            (_, GeometryPart::Point(position)) => {
                self.contains_point(position, PointRule::PointOrLeaf)
            }
            (PreparedShape::Polygon(own, _), GeometryPart::Line(line)) => {
                relate::polygon_contains_line(own, line)
            }
            (PreparedShape::Polygon(own, _), GeometryPart::Polygon(polygon)) => {
                relate::polygon_contains(own, polygon)
            }
            (PreparedShape::Big(own, _), GeometryPart::Line(line)) => {
                relate::big_contains_line(own, line)
            }
            (PreparedShape::Big(own, _), GeometryPart::Polygon(polygon)) => {
                relate::big_contains(own, polygon)
            }
            _ => false,
        }
    }

    fn intersects(&self, part: GeometryPart<'_>) -> bool {
        match (self, part) {
            (_, GeometryPart::Point(position)) => self.intersects_point(position),
            (_, GeometryPart::Big(_)) => false,
            (PreparedShape::Point(leaf), GeometryPart::Line(line)) => {
                relate::line_meets_cell(line, Cell::from_cell_id(*leaf))
            }
            (PreparedShape::Point(leaf), GeometryPart::Polygon(polygon)) => {
                relate::polygon_meets_cell(polygon, Cell::from_cell_id(*leaf))
            }
            (PreparedShape::Line(own, _), GeometryPart::Line(line)) => {
                relate::line_intersects(own, line)
            }
            (PreparedShape::Line(own, _), GeometryPart::Polygon(polygon)) => {
                relate::polygon_intersects_line(polygon, own)
            }
            (PreparedShape::Polygon(own, _), GeometryPart::Line(line)) => {
                relate::polygon_intersects_line(own, line)
            }
            (PreparedShape::Polygon(own, _), GeometryPart::Polygon(polygon)) => {
                relate::polygon_intersects(own, polygon)
            }
            (PreparedShape::Big(own, _), GeometryPart::Line(line)) => {
                relate::big_intersects_line(own, line)
            }
            (PreparedShape::Big(own, _), GeometryPart::Polygon(polygon)) => {
                relate::big_intersects(own, polygon)
            }
        }
    }
}

impl Region {
    /// Parses the argument of `$geoWithin`.
    ///
    /// # Errors
    /// `BadValue` with mongod's message.
    pub fn parse_within(argument: RawBsonRef<'_>) -> Result<Region> {
        let geometry = parse_argument(argument)?;
        let has_polygon = match &geometry {
            ParsedShape::GeoJson(geometry) => geometry
                .parts()
                .iter()
                .any(|part| matches!(part, GeometryPart::Polygon(_) | GeometryPart::Big(_))),
            ParsedShape::Cap(_) | ParsedShape::Planar(_) => true,
        };
        if !has_polygon {
            return Err(bad(format!(
                "$within not supported with provided geometry: {{ $geoWithin: {} }}",
                value_text(argument)
            )));
        }
        Ok(Self::prepare(GeoOperator::Within, geometry, argument))
    }

    /// Parses the argument of `$geoIntersects`.
    ///
    /// # Errors
    /// `BadValue` with mongod's message.
    pub fn parse_intersects(argument: RawBsonRef<'_>) -> Result<Region> {
        let geometry = parse_argument(argument)?;
        let on_sphere = match &geometry {
            ParsedShape::GeoJson(Geometry::Point(position)) => position.is_on_sphere(),
            ParsedShape::GeoJson(_) | ParsedShape::Cap(_) => true,
            ParsedShape::Planar(_) => false,
        };
        if !on_sphere {
            return Err(bad(format!(
                "$geoIntersect not supported with provided geometry: {{ $geoIntersects: {} }}",
                value_text(argument)
            )));
        }
        Ok(Self::prepare(GeoOperator::Intersects, geometry, argument))
    }

    fn prepare(operator: GeoOperator, parsed: ParsedShape, argument: RawBsonRef<'_>) -> Self {
        let shape = match parsed {
            ParsedShape::GeoJson(geometry) => Shape::Parts(
                geometry
                    .parts()
                    .into_iter()
                    .map(PreparedShape::new)
                    .collect(),
            ),
            ParsedShape::Cap(cap) => Shape::Cap(cap),
            ParsedShape::Planar(planar) => Shape::Planar(planar),
        };
        Self {
            operator,
            operand: RawBson::from(argument),
            shape,
        }
    }

    /// The argument as the client wrote it, for `explain`.
    pub fn operand(&self) -> &RawBson {
        &self.operand
    }

    /// Which operator the region was parsed for.
    pub fn operator(&self) -> GeoOperator {
        self.operator
    }

    /// Whether the region is drawn on the sphere; planar shapes ignore geodesics.
    pub fn is_spherical(&self) -> bool {
        !matches!(self.shape, Shape::Planar(_))
    }

    /// Whether 2d indexes answer for the region: `$geoWithin` of a legacy shape, as in mongod.
    pub fn suits_plane(&self) -> bool {
        let is_legacy = matches!(self.shape, Shape::Planar(_) | Shape::Cap(_));
        self.operator == GeoOperator::Within && is_legacy
    }

    /// Whether the point of an entry matches, which a 2dsphere index has under `leaf`. The hot path: nearly
    /// always the cell alone tells, without the sines of the coordinates.
    pub fn matches_entry(&self, leaf: u64, lon: f64, lat: f64) -> bool {
        self.matches_leaf(CellId(leaf))
            .unwrap_or_else(|| self.matches_point(lon, lat))
    }

    /// Whether points in a leaf cell match; `None` when the cell does not tell.
    fn matches_leaf(&self, leaf: CellId) -> Option<bool> {
        let Shape::Parts(parts) = &self.shape else {
            return None;
        };
        let mut matches = Some(false);
        for part in parts {
            match part.matches_leaf(self.operator, leaf) {
                Some(true) => return Some(true),
                Some(false) => {}
                None => matches = None,
            }
        }
        matches
    }

    /// Whether an indexed point matches by the region's own operator.
    ///
    /// An index knows a point by its leaf cell, so the leaf cell decides, as in mongod. That
    /// differs from [`Region::contains_point`] only for points that rounding puts outside
    /// their own leaf cell, on the boundary of a polygon: at a pole, for instance.
    pub fn matches_point(&self, lon: f64, lat: f64) -> bool {
        match self.operator {
            GeoOperator::Within => self.contains(Position { lon, lat }, PointRule::Leaf),
            GeoOperator::Intersects => self.intersects_point(lon, lat),
        }
    }

    /// Whether a point lies within the region, boundary included.
    pub fn contains_point(&self, lon: f64, lat: f64) -> bool {
        self.contains(Position { lon, lat }, PointRule::PointOrLeaf)
    }

    fn contains(&self, position: Position, rule: PointRule) -> bool {
        match &self.shape {
            Shape::Planar(planar) => planar.contains(position),
            _ if !position.is_on_sphere() => false,
            Shape::Cap(cap) => cap.matches(position),
            Shape::Parts(parts) => parts.iter().any(|part| part.contains_point(position, rule)),
        }
    }

    /// Whether a point lies on any shape of the region.
    pub fn intersects_point(&self, lon: f64, lat: f64) -> bool {
        let position = Position { lon, lat };
        match &self.shape {
            Shape::Parts(parts) => {
                position.is_on_sphere() && parts.iter().any(|part| part.intersects_point(position))
            }
            // As mongod 6.0 answers: a cap or a planar shape intersects nothing.
            Shape::Cap(_) | Shape::Planar(_) => false,
        }
    }

    /// Whether the whole geometry lies within the region.
    pub fn within(&self, geometry: &Geometry) -> bool {
        if let Geometry::Point(position) = geometry {
            return self.contains_point(position.lon, position.lat);
        }
        match &self.shape {
            Shape::Planar(_) => false,
            Shape::Cap(cap) => geometry.parts().iter().all(|part| cap.contains(*part)),
            Shape::Parts(own) => {
                !matches!(geometry, Geometry::BigPolygon(_))
                    && geometry
                        .parts()
                        .iter()
                        .all(|part| own.iter().any(|shape| shape.contains(*part)))
            }
        }
    }

    /// Whether the geometry and the region have a point in common.
    pub fn intersects(&self, geometry: &Geometry) -> bool {
        if let Geometry::Point(position) = geometry {
            return self.intersects_point(position.lon, position.lat);
        }
        match &self.shape {
            Shape::Planar(_) | Shape::Cap(_) => false,
            Shape::Parts(own) => geometry
                .parts()
                .iter()
                .any(|part| own.iter().any(|shape| shape.intersects(*part))),
        }
    }

    /// Whether a geometry matches by the region's own operator.
    pub fn matches(&self, geometry: &Geometry) -> bool {
        match self.operator {
            GeoOperator::Within => self.within(geometry),
            GeoOperator::Intersects => self.intersects(geometry),
        }
    }

    /// Whether a document's value matches; a value that is no geometry does not.
    pub fn matches_raw(&self, value: RawBsonRef<'_>) -> bool {
        match value {
            RawBsonRef::Document(_) | RawBsonRef::Array(_) => {
                Geometry::parse(value).is_ok_and(|geometry| self.matches(&geometry))
            }
            _ => false,
        }
    }

    /// What a covering for the region's own operator descends into, and its single leaf cells.
    pub(super) fn cover_targets(&self) -> (Vec<GridTarget<'_>>, Vec<CellId>) {
        let within = self.operator == GeoOperator::Within;
        match &self.shape {
            Shape::Planar(planar) if within => (vec![GridTarget::Planar(planar)], Vec::new()),
            Shape::Cap(cap) if within => (vec![GridTarget::Cap(cap)], Vec::new()),
            Shape::Planar(_) | Shape::Cap(_) => (Vec::new(), Vec::new()),
            Shape::Parts(parts) => {
                let mut points = Vec::new();
                let mut targets = Vec::new();
                for part in parts {
                    match part {
                        PreparedShape::Point(leaf) if !within => points.push(*leaf),
                        PreparedShape::Line(_, boundary) if !within => {
                            targets.push(GridTarget::Boundary(boundary))
                        }
                        PreparedShape::Polygon(_, boundary) | PreparedShape::Big(_, boundary) => {
                            targets.push(GridTarget::Boundary(boundary));
                        }
                        _ => {}
                    }
                }
                (targets, points)
            }
        }
    }
}

enum ParsedShape {
    GeoJson(Geometry),
    Cap(SphericalCap),
    Planar(Planar),
}

fn parse_argument(argument: RawBsonRef<'_>) -> Result<ParsedShape> {
    let RawBsonRef::Document(argument) = argument else {
        return Err(bad("geometry must be an object"));
    };
    let mut last = None;
    // Where several shapes are given, mongod 6.0 uses the last.
    for (name, value) in argument.iter().map_while(std::result::Result::ok) {
        if name.as_str() != "$uniqueDocs" {
            last = Some(parse_specifier(name.as_str(), value)?);
        }
    }
    last.ok_or_else(|| bad("geo query doesn't have any geometry"))
}

fn parse_specifier(name: &str, value: RawBsonRef<'_>) -> Result<ParsedShape> {
    let Some(members) = elements(value) else {
        return Err(unknown_specifier(name, value));
    };
    match name {
        "$box" => {
            let corner = |index: usize| flat_point(members.get(index).copied(), Extra::Refused);
            Ok(ParsedShape::Planar(Planar::rectangle(
                corner(0)?,
                corner(1)?,
            )))
        }
        "$center" => {
            let center = flat_point(members.first().copied(), Extra::Refused)?;
            Ok(ParsedShape::Planar(Planar::Center {
                center,
                radius: radius(&members)?,
            }))
        }
        "$polygon" => {
            let vertices = members
                .iter()
                .map(|point| flat_point(Some(*point), Extra::Refused))
                .collect::<Result<Vec<_>>>()?;
            if vertices.len() < 3 {
                return Err(bad("Polygon must have at least 3 points"));
            }
            Ok(ParsedShape::Planar(Planar::polygon(vertices)))
        }
        "$centerSphere" => {
            let center = on_sphere(flat_point(members.first().copied(), Extra::Refused)?)?;
            Ok(ParsedShape::Cap(SphericalCap::new(
                center,
                radius(&members)?,
            )))
        }
        "$geometry" => match value {
            RawBsonRef::Document(document) if !starts_with_number(&members) => {
                parse_geojson(document).map(ParsedShape::GeoJson)
            }
            _ => flat_point(Some(value), Extra::Refused)
                .map(|position| ParsedShape::GeoJson(Geometry::Point(position))),
        },
        _ => Err(unknown_specifier(name, value)),
    }
}

fn starts_with_number(members: &[RawBsonRef<'_>]) -> bool {
    members.first().copied().and_then(number).is_some()
}

fn unknown_specifier(name: &str, value: RawBsonRef<'_>) -> crate::Error {
    bad(format!(
        "unknown geo specifier: {name}: {}",
        value_text(value)
    ))
}

fn radius(members: &[RawBsonRef<'_>]) -> Result<f64> {
    let radius = members
        .get(1)
        .copied()
        .and_then(number)
        .filter(|radius| *radius >= 0.0);
    let radius = radius.ok_or_else(|| bad("radius must be a non-negative number"))?;
    if members.len() > 2 {
        return Err(bad("Only 2 fields allowed for circular region"));
    }
    Ok(radius)
}

/// The error of an index that cannot take a document's geometry: `Location16755`.
pub fn key_error(document: &RawDocument, reason: &crate::Error) -> crate::Error {
    crate::Error::location(
        16755,
        format!(
            "Can't extract geo keys: {}  {}",
            document_text(document),
            reason.message
        ),
    )
}
