//! The point of `$near`, and how far documents are from it.
//!
//! In: the parsed operators (see `near_parse`), then documents. Out: distances, computed as mongod 6.0
//! computes them: on the sphere the angle between unit vectors times 6,378,100 m, to the nearest
//! point of a line or polygon, zero inside; in the plane the square root of the sum of squares. A
//! document with several geometries is as far as its nearest.

use super::along::values_along;
use super::geometry::{Geometry, GeometryPart, Position};
use super::parse::elements;
use super::predicates::angle;
use super::relate::{distance_to_line, distance_to_polygon};
use super::vector::norm2;
use bson::raw::{RawDocument, RawDocumentBuf};
use bson::{RawBsonRef, cstr, rawbson};
use s2rst::s2::Point;
use smallvec::SmallVec;

/// The Earth's radius in MongoDB.
pub(super) const EARTH_RADIUS_METERS: f64 = 6_378_100.0;

/// On what distances are measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Metric {
    /// On the sphere, in metres.
    Sphere,
    /// In the plane, in the coordinates' own unit.
    Plane,
}

/// What `$near`, `$nearSphere` or `$geoNear` asks for.
#[derive(Debug, Clone)]
pub struct Near {
    pub(super) center: Position,
    pub(super) point: Point,
    pub(super) metric: Metric,
    pub(super) is_geojson: bool,
    /// Whether the client gives and gets radians.
    pub(super) in_radians: bool,
    /// Metres on the sphere.
    pub(super) distance_min: f64,
    pub(super) distance_max: f64,
    pub(super) operators: RawDocumentBuf,
}

/// How far a document is.
#[derive(Debug, Clone, Copy)]
pub struct Measured<'d> {
    /// Metres on the sphere, plain units in the plane.
    pub distance: f64,
    /// The geometry that is so far: the nearest of the document.
    pub location: RawBsonRef<'d>,
}

/// A place on the sphere as a unit vector: distances from it need no more trigonometry than they must.
#[derive(Debug, Clone, Copy)]
pub struct SpherePoint(Point);

impl SpherePoint {
    /// The place of degrees; `None` where there is none.
    pub fn from_degrees(lon: f64, lat: f64) -> Option<Self> {
        let position = Position { lon, lat };
        position.is_on_sphere().then(|| Self(position.point()))
    }
}

/// The square of a chord on the unit sphere: of two distances that differ by more than a micrometre, the
/// greater has the greater one.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
pub struct SquaredChord(f64);

impl SquaredChord {
    /// More than what roundings do to a chord, as a share of it and (0.6 micrometres) in all.
    const SLACK: f64 = 1e-13;

    /// Greater than that of any distance up to so many metres.
    pub fn beyond(distance: f64) -> Self {
        let angle = distance / EARTH_RADIUS_METERS;
        if angle >= std::f64::consts::PI {
            return Self(f64::INFINITY);
        }
        let chord = 2.0 * (0.5 * angle).sin();
        let chord = chord * (1.0 + Self::SLACK) + Self::SLACK;
        Self(chord * chord)
    }
}

impl Near {
    /// How far a point of the sphere is, as a chord.
    #[inline]
    pub fn chord_to(&self, point: &SpherePoint) -> SquaredChord {
        SquaredChord(norm2(point.0.0 - self.point.0))
    }

    /// The distance of a point of the sphere, in metres.
    pub fn distance_to_point(&self, point: &SpherePoint) -> f64 {
        angle(self.point, point.0) * EARTH_RADIUS_METERS
    }

    /// The operators as the client wrote them, for `explain`.
    pub fn operators(&self) -> &RawDocument {
        &self.operators
    }

    /// On what distances are measured.
    pub fn metric(&self) -> Metric {
        self.metric
    }

    /// Whether the point is GeoJSON: only 2dsphere indexes answer it.
    pub fn is_geojson(&self) -> bool {
        self.is_geojson
    }

    /// A distance in the unit that the client uses.
    pub fn reported(&self, distance: f64) -> f64 {
        if self.in_radians {
            distance / EARTH_RADIUS_METERS
        } else {
            distance
        }
    }

    /// What one unit of a distance here is in the unit that the client uses.
    pub fn unit(&self) -> f64 {
        match self.in_radians {
            true => 1.0 / EARTH_RADIUS_METERS,
            false => 1.0,
        }
    }

    /// Nothing nearer is wanted.
    pub fn distance_min(&self) -> f64 {
        self.distance_min
    }

    /// Nothing farther is wanted.
    pub fn distance_max(&self) -> f64 {
        self.distance_max
    }

    /// An area, as an operand of `$geoWithin`, outside of which nothing is wanted; `None` where that is everywhere.
    pub fn within(&self) -> Option<RawDocumentBuf> {
        // More than roundings do.
        let radius = self.distance_max * (1.0 + 1e-9);
        let (operator, radius) = match self.metric {
            Metric::Sphere => (
                cstr!("$centerSphere"),
                (radius + 1e-3) / EARTH_RADIUS_METERS,
            ),
            Metric::Plane => (cstr!("$center"), radius + 1e-9),
        };
        let is_bounded = match self.metric {
            Metric::Sphere => radius < std::f64::consts::PI,
            Metric::Plane => radius < f64::MAX,
        };
        let center = rawbson!([self.center.lon, self.center.lat]);
        is_bounded.then(|| {
            let mut operand = RawDocumentBuf::new();
            operand.append(operator, rawbson!([center, radius]));
            operand
        })
    }

    /// Whether documents at this distance are wanted.
    pub fn wants(&self, distance: f64) -> bool {
        distance >= self.distance_min && distance <= self.distance_max
    }

    /// The distance of a document's nearest geometry at a path; `None` when there is none.
    pub fn measure<'d>(
        &self,
        document: &'d RawDocument,
        path: &[Box<str>],
    ) -> Option<Measured<'d>> {
        let mut values: SmallVec<[RawBsonRef<'d>; 1]> = SmallVec::new();
        values_along(document, path, &mut values, &mut false);
        let mut nearest: Option<Measured<'d>> = None;
        let mut see = |location: RawBsonRef<'d>, distance: f64| {
            if nearest.is_none_or(|nearest| distance < nearest.distance) {
                nearest = Some(Measured { distance, location });
            }
        };
        for value in values {
            if let Ok(geometry) = Geometry::parse(value) {
                if let Some(distance) = self.distance(&geometry) {
                    see(value, distance);
                }
                continue;
            }
            // An array of pairs, as 2d indexes accept it.
            let members = value.as_array().and_then(|_| elements(value));
            for element in members.unwrap_or_default() {
                let geometry = Geometry::parse(element).ok();
                if let Some(distance) = geometry.and_then(|geometry| self.distance(&geometry)) {
                    see(element, distance);
                }
            }
        }
        nearest
    }

    /// The distance of a point in degrees; `None` where it has no place on the sphere.
    pub fn distance_to(&self, lon: f64, lat: f64) -> Option<f64> {
        self.distance_to_position(Position { lon, lat })
    }

    fn distance_to_position(&self, position: Position) -> Option<f64> {
        match self.metric {
            Metric::Plane => Some(self.planar_distance(position)),
            Metric::Sphere if position.is_on_sphere() => {
                Some(angle(self.point, position.point()) * EARTH_RADIUS_METERS)
            }
            Metric::Sphere => None,
        }
    }

    fn distance(&self, geometry: &Geometry) -> Option<f64> {
        if let Geometry::Point(position) = geometry {
            return self.distance_to_position(*position);
        }
        if self.metric == Metric::Plane {
            return None;
        }
        let distances = geometry.parts().into_iter().filter_map(|part| match part {
            GeometryPart::Point(position) => self.distance_to_position(position),
            GeometryPart::Line(line) => {
                Some(distance_to_line(self.point, line) * EARTH_RADIUS_METERS)
            }
            GeometryPart::Polygon(polygon) => {
                Some(distance_to_polygon(self.point, polygon) * EARTH_RADIUS_METERS)
            }
            // Neither stored under an index nor measured.
            GeometryPart::Big(_) => None,
        });
        distances.min_by(f64::total_cmp)
    }

    fn planar_distance(&self, position: Position) -> f64 {
        let (x, y) = (
            self.center.lon - position.lon,
            self.center.lat - position.lat,
        );
        (x * x + y * y).sqrt()
    }
}
