//! What the page asks, the right answers, and whether a sample is one.

use std::collections::HashSet;

use anyhow::ensure;

use super::demand::{DAY_MS, DAYS, YEAR_START_MS};
use super::trip::{MEDALLION_ASKED, Trips};

/// How far a sample may lie from what is expected, in standard deviations. A right one lies
/// beyond once in 500 million times.
const DEVIATIONS_MAX: f64 = 6.0;

/// A question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Question {
    /// 4 to 10 February.
    Week,
    /// All of February.
    February,
    /// 1 January to 1 July; only counted.
    Half,
    /// All trips.
    Entire,
    /// The trips of one medallion.
    Medallion,
}

impl Question {
    /// Those that are answered with trips.
    pub const SAMPLED: [Self; 4] = [Self::Week, Self::February, Self::Entire, Self::Medallion];
    /// Those that are answered with a count.
    pub const COUNTED: [Self; 5] = [
        Self::Week,
        Self::February,
        Self::Half,
        Self::Entire,
        Self::Medallion,
    ];

    /// Its name in reports.
    pub fn label(self) -> &'static str {
        match self {
            Self::Week => "week",
            Self::February => "February",
            Self::Half => "half of the year",
            Self::Entire => "entire",
            Self::Medallion => "medallion",
        }
    }

    /// The pick-up times asked for, milliseconds since 1970, the upper end excluded.
    pub fn range(self) -> Option<(i64, i64)> {
        let days =
            |from: i64, to: i64| Some((YEAR_START_MS + from * DAY_MS, YEAR_START_MS + to * DAY_MS));
        match self {
            Self::Week => days(34, 41),
            Self::February => days(31, 59),
            Self::Half => days(0, 182),
            Self::Entire | Self::Medallion => None,
        }
    }

    /// Where about half of the matches lie before, milliseconds since 1970.
    fn middle_ms(self) -> i64 {
        let (low, high) = self
            .range()
            .unwrap_or((YEAR_START_MS, YEAR_START_MS + DAYS * DAY_MS));
        i64::midpoint(low, high)
    }

    fn matches(self, pickup_ms: i64, medallion: u32) -> bool {
        match (self, self.range()) {
            (_, Some((low, high))) => (low..high).contains(&pickup_ms),
            (Self::Medallion, None) => medallion == MEDALLION_ASKED,
            (_, None) => true,
        }
    }
}

/// The right answer to one question.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Answer {
    /// Trips that match.
    pub matches: u64,
    /// Those of them picked up in the first half of the time asked for.
    pub first_half: u64,
}

/// The right answers, by brute force over the generator's trips.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answers([Answer; 5]);

impl Answers {
    /// Works them out.
    pub fn of(trips: &Trips) -> Self {
        let mut answers = [Answer::default(); 5];
        for number in 0..trips.total {
            let (pickup_ms, medallion) = trips.keys(number);
            for (question, answer) in Question::COUNTED.into_iter().zip(&mut answers) {
                if question.matches(pickup_ms, medallion) {
                    answer.matches += 1;
                    answer.first_half += u64::from(pickup_ms < question.middle_ms());
                }
            }
        }
        Self(answers)
    }

    /// The answer to one.
    pub fn to(&self, question: Question) -> Answer {
        let place = Question::COUNTED
            .iter()
            .position(|other| *other == question);
        self.0[place.expect("all questions are counted")]
    }
}

/// What is looked at of each trip returned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Returned {
    /// Its key, whatever the key is.
    pub id: u128,
    /// Milliseconds since 1970.
    pub pickup_ms: i64,
    /// Whether it is the medallion that one question is about.
    pub medallion_asked: bool,
}

/// Checks that the trips returned are as many as there should be of at most `limit`, all
/// different and all matching. Returns what speaks against their being a random sample: that
/// they are not spread over the time asked for. It is told and does not end the run, since a
/// server may promise no better (mongod draws from a whole collection by walking its B-tree at
/// random, which favours some pages).
///
/// # Errors
/// Which of these fails.
pub fn check_sample(
    question: Question,
    answer: Answer,
    limit: u64,
    returned: &[Returned],
) -> anyhow::Result<Option<String>> {
    let label = question.label();
    let expected = answer.matches.min(limit);
    ensure!(
        returned.len() as u64 == expected,
        "{label}: {} trips returned, {expected} wanted",
        returned.len()
    );
    let different: HashSet<u128> = returned.iter().map(|trip| trip.id).collect();
    ensure!(
        different.len() == returned.len(),
        "{label}: {} trips were returned twice",
        returned.len() - different.len()
    );
    let matches = |trip: &&Returned| match question.range() {
        Some((low, high)) => (low..high).contains(&trip.pickup_ms),
        None => question == Question::Entire || trip.medallion_asked,
    };
    let matching = returned.iter().filter(matches).count();
    ensure!(
        matching == returned.len(),
        "{label}: {} trips returned do not match",
        returned.len() - matching
    );
    Ok((answer.matches > limit)
        .then(|| uneven_spread(question, answer, returned))
        .flatten())
}

fn uneven_spread(question: Question, answer: Answer, returned: &[Returned]) -> Option<String> {
    let size = returned.len() as f64;
    let share = answer.first_half as f64 / answer.matches as f64;
    let early = returned
        .iter()
        .filter(|trip| trip.pickup_ms < question.middle_ms())
        .count() as f64;
    let deviation = (size * share * (1.0 - share)).sqrt();
    ((early - size * share).abs() > DEVIATIONS_MAX * deviation).then(|| {
        format!(
            "NOT a random sample: {early} of {size} trips lie in the first half of the time, of a random sample about {:.0} would",
            size * share
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn returned(trips: &Trips, question: Question) -> Vec<Returned> {
        let all = trips.in_time_order();
        all.filter(|trip| question.matches(trip.pickup_ms, trip.medallion))
            .map(|trip| Returned {
                id: trip.number.into(),
                pickup_ms: trip.pickup_ms,
                medallion_asked: trip.medallion == MEDALLION_ASKED,
            })
            .collect()
    }

    #[test]
    fn the_whole_answer_is_a_sample_and_its_beginning_is_not() {
        let trips = Trips::new(20_000, 1);
        let answers = Answers::of(&trips);
        for question in Question::SAMPLED {
            let answer = answers.to(question);
            let mut all = returned(&trips, question);
            let uneven = check_sample(question, answer, u64::MAX, &all).expect("matches");
            assert_eq!(uneven, None);
            if question == Question::Medallion {
                continue;
            }
            let limit = answer.matches / 4;
            all.truncate(limit as usize);
            let uneven = check_sample(question, answer, limit, &all).expect("matches");
            assert!(uneven.is_some(), "the first ones are no sample");
        }
    }

    #[test]
    fn repeated_missing_and_strange_trips_are_found() {
        let trips = Trips::new(20_000, 1);
        let answer = Answers::of(&trips).to(Question::Week);
        let right = returned(&trips, Question::Week);
        let fails =
            |wrong: &[Returned]| check_sample(Question::Week, answer, u64::MAX, wrong).is_err();
        let mut repeated = right.clone();
        repeated[1] = repeated[0];
        assert!(fails(&repeated));
        assert!(fails(&right[1..]));
        let mut strange = right.clone();
        strange[0].pickup_ms = YEAR_START_MS;
        assert!(fails(&strange));
    }
}
