//! Generated trips: seeded, and each from its number alone, so that they can be made in any order.
//!
//! The shape is that of the city's published records of 2013: demand by hour
//! and weekday, about 13,500 medallions with a heavy-tailed number of trips each
//! and a few drivers, pick-ups around Manhattan's hot spots and the airports,
//! distances mostly short, fares that follow from them.

use std::f64::consts::TAU;

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::demand::{Demand, HOUR_MS};
use super::trip::{Name, Trip, name};

/// Taxis in the city.
pub const MEDALLIONS: u32 = 13_500;
/// A medallion with about an average number of trips; it is called `9Y64`.
pub const MEDALLION_ASKED: u32 = 4000;
/// Most drivers a medallion has.
const DRIVERS_MAX: u32 = 4;
/// Names that [`medallion_name`] can give.
const NAMES: u32 = 26_000;
/// Pick-up places: longitude, latitude, spread in degrees, weight.
const HOT_SPOTS: [(f64, f64, f64, f64); 12] = [
    (-73.9857, 40.7577, 0.0060, 14.0), // Times Square
    (-73.9772, 40.7527, 0.0045, 11.0), // Grand Central
    (-73.9935, 40.7506, 0.0045, 10.0), // Pennsylvania Station
    (-73.9680, 40.7610, 0.0060, 9.0),  // Midtown East
    (-73.9570, 40.7720, 0.0080, 11.0), // Upper East Side
    (-73.9800, 40.7800, 0.0080, 9.0),  // Upper West Side
    (-73.9980, 40.7330, 0.0060, 9.0),  // Greenwich Village
    (-73.9870, 40.7250, 0.0060, 7.0),  // East Village
    (-74.0090, 40.7100, 0.0050, 6.0),  // Financial District
    (-73.7820, 40.6450, 0.0040, 2.5),  // Kennedy Airport
    (-73.8740, 40.7740, 0.0040, 3.5),  // LaGuardia Airport
    (-73.9500, 40.7200, 0.0300, 8.0),  // elsewhere
];
/// The hot spots that are airports.
const AIRPORTS: std::ops::RangeInclusive<usize> = 9..=10;

/// The medallion's name: a digit, a letter, two digits.
pub fn medallion_name(medallion: u32) -> Name {
    // A permutation, as 7919 is prime; the offset makes MEDALLION_ASKED 9Y64.
    let number = (medallion * 7919 + 17_864) % NAMES;
    let digit = |value: u32| char::from(b'0' + (value % 10) as u8);
    let mut name = Name::new();
    name.push(digit(number / 2600));
    name.push(char::from(b'A' + (number / 100 % 26) as u8));
    name.push(digit(number / 10));
    name.push(digit(number));
    name
}

/// The trips of one seed and size.
#[derive(Debug, Clone)]
pub struct Generator {
    /// How many.
    pub total: u32,
    demand: Demand,
    random: ChaCha8Rng,
}

impl Generator {
    /// `total` trips from `seed`.
    pub fn new(total: u32, seed: u64) -> Self {
        Self {
            total,
            demand: Demand::of_the_year(),
            random: ChaCha8Rng::seed_from_u64(seed),
        }
    }

    /// All of them in time order.
    pub fn in_time_order(&self) -> impl Iterator<Item = Trip> + Send + 'static {
        let trips = self.clone();
        (0..trips.total).map(move |number| trips.trip(number))
    }

    /// All of them shuffled, the same way every time.
    pub fn shuffled(&self) -> impl Iterator<Item = Trip> + Send + 'static {
        use rand::seq::SliceRandom;
        let trips = self.clone();
        let mut numbers: Vec<u32> = (0..trips.total).collect();
        let mut random = self.random.clone();
        random.set_stream(u64::MAX);
        numbers.shuffle(&mut random);
        numbers.into_iter().map(move |number| trips.trip(number))
    }

    fn random_of(&self, number: u32) -> ChaCha8Rng {
        let mut random = self.random.clone();
        random.set_stream(number.into());
        random.set_word_pos(0);
        random
    }

    fn pickup_of(&self, number: u32, random: &mut ChaCha8Rng) -> i64 {
        let share = (f64::from(number) + random.random::<f64>()) / f64::from(self.total);
        self.demand.time_ms(share)
    }

    /// The pick-up time and the medallion of a trip, without the rest.
    pub fn keys(&self, number: u32) -> (i64, u32) {
        let random = &mut self.random_of(number);
        (self.pickup_of(number, random), draw_medallion(random))
    }

    /// The trip of that number.
    pub fn trip(&self, number: u32) -> Trip {
        let random = &mut self.random_of(number);
        let pickup_ms = self.pickup_of(number, random);
        let medallion = draw_medallion(random);
        let hour = (pickup_ms / HOUR_MS).rem_euclid(24);
        let (spot, pickup) = draw_pickup(random);
        let airport = AIRPORTS.contains(&spot);
        let typical_miles = if airport { 10.0 } else { 1.8 };
        let miles = cents((typical_miles * (0.7 * normal(random).0).exp()).clamp(0.1, 60.0));
        let miles_an_hour = if (8..20).contains(&hour) { 10.5 } else { 16.0 };
        let slowness = (0.25 * normal(random).0).exp();
        let seconds = ((miles / miles_an_hour * 3600.0 * slowness) as i32).clamp(60, 10_800);
        let fare = 2.5 + 0.5 * ((miles * 5.0).ceil() * 0.8 + f64::from(seconds) / 120.0).ceil();
        let surcharge = match hour {
            20.. | 0..6 => 0.5,
            16..20 => 1.0,
            _ => 0.0,
        };
        let tip_share = if random.random_bool(0.45) { 0.0 } else { 0.2 };
        let bridged = random.random_bool(if airport { 0.4 } else { 0.02 });
        let tip = cents(tip_share * (fare + surcharge));
        let tolls = if bridged { 5.33 } else { 0.0 };
        let driver = random.random_range(0..DRIVERS_MAX);
        Trip {
            medallion: medallion_name(medallion),
            hack_license: Some(hack_license(medallion, driver)),
            pickup_ms,
            dropoff_ms: pickup_ms + i64::from(seconds) * 1000,
            passengers: Some([1, 1, 1, 1, 1, 1, 1, 2, 2, 3, 5, 6][random.random_range(0..12)]),
            seconds: Some(seconds),
            miles: Some(miles),
            pickup: Some(pickup),
            dropoff: Some(dropoff(pickup, miles, random)),
            pickup_zone: None,
            dropoff_zone: None,
            fare: Some(fare),
            surcharge: Some(surcharge),
            tip: Some(tip),
            tolls: Some(tolls),
            total: Some(cents(fare + surcharge + tip + tolls)),
            random: random.random(),
        }
    }
}

/// Ranks to the power of -1/3: the busiest makes some 24 times an average number of trips.
pub fn draw_medallion(random: &mut ChaCha8Rng) -> u32 {
    let share = random.random::<f64>().powf(1.5);
    ((share * f64::from(MEDALLIONS)) as u32).min(MEDALLIONS - 1)
}

/// Six digits that belong to one driver of one medallion.
fn hack_license(medallion: u32, driver: u32) -> Name {
    let number = 100_000 + (medallion * DRIVERS_MAX + driver) * 13 % 900_000;
    name(&number.to_string()).expect("six digits are short")
}

/// Two independent values of the standard normal distribution.
fn normal(random: &mut ChaCha8Rng) -> (f64, f64) {
    let radius = (-2.0 * (1.0 - random.random::<f64>()).ln()).sqrt();
    let (sine, cosine) = (random.random::<f64>() * TAU).sin_cos();
    (radius * cosine, radius * sine)
}

fn draw_pickup(random: &mut ChaCha8Rng) -> (usize, (f64, f64)) {
    let weights: f64 = HOT_SPOTS.iter().map(|(.., weight)| weight).sum();
    let mut pick = random.random::<f64>() * weights;
    let spot = HOT_SPOTS.iter().position(|(.., weight)| {
        pick -= weight;
        pick < 0.0
    });
    let spot = spot.unwrap_or(HOT_SPOTS.len() - 1);
    let (longitude, latitude, spread, _) = HOT_SPOTS[spot];
    let (east, north) = normal(random);
    let place = (
        micro(longitude + spread * east),
        micro(latitude + spread * north),
    );
    (spot, place)
}

/// In a random direction, three quarters of the way driven as the crow flies.
fn dropoff((longitude, latitude): (f64, f64), miles: f64, random: &mut ChaCha8Rng) -> (f64, f64) {
    let (sine, cosine) = (random.random::<f64>() * TAU).sin_cos();
    let degrees = miles * 0.75 / 69.0;
    let east = degrees / latitude.to_radians().cos();
    (
        micro(longitude + east * cosine),
        micro(latitude + degrees * sine),
    )
}

fn micro(degrees: f64) -> f64 {
    (degrees * 1e6).round() / 1e6
}

fn cents(value: f64) -> f64 {
    (value * 100.0).round() / 100.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn trips_are_the_same_in_any_order() {
        let trips = Generator::new(2000, 7);
        let mut shuffled: Vec<Trip> = trips.shuffled().collect();
        let ordered: Vec<Trip> = trips.in_time_order().collect();
        assert!(ordered.is_sorted_by_key(|trip| trip.pickup_ms));
        assert!(!shuffled.is_sorted_by_key(|trip| trip.pickup_ms));
        let by_random = |a: &Trip, b: &Trip| a.random.total_cmp(&b.random);
        let mut sorted = ordered.clone();
        sorted.sort_by(by_random);
        shuffled.sort_by(by_random);
        assert_eq!(shuffled, sorted);
        assert_ne!(
            ordered,
            Generator::new(2000, 8).in_time_order().collect::<Vec<_>>()
        );
        for (number, trip) in (0..).zip(ordered) {
            let (pickup_ms, medallion) = trips.keys(number);
            assert_eq!(pickup_ms, trip.pickup_ms);
            assert_eq!(medallion_name(medallion), trip.medallion);
        }
    }

    #[test]
    fn medallions_have_names_of_their_own_and_the_one_asked_for_is_ordinary() {
        let names: HashSet<_> = (0..MEDALLIONS).map(medallion_name).collect();
        assert_eq!(names.len(), MEDALLIONS as usize);
        assert_eq!(medallion_name(MEDALLION_ASKED).as_str(), "9Y64");
        let trips = Generator::new(200_000, 1);
        let mut counts = vec![0u32; MEDALLIONS as usize];
        (0..trips.total).for_each(|number| counts[trips.keys(number).1 as usize] += 1);
        let around = &counts[MEDALLION_ASKED as usize - 500..MEDALLION_ASKED as usize + 500];
        let mean = f64::from(around.iter().sum::<u32>()) / 1000.0;
        assert!((12.0..18.0).contains(&mean), "{mean}");
        assert!(counts[0] > 200, "{}", counts[0]);
    }

    #[test]
    fn distances_and_places_are_a_citys() {
        let trips: Vec<Trip> = Generator::new(20_000, 1).in_time_order().collect();
        let airport = |trip: &&Trip| trip.pickup.is_some_and(|(longitude, _)| longitude > -73.9);
        let share = trips.iter().filter(airport).count() as f64 / trips.len() as f64;
        assert!((0.03..0.10).contains(&share), "{share}");
        let miles = trips.iter().filter_map(|trip| trip.miles);
        let mean = miles.sum::<f64>() / trips.len() as f64;
        assert!((2.0..4.0).contains(&mean), "{mean}");
        assert!(
            trips
                .iter()
                .all(|trip| trip.total >= trip.fare && trip.seconds >= Some(60))
        );
    }
}
