//! The insert rate window by window, and the waits of single inserts.

use std::time::{Duration, Instant};

/// Watches a load.
pub struct Recorder {
    window: u64,
    window_started: Instant,
    in_window: u64,
    total: u64,
    rates: Vec<(f64, f64)>,
    waits_ms: Vec<f64>,
}

impl Recorder {
    /// Starts watching; a window is complete after so many documents.
    pub fn new(window: u64) -> Self {
        Self {
            window,
            window_started: Instant::now(),
            in_window: 0,
            total: 0,
            rates: Vec::new(),
            waits_ms: Vec::new(),
        }
    }

    /// Notes one insert; `true` when it completed a window.
    pub fn inserted(&mut self, documents: usize, wait: Duration) -> bool {
        self.waits_ms.push(wait.as_secs_f64() * 1e3);
        self.total += documents as u64;
        self.in_window += documents as u64;
        let complete = self.in_window >= self.window;
        if complete {
            self.close_window();
        }
        complete
    }

    fn close_window(&mut self) {
        let rate = self.in_window as f64 / self.window_started.elapsed().as_secs_f64();
        self.rates.push((self.total as f64, rate));
        self.window_started = Instant::now();
        self.in_window = 0;
    }

    /// Documents a second of each window over the documents at its end. A last window that is
    /// less than half full is left out: its rate would be chance.
    pub fn rates(&mut self) -> &[(f64, f64)] {
        if self.in_window * 2 >= self.window {
            self.close_window();
        }
        &self.rates
    }

    /// The wait that a share of all inserts stayed below; 1 for the longest.
    pub fn wait_ms(&self, share: f64) -> Option<f64> {
        let mut waits = self.waits_ms.clone();
        waits.sort_by(f64::total_cmp);
        let last = waits.len().checked_sub(1)?;
        Some(waits[(last as f64 * share).round() as usize])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_close_when_full_and_a_short_rest_is_left_out() {
        let mut recorder = Recorder::new(2000);
        let complete: Vec<bool> = (0..5)
            .map(|wait| recorder.inserted(1000, Duration::from_millis(wait)))
            .collect();
        assert_eq!(complete, [false, true, false, true, false]);
        let places: Vec<f64> = recorder.rates().iter().map(|(total, _)| *total).collect();
        assert_eq!(places, [2000.0, 4000.0, 5000.0]);
        let mut recorder = Recorder::new(2000);
        recorder.inserted(2000, Duration::ZERO);
        recorder.inserted(999, Duration::ZERO);
        assert_eq!(recorder.rates().len(), 1);
    }

    #[test]
    fn waits_are_ranked() {
        let mut recorder = Recorder::new(10);
        for wait in [5, 1, 9, 3] {
            recorder.inserted(1, Duration::from_millis(wait));
        }
        assert_eq!(recorder.wait_ms(1.0), Some(9.0));
        assert_eq!(recorder.wait_ms(0.0), Some(1.0));
    }
}
