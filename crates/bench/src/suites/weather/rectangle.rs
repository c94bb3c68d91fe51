//! The four zoom levels: nested rectangles over central France.
//!
//! The evaluation publishes the smallest rectangle and how many events each of
//! the four matches. With events spread evenly over a rectangle, and the
//! published shares, the others follow: same centre, same proportions (it is
//! the same screen), area in proportion to the number matched.
//!
//! **Edges.** A polygon's northern and southern edges are great circles to
//! MongoDB and straight lines in longitude and latitude to PostGIS's geometry.
//! Between the two lies a sliver up to 0.05 degrees high at zoom 1. The
//! generator puts no event there ([`Rectangle::is_disputed`]), so that the same
//! four corners select the same events everywhere and answers can be compared
//! for equality.

use bson::{Document, doc};

/// The published corner positions of the smallest zoom.
const SMALLEST: Rectangle = Rectangle {
    west: 2.551_103,
    south: 45.881_680,
    east: 3.056_474,
    north: 46.037_291,
};
/// Events matched at zooms 1 to 4, as published, of [`EVENTS_PUBLISHED`].
pub const MATCHES_PUBLISHED: [u64; 4] = [847_876, 284_676, 70_912, 4_532];
/// Events in the published evaluation.
pub const EVENTS_PUBLISHED: u64 = 1_692_000;
/// No event lies nearer than this to an edge, in degrees (about 0.2 m), so that rounding decides nothing.
const EDGE_MARGIN: f64 = 2e-6;

/// A rectangle in degrees.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rectangle {
    /// Least longitude.
    pub west: f64,
    /// Least latitude.
    pub south: f64,
    /// Greatest longitude.
    pub east: f64,
    /// Greatest latitude.
    pub north: f64,
}

impl Rectangle {
    /// Where all events lie.
    pub fn everything() -> Self {
        SMALLEST.scaled(EVENTS_PUBLISHED as f64 / MATCHES_PUBLISHED[3] as f64)
    }

    /// Zooms 1 (largest) to 4 (smallest).
    pub fn zooms() -> [Self; 4] {
        MATCHES_PUBLISHED.map(|matches| {
            if matches == MATCHES_PUBLISHED[3] {
                SMALLEST
            } else {
                SMALLEST.scaled(matches as f64 / MATCHES_PUBLISHED[3] as f64)
            }
        })
    }

    /// The rectangle around the same centre with `factor` times the area.
    fn scaled(self, factor: f64) -> Self {
        let (longitude, latitude) = (
            f64::midpoint(self.west, self.east),
            f64::midpoint(self.south, self.north),
        );
        let half = factor.sqrt() / 2.0;
        let (width, height) = (
            (self.east - self.west) * half,
            (self.north - self.south) * half,
        );
        Self {
            west: round_micro(longitude - width),
            south: round_micro(latitude - height),
            east: round_micro(longitude + width),
            north: round_micro(latitude + height),
        }
    }

    /// Whether the position lies within, edges read as straight lines.
    pub fn contains(&self, longitude: f64, latitude: f64) -> bool {
        self.west <= longitude
            && longitude <= self.east
            && self.south <= latitude
            && latitude <= self.north
    }

    /// Whether the position is so near to an edge, or between an edge read as a
    /// straight line and as a great circle, that targets may disagree on it.
    pub fn is_disputed(&self, longitude: f64, latitude: f64) -> bool {
        let near = |a: f64, b: f64| (a - b).abs() < EDGE_MARGIN;
        if near(longitude, self.west) || near(longitude, self.east) {
            return true;
        }
        if longitude < self.west || longitude > self.east {
            return false;
        }
        [self.south, self.north].into_iter().any(|edge| {
            // Cheap first: a great circle between two positions of one northern latitude lies north of it.
            latitude > edge - EDGE_MARGIN
                && latitude < edge + 0.2
                && latitude < self.great_circle_latitude(edge, longitude) + EDGE_MARGIN
        })
    }

    /// Latitude at `longitude` of the great circle through both corners at latitude `edge`.
    fn great_circle_latitude(&self, edge: f64, longitude: f64) -> f64 {
        let middle = f64::midpoint(self.west, self.east);
        let half_width = (self.east - self.west).to_radians() / 2.0;
        let offset = (longitude - middle).to_radians();
        (edge.to_radians().tan() * offset.cos() / half_width.cos())
            .atan()
            .to_degrees()
    }

    /// The rectangle as a GeoJSON polygon, counter-clockwise.
    pub fn polygon(&self) -> Document {
        doc! { "type": "Polygon", "coordinates": [[
            [self.west, self.south],
            [self.east, self.south],
            [self.east, self.north],
            [self.west, self.north],
            [self.west, self.south],
        ]] }
    }

    /// The rectangle as `POLYGON((...))`.
    pub fn well_known_text(&self) -> String {
        let Self {
            west,
            south,
            east,
            north,
        } = self;
        format!(
            "POLYGON(({west} {south},{east} {south},{east} {north},{west} {north},{west} {south}))"
        )
    }
}

/// Rounds to six decimals, as the published positions have.
pub fn round_micro(degrees: f64) -> f64 {
    (degrees * 1e6).round() / 1e6
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zooms_are_nested_and_the_smallest_is_the_published_one() {
        let zooms = Rectangle::zooms();
        assert_eq!(zooms[3], SMALLEST);
        let mut outer = Rectangle::everything();
        for zoom in zooms {
            assert!(outer.west < zoom.west && outer.east > zoom.east);
            assert!(outer.south < zoom.south && outer.north > zoom.north);
            outer = zoom;
        }
    }

    #[test]
    fn the_bulge_of_an_edge_is_disputed_and_what_lies_beyond_is_not() {
        let zoom = Rectangle::zooms()[0];
        let middle = f64::midpoint(zoom.west, zoom.east);
        for edge in [zoom.south, zoom.north] {
            assert!(zoom.is_disputed(middle, edge + 0.02));
            assert!(!zoom.is_disputed(middle, edge + 0.1));
            assert!(!zoom.is_disputed(middle, edge - 0.001));
        }
        assert!(zoom.is_disputed(zoom.west, 46.0));
        assert!(!zoom.is_disputed(zoom.west - 0.01, zoom.north + 0.0001));
    }
}
