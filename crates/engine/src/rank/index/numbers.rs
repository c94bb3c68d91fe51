//! Small numbers side by side: two bytes each as long as all are small, else four.

use std::ops::Range;

/// PackedNumbers below 2^32, nearly always below 2^16.
#[derive(Debug, Clone)]
pub(super) enum PackedNumbers {
    Narrow(Vec<u16>),
    Wide(Vec<u32>),
}

impl Default for PackedNumbers {
    fn default() -> Self {
        Self::Narrow(Vec::new())
    }
}

/// The same with the list of either width.
macro_rules! either {
    ($numbers:expr, $list:ident => $does:expr) => {
        match $numbers {
            PackedNumbers::Narrow($list) => $does,
            PackedNumbers::Wide($list) => $does,
        }
    };
}

impl PackedNumbers {
    pub fn len(&self) -> usize {
        either!(self, list => list.len())
    }

    #[inline]
    pub fn get(&self, at: usize) -> u32 {
        match self {
            Self::Narrow(list) => list[at].into(),
            Self::Wide(list) => list[at],
        }
    }

    #[inline]
    pub fn set(&mut self, at: usize, number: u32) {
        match (&mut *self, u16::try_from(number)) {
            (Self::Narrow(list), Ok(narrow)) => list[at] = narrow,
            _ => self.widen()[at] = number,
        }
    }

    pub fn insert(&mut self, at: usize, number: u32) {
        match (&mut *self, u16::try_from(number)) {
            (Self::Narrow(list), Ok(narrow)) => list.insert(at, narrow),
            _ => self.widen().insert(at, number),
        }
    }

    pub fn remove(&mut self, at: usize) {
        either!(self, list => _ = list.remove(at));
    }

    /// Takes the numbers from one on away.
    pub fn split_off(&mut self, at: usize) -> Self {
        match self {
            Self::Narrow(list) => Self::Narrow(list.split_off(at)),
            Self::Wide(list) => Self::Wide(list.split_off(at)),
        }
    }

    /// Changes the numbers from one on.
    pub fn change_from(&mut self, at: usize, change: impl Fn(u32) -> u32) {
        // Looked at first, and in loops that the compiler turns into few instructions.
        if let Self::Narrow(list) = self {
            let list = &mut list[at..];
            let all = list
                .iter()
                .fold(0, |all, number| all | change((*number).into()));
            if let Ok(_fits) = u16::try_from(all) {
                list.iter_mut()
                    .for_each(|number| *number = change((*number).into()) as u16);
                return;
            }
        }
        let wide = &mut self.widen()[at..];
        wide.iter_mut().for_each(|number| *number = change(*number));
    }

    /// Several together.
    pub fn sum(&self, bucket: Range<usize>) -> u64 {
        either!(self, list => list[bucket].iter().map(|number| u64::from(*number)).sum())
    }

    /// Bytes of memory.
    pub fn bytes(&self) -> usize {
        match self {
            Self::Narrow(list) => size_of::<u16>() * list.capacity(),
            Self::Wide(list) => size_of::<u32>() * list.capacity(),
        }
    }

    /// Makes room for so many more, if there is none for one.
    pub fn reserve(&mut self, more: usize) {
        either!(self, list => if list.len() == list.capacity() {
            list.reserve_exact(more);
        });
    }

    pub fn shrink_to_fit(&mut self) {
        either!(self, list => list.shrink_to_fit());
    }

    fn widen(&mut self) -> &mut Vec<u32> {
        if let Self::Narrow(list) = self {
            *self = Self::Wide(list.iter().map(|number| u32::from(*number)).collect());
        }
        match self {
            Self::Wide(list) => list,
            Self::Narrow(_) => unreachable!("they were made wide above"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{Rng, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    /// They are what a plain list of numbers is, small and large.
    #[test]
    fn they_are_a_list_of_numbers() {
        for seed in 0..20 {
            let mut random = ChaCha8Rng::seed_from_u64(seed);
            let most = if seed % 2 == 0 { 1_000 } else { 200_000 };
            let (mut numbers, mut plain) = (PackedNumbers::default(), Vec::<u32>::new());
            for _ in 0..500 {
                let (number, at) = (
                    random.random_range(0..most),
                    random.random_range(0..=plain.len()),
                );
                match random.random_range(0..7) {
                    0..3 => {
                        numbers.insert(at, number);
                        plain.insert(at, number);
                    }
                    3 if at < plain.len() => {
                        numbers.set(at, number);
                        plain[at] = number;
                    }
                    4 if at < plain.len() => {
                        numbers.remove(at);
                        plain.remove(at);
                    }
                    5 => {
                        numbers.change_from(at, |one| one / 2 + number);
                        plain[at..]
                            .iter_mut()
                            .for_each(|one| *one = *one / 2 + number);
                    }
                    _ if random.random_bool(0.05) => {
                        let (other, plain_other) = (numbers.split_off(at), plain.split_off(at));
                        let of_other: Vec<u32> = (0..other.len()).map(|at| other.get(at)).collect();
                        assert_eq!(of_other, plain_other, "seed {seed}");
                    }
                    _ => {}
                }
                let all: Vec<u32> = (0..numbers.len()).map(|at| numbers.get(at)).collect();
                assert_eq!(all, plain, "seed {seed}");
                let sum: u64 = plain[at.min(plain.len())..]
                    .iter()
                    .map(|one| u64::from(*one))
                    .sum();
                assert_eq!(
                    numbers.sum(at.min(plain.len())..plain.len()),
                    sum,
                    "seed {seed}"
                );
            }
        }
    }
}
