//! The closed loop: each client has one transaction under way, checks its answer, and starts the next.
//!
//! In: connections and a case. Out: when each transaction ended and how long it
//! took, and what must now be in the store. A case ends when its time is over,
//! but not before three transactions have ended: without an index each may take
//! seconds.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::generator::{CREATED_S, Entities, Entity, Key, temperature};
use super::{Case, Plan};
use crate::process::thread_processor_seconds;

/// Windows that a case's rate is the middle of.
const WINDOWS: u32 = 10;
/// With fewer transactions windows would be chance, and there is one rate.
const WINDOWED_FROM: usize = 200;
/// Transactions that a case has at least.
const TRANSACTIONS_MIN: u64 = 3;

/// A connection that works on single entities.
pub trait EntityClient: Send {
    /// Looks the entity up by the parts of its key: when it was last changed, in seconds since
    /// 1970, or nothing when it is not there.
    ///
    /// # Errors
    /// The server's, and when another entity or more than one is returned.
    fn find(&mut self, key: &Key) -> anyhow::Result<Option<i32>>;

    /// Inserts the entity.
    ///
    /// # Errors
    /// The server's, and when it did not take the entity.
    fn insert(&mut self, entity: &Entity) -> anyhow::Result<()>;

    /// Changes the value of one attribute, and the times of it and the entity.
    ///
    /// # Errors
    /// The server's, and when it did not change one entity.
    fn update(&mut self, key: &Key, value: &str, modified_s: i32) -> anyhow::Result<()>;
}

/// One transaction that has ended.
#[derive(Debug, Clone, Copy)]
struct Ended {
    /// Seconds since the case started.
    at_s: f64,
    took_ms: f64,
}

/// What a case did.
#[derive(Debug, Default)]
pub struct Outcome {
    ended: Vec<Ended>,
    /// Entities inserted.
    pub created: u32,
    /// Entities updated, by number, with the last time given to each.
    pub updated: HashMap<u32, i32>,
    /// Processor seconds of the clients.
    pub client_seconds: f64,
    window_s: f64,
}

impl Outcome {
    /// Transactions.
    pub fn transactions(&self) -> usize {
        self.ended.len()
    }

    /// Transactions a second, window by window after the first; one rate where there were few.
    pub fn rates(&self) -> Vec<f64> {
        if self.ended.len() < WINDOWED_FROM {
            let last = self.ended.iter().map(|ended| ended.at_s);
            let seconds = last.fold(f64::MIN_POSITIVE, f64::max);
            return vec![self.ended.len() as f64 / seconds];
        }
        let mut counts = vec![0u32; WINDOWS as usize + 1];
        for ended in &self.ended {
            if let Some(count) = counts.get_mut((ended.at_s / self.window_s) as usize) {
                *count += 1;
            }
        }
        let windows = counts.iter().skip(1);
        windows
            .map(|count| f64::from(*count) / self.window_s)
            .collect()
    }

    /// Milliseconds that a share of the transactions took at most.
    pub fn latency_ms(&self, share: f64) -> f64 {
        let mut times: Vec<f64> = self.ended.iter().map(|ended| ended.took_ms).collect();
        times.sort_by(f64::total_cmp);
        let last = times.len().saturating_sub(1) as f64;
        times
            .get((last * share).round() as usize)
            .copied()
            .unwrap_or_default()
    }

    fn add(&mut self, part: Outcome) {
        self.ended.extend(part.ended);
        self.created += part.created;
        self.updated.extend(part.updated);
        self.client_seconds += part.client_seconds;
    }
}

/// What all clients of a case share.
struct Shared<'a> {
    plan: &'a Plan,
    case: Case,
    size: u32,
    started: Instant,
    length: Duration,
    /// The number of the next entity that is not there yet.
    next: AtomicU32,
    ended: AtomicU64,
}

/// Runs a case on a store of `size` entities.
///
/// # Errors
/// The first client's that failed.
pub fn run(
    clients: &mut [Box<dyn EntityClient>],
    case: Case,
    size: u32,
    plan: &Plan,
) -> anyhow::Result<Outcome> {
    let window = plan.length / WINDOWS;
    let shared = Shared {
        plan,
        case,
        size,
        started: Instant::now(),
        // The first window warms up and is left out.
        length: plan.length + window,
        next: AtomicU32::new(size),
        ended: AtomicU64::new(0),
    };
    let parts = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..)
            .zip(clients.iter_mut())
            .map(|(number, client)| {
                let mut worker = Worker::new(number, client.as_mut(), &shared);
                scope.spawn(move || worker.work())
            })
            .collect();
        let join = |worker: std::thread::ScopedJoinHandle<'_, _>| {
            worker.join().expect("a client does not panic")
        };
        workers.into_iter().map(join).collect::<Vec<_>>()
    });
    let mut outcome = Outcome {
        window_s: window.as_secs_f64(),
        ..Outcome::default()
    };
    for part in parts {
        outcome.add(part?);
    }
    Ok(outcome)
}

/// One client.
struct Worker<'a> {
    client: &'a mut dyn EntityClient,
    shared: &'a Shared<'a>,
    number: u32,
    random: ChaCha8Rng,
    outcome: Outcome,
}

/// What a transaction expects to find, and does then.
enum Step {
    Query(Key),
    Create(Entity),
    Update {
        number: u32,
        key: Key,
        value: String,
    },
}

impl<'a> Worker<'a> {
    fn new(number: u32, client: &'a mut dyn EntityClient, shared: &'a Shared<'a>) -> Self {
        let mut random = ChaCha8Rng::seed_from_u64(shared.plan.seed);
        random.set_stream(u64::from(number) + 1);
        Self {
            client,
            shared,
            number,
            random,
            outcome: Outcome::default(),
        }
    }

    fn work(&mut self) -> anyhow::Result<Outcome> {
        while self.has_time() {
            let step = self.draw();
            let begun = Instant::now();
            self.transact(&step)
                .with_context(|| self.shared.case.label())?;
            self.outcome.ended.push(Ended {
                at_s: self.shared.started.elapsed().as_secs_f64(),
                took_ms: begun.elapsed().as_secs_f64() * 1e3,
            });
            self.shared.ended.fetch_add(1, Ordering::Relaxed);
        }
        self.outcome.client_seconds = thread_processor_seconds();
        Ok(std::mem::take(&mut self.outcome))
    }

    fn has_time(&self) -> bool {
        self.shared.started.elapsed() < self.shared.length
            || self.shared.ended.load(Ordering::Relaxed) < TRANSACTIONS_MIN
    }

    fn draw(&mut self) -> Step {
        match self.shared.case {
            Case::Query => {
                let number = self.random.random_range(0..self.shared.size);
                Step::Query(self.entities().key(number))
            }
            Case::Creation => self.create(),
            Case::Both if self.random.random() => self.create(),
            Case::Both => self.update(),
        }
    }

    fn create(&self) -> Step {
        let number = self.shared.next.fetch_add(1, Ordering::Relaxed);
        Step::Create(self.entities().entity(number))
    }

    /// Each client updates entities of its own, so that it knows what must be in them.
    fn update(&mut self) -> Step {
        let clients = self.shared.plan.clients;
        let place = self.random.random_range(0..self.shared.size / clients);
        let number = place * clients + self.number;
        Step::Update {
            number,
            key: self.entities().key(number),
            value: temperature(&mut self.random),
        }
    }

    fn entities(&self) -> Entities {
        self.shared.plan.entities
    }

    fn transact(&mut self, step: &Step) -> anyhow::Result<()> {
        match step {
            Step::Query(key) => {
                let found = self.client.find(key)?;
                ensure!(found == Some(CREATED_S), "{key:?}: found {found:?}");
            }
            Step::Create(entity) => {
                let found = self.client.find(&entity.key)?;
                ensure!(found.is_none(), "{:?} is there already", entity.key);
                self.client.insert(entity)?;
                self.outcome.created += 1;
            }
            Step::Update { number, key, value } => {
                let found = self.client.find(key)?;
                let last = self.outcome.updated.get(number).copied();
                let expected = last.unwrap_or(CREATED_S);
                ensure!(
                    found == Some(expected),
                    "{key:?}: found {found:?}, {expected} is right"
                );
                let modified_s = CREATED_S + 1 + self.outcome.ended.len() as i32;
                self.client.update(key, value, modified_s)?;
                self.outcome.updated.insert(*number, modified_s);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(times: impl Iterator<Item = (f64, f64)>) -> Outcome {
        let ended = |(at_s, took_ms)| Ended { at_s, took_ms };
        Outcome {
            ended: times.map(ended).collect(),
            window_s: 0.1,
            ..Outcome::default()
        }
    }

    #[test]
    fn few_transactions_have_one_rate() {
        let few = outcome([(0.5, 500.0), (1.0, 500.0), (4.0, 3000.0)].into_iter());
        assert_eq!(few.rates(), [0.75]);
        assert_eq!(few.latency_ms(0.5), 500.0);
        assert_eq!(few.latency_ms(0.98), 3000.0);
    }

    #[test]
    fn many_transactions_have_windows_and_the_first_is_left_out() {
        let times = (0..1100).map(|n| (f64::from(n) / 1000.0 + 0.0005, 1.0));
        let rates = outcome(times).rates();
        assert_eq!(rates.len(), WINDOWS as usize);
        assert!(
            rates.iter().all(|rate| (rate - 1000.0).abs() <= 10.0),
            "{rates:?}"
        );
    }

    /// A store of one client: knows what a right one would answer.
    #[derive(Default)]
    struct Fake {
        entities: HashMap<String, i32>,
        forgets: bool,
    }

    impl EntityClient for Fake {
        fn find(&mut self, key: &Key) -> anyhow::Result<Option<i32>> {
            Ok(self.entities.get(&key.id).copied())
        }

        fn insert(&mut self, entity: &Entity) -> anyhow::Result<()> {
            self.entities
                .insert(entity.key.id.clone(), entity.modified_s);
            Ok(())
        }

        fn update(&mut self, key: &Key, _: &str, modified_s: i32) -> anyhow::Result<()> {
            if !self.forgets {
                self.entities.insert(key.id.clone(), modified_s);
            }
            Ok(())
        }
    }

    fn drive(case: Case, present: u32, forgets: bool) -> anyhow::Result<Outcome> {
        let plan = Plan {
            entities: Entities::new(3),
            sizes: vec![100],
            settings: Vec::new(),
            cases: vec![case],
            clients: 1,
            length: Duration::from_millis(20),
            seed: 3,
        };
        let ids = (0..present).map(|number| (plan.entities.key(number).id, CREATED_S));
        let fake = Fake {
            entities: ids.collect(),
            forgets,
        };
        run(&mut [Box::new(fake)], case, 100, &plan)
    }

    #[test]
    fn right_answers_pass_and_wrong_ones_end_the_case() {
        for case in [Case::Query, Case::Creation, Case::Both] {
            let outcome = drive(case, 100, false).expect("right answers");
            assert!(outcome.transactions() >= 3);
            assert_eq!(outcome.created > 0, case != Case::Query);
            assert_eq!(!outcome.updated.is_empty(), case == Case::Both);
        }
        assert!(drive(Case::Query, 50, false).is_err());
        assert!(drive(Case::Creation, 101, false).is_err());
        assert!(drive(Case::Both, 100, true).is_err());
    }
}
