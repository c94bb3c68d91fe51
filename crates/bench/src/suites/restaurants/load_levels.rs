//! Ever more workers, or a fixed number of them, and what was seen at each level.

use std::time::Duration;

use super::client_process::Counters;
use super::session::{Session, Setting};
use super::statistics::Window;

/// When more than this share of the requests of a level is slow, a ramp ends.
const SLOW_SHARE_MAX: f64 = 0.02;

/// Why no further level was tried.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum End {
    /// All levels were.
    AllLevels,
    /// Too many requests were slow.
    Slow,
    /// A worker had to stop, with these words.
    Failed(String),
}

/// One number of workers.
#[derive(Debug)]
pub struct Level {
    /// How many.
    pub workers: u32,
    /// Requests by time.
    pub window: Window,
    /// Replies from the level's start to its end.
    pub requests: u64,
    /// Those of them that took more than 100 ms.
    pub slow: u64,
    /// Processor seconds of the server meanwhile, when it is ours.
    pub server_seconds: Option<f64>,
    /// Processor seconds of the client processes meanwhile.
    pub client_seconds: f64,
}

impl Level {
    /// Whether so many requests were slow that a ramp ends.
    pub fn is_too_slow(&self) -> bool {
        self.slow as f64 > SLOW_SHARE_MAX * self.requests as f64
    }

    /// Adds the same level of another run.
    pub fn absorb(&mut self, other: Self) {
        self.window.absorb(other.window);
        self.requests += other.requests;
        self.slow += other.slow;
        self.server_seconds = self
            .server_seconds
            .zip(other.server_seconds)
            .map(|(one, two)| one + two);
        self.client_seconds += other.client_seconds;
    }
}

/// Runs one session through `levels`, each for `seconds`; ends early by the rule or a failure.
///
/// # Errors
/// When a client process or its log fails; what happens to a worker's connection is an [`End`].
pub fn run(
    setting: &Setting<'_>,
    levels: impl Iterator<Item = u32>,
    seconds: Duration,
    server_seconds: impl Fn() -> Option<f64>,
    mut progress: impl FnMut(&Level),
) -> anyhow::Result<(Vec<Level>, End)> {
    let mut session = Session::start(setting)?;
    let mut done: Vec<Level> = Vec::new();
    let mut spans = Vec::new();
    let mut end = End::AllLevels;
    for workers in levels {
        if let Some(failure) = session.set_workers(workers)?.failure {
            end = End::Failed(failure);
            break;
        }
        let before = (server_seconds(), session.processor_seconds());
        session.report()?;
        let from_us = session.now_us();
        std::thread::sleep(seconds);
        let until_us = session.now_us();
        let Counters {
            requests,
            slow,
            failure,
        } = session.report()?;
        let level = Level {
            workers,
            window: Window::new(from_us, until_us),
            requests,
            slow,
            server_seconds: server_seconds()
                .zip(before.0)
                .map(|(after, before)| after - before),
            client_seconds: session.processor_seconds() - before.1,
        };
        progress(&level);
        if let Some(failure) = failure {
            end = End::Failed(failure);
        } else if level.is_too_slow() {
            end = End::Slow;
        }
        spans.push(from_us);
        done.push(level);
        if end != End::AllLevels {
            break;
        }
    }
    session.finish(|record| {
        // The level that had begun last when the reply came.
        let begun = spans.partition_point(|from_us| *from_us <= record.arrived_us);
        if begun > 0 {
            done[begun - 1].window.add(record);
        }
    })?;
    Ok((done, end))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn level(requests: u64, slow: u64) -> Level {
        Level {
            workers: 5,
            window: Window::new(0, 5_000_000),
            requests,
            slow,
            server_seconds: Some(1.5),
            client_seconds: 0.5,
        }
    }

    #[test]
    fn two_in_a_hundred_may_be_slow_and_no_more() {
        assert!(!level(100, 2).is_too_slow());
        assert!(level(100, 3).is_too_slow());
        assert!(!level(0, 0).is_too_slow());
    }

    #[test]
    fn the_same_level_of_two_runs_is_put_together() {
        let mut both = level(100, 2);
        both.absorb(level(50, 3));
        assert_eq!((both.requests, both.slow), (150, 5));
        assert_eq!((both.server_seconds, both.client_seconds), (Some(3.0), 1.0));
        assert_eq!(both.window.rates().count(), 6);
    }
}
