//! The right answers to some questions, found by looking at every restaurant.
//!
//! Answers are compared by distance, which the bench works out from the
//! coordinates that a server returns: of two restaurants as far away either may come first.

use anyhow::ensure;

use super::place::Place;
use super::requests::{PAGE, Request, Requests, Split, Wanted};
use super::restaurant::Generator;

/// Questions that are checked.
const QUESTIONS: usize = 60;
/// The worker whose questions they are: none that measures.
const CHECKER: u64 = u64::MAX;
/// Distances that differ by less are the same: ten times what rounding does at this size.
const TOLERANCE_M: f64 = 1e-3;

/// Questions with the distances of what they find, nearest first, in metres.
#[derive(Debug)]
pub struct Answers(Vec<(Request, Vec<f64>)>);

impl Answers {
    /// Works them out: one pass over all restaurants.
    pub fn of(scale: f64, seed: u64, split: Split) -> Self {
        let mut requests = Requests::new(seed, CHECKER, split);
        let mut nearest: Vec<(Request, Vec<f64>)> = (0..QUESTIONS)
            .map(|_| (requests.draw(), Vec::new()))
            .collect();
        for restaurant in Generator::new(scale, seed) {
            for (request, distances) in &mut nearest {
                if request
                    .centre
                    .is_further_by_latitude(restaurant.place, request.radius_m)
                {
                    continue;
                }
                let distance_m = request.centre.distance_m(restaurant.place);
                let wanted = match request.wanted {
                    Wanted::Filtered(equality) => equality.matches(&restaurant),
                    Wanted::Nearest | Wanted::NextPage => true,
                };
                if wanted && distance_m <= request.radius_m {
                    insert(distance_m, distances);
                }
            }
        }
        for (request, distances) in &mut nearest {
            let skipped = if request.wanted == Wanted::NextPage {
                PAGE.min(distances.len())
            } else {
                0
            };
            distances.drain(..skipped);
            distances.truncate(PAGE);
        }
        Self(nearest)
    }

    /// The questions.
    pub fn requests(&self) -> impl Iterator<Item = &Request> {
        self.0.iter().map(|(request, _)| request)
    }

    /// Checks the places that question `number` was answered with.
    ///
    /// # Errors
    /// When they are not as far away as the right ones, or in another order.
    pub fn check(&self, number: usize, found: &[Place]) -> anyhow::Result<()> {
        let (request, right) = &self.0[number];
        let found: Vec<f64> = found
            .iter()
            .map(|place| request.centre.distance_m(*place))
            .collect();
        let same = |(found, right): (&f64, &f64)| (found - right).abs() <= TOLERANCE_M;
        ensure!(
            found.len() == right.len() && found.iter().zip(right).all(same),
            "{request:?}: answered with distances {found:?}, right is {right:?}"
        );
        Ok(())
    }
}

/// Keeps the least distances of two pages in order.
fn insert(distance_m: f64, distances: &mut Vec<f64>) {
    let at = distances.partition_point(|other| *other <= distance_m);
    if at < 2 * PAGE {
        distances.insert(at, distance_m);
        distances.truncate(2 * PAGE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_are_kept_in_order() {
        let mut distances = Vec::new();
        for number in 0..100 {
            insert(f64::from(number * 37 % 100), &mut distances);
        }
        let expected: Vec<f64> = (0..2 * PAGE as u32).map(f64::from).collect();
        assert_eq!(distances, expected);
    }

    #[test]
    fn questions_find_something_and_wrong_answers_are_found_out() {
        let answers = Answers::of(0.01, 1, Split([1, 2, 2]));
        let with_some: Vec<usize> = (0..QUESTIONS)
            .filter(|number| answers.0[*number].1.len() == PAGE)
            .collect();
        assert!(with_some.len() > QUESTIONS / 10, "{}", with_some.len());
        for (request, distances) in &answers.0 {
            assert!(distances.is_sorted());
            assert!(
                distances
                    .iter()
                    .all(|distance| *distance <= request.radius_m)
            );
        }
        let number = with_some[0];
        let (request, distances) = &answers.0[number];
        // Other places, but as far away.
        let mut places: Vec<Place> = distances
            .iter()
            .map(|distance| {
                let degrees = (distance / super::super::place::EARTH_RADIUS_M).to_degrees();
                Place {
                    latitude: request.centre.latitude + degrees,
                    ..request.centre
                }
            })
            .collect();
        assert!(answers.check(number, &places).is_ok());
        places.reverse();
        assert!(answers.check(number, &places).is_err());
        assert!(answers.check(number, &places[1..]).is_err());
    }
}
