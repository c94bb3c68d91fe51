//! Ageing: events that are older than 30 days go away.

use std::time::Duration;

use super::Plan;
use super::generator::{DAY_MS, DAYS, FIRST_DAY_MS, Generator};

/// 2,592,000 s: how long an event is kept.
pub const LIFETIME_MS: i64 = 30 * DAY_MS;
/// How long a sweep may keep us waiting: it may start a minute late.
pub const SWEEP_TIMEOUT: Duration = Duration::from_secs(300);
/// Ageing is a matter of seconds a hundred thousand events, not of the whole data.
const EVENTS_MAX: u64 = 200_000;

/// The two ways to say when an event expires.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// An index on `lastupdatedatetime` with `expireAfterSeconds` 2592000.
    LastUpdate,
    /// An index on a field `expirationDate` with `expireAfterSeconds` 0.
    ExpirationDate,
}

impl Form {
    /// Both.
    pub const ALL: [Self; 2] = [Self::LastUpdate, Self::ExpirationDate];

    /// The row's name.
    pub fn label(self) -> &'static str {
        match self {
            Self::LastUpdate => "expire 30 days after lastupdatedatetime",
            Self::ExpirationDate => "expire at expirationDate",
        }
    }
}

/// Events moved in time so that the oldest quarter has expired now.
#[derive(Debug, Clone, Copy)]
pub struct Aged {
    /// How many.
    pub events: u64,
    /// How far they are moved.
    pub shift_ms: i64,
    seed: u64,
}

impl Aged {
    /// Moves the last day's end to now.
    pub fn prepare(plan: &Plan) -> Self {
        let now_ms = bson::DateTime::now().timestamp_millis();
        Self {
            events: plan.dataset.events.min(EVENTS_MAX),
            shift_ms: now_ms - (FIRST_DAY_MS + DAYS as i64 * DAY_MS),
            seed: plan.dataset.seed,
        }
    }

    /// Whether so many may be left by now: all that expired when the data was made are gone, and
    /// nothing is gone that has not expired yet.
    pub fn survivors_plausible(&self, left: u64) -> bool {
        let now_ms = bson::DateTime::now().timestamp_millis();
        let made_ms = self.shift_ms + FIRST_DAY_MS + DAYS as i64 * DAY_MS;
        (self.younger_than(now_ms - LIFETIME_MS)..=self.younger_than(made_ms - LIFETIME_MS))
            .contains(&left)
    }

    fn younger_than(&self, time_ms: i64) -> u64 {
        let events = Generator::new(self.events, self.seed).shifted(self.shift_ms);
        events
            .filter(|event| event.last_update_ms >= time_ms)
            .count() as u64
    }
}
