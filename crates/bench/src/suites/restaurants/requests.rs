//! What a worker asks: seeded, so that a worker asks the same of every target.
//!
//! It picks a random city and a radius and asks for the nearest ten. Then it stops,
//! asks again with one more equality, or asks for the next page of ten.

use std::str::FromStr;

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};

use super::cities;
use super::place::Place;
use super::restaurant::{CUISINES, PRICINGS, RATING_MAX, Restaurant};

/// Restaurants on a page.
pub const PAGE: usize = 10;
/// Least and greatest distance that is looked at, in metres.
const RADIUS_M: std::ops::RangeInclusive<f64> = 5_000.0..=50_000.0;

/// One more condition, by position in the generator's lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Equality {
    /// Which of [`CUISINES`].
    Cuisine(u8),
    /// Stars.
    Rating(u8),
    /// Which of [`PRICINGS`].
    Pricing(u8),
    /// Whether one can sit outside.
    OutsideArea(bool),
}

impl Equality {
    fn draw(random: &mut ChaCha8Rng) -> Self {
        match random.random_range(0..4) {
            0 => Self::Cuisine(random.random_range(0..CUISINES.len() as u8)),
            1 => Self::Rating(random.random_range(1..=RATING_MAX)),
            2 => Self::Pricing(random.random_range(0..PRICINGS.len() as u8)),
            _ => Self::OutsideArea(random.random()),
        }
    }

    /// Whether a restaurant is wanted.
    pub fn matches(self, restaurant: &Restaurant) -> bool {
        match self {
            Self::Cuisine(cuisine) => restaurant.cuisine == cuisine,
            Self::Rating(rating) => restaurant.rating == rating,
            Self::Pricing(pricing) => restaurant.pricing == pricing,
            Self::OutsideArea(outside) => restaurant.outside_area == outside,
        }
    }
}

/// Which of the nearest restaurants are wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wanted {
    /// The first ten.
    Nearest,
    /// The first ten that fulfil a condition.
    Filtered(Equality),
    /// The ten after the first ten.
    NextPage,
}

impl Wanted {
    /// The kinds' names, in the order of [`Wanted::kind`].
    pub const KINDS: [&'static str; 3] = ["nearest ten", "with an equality", "next page"];

    /// Which of [`Wanted::KINDS`].
    pub fn kind(self) -> u8 {
        match self {
            Self::Nearest => 0,
            Self::Filtered(_) => 1,
            Self::NextPage => 2,
        }
    }
}

/// A question.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Request {
    /// Around which place.
    pub centre: Place,
    /// No further than this.
    pub radius_m: f64,
    /// Which.
    pub wanted: Wanted,
}

/// How often a worker stops after the nearest ten, adds an equality, and asks for the next page.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Split(pub [u32; 3]);

impl FromStr for Split {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let weights: Vec<u32> = text
            .split(',')
            .map_while(|weight| weight.trim().parse().ok().filter(|weight| *weight <= 1000))
            .collect();
        match <[u32; 3]>::try_from(weights) {
            Ok(weights) if weights.iter().sum::<u32>() > 0 && text.matches(',').count() == 2 => {
                Ok(Self(weights))
            }
            _ => Err(
                "three whole numbers are wanted, such as 1,2,2: stop, with an equality, next page"
                    .into(),
            ),
        }
    }
}

impl std::fmt::Display for Split {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self([stop, filter, page]) = self;
        let all = stop + filter + page;
        write!(
            out,
            "{stop}/{all} stop, {filter}/{all} add an equality, {page}/{all} ask for the next page"
        )
    }
}

/// The questions of one worker, without end.
pub struct Requests {
    random: ChaCha8Rng,
    split: Split,
    follows: Option<Request>,
}

impl Requests {
    /// Those of worker `worker` in a run of seed `seed`.
    pub fn new(seed: u64, worker: u64, split: Split) -> Self {
        // The generator's own streams are those of its cities.
        let mut random = ChaCha8Rng::seed_from_u64(!seed);
        random.set_stream(worker);
        Self {
            random,
            split,
            follows: None,
        }
    }

    /// The next question.
    pub fn draw(&mut self) -> Request {
        if let Some(request) = self.follows.take() {
            return request;
        }
        let random = &mut self.random;
        let cities = cities::all();
        let first = Request {
            centre: cities[random.random_range(0..cities.len())].place,
            radius_m: random.random_range(RADIUS_M),
            wanted: Wanted::Nearest,
        };
        let Split([stop, filter, page]) = self.split;
        let drawn = random.random_range(0..stop + filter + page);
        let follows = |wanted| Some(Request { wanted, ..first });
        self.follows = if drawn < stop {
            None
        } else if drawn < stop + filter {
            follows(Wanted::Filtered(Equality::draw(random)))
        } else {
            follows(Wanted::NextPage)
        };
        first
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_come_in_the_published_shares_and_follow_one_another() {
        let mut requests = Requests::new(1, 3, Split([1, 2, 2]));
        let drawn: Vec<Request> = (0..18_000).map(|_| requests.draw()).collect();
        let count = |kind| {
            drawn
                .iter()
                .filter(|request| request.wanted.kind() == kind)
                .count()
        };
        // 10,000 rounds, of which 4,000 add an equality and 4,000 turn the page.
        assert!((9_800..10_200).contains(&count(0)), "{}", count(0));
        assert!((3_800..4_200).contains(&count(1)), "{}", count(1));
        assert!((3_800..4_200).contains(&count(2)), "{}", count(2));
        for pair in drawn.windows(2) {
            assert!((5_000.0..=50_000.0).contains(&pair[0].radius_m));
            if pair[1].wanted != Wanted::Nearest {
                assert_eq!(
                    pair[0],
                    Request {
                        wanted: Wanted::Nearest,
                        ..pair[1]
                    }
                );
            }
        }
    }

    #[test]
    fn workers_ask_different_questions_and_the_same_every_time() {
        let first = |worker| Requests::new(1, worker, Split([1, 2, 2])).draw();
        assert_eq!(first(1), first(1));
        assert_ne!(first(1), first(2));
    }

    #[test]
    fn a_split_is_three_numbers() {
        assert_eq!("1,3,1".parse(), Ok(Split([1, 3, 1])));
        assert_eq!("1, 0, 0".parse(), Ok(Split([1, 0, 0])));
        for wrong in ["", "1,2", "1,2,3,4", "0,0,0", "1,-2,2", "a,b,c", "1,2,2,x"] {
            assert!(wrong.parse::<Split>().is_err(), "{wrong}");
        }
    }
}
