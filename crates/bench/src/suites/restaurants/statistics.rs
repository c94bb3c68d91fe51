//! A level's figures from its log: bins of a second, confidence, percentiles.

use super::log::Record;
use super::requests::Wanted;

/// Microseconds of a bin.
const BIN_US: u64 = 1_000_000;
/// Of a normal distribution, so much of a standard error to each side holds 95 %.
const NORMAL_95: f64 = 1.96;
/// The same for few samples (Student's t), for 1, 2, … degrees of freedom.
#[rustfmt::skip]
const STUDENT_95: [f64; 30] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131,
    2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
];

/// Mean and what surrounds it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Summary {
    /// The mean.
    pub mean: f64,
    /// The least sample.
    pub min: f64,
    /// The greatest sample.
    pub max: f64,
    /// The 95 % confidence interval of the mean; the mean itself when there is but one sample.
    pub confidence: (f64, f64),
}

impl Summary {
    /// Of some samples; `None` of nothing.
    pub fn of(samples: &[f64]) -> Option<Self> {
        let count = samples.len() as f64;
        let mean = samples.iter().sum::<f64>() / count;
        let half = match samples.len() {
            0 => return None,
            1 => 0.0,
            several => {
                let squares: f64 = samples.iter().map(|sample| (sample - mean).powi(2)).sum();
                let factor = STUDENT_95.get(several - 2).copied().unwrap_or(NORMAL_95);
                factor * (squares / (count - 1.0) / count).sqrt()
            }
        };
        Some(Self {
            mean,
            min: samples.iter().copied().fold(f64::INFINITY, f64::min),
            max: samples.iter().copied().fold(f64::NEG_INFINITY, f64::max),
            confidence: (mean - half, mean + half),
        })
    }
}

/// The requests whose replies came in one span of time. Its first and its last second are left out.
#[derive(Debug)]
pub struct Window {
    from_us: u64,
    /// Replies in each whole second that is looked at.
    bins: Vec<u64>,
    latencies_us: [Vec<u32>; 3],
}

impl Window {
    /// A span of time, in microseconds from the run's start.
    pub fn new(from_us: u64, until_us: u64) -> Self {
        let seconds = until_us.saturating_sub(from_us) / BIN_US;
        Self {
            from_us: from_us + BIN_US,
            bins: vec![0; seconds.saturating_sub(2) as usize],
            latencies_us: Default::default(),
        }
    }

    /// Takes note of a request, if its reply came in this span.
    pub fn add(&mut self, record: Record) {
        let Some(after_us) = record.arrived_us.checked_sub(self.from_us) else {
            return;
        };
        if let Some(bin) = self.bins.get_mut((after_us / BIN_US) as usize) {
            *bin += 1;
            let latency_us = record.arrived_us - record.sent_us;
            let latencies = &mut self.latencies_us[usize::from(record.kind)];
            latencies.push(u32::try_from(latency_us).unwrap_or(u32::MAX));
        }
    }

    /// Adds the seconds of another span.
    pub fn absorb(&mut self, other: Self) {
        self.bins.extend(other.bins);
        for (latencies, others) in self.latencies_us.iter_mut().zip(other.latencies_us) {
            latencies.extend(others);
        }
    }

    /// Requests in each second.
    pub fn rates(&self) -> impl Iterator<Item = f64> {
        self.bins.iter().map(|requests| *requests as f64)
    }

    /// Milliseconds of all requests, and then of each kind in turn.
    pub fn into_latencies(self) -> (Latencies, [Latencies; Wanted::KINDS.len()]) {
        let all = self.latencies_us.concat();
        (Latencies::of(all), self.latencies_us.map(Latencies::of))
    }
}

/// Latencies, ranked.
#[derive(Debug)]
pub struct Latencies(Vec<u32>);

impl Latencies {
    fn of(mut microseconds: Vec<u32>) -> Self {
        microseconds.sort_unstable();
        Self(microseconds)
    }

    /// The latency that a share of the requests stayed at or below, in milliseconds.
    pub fn percentile_ms(&self, share: f64) -> Option<f64> {
        let rank = (self.0.len() as f64 * share).ceil() as usize;
        let latency_us = self.0.get(rank.max(1) - 1)?;
        Some(f64::from(*latency_us) / 1e3)
    }

    /// The mean in milliseconds.
    pub fn mean_ms(&self) -> Option<f64> {
        let sum: u64 = self.0.iter().map(|latency_us| u64::from(*latency_us)).sum();
        (!self.0.is_empty()).then(|| sum as f64 / self.0.len() as f64 / 1e3)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_confidence_interval_is_that_of_the_textbooks() {
        assert_eq!(Summary::of(&[]), None);
        let one = Summary::of(&[5.0]).expect("a sample");
        assert_eq!((one.mean, one.confidence), (5.0, (5.0, 5.0)));
        // Standard deviation 2.1381, 8 samples, t = 2.365 for 7 degrees of freedom.
        let few = Summary::of(&[2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0]).expect("samples");
        assert_eq!((few.mean, few.min, few.max), (5.0, 2.0, 9.0));
        assert!((few.confidence.0 - 3.2122).abs() < 1e-3, "{few:?}");
        assert!((few.confidence.1 - 6.7878).abs() < 1e-3, "{few:?}");
        // A hundred of 0 and a hundred of 2: deviation 1.00251, standard error 0.070888.
        let many: Vec<f64> = (0..200).map(|number| f64::from(number % 2 * 2)).collect();
        let many = Summary::of(&many).expect("samples");
        assert!(
            (many.confidence.1 - 1.0 - 1.96 * 0.070_888).abs() < 1e-5,
            "{many:?}"
        );
    }

    #[test]
    fn the_first_and_the_last_second_are_left_out() {
        let mut window = Window::new(10_500_000, 15_400_000);
        for arrived_ms in (10_000..16_000).step_by(100) {
            let arrived_us = arrived_ms * 1000;
            let kind = if arrived_ms < 12_000 { 0 } else { 2 };
            window.add(Record {
                kind,
                sent_us: arrived_us - 5_000,
                arrived_us,
            });
        }
        // Four whole seconds from 10.5 on; looked at are those from 11.5 to 13.5.
        assert_eq!(window.rates().collect::<Vec<_>>(), [10.0, 10.0]);
        let (all, kinds) = window.into_latencies();
        assert_eq!(all.0.len(), 20);
        assert_eq!(kinds.map(|kind| kind.0.len()), [5, 0, 15]);
    }

    #[test]
    fn percentiles_are_by_rank() {
        let latencies = Latencies::of((1..=100).rev().map(|ms| ms * 1000).collect());
        assert_eq!(latencies.percentile_ms(0.5), Some(50.0));
        assert_eq!(latencies.percentile_ms(0.98), Some(98.0));
        assert_eq!(latencies.percentile_ms(1.0), Some(100.0));
        assert_eq!(latencies.percentile_ms(0.0), Some(1.0));
        assert_eq!(latencies.mean_ms(), Some(50.5));
        assert_eq!(Latencies::of(Vec::new()).percentile_ms(0.5), None);
    }
}
