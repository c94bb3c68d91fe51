//! Rows that are read in one order and handed out in another.
//!
//! Those that are handed out one soon after the other are put together in a stack, of a size that a
//! processor's own cache holds. Before the first row of a stack is handed out, all of it is fetched into
//! the cache from end to end, which takes much less time than row by row.

use std::ops::Range;

/// Bytes of a stack, about.
const STACK_BYTES: usize = 512 * 1024;
/// A batch has at most so many.
const STACKS_MAX: usize = 128;
const CACHE_LINE_BYTES: usize = 64;

/// How the rows of a batch are put into row_buffers: by their numbers in the order in which they are handed out.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct BufferLayout {
    rows: usize,
    mean_bytes: usize,
    row_buffers: usize,
}

impl BufferLayout {
    /// For so many rows of about so many bytes.
    pub fn of(rows: usize, mean_bytes: usize) -> Self {
        let row_buffers = (rows * mean_bytes).div_ceil(STACK_BYTES);
        Self {
            rows,
            mean_bytes,
            row_buffers: row_buffers.clamp(1, STACKS_MAX),
        }
    }

    fn stack_of(self, number: usize) -> usize {
        number * self.row_buffers / self.rows
    }
}

/// Some rows of a batch, in all its row_buffers.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct BufferedRows {
    stacking: BufferLayout,
    row_buffers: Vec<Vec<u8>>,
}

impl BufferedRows {
    /// Room for so many rows.
    pub fn new(stacking: BufferLayout, rows: usize) -> Self {
        // Growing would copy everything several times. (What is not used of it costs nothing.)
        let each = stacking.mean_bytes + stacking.mean_bytes / 8;
        let bytes = rows * each / stacking.row_buffers;
        let stack = || Vec::with_capacity(bytes.min(2 * STACK_BYTES));
        Self {
            stacking,
            row_buffers: std::iter::repeat_with(stack)
                .take(stacking.row_buffers)
                .collect(),
        }
    }

    /// Adds bytes of the row of this number; they lie there in its stack.
    pub fn push(&mut self, number: usize, bytes: &[u8]) -> Range<usize> {
        let stack = &mut self.row_buffers[self.stacking.stack_of(number)];
        let start = stack.len();
        stack.extend_from_slice(bytes);
        start..stack.len()
    }
}

/// All rows of a batch, in parts that were read apart.
#[derive(Debug, Default)]
pub(super) struct Stacked {
    stacking: BufferLayout,
    parts: Vec<Vec<Vec<u8>>>,
    /// So many of the row_buffers were fetched.
    fetched: usize,
}

impl Stacked {
    pub fn new(stacking: BufferLayout) -> Self {
        Self {
            stacking,
            ..Self::default()
        }
    }

    /// Adds a part behind the others.
    pub fn add(&mut self, part: BufferedRows) {
        debug_assert_eq!(part.stacking, self.stacking);
        self.parts.push(part.row_buffers);
    }

    /// Parts so far.
    pub fn parts(&self) -> usize {
        self.parts.len()
    }

    /// What lies there in the stack of the row of this number.
    pub fn get(&self, part: usize, number: usize, range: Range<usize>) -> &[u8] {
        &self.parts[part][self.stacking.stack_of(number)][range]
    }

    /// The row of this number is handed out next: fetches its stack, if none of it was handed out yet.
    pub fn fetch(&mut self, number: usize) {
        let stack = self.stacking.stack_of(number);
        if stack < self.fetched {
            return;
        }
        self.fetched = stack + 1;
        for part in &self.parts {
            for byte in part[stack].iter().step_by(CACHE_LINE_BYTES) {
                std::hint::black_box(*byte);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rows are found again, whatever the order in which they were read and the number of row_buffers.
    #[test]
    fn rows_are_found_where_they_were_put() {
        for (rows, mean_bytes) in [(1, 0), (7, 10), (1_000, 16 * 1024), (1_000, 1 << 20)] {
            let stacking = BufferLayout::of(rows, mean_bytes);
            let mut stacked = Stacked::new(stacking);
            let mut places = vec![(0, 0..0); rows];
            let row = |number: usize| format!("row {number}").into_bytes();
            for odd in [false, true] {
                let numbers = (0..rows).rev().filter(|number| (number % 2 == 1) == odd);
                let mut part = BufferedRows::new(stacking, rows.div_ceil(2));
                for number in numbers {
                    places[number] = (stacked.parts(), part.push(number, &row(number)));
                }
                stacked.add(part);
            }
            for (number, (part, range)) in places.into_iter().enumerate() {
                stacked.fetch(number);
                assert_eq!(stacked.get(part, number, range), row(number), "of {rows}");
            }
            let expected = (rows * mean_bytes / STACK_BYTES).clamp(1, STACKS_MAX);
            assert!(stacking.row_buffers.abs_diff(expected) <= 1);
            assert_eq!(stacked.fetched, stacking.row_buffers.min(rows));
        }
    }
}
