//! Places on the sphere that MongoDB's `$nearSphere` measures on.

use serde::{Deserialize, Serialize};

/// MongoDB's Earth.
pub const EARTH_RADIUS_M: f64 = 6_378_100.0;
/// The length of a degree of latitude there.
const DEGREE_M: f64 = EARTH_RADIUS_M * std::f64::consts::PI / 180.0;

/// A point, in degrees.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Place {
    /// East is positive; from -180 to 180.
    pub longitude: f64,
    /// North is positive.
    pub latitude: f64,
}

impl Place {
    /// Metres along the great circle (haversine: exact to a micrometre for what lies near).
    pub fn distance_m(self, other: Self) -> f64 {
        let (from, to) = (self.latitude.to_radians(), other.latitude.to_radians());
        let half_latitude = (to - from) / 2.0;
        let half_longitude = (other.longitude - self.longitude).to_radians() / 2.0;
        let haversine =
            half_latitude.sin().powi(2) + from.cos() * to.cos() * half_longitude.sin().powi(2);
        2.0 * EARTH_RADIUS_M * haversine.sqrt().min(1.0).asin()
    }

    /// Whether the latitudes alone say that `other` is further away than `distance_m`.
    pub fn is_further_by_latitude(self, other: Self, distance_m: f64) -> bool {
        (self.latitude - other.latitude).abs() * DEGREE_M > distance_m
    }

    /// The place `distance_m` away in the direction `bearing` (radians from north), to a millionth of a degree.
    pub fn towards(self, bearing: f64, distance_m: f64) -> Self {
        let angle = distance_m / EARTH_RADIUS_M;
        let from = self.latitude.to_radians();
        let sine = from.sin() * angle.cos() + from.cos() * angle.sin() * bearing.cos();
        let turn = (bearing.sin() * angle.sin() * from.cos())
            .atan2(angle.cos() - from.sin() * sine.clamp(-1.0, 1.0));
        let longitude = self.longitude + turn.to_degrees();
        Self {
            longitude: millionths((longitude + 540.0).rem_euclid(360.0) - 180.0),
            latitude: millionths(sine.clamp(-1.0, 1.0).asin().to_degrees()),
        }
    }
}

fn millionths(degrees: f64) -> f64 {
    (degrees * 1e6).round() / 1e6
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lies_so_far_away_is_so_far_away() {
        for (longitude, latitude) in [(0.0, 0.0), (179.999, 66.0), (-70.0, -54.8), (13.4, 52.5)] {
            let place = Place {
                longitude,
                latitude,
            };
            for bearing in [0.0, 1.0, 2.5, 4.0, 6.0] {
                let other = place.towards(bearing, 20_000.0);
                let distance_m = place.distance_m(other);
                assert!((distance_m - 20_000.0).abs() < 0.2, "{distance_m}");
                assert!(other.longitude.abs() <= 180.0);
                assert!(!place.is_further_by_latitude(other, 20_000.2));
            }
            let north = place.towards(0.0, 20_000.0);
            assert!(place.is_further_by_latitude(north, 19_000.0));
        }
    }
}
