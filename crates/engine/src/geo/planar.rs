//! Shapes of the plane: `$box`, `$center` and `$polygon` over longitude and latitude.
//!
//! In: two plain numbers. Out: inside or not, boundary included, with the same arithmetic
//! as mongod's so that points on a boundary answer alike. Rectangles of the plane are
//! classified for coverings with a margin that covers all rounding.

use super::geometry::Position;

/// Degrees by which a rectangle is widened at least before it is called inside or disjoint.
const MARGIN_DEGREES: f64 = 1e-9;
/// More than the rounding of a comparison, as a share of the coordinates: those of a 2d index need not
/// be degrees.
const MARGIN_SHARE: f64 = 1e-13;

/// A shape whose boundaries are straight in degrees.
#[derive(Debug, Clone)]
pub(super) enum Planar {
    Box {
        low: Position,
        high: Position,
    },
    Center {
        center: Position,
        radius: f64,
    },
    Polygon {
        vertices: Vec<Position>,
        low: Position,
        high: Position,
    },
}

/// A rectangle of the plane, in degrees.
#[derive(Debug, Clone, Copy)]
pub(super) struct DegreeRect {
    pub(super) low: Position,
    pub(super) high: Position,
}

/// How a shape lies to a rectangle.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Relation {
    Disjoint,
    Inside,
    Boundary,
}

impl Planar {
    pub(super) fn rectangle(a: Position, b: Position) -> Self {
        let (low, high) = bounds(&[a, b]);
        Planar::Box { low, high }
    }

    pub(super) fn polygon(vertices: Vec<Position>) -> Self {
        let (low, high) = bounds(&vertices);
        Planar::Polygon {
            vertices,
            low,
            high,
        }
    }

    pub(super) fn contains(&self, point: Position) -> bool {
        match self {
            Planar::Box { low, high } => in_box(*low, *high, point),
            Planar::Center { center, radius } => distance_within(*center, point, *radius),
            Planar::Polygon {
                vertices,
                low,
                high,
            } => in_box(*low, *high, point) && in_polygon(vertices, point),
        }
    }

    /// The number of edges a covering carries; zero for shapes without.
    pub(super) fn edge_count(&self) -> usize {
        match self {
            Planar::Polygon { vertices, .. } => vertices.len(),
            _ => 0,
        }
    }

    /// Whether polygon edge `index` may touch the rectangle.
    pub(super) fn edge_touches(&self, index: usize, rect: DegreeRect) -> bool {
        let Planar::Polygon { vertices, .. } = self else {
            return false;
        };
        let (a, b) = (vertices[index], vertices[(index + 1) % vertices.len()]);
        let margin = self.margin(rect);
        let rect = rect.widened(margin);
        if a.lon.max(b.lon) < rect.low.lon || a.lon.min(b.lon) > rect.high.lon {
            return false;
        }
        if a.lat.max(b.lat) < rect.low.lat || a.lat.min(b.lat) > rect.high.lat {
            return false;
        }
        let (dx, dy) = (b.lon - a.lon, b.lat - a.lat);
        let (cx, cy) = (
            (rect.low.lon + rect.high.lon) / 2.0 - a.lon,
            (rect.low.lat + rect.high.lat) / 2.0 - a.lat,
        );
        let (hx, hy) = (
            (rect.high.lon - rect.low.lon) / 2.0,
            (rect.high.lat - rect.low.lat) / 2.0,
        );
        let reach = dx.abs() * hy + dy.abs() * hx;
        let is_beyond = (dx * cy - dy * cx).abs() > reach + margin * (dx.abs() + dy.abs());
        // Coordinates so large that they overflow are never beyond.
        !is_beyond
    }

    /// More than any rounding where this shape and the rectangle are compared.
    fn margin(&self, rect: DegreeRect) -> f64 {
        let reach = |low: Position, high: Position| {
            let x = low.lon.abs().max(high.lon.abs());
            x.max(low.lat.abs()).max(high.lat.abs())
        };
        let own = match self {
            Planar::Box { low, high } | Planar::Polygon { low, high, .. } => reach(*low, *high),
            Planar::Center { center, radius } => reach(*center, *center) + radius,
        };
        MARGIN_DEGREES.max(MARGIN_SHARE * (own + reach(rect.low, rect.high)))
    }

    /// How a rectangle without any edge of this shape in it (for polygons) lies to the shape.
    pub(super) fn relation(&self, rect: DegreeRect) -> Relation {
        let margin = self.margin(rect);
        let wide = rect.widened(margin);
        match self {
            Planar::Box { low, high } => {
                if wide.low.lon > high.lon
                    || wide.high.lon < low.lon
                    || wide.low.lat > high.lat
                    || wide.high.lat < low.lat
                {
                    Relation::Disjoint
                } else if in_box(*low, *high, wide.low) && in_box(*low, *high, wide.high) {
                    Relation::Inside
                } else {
                    Relation::Boundary
                }
            }
            Planar::Center { center, radius } => center_relation(*center, *radius, wide, margin),
            Planar::Polygon { .. } => {
                if self.contains(rect.middle()) {
                    Relation::Inside
                } else {
                    Relation::Disjoint
                }
            }
        }
    }
}

impl DegreeRect {
    fn widened(self, margin: f64) -> Self {
        let Position { lon, lat } = self.low;
        let low = Position {
            lon: lon - margin,
            lat: lat - margin,
        };
        let Position { lon, lat } = self.high;
        Self {
            low,
            high: Position {
                lon: lon + margin,
                lat: lat + margin,
            },
        }
    }

    fn middle(self) -> Position {
        Position {
            lon: (self.low.lon + self.high.lon) / 2.0,
            lat: (self.low.lat + self.high.lat) / 2.0,
        }
    }
}

fn center_relation(center: Position, radius: f64, rect: DegreeRect, margin: f64) -> Relation {
    let nearest = (center.lon - center.lon.clamp(rect.low.lon, rect.high.lon))
        .hypot(center.lat - center.lat.clamp(rect.low.lat, rect.high.lat));
    let farthest = (center.lon - rect.low.lon)
        .abs()
        .max((center.lon - rect.high.lon).abs())
        .hypot(
            (center.lat - rect.low.lat)
                .abs()
                .max((center.lat - rect.high.lat).abs()),
        );
    if nearest > radius + margin {
        Relation::Disjoint
    } else if farthest < radius - margin {
        Relation::Inside
    } else {
        Relation::Boundary
    }
}

fn bounds(points: &[Position]) -> (Position, Position) {
    let fold = |pick: fn(&Position) -> f64, choose: fn(f64, f64) -> f64, start: f64| {
        points.iter().map(pick).fold(start, choose)
    };
    let low = Position {
        lon: fold(|p| p.lon, f64::min, f64::INFINITY),
        lat: fold(|p| p.lat, f64::min, f64::INFINITY),
    };
    let high = Position {
        lon: fold(|p| p.lon, f64::max, f64::NEG_INFINITY),
        lat: fold(|p| p.lat, f64::max, f64::NEG_INFINITY),
    };
    (low, high)
}

fn in_box(low: Position, high: Position, point: Position) -> bool {
    point.lon >= low.lon && point.lon <= high.lon && point.lat >= low.lat && point.lat <= high.lat
}

/// Compares sums rather than differences along an axis: `51.9999 + 0.0001 <= 52.0` holds
/// where `52.0 - 51.9999 <= 0.0001` does not.
fn distance_within(center: Position, point: Position, radius: f64) -> bool {
    let (dx, dy) = (point.lon - center.lon, point.lat - center.lat);
    if dx == 0.0 {
        return point.lat.min(center.lat) + radius >= point.lat.max(center.lat);
    }
    if dy == 0.0 {
        return point.lon.min(center.lon) + radius >= point.lon.max(center.lon);
    }
    (dx * dx + dy * dy).sqrt() <= radius
}

/// Counts the edges to the right of the point; vertices, horizontal and vertical edges are inside.
fn in_polygon(vertices: &[Position], point: Position) -> bool {
    let mut inside = false;
    let mut a = vertices[0];
    for index in 1..=vertices.len() {
        let b = vertices[index % vertices.len()];
        if point == a || point == b {
            return true;
        }
        let (left, right) = (a.lon.min(b.lon), a.lon.max(b.lon));
        if a.lat == b.lat && point.lat == a.lat && point.lon >= left && point.lon <= right {
            return true;
        }
        if point.lat > a.lat.min(b.lat)
            && point.lat <= a.lat.max(b.lat)
            && point.lon <= right
            && a.lat != b.lat
        {
            let crossing = (point.lat - a.lat) * (b.lon - a.lon) / (b.lat - a.lat) + a.lon;
            if a.lon == b.lon && point.lon == a.lon {
                return true;
            }
            if a.lon == b.lon || point.lon <= crossing {
                inside = !inside;
            }
        }
        a = b;
    }
    inside
}
