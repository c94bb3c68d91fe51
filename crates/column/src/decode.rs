//! One stream of values: literals, and blocks of differences to them.

use crate::arithmetic::{Class, narrow_of, object_id, unzigzag, unzigzag_wide, wide_of};
use crate::bytes::check;
use crate::double::{self, BITS_SCALE, scale_of};
use crate::error::{ColumnError, Result};
use crate::unpacker::Unpacker;
use crate::value::{Bytes, ColumnValue, INLINE_MAX};

/// Not a type: there is no value yet.
const NO_KIND: u8 = 0;

/// The state of a stream.
#[derive(Debug, Clone)]
pub(crate) struct Stream<'a> {
    kind: u8,
    class: Class,
    /// The last literal.
    literal: &'a [u8],
    /// Whether the last value is another.
    is_computed: bool,
    /// It as an integer, ...
    narrow: i64,
    /// ... the last difference, for differences of differences, ...
    difference: i64,
    /// ... and what a double is multiplied with.
    scale: usize,
    wide: i128,
    words: Unpacker<'a, u64>,
    wide_words: Unpacker<'a, u128>,
    /// Where the block ends in the column.
    block_end: usize,
}

impl Default for Stream<'_> {
    fn default() -> Self {
        Self {
            kind: NO_KIND,
            class: Class::Repeat,
            literal: &[],
            is_computed: false,
            narrow: 0,
            difference: 0,
            scale: BITS_SCALE,
            wide: 0,
            words: Unpacker::default(),
            wide_words: Unpacker::default(),
            block_end: 0,
        }
    }
}

impl<'a> Stream<'a> {
    /// Goes on from a literal.
    pub fn set_literal(&mut self, kind: u8, literal: &'a [u8]) {
        self.kind = kind;
        self.class = Class::of(kind);
        self.literal = literal;
        self.is_computed = false;
        self.difference = 0;
        match self.class {
            Class::Wide => {
                self.wide = wide_of(kind, literal).unwrap_or(0);
                self.wide_words = Unpacker::default();
            }
            _ => {
                self.narrow = narrow_of(kind, literal);
                self.words = Unpacker::default();
            }
        }
    }

    /// Whether the block holds another value.
    #[inline]
    pub fn has_more(&self) -> bool {
        match self.class {
            Class::Wide => self.wide_words.has_more(),
            _ => self.words.has_more(),
        }
    }

    /// Reads the literal or begins the block at `at`, and returns the first byte after it.
    ///
    /// # Errors
    /// Control bytes that there are not, literals that are malformed, blocks that are cut off.
    pub fn load(&mut self, column: &'a [u8], at: usize) -> Result<usize> {
        let wrong = |what| ColumnError::new(what, at);
        let control = *column
            .get(at)
            .ok_or_else(|| wrong("a column that is cut off"))?;
        if (0x01..0x20).contains(&control) {
            let (literal, after) = literal(column, at)?;
            self.set_literal(control, literal);
            return Ok(after);
        }
        let scale = scale_of(control).ok_or_else(|| wrong("an unknown control byte"))?;
        let after = at + 1 + 8 * (usize::from(control & 15) + 1);
        let words = column.get(at + 1..after);
        let words = words.ok_or_else(|| wrong("a block that is cut off"))?;
        self.block_end = after;
        if self.class == Class::Wide {
            self.wide_words.start(words);
            return Ok(after);
        }
        if self.class == Class::Double {
            let scaled = double::encode_lossy(self.last_double(), scale);
            self.narrow = scaled
                .ok_or_else(|| wrong("a block whose scale does not fit the double before"))?;
        }
        self.scale = scale;
        self.words.start(words);
        Ok(after)
    }

    /// Whether the next value is one of 64 bits, in the word that is being read.
    #[inline(always)]
    pub fn is_in_word(&self) -> bool {
        self.words.is_in_word()
    }

    /// That value, `None` a missing one.
    ///
    /// # Errors
    /// Differences to what has none.
    #[inline(always)]
    pub fn next_in_word(&mut self) -> Result<Option<ColumnValue<'a>>> {
        match self.words.take() {
            None => Ok(None),
            Some(delta) => self.step(delta).map(Some),
        }
    }

    /// Whether the values have differences, of 64 bits.
    #[inline(always)]
    fn is_narrow(&self) -> bool {
        use Class::{Delta, DeltaOfDelta, Double};
        matches!(self.class, Delta | DeltaOfDelta | Double)
    }

    /// Hands out the values of the block as integers, of so many rows at most; returns of how many. The values have
    /// differences of 64 bits.
    ///
    /// # Errors
    /// Unknown words.
    #[inline(always)]
    fn narrow_in_block(&mut self, rows: usize, mut each: impl FnMut(Option<i64>)) -> Result<usize> {
        let (mut narrow, mut difference) = (self.narrow, self.difference);
        let mut is_computed = self.is_computed;
        let is_of_differences = self.class == Class::DeltaOfDelta;
        let mut passed = 0;
        while passed < rows && (self.words.is_in_word() || self.words.load(self.block_end)?) {
            passed += self.words.take_several(rows - passed, |delta| {
                let Some(delta) = delta else {
                    return each(None);
                };
                let delta = unzigzag(delta);
                if is_of_differences {
                    difference = difference.wrapping_add(delta);
                    narrow = narrow.wrapping_add(difference);
                } else {
                    narrow = narrow.wrapping_add(delta);
                }
                // What is equal to a literal keeps its bytes, such as minus zero.
                is_computed |= is_of_differences || delta != 0;
                each(Some(narrow));
            });
        }
        (self.narrow, self.difference) = (narrow, difference);
        self.is_computed = is_computed;
        Ok(passed)
    }

    /// Passes over values of the block, as many as there are but at most so many; returns how many.
    ///
    /// # Errors
    /// Unknown words, and differences to what has none.
    pub fn skip_in_block(&mut self, rows: usize) -> Result<usize> {
        if self.is_narrow() {
            return self.narrow_in_block(rows, |_| ());
        }
        let mut passed = 0;
        while passed < rows && self.words.is_in_word() {
            if let Some(delta) = self.words.take() {
                self.move_by(delta)?;
            }
            passed += 1;
        }
        Ok(passed)
    }

    /// Whether the values are doubles.
    #[inline(always)]
    pub fn is_of_doubles(&self) -> bool {
        self.class == Class::Double
    }

    /// Appends the doubles of the block, of so many rows at most; returns of how many. Missing ones are passed over.
    ///
    /// # Errors
    /// Unknown words.
    pub fn doubles_in_block(&mut self, rows: usize, out: &mut Vec<f64>) -> Result<usize> {
        let (mut last, mut integer) = (self.last_double(), self.narrow);
        let scale = self.scale;
        self.narrow_in_block(rows, |value| {
            let Some(value) = value else {
                return;
            };
            if value != integer {
                integer = value;
                last = double::decode(value, scale);
            }
            out.push(last);
        })
    }

    /// Appends the dates of the block, of so many rows at most, in milliseconds; returns whether all of these have one.
    ///
    /// # Errors
    /// Unknown words.
    pub fn dates_in_block(&mut self, rows: usize, out: &mut Vec<i64>) -> Result<bool> {
        let mut are_all = true;
        self.narrow_in_block(rows, |value| match value {
            Some(value) => out.push(value),
            None => are_all = false,
        })?;
        Ok(are_all)
    }

    fn last_double(&self) -> f64 {
        f64::from_le_bytes(self.last().bytes().try_into().unwrap_or_default())
    }

    /// Whether the values are dates.
    #[inline(always)]
    pub fn is_of_dates(&self) -> bool {
        self.kind == 0x09
    }

    /// The next value of the block, `Some(None)` a missing one; `None` at its end.
    ///
    /// # Errors
    /// Unknown words, and differences to what has none.
    #[inline]
    pub fn next(&mut self) -> Result<Option<Option<ColumnValue<'a>>>> {
        if self.class == Class::Wide {
            return match self.wide_words.next(self.block_end)? {
                None => Ok(None),
                Some(None) => Ok(Some(None)),
                Some(Some(delta)) => self.step_wide(delta).map(|value| Some(Some(value))),
            };
        }
        match self.words.next(self.block_end)? {
            None => Ok(None),
            Some(None) => Ok(Some(None)),
            Some(Some(delta)) => self.step(delta).map(|value| Some(Some(value))),
        }
    }

    /// The last value again.
    #[inline]
    pub fn last(&self) -> ColumnValue<'a> {
        let bytes = match (self.is_computed, self.class) {
            (false, _) => Bytes::Borrowed(self.literal),
            (true, Class::Wide) => self.wide_bytes(),
            (true, _) => self.narrow_bytes(),
        };
        ColumnValue::new(self.kind, bytes)
    }

    #[inline(always)]
    fn step(&mut self, delta: u64) -> Result<ColumnValue<'a>> {
        self.move_by(delta)?;
        Ok(self.last())
    }

    /// Goes on to the value with this difference.
    #[inline(always)]
    fn move_by(&mut self, delta: u64) -> Result<()> {
        let delta = unzigzag(delta);
        match self.class {
            Class::DeltaOfDelta => {
                self.difference = self.difference.wrapping_add(delta);
                self.narrow = self.narrow.wrapping_add(self.difference);
            }
            Class::Repeat if self.kind == NO_KIND => {
                return Err(self.wrong("a block before the first value that stores one"));
            }
            _ if delta == 0 => return Ok(()),
            Class::Repeat => {
                return Err(self.wrong("a difference to a value of a type that has none"));
            }
            _ => self.narrow = self.narrow.wrapping_add(delta),
        }
        self.is_computed = true;
        Ok(())
    }

    #[inline(always)]
    fn narrow_bytes(&self) -> Bytes<'a> {
        match self.kind {
            0x10 => Bytes::inline(&(self.narrow as i32).to_le_bytes()),
            0x08 => Bytes::inline(&[u8::from(self.narrow != 0)]),
            0x01 => Bytes::inline(&double::decode(self.narrow, self.scale).to_le_bytes()),
            0x07 => {
                let other = self.literal.try_into().unwrap_or(&[0; 12]);
                Bytes::inline(&object_id(self.narrow, other))
            }
            _ => Bytes::inline(&self.narrow.to_le_bytes()),
        }
    }

    fn step_wide(&mut self, delta: u128) -> Result<ColumnValue<'a>> {
        if delta == 0 {
            return Ok(self.last());
        }
        self.wide = self.wide.wrapping_add(unzigzag_wide(delta));
        self.is_computed = true;
        match self.kind {
            0x02 | 0x0D if !self.is_text() => Err(self.wrong("a text that is not UTF-8")),
            0x05 if self.literal.len() > INLINE_MAX => {
                Err(self.wrong("a difference to a binary of more than 16 bytes"))
            }
            _ => Ok(self.last()),
        }
    }

    #[inline]
    fn wide_bytes(&self) -> Bytes<'a> {
        match self.kind {
            0x13 => Bytes::inline(&self.wide.to_le_bytes()),
            0x05 => {
                // As long as the literal, and of its subtype.
                let mut bytes = [0; INLINE_MAX];
                bytes[..5].copy_from_slice(&self.literal[..5]);
                bytes[5..].copy_from_slice(&self.wide.to_le_bytes());
                Bytes::Inline(bytes, self.literal.len() as u8)
            }
            _ => {
                let length = self.text_length();
                let text = self.wide.checked_shl(128 - 8 * length).unwrap_or(0);
                let mut bytes = [0; INLINE_MAX];
                bytes[0] = length as u8 + 1;
                bytes[4..20].copy_from_slice(&text.to_be_bytes());
                Bytes::Inline(bytes, length as u8 + 5)
            }
        }
    }

    #[inline]
    fn text_length(&self) -> u32 {
        16 - self.wide.leading_zeros() / 8
    }

    #[inline]
    fn is_text(&self) -> bool {
        const NOT_ASCII: i128 = i128::from_ne_bytes([0x80; 16]);
        let start = 16 - self.text_length() as usize;
        self.wide & NOT_ASCII == 0 || std::str::from_utf8(&self.wide.to_be_bytes()[start..]).is_ok()
    }

    #[cold]
    fn wrong(&self, what: &'static str) -> ColumnError {
        ColumnError::new(what, self.block_end)
    }
}

/// A literal's value, and the first byte after it.
fn literal(column: &[u8], at: usize) -> Result<(&[u8], usize)> {
    let wrong = |what| ColumnError::new(what, at);
    let kind = column[at];
    if column.get(at + 1) != Some(&0) {
        return Err(wrong("a literal that has a name"));
    }
    let rest = &column[at + 2..];
    let length = crate::bytes::value_length(kind, rest);
    let length = length.ok_or_else(|| wrong("a literal of an unknown type or a wrong length"))?;
    check(kind, &rest[..length], at)?;
    Ok((&rest[..length], at + 2 + length))
}
