//! Unpacks the integers of a block's words, one by one.

use crate::error::{ColumnError, Result};
use crate::selector::{Packed, RUN, RUN_UNIT, layout_of};

/// What is left of a block, and the word that is being read.
#[derive(Debug, Clone)]
pub(crate) struct Unpacker<'a, T> {
    words: &'a [u8],
    /// The word's slots that are to come, the next one lowest.
    slots: u64,
    mask: u64,
    width: u32,
    shift_mask: u64,
    shift_bits: u32,
    shift_unit: u32,
    /// How many values of the word are to come.
    left: u32,
    is_run: bool,
    /// The last value; a run repeats it, even that of a block before.
    last: Option<T>,
}

impl<T: Packed> Default for Unpacker<'_, T> {
    fn default() -> Self {
        Self {
            words: &[],
            slots: 0,
            mask: 0,
            width: 0,
            shift_mask: 0,
            shift_bits: 0,
            shift_unit: 0,
            left: 0,
            is_run: false,
            last: Some(T::default()),
        }
    }
}

impl<'a, T: Packed> Unpacker<'a, T> {
    /// Begins a block of whole words.
    pub fn start(&mut self, words: &'a [u8]) {
        self.words = words;
        self.left = 0;
    }

    /// Whether the block holds another value.
    #[inline]
    pub fn has_more(&self) -> bool {
        self.left > 0 || !self.words.is_empty()
    }

    /// Whether the word holds another value.
    #[inline(always)]
    pub fn is_in_word(&self) -> bool {
        self.left > 0
    }

    /// The next value of the word, which holds another one; `None` a missing one.
    #[inline(always)]
    pub fn take(&mut self) -> Option<T> {
        self.left -= 1;
        if self.is_run {
            return self.last;
        }
        let slot = self.slots & self.mask;
        self.slots >>= self.width;
        self.last = self.value_of(slot);
        self.last
    }

    /// Hands out values of the word, as many as there are but at most so many, and returns how many.
    #[inline(always)]
    pub fn take_several(&mut self, most: usize, mut each: impl FnMut(Option<T>)) -> usize {
        let count = most.min(self.left as usize);
        self.left -= count as u32;
        if self.is_run {
            (0..count).for_each(|_| each(self.last));
            return count;
        }
        let (mut slots, mut last) = (self.slots, self.last);
        for _ in 0..count {
            last = self.value_of(slots & self.mask);
            slots >>= self.width;
            each(last);
        }
        (self.slots, self.last) = (slots, last);
        count
    }

    #[inline(always)]
    fn value_of(&self, slot: u64) -> Option<T> {
        if slot == self.mask {
            return None;
        }
        let shift = (slot & self.shift_mask) as u32 * self.shift_unit;
        Some(T::shifted(slot >> self.shift_bits, shift))
    }

    /// The next value, `Some(None)` a missing one; `None` at the end of the block.
    ///
    /// # Errors
    /// Words that have no such layout. `end` is where the block ends in the column.
    #[inline]
    pub fn next(&mut self, end: usize) -> Result<Option<Option<T>>> {
        if self.left == 0 && !self.load(end)? {
            return Ok(None);
        }
        Ok(Some(self.take()))
    }

    /// Loads the next word; false where there is none.
    ///
    /// # Errors
    /// As [`Self::next`].
    pub fn load(&mut self, end: usize) -> Result<bool> {
        let Some((word, rest)) = self.words.split_first_chunk::<8>() else {
            return Ok(false);
        };
        let at = end.saturating_sub(self.words.len());
        self.words = rest;
        let word = u64::from_le_bytes(*word);
        self.is_run = word & 15 == RUN;
        if self.is_run {
            self.left = ((word >> 4 & 15) as u32 + 1) * RUN_UNIT;
            return Ok(true);
        }
        let unknown = || ColumnError::new("a Simple-8b word with an unknown selector", at);
        let layout = layout_of(word).ok_or_else(unknown)?;
        self.slots = word >> layout.first_bit;
        self.mask = (1 << layout.width) - 1;
        self.width = layout.width;
        self.shift_mask = (1 << layout.shift_bits) - 1;
        self.shift_bits = layout.shift_bits;
        self.shift_unit = layout.shift_unit;
        self.left = layout.slots;
        if layout.shift_max >= T::BITS && self.shifts_too_far() {
            return Err(ColumnError::new(
                "a Simple-8b word that shifts a value by 64 bits or more",
                at,
            ));
        }
        Ok(true)
    }

    fn shifts_too_far(&self) -> bool {
        (0..self.left).any(|index| {
            let slot = self.slots >> (index * self.width) & self.mask;
            slot != self.mask && (slot & self.shift_mask) as u32 * self.shift_unit >= T::BITS
        })
    }
}
