//! The restaurants: seeded, around real cities, the same in every run and on every target.
//!
//! A city's radius and number of restaurants grow linearly with its population, and
//! places are drawn evenly in distance from the centre, which favours it. At a
//! scale below 1 the sum over the cities so far is rounded, not each city, so that
//! small towns lose none in all.

use std::f64::consts::TAU;

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::cities::{self, City};
use super::place::Place;

/// Fewest and most people, metres and restaurants of a city, as published.
const PEOPLE: (f64, f64) = (1000.0, 22_315_474.0);
const RADIUS_M: (f64, f64) = (1000.0, 44_927.0);
const RESTAURANTS: (f64, f64) = (2.0, 100_000.0);
/// 2000-01-01T00:00:00Z in milliseconds since 1970: the earliest opening.
const FIRST_OPENING_MS: i64 = 946_684_800_000;
const DAY_MS: i64 = 86_400_000;
/// Openings are spread over so many days.
const OPENING_DAYS: i64 = 22 * 365;
/// Most stars; the fewest are one.
pub const RATING_MAX: u8 = 5;
/// What is cooked.
pub const CUISINES: [&str; 20] = [
    "African",
    "American",
    "Brazilian",
    "Chinese",
    "Ethiopian",
    "French",
    "German",
    "Greek",
    "Indian",
    "Italian",
    "Japanese",
    "Korean",
    "Lebanese",
    "Mexican",
    "Peruvian",
    "Spanish",
    "Thai",
    "Turkish",
    "Vegan",
    "Vietnamese",
];
/// What it costs.
pub const PRICINGS: [&str; 3] = ["$", "$$", "$$$"];
const ADJECTIVES: [&str; 16] = [
    "Golden", "Little", "Old", "Green", "Hungry", "Blue", "Royal", "Happy", "Silver", "Wild",
    "Lucky", "Red", "Quiet", "Sunny", "Grand", "Crooked",
];
const NOUNS: [&str; 16] = [
    "Fork", "Kitchen", "Garden", "Lantern", "Table", "Dragon", "Harbour", "Olive", "Mill",
    "Corner", "Lion", "Spoon", "Terrace", "Bridge", "Oven", "Cellar",
];

/// One restaurant.
#[derive(Debug, Clone, PartialEq)]
pub struct Restaurant {
    /// From 0, city by city.
    pub number: u32,
    /// Not unique.
    pub name: String,
    /// Its city's name.
    pub city: &'static str,
    /// Which of [`CUISINES`].
    pub cuisine: u8,
    /// Midnight of a day, milliseconds since 1970.
    pub opened_ms: i64,
    /// Stars, from 1 to [`RATING_MAX`].
    pub rating: u8,
    /// How many wrote about it.
    pub reviews: u32,
    /// Which of [`PRICINGS`].
    pub pricing: u8,
    /// Whether one can sit outside.
    pub outside_area: bool,
    /// Where.
    pub place: Place,
}

/// `range` where people are from [`PEOPLE`]'s fewest to its most; who is not counted counts as the fewest.
fn by_population(population: u32, range: (f64, f64)) -> f64 {
    let people = f64::from(population).max(PEOPLE.0);
    range.0 + (people - PEOPLE.0) / (PEOPLE.1 - PEOPLE.0) * (range.1 - range.0)
}

/// How far from its centre a city has restaurants, in metres.
pub fn radius_m(city: &City) -> f64 {
    by_population(city.population, RADIUS_M)
}

/// How many restaurants a city has at scale 1.
pub fn restaurants(city: &City) -> f64 {
    by_population(city.population, RESTAURANTS)
}

/// How many there are at a scale.
pub fn total(scale: f64) -> u32 {
    let sum: f64 = cities::all().iter().map(restaurants).sum();
    (sum * scale) as u32
}

/// An iterator over the restaurants of one seed and scale.
pub struct Generator {
    seed: u64,
    scale: f64,
    cities: std::iter::Enumerate<std::slice::Iter<'static, City>>,
    city: Option<(&'static City, ChaCha8Rng)>,
    /// Restaurants at scale 1 until the end of the city.
    unscaled: f64,
    next: u32,
}

impl Generator {
    /// `scale` times about 13.8 million restaurants from `seed`.
    pub fn new(scale: f64, seed: u64) -> Self {
        Self {
            seed,
            scale,
            cities: cities::all().iter().enumerate(),
            city: None,
            unscaled: 0.0,
            next: 0,
        }
    }
}

impl Iterator for Generator {
    type Item = Restaurant;

    fn next(&mut self) -> Option<Restaurant> {
        loop {
            if let Some((city, random)) = &mut self.city
                && self.next < (self.unscaled * self.scale) as u32
            {
                self.next += 1;
                return Some(draw(self.next - 1, city, random));
            }
            let (number, city) = self.cities.next()?;
            self.unscaled += restaurants(city);
            let mut random = ChaCha8Rng::seed_from_u64(self.seed);
            random.set_stream(number as u64);
            self.city = Some((city, random));
        }
    }
}

fn draw(number: u32, city: &'static City, random: &mut ChaCha8Rng) -> Restaurant {
    let distance_m = radius_m(city) * random.random::<f64>();
    let place = city.place.towards(random.random::<f64>() * TAU, distance_m);
    let adjective = ADJECTIVES[random.random_range(0..ADJECTIVES.len())];
    let noun = NOUNS[random.random_range(0..NOUNS.len())];
    Restaurant {
        number,
        name: format!("The {adjective} {noun}"),
        city: &city.name,
        cuisine: random.random_range(0..CUISINES.len() as u8),
        opened_ms: FIRST_OPENING_MS + random.random_range(0..OPENING_DAYS) * DAY_MS,
        rating: random.random_range(1..=RATING_MAX),
        reviews: random.random_range(0..5000),
        pricing: random.random_range(0..PRICINGS.len() as u8),
        outside_area: random.random(),
        place,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    #[test]
    fn the_same_seed_gives_the_same_restaurants_and_another_seed_others() {
        let restaurants: Vec<Restaurant> = Generator::new(0.001, 7).collect();
        assert_eq!(restaurants.len() as u32, total(0.001));
        assert!(Generator::new(0.001, 7).eq(restaurants.iter().cloned()));
        assert!(!Generator::new(0.001, 8).eq(restaurants.iter().cloned()));
        assert!((0u32..).zip(&restaurants).all(|(at, one)| one.number == at));
    }

    #[test]
    fn cities_have_the_published_radius_and_number() {
        assert_eq!(total(1.0), 13_787_453);
        let of = |population| {
            (
                by_population(population, RADIUS_M),
                by_population(population, RESTAURANTS),
            )
        };
        assert_eq!(of(0), (1000.0, 2.0));
        assert_eq!(of(1000), (1000.0, 2.0));
        assert_eq!(of(22_315_474), (44_927.0, 100_000.0));
        assert!((of(11_158_237).1 - 50_001.0).abs() < 0.01);
    }

    #[test]
    fn restaurants_lie_around_their_cities_and_most_near_the_centre() {
        let mut by_name: HashMap<&str, Vec<&City>> = HashMap::new();
        for city in cities::all() {
            by_name.entry(&city.name).or_default().push(city);
        }
        let (mut near, mut all) = (0, 0);
        for restaurant in Generator::new(0.002, 1) {
            let share = |city: &&City| restaurant.place.distance_m(city.place) / radius_m(city);
            let shares = by_name[restaurant.city].iter().map(share);
            let share = shares.fold(f64::INFINITY, f64::min);
            assert!(share < 1.001, "{restaurant:?}");
            all += 1;
            near += u32::from(share < 0.5);
        }
        // Half the radius holds a quarter of the area, and half of the restaurants.
        assert!(
            (0.47..0.53).contains(&(f64::from(near) / f64::from(all))),
            "{near} of {all}"
        );
    }
}
