//! The events: seeded, so that every run and every target has the same.
//!
//! 42,300 events a day over 40 days from 2017-12-01 (scaled by the number
//! asked for), numbered from 1 in order of their day; times within a day are
//! random whole seconds. Places are spread evenly over [`Rectangle::everything`]
//! except that the number of events in each zoom is exactly the published share:
//! the zoom of an event is drawn without replacement, its place evenly within.

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::rectangle::{EVENTS_PUBLISHED, MATCHES_PUBLISHED, Rectangle, round_micro};

/// Days that the events cover.
pub const DAYS: u64 = 40;
/// 2017-12-01T00:00:00Z in milliseconds since 1970.
pub const FIRST_DAY_MS: i64 = 1_512_086_400_000;
/// Milliseconds of a day.
pub const DAY_MS: i64 = 86_400_000;
/// How long an event lasts.
const DURATION_MS: i64 = 9 * DAY_MS;

/// What happens over central France.
const NAMES: [&str; 14] = [
    "Large Wildfire Moving Rapidly West",
    "Hurricane Approaching",
    "Multi-vehicle Accident with Injuries",
    "Flash Flood Warning",
    "Road Closed by Fallen Trees",
    "Power Failure in Several Districts",
    "Severe Thunderstorm with Hail",
    "Gas Leak near a School",
    "Water Main Break",
    "Heavy Snow and Drifting",
    "Dense Fog on the Motorway",
    "Public Gathering Larger than Expected",
    "Black Ice on Bridges",
    "Train Delayed by Storm Damage",
];

/// One event: a row of the source, a document of the collection.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Event {
    /// Unique, from 1.
    pub indexnum: i32,
    /// Start, milliseconds since 1970.
    pub start_ms: i64,
    /// End, nine days after the start.
    pub end_ms: i64,
    /// Longitude in degrees, six decimals.
    pub longitude: f64,
    /// Latitude in degrees, six decimals.
    pub latitude: f64,
    /// What happened.
    pub name: &'static str,
    /// Last change, milliseconds since 1970.
    pub last_update_ms: i64,
    /// Minutes from UTC.
    pub timezone_offset: i32,
    /// Some number.
    pub permit_id: i32,
    /// Some measurement, two decimals.
    pub reading: f64,
}

/// An iterator over the events of one seed and size.
pub struct Generator {
    random: ChaCha8Rng,
    total: u64,
    next: u64,
    shift_ms: i64,
    zooms: [Rectangle; 4],
    /// Events still to place within zoom 4, between 3 and 4, 2 and 3, 1 and 2, outside.
    remaining: [u64; 5],
}

impl Generator {
    /// `total` events from `seed`.
    pub fn new(total: u64, seed: u64) -> Self {
        Self {
            random: ChaCha8Rng::seed_from_u64(seed),
            total,
            next: 0,
            shift_ms: 0,
            zooms: Rectangle::zooms(),
            remaining: ring_sizes(total),
        }
    }

    /// The same events at times `shift_ms` later.
    pub fn shifted(mut self, shift_ms: i64) -> Self {
        self.shift_ms = shift_ms;
        self
    }

    /// Which ring the next event lies in, drawn so that exactly the wanted numbers come out.
    fn draw_ring(&mut self) -> usize {
        let left = self.total - self.next;
        let mut pick = self.random.random_range(0..left);
        for (ring, remaining) in self.remaining.iter_mut().enumerate() {
            if pick < *remaining {
                *remaining -= 1;
                return ring;
            }
            pick -= *remaining;
        }
        unreachable!("the rings' sizes add up to the events left")
    }

    fn draw_place(&mut self, ring: usize) -> (f64, f64) {
        let outer = if ring == 4 {
            Rectangle::everything()
        } else {
            self.zooms[3 - ring]
        };
        let inner = (ring > 0).then(|| self.zooms[4 - ring]);
        loop {
            let longitude = round_micro(self.random.random_range(outer.west..outer.east));
            let latitude = round_micro(self.random.random_range(outer.south..outer.north));
            let in_hole = inner.is_some_and(|hole| hole.contains(longitude, latitude));
            if !in_hole
                && !self
                    .zooms
                    .iter()
                    .any(|zoom| zoom.is_disputed(longitude, latitude))
            {
                return (longitude, latitude);
            }
        }
    }
}

impl Iterator for Generator {
    type Item = Event;

    fn next(&mut self) -> Option<Event> {
        if self.next == self.total {
            return None;
        }
        let ring = self.draw_ring();
        let (longitude, latitude) = self.draw_place(ring);
        let day = (self.next * DAYS / self.total) as i64;
        let second = self.random.random_range(0..86_400i64);
        let start_ms = FIRST_DAY_MS + day * DAY_MS + second * 1000 + self.shift_ms;
        let delay_ms = self.random.random_range(0..6 * 3600i64) * 1000;
        self.next += 1;
        Some(Event {
            indexnum: self.next as i32,
            start_ms,
            end_ms: start_ms + DURATION_MS,
            longitude,
            latitude,
            name: NAMES[self.random.random_range(0..NAMES.len())],
            last_update_ms: start_ms + delay_ms,
            timezone_offset: -60,
            permit_id: self.random.random_range(1..1_000_000),
            reading: (self.random.random_range(0.0..100.0f64) * 100.0).round() / 100.0,
        })
    }
}

/// Events per ring, innermost first, in the published shares of `total`.
fn ring_sizes(total: u64) -> [u64; 5] {
    let within = MATCHES_PUBLISHED
        .map(|matches| (matches * total + EVENTS_PUBLISHED / 2) / EVENTS_PUBLISHED);
    [
        within[3],
        within[2] - within[3],
        within[1] - within[2],
        within[0] - within[1],
        total - within[0],
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_zoom_holds_its_published_share() {
        let total = 20_000;
        let zooms = Rectangle::zooms();
        let mut found = [0u64; 4];
        for event in Generator::new(total, 1) {
            for (zoom, count) in zooms.iter().zip(&mut found) {
                *count += u64::from(zoom.contains(event.longitude, event.latitude));
            }
        }
        assert_eq!(found, [10_022, 3_365, 838, 54]);
    }

    #[test]
    fn at_full_size_the_rings_are_the_published_numbers() {
        let rings = ring_sizes(EVENTS_PUBLISHED);
        assert_eq!(rings.iter().sum::<u64>(), EVENTS_PUBLISHED);
        assert_eq!(rings[..4].iter().sum::<u64>(), MATCHES_PUBLISHED[0]);
        assert_eq!(rings[0], MATCHES_PUBLISHED[3]);
    }

    #[test]
    fn the_same_seed_gives_the_same_events_and_another_seed_others() {
        let events: Vec<Event> = Generator::new(1000, 7).collect();
        assert!(Generator::new(1000, 7).eq(events.iter().copied()));
        assert!(!Generator::new(1000, 8).eq(events.iter().copied()));
        assert_eq!(events.first().map(|event| event.indexnum), Some(1));
        assert_eq!(events.last().map(|event| event.indexnum), Some(1000));
    }
}
