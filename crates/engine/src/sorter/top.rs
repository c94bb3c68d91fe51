//! Values sorted by a key: all of them, or the first so many (a top-k sort).
//!
//! In: values with their keys, in any order. Out: the values in ascending order of their keys, those of equal keys
//! as they came. What outgrows its memory is sorted on disk, where that is allowed.

use super::limits::Limits;
use super::spill::{SpillSort, SpillSpace, SpilledRows};
use crate::error::Result;
use crate::operation::memory::Reservation;
use std::cmp::Ordering;
use std::collections::BinaryHeap;

/// A value that can be put on disk.
pub(crate) trait Spillable: Sized {
    /// The memory it takes beside its own size.
    fn size_bytes(&self) -> usize;

    /// Appends what [`Self::decode`] reads.
    fn encode(&self, bytes: &mut Vec<u8>);

    /// What [`Self::encode`] wrote.
    ///
    /// # Errors
    /// `InvalidBSON` for anything else.
    fn decode(bytes: &[u8]) -> Result<Self>;
}

/// Takes values in any order.
pub(crate) struct TopSorter<T> {
    /// How many are wanted.
    keep: usize,
    /// The last of those that are kept is on top.
    held: BinaryHeap<SortedValue<T>>,
    arrivals: u64,
    bytes: usize,
    memory: Reservation,
    spilled: Option<SpillSort>,
    encoded: Vec<u8>,
    limits: Limits,
    too_large: fn(usize) -> String,
}

/// Values in order. It holds their memory until it is dropped.
pub(crate) enum InOrder<T> {
    Held {
        values: std::vec::IntoIter<SortedValue<T>>,
        _memory: Reservation,
    },
    Spilled {
        rows: SpilledRows,
        left: usize,
    },
}

pub(crate) struct SortedValue<T> {
    key: Vec<u8>,
    /// Equal keys stay in the order of arrival.
    arrival: u64,
    value: T,
}

/// What MongoDB says of a sort that may not use the disk.
pub(crate) fn sort_too_large(limit: usize) -> String {
    format!("Sort exceeded memory limit of {limit} bytes, but did not opt in to external sorting.")
}

impl<T: Spillable> TopSorter<T> {
    /// Sorts all values, or the first `keep`; `too_large` says that a limit of memory was reached.
    pub fn new(keep: Option<u64>, limits: &Limits, too_large: fn(usize) -> String) -> Self {
        Self {
            keep: keep.map_or(usize::MAX, |keep| {
                usize::try_from(keep).unwrap_or(usize::MAX)
            }),
            held: BinaryHeap::new(),
            arrivals: 0,
            bytes: 0,
            memory: Reservation::none(),
            spilled: None,
            encoded: Vec::new(),
            limits: limits.clone(),
            too_large,
        }
    }

    /// Whether no value is wanted.
    pub fn wants_none(&self) -> bool {
        self.keep == 0
    }

    /// Whether a value with this key would be taken now.
    pub fn may_take(&self, key: &[u8]) -> bool {
        let is_lesser = || self.held.peek().is_some_and(|last| key < &last.key[..]);
        self.spilled.is_some() || self.held.len() < self.keep || is_lesser()
    }

    /// Takes what `value` makes, unless enough lesser ones are held. No key is the beginning of another.
    ///
    /// # Errors
    /// 292 where the values outgrow their memory and cannot be spilled; storage failures.
    pub fn push(&mut self, key: Vec<u8>, value: impl FnOnce() -> T) -> Result<()> {
        self.arrivals += 1;
        if let Some(spilled) = &mut self.spilled {
            self.encoded.clear();
            value().encode(&mut self.encoded);
            return spilled.push(&key, self.arrivals, &self.encoded);
        }
        if self.held.len() == self.keep {
            if self.held.peek().is_none_or(|last| last.key <= key) {
                return Ok(());
            }
            if let Some(last) = self.held.pop() {
                self.bytes -= last.size_bytes();
            }
        }
        let held = SortedValue {
            key,
            arrival: self.arrivals,
            value: value(),
        };
        self.bytes += held.size_bytes();
        self.held.push(held);
        let limits = &self.limits;
        match limits.hold(&mut self.memory, self.bytes, self.too_large)? {
            None => Ok(()),
            Some(space) => {
                let space = space.clone();
                self.spill(&space)
            }
        }
    }

    #[cold]
    fn spill(&mut self, space: &SpillSpace) -> Result<()> {
        let spilled = self.spilled.insert(SpillSort::new(space));
        for held in std::mem::take(&mut self.held) {
            self.encoded.clear();
            held.value.encode(&mut self.encoded);
            spilled.push(&held.key, held.arrival, &self.encoded)?;
        }
        self.memory.shrink(0);
        Ok(())
    }

    /// The values in order.
    ///
    /// # Errors
    /// Storage failures.
    pub fn finish(self) -> Result<InOrder<T>> {
        Ok(match self.spilled {
            None => {
                let mut values = self.held.into_vec();
                values.sort_unstable();
                InOrder::Held {
                    values: values.into_iter(),
                    _memory: self.memory,
                }
            }
            Some(spilled) => InOrder::Spilled {
                rows: spilled.finish()?,
                left: self.keep,
            },
        })
    }
}

impl<T> InOrder<T> {
    /// Has the value that came last come again, if it was read from the disk; false if it was not.
    ///
    /// # Errors
    /// Storage failures.
    pub fn unread(&mut self) -> Result<bool> {
        match self {
            Self::Held { .. } => Ok(false),
            Self::Spilled { rows, left } => {
                *left = left.saturating_add(1);
                rows.unread()?;
                Ok(true)
            }
        }
    }
}

impl<T: Spillable> Iterator for InOrder<T> {
    type Item = Result<T>;

    fn next(&mut self) -> Option<Result<T>> {
        match self {
            Self::Held { values, .. } => values.next().map(|held| Ok(held.value)),
            Self::Spilled { rows, left } => {
                *left = left.checked_sub(1)?;
                rows.next_with(|_, value| T::decode(value)).transpose()
            }
        }
    }
}

impl<T: Spillable> SortedValue<T> {
    fn size_bytes(&self) -> usize {
        self.key.len() + self.value.size_bytes() + size_of::<Self>()
    }
}

impl<T> PartialEq for SortedValue<T> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl<T> Eq for SortedValue<T> {}

impl<T> PartialOrd for SortedValue<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> Ord for SortedValue<T> {
    fn cmp(&self, other: &Self) -> Ordering {
        let keys = self.key.cmp(&other.key);
        keys.then_with(|| self.arrival.cmp(&other.arrival))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::rngs::StdRng;
    use rand::{Rng, SeedableRng};

    impl Spillable for u64 {
        fn size_bytes(&self) -> usize {
            0
        }

        fn encode(&self, bytes: &mut Vec<u8>) {
            bytes.extend_from_slice(&self.to_le_bytes());
        }

        fn decode(bytes: &[u8]) -> Result<Self> {
            Ok(Self::from_le_bytes(bytes.try_into().expect("eight bytes")))
        }
    }

    /// In memory and on disk, all and the first few, with equal keys: as a stable sort has them.
    #[test]
    fn values_come_in_order_of_key_and_arrival() {
        let seed = 20_261_127;
        println!("seed {seed}");
        let mut random = StdRng::seed_from_u64(seed);
        for case in 0..60 {
            let count = random.random_range(0..3_000);
            let keep = [None, Some(0), Some(1), Some(random.random_range(0..4_000))][case % 4];
            let memory_bytes = [1 << 20, 20_000, 0][case % 3];
            let limits = Limits::new(true)
                .with_space(SpillSpace::in_memory())
                .with_memory(memory_bytes);
            let mut sorter = TopSorter::new(keep, &limits, sort_too_large);
            let mut expected = Vec::new();
            for number in 0..count {
                let key = random.random_range(0..500_u16).to_be_bytes().to_vec();
                expected.push((key.clone(), number));
                sorter.push(key, || number).unwrap();
            }
            expected.sort_by(|one, other| one.0.cmp(&other.0));
            expected.truncate(keep.map_or(usize::MAX, |keep| keep as usize));
            let mut sorted = sorter.finish().unwrap();
            for (_, number) in &expected {
                assert_eq!(sorted.next().unwrap().unwrap(), *number);
                if random.random_ratio(1, 10) && sorted.unread().unwrap() {
                    assert_eq!(sorted.next().unwrap().unwrap(), *number);
                }
            }
            assert!(sorted.next().is_none(), "case {case}");
        }
    }

    #[test]
    fn what_may_not_be_spilled_is_refused_at_its_limit() {
        let limits = Limits::new(false).with_memory(10_000);
        let mut sorter = TopSorter::new(None, &limits, sort_too_large);
        let refused = (0..10_000_u64).find_map(|number| {
            let pushed = sorter.push(number.to_be_bytes().to_vec(), || number);
            pushed.err()
        });
        assert!(refused.unwrap().message.contains("limit of 10000 bytes"));
        // The first few fit.
        let mut first = TopSorter::new(Some(20), &limits, sort_too_large);
        for number in 0..10_000_u64 {
            first
                .push(number.to_be_bytes().to_vec(), || number)
                .unwrap();
        }
        assert_eq!(first.finish().unwrap().count(), 20);
    }
}
