//! How far the farthest result can be.
//!
//! In: the distances of entries as they are met, in any order. Out: the distance behind which nothing is
//! wanted: the greatest allowed, or that of the last wanted among the nearest met so far.

use crate::geo::{Metric, Near, SquaredChord};

/// Where more are wanted, finding the last of them costs more than it saves.
const WANTED_MAX: usize = 1_024;

pub(super) struct Bound {
    /// Results that are wanted; 0 when that is not known.
    wanted: usize,
    /// The distances of the nearest met, ascending, no more than are wanted.
    nearest: Vec<f64>,
    limit: f64,
    chord: SquaredChord,
    metric: Metric,
}

impl Bound {
    /// `wanted` is how many results will be asked for at most, where every entry is a result.
    pub(super) fn new(near: &Near, wanted: Option<u64>) -> Self {
        let wanted = wanted.and_then(|wanted| usize::try_from(wanted).ok());
        let mut bound = Self {
            wanted: wanted.filter(|wanted| *wanted <= WANTED_MAX).unwrap_or(0),
            nearest: Vec::new(),
            limit: f64::INFINITY,
            chord: SquaredChord::beyond(f64::INFINITY),
            metric: near.metric(),
        };
        bound.lower(near.distance_max());
        bound
    }

    /// Whether nothing so far away is wanted.
    #[inline]
    pub(super) fn excludes(&self, distance: f64) -> bool {
        distance > self.limit
    }

    /// Whether nothing behind such a chord is wanted; at the limit it may say no.
    #[inline]
    pub(super) fn excludes_chord(&self, chord: SquaredChord) -> bool {
        chord > self.chord
    }

    /// Notes a result.
    pub(super) fn meet(&mut self, distance: f64) {
        if self.wanted == 0 || self.excludes(distance) {
            return;
        }
        let at = self.nearest.partition_point(|other| *other <= distance);
        if self.nearest.len() == self.wanted {
            self.nearest.pop();
        }
        self.nearest.insert(at.min(self.nearest.len()), distance);
        if self.nearest.len() == self.wanted {
            let last = self.nearest[self.wanted - 1];
            self.lower(last);
        }
    }

    fn lower(&mut self, limit: f64) {
        if limit < self.limit {
            self.limit = limit;
            if self.metric == Metric::Sphere {
                self.chord = SquaredChord::beyond(limit);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::geo::SpherePoint;
    use bson::rawdoc;
    use rand::{Rng, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    fn bound(wanted: Option<u64>) -> Bound {
        let place = rawdoc! { "type": "Point", "coordinates": [0, 0] };
        let inner = rawdoc! { "$geometry": place, "$maxDistance": 1_000 };
        let near = Near::parse(&rawdoc! { "$near": inner }).expect("valid");
        Bound::new(&near, wanted)
    }

    #[test]
    fn the_last_wanted_of_the_nearest_met_is_the_limit() {
        let mut bound = bound(Some(3));
        assert!(bound.excludes(1_000.1) && !bound.excludes(1_000.0));
        for distance in [500.0, 900.0] {
            bound.meet(distance);
        }
        assert!(!bound.excludes(1_000.0));
        bound.meet(700.0);
        assert!(bound.excludes(900.1) && !bound.excludes(900.0));
        bound.meet(950.0);
        assert!(!bound.excludes(900.0));
        bound.meet(100.0);
        assert!(bound.excludes(700.1) && !bound.excludes(700.0));
        // Equal ones: all of them may be results.
        for _ in 0..5 {
            bound.meet(500.0);
        }
        assert!(bound.excludes(500.1) && !bound.excludes(500.0));
    }

    #[test]
    fn without_a_number_all_within_the_greatest_distance_are_wanted() {
        for wanted in [None, Some(WANTED_MAX as u64 + 1)] {
            let mut bound = bound(wanted);
            for _ in 0..2_000 {
                bound.meet(1.0);
            }
            assert!(!bound.excludes(1_000.0) && bound.excludes(1_001.0));
        }
    }

    #[test]
    fn no_chord_cuts_off_what_is_at_the_limit() {
        let mut random = ChaCha8Rng::seed_from_u64(1);
        for number in 0..10_000 {
            let mut draw = |range: std::ops::Range<f64>| random.random_range(range);
            let size = 10_f64.powf(draw(-8.0..2.2));
            let (lon, lat) = (draw(-180.0..180.0), draw(-80.0..80.0));
            let place = rawdoc! { "type": "Point", "coordinates": [lon, lat] };
            let near = Near::parse(&rawdoc! { "$near": { "$geometry": place } }).expect("valid");
            let lat = (lat + size * 0.7).clamp(-90.0, 90.0);
            let lon = (lon + size).clamp(-180.0, 180.0);
            let point = SpherePoint::from_degrees(lon, lat).expect("on the sphere");
            let distance = near.distance_to_point(&point);
            let beyond = SquaredChord::beyond(distance);
            assert!(
                near.chord_to(&point) <= beyond,
                "number {number} of seed 1: {near:?} {point:?} {distance}"
            );
        }
    }
}
