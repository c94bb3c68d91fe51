//! What was measured, as flat rows that every report is made of.

use std::time::{Duration, Instant};

use serde::Serialize;

/// What a figure's numbers mean, and which way is better.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// Things a second; more is better.
    PerSecond,
    /// Milliseconds; less is better.
    Milliseconds,
    /// Seconds; less is better.
    Seconds,
    /// Millions of bytes; less is better.
    Megabytes,
    /// Bytes; less is better.
    Bytes,
    /// How many times as much; less is better.
    Times,
    /// A number that is neither better nor worse.
    Count,
}

impl Unit {
    /// How the unit is printed.
    pub fn label(self) -> &'static str {
        match self {
            Self::PerSecond => "/s",
            Self::Milliseconds => "ms",
            Self::Seconds => "s",
            Self::Megabytes => "MB",
            Self::Bytes => "B",
            Self::Times => "×",
            Self::Count => "",
        }
    }

    /// How many times better `ours` is than `theirs`; `None` where neither is better.
    pub fn advantage(self, ours: f64, theirs: f64) -> Option<f64> {
        match self {
            Self::PerSecond if theirs > 0.0 => Some(ours / theirs),
            Self::Milliseconds | Self::Seconds | Self::Megabytes | Self::Bytes | Self::Times
                if ours > 0.0 =>
            {
                Some(theirs / ours)
            }
            _ => None,
        }
    }
}

/// One row's figures on one target.
#[derive(Debug, Clone, Serialize)]
pub struct Measure {
    /// The table that it belongs to.
    pub group: String,
    /// The row within the table.
    pub name: String,
    /// What the samples mean.
    pub unit: Unit,
    /// Every sample, in the order taken.
    pub samples: Vec<f64>,
    /// What a reader must know to read the figure rightly.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

impl Measure {
    /// A row with one sample.
    pub fn single(group: &str, name: &str, unit: Unit, value: f64) -> Self {
        Self::new(group, name, unit, vec![value])
    }

    /// A row with several samples.
    pub fn new(group: &str, name: &str, unit: Unit, samples: Vec<f64>) -> Self {
        Self {
            group: group.into(),
            name: name.into(),
            unit,
            samples,
            note: None,
        }
    }

    /// A row of megabytes.
    pub fn megabytes(group: &str, name: &str, bytes: u64) -> Self {
        Self::single(group, name, Unit::Megabytes, bytes as f64 / 1e6)
    }

    /// The same with a note.
    pub fn noted(mut self, note: impl Into<String>) -> Self {
        self.note = Some(note.into());
        self
    }

    /// Least, middle and greatest sample.
    pub fn spread(&self) -> Option<Spread> {
        Spread::of(&self.samples)
    }
}

/// Figures of one target over something that grows: documents loaded, time passed.
#[derive(Debug, Clone, Serialize)]
pub struct Series {
    /// The plot that it belongs to.
    pub name: String,
    /// What grows.
    pub over: String,
    /// What the figures mean.
    pub unit: Unit,
    /// Where and how much, in the order taken.
    pub points: Vec<(f64, f64)>,
}

/// Least, middle and greatest of some samples.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Spread {
    /// The least sample.
    pub min: f64,
    /// The middle sample (mean of two when there is an even number).
    pub median: f64,
    /// The greatest sample.
    pub max: f64,
}

impl Spread {
    /// The spread of `samples`; `None` of nothing.
    pub fn of(samples: &[f64]) -> Option<Self> {
        let mut sorted = samples.to_vec();
        sorted.sort_by(f64::total_cmp);
        let middle = sorted.len() / 2;
        let median = match sorted.len() {
            0 => return None,
            length if length % 2 == 1 => sorted[middle],
            _ => f64::midpoint(sorted[middle - 1], sorted[middle]),
        };
        Some(Self {
            min: sorted[0],
            median,
            max: sorted[sorted.len() - 1],
        })
    }
}

/// How often a query is timed.
#[derive(Debug, Clone, Copy)]
pub struct Repeats {
    /// Timed runs, after one that is not timed.
    pub runs: usize,
    /// No further run starts once this has passed and three have been taken.
    pub patience: Duration,
}

/// Runs `query` once untimed and then `repeats.runs` times; milliseconds of each.
///
/// # Errors
/// The query's.
pub fn time_runs(
    repeats: Repeats,
    mut query: impl FnMut() -> anyhow::Result<()>,
) -> anyhow::Result<Vec<f64>> {
    query()?;
    let started = Instant::now();
    let mut samples = Vec::with_capacity(repeats.runs);
    while samples.len() < repeats.runs {
        if samples.len() >= 3 && started.elapsed() > repeats.patience {
            break;
        }
        let run = Instant::now();
        query()?;
        samples.push(run.elapsed().as_secs_f64() * 1e3);
    }
    Ok(samples)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_of_even_and_odd_numbers_of_samples() {
        assert_eq!(Spread::of(&[]), None);
        assert_eq!(
            Spread::of(&[3.0, 1.0, 2.0]),
            Some(Spread {
                min: 1.0,
                median: 2.0,
                max: 3.0
            })
        );
        assert_eq!(
            Spread::of(&[4.0, 1.0]).map(|spread| spread.median),
            Some(2.5)
        );
    }

    #[test]
    fn advantage_follows_the_unit() {
        assert_eq!(Unit::PerSecond.advantage(200.0, 100.0), Some(2.0));
        assert_eq!(Unit::Milliseconds.advantage(10.0, 100.0), Some(10.0));
        assert_eq!(Unit::Count.advantage(1.0, 2.0), None);
    }
}
