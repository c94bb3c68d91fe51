//! Consecutive key ranges with their numbers of entries, packed: about 20 bytes a range.

/// Ranges side by side: each begins at its own first key and ends where the next begins.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Block {
    /// The first keys of all ranges, one behind the other.
    starts: Vec<u8>,
    /// Where each first key ends in `starts`.
    ends: Vec<u32>,
    counts: Vec<u32>,
}

impl Block {
    pub fn ranges(&self) -> usize {
        self.counts.len()
    }

    /// First key of a range.
    pub fn start(&self, range: usize) -> &[u8] {
        let from = self.start_offset(range);
        &self.starts[from..self.ends[range] as usize]
    }

    pub fn count(&self, range: usize) -> u32 {
        self.counts[range]
    }

    pub fn count_mut(&mut self, range: usize) -> &mut u32 {
        &mut self.counts[range]
    }

    /// Entries of several ranges together.
    pub fn sum(&self, ranges: std::ops::Range<usize>) -> u64 {
        self.counts[ranges]
            .iter()
            .map(|count| u64::from(*count))
            .sum()
    }

    /// The last range from `from` on that begins at or before `key`; `from` itself must.
    pub fn find(&self, from: usize, key: &[u8]) -> usize {
        let (mut low, mut high) = (from, self.ranges());
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            if self.start(middle) <= key {
                low = middle;
            } else {
                high = middle;
            }
        }
        low
    }

    pub fn insert(&mut self, at: usize, start: &[u8], count: u32) {
        let offset = self.start_offset(at);
        self.starts.splice(offset..offset, start.iter().copied());
        self.ends.insert(at, length(offset));
        self.counts.insert(at, count);
        let added = length(start.len());
        self.ends[at..].iter_mut().for_each(|end| *end += added);
    }

    /// Joins a range with the one before it.
    pub fn join_with_previous(&mut self, range: usize) {
        self.counts[range - 1] += self.counts[range];
        let (from, to) = (self.start_offset(range), self.ends[range] as usize);
        self.starts.drain(from..to);
        self.ends.remove(range);
        self.counts.remove(range);
        let removed = length(to - from);
        self.ends[range..]
            .iter_mut()
            .for_each(|end| *end -= removed);
    }

    /// Takes the ranges from `at` on away into a block of their own.
    pub fn split_off(&mut self, at: usize) -> Self {
        let offset = self.start_offset(at);
        let mut ends = self.ends.split_off(at);
        ends.iter_mut().for_each(|end| *end -= length(offset));
        let other = Self {
            starts: self.starts.split_off(offset),
            ends,
            counts: self.counts.split_off(at),
        };
        self.starts.shrink_to_fit();
        other
    }

    /// Adds the ranges of the block behind this one.
    pub fn append(&mut self, other: &Self) {
        let offset = length(self.starts.len());
        self.starts.extend_from_slice(&other.starts);
        self.ends.extend(other.ends.iter().map(|end| end + offset));
        self.counts.extend_from_slice(&other.counts);
    }

    /// Bytes of memory, about.
    pub fn bytes(&self) -> usize {
        size_of::<Self>()
            + self.starts.capacity()
            + 4 * (self.ends.capacity() + self.counts.capacity())
    }

    fn start_offset(&self, range: usize) -> usize {
        match range {
            0 => 0,
            _ => self.ends[range - 1] as usize,
        }
    }
}

fn length(bytes: usize) -> u32 {
    u32::try_from(bytes).expect("a block holds few keys, none longer than a document")
}
