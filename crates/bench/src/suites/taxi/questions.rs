//! What the page asks, the right answers, and whether a sample is one.

use std::collections::HashSet;

use anyhow::ensure;

use super::period::{self, Period};
use super::trip::Name;

/// How far a sample may lie from what is expected, in standard deviations. A right one lies
/// beyond once in 500 million times.
const DEVIATIONS_MAX: f64 = 6.0;

/// Which trips a question asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wanted {
    /// Those picked up from then, until before then, milliseconds since 1970.
    Time(i64, i64),
    /// All.
    Everything,
    /// Those of one medallion.
    Medallion(Name),
}

impl Wanted {
    fn holds(self, pickup_ms: i64, medallion: Name) -> bool {
        match self {
            Self::Time(from, until) => (from..until).contains(&pickup_ms),
            Self::Everything => true,
            Self::Medallion(asked) => medallion == asked,
        }
    }
}

/// A question with its right answer.
#[derive(Debug, Clone)]
pub struct Question {
    /// Its name in reports.
    pub label: &'static str,
    /// What it asks for.
    pub wanted: Wanted,
    /// Whether it is answered with trips too, not with a count alone.
    pub sampled: bool,
    /// Trips that match.
    pub matches: u64,
    /// Where about half of the matches lie before, milliseconds since 1970.
    middle_ms: i64,
    /// Matches that do.
    early: u64,
}

impl Question {
    /// The evaluation's questions, answered by brute force over the pick-up times and
    /// medallions of all trips.
    pub fn answered(
        period: &Period,
        medallion: Name,
        trips: impl Iterator<Item = (i64, Name)>,
    ) -> Vec<Self> {
        let time = |(from, until): period::Range| Wanted::Time(from, until);
        let question = |label, wanted, sampled| Self::new(label, wanted, sampled, period);
        let mut questions = vec![
            question("week", time(period.week), true),
            question(period.month_asked.name(), time(period.month), true),
            question("first half", time(period.first_half), false),
            question("entire", Wanted::Everything, true),
            question("medallion", Wanted::Medallion(medallion), true),
        ];
        for (pickup_ms, medallion) in trips {
            for question in &mut questions {
                if question.wanted.holds(pickup_ms, medallion) {
                    question.matches += 1;
                    question.early += u64::from(pickup_ms < question.middle_ms);
                }
            }
        }
        questions
    }

    fn new(label: &'static str, wanted: Wanted, sampled: bool, period: &Period) -> Self {
        let (from, until) = match wanted {
            Wanted::Time(from, until) => (from, until),
            Wanted::Everything | Wanted::Medallion(_) => period.all,
        };
        Self {
            label,
            wanted,
            sampled,
            matches: 0,
            middle_ms: i64::midpoint(from, until),
            early: 0,
        }
    }
}

/// What is looked at of each trip returned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Returned {
    /// Its key, whatever the key is.
    pub id: u128,
    /// Milliseconds since 1970.
    pub pickup_ms: i64,
    /// Which taxi.
    pub medallion: Name,
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
    question: &Question,
    limit: u64,
    returned: &[Returned],
) -> anyhow::Result<Option<String>> {
    let label = question.label;
    let expected = question.matches.min(limit);
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
    let matches = |trip: &&Returned| question.wanted.holds(trip.pickup_ms, trip.medallion);
    let matching = returned.iter().filter(matches).count();
    ensure!(
        matching == returned.len(),
        "{label}: {} trips returned do not match",
        returned.len() - matching
    );
    Ok((question.matches > limit)
        .then(|| uneven_spread(question, returned))
        .flatten())
}

fn uneven_spread(question: &Question, returned: &[Returned]) -> Option<String> {
    let size = returned.len() as f64;
    let share = question.early as f64 / question.matches as f64;
    let early = returned
        .iter()
        .filter(|trip| trip.pickup_ms < question.middle_ms)
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
    use crate::suites::taxi::trips::Trips;

    fn questions(trips: &Trips) -> Vec<Question> {
        let period = trips.period().expect("a year");
        Question::answered(&period, trips.medallion_asked(), trips.keys())
    }

    fn returned(trips: &Trips, question: &Question) -> Vec<Returned> {
        let all = (0..).zip(trips.in_order());
        all.filter(|(_, trip)| question.wanted.holds(trip.pickup_ms, trip.medallion))
            .map(|(id, trip)| Returned {
                id,
                pickup_ms: trip.pickup_ms,
                medallion: trip.medallion,
            })
            .collect()
    }

    #[test]
    fn the_whole_answer_is_a_sample_and_its_beginning_is_not() {
        let trips = Trips::generated(20_000, 1);
        for question in questions(&trips) {
            let mut all = returned(&trips, &question);
            assert_eq!(all.len() as u64, question.matches);
            let uneven = check_sample(&question, u64::MAX, &all).expect("matches");
            assert_eq!(uneven, None);
            if question.label == "medallion" {
                continue;
            }
            let limit = question.matches / 4;
            all.truncate(limit as usize);
            let uneven = check_sample(&question, limit, &all).expect("matches");
            assert!(uneven.is_some(), "the first ones are no sample");
        }
    }

    #[test]
    fn repeated_missing_and_strange_trips_are_found() {
        let trips = Trips::generated(20_000, 1);
        let week = &questions(&trips)[0];
        let right = returned(&trips, week);
        let fails = |wrong: &[Returned]| check_sample(week, u64::MAX, wrong).is_err();
        let mut repeated = right.clone();
        repeated[1] = repeated[0];
        assert!(fails(&repeated));
        assert!(fails(&right[1..]));
        let mut strange = right.clone();
        strange[0].pickup_ms = 0;
        assert!(fails(&strange));
    }
}
