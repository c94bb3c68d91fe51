//! Rows that are read in one order and handed out in another.
//!
//! Those that are handed out one soon after the other are put together in a buffer, of a size that a
//! processor's own cache holds. Before the first row of a buffer is handed out, all of it is fetched into
//! the cache from end to end, which takes much less time than row by row.

use std::ops::Range;

/// Bytes of a buffer, about.
const BUFFER_BYTES: usize = 512 * 1024;
/// A batch has at most so many.
const BUFFERS_MAX: usize = 128;
const CACHE_LINE_BYTES: usize = 64;

/// How the rows of a batch are put into buffers: by their numbers in the order in which they are handed out.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct BufferLayout {
    rows: usize,
    mean_bytes: usize,
    buffers: usize,
}

impl BufferLayout {
    /// For so many rows of about so many bytes.
    pub fn of(rows: usize, mean_bytes: usize) -> Self {
        let buffers = (rows * mean_bytes).div_ceil(BUFFER_BYTES);
        Self {
            rows,
            mean_bytes,
            buffers: buffers.clamp(1, BUFFERS_MAX),
        }
    }

    fn buffer_of(self, number: usize) -> usize {
        number * self.buffers / self.rows
    }
}

/// Some rows of a batch, in all its buffers.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct BufferedRows {
    layout: BufferLayout,
    buffers: Vec<Vec<u8>>,
}

impl BufferedRows {
    /// Room for so many rows.
    pub fn new(layout: BufferLayout, rows: usize) -> Self {
        // Growing would copy everything several times. (What is not used of it costs nothing.)
        let each = layout.mean_bytes + layout.mean_bytes / 8;
        let bytes = rows * each / layout.buffers;
        let buffer = || Vec::with_capacity(bytes.min(2 * BUFFER_BYTES));
        Self {
            layout,
            buffers: std::iter::repeat_with(buffer)
                .take(layout.buffers)
                .collect(),
        }
    }

    /// Adds bytes of the row of this number; they lie there in its buffer.
    pub fn push(&mut self, number: usize, bytes: &[u8]) -> Range<usize> {
        let buffer = &mut self.buffers[self.layout.buffer_of(number)];
        let start = buffer.len();
        buffer.extend_from_slice(bytes);
        start..buffer.len()
    }
}

/// All rows of a batch, in parts that were read apart.
#[derive(Debug, Default)]
pub(super) struct BufferedBatch {
    layout: BufferLayout,
    parts: Vec<Vec<Vec<u8>>>,
    /// So many of the buffers were fetched.
    fetched: usize,
}

impl BufferedBatch {
    pub fn new(layout: BufferLayout) -> Self {
        Self {
            layout,
            ..Self::default()
        }
    }

    /// Adds a part behind the others.
    pub fn add(&mut self, part: BufferedRows) {
        debug_assert_eq!(part.layout, self.layout);
        self.parts.push(part.buffers);
    }

    /// Parts so far.
    pub fn parts(&self) -> usize {
        self.parts.len()
    }

    /// What lies there in the buffer of the row of this number.
    pub fn get(&self, part: usize, number: usize, range: Range<usize>) -> &[u8] {
        &self.parts[part][self.layout.buffer_of(number)][range]
    }

    /// The row of this number is handed out next: fetches its buffer, if none of it was handed out yet.
    pub fn fetch(&mut self, number: usize) {
        let buffer = self.layout.buffer_of(number);
        if buffer < self.fetched {
            return;
        }
        self.fetched = buffer + 1;
        for part in &self.parts {
            for byte in part[buffer].iter().step_by(CACHE_LINE_BYTES) {
                std::hint::black_box(*byte);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rows are found again, whatever the order in which they were read and the number of buffers.
    #[test]
    fn rows_are_found_where_they_were_put() {
        for (rows, mean_bytes) in [(1, 0), (7, 10), (1_000, 16 * 1024), (1_000, 1 << 20)] {
            let layout = BufferLayout::of(rows, mean_bytes);
            let mut buffered = BufferedBatch::new(layout);
            let mut places = vec![(0, 0..0); rows];
            let row = |number: usize| format!("row {number}").into_bytes();
            for odd in [false, true] {
                let numbers = (0..rows).rev().filter(|number| (number % 2 == 1) == odd);
                let mut part = BufferedRows::new(layout, rows.div_ceil(2));
                for number in numbers {
                    places[number] = (buffered.parts(), part.push(number, &row(number)));
                }
                buffered.add(part);
            }
            for (number, (part, range)) in places.into_iter().enumerate() {
                buffered.fetch(number);
                assert_eq!(buffered.get(part, number, range), row(number), "of {rows}");
            }
            let expected = (rows * mean_bytes / BUFFER_BYTES).clamp(1, BUFFERS_MAX);
            assert!(layout.buffers.abs_diff(expected) <= 1);
            assert_eq!(buffered.fetched, layout.buffers.min(rows));
        }
    }
}
